//! What makes results ones to rely on: waits of tasks, verdicts that matter, warnings, provenance, pids of
//! traces.

use crate::Folder;
use schedlab_report::{Document, Verdict, from_json};
use schedlab_trace::{WaitScope, WarningKind};

fn document(folder: &Folder) -> Document {
    from_json(&folder.read("r.json")).unwrap()
}

#[test]
fn the_longest_wait_names_task_time_cpu_and_who_ran() {
    let folder = Folder::new();
    let text = folder
        .run("sim -s eevdf -w cpuhog:ntasks=3,ttime=300ms -c 1 --json r.json --csv r.csv --html r.html")
        .ok();
    let run = document(&folder).runs.remove(0);
    let scopes: Vec<(&str, &str)> =
        run.task_waits.iter().map(|one| (one.scope.name(), one.name.as_str())).collect();
    assert_eq!(
        scopes,
        [("all", ""), ("group", "hog"), ("task", "hog/0"), ("task", "hog/1"), ("task", "hog/2")]
    );
    let all = run.task_waits[0].run_delay.as_ref().unwrap();
    assert_eq!(Some(all.worst.length.0 as f64), run.metric("run_delay_ns_max"));
    assert_eq!(Some(all.p99.0 as f64), run.metric("run_delay_ns_p99"));
    let tasks = run.task_waits.iter().filter(|one| one.scope == WaitScope::Task);
    let count: u64 = tasks.map(|one| one.run_delay.as_ref().unwrap().count).sum();
    assert_eq!(count, all.count);
    let worst = &all.worst;
    let behind: u64 = worst.behind.iter().map(|(_, time)| time.0).sum();
    assert!(
        worst.behind.iter().all(|(task, _)| *task != worst.task) && behind <= worst.length.0,
        "{worst:?}"
    );
    // The CPU had nothing else to do.
    assert!(behind * 10 > worst.length.0 * 9, "{worst:?}");
    let told = format!("longest run delay: {} waited", worst.task);
    assert!(text.contains(&told) && text.contains(", CPU 0, behind hog/"), "{text}");
    assert!(folder.read("r.html").contains("Waits for a CPU"));
    let line = format!("run_delay_ns_max,{},ns,lower,all,,", worst.length.0);
    assert!(folder.read("r.csv").contains(&line), "{line}");
    assert!(folder.run("sim -s eevdf -w cpuhog:ntasks=3,ttime=300ms -c 1 -v").ok().contains("waits of"));
}

#[test]
fn forked_tasks_count_with_the_group_that_forks_them() {
    let folder = Folder::new();
    folder.run("sim -s o1 -w mkbench:makes=1,jobs=2,scale=0.01 -c 2 --json r.json").ok();
    let run = document(&folder).runs.remove(0);
    let count = |scope: WaitScope, name: &str| {
        let found = run.task_waits.iter().find(|one| one.scope == scope && one.name == name).unwrap();
        found.run_delay.as_ref().unwrap().count
    };
    let own: u64 = run
        .task_waits
        .iter()
        .filter(|one| one.scope == WaitScope::Task)
        .map(|one| count(one.scope, &one.name))
        .sum();
    assert_eq!(own, count(WaitScope::All, ""));
    assert!(count(WaitScope::Task, "(forked)") > 0);
}

#[test]
fn a_difference_needs_a_size_that_matters() {
    let folder = Folder::new();
    let compare = |flags: &str| {
        let line = format!(
            "compare -q -s eevdf,o1 -w cpuhog:ntasks=1,ttime=50ms -c 1 --runs 2 --json r.json {flags}"
        );
        let done = folder.run(&line);
        (done, document(&folder))
    };
    let (done, found) = compare("");
    let text = done.ok();
    let work = found.comparisons.iter().find(|one| one.metric == "work").unwrap();
    assert_eq!((work.verdict, work.at_least_percent), (Verdict::NoneThatMatters, 1.0));
    assert!(text.contains("no difference that matters") && text.contains("% +/- "), "{text}");
    let (_, found) = compare("--at-least 0.5%");
    assert!(found.comparisons.iter().all(|one| one.at_least_percent.to_bits() == 0.5f64.to_bits()));
    for bad in ["-1", "x", "1001", "nan"] {
        let line = format!("compare -s eevdf,o1 -w cpuhog --at-least={bad}");
        folder.run(&line).refused(2, &["--at-least", "no percentage"]);
    }
}

#[test]
fn seeds_that_change_nothing_are_a_warning() {
    let folder = Folder::new();
    folder.write(
        "still.toml",
        "name = \"still\"\nend = \"20ms\"\n[programs]\nwork = [\"run 1s\"]\n[[tasks]]\nname = \"a\"\nprogram = \"work\"\n",
    );
    let line = "compare -q -s eevdf,o1 -w still.toml -c 1 --runs 3 --json r.json --html r.html";
    let done = folder.run(line);
    assert_eq!(done.code, 0, "{done:?}");
    let found = document(&folder);
    if found.warnings.is_empty() {
        // The phase of the ticks comes from the seed: where that makes a difference, nothing may be reported.
        let differs = |run: &schedlab_trace::RunRecord| run.metrics != found.runs[0].metrics;
        assert!(found.runs[..3].iter().any(differs));
        return;
    }
    assert_eq!(found.warnings[0].kind, WarningKind::SeedsChangeNothing);
    assert!(done.out.contains("the seeds change nothing in still on 1 CPU under"), "{}", done.out);
    folder.run(&format!("{line} --strict")).refused(1, &["--strict: ", "the seeds change nothing"]);
}

