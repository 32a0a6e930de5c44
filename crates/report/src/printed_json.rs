//! What a scheduler printed, and what its callbacks cost, in result files.

use crate::pairs::Pairs;
use schedlab_base::{CpuId, DurationNs, TimeNs};
use schedlab_trace::{CallbackCost, Printed, PrintedLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line of `bpf_printk()`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PrintedLine")]
pub(crate) struct PrintedFile {
    /// In ns since the run began; 0 for what was printed before.
    time_ns: u64,
    /// The CPU.
    cpu: u32,
    /// The current task; empty for the idle task.
    task: String,
    /// The line.
    text: String,
}

impl PrintedFile {
    /// The entry of a line.
    pub(crate) fn new(line: &PrintedLine) -> PrintedFile {
        let PrintedLine { time, cpu, task, text } = line;
        PrintedFile { time_ns: time.0, cpu: cpu.0, task: task.clone(), text: text.clone() }
    }

    fn read(self) -> PrintedLine {
        let PrintedFile { time_ns, cpu, task, text } = self;
        PrintedLine { time: TimeNs(time_ns), cpu: CpuId(cpu), task, text }
    }
}

/// What was printed again.
pub(crate) fn printed_in(lines: Vec<PrintedFile>, left_out: u64) -> Printed {
    Printed { lines: lines.into_iter().map(PrintedFile::read).collect(), left_out }
}

/// What the calls of a callback cost.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CallbackCost")]
pub(crate) struct CallbackFile {
    /// Number of calls.
    calls: u64,
    /// BPF instructions, in simulated runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    insns: Option<u64>,
    /// Time in it, in ns: instructions, the kernel functions that it calls, locks that it waits for.
    time_ns: u64,
}

/// The costs by the names of the callbacks.
pub(crate) fn callbacks_out(costs: &[CallbackCost]) -> Pairs<CallbackFile> {
    let entry = |cost: &CallbackCost| {
        let CallbackCost { name, calls, insns, time } = cost;
        (name.clone(), CallbackFile { calls: *calls, insns: *insns, time_ns: time.0 })
    };
    Pairs(costs.iter().map(entry).collect())
}

/// The costs again.
pub(crate) fn callbacks_in(costs: Pairs<CallbackFile>) -> Vec<CallbackCost> {
    let cost = |(name, file): (String, CallbackFile)| CallbackCost {
        name,
        calls: file.calls,
        insns: file.insns,
        time: DurationNs(file.time_ns),
    };
    costs.0.into_iter().map(cost).collect()
}

/// Whether a number is left out of a file.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
