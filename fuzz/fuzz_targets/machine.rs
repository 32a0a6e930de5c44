//! Random bytes as a program: the first byte is the length of its memory, the rest are instruction slots. Each input is
//! refused, ends in a fault, or ends with a result; it never panics, hangs or leaves the guest's memory. Both engines
//! give the same result, count and memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_bpf::{
    Code, Compiler, Done, Engine, Fault, FuncId, GuestAddr, Insn, Interpreter, Memory, NoHost, Perm, code,
};
use std::cell::RefCell;

/// Instructions that one input may execute.
const BUDGET: u64 = 10_000;

thread_local! {
    static MACHINE: RefCell<(Memory, Interpreter, Compiler)> = RefCell::new((
        Memory::new().expect("8 GiB of address space"),
        Interpreter::new(),
        Compiler::new(),
    ));
}

/// Runs the program on an engine; returns also its memory afterwards.
fn run(
    engine: &mut impl Engine,
    code: &Code,
    addr: GuestAddr,
    len: u64,
    mem: &mut Memory,
) -> (Result<Done, Fault>, Vec<u8>) {
    // The same start each time: zeroed memory and stack.
    let stack = mem.stack();
    for (addr, len) in [(addr, len), stack] {
        mem.slice_mut(addr, len).expect("mapped").fill(0);
    }
    let done = engine.run(code, FuncId(0), &[addr.0, len], mem, &mut NoHost, BUDGET);
    (done, mem.slice(addr, len).expect("mapped").to_vec())
}

fuzz_target!(|input: &[u8]| {
    let Some((len, bytes)) = input.split_first() else { return };
    let Some(slots) = Insn::all_from_bytes(&bytes[..bytes.len() / 8 * 8]) else { return };
    let Ok(code) = code::from_slots("fuzz", &slots, false) else { return };
    MACHINE.with_borrow_mut(|(mem, interpreter, compiler)| {
        let len = u64::from(*len) + 1;
        let addr = mem.map(len, Perm::READ_WRITE).expect("room");
        let first = run(interpreter, &code, addr, len, mem);
        let second = run(compiler, &code, addr, len, mem);
        assert_eq!(first, second, "the engines differ");
        let first = first.0;
        let insns = match &first {
            Ok(done) => done.insns,
            Err(fault) => fault.insns(),
        };
        assert!(insns <= BUDGET, "{insns} instructions executed");
        mem.unmap(addr, len);
    });
});
