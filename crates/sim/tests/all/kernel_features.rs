//! What the version and the configuration of the simulated kernel change.

use crate::common::*;
use schedlab_base::{Background, DurationNs, Nice, Policy, Preemption, Start, TaskId, TickPhase, TimeNs};
use schedlab_sim::{Change, Class, Config, Kernel, OpKind, OpsInfo, RunResult, SchedExt, run};
use schedlab_trace::WaitKind;
use schedlab_workload::{Amount, Attribute, End, Op, ProgramId, Scenario, SemId, SemKind, Semaphore};
use std::collections::BTreeSet;

/// Three tasks that compute, under the fair class at 250 Hz, up to where they may fall in step with the tick.
fn three_hogs(hrtick: bool) -> RunResult<Minimal> {
    let mut scenario = Scenario::empty("hogs", End::After(ms(12)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    scenario.tasks = (0..3).map(|n| task(&format!("hog/{n}"), 0, n)).collect();
    let mut config = config(1, 1);
    config.machine.hz = 250;
    config.machine.kernel.hrtick = hrtick;
    run(&config, &scenario, Class::Fair).unwrap()
}

#[test]
fn hrtick_ends_slices_where_the_tick_did() {
    // Slices of 0.7 ms; without the timer a slice ends with the tick.
    let switches = |hrtick| three_hogs(hrtick).summary.context_switches;
    assert!((15..=20).contains(&switches(true)), "{}", switches(true));
    assert!((3..=5).contains(&switches(false)), "{}", switches(false));
}

#[test]
fn background_is_no_part_of_the_workload() {
    let mut scenario = Scenario::empty("hog", End::After(ms(100)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    scenario.tasks = vec![task("hog", 0, 0)];
    let mut config = config(1, 1);
    let thread = |per_cpu| Background { name: "thread".into(), period: ms(3), length: us(500), per_cpu };
    config.machine.background = vec![thread(true)];
    let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
    assert_eq!((result.tasks.len(), result.summary.context_switches), (1, 1));
    // It takes 0.5 ms, sleeps 3, and waits for its turn.
    assert!((0.84..0.9).contains(&result.tasks[0].share), "{:?}", result.tasks);
}

/// Remembers the parents of the tasks that its callbacks get, by their names, in that order.
struct Parents {
    info: OpsInfo,
    seen: Vec<(String, String)>,
}

impl SchedExt for Parents {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn init_task(&mut self, k: &mut Kernel, task: TaskId, _fork: bool) -> Result<(), i32> {
        let task = k.get_task(task).unwrap();
        let parent = task.parent.and_then(|parent| k.get_task(parent));
        self.seen.push((task.name().to_string(), parent.map_or("", |parent| parent.name()).to_string()));
        Ok(())
    }
}

#[test]
fn a_leader_forks_processes_and_their_first_tasks_make_threads() {
    let mut scenario = Scenario::empty("family", End::AllExit);
    scenario.programs = vec![program(|b| b.op(Op::Run(ms(1))))];
    scenario.tasks = vec![task("a/0", 0, 0), task("b/0", 0, 1), task("a/1", 0, 0)];
    let mut config = config(1, 1);
    config.machine.kernel.start = Start::Gate;
    let ops = Parents { info: info("parents", &[OpKind::InitTask]), seen: Vec::new() };
    let result = run(&config, &scenario, Class::Ext(ops)).unwrap();
    let seen = result.scheduler.unwrap().seen;
    let seen: Vec<(&str, &str)> =
        seen.iter().map(|(task, parent)| (task.as_str(), parent.as_str())).collect();
    let expected = [
        ("schedlab", ""),
        ("leader", "schedlab"),
        ("measure", "leader"),
        ("anchor", "leader"),
        ("a/0", "leader"),
        ("b/0", "leader"),
        // A thread is a sibling of the one that makes it.
        ("a/1", "leader"),
    ];
    assert_eq!(BTreeSet::from(expected), seen.iter().copied().collect());
    assert_eq!(seen[..4], expected[..4]);
    assert_eq!(result.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["a/0", "b/0", "a/1"]);
}

/// A task on CPU 0 wakes one that is bound to CPU 1, where an idle-class task computes; the latency's median.
fn wakeup_across(preempt: Preemption) -> DurationNs {
    let mut scenario = Scenario::empty("across", End::After(ms(300)));
    scenario.semaphores = vec![Semaphore { kind: SemKind::Sysv, initial: 0 }];
    let sem = SemId(0);
    scenario.programs = vec![
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))))),
        program(|b| {
            b.repeat(Amount::Forever, |b| b.op(Op::Sleep(us(2_300))).op(Op::SemPost { sem, units: 1 }))
        }),
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::SemWait(sem)).op(Op::Run(us(10))))),
    ];
    scenario.tasks = vec![task("idle", 0, 0), task("waker", 1, 1), task("woken", 2, 2)];
    scenario.tasks[0].policy = Policy::Idle;
    for (at, cpu) in [1, 0, 1].into_iter().enumerate() {
        scenario.tasks[at].affinity = Some(mask(&[cpu]).into());
    }
    let mut config = config(2, 1);
    config.machine.hz = 100;
    config.machine.kernel.preempt = preempt;
    config.machine.kernel.hrtick = false;
    let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
    result.summary.waits()[2].distribution(WaitKind::WakeupLatency).quantile(1, 2).unwrap()
}

