//! What is known of a group in shared memory, and the figures of its `cpu.stat`.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use schedlab_base::DurationNs;

use super::GroupFigures;

/// Figures of `cpu.stat`: all CPU time, periods, throttled ones, throttled time, bursts, burst time; times in microseconds.
pub(super) struct Figures(pub(super) [u64; FIGURES]);

/// How many figures of `cpu.stat` are kept.
pub(super) const FIGURES: usize = 6;

const NAMES: [&str; FIGURES] =
    ["usage_usec", "nr_periods", "nr_throttled", "throttled_usec", "nr_bursts", "burst_usec"];

impl Figures {
    pub(super) fn read(place: &str) -> Figures {
        Figures::parse(&fs::read_to_string(format!("{place}/cpu.stat")).unwrap_or_default())
    }

    pub(super) fn parse(text: &str) -> Figures {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        Figures(NAMES.map(|name| field(name).unwrap_or(0)))
    }
}

/// What is known of a group.
#[repr(C, align(64))]
pub(super) struct GroupSlot {
    /// Where it is in its life.
    pub(super) life: AtomicU32,
    /// Figures of its directory before the run.
    pub(super) before: [AtomicU64; FIGURES],
    /// Figures of its directories in the run.
    sum: [AtomicU64; FIGURES],
}

impl GroupSlot {
    /// What the group has used in the run.
    pub(super) fn figures(&self) -> GroupFigures {
        let [used, periods, throttled, throttled_us, bursts, burst_us] =
            self.sum.each_ref().map(|figure| figure.load(Relaxed));
        let [cpu_time, throttled_time, burst_time] =
            [used, throttled_us, burst_us].map(|us| DurationNs(us * 1_000));
        GroupFigures { cpu_time, periods, throttled, throttled_time, bursts, burst_time }
    }

    pub(super) fn add(&self, figures: Figures) {
        for ((sum, before), figure) in self.sum.iter().zip(&self.before).zip(figures.0) {
            sum.fetch_add(figure.saturating_sub(before.load(Relaxed)), Relaxed);
        }
    }
}
