//! A histogram of spans with bounded memory and relative error.

use crate::distribution::{Bucket, Distribution};
use schedlab_base::DurationNs;

/// Sub-buckets per power of two: the relative error of a quantile is below 1/64.
const SUB_BITS: u32 = 6;
pub(crate) const SUB: usize = 1 << SUB_BITS;
pub(crate) const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Log-linear histogram over all of `u64` nanoseconds: values below 64 are
/// exact, larger ones are kept to 1/64. The maximum is exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], max: 0 }
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

/// The smallest value of a bucket.
fn lower(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { upper(bucket - 1) + 1 }
}

/// The distribution of counts by number of the bucket, in ascending order; those beyond the range are left out. `max` is as for
/// [`Histogram::from_counts`].
pub(crate) fn distribution_of(counts: impl Iterator<Item = (usize, u64)>, max: DurationNs) -> Distribution {
    let mut buckets = Vec::new();
    let mut last = 0;
    for (at, count) in counts.filter(|(at, count)| *count > 0 && *at < BUCKETS) {
        buckets.push(Bucket { le: DurationNs(upper(at)), count });
        last = at;
    }
    // Only the last bucket with values reaches beyond the largest one.
    if let Some(bucket) = buckets.last_mut() {
        bucket.le = DurationNs(max.0.clamp(lower(last), upper(last)));
    }
    Distribution::new(buckets).expect("bounds ascend")
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: DurationNs) {
        self.record_in(bucket(value.0), value);
    }

    /// Adds one value to the bucket that [`bucket`] gave for it.
    pub(crate) fn record_in(&mut self, bucket: usize, value: DurationNs) {
        self.counts[bucket] += 1;
        self.max = self.max.max(value.0);
    }

    /// A histogram that was counted elsewhere with the same buckets: index `i < 64`
    /// holds the value `i`; above, 64 buckets per power of two. Missing buckets are
    /// empty, those beyond the range are left out. `max` is the largest value; one that
    /// is not in the last bucket with values (two CPUs may have raced) is moved into it.
    pub fn from_counts(counts: &[u64], max: DurationNs) -> Histogram {
        let mut histogram = Histogram::default();
        for (to, from) in histogram.counts.iter_mut().zip(counts) {
            *to = *from;
        }
        if let Some(last) = histogram.counts.iter().rposition(|count| *count > 0) {
            histogram.max = max.0.clamp(lower(last), upper(last));
        }
        histogram
    }

    /// Adds all values of a distribution.
    pub(crate) fn add(&mut self, other: &Distribution) {
        for &Bucket { le, count } in other.buckets() {
            let to = &mut self.counts[bucket(le.0)];
            *to = to.saturating_add(count);
            self.max = self.max.max(le.0);
        }
    }

    /// The exact largest value; zero without values.
    pub fn max(&self) -> DurationNs {
        DurationNs(self.max)
    }

    /// The buckets with values.
    pub fn distribution(&self) -> Distribution {
        let reached = &self.counts[..=bucket(self.max)];
        distribution_of(reached.iter().copied().enumerate(), DurationNs(self.max))
    }

    /// The smallest bucket bound that at least `permille` of the values do not
    /// exceed (nearest rank), never above the maximum. Nothing without values.
    pub fn quantile(&self, permille: u64) -> Option<DurationNs> {
        self.distribution().quantile(permille, 1000)
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
        assert_eq!(there.distribution(), here.distribution());
        assert_eq!(there.quantile(1000), Some(DurationNs(1_000_000)));
    }

    #[test]
    fn a_maximum_from_elsewhere_is_in_the_last_bucket() {
        let mut counts = vec![0; 2 * SUB];
        (counts[7], counts[SUB + 9]) = (1, 1);
        let max = |max| Histogram::from_counts(&counts, DurationNs(max)).quantile(1000).unwrap();
        assert_eq!([0, 73, 1 << 30].map(|value| max(value).0), [73; 3]);
        assert_eq!(Histogram::from_counts(&[0; 3], DurationNs(5)).distribution(), Distribution::default());
    }
}
