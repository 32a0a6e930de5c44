//! The laboratory as a library: schedulers, workloads and machines by name, and runs of them, simulated or on a real kernel.
//!
//! ```
//! use schedlab_lab::failure::Failure;
//! use schedlab_lab::run::simulation::Simulation;
//! use schedlab_lab::scheduler::Scheduler;
//! use schedlab_lab::shipped;
//!
//! # fn main() -> Result<(), Failure> {
//! let machine = shipped::machine("modern")?.machine.with_cpus(2).expect("every machine has variants of 2 CPUs");
//! let simulation = |scheduler| Simulation::new(scheduler, "chat:rooms=1,messages=5", machine.clone());
//!
//! let mut o1 = Scheduler::find("o1")?;
//! o1.set("profile", "d1")?;
//! let [fair, o1] = [Scheduler::find("eevdf")?, o1].map(|scheduler| simulation(scheduler).run());
//!
//! for record in [fair?, o1?] {
//!     let throughput = record.metrics.iter().find(|metric| metric.name == "throughput").expect("chat has it");
//!     assert!(throughput.value > 0.0, "messages/s under {}", record.scheduler);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * [`scheduler`]: what `-s` names, with its settings: a shipped scheduler, an object, a loader (`exec:`), the kernel's fair class.
//! * [`workload`]: what `-w` names: the catalogue, own files, files of rt-app.
//! * [`machine`] and [`shipped`]: what `-m` and `--kernel` name.
//! * [`run`]: one simulated run ([`run::simulation`]), one real run ([`run::real`]), many ([`run::sweep`]).
//!   Callbacks can be paused in the middle ([`run::interleave`]).
//! * [`judge`]: a scheduler judged against a base by a suite of loads.
//! * [`gate`]: which differences, doubts and costs fail a comparison, and a kept baseline.
//! * [`files`]: input that is read with limits, and results that replace their files whole.
//!
//! Without the feature `host` nothing is here that needs processes, threads, a kernel or files of its own. What is left are
//! simulated runs of named or given schedulers, workloads and machines ([`run::request`]), on every target that Rust has.
//!
//! Nothing here parses a command line or prints. A [`failure::Failure`] is one line that names the place and the cure, with the
//! exit code of a command that ends by it. Notes for a user go to the [`log`] facade as `info`, last words as `error`.

pub mod failure;
pub mod files;
#[cfg(feature = "host")]
pub mod gate;
#[cfg(feature = "host")]
pub mod hunt;
#[cfg(feature = "host")]
pub mod judge;
pub mod machine;
pub mod run;
pub mod scheduler;
pub mod shipped;
pub mod workload;
