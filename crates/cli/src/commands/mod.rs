//! One module a subcommand.

mod documentation;
mod list;
mod stat;

pub(crate) use documentation::{completions, man};
pub(crate) use list::list;
pub(crate) use stat::stat;
