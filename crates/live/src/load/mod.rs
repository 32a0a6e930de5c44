//! Schedulers: a BPF object is opened, its variables set, loaded, attached, watched, and taken
//! out again.
//!
//! The kernel gives the machine back to its own scheduler when the attachment is closed. That
//! happens when [`LoadedScheduler`] is dropped (on return, error or panic), and, because the
//! attachment is a file descriptor of this process alone, however else the process ends.

mod attachment;
mod btf;
mod by_id;
mod charge;
mod error;
mod exit;
mod in_charge;
mod loader;
mod output;
mod raw;
pub mod sched_ext;
mod settings;
mod subs;
mod text;
mod turns;
mod uevents;
mod verifier;
mod watcher;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use schedlab_base::{DurationNs, Presence, TimedSetting};
use schedlab_trace::{ExitKind, ExitRecord};

use attachment::Attachment;
use charge::Charge;
pub use error::LoadError;
pub(crate) use in_charge::InCharge;
pub use loader::LoaderCommand;
use raw::Object;
pub(crate) use raw::{ProgramCounts, Ring};
pub use subs::{SubEnd, SubObject};
use turns::Turn;
pub(crate) use uevents::Uevents;
pub(crate) use watcher::Watcher;

/// A scheduler to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerObject {
    /// Name for messages: a file name or a shipped scheduler's name.
    pub name: String,
    /// Content of the object file.
    pub bytes: Vec<u8>,
    /// Which scheduler of an object with several, by the name of its table or its own.
    pub scheduler: Option<String>,
    /// Values for its variables, by name, as text.
    pub settings: Vec<(String, String)>,
    /// Programs that are run before it is attached, in order, each with the bytes of its context.
    pub programs: Vec<(String, Vec<u8>)>,
    /// Values that its variables get while it runs, in any order.
    pub changes: Vec<TimedSetting>,
    /// Programs that are run while it is attached, in any order: when, which, and the bytes of its context.
    pub timed_programs: Vec<(DurationNs, String, Vec<u8>)>,
    /// When it is attached and taken out.
    pub presence: Presence,
    /// The program that loads and attaches it in our place; then of all above only its name and its object count.
    pub loader: Option<LoaderCommand>,
}

/// What the verifier made of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// Instructions that the verifier walked through.
    pub verified_insns: u32,
    /// Instructions that it consists of in the kernel.
    pub insns: u32,
}

/// What a program cost while [`count_run_time`] held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRunTime {
    /// Its name.
    pub name: String,
    /// Times it ran.
    pub runs: u64,
    /// How long in total.
    pub time: DurationNs,
}

/// Has the kernel measure the run time of BPF programs (`kernel.bpf_stats_enabled`) until the
/// result is dropped, which costs each run two looks at the clock.
///
/// # Errors
/// No privilege, or a kernel before 5.8.
pub fn count_run_time() -> io::Result<OwnedFd> {
    raw::enable_run_time()
}

/// How a run with a scheduler ended and what it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerEnd {
    /// How it left; kind none when it stayed until it was unloaded.
    pub exit: ExitRecord,
    /// Its counters, in name order, and then its other integers that have changed.
    pub counters: Vec<(String, u64)>,
    /// The bytes of its tables (`schedlab_bpf::object::Object::tables`), in name order.
    pub tables: Vec<(String, Vec<u8>)>,
    /// The kernel's counters of unusual events, in the kernel's order.
    pub events: Vec<(String, u64)>,
    /// What the programs that ran while it was attached have returned, in order.
    pub returned: Vec<(String, i32)>,
    /// What its own program wrote, the last MiB of it.
    pub output: String,
}

/// A scheduler in charge of this machine; the machine is given back when it is dropped.
pub struct LoadedScheduler {
    attachment: Attachment,
    charge: Charge,
    counters: Vec<String>,
    /// The object's other integers with whether they have a sign, and what they were when it was loaded.
    integers: Vec<(String, bool, u64)>,
    tables: Vec<String>,
    /// What is done with it while the run goes on, in order of time.
    turns: VecDeque<Turn>,
    /// It has been attached.
    attached: bool,
    /// It has been taken out before the run's end: the kernel's counters of then.
    detached: Option<Vec<(String, u64)>>,
    /// What the programs that ran meanwhile have returned.
    returned: Vec<(String, i32)>,
    /// When it was seen to be out of charge, since the run began.
    left: Option<DurationNs>,
}

/// Checks that this machine can run a scheduler now.
///
/// # Errors
/// No sched_ext, no privilege, or another scheduler in charge.
pub fn check_machine() -> Result<(), LoadError> {
    if !sched_ext::is_supported() {
        return Err(LoadError::NoSchedExt { release: crate::machine::kernel_release() });
    }
    // SAFETY: plain query.
    if unsafe { libc::geteuid() } != 0 {
        return Err(LoadError::NotPrivileged);
    }
    match sched_ext::current_scheduler() {
        Some(name) if sched_ext::state().as_deref() != Some("disabled") => Err(LoadError::Busy { name }),
        _ => Ok(()),
    }
}

