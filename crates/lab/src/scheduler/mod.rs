//! Schedulers by name: shipped ones, object files, and the kernel's own.

pub mod compiler;
pub mod entry;
#[cfg(feature = "host")]
mod for_kernel;
pub mod groups;
pub mod meanwhile;
#[cfg(feature = "host")]
pub mod own_loader;
#[cfg(not(feature = "host"))]
#[path = "no_loader.rs"]
pub mod own_loader;
pub mod run_prog;
pub mod spares;
pub mod state;
pub mod subs;
pub mod swap_scope;
pub(crate) mod swap_table;

use crate::failure::{Code, Failure};
use crate::files::input;
use crate::scheduler::entry::{Entry, is_path, with_choice};
use crate::scheduler::own_loader::{Command, PREFIX};
use crate::shipped::SCHEDULERS;
use schedlab_base::{Presence, TimedSetting, did_you_mean};
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::limits::OBJECT_BYTES;
use schedlab_bpf::object::{Object, Program, Table, is_executable, scheduler_within};
use schedlab_bpf::settings;
use schedlab_scx::{
    LeftToLoader, LoadOptions, RunProgram, TimedProgram, is_at_interrupt, is_probe, left_out,
};
use schedlab_trace::{Counter, ExitKind, ExitRecord, SchedulerTable};
use spares::Spares;
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use subs::Sub;

/// The name of the kernel's own fair class.
pub const FAIR: &str = "eevdf";

/// What a policy's name ends with if it is to carry the layer SWAP.
pub const SWAP: &str = "+swap";

/// A scheduler as the user named it, with its settings.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// What results call it: as the user named it, or labelled it.
    pub name: String,
    /// The shipped name or path.
    pub given: String,
    /// Which scheduler of an object with several.
    pub choice: Option<String>,
    /// The object file; nothing for the fair class.
    pub object: Option<Cow<'static, [u8]>>,
    /// The object file, read, once it was asked for.
    pub read: OnceLock<Arc<Object>>,
    /// What earlier runs have loaded.
    pub spares: Spares,
    /// The command that loads it, with which it takes part.
    pub loader: Option<Command>,
    /// How many of the settings stand in its entry of `-s`: `--set` does not change those.
    pub own: usize,
    /// Values of its entry, of `--set` and of `--set-at` (`TIME:VARIABLE`) in the order given, for results.
    pub settings: Vec<(String, String)>,
    /// The settings that hold from the start.
    pub values: Vec<(String, String)>,
    /// The settings of `--set-at`.
    pub changes: Vec<TimedSetting>,
    /// The programs of `--run-prog`.
    pub programs: Vec<RunProgram>,
    /// The programs of `--run-prog-at`.
    pub timed_programs: Vec<TimedProgram>,
    /// `--attach-at` and `--detach-at`.
    pub presence: Presence,
    /// The sub-schedulers of `--sub`.
    pub subs: Vec<Sub>,
}

impl Scheduler {
    /// Finds a scheduler by name or path.
    ///
    /// # Errors
    /// An unknown name, an unreadable file.
    pub fn find(name: &str) -> Result<Scheduler, Failure> {
        let found = |object| Scheduler {
            name: name.to_string(),
            given: name.to_string(),
            choice: None,
            object,
            read: OnceLock::new(),
            spares: Spares::default(),
            loader: None,
            own: 0,
            settings: Vec::new(),
            values: Vec::new(),
            changes: Vec::new(),
            programs: Vec::new(),
            timed_programs: Vec::new(),
            presence: Presence::default(),
            subs: Vec::new(),
        };
        if name == FAIR {
            return Ok(found(None));
        }
        let (policy, swap) = name.strip_suffix(SWAP).map_or((name, false), |policy| (policy, true));
        if let Some(shipped) = SCHEDULERS.iter().find(|shipped| shipped.name == policy) {
            return Ok(found(Some(Cow::Borrowed(if swap { shipped.swap } else { shipped.object }))));
        }
        if let Some(command) = name.strip_prefix(PREFIX) {
            let (command, object) = own_loader::find(command)?;
            return Ok(Scheduler { loader: Some(command), ..found(Some(Cow::Owned(object))) });
        }
        if name.ends_with(".c") {
            let what = "it is a source; schedulers are objects";
            return Err(Failure::usage(format!(
                "scheduler {name}: {what}: compile it: {}",
                compiler::advice_for(Path::new(name))
            )));
        }
        let (path, choice) = with_choice(name);
        if is_path(path) {
            let object = object_file(path, choice)?;
            check_object(path, choice, &object)?;
            let choice = choice.map(str::to_string);
            return Ok(Scheduler { choice, ..found(Some(Cow::Owned(object))) });
        }
        if let Some(wrong) = input::there_instead(path, "*.bpf.o, or ./FILE") {
            return Err(Failure::usage(format!("scheduler {name}: {wrong}")));
        }
        if name.strip_suffix(SWAP) == Some(FAIR) {
            return Err(Failure::usage(format!(
                "{name}: SWAP is a layer of BPF schedulers, and {FAIR} is the kernel's own class; `schedlab list schedulers` has those that carry it"
            )));
        }
        let names: Vec<&str> = SCHEDULERS.iter().map(|shipped| shipped.name).collect();
        let with_swap = names.iter().map(|name| format!("{name}{SWAP}"));
        let all = names.iter().chain([&FAIR]).map(ToString::to_string).chain(with_swap);
        let near = did_you_mean(name, all);
        Err(Failure::usage(format!(
            "no scheduler named '{name}'{near}; there are: {}, each also with {SWAP}, and {FAIR} (or give an object file: *.bpf.o)",
            names.join(", ")
        )))
    }

