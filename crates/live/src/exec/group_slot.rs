//! What is known of a group in shared memory: the figures of its `cpu.stat` and `cpu.pressure`, and what its files said last.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use schedlab_base::DurationNs;
use schedlab_trace::CpuPressure;
use schedlab_workload::{GroupSettings, Quota};

use super::GroupFigures;

/// Figures of a group: of `cpu.stat` all CPU time, periods, throttled ones, throttled time, bursts, burst time; then the totals of
/// `cpu.pressure`, some and full, and 1 if there are such. Times in microseconds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Figures([u64; FIGURES]);

/// How many figures of a group are kept.
pub(super) const FIGURES: usize = NAMES.len() + 3;

const NAMES: [&str; 6] =
    ["usage_usec", "nr_periods", "nr_throttled", "throttled_usec", "nr_bursts", "burst_usec"];

impl Figures {
    pub(super) fn read(place: &str) -> Figures {
        let text = |file: &str| fs::read_to_string(format!("{place}/{file}")).unwrap_or_default();
        Figures::parse(&text("cpu.stat"), &text("cpu.pressure"))
    }

    /// Of the texts of the two files. A kernel that counts no pressure has the second file, and refuses to read it.
    fn parse(stat: &str, pressure: &str) -> Figures {
        let field = |name: &str| {
            stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        let [cpu_time, periods, throttled, throttled_us, bursts, burst_us] =
            NAMES.map(|name| field(name).unwrap_or(0));
        let (some, full, known) = match (pressure_total(pressure, "some"), pressure_total(pressure, "full")) {
            (Some(some), Some(full)) => (some, full, 1),
            _ => (0, 0, 0),
        };
        Figures([cpu_time, periods, throttled, throttled_us, bursts, burst_us, some, full, known])
    }

    /// Stores them as those of a directory before the run. That they are known is no figure: it is 0 there.
    pub(super) fn store(&self, before: &[AtomicU64; FIGURES]) {
        before.iter().zip(self.0).take(FIGURES - 1).for_each(|(place, figure)| place.store(figure, Relaxed));
    }
}

/// The total of a line of a pressure file.
fn pressure_total(text: &str, line: &str) -> Option<u64> {
    let line = text.lines().find(|other| other.split(' ').next() == Some(line))?;
    line.split(' ').find_map(|part| part.strip_prefix("total="))?.parse().ok()
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
        let [used, periods, throttled, throttled_us, bursts, burst_us, some, full, known] =
            self.sum.each_ref().map(|figure| figure.load(Relaxed));
        let [cpu_time, throttled_time, burst_time, some, full] =
            [used, throttled_us, burst_us, some, full].map(|us| DurationNs(us * 1_000));
        let pressure = (known > 0).then_some(CpuPressure { some, full });
        let settings = self.settings();
        GroupFigures { cpu_time, periods, throttled, throttled_time, bursts, burst_time, pressure, settings }
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

    const STAT: &str = "usage_usec 1540\nuser_usec 3\nnr_periods 30\nnr_throttled 29\nthrottled_usec 1461\n";

    #[test]
    fn figures_are_found() {
        let some = "some avg10=1.00 avg60=0.00 avg300=0.00 total=700\n";
        let full = "full avg10=1.00 avg60=0.00 avg300=0.00 total=500\n";
        let both = format!("{some}{full}");
        assert_eq!(Figures::parse(STAT, &both).0, [1540, 30, 29, 1461, 0, 0, 700, 500, 1]);
        for text in ["", some, "some total=x\nfull total=1\n"] {
            assert_eq!(Figures::parse(STAT, text).0, [1540, 30, 29, 1461, 0, 0, 0, 0, 0], "{text}");
        }
    }

    #[test]
    fn pressure_is_absent_where_the_kernel_counts_none() {
        let text = |us: u64| format!("some total={us}\nfull total={}\n", us / 2);
        let figures = |texts: [String; 2]| {
            // SAFETY: it consists of atomic integers.
            let slot: GroupSlot = unsafe { std::mem::zeroed() };
            Figures::parse(STAT, &texts[0]).store(&slot.before);
            slot.add(Figures::parse(STAT, &texts[1]));
            slot.figures().pressure
        };
        let us = |us: u64| DurationNs(us * 1_000);
        let pressure = CpuPressure { some: us(600), full: us(300) };
        assert_eq!(figures([text(100), text(700)]), Some(pressure));
        assert_eq!(figures([text(700), text(700)]), Some(CpuPressure::default()));
        assert_eq!(figures([String::new(), String::new()]), None);
    }

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
