//! CPUs that go offline and come back: where their tasks go, and which callbacks schedulers get.

use crate::common::*;
use schedlab_base::{CpuId, CpuMask, DurationNs, Policy, TaskId};
use schedlab_sim::flags::*;
use schedlab_sim::{Class, Config, Kernel, OpKind, OpsInfo, RunResult, SchedExt, SimError, run};
use schedlab_trace::ExitKind;
use schedlab_workload::{Amount, End, Op, ProgramId, Scenario};

/// Hogs, of which the first may use CPU 1 alone, and a task that takes CPU 1 offline from 20 to 40 ms.
fn switching(hogs: u32, end: u64) -> Scenario {
    let mut scenario = mixed(hogs, 0, ms(end));
    scenario.tasks[0].affinity = Some(mask(&[1]).into());
    let set = |online| Op::Hotplug { cpu: CpuId(1), online };
    scenario.programs.push(program(|b| {
        b.op(Op::Sleep(ms(20))).op(set(false)).op(Op::Sleep(ms(20))).op(set(true)).op(Op::Sleep(ms(500)))
    }));
    let mut switch = task("switch", 2, 99);
    switch.policy = Policy::Fifo(99);
    scenario.tasks.push(switch);
    scenario
}

fn busy<S>(result: &RunResult<S>) -> f64 {
    result.tasks.iter().map(|task| task.share).sum()
}

#[test]
fn tasks_of_the_fair_class_leave_and_come_back() {
    let result = fair(2, &switching(3, 60));
    // Two CPUs for 40 ms and one for 20.
    assert!((busy(&result) - 100.0 / 60.0).abs() < 0.02, "{:?}", result.tasks);
    // The task that might use that CPU alone continued as well.
    assert!(result.tasks[0].share > 0.4, "{:?}", result.tasks);
    // Of four CPUs three are left, for as many hogs; the one that leaves is balanced after a few milliseconds.
    let result = fair(4, &switching(3, 60));
    assert!((2.9..=3.0).contains(&busy(&result)), "{:?}", result.tasks);
}

#[test]
fn timers_of_a_cpu_that_is_gone_fire_elsewhere() {
    let mut scenario = switching(1, 60);
    scenario
        .programs
        .push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(10))).op(Op::Sleep(ms(1))))));
    for n in 0..4 {
        let mut sleeper = task(&format!("sleeper/{n}"), 3, 50 + n);
        sleeper.affinity = Some(mask(&[1]).into());
        scenario.tasks.push(sleeper);
    }
    let result = fair(2, &scenario);
    assert!(result.tasks[2..].iter().all(|task| task.switches > 50), "{:?}", result.tasks);
}

/// A tick may come before the task leaves that the CPU ran when it went offline. The times at which it goes pass by the ticks.
#[test]
fn ticks_of_a_cpu_that_is_gone_balance_nothing() {
    let mut scenario = mixed(6, 0, ms(3_000));
    let set = |online| Op::Hotplug { cpu: CpuId(1), online };
    scenario.programs[0] =
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(300))).op(Op::Sleep(us(100)))));
    scenario.programs.push(program(|b| {
        b.repeat(Amount::Forever, |b| {
            b.op(Op::Sleep(us(600))).op(set(false)).op(Op::Sleep(us(400))).op(set(true))
        })
    }));
    let mut switch = task("switch", 2, 99);
    switch.policy = Policy::Fifo(99);
    scenario.tasks.push(switch);
    let result = fair(3, &scenario);
    assert!(busy(&result) > 2.0, "{:?}", result.tasks);
}

/// One queue; notes which CPUs come and go, and where tasks run meanwhile.
struct Told {
    info: OpsInfo,
    told: Vec<(u32, bool, usize)>,
    ran_on: CpuMask,
    masks: Vec<TaskId>,
}

impl Told {
    fn new(more: &[OpKind]) -> Told {
        let ops = [OpKind::Enqueue, OpKind::Dispatch, OpKind::Init, OpKind::Running, OpKind::SetCpumask];
        let info = info("told", &[&ops[..], more].concat());
        Told { info, told: Vec::new(), ran_on: CpuMask::EMPTY, masks: Vec::new() }
    }
}

impl SchedExt for Told {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn init(&mut self, k: &mut Kernel) -> Result<(), i32> {
        assert_eq!(k.create_dsq(SHARED, -1), 0);
        Ok(())
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        k.dsq_insert(task, SHARED, ms(1).0, flags);
        k.kick_cpu(1, SCX_KICK_IDLE);
        k.kick_cpu(0, SCX_KICK_IDLE);
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: CpuId, _: Option<TaskId>) {
        assert!(k.online_cpus().contains(cpu), "{cpu} is offline and asks for tasks");
        k.dsq_move_to_local(SHARED, 0);
    }

    fn running(&mut self, k: &mut Kernel, task: TaskId) {
        self.ran_on.set(k.task_cpu(task));
    }

