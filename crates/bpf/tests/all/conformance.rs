//! Every instruction does what RFC 9669 says: the test files, and tables over all edge values.

use crate::support::files::{self, Expect};
use crate::support::{Failure, Machine, reference};

/// Instructions after which a test's program counts as endless.
const BUDGET: u64 = 60_000_000;

#[test]
fn files_hold() {
    let mut machine = Machine::new();
    let mut wrong = Vec::new();
    let cases = files::all();
    for case in &cases {
        let got = machine.run(&case.slots, &case.memory, BUDGET);
        let right = match (&case.expect, &got) {
            (Expect::Result(r0), Ok(outcome)) => {
                outcome.r0 == *r0 && case.after.as_ref().is_none_or(|after| *after == outcome.memory)
            }
            (Expect::Fault(text), Err(Failure::Fault(fault))) => fault.to_string().contains(text),
            (Expect::Refused(text), Err(Failure::Refused(error))) => error.to_string().contains(text),
            _ => false,
        };
        if !right {
            wrong
                .push(format!("{}: expected {:?} {:02x?}, got {got:x?}", case.name, case.expect, case.after));
        }
    }
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 100, "only {} cases found", cases.len());
}

#[test]
fn arithmetic_and_comparisons_hold_at_every_edge() {
    let mut machine = Machine::new();
    let mut count = 0;
    for table in reference::tables() {
        for (a, b, expected) in &table.rows {
            let memory = [a.to_le_bytes(), b.to_le_bytes()].concat();
            let got = machine.run(&table.slots, &memory, BUDGET).expect("runs").r0;
            assert_eq!(got, *expected, "{} with {a:#x}, {b:#x}", table.name);
            count += 1;
        }
    }
    assert!(count > 20_000, "only {count} rows");
}