    /// The scheduler of an object whose bytes are here, with its settings, as if they stood in a file of that name.
    ///
    /// # Errors
    /// Bytes that are no object or too many, and settings as of [`Scheduler::of_object`].
    pub fn of_bytes(name: &str, bytes: Vec<u8>, settings: &[String]) -> Result<Scheduler, Failure> {
        let (path, choice) = with_choice(name);
        if bytes.len() as u64 > OBJECT_BYTES.most {
            let (found, what, most) = (bytes.len(), OBJECT_BYTES.what, OBJECT_BYTES.most);
            return Err(Failure::usage(format!(
                "scheduler object {path}: {found} {what}, the limit is {most}"
            )));
        }
        let object = object_in(path, choice, bytes)?;
        check_object(path, choice, &object)?;
        let scheduler = Scheduler::of_object(name, object, &[])?;
        Scheduler { choice: choice.map(str::to_string), ..scheduler }.take(settings)
    }

    /// The scheduler of an object that is in no file, with its settings.
    ///
    /// # Errors
    /// A setting of another form, or one that the object does not have or take.
    pub fn of_object(name: &str, object: Vec<u8>, settings: &[String]) -> Result<Scheduler, Failure> {
        let mut scheduler = Scheduler::find(FAIR)?;
        scheduler.object = Some(Cow::Owned(object));
        scheduler.given = name.to_string();
        scheduler.rename(name.to_string());
        scheduler.take(settings)
    }

    /// With these settings.
    fn take(mut self, settings: &[String]) -> Result<Scheduler, Failure> {
        for setting in settings {
            let (_, variable, value) = split_setting(setting)?;
            self.set(variable, value)?;
        }
        self.check_values().map(|()| self)
    }

    /// Has the object's types decide about one value of a variable, and changes nothing.
    ///
    /// # Errors
    /// A variable that the object lacks, or a value that it does not take.
    pub fn takes(&self, variable: &str, value: &str) -> Result<(), Failure> {
        self.check(|object| settings::changes(object, variable, value).map(drop))
    }

    /// Finds the scheduler of an entry of `-s`, and gives it its own label and tunables.
    ///
    /// # Errors
    /// As [`Scheduler::find`] and [`Scheduler::set`]; the message names the entry.
    fn of_entry(text: &str) -> Result<Scheduler, Failure> {
        let entry = Entry::parse(text)?;
        let mut scheduler = Scheduler::find(&entry.name)?;
        let named = |failure: Failure| Failure { text: format!("-s {text}: {failure}"), ..failure };
        if !entry.settings.is_empty() && scheduler.object.is_none() {
            let cure =
                format!("{FAIR} is the kernel's own class and has no tunables; leave its brackets out");
            return Err(named(Failure::usage(cure)));
        }
        for (variable, value) in &entry.settings {
            scheduler.set(variable, value).map_err(named)?;
        }
        scheduler.own = scheduler.settings.len();
        scheduler.change(&entry.changes).map_err(named)?;
        if let Some(label) = entry.label {
            if label != entry.name && is_shipped(&label) {
                let text = format!("'{label}' is another scheduler's name; choose another label");
                return Err(named(Failure::usage(text)));
            }
            scheduler.rename(label);
        }
        Ok(scheduler)
    }

