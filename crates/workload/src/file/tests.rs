//! Tests of the workload file reader.

use super::*;
use crate::measure::{Formula, Measurements, SpanFigure, SpanSample, TimeUnit};
use crate::program::Op;
use schedlab_base::{Better, TimeNs};

const PINGPONG: &str = r#"
name = "pingpong"
about = "two tasks and a token"
end = "foreground-exit"

[objects]
there = { kind = "unix", capacity = 4096, peer = "back" }
back = { kind = "unix", capacity = 4096 }
gate = { kind = "semaphore", initial = 1 }
m = { kind = "mutex" }

[programs]
ping = ["wait gate", "begin all", "repeat 10", "  send there 4", "  recv back 4", "  count hops 2", "done", "end all"]
pong = ["repeat 10", "recv there 4", "lock m", "run 5us", "unlock m", "send back 4", "done"]
hog = ["repeat forever", "run 1ms", "done"]

[[tasks]]
name = "ping"
program = "ping"
nice = [-5]

[[tasks]]
name = "pong"
program = "pong"
policy = "fifo:50"
cpus = [0, 1]

[[tasks]]
name = "hog"
program = "hog"
count = 2
nice = [0, 5]
background = true

[metrics]
time_per_hop = { kind = "time-per-unit", counter = "hops", span = "all" }
"#;

#[test]
fn a_whole_file() {
    let scenario = parse(PINGPONG, "p.toml").unwrap();
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["ping", "pong", "hog/0", "hog/1"]);
    assert_eq!(scenario.channels[1].peer, Some(ChannelId(0)));
    assert_eq!(scenario.tasks[1].policy, Policy::Fifo(50));
    assert_eq!(scenario.tasks[3].nice.get(), 5);
    assert_ne!(scenario.tasks[2].process, scenario.tasks[3].process);
    assert_eq!(scenario.end, End::ForegroundExit);
    assert!(scenario.programs[1].ops().contains(&Op::SpanBegin(SpanId(0))));
    assert_eq!((scenario.counters, scenario.spans, scenario.metrics.len()), (1, 1, 1));
}

#[test]
fn the_shipped_file_is_read() {
    let scenario = parse(include_str!("../../../../workloads/pingpong.toml"), "pingpong.toml").unwrap();
    assert_eq!(scenario.tasks.len(), 3);
}

#[test]
fn slices_survive_writing_and_reading() {
    let scenario = parse(include_str!("../../../../workloads/slices.toml"), "slices.toml").unwrap();
    let slices = |scenario: &Scenario| scenario.tasks.iter().map(|task| task.slice).collect::<Vec<_>>();
    assert_eq!(slices(&scenario), [20_000, 20_000, 500].map(|us| Some(DurationNs::from_us(us))));
    let again = parse(&write(&scenario), "again.toml").unwrap();
    assert_eq!(slices(&again), slices(&scenario));
}

#[test]
fn changes_at_given_times_become_a_task_of_their_own() {
    let text = include_str!("../../../../workloads/renice.toml");
    let scenario = parse(text, "renice.toml").unwrap();
    let changer = &scenario.tasks[3];
    assert_eq!(
        (changer.name.as_str(), changer.policy, changer.background),
        ("changes", Policy::Fifo(99), true)
    );
    let wait = |secs| Op::TimerWait {
        timer: crate::TimerSlot(0),
        period: DurationNs::from_secs(secs),
        absolute: true,
    };
    let ops = scenario.programs[changer.program.index()].ops();
    assert_eq!((ops.len(), ops[0], ops[2], ops[5]), (7, wait(2), wait(2), wait(1)));
    assert!(matches!(ops[1], Op::Set { task: Some(TaskRef(0)), .. }));
    assert_eq!(scenario.changes.len(), 4);
    for (to, words) in [
        ("\"2s nice hog/9 1\"", "no such task; there are: self, hog/0"),
        ("\"2s nice self 1\"", "name a task"),
        ("\"2s nice hog/0 20\"", "nice values are -20 to 19"),
        ("\"2 nice hog/0 1\"", "a change is written: TIME nice|policy|cpus|group TASK VALUE"),
        ("\"2s run 1ms\"", "a change is written"),
        ("\"\"", "a change is written"),
    ] {
        let error = parse(&text.replace("\"2s nice hog/0 19\"", to), "r.toml").unwrap_err().to_string();
        assert!(error.starts_with("r.toml:6: ") && error.contains(words), "{to}: {error}");
    }
}

