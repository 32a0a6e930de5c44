//! A scheduler of the simulation that passes everything on to a BPF object and looks into its task descriptors.

use std::collections::BTreeMap;

use schedlab_base::{CpuId, CpuMask, DurationNs, TaskId, TimeNs, Weight};
use schedlab_scx::BpfScheduler;
use schedlab_sim::{Kernel, OpsInfo, PreemptReason, SchedExt, TimerId, TracePoint, TracePoints};
use schedlab_trace::ExitRecord;

/// Where `struct task_base` has the list of all tasks: after the CPU mask of 512 bits.
const OFFSET_OF_ALL: u64 = 64;

/// After which callback a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// `init_task`: of the new task and its creator.
    Init,
    Enqueue,
    Dispatch,
    Running,
    Tick,
    Quiescent,
    ExitTask,
}

/// What a descriptor, or the scheduler's variables, held.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) time: TimeNs,
    pub(crate) when: When,
    /// Whose callback it was, which need not be the task that the sample is of.
    pub(crate) caller: Option<TaskId>,
    pub(crate) task: TaskId,
    /// The members watched, in order.
    pub(crate) values: Vec<i64>,
}

/// The scheduler's variables after a pick.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) time: TimeNs,
    /// The variables watched, in order.
    pub(crate) values: Vec<i64>,
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) inner: BpfScheduler,
    pub(crate) samples: Vec<Sample>,
    pub(crate) picks: Vec<Pick>,
    members: Vec<&'static str>,
    variables: Vec<&'static str>,
    tasks: BTreeMap<TaskId, u64>,
}

impl Probe {
    pub(crate) fn new(inner: BpfScheduler, members: &[&'static str], variables: &[&'static str]) -> Probe {
        Probe {
            inner,
            samples: Vec::new(),
            picks: Vec::new(),
            members: members.to_vec(),
            variables: variables.to_vec(),
            tasks: BTreeMap::new(),
        }
    }

    /// A counter or another number of the scheduler.
    pub(crate) fn variable(&self, name: &str) -> u64 {
        self.inner.variable(name).expect("the scheduler has this variable")
    }

    /// Remembers where the new task's descriptor is: at the end of the list of all tasks.
    fn locate(&mut self, k: &Kernel, task: TaskId) {
        let head = self.variable("all_tasks");
        let last = self.inner.arena_member("list_head", head, ".prev").expect("a list in the arena");
        let descriptor = last - OFFSET_OF_ALL;
        let pid = self.inner.arena_member("task", descriptor, ".base.pid").expect("a descriptor");
        assert_eq!(pid as i32, k.task(task).pid, "the last descriptor is that of the new task");
        self.tasks.insert(task, descriptor);
    }

    /// Samples every task.
    fn sample(&mut self, k: &Kernel, when: When, caller: Option<TaskId>) {
        if self.members.is_empty() {
            return;
        }
        for (&task, &descriptor) in &self.tasks {
            let read = |path: &&str| {
                self.inner.arena_member("task", descriptor, path).expect("a member of struct task") as i64
            };
            let values = self.members.iter().map(read).collect();
            self.samples.push(Sample { time: k.ctx().now, when, caller, task, values });
        }
    }

    /// The values of the member watched first, whenever `task`'s own callback was `when`.
    pub(crate) fn of(&self, task: u32, when: When) -> Vec<(TimeNs, i64)> {
        let task = TaskId(task);
        let mine = self.samples.iter().filter(|s| s.task == task && s.caller == Some(task) && s.when == when);
        mine.map(|s| (s.time, s.values[0])).collect()
    }

    /// Every value that the member watched `at` had in `task`, without repetitions in a row.
    pub(crate) fn course(&self, task: u32, at: usize) -> Vec<i64> {
        let mine = self.samples.iter().filter(|s| s.task == TaskId(task));
        let mut values: Vec<i64> = mine.map(|s| s.values[at]).collect();
        values.dedup();
        values
    }

    /// The sample of `task` taken first at or after `time`.
    pub(crate) fn at(&self, task: u32, time: DurationNs) -> &Sample {
        let found = self.samples.iter().find(|s| s.task == TaskId(task) && s.time.0 >= time.0);
        found.expect("the task has a sample that late")
    }
}

impl SchedExt for Probe {
    fn info(&self) -> &OpsInfo {
        self.inner.info()
    }
    fn wants(&self) -> TracePoints {
        self.inner.wants()
    }

