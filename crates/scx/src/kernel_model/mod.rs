//! The simulated kernel as its types describe it: what a real kernel says in `/sys/kernel/btf/vmlinux`.
//!
//! Objects are relocated (CO-RE) to these types when they are loaded, so the layout can be our own; values of
//! enumerations are the kernel's. `reader` turns declarations into BTF, `types` and `enums` are the declarations, and
//! `offsets` holds the places of the members that the simulator fills in.

mod enums;
mod header;
mod offsets;
mod reader;
mod types;

pub(crate) use header::header;
pub(crate) use offsets::{Offsets, RqAt, TaskAt};

use crate::kfunc;
use crate::mirror::Cpus;
use reader::Reader;
use schedlab_bpf::btf::Btf;
use std::sync::{Arc, LazyLock};

/// The types of the simulated kernel with its kernel functions, made when they are first asked for.
pub(crate) fn types() -> Arc<Btf> {
    static TYPES: LazyLock<Arc<Btf>> =
        LazyLock::new(|| Arc::new(build(kfunc::all().map(|kfunc| kfunc.prototype))));
    TYPES.clone()
}

/// The types of the simulated kernel, with a function for each of `prototypes` (C declarations of kernel functions).
pub(crate) fn build<'a>(prototypes: impl Iterator<Item = &'a str>) -> Btf {
    reader(prototypes).into_builder().finish()
}

fn reader<'a>(prototypes: impl Iterator<Item = &'a str>) -> Reader<'a> {
    let mut reader = Reader::new();
    reader.read(enums::ENUMS);
    reader.read(types::TYPES);
    types::SCX_TYPES.iter().for_each(|text| reader.read(text));
    reader.read(types::TRACE_POINTS);
    for prototype in prototypes {
        reader.read(prototype);
    }
    reader
}

/// The types of the simulated kernel as C writes them: enumerations, structures, and the callback tables of sched_ext.
pub fn declarations() -> String {
    [enums::ENUMS, types::TYPES].concat() + &types::SCX_TYPES.concat()
}

/// The types with the kernel's variables, as programs in user space find them.
pub(crate) fn shown<'a>(prototypes: impl Iterator<Item = &'a str>) -> Btf {
    let mut reader = reader(prototypes);
    reader.read(types::GENERIC_FUNCTIONS);
    reader.read(types::MARKERS);
    Cpus::declared().for_each(|(_, declaration)| reader.variable(declaration));
    reader.into_builder().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_declarations_can_be_read() {
        let btf = build(std::iter::empty());
        let task = btf.find_struct("task_struct").unwrap();
        assert!(btf.member(task, "scx").is_some());
        assert_eq!(btf.enum_value("SCX_DSQ_LOCAL_ON"), Some(0xc000_0000_0000_0000));
        assert_eq!(btf.enum_value("SCX_SLICE_DFL"), Some(20_000_000));
        assert_eq!(btf.enum_value("SCX_EXIT_ERROR_STALL"), Some(1026));
    }

    #[test]
    fn user_space_finds_all_functions_and_variables() {
        let btf = crate::kernel_types();
        for name in schedlab_bpf::helpers::GenericKfunc::NAMES {
            assert!(
                btf.find(name, |kind| matches!(kind, schedlab_bpf::btf::Kind::Func(..))).is_some(),
                "{name}"
            );
        }
        for (name, _) in Cpus::declared() {
            assert!(
                btf.find(name, |kind| matches!(kind, schedlab_bpf::btf::Kind::Var(..))).is_some(),
                "{name}"
            );
        }
        let again = Btf::parse(&btf.to_bytes()).unwrap();
        assert_eq!(again.iter().count(), btf.iter().count());
    }
}
