//! Schedulers that misbehave: each is ejected with its kind, and the command says so
//! with exit code 4. The sources are those that the VM's tests load into a kernel.

use crate::Folder;
use schedlab_base::DurationNs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a faulty scheduler into the folder.
pub(crate) fn compile(folder: &Folder, name: &str) {
    let root = root();
    let source = root.join(format!("tests/objects/{name}.bpf.c"));
    let object = folder.path().join(format!("{name}.bpf.o"));
    let include = root.join("schedulers/include");
    schedlab_clang::compile(&source, &object, ["-I".as_ref(), include.as_os_str()]).expect("it compiles");
}

fn ejected(name: &str, words: &[&str]) {
    let folder = Folder::new();
    compile(&folder, name);
    let done = folder.run(&format!("sim -s ./{name}.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2 --json r.json"));
    done.refused(4, words);
    let json = folder.read("r.json");
    assert!(json.contains(&format!("\"kind\": \"{}\"", words[0])));
    let run = schedlab_report::from_json(&json).unwrap().runs.remove(0);
    let after = run.exit.after.expect("it left before the end");
    assert!(after <= run.duration && run.after_ejection.is_none(), "{after} of {}", run.duration);
    assert!(run.duration < DurationNs::from_secs(40), "the run ends with the ejection");
    let told = format!("scheduler exit: {} after {:.3} s, ", words[0], after.as_secs_f64());
    assert!(done.out.contains(&told), "{told:?} in {}", done.out);
}

#[test]
fn one_that_never_dispatches() {
    ejected(
        "stall",
        &["error_stall", "failed to run for", "; ops.enqueue() took it at 0.", " s and put it on no queue"],
    );
}

#[test]
fn one_that_uses_a_queue_that_is_not_there() {
    let line = called("bad_dsq", "bad_enqueue");
    ejected("bad_dsq", &["error", "non-existent DSQ 0xdead", &line]);
}

/// Which line of which program is at fault, as the command tells it: a header's function that the program has inlined.
fn called(name: &str, program: &str) -> String {
    let source = std::fs::read_to_string(root().join("schedulers/include/scx/insert.bpf.h")).unwrap();
    let call = "return scx_bpf_dsq_insert___v2___new(p, dsq_id, slice, enq_flags);";
    let (number, _) = source.lines().enumerate().find(|(_, line)| line.trim() == call).unwrap();
    format!("; BPF program {program}: insert.bpf.h:{}: {call} (inlined after {name}.bpf.c:", number + 1)
}

/// What the kernel finds when the program has returned is blamed on the program's call.
#[test]
fn one_that_picks_a_cpu_that_a_task_may_not_use() {
    let folder = Folder::new();
    compile(&folder, "not_allowed");
    let tasks = "[[tasks]]\nname = \"pinned\"\nprogram = \"work\"\ncpus = [1]\n";
    folder.write("pinned.toml", format!("name = \"pinned\"\n{tasks}[programs]\nwork = [\"run 10ms\"]\n"));
    let done = folder.run("sim -s ./not_allowed.bpf.o -w pinned.toml -c 2");
    let line = called("not_allowed", "not_allowed_enqueue");
    done.refused(4, &["target CPU 0 not allowed for pinned[1001]", &line]);
}

#[test]
fn one_that_dispatches_twice() {
    let line = called("twice", "twice_enqueue");
    ejected("twice", &["error", "] already direct-dispatched", &line]);
}

#[test]
fn a_run_can_outlive_its_scheduler_and_tells_both_parts_apart() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let run = |flags: &str| {
        let line = format!("sim -s ./stall.bpf.o -w cpuhog:ntasks=3,ttime=10s -c 2 --json r.json{flags}");
        let done = folder.run(&line);
        done.refused(4, &["error_stall"]);
        (schedlab_report::from_json(&folder.read("r.json")).unwrap().runs.remove(0), done.out)
    };
    let (stopped, _) = run(" --after-ejection stop");
    let (outlived, text) = run(" --after-ejection continue --html r.html");
    assert_eq!((stopped.duration, &stopped.metrics), (outlived.duration, &outlived.metrics));
    let after = outlived.after_ejection.unwrap();
    // The third hog waits in custody until the fair class gives it its share.
    assert_eq!(outlived.tasks[2].cpu_time, DurationNs::ZERO);
    assert!(after.tasks.iter().all(|task| task.share > 0.5), "{:?}", after.tasks);
    assert!((outlived.duration + after.duration).as_secs_f64() > 9.99, "{}", after.duration);
    assert!(
        text.contains("After the scheduler had left, ")
            && folder.read("r.html").contains("After the scheduler had left")
    );
    let real = folder.run("run -s eevdf -w cpuhog:ttime=1ms --after-ejection continue");
    real.refused(2, &["--after-ejection continue", "a real run ends"]);
    let real = folder.run("compare --live -s eevdf,o1 -w cpuhog:ttime=1ms --after-ejection continue");
    real.refused(2, &["--after-ejection continue", "a real run ends"]);
}

