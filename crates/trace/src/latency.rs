//! Which task waited how long, when and behind which: the waits of each task for a CPU, streamed.

use crate::distribution::Distribution;
use crate::histogram::{BUCKETS, SUB, bucket, distribution_of};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

/// Stretches of tasks that are remembered of each CPU, to say which task ran while another waited. Chosen: more than
/// the tasks that usually share a CPU.
const STRETCHES: usize = 32;

/// Tasks named of those that a task waited behind. Chosen: the first says most.
pub(crate) const NAMED: usize = 3;

/// The longest wait of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// The task that waited.
    pub task: TaskId,
    /// For a forked task, the task of the start that it descends from; else the task itself.
    pub origin: TaskId,
    /// When the wait began.
    pub since: TimeNs,
    /// How long it lasted.
    pub length: DurationNs,
    /// Where the task ran at its end; where it was queued last if it never got to run.
    pub cpu: CpuId,
    /// The tasks that ran on that CPU meanwhile, with their origin and for how long; the longest
    /// first.
    pub behind: [Option<(TaskId, TaskId, DurationNs)>; NAMED],
}

/// Of what waits there are figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// Every wait of a runnable task for a CPU.
    RunDelay,
    /// Of these, the waits from a wakeup to running.
    WakeupLatency,
}

/// The waits of a task, or of several: counts by length, and the longest ones. The buckets are those of [`crate::Histogram`].
///
/// Memory grows with the range of the lengths alone.
#[derive(Clone, Debug, Default)]
pub struct TaskWaits {
    /// Bucket of the first count.
    first: usize,
    /// By bucket from the first: all waits, and those after a wakeup; at most 4,294,967,295 of each.
    counts: Vec<[u32; 2]>,
    /// The lengths of both together.
    sums: [DurationNs; 2],
    longest: [Option<LongWait>; 2],
}

impl TaskWaits {
    /// Waits that were counted elsewhere in the same buckets ([`crate::Histogram::from_counts`]): all of them and those after a
    /// wakeup, with their lengths together and the longest ones. Buckets beyond the range are left out.
    pub fn from_counts(
        counts: impl Iterator<Item = (usize, [u64; 2])>,
        sums: [DurationNs; 2],
        longest: [Option<LongWait>; 2],
    ) -> TaskWaits {
        let mut waits = TaskWaits { sums, longest, ..TaskWaits::default() };
        for (bucket, [all, woken]) in counts.filter(|(bucket, _)| *bucket < BUCKETS) {
            let count = waits.at(bucket);
            for (count, more) in count.iter_mut().zip([all, woken]) {
                *count = count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            }
        }
        waits
    }

    /// Adds a wait that was not counted, perhaps the longest.
    pub fn add(&mut self, wait: LongWait, woken: bool) {
        self.count(bucket(wait.length.0), wait.length, woken);
        self.keep(wait, woken);
    }

    /// The counts of a bucket.
    #[inline]
    fn at(&mut self, bucket: usize) -> &mut [u32; 2] {
        let at = bucket.wrapping_sub(self.first);
        if at < self.counts.len() { &mut self.counts[at] } else { self.reach(bucket) }
    }

    /// Adds a wait to its bucket.
    #[inline]
    pub(crate) fn count(&mut self, bucket: usize, length: DurationNs, woken: bool) {
        let count = self.at(bucket);
        count[0] = count[0].saturating_add(1);
        count[1] = count[1].saturating_add(u32::from(woken));
        self.sums[0] += length;
        self.sums[1] += if woken { length } else { DurationNs::ZERO };
    }

    /// Makes room for a bucket; whole powers of two at a time.
    #[cold]
    fn reach(&mut self, bucket: usize) -> &mut [u32; 2] {
        let low = bucket / SUB * SUB;
        if self.counts.is_empty() {
            self.first = low;
        }
        if low < self.first {
            self.counts.splice(0..0, std::iter::repeat_n([0; 2], self.first - low));
            self.first = low;
        }
        let len = self.counts.len().max(low + SUB - self.first);
        self.counts.resize(len, [0; 2]);
        &mut self.counts[bucket - self.first]
    }

