//! Goals: bounds that the figures of a run are to keep, as `tail < 16.6ms`.

use std::fmt;

/// On which side of its bound a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Below the bound.
    Less,
    /// Below the bound or equal to it.
    AtMost,
    /// Above the bound.
    More,
    /// Above the bound or equal to it.
    AtLeast,
}

impl Relation {
    /// All relations. A sign that begins with another one's sign comes first.
    pub const ALL: [Relation; 4] = [Relation::AtMost, Relation::AtLeast, Relation::Less, Relation::More];

    /// The sign in files and results: `<`, `<=`, `>` or `>=`.
    pub fn sign(self) -> &'static str {
        match self {
            Relation::Less => "<",
            Relation::AtMost => "<=",
            Relation::More => ">",
            Relation::AtLeast => ">=",
        }
    }

    /// The relation of a sign.
    pub fn from_sign(sign: &str) -> Option<Relation> {
        Relation::ALL.into_iter().find(|relation| relation.sign() == sign)
    }
}

/// A bound on one figure of a run. Goals judge runs; they never change one.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Name of the metric.
    pub metric: String,
    /// On which side of the bound the figure must lie.
    pub relation: Relation,
    /// The bound, in the metric's unit.
    pub bound: f64,
    /// The metric's unit.
    pub unit: &'static str,
}

/// Why a goal is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalError {
    /// The goal is not `METRIC SIGN NUMBER UNIT`; says what is missing.
    Form(&'static str),
    /// No metric has this name.
    Metric(String),
    /// The number is none; as it is written.
    Number(String),
    /// The unit does not go with the metric: the metric, its unit, the unit that was written.
    Unit(String, &'static str, String),
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalError::Form(lack) => {
                write!(f, "{lack}; a goal is written METRIC < NUMBER with a unit, or with <=, > or >=")
            }
            GoalError::Metric(name) => write!(f, "no metric '{name}'"),
            GoalError::Number(text) => write!(f, "'{text}' is no number with a unit, such as 16.6ms"),
            GoalError::Unit(metric, unit, given) => {
                let wanted = match *unit {
                    "1" => "a plain number without a unit".to_string(),
                    unit if nanoseconds(unit).is_some() => "a time in ns, us, ms or s".to_string(),
                    unit => format!("a number with the unit {unit} (as 50 {unit})"),
                };
                let given = if given.is_empty() { "no unit".to_string() } else { format!("'{given}'") };
                write!(f, "{metric} is {wanted}, not one with {given}")
            }
        }
    }
}

impl std::error::Error for GoalError {}

impl Goal {
    /// Reads a goal: the name of a metric, `<`, `<=`, `>` or `>=`, a number and its unit. `unit_of` knows the unit of each
    /// metric that exists.
    ///
    /// # Errors
    /// What [`GoalError`] tells.
    pub fn parse(text: &str, unit_of: impl Fn(&str) -> Option<&'static str>) -> Result<Goal, GoalError> {
        let at = text.find(['<', '>', '=']).ok_or(GoalError::Form("there is no <, <=, > or >="))?;
        let (metric, rest) = (text[..at].trim(), &text[at..]);
        let found = Relation::ALL.into_iter().find_map(|relation| {
            let bound = rest.strip_prefix(relation.sign())?;
            (!bound.starts_with(['<', '>', '='])).then_some((relation, bound.trim()))
        });
        let (relation, bound) = found.ok_or(GoalError::Form("the sign is none of <, <=, > and >="))?;
        if metric.is_empty() {
            return Err(GoalError::Form("there is no metric"));
        }
        let unit = unit_of(metric).ok_or_else(|| GoalError::Metric(metric.to_string()))?;
        let digits = bound.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(bound.len());
        let (number, given) = (&bound[..digits], bound[digits..].trim());
        let number: f64 = number.parse().map_err(|_| GoalError::Number(bound.to_string()))?;
        let wrong = || GoalError::Unit(metric.to_string(), unit, given.to_string());
        let factor = factor(given, unit).ok_or_else(wrong)?;
        Ok(Goal { metric: metric.to_string(), relation, bound: number * factor, unit })
    }

    /// Whether a figure in the metric's unit keeps the goal. A figure that is no number does not.
    pub fn is_met_by(&self, value: f64) -> bool {
        match self.relation {
            Relation::Less => value < self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::More => value > self.bound,
            Relation::AtLeast => value >= self.bound,
        }
    }

