//! The fair class: EEVDF as in Linux 7.

/// The fair part of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairEntity {}

/// A CPU's fair queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairRq {}