    fn reads_registers(&self) -> bool {
        self.inner.reads_registers()
    }
    fn user_times(&self) -> Vec<TimeNs> {
        self.inner.user_times()
    }
    fn user_turn(&mut self, turn: usize) {
        self.inner.user_turn(turn);
    }
    fn init(&mut self, k: &mut Kernel) -> Result<(), i32> {
        self.inner.init(k)
    }
    fn exit(&mut self, k: &mut Kernel, exit: &ExitRecord) {
        self.inner.exit(k, exit);
    }
    fn init_task(&mut self, k: &mut Kernel, task: TaskId, fork: bool) -> Result<(), i32> {
        self.inner.init_task(k, task, fork)?;
        self.locate(k, task);
        self.sample(k, When::Init, Some(task));
        Ok(())
    }
    fn exit_task(&mut self, k: &mut Kernel, task: TaskId, cancelled: bool) {
        self.inner.exit_task(k, task, cancelled);
        self.tasks.remove(&task);
        self.sample(k, When::ExitTask, Some(task));
    }
    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        self.inner.enable(k, task);
    }
    fn disable(&mut self, k: &mut Kernel, task: TaskId) {
        self.inner.disable(k, task);
    }
    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: CpuId, wake_flags: u64) -> i32 {
        self.inner.select_cpu(k, task, prev_cpu, wake_flags)
    }
    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.inner.enqueue(k, task, enq_flags);
        self.sample(k, When::Enqueue, Some(task));
    }
    fn dequeue(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {
        self.inner.dequeue(k, task, deq_flags);
    }
    fn dispatch(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) {
        self.inner.dispatch(k, cpu, prev);
        self.sample(k, When::Dispatch, prev);
        if !self.variables.is_empty() {
            let values = self.variables.iter().map(|name| self.variable(name) as i64).collect();
            self.picks.push(Pick { time: k.ctx().now, values });
        }
    }
    fn tick(&mut self, k: &mut Kernel, task: TaskId) {
        self.inner.tick(k, task);
        self.sample(k, When::Tick, Some(task));
    }
    fn runnable(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.inner.runnable(k, task, enq_flags);
    }
    fn running(&mut self, k: &mut Kernel, task: TaskId) {
        self.inner.running(k, task);
        self.sample(k, When::Running, Some(task));
    }
    fn stopping(&mut self, k: &mut Kernel, task: TaskId, runnable: bool) {
        self.inner.stopping(k, task, runnable);
    }
    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {
        self.inner.quiescent(k, task, deq_flags);
        self.sample(k, When::Quiescent, Some(task));
    }
    fn yield_task(&mut self, k: &mut Kernel, from: TaskId, to: Option<TaskId>) -> bool {
        self.inner.yield_task(k, from, to)
    }
    fn core_sched_before(&mut self, k: &mut Kernel, a: TaskId, b: TaskId) -> bool {
        self.inner.core_sched_before(k, a, b)
    }
    fn set_weight(&mut self, k: &mut Kernel, task: TaskId, weight: Weight) {
        self.inner.set_weight(k, task, weight);
    }
    fn set_cpumask(&mut self, k: &mut Kernel, task: TaskId, mask: &CpuMask) {
        self.inner.set_cpumask(k, task, mask);
    }
    fn update_idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool) {
        self.inner.update_idle(k, cpu, idle);
    }
    fn cpu_acquire(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.inner.cpu_acquire(k, cpu);
    }
    fn cpu_release(&mut self, k: &mut Kernel, cpu: CpuId, reason: PreemptReason, task: Option<TaskId>) {
        self.inner.cpu_release(k, cpu, reason, task);
    }
    fn dump(&mut self, k: &mut Kernel, exit: &ExitRecord) {
        self.inner.dump(k, exit);
    }
    fn dump_cpu(&mut self, k: &mut Kernel, exit: &ExitRecord, cpu: CpuId, idle: bool) {
        self.inner.dump_cpu(k, exit, cpu, idle);
    }
    fn dump_task(&mut self, k: &mut Kernel, exit: &ExitRecord, task: TaskId) {
        self.inner.dump_task(k, exit, task);
    }
    fn timer_fired(&mut self, k: &mut Kernel, timer: TimerId) {
        self.inner.timer_fired(k, timer);
    }
    fn tracepoint(&mut self, k: &mut Kernel, point: &TracePoint) {
        self.inner.tracepoint(k, point);
    }
}
