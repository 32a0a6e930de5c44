//! Policies by rt-app's names, with the priority or the reservation that other keys give.

use super::{Node, Outcome, Version, fault, micros, text};
use schedlab_base::{DurationNs, Nice, Policy, Reservation};

/// A policy as rt-app names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// One that needs nothing else.
    Plain(Policy),
    /// `SCHED_DEADLINE`, whose reservation the `dl-` keys give.
    Deadline,
}

/// The policy of the key `policy`, with rt-app's default real-time priority, 10.
pub(super) fn named(node: &Node, path: &str) -> Outcome<Named> {
    const DEFAULT_RT_PRIORITY: u8 = 10;
    Ok(Named::Plain(match text(node, path)? {
        "SCHED_OTHER" => Policy::Other,
        "SCHED_BATCH" => Policy::Batch,
        "SCHED_IDLE" => Policy::Idle,
        "SCHED_EXT" => Policy::Ext,
        "SCHED_FIFO" => Policy::Fifo(DEFAULT_RT_PRIORITY),
        "SCHED_RR" => Policy::Rr(DEFAULT_RT_PRIORITY),
        "SCHED_DEADLINE" => return Ok(Named::Deadline),
        other => {
            return fault(
                node,
                path,
                format!(
                    "'{other}' is not modelled; there are: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_EXT, SCHED_FIFO, SCHED_RR, SCHED_DEADLINE"
                ),
            );
        }
    }))
}

/// A policy with a `priority`: a nice value of time-sharing policies, a real-time priority of the others.
pub(super) fn ranked(policy: Policy, node: &Node, path: &str, value: i64) -> Outcome<(Policy, Nice)> {
    let realtime = u8::try_from(value).ok().filter(|prio| (1..=99).contains(prio));
    match (policy, realtime, Nice::new(value)) {
        (Policy::Fifo(_), Some(prio), _) => Ok((Policy::Fifo(prio), Nice::ZERO)),
        (Policy::Rr(_), Some(prio), _) => Ok((Policy::Rr(prio), Nice::ZERO)),
        (Policy::Fifo(_) | Policy::Rr(_), None, _) => fault(node, path, "a real-time priority is 1 to 99"),
        // It has no meaning there.
        (Policy::Deadline(_), ..) => Ok((policy, Nice::ZERO)),
        (_, _, Some(nice)) => Ok((policy, nice)),
        _ => fault(node, path, "a nice value is -20 to 19"),
    }
}

/// The `dl-` keys of a task or phase, and the older names that a task may use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DlTimes {
    /// `dl-runtime`, which of policies of the fair class is the slice.
    pub(super) runtime: Option<DurationNs>,
    deadline: Option<DurationNs>,
    period: Option<DurationNs>,
    /// `runtime`, `deadline` and `period`, as 1.0 and head take them where the `dl-` key is missing or 0.
    legacy: [Option<DurationNs>; 3],
}

impl DlTimes {
    /// The keys.
    pub(super) const KEYS: [&str; 6] =
        ["dl-runtime", "dl-deadline", "dl-period", "runtime", "deadline", "period"];
    /// The keys that a phase may have.
    pub(super) const OF_PHASES: [&str; 3] = ["dl-runtime", "dl-deadline", "dl-period"];

    /// Takes one of [`DlTimes::KEYS`].
    pub(super) fn take(&mut self, key: &str, node: &Node, path: &str) -> Outcome<()> {
        let time = Some(micros(node, path)?);
        match key {
            "dl-runtime" => self.runtime = time,
            "dl-deadline" => self.deadline = time,
            "dl-period" => self.period = time,
            "runtime" => self.legacy[0] = time,
            "deadline" => self.legacy[1] = time,
            _ => self.legacy[2] = time,
        }
        Ok(())
    }

    /// True if there is none of them.
    pub(super) fn is_empty(self) -> bool {
        self.runtime.is_none() && self.deadline.is_none() && self.period.is_none()
    }

    /// The slice that a task of the fair class gets by these keys in head, and by which.
    pub(super) fn slice(&self) -> Option<(&'static str, DurationNs)> {
        let set = |time: Option<DurationNs>| time.filter(|time| *time > DurationNs::ZERO);
        let own = set(self.runtime).map(|time| ("dl-runtime", time));
        own.or_else(|| set(self.legacy[0]).map(|time| ("runtime", time)))
    }

    /// Runtime, deadline and period as a version's parser works them out.
    fn triple(self, version: Version) -> [DurationNs; 3] {
        let set = |time: Option<DurationNs>| time.filter(|time| *time > DurationNs::ZERO);
        let [runtime, deadline, period] = self.legacy;
        match version {
            Version::Head => {
                let own = set(self.runtime).unwrap_or_default();
                let own_period = self.period.unwrap_or(own);
                let own_deadline = self.deadline.unwrap_or(own_period);
                let first = |own: DurationNs, legacy: Option<DurationNs>, default: DurationNs| {
                    set(Some(own)).unwrap_or(legacy.unwrap_or(default))
                };
                let runtime = first(own, runtime, DurationNs::ZERO);
                let period = first(own_period, period, runtime);
                [runtime, first(own_deadline, deadline, period), period]
            }
            Version::V1_0 => {
                // 1.0 hands the older names to the kernel as nanoseconds, and never reads `deadline`.
                let raw = |time: DurationNs| DurationNs(time.0 / 1_000);
                let runtime = set(self.runtime).unwrap_or_else(|| raw(runtime.unwrap_or_default()));
                let period = set(self.period).unwrap_or_else(|| period.map_or(runtime, raw));
                [runtime, self.deadline.unwrap_or_default(), period]
            }
        }
    }

    /// The policy of this name: `dl-period` defaults to `dl-runtime`, `dl-deadline` to `dl-period`, as in rt-app's head.
    pub(super) fn policy(self, named: Named, node: &Node, path: &str, version: Version) -> Outcome<Policy> {
        let Named::Plain(policy) = named else {
            let [runtime, deadline, period] = self.triple(version);
            if version == Version::V1_0 && deadline == DurationNs::ZERO {
                let why = "rt-app 1.0 takes a deadline of 0 where \"dl-deadline\" is missing and ends with an error; \
                           write it (microseconds), or follow head (--rt-app head)";
                return fault(node, path, why);
            }
            let reservation = Reservation::new(runtime, deadline, period);
            return match reservation {
                Ok(reservation) => Ok(Policy::Deadline(reservation)),
                Err(why) => fault(
                    node,
                    path,
                    format!("SCHED_DEADLINE by dl-runtime, dl-deadline and dl-period (microseconds): {why}"),
                ),
            };
        };
        Ok(policy)
    }
}
