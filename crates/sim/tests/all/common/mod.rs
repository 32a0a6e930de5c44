//! Small schedulers in Rust, and scenarios to run them on.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use schedlab_base::{CpuId, CpuMask, DsqId, DurationNs, Machine, Nice, Policy, TaskId};
use schedlab_sim::flags::*;
use schedlab_sim::{Class, Config, Kernel, OpKind, OpsInfo, OpsSet, RunResult, SchedExt, run};
use schedlab_workload::{
    Amount, End, Identity, Op, ProcessId, Program, ProgramBuilder, ProgramId, Scenario, TaskSpec,
};

pub const SHARED: DsqId = DsqId(0);

pub fn info(name: &str, ops: &[OpKind]) -> OpsInfo {
    OpsInfo {
        name: name.into(),
        flags: 0,
        timeout: DurationNs::ZERO,
        dispatch_max_batch: 0,
        exit_dump_len: 0,
        hotplug_seq: 0,
        rescue_bandwidth_ppt: 0,
        rescue_quantum_us: 0,
        cid_form: false,
        present: ops.iter().copied().collect::<OpsSet>(),
    }
}

/// What the policy does besides being one shared queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Twist {
    #[default]
    None,
    /// Never dispatches.
    Stall,
    /// Inserts into a queue that was not created.
    BadDsq,
    /// Inserts into the local queue of a CPU that does not exist.
    BadCpu,
    /// select_cpu answers nonsense.
    BadSelect,
    /// Inserts everything into the local queue of CPU 0.
    Cpu0,
    /// Mixes FIFO and vtime order in one queue.
    Mixed,
    /// Calls scx_bpf_exit() at the 100th enqueue.
    Exit,
    /// Inserts the same task twice.
    Twice,
    /// Re-inserts a task that it does not own.
    Foreign,
}

/// One shared queue, FIFO or by vtime, as the example scheduler scx_simple.
#[derive(Debug)]
pub struct Simple {
    pub info: OpsInfo,
    pub vtime: bool,
    pub twist: Twist,
    pub vtime_now: u64,
    pub slice: u64,
    pub enqueues: u64,
    pub init_failed: Option<i32>,
    pub exits: u64,
    pub loaded: bool,
    pub tasks: i64,
    pub lock_hold: Option<(schedlab_sim::SimLockId, DurationNs)>,
    pub hold: DurationNs,
    /// How often each CPU began with a task.
    pub began: Vec<u64>,
}

impl Simple {
    pub fn new(vtime: bool) -> Simple {
        use OpKind as Op;
        let ops = [Op::SelectCpu, Op::Enqueue, Op::Dispatch, Op::Running, Op::Stopping, Op::Enable];
        let life = [Op::Init, Op::Exit, Op::InitTask, Op::ExitTask];
        Simple {
            info: info("simple", &[&ops[..], &life[..]].concat()),
            vtime,
            twist: Twist::None,
            vtime_now: 0,
            slice: SCX_SLICE_DFL,
            enqueues: 0,
            init_failed: None,
            exits: 0,
            loaded: false,
            tasks: 0,
            lock_hold: None,
            hold: DurationNs::ZERO,
            began: Vec::new(),
        }
    }

    pub fn twisted(twist: Twist) -> Simple {
        Simple { twist, ..Simple::new(false) }
    }

    fn locked(&mut self, k: &mut Kernel) {
        if let Some((lock, hold)) = self.lock_hold {
            k.lock_acquire(lock);
            k.charge(hold);
            k.lock_release(lock);
        }
    }
}

fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

impl SchedExt for Simple {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn init(&mut self, k: &mut Kernel) -> Result<(), i32> {
        self.loaded = true;
        if let Some(errno) = self.init_failed {
            return Err(errno);
        }
        assert_eq!(k.create_dsq(SHARED, -1), 0);
        assert_eq!(k.create_dsq(SHARED, -1), -errno::EEXIST);
        assert_eq!(k.create_dsq(SCX_DSQ_GLOBAL, -1), -errno::EINVAL);
        if self.hold > DurationNs::ZERO {
            self.lock_hold = Some((k.lock_new(), self.hold));
        }
        Ok(())
    }

    fn exit(&mut self, _k: &mut Kernel, _exit: &schedlab_trace::ExitRecord) {
        self.exits += 1;
    }

    fn init_task(&mut self, _k: &mut Kernel, _task: TaskId, _fork: bool) -> Result<(), i32> {
        self.tasks += 1;
        Ok(())
    }

