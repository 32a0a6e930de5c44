//! Seeded random runs of every shipped scheduler and of the fair class, with all checkers. No task is lost or on two
//! CPUs, affinity is kept, and state times sum up. No scheduler is ejected, and no task waits while all its CPUs idle.
//! A failure is shrunk and kept as a case, with the command that repeats it.
//!
//! `SCHEDLAB_SWARM_COUNT` is the number of seeds (20), `SCHEDLAB_SWARM_SEED` the first one (1), and
//! `SCHEDLAB_SWARM_SCHEDULERS` names some of the schedulers, or object files (`a.bpf.o`): `make swarm` runs 1,000.
#![allow(clippy::print_stdout, reason = "what took how long")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use schedlab_lab::hunt::{Case, Find, Property, Trouble, judge, keep, shrink, tunables};
use schedlab_lab::run::defect;
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::shipped::SCHEDULERS;
use schedlab_workload::file;

fn variable(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: give a whole number"))
}

/// The fair class and the shipped schedulers, or those of them that are asked for.
fn schedulers() -> Vec<Scheduler> {
    let Ok(wanted) = std::env::var("SCHEDLAB_SWARM_SCHEDULERS") else {
        return ["eevdf"].into_iter().chain(SCHEDULERS.iter().map(|one| one.name)).map(found).collect();
    };
    wanted.split(',').map(found).collect()
}

/// A shipped scheduler, or an author's object, with the path by which a command finds it from anywhere. Paths are also looked for
/// from the tree's root, because tests run in a folder of it.
fn found(name: &str) -> Scheduler {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the tree");
    let path = [PathBuf::from(name), root.join(name)].into_iter().find(|path| path.is_file());
    let place = path.map(|path| path.canonicalize().expect("it is there").display().to_string());
    Scheduler::find(place.as_deref().unwrap_or(name))
        .unwrap_or_else(|error| panic!("SCHEDLAB_SWARM_SCHEDULERS: {error}"))
}

/// What no run may show: a scheduler is ejected or forgets a task, a checker fails, a case is refused.
fn trouble(scheduler: &Scheduler, case: &Case) -> Option<Trouble> {
    let grave = [None, Some(Property::Stall), Some(Property::Affinity), Some(Property::Lost)];
    judge(scheduler, case).troubles.into_iter().find(|one| grave.contains(&one.property))
}

/// Where files of failures go.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swarm");
    std::fs::create_dir_all(&folder).expect("the build's folder is writable");
    folder
}

/// Shrinks a failure, writes it down as a case and says how to repeat it.
fn explain(scheduler: &Scheduler, case: Case, first: Trouble) -> String {
    let from = (case.scenario.tasks.len(), case.machine.cpu_count());
    let (small, last) = shrink(case, first.clone(), &mut |case| trouble(scheduler, case));
    let outcome = judge(scheduler, &small);
    let find = Find { case: small, trouble: last, outcome, runs: 0, from };
    let path = keep(&folder(), &find, scheduler, None).expect("the build's folder is writable");
    format!(
        "{}, seed {}: {}: {}\n  shrunk from {} tasks to {} on {} CPUs: {}\n  schedlab sim --case {}",
        scheduler.name,
        find.case.seed,
        first.kind,
        first.words,
        from.0,
        find.case.scenario.tasks.len(),
        find.case.machine.cpu_count(),
        find.trouble.words,
        path.display(),
    )
}

/// Runs the seeds on as many threads as there are CPUs; what went wrong, at most five explained.
fn swarm(scheduler: &Scheduler, first: u64, count: u64, draw: &(dyn Fn(u64) -> Case + Sync)) -> Vec<String> {
    defect::install();
    let next = AtomicU64::new(first);
    let seeds =
        || std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|s| *s < first + count));
    let work = || {
        let mut failed = Vec::new();
        for seed in seeds() {
            let case = draw(seed);
            if let Some(trouble) = trouble(scheduler, &case) {
                failed.push((case, trouble));
            }
        }
        failed
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed: Vec<(Case, Trouble)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("panics are caught")).collect()
    });
    failed.sort_by_key(|(case, _)| case.seed);
    let (total, shown) = (failed.len(), 5);
    let mut words: Vec<String> =
        failed.into_iter().take(shown).map(|(case, trouble)| explain(scheduler, case, trouble)).collect();
    if total > shown {
        words.push(format!("{}: {total} of {count} seeds fail", scheduler.name));
    }
    words
}