    /// The scheduler's name with its settings, as results print it: `o1` or `o1[profile=d1]`.
    pub fn label(&self) -> String {
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = if settings.is_empty() { String::new() } else { format!("[{}]", settings.join(",")) };
        format!("{}{settings}", self.name)
    }

    /// True if its entry of `-s` says the value of the variable.
    pub(crate) fn has_own(&self, variable: &str) -> bool {
        self.settings[..self.own].iter().any(|(name, _)| name == variable)
    }

    /// Numbers schedulers that results could not tell apart: `o1`, `o1#2`.
    ///
    /// # Errors
    /// A label that two entries were given.
    pub fn distinct(schedulers: &mut [Scheduler]) -> Result<(), Failure> {
        let labelled = |scheduler: &Scheduler| scheduler.name != scheduler.given;
        for at in 1..schedulers.len() {
            let one = &schedulers[at];
            let twin = schedulers[..at].iter().find(|other| other.name == one.name);
            if let Some(twin) = twin.filter(|twin| labelled(one) || labelled(twin)) {
                let text =
                    format!("-s: two schedulers are called '{}'; give each a label of its own", twin.name);
                return Err(Failure::usage(text));
            }
        }
        for at in 1..schedulers.len() {
            let label = schedulers[at].label();
            if schedulers[..at].iter().all(|other| other.label() != label) {
                continue;
            }
            let name = |number: u32| format!("{}#{number}", schedulers[at].given);
            let is_free = |name: &String| schedulers.iter().all(|other| other.name != *name);
            let free = (2..).map(name).find(is_free);
            schedulers[at].rename(free.expect("a list is shorter than the numbers"));
        }
        Ok(())
    }

    /// Results call it `name` from now on, and so do messages about its object.
    fn rename(&mut self, name: String) {
        (self.name, self.read) = (name, OnceLock::new());
    }

    /// Finds the schedulers of the entries of `-s` and gives them the values of `--set`. A value is `VARIABLE=VALUE` for all
    /// of them or `SCHEDULER:VARIABLE=VALUE` for one; what an entry sets itself stays as it is.
    ///
    /// # Errors
    /// An unknown scheduler, or a setting for one that is not in the list. A setting of another form, a variable that is set
    /// twice, what its object does not have or take, and any setting of the fair class.
    pub fn find_all(names: &[String], settings: &[String]) -> Result<Vec<Scheduler>, Failure> {
        let mut schedulers: Vec<Scheduler> =
            names.iter().map(|name| Scheduler::of_entry(name)).collect::<Result<_, _>>()?;
        for setting in settings {
            let (scope, variable, value) = split_setting(setting)?;
            let mut taken = false;
            for scheduler in &mut schedulers {
                if scope.is_none_or(|scope| scope == scheduler.name || scope == scheduler.given) {
                    taken = true;
                    if !scheduler.has_own(variable) {
                        scheduler.set(variable, value)?;
                    }
                }
            }
            if let (false, Some(scope)) = (taken, scope) {
                let near = did_you_mean(scope, schedulers.iter().map(|scheduler| &scheduler.name));
                return Err(Failure::usage(format!(
                    "--set {setting}: '{scope}' is not among the schedulers of this command{near}"
                )));
            }
        }
        schedulers.iter().try_for_each(Scheduler::check_values)?;
        Ok(schedulers)
    }

    /// Adds a setting.
    ///
    /// # Errors
    /// A variable that is set already, a name that no task has, or any of the fair class.
    pub fn set(&mut self, variable: &str, value: &str) -> Result<(), Failure> {
        if self.object.is_none() {
            return Err(Failure::usage(format!(
                "--set {variable}={value}: {FAIR} is the kernel's own class and has no tunables; \
                 write SCHEDULER:{variable}={value} to set another scheduler's"
            )));
        }
        if let Some((_, first)) = self.settings.iter().find(|(name, _)| name == variable) {
            return Err(Failure::usage(format!(
                "{variable}={first} and {variable}={value}: {} takes one value of {variable}; leave one of the two out",
                self.name
            )));
        }
        swap_scope::check(variable, value)?;
        self.settings.push((variable.to_string(), value.to_string()));
        self.values.push((variable.to_string(), value.to_string()));
        Ok(())
    }

