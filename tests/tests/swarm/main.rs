//! Seeded random runs of every shipped scheduler and of the fair class, with all checkers. No task is lost or on two
//! CPUs, affinity is kept, and state times sum up. No scheduler is ejected, and no task waits while all its CPUs idle.
//! A failure is shrunk and written down as a workload file and a machine file, with the command that repeats it.
//!
//! `SCHEDLAB_SWARM_COUNT` is the number of seeds (20), `SCHEDLAB_SWARM_SEED` the first one (1), and
//! `SCHEDLAB_SWARM_SCHEDULERS` names some of the schedulers, or object files (`a.bpf.o`): `make swarm` runs 1,000.
#![allow(clippy::print_stdout, reason = "what took how long")]

mod draw;
mod judge;
mod shrink;
mod tunables;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use draw::Case;
use judge::{Scheduler, Trouble, judge};
use schedlab_base::Machine;
use schedlab_tests::shipped;
use schedlab_workload::file;

fn variable(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: give a whole number"))
}

/// The fair class and the shipped schedulers, or those of them that are asked for.
fn schedulers() -> Vec<Scheduler> {
    let mut all = vec![("eevdf".to_string(), None)];
    all.extend(shipped().into_iter().map(|(name, object)| (name, Some(object))));
    let Ok(wanted) = std::env::var("SCHEDLAB_SWARM_SCHEDULERS") else { return all };
    let wanted: Vec<&str> = wanted.split(',').collect();
    let one = |name: &str| match all.iter().find(|(shipped, _)| shipped == name) {
        Some(shipped) => shipped.clone(),
        None => object_file(name),
    };
    wanted.into_iter().map(one).collect()
}

/// An author's object, with the path by which a command finds it from anywhere. Paths are also looked for from the tree's root,
/// because tests run in a folder of it.
fn object_file(name: &str) -> Scheduler {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the tree");
    let path = [PathBuf::from(name), root.join(name)].into_iter().find(|path| path.is_file());
    let path = path.unwrap_or_else(|| {
        panic!("SCHEDLAB_SWARM_SCHEDULERS: {name} is neither a shipped scheduler nor an object file")
    });
    let path = path.canonicalize().expect("it is there");
    let object = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (path.display().to_string(), Some(object))
}

/// Where files of failures go.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swarm");
    std::fs::create_dir_all(&folder).expect("the build's folder is writable");
    folder
}

/// A machine file: the topology and the tick; costs are the default ones.
fn machine_file(machine: &Machine) -> String {
    let cpu = |cpu: &schedlab_base::Cpu| {
        format!("  {{ core = {}, llc = {}, node = {} }},\n", cpu.core, cpu.llc, cpu.node)
    };
    let cpus: String = machine.cpus.iter().map(cpu).collect();
    format!("[machine]\nname = {:?}\nhz = {}\ncpus = [\n{cpus}]\n", machine.name, machine.hz)
}

/// Shrinks a failure, writes it down and says how to repeat it.
fn explain(scheduler: &Scheduler, case: Case, trouble: Trouble) -> String {
    let tasks = case.scenario.tasks.len();
    let (small, last) = shrink::shrink(case, trouble.clone(), &mut |case| judge(scheduler, case).err());
    let name = Path::new(&scheduler.0).file_name().unwrap_or_default().display().to_string();
    let path = |end: &str| folder().join(format!("{name}-{}{end}.toml", small.seed));
    let (workload, machine) = (path(""), path("-machine"));
    std::fs::write(&workload, file::write(&small.scenario)).expect("the build's folder is writable");
    std::fs::write(&machine, machine_file(&small.machine)).expect("the build's folder is writable");
    let settings: String =
        small.settings.iter().map(|(name, value)| format!(" --set {name}={value}")).collect();
    format!(
        "{}, seed {}: {}: {}\n  shrunk from {tasks} tasks to {} on {} CPUs: {}\n  schedlab sim -s {} -w {} -m {} --seed {}{settings} --checkers",
        scheduler.0,
        small.seed,
        trouble.kind,
        trouble.words,
        small.scenario.tasks.len(),
        small.machine.cpu_count(),
        last.words,
        scheduler.0,
        workload.display(),
        machine.display(),
        small.seed,
    )
}

