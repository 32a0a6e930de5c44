//! Arguments of the commands that make one run: `sim` and `run`, and what other commands share with them.

use super::{HostArgs, RecordArgs, ResultArgs, some_time};
use clap::{Args, ValueEnum, ValueHint};
use schedlab_base::{DurationNs, TimedSetting};
use schedlab_bpf::memory::{DEFAULT_GUEST_MEMORY, GUEST_LIMIT};
use schedlab_lab::failure::Failure;
use schedlab_lab::scheduler::subs;
use schedlab_scx::{RunProgram, TimedProgram};
use schedlab_trace::Window;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

/// What happens when a scheduler is ejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterEjection {
    /// The run ends.
    #[default]
    Stop,
    /// The kernel's own class takes over; figures from before and after stand apart.
    Continue,
}

/// What the layer SWAP is for.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SwapArgs {
    /// Only waits of these types: pipe, socket, sysv-sem, futex, poll, ... (all: see docs/swap.md)
    #[arg(long = "swap-types", value_name = "LIST", value_delimiter = ',', help_heading = "SWAP")]
    pub(crate) types: Vec<String>,
    /// Leave tasks with these names (comm) alone
    #[arg(long = "swap-exclude", value_name = "COMM,..", value_delimiter = ',', help_heading = "SWAP")]
    pub(crate) exclude: Vec<String>,
}

/// What a scheduler's user space does during a run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MeanwhileArgs {
    /// Change a tunable while it runs: TIME:VAR=VALUE (2s:compute=1)
    #[arg(long = "set-at", value_name = "TIME:VAR=VALUE", help_heading = "During the run")]
    pub(crate) changes: Vec<TimedSetting>,
    /// Run a program of the object (SEC("syscall")) while the scheduler is attached; HEX is its context
    #[arg(long = "run-prog-at", value_name = "TIME:NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse_timed, help_heading = "During the run", hide = true)]
    pub(crate) timed_programs: Vec<TimedProgram>,
    /// Attach the scheduler this long after the run began: tasks exist before it (500ms, 2s)
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "During the run")]
    pub(crate) attach_at: Option<DurationNs>,
    /// Detach the scheduler this long after the run began; the run continues under the kernel's own class
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "During the run")]
    pub(crate) detach_at: Option<DurationNs>,
}

/// Schedulers below that of `-s`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SubArgs {
    /// Also attach a sub-scheduler to this group (cgroup) of the workload, below the scheduler of -s: both are objects of the cid form.
    /// GROUP@TIME attaches it later in the run. Give the option once for each
    #[arg(long, value_name = "GROUP[@TIME]=NAME|FILE", conflicts_with_all = ["attach_at", "detach_at"], help_heading = "During the run")]
    pub(crate) sub: Vec<String>,
}

impl SubArgs {
    /// Their names and paths.
    ///
    /// # Errors
    /// A value of another form.
    pub(crate) fn names(&self) -> Result<Vec<String>, Failure> {
        self.sub.iter().map(|text| Ok(subs::parts(text)?.2.to_string())).collect()
    }
}

/// What is simulated.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// Machine: NAME or FILE.toml
    #[arg(short, long, value_name = "NAME|FILE", default_value = schedlab_lab::shipped::DEFAULT_MACHINE)]
    pub(crate) machine: String,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// End a run after this much of its own time (500ms, 2s) [default: the workload's end]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<DurationNs>,
    /// When the scheduler leaves before the end: stop, or continue under the kernel's own class (simulated runs)
    #[arg(
        long,
        value_name = "stop|continue",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "During the run"
    )]
    pub(crate) after_ejection: AfterEjection,
    /// Set a scheduler's tunable: VAR=VALUE, or SCHEDULER:VAR=VALUE for one of several
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Run a program of the object before the scheduler is attached, as its loader would (SEC("syscall")); HEX is its context
    #[arg(long = "run-prog", value_name = "NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse, hide = true)]
    pub(crate) programs: Vec<RunProgram>,
    /// How the scheduler's programs are executed: compiled, or interpreted (slower, the same results)
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value_t,
        hide_possible_values = true,
        hide = true
    )]
    pub(crate) engine: EngineKind,
    /// Memory that an object may use for its maps, its arena and the kernel objects that it makes: 64M, 2G
    #[arg(long, value_name = "SIZE", default_value_t, help_heading = "Host")]
    pub(crate) guest_memory: GuestMemory,
    #[command(flatten)]
    pub(crate) swap: SwapArgs,
}

