//! Which tasks are a sched_ext scheduler's: by their policy, and by when it comes and goes.

use crate::common::*;
use schedlab_base::{CpuMask, KernelVersion, Policy, Presence, TaskId, TimeNs, Weight};
use schedlab_sim::flags::*;
use schedlab_sim::{Change, Class, Config, Kernel, OpKind, OpsInfo, RunResult, SchedExt, run};
use schedlab_trace::{ExitKind, WarningKind};
use schedlab_workload::{Attribute, Op, Scenario};

/// Notes which callbacks are called for each task, in order; one queue, first in, first out.
struct Notes {
    info: OpsInfo,
    calls: Vec<(u32, &'static str)>,
}

impl Notes {
    fn new(flags: u64) -> Notes {
        use OpKind::{
            Disable, Enable, Enqueue, ExitTask, InitTask, Quiescent, Runnable, SetCpumask, SetWeight,
        };
        let ops = [
            Enqueue,
            Runnable,
            Quiescent,
            InitTask,
            ExitTask,
            Enable,
            Disable,
            SetWeight,
            SetCpumask,
            OpKind::Exit,
        ];
        Notes { info: OpsInfo { flags, ..info("notes", &ops) }, calls: Vec::new() }
    }

    fn note(&mut self, task: TaskId, call: &'static str) {
        self.calls.push((task.0, call));
    }

    /// The calls for a task, of which those of its life alone.
    fn life(&self, task: u32) -> Vec<&'static str> {
        let of_task = self.calls.iter().filter(|(of, _)| *of == task).map(|(_, call)| *call);
        of_task.filter(|call| !["enqueue", "runnable", "quiescent"].contains(call)).collect()
    }

    fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|(_, other)| *other == call).count()
    }
}

impl SchedExt for Notes {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn init_task(&mut self, _: &mut Kernel, task: TaskId, fork: bool) -> Result<(), i32> {
        self.note(task, if fork { "init forked" } else { "init" });
        Ok(())
    }

    fn exit_task(&mut self, _: &mut Kernel, task: TaskId, _: bool) {
        self.note(task, "exit");
    }

    fn enable(&mut self, _: &mut Kernel, task: TaskId) {
        self.note(task, "enable");
    }

    fn disable(&mut self, _: &mut Kernel, task: TaskId) {
        self.note(task, "disable");
    }

    fn set_weight(&mut self, _: &mut Kernel, task: TaskId, _: Weight) {
        self.note(task, "weight");
    }

    fn set_cpumask(&mut self, _: &mut Kernel, task: TaskId, _: &CpuMask) {
        self.note(task, "mask");
    }

    fn runnable(&mut self, _: &mut Kernel, task: TaskId, _: u64) {
        self.note(task, "runnable");
    }

    fn quiescent(&mut self, _: &mut Kernel, task: TaskId, _: u64) {
        self.note(task, "quiescent");
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        self.note(task, "enqueue");
        k.dsq_insert(task, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
    }
}

fn shares<S>(result: &RunResult<S>) -> Vec<f64> {
    result.tasks.iter().map(|task| task.share).collect()
}

#[test]
fn a_partial_scheduler_has_the_tasks_of_its_policy_alone() {
    let scenario = hogs(&[Policy::Ext, Policy::Other, Policy::Batch, Policy::Fifo(1)], ms(300));
    let result = ext(4, &scenario, Notes::new(SCX_OPS_SWITCH_PARTIAL));
    let notes = result.scheduler.as_ref().unwrap();
    assert_eq!(notes.life(0), ["init forked", "enable", "weight", "disable", "exit"]);
    for other in 1..4 {
        assert_eq!(notes.life(other), ["init forked", "exit"], "task {other}");
    }
    let idle = |result: &RunResult<Notes>| {
        result.warnings.iter().any(|one| one.kind == WarningKind::NothingToSchedule)
    };
    assert!(!idle(&result), "{:?}", result.warnings);
    // Without the flag all normal tasks are its own.
    let result = ext(4, &scenario, Notes::new(0));
    let notes = result.scheduler.unwrap();
    assert_eq!([0, 1, 2, 3].map(|task| notes.life(task).len()), [5, 5, 5, 2]);
}

#[test]
fn the_fair_class_goes_before_a_partial_scheduler() {
    // On one CPU: its server leaves sched_ext 50 ms of each second.
    let scenario = hogs(&[Policy::Ext, Policy::Other], ms(10_000));
    let result = ext(1, &scenario, Notes::new(SCX_OPS_SWITCH_PARTIAL));
    let found = shares(&result);
    assert!((found[0] - 0.05).abs() < 0.006 && (found[1] - 0.95).abs() < 0.006, "{found:?}");
    // Linux 6.18 has no server for sched_ext.
    let mut config = config(1, 1);
    config.machine.kernel = "6.18".parse::<KernelVersion>().unwrap().features();
    let result = run(
        &config,
        &hogs(&[Policy::Ext, Policy::Other], ms(1_000)),
        Class::Ext(Notes::new(SCX_OPS_SWITCH_PARTIAL)),
    );
    assert!(shares(&result.unwrap())[0] <= 0.0);
}

#[test]
fn both_servers_run_beside_a_real_time_hog() {
    let scenario = hogs(&[Policy::Fifo(1), Policy::Ext, Policy::Other], ms(20_000));
    let result = ext(1, &scenario, Notes::new(SCX_OPS_SWITCH_PARTIAL));
    let found = shares(&result);
    assert!((found[0] - 0.9).abs() < 0.006, "{found:?}");
    assert!((found[1] - 0.05).abs() < 0.004 && (found[2] - 0.05).abs() < 0.004, "{found:?}");
}

#[test]
fn a_policy_that_changes_changes_the_class() {
    let change = |at, policy| Change {
        at: TimeNs(at * 1_000_000_u64),
        task: TaskId(0),
        attribute: Attribute::Policy(policy),
    };
    let affinity =
        Change { at: TimeNs(15_000_000), task: TaskId(0), attribute: Attribute::Affinity(mask(&[0, 1])) };
    let changes =
        vec![change(10, Policy::Other), affinity, change(20, Policy::Ext), change(30, Policy::Batch)];
    let config = Config { changes, ..config(2, 1) };
    let scenario = hogs(&[Policy::Ext, Policy::Ext], ms(40));
    let result = run(&config, &scenario, Class::Ext(Notes::new(SCX_OPS_SWITCH_PARTIAL))).unwrap();
    let life = ["init forked", "enable", "weight", "disable", "enable", "weight", "mask", "disable", "exit"];
    assert_eq!(result.scheduler.unwrap().life(0), life);
}

#[test]
fn a_partial_scheduler_without_a_task_is_told() {
    let result = ext(2, &hogs(&[Policy::Other, Policy::Batch], ms(20)), Notes::new(SCX_OPS_SWITCH_PARTIAL));
    let kinds: Vec<WarningKind> = result.warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::NothingToSchedule]);
}

