//! The words that a field of a result file can have, for the schema: of the types that are written, so that none is forgotten.

use crate::comparison::Verdict;
use crate::goals::GoalVerdict;
use crate::json_words::better_name;
use crate::trust::Trust;
use schedlab_base::{Better, Relation};
use schedlab_trace::waits::{ConfidenceFrom, Mechanism};
use schedlab_trace::{Backend, ExitKind, Standing, WaitScope, WarningKind};

type Names = Vec<&'static str>;

pub(crate) fn backends() -> Names {
    Backend::ALL.map(Backend::name).into()
}

pub(crate) fn standings() -> Names {
    Standing::ALL.map(Standing::name).into()
}

pub(crate) fn exit_kinds() -> Names {
    ExitKind::ALL.map(ExitKind::name).into()
}

pub(crate) fn scopes() -> Names {
    WaitScope::ALL.map(WaitScope::name).into()
}

pub(crate) fn warning_kinds() -> Names {
    WarningKind::ALL.map(WarningKind::name).into()
}

pub(crate) fn mechanisms() -> Names {
    Mechanism::all().map(Mechanism::name).collect()
}

pub(crate) fn confidences() -> Names {
    [ConfidenceFrom::Counts, ConfidenceFrom::Swap].map(ConfidenceFrom::name).into()
}

pub(crate) fn betters() -> Names {
    [Better::Higher, Better::Lower, Better::Neither].map(better_name).into()
}

pub(crate) fn relations() -> Names {
    Relation::ALL.map(Relation::sign).into()
}

/// A regular expression of the verdicts of comparisons, with the marks of their standings.
pub(crate) fn comparison_verdicts() -> String {
    marked(&Verdict::ALL.map(Verdict::name))
}

/// A regular expression of the verdicts of goals.
pub(crate) fn goal_verdicts() -> String {
    marked(&GoalVerdict::ALL.map(GoalVerdict::name))
}

fn marked(verdicts: &[&str]) -> String {
    let mark =
        |standing| Trust { standing, ..Trust::default() }.mark("").replace('(', "\\(").replace(')', "\\)");
    let marks = Standing::ALL.map(mark);
    format!("^({})({})$", verdicts.join("|"), marks.join("|"))
}