/// How programs are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// Interpreted at first, and compiled as soon as interpreting has cost what compiling does
    #[default]
    Auto,
    /// Compiled to machine code from the start; interpreted where the host forbids that
    Compiled,
    /// Interpreted: slower, and nothing that an object contains becomes machine code
    Interpreted,
}

/// Bytes of guest memory, at most [`GUEST_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuestMemory(pub(crate) u64);

impl Default for GuestMemory {
    fn default() -> GuestMemory {
        GuestMemory(DEFAULT_GUEST_MEMORY)
    }
}

impl fmt::Display for GuestMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}M", self.0 >> 20)
    }
}

impl FromStr for GuestMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<GuestMemory, String> {
        let (number, shift) = match text.char_indices().next_back() {
            Some((at, 'K' | 'k')) => (&text[..at], 10),
            Some((at, 'M' | 'm')) => (&text[..at], 20),
            Some((at, 'G' | 'g')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let number: Option<u64> = number.parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << shift));
        match bytes.filter(|bytes| (1 << 20..=GUEST_LIMIT).contains(bytes)) {
            Some(bytes) => Ok(GuestMemory(bytes)),
            None => Err(format!("give a size from 1M to {}G, as in 64M or 2G", GUEST_LIMIT >> 30)),
        }
    }
}

/// What a run reports of each task and switch.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// One line per stretch of a task on a CPU, in the form of `perf sched timehist`. Each has the end and length of the
    /// stretch, and how long the task had been away and had waited since its wakeup. Without FILE it goes to standard output,
    /// instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 0..=1, default_missing_value = "-", help_heading = "Views")]
    pub(crate) timehist: Option<PathBuf>,
    /// A table of the tasks as `perf sched latency` prints it: how long each waited for a CPU, on average and at most, and when
    #[arg(long, help_heading = "Views")]
    pub(crate) latency: bool,
}

/// Arguments of `sim`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab sim -s o1 -w chat:rooms=10,messages=50 -c 8
  schedlab sim -s vanilla --set profile=tsss -w cpuhog:ntasks=2,nice=0/5 -c 1 --duration 10s
  schedlab sim -s ./mine.bpf.o -w reflex -m p3-700 --perfetto trace.pftrace
  schedlab sim -s o1 -w chat -c 2 --timehist | less         every switch, like perf sched timehist
  schedlab sim -s eevdf -w mkbench -c 4 --json - | jq '.runs[0].metrics'

