//! The rules by which a measured figure agrees with a published one. They were written
//! down (`docs/reproduction.md`) before the first results; none knows a scheduler.

use schedlab_stats::proportion_interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a published figure is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Qualifier {
    /// As printed.
    #[default]
    #[serde(rename = "=")]
    Is,
    /// "about", "roughly".
    #[serde(rename = "~")]
    About,
    /// "less than".
    #[serde(rename = "<")]
    Below,
    /// "more than".
    #[serde(rename = ">")]
    Above,
}

impl Qualifier {
    /// In front of a figure; nothing for an exact one.
    pub fn sign(self) -> &'static str {
        match self {
            Qualifier::Is => "",
            Qualifier::About => "~",
            Qualifier::Below => "<",
            Qualifier::Above => ">",
        }
    }
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// Its value in the unit of the row.
    pub value: f64,
    /// How it is meant: `=` as printed, `~` about, `<` less than, `>` more than.
    #[serde(default)]
    pub qualifier: Qualifier,
}

/// When a row agrees. The figures in it are part of the definition of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// The figure is how many times better one side is: same order, factor of similar size.
    Factor {
        /// Up to this factor the sides are equal.
        #[serde(default = "five_percent")]
        tie: f64,
        /// How many times larger or smaller the measured factor may be.
        #[serde(default = "two")]
        off: f64,
    },
    /// The figure is a difference in percent: same sign, similar size.
    Effect {
        /// Up to this many percent there is no difference.
        #[serde(default = "one")]
        tie: f64,
        /// How many times larger or smaller the measured difference may be.
        #[serde(default = "two")]
        off: f64,
    },
    /// The figure is what was printed: a bound holds, a value is met within some percent.
    Stated {
        /// How far from a value that is no bound the measured one may be, in percent.
        #[serde(default = "twenty")]
        within: f64,
    },
    /// The figure lies between two bounds, either of which may be missing.
    Between {
        /// The least value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        low: Option<f64>,
        /// The largest value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        high: Option<f64>,
    },
    /// The figure is a proportion that was observed in few cases: the measured one lies in the
    /// 95 % interval (Clopper and Pearson) of what was observed.
    Proportion {
        /// Cases in which it was so.
        cases: u64,
        /// Cases in all.
        of: u64,
    },
    /// The figure is computed from published ones: equal to the digits that were printed.
    Exact {
        /// The largest relative error.
        #[serde(default = "printed_digits")]
        within: f64,
    },
    /// The figure is shown and not judged.
    Shown {
        /// Why.
        because: String,
    },
}

fn one() -> f64 {
    1.0
}
fn two() -> f64 {
    2.0
}
fn twenty() -> f64 {
    20.0
}
fn five_percent() -> f64 {
    1.05
}
fn printed_digits() -> f64 {
    1e-5
}

/// Leeway of [`Rule::Effect`] in percentage points: smaller differences of differences are
/// nothing that a model could tell.
const LEEWAY: f64 = 1.0;

/// What a rule says of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", content = "why", rename_all = "snake_case")]
pub enum Judgement {
    /// Published and measured agree.
    Agrees,
    /// They do not, because.
    Differs(String),
    /// There is no measured figure.
    NoFigure,
    /// It is not judged, because.
    NotComparable(String),
}

impl Judgement {
    /// The words in tables.
    pub fn text(&self) -> String {
        match self {
            Judgement::Agrees => "agrees".to_string(),
            Judgement::Differs(how) => how.clone(),
            Judgement::NoFigure => "no figure".to_string(),
            Judgement::NotComparable(_) => "not comparable".to_string(),
        }
    }

    /// True for a row that counts: all but those that are not comparable.
    pub fn counts(&self) -> bool {
        !matches!(self, Judgement::NotComparable(_))
    }
}

impl Rule {
    /// *Factor* with the figures that hold where a definition gives none.
    pub fn factor() -> Rule {
        Rule::Factor { tie: five_percent(), off: two() }
    }