/// Opens an object, sets its variables, and has the kernel verify and load it.
fn prepare(scheduler: &SchedulerObject) -> Result<Object, LoadError> {
    let name = scheduler.name.clone();
    drop(raw::take_messages());
    let object = Object::open(&scheduler.bytes, &identifier(&name)).map_err(|source| {
        let mut words = verifier::words(&raw::take_messages());
        if words.is_empty() {
            words.push(source.to_string());
        }
        LoadError::Open { name: name.clone(), words }
    })?;
    settings::choose_table(&object, scheduler)?;
    settings::apply(&object, scheduler)?;
    settings::choose_programs(&object, scheduler)?;
    if let Err(source) = object.load() {
        let messages = raw::take_messages();
        return Err(match verifier::refusal(&messages) {
            Some((program, lines)) => LoadError::Verifier { name, program, lines },
            None => LoadError::Load { name, source, words: verifier::words(&messages) },
        });
    }
    settings::fill_maps(&object, scheduler)?;
    Ok(object)
}

/// A name that the kernel takes: letters, digits, underscores.
fn identifier(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.split('.').next().unwrap_or(name);
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Has the running kernel's verifier judge an object without attaching anything.
///
/// # Errors
/// As [`load`], except that it does not matter whether another scheduler is in charge.
pub fn verify(scheduler: &SchedulerObject) -> Result<Vec<ProgramReport>, LoadError> {
    match check_machine() {
        Ok(()) | Err(LoadError::Busy { .. }) => {}
        Err(error) => return Err(error),
    }
    let object = prepare(scheduler)?;
    Ok(reports(&object))
}

fn reports(object: &Object) -> Vec<ProgramReport> {
    object
        .programs()
        .filter_map(|program| {
            let (verified_insns, insns) = program.sizes()?;
            Some(ProgramReport { name: program.name(), verified_insns, insns })
        })
        .collect()
}

/// Puts a scheduler in charge of this machine.
///
/// # Errors
/// See [`LoadError`]; after an error the machine is as before.
pub fn load(scheduler: &SchedulerObject) -> Result<LoadedScheduler, LoadError> {
    check_machine()?;
    let attachment = Attachment::new(scheduler)?;
    let file = schedlab_bpf::object::Object::parse(&scheduler.name, &scheduler.bytes).ok();
    run_programs(&attachment.object, &scheduler.programs)?;
    let turns = turns::of(scheduler)?.into();
    let mut loaded = LoadedScheduler {
        attachment,
        charge: Charge::default(),
        counters: names(scheduler, |o| o.counters().iter().map(|c| c.variable.name.clone()).collect()),
        integers: Vec::new(),
        tables: names(scheduler, |o| o.tables().iter().map(|t| t.variable.name.clone()).collect()),
        turns,
        attached: false,
        detached: None,
        returned: Vec::new(),
        left: None,
    };
    let integers = file.map(|file| loaded.present_integers(&file)).unwrap_or_default();
    loaded.integers = integers;
    if scheduler.presence.attach.is_none() {
        loaded.attach()?;
    }
    Ok(loaded)
}

/// Runs programs of a loaded object that run on request.
fn run_programs(object: &Object, programs: &[(String, Vec<u8>)]) -> Result<(), LoadError> {
    for (name, context) in programs {
        let found = object.programs().find(|program| program.name() == *name);
        let returned = found.map_or(Err(io::ErrorKind::NotFound.into()), |program| program.run(context));
        let problem = match returned {
            Ok(0) => continue,
            Ok(returned) => format!("the program returned {returned}"),
            Err(error) => format!("the kernel does not run it: {error}"),
        };
        return Err(LoadError::Program { name: name.clone(), problem });
    }
    Ok(())
}

/// Names of an object's variables of some kind; none where only libbpf can read the object.
fn names(
    scheduler: &SchedulerObject,
    of: impl FnOnce(&schedlab_bpf::object::Object) -> Vec<String>,
) -> Vec<String> {
    let object = schedlab_bpf::object::Object::parse(&scheduler.name, &scheduler.bytes);
    object.as_ref().map_or_else(|_| Vec::new(), of)
}

impl LoadedScheduler {
    fn object(&self) -> &Object {
        &self.attachment.object
    }

    /// Attaches the scheduler with its hooks. For one that [`load`] has not attached, as its presence begins later.
    ///
    /// # Errors
    /// See [`LoadError`]; what was attached before the error is so until the value is dropped.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        self.attachment.attach().map_err(|failed| self.attachment.error(failed))?;
        self.charge = Charge::now();
        self.attached = true;
        Ok(())
    }

    /// The name that the scheduler gives itself.
    pub fn ops_name(&self) -> &str {
        &self.charge.name
    }

    /// False once the kernel has thrown it out or something else has replaced it.
    pub fn is_in_charge(&self) -> bool {
        self.charge.is_held()
    }

    /// True unless the kernel has thrown it out, as of `elapsed` since the run began; the first time that it is out of charge
    /// is kept.
    pub(crate) fn stays(&mut self, elapsed: DurationNs) -> bool {
        let stays = !self.attached || self.detached.is_some() || self.is_in_charge();
        if !stays {
            self.left.get_or_insert(elapsed);
        }
        stays
    }

    /// The present values of its counters, in name order.
    pub fn counters(&self) -> Vec<(String, u64)> {
        exit::counters(self.object(), &self.counters)
    }

    /// A global variable of up to eight bytes, as a number.
    pub fn variable(&self, name: &str) -> Option<u64> {
        let variables = self.object().btf()?.variables();
        let variable = variables.iter().find(|v| v.name == name && v.size <= 8)?;
        let bytes =
            settings::section_map(self.object(), variable.section)?.read(variable.offset, variable.size)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The integers of the object file that can be read, in name order, as they are now.
    fn present_integers(&self, file: &schedlab_bpf::object::Object) -> Vec<(String, bool, u64)> {
        let value = |(variable, signed): (&schedlab_bpf::object::Variable, bool)| {
            Some((variable.name.clone(), signed, self.integer(&variable.name, signed)?))
        };
        file.integers().into_iter().filter_map(value).collect()
    }

    /// A global variable of up to eight bytes, negative ones as two's complement of 64 bits.
    fn integer(&self, name: &str, signed: bool) -> Option<u64> {
        let variables = self.object().btf()?.variables();
        let size = variables.iter().find(|v| v.name == name && (1..=8).contains(&v.size))?.size;
        let (value, unused) = (self.variable(name)?, 64 - 8 * u32::try_from(size).ok()?);
        Some(if signed { ((value << unused).cast_signed() >> unused).cast_unsigned() } else { value })
    }

    /// The counters, and the other integers that have changed, in name order each. What is below 0 counts nothing.
    fn all_counters(&self) -> Vec<(String, u64)> {
        let now = |(name, signed, before): &(String, bool, u64)| {
            let counts = |now: &u64| now != before && (!signed || now.cast_signed() >= 0);
            let now = self.integer(name, *signed).filter(counts)?;
            Some((name.clone(), now))
        };
        self.counters().into_iter().chain(self.integers.iter().filter_map(now)).collect()
    }

    /// A copy of `size` bytes of its arena where `pointer`, as its programs keep it, points to.
    pub fn arena_bytes(&self, pointer: u64, size: usize) -> Option<Vec<u8>> {
        self.object().maps().find_map(|map| map.arena_bytes(pointer, size))
    }

    /// What the verifier made of its programs.
    pub fn programs(&self) -> Vec<ProgramReport> {
        reports(self.object())
    }

    /// Its programs by name, with what the kernel counts of them.
    pub(crate) fn program_counts(&self) -> Vec<(String, ProgramCounts)> {
        self.object().programs().map(|program| (program.name(), program.counts())).collect()
    }

    /// Descriptors that keep the scheduler in charge; forked processes close them.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.attachment.descriptors()
    }

    /// Takes the scheduler out and tells how it left.
    pub fn unload(mut self) -> SchedulerEnd {
        let stayed = !self.attached || self.detached.is_none() && self.is_in_charge();
        let planned = self.detached.is_some();
        let events = self.detached.take().unwrap_or_else(sched_ext::events);
        let waited = self.take_out();
        let mut exit = exit::record(self.object(), &self.attachment.kernel_words(), exit::ROOT);
        if stayed && !exit.kind.is_ejection() {
            exit = ExitRecord::default();
        } else if !stayed && exit.kind == ExitKind::None {
            exit.kind = ExitKind::Unreg;
            if !planned {
                exit.message = "it was taken out from outside".to_string();
            }
        }
        exit.after = self.left.filter(|_| exit.kind != ExitKind::None);
        if waited.is_err() && exit.message.is_empty() {
            exit.message = "the kernel did not finish taking the scheduler out".to_string();
        }
        let counters = self.all_counters();
        let (tables, returned) = (exit::tables(self.object(), &self.tables), self.returned);
        SchedulerEnd { exit, counters, tables, events, returned, output: String::new() }
    }

    /// Ends its attachment, and waits until the kernel has taken it out: it does so in the background, and its log line and
    /// `ops.exit()` come at the end.
    fn take_out(&mut self) -> io::Result<()> {
        self.attachment.detach();
        sched_ext::wait_until_disabled()
    }
}
