//! A named figure of a run.

/// Which direction of a metric is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger values are better (throughput).
    Higher,
    /// Smaller values are better (time).
    Lower,
    /// Neither (a count that only describes).
    Neither,
}

/// One figure of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name, big word first, unit last where it has no own field.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit, for example `messages/s`, `us`, `ns`, `1`.
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
