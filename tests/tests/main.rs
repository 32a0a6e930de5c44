//! What crosses rooms, in one program: each further one would be linked with the whole laboratory again. The rules of the tree
//! (`tidy`) are apart, to be built in seconds, and so are the tests in a VM (`vm`), whose program boots there as the first process.

mod authors;
mod behaviour;
mod book;
mod by_hand;
mod classes;
mod contained;
mod dialect;
mod faults;
mod foreign;
mod growth;
mod hostile;
mod instructions;
mod interleave;
mod invariants;
mod judge;
mod lane;
mod loaders;
mod older_verifiers;
mod page;
mod planted;
mod real_time;
mod rt_app;
mod security;
mod shipped;
mod swarm;
mod values;
mod waits;
