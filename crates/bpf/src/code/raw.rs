//! Programs in the kernel's own encoding: one run of slots in which calls of local functions hold slot distances.

use super::{Code, CodeBuilder, CodeError, CodeErrorKind, FuncId, Marks};
use crate::insn::{Insn, op};
use std::collections::BTreeSet;

/// Makes an image of one run of slots, as `bpf(BPF_PROG_LOAD)` takes it: functions begin at slot 0 and at the targets
/// of local calls and function references, whose immediates count slots from the one after them. Function 0 is the
/// program's entry; the others are named after their first slot. `wide_shifts` as [`CodeBuilder::wide_shifts`].
///
/// # Errors
/// As [`CodeBuilder::add_function`]; places count from the start of the function at fault.
pub fn from_slots(name: &str, slots: &[Insn], wide_shifts: bool) -> Result<Code, CodeError> {
    let starts = function_starts(name, slots)?;
    let mut builder = CodeBuilder::new().wide_shifts(wide_shifts);
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(slots.len());
        let mut insns = slots[*start..end].to_vec();
        for (offset, insn) in insns.iter_mut().enumerate() {
            // Every target is in the list: the first pass put it there.
            if let Some(Ok(id)) = target(insn, start + offset).map(|to| starts.binary_search(&to)) {
                insn.imm = id as i32;
            }
        }
        let function = if *start == 0 { name.to_string() } else { format!("{name}+{start}") };
        let id = builder.add_function(&function, &insns, &Marks::default())?;
        assert_eq!(id, FuncId(index as u32), "functions are numbered in order");
    }
    builder.build()
}

/// First slots of all functions, in order.
fn function_starts(name: &str, slots: &[Insn]) -> Result<Vec<usize>, CodeError> {
    let mut starts = BTreeSet::from([0]);
    for (slot, insn) in slots.iter().enumerate() {
        if let Some(to) = target(insn, slot) {
            if to >= slots.len() {
                let kind = CodeErrorKind::UnknownFunction(insn.imm);
                return Err(CodeError { function: name.to_string(), insn: slot as u32, kind });
            }
            starts.insert(to);
        }
    }
    Ok(starts.into_iter().collect())
}

/// The slot that a local call or function reference means; beyond all slots if it is before the first.
fn target(insn: &Insn, slot: usize) -> Option<usize> {
    let call = insn.code == op::CALL_K && insn.src == op::CALL_LOCAL;
    let reference = insn.is_ld_imm64() && insn.src == op::PSEUDO_FUNC;
    let to = slot as i64 + 1 + i64::from(insn.imm);
    (call || reference).then(|| usize::try_from(to).unwrap_or(usize::MAX))
}
