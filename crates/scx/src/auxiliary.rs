//! Programs beside the scheduler's callbacks: which of them the simulated kernel runs, and which are left out.
//!
//! An iterator runs when user space reads it, a program of a perf event when a loader attaches it: neither happens here. A program
//! at a place that nothing in either arm reaches never runs, and one at an interrupt does not here. A program at another place that is not modelled is left out if it can
//! only report: it writes nothing that the scheduler reads. Anything else is refused, because the scheduler would decide without it.

use crate::callbacks::{TRACE_POINTS, traced};
use crate::programs::RunProgram;
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::object::{MapType, Object, Program, ProgramKind, Uses};

/// The kernel function that registers a scheduler. Both arms attach hooks after that, so a program there never runs in either. The
/// headers of sched_ext have one that refines a constant, whose value in the object is the safe one.
const REGISTERS: &str = "bpf_scx_reg";

/// Trace points of cgroups that no workload of either arm reaches.
const OF_CGROUPS: [&str; 5] =
    ["cgroup_release", "cgroup_rename", "cgroup_freeze", "cgroup_unfreeze", "cgroup_transfer_tasks"];

/// Trace points of interrupts that the simulated machine does not show: its own are timers, disks and those between CPUs. What a
/// scheduler would learn there it does not learn, which the warning about programs that are left out says.
const AT_INTERRUPTS: [&str; 5] =
    ["irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit", "softirq_raise"];

/// True for a program that only asks what the kernel can do: it stands where a scheduler is registered, which is over when hooks
/// are attached. Headers add one to every object, and no run is another one for it.
pub fn is_probe(program: &Program) -> bool {
    matches!(&program.kind, ProgramKind::Fentry(target) | ProgramKind::Fexit(target) if target == REGISTERS)
}

/// True for a program at an interrupt that the simulated machine does not show. What a scheduler learns there on a real kernel
/// it does not learn here.
pub fn is_at_interrupt(program: &Program) -> bool {
    match &program.kind {
        ProgramKind::TpBtf(target) | ProgramKind::RawTp(target) => AT_INTERRUPTS.contains(&target.as_str()),
        _ => false,
    }
}

/// What the kernel functions of schedulers begin with.
const DECIDES: &str = "scx_bpf_";

/// The programs that the simulator leaves out because they only report, in order of the file.
///
/// # Errors
/// A program that the simulator does not run and that may decide something.
pub fn left_out<'a>(object: &'a Object, run: &[RunProgram]) -> Result<Vec<&'a Program>, LoadError> {
    let programs = || object.programs().iter().filter(|program| program.autoload);
    let never_run = |program: &&Program| !is_run(program, run) && program.kind != ProgramKind::Syscall;
    let left: Vec<&Program> = programs().filter(never_run).collect();
    let hooks = || left.iter().filter(|program| !is_never_run(program));
    if hooks().next().is_none() {
        return Ok(left);
    }
    let running = object.programs().iter().filter(|program| is_run(program, run));
    let shared = written(object, &object.uses(running.map(|program| program.name.as_str())));
    let why = |names: &[&str]| {
        let uses = object.uses(names.iter().copied());
        let both = written(object, &uses).into_iter().find(|name| shared.contains(name));
        let calls = uses.externs.into_iter().find(|name| name.starts_with(DECIDES));
        let calls = calls.map(|name| format!("it calls {name}()"));
        calls.or_else(|| both.map(|name| format!("it shares `{name}` with the scheduler")))
    };
    let names: Vec<&str> = hooks().map(|program| program.name.as_str()).collect();
    // All at once first: one walk is enough where nothing is shared.
    if why(&names).is_some()
        && let Some((program, why)) = hooks().find_map(|program| Some((program, why(&[&program.name])?)))
    {
        return Err(refused(program, &why));
    }
    Ok(left)
}

/// The programs that are not loaded: those that are left out, and those that run on request and are not asked for.
///
/// # Errors
/// As of [`left_out`].
pub(crate) fn not_run<'a>(object: &'a Object, run: &[RunProgram]) -> Result<Vec<&'a Program>, LoadError> {
    let on_request = object.programs().iter().filter(|program| program.kind == ProgramKind::Syscall);
    Ok(on_request.filter(|program| !is_run(program, run)).chain(left_out(object, run)?).collect())
}

/// True for a program that nothing runs in either arm, whatever it does, and for one at an interrupt.
fn is_never_run(program: &Program) -> bool {
    let by_kind = match &program.kind {
        ProgramKind::Iter(_) | ProgramKind::PerfEvent => true,
        ProgramKind::TpBtf(target) | ProgramKind::RawTp(target) => OF_CGROUPS.contains(&target.as_str()),
        _ => false,
    };
    by_kind || is_probe(program) || is_at_interrupt(program)
}

/// True for a program that something runs here.
fn is_run(program: &Program, run: &[RunProgram]) -> bool {
    match &program.kind {
        ProgramKind::StructOps(_) => true,
        ProgramKind::Syscall => run.iter().any(|wanted| wanted.name == program.name),
        kind => traced(kind).is_some(),
    }
}

/// What of this a program may write that another reads: no constants, and no buffers that only user space reads.
fn written(object: &Object, uses: &Uses) -> Vec<String> {
    let variable = |name: &&String| object.variable(name).is_none_or(|v| !v.section.starts_with(".rodata"));
    let buffer = |kind: MapType| [MapType::RINGBUF, MapType::PERF_EVENT_ARRAY].contains(&kind);
    let map = |name: &&String| !object.maps().iter().any(|map| map.name == **name && buffer(map.map_type));
    let variables = uses.variables.iter().filter(|name| !name.starts_with(".rodata")).filter(variable);
    variables.chain(uses.maps.iter().filter(map)).cloned().collect()
}

fn refused(program: &Program, why: &str) -> LoadError {
    let known: Vec<&str> = TRACE_POINTS.iter().map(|(_, name)| *name).collect();
    let problem = match &program.kind {
        ProgramKind::TpBtf(target) | ProgramKind::RawTp(target) => {
            format!("trace point `{target}` is not modelled, and the program may decide something: {why}")
        }
        _ => format!("`{}` is not modelled, and the program may decide something: {why}", program.section),
    };
    LoadError::new(
        LoadErrorKind::Unsupported,
        format!("program `{}`", program.name),
        problem,
        format!("modelled are trace points: {}", known.join(", ")),
    )
}
