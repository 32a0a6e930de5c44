//! A scheduler in charge, whoever has loaded it.

use schedlab_base::DurationNs;
use std::os::fd::RawFd;

use super::loader::RunningLoader;
use super::raw::ProgramCounts;
use super::{LoadError, LoadedScheduler, ProgramReport, SchedulerEnd, SchedulerObject, load};

/// A scheduler in charge of this machine; the machine is given back when it is dropped.
pub(crate) enum InCharge {
    /// The scheduler's object was loaded here.
    Object(Box<LoadedScheduler>),
    /// The scheduler's own program has loaded it.
    Loader(Box<RunningLoader>),
}

impl InCharge {
    /// Puts a scheduler in charge of this machine.
    ///
    /// # Errors
    /// See [`LoadError`]; after an error the machine is as before.
    pub(crate) fn load(scheduler: &SchedulerObject) -> Result<InCharge, LoadError> {
        match &scheduler.loader {
            None => Ok(InCharge::Object(Box::new(load(scheduler)?))),
            Some(command) => Ok(InCharge::Loader(Box::new(RunningLoader::start(scheduler, command)?))),
        }
    }

    /// True unless the kernel has thrown it out, as of `elapsed` since the run began; the first time that it is out of charge
    /// is kept.
    pub(crate) fn stays(&mut self, elapsed: DurationNs) -> bool {
        match self {
            InCharge::Object(object) => object.stays(elapsed),
            InCharge::Loader(loader) => loader.stays(elapsed),
        }
    }

    /// When the next turn of [`InCharge::take_turns`] is due, since the run began.
    pub(crate) fn next_turn(&self) -> Option<DurationNs> {
        match self {
            InCharge::Object(object) => object.next_turn(),
            InCharge::Loader(_) => None,
        }
    }

    /// Does what is due at `elapsed` since the run began.
    ///
    /// # Errors
    /// The kernel does not attach the scheduler, or does not run a program.
    pub(crate) fn take_turns(&mut self, elapsed: DurationNs) -> Result<(), LoadError> {
        match self {
            InCharge::Object(object) => object.take_turns(elapsed),
            InCharge::Loader(_) => Ok(()),
        }
    }

    /// Descriptors that keep the scheduler in charge; forked processes close them.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        match self {
            InCharge::Object(object) => object.descriptors(),
            InCharge::Loader(_) => Vec::new(),
        }
    }

    /// What the verifier made of its programs; its own program does not tell.
    pub(crate) fn programs(&self) -> Vec<ProgramReport> {
        match self {
            InCharge::Object(object) => object.programs(),
            InCharge::Loader(_) => Vec::new(),
        }
    }

    /// The scheduler's programs by name, with what the kernel counts of them.
    pub(crate) fn program_counts(&self, scheduler: &SchedulerObject) -> Vec<(String, ProgramCounts)> {
        match self {
            InCharge::Object(object) => object.program_counts(),
            InCharge::Loader(loader) => {
                let object = schedlab_bpf::object::Object::parse(&scheduler.name, &scheduler.bytes);
                object.map(|object| loader.program_counts(&object)).unwrap_or_default()
            }
        }
    }

    /// The scheduler whose object was loaded here.
    pub(crate) fn object(&self) -> Option<&LoadedScheduler> {
        match self {
            InCharge::Object(object) => Some(object),
            InCharge::Loader(_) => None,
        }
    }

    /// Takes the scheduler out and tells how it left.
    pub(crate) fn unload(self) -> SchedulerEnd {
        match self {
            InCharge::Object(object) => object.unload(),
            InCharge::Loader(loader) => loader.unload(),
        }
    }
}
