//! Groups in the fair class: shares, quotas, moves and changes during a run.

use crate::common::{Minimal, config, fair};
use schedlab_base::Prng;
use schedlab_sim::{Class, Config, RunResult, SimError, run};
use schedlab_workload::{Scenario, file};

/// Hogs in groups. A row is a path, the keys of its section, and how many hogs it has.
fn hogs(end: &str, changes: &str, groups: &[(&str, &str, u32)]) -> Scenario {
    let mut text = format!("name = \"groups\"\nend = \"{end}\"\nchanges = [{changes}]\n");
    for (path, keys, _) in groups {
        text += &format!("[[groups]]\nname = \"{path}\"\n{keys}\n");
    }
    text += "[programs]\nhog = [\"repeat forever\", \"run 1ms\", \"done\"]\n";
    for (path, _, count) in groups.iter().filter(|group| group.2 > 0) {
        text += &format!(
            "[[tasks]]\nname = \"{path}\"\nprogram = \"hog\"\ncount = {count}\ngroup = \"{path}\"\n"
        );
    }
    file::parse(&text, "groups.toml").unwrap()
}

/// The share of the CPU time that was used, by the first part of the names of tasks.
fn share<S>(result: &RunResult<S>, group: &str) -> f64 {
    let used = |name: &str| -> u64 {
        let of = |task: &&schedlab_trace::TaskRecord| {
            task.name == name || task.name.starts_with(&format!("{name}/"))
        };
        result.tasks.iter().filter(of).map(|task| task.cpu_time.0).sum()
    };
    let all: u64 = result.tasks.iter().map(|task| task.cpu_time.0).sum();
    used(group) as f64 / all as f64
}

fn assert_shares<S>(result: &RunResult<S>, wanted: &[(&str, f64)]) {
    for &(group, share_wanted) in wanted {
        let found = share(result, group);
        assert!(
            (found - share_wanted).abs() < 0.01,
            "{group}: {found:.3}, not {share_wanted}: {:?}",
            result.tasks
        );
    }
}

const WEIGHTS: [(&str, &str, u32); 3] =
    [("a", "cpu_weight = 100", 3), ("b", "cpu_weight = 300", 1), ("c", "cpu_weight = 600", 2)];

#[test]
fn groups_share_as_a_kernel_was_measured_to() {
    // Linux 7.3.4: 0.100, 0.300, 0.600 on one CPU, 0.128, 0.180, 0.691 on two.
    let scenario = hogs("5s", "", &WEIGHTS);
    assert_shares(&fair(1, &scenario), &[("a", 0.100), ("b", 0.300), ("c", 0.600)]);
    assert_shares(&fair(2, &scenario), &[("a", 0.128), ("b", 0.180), ("c", 0.691)]);
}

#[test]
fn a_group_shares_what_the_group_above_has() {
    let nested = [("a/x", "", 2), ("a/y", "cpu_weight = 400", 1), ("b", "", 3)];
    assert_shares(&fair(1, &hogs("5s", "", &nested)), &[("a/x", 0.1), ("a/y", 0.4), ("b", 0.5)]);
    let deep = [("a/b/c", "", 1), ("d", "cpu_weight = 50", 2)];
    assert_shares(&fair(1, &hogs("5s", "", &deep)), &[("a/b/c", 2.0 / 3.0), ("d", 1.0 / 3.0)]);
}

#[test]
fn an_idle_group_has_what_the_others_leave() {
    let scenario = hogs("5s", "", &[("b", "", 3), ("c", "cpu_idle = true", 2)]);
    assert_shares(&fair(1, &scenario), &[("b", 0.997), ("c", 0.003)]);
}

#[test]
fn a_changed_weight_counts_from_then_on() {
    let groups = [("a", "", 1), ("b", "", 1)];
    let late = hogs("4s", "\"2s cgroup a weight 300\"", &groups);
    assert_shares(&fair(1, &late), &[("a", 0.625), ("b", 0.375)]);
    // A group that is idle takes no weight, and has that of a new one when it no longer is. Its task has the new weight from its
    // next turn on, which comes late.
    let idle = "\"0ms cgroup a idle 1\", \"1ms cgroup a weight 900\", \"2ms cgroup a idle 0\"";
    let found = share(&fair(1, &hogs("4s", idle, &groups)), "a");
    assert!((0.47..0.5).contains(&found), "{found}");
}

#[test]
fn a_task_that_moves_counts_where_it_is() {
    let mut changes = String::new();
    for step in 0..40 {
        let to = if step % 2 == 0 { "b" } else { "a" };
        changes += &format!("\"{}ms group a/0 {to}\", ", 100 * (step + 1));
    }
    let scenario = hogs("4100ms", &changes, &[("a", "", 2), ("b", "", 1)]);
    let result = fair(1, &scenario);
    // A quarter beside the other one in a, a quarter beside the one in b.
    let moved = result.tasks.iter().find(|task| task.name == "a/0").unwrap().share;
    assert!((moved - 0.25).abs() < 0.02, "{:?}", result.tasks);
}

