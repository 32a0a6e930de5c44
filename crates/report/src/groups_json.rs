//! Groups of tasks in result files.

use schedlab_base::DurationNs;
use schedlab_trace::{CpuPressure, GroupRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a group of tasks (cgroup v2) got.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Group")]
pub(crate) struct GroupFile {
    /// Names from the root down, with slashes between them.
    name: String,
    /// `cpu.weight` at the end.
    cpu_weight: u32,
    /// `cpu.idle` at the end.
    cpu_idle: bool,
    /// CPU time in a period by `cpu.max`, in ns; null without a bound.
    quota_ns: Option<u64>,
    /// The period of `cpu.max`, in ns; null without a bound.
    period_ns: Option<u64>,
    /// `cpu.max.burst`, in ns.
    burst_ns: u64,
    /// CPU time of its tasks and of all groups below it, in ns.
    cpu_time_ns: u64,
    /// CPU time of the tasks in the group itself, in ns.
    own_cpu_time_ns: u64,
    /// Its part of the CPU time of the group that it is in; below the root, of that of all tasks.
    share: f64,
    /// Its part by the weights of the groups beside it, where all of them were busy throughout, none met its quota, and no program
    /// changes groups; else null.
    entitled_share: Option<f64>,
    /// Periods of the quota in which it was active.
    nr_periods: u64,
    /// Of them, those at whose end a CPU was throttled.
    nr_throttled: u64,
    /// Sum over the CPUs of the time for which they were throttled, in ns.
    throttled_ns: u64,
    /// Periods that used what earlier ones had left.
    nr_bursts: u64,
    /// How much of it, in ns.
    burst_time_ns: u64,
    /// How long the tasks that began in it or below it waited for a CPU, in ns and in sum.
    run_delay_ns: u64,
    /// For how long a runnable task of it, or below it, waited for a CPU, in ns: the total of `some` in `cpu.pressure`. Absent where the
    /// kernel has no such figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_some_ns: Option<u64>,
    /// For how long one waited while none ran, likewise: the total of `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_full_ns: Option<u64>,
}

impl GroupFile {
    pub(crate) fn new(group: &GroupRecord) -> GroupFile {
        GroupFile {
            name: group.name.clone(),
            cpu_weight: group.weight,
            cpu_idle: group.idle,
            quota_ns: group.quota.map(|(runtime, _)| runtime.0),
            period_ns: group.quota.map(|(_, period)| period.0),
            burst_ns: group.burst.0,
            cpu_time_ns: group.cpu_time.0,
            own_cpu_time_ns: group.own_cpu_time.0,
            share: group.share,
            entitled_share: group.entitled,
            nr_periods: group.periods,
            nr_throttled: group.throttled,
            throttled_ns: group.throttled_time.0,
            nr_bursts: group.bursts,
            burst_time_ns: group.burst_time.0,
            run_delay_ns: group.run_delay.0,
            cpu_some_ns: group.pressure.map(|pressure| pressure.some.0),
            cpu_full_ns: group.pressure.map(|pressure| pressure.full.0),
        }
    }

    pub(crate) fn read(self) -> GroupRecord {
        GroupRecord {
            name: self.name,
            weight: self.cpu_weight,
            idle: self.cpu_idle,
            quota: self
                .quota_ns
                .zip(self.period_ns)
                .map(|(runtime, period)| (DurationNs(runtime), DurationNs(period))),
            burst: DurationNs(self.burst_ns),
            cpu_time: DurationNs(self.cpu_time_ns),
            own_cpu_time: DurationNs(self.own_cpu_time_ns),
            share: self.share,
            entitled: self.entitled_share,
            periods: self.nr_periods,
            throttled: self.nr_throttled,
            throttled_time: DurationNs(self.throttled_ns),
            bursts: self.nr_bursts,
            burst_time: DurationNs(self.burst_time_ns),
            run_delay: DurationNs(self.run_delay_ns),
            pressure: self
                .cpu_some_ns
                .zip(self.cpu_full_ns)
                .map(|(some, full)| CpuPressure { some: DurationNs(some), full: DurationNs(full) }),
        }
    }
}
