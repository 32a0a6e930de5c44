//! The distribution of a run's latencies as its record keeps it, and the metrics that are made of it.

use crate::histogram::Histogram;
use schedlab_base::{Better, DurationNs, Metric};
use std::fmt;

/// The percentiles of a latency that are metrics of every run: how the name ends, permille.
const PERCENTILES: [(&str, u64); 4] = [("p50", 500), ("p95", 950), ("p99", 990), ("max", 1000)];

/// Values of about one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// No value of it is larger.
    pub le: DurationNs,
    /// How many there are; never zero.
    pub count: u64,
}

/// How many values of each size there were: the buckets of a [`Histogram`] that hold any. Bounds ascend; the last
/// one is the largest value itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    buckets: Vec<Bucket>,
}

/// Why buckets make no distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionError {
    /// The bound of the bucket with this index is not above the one before it.
    NotAscending(usize),
    /// The bucket with this index is empty.
    Empty(usize),
}

impl fmt::Display for DistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DistributionError::NotAscending(at) => {
                write!(f, "bound {at} (from 0) is not above the one before it")
            }
            DistributionError::Empty(at) => write!(f, "count {at} (from 0) is 0; empty buckets are left out"),
        }
    }
}

impl std::error::Error for DistributionError {}

impl Distribution {
    /// A distribution from its buckets.
    ///
    /// # Errors
    /// Bounds that do not ascend, an empty bucket.
    pub fn new(buckets: Vec<Bucket>) -> Result<Distribution, DistributionError> {
        if let Some(at) = buckets.iter().position(|bucket| bucket.count == 0) {
            return Err(DistributionError::Empty(at));
        }
        match buckets.windows(2).position(|pair| pair[0].le >= pair[1].le) {
            Some(at) => Err(DistributionError::NotAscending(at + 1)),
            None => Ok(Distribution { buckets }),
        }
    }

    /// All values of several distributions together.
    pub fn pooled<'a>(parts: impl IntoIterator<Item = &'a Distribution>) -> Distribution {
        let mut histogram = Histogram::default();
        parts.into_iter().for_each(|part| histogram.add(part));
        histogram.distribution()
    }

    /// The buckets.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.count))
    }

    /// The smallest bound that at least `part` of `whole` of the values do not exceed (nearest rank): 99 of 100 is
    /// the 99th percentile. Nothing without values.
    pub fn quantile(&self, part: u64, whole: u64) -> Option<DurationNs> {
        let wanted = u128::from(self.count()) * u128::from(part);
        let rank = wanted.div_ceil(u128::from(whole.max(1))).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|bucket| {
            seen += u128::from(bucket.count);
            seen >= rank
        });
        found.or(self.buckets.last()).map(|bucket| bucket.le)
    }
}

/// The latencies of a run by the names that they have in its record; without those that have no value.
pub fn latencies(wakeup_latency: &Histogram, run_delay: &Histogram) -> Vec<(String, Distribution)> {
    [("wakeup_latency_ns", wakeup_latency), ("run_delay_ns", run_delay)]
        .into_iter()
        .map(|(name, histogram)| (name.to_string(), histogram.distribution()))
        .filter(|(_, distribution)| !distribution.buckets.is_empty())
        .collect()
}

/// The percentiles of latencies as metrics: `run_delay_ns_p99`.
pub fn percentile_metrics(latencies: &[(String, Distribution)]) -> Vec<Metric> {
    let metrics = latencies.iter().flat_map(|(name, distribution)| {
        PERCENTILES.iter().filter_map(move |(suffix, permille)| {
            let value = distribution.quantile(*permille, 1000)?;
            Some(Metric::new(&format!("{name}_{suffix}"), value.0 as f64, "ns", Better::Lower))
        })
    });
    metrics.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Distribution {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(DurationNs(*value)));
        histogram.distribution()
    }

    #[test]
    fn buckets_are_those_with_values() {
        // 1000 and 1003 share the bucket of 992 to 1007; the last bound is the largest value.
        let found: Vec<(u64, u64)> = of(&[3, 3, 1000, 1003, 70_001])
            .buckets()
            .iter()
            .map(|bucket| (bucket.le.0, bucket.count))
            .collect();
        assert_eq!(found, [(3, 2), (1007, 2), (70_001, 1)]);
        assert_eq!(of(&[u64::MAX]).buckets(), [Bucket { le: DurationNs(u64::MAX), count: 1 }]);
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let values: Vec<u64> = (1..=50).collect();
        let one_to_fifty = of(&values);
        assert_eq!(one_to_fifty.quantile(1, 2), Some(DurationNs(25)));
        assert_eq!(one_to_fifty.quantile(99, 100), Some(DurationNs(50)));
        assert_eq!(one_to_fifty.quantile(0, 100), Some(DurationNs(1)));
        assert_eq!(one_to_fifty.quantile(2, 1), Some(DurationNs(50)), "more than all is all");
        assert_eq!(Distribution::default().quantile(1, 2), None);
    }

    #[test]
    fn parts_together_are_the_whole() {
        // Sizes over many decades; each part ends within buckets of the others.
        let values: Vec<u64> = (1..3000u64).map(|at| at * at * at % 7_777_777).collect();
        let parts: Vec<Distribution> = values.chunks(700).map(of).collect();
        assert_eq!(Distribution::pooled(&parts), of(&values));
        assert_eq!(Distribution::pooled([]), Distribution::default());
        let huge = Distribution::new(vec![Bucket { le: DurationNs(5), count: u64::MAX }]).unwrap();
        assert_eq!(Distribution::pooled([&huge, &huge]).quantile(1, 2), Some(DurationNs(5)));
    }

    #[test]
    fn broken_buckets_are_refused() {
        let new = |buckets: &[(u64, u64)]| {
            let bucket = |&(le, count): &(u64, u64)| Bucket { le: DurationNs(le), count };
            Distribution::new(buckets.iter().map(bucket).collect())
        };
        assert_eq!(new(&[(1, 1), (1, 1)]), Err(DistributionError::NotAscending(1)));
        assert_eq!(new(&[(1, 1), (2, 0)]), Err(DistributionError::Empty(1)));
        assert!(new(&[]).is_ok());
    }
}
