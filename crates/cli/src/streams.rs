//! The results of a simulated run that are written while it goes on: `--perfetto`, `--sched-samples` and `--timehist`.

use crate::args::SimArgs;
use crate::failure::Failure;
use crate::simulation::{Watch, parties};
use crate::target::{Draft, Target};
use crate::timehist::{self, History};
use crate::trace_file::TraceFile;
use schedlab_base::{Machine, TimeNs};
use schedlab_report::SampleSink;
use schedlab_sim::FIRST_PID;
use schedlab_workload::Scenario;
use std::cell::RefCell;
use std::rc::Rc;

/// Where they go.
pub(crate) struct Streams {
    perfetto: Option<Target>,
    samples: Option<Target>,
    timehist: Option<Target>,
}

/// They, while the run goes on.
pub(crate) struct OpenStreams<'a> {
    targets: &'a Streams,
    perfetto: Option<TraceFile>,
    samples: Option<Rc<RefCell<SampleSink<Draft>>>>,
    timehist: Option<History>,
}

impl Streams {
    /// Checks the paths.
    ///
    /// # Errors
    /// A path that cannot be a file.
    pub(crate) fn new(args: &SimArgs) -> Result<Streams, Failure> {
        let samples = args.sched_samples.as_deref();
        Ok(Streams {
            perfetto: args.perfetto.as_deref().map(|path| Target::binary("--perfetto", path)).transpose()?,
            samples: samples.map(|path| Target::new("--sched-samples", path)).transpose()?,
            timehist: timehist::target(args.history.timehist.as_deref())?,
        })
    }

    /// Those that were asked for.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.perfetto, &self.samples, &self.timehist].into_iter().flatten()
    }

    /// Begins them; what the run shows from now on reaches them through `watch`.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub(crate) fn open(
        &self,
        scenario: &Scenario,
        machine: &Machine,
        watch: &mut Watch,
    ) -> Result<OpenStreams<'_>, Failure> {
        let (cpus, first_pid) = (machine.cpu_count(), FIRST_PID.cast_unsigned());
        let perfetto = self.perfetto.as_ref().map(|target| TraceFile::start(target.clone(), scenario));
        let samples = self.samples.as_ref().map(|target| {
            let sink = SampleSink::new(target.create()?, cpus, machine.clock_mhz, first_pid);
            Ok::<_, Failure>(Rc::new(RefCell::new(sink)))
        });
        let timehist = self.timehist.as_ref().map(|target| timehist::start(target, &parties(scenario), cpus));
        let (perfetto, samples, timehist) =
            (perfetto.transpose()?, samples.transpose()?, timehist.transpose()?);
        watch.schedule_events |= samples.is_some();
        watch.sinks.extend(perfetto.iter().map(TraceFile::sink));
        if let Some(sink) = &samples {
            watch.sinks.push(sink.clone());
        }
        if let Some(sink) = &timehist {
            watch.sinks.push(sink.clone());
        }
        Ok(OpenStreams { targets: self, perfetto, samples, timehist })
    }
}

impl OpenStreams<'_> {
    /// Completes them after a run of this length. A file that fails keeps no other from being completed.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub(crate) fn finish(self, end: TimeNs) -> Result<(), Failure> {
        let traced = self.perfetto.map_or(Ok(()), TraceFile::finish);
        let sampled = finish_samples(self.targets.samples.as_ref(), self.samples, end);
        let told = timehist::finish(self.targets.timehist.as_ref(), self.timehist, end);
        traced.and(sampled).and(told)
    }
}

fn finish_samples(
    target: Option<&Target>,
    samples: Option<Rc<RefCell<SampleSink<Draft>>>>,
    end: TimeNs,
) -> Result<(), Failure> {
    let (Some(target), Some(samples)) = (target, samples) else { return Ok(()) };
    let sink = Rc::into_inner(samples).expect("the run has dropped its sinks").into_inner();
    target.finish(sink.finish(end).map_err(|error| target.failure(&error))?)
}
