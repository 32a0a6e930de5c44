//! Nice values, sched_ext weights and scheduling policies.

use crate::Reservation;

/// A nice value, -20 (most favoured) to 19.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nice(i8);

/// sched_ext's weight scale: 100 is nice 0, range 1 to 10000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(pub u32);

/// The scheduling policy of a task, as `sched_setscheduler(2)` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// `SCHED_OTHER`: time-sharing.
    #[default]
    Other,
    /// `SCHED_BATCH`: time-sharing without wakeup preemption.
    Batch,
    /// `SCHED_IDLE`: the lowest time-sharing weight.
    Idle,
    /// `SCHED_FIFO` with a real-time priority of 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` with a real-time priority of 1 to 99.
    Rr(u8),
    /// `SCHED_DEADLINE`: its reservation of CPU time in each period, before everything else.
    Deadline(Reservation),
    /// `SCHED_EXT`: under a sched_ext scheduler, where there is one; else as [`Policy::Other`].
    Ext,
}

impl Policy {
    /// True for the real-time and deadline policies, which never reach sched_ext (`rt_or_dl_policy()`).
    pub fn is_realtime(self) -> bool {
        matches!(self, Policy::Fifo(_) | Policy::Rr(_) | Policy::Deadline(_))
    }

    /// What a task of `SCHED_DEADLINE` asks for.
    pub fn reservation(self) -> Option<Reservation> {
        if let Policy::Deadline(reservation) = self { Some(reservation) } else { None }
    }

    /// True for the policies of ordinary time-sharing (`normal_policy()` of the kernel).
    pub fn is_normal(self) -> bool {
        matches!(self, Policy::Other | Policy::Ext)
    }
}

/// Load weights of the fair class by nice value, -20 first; 1024 is nice 0 and
/// each step is a factor of about 1.25 (Linux `sched_prio_to_weight`).
const LOAD_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

impl Nice {
    /// The most important value, -20.
    pub const MIN: Nice = Nice(-20);
    /// Nice 0.
    pub const ZERO: Nice = Nice(0);

    /// The nice value `value`, or nothing when it is outside -20 to 19.
    pub fn new(value: i64) -> Option<Nice> {
        (-20..=19).contains(&value).then_some(Nice(value as i8))
    }

    /// The plain number, -20 to 19.
    pub fn get(self) -> i32 {
        i32::from(self.0)
    }

    /// The kernel's `static_prio`: 100 to 139, 120 is nice 0.
    pub fn static_prio(self) -> i32 {
        120 + self.get()
    }

    /// The fair class's weight: 1024 is nice 0.
    pub fn load_weight(self) -> u32 {
        LOAD_WEIGHT[(self.get() + 20) as usize]
    }

    /// The sched_ext weight: 100 is nice 0. The kernel's `sched_weight_to_cgroup`:
    /// round(load_weight * 100 / 1024), clamped to 1..10000.
    pub fn weight(self) -> Weight {
        let scaled = (u64::from(self.load_weight()) * 100 + 512) / 1024;
        Weight((scaled as u32).clamp(1, 10_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_weights() {
        assert_eq!(Nice::new(0).unwrap().weight(), Weight(100));
        assert_eq!(Nice::new(-20).unwrap().weight(), Weight(8668));
        assert_eq!(Nice::new(19).unwrap().weight(), Weight(1));
        assert_eq!(Nice::new(20), None);
        assert_eq!(Nice::new(-21), None);
    }
}
