//! Random bytes as programs: the machine refuses or runs them, within the budget, and never panics.

use crate::support::{Failure, Machine, Prng, generate};
use schedlab_bpf::insn::op;
use schedlab_bpf::{Compiler, Engine, FaultKind, FuncId, Insn, Interpreter, Memory, NoHost, Perm, code};

const BUDGET: u64 = 5_000;

#[test]
fn random_bytes_end_in_a_refusal_a_fault_or_a_result() {
    let mut machine = Machine::new();
    let mut prng = Prng::new(1);
    for _ in 0..20_000 {
        let count = 1 + prng.below(12);
        let slots: Vec<Insn> = (0..count).map(|_| Insn::from_bytes(prng.next().to_le_bytes())).collect();
        let _ = machine.run(&slots, &[1; 16], BUDGET);
    }
}

/// Fields that mostly make valid instructions, so that programs get past the checks and run.
fn plausible(prng: &mut Prng, count: u64) -> Insn {
    let code = match prng.below(8) {
        0 => op::CALL_K,
        1 => op::STX | op::ATOMIC | prng.pick(&[op::W, op::DW]),
        _ => prng.next() as u8,
    };
    let jump = matches!(code & 7, op::JMP | op::JMP32);
    let register_form = code & op::X != 0 && !matches!(code & 7, op::LD | op::LDX | op::ST | op::STX);
    let near = prng.below(2 * count) as i32 - count as i32;
    Insn {
        code,
        dst: prng.below(11) as u8,
        src: if register_form || matches!(code & 7, op::LDX | op::STX) { prng.below(11) as u8 } else { 0 },
        off: if jump || !matches!(code & 7, op::ALU | op::ALU64) { near as i16 } else { 0 },
        imm: if register_form || matches!(code & 7, op::LDX) { 0 } else { near },
    }
}

#[test]
fn plausible_programs_end_in_a_refusal_a_fault_or_a_result() {
    let mut machine = Machine::new();
    let mut prng = Prng::new(2);
    let (mut ran, mut faulted) = (0, 0);
    for _ in 0..60_000 {
        let count = 2 + prng.below(6);
        let mut slots: Vec<Insn> = (0..count).map(|_| plausible(&mut prng, count)).collect();
        slots.push(Insn::exit());
        match machine.run(&slots, &[0xa5; 64], BUDGET) {
            Ok(_) => ran += 1,
            Err(Failure::Fault(fault)) => {
                assert!(fault.insns() <= BUDGET && fault.location().is_some(), "{fault:?}");
                faulted += 1;
            }
            Err(Failure::Refused(_)) => {}
        }
    }
    assert!(ran > 200 && faulted > 200, "{ran} ran and {faulted} faulted: the generator proves little");
}

#[test]
fn every_budget_is_kept_exactly() {
    let mut prng = Prng::new(3);
    let slots = generate::program(&mut prng, 30);
    let code = code::from_slots("test", &slots, false).expect("valid");
    let mut mem = Memory::new().expect("address space");
    let addr = mem.map(generate::MEMORY_LEN as u64, Perm::READ_WRITE).expect("room");
    let (mut interpreter, mut compiler) = (Interpreter::new(), Compiler::new());
    let input = generate::memory(&mut prng);
    let len = input.len() as u64;
    let mut run = |budget| {
        mem.write(addr, &input).expect("mapped");
        let interpreted = interpreter.run(&code, FuncId(0), &[addr.0], &mut mem, &mut NoHost, budget);
        let left = mem.slice(addr, len).expect("mapped").to_vec();
        mem.write(addr, &input).expect("mapped");
        let compiled = compiler.run(&code, FuncId(0), &[addr.0], &mut mem, &mut NoHost, budget);
        assert_eq!(interpreted, compiled, "the engines agree on {budget} instructions");
        assert_eq!(left, mem.slice(addr, len).expect("mapped"), "and on what they leave after {budget}");
        interpreted
    };
    let done = run(1 << 20).expect("runs");
    for budget in 0..done.insns {
        let fault = run(budget).expect_err("ends early");
        assert_eq!(*fault.kind(), FaultKind::Budget { limit: budget });
        assert_eq!(fault.insns(), budget);
    }
    assert_eq!(run(done.insns), Ok(done));
}

/// What a run of `code` on CPU 0, 1, 0 and 2 in turn moves: after each run its result and how many, then lines and operations.
fn moved(engine: &mut impl Engine, code: &mut schedlab_bpf::Code, input: &[u8]) -> String {
    let mut mem = Memory::new().expect("address space");
    code.follow_lines(32, 4, &mut mem).expect("address space");
    let addr = mem.map(input.len() as u64, Perm::READ_WRITE).expect("room");
    mem.write(addr, input).expect("mapped");
    let after_each = [0, 1, 0, 2].map(|cpu| {
        mem.run_on(cpu);
        let done = engine.run(code, FuncId(0), &[addr.0], &mut mem, &mut NoHost, BUDGET);
        (done, mem.take_moved())
    });
    format!("{:?}", (after_each, mem.moved_lines(), mem.moved_by_op()))
}

#[test]
fn engines_agree_on_the_lines_that_move() {
    let mut prng = Prng::new(4);
    let mut transfers = 0;
    for _ in 0..300 {
        let slots = generate::program(&mut prng, 40);
        let input = generate::memory(&mut prng);
        let mut code = code::from_slots("test", &slots, false).expect("valid");
        let interpreted = moved(&mut Interpreter::new(), &mut code, &input);
        let compiled = moved(&mut Compiler::new(), &mut code, &input);
        assert_eq!(interpreted, compiled, "{slots:?}");
        transfers += interpreted.matches("GuestAddr").count();
    }
    assert!(transfers > 300, "{transfers} lines moved: the generator proves little");
}

#[test]
fn machine_code_that_does_not_follow_lines_is_not_run_where_they_are_followed() {
    let slots = [Insn::store_imm(op::DW, 1, 0, 7), Insn::alu64_imm(op::MOV, 0, 0), Insn::exit()];
    let mut code = code::from_slots("test", &slots, false).expect("valid");
    code.compile().ok();
    let mut mem = Memory::new().expect("address space");
    code.follow_lines(64, 2, &mut mem).expect("address space");
    let addr = mem.map(64, Perm::READ_WRITE).expect("room");
    for cpu in [0, 1] {
        mem.run_on(cpu);
        Compiler::new().run(&code, FuncId(0), &[addr.0], &mut mem, &mut NoHost, 10).expect("runs");
    }
    assert_eq!(mem.take_moved(), 1);
}