/// Runs the seeds on as many threads as there are CPUs; what went wrong, at most five explained.
fn swarm(scheduler: &Scheduler, first: u64, count: u64, draw: &(dyn Fn(u64) -> Case + Sync)) -> Vec<String> {
    let next = AtomicU64::new(first);
    let seeds =
        || std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|s| *s < first + count));
    let work = || {
        let mut failed = Vec::new();
        for seed in seeds() {
            let case = draw(seed);
            if let Err(trouble) = judge(scheduler, &case) {
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
        words.push(format!("{}: {total} of {count} seeds fail", scheduler.0));
    }
    words
}

#[test]
fn every_scheduler_survives_random_load() {
    let (first, count) = (variable("SCHEDLAB_SWARM_SEED", 1), variable("SCHEDLAB_SWARM_COUNT", 20));
    let mut failures = Vec::new();
    for scheduler in schedulers() {
        let begin = std::time::Instant::now();
        let object = scheduler.1.as_deref();
        let tunables = object.map_or_else(Vec::new, |object| tunables::tunables(&scheduler.0, object));
        let found = swarm(&scheduler, first, count, &|seed| Case::draw(seed, &tunables));
        println!("{}: {count} seeds from {first}, {:.1} s", scheduler.0, begin.elapsed().as_secs_f64());
        failures.extend(found);
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

/// No CPU of the fair class idles beside a task that it may run, for longer than the kernel's own balancing intervals allow.
#[test]
fn every_flat_machine_is_balanced() {
    let (first, count) = (variable("SCHEDLAB_SWARM_SEED", 1), variable("SCHEDLAB_SWARM_COUNT", 300).max(300));
    let found = swarm(&("eevdf".to_string(), None), first, count, &Case::draw_flat);
    println!("eevdf on flat machines: {count} seeds from {first}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The same seed gives the same run, also with other runs beside it.
#[test]
fn seeds_repeat() {
    let (name, object) = shipped().remove(0);
    let scheduler = (name, Some(object));
    for seed in 1..6 {
        let case = Case::draw(seed, &[]);
        assert_eq!(judge(&scheduler, &case), judge(&scheduler, &case), "seed {seed}");
    }
}

/// A scheduler that keeps every task is found out, and little is left of the load that shows it.
#[test]
fn faulty_schedulers_are_found_and_shrunk() {
    let object = |name: &str| {
        let path = folder().join(format!("{name}.bpf.o"));
        schedlab_tests::compile(name, "bpf", &path).expect("clang is installed");
        (name.to_string(), Some(std::fs::read(&path).expect("just made")))
    };
    for (name, kind) in [("stall", "lost task"), ("bad_dsq", "error"), ("complains", "error_bpf")] {
        let scheduler = object(name);
        let cases = (1..60).map(|seed| Case::draw(seed, &[])).filter(|case| case.scenario.tasks.len() > 8);
        let failing = cases.filter_map(|case| Some((judge(&scheduler, &case).err()?, case))).next();
        let (trouble, case) = failing.unwrap_or_else(|| panic!("no seed finds {name} out"));
        assert_eq!(trouble.kind, kind, "{name}: {trouble:?}");
        let (small, last) = shrink::shrink(case.clone(), trouble, &mut |case| judge(&scheduler, case).err());
        // One task, and for `stall` one that runs in its place: the kernel itself places tasks on idle CPUs.
        assert!(small.scenario.tasks.len() <= 2 && small.machine.cpu_count() == 1, "{name}: {small:?}");
        assert!(small.settings.is_empty() && last.kind == kind);
        // What is written down is the same run.
        let written = file::parse(&file::write(&small.scenario), "written").expect("it is readable");
        let again = Case { scenario: written, ..small };
        assert_eq!(judge(&scheduler, &again).err().map(|t| t.kind).as_deref(), Some(kind), "{name}");
    }
}
