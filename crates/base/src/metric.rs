//! A named figure of a run.

/// Which direction of a metric is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger values are better (throughput).
    Higher,
    /// Smaller values are better (time).
    Lower,
    /// Neither direction is better (a count that only describes).
    Neither,
}

/// The metrics that every run may have besides its workload's own, with their units. A run lacks those that its backend cannot
/// know.
pub const RUN_METRICS: [(&str, &str); 18] = [
    ("context_switches", "1"),
    ("migrations", "1"),
    ("wakeup_latency_ns_p50", "ns"),
    ("wakeup_latency_ns_p95", "ns"),
    ("wakeup_latency_ns_p99", "ns"),
    ("wakeup_latency_ns_max", "ns"),
    ("run_delay_ns_p50", "ns"),
    ("run_delay_ns_p95", "ns"),
    ("run_delay_ns_p99", "ns"),
    ("run_delay_ns_max", "ns"),
    ("cpu_busy_fraction", "1"),
    ("run_queue_length_mean", "1"),
    ("sched_cost_ns_per_switch", "ns"),
    ("bpf_insns_per_switch", "insns"),
    ("bpf_tick_insns_per_switch", "insns"),
    ("lines_per_switch", "lines"),
    ("idle_beside_waiting_ns", "ns"),
    ("lock_wait_ns", "ns"),
];

/// One figure of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The metric's name, big word first, unit last where it has no own field.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// The metric's unit, for example `messages/s`, `us`, `ns`, `1`.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
}

impl Metric {
    /// A metric from its parts.
    pub fn new(name: &str, value: f64, unit: &'static str, better: Better) -> Metric {
        Metric { name: name.to_string(), value, unit, better }
    }
}
