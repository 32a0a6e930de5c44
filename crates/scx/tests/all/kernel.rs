//! sched_ext to the letter of Linux 7.3: what programs see and the arguments they get, as `docs/sched-ext.md` has it.

use crate::common;
use schedlab_base::Machine;
use schedlab_scx::{BpfScheduler, LoadError, LoadOptions, run};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_trace::ExitKind;
use schedlab_workload::catalog;

const SLEEPERS: &str = "periodic:tasks=3,run=100us,sleep=300us,ttime=100ms";

fn load(name: &str, settings: &[(&str, &str)], machine: &Machine) -> Option<Result<BpfScheduler, LoadError>> {
    let bytes = common::object(name)?;
    let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let options = LoadOptions { settings, ..LoadOptions::default() };
    Some(BpfScheduler::load(name, &bytes, &options, machine))
}

fn simulate(
    name: &str,
    settings: &[(&str, &str)],
    machine: Machine,
    workload: &str,
) -> Option<RunResult<BpfScheduler>> {
    let scheduler = load(name, settings, &machine)?.unwrap();
    let scenario = catalog::build(workload, 1).unwrap();
    let config = Config { checkers: true, ..Config::new(machine, 1) };
    Some(run(&config, &scenario, Class::Ext(scheduler)).unwrap())
}

/// Two CPUs of which the second one is first in order of caches.
fn turned() -> Machine {
    let mut machine = Machine::uniform("turned", 2);
    machine.cpus[0].llc = 1;
    machine.cpus[1].llc = 0;
    machine
}

/// A CPU on each of three nodes.
fn nodes() -> Machine {
    let mut machine = Machine::uniform("nodes", 3);
    for (number, cpu) in (0..).zip(&mut machine.cpus) {
        (cpu.node, cpu.llc) = (number, number);
    }
    machine
}

#[test]
fn programs_see_tasks_as_the_kernel_shows_them() {
    let machine = Machine::uniform("test", 2);
    let Some(result) = simulate("letter", &[], machine, SLEEPERS) else { return };
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    let scheduler = result.scheduler.unwrap();
    let value = |path: &str| scheduler.variable(path).unwrap();
    for name in ["nr_bad_enqueue", "nr_bad_running", "nr_bad_stopping", "nr_bad_init", "nr_bad_idle"] {
        assert_eq!(value(name), 0, "{name}");
    }
    assert!(value("nr_idle") > 100 && value("nr_enqueued") > 500);
    assert_eq!([0, 1, 2].map(|at| value(&format!("constants[{at}]"))), [20_000_000, 2, 0]);
    assert_eq!((value("exit_flags"), value("exit_cpu") as u32), (1, u32::MAX), "initialized; from outside");
}

#[test]
fn wrong_arguments_end_the_scheduler_in_the_kernels_words() {
    for (ask, words) in [
        ("ASK_NR_QUEUED", "invalid CPU 99"),
        ("ASK_CPUPERF", "Invalid target CPU"),
        ("ASK_SELECT", "invalid CPU 99"),
        ("ASK_STRANGER", "select_cpu kfunc called cross-task on periodic/"),
        ("ASK_SUB", "sub-cap kfuncs require a cid-form scheduler"),
        ("ASK_DISALLOW", "ops.init_task() set task->scx.disallow for"),
    ] {
        let machine = Machine::uniform("test", 2);
        let Some(result) = simulate("letter", &[("ask", ask)], machine, SLEEPERS) else { return };
        assert_eq!(result.exit.kind, ExitKind::Error, "{ask}");
        assert!(result.exit.message.contains(words), "{ask}: {}", result.exit.message);
    }
}

#[test]
fn the_first_exit_counts() {
    let machine = Machine::uniform("test", 2);
    let Some(result) = simulate("letter", &[("ask", "ASK_EXIT")], machine, SLEEPERS) else { return };
    assert_eq!((result.exit.kind, result.exit.message.as_str()), (ExitKind::UnregBpf, "first"));
    let scheduler = result.scheduler.unwrap();
    assert_eq!(scheduler.variable("exit_code").unwrap(), 7);
    assert!(scheduler.variable("exit_cpu").unwrap() < 2);
}