    fn exit_task(&mut self, _k: &mut Kernel, _task: TaskId, _cancelled: bool) {
        self.tasks -= 1;
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, wake_flags: u64) -> i32 {
        if self.twist == Twist::BadSelect {
            return 4711;
        }
        let (cpu, idle) = k.select_cpu_dfl(task, prev.0 as i32, wake_flags);
        if idle && matches!(self.twist, Twist::None | Twist::Exit) {
            k.dsq_insert(task, SCX_DSQ_LOCAL, self.slice, 0);
        }
        cpu
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.locked(k);
        self.enqueues += 1;
        match self.twist {
            Twist::Stall => return,
            Twist::BadDsq => {
                k.dsq_insert(task, DsqId(99), self.slice, enq_flags);
                return;
            }
            Twist::BadCpu => {
                k.dsq_insert(task, DsqId(SCX_DSQ_LOCAL_ON.0 | 77), self.slice, enq_flags);
                return;
            }
            Twist::Cpu0 => {
                k.dsq_insert(task, SCX_DSQ_LOCAL_ON, self.slice, enq_flags);
                return;
            }
            Twist::Twice => {
                k.dsq_insert(task, SHARED, self.slice, enq_flags);
            }
            Twist::Exit if self.enqueues == 100 => k.bpf_exit(7, "enough".into()),
            _ => {}
        }
        let vtime = self.vtime || self.twist == Twist::Mixed && self.enqueues % 2 == 1;
        if vtime {
            let floor = self.vtime_now.wrapping_sub(SCX_SLICE_DFL);
            let own = k.task(task).scx.dsq_vtime;
            let key = if before(own, floor) { floor } else { own };
            k.dsq_insert_vtime(task, SHARED, self.slice, key, enq_flags);
        } else {
            k.dsq_insert(task, SHARED, self.slice, enq_flags);
        }
    }

    fn dispatch(&mut self, k: &mut Kernel, _cpu: CpuId, _prev: Option<TaskId>) {
        self.locked(k);
        k.dsq_move_to_local(SHARED, 0);
    }

    fn running(&mut self, k: &mut Kernel, task: TaskId) {
        let cpu = k.ctx().cpu.index();
        self.began.resize(self.began.len().max(cpu + 1), 0);
        self.began[cpu] += 1;
        let vtime = k.task(task).scx.dsq_vtime;
        if before(self.vtime_now, vtime) {
            self.vtime_now = vtime;
        }
    }

    fn stopping(&mut self, k: &mut Kernel, task: TaskId, _runnable: bool) {
        let scx = k.task(task).scx;
        let used = self.slice - scx.slice.min(self.slice);
        k.task_set_dsq_vtime(task, scx.dsq_vtime.wrapping_add(used * 100 / u64::from(scx.weight)));
    }

    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        k.task_set_dsq_vtime(task, self.vtime_now);
    }
}

/// A scheduler without any callback: the core's defaults.
#[derive(Debug)]
pub struct Minimal(pub OpsInfo);

impl Minimal {
    pub fn new() -> Minimal {
        Minimal(info("minimal", &[]))
    }
}

impl SchedExt for Minimal {
    fn info(&self) -> &OpsInfo {
        &self.0
    }
}

pub fn task(name: &str, program: u32, process: u32) -> TaskSpec {
    TaskSpec {
        name: name.into(),
        program: ProgramId(program),
        process: ProcessId(process),
        nice: Nice::ZERO,
        policy: Policy::Other,
        slice: None,
        affinity: None,
        working_set_kib: 0,
        background: false,
        group: None,
        kernel_thread: false,
        identity: Identity::default(),
    }
}

pub fn us(us: u64) -> DurationNs {
    DurationNs::from_us(us)
}

pub fn ms(ms: u64) -> DurationNs {
    DurationNs::from_ms(ms)
}

pub fn program(build: impl FnOnce(ProgramBuilder) -> ProgramBuilder) -> Program {
    build(ProgramBuilder::new()).build().unwrap()
}

/// Tasks that compute without end, one for each policy.
pub fn hogs(policies: &[Policy], end: DurationNs) -> Scenario {
    let mut scenario = Scenario::empty("hogs", End::After(end));
    scenario.programs = vec![program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))))];
    for (n, policy) in (0..).zip(policies) {
        let mut hog = task(&format!("hog/{n}"), 0, n);
        hog.policy = *policy;
        scenario.tasks.push(hog);
    }
    scenario
}

/// `hogs` tasks that compute without end and `sleepers` that run and sleep.
pub fn mixed(hogs: u32, sleepers: u32, end: DurationNs) -> Scenario {
    let mut scenario = Scenario::empty("mixed", End::After(end));
    scenario.programs = vec![
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(3))))),
        program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(100))).op(Op::Sleep(us(300))))),
    ];
    for n in 0..hogs {
        scenario.tasks.push(task(&format!("hog/{n}"), 0, n));
    }
    for n in 0..sleepers {
        scenario.tasks.push(task(&format!("sleeper/{n}"), 1, hogs + n));
    }
    scenario
}

pub fn config(cpus: usize, seed: u64) -> Config {
    Config { checkers: true, ..Config::new(Machine::uniform("test", cpus), seed) }
}

pub fn ext<S: SchedExt>(cpus: usize, scenario: &Scenario, ops: S) -> RunResult<S> {
    run(&config(cpus, 1), scenario, Class::Ext(ops)).unwrap()
}

/// The same on after the scheduler has left.
pub fn outlived<S: SchedExt>(cpus: usize, scenario: &Scenario, ops: S) -> RunResult<S> {
    let config = Config { outlive_exit: true, ..config(cpus, 1) };
    run(&config, scenario, Class::Ext(ops)).unwrap()
}

pub fn fair(cpus: usize, scenario: &Scenario) -> RunResult<Minimal> {
    run(&config(cpus, 1), scenario, Class::Fair).unwrap()
}

pub fn mask(cpus: &[u32]) -> CpuMask {
    let mut mask = CpuMask::EMPTY;
    cpus.iter().for_each(|&cpu| mask.set(CpuId(cpu)));
    mask
}
