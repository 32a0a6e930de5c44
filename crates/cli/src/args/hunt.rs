//! Arguments of `hunt`.

use super::{SandboxArgs, some_time, up_to};
use clap::{Args, ValueHint};
use schedlab_base::DurationNs;
use schedlab_lab::hunt::Property;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

/// Arguments of `hunt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab hunt -s ./mine.bpf.o --budget 10m --cases finds
  schedlab hunt -s ./mine.bpf.o --property stall --property lost --first
  schedlab hunt -s ./mine.bpf.o --property 'wakeup_latency_ns_p99 > 50ms && cpu_busy_fraction < 0.5'
  schedlab hunt -s ./new.bpf.o,./old.bpf.o --property 'context_switches > 2 * old.context_switches'
  schedlab hunt -s ./new.bpf.o,./old.bpf.o            what the new one shows and the old one does not
  schedlab hunt -s 'exec:./scx_mine --slice-us 5000' --runs 500
  schedlab sim --case finds/mine.bpf.o-starved-7.toml   the same run again

Properties: starved (a task ran nothing or far too little), idle-beside (CPUs idled while tasks waited that they may run), \
affinity (a task on a CPU that it may not use), lost (a task that waited while all its CPUs idled), stall (the scheduler was \
ejected), inversion (a task of low weight got far more of what it wanted than one of high weight), worse (with two schedulers: less \
than 80 % of the CPU time for the tasks, with three seeds). A condition names metrics and counters of a run, cpus, tasks, \
duration_ns, work_ns and ejected; with two schedulers old.NAME is the older one's figure.

Cases are random at first: tasks, CPUs, ticks, tunables, changes of nice values and affinity, CPUs that leave and return, \
schedulers that are attached late. A case that takes a callback through its program in a new way is kept, and further cases are made \
of it. A find is made smaller as long as it shows the same.

With --runs and without --budget the same command finds the same. Exit code 1 where something was found, 0 where not.")]
pub(crate) struct HuntArgs {
    /// Scheduler, and perhaps the one that it is compared with: shipped names, NAME+swap, object files (*.bpf.o), exec:COMMAND (its
    /// own loader), or eevdf; NAME[VAR=VALUE,..] sets tunables, which are not changed then
    #[arg(short, long = "schedulers", alias = "scheduler", value_name = "NEW[,OLD]", required = true)]
    pub(crate) schedulers: Vec<String>,
    /// Look for this alone: a property's name, or a condition on a run's figures; may be given several times [default: all that
    /// apply]
    #[arg(long = "property", value_name = "NAME|CONDITION")]
    pub(crate) properties: Vec<Property>,
    /// Host time of the search (30s, 10m) [default: 1m without --runs, else no limit]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) budget: Option<DurationNs>,
    /// Cases that are tried at most [default: as many as the budget allows]
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<NonZeroU64>,
    /// End with the first find, instead of one for each property
    #[arg(long)]
    pub(crate) first: bool,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Parallel runs [default: CPUs of the host]; what is found does not depend on it
    #[arg(short, long, value_name = "N", value_parser = up_to::<1024>)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Kernel of the machines: a version (6.12) or a distribution's, as in `schedlab list kernels` [default: the newest]
    #[arg(long, value_name = "NAME|VERSION")]
    pub(crate) kernel: Option<String>,
    /// Keep each find in DIR: a case that `schedlab sim --case` runs again, and a text about what happened
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Results")]
    pub(crate) cases: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}
