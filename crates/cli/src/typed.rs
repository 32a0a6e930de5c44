//! What the command line says, as the laboratory takes it.

use crate::args::{
    AfterEjection, EngineKind, HistoryArgs, InstructionTime, MeanwhileArgs, SweepArgs, VmArgs,
};
use schedlab_base::Presence;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::Target;
use schedlab_lab::machine::vm_kernel::VmKernel;
use schedlab_lab::run::real::VmOptions;
use schedlab_lab::run::simulation;
use schedlab_lab::run::sweep::SweepOptions;
use schedlab_lab::scheduler::meanwhile::Meanwhile;
use schedlab_live::vm::Accelerator;
use schedlab_scx::EngineChoice;
use std::time::Duration;

impl VmArgs {
    /// A VM with so many CPUs, otherwise as the command line says.
    pub(crate) fn options(&self, cpus: u32) -> VmOptions {
        let counted = |InstructionTime(shift)| Accelerator::InstructionCount { shift };
        VmOptions {
            cpus,
            timeout: Duration::from_nanos(self.timeout.0),
            kernel: self.kernel.clone(),
            accelerator: self.icount.map_or(Accelerator::Auto, counted),
            snapshot: !self.no_snapshot,
        }
    }
}

/// Refuses a VM's kernel where no VM is booted, and one that cannot be, before anything else is done.
///
/// # Errors
/// It was given without `--vm`, or is neither a name nor a path.
pub(crate) fn without_vm(args: &VmArgs, vm: bool) -> Result<(), Failure> {
    match &args.kernel {
        Some(kernel) if !vm => {
            Err(Failure::usage(format!("--kernel {}: it is the kernel of a VM: add --vm", kernel.display())))
        }
        kernel => VmKernel::new(kernel.as_deref()).map(drop),
    }
}

impl HistoryArgs {
    /// Refuses `--latency` where a result takes the place of the tables.
    ///
    /// # Errors
    /// The two options, and the cure.
    pub(crate) fn has_room<'a>(&self, mut targets: impl Iterator<Item = &'a Target>) -> Result<(), Failure> {
        match targets.find(|target| self.latency && target.is_stdout()) {
            Some(target) => Err(Failure::usage(format!(
                "--latency: {} writes to standard output in place of the tables; name a file for it",
                target.option()
            ))),
            None => Ok(()),
        }
    }
}

impl From<EngineKind> for EngineChoice {
    fn from(kind: EngineKind) -> EngineChoice {
        match kind {
            EngineKind::Auto => EngineChoice::Patient,
            EngineKind::Compiled => EngineChoice::Compiled,
            EngineKind::Interpreted => EngineChoice::Interpreted,
        }
    }
}

impl From<AfterEjection> for simulation::AfterEjection {
    fn from(after: AfterEjection) -> simulation::AfterEjection {
        match after {
            AfterEjection::Stop => simulation::AfterEjection::Stop,
            AfterEjection::Continue => simulation::AfterEjection::Continue,
        }
    }
}

impl MeanwhileArgs {
    /// The options for a scheduler.
    pub(crate) fn wanted(&self) -> Meanwhile {
        Meanwhile {
            changes: self.changes.clone(),
            timed_programs: self.timed_programs.clone(),
            presence: Presence { attach: self.attach_at, detach: self.detach_at },
        }
    }
}

impl SweepArgs {
    /// The options for a sweep.
    pub(crate) fn options(&self) -> SweepOptions {
        SweepOptions { jobs: self.jobs, resume: self.resume.clone(), shard: self.shard }
    }
}

/// Refuses what a real run cannot do: its figures cannot be split.
pub(crate) fn only_simulated(after_ejection: AfterEjection) -> Result<(), Failure> {
    if after_ejection == AfterEjection::Stop {
        return Ok(());
    }
    let text = "--after-ejection continue: a real run ends when its scheduler is ejected; leave the flag out, or simulate";
    Err(Failure::usage(text))
}
