//! Kernel functions: a table of name, prototype, which callbacks may call it, and what it does.
//!
//! The prototype is the only place where a function's name and arguments are written; it also becomes the function's
//! BTF. A function that is not in the table does not exist in the simulated kernel. The loader refuses an object that
//! needs it, and one that only asks for it (`bpf_ksym_exists`) is told no, as on an older kernel.

mod cid;
mod cpu;
mod cpumask;
mod css;
pub(crate) mod direct;
mod dsq;
mod exit;
mod idle;
mod iter;
mod price;
mod since;
mod task;

pub(crate) use cid::Cids;
pub(crate) use price::price;
pub(crate) use since::{absence, absences, exists_in};
pub(crate) use task::ROOT_CGROUP_ID;

use crate::args::Cx;
use crate::callbacks::OPS;
use schedlab_bpf::Fault;
#[cfg(test)]
use schedlab_bpf::args::Shape;
use schedlab_bpf::helpers::{self, GenericKfunc};
use schedlab_bpf::maps::Errno;
use schedlab_sim::{OpKind, OpsSet};

/// What a kernel function does: the program that calls it, r1 to r5; returns r0.
pub(crate) type Run = for<'a, 'v, 'k> fn(Cx<'a, 'v, 'k>, &[u64; 5]) -> Result<u64, Fault>;

/// A kernel function.
#[derive(Clone, Copy)]
pub(crate) struct Kfunc {
    /// Its C prototype, ending in a semicolon.
    pub(crate) prototype: &'static str,
    /// Groups that it belongs to; 0 is "no restriction".
    pub(crate) groups: u8,
    /// What it does.
    pub(crate) run: Run,
    /// The registers that it takes, in order.
    #[cfg(test)]
    pub(crate) shape: fn() -> Vec<Shape>,
}

/// A kernel function: the groups that it belongs to (none: it may be called from everywhere), its prototype, and the Rust
/// function whose parameters say what its arguments are.
macro_rules! kfunc {
    ($prototype:literal, $function:ident $(,)?) => {
        kfunc!(0, $prototype, $function)
    };
    ($groups:expr, $prototype:literal, $function:ident $(,)?) => {
        $crate::kfunc::Kfunc {
            prototype: $prototype,
            groups: $groups,
            run: |caller, args| caller.invoke($function, args),
            #[cfg(test)]
            shape: || $crate::kfunc::shape_of($function),
        }
    };
}
use kfunc;

#[cfg(test)]
fn shape_of<P>(function: impl schedlab_bpf::args::Function<crate::join::Join<'static>, P>) -> Vec<Shape> {
    function.shape()
}

/// Groups of context-sensitive functions (the kernel's `enum scx_kf_allow_flags`, kernel/sched/ext/ext.c, 7.3).
pub(crate) mod group {
    /// Where no run queue is locked.
    pub(crate) const UNLOCKED: u8 = 1;
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
}

/// The groups that a member of the operations may call (the kernel's `scx_kf_allow_flags[]`), by its name in either form.
fn allowed_in(member: &str) -> u8 {
    use group::{CPU_RELEASE, DISPATCH, ENQUEUE, SELECT_CPU, UNLOCKED};
    match member {
        "select_cpu" | "select_cid" | "enqueue" => SELECT_CPU | ENQUEUE,
        "dispatch" | "sub_ecaps_updated" => ENQUEUE | DISPATCH,
        "cpu_release" => CPU_RELEASE,
        "init_task" | "dump" | "sub_attach" | "sub_detach" | "init_cids" | "init" | "exit" => UNLOCKED,
        "cpu_online" | "cpu_offline" | "cid_online" | "cid_offline" => UNLOCKED,
        "cgroup_init" | "cgroup_exit" | "cgroup_prep_move" | "cgroup_cancel_move" => UNLOCKED,
        "cgroup_set_weight" | "cgroup_set_bandwidth" | "cgroup_set_idle" => UNLOCKED,
        "cpuctl_init" | "cpuctl_exit" | "cpuctl_prep_move" | "cpuctl_cancel_move" => UNLOCKED,
        "cpuctl_set_weight" | "cpuctl_set_bandwidth" | "cpuctl_set_idle" => UNLOCKED,
        _ => 0,
    }
}