#[test]
fn a_run_does_not_last_longer_for_a_change() {
    let changes = "changes = [\"1h nice ping 1\"]\n[objects]";
    let text = PINGPONG.replacen("[objects]", changes, 1).replace("foreground-exit", "all-exit");
    let scenario = parse(&text, "p.toml").unwrap();
    assert_eq!(scenario.end, End::ForegroundExit);
    let background: Vec<bool> = scenario.tasks.iter().map(|task| task.background).collect();
    assert_eq!(background, [false, false, false, false, true]);
}

#[test]
fn mistakes_name_line_and_cure() {
    let cases = [
        ("count = 2", "cuont = 2", "unknown field `cuont`, expected one of"),
        ("\"lock m\"", "\"lock n\"", "no object 'n'; there are: back, gate, m, there"),
        ("\"lock m\"", "\"lock gate\"", "another kind; it is written: lock MUTEX"),
        ("\"run 5us\"", "\"run 5\"", "write a number and a unit"),
        ("\"run 5us\"", "\"jog 5us\"", "unknown operation; there are: run,"),
        ("\"run 5us\"", "\"run 5us 6us\"", "too many words; it is written: run DURATION"),
        ("\"send back 4\"", "\"send back\"", "it is written: send CHANNEL BYTES"),
        ("\"send back 4\"", "\"send back 5000\"", "'send back 5000': the message is larger than the channel"),
        ("{ kind = \"mutex\" }", "{ kind = \"poll\", watch = [] }", "objects.m: it watches nothing"),
        ("count = 2", "count = 4294967295", "4294967297 tasks, at most 1000000 are supported"),
        (
            "program = \"pong\"",
            "program = \"pnog\"",
            "no program 'pnog'; there are: hog, ping, pong (did you mean 'pong'?)",
        ),
        ("program = \"pong\"", "program = \"p\\ng\"", "no program 'p\\ng'; there are:"),
        ("fifo:50", "fifo:100", "policy 'fifo:100' is none of"),
        ("nice = [-5]", "nice = [-21]", "nice values are -20 to 19"),
        ("nice = [-5]", "slice = \"2s\"", "slice: '2s' is no time from 100us to 100ms"),
        ("nice = [-5]", "slice = \"99us\"", "slice: '99us' is no time from 100us to 100ms"),
        ("cpus = [0, 1]", "cpus = []", "cpus needs one or more"),
        (
            "counter = \"hops\"",
            "counter = \"hop\"",
            "no program counts 'hop'; there are: hops (did you mean 'hops'?)",
        ),
        ("peer = \"back\"", "peer = \"gate\"", "is no other channel of the same kind"),
        ("foreground-exit", "never", "end: 'never' is none of"),
        ("\"done\", \"end all\"", "\"end all\"", "program ping: op 2: loop without an end"),
        ("kind = \"mutex\"", "kind = \"rwlock\"", "unknown variant `rwlock`, expected one of"),
    ];
    for (from, to, words) in cases {
        assert!(PINGPONG.contains(from), "{from}");
        let changed = PINGPONG.replacen(from, to, 1);
        let error = parse(&changed, "p.toml").unwrap_err().to_string();
        assert!(error.contains(words), "{to}: {error}");
        let line = changed[..changed.find(to).unwrap()].matches('\n').count() + 1;
        let named: usize = error.split(':').nth(1).unwrap().parse().unwrap();
        assert!(named.abs_diff(line) <= 4, "{error}: line {line}");
    }
}

#[test]
fn nothing_panics_on_broken_files() {
    for text in ["", "name = 1", "[tasks]", "name='x'\nprograms={}\ntasks=[]", "\u{0}"] {
        assert!(parse(text, "x.toml").unwrap_err().to_string().starts_with("x.toml:"), "{text}");
    }
    for cut in 0..PINGPONG.len() {
        if PINGPONG.is_char_boundary(cut) {
            drop(parse(&PINGPONG[..cut], "x.toml"));
        }
    }
}