#[test]
fn a_task_that_never_runs_at_once_ends_the_scheduler() {
    let machine = Machine::uniform("test", 2);
    let hogs = "cpuhog:ntasks=4,ttime=9s";
    let Some(result) = simulate("letter", &[("ask", "ASK_IMMED")], machine, hogs) else { return };
    assert_eq!(result.exit.kind, ExitKind::ErrorReenq, "{:?}", result.exit);
    assert_eq!(result.exit.reason, "reenqueue limit");
}

#[test]
fn other_nodes_come_by_number_and_each_has_its_masks() {
    let settings = [("ask", "ASK_NODES"), ("lab.flags", "64")];
    let workload = "periodic:tasks=1,run=100us,sleep=300us,ttime=10ms";
    let Some(result) = simulate("letter", &settings, nodes(), workload) else { return };
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    let scheduler = result.scheduler.unwrap();
    let value = |path: &str| scheduler.variable(path).unwrap();
    assert_eq!(value("masks_apart"), 1);
    let picked = [0, 1, 2].map(|at| value(&format!("picked[{at}]")) as u32 as i32);
    let cpus: Vec<i32> = picked.into_iter().filter(|cpu| *cpu >= 0).collect();
    assert!(cpus.len() >= 2, "{picked:?}");
    assert!([1, 0, 2].into_iter().filter(|cpu| cpus.contains(cpu)).eq(cpus.iter().copied()), "{picked:?}");
}

#[test]
fn the_cid_form_speaks_of_cids() {
    let Some(result) = simulate("cids", &[], turned(), SLEEPERS) else { return };
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    let scheduler = result.scheduler.unwrap();
    let value = |path: &str| scheduler.variable(path).unwrap();
    assert_eq!((value("nr_cids"), value("first_cpu"), value("nr_elsewhere")), (2, 1, 0));
    assert_eq!(value("topo.numbers[0]"), 1, "the first cid of its core");
    assert_eq!(value("topo.numbers[8]") as u32, u32::MAX, "beyond what the kernel knows");
    assert!(result.tasks.iter().all(|task| task.cpu_time.0 > 0));
}

#[test]
fn the_cid_form_may_not_do_everything() {
    for (ask, words) in [
        ("ASK_STORE", "cid-form programs set scx.slice and scx.dsq_vtime by kernel functions only"),
        ("ASK_TOPO", "invalid cid 99"),
    ] {
        let Some(result) = simulate("cids", &[("ask", ask)], turned(), SLEEPERS) else { return };
        assert_eq!(result.exit.kind, ExitKind::Error, "{ask}");
        assert!(result.exit.message.contains(words), "{ask}: {}", result.exit.message);
    }
}

/// The verifier refuses functions of CPUs in a cid-form scheduler (`scx_kfunc_ids_cpu_only`, 7.3).
#[test]
fn the_cid_form_is_refused_with_functions_of_cpus() {
    let Some(bytes) = common::object("cids") else { return };
    let options = LoadOptions { settings: vec![("ask".into(), "ASK_CPU".into())], ..LoadOptions::default() };
    let error = BpfScheduler::load("cids", &bytes, &options, &turned()).unwrap_err().to_string();
    assert!(error.contains("scx_bpf_kick_cpu is not allowed from cid-form schedulers"), "{error}");
}

#[test]
fn operations_that_the_kernel_or_the_simulator_lacks_are_refused_by_name() {
    let machine = Machine::uniform("test", 2);
    for (object, setting, words) in [
        ("cids", ("cids.sub_cgroup_id", "7"), "sub_cgroup_id"),
        ("cids", ("cids.rescue_bandwidth_ppt", "300"), "rescue_bandwidth_ppt 300"),
        ("cids", ("cids.rescue_quantum_us", "5"), "rescue_quantum_us 5"),
        ("cids", ("cids.dispatch_max_batch", "4000000000"), "dispatch_max_batch"),
    ] {
        let Some(loaded) = load(object, &[setting], &machine) else { return };
        let error = loaded.unwrap_err().to_string();
        assert!(error.contains(words), "{setting:?}: {error}");
    }
}
