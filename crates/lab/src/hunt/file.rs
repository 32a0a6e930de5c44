//! A case as a file: one small TOML text with everything that determines the run, and what was seen in it.

use super::case::Case;
use super::property::{Property, Trouble};
use super::search::Find;
use super::story::story;
use crate::failure::Failure;
use crate::files::input;
use crate::files::target::write_whole;
use crate::machine::described;
use crate::run::trust::of_object;
use crate::scheduler::Scheduler;
use schedlab_base::{Cpu, DurationNs, Machine, Presence};
use schedlab_loader::PREFIX;
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A scheduler as a case file names it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NamedScheduler {
    /// A shipped name, the path of an object, or a loader's command (`exec:`).
    pub name: String,
    /// SHA-256 of the object; nothing for the kernel's own class.
    pub sha256: Option<String>,
    /// Settings of tunables.
    #[serde(default)]
    settings: Vec<(String, String)>,
}

/// The text of a case file, read. What it says of workload and machine is read by [`CaseFile::case`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The file.
    #[serde(skip)]
    path: PathBuf,
    /// What the case shows.
    pub property: String,
    /// Its kind.
    pub kind: String,
    /// What was said about it.
    pub saw: String,
    /// Hash of the run's trace.
    pub trace: Option<String>,
    seed: u64,
    interleave: Option<u64>,
    kernel: Option<String>,
    attach_ns: Option<u64>,
    detach_ns: Option<u64>,
    /// The scheduler that shows it.
    pub scheduler: NamedScheduler,
    /// The scheduler that does not, where two were compared.
    pub against: Option<NamedScheduler>,
    machine: String,
    workload: String,
}

impl CaseFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is no case.
    pub fn read(path: &Path) -> Result<CaseFile, Failure> {
        let named =
            |error: &dyn std::fmt::Display| Failure::usage(format!("--case {}: {error}", path.display()));
        let text = input::definition(path).map_err(|error| named(&error))?;
        let file: CaseFile = toml::from_str(&text).map_err(|error| named(&error.message()))?;
        Ok(CaseFile { path: path.to_path_buf(), ..file })
    }

    /// The scheduler to run: that of the file, unless another one is `given`.
    ///
    /// # Errors
    /// A command, which a file is not to start. It must be given.
    pub fn entry(&self, given: Option<&str>) -> Result<String, Failure> {
        let own = &self.scheduler.name;
        match given {
            Some(given) => Ok(given.to_string()),
            None if own.starts_with(PREFIX) => Err(Failure::usage(format!(
                "--case {}: its scheduler is a command, and a file starts none: add -s '{own}'",
                self.path.display()
            ))),
            None if !own.contains('/') || Path::new(own).exists() => Ok(own.clone()),
            None => {
                // A case that was moved together with its object.
                let beside =
                    self.path.parent().zip(Path::new(own).file_name()).map(|(at, name)| at.join(name));
                let found = beside.filter(|path| path.exists());
                Ok(found.map_or_else(|| own.clone(), |path| path.display().to_string()))
            }
        }
    }

    /// Refuses another object than that of the file.
    ///
    /// # Errors
    /// The object differs.
    pub fn check(&self, scheduler: &Scheduler) -> Result<(), Failure> {
        let found = scheduler.object.as_deref().map(of_object);
        if found == self.scheduler.sha256 {
            return Ok(());
        }
        let words = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".into());
        Err(Failure::usage(format!(
            "--case {}: {} is another object (sha256 {}) than that of the case ({}); -s {} runs the case with it",
            self.path.display(),
            self.scheduler.name,
            words(&found),
            words(&self.scheduler.sha256),
            scheduler.name
        )))
    }

    /// The case.
    ///
    /// # Errors
    /// A workload or machine that is wrong.
    pub fn case(&self) -> Result<Case, Failure> {
        let origin = self.path.display().to_string();
        let scenario = schedlab_workload::file::parse(&self.workload, &format!("{origin} (workload)"))
            .map_err(|error| Failure::usage(error.to_string()))?;
        let machine = described(&self.machine, &format!("{origin} (machine)"))?.machine;
        Ok(Case {
            seed: self.seed,
            machine,
            scenario,
            settings: self.scheduler.settings.clone(),
            presence: Presence {
                attach: self.attach_ns.map(DurationNs),
                detach: self.detach_ns.map(DurationNs),
            },
            kernel: self.kernel.clone(),
            interleave: self.interleave,
            checked: true,
        })
    }

    /// What the case shows.
    pub fn trouble(&self) -> Trouble {
        let property: Option<Property> = self.property.parse().ok();
        Trouble::new(property, &self.kind, self.saw.clone())
    }

    /// Whether the case shows a difference between two schedulers, which one run does not show.
    pub fn compares(&self) -> bool {
        match self.trouble().property {
            Some(Property::Condition(condition)) => condition.compares(),
            property => property == Some(Property::Worse),
        }
    }
}

