//! The kernel that is simulated, where versions and configurations of Linux differ.

use crate::{DurationNs, FULL_BANDWIDTH, did_you_mean};
use std::fmt;
use std::str::FromStr;

/// What a kernel's version and configuration decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFeatures {
    /// Whose rules hold.
    pub version: KernelVersion,
    /// The scheduler feature `HRTICK`: a timer ends a slice of the fair class, where without it the tick does.
    pub hrtick: bool,
    /// When a running task gives way to another one of the fair class.
    pub preempt: Preemption,
    /// Where in the period the ticks of the CPUs lie.
    pub ticks: TickPhase,
    /// How much later than its instant a tick begins at most, where there are several CPUs: each one by chance of the seed. Interrupts reach
    /// CPUs that compute one after the other, in no fixed order.
    pub tick_jitter: DurationNs,
    /// How much later than asked a sleeping task of a normal policy is woken (`timer_slack_ns`). It is the latest
    /// that the kernel may choose, and that it takes when no other timer is due before.
    pub timer_slack: DurationNs,
    /// How a workload's tasks begin.
    pub start: Start,
}

/// A thread of the kernel that has work now and then, whatever the workload does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Background {
    /// The thread's name.
    pub name: String,
    /// From one wakeup to the next, on average; single gaps are half to one and a half of it, by the seed.
    pub period: DurationNs,
    /// How long it computes each time.
    pub length: DurationNs,
    /// One of them on each CPU, which it never leaves; else one in all, on any.
    pub per_cpu: bool,
}

/// A version of Linux whose rules are known: [`KernelVersion::FIRST`] to [`KernelVersion::LAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    major: u8,
    minor: u8,
}

/// What changed from one version to the next, of what is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelChange {
    /// Deadline servers in place of real-time throttling.
    FairServer,
    /// sched_ext.
    SchedExt,
    /// A task of the fair class that goes to sleep too early stays queued (`DELAY_DEQUEUE`).
    DelayedDequeue,
    /// Tasks ask for slices, and shorter ones preempt (`PREEMPT_SHORT`).
    CustomSlices,
    /// The preemption model lazy.
    LazyPreemption,
    /// The base slice is 0.7 in place of 0.75 ms.
    ShorterBaseSlice,
    /// A wakeup beside the running task ends its protection after the shortest slice.
    ShortProtection,
    /// sched_ext learns of the bandwidth of cgroups (`ops.cgroup_set_bandwidth()`).
    GroupBandwidth,
    /// sched_ext learns of idle cgroups (`ops.cgroup_set_idle()`).
    GroupIdle,
    /// A deadline server for sched_ext.
    ExtServer,
    /// `HRTICK` is on where the machine has timers for it.
    HrTick,
    /// A task takes lag of the longest slice and a tick along, before of two slices or a tick.
    LongLag,
    /// A BPF timer cannot be cancelled where interrupts are off.
    DeferredTimers,
    /// Sub-schedulers with capabilities, which a task that runs on is exempt from.
    SubSchedulers,
    /// The fair class has all tasks of a CPU in one queue, whatever their group. Before, it picks group by group.
    FlatGroups,
}

impl KernelChange {
    /// All of them with the version that brought them and words for a list, oldest first.
    pub const ALL: [(KernelChange, KernelVersion, &'static str); 15] = [
        (
            KernelChange::FairServer,
            KernelVersion::new(6, 12),
            "deadline servers in place of real-time throttling",
        ),
        (KernelChange::SchedExt, KernelVersion::new(6, 12), "sched_ext"),
        (KernelChange::DelayedDequeue, KernelVersion::new(6, 12), "delayed dequeue in the fair class"),
        (
            KernelChange::CustomSlices,
            KernelVersion::new(6, 12),
            "slices that tasks ask for; shorter ones preempt",
        ),
        (KernelChange::LazyPreemption, KernelVersion::new(6, 13), "lazy preemption"),
        (
            KernelChange::ShorterBaseSlice,
            KernelVersion::new(6, 15),
            "a base slice of 0.7 ms, before of 0.75 ms",
        ),
        (
            KernelChange::ShortProtection,
            KernelVersion::new(6, 17),
            "protection ends a slice after a wakeup beside it",
        ),
        (KernelChange::GroupBandwidth, KernelVersion::new(6, 17), "ops.cgroup_set_bandwidth()"),
        (KernelChange::GroupIdle, KernelVersion::new(6, 19), "ops.cgroup_set_idle()"),
        (KernelChange::ExtServer, KernelVersion::new(7, 0), "a deadline server for sched_ext"),
        (KernelChange::HrTick, KernelVersion::new(7, 1), "HRTICK by default"),
        (KernelChange::LongLag, KernelVersion::new(7, 1), "lag up to the longest slice and a tick"),
        (
            KernelChange::DeferredTimers,
            KernelVersion::new(7, 1),
            "no BPF timer cancelled with interrupts off",
        ),
        (KernelChange::SubSchedulers, KernelVersion::new(7, 3), "sub-schedulers with capabilities"),
        (KernelChange::FlatGroups, KernelVersion::new(7, 3), "one fair queue for the tasks of all groups"),
    ];
}

/// A distribution's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPreset {
    /// The preset's name on command lines and in machine files.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// The version of the kernel.
    pub version: KernelVersion,
    /// `CONFIG_HZ`.
    pub hz: u32,
    /// The preemption model that it boots with.
    pub preempt: Preemption,
}

