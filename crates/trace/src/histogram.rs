//! A histogram of spans with bounded memory and relative error.

use schedlab_base::DurationNs;

/// Sub-buckets per power of two: the relative error of a quantile is below 1/64.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Log-linear histogram over all of `u64` nanoseconds: values below 64 are
/// exact, larger ones are kept to 1/64. The maximum and the count are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

/// The bucket of a value, the same in every histogram.
pub(crate) fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    (shift as usize + 1) * SUB + ((value >> shift) as usize - SUB)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = (bucket / SUB - 1) as u32;
    let low = ((bucket % SUB + SUB) as u64) << shift;
    low + ((1u64 << shift) - 1)
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: DurationNs) {
        self.record_in(bucket(value.0), value);
    }

    /// Adds one value to the bucket that [`bucket`] gave for it.
    pub(crate) fn record_in(&mut self, bucket: usize, value: DurationNs) {
        self.counts[bucket] += 1;
        self.total += 1;
        self.max = self.max.max(value.0);
    }

    /// A histogram that was counted elsewhere with the same buckets: index `i < 64`
    /// holds the value `i`; above, 64 buckets per power of two. Missing buckets are
    /// empty, those beyond the range are left out. `max` is the exact largest value.
    pub fn from_counts(counts: &[u64], max: DurationNs) -> Histogram {
        let mut histogram = Histogram::default();
        for (to, from) in histogram.counts.iter_mut().zip(counts) {
            *to = *from;
        }
        histogram.total = histogram.counts.iter().sum();
        histogram.max = max.0;
        histogram
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The exact largest value; zero without values.
    pub fn max(&self) -> DurationNs {
        DurationNs(self.max)
    }

    /// The smallest bucket bound that at least `permille` of the values do not
    /// exceed (nearest rank), never above the maximum. Nothing without values.
    pub fn quantile(&self, permille: u64) -> Option<DurationNs> {
        if self.total == 0 {
            return None;
        }
        let rank = (self.total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(DurationNs(upper(index).min(self.max)));
            }
        }
        Some(self.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_monotonic_and_tight() {
        for value in (0..200).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let bound = upper(bucket(value));
            assert!(bound >= value && bound - value <= value / 64, "{value} {bound}");
        }
    }

    #[test]
    fn counts_from_elsewhere_are_the_same() {
        let mut here = Histogram::default();
        for value in [3, 64, 65, 1_000_000] {
            here.record(DurationNs(value));
        }
        let there = Histogram::from_counts(&here.counts, here.max());
        assert_eq!(there.count(), 4);
        assert_eq!(there.quantile(750), here.quantile(750));
        assert_eq!(there.max(), DurationNs(1_000_000));
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let mut histogram = Histogram::default();
        (1..=50).for_each(|v| histogram.record(DurationNs(v)));
        assert_eq!(histogram.quantile(500), Some(DurationNs(25)));
        assert_eq!(histogram.quantile(990), Some(DurationNs(50)));
        assert_eq!(Histogram::default().quantile(500), None);
    }
}
