//! Random bytes as a program: the first byte is the length of its memory, the rest are instruction slots. Each input is
//! refused, ends in a fault, or ends with a result; it never panics, hangs or leaves the guest's memory. Running an
//! accepted program twice gives the same result and count.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_bpf::{Engine, FuncId, GuestAddr, Insn, Interpreter, Memory, NoHost, Perm, code};
use std::cell::RefCell;

/// Instructions that one input may execute.
const BUDGET: u64 = 10_000;

thread_local! {
    static MACHINE: RefCell<(Memory, Interpreter)> =
        RefCell::new((Memory::new().expect("8 GiB of address space"), Interpreter::new()));
}

fuzz_target!(|input: &[u8]| {
    let Some((len, bytes)) = input.split_first() else { return };
    let Some(slots) = Insn::all_from_bytes(&bytes[..bytes.len() / 8 * 8]) else { return };
    let Ok(code) = code::from_slots("fuzz", &slots, false) else { return };
    MACHINE.with_borrow_mut(|(mem, interpreter)| {
        let len = u64::from(*len) + 1;
        let addr = mem.map(len, Perm::READ_WRITE).expect("room");
        let stack = (GuestAddr(0x2_0000), 32 << 10);
        let mut run = || {
            // The same start each time: zeroed memory and stack.
            mem.slice_mut(addr, len).expect("mapped").fill(0);
            mem.slice_mut(stack.0, stack.1).expect("mapped").fill(0);
            interpreter.run(&code, FuncId(0), &[addr.0, len], mem, &mut NoHost, BUDGET)
        };
        let (first, second) = (run(), run());
        assert_eq!(first, second, "two runs of one program differ");
        let insns = match &first {
            Ok(done) => done.insns,
            Err(fault) => fault.insns(),
        };
        assert!(insns <= BUDGET, "{insns} instructions executed");
        mem.unmap(addr, len);
    });
});
