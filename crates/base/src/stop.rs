//! The one thing of the host that a run looks at: whether it is to end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a run from outside that it must end. Copies share one state.
///
/// A run that is stopped gives no result, so that no result depends on when the flag was raised.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Ends the run soon; cannot be taken back.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True when the run must end.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