#[test]
fn who_starves_is_warned_about_with_evidence() {
    let folder = Folder::new();
    compile(&folder, "stall");
    // Shorter than the watchdog's time: the scheduler is not ejected, and only the figures would tell. Two tasks end soon,
    // the third waits in custody.
    let task = |name| format!("[[tasks]]\nname = \"{name}\"\nprogram = \"work\"\n");
    let tasks = ["a", "b", "late"].map(task).concat();
    folder.write(
        "late.toml",
        format!("name = \"late\"\nend = \"1s\"\n{tasks}[programs]\nwork = [\"run 10ms\"]\n"),
    );
    let line = "sim -s ./stall.bpf.o -w late.toml -c 2 --json r.json --csv r.csv --html r.html";
    let done = folder.run(line);
    assert_eq!(done.code, 0, "{done:?}");
    let warnings = schedlab_report::from_json(&folder.read("r.json")).unwrap().runs.remove(0).warnings;
    let kinds: Vec<&str> = warnings.iter().map(|warning| warning.kind.name()).collect();
    assert_eq!(kinds, ["never_ran", "idle_beside_waiting"]);
    let waited = warnings[0].worst.as_ref().unwrap().length;
    assert!(waited > DurationNs::from_ms(999), "{waited}");
    for text in [&done.out, &folder.read("r.html")] {
        assert!(text.contains("task late never ran: it waited 1.000 s for a CPU"), "{text}");
        assert!(text.contains("longer than 0.002 s, a thousandth of the watchdog"), "{text}");
    }
    assert!(folder.read("r.csv").lines().nth(1).unwrap().ends_with(",2,suspect"));
    folder.run(&format!("{line} --strict")).refused(1, &["--strict: task late never ran", "2 warnings"]);
}

#[test]
fn one_that_complains_itself() {
    ejected("complains", &["error_bpf", "this is enough"]);
}

#[test]
fn one_that_follows_a_null_pointer() {
    ejected("refused", &["error", "NULL pointer", "refused_enqueue"]);
    let source = std::fs::read_to_string(root().join("tests/objects/null_pointer.bpf.c")).unwrap();
    let (number, line) = source.lines().enumerate().find(|(_, line)| line.contains("->pid")).unwrap();
    let place = format!("; null_pointer.bpf.c:{}: {}", number + 1, line.trim());
    ejected("null_pointer", &["error", "null_pointer_enqueue at instruction", &place]);
}

/// A function that is handed NULL is not at fault: the message names its caller, whether the compiler has inlined the function or not.
#[test]
fn a_null_pointer_is_led_to_the_caller_that_passed_it() {
    for (how, told) in [
        ("inline", "; passes.bpf.c:4: return p->pid; (inlined after passes.bpf.c:7)"),
        ("__noinline", "; passes.bpf.c:4: return p->pid; (called by passes_enqueue at passes.bpf.c:7)"),
    ] {
        let source = [
            "#include \"compat.h\"",
            &format!("static {how} int pid_of(struct task_struct *p)"),
            "{",
            "return p->pid;",
            "}",
            "SEC(\"struct_ops/enqueue\") void passes_enqueue(u64 *ctx) { struct task_struct *volatile none = NULL;",
            "ctx[0] += pid_of(none);",
            "scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0); }",
            "SEC(\".struct_ops.link\") struct sched_ext_ops passes_ops = {",
            ".enqueue = (void *)passes_enqueue, .name = \"passes\" };",
            "char _license[] SEC(\"license\") = \"GPL\";",
        ];
        let folder = Folder::new();
        folder.write("passes.bpf.c", source.join("\n"));
        let [from, to] = ["passes.bpf.c", "passes.bpf.o"].map(|name| folder.path().join(name));
        let include = root().join("schedulers/include");
        schedlab_clang::compile(&from, &to, ["-I".as_ref(), include.as_os_str()]).expect("it compiles");
        folder.run("sim -s ./passes.bpf.o -w cpuhog -c 1").refused(4, &["NULL pointer read", told]);
    }
}

#[test]
fn only_time_in_bypass_counts_as_bypass() {
    let folder = Folder::new();
    let bypass = |line: &str| {
        folder.run(&format!("{line} -w cpuhog:ntasks=3,ttime=10s -c 2 -q --json r.json"));
        let run = schedlab_report::from_json(&folder.read("r.json")).unwrap().runs.remove(0);
        let value =
            run.counters.iter().find(|counter| counter.name == "SCX_EV_BYPASS_DURATION").unwrap().value;
        (value, run)
    };
    assert_eq!(bypass("sim -s o1").0, 0);
    compile(&folder, "stall");
    let (value, run) = bypass("sim -s ./stall.bpf.o --after-ejection continue");
    let rest = run.after_ejection.unwrap().duration;
    assert!(0 < value && value < rest.0, "{value} ns of {rest}");
}

#[test]
fn a_long_dump_is_shortened() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let line = "sim -s ./stall.bpf.o -w cpuhog:ntasks=50,ttime=10s -c 2";
    let (done, all) = (folder.run(line), folder.run(&format!("{line} -v")));
    done.refused(4, &["error_stall"]);
    assert!(done.out.ends_with(" more lines; -v and --json have all)\n"), "{}", done.out);
    assert!(done.out.lines().count() < 95 && all.out.lines().count() > 300);
    assert!(all.out.contains("SCX_EV_BYPASS_ACTIVATE"), "{}", all.out);
}

#[test]
fn an_ejected_run_is_left_out_of_a_comparison() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let done = folder.run("compare -q -s eevdf,./stall.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2 --runs 1");
    done.refused(4, &["./stall.bpf.o", "error_stall"]);
    assert!(done.out.contains("Void runs, which are in no mean:"), "{}", done.out);
}

/// Only a scheduler's own complaint has a setting for its cure, and only one that its loader would have written.
#[test]
fn a_complaint_about_a_variable_has_its_cure_and_a_stall_has_none() {
    let folder = Folder::new();
    compile(&folder, "misses");
    let run = |set: &str| folder.run(&format!("sim -q -s ./misses.bpf.o -w cpuhog:ttime=20s -c 1 {set}"));
    run("").refused(4, &["error_bpf", "quantum_us is 0", "add --set quantum_us=VALUE"]);
    let stalled = run("--set quantum_us=1");
    stalled.refused(4, &["error_stall", "failed to run for"]);
    assert!(!stalled.err.contains("add --set"), "{}", stalled.err);
}