#[test]
fn attributes_change_by_name_or_for_oneself() {
    let text = |line: &str| {
        format!(
            "name = \"x\"\n[programs]\nhog = [\"run 5ms\"]\nhand = [\"{line}\", \"run 1ms\"]\n\
             [[tasks]]\nname = \"hog\"\nprogram = \"hog\"\ncount = 2\n[[tasks]]\nname = \"hand\"\nprogram = \"hand\"\n"
        )
    };
    let op = |line: &str| {
        let scenario = parse(&text(line), "x.toml").unwrap();
        let Op::Set { task, change } = scenario.programs[0].ops()[0] else { panic!("{line}") };
        (task, scenario.changes[change.index()])
    };
    let mut cpus = CpuMask::single(CpuId(0));
    cpus.set(CpuId(2));
    cpus.set(CpuId(3));
    assert_eq!(op("cpus hog/1 0,2-3"), (Some(TaskRef(1)), Attribute::Affinity(cpus)));
    assert_eq!(op("nice self -5"), (None, Attribute::Nice(Nice::new(-5).unwrap())));
    let deadline = Attribute::Policy(Policy::Deadline("3ms/8ms/10ms".parse().unwrap()));
    assert_eq!(op("policy hand deadline:3ms/8ms/10ms"), (Some(TaskRef(2)), deadline));
    assert_eq!(op("policy hand fifo:50"), (Some(TaskRef(2)), Attribute::Policy(Policy::Fifo(50))));
    for (line, problem) in [
        ("cpus hog 0", "no such task; there are: self, hand, hog/0, hog/1"),
        ("cpus self 3-1", "'3-1' is no list of CPUs"),
        ("nice self 20", "nice values are -20 to 19"),
        ("policy self deadline", "policy 'deadline' is none of other"),
        ("cpus self", "it is written: cpus TASK|self LIST"),
    ] {
        let error = parse(&text(line), "x.toml").unwrap_err().to_string();
        assert!(error.starts_with("x.toml:4: ") && error.contains(problem), "{error}");
    }
}

/// What is written is read as the same: tasks, programs and objects.
#[test]
fn scenarios_survive_being_written() {
    let everything = "name = \"x\"\nend = \"10ms\"\n[objects]\na = { kind = \"tcp\", peer = \"b\" }\n\
        b = { kind = \"tcp\" }\nc = { kind = \"cond\" }\nd = { kind = \"disk\" }\nm = { kind = \"mutex\" }\n\
        r = { kind = \"barrier\", parties = 2 }\ns = { kind = \"semaphore\", initial = 3 }\n[programs]\n\
        all = [\"repeat forever\", \"run 5us\", \"run-for 1ms\", \"touch 3\", \"sleep 1ms\", \"timer 2 3ms absolute\", \
        \"io d 2ms\", \"send a 4\", \"recv b 5\", \"wait s\", \"post s 2\", \"lock m\", \"cond-wait c m\", \"unlock m\", \
        \"signal c\", \"broadcast c\", \"barrier r\", \"repeat 3\", \"yield\", \"done\", \"fork child\", \"wait-child\", \
        \"nice one -3\", \"policy self rr:4\", \"cpus two 0,2\", \"count n 2\", \"begin t\", \"end t\", \"done\"]\n\
        child = [\"exec\", \"run 1us\", \"exit\"]\n\
        [[tasks]]\nname = \"one\"\nprogram = \"all\"\nnice = [4]\npolicy = \"fifo:7\"\ncpus = [0, 5]\nprocess = \"p\"\n\
        [[tasks]]\nname = \"two\"\nprogram = \"all\"\nprocess = \"p\"\nworking_set_kib = 9\nbackground = true\n";
    let waits = "name = \"waits\"\nreset_on_fork = true\n[objects]\na = { kind = \"udp\", peer = \"b\" }\n\
        b = { kind = \"udp\" }\ne = { kind = \"eventfd\", initial = 2 }\nf = { kind = \"flock\" }\n\
        g = { kind = \"fcntl\" }\np = { kind = \"pi-mutex\" }\nq = { kind = \"sysv-queue\", capacity = 99 }\n\
        r = { kind = \"posix-queue\" }\nx = { kind = \"epoll\", watch = [\"b\", \"e\"] }\n\
        y = { kind = \"poll\", watch = [\"r\"] }\nz = { kind = \"select\", watch = [\"a\"] }\n\
        s = { kind = \"semaphore\" }\nl = { kind = \"listener\" }\nd = { kind = \"disk\" }\nw = { kind = \"word\" }\n[programs]\n\
        all = [\"repeat forever\", \"send a 4\", \"poll x\", \"recv-ready 4\", \"answer 5\", \"poll y\", \"recv r 7\", \
        \"poll z\", \"send q 9\", \"lock p\", \"unlock p\", \"lock-shared f\", \"unlock f\", \"lock g\", \"unlock g\", \
        \"drain s\", \"kill one\", \"signal-wait\", \"store w 3\", \"advance w\", \"await w 4 1ms\", \"note w\", \
        \"restart-if-changed w\", \"connect l a\", \"connect l\", \"accept l\", \"close life\", \"fsync d 5ms\", \
        \"run-kernel 2us\", \"timer 1 5ms\", \"late 1 delay\", \"age a old\", \"done\"]\n[[tasks]]\nname = \"one\"\nprogram = \"all\"\n";
    for text in [everything, waits, PINGPONG] {
        let first = parse(text, "first").unwrap();
        let mut second = parse(&write(&first), "second").unwrap();
        second.metrics.clone_from(&first.metrics);
        assert_eq!(first, second, "{}", write(&first));
    }
}