#[test]
fn every_scheduler_survives_random_load() {
    let (first, count) = (variable("SCHEDLAB_SWARM_SEED", 1), variable("SCHEDLAB_SWARM_COUNT", 20));
    let mut failures = Vec::new();
    for scheduler in schedulers() {
        let begin = std::time::Instant::now();
        let tunables = tunables(&scheduler).expect("an object");
        let found = swarm(&scheduler, first, count, &|seed| Case::draw(seed, &tunables));
        println!("{}: {count} seeds from {first}, {:.1} s", scheduler.name, begin.elapsed().as_secs_f64());
        failures.extend(found);
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

/// The same loads in trees of groups that change all the time.
#[test]
fn every_scheduler_survives_groups() {
    let (first, count) = (variable("SCHEDLAB_SWARM_SEED", 1), variable("SCHEDLAB_SWARM_COUNT", 20));
    let mut failures = Vec::new();
    for scheduler in schedulers() {
        let tunables = tunables(&scheduler).expect("an object");
        failures.extend(swarm(&scheduler, first, count, &|seed| Case::draw(seed, &tunables).in_groups()));
        println!("{} in groups: {count} seeds from {first}", scheduler.name);
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

/// A drawn tree is written down as it is, and goes when the failure has nothing to do with it.
#[test]
fn groups_are_kept_and_shrunk() {
    let path = folder().join("stall-in-groups.bpf.o");
    schedlab_tests::compile("stall", "bpf", &path).expect("clang is installed");
    let scheduler = Scheduler::find(&path.display().to_string()).expect("just made");
    let cases = (1..60).map(|seed| Case::draw(seed, &[]).in_groups());
    let cases = cases.filter(|case| case.scenario.groups.len() > 3);
    let (first, case) =
        cases.filter_map(|case| Some((trouble(&scheduler, &case)?, case))).next().expect("it stalls");
    let text = file::write(&case.scenario);
    let written = file::parse(&text, "written").expect("it is readable");
    assert_eq!((written.groups.len(), file::write(&written)), (case.scenario.groups.len(), text));
    let (small, last) = shrink(case, first.clone(), &mut |case| trouble(&scheduler, case));
    assert!(small.scenario.groups.is_empty() && last.kind == first.kind, "{small:?}");
}

/// No CPU of the fair class idles beside a task that it may run, for longer than the kernel's own balancing intervals allow.
#[test]
fn every_flat_machine_is_balanced() {
    let (first, count) = (variable("SCHEDLAB_SWARM_SEED", 1), variable("SCHEDLAB_SWARM_COUNT", 300).max(300));
    let found = swarm(&found("eevdf"), first, count, &Case::draw_flat);
    println!("eevdf on flat machines: {count} seeds from {first}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The same seed gives the same run, also with other runs beside it.
#[test]
fn seeds_repeat() {
    let scheduler = found(SCHEDULERS[0].name);
    for seed in 1..6 {
        let case = Case::draw(seed, &[]);
        let [first, second] = [0, 1].map(|_| judge(&scheduler, &case));
        assert!(first.trace_hash().is_some(), "seed {seed}: {:?}", first.troubles);
        assert_eq!(
            (first.trace_hash(), &first.troubles),
            (second.trace_hash(), &second.troubles),
            "seed {seed}"
        );
    }
}

/// A scheduler that keeps every task is found out, and little is left of the load that shows it.
#[test]
fn faulty_schedulers_are_found_and_shrunk() {
    let object = |name: &str| {
        let path = folder().join(format!("{name}.bpf.o"));
        schedlab_tests::compile(name, "bpf", &path).expect("clang is installed");
        Scheduler::find(&path.display().to_string()).expect("just made")
    };
    for (name, kind) in [("stall", "lost task"), ("bad_dsq", "error"), ("complains", "error_bpf")] {
        let scheduler = object(name);
        let cases = (1..60).map(|seed| Case::draw(seed, &[])).filter(|case| case.scenario.tasks.len() > 8);
        let failing = cases.filter_map(|case| Some((trouble(&scheduler, &case)?, case))).next();
        let (first, case) = failing.unwrap_or_else(|| panic!("no seed finds {name} out"));
        assert_eq!(first.kind, kind, "{name}: {first:?}");
        let (small, last) = shrink(case.clone(), first, &mut |case| trouble(&scheduler, case));
        // One task, and for `stall` one that runs in its place: the kernel itself places tasks on idle CPUs.
        assert!(small.scenario.tasks.len() <= 2 && small.machine.cpu_count() == 1, "{name}: {small:?}");
        assert!(small.settings.is_empty() && last.kind == kind);
        // What is written down is the same run.
        let written = file::parse(&file::write(&small.scenario), "written").expect("it is readable");
        let again = Case { scenario: written, ..small };
        assert_eq!(trouble(&scheduler, &again).map(|found| found.kind).as_deref(), Some(kind), "{name}");
    }
}
