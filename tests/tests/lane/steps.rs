//! Both cores step by step: the state after each event is the same, and the first event after which it is not is named.

use super::{Case, between, run_in, test_object};
use schedlab_base::{DurationNs, Prng};
use schedlab_sim::{Core, States};
use schedlab_tests::has_clang;
use std::cell::RefCell;
use std::rc::Rc;

/// The states of a run, with the text of the one that is wanted, and how many events were taken in the lane.
fn states(core: Core, name: &str, object: &[u8], case: &Case, wanted: Option<usize>) -> (States, u64) {
    let states = Rc::new(RefCell::new(States { wanted, ..States::default() }));
    let result = run_in(core, name, object, case, Some(states.clone()));
    (states.take(), result.lane_events)
}

/// The first line that differs, from both, around the place where it does.
fn difference(one: &str, other: &str) -> String {
    let differing = one.lines().zip(other.lines()).enumerate().find(|(_, (a, b))| a != b);
    let Some((number, (a, b))) = differing else { return "nothing but the number of lines".into() };
    let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(0);
    let near = |line: &str| line.chars().skip(at.saturating_sub(120)).take(240).collect::<String>();
    format!("line {number}:\n  general: {}\n  lane:    {}", near(a), near(b))
}

/// Compares the states after each event; returns how many of them the lane took.
fn compare_steps(core: Core, name: &str, object: &[u8], case: &Case) -> u64 {
    let (general, _) = states(Core::General, name, object, case, None);
    let (fast, events) = states(core, name, object, case, None);
    let pairs = general.digests.iter().zip(&fast.digests);
    if let Some(at) = pairs.into_iter().position(|(a, b)| a != b) {
        let [a, b] = [Core::General, core].map(|core| states(core, name, object, case, Some(at)).0.text);
        let event = a.lines().next().unwrap_or("").to_string();
        panic!("{name}, {case:?}, {core:?}: event {at}, {event}: {}", difference(&a, &b));
    }
    assert_eq!(general.digests.len(), fast.digests.len(), "{name}, {case:?}, {core:?}: the same events");
    events
}

#[test]
fn each_event_leaves_the_same_state_in_both_cores() {
    if !has_clang() || !cfg!(debug_assertions) {
        return;
    }
    let objects = ["simple", "fifo"].map(|name| (name, test_object(name)));
    let mut prng = Prng::stream(2, 0x6c61_6e65);
    for round in 0..24 {
        let (name, object) = &objects[round % 2];
        let (tasks, run) = (between(&mut prng, 1, 16), between(&mut prng, 1, 400));
        let sleep = between(&mut prng, 1, 3_000);
        let mut settings = Vec::new();
        if *name == "simple" {
            let slice = [20_000_000, 60_000, 7_000][prng.below(3) as usize];
            for (name, value) in [("fifo", prng.below(2)), ("slice", slice), ("odd", [0, 3][round / 2 % 2])] {
                settings.push((name.to_string(), value.to_string()));
            }
        }
        let case = Case {
            cpus: between(&mut prng, 2, 6) as usize,
            seed: prng.below(1000),
            workload: format!("periodic:tasks={tasks},run={run}us,sleep={sleep}us,ttime=1s"),
            length: DurationNs::from_us(between(&mut prng, 2_000, 12_000)),
            settings,
        };
        for core in [Core::Fast, Core::Alternating(2 + round as u32 % 7)] {
            let events = compare_steps(core, name, object, &case);
            assert!(events > 0, "{name}, {case:?}: the lane took no event");
        }
    }
}
