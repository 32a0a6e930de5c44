//! Putting the answer of a CO-RE record into its instruction.

use super::Resolution;
use crate::insn::{Insn, op};

/// The helper number that libbpf puts into an instruction whose CO-RE record has no answer (it reads "bad relo").
const POISON_CALL: i32 = 0x0bad_2310;

/// What became of the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The instruction holds the kernel's value.
    Patched,
    /// The instruction was replaced by a call that ends the program if it is ever executed.
    Poisoned,
}

/// Rewrites `insns[at]` (and the second slot of a 64-bit constant).
///
/// # Errors
/// A sentence: the instruction is of a class that cannot hold the value, or does not hold what the record says.
pub(crate) fn apply(insns: &mut [Insn], at: usize, res: &Resolution) -> Result<Outcome, String> {
    let Some(new) = res.new else {
        return poison(insns, at);
    };
    let insn = *insns.get(at).ok_or("the instruction does not exist")?;
    match insn.code & 7 {
        op::ALU | op::ALU64 => {
            if insn.code & op::X != 0 {
                return Err("arithmetic with a register cannot be relocated".into());
            }
            check(res, i64::from(insn.imm) as u64, i64::from(res.old as u32 as i32) as u64)?;
            insns[at].imm = new as u32 as i32;
        }
        op::LDX | op::ST | op::STX => {
            check(res, i64::from(insn.off) as u64, res.old)?;
            if res.fail_resize {
                return poison(insns, at);
            }
            insns[at].off =
                i16::try_from(new).map_err(|_| format!("offset {new} does not fit into an instruction"))?;
            resize(&mut insns[at], res)?;
        }
        op::LD => {
            let pair = insns.get_mut(at..at + 2).filter(|p| p[0].is_ld_imm64() && p[0].src == 0);
            let pair = pair.ok_or("not a 64-bit constant")?;
            let held = u64::from(pair[0].imm as u32) | u64::from(pair[1].imm as u32) << 32;
            check(res, held, res.old)?;
            pair[0].imm = new as u32 as i32;
            pair[1].imm = (new >> 32) as u32 as i32;
        }
        _ => return Err("a jump cannot be relocated".into()),
    }
    Ok(Outcome::Patched)
}

fn check(res: &Resolution, held: u64, expected: u64) -> Result<(), String> {
    if res.validate && held != expected {
        return Err(format!("the instruction holds {held} where the record says {expected}"));
    }
    Ok(())
}

/// Narrows or widens a load or store when the kernel's field has another size.
fn resize(insn: &mut Insn, res: &Resolution) -> Result<(), String> {
    let (Some(old), Some(new)) = (res.old_field, res.new_field) else {
        return Ok(());
    };
    if old.size == new.size {
        return Ok(());
    }
    let bits = |size: u64| match size {
        1 => Some(op::B),
        2 => Some(op::H),
        4 => Some(op::W),
        8 => Some(op::DW),
        _ => None,
    };
    if bits(old.size) != Some(insn.code & op::DW) {
        return Err(format!("the access does not have the {} bytes of its field", old.size));
    }
    let size = bits(new.size).ok_or_else(|| format!("no access of {} bytes", new.size))?;
    insn.code = (insn.code & !op::DW) | size;
    Ok(())
}

/// Replaces the instruction by a call of [`POISON_CALL`].
fn poison(insns: &mut [Insn], at: usize) -> Result<Outcome, String> {
    let slots = if insns.get(at).is_some_and(Insn::is_ld_imm64) { 2 } else { 1 };
    let range = insns.get_mut(at..at + slots).ok_or("the instruction does not exist")?;
    range.fill(Insn::call_helper(POISON_CALL));
    Ok(Outcome::Poisoned)
}
