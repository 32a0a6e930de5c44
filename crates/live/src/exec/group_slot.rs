//! What is known of a group in shared memory: the figures of its `cpu.stat`, and what its files said last.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use schedlab_base::DurationNs;
use schedlab_workload::{GroupSettings, Quota};

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

/// `cpu.weight`, quota and period of `cpu.max`, `cpu.max.burst`, `cpu.idle`; times in microseconds.
const SETTINGS: usize = 5;

/// No quota, in shared memory.
const NO_QUOTA: u64 = u64::MAX;

/// What the files of a group say, as numbers; nothing of a group that has no such files any more.
fn settings(place: &str) -> Option<[u64; SETTINGS]> {
    let read = |file: &str| fs::read_to_string(format!("{place}/{file}")).ok();
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
    let (quota, period) = quota(&read("cpu.max")?)?;
    Some([number("cpu.weight")?, quota, period, number("cpu.max.burst")?, number("cpu.idle")?])
}

/// A text of `cpu.max`.
fn quota(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota = if quota == "max" { NO_QUOTA } else { quota.parse().ok()? };
    Some((quota, period.parse().ok()?))
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
    /// What its files said when they were last read; all 0 before.
    settings: [AtomicU64; SETTINGS],
}

impl GroupSlot {
    /// What the group has used in the run.
    pub(super) fn figures(&self) -> GroupFigures {
        let [used, periods, throttled, throttled_us, bursts, burst_us] =
            self.sum.each_ref().map(|figure| figure.load(Relaxed));
        let [cpu_time, throttled_time, burst_time] =
            [used, throttled_us, burst_us].map(|us| DurationNs(us * 1_000));
        let settings = self.settings();
        GroupFigures { cpu_time, periods, throttled, throttled_time, bursts, burst_time, settings }
    }

    /// Reads what the group's files say. Another task may have removed it meanwhile, which has read them too.
    pub(super) fn keep_settings(&self, place: &str) {
        let read = settings(place).into_iter().flatten();
        self.settings.iter().zip(read).for_each(|(kept, number)| kept.store(number, Relaxed));
    }

    fn settings(&self) -> Option<GroupSettings> {
        let [weight, quota, period, burst, idle] =
            self.settings.each_ref().map(|number| number.load(Relaxed));
        let span = |us: u64| DurationNs(us.saturating_mul(1_000));
        let quota = (quota != NO_QUOTA).then(|| Quota { runtime: span(quota), period: span(period) });
        let weight = u32::try_from(weight).ok().filter(|weight| *weight > 0)?;
        Some(GroupSettings { weight, nice: None, quota, burst: span(burst), idle: idle == 1 })
    }

    pub(super) fn add(&self, figures: Figures) {
        for ((sum, before), figure) in self.sum.iter().zip(&self.before).zip(figures.0) {
            sum.fetch_add(figure.saturating_sub(before.load(Relaxed)), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_back() {
        let folder = std::env::temp_dir().join(format!("schedlab-settings-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        let files = [("cpu.weight", "300\n"), ("cpu.max", "max 100000\n"), ("cpu.max.burst", "0\n")];
        files.into_iter().chain([("cpu.idle", "0\n")]).for_each(|(file, text)| write(file, text));
        // SAFETY: it consists of atomic integers.
        let slot: GroupSlot = unsafe { std::mem::zeroed() };
        assert_eq!(slot.figures().settings, None);
        let place = folder.to_string_lossy();
        slot.keep_settings(&place);
        let weighted = GroupSettings { weight: 300, ..GroupSettings::default() };
        assert_eq!(slot.figures().settings, Some(weighted));
        [("cpu.max", "50000 100000\n"), ("cpu.max.burst", "10000\n"), ("cpu.idle", "1\n")]
            .into_iter()
            .for_each(|(file, text)| write(file, text));
        slot.keep_settings(&place);
        let (quota, burst) = ("50ms/100ms".parse().ok(), DurationNs::from_ms(10));
        assert_eq!(slot.figures().settings, Some(GroupSettings { quota, burst, idle: true, ..weighted }));
        fs::remove_dir_all(&folder).unwrap();
        slot.keep_settings(&place);
        assert!(slot.figures().settings.is_some());
        assert_eq!(super::quota("nonsense"), None);
    }
}
