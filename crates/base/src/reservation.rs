//! What a task of the policy `SCHED_DEADLINE` asks for.

use crate::DurationNs;
use std::fmt;
use std::str::FromStr;

/// A full CPU as a bandwidth (`BW_UNIT`).
pub const FULL_BANDWIDTH: u64 = 1 << 20;

/// `sched_attr::sched_runtime`, `sched_deadline` and `sched_period`, as the kernel accepts them (`__checkparam_dl()`).
///
/// The longest period, 2^22 us, fits into 32 bits of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reservation {
    runtime: u32,
    deadline: u32,
    period: u32,
}

/// Why three times are no reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationError(String);

impl fmt::Display for ReservationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReservationError {}

impl Reservation {
    /// The shortest runtime: the kernel computes in units of 2^10 ns (`DL_SCALE`).
    pub const SHORTEST_RUNTIME: DurationNs = DurationNs(1 << 10);
    /// The shortest period (`sched_deadline_period_min_us`).
    pub const SHORTEST_PERIOD: DurationNs = DurationNs::from_us(100);
    /// The longest period (`sched_deadline_period_max_us`).
    pub const LONGEST_PERIOD: DurationNs = DurationNs::from_us(1 << 22);

    /// `runtime` of CPU time by `deadline` after the begin of each `period`.
    ///
    /// # Errors
    /// The rule of the kernel that the three break, which it answers with `EINVAL`.
    pub fn new(
        runtime: DurationNs,
        deadline: DurationNs,
        period: DurationNs,
    ) -> Result<Reservation, ReservationError> {
        let fail = |text: String| Err(ReservationError(text));
        if runtime < Reservation::SHORTEST_RUNTIME {
            return fail(format!("a runtime of {runtime} is below {}", Reservation::SHORTEST_RUNTIME));
        }
        if runtime > deadline || deadline > period {
            return fail(format!(
                "the runtime ({runtime}) may not exceed the deadline ({deadline}), nor the deadline the period ({period})"
            ));
        }
        if !(Reservation::SHORTEST_PERIOD..=Reservation::LONGEST_PERIOD).contains(&period) {
            return fail(format!(
                "a period of {period} is not within {} to {}",
                Reservation::SHORTEST_PERIOD,
                Reservation::LONGEST_PERIOD
            ));
        }
        // All are at most the longest period.
        Ok(Reservation { runtime: runtime.0 as u32, deadline: deadline.0 as u32, period: period.0 as u32 })
    }

    /// CPU time of each period.
    pub fn runtime(self) -> DurationNs {
        DurationNs(self.runtime.into())
    }

    /// By when the task has had it, from the begin of the period.
    pub fn deadline(self) -> DurationNs {
        DurationNs(self.deadline.into())
    }

    /// From one instance to the next.
    pub fn period(self) -> DurationNs {
        DurationNs(self.period.into())
    }

    /// The reservation's part of a CPU, of [`FULL_BANDWIDTH`] (`to_ratio()`).
    pub fn bandwidth(self) -> u64 {
        ratio(self.runtime, self.period)
    }

    /// Runtime by deadline, of [`FULL_BANDWIDTH`] (`dl_density`).
    pub fn density(self) -> u64 {
        ratio(self.runtime, self.deadline)
    }

    /// The deadline is the end of the period (`dl_is_implicit()`).
    pub fn is_implicit(self) -> bool {
        self.deadline == self.period
    }
}

fn ratio(runtime: u32, of: u32) -> u64 {
    u64::from(runtime) * FULL_BANDWIDTH / u64::from(of)
}

impl fmt::Display for Reservation {
    /// As it is read: `3ms/10ms`, with a period of its own `3ms/8ms/10ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.runtime(), self.deadline())?;
        if self.is_implicit() { Ok(()) } else { write!(f, "/{}", self.period()) }
    }
}

impl FromStr for Reservation {
    type Err = ReservationError;

    /// `RUNTIME/DEADLINE` or `RUNTIME/DEADLINE/PERIOD`; a period that is left out is the deadline.
    fn from_str(text: &str) -> Result<Reservation, ReservationError> {
        let times: Result<Vec<DurationNs>, _> = text.split('/').map(str::parse).collect();
        match times.as_deref() {
            Ok(&[runtime, deadline]) => Reservation::new(runtime, deadline, deadline),
            Ok(&[runtime, deadline, period]) => Reservation::new(runtime, deadline, period),
            _ => Err(ReservationError(format!(
                "'{text}' is not RUNTIME/DEADLINE or RUNTIME/DEADLINE/PERIOD, like 3ms/10ms"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_written_as_they_are_read() {
        for text in ["3ms/10ms", "3ms/8ms/10ms", "1024ns/100us", "1500us/4194304us"] {
            let reservation: Reservation = text.parse().unwrap();
            assert_eq!(reservation.to_string(), text);
        }
        let reservation: Reservation = "3ms/6ms/12ms".parse().unwrap();
        assert_eq!((reservation.bandwidth(), reservation.density()), (1 << 18, 1 << 19));
        assert!(!reservation.is_implicit());
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        for (text, why) in [
            ("1023ns/10ms", "below 1024ns"),
            ("11ms/10ms", "may not exceed the deadline"),
            ("3ms/11ms/10ms", "nor the deadline the period"),
            ("3us/99us", "not within 100us"),
            ("3ms/5s", "not within 100us"),
            ("3ms", "is not RUNTIME/DEADLINE"),
            ("3/10", "is not RUNTIME/DEADLINE"),
            ("3ms/10ms/10ms/10ms", "is not RUNTIME/DEADLINE"),
        ] {
            let error = text.parse::<Reservation>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
