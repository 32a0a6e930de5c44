//! `--time-limit`: the one clock of the host that ends simulated runs.
//!
//! A run looks at a [`StopFlag`] between its events, so it ends soon after the time is over and those beside it go on. What
//! does not look at the flag (a workload being built, an object being linked) has some time more; then the command ends.

use crate::failure::{Code, Failure};
use schedlab_base::{DurationNs, StopFlag};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long after the limit the command ends, if the run has not. Chosen: many times the longest event, a callback that
/// uses up its budget of instructions.
const GRACE: Duration = Duration::from_secs(20);

/// The value of `--time-limit`, if it is given: host time of each run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLimit(pub Option<DurationNs>);

/// Host time running out for one run. Dropped when the run has ended.
#[derive(Debug)]
pub struct Deadline {
    stop: StopFlag,
    /// Dropped with the deadline, which ends the timer.
    _ended: Option<Sender<()>>,
}

impl TimeLimit {
    /// Begins the time of a run; `what` describes it.
    ///
    /// # Errors
    /// A host that gives no thread for the clock.
    pub fn begin(self, what: &str) -> Result<Deadline, Failure> {
        let stop = StopFlag::default();
        let Some(limit) = self.0 else { return Ok(Deadline { stop, _ended: None }) };
        let (sender, receiver) = channel();
        let (flag, what) = (stop.clone(), what.to_string());
        let timer = move || watch(&receiver, limit, &flag, &what);
        std::thread::Builder::new().name("time-limit".to_string()).spawn(timer).map_err(|error| {
            Failure::environment(format!(
                "--time-limit: no thread for its clock: {error}; end other processes or leave it out"
            ))
        })?;
        Ok(Deadline { stop, _ended: Some(sender) })
    }
}

impl Deadline {
    /// What the run looks at.
    pub fn stop(&self) -> StopFlag {
        self.stop.clone()
    }

    /// The failure of a phase before the run, if its time is over.
    pub fn check(&self, what: &str) -> Result<(), Failure> {
        if self.stop.is_raised() { Err(Failure::stopped(what, "before it began")) } else { Ok(()) }
    }
}

fn watch(ended: &Receiver<()>, limit: DurationNs, stop: &StopFlag, what: &str) {
    let over = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !over(Duration::from_nanos(limit.0)) {
        return;
    }
    stop.raise();
    if over(GRACE) {
        let late = format!("{} s after --time-limit it had not stopped", GRACE.as_secs());
        log::error!(
            "{what}: not finished, {late}, so the command ends here; runs that finished are in the folder of --resume, \
             if one was given"
        );
        std::process::exit(Code::Inconclusive as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_flag_is_raised_when_the_time_is_over() {
        let deadline = TimeLimit(Some(DurationNs::from_ms(1))).begin("a run").unwrap();
        let begin = Instant::now();
        while !deadline.stop().is_raised() && begin.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let failure = deadline.check("a run").unwrap_err();
        assert_eq!(failure.code, Code::Inconclusive);
        assert!(failure.text.contains("a run") && failure.text.contains("--time-limit"), "{failure}");
    }

    #[test]
    fn without_a_limit_nothing_ends() {
        let deadline = TimeLimit(None).begin("a run").unwrap();
        assert!(deadline.check("a run").is_ok() && !deadline.stop().is_raised());
    }
}
