//! A run under an object, or under the kernel's own fair class.

use crate::BpfScheduler;
use schedlab_sim::{Class, Config, RunResult, SimError};
use schedlab_workload::Scenario;

/// [`schedlab_sim::run`] for objects. The simulator is generic over the scheduler, so the crate that calls it compiles it. Rooms
/// above call this function instead, and the simulator is compiled once, at this room's level of optimisation.
///
/// # Errors
/// Those of [`schedlab_sim::run`].
pub fn run(
    config: &Config,
    scenario: &Scenario,
    class: Class<BpfScheduler>,
) -> Result<RunResult<BpfScheduler>, SimError> {
    schedlab_sim::run(config, scenario, class)
}
