//! What a scheduler's user space does during a run: it writes into variables, runs programs, attaches the scheduler
//! and takes it out.

use schedlab_base::DurationNs;
use schedlab_bpf::object::{Object, ProgramKind};

use super::settings::{self, Write};
use super::{LoadError, LoadedScheduler, SchedulerObject, sched_ext};

/// One of these, and when, since the run began.
pub(super) struct Turn {
    at: DurationNs,
    kind: TurnKind,
}

enum TurnKind {
    Write(Write),
    Run(String, Vec<u8>),
    Attach,
    Detach,
}

/// All that is wanted of a scheduler, in order of time.
///
/// # Errors
/// Variables and programs that the object does not have.
pub(super) fn of(scheduler: &SchedulerObject) -> Result<Vec<Turn>, LoadError> {
    let at = |at: Option<DurationNs>, kind| at.map(|at| Turn { at, kind });
    let mut turns: Vec<Turn> = at(scheduler.presence.attach, TurnKind::Attach).into_iter().collect();
    let writes = settings::writes(scheduler)?.into_iter();
    turns.extend(writes.map(|(at, write)| Turn { at, kind: TurnKind::Write(write) }));
    for (at, name, context) in &scheduler.timed_programs {
        let object = Object::parse(&scheduler.name, &scheduler.bytes)?;
        if !object.programs().iter().any(|one| one.name == *name && one.kind == ProgramKind::Syscall) {
            let problem = "there is no such program in SEC(\"syscall\")".to_string();
            return Err(LoadError::Program { name: name.clone(), problem });
        }
        turns.push(Turn { at: *at, kind: TurnKind::Run(name.clone(), context.clone()) });
    }
    turns.extend(at(scheduler.presence.detach, TurnKind::Detach));
    // Those of one time keep this order.
    turns.sort_by_key(|turn| turn.at);
    Ok(turns)
}

impl LoadedScheduler {
    /// When the next turn is due, since the run began.
    pub(crate) fn next_turn(&self) -> Option<DurationNs> {
        self.turns.front().map(|turn| turn.at)
    }

    /// Takes the turns that are due at `elapsed` since the run began.
    ///
    /// # Errors
    /// The kernel does not attach the scheduler, or does not run a program.
    pub(crate) fn take_turns(&mut self, elapsed: DurationNs) -> Result<(), LoadError> {
        while self.next_turn().is_some_and(|at| at <= elapsed) {
            let turn = self.turns.pop_front().expect("there is a next one");
            match turn.kind {
                TurnKind::Write(write) => write.write(self.object()),
                TurnKind::Run(name, context) => self.run(name, &context)?,
                TurnKind::Attach => self.attach()?,
                TurnKind::Detach => self.detach(elapsed),
            }
        }
        Ok(())
    }

    fn run(&mut self, name: String, context: &[u8]) -> Result<(), LoadError> {
        let program = self.object().programs().find(|program| program.name() == name);
        let returned = program.map(|program| program.run(context));
        match returned {
            Some(Ok(value)) => self.returned.push((name, value)),
            Some(Err(error)) => {
                let problem = format!("the kernel does not run it: {error}");
                return Err(LoadError::Program { name, problem });
            }
            None => {}
        }
        Ok(())
    }

    fn detach(&mut self, elapsed: DurationNs) {
        if self.attached && self.is_in_charge() {
            self.detached = Some(sched_ext::events());
            self.left.get_or_insert(elapsed);
            // What comes of it is seen when the run has ended.
            let _ = self.take_out();
        }
    }
}
