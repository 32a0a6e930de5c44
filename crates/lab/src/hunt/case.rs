//! A case: everything that determines a run apart from the scheduler.

use crate::failure::Failure;
use crate::machine::kernels;
use crate::run::simulation::Simulation;
use crate::scheduler::Scheduler;
use schedlab_base::{DurationNs, Machine, Policy, Presence};
use schedlab_workload::{Attribute, End, Scenario};

/// One run, apart from the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The seed of everything random.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// The workload. Changes of tasks and CPUs during the run are operations of its tasks.
    pub scenario: Scenario,
    /// Settings of the scheduler's tunables.
    pub settings: Vec<(String, String)>,
    /// When the scheduler is attached and detached.
    pub presence: Presence,
    /// The simulated kernel, as `--kernel` names it; nothing for the newest.
    pub kernel: Option<String>,
    /// The seed by which callbacks are interleaved; nothing where they run one after the other.
    pub interleave: Option<u64>,
    /// The simulator's checkers look at each step. They find faults of the simulator, and take about a third of the time.
    pub checked: bool,
}

impl Case {
    /// The run of a scheduler under this case.
    ///
    /// # Errors
    /// The scheduler does not take the settings.
    pub fn simulation(&self, scheduler: &Scheduler) -> Result<Simulation, Failure> {
        let mut scheduler = scheduler.clone();
        if scheduler.object.is_some() {
            self.settings.iter().try_for_each(|(name, value)| scheduler.set(name, value))?;
            scheduler.presence = self.presence;
        }
        Ok(Simulation {
            seed: self.seed,
            checkers: self.checked,
            ..Simulation::new(scheduler, &self.scenario.name, self.whole_machine()?)
        })
    }

    /// The machine with its kernel.
    ///
    /// # Errors
    /// A kernel that is not known.
    pub fn whole_machine(&self) -> Result<Machine, Failure> {
        kernels::under(self.machine.clone(), self.kernel.as_deref())
    }

    /// How long the run lasts.
    pub fn length(&self) -> DurationNs {
        match self.scenario.end {
            End::After(span) => span,
            End::AllExit | End::ForegroundExit => DurationNs::from_secs(60),
        }
    }

    /// Whether a task may run before all tasks of normal policies for as long as it wants.
    pub fn has_real_time(&self) -> bool {
        let real_time = |policy: Policy| !matches!(policy, Policy::Other | Policy::Batch | Policy::Idle);
        let own = self.scenario.tasks.iter().filter(|task| !task.background);
        own.map(|task| task.policy).any(real_time)
            || self.scenario.changes.iter().any(|change| match change {
                Attribute::Policy(policy) => real_time(*policy),
                _ => false,
            })
    }
}
