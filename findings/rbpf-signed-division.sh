#!/usr/bin/env bash
# rbpf 0.4.1: BPF v4's signed division and sign-extending moves are executed as their unsigned elders, without an error.
#
# Guess:   A virtual machine that does not know an instruction of the v4 instruction set refuses the program, as it
#          does with bswap and the long jump of the same set.
# Happens: v4 made some instructions from old opcodes with a non-zero offset. rbpf accepts them and ignores the offset.
#          -10 / 3 is 6148914691236517202 (kernel: -3), -10 % 3 is 0 (kernel: -1), a move that sign-extends
#          0x80 from 8 bits gives 128 (kernel: -128). Interpreter and JIT agree with each other.
# Input:   programs of two or three instructions from RFC 9669, which the kernel's verifier accepts since 6.6.
# Seen:    2026-11-27, rbpf 0.4.1, x86-64, as above; bswap64 and gotol: "unknown eBPF opcode"
set -euo pipefail
. "$(dirname "$0")/common.bash"

version=0.4.1
mkdir -p "$work/vm/src"
cat >"$work/vm/Cargo.toml" <<T
[package]
name = "vm"
version = "0.0.0"
edition = "2021"
[dependencies]
rbpf = "=$version"
[workspace]
T
cat >"$work/vm/src/main.rs" <<'R'
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

fn insn(opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) -> [u8; 8] {
    let (o, i) = (offset.to_le_bytes(), imm.to_le_bytes());
    [opcode, src << 4 | dst, o[0], o[1], i[0], i[1], i[2], i[3]]
}

fn run(name: &str, program: &[[u8; 8]]) {
    let bytes = [program, &[EXIT]].concat().concat();
    let mut vm = match rbpf::EbpfVmNoData::new(Some(&bytes)) {
        Ok(vm) => vm,
        Err(_) => return println!("{name} refused"),
    };
    let interpreted = vm.execute_program().unwrap() as i64;
    vm.jit_compile().unwrap();
    let compiled = unsafe { vm.execute_program_jit() }.unwrap() as i64;
    println!("{name} {interpreted} {compiled}");
}

fn main() {
    let set = |register, value| insn(0xb7, register, 0, 0, value);
    run("sdiv64", &[set(0, -10), insn(0x37, 0, 0, 1, 3)]);
    run("smod64", &[set(0, -10), insn(0x97, 0, 0, 1, 3)]);
    run("movsx8", &[set(1, 0x80), insn(0xbf, 0, 1, 8, 0)]);
    run("bswap64", &[set(0, 1), insn(0xd7, 0, 0, 0, 64)]);
    run("gotol", &[set(0, 1), insn(0x06, 0, 0, 0, 0)]);
}
R
(cd "$work/vm" && CARGO_TARGET_DIR="$work/target" cargo run --quiet >"$work/out.txt" 2>"$work/cargo.err") || {
	tail -n 3 "$work/cargo.err" >&2
	exit 2
}
seen() { sed -n "s/^$1 //p" "$work/out.txt"; }

echo "rbpf $version, result of the interpreter and of the JIT"
expect "-10 s/ 3 (kernel: -3)" "6148914691236517202 6148914691236517202" "$(seen sdiv64)"
expect "-10 s% 3 (kernel: -1)" "0 0" "$(seen smod64)"
expect "(s8) 0x80 (kernel: -128)" "128 128" "$(seen movsx8)"
expect "bswap64" refused "$(seen bswap64)"
expect "gotol +0" refused "$(seen gotol)"
