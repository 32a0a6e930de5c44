//! A result that a sink writes while its run takes place.

use crate::failure::Failure;
use crate::files::target::{Draft, Target};
use schedlab_sim::SharedSink;
use schedlab_trace::Sink;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A result that is written during a run, by a sink of the run's events.
pub struct Streamed<S> {
    target: Target,
    sink: Rc<RefCell<S>>,
}

impl<S: Sink + 'static> Streamed<S> {
    /// Begins it, with the sink that writes into the draft.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub fn start(target: &Target, sink: impl FnOnce(Draft) -> S) -> Result<Streamed<S>, Failure> {
        let sink = sink(target.create()?);
        Ok(Streamed { target: target.clone(), sink: Rc::new(RefCell::new(sink)) })
    }

    /// What gets the run's events. The run drops it before [`Streamed::finish`].
    pub fn sink(&self) -> SharedSink {
        self.sink.clone()
    }

    /// Completes it: `end` has the sink write what it still holds.
    ///
    /// # Errors
    /// What could not be written, now or during the run.
    pub fn finish(self, end: impl FnOnce(S) -> io::Result<Draft>) -> Result<(), Failure> {
        let sink = Rc::into_inner(self.sink).expect("the run has dropped its sinks").into_inner();
        let draft = end(sink).map_err(|error| self.target.failure(&error))?;
        self.target.finish(draft)
    }
}
