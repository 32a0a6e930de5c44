//! Timer ticks, by the gaps that they make in a loop that reads the clock.

use super::{Figure, now, pin};
use std::io;

/// How long a loop looks for gaps, ns.
const LOOK: u64 = 400_000_000;
/// The middle half of the differences between two instants, each at any time of an interval with the same chance, is this part of twice
/// the interval: 1 - 1/sqrt(2).
const MIDDLE_PART: f64 = 0.292_893;

/// A stretch in which the loop did not run, ns.
#[derive(Clone, Copy)]
struct Gap {
    end: u64,
    length: u64,
}

/// Gaps longer than `least`, and the shortest time between two looks.
fn gaps(least: u64) -> (Vec<Gap>, u64) {
    let mut gaps = Vec::with_capacity(4_000);
    let begin = now();
    let (mut last, mut shortest) = (begin, u64::MAX);
    while last - begin < LOOK {
        let end = now();
        let length = end - last;
        shortest = shortest.min(length.max(1));
        if length > least.max(8 * shortest) && gaps.len() < gaps.capacity() {
            gaps.push(Gap { end, length });
        }
        last = end;
    }
    (gaps, shortest)
}

/// The length of a tick as a lone task sees it, and the ticks a second.
pub(super) fn alone() -> (Option<Figure>, Option<u32>) {
    let (gaps, shortest) = gaps(600);
    let apart = gaps.windows(2).map(|pair| (pair[1].end - pair[0].end) as f64);
    let apart = Figure::of(apart.collect()).value;
    let known = [100, 250, 300, 1000];
    let near = known.into_iter().find(|&hz| (apart * f64::from(hz) / 1e9 - 1.0).abs() < 0.1);
    let lengths = Figure::of(gaps.iter().map(|gap| gap.length as f64).collect()).less(shortest as f64);
    (near.map(|_| lengths), near)
}

/// How late ticks of a CPU are at most against those of another one: two CPUs look at once, at gaps that are as long as a `tick` (ns).
/// Nothing where they have too few in common.
pub(super) fn jitter(tick: f64, hz: u32) -> io::Result<Option<u64>> {
    let least = (tick * 0.9) as u64;
    let other = std::thread::spawn(move || pin(1).map(|()| gaps(least).0));
    let here = gaps(least).0;
    let there = other.join().map_err(|_| io::ErrorKind::Other)??;
    let begins = |gaps: &[Gap]| gaps.iter().map(|gap| gap.end - gap.length).collect::<Vec<u64>>();
    Ok(spread(&begins(&here), &begins(&there), 1_000_000_000 / u64::from(hz)))
}

/// The same from the instants that each saw, where ticks are `period` apart.
fn spread(here: &[u64], there: &[u64], period: u64) -> Option<u64> {
    let nearest = |time: u64| {
        let place = there.partition_point(|&other| other < time);
        let near = there[place.saturating_sub(1)..there.len().min(place + 1)].iter();
        near.map(|&other| time as f64 - other as f64).min_by(|a, b| a.abs().total_cmp(&b.abs()))
    };
    let apart: Vec<f64> = here
        .iter()
        .filter_map(|&time| nearest(time))
        .filter(|apart| apart.abs() < period as f64 / 4.0)
        .collect();
    (apart.len() >= 20).then(|| (Figure::of(apart).spread / MIDDLE_PART) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jitter_of_two_cpus_is_found_whatever_their_phase() {
        let mut random = schedlab_base::Prng::new(3);
        let mut ticks = |phase: u64| -> Vec<u64> {
            (1..1_000).map(|number| number * 4_000_000 + phase + random.below(2_000)).collect()
        };
        for phase in [0, 300, 500_000] {
            let found = spread(&ticks(0), &ticks(phase), 4_000_000).expect("the ticks are near each other");
            assert!(found.abs_diff(2_000) < 200, "phase {phase}: {found} ns");
        }
        assert_eq!(spread(&ticks(0), &ticks(2_000_000), 4_000_000), None);
        assert_eq!(spread(&ticks(0), &[], 4_000_000), None);
    }
}