    fn set_cpumask(&mut self, _: &mut Kernel, task: TaskId, mask: &CpuMask) {
        assert_eq!(mask.count(), 2);
        self.masks.push(task);
    }

    fn cpu_online(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.told.push((cpu.0, true, k.online_cpus().count()));
    }

    fn cpu_offline(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.told.push((cpu.0, false, k.online_cpus().count()));
        self.ran_on = CpuMask::EMPTY;
    }
}

#[test]
fn a_scheduler_with_both_callbacks_is_told_and_stays() {
    let told = Told::new(&[OpKind::CpuOnline, OpKind::CpuOffline]);
    let result = ext(2, &switching(4, 60), told);
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    let told = result.scheduler.as_ref().unwrap();
    assert_eq!(told.told, [(1, false, 1), (1, true, 2)]);
    assert_eq!(told.masks, [TaskId(0)], "the mask of the one that had no other CPU");
    assert_eq!(told.ran_on.count(), 2, "the CPU that came back runs tasks");
    assert!((busy(&result) - 100.0 / 60.0).abs() < 0.02, "{:?}", result.tasks);
}

#[test]
fn a_scheduler_without_the_callback_leaves_to_be_restarted() {
    for (more, message, at) in [
        (&[][..], "cpu 1 going offline, exiting scheduler", 20),
        (&[OpKind::CpuOffline][..], "cpu 1 going online, exiting scheduler", 40),
    ] {
        let result = outlived(2, &switching(4, 60), Told::new(more));
        assert_eq!((result.exit.kind, result.exit.message.as_str()), (ExitKind::UnregKern, message));
        assert_eq!(result.exit.reason, "unregistered from the main kernel");
        let after = result.exit.after.unwrap();
        assert!(after >= ms(at) && after < ms(at + 1), "{after}");
        let rest = result.after.unwrap();
        assert_eq!(result.duration + rest.duration, ms(60));
    }
}

#[test]
fn a_scheduler_of_another_hotplug_sequence_does_not_come_in() {
    let mut told = Told::new(&[]);
    // The second CPU has come once; the first one starts the machine.
    told.info.hotplug_seq = 1;
    assert_eq!(ext(2, &mixed(1, 0, ms(5)), told).exit.kind, ExitKind::None);
    let mut told = Told::new(&[]);
    told.info.hotplug_seq = 3;
    let result = outlived(2, &mixed(1, 0, ms(5)), told);
    assert_eq!(result.exit.kind, ExitKind::UnregKern);
    assert_eq!(result.exit.message, "expected hotplug seq 3 did not match actual 1");
}

#[test]
fn inserts_for_a_cpu_that_is_offline_go_to_the_global_queue() {
    struct Stubborn(OpsInfo);
    impl SchedExt for Stubborn {
        fn info(&self) -> &OpsInfo {
            &self.0
        }
        fn enqueue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
            k.dsq_insert(task, schedlab_base::DsqId(SCX_DSQ_LOCAL_ON.0 | 1), ms(1).0, flags);
        }
        fn cpu_online(&mut self, _: &mut Kernel, _: CpuId) {}
        fn cpu_offline(&mut self, _: &mut Kernel, _: CpuId) {}
    }
    let ops = [OpKind::Enqueue, OpKind::CpuOnline, OpKind::CpuOffline];
    let result = ext(2, &switching(2, 60), Stubborn(info("stubborn", &ops)));
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    assert!(result.events.dispatch_local_dsq_offline > 0, "{:?}", result.events);
    assert!(busy(&result) > 0.9, "{:?}", result.tasks);
}

#[test]
fn the_last_cpu_stays_and_others_have_to_exist() {
    let all_off = |cpus: u32| {
        let mut scenario = mixed(2, 0, ms(20));
        scenario.programs.push(program(|b| {
            (1..cpus)
                .fold(b, |b, cpu| b.op(Op::Hotplug { cpu: CpuId(cpu), online: false }))
                .op(Op::Sleep(ms(50)))
        }));
        scenario.tasks.push(task("switch", 2, 99));
        scenario
    };
    let result = fair(4, &all_off(4));
    assert!((busy(&result) - 1.0).abs() < 0.05, "{:?}", result.tasks);
    let refused = run::<Minimal>(&config(2, 1), &all_off(4), Class::Fair);
    assert!(
        matches!(refused, Err(SimError::Refused(text)) if text.contains("CPU 2 on or off, which does not exist"))
    );
    let mut zero = mixed(1, 0, ms(5));
    zero.programs.push(program(|b| b.op(Op::Hotplug { cpu: CpuId(0), online: false })));
    zero.tasks[0].program = ProgramId(2);
    let refused = run::<Minimal>(&Config { limit: Some(DurationNs(1)), ..config(2, 1) }, &zero, Class::Fair);
    assert!(matches!(refused, Err(SimError::Refused(text)) if text.contains("CPU 0 stays online")));
    assert_eq!(zero.end, End::After(ms(5)));
}
