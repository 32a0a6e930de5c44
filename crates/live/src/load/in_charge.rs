//! A scheduler in charge, whoever has loaded it.

use schedlab_base::DurationNs;
use std::os::fd::RawFd;
use std::path::PathBuf;

use super::loader::RunningLoader;
use super::raw::ProgramCounts;
use super::subs::{SubEnd, SubObject, Subs};
use super::{LoadError, LoadedScheduler, ProgramReport, SchedulerEnd, SchedulerObject, check_machine, load};

/// A scheduler in charge of this machine with its sub-schedulers; the machine is given back when it is dropped.
pub(crate) struct InCharge {
    // Dropped first: they are below the other.
    subs: Subs,
    root: Root,
}

enum Root {
    /// The scheduler's object was loaded here.
    Object(Box<LoadedScheduler>),
    /// The scheduler's own program has loaded it.
    Loader(Box<RunningLoader>),
}

impl InCharge {
    /// Puts a scheduler in charge of this machine, and attaches those of its sub-schedulers that are there from the start. Each comes
    /// with the directory of its group.
    ///
    /// # Errors
    /// See [`LoadError`]; after an error the machine is as before.
    pub(crate) fn load(
        scheduler: &SchedulerObject,
        subs: Vec<(SubObject, PathBuf)>,
    ) -> Result<InCharge, LoadError> {
        check_machine()?;
        let subs = Subs::new(subs)?;
        let root = match &scheduler.loader {
            None => Root::Object(Box::new(load(scheduler)?)),
            Some(command) => Root::Loader(Box::new(RunningLoader::start(scheduler, command)?)),
        };
        let mut loaded = InCharge { subs, root };
        loaded.subs.attach_due(DurationNs::ZERO)?;
        Ok(loaded)
    }

    /// True unless the kernel has ejected it, as of `elapsed` since the run began; the first time that it is out of charge
    /// is kept.
    pub(crate) fn stays(&mut self, elapsed: DurationNs) -> bool {
        self.subs.look(elapsed);
        match &mut self.root {
            Root::Object(object) => object.stays(elapsed),
            Root::Loader(loader) => loader.stays(elapsed),
        }
    }

    /// True if the run is to be looked at often: something is due, or a sub-scheduler may leave.
    pub(crate) fn wants_looks(&self) -> bool {
        self.next_turn().is_some() || !self.subs.is_empty()
    }

    /// When the next turn of [`InCharge::take_turns`] is due, since the run began.
    pub(crate) fn next_turn(&self) -> Option<DurationNs> {
        let own = match &self.root {
            Root::Object(object) => object.next_turn(),
            Root::Loader(_) => None,
        };
        own.into_iter().chain(self.subs.next()).min()
    }

    /// Does what is due at `elapsed` since the run began.
    ///
    /// # Errors
    /// The kernel does not attach the scheduler, or does not run a program; a sub-scheduler does not load.
    pub(crate) fn take_turns(&mut self, elapsed: DurationNs) -> Result<(), LoadError> {
        if let Root::Object(object) = &mut self.root {
            object.take_turns(elapsed)?;
        }
        self.subs.attach_due(elapsed)
    }

    /// Descriptors that keep the schedulers attached; forked processes close them.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let own = match &self.root {
            Root::Object(object) => object.descriptors(),
            Root::Loader(_) => Vec::new(),
        };
        own.into_iter().chain(self.subs.descriptors()).collect()
    }

    /// What the verifier made of its programs; its own program does not tell.
    pub(crate) fn programs(&self) -> Vec<ProgramReport> {
        match &self.root {
            Root::Object(object) => object.programs(),
            Root::Loader(_) => Vec::new(),
        }
    }

    /// The scheduler's programs by name, with what the kernel counts of them.
    pub(crate) fn program_counts(&self, scheduler: &SchedulerObject) -> Vec<(String, ProgramCounts)> {
        match &self.root {
            Root::Object(object) => object.program_counts(),
            Root::Loader(loader) => {
                let object = schedlab_bpf::object::Object::parse(&scheduler.name, &scheduler.bytes);
                object.map(|object| loader.program_counts(&object)).unwrap_or_default()
            }
        }
    }

    /// The scheduler whose object was loaded here.
    pub(crate) fn object(&self) -> Option<&LoadedScheduler> {
        match &self.root {
            Root::Object(object) => Some(object),
            Root::Loader(_) => None,
        }
    }

    /// Takes the schedulers out, sub-schedulers first, and says how they left. `elapsed` is the length of the run.
    pub(crate) fn unload(self, elapsed: DurationNs) -> (SchedulerEnd, Vec<SubEnd>) {
        let subs = self.subs.unload(elapsed);
        let end = match self.root {
            Root::Object(object) => object.unload(),
            Root::Loader(loader) => loader.unload(),
        };
        (end, subs)
    }
}
