//! Which core a run uses, and what the run knows of the fast one.

/// Which core a run uses. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Core {
    /// The general core alone.
    General,
    /// The lane, wherever the run fits it.
    #[default]
    Fast,
    /// The same, but each event of this number among those that fit is left to the general core: for tests.
    Alternating(u32),
}

/// What a run knows of its lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    /// The conditions held when they were looked at last. Nothing that the lane does itself ends them.
    pub(crate) open: bool,
    /// The core that was asked for.
    pub(crate) core: Core,
    /// Events taken in the lane.
    pub(crate) events: u64,
}

impl Lane {
    /// That of a run, closed until the conditions have been looked at.
    pub(crate) fn new(core: Core) -> Lane {
        Lane { core, ..Lane::default() }
    }
}
