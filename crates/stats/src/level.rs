//! Confidence levels.

use std::fmt;
use std::str::FromStr;

/// A two-sided confidence level: the six that ministat(1) offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// 80 %.
    P80,
    /// 90 %.
    P90,
    /// 95 %, the usual one.
    #[default]
    P95,
    /// 98 %.
    P98,
    /// 99 %.
    P99,
    /// 99.5 %.
    P995,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Level; 6] = [Level::P80, Level::P90, Level::P95, Level::P98, Level::P99, Level::P995];

    /// The level in permille: 950 for 95 %.
    pub fn permille(self) -> u32 {
        match self {
            Level::P80 => 800,
            Level::P90 => 900,
            Level::P95 => 950,
            Level::P98 => 980,
            Level::P99 => 990,
            Level::P995 => 995,
        }
    }

    /// The probability that lies below the upper end of the interval: 0.975 for
    /// 95 %.
    pub(crate) fn upper_probability(self) -> f64 {
        0.5 + f64::from(self.permille()) / 2000.0
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}%", f64::from(self.permille()) / 10.0)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let number = text.trim_end_matches('%').parse::<f64>().map(|percent| (percent * 10.0).round());
        Level::ALL
            .into_iter()
            .find(|level| number.as_ref().is_ok_and(|n| (n - f64::from(level.permille())).abs() < 0.5))
            .ok_or_else(|| format!("'{text}' is not a level: choose 80, 90, 95, 98, 99 or 99.5"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_and_written() {
        assert_eq!("95".parse(), Ok(Level::P95));
        assert_eq!("99.5%".parse(), Ok(Level::P995));
        assert_eq!(Level::P995.to_string(), "99.5%");
        assert!("97".parse::<Level>().unwrap_err().contains("choose 80"));
    }
}
