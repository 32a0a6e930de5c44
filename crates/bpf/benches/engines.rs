//! Speed of the engines: nanoseconds an instruction in typical loops, and an empty call, interpreted and compiled.
//!
//! `cargo bench -p schedlab-bpf --bench engines`. Times are the thread's CPU time; each figure is the best of several
//! runs, because other work on the machine only ever adds to it.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use schedlab_bpf::insn::op;
use schedlab_bpf::{
    Code, Compiler, Engine, Fault, FuncId, GuestAddr, Host, Insn, Interpreter, Memory, NoHost, Perm, Vm, code,
};

/// Iterations of each loop.
const LOOPS: i32 = 5_000_000;
const RUNS: u32 = 9;

/// A host whose helper 1 does next to nothing, and whose helper 2 calls the function value in r1 back.
struct Bench;

impl Host for Bench {
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        if id == 1 { Ok(args[0].wrapping_add(1)) } else { vm.call_pointer(args[0], &[args[1]], self) }
    }
    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        NoHost.kfunc(index, args, vm)
    }
    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        NoHost.kernel_store(addr, size, value, vm)
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec, which is all that the call writes to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    assert_eq!(result, 0, "every Linux has this clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A loop of `body` around a counter in r8, with r6 the address that the run is given and r7 = 7.
fn looped(body: &[Insn], callees: &[Insn]) -> Code {
    let mut insns = vec![
        Insn::alu64_reg(op::MOV, 6, 1),
        Insn::alu64_imm(op::MOV, 7, 7),
        Insn::alu64_imm(op::MOV, 8, LOOPS),
        Insn::alu64_imm(op::MOV, 0, 0),
    ];
    insns.extend(body);
    insns.push(Insn::alu64_imm(op::SUB, 8, 1));
    insns.push(Insn::jump_imm(op::JNE, 8, 0, -(body.len() as i16) - 2));
    insns.push(Insn::exit());
    insns.extend(callees);
    code::from_slots("bench", &insns, false).expect("valid code")
}

fn measure(name: &str, code: &Code) {
    let interpreted = ns_per_insn(&mut Interpreter::new(), code);
    let compiled = ns_per_insn(&mut Compiler::new(), code);
    println!("{name:<24} {interpreted:>7.3} {compiled:>7.3} ns/insn");
}

fn ns_per_insn(engine: &mut impl Engine, code: &Code) -> f64 {
    let mut mem = Memory::new().expect("guest memory");
    let data = mem.map(4096, Perm::READ_WRITE).expect("room");
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = cpu_ns();
        let done = engine.run(code, FuncId(0), &[data.0], &mut mem, &mut Bench, u64::MAX).expect("runs");
        best = best.min((cpu_ns() - start) as f64 / done.insns as f64);
    }
    best
}

fn ns_per_call(engine: &mut impl Engine) -> f64 {
    const CALLS: u32 = 2_000_000;
    let code =
        code::from_slots("empty", &[Insn::alu64_imm(op::MOV, 0, 0), Insn::exit()], false).expect("valid");
    let mut mem = Memory::new().expect("guest memory");
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = cpu_ns();
        for i in 0..CALLS {
            let done = engine.run(&code, FuncId(0), &[u64::from(i)], &mut mem, &mut NoHost, 1000);
            assert_eq!(done.expect("runs").r0, 0);
        }
        best = best.min((cpu_ns() - start) as f64 / f64::from(CALLS));
    }
    best
}

fn main() {
    println!("{:<24} {:>7} {:>7}", "", "interp.", "comp.");
    let alu = [
        Insn::alu64_reg(op::ADD, 0, 7),
        Insn::alu64_imm(op::XOR, 0, 0x55),
        Insn::alu64_reg(op::MOV, 1, 0),
        Insn::alu64_imm(op::LSH, 1, 3),
        Insn::alu64_reg(op::SUB, 0, 1),
        Insn::alu64_imm(op::AND, 0, 0xffff),
    ];
    measure("ALU loop", &looped(&alu, &[]));
    let memory = [
        Insn::load(op::DW, 1, 6, 0),
        Insn::alu64_imm(op::ADD, 1, 1),
        Insn::store(op::DW, 6, 0, 1),
        Insn::load(op::W, 2, 6, 64),
        Insn::store(op::W, 10, -8, 2),
    ];
    measure("load/store loop", &looped(&memory, &[]));
    let branches = [
        Insn::alu64_imm(op::MUL, 0, 0x343fd),
        Insn::alu64_imm(op::ADD, 0, 0x26_9ec3),
        Insn::jump_imm(op::JSET, 0, 0x10000, 1),
        Insn::alu64_imm(op::ADD, 7, 1),
        Insn::jump_reg(op::JGT, 7, 0, 1),
        Insn::alu64_imm(op::XOR, 7, 3),
    ];
    measure("unpredictable branches", &looped(&branches, &[]));
    let helper = [Insn::alu64_reg(op::MOV, 1, 0), Insn::call_helper(1)];
    measure("helper each 4 insns", &looped(&helper, &[]));
    let local = [Insn::alu64_reg(op::MOV, 1, 0), Insn::call_local(3)];
    let callee = [Insn::alu64_reg(op::MOV, 0, 1), Insn::alu64_imm(op::ADD, 0, 1), Insn::exit()];
    measure("local call each 7", &looped(&local, &callee));
    let [pointer, high] = Insn::ld_imm64(1, op::PSEUDO_FUNC, 6);
    let callback = [pointer, high, Insn::alu64_reg(op::MOV, 2, 0), Insn::call_helper(2)];
    measure("callback each 8", &looped(&callback, &callee));
    let atomics = [Insn::new(op::STX | op::ATOMIC | op::DW, 6, 7, 0, op::FETCH)];
    measure("atomic each 3 insns", &looped(&atomics, &[]));
    let (interpreted, compiled) = (ns_per_call(&mut Interpreter::new()), ns_per_call(&mut Compiler::new()));
    println!("{:<24} {interpreted:>7.2} {compiled:>7.2} ns/call", "empty call (2 insns)");
}
