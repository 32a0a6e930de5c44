//! One module a subcommand.

mod bench;
mod calibrate;
mod check;
mod compare;
mod completions;
mod deps;
mod fidelity;
mod hunt;
mod judge;
mod list;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod new;
#[cfg(any(test, not(feature = "mcp")))]
mod no_mcp;
mod reproduce;
mod run;
mod sched_samples;
mod schema;
mod show;
mod sim;
mod stat;

pub(crate) use bench::bench;
pub(crate) use calibrate::calibrate;
pub(crate) use check::check;
pub(crate) use compare::compare;
pub(crate) use completions::completions;
pub(crate) use deps::deps;
pub(crate) use fidelity::fidelity;
pub(crate) use hunt::hunt;
pub(crate) use judge::judge;
pub(crate) use list::list;
pub(crate) use man::man;
#[cfg(feature = "mcp")]
pub(crate) use mcp::mcp;
pub(crate) use new::new;
#[cfg(not(feature = "mcp"))]
pub(crate) use no_mcp::mcp;
pub(crate) use reproduce::reproduce;
pub(crate) use run::run;
pub(crate) use sched_samples::sched_samples;
pub(crate) use schema::schema;
pub(crate) use show::show;
pub(crate) use sim::sim;
pub(crate) use stat::stat;