    /// True when the rule compares with a published figure, so that a row needs one.
    pub fn needs_published(&self) -> bool {
        !matches!(self, Rule::Between { .. } | Rule::Shown { .. })
    }

    /// Judges a measured figure.
    pub fn judge(&self, published: Option<Published>, measured: Option<f64>) -> Judgement {
        if let Rule::Shown { because } = self {
            return Judgement::NotComparable(because.clone());
        }
        let Some(measured) = measured else { return Judgement::NoFigure };
        let value = published.map_or(f64::NAN, |published| published.value);
        let differences = match self {
            Rule::Factor { tie, off } => factor(value, measured, *tie, *off),
            Rule::Effect { tie, off } => effect(value, measured, *tie, *off),
            Rule::Stated { within } => {
                let published = published.unwrap_or(Published { value, qualifier: Qualifier::Is });
                stated(published, measured, *within)
            }
            Rule::Between { low, high } => {
                let below = low.filter(|low| measured < *low).map(|_| "too low");
                let above = high.filter(|high| measured > *high).map(|_| "too high");
                below.or(above).map(str::to_string).into_iter().collect()
            }
            Rule::Proportion { cases, of } => match proportion_interval(*cases, *of) {
                Some((low, high)) if (low..=high).contains(&measured) => Vec::new(),
                _ => vec!["outside the interval".to_string()],
            },
            Rule::Exact { within } => {
                let equal = (measured - value).abs() <= within * value.abs();
                if equal { Vec::new() } else { vec!["differs".to_string()] }
            }
            Rule::Shown { .. } => Vec::new(),
        };
        if differences.is_empty() { Judgement::Agrees } else { Judgement::Differs(differences.join(", ")) }
    }

    /// The rule in a few words, for the line above a table.
    pub fn text(&self) -> String {
        match self {
            Rule::Factor { tie, off } => {
                format!("same order (a tie up to {:.0} %), factor within {off}x", (tie - 1.0) * 100.0)
            }
            Rule::Effect { tie, off } => {
                format!("same sign (none up to {tie} %), size within {off}x or {LEEWAY} point")
            }
            Rule::Stated { within } => format!("bounds hold, values within {within} %"),
            Rule::Between { low, high } => match (low, high) {
                (Some(low), Some(high)) => format!("from {low} to {high}"),
                (Some(low), None) => format!("at least {low}"),
                (None, Some(high)) => format!("at most {high}"),
                (None, None) => "any".to_string(),
            },
            Rule::Proportion { cases, of } => format!("within the 95 % interval of {cases} in {of}"),
            Rule::Exact { .. } => "equal to the printed digits".to_string(),
            Rule::Shown { because } => format!("not judged: {because}"),
        }
    }
}

/// -1, 0 or 1 by where `value` lies with a tie between `low` and `high`.
fn side(value: f64, low: f64, high: f64) -> i32 {
    i32::from(value > high) - i32::from(value < low)
}

fn factor(published: f64, measured: f64, tie: f64, off: f64) -> Vec<String> {
    let mut differences = Vec::new();
    let order = |value: f64| side(value, 1.0 / tie, tie);
    if order(published) != order(measured) {
        differences.push("other order".to_string());
    }
    let apart = (measured / published).max(published / measured);
    if apart.is_nan() || apart > off {
        differences.push(format!("factor off {apart:.1}x"));
    }
    differences
}

fn effect(published: f64, measured: f64, tie: f64, off: f64) -> Vec<String> {
    let sign = |value: f64| side(value, -tie, tie);
    if sign(published) != sign(measured) {
        return vec!["other sign".to_string()];
    }
    let (one, other) = (published / off, published * off);
    let (low, high) = (one.min(other) - LEEWAY, one.max(other) + LEEWAY);
    if (low..=high).contains(&measured) {
        return Vec::new();
    }
    vec![format!("{:+.1} points off", measured - published)]
}

