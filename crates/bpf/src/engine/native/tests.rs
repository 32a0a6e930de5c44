//! The compiler's bounds: the length of machine code, numbers in their fields, the rights of its memory.

use super::asm::{Asm, Width, X};
use super::*;
use crate::code::{ArrayPlace, CodeBuilder, FuncId, Marks};
use crate::engine::{Compiler, Engine, Interpreter, NoHost};
use crate::guard::tests::rights_at;
use crate::insn::{Insn, op};
use crate::limits::OBJECT_INSNS;
use crate::memory::{ARENA_BASE, GUEST_LIMIT, GuestAddr, Memory, NULL_LIMIT, PAGE_SIZE, Perm};

/// A loop of 1,000 passes that calls a function, and the function.
fn code() -> Code {
    let main = [
        Insn::alu64_imm(op::MOV, 6, 1000),
        Insn::call_local(1),
        Insn::alu64_imm(op::SUB, 6, 1),
        Insn::jump_imm(op::JNE, 6, 0, -3),
        Insn::exit(),
    ];
    let mut builder = CodeBuilder::new();
    let mut add = |name: &str, insns: &[Insn]| builder.add_function(name, insns, &Marks::default()).map(drop);
    add("main", &main).and_then(|()| add("leaf", &[Insn::alu64_imm(op::MOV, 0, 7), Insn::exit()])).unwrap();
    builder.build().unwrap()
}

#[test]
fn code_that_outgrows_its_bound_is_not_made() {
    let code = code();
    let len = emit::compile(&code, usize::MAX).unwrap().bytes.len();
    assert!(Native::within(&code, len).is_ok());
    for most in [0, 1, 100, len - 1] {
        assert_eq!(Native::within(&code, most).unwrap_err(), NotCompiled::TooLong, "{most} of {len} bytes");
    }
}

#[test]
fn what_is_not_compiled_is_interpreted_with_the_same_results() {
    for why in [NotCompiled::TooLong, NotCompiled::Forbidden("told so".into())] {
        let code = code().refused_by_host(why.clone());
        assert_eq!(code.compile(), Err(why));
        let mut mem = Memory::new().unwrap();
        for budget in [100, 100_000] {
            let compiled = Compiler::new().run(&code, FuncId(0), &[], &mut mem, &mut NoHost, budget);
            let interpreted = Interpreter::new().run(&code, FuncId(0), &[], &mut mem, &mut NoHost, budget);
            assert_eq!(compiled, interpreted);
        }
    }
    assert_eq!(code().compile(), Ok(()));
}

#[test]
fn a_patient_compiler_compiles_what_has_run_for_long() {
    let code = code();
    let mut compiler = Compiler::patient();
    let mut mem = Memory::new().unwrap();
    let mut runs = 0;
    let mut last = None;
    while code.compiled().is_none() {
        let done = compiler.run(&code, FuncId(0), &[], &mut mem, &mut NoHost, 100_000).unwrap();
        assert_eq!(*last.get_or_insert(done), done, "run {runs}");
        runs += 1;
    }
    assert_eq!(runs, 2, "the second run finds that the first one was long");
    assert_eq!(compiler.interpreted, last.unwrap().insns);
}

/// The longest operations there are, as many as an object may have, fit the limit, and that fits a jump.
#[test]
fn all_that_an_object_may_have_can_be_compiled() {
    let bytes = |insn: Insn| {
        let length = |count: usize| {
            let mut insns = vec![insn; count];
            insns.push(Insn::exit());
            let mut builder = CodeBuilder::new();
            builder.add_function("main", &insns, &Marks::default()).unwrap();
            emit::compile(&builder.build().unwrap(), usize::MAX).unwrap().bytes.len()
        };
        length(1001) - length(1000)
    };
    let far = i16::MAX;
    let longest = [
        Insn::call_local(0),
        Insn::load(op::DW, 1, 2, far),
        Insn::new(op::LDX | op::MEMSX | op::W, 1, 2, far, 0),
        Insn::new(op::STX | op::ATOMIC | op::DW, 1, 2, far, op::CMPXCHG),
        Insn::new(op::STX | op::ATOMIC | op::DW, 1, 2, far, 0x50 | op::FETCH),
        Insn::store_imm(op::DW, 1, far, -1),
        Insn::alu64_imm(op::DIV, 1, -7),
        Insn::call_helper(1),
    ];
    let most = longest.into_iter().map(bytes).max().unwrap();
    assert!((100..250).contains(&most), "{most} bytes for an instruction");
    assert!(most as u64 * OBJECT_INSNS.most < MACHINE_CODE_BYTES.most);
    assert!(i32::try_from(MACHINE_CODE_BYTES.most).is_ok());
}

