//! What a record of a run begins with, and how views are made of it.

use crate::workload::parties;
use schedlab_base::Machine;
use schedlab_report::{About, Document, ExtraTables, RecordOf, RunHead, course_out};
use schedlab_sim::FIRST_PID;
use schedlab_workload::Scenario;

/// What a reader of a simulated run's events has to know.
pub(crate) fn head(scenario: &Scenario, machine: &Machine) -> RunHead {
    RunHead {
        run: 0,
        cpus: machine.cpu_count(),
        clock_mhz: machine.clock_mhz,
        first_pid: FIRST_PID,
        parties: parties(scenario, machine),
    }
}

/// How the views of these results are made; `command` made them.
pub fn about(of: RecordOf, command: String, document: &Document, extra_tables: Vec<ExtraTables>) -> About {
    About {
        of,
        version: env!("CARGO_PKG_VERSION").to_string(),
        command,
        extra_tables,
        priorities: document.runs.iter().map(|run| run.priorities.iter().map(course_out).collect()).collect(),
        ..About::default()
    }
}
