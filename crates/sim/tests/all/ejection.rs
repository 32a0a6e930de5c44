//! Faulty schedulers are ejected with the kernel's words; the run ends then, or continues.

use crate::common::*;
use schedlab_base::{CpuMask, DurationNs};
use schedlab_sim::RunResult;
use schedlab_trace::ExitKind;

fn eject(twist: Twist) -> RunResult<Simple> {
    let mut scenario = mixed(3, 6, ms(400));
    scenario.tasks[0].affinity = Some(mask(&[1]).into());
    let mut simple = Simple::twisted(twist);
    simple.info.timeout = ms(100);
    let result = outlived(2, &scenario, simple);
    let after = result.after.as_ref().expect("the run went on");
    let total: f64 = after.tasks.iter().map(|task| task.share).sum();
    assert!(total > 1.0, "{total}");
    assert_eq!(result.duration + after.duration, ms(400), "the parts are the whole");
    let scheduler = result.scheduler.as_ref().unwrap();
    assert_eq!((scheduler.tasks, scheduler.exits), (0, 1), "{twist:?}: all tasks were given back");
    result
}

#[test]
fn stalls_are_found_by_the_watchdog() {
    let result = eject(Twist::Stall);
    assert_eq!(result.exit.kind, ExitKind::ErrorStall);
    assert_eq!(result.exit.reason, "runnable task stall");
    let message = &result.exit.message;
    assert!(message.contains("] failed to run for 0.1"), "{message}");
    let cause = " s and put it on no queue, nor has another callback since";
    assert!(message.contains("; ops.enqueue() took it at 0.") && message.ends_with(cause), "{message}");
    for part in
        ["simple: root", "triggered exit kind 1026", "CPU states", "Event counters", "ops_state/qseq=2/1"]
    {
        assert!(result.exit.dump.contains(part), "{part} in {}", result.exit.dump);
    }
}

#[test]
fn bad_verdicts_are_runtime_errors() {
    for (twist, message) in [
        (Twist::BadDsq, "non-existent DSQ 0x63"),
        (Twist::BadCpu, "invalid CPU 77 in SCX_DSQ_LOCAL_ON dispatch verdict"),
        (Twist::BadSelect, "invalid CPU 4711 from ops.select_cpu()"),
        (Twist::Cpu0, "SCX_DSQ_LOCAL[_ON] target CPU 0 not allowed for hog/0[1001]"),
        (Twist::Mixed, "DSQ ID 0x0000000000000000 already had PRIQ-enqueued tasks"),
        (Twist::Twice, "hog/0[1001] already direct-dispatched"),
    ] {
        let result = eject(twist);
        assert_eq!(result.exit.kind, ExitKind::Error, "{twist:?}");
        assert_eq!(result.exit.reason, "runtime error");
        assert_eq!(result.exit.message, message, "{twist:?}");
    }
}

#[test]
fn a_scheduler_can_leave() {
    let result = eject(Twist::Exit);
    assert_eq!(result.exit.kind, ExitKind::UnregBpf);
    assert_eq!((result.exit.message.as_str(), result.exit.dump.as_str()), ("enough", ""));
}

#[test]
fn a_failing_init_leaves_the_fair_class() {
    let mut simple = Simple::new(false);
    simple.init_failed = Some(12);
    let result = outlived(2, &mixed(2, 2, ms(50)), simple);
    assert_eq!(result.exit.kind, ExitKind::Error);
    assert_eq!(result.exit.message, "ops.init() failed (-12)");
    assert!(result.after.unwrap().tasks.iter().map(|task| task.share).sum::<f64>() > 1.8);
}

#[test]
fn a_run_ends_when_the_scheduler_leaves() {
    for (twist, latest) in [(Twist::Stall, ms(200)), (Twist::Exit, ms(300)), (Twist::BadDsq, ms(10))] {
        let mut simple = Simple::twisted(twist);
        simple.info.timeout = ms(100);
        let result = ext(2, &mixed(3, 6, ms(400)), simple);
        assert!(result.duration < latest && result.after.is_none(), "{twist:?} {}", result.duration);
        let busy: u64 = result.tasks.iter().map(|task| task.cpu_time.0).sum();
        assert!(busy <= 2 * result.duration.0, "{twist:?}: nothing of what would follow");
        assert_eq!(result.scheduler.unwrap().exits, 1, "{twist:?}: it was taken out");
    }
}

#[test]
fn who_starves_is_told() {
    let mut simple = Simple::twisted(Twist::Stall);
    simple.info.timeout = ms(2000);
    let warnings = ext(1, &mixed(2, 0, ms(900)), simple).warnings;
    let kinds: Vec<&str> = warnings.iter().map(|warning| warning.kind.name()).collect();
    assert!(kinds.contains(&"never_ran") || kinds.contains(&"starved"), "{warnings:?}");
    assert!(fair(1, &mixed(2, 2, ms(900))).warnings.is_empty());
}

#[test]
fn a_cpu_that_idles_beside_a_waiting_task_is_told_where_the_task_may_run_there() {
    // A stalled task waits; CPU 1 has nothing to do.
    let told = |mask_of_hogs: Option<CpuMask>| {
        let mut scenario = mixed(2, 0, ms(900));
        scenario.tasks.iter_mut().for_each(|task| task.affinity = mask_of_hogs.map(Box::new));
        let mut simple = Simple::twisted(Twist::Stall);
        simple.info.timeout = ms(2000);
        let warnings = ext(2, &scenario, simple).warnings;
        warnings.into_iter().find(|warning| warning.kind.name() == "idle_beside_waiting")
    };
    let warning = told(None).expect("a CPU idled");
    let worst = warning.worst.unwrap();
    assert!(worst.length > ms(100) && worst.task.starts_with("hog/"), "{worst:?}");
    assert!(warning.text.contains("a thousandth of the watchdog's 2.000 s"), "{}", warning.text);
    let pinned = told(Some(mask(&[1])));
    assert!(pinned.is_none_or(|warning| warning.worst.unwrap().cpu == 1), "CPU 0 may not run them");
}

#[test]
fn dumps_are_cut_at_their_length() {
    let mut simple = Simple::twisted(Twist::Stall);
    simple.info.timeout = ms(20);
    simple.info.exit_dump_len = 2000;
    let dump = ext(2, &mixed(50, 0, ms(100)), simple).exit.dump;
    assert!(dump.len() < 2000 && dump.ends_with("~~~~ TRUNCATED ~~~~\n"), "{} {dump}", dump.len());
}

#[test]
fn ops_are_validated() {
    let mut minimal = Minimal::new();
    minimal.0.flags = schedlab_sim::flags::SCX_OPS_ENQ_LAST;
    let exit = ext(1, &mixed(1, 1, ms(20)), minimal).exit;
    assert_eq!(exit.message, "SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented");
    let mut minimal = Minimal::new();
    minimal.0.timeout = DurationNs::from_secs(31);
    assert!(ext(1, &mixed(1, 1, ms(20)), minimal).exit.message.contains("maximum of 30s"));
}
