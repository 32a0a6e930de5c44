//! Kernel functions: their table, which callbacks may call them, and what they do.
//!
//! All that is known of one stands in its row of [`table`]; the files of the families have the Rust functions. A function that
//! is not in the table does not exist in the simulated kernel. The loader refuses an object that needs it, and one that only
//! asks for it (`bpf_ksym_exists`) is told no, as on an older kernel.

mod cid;
mod cpu;
mod cpumask;
mod css;
mod dsq;
mod exit;
mod idle;
mod iter;
mod sub;
mod table;
mod task;
mod versions;

pub(crate) use cid::Cids;
pub(crate) use dsq::dsq_id;
pub(crate) use table::run_direct;
pub(crate) use task::ROOT_CGROUP_ID;
pub(crate) use versions::{absence, absences, existing};

use crate::args::Cx;
use crate::callbacks::{called_by_core, operation};
use schedlab_base::{Costs, DurationNs};
use schedlab_bpf::Fault;
#[cfg(test)]
use schedlab_bpf::args::Shape;
use schedlab_bpf::engine::DIRECT_KFUNCS;
use schedlab_bpf::helpers::{self, GenericKfunc};
use schedlab_bpf::maps::Errno;
use schedlab_sim::{OpKind, OpsSet};
use table::NOT_MODELLED;
use versions::Versions;

/// What a kernel function does: the program that calls it, r1 to r5; returns r0.
pub(crate) type Run = for<'a, 'v, 'k> fn(Cx<'a, 'v, 'k>, &[u64; 5]) -> Result<u64, Fault>;

/// A kernel function: a row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Kfunc {
    pub(crate) name: &'static str,
    /// Its C prototype, ending in a semicolon.
    pub(crate) prototype: &'static str,
    /// The version of Linux that brought it; nothing if it is as old as sched_ext.
    since: Option<(u32, u32)>,
    /// The first version that no longer has it.
    until: Option<(u32, u32)>,
    price: Price,
    /// Its slot in compiled code, if it has one.
    slot: Option<u8>,
    /// Groups that it belongs to; 0 is "no restriction".
    groups: u8,
    /// What it does.
    pub(crate) run: Run,
    /// The registers that it takes, in order.
    #[cfg(test)]
    shape: fn() -> Vec<Shape>,
    /// The Rust function.
    #[cfg(test)]
    function: &'static str,
}

/// What a kernel function costs its caller, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Price {
    /// A call and nothing that is worth a price of its own.
    Call,
    /// A task is put into a dispatch queue, or the queue is looked at.
    Insert,
    /// A task is moved between dispatch queues.
    Move,
    /// A CPU is kicked.
    Kick,
    /// A task is looked up.
    Find,
}

impl Price {
    fn of(self, costs: &Costs) -> DurationNs {
        match self {
            Price::Call => costs.kfunc,
            Price::Insert => costs.kfunc_insert,
            Price::Move => costs.kfunc_move,
            Price::Kick => costs.kfunc_kick,
            Price::Find => costs.kfunc_find,
        }
    }
}

/// The name in a prototype: the word before the parameters.
const fn name_of(prototype: &'static str) -> &'static str {
    let bytes = prototype.as_bytes();
    let mut end = 0;
    while bytes[end] != b'(' {
        end += 1;
    }
    let mut begin = end;
    while !matches!(bytes[begin - 1], b' ' | b'*') {
        begin -= 1;
    }
    prototype.split_at(end).0.split_at(begin).1
}

/// The numbers of a version: 6 and 13 of `6.13`.
const fn version_of(version: &str) -> (u32, u32) {
    let (bytes, mut at) = (version.as_bytes(), 0);
    let mut numbers = [0; 2];
    let mut part = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'.' => part += 1,
            digit => numbers[part] = numbers[part] * 10 + (digit - b'0') as u32,
        }
        at += 1;
    }
    assert!(part == 1 && numbers[0] > 0, "a version has two numbers");
    (numbers[0], numbers[1])
}

#[cfg(test)]
fn shape_of<P>(function: impl schedlab_bpf::args::Function<crate::join::Join<'static>, P>) -> Vec<Shape> {
    function.shape()
}

