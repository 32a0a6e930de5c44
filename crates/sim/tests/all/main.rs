//! The simulated kernel from outside, in one program: each further one would compile the whole simulator again.

mod common;

mod basics;
mod cache;
mod classes;
mod deadline;
mod ejection;
mod exchange;
mod group_cpu;
mod group_figures;
mod group_pressure;
mod group_storm;
mod groups;
mod hotplug;
mod kernel_features;
mod processor;
mod servers;
mod swarm;
mod versions;
mod waits;
mod workloads;
