//! Schedulers with a planted fault each (`tests/objects/planted`): `schedlab hunt` finds it, and makes it small. The scheduler without
//! a fault shows none of it. Searches are counted in cases, so that a slow host finds the same.

use schedlab_lab::hunt::{Again, Case, CaseFile, Hunt, Hunted, Property, judge, keep};
use schedlab_lab::run::defect;
use schedlab_lab::scheduler::Scheduler;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Cases of a search.
const CASES: u64 = 160;

/// Cases of a search for a race, which case 1,113 shows.
const RACE_CASES: u64 = 1500;

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted");
    std::fs::create_dir_all(&folder).expect("the build's folder is writable");
    folder
}

fn object(name: &str) -> Scheduler {
    let path = folder().join(format!("{name}.bpf.o"));
    schedlab_tests::compile(&format!("planted/{name}"), "bpf", &path).expect("clang is installed");
    Scheduler::find(&path.display().to_string()).expect("just made")
}

fn hunt(new: &Scheduler, old: Option<&Scheduler>, properties: &[Property]) -> Hunted {
    hunt_for(CASES, new, old, properties)
}

fn hunt_for(cases: u64, new: &Scheduler, old: Option<&Scheduler>, properties: &[Property]) -> Hunted {
    defect::install();
    let (old, properties) = (old.cloned(), properties.to_vec());
    let hunt = Hunt { old, properties, runs: Some(cases), ..search(new) };
    hunt.run(&|_| {}).expect("the scheduler runs")
}

/// A search that ends with the first find.
fn search(new: &Scheduler) -> Hunt {
    Hunt {
        new: new.clone(),
        old: None,
        properties: Property::NAMED.to_vec(),
        seed: 1,
        runs: Some(CASES),
        budget: None,
        jobs: NonZeroUsize::new(2).expect("two"),
        kernel: None,
        first: true,
    }
}

/// A few of the faults, each by the property that it breaks: the find has at most 4 tasks and 2 CPUs, and its file is the same run.
#[test]
fn planted_faults_are_found_and_made_small() {
    for (name, property) in [
        ("class_never", Property::Lost),
        ("twice_inserted", Property::Stall),
        ("no_kick", Property::IdleBeside),
        ("hotplug_affinity", Property::Affinity),
        ("wrong_queue", Property::Lost),
    ] {
        let scheduler = object(name);
        let hunted = hunt(&scheduler, None, std::slice::from_ref(&property));
        let find = hunted.finds.first().unwrap_or_else(|| panic!("{name}: {:?}", hunted.far));
        assert_eq!(find.trouble.property, Some(property), "{name}: {:?}", find.trouble);
        let (tasks, cpus) = (find.case.scenario.tasks.len(), find.case.machine.cpu_count());
        assert!(tasks <= 4 && cpus <= 2, "{name}: {tasks} tasks on {cpus} CPUs");
        let path = keep(&folder(), find, &scheduler, None).expect("the folder is writable");
        let file = CaseFile::read(&path).expect("just written");
        file.check(&scheduler).expect("the same object");
        let again = judge(&scheduler, &file.case().expect("it is whole"));
        assert_eq!(again.trace_hash(), find.outcome.trace_hash(), "{name}");
        assert_eq!(again.trace_hash(), file.trace.as_deref(), "{name}");
        assert!(again.troubles.iter().any(|one| one.is_like(&file.trouble())), "{name}");
    }
}

/// Against itself a scheduler with a fault shows nothing, and against the one without a fault it shows it.
#[test]
fn a_difference_is_found_and_equal_schedulers_differ_in_nothing() {
    let (faulty, sound) = (object("wrong_queue"), object("sound"));
    let equal = hunt(&faulty, Some(&faulty), &Property::NAMED);
    assert!(equal.finds.is_empty(), "{:?}", equal.finds);
    let differ = hunt(&faulty, Some(&sound), &Property::NAMED);
    assert_eq!(differ.finds.len(), 1);
    let graver = [Property::Stall, Property::Affinity, Property::Lost, Property::Starved];
    let alone = hunt(&sound, None, &graver);
    assert!(alone.finds.is_empty(), "{:?}", alone.finds.first().map(|find| &find.trouble));
}

/// A condition on figures is a property like the others: found, made small, kept and shown again. Beside an older scheduler it is no
/// find where both meet it, and it may compare the two.
#[test]
fn a_condition_is_looked_for() {
    let scheduler = object("sound");
    let condition: Property = "context_switches > 100 && cpus > 1".parse().unwrap();
    let hunted = hunt(&scheduler, None, std::slice::from_ref(&condition));
    let find = hunted.finds.first().unwrap_or_else(|| panic!("{:?}", hunted.far));
    assert!(find.trouble.words.ends_with(", cpus was 2"), "{:?}", find.trouble);
    let file = CaseFile::read(&keep(&folder(), find, &scheduler, None).unwrap()).unwrap();
    let case = file.case().unwrap();
    let record = judge(&scheduler, &case).record.expect("it runs");
    let again = Again::new(&case, file.trouble().property).troubles(&record);
    assert_eq!((again, file.compares()), (vec![file.trouble()], false));

    assert!(hunt_for(32, &scheduler, Some(&scheduler), &[condition]).finds.is_empty());
    let compared: Property =
        "idle_beside_waiting_ns > 20ms + 2 * old.idle_beside_waiting_ns".parse().unwrap();
    let differ = hunt(&object("no_kick"), Some(&scheduler), std::slice::from_ref(&compared));
    let find = differ.finds.first().unwrap_or_else(|| panic!("{:?}", differ.far));
    let path = keep(&folder(), find, &object("no_kick"), Some(&scheduler)).unwrap();
    assert!(CaseFile::read(&path).unwrap().compares());

    let wrong = Hunt { properties: vec!["contextswitches > 1".parse().unwrap()], ..search(&scheduler) };
    let said = wrong.run(&|_| {}).unwrap_err().text;
    assert!(said.contains("a figure 'contextswitches' (did you mean 'context_switches'?)"), "{said}");
}

/// Two callbacks at a time lose a step of the count; one at a time never does.
#[test]
fn a_race_is_found_by_interleaving() {
    let (faulty, sound) = (object("lost_count"), object("sound"));
    let hunted = hunt_for(RACE_CASES, &faulty, Some(&sound), &[Property::Lost, Property::Starved]);
    let find = hunted.finds.first().unwrap_or_else(|| panic!("{:?}", hunted.far));
    assert!(find.case.interleave.is_some(), "{:?}", find.trouble);
    let whole = Case { interleave: None, ..find.case.clone() };
    let alone = judge(&faulty, &whole);
    assert!(!alone.troubles.iter().any(|one| one.is_like(&find.trouble)), "{:?}", alone.troubles);
}

/// What is found depends on the seed and the number of cases, not on how many run at once.
#[test]
fn workers_do_not_change_what_is_found() {
    let scheduler = object("no_kick");
    let found = |jobs: usize| {
        let hunt = Hunt {
            new: scheduler.clone(),
            old: None,
            properties: vec![Property::IdleBeside, Property::Stall],
            seed: 7,
            runs: Some(64),
            budget: None,
            jobs: NonZeroUsize::new(jobs).expect("some"),
            kernel: None,
            first: false,
        };
        let hunted = hunt.run(&|_| {}).expect("the scheduler runs");
        (hunted.far, hunted.finds.into_iter().map(|find| find.case).collect::<Vec<_>>())
    };
    assert_eq!(found(1), found(3));
}
