//! Values for a scheduler's tunables, within the ranges that its object describes.

use crate::failure::Failure;
use crate::scheduler::Scheduler;
use schedlab_base::Prng;
use schedlab_scx::requirements;

/// Longest time that is drawn, in ns. Chosen: waits of that length stay below the watchdog's 30 s, beyond which a scheduler
/// is ejected as its options say.
const LONGEST_NS: i128 = 10_000_000_000;

/// A tunable with the values that a case may give it.
#[derive(Clone, Debug)]
pub struct Tunable {
    /// As settings name it.
    pub name: String,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    /// One of these.
    List(Vec<String>),
    /// From the first to the last.
    Range(u64, u64),
}

impl Tunable {
    /// A value; in ranges every order of magnitude is as likely.
    pub(crate) fn draw(&self, prng: &mut Prng) -> String {
        match &self.values {
            Values::List(values) => values[prng.below(values.len() as u64) as usize].clone(),
            Values::Range(low, high) => {
                let width = high - low + 1;
                let most = width >> prng.below(u64::from(width.ilog2()) + 1);
                (low + prng.below(most.max(1))).to_string()
            }
        }
    }
}

/// Tunables of a scheduler that are enumerations, yes or no, or numbers with a range. A scheduler with a program of its own that
/// loads it has none: the program sets them.
///
/// # Errors
/// An object that is refused.
pub fn tunables(scheduler: &Scheduler) -> Result<Vec<Tunable>, Failure> {
    let Some(object) = scheduler.object.as_deref().filter(|_| scheduler.loader.is_none()) else {
        return Ok(Vec::new());
    };
    let needs = requirements(&scheduler.name, object, &scheduler.load_options())?;
    let values = |tunable: &schedlab_scx::Tunable| {
        if !tunable.values.is_empty() {
            return Some(Values::List(tunable.values.clone()));
        }
        if tunable.type_name.ends_with("bool") || tunable.type_name.ends_with("_Bool") {
            return Some(Values::List(["false", "true"].map(String::from).to_vec()));
        }
        let range = tunable.range.as_ref().filter(|_| !tunable.default.is_empty())?;
        let highest = range.highest.min(if range.unit == "ns" { LONGEST_NS } else { i128::MAX });
        Some(Values::Range(range.lowest.try_into().ok()?, highest.try_into().ok()?))
    };
    let is_set = |name: &str| scheduler.values.iter().any(|(set, _)| set == name);
    let known = |tunable: &schedlab_scx::Tunable| {
        Some(Tunable { name: tunable.name.clone(), values: values(tunable)? })
    };
    Ok(needs.tunables.iter().filter(|tunable| !is_set(&tunable.name)).filter_map(known).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_within_the_range() {
        let mut prng = Prng::new(1);
        let tunable = Tunable { name: "x".into(), values: Values::Range(5, 8) };
        let drawn: std::collections::BTreeSet<String> = (0..100).map(|_| tunable.draw(&mut prng)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), ["5", "6", "7", "8"]);
    }
}
