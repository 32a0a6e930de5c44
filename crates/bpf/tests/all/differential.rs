//! The machine against the running kernel's BPF: the conformance programs, the edge tables, and random programs.
//!
//! Needs permission to use bpf(2); without it each test says that it is skipped, and why, on standard error.

use crate::support::files::{self, Expect, Kernel};
use crate::support::{Machine, Prng, generate, kernel, reference};
use schedlab_bpf::Insn;
use std::io::Write;

const BUDGET: u64 = 60_000_000;
/// First seed of the random programs; `BPF_SEED` and `BPF_PROGRAMS` change seed and number.
const SEED: u64 = 1;
const PROGRAMS: u64 = 400;

/// Says so, past the test harness's capture, if the kernel cannot be asked.
fn kernel_is_missing() -> bool {
    match kernel::available() {
        Ok(()) => false,
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "skipped: the kernel's BPF is not available: {reason}");
            true
        }
    }
}

fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn kernel_agrees_on_the_conformance_files() {
    if kernel_is_missing() {
        return;
    }
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in files::all() {
        let loaded = kernel::load(&case.slots, case.memory.len());
        let problem = match (&case.expect, &case.kernel, loaded) {
            (Expect::Result(r0), Kernel::Agrees, Ok(loaded)) => {
                compared += 1;
                let outcome = loaded.run(&case.memory).expect("test run");
                let same_memory = case.after.as_ref().is_none_or(|after| *after == outcome.memory);
                (outcome.r0 != *r0 || !same_memory).then(|| format!("kernel has {outcome:x?}"))
            }
            (Expect::Result(_), Kernel::Agrees | Kernel::Differs, Err(refusal)) => {
                Some(format!("kernel refuses: {} {}", refusal.error, refusal.log))
            }
            (_, Kernel::Refuses, Ok(_)) => Some("marked `kernel no`, but the kernel takes it".to_string()),
            // What the machine refuses or ends with a fault, the verifier must refuse.
            (Expect::Refused(_) | Expect::Fault(_), _, Ok(_)) => Some("the kernel takes it".to_string()),
            _ => None,
        };
        wrong.extend(problem.map(|problem| format!("{}: {problem}", case.name)));
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 100, "only {compared} compared");
}

#[test]
fn kernel_agrees_on_every_edge() {
    if kernel_is_missing() {
        return;
    }
    for table in reference::tables() {
        let loaded = kernel::load(&table.slots, 16);
        let loaded = loaded.unwrap_or_else(|refusal| panic!("{}: {refusal:?}", table.name));
        for (a, b, expected) in &table.rows {
            let memory = [a.to_le_bytes(), b.to_le_bytes()].concat();
            let got = loaded.run(&memory).expect("test run").r0;
            assert_eq!(got, *expected, "{} with {a:#x}, {b:#x}", table.name);
        }
    }
}

/// Replaces instructions by jumps to the next one as long as the two sides still differ.
fn shrink(machine: &mut Machine, slots: &[Insn], memory: &[u8]) -> Vec<Insn> {
    let mut differ = |slots: &[Insn]| {
        let Ok(theirs) =
            kernel::load(slots, memory.len()).map(|loaded| loaded.run(memory).expect("test run"))
        else {
            return false;
        };
        machine.run(slots, memory, BUDGET).is_ok_and(|ours| ours != theirs)
    };
    let mut small = slots.to_vec();
    // The prologue stays: without it a program sees what earlier ones left on the stack.
    for slot in (generate::PROLOGUE_LEN..small.len()).rev() {
        let mut candidate = small.clone();
        let count = if candidate[slot].is_ld_imm64() { 2 } else { 1 };
        candidate[slot..slot + count].fill(Insn::jump(0));
        if differ(&candidate) {
            small = candidate;
        }
    }
    small
}

#[test]
fn kernel_agrees_on_random_programs() {
    if kernel_is_missing() {
        return;
    }
    let first = number_from_environment("BPF_SEED", SEED);
    let count = number_from_environment("BPF_PROGRAMS", PROGRAMS);
    let mut machine = Machine::new();
    let (mut runs, mut refused) = (0, Vec::new());
    for seed in first..first + count {
        let mut prng = Prng::new(seed);
        let length = 9 + prng.below(90) as usize;
        let slots = generate::program(&mut prng, length);
        let loaded = match kernel::load(&slots, generate::MEMORY_LEN) {
            Ok(loaded) => loaded,
            Err(refusal) => {
                refused.push(format!("seed {seed}: {} {}", refusal.error, refusal.log));
                continue;
            }
        };
        for _ in 0..8 {
            let memory = generate::memory(&mut prng);
            let theirs = loaded.run(&memory).expect("test run");
            let ours = machine.run(&slots, &memory, BUDGET);
            let ours = ours.unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
            if ours != theirs {
                let small = shrink(&mut machine, &slots, &memory);
                let listing: Vec<_> = small.iter().map(|insn| format!("{insn:?}")).collect();
                panic!(
                    "seed {seed}: machine {ours:x?}, kernel {theirs:x?}, shrunk program:\n{}",
                    listing.join("\n")
                );
            }
            runs += 1;
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "{runs} runs of {} random programs (seeds {first}..) equal, {} refused by the verifier",
        count - refused.len() as u64,
        refused.len()
    );
    // A generator whose programs are mostly refused would prove little.
    assert!(refused.len() as u64 * 10 <= count, "{} refused, e.g. {:?}", refused.len(), refused.first());
}
