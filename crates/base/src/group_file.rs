//! What a scheduler can learn of the files of groups.

/// A file of groups of tasks (cgroup v2) of which a scheduler learns by a callback of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFile {
    /// The file: `cpu.weight`.
    pub file: &'static str,
    /// The member of `struct sched_ext_ops`: `cgroup_set_weight`.
    pub callback: &'static str,
    /// The path of a group where it says something else than in a new group, at first or during the run.
    pub example: String,
    /// How many groups that is true of.
    pub count: u64,
}
