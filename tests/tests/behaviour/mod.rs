//! Behaviours of the shipped schedulers in the simulator: the real objects, made by `make -C schedulers`, against what
//! their sources of the day say in figures. One file per scheduler; each test's comment names the behaviour.

mod bsd4;
mod cost;
mod hamq;
mod lab;
mod libenzi;
mod o1;
mod probe;
mod profiles;
mod shares;
mod soak;
mod staircase;
mod swap;
mod swap_figures;
mod swap_paper;
mod ule;
mod vanilla;