/// Groups of context-sensitive functions (the kernel's `enum scx_kf_allow_flags`, kernel/sched/ext/ext.c, 7.3).
pub(crate) mod group {
    /// Everywhere.
    pub(crate) const ANY: u8 = 0;
    /// Where no run queue is locked.
    pub(crate) const UNLOCKED: u8 = 1;
    /// Reads or changes the record of a task, which the lane has in another form. It restricts no callback.
    pub(crate) const TASKS: u8 = 1 << 1;
    /// `ops.cpu_release()`.
    pub(crate) const CPU_RELEASE: u8 = 1 << 2;
    /// `ops.dispatch()`.
    pub(crate) const DISPATCH: u8 = 1 << 3;
    /// Where a task may be inserted.
    pub(crate) const ENQUEUE: u8 = 1 << 4;
    /// Where a CPU may be selected.
    pub(crate) const SELECT_CPU: u8 = 1 << 5;
    /// Not for cid-form schedulers, which would confuse CPUs and cids. It restricts no callback.
    pub(crate) const CPU_FORM: u8 = 1 << 6;
    /// For code that may sleep (`KF_SLEEPABLE`). It restricts no callback.
    pub(crate) const SLEEPABLE: u8 = 1 << 7;
    /// Those that restrict callbacks.
    pub(crate) const OF_CALLBACKS: u8 = !(CPU_FORM | SLEEPABLE | TASKS);
}

/// The groups that a callback may call while it runs.
fn allowed(op: OpKind) -> u8 {
    match called_by_core().find(|(kind, _)| *kind == op) {
        Some((_, operation)) => operation.groups,
        // A timer's function belongs to the program that set it, which is `ops.init()` or another unlocked one.
        None if op == OpKind::Timer => group::UNLOCKED,
        None => 0,
    }
}

/// A program that calls kernel functions, as the verifier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program<'a> {
    /// A member of the operations.
    Member(&'a str),
    /// A program that user space runs (`SEC("syscall")`).
    Syscall,
    /// A program at a trace point.
    Tracing,
}

/// True if the verifier lets the program call the function of this name (`scx_kfunc_context_filter()`).
pub(crate) fn may_call(program: Program<'_>, cid_form: bool, name: &str) -> bool {
    use group::{CPU_FORM, OF_CALLBACKS, SELECT_CPU, UNLOCKED};
    let Some(own) = own(name) else { return true };
    let groups = own.groups & OF_CALLBACKS;
    match program {
        Program::Member(_) if cid_form && own.groups & CPU_FORM != 0 => false,
        Program::Member(member) => {
            groups == 0 || operation(member).is_some_and(|operation| groups & operation.groups != 0)
        }
        Program::Syscall => groups == 0 || groups & (UNLOCKED | SELECT_CPU) != 0,
        Program::Tracing => groups == 0,
    }
}

/// True if the function of this name is for code that may sleep.
pub(crate) fn sleeps(name: &str) -> bool {
    own(name).is_some_and(|own| own.groups & group::SLEEPABLE != 0)
}

/// The callbacks of a scheduler of this form that may call the function of this name, for a message; none if no callback may.
pub(crate) fn callers_of(name: &str, cid_form: bool) -> Vec<&'static str> {
    let members = called_by_core().filter_map(|(_, operation)| operation.name(cid_form));
    members.filter(|member| may_call(Program::Member(member), cid_form, name)).collect()
}

/// The callbacks that may call a function of these groups.
fn callers(groups: u8, cid_form: bool) -> OpsSet {
    if cid_form && groups & group::CPU_FORM != 0 {
        return OpsSet::EMPTY;
    }
    if groups & group::OF_CALLBACKS == 0 {
        return OpsSet::ALL;
    }
    let ops = called_by_core().map(|(op, _)| op).chain([OpKind::Timer]);
    ops.filter(|op| groups & allowed(*op) != 0).fold(OpsSet::EMPTY, OpsSet::with)
}

impl Kfunc {
    /// Reads or changes the record of a task.
    pub(crate) const fn asks_tasks(&self) -> bool {
        self.groups & group::TASKS != 0
    }