/// Two tasks that take two mutexes in opposite orders, and one whose message never comes.
const DEADLOCK: &str = r#"
name = "deadlock"
[objects]
a = { kind = "mutex" }
b = { kind = "mutex" }
p = { kind = "pipe" }
[programs]
one = ["lock a", "sleep 1ms", "lock b", "unlock b", "unlock a"]
two = ["lock b", "sleep 1ms", "lock a", "unlock a", "unlock b"]
three = ["recv p 10"]
[[tasks]]
name = "one"
program = "one"
[[tasks]]
name = "two"
program = "two"
[[tasks]]
name = "three"
program = "three"
"#;

#[test]
fn tasks_that_wait_for_each_other_for_ever_are_told() {
    let folder = Folder::new();
    folder.write("d.toml", DEADLOCK);
    let waits = "one[1001] for a mutex that two[1002] holds, two[1002] for a mutex that one[1001] holds, \
                 three[1003] for data in a pipe that no task writes";
    for scheduler in ["eevdf", "o1"] {
        let line = format!("sim -s {scheduler} -w d.toml -c 2");
        folder
            .run(&line)
            .refused(2, &["workload d.toml", "every task waits for another one from 0.001", waits]);
        let limited = format!("{line} --duration 1s --json r.json");
        let told = folder.run(&limited).ok();
        assert!(
            told.contains("every task waits for another one from 0.001") && told.contains(waits),
            "{told}"
        );
        let run = document(&folder).runs.remove(0);
        assert_eq!(run.warnings[0].kind, WarningKind::Stuck);
        folder.run(&format!("{limited} --strict")).refused(1, &["--strict", waits]);
    }
    let done = folder.run("sim -s eevdf -w cpuhog:ttime=5ms -c 1 --duration 1ms").ok();
    assert!(!done.contains("every task waits"), "{done}");
}

/// Each kind of wait that nothing can end, beside a task in the background that computes indefinitely, and one that waits in vain for
/// nothing: its message comes.
const FOR_EVER: &str = r#"
name = "for-ever"
end = "foreground-exit"
[objects]
m = { kind = "mutex" }
own = { kind = "mutex" }
file = { kind = "flock" }
gone = { kind = "pi-mutex" }
p = { kind = "pipe" }
full = { kind = "pipe", capacity = 100 }
s = { kind = "semaphore" }
c = { kind = "cond" }
cm = { kind = "mutex" }
b = { kind = "barrier", parties = 3 }
w = { kind = "word" }
live = { kind = "pipe" }
[programs]
holds = ["lock m", "lock file", "recv p 10", "unlock m", "unlock file"]
wants = ["sleep 1ms", "lock m", "send p 10"]
reads = ["sleep 1ms", "lock-shared file"]
twice = ["lock own", "lock own"]
leaves = ["lock gone"]
heir = ["sleep 1ms", "lock gone"]
fills = ["repeat 3", "send full 60", "done"]
takes = ["wait s"]
listens = ["lock cm", "cond-wait c cm"]
joins = ["barrier b"]
misses = ["wait s", "barrier b"]
looks = ["await w 3 1ms"]
parent = ["fork child", "wait-child"]
child = ["signal-wait"]
fine = ["recv live 10"]
slow = ["sleep 10500ms", "send live 10", "repeat forever", "run 1ms", "done"]
[[tasks]]
name = "holds"
program = "holds"
[[tasks]]
name = "wants"
program = "wants"
[[tasks]]
name = "reads"
program = "reads"
[[tasks]]
name = "twice"
program = "twice"
[[tasks]]
name = "leaves"
program = "leaves"
[[tasks]]
name = "heir"
program = "heir"
[[tasks]]
name = "fills"
program = "fills"
[[tasks]]
name = "takes"
program = "takes"
[[tasks]]
name = "listens"
program = "listens"
[[tasks]]
name = "joins"
program = "joins"
count = 2
[[tasks]]
name = "misses"
program = "misses"
[[tasks]]
name = "looks"
program = "looks"
[[tasks]]
name = "parent"
program = "parent"
[[tasks]]
name = "fine"
program = "fine"
[[tasks]]
name = "slow"
program = "slow"
background = true
"#;

