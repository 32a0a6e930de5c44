//! What `judge` answers, as JSON of at most [`MOST_BYTES`] and as text.

use crate::names::visible;
use crate::result_file::Header;
use schemars::JsonSchema;
use serde::Serialize;

/// The longest answer, its newline included. Chosen: what a program that asks often can keep.
const MOST_BYTES: usize = 2048;

/// Letters of a name or a key that the answer shows.
const NAME_LETTERS: usize = 80;

/// Letters of a reason that the answer shows. Chosen: two lines of a terminal.
const REASON_LETTERS: usize = 240;

/// What `schedlab judge --json` writes: whether a scheduler is accepted, its score, and the reasons.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judgement {
    /// True where the candidate is valid and not shown to be worse than the base.
    pub accepted: bool,
    /// True where the candidate is accepted and shown to be better: the interval lies above 1.
    pub better: bool,
    /// Geometric mean of the scores of the measured loads. Above 1 the candidate is better than the base; 0 where its runs do not count.
    pub score: f64,
    /// Where the score lies at 95 %, by pairs of runs with the same seed.
    pub interval: [f64; 2],
    /// The candidate, as on the command line.
    pub candidate: String,
    /// The base that it is compared with.
    pub against: String,
    /// The suite.
    pub suite: String,
    /// What repeats the answer: the value of `--seed-key`.
    pub seed_key: String,
    /// The measured loads.
    pub loads: Vec<JudgedLoad>,
    /// Loads of the suite that found no room in `loads`.
    pub more_loads: usize,
    /// Why the answer is what it is, the weightiest first.
    pub reasons: Vec<String>,
    /// Reasons that found no room in `reasons`.
    pub more_reasons: usize,
    /// What a real kernel says of the measured loads, with `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verified>,
}

/// The directions of the measured loads on a real kernel, in a VM.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verified {
    /// Release of the kernel.
    pub kernel: String,
    /// The score of its runs; 0 where they do not count.
    pub score: f64,
    /// The direction of all loads together.
    pub verdict: LoadVerdict,
    /// Loads that were run.
    pub of: usize,
    /// How many of them have the same direction in the simulator.
    pub agreeing: usize,
    /// Those that are better in one arm and worse in the other.
    pub reversed: Vec<String>,
    /// Reversed loads that found no room in `reversed`.
    pub more_reversed: usize,
    /// Each load, for people.
    #[serde(skip)]
    pub loads: Vec<VerifiedLoad>,
}

/// A load in both arms.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedLoad {
    /// Its name in the suite.
    pub name: String,
    /// What the simulator says.
    pub simulated: LoadVerdict,
    /// The score on the real kernel.
    pub score: f64,
    /// What the real kernel says.
    pub real: LoadVerdict,
}

impl VerifiedLoad {
    /// Both arms say the same, and something.
    pub fn agrees(&self) -> bool {
        self.simulated == self.real && self.real != LoadVerdict::NotMeasured
    }

    /// One arm says better, the other one worse.
    pub fn is_reversed(&self) -> bool {
        self.simulated.is_opposite(self.real)
    }

    fn words(&self) -> &'static str {
        match (self.agrees(), self.is_reversed()) {
            (true, _) => "agrees",
            (_, true) => "reversed",
            _ => "undecided",
        }
    }
}

/// A measured load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JudgedLoad {
    /// Its name in the suite.
    pub name: String,
    /// Geometric mean of base against candidate over its metrics and seeds; above 1 the candidate is better.
    pub score: f64,
    /// Where the score lies at 95 %.
    pub interval: [f64; 2],
    /// The interval in a word.
    pub verdict: LoadVerdict,
}

/// What the interval of a load says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadVerdict {
    /// It lies above 1.
    Better,
    /// It lies below 1.
    Worse,
    /// It contains 1.
    NoDifferenceShown,
    /// The runs do not count.
    NotMeasured,
}

impl LoadVerdict {
    /// One is better, the other one worse.
    pub fn is_opposite(self, other: LoadVerdict) -> bool {
        matches!(
            (self, other),
            (LoadVerdict::Better, LoadVerdict::Worse) | (LoadVerdict::Worse, LoadVerdict::Better)
        )
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            LoadVerdict::Better => "better",
            LoadVerdict::Worse => "worse",
            LoadVerdict::NoDifferenceShown => "no difference shown",
            LoadVerdict::NotMeasured => "not measured",
        }
    }
}

