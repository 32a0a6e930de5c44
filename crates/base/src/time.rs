//! Instants and spans, both in integer nanoseconds.
//!
//! An instant minus an instant is a span; raw integers of time do not cross
//! public functions of the other rooms.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

/// An instant: nanoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeNs(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationNs(pub u64);

impl TimeNs {
    /// The start of a run.
    pub const ZERO: TimeNs = TimeNs(0);
    /// Later than every instant of a run.
    pub const MAX: TimeNs = TimeNs(u64::MAX);

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: TimeNs) -> DurationNs {
        DurationNs(self.0.saturating_sub(earlier.0))
    }
}

impl DurationNs {
    /// No time.
    pub const ZERO: DurationNs = DurationNs(0);
    /// The longest span.
    pub const MAX: DurationNs = DurationNs(u64::MAX);
    /// The longest span that a text may give: 30 days. Chosen: no run takes longer, what is longer has a wrong unit, and sums of
    /// many stay far from overflow.
    pub const LONGEST: DurationNs = DurationNs::from_secs(30 * 24 * 3600);

    /// A span of whole microseconds.
    pub const fn from_us(us: u64) -> DurationNs {
        DurationNs(us * 1_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_ms(ms: u64) -> DurationNs {
        DurationNs(ms * 1_000_000)
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> DurationNs {
        DurationNs(secs * 1_000_000_000)
    }

    /// The span in seconds, for display and rates only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, or zero when `other` is longer.
    pub fn saturating_sub(self, other: DurationNs) -> DurationNs {
        DurationNs(self.0.saturating_sub(other.0))
    }

    /// Scales by `num / den`, rounding down; saturates. `den` must not be 0.
    pub fn scale(self, num: u64, den: u64) -> DurationNs {
        assert!(den != 0, "a span cannot be divided by zero");
        let scaled = u128::from(self.0) * u128::from(num) / u128::from(den);
        DurationNs(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl Sub for TimeNs {
    type Output = DurationNs;
    #[inline]
    fn sub(self, rhs: TimeNs) -> DurationNs {
        debug_assert!(self >= rhs, "time runs forward: {self} - {rhs}");
        DurationNs(self.0.wrapping_sub(rhs.0))
    }
}

/// The sum; saturates. That never happens in a run, so it is a branch, which is shorter for the host than a choice between two numbers.
#[inline(always)]
fn sum(a: u64, b: u64) -> u64 {
    match a.checked_add(b) {
        Some(sum) => sum,
        None => longest(),
    }
}

/// The longest span. The compiler of the host is not to see which one it is: it would make a choice of the branch.
#[cold]
#[inline(never)]
fn longest() -> u64 {
    std::hint::black_box(u64::MAX)
}

impl Add<DurationNs> for TimeNs {
    type Output = TimeNs;
    #[inline]
    fn add(self, rhs: DurationNs) -> TimeNs {
        TimeNs(sum(self.0, rhs.0))
    }
}

impl AddAssign<DurationNs> for TimeNs {
    #[inline]
    fn add_assign(&mut self, rhs: DurationNs) {
        *self = *self + rhs;
    }
}

impl Add for DurationNs {
    type Output = DurationNs;
    #[inline]
    fn add(self, rhs: DurationNs) -> DurationNs {
        DurationNs(sum(self.0, rhs.0))
    }
}

impl AddAssign for DurationNs {
    #[inline]
    fn add_assign(&mut self, rhs: DurationNs) {
        *self = *self + rhs;
    }
}

impl Sub for DurationNs {
    type Output = DurationNs;
    #[inline]
    fn sub(self, rhs: DurationNs) -> DurationNs {
        debug_assert!(self >= rhs, "a span cannot be negative: {self} - {rhs}");
        DurationNs(self.0.wrapping_sub(rhs.0))
    }
}

impl SubAssign for DurationNs {
    #[inline]
    fn sub_assign(&mut self, rhs: DurationNs) {
        *self = *self - rhs;
    }
}

impl Mul<u64> for DurationNs {
    type Output = DurationNs;
    fn mul(self, rhs: u64) -> DurationNs {
        DurationNs(self.0.saturating_mul(rhs))
    }
}

impl Div<u64> for DurationNs {
    type Output = DurationNs;
    fn div(self, rhs: u64) -> DurationNs {
        DurationNs(self.0 / rhs)
    }
}

impl fmt::Display for TimeNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DurationNs(self.0).fmt(f)
    }
}

impl fmt::Display for DurationNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let (unit, name) = match ns {
            0 => return f.write_str("0ns"),
            n if n % 1_000_000_000 == 0 => (1_000_000_000, "s"),
            n if n % 1_000_000 == 0 => (1_000_000, "ms"),
            n if n % 1_000 == 0 => (1_000, "us"),
            _ => (1, "ns"),
        };
        write!(f, "{}{name}", ns / unit)
    }
}

/// Why a duration could not be read. The message names the text and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError(String);

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseDurationError {}

impl FromStr for DurationNs {
    type Err = ParseDurationError;

    /// Reads `<number><unit>` with units ns, us, ms, s, m, h; the number may
    /// have a decimal fraction of at most nine digits. Rounds down to whole ns. At most [`DurationNs::LONGEST`].
    fn from_str(text: &str) -> Result<DurationNs, ParseDurationError> {
        let bad = || {
            let cure = "write a number and a unit, as in 500ms, 1.5s, 20us, 100ns, 2m";
            ParseDurationError(format!("'{text}' is not a duration: {cure}"))
        };
        let long = || ParseDurationError(format!("'{text}' is too long: give it 720h (30 days) or less"));
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(split);
        let unit_ns: u128 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(bad()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
            return Err(bad());
        }
        let whole: u128 = whole.parse().map_err(|_| long())?;
        let scale = 10u128.pow(fraction.len() as u32);
        let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad())? };
        let ns = whole
            .checked_mul(unit_ns)
            .and_then(|ns| ns.checked_add(fraction * unit_ns / scale))
            .ok_or_else(long)?;
        let span = u64::try_from(ns).map(DurationNs).map_err(|_| long())?;
        if span > DurationNs::LONGEST { Err(long()) } else { Ok(span) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for text in ["1ns", "20us", "500ms", "2s", "1500ms"] {
            assert_eq!(text.parse::<DurationNs>().unwrap().to_string(), text);
        }
        assert_eq!("1.5s".parse(), Ok(DurationNs::from_ms(1500)));
        assert_eq!("2m".parse(), Ok(DurationNs::from_secs(120)));
    }

    #[test]
    fn bad_durations_are_refused() {
        for text in ["", "5", "ms", "-1s", "1.s.s", "1e3s", "5 ms", "99999999999999999999s", "1.0000000001s"]
        {
            let error = text.parse::<DurationNs>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is ")), "{error}");
        }
        let long = |text: &str| {
            text.parse::<DurationNs>().unwrap_err().to_string().contains("720h (30 days) or less")
        };
        assert!(long("18446744074s") && long(&format!("{}s", "9".repeat(50))) && !long("1e3s"));
        assert!(long("1000000h") && long("720.000000001h"));
        assert_eq!("720h".parse(), Ok(DurationNs::LONGEST));
    }

    #[test]
    fn scaling_rounds_down() {
        assert_eq!(DurationNs(10).scale(2, 3), DurationNs(6));
    }
}