    /// True if a wait of this length is the longest so far, of all or of those after a wakeup.
    #[inline]
    pub(crate) fn is_longest(&self, length: DurationNs, woken: bool) -> bool {
        let beats = |at: usize| self.longest[at].is_none_or(|longest| length > longest.length);
        beats(0) || woken && beats(1)
    }

    /// Keeps a wait where it is the longest ([`TaskWaits::is_longest`]).
    pub(crate) fn keep(&mut self, wait: LongWait, woken: bool) {
        let kinds = if woken { 2 } else { 1 };
        for longest in &mut self.longest[..kinds] {
            if longest.is_none_or(|longest| wait.length > longest.length) {
                *longest = Some(wait);
            }
        }
    }

    /// Adds the waits of another one.
    pub fn merge(&mut self, other: &TaskWaits) {
        for (at, counts) in other.counts.iter().enumerate().filter(|(_, counts)| counts[0] > 0) {
            let here = self.at(other.first + at);
            here[0] = here[0].saturating_add(counts[0]);
            here[1] = here[1].saturating_add(counts[1]);
        }
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum += more;
        }
        for (at, theirs) in other.longest.iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            if self.longest[at].is_none_or(|ours| theirs.length > ours.length) {
                self.longest[at] = Some(*theirs);
            }
        }
    }

    /// The waits of a kind together.
    pub fn sum(&self, kind: WaitKind) -> DurationNs {
        self.sums[kind as usize]
    }

    /// The longest wait.
    pub fn longest(&self, kind: WaitKind) -> Option<LongWait> {
        self.longest[kind as usize]
    }

    /// How the lengths are distributed; the same buckets as the whole run's.
    pub fn distribution(&self, kind: WaitKind) -> Distribution {
        let Some(longest) = self.longest(kind) else { return Distribution::default() };
        let counts = self.counts.iter().map(|counts| u64::from(counts[kind as usize]));
        distribution_of((self.first..).zip(counts), longest.length)
    }
}

/// A task's stretch on a CPU.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    task: TaskId,
    since: TimeNs,
    until: TimeNs,
}

/// The last stretches of a CPU.
#[derive(Clone, Debug)]
pub(crate) struct Stretches {
    ring: [Stretch; STRETCHES],
    at: usize,
}

impl Default for Stretches {
    fn default() -> Stretches {
        let none = Stretch { task: TaskId(0), since: TimeNs::ZERO, until: TimeNs::ZERO };
        Stretches { ring: [none; STRETCHES], at: 0 }
    }
}

impl Stretches {
    /// A task has run.
    #[inline]
    pub(crate) fn ran(&mut self, task: TaskId, since: TimeNs, until: TimeNs) {
        self.ring[self.at] = Stretch { task, since, until };
        self.at = (self.at + 1) % STRETCHES;
    }

