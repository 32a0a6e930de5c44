//! How far the figures of a run count: the one place that decides it.

use crate::record::{ExitKind, ExitRecord, RunRecord};
use crate::warnings::WarningKind;

/// How far the figures of a run, or of several together, count. The worst of several is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing speaks against the figures.
    #[default]
    Valid,
    /// A warning touches the figures: they may be those of something else than what was to be measured.
    Suspect,
    /// The run ended before its end, so that its figures are of another run than the one that was to be made.
    Void,
}

impl Standing {
    /// All of them, the best first.
    pub const ALL: [Standing; 3] = [Standing::Valid, Standing::Suspect, Standing::Void];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Valid => "valid",
            Standing::Suspect => "suspect",
            Standing::Void => "void",
        }
    }

    /// The standing of a name.
    pub fn from_name(name: &str) -> Option<Standing> {
        Standing::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// What a run's scheduler did that makes its figures void.
const EJECTED: &str = "ejected";
const ENDED_EARLY: &str = "ended_early";

impl WarningKind {
    /// What a run with such a warning is. A warning that only informs leaves a run valid.
    pub fn standing(self) -> Standing {
        match self {
            WarningKind::Starved
            | WarningKind::NeverRan
            | WarningKind::IdleBesideWaiting
            | WarningKind::FallsBehind
            | WarningKind::Unconfigured
            | WarningKind::ProgramReturned
            | WarningKind::LoaderComputes
            | WarningKind::LoaderRefused
            | WarningKind::NothingToSchedule
            | WarningKind::NotReached
            | WarningKind::SubScheduler
            | WarningKind::NotModelled
            | WarningKind::CommandFailed
            | WarningKind::Stuck => Standing::Suspect,
            WarningKind::SeedsChangeNothing
            | WarningKind::LeftOut
            | WarningKind::CommandWrote
            | WarningKind::GroupsUnheard => Standing::Valid,
        }
    }
}

impl ExitRecord {
    /// True where the scheduler left before the run was to end, without a request of the user. A scheduler that is taken out at a
    /// given time leaves without a message.
    pub fn is_early(&self) -> bool {
        match self.kind {
            ExitKind::None | ExitKind::Done => false,
            ExitKind::Unreg => !self.message.is_empty(),
            _ => true,
        }
    }
}

impl RunRecord {
    /// How far its figures count.
    pub fn standing(&self) -> Standing {
        let by_warnings = self.warnings.iter().map(|warning| warning.kind.standing()).max();
        if self.exit.is_early() { Standing::Void } else { by_warnings.unwrap_or_default() }
    }

    /// True where its figures enter no mean.
    pub fn is_void(&self) -> bool {
        self.standing() == Standing::Void
    }

    /// Why it is not valid: `ejected` or `ended_early`, then the kinds of its warnings that touch the figures, each once.
    pub fn standing_reasons(&self) -> Vec<&'static str> {
        let ejected = self.exit.kind.is_ejection().then_some(EJECTED);
        let early = (ejected.is_none() && self.exit.is_early()).then_some(ENDED_EARLY);
        let touching = self.warnings.iter().map(|warning| warning.kind);
        let touching = touching.filter(|kind| kind.standing() != Standing::Valid).map(WarningKind::name);
        let mut reasons = Vec::new();
        for reason in ejected.into_iter().chain(early).chain(touching) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(kind: ExitKind, message: &str) -> ExitRecord {
        ExitRecord { kind, message: message.into(), ..ExitRecord::default() }
    }

    #[test]
    fn who_leaves_before_the_end_unasked_is_early() {
        assert!(!left(ExitKind::None, "").is_early());
        assert!(!left(ExitKind::Unreg, "").is_early(), "--detach-at asks for it");
        assert!(left(ExitKind::Unreg, "its loader ended with exit code 0").is_early());
        for kind in [ExitKind::UnregBpf, ExitKind::UnregKern, ExitKind::Sysrq, ExitKind::ErrorStall] {
            assert!(left(kind, "").is_early(), "{kind:?}");
        }
    }

    #[test]
    fn the_worst_of_several_is_the_greatest() {
        assert!(Standing::Void > Standing::Suspect && Standing::Suspect > Standing::Valid);
        for one in [Standing::Valid, Standing::Suspect, Standing::Void] {
            assert_eq!(Standing::from_name(one.name()), Some(one));
        }
        assert_eq!(WarningKind::NeverRan.standing(), Standing::Suspect);
        assert_eq!(WarningKind::LeftOut.standing(), Standing::Valid);
    }
}