#[test]
fn a_number_that_does_not_fit_spoils_the_code() {
    let mut asm = Asm::new(100);
    asm.mov(Width::W64, X::Rax, X::Rcx);
    assert_eq!(asm.narrow::<_, i32>(i64::from(i32::MIN)), i32::MIN);
    assert!(!asm.is_spoiled());
    assert_eq!(asm.narrow::<_, i32>(i64::from(i32::MAX) + 1), 0);
    assert!(asm.is_spoiled() && asm.finish().is_err());
    let mut asm = Asm::new(5);
    asm.mov(Width::W64, X::Rax, X::Rcx);
    assert!(!asm.is_spoiled());
    asm.ret();
    asm.mov(Width::W64, X::Rax, X::Rcx);
    assert!(asm.is_spoiled() && asm.finish().is_err());
}

#[test]
fn compiled_code_is_executable_between_guards_and_never_writable() {
    let native = Native::compile(&code()).unwrap();
    let (start, page) = (native.text.address(0) as usize, PAGE_SIZE as usize);
    let len = native.text.0.len() - 2 * GUARD_LEN;
    assert!(len > 0 && len.is_multiple_of(page));
    assert_eq!(rights_at(start), "r-x");
    assert_eq!(rights_at(start + len - 1), "r-x");
    for guard in [start - 1, start - GUARD_LEN, start + len, start + len + GUARD_LEN - 1] {
        assert_eq!(rights_at(guard), "---");
    }
    assert_eq!(native.text.0[GUARD_LEN + len - 1], Text::FILLER);
}

/// Answers look-ups and the CPU's number as the code does it in line, and counts both ways.
#[derive(Default)]
struct Counting {
    called: u64,
    in_line: u64,
    recalled: u64,
}

/// A helper that takes a lock.
const LOCKS: i32 = 999;
const HANDLE: u64 = 0x7000;
const PLACE: ArrayPlace = ArrayPlace { base: 0x9_0000, stride: 24, entries: 5, cpu_stride: 4096 };
const CPU: u32 = 3;

impl Host for Counting {
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.called += 1;
        match id {
            LOOKUP => {
                let index = vm.mem.read_u32(GuestAddr(args[1]))?;
                let element =
                    PLACE.base + u64::from(CPU) * PLACE.cpu_stride + u64::from(index) * PLACE.stride;
                Ok(if args[0] == HANDLE && index < PLACE.entries { element } else { 0 })
            }
            CPU_NUMBER => Ok(u64::from(CPU)),
            id if id == LOCKS as u32 => {
                vm.lock_taken();
                Ok(0)
            }
            // The code reports all its own answers so far before any other call.
            _ => Ok(self.called + self.in_line),
        }
    }

    fn kfunc(&mut self, index: u32, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
        Err(Fault::unsupported(format!("{index}")))
    }

    fn kernel_store(
        &mut self,
        addr: GuestAddr,
        _size: u8,
        _value: u64,
        _vm: &mut Vm<'_>,
    ) -> Result<(), Fault> {
        Err(Fault::unsupported(format!("{addr}")))
    }

    fn recall(&mut self, map: u64, task: u64) -> Option<u64> {
        self.recalled += u64::from(map == HANDLE);
        (map == HANDLE).then_some(task)
    }

    fn current_cpu(&self) -> u32 {
        CPU
    }

    fn answered(&mut self, helpers: u64) {
        self.in_line += helpers;
    }
}