impl KernelPreset {
    /// All of them.
    pub const ALL: [KernelPreset; 13] = [
        KernelPreset::of("arch", "Arch Linux, its kernel of the day", (7, 3), 1000, Preemption::Full),
        KernelPreset::of(
            "cachyos",
            "CachyOS with EEVDF; its BORE is not modelled",
            (7, 3),
            1000,
            Preemption::Full,
        ),
        KernelPreset::of("debian-13", "Debian 13", (6, 12), 250, Preemption::Full),
        KernelPreset::of("debian-13-backports", "Debian 13's backports", (7, 3), 250, Preemption::Lazy),
        KernelPreset::of(
            "debian-14",
            "Debian's testing, its kernel of the day",
            (7, 2),
            250,
            Preemption::Lazy,
        ),
        KernelPreset::of(
            "debian-sid",
            "Debian's unstable, its kernel of the day",
            (7, 2),
            250,
            Preemption::Lazy,
        ),
        KernelPreset::of("fedora-43", "Fedora 43 as released", (6, 17), 1000, Preemption::Lazy),
        KernelPreset::of(
            "rhel-10",
            "Red Hat Enterprise Linux 10 and its relatives",
            (6, 12),
            1000,
            Preemption::Full,
        ),
        KernelPreset::of("ubuntu-24.04", "Ubuntu 24.04 as released", (6, 8), 250, Preemption::Full),
        KernelPreset::of(
            "ubuntu-24.04-hwe",
            "Ubuntu 24.04's kernel for newer hardware",
            (7, 0),
            1000,
            Preemption::Lazy,
        ),
        KernelPreset::of("ubuntu-25.04", "Ubuntu 25.04", (6, 14), 1000, Preemption::Full),
        KernelPreset::of("ubuntu-25.10", "Ubuntu 25.10", (6, 17), 1000, Preemption::Full),
        KernelPreset::of("ubuntu-26.04", "Ubuntu 26.04", (7, 0), 1000, Preemption::Lazy),
    ];

    const fn of(
        name: &'static str,
        about: &'static str,
        (major, minor): (u8, u8),
        hz: u32,
        preempt: Preemption,
    ) -> KernelPreset {
        KernelPreset { name, about, version: KernelVersion::new(major, minor), hz, preempt }
    }

    /// What it decides besides the tick.
    pub fn features(self) -> KernelFeatures {
        KernelFeatures { preempt: self.preempt, ..self.version.features() }
    }

    /// The preset of that name.
    ///
    /// # Errors
    /// Words that name those that there are, and the nearest.
    pub fn named(name: &str) -> Result<KernelPreset, VersionError> {
        let found = KernelPreset::ALL.into_iter().find(|preset| preset.name == name);
        found.ok_or_else(|| {
            let names = KernelPreset::ALL.map(|preset| preset.name);
            let near = did_you_mean(name, names);
            VersionError(format!("no kernel '{name}'{near}; there are: {}", names.join(", ")))
        })
    }
}

/// The preemption model, as far as it matters to tasks in user mode. "None" and "voluntary" of older kernels are
/// [`Preemption::Full`] here: they differ inside the kernel alone, which is not preempted in the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// `PREEMPT_FULL`: at once; another CPU gets an interrupt for it.
    Full,
    /// `PREEMPT_LAZY`: at the next return to user mode, of an interrupt at the latest by the tick.
    Lazy,
}

/// Where in the period the ticks of the CPUs lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickPhase {
    /// All at once (`skew_tick=0`).
    Aligned,
    /// Spread evenly (`skew_tick=1`; Linux 2.4 did so on every multiprocessor).
    Spread,
}

/// How the tasks of a workload come to their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// All are made at once, as tasks that have never run.
    AtOnce,
    /// As on a real kernel: made one after the other, they wait at a gate, and are woken there together. The run, its times
    /// and its figures begin with that; what the scheduler holds of the tasks does not.
    Gate,
}

impl KernelVersion {
    /// The first one with EEVDF; before it the fair class was another one, CFS.
    pub const FIRST: KernelVersion = KernelVersion::new(6, 6);
    /// The newest one whose rules are known.
    pub const LAST: KernelVersion = KernelVersion::new(7, 3);
    /// The last one of the 6 series; 7.0 followed.
    const LAST_OF_6: u8 = 19;

    const fn new(major: u8, minor: u8) -> KernelVersion {
        KernelVersion { major, minor }
    }

    /// All versions whose rules are known, newest first.
    pub fn all() -> impl Iterator<Item = KernelVersion> {
        let sixes =
            (KernelVersion::FIRST.minor..=KernelVersion::LAST_OF_6).map(|minor| KernelVersion::new(6, minor));
        let sevens = (0..=KernelVersion::LAST.minor).map(|minor| KernelVersion::new(7, minor));
        sevens.rev().chain(sixes.rev())
    }

