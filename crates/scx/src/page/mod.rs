//! Holds `docs/sched-ext.md` against the simulated kernel, and both against the names of the real one.
//!
//! `names-7.3.4` is made by `scripts/sched-ext-names` from the types of the kernel that the VM boots.

use crate::callbacks::{Call, OPERATIONS};
use crate::kernel_model;
use crate::kfunc;
use schedlab_base::KernelVersion;
use schedlab_bpf::btf::{Btf, Kind};
use schedlab_bpf::helpers::GenericKfunc;
use schedlab_sim::EventCounters;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../docs/sched-ext.md");
const NAMES: &str = include_str!("names-7.3.4");

/// Callbacks that the simulated core has no reason to call.
const UNCALLED: [&str; 1] = ["core_sched_before"];

/// What a row says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    AsInTheKernel,
    Refused,
    Differs,
}

/// The rows of a section of the page: name, status and the whole cell.
fn rows(section: &str) -> BTreeMap<&'static str, (Status, &'static str)> {
    let text = PAGE.split("\n## ").find(|text| text.starts_with(section)).expect("the page has the section");
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, cell] = cells[..] else { panic!("two cells a row: {line}") };
        let status = match cell {
            _ if cell.starts_with("as in the kernel") => Status::AsInTheKernel,
            _ if cell.starts_with("refused by name") => Status::Refused,
            _ if cell.starts_with("differs: ") => Status::Differs,
            _ => panic!("one of the three at the beginning: {line}"),
        };
        let before = rows.insert(name.trim_matches('`'), (status, cell));
        assert!(before.is_none(), "{name} has one row in {section}");
    }
    rows
}

/// The names of the real kernel on lines that begin with `kind`.
fn real(kind: &str) -> BTreeSet<&'static str> {
    let last = |line: &'static str| line.strip_prefix(kind)?.strip_prefix(' ');
    NAMES.lines().filter_map(last).collect()
}

fn model() -> Btf {
    kernel_model::build(kfunc::prototypes())
}

fn members<'a>(btf: &'a Btf, structure: &str) -> BTreeSet<&'a str> {
    let id = btf.find_struct(structure).expect("the model has the struct");
    btf.members(id).iter().map(|member| btf.member_name(member)).collect()
}

fn names<'a>(rows: &BTreeMap<&'a str, (Status, &'a str)>) -> BTreeSet<&'a str> {
    rows.keys().copied().collect()
}

#[test]
fn kernel_functions_are_those_of_both_kernels() {
    let rows = rows("Kernel functions");
    let own: BTreeSet<&str> = kfunc::all().map(|kfunc| kfunc.name).chain(GenericKfunc::NAMES).collect();
    let kernel = real("kfunc");
    let of_sched_ext = kernel.iter().copied().filter(|name| name.contains("scx"));
    let wanted: BTreeSet<&str> = own.iter().copied().chain(of_sched_ext).collect();
    assert_eq!(names(&rows), wanted);
    for (name, (status, cell)) in rows {
        assert_eq!(own.contains(name), status != Status::Refused, "{name}: {cell}");
        let gone = !kernel.contains(name);
        assert_eq!(gone, cell.contains("7.3 no longer has it"), "{name}: {cell}");
    }
    // The versions of the rows say the same of the last kernel.
    for kfunc in kfunc::all() {
        let has = kfunc.versions().has(KernelVersion::LAST);
        assert_eq!(has, kernel.contains(kfunc.name), "{}", kfunc.name);
    }
}

#[test]
fn callbacks_are_those_of_the_kernel() {
    let (cpu, cid) = (real("sched_ext_ops"), real("sched_ext_ops_cid"));
    let rows = rows("Callbacks");
    assert_eq!(names(&rows), cpu.union(&cid).copied().collect());
    let btf = model();
    let [own_cpu, own_cid] = ["sched_ext_ops", "sched_ext_ops_cid"].map(|form| members(&btf, form));
    assert!(cpu.is_subset(&own_cpu) && cid.is_subset(&own_cid));
    let called = OPERATIONS.iter().filter(|operation| operation.call != Call::Never);
    let called = called.flat_map(|operation| [false, true].map(|form| operation.name(form)));
    let called: BTreeSet<&str> = called.flatten().filter(|name| !UNCALLED.contains(name)).collect();
    for (name, (status, cell)) in rows {
        assert_ne!(status, Status::Refused, "{name}");
        assert_eq!(called.contains(name), !cell.contains("never called"), "{name}: {cell}");
    }
}

#[test]
fn enumerators_have_the_values_of_the_kernel() {
    let rows = rows("Flags and numbers");
    let btf = model();
    let mut kernel = BTreeMap::new();
    for line in NAMES.lines().filter_map(|line| line.strip_prefix("enum ")) {
        let [kind, name, value] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("three words: {line}")
        };
        let value: i128 = value.parse().expect("a number");
        let own = btf.enum_value(name).unwrap_or_else(|| panic!("the model has no {name}"));
        // Values of 32 and of 64 bits, signed or not.
        assert!([own as u32 as i32 as i128, own as i64 as i128, i128::from(own)].contains(&value), "{name}");
        kernel.insert(name, kind);
    }
    assert_eq!(names(&rows), kernel.keys().copied().collect());
    for (_, ty) in btf.iter() {
        let (Kind::Enum(own) | Kind::Enum64(own)) = &ty.kind else { continue };
        let own = own.values.iter().map(|value| btf.enumerator_name(value));
        for name in own.filter(|name| name.trim_start_matches('_').starts_with("SCX_")) {
            assert!(kernel.contains_key(name), "the kernel has no {name}");
        }
    }
    // A flag is refused where the only function that takes it is.
    for (name, (status, cell)) in rows {
        let refused = kernel[name] == "scx_reenq_flags";
        assert_eq!(status == Status::Refused, refused, "{name}: {cell}");
    }
}

#[test]
fn event_counters_are_those_of_the_kernel() {
    let rows = rows("Event counters");
    let kernel = real("scx_event_stats");
    assert_eq!(names(&rows), kernel);
    assert_eq!(members(&model(), "scx_event_stats"), kernel);
    let counted = EventCounters::default().named();
    assert_eq!(counted.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), kernel);
    assert!(rows.values().all(|(status, _)| *status != Status::Refused));
}

#[test]
fn members_of_a_task_are_those_of_the_kernel() {
    let rows = rows("Members of a task");
    let kernel = real("sched_ext_entity");
    assert_eq!(names(&rows), kernel);
    let btf = model();
    let own = members(&btf, "sched_ext_entity");
    assert!(own.is_subset(&kernel));
    for (name, (status, cell)) in rows {
        assert_eq!(own.contains(name), status != Status::Refused, "{name}: {cell}");
    }
}