/// One task of [`FOR_EVER`] alone with those that it needs, and what the command reports of it.
const TOLD_OF: [(&[&str], &str); 10] = [
    (&["holds", "wants"], "holds[1001] for data in a pipe from wants[1002] (since 0.000"),
    (&["holds", "wants"], "wants[1002] for a mutex that holds[1001] holds (since 0.001"),
    (&["holds", "reads"], "reads[1002] for a lock of a file that holds[1001] holds"),
    (&["twice"], "twice[1001] for a mutex that it holds itself"),
    (&["leaves", "heir"], "heir[1002] for a mutex that leaves[1001], which has ended, holds"),
    (&["fills"], "fills[1001] for room in a pipe that no task makes by reading"),
    (&["takes"], "takes[1001] for a unit of a semaphore that no task posts"),
    (&["listens"], "listens[1001] for a condition variable that no task signals"),
    (&["joins", "misses"], "joins/0[1001] for a barrier where 2 of 3 tasks are, not misses[1003]"),
    (&["parent"], "parent[1001] for the end of a child: parent["),
];

/// The file with these of its tasks and those that are fine.
fn with_tasks(names: &[&str]) -> String {
    let (head, tasks) = FOR_EVER.split_once("[[tasks]]").unwrap();
    let wanted = |task: &&str| {
        let named = |name: &str| task.contains(&format!("name = \"{name}\""));
        named("fine") || named("slow") || names.iter().any(|name| named(name))
    };
    let tasks: Vec<&str> = tasks.split("[[tasks]]").filter(wanted).collect();
    format!("{head}[[tasks]]{}", tasks.join("[[tasks]]"))
}

#[test]
fn tasks_that_wait_for_ever_beside_others_are_told() {
    let folder = Folder::new();
    for (names, words) in TOLD_OF {
        folder.write("f.toml", with_tasks(names));
        let told = folder.run("sim -q -s eevdf -w f.toml -c 2 --duration 1s --json r.json").ok();
        let run = document(&folder).runs.remove(0);
        let warning = run.warnings.iter().find(|one| one.kind == WarningKind::Stuck);
        let text = &warning.unwrap_or_else(|| panic!("{names:?}: {told}")).text;
        assert!(
            text.contains(words) && !text.contains("fine") && !text.contains("slow["),
            "{names:?}: {text}"
        );
    }
    folder.write("f.toml", FOR_EVER);
    let line = "sim -s o1 -w f.toml -c 2";
    let told = folder.run(&format!("{line} --duration 1s")).ok();
    for words in ["14 of 15 tasks wait for ever: ", "and 6 more; the others went on"] {
        assert!(told.contains(words), "{told}");
    }
    folder.run(&format!("{line} --duration 1s --strict")).refused(1, &["--strict", "wait for ever"]);
    folder.run(line).refused(2, &["workload f.toml", "wait for ever", "the workload never ends"]);
}

/// Tasks in the background may wait indefinitely, and the run waits for what may still come.
#[test]
fn waits_that_may_end_are_not_told() {
    let folder = Folder::new();
    folder.write("f.toml", with_tasks(&[]));
    let told = folder.run("sim -s eevdf -w f.toml -c 2").ok();
    assert!(!told.contains("for ever"), "{told}");
    for workload in ["chat:rooms=1,messages=5", "mixed:ttime=200ms", "hackbench:groups=1,loops=20"] {
        let told = folder.run(&format!("sim -s o1 -w {workload} -c 2")).ok();
        assert!(!told.contains("for ever"), "{workload}: {told}");
    }
    // The first task sleeps between two looks at a word that has its value.
    folder.write(
        "f.toml",
        "name = \"looks\"\nend = \"50ms\"\n[objects]\nw = { kind = \"word\" }\nv = { kind = \"word\" }\n\
         u = { kind = \"word\" }\n[programs]\n\
         early = [\"store w 1\", \"await v 1 100ms\", \"store u 1\"]\n\
         late = [\"await w 1 1ms\", \"store v 1\", \"await u 1 5ms\"]\n\
         [[tasks]]\nname = \"a\"\nprogram = \"early\"\n[[tasks]]\nname = \"b\"\nprogram = \"late\"\n",
    );
    let told = folder.run("sim -s eevdf -w f.toml -c 2").ok();
    assert!(!told.contains("for ever"), "{told}");
}

#[test]
fn results_say_what_they_were_made_of() {
    let folder = Folder::new();
    let made_of = |line: &str| {
        folder.run(&format!("{line} --json r.json --csv r.csv --html r.html")).ok();
        document(&folder).runs.remove(0).provenance
    };
    let one = made_of("sim -s o1 -w cpuhog:ttime=5ms -c 2");
    let object = one.object.clone().unwrap();
    assert!(folder.read("r.html").contains(&object) && folder.read("r.csv").contains(&object));
    assert_eq!([&one.workload, &one.machine].map(|hash| hash.as_ref().map(String::len)), [Some(64); 2]);
    let build = one.build.clone().unwrap();
    assert!(build.starts_with(&format!("{} ", env!("CARGO_PKG_VERSION"))), "{build}");
    assert_eq!(made_of("sim -s o1 -w cpuhog:ttime=5ms -c 2"), one);
    let other = made_of("sim -s eevdf -w cpuhog:ttime=6ms -c 1");
    assert!(other.object.is_none() && other.workload != one.workload && other.machine != one.machine);
}
