//! `hunt`: a search for runs in which a scheduler starves, stalls or forgets tasks.

use crate::args::HuntArgs;
use crate::confine::Named;
use crate::output;
use crate::progress::Progress;
use schedlab_base::counted;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::ready_folder;
use schedlab_lab::hunt::{Far, Find, Hunt, Hunted, Property, keep};
use schedlab_lab::machine::kernels;
use schedlab_lab::run::sweep::available;
use schedlab_lab::scheduler::{Scheduler, entry};
use schedlab_lab::shipped;
use std::fmt::Write as _;
use std::time::Duration;

/// Host time without `--budget` and `--runs`. Chosen: what a person waits for.
const BUDGET: Duration = Duration::from_secs(60);

/// Searches and prints.
pub(crate) fn hunt(args: &HuntArgs, quiet: bool) -> Result<(), Failure> {
    let entries = entry::split(&args.schedulers)?;
    if entries.len() > 2 {
        return Err(Failure::usage("hunt takes one scheduler, or two: -s NEW,OLD"));
    }
    kernels::under(shipped::machine(shipped::DEFAULT_MACHINE)?.machine, args.kernel.as_deref())?;
    if let Some(folder) = &args.cases {
        ready_folder("--cases", folder)?;
    }
    Named::new().inputs(entry::names(&entries)?).folder(args.cases.as_ref()).enter(&args.sandbox, quiet)?;
    let mut schedulers = Scheduler::find_all(&entries, &[])?.into_iter();
    let new = schedulers.next().expect("the parser wants one");
    let hunt = Hunt {
        properties: properties(args, entries.len() == 2)?,
        new,
        old: schedulers.next(),
        seed: args.seed,
        runs: args.runs.map(Into::into),
        budget: budget(args),
        jobs: args.jobs.unwrap_or_else(available),
        kernel: args.kernel.clone(),
        first: args.first,
    };
    let progress = Progress::new("hunting", total(args), quiet);
    let hunted = hunt.run(&|far| progress.set(position(args, far), far_words(far)))?;
    progress.finish();
    drop(progress);
    let shown = finds(&hunt, &hunted, args)?;
    output::print(&format!("{shown}{}\n", end_words(&hunted)))?;
    verdict(&hunted)
}

/// What is looked for.
fn properties(args: &HuntArgs, two: bool) -> Result<Vec<Property>, Failure> {
    let wanted = &args.properties;
    let compares = |one: &&Property| match one {
        Property::Condition(condition) => condition.compares(),
        named => **named == Property::Worse,
    };
    if let Some(one) = wanted.iter().find(compares).filter(|_| !two) {
        return Err(Failure::usage(format!(
            "--property {one}: it compares two schedulers; write -s NEW,OLD"
        )));
    }
    let all = Property::NAMED.into_iter().filter(|one| two || *one != Property::Worse);
    Ok(if wanted.is_empty() { all.collect() } else { wanted.clone() })
}

fn budget(args: &HuntArgs) -> Option<Duration> {
    let own = args.budget.map(|time| Duration::from_nanos(time.0));
    own.or_else(|| args.runs.is_none().then_some(BUDGET))
}

/// Steps of the search: cases where their number is known.
fn total(args: &HuntArgs) -> Option<u64> {
    args.runs.filter(|_| args.budget.is_none()).map(Into::into)
}

fn position(args: &HuntArgs, far: Far) -> u64 {
    if total(args).is_some() { far.runs } else { 0 }
}

fn far_words(far: Far) -> String {
    format!("{} tried, {} kept, {} found", counted(far.runs as usize, "case"), far.corpus, far.found)
}

/// What was found, with the place of each case.
fn finds(hunt: &Hunt, hunted: &Hunted, args: &HuntArgs) -> Result<String, Failure> {
    let mut text = String::new();
    for find in &hunted.finds {
        let Find { case, trouble, runs, from, .. } = find;
        let size =
            |tasks: usize, cpus: usize| format!("{} on {}", counted(tasks, "task"), counted(cpus, "CPU"));
        let _ = writeln!(
            text,
            "{} in case {runs}: {}\n  {}, made of {}",
            trouble.property.as_ref().map_or("defect of schedlab", Property::name),
            trouble.words,
            size(case.scenario.tasks.len(), case.machine.cpu_count()),
            size(from.0, from.1)
        );
        if let Some(folder) = &args.cases {
            let path = keep(folder, find, &hunt.new, hunt.old.as_ref())?;
            let _ = writeln!(text, "  schedlab sim --case {}", path.display());
        }
        text.push('\n');
    }
    if !hunted.finds.is_empty() && args.cases.is_none() {
        text.push_str("Nothing is kept; with --cases DIR each find is a case to run again.\n");
    }
    Ok(text)
}

fn end_words(hunted: &Hunted) -> String {
    let far = hunted.far;
    let mut text = format!(
        "{} tried, {} kept for what they reached ({} in all), {} found",
        counted(far.runs as usize, "case"),
        far.corpus,
        far.reached,
        hunted.finds.len()
    );
    if let Some(why) = &hunted.why {
        let _ = write!(text, "; {} had no run: {why}", counted(hunted.refused as usize, "case"));
    }
    text
}

/// Exit code 1 where something was found.
fn verdict(hunted: &Hunted) -> Result<(), Failure> {
    let name = |find: &Find| find.trouble.property.as_ref().map_or("defect", Property::name).to_string();
    let names: Vec<String> = hunted.finds.iter().map(name).collect();
    if names.is_empty() { Ok(()) } else { Err(Failure::failed(format!("found: {}", names.join(", ")))) }
}