#[test]
fn lazy_preemption_waits_for_an_interrupt() {
    let (full, lazy) = (wakeup_across(Preemption::Full), wakeup_across(Preemption::Lazy));
    assert!(full < us(20), "{full}");
    assert!(lazy > ms(1) && lazy <= ms(10), "{lazy}");
}

/// Takes down where in the period each CPU's ticks are.
struct Ticks {
    info: OpsInfo,
    phases: BTreeSet<(u32, u64)>,
}

impl SchedExt for Ticks {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn tick(&mut self, k: &mut Kernel, _task: TaskId) {
        // To 10 us: the tick's own work comes before.
        let phase = k.ctx().now.0 % k.machine().tick_period().0 / 10_000;
        self.phases.insert((k.ctx().cpu.0, phase));
    }
}

/// Three tasks that compute on two CPUs with one queue, slices that end at the same tick: how often each CPU switched.
fn switches_of_two(jitter: DurationNs) -> [u64; 2] {
    let scenario = hogs(&[Policy::Other; 3], ms(2_000));
    let mut config = config(2, 1);
    config.machine.hz = 250;
    config.machine.kernel.tick_jitter = jitter;
    let result = run(&config, &scenario, Class::Ext(Simple::new(false))).unwrap();
    let began = result.scheduler.unwrap().began;
    [began[0], began[1]]
}

#[test]
fn a_cpu_that_finds_the_queue_empty_keeps_its_task() {
    // 83 slices of 24 ms end. The first CPU has taken the task that waited, and its own is not back yet.
    let [first, second] = switches_of_two(DurationNs::ZERO);
    assert!((80..90).contains(&first) && second < 5, "{first} and {second}");
    let [first, second] = switches_of_two(DurationNs(200));
    assert!(
        first > 20 && second > 20 && first + second < 140,
        "by chance either is first: {first} and {second}"
    );
}

#[test]
fn ticks_are_late_by_chance_where_there_are_several_cpus() {
    let latest = |cpus: usize| {
        let mut config = config(cpus, 1);
        config.machine.kernel.tick_jitter = us(200);
        let ops = Ticks { info: info("ticks", &[OpKind::Tick]), phases: BTreeSet::new() };
        let result = run(&config, &hogs(&vec![Policy::Other; cpus], ms(500)), Class::Ext(ops)).unwrap();
        let phases: BTreeSet<u64> =
            result.scheduler.unwrap().phases.iter().map(|(_, phase)| *phase).collect();
        phases.len()
    };
    assert!(latest(1) <= 2, "{}", latest(1));
    assert!((15..=23).contains(&latest(2)), "{}", latest(2));
}

#[test]
fn ticks_are_aligned_or_spread() {
    let mut scenario = Scenario::empty("hogs", End::After(ms(50)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    scenario.tasks = (0..4).map(|n| task(&format!("hog/{n}"), 0, n)).collect();
    let phases = |ticks: TickPhase| {
        let mut config: Config = config(4, 1);
        config.machine.kernel.ticks = ticks;
        let ops = Ticks { info: info("ticks", &[OpKind::Tick]), phases: BTreeSet::new() };
        let result = run(&config, &scenario, Class::Ext(ops)).unwrap();
        let seen: BTreeSet<u64> = result.scheduler.unwrap().phases.iter().map(|(_, phase)| *phase).collect();
        seen.len()
    };
    assert!(phases(TickPhase::Aligned) <= 2);
    assert!(phases(TickPhase::Spread) >= 4);
}

#[test]
fn a_stuck_workload_is_told_although_the_kernel_goes_on() {
    let mut scenario = Scenario::empty("stuck", End::AllExit);
    scenario.semaphores = vec![Semaphore { kind: SemKind::Sysv, initial: 0 }];
    scenario.programs = vec![program(|b| b.op(Op::SemWait(SemId(0))))];
    scenario.tasks = vec![task("waits", 0, 0)];
    let mut config = config(1, 1);
    config.machine.background =
        vec![Background { name: "thread".into(), period: ms(3), length: us(15), per_cpu: true }];
    let error = run::<Minimal>(&config, &scenario, Class::Fair).unwrap_err().to_string();
    assert!(error.contains("every task waits for another one") && !error.contains("thread"), "{error}");
}

#[test]
fn delayed_tasks_go_on_where_they_are() {
    // The sleeper runs past its share and sleeps for less than the hog needs to catch up: its entity is still queued when
    // it is woken.
    let mut scenario = Scenario::empty("delayed", End::After(ms(200)));
    scenario.programs = vec![
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))))),
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(600))).op(Op::Sleep(us(20))))),
    ];
    scenario.tasks = vec![task("hog", 0, 0), task("sleeper", 1, 1)];
    let mut config = config(1, 1);
    config.machine.kernel.timer_slack = DurationNs::ZERO;
    let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
    // It is as good as always runnable: half of the CPU.
    assert!((result.tasks[1].share - 0.5).abs() < 0.03, "{:?}", result.tasks);
}

