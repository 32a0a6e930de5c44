//! The kernel that is simulated, where versions and configurations of Linux differ.

use crate::DurationNs;

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
    /// How much later than asked a sleeping task of a normal policy is woken (`timer_slack_ns`): the latest that the
    /// kernel may choose, which it takes when no other timer is due before.
    pub timer_slack: DurationNs,
    /// How a workload's tasks begin.
    pub start: Start,
}

/// A thread of the kernel that has work now and then, whatever the workload does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Background {
    /// Its name.
    pub name: String,
    /// From one wakeup to the next, on average; single gaps are half to one and a half of it, by the seed.
    pub period: DurationNs,
    /// How long it computes each time.
    pub length: DurationNs,
    /// One of them on each CPU, which it never leaves; else one in all, on any.
    pub per_cpu: bool,
}

/// A version of Linux, by the rules that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelVersion {
    /// 6.18: the lag of a task that leaves is at most two slices, or a tick; `HRTICK` is off where nobody turns it on.
    V6_18,
    /// 7.3: the lag is at most the longest slice and a tick; `HRTICK` is on where the machine has timers for it.
    V7_3,
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
    /// All of them with their names, oldest first.
    pub const ALL: [(&'static str, KernelVersion); 2] =
        [("6.18", KernelVersion::V6_18), ("7.3", KernelVersion::V7_3)];

    /// Its name, as in a machine file.
    pub fn name(self) -> &'static str {
        KernelVersion::ALL.iter().find(|(_, version)| *version == self).map_or("", |(name, _)| name)
    }

    /// What a distribution's kernel of this version has where nobody chose otherwise.
    pub fn features(self) -> KernelFeatures {
        KernelFeatures {
            version: self,
            hrtick: self >= KernelVersion::V7_3,
            preempt: Preemption::Lazy,
            ticks: TickPhase::Aligned,
            timer_slack: DurationNs::from_us(50),
            start: Start::AtOnce,
        }
    }
}

impl Default for KernelFeatures {
    /// Linux 7.3.
    fn default() -> KernelFeatures {
        KernelVersion::V7_3.features()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_names_and_features() {
        for (name, version) in KernelVersion::ALL {
            assert_eq!((version.name(), version.features().version), (name, version));
        }
        assert!(!KernelVersion::V6_18.features().hrtick && KernelFeatures::default().hrtick);
    }
}
