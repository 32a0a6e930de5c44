//! Values for a scheduler's tunables, within the ranges that its object describes.

use schedlab_base::Prng;
use schedlab_scx::requirements;

/// Longest time that is drawn, in ns. Chosen: waits of that length stay below the watchdog's 30 s, beyond which a scheduler
/// is ejected as its options say.
const LONGEST_NS: i128 = 10_000_000_000;

/// A tunable with the values that a case may give it.
#[derive(Clone, Debug)]
pub(crate) struct Tunable {
    pub(crate) name: String,
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

/// Tunables of an object that are enumerations, yes or no, or numbers with a range.
pub(crate) fn tunables(name: &str, object: &[u8]) -> Vec<Tunable> {
    let needs = requirements(name, object, &Default::default()).expect("an object");
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
    let known = |tunable: &schedlab_scx::Tunable| {
        Some(Tunable { name: tunable.name.clone(), values: values(tunable)? })
    };
    needs.tunables.iter().filter_map(known).collect()
}

#[test]
fn values_lie_within_the_range() {
    let mut prng = Prng::new(1);
    let tunable = Tunable { name: "x".into(), values: Values::Range(5, 8) };
    let drawn: std::collections::BTreeSet<String> = (0..100).map(|_| tunable.draw(&mut prng)).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), ["5", "6", "7", "8"]);
}
