//! Arena accesses against the running kernel's: allocated pages, pages that are not, and casts.
//!
//! Each program gets the arena address that it works on in the memory at r1. Needs permission to use bpf(2); without it
//! the test says on standard error that it is skipped, and why.

use crate::support::{Machine, asm, kernel};
use schedlab_bpf::GuestAddr;
use schedlab_bpf::memory::{ARENA_BASE, PAGE_SIZE};
use std::io::Write;

/// The allocated page: the second, so that no address in it has a zero low half.
const ALLOCATED: u64 = ARENA_BASE + PAGE_SIZE;
const ABSENT: u64 = ARENA_BASE + 2 * PAGE_SIZE;
const PAGES: u32 = 16;

/// Name, program behind the prologue that puts the arena pointer into r1 and 7 into r2 and r0. All end with r0.
const PROGRAMS: [(&str, &str); 17] = [
    ("load of 8", "r0 = *(u64 *)(r1 + 0)"),
    ("load of 4", "r0 = *(u32 *)(r1 + 4)"),
    ("load of 2", "r0 = *(u16 *)(r1 + 2)"),
    ("load of 1", "r0 = *(u8 *)(r1 + 1)"),
    ("store of 8", "*(u64 *)(r1 + 8) = r2"),
    ("store of 1", "*(u8 *)(r1 + 8) = r2"),
    ("store of an immediate", "*(u32 *)(r1 + 8) = -5"),
    ("add", "lock *(u64 *)(r1 + 0) += r2"),
    ("fetching add", "fetch *(u64 *)(r1 + 0) += r2\nr0 = r2"),
    ("or of 4 bytes", "lock *(u32 *)(r1 + 0) |= r2"),
    ("exchange", "xchg *(u64 *)(r1 + 0) r2\nr0 = r2"),
    ("compare and exchange", "cmpxchg *(u64 *)(r1 + 0) r2"),
    ("compare and exchange of 4 bytes", "cmpxchg *(u32 *)(r1 + 0) r2"),
    ("acquiring load", "load_acquire r0 *(u64 *)(r1 + 0)"),
    ("releasing store", "store_release *(u64 *)(r1 + 8) r2"),
    ("load across the page's end", "r1 += 4092\nr0 = *(u64 *)(r1 + 0)"),
    ("load over the register of the base", "r1 = *(u64 *)(r1 + 0)\nr0 = r1"),
];

/// Every page of test content is the same.
fn content() -> [u8; PAGE_SIZE as usize] {
    std::array::from_fn(|index| (index * 37 + 200) as u8)
}

/// r0 and the allocated page afterwards, from the machine.
fn ours(text: &str, addr: u64) -> (u64, Vec<u8>) {
    let mut machine = Machine::new();
    let page = GuestAddr(ALLOCATED);
    machine.share(page, &content());
    let slots = asm::assemble(text).expect("assembles");
    let outcome = machine.run(&slots, &addr.to_le_bytes(), 1000).expect("runs");
    (outcome.r0, machine.memory().slice(page, PAGE_SIZE).expect("mapped").to_vec())
}

/// r0 and the allocated page afterwards, from the kernel.
fn theirs(text: &str, addr: u64) -> (u64, Vec<u8>) {
    let mut arena = kernel::Arena::new(ARENA_BASE, PAGES).expect("arena");
    *arena.page(ALLOCATED) = content();
    let slots = asm::assemble(text).expect("assembles");
    let loaded = kernel::load_with(&slots, 8, Some(&arena));
    let loaded = loaded.unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
    let outcome = loaded.run(&addr.to_le_bytes()).expect("test run");
    let page = arena.page(ALLOCATED).to_vec();
    arena.remove(ARENA_BASE);
    (outcome.r0, page)
}

#[test]
fn kernel_agrees_on_arena_accesses_and_casts() {
    let reason = kernel::available().err();
    let reason = reason.or_else(|| match kernel::Arena::new(ARENA_BASE, PAGES) {
        Ok(arena) => {
            arena.remove(ARENA_BASE);
            None
        }
        Err(error) => Some(format!("no arena: {error}")),
    });
    if let Some(reason) = reason {
        let _ = writeln!(std::io::stderr(), "skipped: the kernel's BPF is not available: {reason}");
        return;
    }
    for (name, body) in PROGRAMS {
        let text = format!("r1 = *(u64 *)(r1 + 0)\ncast r1 r1 1\nr2 = 7\nr0 = 7\n{body}\nexit");
        for addr in [ALLOCATED, ALLOCATED + 512, ABSENT] {
            assert_eq!(ours(&text, addr), theirs(&text, addr), "{name} at {addr:#x}");
        }
    }
    // Casts to user addresses: a zero low half is NULL, everything else gets the arena's high half.
    let text = "r1 = *(u64 *)(r1 + 0)\ncast r1 r1 1\ncast r0 r1 0x10000\nexit";
    for addr in [0, 1, ALLOCATED, 0x1234, 0x7_0000_0000, 0x7_0000_0008, 0xffff_ffff, u64::MAX] {
        assert_eq!(ours(text, addr).0, theirs(text, addr).0, "cast of {addr:#x}");
    }
}
