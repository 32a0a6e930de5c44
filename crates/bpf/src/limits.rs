//! What an object may have at most, so that loading it takes bounded time and memory whatever it holds.
//!
//! Where the kernel has a number for the same thing, it is the kernel's. The others are chosen, 30 to 200 times what the
//! largest shipped object has (`o1+swap`: 600 kB, 72 sections, 317 symbols, 7,799 relocations, 13,467 instructions).
//! `SECURITY.md` lists [`ALL`].

use crate::error::{LoadError, LoadErrorKind};
use std::cell::Cell;

/// A number that an object must not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is counted, as messages name it.
    pub what: &'static str,
    /// The largest number that is accepted.
    pub most: u64,
    /// Where the number comes from.
    pub source: &'static str,
}

/// Bytes of an object file.
pub const OBJECT_BYTES: Limit = Limit {
    what: "bytes in an object file",
    most: 64 << 20,
    source: "chosen: 4 times the text that it may hold",
};

/// Instructions (8-byte slots) of a program with all functions that it can reach.
pub const PROGRAM_INSNS: Limit = Limit {
    what: "instructions in a program",
    most: 1_000_000,
    source: "kernel: BPF_COMPLEXITY_LIMIT_INSNS",
};

/// Instructions (8-byte slots) of an object in all its code sections.
pub const OBJECT_INSNS: Limit = Limit {
    what: "instructions in an object",
    most: 2_000_000,
    source: "chosen: two programs of the largest size",
};

/// Bytes of machine code that an image is compiled to.
pub const MACHINE_CODE_BYTES: Limit = Limit {
    what: "bytes of machine code",
    most: 512 << 20,
    source: "chosen: a quarter of what 32-bit jumps reach",
};

/// Sections of an object.
pub const SECTIONS: Limit = Limit { what: "sections", most: 4096, source: "chosen" };

/// Entries of an object's symbol table.
pub const SYMBOLS: Limit = Limit { what: "symbols", most: 65_536, source: "chosen" };

/// Relocations of an object, over all sections.
pub const RELOCATIONS: Limit = Limit { what: "relocations", most: 1 << 18, source: "chosen" };

/// Bytes of a name: of a section, a symbol, a type, a member.
pub const NAME_BYTES: Limit = Limit { what: "bytes in a name", most: 512, source: "kernel: KSYM_NAME_LEN" };

/// Bytes of the text of a tag (`btf_decl_tag`).
pub const TAG_BYTES: Limit = Limit { what: "bytes in a tag", most: 4096, source: "chosen" };

/// Bytes of type information.
pub const BTF_BYTES: Limit = Limit { what: "bytes of BTF", most: 16 << 20, source: "kernel: BTF_MAX_SIZE" };

/// Types.
pub const BTF_TYPES: Limit = Limit { what: "types", most: 0xf_ffff, source: "kernel: BTF_MAX_TYPE" };

/// CO-RE relocation records of an object.
pub const CORE_RECORDS: Limit = Limit { what: "CO-RE records", most: 65_536, source: "chosen" };

/// Line records of an object.
pub const LINE_RECORDS: Limit =
    Limit { what: "line records", most: OBJECT_INSNS.most, source: "chosen: one for each instruction" };

/// Entry points of an object.
pub const PROGRAMS: Limit = Limit { what: "programs", most: 1024, source: "chosen" };

/// Maps that an object declares.
pub const MAPS: Limit =
    Limit { what: "maps", most: 1024, source: "chosen: 16 times the kernel's MAX_USED_MAPS" };

/// Tables of operations (`struct_ops`) that an object declares.
pub const STRUCT_OPS: Limit = Limit { what: "struct_ops tables", most: 16, source: "chosen" };

/// Bytes of a table of operations.
pub const STRUCT_OPS_BYTES: Limit = Limit {
    what: "bytes in a struct_ops table",
    most: 65_536,
    source: "chosen: sched_ext_ops has some hundred",
};

/// Instructions and types that the linker looks at in all.
pub const LINK_STEPS: Limit = Limit {
    what: "steps of linking",
    most: 1 << 25,
    source: "chosen: 16 for each instruction of the largest object",
};

/// All limits, in the order in which loading meets them.
pub const ALL: [Limit; 18] = [
    OBJECT_BYTES,
    SECTIONS,
    SYMBOLS,
    RELOCATIONS,
    NAME_BYTES,
    TAG_BYTES,
    BTF_BYTES,
    BTF_TYPES,
    CORE_RECORDS,
    LINE_RECORDS,
    PROGRAMS,
    MAPS,
    STRUCT_OPS,
    STRUCT_OPS_BYTES,
    PROGRAM_INSNS,
    OBJECT_INSNS,
    LINK_STEPS,
    MACHINE_CODE_BYTES,
];

impl Limit {
    /// The limit as a length.
    #[must_use]
    pub const fn most_len(&self) -> usize {
        // Every limit is below 2^32, which a test checks.
        self.most as usize
    }

    /// Refuses more than the limit.
    ///
    /// # Errors
    /// [`LoadErrorKind::Limit`], which names the place, the number that was found and the limit.
    pub(crate) fn check(&self, found: usize, place: impl FnOnce() -> String) -> Result<(), LoadError> {
        if found as u64 <= self.most { Ok(()) } else { Err(self.exceeded(&found.to_string(), place())) }
    }

    /// The refusal of `found`, in words or as a number.
    pub(crate) fn exceeded(&self, found: &str, place: String) -> LoadError {
        let problem = format!("{found} {}, the limit is {}", self.what, self.most);
        LoadError::new(LoadErrorKind::Limit, place, problem, "split or shrink the object")
    }
}

/// What is left of [`LINK_STEPS`] while an object is linked.
#[derive(Debug)]
pub(crate) struct Steps(Cell<u64>);

impl Steps {
    /// All of them.
    pub(crate) fn new() -> Steps {
        Steps(Cell::new(LINK_STEPS.most))
    }

    /// Takes some; false when too few are left, and then none is.
    pub(crate) fn take(&self, steps: u64) -> bool {
        debug_assert!(self.0.get() <= LINK_STEPS.most, "steps only become fewer");
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Refuses to continue when none is left.
    ///
    /// # Errors
    /// [`LoadErrorKind::Limit`] at `place`.
    pub(crate) fn check(&self, place: impl FnOnce() -> String) -> Result<(), LoadError> {
        if self.0.get() > 0 { Ok(()) } else { Err(LINK_STEPS.exceeded("more", place())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_lengths_and_named_once() {
        for limit in ALL {
            assert!((1..=u64::from(u32::MAX)).contains(&limit.most), "{limit:?}");
            assert_eq!(ALL.iter().filter(|other| other.what == limit.what).count(), 1, "{limit:?}");
        }
    }

    #[test]
    fn steps_run_out() {
        let steps = Steps::new();
        assert!(steps.take(LINK_STEPS.most - 1) && steps.check(String::new).is_ok());
        assert!(!steps.take(2) && !steps.take(1));
        let error = steps.check(|| "program `x`".into()).unwrap_err();
        assert!(
            error.to_string().starts_with("program `x`: more steps of linking, the limit is 33554432"),
            "{error}"
        );
    }

    #[test]
    fn a_refusal_names_place_number_and_limit() {
        assert_eq!(SECTIONS.check(SECTIONS.most_len(), String::new), Ok(()));
        let error = SECTIONS.check(SECTIONS.most_len() + 1, || "ELF".into()).unwrap_err();
        assert_eq!(error.kind, LoadErrorKind::Limit);
        assert!(error.to_string().starts_with("ELF: 4097 sections, the limit is 4096"), "{error}");
    }
}