    /// The unit in which people read figures of the goal, and what a figure in the metric's unit is divided by. Of the units of
    /// time it is the largest in which the bound is 1 or more.
    pub fn shown_in(&self) -> (&'static str, f64) {
        let own = nanoseconds(self.unit);
        let fits = |(unit, divisor): &(&str, f64)| *unit == self.unit || self.bound.abs() >= *divisor;
        let larger = TIMES.iter().rev().filter_map(|(unit, length)| Some((*unit, length / own?)));
        larger.filter(|(_, divisor)| *divisor >= 1.0).find(fits).unwrap_or((self.unit, 1.0))
    }

    /// How far a figure is on the good side of the bound, in the metric's unit; negative on the bad side.
    pub fn margin(&self, value: f64) -> f64 {
        match self.relation {
            Relation::Less | Relation::AtMost => self.bound - value,
            Relation::More | Relation::AtLeast => value - self.bound,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, divisor) = self.shown_in();
        let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
        write!(f, "{} {} {}{unit}", self.metric, self.relation.sign(), self.bound / divisor)
    }
}

/// By what a number with the unit `given` is multiplied to have `unit`; nothing where the two do not go together.
fn factor(given: &str, unit: &str) -> Option<f64> {
    match (nanoseconds(given), nanoseconds(unit)) {
        // Multiplying and dividing whole numbers keeps 16.6 ms what it is.
        (Some(given), Some(unit)) if given >= unit => Some(given / unit),
        (Some(given), Some(unit)) => Some(1.0 / (unit / given)),
        _ if given == unit || given.is_empty() && unit == "1" || unit.strip_prefix('1') == Some(given) => {
            Some(1.0)
        }
        _ => None,
    }
}

/// Units of time and their nanoseconds, the smallest first.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Nanoseconds of a unit of time.
fn nanoseconds(unit: &str) -> Option<f64> {
    TIMES.iter().find(|(known, _)| *known == unit).map(|(_, length)| *length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Goal, GoalError> {
        Goal::parse(text, |name| {
            [("tail", "ms"), ("late", "1"), ("share", "%"), ("rate", "1/s"), ("run_delay_ns_p99", "ns")]
                .into_iter()
                .find(|(known, _)| *known == name)
                .map(|(_, unit)| unit)
        })
    }

    #[test]
    fn goals_are_read_in_the_unit_of_their_metric() {
        for (text, shown) in [
            ("tail < 16.6ms", "tail < 16.6 ms"),
            (" tail<=2s ", "tail <= 2 s"),
            ("tail >= 500 us", "tail >= 0.5 ms"),
            ("late > 3", "late > 3"),
            ("share < 1%", "share < 1 %"),
            ("rate >= 100/s", "rate >= 100 1/s"),
            ("rate >= 100 1/s", "rate >= 100 1/s"),
            ("run_delay_ns_p99 < 1.5ms", "run_delay_ns_p99 < 1.5 ms"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_with_what_is_wanted() {
        for (text, words) in [
            ("tail 16ms", "there is no <, <=, > or >="),
            ("tail = 16ms", "the sign is none of"),
            ("tail << 16ms", "the sign is none of"),
            ("tail => 16ms", "the sign is none of"),
            ("< 16ms", "there is no metric"),
            ("tial < 16ms", "no metric 'tial'"),
            ("tail < ms", "'ms' is no number"),
            ("tail < 1.2.3ms", "'1.2.3ms' is no number"),
            ("tail < 16", "tail is a time in ns, us, ms or s, not one with no unit"),
            ("tail < 16%", "tail is a time in ns, us, ms or s, not one with '%'"),
            ("late < 3ms", "late is a plain number without a unit, not one with 'ms'"),
            ("share < 3", "share is a number with the unit % (as 50 %), not one with no unit"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_margin_is_positive_on_the_good_side() {
        let (below, above) = (parse("tail < 10ms").unwrap(), parse("tail >= 10ms").unwrap());
        assert_eq!((below.margin(8.0), above.margin(8.0)), (2.0, -2.0));
        assert!(below.is_met_by(8.0) && !below.is_met_by(10.0));
        assert!(above.is_met_by(10.0) && !above.is_met_by(8.0));
        assert!(
            parse("tail <= 10ms").unwrap().is_met_by(10.0) && !parse("tail > 10ms").unwrap().is_met_by(10.0)
        );
        assert!(!below.is_met_by(f64::NAN) && !above.is_met_by(f64::NAN));
    }
}
