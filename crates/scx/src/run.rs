//! A run under an object, or under the kernel's own fair class.

use crate::BpfScheduler;
use schedlab_sim::{Class, Config, RunResult, SimError};
use schedlab_workload::Scenario;

/// [`schedlab_sim::run`] for objects. The simulator is generic over the scheduler, so that it is compiled where it is called;
/// with this function that is here, once and at this room's level of optimisation, for every room above.
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
