//! The conditions of `--fail-on`.

use schedlab_report::{Comparison, Verdict};
use std::fmt;
use std::str::FromStr;

/// What fails a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum FailOn {
    /// A verdict `worse`.
    Worse {
        /// Of this metric; of the workload's own ones without.
        metric: Option<String>,
        /// Only if the estimate of the change exceeds so many percent.
        percent: Option<f64>,
    },
    /// A run that is void or suspect.
    Suspect,
}

impl FailOn {
    /// The metric that it names, if it names one.
    pub fn metric(&self) -> Option<&str> {
        match self {
            FailOn::Worse { metric, .. } => metric.as_deref(),
            FailOn::Suspect => None,
        }
    }

    /// Whether a comparison fails by it. `own` says that the metric is the workload's own.
    pub(crate) fn fails(&self, c: &Comparison, own: bool) -> bool {
        let FailOn::Worse { metric, percent } = self else { return false };
        let is_meant = metric.as_ref().map_or(own, |metric| *metric == c.metric);
        // A baseline of 0 has no percentage: whatever is worse than that exceeds all of them.
        let exceeds = percent.is_none_or(|most| c.percent.is_none_or(|percent| percent.abs() > most));
        is_meant && exceeds && c.verdict == Verdict::Worse
    }
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<FailOn, String> {
        let form = || format!("'{text}' is neither worse, worse:METRIC, worse:METRIC=PERCENT nor suspect");
        if text == "suspect" {
            return Ok(FailOn::Suspect);
        }
        let rest = text.strip_prefix("worse").ok_or_else(form)?;
        let (metric, percent) =
            rest.split_once('=').map_or((rest, None), |(metric, most)| (metric, Some(most)));
        let metric = match metric.strip_prefix(':') {
            Some("") => return Err(form()),
            Some(metric) => Some(metric.to_string()),
            None if metric.is_empty() => None,
            None => return Err(form()),
        };
        let number = |text: &str| {
            let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
            let most = number.filter(|percent| (0.0..=1000.0).contains(percent));
            most.ok_or_else(|| format!("'{text}' is no percentage from 0 to 1000, as in 1 or 2.5"))
        };
        Ok(FailOn::Worse { metric, percent: percent.map(number).transpose()? })
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailOn::Suspect => f.write_str("suspect"),
            FailOn::Worse { metric, percent } => {
                f.write_str("worse")?;
                metric.as_ref().map_or(Ok(()), |metric| write!(f, ":{metric}"))?;
                percent.map_or(Ok(()), |percent| write!(f, "={percent}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_written() {
        for text in ["suspect", "worse", "worse=5", "worse:throughput", "worse:throughput=2.5"] {
            assert_eq!(text.parse::<FailOn>().unwrap().to_string(), text);
        }
        assert_eq!("worse:a=5%".parse::<FailOn>().unwrap().to_string(), "worse:a=5");
        for text in
            ["", "worst", "worse:", "worse:=", "worse:a=", "worse:a=-1", "worse:a=x", "worsen", "suspects"]
        {
            assert!(text.parse::<FailOn>().is_err(), "{text}");
        }
    }
}
