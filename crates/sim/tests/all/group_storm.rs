//! Trees of groups that a hostile workload makes: many, deep, and changed all the time.

use crate::common::{Minimal, config, fair};
use schedlab_base::Prng;
use schedlab_sim::{Class, Config, run};
use schedlab_workload::{Scenario, file};

/// Chains of groups, each `depth` deep, and tasks at their ends. One task moves the others, and makes, removes and changes groups,
/// each microsecond.
fn storm(seed: u64, (chains, depth): (u64, u64), (tasks, lines): (u64, usize)) -> Scenario {
    let mut prng = Prng::new(seed);
    let path = |chain: u64, depth: u64| {
        let below: String = (1..depth).map(|level| format!("/n{level}")).collect();
        format!("c{chain}{below}")
    };
    let mut text = "name = \"storm\"\nend = \"20ms\"\n".to_string();
    for chain in 0..chains {
        for level in 1..=depth {
            let later = level == depth && chain > 0 && chain % 2 == 0;
            text += &format!("[[groups]]\nname = \"{}\"\nlater = {later}\n", path(chain, level));
        }
    }
    text += "[programs]\nhog = [\"repeat forever\", \"run 200us\", \"sleep 50us\", \"done\"]\nstorm = [\n";
    for _ in 0..lines {
        let mut below = |end: u64| prng.below(end);
        let end = path(below(chains), depth);
        let some = path(below(chains), 1 + below(depth));
        text += &match below(8) {
            0..3 => format!("\"group t/{} {end}\",\n", below(tasks)),
            3 => format!("\"cgroup {} make\",\n", path(2 * (1 + below((chains - 1) / 2)), depth)),
            4 => format!("\"cgroup {} remove\",\n", path(1 + below(chains - 1), depth)),
            5 => format!("\"cgroup {some} weight {}\",\n", 1 + below(10_000)),
            6 => format!("\"cgroup {some} max {}ms/{}ms\",\n", 1 + below(3), 1 + below(5)),
            _ => format!("\"cgroup {some} cpus {}\",\n", ["0", "1", "0-1", "0-3", "3"][below(5) as usize]),
        };
        text += "\"run 1us\",\n";
    }
    text += "]\n[[tasks]]\nname = \"storm\"\nprogram = \"storm\"\n";
    text += &format!(
        "[[tasks]]\nname = \"t\"\nprogram = \"hog\"\ncount = {tasks}\ngroup = \"{}\"\n",
        path(0, depth)
    );
    file::parse(&text, "storm.toml").unwrap()
}

#[test]
fn a_storm_of_changes_keeps_all_invariants() {
    for seed in 1..=4 {
        let scenario = storm(seed, (5, 4 + 20 * (seed % 2)), (12, 1_500));
        let result =
            run::<Minimal>(&Config { checkers: true, ..config(4, seed) }, &scenario, Class::Fair).unwrap();
        let moved = result.tasks.iter().filter(|task| task.cpu_time.0 > 0).count();
        assert!(moved > 6, "seed {seed}: tasks get CPU time in the storm");
    }
}

/// A tree of 10,000 groups, 64 deep. What took time in proportion to the groups for each change took minutes here.
#[test]
fn ten_thousand_groups_64_deep_are_a_run_like_others() {
    let scenario = storm(1, (157, 64), (50, 4_000));
    assert!(scenario.groups.len() > 10_000);
    let result = fair(4, &scenario);
    assert_eq!(result.groups.len(), scenario.groups.len());
}

#[test]
fn more_queues_than_there_is_room_for_are_refused() {
    let groups: String = (0..5_000).map(|n| format!("[[groups]]\nname = \"g{n}\"\n")).collect();
    let text = format!(
        "name = \"wide\"\nend = \"1ms\"\n{groups}[programs]\nhog = [\"run 1ms\"]\n[[tasks]]\nname = \"t\"\nprogram = \"hog\"\n"
    );
    let scenario = file::parse(&text, "wide.toml").unwrap();
    let error = run::<Minimal>(&config(1_024, 1), &scenario, Class::Fair)
        .map(|_| ())
        .expect_err("5,120,000 queues")
        .to_string();
    assert_eq!(
        error,
        "wide: 5000 groups on 1024 CPUs: at most 4194304 in all, one for each group and CPU; take fewer groups, or at most 838 CPUs"
    );
}
