//! Parameters of the built-in workloads: their kinds, and reading them from
//! `NAME:key=value,key=value`.

use super::cgroups::ABOUT;
use schedlab_base::{DurationNs, Nice, did_you_mean};
use std::fmt;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number in an inclusive range.
    Count {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// Nice values separated by `/`, used cyclically over the tasks.
    NiceList,
    /// Whole numbers from 1 separated by `/`.
    CountList {
        /// Largest of them.
        max: u64,
    },
    /// A duration: with a unit, or a bare number in the parameter's own unit.
    /// The text is the unit of bare numbers.
    Duration(&'static str),
    /// A positive decimal number of at most nine fractional digits, up to 1000000.
    Factor,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One parameter of a workload, for lists and error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The parameter's name.
    pub name: &'static str,
    /// The parameter's default, as the user would write it.
    pub default: &'static str,
    /// Unit of a bare number, or empty.
    pub unit: &'static str,
    /// What it means, one phrase.
    pub about: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
}

/// Why a workload cannot be built: names the place and what exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogError(pub String);

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CatalogError {}

/// A value that passed its kind's check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Count(u64),
    NiceList(Vec<Nice>),
    CountList(Vec<u64>),
    Duration(DurationNs),
    /// Billionths.
    Factor(u64),
    Word(&'static str),
}

/// The checked parameters of one workload, defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct Params {
    workload: &'static str,
    infos: &'static [ParamInfo],
    texts: Vec<String>,
    values: Vec<Value>,
}

impl ParamInfo {
    /// A number of things, at least `min` and at most `max`.
    pub(super) const fn count(
        name: &'static str,
        default: &'static str,
        (min, max): (u64, u64),
        about: &'static str,
    ) -> ParamInfo {
        ParamInfo { name, default, unit: "", about, kind: ParamKind::Count { min, max } }
    }

    /// A duration whose bare numbers are in `unit`.
    pub(super) const fn time(
        name: &'static str,
        default: &'static str,
        unit: &'static str,
        about: &'static str,
    ) -> ParamInfo {
        ParamInfo { name, default, unit, about, kind: ParamKind::Duration(unit) }
    }

    fn expected(&self) -> String {
        match self.kind {
            ParamKind::Count { min, max } => format!("a whole number from {min} to {max}"),
            ParamKind::NiceList => "nice values from -20 to 19 separated by '/', as in 0/5".into(),
            ParamKind::CountList { max } => {
                format!("whole numbers from 1 to {max} separated by '/', as in 2/5")
            }
            ParamKind::Duration(unit) => {
                format!("a duration of at most 30 days, as in 500ms or 2s (a bare number is in {unit})")
            }
            ParamKind::Factor => "a number above 0 and up to 1000000, as in 0.01".into(),
            ParamKind::Word(words) => format!("one of {}", words.join(", ")),
        }
    }

    fn parse(&self, text: &str) -> Option<Value> {
        match self.kind {
            ParamKind::Count { min, max } => {
                let count: u64 = text.parse().ok()?;
                (min..=max).contains(&count).then_some(Value::Count(count))
            }
            ParamKind::NiceList => {
                let nices: Option<Vec<Nice>> =
                    text.split('/').map(|part| Nice::new(part.parse().ok()?)).collect();
                nices.map(Value::NiceList)
            }
            ParamKind::CountList { max } => {
                let count = |part: &str| part.parse().ok().filter(|count| (1..=max).contains(count));
                text.split('/').map(count).collect::<Option<Vec<u64>>>().map(Value::CountList)
            }
            ParamKind::Duration(unit) => {
                let bare = text.ends_with(|c: char| c.is_ascii_digit());
                let span = if bare { format!("{text}{unit}").parse() } else { text.parse() };
                span.ok().map(Value::Duration)
            }
            ParamKind::Factor => parse_factor(text).map(Value::Factor),
            ParamKind::Word(words) => words.iter().find(|word| **word == text).map(|w| Value::Word(w)),
        }
    }
}

/// A decimal number in billionths, above 0 and up to a million.
fn parse_factor(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 7 || fraction.len() > 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let billionths: u64 = format!("{fraction:0<9}").parse().ok()?;
    let factor = whole.parse::<u64>().ok()? * 1_000_000_000 + billionths;
    (1..=1_000_000_000_000_000).contains(&factor).then_some(factor)
}

