//! The record of one finished run: what every report is made of.

use crate::distribution::Distribution;
use crate::group::GroupRecord;
use crate::priority::PriorityCourse;
use crate::timeline::Timeline;
use crate::wait_record::WaitRecord;
use crate::waits::Waits;
use crate::warnings::Warning;
use schedlab_base::{CpuId, DurationNs, Metric, TimeNs};

/// Where a run took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The simulator.
    Sim,
    /// This machine's kernel.
    Host,
    /// A real kernel in a virtual machine.
    Vm,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 3] = [Backend::Sim, Backend::Host, Backend::Vm];

    /// The name in results: `sim`, `host` or `vm`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Sim => "sim",
            Backend::Host => "host",
            Backend::Vm => "vm",
        }
    }
}

/// One counter of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// What it came to.
    pub value: u64,
    /// What it counts; empty where that is not said.
    pub meaning: String,
}

/// How the scheduler left, in the kernel's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitKind {
    /// It stayed to the end and was unloaded.
    #[default]
    None,
    /// `SCX_EXIT_DONE`.
    Done,
    /// `SCX_EXIT_UNREG`: unloaded from outside.
    Unreg,
    /// `SCX_EXIT_UNREG_BPF`: the scheduler asked for it (`scx_bpf_exit`).
    UnregBpf,
    /// `SCX_EXIT_UNREG_KERN`: the kernel asked for it (hotplug).
    UnregKern,
    /// `SCX_EXIT_SYSRQ`.
    Sysrq,
    /// `SCX_EXIT_PARENT`: the scheduler above it leaves.
    Parent,
    /// `SCX_EXIT_PARENT_KILL`: the scheduler above it has thrown it out.
    ParentKill,
    /// `SCX_EXIT_ERROR`: a runtime error such as a bad dispatch or a BPF fault.
    Error,
    /// `SCX_EXIT_ERROR_BPF`: the scheduler called `scx_bpf_error`.
    ErrorBpf,
    /// `SCX_EXIT_ERROR_STALL`: the watchdog found a starved task.
    ErrorStall,
    /// `SCX_EXIT_ERROR_REENQ`: a task was re-enqueued too often without running.
    ErrorReenq,
    /// `SCX_EXIT_ERROR_RESCUE`: it used too much time for tasks that were on no CPU of its own.
    ErrorRescue,
}

impl ExitKind {
    /// All of them.
    pub const ALL: [ExitKind; 13] = {
        use ExitKind::*;
        [
            None,
            Done,
            Unreg,
            UnregBpf,
            UnregKern,
            Sysrq,
            Parent,
            ParentKill,
            Error,
            ErrorBpf,
            ErrorStall,
            ErrorReenq,
            ErrorRescue,
        ]
    };

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            ExitKind::None => "none",
            ExitKind::Done => "done",
            ExitKind::Unreg => "unreg",
            ExitKind::UnregBpf => "unreg_bpf",
            ExitKind::UnregKern => "unreg_kern",
            ExitKind::Sysrq => "sysrq",
            ExitKind::Parent => "parent",
            ExitKind::ParentKill => "parent_kill",
            ExitKind::Error => "error",
            ExitKind::ErrorBpf => "error_bpf",
            ExitKind::ErrorStall => "error_stall",
            ExitKind::ErrorReenq => "error_reenq",
            ExitKind::ErrorRescue => "error_rescue",
        }
    }

    /// The kernel's number (`enum scx_exit_kind`), 0 to 1028.
    pub fn code(self) -> u64 {
        match self {
            ExitKind::None => 0,
            ExitKind::Done => 1,
            ExitKind::Unreg => 64,
            ExitKind::UnregBpf => 65,
            ExitKind::UnregKern => 66,
            ExitKind::Sysrq => 67,
            ExitKind::Parent => 68,
            ExitKind::ParentKill => 69,
            ExitKind::Error => 1024,
            ExitKind::ErrorBpf => 1025,
            ExitKind::ErrorStall => 1026,
            ExitKind::ErrorReenq => 1027,
            ExitKind::ErrorRescue => 1028,
        }
    }

    /// The kind of a kernel number, if known.
    pub fn from_code(code: u64) -> Option<ExitKind> {
        ExitKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// True when the kernel threw the scheduler out for a fault of its own.
    pub fn is_ejection(self) -> bool {
        self.code() >= 1024
    }
}