/// The error names no type of this program, but says what to write.
#[test]
fn values_of_another_kind_name_the_key_and_what_is_wanted() {
    for (from, to, words) in [
        (
            "count = 2",
            "count = -1",
            "31: count: a whole number from 0 to 4294967295 is wanted, not integer `-1`",
        ),
        (
            "nice = [-5]",
            "nice = -5",
            "20: nice: a list in brackets is wanted, not integer `-5`: write nice = [-5]",
        ),
        ("nice = [-5]", "nice = [\n1,\n'a']", "22: nice: a whole number is wanted, not string \"a\""),
        ("= true", "= 1", "33: background: true or false is wanted, not integer `1`"),
        ("\"lock m\"", "5", "14: pong: a text in quotes is wanted, not integer `5`"),
        ("\"mutex\"", "5", "10: kind: a word in quotes is wanted, not integer `5`"),
        ("{ kind = \"mutex\" }", "5", "10: m: a table in braces is wanted, not integer `5`"),
        ("\"time-per-unit\"", "7", "36: kind: a word in quotes is wanted"),
        ("[metrics]", "[[metrics]]", "35: metrics: a section, in single brackets"),
    ] {
        let error = parse(&PINGPONG.replacen(from, to, 1), "p.toml").unwrap_err().to_string();
        assert!(error.starts_with(&format!("p.toml:{words}")), "{to}: {error}");
    }
}

/// A file whose only task records spans, with these lines at the top and as figures.
fn with_metrics(top: &str, metrics: &str) -> String {
    format!(
        "name = \"x\"\n{top}\n[programs]\nframes = [\"begin frame\", \"run 5ms\", \"end frame\", \"count frames\"]\n\
         [[tasks]]\nname = \"t\"\nprogram = \"frames\"\n[metrics]\n{metrics}\n"
    )
}

#[test]
fn figures_have_names_of_their_own() {
    for (name, words) in [
        ("context_switches", "every run has a metric 'context_switches'; take another name"),
        ("\"\"", "a metric needs a name on one line"),
        ("\"a\\nb\"", "a metric needs a name on one line"),
    ] {
        let lines = format!("{name} = {{ kind = \"p50\", span = \"frame\" }}");
        let error = parse(&with_metrics("", &lines), "x.toml").unwrap_err().to_string();
        assert!(error.starts_with("x.toml:9: ") && error.contains(words), "{error}");
    }
}

#[test]
fn figures_keep_the_order_of_the_file_and_one_unit_of_time() {
    let lines = "worst = { kind = \"max\", span = \"frame\" }\nfps = { kind = \"rate\", counter = \"frames\" }\n\
         median = { kind = \"p50\", span = \"frame\" }\ntail = { kind = \"p95\", span = \"frame\" }\n\
         each = { kind = \"time-per-unit\", counter = \"frames\" }\nbest = { kind = \"fastest\", span = \"frame\" }\n\
         all = { kind = \"makespan\", span = \"frame\" }\nlate = { kind = \"misses\", span = \"frame\", \
         late_if_longer_than = \"16.6ms\" }\n\
         lateness = { kind = \"miss-percent\", span = \"frame\", late_if_longer_than = \"4ms\", better = \"neither\" }";
    let read = |top: &str| parse(&with_metrics(top, lines), "x.toml").unwrap();
    let told = |top: &str| -> Vec<String> {
        read(top).metrics.iter().map(|metric| format!("{} {}", metric.name, metric.unit)).collect()
    };
    let expected = [
        "worst ms",
        "fps 1/s",
        "median ms",
        "tail ms",
        "each ms",
        "best ms",
        "all ms",
        "late 1",
        "lateness %",
    ];
    assert_eq!(told(""), expected);
    assert_eq!(told("time_unit = \"us\"")[0], "worst us");
    let (scenario, span) = (read(""), SpanId(0));
    assert_eq!(
        scenario.metrics[3].formula,
        Formula::Span { span, figure: SpanFigure::Permille(950), unit: TimeUnit::Ms }
    );
    assert_eq!(scenario.metrics[7].formula, Formula::Longer { span, limit: DurationNs(16_600_000) });
    assert_eq!((scenario.metrics[7].better, scenario.metrics[8].better), (Better::Lower, Better::Neither));
    // A run of it: one sample of 5 ms is in time by one limit and late by the other.
    let mut spans = scenario.empty_spans();
    spans[0].record(SpanSample { begin: TimeNs(0), end: TimeNs(5_000_000) });
    let m = Measurements { spans, counters: vec![1], ..Measurements::default() };
    let values: Vec<f64> =
        scenario.metrics.iter().filter_map(|spec| spec.evaluate(&m)).map(|m| m.value).collect();
    assert_eq!((values[0], values[values.len() - 2], values[values.len() - 1]), (5.0, 0.0, 100.0));
}

