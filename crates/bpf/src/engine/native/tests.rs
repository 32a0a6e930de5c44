//! The compiler's bounds: the length of machine code, numbers in their fields, the rights of its memory.

use super::asm::{Asm, Width, X};
use super::*;
use crate::code::{CodeBuilder, Marks};
use crate::engine::{Compiler, Engine, Interpreter, NoHost};
use crate::guard::tests::rights_at;
use crate::insn::{Insn, op};
use crate::limits::OBJECT_INSNS;
use crate::memory::{Memory, PAGE_SIZE};

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