The same command with the same seed gives the same bytes on every host. A scheduler that is \
ejected (stall, bad dispatch, BPF error) ends with exit code 4 and its exit kind.")]
pub(crate) struct SimArgs {
    /// Scheduler: a shipped name, NAME+swap, an object file (*.bpf.o, FILE#NAME for one of several schedulers, or a program with one), exec:COMMAND (its own loader), or eevdf; NAME[VAR=VALUE,..] sets tunables
    #[arg(short, long, value_name = "NAME|FILE", required_unless_present = "case")]
    pub(crate) scheduler: Option<String>,
    /// Workload: NAME[:key=value,...], an rt-app file (*.json; a.json+b.json are put together) or a workload file of schedlab (*.toml)
    #[arg(short, long, value_name = "NAME[:k=v,..]|FILE", required_unless_present = "case")]
    pub(crate) workload: Option<String>,
    /// A case that `schedlab hunt` kept: workload, machine, seed, settings and scheduler, unless -s names another one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["workload", "machine", "cpus", "kernel", "seed", "duration", "settings", "attach_at", "detach_at", "sub"])]
    pub(crate) case: Option<PathBuf>,
    /// Number of CPUs [default: the machine's]
    #[arg(short, long, value_name = "N")]
    pub(crate) cpus: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    /// Kernel of the machine, instead of its own: a version (6.12) or a distribution's, as in `schedlab list kernels`
    #[arg(long, value_name = "NAME|VERSION")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// A trace for ui.perfetto.dev, written while it runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    /// The part of the run whose CPUs --html draws over time (10ms..25ms); as much of it as a page takes
    #[arg(
        long,
        value_name = "FROM..TO",
        default_value = "..",
        requires = "html",
        hide_default_value = true,
        help_heading = "Views"
    )]
    pub(crate) timeline: Window,
    /// A picture (SVG) of the tasks' priorities over time, if the scheduler shows them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Views")]
    pub(crate) priorities: Option<PathBuf>,
    /// Also report which task waited for which, through what, and how much of it was priority
    /// inversion
    #[arg(long, help_heading = "Views")]
    pub(crate) explain_waits: bool,
    /// Also report which cache lines of the scheduler's memory moved between CPUs, and which lines of its source moved them, on
    /// machines that price moved lines
    #[arg(long, help_heading = "Views")]
    pub(crate) profile_lines: bool,
    /// One line per pass through schedule(), as CSV for `schedlab sched-samples`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Views")]
    pub(crate) sched_samples: Option<PathBuf>,
    /// Mark the samples in which this counter of the scheduler rises (vanilla: nr_recalcs)
    #[arg(long, value_name = "COUNTER", requires = "sched_samples", help_heading = "Views")]
    pub(crate) sched_mark: Option<String>,
    #[command(flatten)]
    pub(crate) meanwhile: MeanwhileArgs,
    #[command(flatten)]
    pub(crate) subs: SubArgs,
    /// Give variables what the scheduler's loader wrote into them: a file of bpftool map dump -j; --set goes before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide = true)]
    pub(crate) state: Option<PathBuf>,
    /// Pause callbacks in the middle, before accesses to what CPUs share, so that other CPUs continue meanwhile. This seed decides
    /// which callbacks pause, and where. Programs are interpreted
    #[arg(long, value_name = "SEED", help_heading = "During the run")]
    pub(crate) interleave: Option<u64>,
    /// Check the simulated kernel's invariants after every event (slow): a broken one stops the command
    #[arg(long, help_heading = "Host")]
    pub(crate) checkers: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// What a virtual machine is like, of the commands that run workloads in one (`--vm`).
#[derive(Clone, Debug, Args)]
pub(crate) struct VmArgs {
    /// The VM's kernel: a version (6.18, 7.3.4) or a release (debian-sid) of `list kernels`, fetched once and kept, or a bzImage's path. Of
    /// simulated comparisons it is the machine's [default: the distribution's newest]
    #[arg(long, value_name = "NAME|VERSION|PATH", value_hint = ValueHint::FilePath, help_heading = "Virtual machine")]
    pub(crate) kernel: Option<PathBuf>,
    /// Guest time counts instructions, NS nanoseconds each (1, 2, 4 ... 1024): the same on a busy host
    #[arg(long, value_name = "NS", requires = "vm", num_args = 0..=1, require_equals = true, default_missing_value = "8", help_heading = "Virtual machine")]
    pub(crate) icount: Option<InstructionTime>,
    /// Boot the VM for each run, instead of starting from the saved state of an earlier boot
    #[arg(long, requires = "vm", help_heading = "Virtual machine")]
    pub(crate) no_snapshot: bool,
    /// Longest time for a run in the VM, boot not included
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "vm", value_parser = some_time, help_heading = "Virtual machine")]
    pub(crate) timeout: DurationNs,
}

/// Time of an instruction in a VM: this power of two, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstructionTime(pub(crate) u8);

impl std::str::FromStr for InstructionTime {
    type Err = String;