#[test]
fn a_gated_run_begins_when_the_gate_opens() {
    // Two tasks that compute 1 ms and end; one forks a child.
    let mut scenario = Scenario::empty("gated", End::AllExit);
    let child = ProgramId(1);
    scenario.programs = vec![
        program(|b| b.op(Op::Run(ms(1))).op(Op::Fork { program: child }).op(Op::WaitChild)),
        program(|b| b.op(Op::Run(ms(1)))),
    ];
    scenario.tasks = vec![task("a", 0, 0), task("b", 1, 1)];
    let run_with = |start: Start, background: Vec<Background>| {
        let mut config = config(1, 1);
        (config.machine.kernel.start, config.machine.background) = (start, background);
        run(&config, &scenario, Class::Ext(Simple::new(false))).unwrap()
    };
    let at_once = run_with(Start::AtOnce, Vec::new());
    let gated = run_with(Start::Gate, Vec::new());
    // What was before is in no figure; the scheduler has seen it.
    assert!(
        gated.duration.0.abs_diff(at_once.duration.0) < us(50).0,
        "{} {}",
        gated.duration,
        at_once.duration
    );
    assert_eq!(gated.tasks.len(), at_once.tasks.len());
    let cpu = |result: &RunResult<Simple>| result.tasks.iter().map(|task| task.cpu_time.0).sum::<u64>();
    assert!(cpu(&gated).abs_diff(cpu(&at_once)) < us(50).0);
    let user = |result: &RunResult<Simple>| result.measurements.user.0;
    assert!(user(&gated).abs_diff(user(&at_once)) < us(50).0, "{} {}", user(&gated), user(&at_once));
    assert!(gated.scheduler.unwrap().enqueues > at_once.scheduler.unwrap().enqueues);
    let thread = Background { name: "thread".into(), period: ms(1), length: us(15), per_cpu: true };
    let beside = run_with(Start::Gate, vec![thread]);
    assert_eq!((beside.tasks[0].name.as_str(), beside.tasks.len()), ("a", 3));
}

/// Hogs on two CPUs, each bound to where it begins and free from 50 ms on; their shares.
fn shares_of(hogs: &[(u32, i8)]) -> Vec<f64> {
    let mut scenario = Scenario::empty("hogs", End::After(ms(4_000)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    let mut config = config(2, 1);
    for (number, &(cpu, nice)) in (0..).zip(hogs) {
        let mut hog = task(&format!("hog/{number}"), 0, number);
        (hog.nice, hog.affinity) = (Nice::new(nice.into()).unwrap(), Some(mask(&[cpu]).into()));
        scenario.tasks.push(hog);
        let attribute = Attribute::Affinity(mask(&[0, 1]));
        config.changes.push(Change { at: TimeNs(ms(50).0), task: TaskId(number), attribute });
    }
    let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
    result.tasks.iter().map(|task| task.share).collect()
}

#[test]
fn load_is_balanced_by_weight() {
    // Weights 1024 and 335: one of each on a CPU gives 75 and 25 %.
    let shares = shares_of(&[(0, 0), (0, 0), (1, 5), (1, 5)]);
    assert!(shares[..2].iter().all(|share| (0.65..0.8).contains(share)), "{shares:?}");
    // Three alike on two CPUs take turns.
    let shares = shares_of(&[(0, 0), (0, 0), (1, 0)]);
    assert!(shares.iter().all(|share| (0.6..0.74).contains(share)), "{shares:?}");
}

#[test]
fn an_overloaded_cache_is_not_searched() {
    // Two sleepers beside a hog on each of two CPUs: all is busy, and a wakeup leaves its task where it is. Balancing alone
    // moves tasks, some ten times a second.
    let mut scenario = Scenario::empty("busy", End::After(ms(2_000)));
    scenario.programs = vec![
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))))),
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(300))).op(Op::Sleep(ms(1))))),
    ];
    scenario.tasks = (0..4).map(|n| task(&format!("task/{n}"), u32::from(n >= 2), n)).collect();
    let result = run::<Minimal>(&config(2, 1), &scenario, Class::Fair).unwrap();
    let migrations: u64 = result.tasks.iter().map(|task| task.migrations).sum();
    assert!(migrations < 100 && result.summary.context_switches > 2_000, "{migrations}");
}