/// The groups that a callback may call while it runs.
fn allowed(op: OpKind) -> u8 {
    match OPS.iter().find(|(kind, ..)| *kind == op) {
        Some((_, member, _)) => allowed_in(member),
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
    use group::{CPU_FORM, SELECT_CPU, UNLOCKED};
    let Some(own) = all().find(|kfunc| kfunc.name() == name) else { return true };
    let groups = own.groups & !CPU_FORM;
    match program {
        Program::Member(_) if cid_form && own.groups & CPU_FORM != 0 => false,
        Program::Member(member) => groups == 0 || groups & allowed_in(member) != 0,
        Program::Syscall => groups == 0 || groups & (UNLOCKED | SELECT_CPU) != 0,
        Program::Tracing => groups == 0,
    }
}

/// The callbacks of a scheduler of this form that may call the function of this name, for a message; none if no callback may.
pub(crate) fn callers_of(name: &str, cid_form: bool) -> Vec<&'static str> {
    let member = |(_, cpu, cid): &(OpKind, &'static str, &'static str)| if cid_form { *cid } else { *cpu };
    let members = OPS.iter().map(member).filter(|member| !member.is_empty());
    members.filter(|member| may_call(Program::Member(member), cid_form, name)).collect()
}

/// The callbacks that may call a function of these groups.
fn callers(groups: u8, cid_form: bool) -> OpsSet {
    if cid_form && groups & group::CPU_FORM != 0 {
        return OpsSet::EMPTY;
    }
    if groups & !group::CPU_FORM == 0 {
        return OpsSet::ALL;
    }
    let ops = OPS.iter().map(|(op, ..)| *op).chain([OpKind::Timer]);
    ops.filter(|op| groups & allowed(*op) != 0).fold(OpsSet::EMPTY, OpsSet::with)
}

impl Kfunc {
    /// The function's name: the word before the parameters.
    pub(crate) fn name(&self) -> &'static str {
        let bytes = self.prototype.as_bytes();
        let end = bytes.iter().position(|byte| *byte == b'(').unwrap_or(bytes.len());
        let blank = bytes[..end].iter().rposition(|byte| matches!(byte, b' ' | b'*'));
        &self.prototype[blank.map_or(0, |at| at + 1)..end]
    }

    /// How many arguments it takes: its parameters, of which a test says that they are those of its prototype.
    pub(crate) fn argument_count(&self) -> u8 {
        let inside = self.prototype.split_once('(').map_or("", |(_, rest)| rest);
        if inside.starts_with("void)") { 0 } else { inside.split(',').count() as u8 }
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
            Function::Own(own) => own.name(),
            Function::Generic(_, place) => GenericKfunc::NAMES[place as usize],
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

/// The kernel function of this name, for a scheduler of this form.
pub(crate) fn find(name: &str, cid_form: bool) -> Option<Callee> {
    if let Some(own) = all().find(|kfunc| kfunc.name() == name) {
        return Some(Callee { callers: callers(own.groups, cid_form), what: Function::Own(own) });
    }
    let place = GenericKfunc::NAMES.iter().position(|known| *known == name)?;
    let what = Function::Generic(GenericKfunc::from_name(name)?, place as u8);
    Some(Callee { callers: OpsSet::ALL, what })
}

/// All kernel functions of this module, in a fixed order.
pub(crate) fn all() -> impl Iterator<Item = &'static Kfunc> {
    let tables = [
        dsq::TABLE,
        idle::TABLE,
        cpu::TABLE,
        cid::TABLE,
        task::TABLE,
        exit::TABLE,
        iter::TABLE,
        css::TABLE,
        cpumask::TABLE,
    ];
    tables.into_iter().flatten()
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
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_prototypes_readable() {
        let names: Vec<_> = all().map(Kfunc::name).collect();
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
}