/// A look-up of element r1 of a map, and what else is `mixed` into it: the CPU's number and all calls so far.
fn looking_up(map: u64, known_key: bool) -> Vec<Insn> {
    let [low, high] = Insn::ld_imm64(1, 0, map);
    let mut insns = vec![
        Insn::store(op::W, 10, -4, 1),
        Insn::alu64_reg(op::MOV, 2, 10),
        Insn::alu64_imm(op::ADD, 2, if known_key { -4 } else { 0 }),
        low,
        high,
        Insn::call_helper(1),
        Insn::alu64_reg(op::MOV, 6, 0),
        Insn::call_helper(8),
        Insn::alu64_reg(op::ADD, 6, 0),
        Insn::call_helper(7),
        Insn::alu64_reg(op::ADD, 0, 6),
        Insn::exit(),
    ];
    if !known_key {
        insns.splice(2..3, [Insn::alu64_reg(op::ADD, 2, 7), Insn::alu64_imm(op::ADD, 2, -4)]);
    }
    insns
}

#[test]
fn arrays_and_the_cpu_are_answered_in_line_with_the_same_results() {
    // In line: the look-up where map and key are known, and the number of the CPU.
    for (map, known_key, in_line) in [(HANDLE, true, 2), (HANDLE, false, 1), (HANDLE + 64, true, 1)] {
        let mut builder = CodeBuilder::new().in_line([(HANDLE, PLACE)].into());
        builder.add_function("main", &looking_up(map, known_key), &Marks::default()).unwrap();
        let code = builder.build().unwrap();
        let mut mem = Memory::new().unwrap();
        for index in [0, 1, 4, 5, 6, u64::from(u32::MAX), 1 << 32] {
            for budget in [1000, 7, 5] {
                let (mut compiled, mut interpreted) = (Counting::default(), Counting::default());
                let args = [index];
                let one = Compiler::new().run(&code, FuncId(0), &args, &mut mem, &mut compiled, budget);
                let other =
                    Interpreter::new().run(&code, FuncId(0), &args, &mut mem, &mut interpreted, budget);
                assert_eq!(one, other, "index {index}, {budget} instructions");
                assert_eq!(compiled.called + compiled.in_line, interpreted.called, "all are told");
                if budget == 1000 {
                    assert_eq!((compiled.in_line, interpreted.in_line), (in_line, 0));
                }
            }
        }
    }
}

#[test]
fn a_value_that_was_found_is_not_asked_for_again() {
    for (map, flags, locked, recalled) in
        [(HANDLE, 1, false, 1), (HANDLE, 2, false, 0), (HANDLE + 64, 1, false, 0), (HANDLE, 0, true, 0)]
    {
        let [low, high] = Insn::ld_imm64(1, 0, map);
        let mut insns = vec![
            low,
            high,
            Insn::alu64_imm(op::MOV, 2, 77),
            Insn::alu64_imm(op::MOV, 3, 0),
            Insn::alu64_imm(op::MOV, 4, flags),
            Insn::call_helper(TASK_STORAGE as i32),
            Insn::exit(),
        ];
        if locked {
            insns.insert(0, Insn::call_helper(LOCKS));
        }
        let mut builder = CodeBuilder::new();
        builder.add_function("main", &insns, &Marks::default()).unwrap();
        let code = builder.build().unwrap();
        let (mut mem, mut host) = (Memory::new().unwrap(), Counting::default());
        let done = Compiler::new().run(&code, FuncId(0), &[], &mut mem, &mut host, 100).unwrap();
        assert_eq!(host.recalled, recalled, "map {map:#x}, flags {flags}, locked {locked}");
        assert_eq!(done.r0 == 77, recalled == 1);
    }
}

/// Casts r1 to a pointer into the arena's window, and loads by it: one word, two that are checked together, or a byte.
fn loads(off: i16, how: usize) -> Vec<Insn> {
    let cast = Insn::new(op::ALU64 | op::MOV | op::X, 2, 1, op::ADDR_SPACE_CAST, 1);
    let mut insns = vec![cast, Insn::load(if how == 2 { op::B } else { op::DW }, 0, 2, off)];
    if how == 1 {
        insns.extend([Insn::load(op::W, 3, 2, off.saturating_add(20)), Insn::alu64_reg(op::ADD, 0, 3)]);
    }
    insns.push(Insn::exit());
    insns
}