/// How the scheduler left, with its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitRecord {
    /// The kind.
    pub kind: ExitKind,
    /// The kernel's reason for the kind, or empty.
    pub reason: String,
    /// The message of the error, or empty.
    pub message: String,
    /// The debug dump, or empty.
    pub dump: String,
    /// When it left, since the run began; nothing where it stayed to the end. Simulated runs know it exactly, real
    /// ones as often as they look, some ten times a second.
    pub after: Option<DurationNs>,
}

/// A sub-scheduler that was to be attached to a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubRecord {
    /// The group, from below the root.
    pub group: String,
    /// The scheduler, as the user named it.
    pub scheduler: String,
    /// Why it was not attached: the kernel's errno. Nothing if the attempt was made.
    pub refused: Option<i32>,
    /// How it left.
    pub exit: ExitRecord,
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// Its name in the workload.
    pub name: String,
    /// Its nice value.
    pub nice: i32,
    /// CPU time it got.
    pub cpu_time: DurationNs,
    /// CPU time over the run's length (one CPU is 1.0).
    pub share: f64,
    /// Times it was switched to.
    pub switches: u64,
    /// Times it changed its CPU.
    pub migrations: u64,
}

/// The workload of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadRecord {
    /// Its name.
    pub name: String,
    /// Effective parameters in display order.
    pub params: Vec<(String, String)>,
}

/// Samples that a workload reports one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: &'static str,
    /// The samples in the order in which they were taken.
    pub values: Vec<f64>,
}

/// What a scheduler has left for people to read: an array of structures in its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerTable {
    /// The name of the array.
    pub name: String,
    /// What it shows.
    pub meaning: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows, cell by cell: numbers and names.
    pub rows: Vec<Vec<String>>,
}

/// A line that a scheduler printed with `bpf_printk()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedLine {
    /// When, since the run began; 0 for what was printed before.
    pub time: TimeNs,
    /// Where.
    pub cpu: CpuId,
    /// The current task there; empty for the idle task.
    pub task: String,
    /// The line without its end.
    pub text: String,
}

/// What a scheduler printed: the first lines, since a flood of them is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The first lines, in the order in which they were printed.
    pub lines: Vec<PrintedLine>,
    /// How many further lines were printed.
    pub left_out: u64,
}

/// What the calls of one of a scheduler's callbacks cost in a simulated run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackCost {
    /// The member of `struct sched_ext_ops`; `timer` for functions of BPF timers, `tracing` for programs at trace points.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// BPF instructions, with what helpers and kernel functions count as instructions; a real kernel does not say.
    pub insns: Option<u64>,
    /// Time that passed inside of it: its instructions, the kernel functions it calls, locks it waits for.
    pub time: DurationNs,
}

/// What a run was made of: hashes (SHA-256) of contents, not of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Of the bytes of the scheduler's object; nothing for the kernel's own class.
    pub object: Option<String>,
    /// Of the workload: tasks, programs, parameters and seed applied.
    pub workload: Option<String>,
    /// Of the machine description; nothing for a real one.
    pub machine: Option<String>,
    /// Version and hash of the command that made the run.
    pub build: Option<String>,
    /// The mechanisms of the kernel that the workload uses, in alphabetical order; nothing where that is not known.
    pub mechanisms: Option<Vec<String>>,
    /// Callbacks that were paused in the middle while other CPUs continued; nothing where none was to be.
    pub pauses: Option<u64>,
}

/// What is known of a real kernel's figures where a simulated run has its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Validation {
    /// Nothing, for this reason.
    None(String),
    /// Intervals that hold most of the kernel's figures.
    Intervals {
        /// The kernel that was measured: `linux-7.3.4`.
        kernel: String,
        /// How many percent of the kernel's figures they hold.
        coverage_percent: f64,
        /// How many real figures of each kind they are made of.
        measured: usize,
        /// Under how many workloads.
        workloads: usize,
        /// Metric, lower and upper end in the metric's unit.
        intervals: Vec<(String, [f64; 2])>,
    },
}

