//! Values for a scheduler's tunables, within the ranges that its README documents.

use schedlab_base::Prng;
use schedlab_scx::requirements;
use schedlab_tests::{readme_table, root};

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

/// Tunables of a shipped scheduler that are enumerations, yes or no, or numbers with a documented range (`1..100`).
pub(crate) fn tunables(name: &str, object: &[u8]) -> Vec<Tunable> {
    let readme = root().join(format!("schedulers/{name}/README.md"));
    // Other objects document nothing that can be read here.
    let readme = std::fs::read_to_string(readme).unwrap_or_default();
    let rows = readme_table(&readme, "Tunables");
    let needs = requirements(name, object, &Default::default()).expect("an object");
    let values = |tunable: &schedlab_scx::Tunable| {
        if !tunable.values.is_empty() {
            return Some(Values::List(tunable.values.clone()));
        }
        if tunable.type_name.ends_with("bool") || tunable.type_name.ends_with("_Bool") {
            return Some(Values::List(["false", "true"].map(String::from).to_vec()));
        }
        let row = rows.iter().find(|row| row[0].trim_matches('`') == tunable.name)?;
        range(row.get(2)?)
    };
    let known = |tunable: &schedlab_scx::Tunable| {
        Some(Tunable { name: tunable.name.clone(), values: values(tunable)? })
    };
    needs.tunables.iter().filter_map(known).collect()
}

/// The first `LOW..HIGH` of a sentence.
fn range(text: &str) -> Option<Values> {
    text.split([' ', ';', ',', ':', '(', ')']).find_map(|word| {
        let (low, high) = word.split_once("..")?;
        let (low, high) = (low.parse().ok()?, high.trim_end_matches('.').parse().ok()?);
        (low < high).then_some(Values::Range(low, high))
    })
}

#[test]
fn ranges_are_found() {
    assert!(matches!(range("Length of a tick; ns, 100..900; 0: 1 ms."), Some(Values::Range(100, 900))));
    assert!(range("Sleep that earns the full bonus; ns; 0: 1 s in 2.6.10.").is_none());
    let mut prng = Prng::new(1);
    let tunable = Tunable { name: "x".into(), values: Values::Range(5, 8) };
    let drawn: std::collections::BTreeSet<String> = (0..100).map(|_| tunable.draw(&mut prng)).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), ["5", "6", "7", "8"]);
}
