//! The results of a simulated run that are written during it: `-o`, `--perfetto`, `--sched-samples` and `--timehist`.

use crate::failure::Failure;
use crate::files::target::{Draft, Target};
use crate::run::simulation::Watch;
use crate::run::streamed::Streamed;
use crate::run::trace_file::TraceFile;
use crate::run::{record as whole, recorded, timehist};
use crate::workload::parties;
use schedlab_base::{Machine, TimeNs};
use schedlab_report::{About, Document, RecordSink, RecordWriter, SampleSink, TimehistSink, to_json};
use schedlab_sim::FIRST_PID;
use schedlab_workload::Scenario;
use std::path::Path;

/// Where the results go.
pub struct Streams {
    perfetto: Option<Target>,
    samples: Option<Target>,
    timehist: Option<Target>,
    record: Option<Target>,
}

/// The open results, while the run takes place.
pub struct OpenStreams {
    perfetto: Option<TraceFile>,
    samples: Option<Streamed<SampleSink<Draft>>>,
    timehist: Option<Streamed<TimehistSink<Draft>>>,
    record: Option<Streamed<RecordSink<Draft>>>,
}

impl Streams {
    /// Checks the paths.
    ///
    /// # Errors
    /// A path that cannot be a file.
    pub fn new(
        perfetto: Option<&Path>,
        samples: Option<&Path>,
        timehist: Option<&Path>,
        record: Option<&Path>,
    ) -> Result<Streams, Failure> {
        Ok(Streams {
            perfetto: perfetto.map(|path| Target::binary("--perfetto", path)).transpose()?,
            samples: samples.map(|path| Target::new("--sched-samples", path)).transpose()?,
            timehist: timehist::target(timehist)?,
            record: recorded::target(record)?,
        })
    }

    /// Those that were asked for.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.perfetto, &self.samples, &self.timehist, &self.record].into_iter().flatten()
    }

    /// Begins them; what the run shows from now on reaches them through `watch`.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub fn open(
        &self,
        scenario: &Scenario,
        machine: &Machine,
        watch: &mut Watch,
    ) -> Result<OpenStreams, Failure> {
        let (cpus, first_pid) = (machine.cpu_count(), FIRST_PID.cast_unsigned());
        let perfetto = self.perfetto.as_ref().map(|target| TraceFile::start(target, scenario, machine));
        let sampler = |draft| SampleSink::new(draft, cpus, machine.clock_mhz, first_pid);
        let samples = self.samples.as_ref().map(|target| Streamed::start(target, sampler));
        let timehist =
            self.timehist.as_ref().map(|target| timehist::start(target, &parties(scenario, machine), cpus));
        let recorder = |draft| RecordSink::new(RecordWriter::new(draft), &whole::head(scenario, machine));
        let record = self.record.as_ref().map(|target| Streamed::start(target, recorder));
        let (perfetto, samples, timehist, record) =
            (perfetto.transpose()?, samples.transpose()?, timehist.transpose()?, record.transpose()?);
        watch.schedule_events |= samples.is_some();
        if record.is_some() {
            watch.for_record();
        }
        watch.sinks.extend(perfetto.iter().map(TraceFile::sink));
        watch.sinks.extend(samples.iter().map(Streamed::sink));
        watch.sinks.extend(timehist.iter().map(Streamed::sink));
        watch.sinks.extend(record.iter().map(Streamed::sink));
        Ok(OpenStreams { perfetto, samples, timehist, record })
    }
}

impl OpenStreams {
    /// Completes them after a run with these results; `about` says how views are made of them, where a record is wanted. A file
    /// that fails keeps no other from being completed.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub fn finish(self, document: &Document, about: impl FnOnce() -> About) -> Result<(), Failure> {
        let end = TimeNs::ZERO + document.runs[0].duration;
        let complete = |sink: RecordSink<Draft>| {
            let mut writer = sink.finish();
            writer.results(&to_json(document), &about());
            writer.finish()
        };
        let recorded = self.record.map_or(Ok(()), |record| record.finish(complete));
        let traced = self.perfetto.map_or(Ok(()), TraceFile::finish);
        let sampled = self.samples.map_or(Ok(()), |samples| samples.finish(|sink| sink.finish(end)));
        let told = self.timehist.map_or(Ok(()), |history| history.finish(|sink| sink.finish(end)));
        traced.and(sampled).and(told).and(recorded)
    }
}