/// The rest of a run whose scheduler was ejected, under the kernel's own class.
#[derive(Clone, Debug, PartialEq)]
pub struct AfterEjection {
    /// How long it took.
    pub duration: DurationNs,
    /// Metrics of this part alone.
    pub metrics: Vec<Metric>,
    /// Tasks in this part alone.
    pub tasks: Vec<TaskRecord>,
}

/// One finished run, simulated or real.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Scheduler as the user named it.
    pub scheduler: String,
    /// Settings of tunables, in the order given.
    pub settings: Vec<(String, String)>,
    /// What ran.
    pub workload: WorkloadRecord,
    /// Machine name.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// The seed.
    pub seed: u64,
    /// Where it ran.
    pub backend: Backend,
    /// How long it took, on its own clock.
    pub duration: DurationNs,
    /// What is known of the real kernel's figures; nothing for a run on one.
    pub validation: Option<Validation>,
    /// How the scheduler left.
    pub exit: ExitRecord,
    /// The workload's metrics, then the common ones.
    pub metrics: Vec<Metric>,
    /// The whole distributions of the latencies whose percentiles are metrics, by their names without percentile.
    pub histograms: Vec<(String, Distribution)>,
    /// What the workload reports sample by sample.
    pub series: Vec<Series>,
    /// The scheduler's own counters in name order, then the kernel's of unusual events.
    pub counters: Vec<Counter>,
    /// The tables that the scheduler has left, in order of name, without those that are empty.
    pub tables: Vec<SchedulerTable>,
    /// What the scheduler printed.
    pub printed: Printed,
    /// What the program that loaded the scheduler wrote, where it has one of its own; the last MiB of it.
    pub loader_output: String,
    /// What the scheduler's callbacks cost, those that were called; nothing in real runs.
    pub callbacks: Vec<CallbackCost>,
    /// The tasks that existed at the start, in order; forked ones are summed up in
    /// one record named `(forked)` when there are any.
    pub tasks: Vec<TaskRecord>,
    /// The groups of the workload (cgroup v2), parents first.
    pub groups: Vec<GroupRecord>,
    /// The sub-schedulers that were to be attached, in the order in which they were named.
    pub subs: Vec<SubRecord>,
    /// How long tasks waited for a CPU: all, then by group, process and task. Empty where it was not
    /// looked at.
    pub task_waits: Vec<WaitRecord>,
    /// What the figures alone do not tell.
    pub warnings: Vec<Warning>,
    /// The rest of the run after an ejection, where the run continued. All other figures are of the part before.
    pub after_ejection: Option<AfterEjection>,
    /// What the run was made of.
    pub provenance: Provenance,
    /// The hash of the trace; only simulations have one.
    pub trace_hash: Option<String>,
    /// How the priorities of the first tasks went, in order of the tasks; where it was asked for and the scheduler
    /// shows them.
    pub priorities: Vec<PriorityCourse>,
    /// Which task ran where in a window of the run, where it was asked for.
    pub timeline: Option<Timeline>,
    /// Which task waited for which, where it was asked for.
    pub waits: Option<Waits>,
}

impl RunRecord {
    /// The value of the metric `name`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }

    /// The distribution of the latency `name`: `run_delay_ns`.
    pub fn histogram(&self, name: &str) -> Option<&Distribution> {
        self.histograms.iter().find(|(known, _)| known == name).map(|(_, distribution)| distribution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_round_trip() {
        let codes = [0, 1, 64, 65, 66, 67, 68, 69, 1024, 1025, 1026, 1027, 1028];
        assert_eq!(ExitKind::ALL.map(ExitKind::code), codes);
        assert!(codes.into_iter().all(|code| ExitKind::from_code(code).unwrap().code() == code));
        assert_eq!(ExitKind::from_code(5), None);
    }
}