    /// The tasks that ran in a span, the longest first, as far as it is remembered.
    pub(crate) fn within(&self, since: TimeNs, until: TimeNs) -> [Option<(TaskId, DurationNs)>; NAMED] {
        let mut sums: Vec<(TaskId, DurationNs)> = Vec::new();
        for stretch in &self.ring {
            let time = stretch.until.min(until).since(stretch.since.max(since));
            if time == DurationNs::ZERO {
                continue;
            }
            match sums.iter_mut().find(|(task, _)| *task == stretch.task) {
                Some((_, sum)) => *sum += time,
                None => sums.push((stretch.task, time)),
            }
        }
        sums.sort_by_key(|&(task, time)| (std::cmp::Reverse(time), task));
        std::array::from_fn(|at| sums.get(at).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    fn wait(task: u32, length: u64) -> LongWait {
        let (task, cpu) = (TaskId(task), CpuId(0));
        LongWait {
            task,
            origin: task,
            since: TimeNs(7),
            length: DurationNs(length),
            cpu,
            behind: [None; NAMED],
        }
    }

    fn waits(task: u32, lengths: &[(u64, bool)]) -> TaskWaits {
        let mut waits = TaskWaits::default();
        for &(length, woken) in lengths {
            waits.count(bucket(length), DurationNs(length), woken);
            if waits.is_longest(DurationNs(length), woken) {
                waits.keep(wait(task, length), woken);
            }
        }
        waits
    }

    #[test]
    fn quantiles_are_those_of_the_whole_histogram() {
        let lengths: Vec<(u64, bool)> =
            (1..3000u64).map(|at| (at * at * at % 7_777_777, at % 3 == 0)).collect();
        let found = waits(0, &lengths);
        for (kind, woken_only) in [(WaitKind::RunDelay, false), (WaitKind::WakeupLatency, true)] {
            let mut whole = Histogram::default();
            let counted = lengths.iter().filter(|(_, woken)| *woken || !woken_only);
            counted.for_each(|(length, _)| whole.record(DurationNs(*length)));
            assert_eq!(found.distribution(kind), whole.distribution());
            assert_eq!(found.longest(kind).unwrap().length, whole.max());
        }
        assert_eq!(TaskWaits::default().distribution(WaitKind::RunDelay), Distribution::default());
    }

    #[test]
    fn parts_together_are_the_whole_and_keep_who_waited_longest() {
        let mut both = waits(1, &[(5, true), (1 << 30, false)]);
        both.merge(&waits(2, &[(900, true), (70, false)]));
        assert_eq!(both.longest(WaitKind::RunDelay).unwrap().task, TaskId(1));
        assert_eq!(both.longest(WaitKind::WakeupLatency).unwrap(), wait(2, 900));
        assert_eq!(both.distribution(WaitKind::RunDelay).count(), 4);
        assert_eq!(both.distribution(WaitKind::WakeupLatency).count(), 2);
        assert_eq!(both.sum(WaitKind::RunDelay), DurationNs(975 + (1 << 30)));
        assert_eq!(both.sum(WaitKind::WakeupLatency), DurationNs(905));
    }

    #[test]
    fn counts_from_elsewhere_are_the_same() {
        let lengths = [(3, true), (70, false), (1 << 40, true), (70, true)];
        let here = waits(0, &lengths);
        let counts =
            here.counts.iter().enumerate().map(|(at, count)| (here.first + at, count.map(u64::from)));
        let there = TaskWaits::from_counts(counts.chain([(BUCKETS, [1, 1])]), here.sums, here.longest);
        for kind in [WaitKind::RunDelay, WaitKind::WakeupLatency] {
            assert_eq!(there.distribution(kind), here.distribution(kind));
            assert_eq!(there.sum(kind), here.sum(kind));
        }
        let mut more = there.clone();
        more.add(wait(5, 1 << 50), false);
        assert_eq!(more.longest(WaitKind::RunDelay).unwrap().task, TaskId(5));
        assert_eq!(more.longest(WaitKind::WakeupLatency), here.longest(WaitKind::WakeupLatency));
    }

    #[test]
    fn memory_is_bounded_by_the_range_of_lengths() {
        let mut all = TaskWaits::default();
        for length in (0..64).flat_map(|shift| [1u64 << shift, (1 << shift) + (1 << shift) / 3]) {
            (0..1000).for_each(|_| all.count(bucket(length), DurationNs::ZERO, true));
        }
        assert!(all.counts.len() <= 59 * SUB, "{}", all.counts.len());
    }

    #[test]
    fn who_ran_in_a_span_is_told_by_time() {
        let mut cpu = Stretches::default();
        for (task, since, until) in [(1, 0, 10), (2, 10, 40), (1, 40, 45), (3, 45, 46), (4, 46, 47)] {
            cpu.ran(TaskId(task), TimeNs(since), TimeNs(until));
        }
        let told = cpu.within(TimeNs(5), TimeNs(47));
        assert_eq!(
            told.map(|one| one.map(|(task, time)| (task.0, time.0))),
            [Some((2, 30)), Some((1, 10)), Some((3, 1))]
        );
        assert_eq!(cpu.within(TimeNs(100), TimeNs(200)), [None; NAMED]);
        (0..1000).for_each(|at| cpu.ran(TaskId(9), TimeNs(100 + at), TimeNs(101 + at)));
        assert_eq!(cpu.within(TimeNs(100), TimeNs(1100))[0], Some((TaskId(9), DurationNs(STRETCHES as u64))));
    }
}
