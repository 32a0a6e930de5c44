//! What a kernel said, as a file: one line for each answer to a question, with the places where it was given.
//!
//! A place is a page, `enqueue.3.1` (the callback, the phase of the script, the call in that phase). The file begins with
//! the pages of each site; `*` stands for all of them and a site's name for all of the site's.
//!
//! The pages of sites about groups follow the script, and their answers repeat along it rather than across sites. They are kept as
//! sequences: `=SITE`, the question, and its answers page by page, `1*5` for five times 1.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Answers, tree};

/// The answer of a question that two runs of one kernel answer differently.
const UNSTEADY: &str = "~";
/// The answer of a side that did not come to the place.
const NOT_ASKED: &str = "not asked";

/// In a sequence: the page was reached and this was not asked.
const SKIPPED: &str = "-";

/// The answers of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    answers: Answers,
}

/// One value of the simulator that is another one than the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What was asked, with the place in front.
    pub asked: String,
    /// What the kernel says.
    pub kernel: String,
    /// What the simulator says.
    pub simulator: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: kernel {}, simulator {}", self.asked, self.kernel, self.simulator)
    }
}

/// Differences that are known. A pattern that ends in `*` stands for what begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// A pattern of kernel versions.
    pub version: String,
    /// A pattern of places.
    pub place: String,
    /// A pattern of questions.
    pub question: String,
    /// Only that one side did not reach the place.
    pub unreached: bool,
    /// Why the simulator differs.
    pub reason: String,
}

impl Kept {
    /// From the answers of several runs of one kernel; what they disagree on is unsteady.
    pub fn of_runs(runs: &[Answers]) -> Kept {
        let names: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
        let one = |name: &String| {
            let first = runs[0].get(name);
            let steady = runs.iter().all(|run| run.get(name) == first);
            first.filter(|_| steady).cloned().unwrap_or_else(|| UNSTEADY.to_string())
        };
        Kept { answers: names.into_iter().map(|name| (name.clone(), one(name))).collect() }
    }

    /// These answers with those of sheets about groups from `tree`.
    #[must_use]
    pub fn with(mut self, tree: Kept) -> Kept {
        let in_tree = |name: &String| tree::is_about_groups(site_of(name.split(' ').next().unwrap_or("")));
        self.answers.retain(|name, _| !in_tree(name));
        self.answers.extend(tree.answers);
        self
    }