    /// Gives the object the values of `--state`, but for variables that are set otherwise.
    ///
    /// # Errors
    /// A file that is refused, values that the object does not take, or any for the fair class.
    pub fn restore(&mut self, file: Option<&Path>) -> Result<(), Failure> {
        let Some(file) = file else { return Ok(()) };
        let object = match self.parsed() {
            Some(Ok(object)) => object,
            Some(Err(error)) => return Err(Failure::usage(format!("scheduler {error}"))),
            None => {
                return Err(Failure::usage(format!(
                    "--state: {FAIR} is the kernel's own class and has no variables"
                )));
            }
        };
        // What the user sets, whole or in part, comes after it.
        let mut values = state::settings(file, &object)?;
        values.retain(|(name, _)| self.values.iter().all(|(set, _)| set != name));
        values.append(&mut self.values);
        self.values = values;
        self.check_values()
    }

    /// Has the object's types decide about the settings, before anything is run.
    fn check_values(&self) -> Result<(), Failure> {
        let changes = |object: &Object, (variable, value): &(String, String)| {
            settings::changes(object, variable, value).map(drop)
        };
        self.check(|object| self.values.iter().try_for_each(|setting| changes(object, setting)))
    }

    fn check(&self, decide: impl FnOnce(&Object) -> Result<(), LoadError>) -> Result<(), Failure> {
        // Another error of the object comes when it is loaded.
        let Some(Ok(object)) = self.parsed() else { return Ok(()) };
        let refused = |error: LoadError| Failure::usage(format!("scheduler {}", error.in_file(&self.name)));
        decide(&object).map_err(refused)
    }

    /// The most CPUs that it is made for, where the object says so by a constant `max_cpus`.
    pub(crate) fn most_cpus(&self) -> Option<usize> {
        let object = self.parsed()?.ok()?;
        let said = object
            .variable("max_cpus")
            .filter(|one| settings::is_constant(one) && !settings::is_volatile(&object, one))?;
        usize::try_from(object.initial_number(said)?).ok()
    }

    /// The scheduler's object, read, with the scheduler that is meant; nothing for the fair class.
    pub fn parsed(&self) -> Option<Result<Arc<Object>, LoadError>> {
        let parse = |bytes: &[u8]| {
            if let Some(read) = self.read.get() {
                return Ok(read.clone());
            }
            let mut object = Object::parse(&self.name, bytes)?;
            object.choose(self.choice.as_deref()).map_err(|error| error.in_file(&self.name))?;
            Ok(self.read.get_or_init(|| Arc::new(object)).clone())
        };
        self.object.as_deref().map(parse)
    }
}

impl Scheduler {
    /// Counters with the meanings that the object gives them. Of a shipped scheduler only those that it calls counters.
    pub fn counters(&self, values: impl Iterator<Item = (String, u64)>) -> Vec<Counter> {
        let object = self.parsed().and_then(Result::ok);
        let known = object.as_ref().map(|object| object.counters()).unwrap_or_default();
        let state = object.as_ref().filter(|_| self.is_shipped_object()).map(|object| object.integers());
        let state = state.unwrap_or_default();
        let meaning = |name: &str| {
            let found = known.iter().find(|counter| counter.variable.name == name);
            found.map_or_else(String::new, |counter| counter.meaning.to_string())
        };
        let is_state = |name: &str| state.iter().any(|(variable, _)| variable.name == name);
        let shown = values.filter(|(name, _)| !is_state(name));
        shown.map(|(name, value)| Counter { meaning: meaning(&name), name, value }).collect()
    }