#[test]
fn pointers_into_the_arena_are_checked_at_its_edges() {
    let mut mem = Memory::new().unwrap();
    let (mut good, mut bad) = (0, 0);
    for page in [1 << 32, GUEST_LIMIT - PAGE_SIZE] {
        mem.map_at(GuestAddr(page), PAGE_SIZE, Perm::READ_WRITE).unwrap();
        mem.write_u64(GuestAddr(page + PAGE_SIZE - 8), 0x0102_0304_0506_0708).unwrap();
    }
    for off in [i16::MIN, -4096, -32, -9, -8, -1, 0, 1, 8, 32, 4088, 4096, i16::MAX] {
        for how in 0..3 {
            let mut builder = CodeBuilder::new();
            builder.add_function("main", &loads(off, how), &Marks::default()).unwrap();
            let code = builder.build().unwrap();
            for at in [
                0,
                1,
                8,
                4064,
                4072,
                4088,
                4092,
                4095,
                4096,
                0xffff_f000,
                0xffff_ffe0,
                0xffff_fff8,
                0xffff_ffff,
            ] {
                let args = [at | 0xabcd << 32];
                let one = Compiler::new().run(&code, FuncId(0), &args, &mut mem, &mut NoHost, 100);
                let other = Interpreter::new().run(&code, FuncId(0), &args, &mut mem, &mut NoHost, 100);
                assert_eq!(one, other, "{at:#x} {off:+} {how}");
                let whole = one.is_ok_and(|done| done.probe_faults == 0);
                (good, bad) = (good + u32::from(whole), bad + u32::from(!whole));
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} accesses reach a page and {bad} do not");
}

/// Loads a byte by r1, marked as one that may fail or not, and then by the same pointer at a distance: one word, or two that are
/// checked together.
fn loads_twice(off: i16, marked: bool, together: bool) -> Code {
    let mut insns = vec![Insn::load(op::B, 0, 1, 0), Insn::load(op::DW, 2, 1, off)];
    if together {
        insns.push(Insn::load(op::W, 3, 1, off.saturating_add(20)));
    }
    insns.extend([Insn::alu64_reg(op::ADD, 0, 2), Insn::exit()]);
    let mut marks = Marks::default();
    if marked {
        marks.probe_mem.insert(0);
    }
    let mut builder = CodeBuilder::new();
    builder.add_function("main", &insns, &marks).unwrap();
    builder.build().unwrap()
}

#[test]
fn what_an_access_has_reached_is_checked_at_its_edges() {
    let mut mem = Memory::new().unwrap();
    for page in [NULL_LIMIT, ARENA_BASE, GUEST_LIMIT - PAGE_SIZE] {
        mem.map_at(GuestAddr(page), PAGE_SIZE, Perm::READ_WRITE).unwrap();
    }
    let (mut good, mut bad) = (0, 0);
    let edges = [0, NULL_LIMIT, ARENA_BASE, GUEST_LIMIT, 2 * GUEST_LIMIT, 1 << 63];
    for (off, how) in [i16::MIN, -16385, -16384, -4096, -9, -8, 1, 8, 4088, 16384, 16385, i16::MAX]
        .into_iter()
        .flat_map(|off| (0..4).map(move |how| (off, how)))
    {
        let code = loads_twice(off, how & 1 != 0, how & 2 != 0);
        for edge in edges {
            for near in [-4096, -4088, -16, -1, 0, 1, 8, 2048, 4080, 4095] {
                let args = [edge.wrapping_add_signed(near)];
                let one = Compiler::new().run(&code, FuncId(0), &args, &mut mem, &mut NoHost, 100);
                let other = Interpreter::new().run(&code, FuncId(0), &args, &mut mem, &mut NoHost, 100);
                assert_eq!(one, other, "{:#x} {off:+} {how}", args[0]);
                let whole = one.is_ok_and(|done| done.probe_faults == 0);
                (good, bad) = (good + u32::from(whole), bad + u32::from(!whole));
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} runs reach a page and {bad} do not");
}