#[test]
fn wrong_figures_name_their_line_and_the_cure() {
    for (line, words) in [
        ("a = { kind = \"p99\" }", "x.toml:9: this kind of metric needs a span"),
        ("a = { kind = \"p99\", counter = \"frames\" }", "x.toml:9: this kind of metric needs a span"),
        ("a = { kind = \"rate\", span = \"frame\" }", "x.toml:9: this kind of metric needs a counter"),
        ("a = { kind = \"misses\", span = \"frame\" }", "needs late_if_longer_than, as in \"16.6ms\""),
        ("a = { kind = \"misses\", late_if_longer_than = \"1ms\" }", "needs a span"),
        (
            "a = { kind = \"misses\", span = \"frame\", late_if_longer_than = \"16\" }",
            "x.toml:9: late_if_longer_than: '16' is not a duration",
        ),
        (
            "a = { kind = \"mean\", span = \"frame\", late_if_longer_than = \"16ms\" }",
            "x.toml:9: late_if_longer_than is of the kinds misses and miss-percent",
        ),
        ("a = { kind = \"p98\", span = \"frame\" }", "`p50`, `p95`, `p99`, `max`"),
        ("a = { kind = \"p99\", span = \"scene\" }", "no program has a span 'scene'; there are: frame"),
    ] {
        let error = parse(&with_metrics("", line), "x.toml").unwrap_err().to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
    let error = parse(&with_metrics("time_unit = \"min\"", ""), "x.toml").unwrap_err().to_string();
    assert!(error.starts_with("x.toml:2: ") && error.contains("`ns`, `us`, `ms`, `s`"), "{error}");
}

#[test]
fn goals_are_bounds_on_known_metrics() {
    let with = |goals: &str| PINGPONG.replacen("[objects]", &format!("goals = {goals}\n[objects]"), 1);
    let text = with("[\"time_per_hop < 50us\", \"run_delay_ns_p99 <= 2ms\", \"migrations < 5\"]");
    let scenario = parse(&text, "p.toml").unwrap();
    let shown: Vec<String> = scenario.goals.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["time_per_hop < 0.05 ms", "run_delay_ns_p99 <= 2 ms", "migrations < 5"]);
    let without = Scenario { goals: Vec::new(), ..scenario };
    assert_eq!(without, parse(PINGPONG, "p.toml").unwrap());
    for (goals, words) in [
        ("[\"time_per_hops < 1ms\"]", "no metric 'time_per_hops' (did you mean 'time_per_hop'?)"),
        ("[\"fps > 60\"]", "no metric 'fps'; there are: time_per_hop, and those of every run"),
        ("[\"time_per_hop < 1\"]", "time_per_hop is a time in ns, us, ms or s, not one with no unit"),
        ("[\"time_per_hop 1ms\"]", "there is no <, <=, > or >="),
        ("[\"time_per_hop < fast\"]", "'fast' is no number"),
        ("[\"migrations < 5\", \"migrations <5\"]", "'migrations <5' stands twice"),
        ("\"migrations < 5\"", "goals: a list in brackets is wanted"),
    ] {
        let error = parse(&with(goals), "p.toml").unwrap_err().to_string();
        assert!(error.starts_with("p.toml:6: ") && error.contains(words), "{goals}: {error}");
    }
}
