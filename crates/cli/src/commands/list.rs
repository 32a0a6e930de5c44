//! `list`: what can be named on the command line.

use crate::args::{ListArgs, ListKind};
use crate::output;
use schedlab_base::{KernelChange, KernelPreset, KernelVersion, Machine, Preemption, counted, did_you_mean};
use schedlab_bpf::object::Object;
use schedlab_lab::failure::Failure;
use schedlab_lab::machine::host as host_machine;
use schedlab_lab::machine::kernels::range;
use schedlab_lab::scheduler::{FAIR, SWAP};
use schedlab_lab::shipped::{self, DEFAULT_MACHINE, SCHEDULERS};
use schedlab_live::kernel_image::RELEASES;
use schedlab_scx::{Tunable, tunables};
use schedlab_workload::catalog;

/// Prints the lists.
pub(crate) fn list(args: &ListArgs, verbose: bool) -> Result<(), Failure> {
    let verbose = verbose || !args.names.is_empty();
    let mut text = String::new();
    let all = [ListKind::Schedulers, ListKind::Workloads, ListKind::Machines, ListKind::Kernels];
    for kind in all {
        if args.what.is_some_and(|only| only != kind) {
            continue;
        }
        let (heading, mut entries) = match kind {
            ListKind::Schedulers => ("Schedulers (-s)", schedulers(verbose)),
            ListKind::Workloads => ("Workloads (-w)", workloads(verbose)),
            ListKind::Machines => ("Machines (-m)", machines()?),
            ListKind::Kernels => ("Kernels (--kernel)", kernels(verbose)),
        };
        if !args.names.is_empty() {
            entries = chosen(entries, &args.names)?;
        }
        if args.what.is_none() {
            text.push_str(&format!("{}{heading}\n", if text.is_empty() { "" } else { "\n" }));
        }
        let indent = if args.what.is_none() { "  " } else { "" };
        text.push_str(&lines(&entries, indent));
    }
    output::print(&text)
}

/// The entries with these names.
///
/// # Errors
/// A name that none of them has.
fn chosen(mut entries: Vec<Entry>, names: &[String]) -> Result<Vec<Entry>, Failure> {
    for name in names {
        if entries.iter().all(|entry| entry.name != *name) {
            let known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            let near = did_you_mean(name, &known);
            return Err(Failure::usage(format!("list: no '{name}'{near}; there are: {}", known.join(", "))));
        }
    }
    entries.retain(|entry| names.contains(&entry.name));
    Ok(entries)
}

/// A name, a line about it, and what belongs to it.
struct Entry {
    name: String,
    about: String,
    details: Vec<(String, String)>,
}

fn lines(entries: &[Entry], indent: &str) -> String {
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in entries {
        text.push_str(format!("{indent}{:width$}  {}", entry.name, entry.about).trim_end());
        text.push('\n');
        let width = entry.details.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, about) in &entry.details {
            text.push_str(format!("{indent}    {name:width$}  {about}").trim_end());
            text.push('\n');
        }
    }
    text
}

fn schedulers(verbose: bool) -> Vec<Entry> {
    let own = Entry {
        name: FAIR.to_string(),
        about: "the kernel's own fair class, the baseline and the fall-back".to_string(),
        details: Vec::new(),
    };
    let of = |object: &[u8]| if verbose { of_object(object) } else { Vec::new() };
    let shipped = SCHEDULERS.iter().map(|shipped| Entry {
        name: shipped.name.to_string(),
        about: shipped.about.to_string(),
        details: of(shipped.object).iter().map(detail).collect(),
    });
    // The layer is the same in all of them: what one of them has more with it.
    let (plain, with_layer) =
        SCHEDULERS.first().map_or_else(Default::default, |one| (of(one.object), of(one.swap)));
    let layers = with_layer.iter().filter(|tunable| !plain.contains(tunable));
    let layer = Entry {
        name: format!("NAME{SWAP}"),
        about: "any of these with SWAP: who a blocked task waits for runs in its place".to_string(),
        details: layers.map(detail).collect(),
    };
    std::iter::once(own).chain(shipped).chain(std::iter::once(layer)).collect()
}

fn of_object(object: &[u8]) -> Vec<Tunable> {
    Object::parse("a shipped scheduler", object).map_or_else(|_| Vec::new(), |object| tunables(&object))
}

/// A tunable with its default, its meaning and what it takes.
fn detail(tunable: &Tunable) -> (String, String) {
    let default = if tunable.default.is_empty() { String::new() } else { format!("={}", tunable.default) };
    (format!("--set {}{default}", tunable.name), format!("{}; {}", tunable.meaning, tunable.takes))
}

fn workloads(verbose: bool) -> Vec<Entry> {
    let entry = |workload: &catalog::WorkloadInfo| {
        let mut details = Vec::new();
        if verbose {
            for param in workload.params {
                let unit = if param.unit.is_empty() { String::new() } else { format!(" ({})", param.unit) };
                details.push((format!("{}={}", param.name, param.default), format!("{}{unit}", param.about)));
            }
            for (name, unit) in workload.metrics {
                details.push((format!("-> {name}"), format!("in {unit}")));
            }
        }
        Entry { name: workload.name.to_string(), about: workload.about.to_string(), details }
    };
    catalog::list().iter().map(entry).collect()
}

fn machines() -> Result<Vec<Entry>, Failure> {
    let entry = |(name, file): (&str, schedlab_machine::MachineFile)| {
        let default = if name == DEFAULT_MACHINE { " (default)" } else { "" };
        let about = format!("{}; {}{default}", shape(&file.machine), file.about);
        Entry { name: name.to_string(), about, details: Vec::new() }
    };
    let host = host_machine::machine().map(|file| (host_machine::HOST, file));
    Ok(shipped::machines()?.into_iter().chain(host).map(entry).collect())
}

/// Distributions' kernels, and what single versions brought.
fn kernels(verbose: bool) -> Vec<Entry> {
    let preempt = |preset: &KernelPreset| match preset.preempt {
        Preemption::Full => "full",
        Preemption::Lazy => "lazy",
    };
    let in_vm = |preset: &KernelPreset| RELEASES.iter().any(|release| release.name == preset.name);
    let entry = |preset: &KernelPreset| Entry {
        name: preset.name.to_string(),
        about: format!(
            "Linux {}, {} Hz, {} preemption; {}{}",
            preset.version,
            preset.hz,
            preempt(preset),
            preset.about,
            if in_vm(preset) { "; for VMs too" } else { "" }
        ),
        details: Vec::new(),
    };
    let change = |(_, since, words): &(KernelChange, KernelVersion, &str)| {
        (format!("since {since}"), (*words).to_string())
    };
    let versions = Entry {
        name: "VERSION".to_string(),
        about: format!(
            "any from {}; for VMs 6.12 and newer, as the distribution's archive has them",
            range()
        ),
        details: if verbose { KernelChange::ALL.iter().map(change).collect() } else { Vec::new() },
    };
    KernelPreset::ALL.iter().map(entry).chain([versions]).collect()
}

fn shape(machine: &Machine) -> String {
    format!("{}, {} Hz", counted(machine.cpu_count(), "CPU"), machine.hz)
}