impl Params {
    /// Reads `key=value,key=value` (may be empty) against the table `infos`.
    pub(super) fn parse(
        workload: &'static str,
        infos: &'static [ParamInfo],
        text: &str,
    ) -> Result<Params, CatalogError> {
        let mut texts: Vec<String> = infos.iter().map(|info| info.default.to_string()).collect();
        let mut given = vec![false; infos.len()];
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                CatalogError(format!("workload {workload}: '{pair}' is not key=value; {}", known(infos)))
            })?;
            let at = infos.iter().position(|info| info.name == key.trim()).ok_or_else(|| {
                CatalogError(format!(
                    "workload {workload}: no parameter named '{}'{}; {}",
                    key.trim(),
                    did_you_mean(key.trim(), infos.iter().map(|info| info.name)),
                    known(infos)
                ))
            })?;
            if given[at] {
                return Err(CatalogError(format!(
                    "workload {workload}: parameter {} is given twice",
                    infos[at].name
                )));
            }
            given[at] = true;
            texts[at] = value.trim().to_string();
        }
        let values: Result<Vec<Value>, CatalogError> =
            infos.iter().zip(&texts).map(|(info, text)| checked(workload, info, text)).collect();
        Ok(Params { workload, infos, texts, values: values? })
    }

    fn value(&self, name: &str) -> &Value {
        let at = self.infos.iter().position(|info| info.name == name);
        &self.values[at.expect("a workload asks only for parameters of its own table")]
    }

    /// The count `name`.
    pub(super) fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Count(count) => *count,
            other => panic!("{name} is not a count but {other:?}"),
        }
    }

    /// The count `name`, which its range keeps below 2^32.
    pub(super) fn count32(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).expect("the parameter's range ends below 2^32")
    }

    /// The duration `name`.
    pub(super) fn duration(&self, name: &str) -> DurationNs {
        match self.value(name) {
            Value::Duration(span) => *span,
            other => panic!("{name} is not a duration but {other:?}"),
        }
    }

    /// The nice values `name`, at least one.
    pub(super) fn nices(&self, name: &str) -> &[Nice] {
        match self.value(name) {
            Value::NiceList(nices) => nices,
            other => panic!("{name} is not a list of nice values but {other:?}"),
        }
    }

    /// The list of counts `name`, at least one.
    pub(super) fn counts(&self, name: &str) -> &[u64] {
        match self.value(name) {
            Value::CountList(counts) => counts,
            other => panic!("{name} is not a list of counts but {other:?}"),
        }
    }

    /// The factor `name` in billionths.
    pub(super) fn factor_billionths(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Factor(billionths) => *billionths,
            other => panic!("{name} is not a factor but {other:?}"),
        }
    }

    /// The word `name`.
    pub(super) fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            other => panic!("{name} is not a word but {other:?}"),
        }
    }

    /// An error about the parameter `name`.
    pub(super) fn error(&self, name: &str, text: &str) -> CatalogError {
        CatalogError(format!("workload {}, parameter {name}: {text}", self.workload))
    }

    /// Names and texts in the table's order, defaults included.
    pub(super) fn effective(&self) -> Vec<(String, String)> {
        self.infos.iter().zip(&self.texts).map(|(info, text)| (info.name.to_string(), text.clone())).collect()
    }
}

fn checked(workload: &str, info: &ParamInfo, text: &str) -> Result<Value, CatalogError> {
    info.parse(text).ok_or_else(|| {
        let near = match info.kind {
            ParamKind::Word(words) => did_you_mean(text, words),
            _ => String::new(),
        };
        CatalogError(format!(
            "workload {workload}, parameter {}: '{text}' is not {}{near}",
            info.name,
            info.expected()
        ))
    })
}

fn known(infos: &[ParamInfo]) -> String {
    if infos.is_empty() {
        return format!("it has no parameters but {ABOUT}");
    }
    let names: Vec<&str> = infos.iter().map(|info| info.name).collect();
    format!("there are: {}, and {ABOUT}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFOS: &[ParamInfo] = &[
        ParamInfo { name: "n", default: "2", unit: "", about: "", kind: ParamKind::Count { min: 1, max: 9 } },
        ParamInfo { name: "nice", default: "0", unit: "", about: "", kind: ParamKind::NiceList },
        ParamInfo { name: "t", default: "1s", unit: "us", about: "", kind: ParamKind::Duration("us") },
        ParamInfo { name: "scale", default: "0.01", unit: "", about: "", kind: ParamKind::Factor },
    ];

    #[test]
    fn values_are_read() {
        let params = Params::parse("w", INFOS, "n=3,nice=0/-5,t=20,scale=1.5").unwrap();
        assert_eq!(params.count("n"), 3);
        assert_eq!(params.nices("nice")[1].get(), -5);
        assert_eq!(params.duration("t"), DurationNs::from_us(20));
        assert_eq!(params.factor_billionths("scale"), 1_500_000_000);
        assert_eq!(params.effective()[0], ("n".to_string(), "3".to_string()));
    }

    #[test]
    fn errors_name_place_and_cure() {
        let fails = |text: &str| Params::parse("w", INFOS, text).unwrap_err().to_string();
        assert!(
            fails("m=3").contains("no parameter named 'm' (did you mean 'n'?); there are: n, nice, t, scale")
        );
        assert!(fails("n=0").contains("parameter n: '0' is not a whole number from 1 to 9"));
        assert!(fails("n").contains("not key=value"));
        assert!(fails("n=1,n=2").contains("given twice"));
        for bad in ["nice=0/20", "nice=", "t=abc", "t=99999999h", "scale=0", "scale=-1", "scale=1e3"] {
            assert!(fails(bad).contains("is not"), "{bad}");
        }
    }
}
