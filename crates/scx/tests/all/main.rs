//! Objects in the simulated kernel, in one program: each further one would compile the whole simulator again.

mod common;

mod groups;
mod identity;
mod kernel;
mod lines;
mod load;
mod run;
mod subs;