fn attached(at: u64, until: Option<u64>, scenario: &Scenario, flags: u64) -> RunResult<Notes> {
    let presence = Presence { attach: Some(ms(at)), detach: until.map(ms) };
    let config = Config { presence, ..config(2, 1) };
    run(&config, scenario, Class::Ext(Notes::new(flags))).unwrap()
}

#[test]
fn tasks_that_are_there_are_initialised_and_taken_over() {
    let mut scenario = hogs(&[Policy::Other, Policy::Fifo(1), Policy::Batch], ms(150));
    // One that sleeps when the scheduler comes, and one that comes after it.
    scenario
        .programs
        .push(program(|b| b.op(Op::Sleep(ms(30))).op(Op::Fork { program: schedlab_workload::ProgramId(0) })));
    scenario.tasks.push(task("sleeper", 1, 9));
    let result = attached(20, None, &scenario, 0);
    let notes = result.scheduler.as_ref().unwrap();
    let taken = ["init", "enable", "weight", "mask", "disable", "exit"];
    assert_eq!(notes.life(0), taken);
    assert_eq!(notes.life(2), taken);
    assert_eq!(notes.life(1), ["init", "exit"]);
    // It exits by itself.
    assert_eq!(notes.life(3), taken);
    assert_eq!(notes.life(4), ["init forked", "enable", "weight", "disable", "exit"]);
    // All are initialised before the first is enabled.
    let first = |call: &str| notes.calls.iter().position(|(_, other)| *other == call).unwrap();
    let last = notes.calls.iter().rposition(|(_, call)| *call == "init").unwrap();
    assert!(last < first("enable"));
    assert_eq!((result.exit.kind, result.events.bypass_activate), (ExitKind::None, 1));
}

#[test]
fn tasks_outlive_a_scheduler_that_is_taken_out() {
    let result = attached(20, Some(40), &hogs(&[Policy::Other; 4], ms(60)), 0);
    let notes = result.scheduler.as_ref().unwrap();
    for call in ["init", "enable", "disable", "exit"] {
        assert_eq!(notes.count(call), 4, "{call}");
    }
    assert_eq!((result.exit.kind, result.exit.after), (ExitKind::Unreg, Some(ms(40))));
    // One run: its figures are of the whole of it.
    assert_eq!(result.duration, ms(60));
    assert!(result.after.is_none());
    assert!((shares(&result).iter().sum::<f64>() - 2.0).abs() < 0.01, "{:?}", shares(&result));
    assert_eq!(notes.count("runnable"), notes.count("quiescent"), "what becomes runnable leaves");
}

#[test]
fn a_partial_scheduler_that_comes_late_initialises_all_and_enables_its_own() {
    let result = attached(5, None, &hogs(&[Policy::Ext, Policy::Other], ms(20)), SCX_OPS_SWITCH_PARTIAL);
    let notes = result.scheduler.as_ref().unwrap();
    assert_eq!(notes.life(0), ["init", "enable", "weight", "mask", "disable", "exit"]);
    assert_eq!(notes.life(1), ["init", "exit"]);
}

/// Refuses the second task.
struct Choosy(OpsInfo, u32);

impl SchedExt for Choosy {
    fn info(&self) -> &OpsInfo {
        &self.0
    }

    fn init_task(&mut self, _: &mut Kernel, _: TaskId, _: bool) -> Result<(), i32> {
        self.1 += 1;
        if self.1 == 2 { Err(errno::ENOMEM) } else { Ok(()) }
    }

    fn exit_task(&mut self, _: &mut Kernel, _: TaskId, _: bool) {
        self.1 += 10;
    }
}

#[test]
fn a_scheduler_that_refuses_a_task_does_not_come_in() {
    let choosy = Choosy(info("choosy", &[OpKind::InitTask, OpKind::ExitTask]), 0);
    let presence = Presence { attach: Some(ms(5)), detach: None };
    let config = Config { presence, outlive_exit: true, ..config(2, 1) };
    let result = run(&config, &hogs(&[Policy::Other; 3], ms(20)), Class::Ext(choosy)).unwrap();
    assert_eq!(result.exit.kind, ExitKind::Error);
    assert!(
        result.exit.message.starts_with("ops.init_task() failed (-12) for hog/1"),
        "{}",
        result.exit.message
    );
    // The one that was initialised is given back.
    assert_eq!(result.scheduler.unwrap().1, 12);
    assert_eq!(result.after.unwrap().duration, ms(15));
}
