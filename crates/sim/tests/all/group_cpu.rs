//! What the kernel's own tests of the CPU controller ask of a kernel (`tools/testing/selftests/cgroup/test_cpu.c` of Linux 7.3), with
//! their trees, their numbers of hogs and their bounds.

use crate::common::fair;
use schedlab_workload::file;

/// CPU time of each group in µs, in the order of `groups`. A row is a path, the keys of its section, and how many hogs it has.
fn usage(cpus: usize, seconds: u64, groups: &[(&str, &str, usize)]) -> Vec<u64> {
    let sections = groups.iter().map(|(path, keys, _)| format!("[[groups]]\nname = \"{path}\"\n{keys}\n"));
    let tasks = groups.iter().filter(|group| group.2 > 0).map(|(path, _, count)| {
        format!("[[tasks]]\nname = \"{path}\"\nprogram = \"hog\"\ncount = {count}\ngroup = \"{path}\"\n")
    });
    let text = format!(
        "name = \"cpu\"\nend = \"{seconds}s\"\n{}[programs]\nhog = [\"repeat forever\", \"run 1ms\", \"done\"]\n{}",
        sections.collect::<String>(),
        tasks.collect::<String>()
    );
    let result = fair(cpus, &file::parse(&text, "cpu.toml").unwrap());
    let of = |path: &str| result.groups.iter().find(|group| group.name == path).unwrap().cpu_time.0 / 1_000;
    groups.iter().map(|(path, ..)| of(path)).collect()
}

/// The two differ by at most so many hundredths of their sum (`values_close()`).
fn assert_close(one: u64, other: u64, percent: u64, what: &str) {
    assert!(one.abs_diff(other) * 100 <= (one + other) * percent, "{what}: {one} and {other}");
}

#[test]
fn weights_rule_where_all_cpus_are_wanted() {
    for cpus in [1, 2, 4, 8] {
        let hogs = |path, keys| (path, keys, cpus);
        let used = usage(
            cpus,
            4,
            &[
                hogs("A/B", "cpu_weight = 50"),
                hogs("A/C", "cpu_weight = 100"),
                hogs("A/D", "cpu_weight = 150"),
            ],
        );
        for pair in used.windows(2) {
            assert!(pair[1] > pair[0], "{cpus} CPUs: {used:?}");
            assert_close(pair[1] - pair[0], used[0], 35, &format!("{cpus} CPUs"));
        }
    }
}

#[test]
fn weights_do_not_matter_where_cpus_are_left() {
    let used = usage(
        4,
        4,
        &[("A/B", "cpu_weight = 50", 1), ("A/C", "cpu_weight = 100", 1), ("A/D", "cpu_weight = 150", 1)],
    );
    assert_close(used[1], used[0], 15, "weight 100");
    assert_close(used[2], used[0], 15, "weight 150");
}

#[test]
fn groups_in_a_group_share_what_it_has() {
    for (cpus, hogs) in [(4, 4), (8, 8), (4, 1), (8, 2)] {
        let used = usage(
            cpus,
            4,
            &[
                ("A/B", "cpu_weight = 1000", hogs),
                ("A/C", "cpu_weight = 1000", 0),
                ("A/C/D", "cpu_weight = 5000", hogs),
                ("A/C/E", "cpu_weight = 5000", hogs),
            ],
        );
        let below = used[2] + used[3];
        // With CPUs to spare each hog has one of its own.
        let wanted = if hogs == cpus { used[0] } else { 2 * used[0] };
        assert_close(wanted, below, 15, &format!("{hogs} hogs each on {cpus} CPUs"));
        assert_close(used[1], below, 1, "a group and those in it");
    }
}

#[test]
fn a_quota_of_a_hundredth_holds_for_a_group_and_for_those_in_it() {
    for (cpus, seconds) in [(1, 1), (4, 1), (4, 4)] {
        let wanted = seconds * 10 * 1_000;
        let used = usage(cpus, seconds, &[("a", "cpu_max = \"1ms/100ms\"", 1)]);
        assert_close(used[0], wanted, 10, "its own quota");
        let used = usage(cpus, seconds, &[("a", "cpu_max = \"1ms/100ms\"", 0), ("a/b", "", 1)]);
        assert_close(used[1], wanted, 10, "the quota above");
    }
}

/// CPU time of a group that a task makes, enters and leaves, while it runs for two seconds after `first`; µs.
fn of_one_that_enters(first: &str) -> u64 {
    let text = format!(
        "name = \"cpu\"\nend = \"all-exit\"\n[[groups]]\nname = \"cpucg_test\"\nlater = true\n[programs]\n\
         hog = [\"run 500ms\", \"cgroup cpucg_test make\", {first}\"group self cpucg_test\", \"run 2s\", \
         \"group self /\", \"run 500ms\", \"cgroup cpucg_test remove\"]\n[[tasks]]\nname = \"hog\"\nprogram = \"hog\"\n"
    );
    let result = fair(2, &file::parse(&text, "cpu.toml").unwrap());
    result.groups[0].cpu_time.0 / 1_000
}

#[test]
fn a_group_has_used_what_its_task_ran_in_it() {
    assert_close(of_one_that_enters(""), 2_000_000, 1, "a hog");
    assert_close(of_one_that_enters("\"nice self 1\", "), 2_000_000, 1, "a niced hog");
}