    /// How many arguments it takes: its parameters, of which a test says that they are those of its prototype.
    pub(crate) fn argument_count(&self) -> u8 {
        let inside = self.prototype.split_once('(').map_or("", |(_, rest)| rest);
        if inside.starts_with("void)") { 0 } else { inside.split(',').count() as u8 }
    }

    /// The versions of Linux that have it.
    pub(crate) fn versions(&self) -> Versions {
        Versions::new(self.since, self.until)
    }
}

/// A kernel function that an object calls.
#[derive(Clone, Copy)]
pub(crate) struct Callee {
    /// The callbacks that may call it.
    pub(crate) callers: OpsSet,
    /// The function.
    pub(crate) what: Function,
}

/// What a call through a slot of compiled code asks of its function, the same for all rows of the slot.
#[derive(Clone, Copy)]
pub(crate) struct Direct {
    /// The callbacks that may call it.
    pub(crate) callers: OpsSet,
    /// What a call costs.
    pub(crate) price: DurationNs,
}

/// What calls through slots ask of a scheduler of this form, by slot.
pub(crate) fn direct(cid_form: bool, costs: &Costs) -> [Direct; DIRECT_KFUNCS] {
    let mut slots = [Direct { callers: OpsSet::EMPTY, price: DurationNs::ZERO }; DIRECT_KFUNCS];
    for own in all() {
        if let Some(slot) = own.slot {
            let callers = callers(own.groups, cid_form);
            slots[usize::from(slot)] = Direct { callers, price: own.price.of(costs) };
        }
    }
    slots
}

/// What kind of function it is.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    /// One of this module.
    Own(&'static Kfunc),
    /// One that has nothing to do with scheduling, and the place of its name in [`GenericKfunc::NAMES`].
    Generic(GenericKfunc, u8),
}

impl Function {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Own(own) => own.name,
            Function::Generic(_, place) => GenericKfunc::NAMES[place as usize],
        }
    }

    /// What it costs its caller.
    pub(crate) fn price(self, costs: &Costs) -> DurationNs {
        match self {
            Function::Own(own) => own.price.of(costs),
            Function::Generic(..) => costs.kfunc,
        }
    }

    /// A program may call it while it holds a lock, or is told that it may not.
    #[cold]
    pub(crate) fn under_lock(self) -> Result<(), Fault> {
        match self {
            Function::Generic(generic, _) if generic.is_for_locked() => Ok(()),
            _ => Err(helpers::under_lock(self.name())),
        }
    }
}

/// The kernel function of this module with this name.
fn own(name: &str) -> Option<&'static Kfunc> {
    all().find(|kfunc| kfunc.name == name)
}

/// The slot in compiled code of the kernel function of this name, if it has one.
pub(crate) fn slot(name: &str) -> Option<u8> {
    own(name)?.slot
}

/// Whether the kernel function of a slot reads or changes the record of a task.
pub(crate) const fn slot_asks_tasks(slot: usize) -> bool {
    let mut row = 0;
    while row < table::TABLE.len() {
        if let Some(of) = table::TABLE[row].slot
            && of as usize == slot
        {
            return table::TABLE[row].asks_tasks();
        }
        row += 1;
    }
    panic!("a slot is a function's");
}

/// The kernel function of this name, for a scheduler of this form.
pub(crate) fn find(name: &str, cid_form: bool) -> Option<Callee> {
    if let Some(own) = own(name) {
        return Some(Callee { callers: callers(own.groups, cid_form), what: Function::Own(own) });
    }
    let place = GenericKfunc::NAMES.iter().position(|known| *known == name)?;
    let what = Function::Generic(GenericKfunc::ALL[place].1, place as u8);
    Some(Callee { callers: OpsSet::ALL, what })
}

/// All kernel functions of this module, in a fixed order.
pub(crate) fn all() -> impl Iterator<Item = &'static Kfunc> {
    table::TABLE.iter()
}

/// The C prototypes of the kernel functions that have to do with scheduling, in a fixed order; what is behind them is named
/// in [`GenericKfunc::NAMES`].
pub fn prototypes() -> impl Iterator<Item = &'static str> {
    all().map(|kfunc| kfunc.prototype)
}