#[test]
fn groups_come_and_go() {
    let text = r#"name = "life"
end = "300ms"
changes = ["10ms cgroup late make", "20ms group hog late", "100ms cgroup late remove", "150ms group other late"]
[[groups]]
name = "late"
cpu_weight = 300
later = true
[programs]
hog = ["repeat 200", "run 1ms", "done"]
[[tasks]]
name = "hog"
program = "hog"
[[tasks]]
name = "other"
program = "hog"
"#;
    let result = fair(1, &file::parse(text, "life.toml").unwrap());
    // Three quarters from 20 ms on, also while the group waits for its last task to end; the other one cannot come into it.
    let hog = result.tasks.iter().find(|task| task.name == "hog").unwrap();
    assert!((195..=200).contains(&(hog.cpu_time.0 / 1_000_000)), "{:?}", result.tasks);
    assert!(result.warnings.is_empty(), "{:?}", result.warnings);
}

/// What a hog with this quota has of `cpus` CPUs in 3 s, in ms.
fn limited(quota: &str, cpus: usize, more: &[(&str, &str, u32)]) -> RunResult<Minimal> {
    let keys = format!("cpu_max = \"{quota}\"");
    let mut groups = vec![("q", keys.as_str(), 1)];
    groups.extend(more);
    fair(cpus, &hogs("3s", "", &groups))
}

#[test]
fn a_quota_holds_as_a_kernel_was_measured_to() {
    // Linux 7.3.4 on one CPU: the time used in 3 s, in ms.
    for (quota, used) in [(5, 156), (20, 612), (50, 1_540), (80, 2_429)] {
        for cpus in [1, 2] {
            let result = limited(&format!("{quota}ms/100ms"), cpus, &[]);
            let found = result.tasks[0].cpu_time.0 as f64 / 1e6;
            assert!((found / f64::from(used) - 1.0).abs() < 0.03, "{quota}: {found}");
            assert!(result.warnings.is_empty(), "{:?}", result.warnings);
        }
    }
}

#[test]
fn a_burst_uses_what_was_saved() {
    let text = |burst: &str| {
        format!(
            r#"name = "burst"
end = "5s"
[[groups]]
name = "q"
cpu_max = "20ms/100ms"
{burst}
[programs]
waves = ["repeat forever", "run 30ms", "sleep 290ms", "done"]
[[tasks]]
name = "waves"
program = "waves"
group = "q"
"#
        )
    };
    let run = |burst: &str| fair(1, &file::parse(&text(burst), "burst.toml").unwrap());
    let (without, with) = (run(""), run("cpu_max_burst = \"20ms\""));
    let used = |result: &RunResult<Minimal>| result.tasks[0].cpu_time.0 / 1_000_000;
    assert!(used(&with) >= 480 && used(&without) + 50 < used(&with), "{} {}", used(&with), used(&without));
}

#[test]
fn many_queues_share_a_quota() {
    let scenario = hogs("3s", "", &[("q", "cpu_max = \"120ms/100ms\"", 4), ("free", "", 2)]);
    let result = fair(4, &scenario);
    let used: u64 =
        result.tasks.iter().filter(|task| task.name.starts_with("q/")).map(|task| task.cpu_time.0).sum();
    assert!((used as f64 / 3.6e9 - 1.0).abs() < 0.03, "{:?}", result.tasks);
    // What is below a throttled group is throttled.
    let nested = hogs(
        "2s",
        "",
        &[("q", "cpu_max = \"30ms/100ms\"", 0), ("q/a", "", 2), ("q/b", "", 1), ("free", "", 1)],
    );
    let result = fair(2, &nested);
    // A pool is full at the start, so there is a period more than the run has.
    let used: u64 =
        result.tasks.iter().filter(|task| task.name.starts_with("q/")).map(|task| task.cpu_time.0).sum();
    assert!((590..=640).contains(&(used / 1_000_000)), "{:?}", result.tasks);
}

#[test]
fn a_quota_can_be_given_and_taken() {
    let groups = [("q", "", 1), ("free", "", 1)];
    let given = hogs("4s", "\"1s cgroup q max 10ms/100ms\", \"3s cgroup q max max\"", &groups);
    assert_shares(&fair(1, &given), &[("q", (0.5 + 0.2 + 0.5) / 4.0)]);
}

#[test]
fn a_set_of_cpus_bounds_what_tasks_ask_for() {
    let text = r#"name = "sets"
end = "1s"
changes = ["500ms cgroup a cpus 2-3"]
[[groups]]
name = "a"
cpus = [0, 1]
[programs]
hog = ["repeat forever", "run 1ms", "done"]
[[tasks]]
name = "asks"
program = "hog"
cpus = [1, 3]
group = "a"
[[tasks]]
name = "takes"
program = "hog"
group = "a"
count = 3
[[tasks]]
name = "free"
program = "hog"
cpus = [2]
"#;
    let result = fair(4, &file::parse(text, "sets.toml").unwrap());
    let used: Vec<u64> = result.tasks.iter().map(|task| task.cpu_time.0 / 1_000_000).collect();
    // CPUs 0 and 1 first, then CPU 3 for four tasks, and CPU 2 for those of them that may use it, beside the free one.
    let of_group: u64 = used[..4].iter().sum();
    assert!((1_600..=1_850).contains(&of_group) && (150..=350).contains(&(1_000 - used[4])), "{used:?}");
}

