//! What a scheduler's user space does during a run: `--set-at`, `--run-prog-at`, `--attach-at`, `--detach-at`.

use crate::failure::Failure;
use crate::scheduler::run_prog;
use crate::scheduler::{FAIR, Scheduler};
use schedlab_base::{DurationNs, Presence, TimedSetting};
use schedlab_scx::{RunProgram, TimedProgram, check_programs};
use schedlab_trace::{Warning, WarningKind};

/// What a scheduler's user space does during a run.
#[derive(Clone, Debug, Default)]
pub struct Meanwhile {
    /// Tunables that change.
    pub changes: Vec<TimedSetting>,
    /// Programs of the object that are run.
    pub timed_programs: Vec<TimedProgram>,
    /// When the scheduler comes and goes.
    pub presence: Presence,
}

impl Scheduler {
    /// Adds all of it.
    ///
    /// # Errors
    /// As [`Scheduler::change`]; programs that the object does not have, or that would run without the scheduler; any of
    /// it for the fair class.
    pub fn meanwhile(&mut self, wanted: &Meanwhile) -> Result<(), Failure> {
        self.change(&wanted.changes)?;
        self.presence = wanted.presence;
        if self.object.is_none()
            && (self.presence != Presence::default() || !wanted.timed_programs.is_empty())
        {
            let text = format!(
                "--attach-at, --detach-at, --run-prog-at: {FAIR} is the kernel's own class, which no loader attaches; \
                 name a scheduler"
            );
            return Err(Failure::usage(text));
        }
        if self.loader.is_some()
            && (self.presence != Presence::default() || !wanted.timed_programs.is_empty())
        {
            let text = "--attach-at, --detach-at, --run-prog-at: the scheduler's own program does that; leave them out";
            return Err(Failure::usage(text));
        }
        if let Presence { attach: Some(attach), detach: Some(detach) } = self.presence
            && detach <= attach
        {
            let text =
                format!("--detach-at {detach}: the scheduler is attached at {attach}; give a later time");
            return Err(Failure::usage(text));
        }
        wanted.timed_programs.iter().try_for_each(|timed| self.check_timed(timed))?;
        self.timed_programs.clone_from(&wanted.timed_programs);
        Ok(())
    }

    /// A program of the object, at a time at which the scheduler is attached.
    fn check_timed(&self, timed: &TimedProgram) -> Result<(), Failure> {
        let text = run_prog::timed_text(timed);
        if let Some(Ok(object)) = self.parsed() {
            check_programs(&object, std::slice::from_ref(&timed.program)).map_err(|error| {
                Failure::usage(format!("--run-prog-at {text}: scheduler {}", error.in_file(&self.name)))
            })?;
        }
        let Presence { attach, detach } = self.presence;
        if attach.is_some_and(|attach| timed.at < attach) || detach.is_some_and(|detach| timed.at >= detach) {
            let cure = "give a time between --attach-at and --detach-at";
            let text = format!("--run-prog-at {text}: the scheduler is not attached at {}; {cure}", timed.at);
            return Err(Failure::usage(text));
        }
        Ok(())
    }

    /// A warning about everything that was to be done at a time at which the run was over, with what that means; `change` is
    /// when the workload's last change comes.
    pub(crate) fn not_reached(&self, ran: DurationNs, change: Option<DurationNs>) -> Option<Warning> {
        let mut late = Vec::new();
        let mut add = |at: DurationNs, what: String, effect: &str| {
            if at >= ran {
                late.push(format!("{what}: {effect}"));
            }
        };
        if let Some(at) = self.presence.attach {
            let effect = "the scheduler was never attached, and the figures are the kernel's own class's";
            add(at, format!("--attach-at {at}"), effect);
        }
        if let Some(at) = self.presence.detach {
            add(at, format!("--detach-at {at}"), "the scheduler stayed to the end");
        }
        for change in &self.changes {
            add(change.at, format!("--set-at {change}"), "the variable kept its value");
        }
        for timed in &self.timed_programs {
            add(
                timed.at,
                format!("--run-prog-at {}", run_prog::timed_text(timed)),
                "the program was not run",
            );
        }
        if let Some(at) = change {
            add(at, format!("the workload's change at {at}"), "it was not made");
        }
        let text = format!("the run was over before its time came: {}", late.join("; "));
        let kind = WarningKind::NotReached;
        (!late.is_empty()).then_some(Warning { kind, text, count: late.len() as u64, worst: None })
    }

    /// The programs that are run on request, before the scheduler is attached or later.
    pub(crate) fn all_programs(&self) -> Vec<RunProgram> {
        let timed = self.timed_programs.iter().map(|timed| &timed.program);
        self.programs.iter().chain(timed).cloned().collect()
    }

    /// The flags that want the same of another command.
    pub fn meanwhile_flags(&self) -> Vec<String> {
        let set = self.changes.iter().map(|change| ["--set-at".to_string(), change.to_string()]);
        let timed = self.timed_programs.iter();
        let timed = timed.map(|timed| ["--run-prog-at".to_string(), run_prog::timed_text(timed)]);
        let presence = [("--attach-at", self.presence.attach), ("--detach-at", self.presence.detach)];
        let presence =
            presence.into_iter().filter_map(|(flag, at)| Some([flag.to_string(), at?.to_string()]));
        set.chain(timed).chain(presence).flatten().collect()
    }
}