/// The answer as it is written.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub(crate) struct File<'a> {
    /// What wrote the file, and in which form.
    schedlab: Header,
    /// The judgement itself.
    #[serde(flatten)]
    judgement: &'a Judgement,
}

/// What `schedlab judge --over` writes: the tunables that an optimiser may choose.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Space {
    /// The candidate, as on the command line.
    pub candidate: String,
    /// The tunables with their ranges.
    pub parameters: Vec<Parameter>,
    /// The command that judges a point: each VALUE is replaced.
    pub judge: Vec<String>,
}

/// A tunable with the range to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parameter {
    /// The tunable.
    pub name: String,
    /// The least value.
    pub low: u64,
    /// The greatest value.
    pub high: u64,
    /// Its value in the object.
    pub default: String,
    /// True where the range spans a factor of ten or more, over which a logarithmic choice is better.
    pub log: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SearchSpace")]
pub(crate) struct SpaceFile<'a> {
    /// What wrote the file, and in which form.
    schedlab: Header,
    /// The space itself.
    #[serde(flatten)]
    space: &'a Space,
}

/// The space as one line of JSON.
pub fn space_json(space: &Space) -> String {
    line(&SpaceFile { schedlab: Header::new(), space })
}

/// The judgement as one line of JSON, at most 2 KiB long: reasons that find no room are counted, then loads.
pub fn judgement_json(judgement: &Judgement) -> String {
    let mut small = shortened(judgement);
    loop {
        let text = line(&File { schedlab: Header::new(), judgement: &small });
        if text.len() <= MOST_BYTES {
            return text;
        }
        // The weightiest reason and the first load go last.
        if small.reasons.len() > 1 {
            small.reasons.pop();
            small.more_reasons += 1;
        } else if small.loads.pop().is_some() {
            small.more_loads += 1;
        } else if small.reasons.pop().is_some() {
            small.more_reasons += 1;
        } else if let Some(verify) = small.verify.as_mut().filter(|verify| !verify.reversed.is_empty()) {
            verify.reversed.pop();
            verify.more_reversed += 1;
        } else {
            small = Judgement {
                candidate: String::new(),
                against: String::new(),
                suite: String::new(),
                seed_key: String::new(),
                ..small
            };
        }
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it is plain data") + "\n"
}

/// The first letters of a text, without what could move a cursor.
fn first(text: &str, letters: usize) -> String {
    let text = visible(text);
    if text.chars().count() <= letters {
        return text.to_string();
    }
    text.chars().take(letters - 1).chain(['\u{2026}']).collect()
}

/// The same with names and reasons of a bounded length.
fn shortened(judgement: &Judgement) -> Judgement {
    let mut small = judgement.clone();
    let load = |load: &JudgedLoad| JudgedLoad { name: first(&load.name, NAME_LETTERS), ..load.clone() };
    small.loads = judgement.loads.iter().map(load).collect();
    small.reasons = judgement.reasons.iter().map(|reason| first(reason, REASON_LETTERS)).collect();
    let names = [&mut small.candidate, &mut small.against, &mut small.suite, &mut small.seed_key];
    let verify = small
        .verify
        .iter_mut()
        .flat_map(|verify| std::iter::once(&mut verify.kernel).chain(&mut verify.reversed));
    for name in names.into_iter().chain(verify) {
        *name = first(name, NAME_LETTERS);
    }
    small
}

/// The judgement for people.
pub fn judgement_text(judgement: &Judgement) -> String {
    let word = match (judgement.accepted, judgement.better) {
        (true, true) => "accepted, better",
        (true, false) => "accepted, not shown to be better",
        _ => "rejected",
    };
    let Judgement { candidate, against, suite, seed_key, score, interval: [low, high], .. } = judgement;
    let mut text = format!(
        "{}: {word}\nscore {score} [{low}, {high}] against {}, suite {}, --seed-key {}\n\n",
        visible(candidate),
        visible(against),
        visible(suite),
        visible(seed_key)
    );
    let mut rows = vec![["load", "score", "low", "high", "verdict"].map(String::from).to_vec()];
    for JudgedLoad { name, score, interval: [low, high], verdict } in &judgement.loads {
        let figures = [score, low, high].map(|figure| format!("{figure:.3}"));
        let name = visible(name).to_string();
        rows.push([vec![name], figures.to_vec(), vec![verdict.words().to_string()]].concat());
    }
    text += &aligned(&rows);
    text.extend(judgement.verify.iter().map(verified_text));
    if !judgement.reasons.is_empty() {
        text += "\nReasons\n";
        text.extend(judgement.reasons.iter().map(|reason| format!("* {}\n", visible(reason))));
    }
    if judgement.more_reasons > 0 {
        text += &format!("* and {} more\n", judgement.more_reasons);
    }
    text
}

/// What the real kernel says, one line a load.
fn verified_text(verify: &Verified) -> String {
    let Verified { kernel, score, verdict, of, agreeing, loads, .. } = verify;
    let mut rows = vec![["load", "score", "real kernel", "simulator", ""].map(String::from).to_vec()];
    for load in loads {
        let name = visible(&load.name).to_string();
        let words = [load.real.words(), load.simulated.words(), load.words()].map(String::from);
        rows.push([vec![name, format!("{:.3}", load.score)], words.to_vec()].concat());
    }
    format!(
        "\nReal kernel {}: {agreeing} of {of} loads agree; score {score}, {}\n{}",
        visible(kernel),
        verdict.words(),
        aligned(&rows)
    )
}

/// Rows as a table; what begins with a digit stands on the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let is_figure = |at: usize| {
        at > 0 && rows.iter().skip(1).all(|row| row[at].starts_with(|letter: char| letter.is_ascii_digit()))
    };
    let columns: Vec<(usize, bool)> = (0..5).map(|at| (width(at), is_figure(at))).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&columns).map(|(cell, (width, is_figure))| match is_figure {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(name: &str, count: usize) -> Judgement {
        let load = JudgedLoad {
            name: name.into(),
            score: 1.0,
            interval: [0.9, 1.1],
            verdict: LoadVerdict::NoDifferenceShown,
        };
        Judgement {
            accepted: false,
            better: false,
            score: 0.0,
            interval: [0.0, 0.0],
            candidate: name.into(),
            against: name.into(),
            suite: name.into(),
            seed_key: name.into(),
            loads: vec![load; count],
            more_loads: 0,
            reasons: (0..count).map(|number| format!("{number} {name}")).collect(),
            more_reasons: 0,
            verify: (count > 1).then(|| verified(name, count)),
        }
    }

    fn verified(name: &str, count: usize) -> Verified {
        let load = VerifiedLoad {
            name: name.into(),
            simulated: LoadVerdict::Better,
            score: 0.5,
            real: LoadVerdict::Worse,
        };
        Verified {
            kernel: name.into(),
            score: 0.5,
            verdict: LoadVerdict::Worse,
            of: count,
            agreeing: 0,
            reversed: vec![name.into(); count],
            more_reversed: 0,
            loads: vec![load; count],
        }
    }

    #[test]
    fn an_answer_is_never_longer_than_its_bound() {
        let nasty =
            ["\u{1f600}".repeat(5000), "\"\\".repeat(5000), "\u{1b}[2J".repeat(900), "a".repeat(9000)];
        for name in &nasty {
            for count in [0, 1, 5, 300] {
                let text = judgement_json(&judgement(name, count));
                assert!(text.len() <= MOST_BYTES, "{} of {count}", text.len());
                let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                let kept = value["reasons"].as_array().unwrap();
                assert_eq!(kept.len() as u64 + value["more_reasons"].as_u64().unwrap(), count as u64);
                let loads = value["loads"].as_array().unwrap().len() as u64;
                assert_eq!(loads + value["more_loads"].as_u64().unwrap(), count as u64);
                assert!(
                    kept.is_empty() || kept[0].as_str().unwrap().starts_with("0 "),
                    "the weightiest first"
                );
            }
        }
    }

    #[test]
    fn a_short_answer_is_whole() {
        let text = judgement_json(&judgement("x", 3));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["reasons"].as_array().unwrap().len(), 3);
        assert_eq!(
            (value["more_reasons"].as_u64(), value["loads"][0]["verdict"].as_str()),
            (Some(0), Some("no_difference_shown"))
        );
        let text = judgement_text(&judgement("x", 3));
        assert!(text.contains("* 0 x\n") && text.contains("0 of 3 loads agree"), "{text}");
        assert_eq!((value["verify"]["of"].as_u64(), text.matches("reversed").count()), (Some(3), 3));
    }
}