    fn from_str(text: &str) -> Result<InstructionTime, String> {
        let shifts = 0..=10;
        let known = shifts.into_iter().find(|shift| text == (1_u32 << shift).to_string());
        known.map(InstructionTime).ok_or_else(|| "a power of two from 1 to 1024 is wanted".to_string())
    }
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["workload", "command"]),
    after_help = "\
Examples:
  sudo schedlab run -s o1 -w chat:rooms=2,messages=20
  sudo schedlab run -s ./mine.bpf.o -- make -j8
  schedlab run --vm -s o1 -w chat:rooms=2,messages=20 --json result.json
  schedlab run --vm -s o1 --with sh,make,gcc,./src -- make -C src -j2
  schedlab run --vm --icount -c 1 -s ule -w cpuhog:ntasks=2,nice=0/5,ttime=20s

On the host it needs root and a kernel with sched_ext; whatever happens, the machine is back under \
its own scheduler afterwards. With --vm a stock kernel from the distribution's package archive (kept \
in the cache, fetched once) boots in QEMU with this command as its only program."
)]
pub(crate) struct RunArgs {
    /// Scheduler: a shipped name, NAME+swap, an object file (*.bpf.o, FILE#NAME for one of several schedulers, or a program that carries one), or eevdf; NAME[VAR=VALUE,..] sets tunables
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) scheduler: String,
    /// Workload: NAME[:key=value,...], an rt-app file (*.json) or a workload file of schedlab (*.toml)
    #[arg(short, long, value_name = "NAME[:k=v,..]|FILE")]
    pub(crate) workload: Option<String>,
    /// In a virtual machine
    #[arg(long)]
    pub(crate) vm: bool,
    #[command(flatten)]
    pub(crate) machine: VmArgs,
    /// Number of CPUs of the VM [default: 2]
    #[arg(short, long, value_name = "N")]
    pub(crate) cpus: Option<NonZeroUsize>,
    /// Seed of the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// End the run after this long (500ms, 2s) [default: the workload's end]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<DurationNs>,
    /// When the scheduler leaves before the end: stop; continue is refused here, and works in sim and compare
    #[arg(
        long,
        value_name = "stop|continue",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "During the run"
    )]
    pub(crate) after_ejection: AfterEjection,
    /// Set a tunable of the scheduler: VAR=VALUE
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    #[command(flatten)]
    pub(crate) swap: SwapArgs,
    /// Give variables what the scheduler's loader wrote into them: a file of bpftool map dump -j; --set goes before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide = true)]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) meanwhile: MeanwhileArgs,
    #[command(flatten)]
    pub(crate) subs: SubArgs,
    /// Run a program of the object before the scheduler is attached, as its loader would (SEC("syscall")); HEX is its context
    #[arg(long = "run-prog", value_name = "NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse, hide = true)]
    pub(crate) programs: Vec<RunProgram>,
    /// Also report which task waited for which, through what, and how much of it was priority
    /// inversion
    #[arg(long, help_heading = "Views")]
    pub(crate) explain_waits: bool,
    /// Also report how often each callback of the scheduler was called, and how long it took; counting adds two clock reads
    /// to each call
    #[arg(long, help_heading = "Views")]
    pub(crate) callbacks: bool,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// Command to run under the scheduler; into a VM go its program, with libraries or interpreter, the files that its
    /// arguments name, and the tools that a shell's script calls
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Programs, files and directories that go into the VM beside the command
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires_all = ["vm", "command"], conflicts_with = "workload", help_heading = "A command")]
    pub(crate) with: Vec<String>,
    /// Runs of the command before the one that counts; their output is discarded
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        conflicts_with = "workload",
        help_heading = "A command"
    )]
    pub(crate) warmup: usize,
    /// This is the guest of a VM
    #[arg(long, hide = true)]
    pub(crate) as_guest: bool,
    /// Where the command's output goes
    #[arg(long, hide = true, requires = "command")]
    pub(crate) command_output: Option<PathBuf>,
}
