//! Being in charge of this machine, as the kernel tells it.

use super::sched_ext;

/// The scheduler that was in charge at one time, told apart from every other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    /// The name that it gives itself.
    pub(super) name: String,
    /// Which enable it was; nothing on kernels that do not count them.
    sequence: Option<u64>,
}

impl Charge {
    /// The one of now.
    pub(super) fn now() -> Charge {
        let name = sched_ext::current_scheduler().unwrap_or_default();
        Charge { name, sequence: sched_ext::enable_sequence() }
    }

    /// True for a scheduler that has come since `before`. The kernel counts an enable when all else of it is done.
    pub(super) fn has_come_since(&self, before: &Charge) -> bool {
        let counted = self.sequence.zip(before.sequence).is_none_or(|(now, then)| now != then);
        counted && !self.name.is_empty() && self.is_held()
    }

    /// False once the kernel has thrown it out or something else has replaced it.
    pub(super) fn is_held(&self) -> bool {
        let is_same = || match self.sequence {
            // Every enable has its own number.
            Some(number) => sched_ext::enable_sequence() == Some(number),
            None => sched_ext::current_scheduler().as_deref() == Some(&self.name),
        };
        sched_ext::state().as_deref() == Some("enabled") && is_same()
    }
}