    /// The tables that the object has, of the bytes that were found there; without those that are empty.
    pub fn tables(&self, found: &[(String, Vec<u8>)]) -> Vec<SchedulerTable> {
        let Some(Ok(object)) = self.parsed() else { return Vec::new() };
        let read = |table: Table<'_>| {
            let (name, bytes) = found.iter().find(|(name, _)| *name == table.variable.name)?;
            let rows = object.rows(&table, bytes);
            let columns = table.columns.iter().map(ToString::to_string).collect();
            let meaning = table.meaning.to_string();
            (!rows.is_empty()).then(|| SchedulerTable { name: name.clone(), meaning, columns, rows })
        };
        object.tables().into_iter().filter_map(read).collect()
    }

    /// True for the bytes of a shipped scheduler. In a guest it is a file like any other.
    fn is_shipped_object(&self) -> bool {
        let is_own = |bytes: &[u8]| SCHEDULERS.iter().any(|own| [own.object, own.swap].contains(&bytes));
        self.object.as_deref().is_some_and(is_own)
    }

    /// What the object leaves to a loader of its own; nothing where it leaves nothing, and for shipped schedulers, whose zeros
    /// are meant.
    pub fn left_to_loader(&self) -> Option<LeftToLoader> {
        if self.is_shipped_object() || self.loader.is_some() {
            return None;
        }
        let object = self.parsed()?.ok()?;
        Some(LeftToLoader::of(&object, &self.values, &self.all_programs())).filter(|left| !left.is_nothing())
    }

    /// The programs that the simulator leaves out, each with its section: those that no run is another one for, and those at
    /// interrupts, which may decide. Those that only ask what the kernel can do are none.
    pub fn left_out(&self) -> [Vec<String>; 2] {
        let Some(Ok(object)) = self.parsed() else { return Default::default() };
        let left = left_out(&object, &self.all_programs()).unwrap_or_default();
        let (at_interrupts, harmless): (Vec<&Program>, Vec<&Program>) = left
            .into_iter()
            .filter(|program| !is_probe(program))
            .partition(|program| is_at_interrupt(program));
        let told = |program: &&Program| format!("{} ({})", program.name, program.section);
        [harmless, at_interrupts].map(|programs| programs.iter().map(told).collect())
    }

    /// Adds the values of `--set-at`.
    ///
    /// # Errors
    /// What the object does not have, or does not take while it runs, and any value for the fair class.
    pub fn change(&mut self, changes: &[TimedSetting]) -> Result<(), Failure> {
        for change in changes {
            if self.object.is_none() {
                let text = format!("--set-at {change}: {FAIR} is the kernel's own class and has no tunables");
                return Err(Failure::usage(text));
            }
            self.check(|object| settings::timed_changes(object, change).map(drop))?;
            self.settings.push((format!("{}:{}", change.at, change.variable), change.value.clone()));
            self.changes.push(change.clone());
        }
        Ok(())
    }

    /// How the simulator loads it.
    pub fn load_options(&self) -> LoadOptions {
        let (settings, changes) = (self.values.clone(), self.changes.clone());
        let (scheduler, programs) = (self.choice.clone(), self.programs.clone());
        let timed_programs = self.timed_programs.clone();
        LoadOptions { scheduler, programs, timed_programs, settings, changes, ..LoadOptions::default() }
    }

    /// Adds to the failure of a run the setting that the scheduler's own complaint is about. That is a word of its message
    /// (`scx_bpf_error()`) that names a tunable which the user has not set, because then a loader of its own would have.
    pub fn with_cure(&self, mut failure: Failure, exit: &ExitRecord) -> Failure {
        let complains = failure.code == Code::Ejected && exit.kind == ExitKind::ErrorBpf;
        let Some(object) = self.object.as_ref().filter(|_| complains) else { return failure };
        let Ok(needs) = schedlab_scx::requirements(&self.name, object, &LoadOptions::default()) else {
            return failure;
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = |name: &str| exit.message.split(|c| !is_word(c)).any(|word| word == name);
        let unset = |name: &str| self.settings.iter().all(|(set, _)| set != name);
        if let Some(found) = needs.tunables.iter().find(|t| named(&t.name) && unset(&t.name)) {
            let name = &found.name;
            failure.text.push_str(&format!(" ({name} is a tunable of this object: add --set {name}=VALUE)"));
        }
        failure
    }
}

/// The bytes of the object that a file is, or that a scheduler's own program carries.
fn object_file(path: &str, choice: Option<&str>) -> Result<Vec<u8>, Failure> {
    let refused = |error: String| Failure::usage(format!("scheduler object {path}: {error}"));
    let bytes = input::object_or_program(path).map_err(|error| refused(error.to_string()))?;
    object_in(path, choice, bytes)
}

/// The bytes of the object that these bytes of a file are, or carry.
fn object_in(path: &str, choice: Option<&str>, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if !is_executable(&bytes) {
        return Ok(bytes);
    }
    match scheduler_within(&bytes, choice) {
        Ok(object) => Ok(object.to_vec()),
        Err(error) if error.kind == LoadErrorKind::Unresolved => {
            Err(Failure::usage(format!("scheduler object {path}: {error}")))
        }
        // A damaged file, or one that is no object, is refused when it is loaded.
        Err(_) => Ok(bytes),
    }
}

