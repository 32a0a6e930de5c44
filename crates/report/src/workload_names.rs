//! Short names of workloads that stand side by side: the name, and the parameters in which those of one name differ.

use crate::table::workload_text;
use schedlab_trace::WorkloadRecord;

/// The workloads of some results, each once, with their short names.
#[derive(Debug)]
pub(crate) struct WorkloadNames<'a>(Vec<(&'a WorkloadRecord, String)>);

impl<'a> WorkloadNames<'a> {
    /// Those that `workloads` names, in their order.
    pub(crate) fn of(workloads: impl Iterator<Item = &'a WorkloadRecord>) -> WorkloadNames<'a> {
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
    pub(crate) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The short name of one of them.
    pub(crate) fn get<'b>(&'b self, workload: &'b WorkloadRecord) -> &'b str {
        self.0.iter().find(|(known, _)| *known == workload).map_or(workload.name.as_str(), |(_, name)| name)
    }
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
}
