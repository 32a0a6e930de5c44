//! The trace of `--perfetto`: written while a run goes on, in its place when the run is done.

use crate::failure::Failure;
use crate::files::target::{Draft, Target};
use crate::run::streamed::Streamed;
use crate::workload::parties;
use schedlab_base::Machine;
use schedlab_report::PerfettoSink;
use schedlab_sim::{FIRST_PID, SharedSink};
use schedlab_workload::Scenario;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Characters of a part of a name that a program chose. Chosen: four of them fit in what a file system takes.
const PART: usize = 60;

/// A trace that is being written.
pub(crate) struct TraceFile(Streamed<PerfettoSink<Draft>>);

impl TraceFile {
    /// Begins the trace of a run of `scenario` on `machine`.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub(crate) fn start(
        target: &Target,
        scenario: &Scenario,
        machine: &Machine,
    ) -> Result<TraceFile, Failure> {
        let parties = parties(scenario, machine);
        Streamed::start(target, |draft| PerfettoSink::new(draft, parties, FIRST_PID)).map(TraceFile)
    }

    /// What gets the run's events. The run drops it before [`TraceFile::finish`].
    pub(crate) fn sink(&self) -> SharedSink {
        self.0.sink()
    }

    /// Completes the trace.
    ///
    /// # Errors
    /// What could not be written, now or while the run went on.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.0.finish(|sink| sink.finish().map(|(draft, _)| draft))
    }
}

/// Names of traces in a folder, each of which is given once.
#[derive(Debug)]
pub struct TraceNames<'a> {
    folder: &'a Path,
    given: BTreeSet<String>,
}

impl TraceNames<'_> {
    /// None given yet.
    pub fn new(folder: &Path) -> TraceNames<'_> {
        TraceNames { folder, given: BTreeSet::new() }
    }

    /// A new one: `o1-chat-4cpus-seed1.pftrace`. Characters that mean something to a shell or a file system are left out.
    pub fn next(&mut self, scheduler: &str, workload: &str, cpus: usize, seed: u64) -> PathBuf {
        let name = format!("{}-{}-{cpus}cpus-seed{seed}", part(scheduler), part(workload));
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut free = std::iter::once(name.clone()).chain(numbered);
        let name = free.find(|name| !self.given.contains(name)).expect("there are more names than runs");
        let path = self.folder.join(format!("{name}.pftrace"));
        self.given.insert(name);
        path
    }
}

/// Letters, digits and harmless signs of a name, an underscore for any others in a row.
fn part(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "+=.,-".contains(c) { c } else { '_' };
    let safe: String = name.chars().map(kept).collect();
    let words: Vec<&str> = safe.split('_').filter(|word| !word.is_empty()).collect();
    let safe: String = words.join("_").trim_start_matches(['.', '-', '_']).chars().take(PART).collect();
    if safe.is_empty() { "unnamed".to_string() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_given_once() {
        let mut names = TraceNames::new(Path::new("t"));
        let mut next = |scheduler: &str, workload: &str| {
            let path = names.next(scheduler, workload, 4, 1);
            path.strip_prefix("t").unwrap().to_str().unwrap().to_string()
        };
        assert_eq!(next("o1[profile=d1]", "chat"), "o1_profile=d1-chat-4cpus-seed1.pftrace");
        assert_eq!(next("o1[profile=d1]", "chat"), "o1_profile=d1-chat-4cpus-seed1-2.pftrace");
        assert_eq!(next("../../x\n/y.bpf.o", "--a b"), "x_y.bpf.o-a_b-4cpus-seed1.pftrace");
        assert_eq!(next("..", "\u{202e}"), "unnamed-unnamed-4cpus-seed1.pftrace");
        assert!(next(&"a".repeat(500), &"b".repeat(500)).len() < 200);
    }
}
