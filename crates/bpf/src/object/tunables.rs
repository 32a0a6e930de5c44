//! Descriptions of tunables: what an object says of the variables that a user may set.
//!
//! A variable with the tag (`btf_decl_tag`) `tunable:UNIT|LOWEST|HIGHEST|ZERO|MEANING` takes the numbers from LOWEST to
//! HIGHEST, and 0 as well where ZERO says what that stands for. The tag `tunable:||||MEANING` is for variables whose type
//! has the values. The macros `TUNABLE`, `TUNABLE_OR_0` and `SETS` of `schedulers/include/kernel.h` write such tags.

use super::{Object, Variable};
use crate::btf::{Btf, Kind};
use crate::error::{LoadError, LoadErrorKind};
use crate::settings::{is_number, parse_number};
use std::collections::BTreeMap;
use std::fmt;

/// What the tag of a tunable begins with.
const TAG: &str = "tunable:";

/// What an object says of a tunable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What setting it does.
    pub meaning: String,
    /// The numbers that it takes; none where its type decides.
    pub range: Option<Range>,
}

/// The numbers that a tunable takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The least one, but for 0 with a meaning of its own.
    pub lowest: i128,
    /// The greatest one.
    pub highest: i128,
    /// What is counted, such as `ns`; may be empty.
    pub unit: String,
    /// What 0 stands for where it is outside of the others; empty: nothing.
    pub zero: String,
}

impl Range {
    /// True for a number that the tunable takes.
    pub fn contains(&self, number: i128) -> bool {
        (self.lowest..=self.highest).contains(&number) || number == 0 && !self.zero.is_empty()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.zero.is_empty() {
            write!(f, "0 ({}) or ", self.zero)?;
        }
        write!(f, "{}..{}", self.lowest, self.highest)?;
        if self.unit.is_empty() { Ok(()) } else { write!(f, " {}", self.unit) }
    }
}

impl Object {
    /// What the object says of a tunable, if it does.
    pub fn description(&self, variable: &Variable) -> Option<&Description> {
        self.descriptions.get(&variable.name)
    }
}

/// The descriptions of all tunables that have one, by the variable's name.
///
/// # Errors
/// A tag of another form, or a range for what is no number.
pub(super) fn descriptions(
    btf: &Btf,
    variables: &[Variable],
) -> Result<BTreeMap<String, Description>, LoadError> {
    let mut found = BTreeMap::new();
    for (name, tag) in btf.tags(|kind| matches!(kind, Kind::Var(..))) {
        let Some(text) = tag.strip_prefix(TAG) else { continue };
        let fail = |problem: &str| {
            let cure = "write TUNABLE(meaning, unit, lowest, highest) with decimal numbers, or SETS(meaning)";
            let problem = format!("its tag `{tag}` {problem}");
            LoadError::new(LoadErrorKind::Malformed, format!("tunable `{name}`"), problem, cure)
        };
        let described = description(text).ok_or_else(|| fail("is no description of a tunable"))?;
        let mut types = variables.iter().filter(|variable| variable.name == name).filter_map(|one| one.ty);
        if described.range.is_some() && !types.all(|ty| is_number(btf, ty)) {
            return Err(fail("has a range, and the variable is no number"));
        }
        found.insert(name.to_string(), described);
    }
    Ok(found)
}

fn description(text: &str) -> Option<Description> {
    let parts: Vec<&str> = text.splitn(5, '|').collect();
    let [unit, lowest, highest, zero, meaning] = parts[..] else { return None };
    let meaning = meaning.to_string();
    if [unit, lowest, highest, zero] == [""; 4] {
        return Some(Description { meaning, range: None });
    }
    let (lowest, highest) = (parse_number(lowest)?, parse_number(highest)?);
    let range = Range { lowest, highest, unit: unit.to_string(), zero: zero.to_string() };
    (lowest <= highest).then_some(Description { meaning, range: Some(range) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::BtfBuilder;

    #[test]
    fn tags_are_read_whole() {
        let tag = "ns|100|900|1 ms|length of a tick; 5 | 6";
        let found = description(tag).unwrap();
        assert_eq!(found.meaning, "length of a tick; 5 | 6");
        let range = found.range.unwrap();
        assert_eq!(range.to_string(), "0 (1 ms) or 100..900 ns");
        for (number, taken) in [(-1, false), (0, true), (1, false), (100, true), (900, true), (901, false)] {
            assert_eq!(range.contains(number), taken, "{number}");
        }
        let range = description("|-5|5||offset").unwrap().range.unwrap();
        assert_eq!((range.to_string().as_str(), range.contains(0)), ("-5..5", true));
        assert_eq!(description("||||a switch").unwrap().range, None);
    }

    #[test]
    fn tags_of_another_form_are_refused() {
        for tag in ["", "ns", "ns|1|2|", "ns|1|MOST||x", "ns||||x", "ns|1|5 * MS||x", "|2|1||x"] {
            assert_eq!(description(tag), None, "{tag}");
        }
    }

    #[test]
    fn ranges_are_of_numbers() {
        let mut b = BtfBuilder::new();
        let (char, int) = (b.int("char", 1, true), b.int("unsigned int", 4, false));
        let (text, list) = (b.array(char, 4), b.array(int, 4));
        let mut variables = Vec::new();
        for (name, ty) in [("one", int), ("list", list), ("text", text)] {
            let var = b.var(name, ty);
            b.decl_tag("tunable:us|1|9||what it is", var);
            let section = ".rodata".to_string();
            variables.push(Variable {
                name: name.into(),
                section,
                offset: 0,
                size: 4,
                ty: Some(ty),
                global: true,
            });
        }
        let btf = b.finish();
        let error = descriptions(&btf, &variables).unwrap_err();
        assert!(
            error.to_string().contains("tunable `text`: its tag `tunable:us|1|9||what it is` has a range")
        );
    }
}
