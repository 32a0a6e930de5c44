//! Sub-schedulers that are attached to groups of the workload: `--sub`.

use crate::failure::Failure;
use crate::scheduler::{FAIR, Scheduler};
use schedlab_base::{DurationNs, Presence, did_you_mean};
use schedlab_sim::{SubOutcome, flags::errno};
use schedlab_trace::{ExitKind, ExitRecord, SubRecord, Warning, WarningKind};
use schedlab_workload::Scenario;

/// One of them.
#[derive(Clone, Debug)]
pub struct Sub {
    /// The path of its group, from below the root.
    pub group: String,
    /// When it is attached.
    pub at: DurationNs,
    /// The scheduler.
    pub scheduler: Scheduler,
}

/// Group, time and entry of a value of `--sub`: `GROUP=ENTRY` or `GROUP@TIME=ENTRY`.
///
/// # Errors
/// A value of another form, or a time that is none.
pub fn parts(text: &str) -> Result<(&str, DurationNs, &str), Failure> {
    let form = || Failure::usage(format!("--sub {text}: write GROUP=SCHEDULER or GROUP@TIME=SCHEDULER"));
    let (place, entry) = text.split_once('=').ok_or_else(form)?;
    let (group, at) = match place.rsplit_once('@') {
        None => (place, DurationNs::ZERO),
        Some((group, at)) => {
            let time = at.parse::<DurationNs>();
            (group, time.map_err(|error| Failure::usage(format!("--sub {text}: {error}")))?)
        }
    };
    let group = group.trim_matches('/');
    if group.is_empty() || entry.is_empty() { Err(form()) } else { Ok((group, at, entry)) }
}

impl Scheduler {
    /// Has a run attach the sub-schedulers of `--sub`.
    ///
    /// # Errors
    /// A value of another form, an unknown scheduler or setting. The fair class, and schedulers that their own programs load.
    pub fn attach_subs(&mut self, wanted: &[String]) -> Result<(), Failure> {
        for text in wanted {
            let (group, at, entry) = parts(text)?;
            let refuse = |why: &str| Err(Failure::usage(format!("--sub {text}: {why}")));
            if self.object.is_none() {
                return refuse("the fair class has no sub-schedulers; name a scheduler of the cid form");
            }
            if self.presence != Presence::default() {
                return refuse(
                    "a scheduler of --attach-at or --detach-at takes none; leave one of the two out",
                );
            }
            let scheduler = Scheduler::of_entry(entry)?;
            if scheduler.object.is_none() {
                return refuse(&format!("{FAIR} is the kernel's own class, and no sub-scheduler"));
            }
            if scheduler.loader.is_some() {
                return refuse("a scheduler that its own program loads is the root; give the object itself");
            }
            if let Some(change) = scheduler.changes.first() {
                return refuse(&format!(
                    "{change}: a variable of a sub-scheduler does not change during the run; set it before, [{}={}]",
                    change.variable, change.value
                ));
            }
            scheduler.check_values()?;
            self.subs.push(Sub { group: group.to_string(), at, scheduler });
        }
        Ok(())
    }

    /// A real run can have them: their groups are those of the workload, and all are of the cid form. The simulator's loader says the latter of
    /// its own accord.
    ///
    /// # Errors
    /// As of [`Scheduler::check_subs`], and one of another form.
    pub fn check_real_subs(&self, workload: &str, scenario: &Scenario) -> Result<(), Failure> {
        self.check_subs(workload, scenario)?;
        for sub in &self.subs {
            if [self, &sub.scheduler].into_iter().any(Scheduler::is_cpu_form) {
                let cure = "use struct sched_ext_ops_cid";
                return Err(Failure::usage(format!(
                    "--sub {}: a sub-scheduler and the schedulers above it must be of the cid form; {cure}",
                    sub.group
                )));
            }
        }
        Ok(())
    }

    /// Its object has callbacks that take numbers of CPUs. Other faults of an object are those of its load.
    fn is_cpu_form(&self) -> bool {
        let object = self.parsed().and_then(Result::ok);
        object
            .is_some_and(|object| object.struct_ops().iter().all(|table| table.type_name == "sched_ext_ops"))
    }

    /// Itself and its sub-schedulers.
    pub(crate) fn with_subs(&self) -> impl Iterator<Item = &Scheduler> {
        std::iter::once(self).chain(self.subs.iter().map(|sub| &sub.scheduler))
    }

    /// Each of them has a group, which the workload has at the beginning or makes later.
    ///
    /// # Errors
    /// One whose group the workload does not have.
    pub fn check_subs(&self, workload: &str, scenario: &Scenario) -> Result<(), Failure> {
        for sub in &self.subs {
            if scenario.groups.iter().any(|group| group.path == sub.group) {
                continue;
            }
            let near = did_you_mean(&sub.group, scenario.groups.iter().map(|group| &group.path));
            let has = if scenario.groups.is_empty() {
                "has no groups ([[groups]] makes some)"
            } else {
                "has no such group"
            };
            return Err(Failure::usage(format!(
                "--sub {}: the workload {} {has}{near}",
                sub.group, workload
            )));
        }
        Ok(())
    }

    /// What became of them in a simulated run, for results.
    pub(crate) fn sub_records(&self, outcomes: Vec<SubOutcome>) -> Vec<SubRecord> {
        let outcomes = outcomes.into_iter().zip(&self.subs);
        outcomes.map(|(outcome, sub)| sub.record(outcome.refused, outcome.exit)).collect()
    }
}

impl Sub {
    /// What became of it, for results.
    pub(crate) fn record(&self, refused: Option<i32>, exit: ExitRecord) -> SubRecord {
        SubRecord { group: self.group.clone(), scheduler: self.scheduler.label(), refused, exit }
    }

    /// The value of `--sub` that wants the same where its object is called `file`.
    pub(crate) fn text(&self, file: &str) -> String {
        let values = &self.scheduler.values;
        let values: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let inside = if values.is_empty() { String::new() } else { format!("[{}]", values.join(",")) };
        format!("{}@{}={file}{inside}", self.group, self.at)
    }
}

/// Why the kernel does not attach one.
fn refusal(errno: i32) -> String {
    let why = match errno {
        errno::ENOENT => "the workload has no such group",
        errno::EBUSY => "the group has a scheduler, or one below it has and is in the way",
        errno::EOPNOTSUPP => "the scheduler above it takes none (it has no callback for that)",
        errno::ENODEV => "the root scheduler is gone",
        _ => "the kernel refuses it",
    };
    format!("was not attached: {why} (-{errno})")
}

/// Warnings about sub-schedulers that were not attached or did not stay.
pub(crate) fn warnings(subs: &[SubRecord]) -> Vec<Warning> {
    let told = subs.iter().filter_map(|sub| {
        let what = match (sub.refused, sub.exit.kind) {
            (Some(errno), _) => refusal(errno),
            (None, ExitKind::Unreg | ExitKind::None) => return None,
            (None, _) => format!("left: {} ({})", sub.exit.message, sub.exit.reason),
        };
        let text = format!("sub-scheduler {} of group {} {what}", sub.scheduler, sub.group);
        Some(Warning { kind: WarningKind::SubScheduler, text, count: 1, worst: None })
    });
    told.collect()
}
