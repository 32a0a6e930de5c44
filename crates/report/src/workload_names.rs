//! Short names of workloads that stand side by side: the name, and the parameters in which those of one name differ.

use schedlab_trace::WorkloadRecord;
use std::collections::BTreeMap;

/// The workloads of some results, each once, with their short names.
#[derive(Debug)]
pub struct WorkloadNames<'a>(Vec<(&'a WorkloadRecord, String)>);

impl<'a> WorkloadNames<'a> {
    /// The workloads that `workloads` names, in their order.
    pub fn of(workloads: impl Iterator<Item = &'a WorkloadRecord>) -> WorkloadNames<'a> {
        let mut all: Vec<&WorkloadRecord> = Vec::new();
        for workload in workloads {
            if !all.contains(&workload) {
                all.push(workload);
            }
        }
        let name = |workload: &WorkloadRecord| {
            let namesakes = || all.iter().filter(|other| other.name == workload.name);
            let differs = |param: &&(String, String)| namesakes().any(|other| !other.params.contains(param));
            let params = workload.params.iter().filter(differs).cloned().collect();
            workload_text(&WorkloadRecord { name: workload.name.clone(), params })
        };
        WorkloadNames(all.iter().map(|workload| (*workload, name(workload))).collect())
    }

    /// True if there are two or more.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The short name of one of them.
    pub fn get<'b>(&'b self, workload: &'b WorkloadRecord) -> &'b str {
        self.0.iter().find(|(known, _)| *known == workload).map_or(workload.name.as_str(), |(_, name)| name)
    }
}

/// The short names of workloads as command lines name them, `pipe:loops=5,cpus=2`.
pub(crate) fn short_names<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let read: BTreeMap<&str, WorkloadRecord> = texts.map(|text| (text, record(text))).collect();
    let names = WorkloadNames::of(read.values());
    read.iter().map(|(text, record)| (*text, names.get(record).to_string())).collect()
}

/// A name with its parameters; a text of another form is a name as a whole.
fn record(text: &str) -> WorkloadRecord {
    let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
    let split = text.split_once(':');
    let read =
        split.and_then(|(name, params)| Some((name, params.split(',').map(pair).collect::<Option<_>>()?)));
    let (name, params) = read.unwrap_or((text, Vec::new()));
    WorkloadRecord { name: name.to_string(), params }
}

/// `chat:rooms=10,messages=50`.
pub(crate) fn workload_text(workload: &WorkloadRecord) -> String {
    let params: Vec<String> = workload.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if params.is_empty() { workload.name.clone() } else { format!("{}:{}", workload.name, params.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namesakes_are_told_apart_by_what_differs() {
        let workload = |name: &str, rooms: &str| WorkloadRecord {
            name: name.into(),
            params: [("rooms", rooms), ("messages", "5")].map(|(k, v)| (k.into(), v.into())).to_vec(),
        };
        let all =
            [workload("chat", "1"), workload("chat", "2"), workload("reflex", "1"), workload("chat", "1")];
        let names = WorkloadNames::of(all.iter());
        assert!(names.are_several());
        assert_eq!(
            [0, 1, 2, 3].map(|at| names.get(&all[at])),
            ["chat:rooms=1", "chat:rooms=2", "reflex", "chat:rooms=1"]
        );
    }

    #[test]
    fn texts_have_short_names_too() {
        let texts = ["hog:n=2,t=1s", "hog:n=3,t=1s", "pipe:loops=5", "own.toml", "a:b"];
        let names: Vec<String> = short_names(texts.into_iter()).into_values().collect();
        assert_eq!(names, ["a:b", "hog:n=2", "hog:n=3", "own.toml", "pipe"]);
    }
}
