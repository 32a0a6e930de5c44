//! The hunt: random and guided runs of a scheduler that look for tasks that starve, stalls, idle CPUs beside waiting tasks.
//!
//! A [`Case`] is a run without its scheduler. The function [`Case::draw_small`] draws one from a seed, and [`judge()`] runs it and
//! says what went wrong. The function [`shrink()`] makes a case small. The form of a case as a file is [`CaseFile`], and a [`Hunt`]
//! does all of it.

mod case;
mod condition;
mod draw;
mod file;
mod groups;
mod judge;
mod lost;
mod mutate;
mod property;
mod search;
mod shrink;
mod story;
mod tunables;

pub use case::Case;
pub use condition::Condition;
pub use file::{CaseFile, NamedScheduler, keep};
pub use judge::{Again, Outcome, judge};
pub use property::{Property, Trouble};
pub use search::{Far, Find, Hunt, Hunted};
pub use shrink::shrink;
pub use story::story;
pub use tunables::{Tunable, tunables};
