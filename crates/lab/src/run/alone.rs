//! One simulated run by itself: with a limit of host time, and with files beside its record.

use crate::failure::Failure;
use crate::files::target::Target;
use crate::run::deadline::{Deadline, TimeLimit};
use crate::run::defect;
use crate::run::simulation::{Extras, Simulation, Watch};
use crate::run::trace_file::TraceFile;
use schedlab_base::{Better, Metric, StopFlag, TimeNs};
use schedlab_report::{SampleSink, read_samples};
use schedlab_sim::{FIRST_PID, SharedSink};
use schedlab_trace::RunRecord;
use schedlab_trace::samples::{NAMED, SchedSample, analyse};
use schedlab_workload::Scenario;
use std::cell::RefCell;
use std::rc::Rc;

impl Simulation {
    /// Makes the run.
    ///
    /// # Errors
    /// As of [`Simulation::run_alone`].
    pub fn run(&self) -> Result<RunRecord, Failure> {
        self.run_alone(&TimeLimit::default().begin("a run")?)
    }

    /// Checks what can be checked without running, so that a long sweep fails at once:
    /// the workload and the object.
    pub fn check(&self, limit: TimeLimit) -> Result<(), Failure> {
        let what = self.describe();
        let deadline = limit.begin(&what)?;
        defect::guard(
            || what.clone(),
            || {
                self.scenario()?;
                self.loaded(None).map(|_| ())?;
                deadline.check(&what)
            },
        )
    }

    /// Checks the object alone.
    ///
    /// # Errors
    /// An object that the simulator or its machine does not take.
    pub(crate) fn check_object(&self, limit: TimeLimit) -> Result<(), Failure> {
        let what = self.describe();
        let deadline = limit.begin(&what)?;
        defect::guard(
            || what.clone(),
            || {
                self.loaded(None)?;
                deadline.check(&what)
            },
        )
    }

    /// Runs it with its extras.
    fn run_with_extras(&self, scenario: &Scenario, stop: StopFlag) -> Result<RunRecord, Failure> {
        let Extras { waits, timeline, perfetto } = &self.extras;
        let target = perfetto.as_deref().map(|path| Target::new("--perfetto", path)).transpose()?;
        let trace = target.map(|target| TraceFile::start(&target, scenario, &self.machine)).transpose()?;
        let sinks = trace.iter().map(TraceFile::sink).collect();
        let watch = Watch { sinks, waits: *waits, timeline: *timeline, stop, ..Watch::default() };
        let record = self.run_watched(scenario, watch)?.record;
        trace.map_or(Ok(()), TraceFile::finish).map(|()| record)
    }

    /// Builds the scenario and runs it, with the metrics of samples if they are wanted.
    ///
    /// # Errors
    /// A workload, object or setting that is refused, and a trace that cannot be written. An ejected scheduler is no error
    /// here: the record says so.
    pub fn run_alone(&self, deadline: &Deadline) -> Result<RunRecord, Failure> {
        let scenario = self.scenario()?;
        deadline.check(&self.describe())?;
        let stop = deadline.stop();
        let Some(sampling) = &self.sampling else { return self.run_with_extras(&scenario, stop) };
        let clock = self.machine.clock_mhz;
        let sink = SampleSink::new(Vec::new(), self.machine.cpu_count(), clock, FIRST_PID.cast_unsigned());
        let sink = Rc::new(RefCell::new(sink));
        let sinks: Vec<SharedSink> = vec![sink.clone()];
        let mark = sampling.mark.clone();
        let watch = Watch { sinks, schedule_events: true, mark, stop, ..Watch::default() };
        let mut record = self.run_watched(&scenario, watch)?.record;
        let sink = Rc::into_inner(sink).expect("the run has dropped its sinks").into_inner();
        let taken = sink.finish(TimeNs::ZERO + record.duration).map_err(|error| error.to_string());
        let read = taken.and_then(|text| String::from_utf8(text).map_err(|error| error.to_string()));
        let file = read.and_then(|text| read_samples(&text, "samples")).map_err(Failure::usage)?;
        let per_ms = u64::from(clock) * 1000;
        let inside = |sample: &SchedSample| {
            sampling.window_ms.is_none_or(|[from, to]| (from..to).contains(&(sample.start / per_ms)))
        };
        let samples: Vec<SchedSample> = file.rows.into_iter().filter(inside).collect();
        let figures = analyse(&samples, &sampling.disturbers);
        for (name, unit) in NAMED {
            if let Some(value) = figures.named(name, None, clock) {
                record.metrics.push(Metric::new(&format!("samples.{name}"), value, unit, Better::Neither));
            }
        }
        Ok(record)
    }
}
