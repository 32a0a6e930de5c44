//! One simulated run as a request: everything by name or by content, so that no file is read.

use crate::failure::Failure;
use crate::machine::{described, kernels};
use crate::run::record;
use crate::run::simulation::{Simulation, Watch, Watched, ejection, judged};
use crate::run::view::{self, Wanted};
use crate::scheduler::{FAIR, Scheduler};
use crate::shipped;
use crate::workload;
use schedlab_base::{DurationNs, Machine, ROOM_FOR_TASKS, counted};
use schedlab_report::{Document, ExtraTables, RecordOf, RecordSink, RecordWriter, to_json};
use schedlab_scx::EngineChoice;
use schedlab_trace::RunRecord;
use schedlab_workload::Scenario;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Tasks that a run may have beside those of its workload: the idle tasks and the kernel's own. Chosen.
const OTHER_TASKS: usize = 1024;

/// What is asked for; what is left out is as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// `-s`: a shipped scheduler, or what results call the object that comes with the request.
    pub scheduler: Option<String>,
    /// `--set`: values by variable.
    pub settings: Map<String, Value>,
    /// `-w`: a workload of the catalogue, or the text of a file.
    pub workload: String,
    /// The name of that file, which says of what kind it is: `*.toml` or `*.json`.
    pub workload_file: Option<String>,
    /// `-m`: a shipped machine, or the text of a machine file.
    pub machine: Option<String>,
    /// `--kernel`: a version or a distribution's name.
    pub kernel: Option<String>,
    /// `-c`: the number of CPUs.
    pub cpus: Option<usize>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--duration`, such as `2s`.
    pub duration: Option<String>,
    /// `--checkers`.
    pub checkers: bool,
    /// `--explain-waits`.
    pub waits: bool,
    /// `-o`: a record is made, of which every view can be shown.
    pub record: bool,
}

/// A run that was asked for.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The results.
    pub document: Document,
    /// The same as the command line writes them (`--json`).
    pub json: String,
    /// The record, where it was asked for.
    pub record: Option<Vec<u8>>,
    /// What the command would end with besides its results: a scheduler that was ejected.
    pub failure: Option<Failure>,
}

impl Answer {
    /// The run's record of results.
    #[must_use]
    pub fn run(&self) -> &RunRecord {
        &self.document.runs[0]
    }
}

/// Whether a value is the content of a file rather than a name.
fn is_text(value: &str) -> bool {
    value.contains('\n')
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// Bytes that are no request; the message names the member.
    pub fn of_json(bytes: &[u8]) -> Result<Request, Failure> {
        serde_json::from_slice(bytes).map_err(|error| Failure::usage(format!("the request: {error}")))
    }

    /// Makes the run, of this object where one is given; programs are interpreted.
    ///
    /// # Errors
    /// A scheduler, setting, workload or machine that is refused, and more than this host has room for.
    pub fn run(&self, object: Option<Vec<u8>>) -> Result<Answer, Failure> {
        let simulation = self.simulation(object)?;
        let scenario = self.scenario(&simulation)?;
        has_room(&scenario)?;
        self.watched(&simulation, &scenario)
    }

    fn settings(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        self.settings.iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
    }

    fn scheduler(&self, object: Option<Vec<u8>>) -> Result<Scheduler, Failure> {
        let settings = self.settings();
        match (object, &self.scheduler) {
            (Some(object), name) => {
                Scheduler::of_bytes(name.as_deref().unwrap_or("object.bpf.o"), object, &settings)
            }
            (None, name) => {
                let name = name.clone().unwrap_or_else(|| FAIR.to_string());
                Scheduler::find_all(&[name], &settings).map(|mut found| found.remove(0))
            }
        }
    }

    fn machine(&self) -> Result<Machine, Failure> {
        let file = match self.machine.as_deref() {
            Some(text) if is_text(text) => described(text, "the machine")?,
            name => shipped::machine(name.unwrap_or(shipped::DEFAULT_MACHINE))?,
        };
        kernels::with(file.machine, self.kernel.as_deref(), self.cpus)
    }

    fn simulation(&self, object: Option<Vec<u8>>) -> Result<Simulation, Failure> {
        let limit = self.duration.as_deref().map(|text| {
            text.parse::<DurationNs>().map_err(|error| Failure::usage(format!("--duration {text}: {error}")))
        });
        Ok(Simulation {
            seed: self.seed.unwrap_or(1),
            limit: limit.transpose()?,
            checkers: self.checkers,
            engine: EngineChoice::Interpreted,
            ..Simulation::new(self.scheduler(object)?, self.workload_name(), self.machine()?)
        })
    }

    /// What messages call the workload.
    fn workload_name(&self) -> &str {
        match &self.workload_file {
            Some(name) => name,
            None if is_text(&self.workload) && self.workload.trim_start().starts_with('{') => "workload.json",
            None if is_text(&self.workload) => "workload.toml",
            None => &self.workload,
        }
    }

    fn scenario(&self, simulation: &Simulation) -> Result<Scenario, Failure> {
        if !is_text(&self.workload) {
            return simulation.scenario();
        }
        let cpus = Some(simulation.machine.cpu_count() as u32);
        workload::of_text(&simulation.workload, &self.workload, simulation.limit, cpus)
    }

    fn watched(&self, simulation: &Simulation, scenario: &Scenario) -> Result<Answer, Failure> {
        let mut watch = Watch { waits: self.waits, ..Watch::default() };
        let sink = self.record.then(|| {
            let head = record::head(scenario, &simulation.machine);
            Rc::new(RefCell::new(RecordSink::new(RecordWriter::new(Vec::new()), &head)))
        });
        if let Some(sink) = &sink {
            watch.for_record();
            watch.sinks.push(sink.clone());
        }
        let Watched { record, extra_tables, .. } = simulation.run_watched(scenario, watch)?;
        let mut document = judged(record, &scenario.goals);
        let extra = vec![extra_tables];
        let record = sink.map(|sink| {
            let sink = Rc::into_inner(sink).expect("the run has dropped its sinks").into_inner();
            recorded(sink, &document, extra.clone())
        });
        view::only(&mut document, &extra, Wanted { waits: self.waits, ..Wanted::default() });
        let failure = ejection(&document).err();
        let failure = failure.map(|failure| simulation.scheduler.with_cure(failure, &document.runs[0].exit));
        Ok(Answer { json: to_json(&document), record: record.transpose()?, document, failure })
    }
}

/// Completes a record.
fn recorded(
    sink: RecordSink<Vec<u8>>,
    document: &Document,
    extra: Vec<ExtraTables>,
) -> Result<Vec<u8>, Failure> {
    let mut writer = sink.finish();
    writer.results(&to_json(document), &record::about(RecordOf::Run, String::new(), document, extra));
    writer.finish().map_err(|error| Failure::environment(format!("the record: {error}")))
}

/// Refuses more tasks than this host has room for, before the run.
fn has_room(scenario: &Scenario) -> Result<(), Failure> {
    let most = (ROOM_FOR_TASKS as usize).saturating_sub(OTHER_TASKS);
    if scenario.tasks.len() <= most {
        return Ok(());
    }
    let (name, tasks) = (&scenario.name, counted(scenario.tasks.len(), "task"));
    Err(Failure::environment(format!(
        "workload {name}: {tasks}, and there is room for {most} here; the command line has room for a million"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_run_of_its_flags() {
        let text = r#"{"scheduler": "o1", "settings": {"profile": "d1"}, "workload": "chat:rooms=1,messages=5",
            "cpus": 2, "seed": 3, "record": true, "waits": true}"#;
        let answer = Request::of_json(text.as_bytes()).unwrap().run(None).unwrap();
        let mut o1 = Scheduler::find("o1").unwrap();
        o1.set("profile", "d1").unwrap();
        let machine = shipped::machine("modern").unwrap().machine.with_cpus(2).unwrap();
        let simulation = Simulation { seed: 3, ..Simulation::new(o1, "chat:rooms=1,messages=5", machine) };
        let scenario = simulation.scenario().unwrap();
        let watch = Watch { waits: true, ..Watch::default() };
        let run = simulation.run_watched(&scenario, watch).unwrap().record;
        assert_eq!(answer.json, to_json(&judged(run, &scenario.goals)));
        assert!(answer.record.is_some() && answer.failure.is_none());
    }

    #[test]
    fn what_a_request_says_wrong_is_named() {
        for (text, words) in [
            (r#"{"scheduler": "o2"}"#, "no scheduler named 'o2'"),
            (r#"{"machine": "pdp-11"}"#, "no machine named 'pdp-11'"),
            (r#"{"workload": "chatt"}"#, "chatt"),
            (r#"{"duration": "soon"}"#, "--duration soon"),
            (r#"{"cpu": 2}"#, "unknown field `cpu`"),
            (r#"{"workload": "[workload\n"}"#, "workload.toml"),
            (r#"{"settings": {"x": 1}}"#, "no tunables"),
        ] {
            let answer = Request::of_json(text.as_bytes()).and_then(|request| request.run(None));
            let error = answer.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = Request::default().run(Some(b"no object".to_vec())).unwrap_err().to_string();
        assert!(error.contains("object.bpf.o"), "{error}");
    }
}