#[test]
fn a_set_without_a_cpu_of_the_machine_is_refused() {
    let refused = run::<Minimal>(&config(2, 1), &hogs("1s", "", &[("a", "cpus = [7]", 1)]), Class::Fair);
    let refused = refused.map(|result| result.tasks);
    assert!(
        matches!(&refused, Err(SimError::Refused(text)) if text.contains("group a: none of its CPUs exists")),
        "{refused:?}"
    );
}

#[test]
fn older_kernels_are_refused_by_name() {
    let mut config = config(1, 1);
    config.machine.kernel.version = "7.2".parse().unwrap();
    let refused = run::<Minimal>(&config, &hogs("1s", "", &WEIGHTS), Class::Fair).map(|result| result.tasks);
    assert!(
        matches!(&refused, Err(SimError::Refused(text)) if text.contains("7.2 picks group by group")),
        "{refused:?}"
    );
}

/// Trees, quotas, moves and changes by chance: the checkers find no impossible state, and a run is the same twice.
#[test]
fn whatever_happens_to_groups_the_state_is_possible() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let paths = ["a", "b/x", "b/y/z", "c"];
        let mut groups = Vec::new();
        let keys: Vec<String> = paths
            .iter()
            .map(|_| match prng.below(4) {
                0 => format!("cpu_max = \"{}ms/{}ms\"", 1 + prng.below(20), 5 + prng.below(40)),
                1 => format!("cpu_weight = {}", 1 + prng.below(10_000)),
                2 => format!("cpus = [0, {}]", 1 + prng.below(3)),
                _ => "cpu_idle = true".to_string(),
            })
            .collect();
        for (path, keys) in paths.iter().zip(&keys) {
            groups.push((*path, keys.as_str(), 1 + prng.below(3) as u32));
        }
        let mut changes = String::new();
        for at in 0..30 {
            let path = paths[prng.below(4) as usize];
            let task = paths[prng.below(4) as usize];
            let task = if groups.iter().any(|group| group.0 == task && group.2 > 1) {
                format!("{task}/0")
            } else {
                task.into()
            };
            let what = match prng.below(7) {
                0 => format!("cgroup {path} max {}ms/{}ms", 1 + prng.below(20), 5 + prng.below(40)),
                1 => format!("cgroup {path} max max"),
                2 => format!("cgroup {path} weight {}", 1 + prng.below(1_000)),
                3 => format!("cgroup {path} idle {}", prng.below(2)),
                4 => format!(
                    "cpu {} {}",
                    1 + prng.below(3),
                    if prng.chance(1, 2) { "offline" } else { "online" }
                ),
                5 => format!("nice {task} {}", prng.below(20)),
                _ => format!("group {task} {path}"),
            };
            changes += &format!("\"{}ms {what}\", ", 10 * (at + 1));
        }
        let scenario = hogs("400ms", &changes, &groups);
        let config: Config = config(4, seed);
        let run = || {
            run::<Minimal>(&config, &scenario, Class::Fair)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
        };
        let (one, two) = (run(), run());
        assert_eq!((one.trace_hash, &one.tasks), (two.trace_hash, &two.tasks), "seed {seed}");
    }
}

#[test]
fn a_scheduler_that_does_not_learn_of_settings_is_warned_about() {
    let of = |keys: &str, changes: &str| {
        let scenario = hogs("50ms", changes, &[("a", keys, 1), ("b", "", 1)]);
        let result = run(&config(1, 1), &scenario, Class::Ext(Minimal::new())).unwrap();
        result.warnings.into_iter().map(|warning| warning.text).collect::<Vec<_>>()
    };
    assert!(of("", "").is_empty());
    let text = of("cpu_weight = 300\ncpu_idle = true", "\"10ms cgroup b max 5ms\"").remove(0);
    for part in
        ["cpu.weight of group a (no ops.cgroup_set_weight())", "cpu.max of group b", "cpu.idle of group a"]
    {
        assert!(text.contains(part), "{text}");
    }
    let scenario = hogs("50ms", "", &[("a", "cpu_weight = 300", 1)]);
    assert!(fair(1, &scenario).warnings.is_empty());
}

#[test]
fn a_nice_value_of_a_group_weighs_as_a_tasks_does() {
    // 3121 and 1024; 15 and 1024, where the closest cpu.weight is 10.
    let first = [("a", "cpu_weight_nice = -5", 1), ("b", "", 1)];
    assert_shares(&fair(1, &hogs("5s", "", &first)), &[("a", 0.753), ("b", 0.247)]);
    let changed = hogs("5s", "\"0ms cgroup a nice 19\"", &[("a", "", 1), ("b", "", 1)]);
    let result = fair(1, &changed);
    assert_eq!(result.groups[0].weight, 1);
    let found = share(&result, "a");
    assert!((found - 15.0 / 1039.0).abs() < 0.003, "{found}");
}
