//! Groups in workload files.

use super::{parse, write};
use crate::group::{GroupChange, Quota};
use crate::program::{GroupId, Op};
use crate::scenario::{Attribute, Scenario};
use schedlab_base::DurationNs;

const TEXT: &str = r#"name = "tree"
end = "1s"
changes = [ "10ms cgroup late make", "20ms group hog/0 late", "30ms cgroup late remove", "40ms group hog/1 /" ]

[[groups]]
name = "a/b"
cpu_weight = 300
cpu_max = "50ms/100ms"
cpu_max_burst = "10ms"
cpus = [0, 1]

[[groups]]
name = "late"
cpu_weight_nice = -5
cpu_idle = true
later = true

[programs]
hog = [ "run 1ms" ]
boss = [ "cgroup a/b weight 7", "cgroup a/b nice 19", "cgroup a/b max max", "cgroup a/b idle 1", "cgroup a/b cpus 0-1", "group self /" ]

[[tasks]]
name = "hog"
program = "hog"
count = 2
group = "a/b"

[[tasks]]
name = "boss"
program = "boss"
"#;

fn read() -> Scenario {
    parse(TEXT, "tree.toml").unwrap()
}

#[test]
fn groups_have_their_parents_and_what_their_files_say() {
    let scenario = read();
    let paths: Vec<&str> = scenario.groups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["late", "a", "a/b"]);
    let [late, a, b] = &scenario.groups[..] else { panic!("{paths:?}") };
    assert_eq!((late.parent, a.parent, b.parent), (None, None, Some(GroupId(1))));
    assert_eq!(
        (late.later, late.settings.idle, a.settings.weight, b.settings.weight),
        (true, true, 100, 300)
    );
    let quota = Quota { runtime: DurationNs::from_ms(50), period: DurationNs::from_ms(100) };
    assert_eq!((b.settings.quota, b.settings.burst), (Some(quota), DurationNs::from_ms(10)));
    let nice = late.settings.nice.map(|nice| (nice.get(), nice.load_weight()));
    assert_eq!((nice, late.settings.weight, late.settings.load_weight()), (Some((-5, 3121)), 305, 3));
    assert_eq!((b.settings.load_weight(), a.settings.load_weight()), (3072, 1024));
    assert_eq!(b.cpus.map(|cpus| cpus.count()), Some(2));
    let homes: Vec<Option<GroupId>> = scenario.tasks.iter().map(|task| task.group).collect();
    assert_eq!(homes, [Some(GroupId(2)), Some(GroupId(2)), None, None]);
    assert!(scenario.group_changes.contains(&GroupChange::Quota(None)));
    assert!(scenario.changes.contains(&Attribute::Group(None)));
    assert!(scenario.mechanisms().contains("groups"));
}

#[test]
fn what_is_written_is_read_again() {
    let scenario = read();
    let text = write(&scenario);
    let again = parse(&text, "again.toml").unwrap();
    let by_path = |scenario: &Scenario| {
        let mut groups = scenario.groups.clone();
        groups.iter_mut().for_each(|group| group.parent = None);
        groups.sort_by(|one, other| one.path.cmp(&other.path));
        groups
    };
    assert_eq!(by_path(&again), by_path(&scenario), "{text}");
    let changes = |scenario: &Scenario| {
        let ops = scenario.programs.iter().flat_map(|program| program.ops());
        let read = ops.filter_map(|op| match *op {
            Op::SetGroup { group, change } => Some(format!(
                "{} {:?}",
                scenario.groups[group.index()].path,
                scenario.group_changes[change.index()]
            )),
            _ => None,
        });
        let mut all: Vec<String> = read.collect();
        all.sort();
        all
    };
    assert_eq!((changes(&again), changes(&scenario).len()), (changes(&scenario), 7), "{text}");
}

#[test]
fn mistakes_name_line_and_cure() {
    for (from, to, words) in [
        ("group = \"a/b\"", "group = \"a/c\"", "no group 'a/c'; there are: /, a, a/b, late"),
        ("group = \"a/b\"", "group = \"a\"", "a group with groups in it has no tasks"),
        ("group = \"a/b\"", "group = \"late\"", "its group is not there at the start"),
        ("\"a/b\"\ncpu_weight", "\"a//b\"\ncpu_weight", "'a//b' is no path of a group"),
        ("\"a/b\"\ncpu_weight", "\"a/../b\"\ncpu_weight", "is no path of a group"),
        ("\"a/b\"\ncpu_weight", "\"cpu.max\"\ncpu_weight", "files of the kernel begin so"),
        ("cpu_weight = 300", "cpu_weight = 0", "the kernel takes 1 to 10000"),
        ("cpu_weight = 300", "weight = 300", "unknown field `weight`"),
        ("cpu_weight_nice = -5", "cpu_weight_nice = -21", "the kernel takes -20 to 19"),
        ("cpu_weight = 300", "cpu_weight = 300\ncpu_weight_nice = 1", "are one setting"),
        ("cpu_weight = 300", "cpu_uclamp_min = 10", "cpu.uclamp is not modelled. It bounds the utilisation"),
        ("cpu_weight = 300", "cpu_uclamp_max = \"max\"", "cpu.uclamp is not modelled"),
        ("cpu_weight = 300", "cpus_partition = \"root\"", "cpuset.cpus.partition is not modelled"),
        ("cgroup a/b nice 19", "cgroup a/b nice 20", "the kernel takes -20 to 19"),
        ("cgroup a/b nice 19", "cgroup a/b nice", "the value is missing"),
        ("cgroup a/b nice 19", "cgroup a/b uclamp.max 5", "cpu.uclamp is not modelled"),
        ("cgroup a/b nice 19", "cgroup a/b partition isolated", "cpuset.cpus.partition is not modelled"),
        ("cgroup a/b nice 19", "cgroup a/b partition member", "all groups are members"),
        ("50ms/100ms", "50/100", "'50/100' is neither max nor QUOTA/PERIOD"),
        ("50ms/100ms", "500us/100ms", "quotas from 1ms"),
        ("50ms/100ms", "50ms/2s", "periods of 1ms to 1s"),
        ("cpu_max_burst = \"10ms\"", "cpu_max_burst = \"60ms\"", "at most the quota"),
        ("cpu_max = \"50ms/100ms\"\n", "", "cpu_max_burst needs a quota"),
        ("cpus = [0, 1]", "cpus = []", "cpus needs one or more"),
        ("cgroup a/b weight 7", "cgroup a/b weight 10001", "the kernel takes 1 to 10000"),
        ("cgroup a/b weight 7", "cgroup a/b weight", "the value is missing"),
        ("cgroup a/b weight 7", "cgroup a/b wait 7", "'wait' is none of make, remove, weight"),
        ("cgroup a/b weight 7", "cgroup a/b make", "later = true"),
        ("cgroup a/b weight 7", "cgroup a remove", "a group with groups in it cannot be removed"),
        ("cgroup a/b weight 7", "cgroup / weight 7", "the root stays as it is"),
        ("cgroup a/b idle 1", "cgroup a/b idle on", "'on' is neither 0 nor 1"),
        ("20ms group hog/0 late", "20ms group hog/0 lat", "no group 'lat'"),
        ("20ms group hog/0 late", "20ms group self late", "name a task"),
        ("name = \"late\"", "name = \"a/b\"", "there is another of this name"),
    ] {
        let text = TEXT.replacen(from, to, 1);
        assert_ne!(text, TEXT, "{from}");
        let error = parse(&text, "t.toml").unwrap_err().to_string();
        assert!(error.starts_with("t.toml:") && error.contains(words), "{to}: {error}");
    }
}
