//! Arguments of the commands that compare the simulator with a machine: its prices, and the distance of figures.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueHint, value_parser};
use schedlab_base::DurationNs;
use schedlab_live::calibrate::TRIES;

use super::{SandboxArgs, VmArgs, some_time, up_to};
use crate::cpu_counts::CpuCounts;
use schedlab_lab::machine::host::HOST;

/// Arguments of `fidelity`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab fidelity --vm                                  the schedulers and workloads of the book's table
  schedlab fidelity --vm -s eevdf,o1 -w pipe:loops=5000 -c 1,2
  schedlab fidelity --vm -s ./mine.bpf.o -o mine.json     your scheduler; every cell as data
  schedlab calibrate --host && schedlab fidelity --host -s eevdf
  schedlab fidelity --vm --keep real.json                 keeps the real runs, an ordinary file of results
  schedlab fidelity --real real.json -m mine.toml         simulates the kept runs again and compares
  schedlab fidelity --show fidelity/linux-7.3.json        the tables of an earlier measurement
  schedlab fidelity --show fidelity/linux-7.3.json --html page.html   the same as pictures

Runs the same objects under the same workloads in the simulator and on a real kernel, and reports the difference of every \
figure beside the spread of the real runs. The simulated machine must be the real one: with --vm it is `vm-icount`, \
whose prices were measured in that VM, on this machine give a file of yours with -m. Errors are of the mean of the real \
runs, in percent; of CPU shares, of the task that differs most, in percentage points. A VM that counts instructions \
needs some five seconds of the host for a busy second of the guest.")]
pub(crate) struct FidelityArgs {
    /// Print the tables of an earlier measurement
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["Measured", "VmArgs"])]
    pub(crate) show: Option<PathBuf>,
    /// Judge every pair of schedulers under every workload in both arms: which is better, and does the simulator say what the
    /// kernel says? With -v each pair of which it does not
    #[arg(long)]
    pub(crate) verdicts: bool,
    /// The verdicts as JSON, one entry per pair; `-` writes them to standard output instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "verdicts", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Verdicts and figures of both arms as one self-contained page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) measured: Measured,
    #[command(flatten)]
    pub(crate) vm_args: VmArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// What `fidelity` measures: `--show` leaves no use for any of it.
#[derive(Debug, Args)]
pub(crate) struct Measured {
    /// Schedulers: shipped names, object files (*.bpf.o), eevdf [default: all shipped ones]
    #[arg(short, long = "schedulers", alias = "scheduler", value_name = "A,B,..")]
    pub(crate) schedulers: Vec<String>,
    /// Workload: NAME[:key=value,...] or a file, several times [default: eight of the book's table and 13 probes]
    #[arg(short, long = "workload", value_name = "NAME[:k=v,..]|FILE")]
    pub(crate) workloads: Vec<String>,
    /// Numbers of CPUs, as in 1,2-4 [default: 1]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cpus: Vec<CpuCounts>,
    /// Repetitions of each run in both arms: simulated with another seed, real at another phase of its timers
    #[arg(long, value_name = "N", default_value = "3", value_parser = up_to::<1_000>)]
    pub(crate) phases: NonZeroUsize,
    /// The simulated machine, which must match the real one [default: vm-icount; with --host, this one as `schedlab calibrate
    /// --host` has measured it]
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// End each run after this long (500ms, 2s) [default: the workload's end]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<DurationNs>,
    /// The real arm is a virtual machine, booted once for each number of CPUs; it counts instructions, 1 ns each, unless
    /// --icount says otherwise
    #[arg(long, required_unless_present_any = ["host", "real", "show"])]
    pub(crate) vm: bool,
    /// The real arm is this machine's kernel (root)
    #[arg(long, conflicts_with_all = ["vm", "cpus"])]
    pub(crate) host: bool,
    /// The real arm's runs are in this file of results; nothing is run on a kernel. Can be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["vm", "host", "keep"])]
    pub(crate) real: Vec<PathBuf>,
    /// Write the real arm's runs as results
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keep: Option<PathBuf>,
    /// Write every cell as JSON, as in the folder `fidelity` of the sources
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

impl FidelityArgs {
    /// The simulated machine: that of the real arm, where none is named.
    pub(crate) fn simulated(&self) -> &str {
        self.measured.machine.as_deref().unwrap_or(if self.measured.host { HOST } else { "vm-icount" })
    }
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab calibrate                   this machine; -m host has its prices from then on
  schedlab calibrate -o mine.toml      the same as a file
  schedlab calibrate --vm              the VM of `schedlab fidelity`, on standard output

Reads what the kernel tells (tick, preemption, HRTICK, topology, mitigations). The rest is measured: loops of one or two tasks run under \
the kernel's own scheduler, three times, for some seconds. Nothing is loaded, root is not needed. Each price is written with its source \
and its spread. Prices that no such loop shows (of BPF programs, locks, caches) keep their assumed value, with the reason. So do prices \
on which the tries do not agree, more than 50 ns and 30 % apart: calibrate while nothing else runs.")]
pub(crate) struct CalibrateArgs {
    /// This machine, which is the default
    #[arg(long, conflicts_with = "vm")]
    pub(crate) host: bool,
    /// The virtual machine that counts instructions, 1 ns each unless --icount says otherwise
    #[arg(long)]
    pub(crate) vm: bool,
    /// How often all loops run; of four or more tries a quarter is left out at each end
    #[arg(long, value_name = "N", default_value_t = TRIES, value_parser = value_parser!(u32).range(3..=99))]
    pub(crate) tries: u32,
    /// The machine file [default: that of -m host, in the user's cache]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) machine: VmArgs,
    /// In the VM
    #[arg(long, hide = true)]
    pub(crate) as_guest: bool,
}