/// Refuses what is wrong input for every command, whatever this machine has.
fn check_object(path: &str, choice: Option<&str>, object: &[u8]) -> Result<(), Failure> {
    match Object::parse(path, object) {
        Ok(mut parsed) => {
            parsed.choose(choice).map_err(|error| Failure::usage(format!("scheduler object {path}: {error}")))
        }
        Err(error) if matches!(error.kind, LoadErrorKind::NotAnObject | LoadErrorKind::Malformed) => {
            Err(Failure::usage(format!("scheduler {error}")))
        }
        // What the simulator does not take, a kernel may.
        Err(_) => Ok(()),
    }
}

/// True for a name that stands for a scheduler wherever it is given.
pub fn is_shipped(name: &str) -> bool {
    let policy = name.strip_suffix(SWAP).unwrap_or(name);
    name == FAIR || SCHEDULERS.iter().any(|shipped| shipped.name == policy)
}

fn split_setting(setting: &str) -> Result<(Option<&str>, &str, &str), Failure> {
    let form =
        || Failure::usage(format!("--set {setting}: write VARIABLE=VALUE or SCHEDULER:VARIABLE=VALUE"));
    let (left, value) = setting.split_once('=').ok_or_else(form)?;
    let (scope, variable) = match left.rsplit_once(':') {
        Some((scope, variable)) => (Some(scope), variable),
        None => (None, left),
    };
    if variable.is_empty() || value.is_empty() || scope.is_some_and(str::is_empty) {
        return Err(form());
    }
    Ok((scope, variable, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_two_forms() {
        assert_eq!(split_setting("a=1"), Ok((None, "a", "1")));
        assert_eq!(split_setting("./x.bpf.o:a=b=c"), Ok((Some("./x.bpf.o"), "a", "b=c")));
        for bad in ["a", "=1", "a=", ":a=1", "o1:=2"] {
            assert!(split_setting(bad).unwrap_err().text.contains("write VARIABLE=VALUE"), "{bad}");
        }
    }

    #[test]
    fn unknown_schedulers_are_refused_with_the_list() {
        let text = Scheduler::find("cfs").unwrap_err().text;
        assert!(text.contains("'cfs'") && text.contains("eevdf") && text.contains("*.bpf.o"), "{text}");
        assert!(Scheduler::find("./none.bpf.o").unwrap_err().text.contains("./none.bpf.o"));
    }

    #[test]
    fn the_fair_class_has_no_tunables() {
        let one = ["eevdf".to_string()];
        let text = Scheduler::find_all(&one, &["x=1".to_string()]).unwrap_err().text;
        assert!(text.contains("no tunables"), "{text}");
        let text = Scheduler::find_all(&one, &["o9:x=1".to_string()]).unwrap_err().text;
        assert!(text.contains("'o9' is not among"), "{text}");
    }

    /// A dump of one section with its bytes, as bpftool 7.8 writes it.
    fn dump(section: &str, bytes: &[u8]) -> String {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("\"{byte:#04x}\"")).collect();
        let words = format!("{{\"value\":{{\"{section}\":[]}}}}");
        format!("[{{\"key\":[\"0x00\"],\"value\":[{}],\"formatted\":{words}}}]", bytes.join(","))
    }

    #[test]
    fn bytes_of_a_dump_go_to_the_variables_of_their_section() {
        let o1 = Scheduler::find("o1").unwrap();
        let object = o1.parsed().unwrap().unwrap();
        let constants: Vec<_> = object.variables().filter(|one| one.section == ".rodata").collect();
        let size = constants.iter().map(|one| one.offset + one.size).max().unwrap() as usize;
        let content: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let settings = state::of_dump(&dump(".rodata", &content), &object).unwrap();
        let tunable = constants.iter().find(|one| settings::is_volatile(&object, one)).unwrap();
        let value = &settings.iter().find(|(name, _)| *name == tunable.name).unwrap().1;
        let own = &content[tunable.offset as usize..(tunable.offset + tunable.size) as usize];
        let digits: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(*value, format!("bytes:{digits}"));
        let short = state::of_dump(&dump(".rodata", &[0]), &object).unwrap_err();
        assert!(
            short.contains("section .rodata has 1 bytes there") && short.contains("another version"),
            "{short}"
        );
        assert!(state::of_dump(&dump(".nowhere", &[0]), &object).is_err());
    }
}