    /// The version nearest to `major.minor` that is known.
    pub fn nearest(major: u32, minor: u32) -> KernelVersion {
        let narrow = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        KernelVersion::new(narrow(major), narrow(minor)).clamp(KernelVersion::FIRST, KernelVersion::LAST)
    }

    /// `major << 16 | minor << 8`, as `LINUX_KERNEL_VERSION` encodes it.
    pub fn code(self) -> u32 {
        u32::from(self.major) << 16 | u32::from(self.minor) << 8
    }

    /// True if this version has what `change` brought.
    pub fn has(self, change: KernelChange) -> bool {
        KernelChange::ALL.iter().any(|(other, since, _)| *other == change && self >= *since)
    }

    /// What real-time tasks may have of each second before the CPU is taken from them (`sched_rt_runtime_us`); nothing where
    /// deadline servers are in its place.
    pub fn rt_runtime(self) -> Option<DurationNs> {
        (!self.has(KernelChange::FairServer)).then_some(DurationNs::from_ms(950))
    }

    /// What deadline tasks and servers may have of each CPU, of [`FULL_BANDWIDTH`]: `sched_rt_runtime_us` of
    /// `sched_rt_period_us`, 0.95 s of 1 s up to 6.19, the whole in 7.3.
    pub fn deadline_bandwidth(self) -> u64 {
        if self >= KernelVersion::new(7, 0) { FULL_BANDWIDTH } else { FULL_BANDWIDTH * 95 / 100 }
    }

    /// What a distribution's kernel of this version has by default.
    pub fn features(self) -> KernelFeatures {
        KernelFeatures {
            version: self,
            hrtick: self.has(KernelChange::HrTick),
            preempt: if self.has(KernelChange::LazyPreemption) { Preemption::Lazy } else { Preemption::Full },
            ticks: TickPhase::Aligned,
            tick_jitter: DurationNs::ZERO,
            timer_slack: DurationNs::from_us(50),
            start: Start::AtOnce,
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why a text is no version whose rules are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionError(String);

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for VersionError {}

impl FromStr for KernelVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<KernelVersion, VersionError> {
        let (first, last) = (KernelVersion::FIRST, KernelVersion::LAST);
        let numbers = text
            .split_once('.')
            .and_then(|(major, minor)| Some(KernelVersion::new(major.parse().ok()?, minor.parse().ok()?)));
        let exists = |version: &KernelVersion| version.major > 6 || version.minor <= KernelVersion::LAST_OF_6;
        let Some(version) = numbers.filter(exists) else {
            return Err(VersionError(format!(
                "'{text}' is no version of Linux; {first} to {last} are modelled"
            )));
        };
        if version < first {
            return Err(VersionError(format!(
                "Linux {version} is not modelled: its fair class is CFS, EEVDF came with {first}; {first} to {last} are modelled"
            )));
        }
        if version > last {
            return Err(VersionError(format!("Linux {version} is not modelled; {first} to {last} are")));
        }
        Ok(version)
    }
}

impl Default for KernelFeatures {
    /// Linux 7.3.
    fn default() -> KernelFeatures {
        KernelVersion::LAST.features()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KernelVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_read_and_told() {
        for text in ["6.6", "6.12", "6.18", "6.19", "7.0", "7.3"] {
            assert_eq!(
                (version(text).to_string(), version(text).features().version),
                (text.to_string(), version(text))
            );
        }
        for (text, why) in [
            ("6.5", "its fair class is CFS"),
            ("5.14", "its fair class is CFS"),
            ("7.4", "Linux 7.4 is not modelled; 6.6 to 7.3 are"),
            ("6.20", "no version of Linux"),
            ("7", "no version of Linux"),
            ("6.12.3", "no version of Linux"),
            ("", "no version of Linux"),
        ] {
            let error = text.parse::<KernelVersion>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(KernelVersion::nearest(5, 4), KernelVersion::FIRST);
        assert_eq!(KernelVersion::nearest(900, 1), KernelVersion::LAST);
        assert_eq!(version("7.3").code(), 0x0007_0300);
    }

    #[test]
    fn versions_have_what_came_before_them() {
        assert!(!version("6.18").features().hrtick && KernelFeatures::default().hrtick);
        assert!(version("6.11").rt_runtime().is_some() && version("6.12").rt_runtime().is_none());
        assert!(!version("6.11").has(KernelChange::SchedExt) && version("6.12").has(KernelChange::SchedExt));
        assert!(KernelChange::ALL.iter().map(|(_, since, _)| since).is_sorted());
        assert!(KernelChange::ALL.iter().all(|(change, ..)| KernelVersion::LAST.has(*change)));
    }

    #[test]
    fn presets_are_of_known_versions() {
        assert!(KernelPreset::ALL.iter().map(|preset| preset.name).is_sorted());
        for preset in KernelPreset::ALL {
            assert_eq!(preset.version.to_string().parse(), Ok(preset.version));
            assert_eq!(KernelPreset::named(preset.name), Ok(preset));
            assert!(preset.preempt == Preemption::Full || preset.version.has(KernelChange::LazyPreemption));
        }
    }
}