/// Errors of kernel functions that [`Errno`] has no name for.
const ENODEV: Errno = Errno(19);
const EACCES: Errno = Errno(13);
const EOPNOTSUPP: Errno = Errno(95);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn names_are_unique_and_prototypes_readable() {
        let names: Vec<_> = all().map(|kfunc| kfunc.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.contains(&"scx_bpf_dsq_insert___v2") && names.contains(&"bpf_cpumask_create"));
        let btf = crate::kernel_model::build(all().map(|kfunc| kfunc.prototype));
        assert!(names.iter().all(|name| btf.find_func(name).is_some()));
    }

    /// Whether a parameter of a prototype is a pointer.
    fn declared(prototype: &str) -> Vec<Shape> {
        let inside =
            prototype.split_once('(').expect("a prototype").1.rsplit_once(')').expect("a prototype").0;
        let params = inside.split(',').map(str::trim).filter(|param| *param != "void");
        params.map(|param| if param.contains('*') { Shape::Pointer } else { Shape::Number }).collect()
    }

    #[test]
    fn functions_take_what_their_prototypes_say() {
        for kfunc in all() {
            assert_eq!((kfunc.shape)(), declared(kfunc.prototype), "{}", kfunc.prototype);
            assert_eq!(usize::from(kfunc.argument_count()), (kfunc.shape)().len(), "{}", kfunc.prototype);
        }
    }

    #[test]
    fn a_name_is_not_twice_among_the_tables() {
        let own = all().map(|kfunc| kfunc.name).chain(NOT_MODELLED.map(|(name, _)| name));
        let mut seen = BTreeSet::new();
        for name in own.chain(GenericKfunc::NAMES) {
            assert!(seen.insert(name), "{name} has one row");
        }
        assert!(NOT_MODELLED.iter().all(|(name, _)| find(name, false).is_none()));
    }

    /// That each slot stands for the right function is also seen where the engines are compared: the interpreter calls by
    /// the table.
    #[test]
    fn a_slot_is_a_function() {
        let mut slots = BTreeMap::new();
        for kfunc in all() {
            let Some(slot) = kfunc.slot else { continue };
            let asked = (kfunc.function, kfunc.price, kfunc.groups);
            assert_eq!(*slots.entry(slot).or_insert(asked), asked, "slot {slot}");
        }
        assert!(slots.keys().copied().eq(0..DIRECT_KFUNCS as u8));
        let functions: BTreeSet<&str> = slots.into_values().map(|(function, _, _)| function).collect();
        assert_eq!(functions.len(), DIRECT_KFUNCS, "a function has one slot");
        for kfunc in all() {
            assert_eq!(kfunc.slot.is_some(), functions.contains(kfunc.function), "{}", kfunc.name);
        }
    }

    #[test]
    fn prices_go_by_what_is_done() {
        let costs = Costs { kfunc_find: DurationNs(77), ..Costs::default() };
        let of = |name| find(name, false).expect("it is in the table").what.price(&costs);
        assert_eq!((of("scx_bpf_task_cpu"), of("bpf_cpumask_test_cpu")), (costs.kfunc, costs.kfunc));
        assert_eq!(
            (of("scx_bpf_dsq_insert"), of("scx_bpf_dsq_insert_vtime")),
            (costs.kfunc_insert, costs.kfunc_insert)
        );
        assert_eq!((of("bpf_task_from_pid"), of("bpf_task_release")), (costs.kfunc_find, costs.kfunc));
        assert_eq!(
            (of("scx_bpf_dsq_move_to_local___v2"), of("scx_bpf_kick_cpu")),
            (costs.kfunc_move, costs.kfunc_kick)
        );
        assert_eq!(of("bpf_rcu_read_lock"), costs.kfunc);
    }

    #[test]
    fn versions_are_read_as_numbers() {
        let since = |name: &str| own(name).and_then(|kfunc| kfunc.since);
        assert_eq!((version_of("6.9"), version_of("6.10")), ((6, 9), (6, 10)));
        assert_eq!((since("scx_bpf_now"), since("bpf_cpumask_create")), (Some((6, 14)), None));
    }
}