fn stated(published: Published, measured: f64, within: f64) -> Vec<String> {
    let value = published.value;
    let how = match published.qualifier {
        Qualifier::Below if measured < value => return Vec::new(),
        Qualifier::Above if measured > value => return Vec::new(),
        Qualifier::Below => "not below".to_string(),
        Qualifier::Above => "not above".to_string(),
        Qualifier::Is | Qualifier::About => {
            let percent = 100.0 * (measured - value) / value.abs();
            if percent.abs() <= within {
                return Vec::new();
            }
            format!("{percent:+.0} % off")
        }
    };
    vec![how]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: f64) -> Option<Published> {
        Some(Published { value, qualifier: Qualifier::Is })
    }

    fn judged(rule: &Rule, published: Option<Published>, measured: f64) -> String {
        rule.judge(published, Some(measured)).text()
    }

    #[test]
    fn factors_need_order_and_size() {
        let rule = Rule::Factor { tie: 1.05, off: 2.0 };
        assert_eq!(judged(&rule, is(3.0), 2.0), "agrees");
        assert_eq!(judged(&rule, is(1.1), 0.9), "other order");
        assert_eq!(judged(&rule, is(9.0), 2.0), "factor off 4.5x");
        assert_eq!(judged(&rule, is(3.0), 1.0 / 3.0), "other order, factor off 9.0x");
        assert_eq!(judged(&rule, is(1.02), 0.97), "agrees");
        assert_eq!(judged(&rule, is(1.02), 1.2), "other order");
    }

    #[test]
    fn effects_need_sign_and_size() {
        let rule = Rule::Effect { tie: 1.0, off: 2.0 };
        assert_eq!(judged(&rule, is(31.73), 20.0), "agrees");
        assert_eq!(judged(&rule, is(31.73), 14.0), "-17.7 points off");
        assert_eq!(judged(&rule, is(-6.0), -14.0), "-8.0 points off");
        assert_eq!(judged(&rule, is(-6.0), -12.5), "agrees");
        assert_eq!(judged(&rule, is(1.2), 0.5), "other sign");
        assert_eq!(judged(&rule, is(0.4), -0.7), "agrees");
    }

    #[test]
    fn stated_figures_are_bounds_or_values() {
        let rule = Rule::Stated { within: 20.0 };
        let bound = |value, qualifier| Some(Published { value, qualifier });
        assert_eq!(judged(&rule, bound(100.0, Qualifier::About), 119.0), "agrees");
        assert_eq!(judged(&rule, bound(100.0, Qualifier::About), 70.0), "-30 % off");
        assert_eq!(judged(&rule, bound(1000.0, Qualifier::Above), 1001.0), "agrees");
        assert_eq!(judged(&rule, bound(0.5, Qualifier::Below), 0.5), "not below");
    }

    #[test]
    fn bounds_proportions_and_digits() {
        let between = Rule::Between { low: Some(1.0), high: None };
        assert_eq!(judged(&between, None, 0.9), "too low");
        assert_eq!(judged(&between, None, 9.0), "agrees");
        let proportion = Rule::Proportion { cases: 3, of: 6 };
        assert_eq!(judged(&proportion, is(0.5), 0.25), "agrees");
        assert_eq!(judged(&proportion, is(0.5), 0.05), "outside the interval");
        let exact = Rule::Exact { within: 1e-5 };
        assert_eq!(judged(&exact, is(1.587), 1.587001), "agrees");
        assert_eq!(judged(&exact, is(1.587), 1.5875), "differs");
        assert_eq!(judged(&exact, is(0.0), 0.0), "agrees");
    }

    #[test]
    fn rows_without_a_figure_and_unjudged_ones() {
        let rule = Rule::Factor { tie: 1.05, off: 2.0 };
        assert_eq!(rule.judge(is(2.0), None), Judgement::NoFigure);
        let shown = Rule::Shown { because: "it is another machine".into() };
        assert!(!shown.judge(is(2.0), Some(2.0)).counts());
        assert_eq!(judged(&rule, is(2.0), f64::NAN), "other order, factor off NaNx");
    }
}