/// The text of a case file.
pub(crate) fn text(find: &Find, new: &Scheduler, old: Option<&Scheduler>) -> String {
    let Find { case, trouble, outcome, .. } = find;
    let mut text = "# Kept by `schedlab hunt`; `schedlab sim --case FILE` makes the run again.\n".to_string();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {}", quoted(value));
    };
    line("property", trouble.property.as_ref().map_or("defect", Property::name));
    line("kind", &trouble.kind);
    line("saw", &trouble.words);
    if let Some(hash) = outcome.trace_hash() {
        line("trace", hash);
    }
    if let Some(kernel) = &case.kernel {
        line("kernel", kernel);
    }
    let numbers = [
        ("seed", Some(case.seed)),
        ("interleave", case.interleave),
        ("attach_ns", case.presence.attach.map(|at| at.0)),
        ("detach_ns", case.presence.detach.map(|at| at.0)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    let workload = schedlab_workload::file::write(&case.scenario);
    for (name, value) in [("machine", machine_text(&case.machine)), ("workload", workload)] {
        let _ = writeln!(text, "{name} = {}", lines(&value));
    }
    scheduler_text(&mut text, "scheduler", new, &case.settings);
    if let Some(old) = old {
        scheduler_text(&mut text, "against", old, &case.settings);
    }
    text
}

fn scheduler_text(text: &mut String, table: &str, scheduler: &Scheduler, settings: &[(String, String)]) {
    let _ = writeln!(text, "\n[{table}]\nname = {}", quoted(&name_of(scheduler)));
    if let Some(hash) = scheduler.object.as_deref().map(of_object) {
        let _ = writeln!(text, "sha256 = {}", quoted(&hash));
    }
    let settings: Vec<String> = (scheduler.values.iter().chain(settings))
        .map(|(name, value)| format!("[{}, {}]", quoted(name), quoted(value)))
        .collect();
    if !settings.is_empty() {
        let _ = writeln!(text, "settings = [{}]", settings.join(", "));
    }
}

/// The entry of `-s` by which a scheduler is found from any folder.
pub(crate) fn name_of(scheduler: &Scheduler) -> String {
    if let Some(loader) = &scheduler.loader {
        return format!("{PREFIX}{}", loader.text());
    }
    let given = scheduler.given.split('[').next().unwrap_or_default();
    match Path::new(given).canonicalize() {
        Ok(path) if given.contains('/') || given.ends_with(".o") => path.display().to_string(),
        _ => given.to_string(),
    }
}

/// A machine file: the topology and the tick; costs are the default ones.
fn machine_text(machine: &Machine) -> String {
    let cpu = |cpu: &Cpu| format!("  {{ core = {}, llc = {}, node = {} }},\n", cpu.core, cpu.llc, cpu.node);
    let cpus: String = machine.cpus.iter().map(cpu).collect();
    format!("[machine]\nname = {:?}\nhz = {}\ncpus = [\n{cpus}]\n", machine.name, machine.hz)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// Several lines, as they are where that can be.
fn lines(text: &str) -> String {
    if text.contains("'''") { quoted(text) } else { format!("'''\n{text}'''") }
}

/// Keeps a find in a folder: the case, and a text that says what happened. Gives the path of the case.
///
/// # Errors
/// A folder that takes no files.
pub fn keep(
    folder: &Path,
    find: &Find,
    new: &Scheduler,
    old: Option<&Scheduler>,
) -> Result<PathBuf, Failure> {
    let name = schedlab_report::visible(&new.name).to_string();
    let name = Path::new(&name).file_name().map_or(name.clone(), |file| file.to_string_lossy().into_owned());
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '_' };
    let name: String = name.chars().map(safe).take(60).collect();
    let property = match &find.trouble.property {
        Some(Property::Condition(_)) => "condition",
        named => named.as_ref().map_or("defect", Property::name),
    };
    let path = folder.join(format!("{name}-{property}-{}.toml", find.case.seed));
    let story_path = path.with_extension("txt");
    let written = |path: &Path, text: &str| {
        write_whole(path, text.as_bytes()).map_err(|error| {
            crate::files::target::unwritten(&format!("--cases {}", path.display()), "folder", &error)
        })
    };
    written(&path, &text(find, new, old))?;
    written(&story_path, &story(find, new, old))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::judge::Outcome;
    use super::*;

    #[test]
    fn a_case_is_the_same_after_it_was_written() {
        for seed in 0..40 {
            let mut case = Case::draw_small(seed, &[], false);
            case.interleave = (seed % 3 == 0).then_some(seed << 40);
            case.kernel = (seed % 2 == 0).then(|| "6.18".to_string());
            let trouble = Trouble::new(Some(Property::Lost), "lost task", "it's \"lost\"");
            let from = (1, 1);
            let find = Find { case: case.clone(), trouble, outcome: Outcome::default(), runs: 1, from };
            let scheduler = Scheduler::find("o1").unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = keep(folder.path(), &find, &scheduler, None).unwrap();
            let file = CaseFile::read(&path).unwrap();
            let again = file.case().unwrap();
            assert_eq!((again.machine, again.presence), (case.machine, case.presence), "seed {seed}");
            assert_eq!(again.interleave, case.interleave, "seed {seed}");
            let [first, second] = [&case.scenario, &again.scenario].map(schedlab_workload::file::write);
            assert_eq!(first, second, "seed {seed}");
            assert_eq!(file.trouble(), find.trouble);
            assert_eq!(file.entry(None).unwrap(), "o1");
            file.check(&scheduler).unwrap();
            assert!(
                file.check(&Scheduler::find("ule").unwrap()).unwrap_err().text.contains("another object")
            );
        }
    }
}