    /// Whether the kernel was asked anything at a site.
    pub fn knows(&self, site: &str) -> bool {
        self.answers.keys().any(|name| name.strip_prefix(site).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Values that can be compared.
    pub fn count(&self) -> usize {
        self.answers.values().filter(|value| *value != UNSTEADY).count()
    }

    /// What the simulator answers otherwise; what either did not reach is `not asked`.
    pub fn against(&self, simulator: &Answers) -> Vec<Difference> {
        let names: BTreeSet<&String> = self.answers.keys().chain(simulator.keys()).collect();
        let none = || NOT_ASKED.to_string();
        let pair = |name: &String| {
            let kernel = self.answers.get(name).cloned().unwrap_or_else(none);
            let simulator = simulator.get(name).cloned().unwrap_or_else(none);
            (kernel != UNSTEADY && kernel != simulator).then(|| Difference {
                asked: name.clone(),
                kernel,
                simulator,
            })
        };
        names.into_iter().filter_map(pair).collect()
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut pages: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut questions: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for (name, value) in &self.answers {
            let (place, question) = name.split_once(' ').unwrap_or((name, ""));
            pages.entry(site_of(place)).or_default().insert(place);
            if !tree::is_about_groups(site_of(place)) {
                questions.entry(question).or_default().entry(value).or_default().insert(place);
            }
        }
        let mut text = String::new();
        for (site, places) in &pages {
            let places: Vec<&str> = places.iter().map(|place| &place[site.len() + 1..]).collect();
            text.push_str(&format!("@{site} {}\n", places.join(" ")));
        }
        for (question, values) in &questions {
            let all: BTreeSet<&str> = values.values().flatten().copied().collect();
            for (value, places) in values {
                let told = if *places == all { "*".to_string() } else { told(places, &all) };
                text.push_str(&format!("{question}\t{value}\t{told}\n"));
            }
            let sites: BTreeSet<&str> = all.iter().map(|place| site_of(place)).collect();
            if sites.len() < pages.keys().filter(|site| !tree::is_about_groups(site)).count() {
                let sites: Vec<&str> = sites.into_iter().collect();
                text.push_str(&format!("{question}\t@\t{}\n", sites.join(" ")));
            }
        }
        for (site, places) in pages.iter().filter(|(site, _)| tree::is_about_groups(site)) {
            let places = in_order(places.iter().copied());
            let asked = |name: &&String| site_of(name.split(' ').next().unwrap_or_default()) == *site;
            let names: BTreeSet<&str> =
                self.answers.keys().filter(asked).filter_map(|name| Some(name.split_once(' ')?.1)).collect();
            for question in names {
                let answer =
                    |place: &&str| self.answers.get(&format!("{place} {question}")).map(String::as_str);
                let values: Vec<&str> = places.iter().map(|place| answer(place).unwrap_or(SKIPPED)).collect();
                text.push_str(&format!("={site}\t{question}\t{}\n", sequence(&values)));
            }
        }
        text
    }

    /// Reads such a text.
    ///
    /// # Panics
    /// When it is none.
    pub fn from_text(text: &str) -> Kept {
        let mut pages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut lines: Vec<[&str; 3]> = Vec::new();
        let mut sites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut answers = Answers::new();
        for line in text.lines() {
            if let Some(line) = line.strip_prefix('=') {
                let cells: Vec<&str> = line.split('\t').collect();
                let [site, question, values] = cells[..] else { panic!("three cells: {line}") };
                let places = in_order(pages[site].iter().map(String::as_str));
                let asked = places.iter().zip(values_of(values)).filter(|(_, value)| *value != SKIPPED);
                answers
                    .extend(asked.map(|(place, value)| (format!("{place} {question}"), value.to_string())));
            } else if let Some(line) = line.strip_prefix('@') {
                let (site, places) = line.split_once(' ').expect("a site and its pages");
                pages.insert(site, places.split(' ').map(|place| format!("{site}.{place}")).collect());
            } else if !line.starts_with('#') {
                let cells: Vec<&str> = line.split('\t').collect();
                let [question, value, places] = cells[..] else { panic!("three cells: {line}") };
                if value == "@" {
                    sites.insert(question, places.split(' ').collect());
                } else {
                    lines.push([question, value, places]);
                }
            }
        }
        for [question, value, places] in lines {
            let asked = |site: &&&str| {
                !tree::is_about_groups(site) && sites.get(question).is_none_or(|sites| sites.contains(**site))
            };
            let mut add = |place: &str| answers.insert(format!("{place} {question}"), value.to_string());
            for word in places.split(' ') {
                match pages.get(word) {
                    Some(places) => places.iter().for_each(|place| drop(add(place))),
                    None if word == "*" => {
                        let all = pages.keys().filter(asked).flat_map(|site| &pages[site]);
                        all.for_each(|place| drop(add(place)));
                    }
                    None => drop(add(word)),
                }
            }
        }
        Kept { answers }
    }
}

/// Pages of one site in the order of the script.
fn in_order<'a>(places: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<usize>().ok());
    let mut places: Vec<&str> = places.collect();
    places.sort_by_key(|place| {
        let mut numbers = place.rsplit('.');
        let call = number(numbers.next());
        (number(numbers.next()), call)
    });
    places
}

/// Answers as words, each with how often it follows itself.
fn sequence(values: &[&str]) -> String {
    let words = values.chunk_by(|one, next| one == next).map(|run| match run.len() {
        1 => run[0].to_string(),
        count => format!("{}*{count}", run[0]),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The answers of such words.
fn values_of(words: &str) -> impl Iterator<Item = &str> {
    words.split(' ').flat_map(|word| {
        let (value, count) = word.rsplit_once('*').unwrap_or((word, "1"));
        std::iter::repeat_n(value, count.parse().expect("a count"))
    })
}

/// The places as words; a site's name where all of its places are among them.
fn told(places: &BTreeSet<&str>, all: &BTreeSet<&str>) -> String {
    let sites: BTreeSet<&str> = places.iter().map(|place| site_of(place)).collect();
    let mut words: Vec<&str> = Vec::new();
    for site in sites {
        let of_site = |set: &BTreeSet<&'_ str>| set.iter().filter(|place| site_of(place) == site).count();
        if of_site(places) == of_site(all) {
            words.push(site);
        } else {
            words.extend(places.iter().filter(|place| site_of(place) == site));
        }
    }
    words.join(" ")
}

/// The site of a place: all but the phase and the call.
fn site_of(place: &str) -> &str {
    place.rsplitn(3, '.').nth(2).unwrap_or(place)
}

impl Known {
    /// Reads lines `VERSION | PLACE | QUESTION | REASON`; the question `not reached` stands for all of a place that one side
    /// does not reach.
    ///
    /// # Panics
    /// When a line is none.
    pub fn all(text: &str) -> Vec<Known> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let cells: Vec<&str> = line.split(" | ").collect();
                let [version, place, question, reason] = cells[..] else { panic!("four cells: {line}") };
                let unreached = question == "not reached";
                let question = if unreached { "*" } else { question };
                let [version, place, question, reason] =
                    [version, place, question, reason].map(str::to_string);
                Known { version, place, question, unreached, reason }
            })
            .collect()
    }

    /// True if the entry is about this difference.
    pub fn covers(&self, version: &str, difference: &Difference) -> bool {
        let (place, question) = difference.asked.split_once(' ').unwrap_or((&difference.asked, ""));
        let begins = |text: &str, pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => text.starts_with(beginning),
            None => text == pattern,
        };
        let unreached = [&difference.kernel, &difference.simulator].contains(&&NOT_ASKED.to_string());
        begins(version, &self.version)
            && begins(place, &self.place)
            && begins(question, &self.question)
            && unreached == self.unreached
    }
}
