//! Suites: files of loads by which schedulers are judged.

use crate::failure::Failure;
use crate::files::input;
use crate::judge::range::Range;
use crate::shipped::SUITES;
use schedlab_base::{DurationNs, did_you_mean};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// The suite without `--suite`.
pub const DEFAULT_SUITE: &str = "desktop";

/// Most seeds of a suite. Chosen: a judgement is to be short.
const MOST_SEEDS: usize = 100;

/// Loads by which schedulers are judged.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The name of a shipped one, or the path.
    pub name: String,
    /// Which users it stands for, one line.
    pub about: String,
    /// Runs of each load.
    pub seeds: NonZeroUsize,
    /// The loads; those that are measured come first.
    pub loads: Vec<SuiteLoad>,
}

/// One load, with what is drawn for each of its runs.
#[derive(Clone, Debug)]
pub struct SuiteLoad {
    /// Its name.
    pub name: String,
    /// True for a load that answers do not show.
    pub hidden: bool,
    /// What runs.
    pub work: Work,
    /// Parameters: of a workload of the catalogue, or `$NAME` of a text.
    pub draw: BTreeMap<String, Range>,
    /// The machine's name.
    pub machine: String,
    /// CPUs of the machine.
    pub cpus: Range,
    /// When a run ends at the latest.
    pub duration: Range,
    /// The figures that count.
    pub metrics: Vec<String>,
    /// Differences of times below this are not noticed.
    pub notice: DurationNs,
}

/// What a load runs.
#[derive(Clone, Debug)]
pub enum Work {
    /// A workload of the catalogue.
    Catalogue(String),
    /// A workload file's text.
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    seeds: NonZeroUsize,
    #[serde(default)]
    load: Vec<Entry>,
    #[serde(default)]
    hidden: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    workload: Option<String>,
    text: Option<String>,
    #[serde(default)]
    draw: BTreeMap<String, String>,
    machine: Option<String>,
    cpus: String,
    duration: String,
    #[serde(default)]
    metrics: Vec<String>,
    notice: Option<String>,
}

impl Suite {
    /// Finds a suite by its name or path.
    ///
    /// # Errors
    /// An unknown name, an unreadable or wrong file.
    pub fn find(name: &str) -> Result<Suite, Failure> {
        if let Some((name, text)) = SUITES.iter().find(|(shipped, _)| *shipped == name) {
            return Suite::parse(text, name);
        }
        if name.ends_with(".toml") || name.contains('/') {
            let text = input::definition(name);
            let text = text.map_err(|error| Failure::usage(format!("suite file {name}: {error}")))?;
            return Suite::parse(&text, name);
        }
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        let near = did_you_mean(name, &names);
        let names = names.join(", ");
        Err(Failure::usage(format!(
            "no suite named '{name}'{near}; there are: {names} (or give a file: *.toml)"
        )))
    }

    /// Reads a suite; `origin` names it in errors.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str, origin: &str) -> Result<Suite, Failure> {
        let refused = |what: String| Failure::usage(format!("suite {origin}: {what}"));
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            refused(format!("line {line}: {}", error.message()))
        })?;
        if file.load.is_empty() {
            return Err(refused("it has no [[load]]".into()));
        }
        if file.seeds.get() < 2 || file.seeds.get() > MOST_SEEDS {
            return Err(refused(format!("seeds: give 2 to {MOST_SEEDS}")));
        }
        let mut loads: Vec<SuiteLoad> = Vec::new();
        let (shown, hidden) = (file.load.into_iter(), file.hidden.into_iter());
        for (entry, hidden) in shown.map(|entry| (entry, false)).chain(hidden.map(|entry| (entry, true))) {
            let name = entry.name.clone();
            if loads.iter().any(|load| load.name == name) {
                return Err(refused(format!("two loads are called '{name}'")));
            }
            loads
                .push(SuiteLoad::new(entry, hidden).map_err(|what| refused(format!("load {name}: {what}")))?);
        }
        Ok(Suite { name: origin.to_string(), about: file.about, seeds: file.seeds, loads })
    }

    /// The loads that answers show.
    pub fn shown(&self) -> &[SuiteLoad] {
        let count = self.loads.iter().filter(|load| !load.hidden).count();
        &self.loads[..count]
    }
}

impl SuiteLoad {
    fn new(entry: Entry, hidden: bool) -> Result<SuiteLoad, String> {
        let work = match (entry.workload, entry.text) {
            (Some(name), None) => Work::Catalogue(name),
            (None, Some(text)) => Work::Text(text),
            _ => return Err("give either workload or text".into()),
        };
        if entry.metrics.is_empty() && !hidden {
            return Err("name at least one of its metrics".into());
        }
        if let Work::Text(text) = &work
            && let Some(key) = entry.draw.keys().find(|key| !text.contains(&format!("${key}")))
        {
            return Err(format!("{key} is drawn, and its text has no ${key}"));
        }
        let range = |what: &str, text: &str| Range::parse(text).map_err(|error| format!("{what}: {error}"));
        let draw = entry.draw.iter().map(|(key, text)| Ok((key.clone(), range(key, text)?)));
        let cpus = range("cpus", &entry.cpus)?;
        if !matches!(cpus, Range::Whole(low, _) if low > 0) {
            return Err("cpus: give a number from 1 up, or a range as in 1..4".into());
        }
        let duration = range("duration", &entry.duration)?;
        if !matches!(duration, Range::Time(low, _) if low > DurationNs::ZERO) {
            return Err("duration: give a time, or a range as in 300ms..1s".into());
        }
        let notice = entry.notice.as_deref().unwrap_or("0ns");
        Ok(SuiteLoad {
            name: entry.name,
            hidden,
            work,
            draw: draw.collect::<Result<_, String>>()?,
            machine: entry.machine.unwrap_or_else(|| crate::shipped::DEFAULT_MACHINE.to_string()),
            cpus,
            duration,
            metrics: entry.metrics,
            notice: notice.parse().map_err(|error| format!("notice: {error}"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_suites_have_five_loads_of_each_kind() {
        for (name, _) in SUITES {
            let suite = Suite::find(name).unwrap();
            let shown = suite.shown().len();
            assert!(shown >= 5 && suite.loads.len() - shown >= 5, "{name}");
            assert!(!suite.about.is_empty() && suite.seeds.get() >= 5, "{name}");
        }
    }

    #[test]
    fn wrong_suites_are_refused_with_the_place() {
        let load = "[[load]]\nname = 'a'\nworkload = 'chat'\nmetrics = ['throughput']\n";
        let ends = "cpus = '1'\nduration = '1s'\n";
        for (text, part) in [
            ("about = ''\nseeds = 5\n".to_string(), "no [[load]]"),
            (format!("about = ''\nseeds = 1\n{load}{ends}"), "2 to 100"),
            (format!("about = ''\nseeds = 5\n{load}{ends}{load}{ends}"), "called 'a'"),
            (format!("about = ''\nseeds = 5\n{load}cpus = '0'\nduration = '1s'\n"), "load a: cpus"),
            (format!("about = ''\nseeds = 5\n{load}cpus = '1'\nduration = '9'\n"), "load a: duration"),
            (format!("about = ''\nseeds = 5\n{load}{ends}draw = {{ rooms = '9..2' }}\n"), "rooms: '9..2'"),
            (format!("about = ''\nseeds = 5\n{load}{ends}\nmore = 1\n"), "line 10"),
        ] {
            let failure = Suite::parse(&text, "x").unwrap_err();
            assert!(failure.text.contains(part), "{part}: {failure}");
        }
        assert!(Suite::find("desktp").unwrap_err().text.contains("desktop"));
    }
}