/// Two tasks that compute on one CPU, the first with this slice; switches in 400 ms.
fn switches_with(slice: Option<DurationNs>, beside: Option<DurationNs>) -> u64 {
    let mut scenario = Scenario::empty("slices", End::After(ms(400)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    scenario.tasks = vec![task("first", 0, 0), task("second", 0, 1)];
    (scenario.tasks[0].slice, scenario.tasks[1].slice) = (slice, beside);
    let result = run::<Minimal>(&config(1, 1), &scenario, Class::Fair).unwrap();
    let shares: Vec<f64> = result.tasks.iter().map(|task| task.share).collect();
    assert!((shares[0] - 0.5).abs() < 0.03, "a slice is no weight: {shares:?}");
    result.summary.context_switches
}

#[test]
fn tasks_ask_for_slices() {
    let own = |slice| switches_with(Some(slice), Some(slice));
    // 400 ms in turns of 10 ms are 40, in turns of 2 ms 200.
    assert!((36..=48).contains(&own(ms(10))), "{}", own(ms(10)));
    assert!((180..=220).contains(&own(ms(2))), "{}", own(ms(2)));
    assert!(switches_with(None, None) > own(ms(2)));
}

#[test]
fn who_asks_for_less_is_served_sooner() {
    // A sleeper beside two hogs with long slices.
    let worst = |slice: Option<DurationNs>| {
        let mut scenario = Scenario::empty("sooner", End::After(ms(2_000)));
        scenario.programs = vec![
            program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))))),
            program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(1_500))).op(Op::Sleep(ms(7))))),
        ];
        scenario.tasks = vec![task("hog/0", 0, 0), task("hog/1", 0, 1), task("sleeper", 1, 2)];
        scenario.tasks.iter_mut().for_each(|task| task.slice = Some(ms(20)));
        scenario.tasks[2].slice = slice.or(scenario.tasks[2].slice);
        let result = run::<Minimal>(&config(1, 1), &scenario, Class::Fair).unwrap();
        let own = result.waits.iter().find(|waits| waits.name == "sleeper").unwrap();
        own.wakeup_latency.as_ref().unwrap().p95
    };
    let (short, long) = (worst(Some(us(500))), worst(None));
    assert!(short < ms(2) && long > ms(10), "{short} {long}");
}

#[test]
fn a_hog_leaves_the_core_of_another_one() {
    // Two cores of two threads; both hogs are held on the first core, then free.
    let mut scenario = Scenario::empty("threads", End::After(ms(1_000)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    let mut config = config(4, 1);
    (0..).zip(&mut config.machine.cpus).for_each(|(number, cpu)| cpu.core = number / 2);
    for number in 0..2 {
        let mut hog = task(&format!("hog/{number}"), 0, number);
        hog.affinity = Some(mask(&[number]).into());
        scenario.tasks.push(hog);
        let attribute = Attribute::Affinity(mask(&[0, 1, 2, 3]));
        config.changes.push(Change { at: TimeNs(ms(50).0), task: TaskId(number), attribute });
    }
    let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
    // The stopper moves the running one, once.
    let migrations: u64 = result.tasks.iter().map(|task| task.migrations).sum();
    assert_eq!(migrations, 1, "{:?}", result.tasks);
}

#[test]
fn a_task_leaves_the_cpu_of_a_real_time_hog() {
    let mut scenario = Scenario::empty("behind", End::After(ms(1_000)));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    scenario.tasks = vec![task("fifo", 0, 0), task("normal", 0, 1)];
    scenario.tasks[0].policy = Policy::Fifo(50);
    scenario.tasks.iter_mut().for_each(|task| task.affinity = Some(mask(&[0]).into()));
    let mut config = config(2, 1);
    let attribute = Attribute::Affinity(mask(&[0, 1]));
    config.changes.push(Change { at: TimeNs(ms(100).0), task: TaskId(1), attribute });
    let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
    assert!(result.tasks[1].share > 0.85, "{:?}", result.tasks);
}
