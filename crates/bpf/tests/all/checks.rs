//! Accesses that go without a check of their own, where ways meet and around calls that take pages away: both engines do
//! the same on random programs over pages of all kinds.

use crate::support::Prng;
use schedlab_bpf::insn::op;
use schedlab_bpf::{
    CodeBuilder, Compiler, Done, Engine, Fault, FuncId, GuestAddr, Host, Insn, Interpreter, Marks, Memory,
    Perm, Vm,
};

const PAGE: u64 = 4096;
/// Ordinary, kernel's, lazy, ordinary; behind them nothing is mapped.
const PERMS: [u8; 4] = [0, 1, 2, 0];
const LEN: u64 = PERMS.len() as u64 * PAGE;
const BUDGET: u64 = 1_500;
/// The number of `bpf_map_lookup_elem()`, during which pages stay, and one that is no helper's, during which they need not.
const KEEPS: i32 = 1;
const TAKES: i32 = 9_999;

fn perm(kind: u8) -> Perm {
    match kind {
        0 => Perm::READ_WRITE,
        1 => Perm::READ | Perm::KERNEL,
        _ => Perm::LAZY | Perm::KERNEL,
    }
}

/// Takes the last page away and gives it back, in turns, and tells what it was asked for.
struct Pages {
    base: GuestAddr,
    gone: bool,
    asked: Vec<(u8, u64)>,
}

impl Host for Pages {
    fn helper(&mut self, id: u32, _: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.asked.push((0, vm.insns()));
        if id == TAKES as u32 {
            self.gone = !self.gone;
            let page = self.base.offset(LEN - PAGE);
            match self.gone {
                true => vm.mem.unmap(page, PAGE),
                false => vm.mem.map_at(page, PAGE, Perm::READ_WRITE).expect("the page is free"),
            }
        }
        Ok(vm.insns())
    }

    fn kfunc(&mut self, _: u32, _: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        Ok(vm.insns())
    }

    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.asked.push((size, vm.insns()));
        vm.mem.write(addr, &value.to_le_bytes()[..usize::from(size)])
    }

    fn kernel_load(&mut self, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        self.asked.push((9, addr.0 - self.base.0));
        let word = self.base.offset(2 * PAGE);
        let count = mem.read_u64(word)?;
        mem.write_u64(word, count + 1)
    }
}

/// One operation; `at` of `count`.
fn operation(prng: &mut Prng, at: u64, count: u64) -> Insn {
    let pointer = |prng: &mut Prng| 6 + prng.below(4) as u8;
    let value = |prng: &mut Prng| prng.below(6) as u8;
    let size = |prng: &mut Prng| prng.pick(&[op::B, op::H, op::W, op::DW]);
    let off = |prng: &mut Prng| prng.pick(&[-16i16, -8, 0, 0, 4, 8, 8, 16, 40, 900, 1020]);
    match prng.below(16) {
        0..=5 => Insn::load(size(prng), value(prng), pointer(prng), off(prng)),
        6 | 7 => Insn::store(size(prng), pointer(prng), off(prng), value(prng)),
        8 => Insn::store_imm(size(prng), pointer(prng), off(prng), 77),
        9 => Insn::alu64_imm(op::ADD, pointer(prng), prng.pick(&[8, -8, 16, 64, -1000])),
        10 => Insn::alu64_reg(op::MOV, pointer(prng), pointer(prng)),
        11 => Insn::alu64_imm(op::ADD, value(prng), 1),
        12 => Insn::call_helper(if prng.below(3) == 0 { TAKES } else { KEEPS }),
        13 if prng.below(4) == 0 => Insn::call_local(1),
        _ => {
            let target = prng.below(count) as i64;
            let off = (target - at as i64 - 1) as i16;
            Insn::jump_imm(prng.pick(&[op::JEQ, op::JNE, op::JGT]), value(prng), prng.below(3) as i32, off)
        }
    }
}

/// Four pointers into the pages, operations, an exit; and a function that is called with the same registers.
fn program(prng: &mut Prng) -> [Vec<Insn>; 2] {
    let mut main = Vec::new();
    for register in 6..10 {
        main.push(Insn::alu64_reg(op::MOV, register, 1));
        let page = prng.below(PERMS.len() as u64 + 1) * PAGE;
        let place = page + prng.pick(&[32, 64, 1000, PAGE - 16, PAGE - 4]);
        main.push(Insn::alu64_imm(op::ADD, register, place.min(LEN + 64) as i32));
    }
    (0..6).for_each(|register| main.push(Insn::alu64_imm(op::MOV, register, prng.below(3) as i32)));
    let count = 6 + prng.below(24);
    main.extend((0..count).map(|at| operation(prng, at, count)));
    main.extend([Insn::alu64_imm(op::MOV, 0, 5), Insn::exit()]);
    let called = [Insn::load(op::DW, 0, 6, 0), Insn::alu64_imm(op::MOV, 7, 0), Insn::exit()];
    [main, called.to_vec()]
}

fn run(engine: &mut impl Engine, mem: &mut Memory, base: GuestAddr, code: &schedlab_bpf::Code) -> String {
    for (page, kind) in PERMS.iter().enumerate() {
        let at = base.offset(page as u64 * PAGE);
        mem.map_at(at, PAGE, perm(*kind)).expect("pages of ours");
        let bytes: Vec<u8> = (0..PAGE).map(|byte| (byte * 7 + page as u64) as u8 & 3).collect();
        mem.write(at, &bytes).expect("mapped");
    }
    let mut host = Pages { base, gone: false, asked: Vec::new() };
    let done: Result<Done, Fault> = engine.run(code, FuncId(0), &[base.0], mem, &mut host, BUDGET);
    let left = mem.slice(base, LEN - PAGE).expect("mapped").to_vec();
    let last = if host.gone {
        Vec::new()
    } else {
        mem.slice(base.offset(LEN - PAGE), PAGE).expect("mapped").to_vec()
    };
    format!("{done:?} {:?} {left:?} {last:?}", host.asked)
}

#[test]
fn engines_agree_where_checks_are_left_out() {
    let mut prng = Prng::new(16);
    let mut mem = Memory::new().expect("address space");
    let base = mem.map(LEN, Perm::READ_WRITE).expect("room");
    let (mut interpreter, mut compiler) = (Interpreter::new(), Compiler::new());
    let (mut done, mut faults) = (0, 0);
    for number in 0..20_000 {
        let [main, called] = program(&mut prng);
        let mut builder = CodeBuilder::new();
        builder.add_function("main", &main, &Marks::default()).expect("valid");
        builder.add_function("called", &called, &Marks::default()).expect("valid");
        let code = builder.build().expect("linked");
        let interpreted = run(&mut interpreter, &mut mem, base, &code);
        let compiled = run(&mut compiler, &mut mem, base, &code);
        assert!(interpreted == compiled, "program {number}:\n{main:?}\n{interpreted}\n{compiled}");
        let ended = interpreted.starts_with("Ok");
        (done, faults) = (done + u32::from(ended), faults + u32::from(!ended));
    }
    assert!(done > 2_000 && faults > 2_000, "{done} ended and {faults} did not: the generator proves little");
}
