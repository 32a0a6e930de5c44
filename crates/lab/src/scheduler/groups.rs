//! What a scheduler learns of groups of tasks.

use crate::scheduler::Scheduler;
use schedlab_base::GroupFile;
use schedlab_trace::{Warning, unheard_groups};

impl Scheduler {
    /// The warning that groups say what the scheduler does not learn, by the callbacks of its object.
    pub fn unheard_groups(&self, files: &[GroupFile]) -> Option<Warning> {
        let object = self.parsed()?.ok()?;
        let tables = object.struct_ops();
        // `sched_ext_ops_cid` names the members after the controller.
        let member = |name: &str| name.replace("cpuctl_", "cgroup_");
        unheard_groups(files, |known| {
            tables.iter().flat_map(|table| &table.functions).any(|(name, _)| member(name) == known.callback)
        })
    }
}
