//! The callbacks of the simulated kernel, each as a run of the object's program for it.

use super::{BpfScheduler, TurnKind};
use crate::join::TASK_PT_REGS;
use crate::state::Outside;
use schedlab_base::{CpuId, CpuMask, DurationNs, TaskId, TimeNs, Weight};
use schedlab_bpf::GuestAddr;
use schedlab_bpf::insn::{Insn, op};
use schedlab_sim::{
    GroupIx, GroupKnobs, GroupMove, Kernel, OpKind, OpsInfo, PreemptReason, SchedExt, SchedIx, SubWish,
    TimerId, TracePoint, TracePoints, UPTIME, UserSpaceTask, UserSpaceTurn,
};
use schedlab_trace::{ExitKind, ExitRecord};

impl SchedExt for BpfScheduler {
    fn info(&self) -> &OpsInfo {
        &self.info
    }

    fn paused(&self) -> Option<(usize, DurationNs)> {
        self.pause_now()
    }

    fn resume(&mut self, k: &mut Kernel) {
        self.resume_paused(k);
    }

    fn fits_lane(&self) -> bool {
        self.may_use_lane()
    }

    #[inline(always)]
    fn seen_at(&self, task: TaskId) -> u64 {
        self.state.tasks.known(task).map_or(0, |addr| addr.0)
    }

    fn show(&mut self, k: &mut Kernel, task: TaskId) -> u64 {
        self.task(k, task).unwrap_or(0)
    }

    #[inline(always)]
    fn lane_call(&mut self, k: &mut Kernel, op: OpKind, args: [u64; 3]) -> u64 {
        self.call_in_lane(k, op, args)
    }

    fn uptime(&self) -> DurationNs {
        self.user.uptime.unwrap_or(UPTIME)
    }

    fn wants(&self) -> TracePoints {
        self.wants
    }

    fn reads_registers(&self) -> bool {
        let reads = |insn: &Insn| {
            insn.code == op::CALL_K && insn.src == op::CALL_HELPER && insn.imm as u32 == TASK_PT_REGS
        };
        self.image.functions.iter().any(|function| function.insns.iter().any(reads))
    }

    fn user_times(&self) -> Vec<TimeNs> {
        self.turns.iter().map(|turn| turn.at).collect()
    }

    fn user_space(&self) -> Option<UserSpaceTask> {
        self.user.part.as_ref().map(|user| user.task())
    }

    fn user_space_turn(&mut self, k: &mut Kernel) -> UserSpaceTurn {
        self.take_user_space_turn(k)
    }

    fn user_turn(&mut self, turn: usize) {
        if let TurnKind::Write { addr, bytes } = &self.turns[turn].kind {
            let written = self.mem.write(*addr, bytes);
            debug_assert!(written.is_ok(), "the variable has this place since the object was linked");
        }
    }

    fn turn_runs(&self, turn: usize) -> bool {
        matches!(self.turns[turn].kind, TurnKind::Run(_))
    }

    fn run_turn(&mut self, k: &mut Kernel, turn: usize) {
        if let TurnKind::Run(program) = &self.turns[turn].kind {
            let program = program.clone();
            self.run_program(k, &program);
        }
    }

    fn init(&mut self, k: &mut Kernel) -> Result<(), i32> {
        let table = self.state.tasks.fd_table();
        crate::files::build(&mut self.mem, &self.state.offsets, k.descriptors(), table)
            .map_err(|_| schedlab_sim::flags::errno::ENOMEM)?;
        if k.sched_here() == SchedIx::ROOT {
            self.state.tasks.show_system(k, &mut self.mem).expect("the system's tasks are mapped");
        } else {
            self.set_group_variable(k);
        }
        let groups = self.state.tasks.groups.prepare(k, &mut self.mem);
        groups.map_err(|_| schedlab_sim::flags::errno::ENOMEM)?;
        self.run_programs(k)?;
        if let Some(func) = self.extra.init_cids {
            let r0 = self.run(k, func, OpKind::Init, &[]);
            Self::outcome(r0)?;
        }
        self.state.outside = Some(Outside::Enabler);
        let r0 = self.call(k, OpKind::Init, &[]);
        self.state.outside = None;
        Self::outcome(r0)?;
        self.state.initialized = self.ops[OpKind::Init as usize].is_some();
        Ok(())
    }

    fn exit(&mut self, k: &mut Kernel, exit: &ExitRecord) {
        let info =
            self.guest.write_exit_info(&self.state.offsets, exit, k, self.state.initialized, &mut self.mem);
        self.call(k, OpKind::Exit, &[info]);
    }

    fn init_task(&mut self, k: &mut Kernel, task: TaskId, fork: bool) -> Result<(), i32> {
        let Some(pointer) = self.task(k, task) else { return Err(schedlab_sim::flags::errno::ENOMEM) };
        let cgroup = self.state.tasks.groups.cgroup(k.task_group(task));
        let args = self.guest.write_init_task_args(fork, cgroup, &mut self.mem);
        if fork {
            // `cgroup_fork()`: it comes into the group of its parent after this (`cgroup_post_fork()`).
            self.state.tasks.enters(task, GroupIx::ROOT, &mut self.mem);
        }
        let r0 = self.call(k, OpKind::InitTask, &[pointer, args]);
        if fork {
            let group = k.task_group(task);
            self.state.tasks.moved(task, group, k.groups().get(group).level, &mut self.mem);
        }
        Self::outcome(r0)?;
        let disallow = self.state.tasks.disallow_at(GuestAddr(pointer));
        if self.mem.read_u8(disallow).is_ok_and(|flag| flag != 0) {
            let task = k.task(task);
            let who = format!("{}[{}] during fork", task.name(), task.pid);
            k.error(ExitKind::Error, format!("ops.init_task() set task->scx.disallow for {who}"));
        }
        Ok(())
    }

    fn exit_task(&mut self, k: &mut Kernel, task: TaskId, cancelled: bool) {
        if self.ops[OpKind::ExitTask as usize].is_some()
            && let Some(pointer) = self.task(k, task)
        {
            let args = self.guest.write_exit_task_args(cancelled, &mut self.mem);
            self.call(k, OpKind::ExitTask, &[pointer, args]);
        }
        // What a program still points at stays as the task was last.
        if k.is_own(task) {
            k.hide_task(task);
        }
        self.state.forget_task(task, &mut self.mem);
    }

    fn run_begins(&mut self) {
        self.costs = Default::default();
    }

    fn task_gone(&mut self, task: TaskId) {
        self.state.forget_task(task, &mut self.mem);
        self.state.children.iter_mut().for_each(|child| child.task_gone(task));
    }

    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        let args = self.guest.enable_args.0;
        let mask = self.cid_form.then(|| k.task(task).cpus_allowed.clone());
        if let Some(mask) = &mask {
            self.guest.write_cmask(&self.state.cids, mask, &mut self.mem);
        }
        self.call_task(k, OpKind::Enable, task, args);
        if let Some(mask) = mask {
            // The kernel follows up with the mask, so that it need not be read in two places.
            self.set_cpumask(k, task, &mask);
        }
    }

    fn disable(&mut self, k: &mut Kernel, task: TaskId) {
        self.call_task(k, OpKind::Disable, task, 0);
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: CpuId, wake_flags: u64) -> i32 {
        let prev = self.cpu_number(prev_cpu);
        let Some(chosen) = self.call_about(k, OpKind::SelectCpu, task, prev, wake_flags) else {
            return prev_cpu.0 as i32;
        };
        let chosen = chosen as u32 as i32;
        if !self.cid_form {
            return chosen;
        }
        self.state.cids.cpu(chosen).map_or(-1, |cpu| cpu.0 as i32)
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.call_task(k, OpKind::Enqueue, task, enq_flags);
    }

    fn dequeue(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {
        self.call_task(k, OpKind::Dequeue, task, deq_flags);
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) {
        if let Some(pointer) = self.optional(k, prev) {
            let cpu = self.cpu_number(cpu);
            self.call(k, OpKind::Dispatch, &[cpu, pointer]);
        }
        if let (true, Some(prev)) = (self.priorities.is_some(), prev) {
            self.look_at_priority(k, OpKind::Dispatch, prev);
        }
    }

    fn tick(&mut self, k: &mut Kernel, task: TaskId) {
        self.call_task(k, OpKind::Tick, task, 0);
    }

    fn runnable(&mut self, k: &mut Kernel, task: TaskId, enq_flags: u64) {
        self.call_task(k, OpKind::Runnable, task, enq_flags);
    }

    fn running(&mut self, k: &mut Kernel, task: TaskId) {
        self.call_task(k, OpKind::Running, task, 0);
    }

    fn stopping(&mut self, k: &mut Kernel, task: TaskId, runnable: bool) {
        self.call_task(k, OpKind::Stopping, task, u64::from(runnable));
    }

    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, deq_flags: u64) {
        self.call_task(k, OpKind::Quiescent, task, deq_flags);
    }

    fn yield_task(&mut self, k: &mut Kernel, from: TaskId, to: Option<TaskId>) -> bool {
        match self.optional(k, to) {
            Some(to) => self.call_task(k, OpKind::Yield, from, to) & 1 != 0,
            None => false,
        }
    }

    fn core_sched_before(&mut self, k: &mut Kernel, a: TaskId, b: TaskId) -> bool {
        match self.task(k, b) {
            Some(b) => self.call_task(k, OpKind::CoreSchedBefore, a, b) & 1 != 0,
            None => false,
        }
    }

    fn set_weight(&mut self, k: &mut Kernel, task: TaskId, weight: Weight) {
        self.call_task(k, OpKind::SetWeight, task, u64::from(weight.0));
    }

    fn set_cpumask(&mut self, k: &mut Kernel, task: TaskId, mask: &CpuMask) {
        if self.ops[OpKind::SetCpumask as usize].is_none() {
            return;
        }
        let argument = match self.cid_form {
            true => self.guest.write_cmask(&self.state.cids, mask, &mut self.mem),
            false => self.guest.write_cpumask(mask, &mut self.mem),
        };
        self.call_task(k, OpKind::SetCpumask, task, argument);
    }

    fn update_idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool) {
        let cpu = self.cpu_number(cpu);
        self.call(k, OpKind::UpdateIdle, &[cpu, u64::from(idle)]);
    }

    fn cpu_acquire(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.call(k, OpKind::CpuAcquire, &[u64::from(cpu.0), 0]);
    }

    fn cpu_release(&mut self, k: &mut Kernel, cpu: CpuId, reason: PreemptReason, task: Option<TaskId>) {
        if let Some(task) = self.optional(k, task) {
            let args = self.guest.write_release_args(reason, task, &mut self.mem);
            self.call(k, OpKind::CpuRelease, &[u64::from(cpu.0), args]);
        }
    }

    fn show_group(&mut self, k: &Kernel, group: GroupIx) {
        self.state.tasks.groups.show(k, group, &mut self.mem);
        self.state.children.iter_mut().for_each(|child| child.show_group(k, group));
    }

    fn group_gone(&mut self, group: GroupIx) {
        self.state.forget_group(group, &mut self.mem);
        self.state.children.iter_mut().for_each(|child| child.group_gone(group));
    }

    fn task_enters(&mut self, task: TaskId, group: GroupIx) {
        self.state.tasks.enters(task, group, &mut self.mem);
        self.state.children.iter_mut().for_each(|child| child.task_enters(task, group));
    }

    fn task_moved(&mut self, k: &Kernel, task: TaskId) {
        let group = k.task_group(task);
        self.state.tasks.moved(task, group, k.groups().get(group).level, &mut self.mem);
        self.state.children.iter_mut().for_each(|child| child.task_moved(k, task));
    }

    fn subs(&self) -> &[SubWish] {
        &self.subs.wishes
    }

    fn take_sub(&mut self, number: usize) -> Box<BpfScheduler> {
        self.subs.objects[number].take().expect("a sub-scheduler is attached once")
    }

    fn adopt(&mut self, ix: SchedIx, sub: Box<BpfScheduler>) {
        self.state.children.put(ix, sub);
    }

    fn sub(&mut self, ix: SchedIx) -> &mut BpfScheduler {
        self.state.children.get(ix)
    }

    fn owns(&mut self, k: &mut Kernel, task: TaskId) {
        let shown = self.state.tasks.show_again(task, k, &mut self.mem);
        debug_assert!(shown.is_ok(), "a known task has its place");
    }

    fn sub_attach(&mut self, k: &mut Kernel, child: SchedIx) -> Result<(), i32> {
        let r0 = self.call_sub_op(k, OpKind::SubAttach, child);
        Self::outcome(r0)
    }

    fn sub_detach(&mut self, k: &mut Kernel, child: SchedIx) {
        self.call_sub_op(k, OpKind::SubDetach, child);
    }

    fn sub_caps_updated(&mut self, k: &mut Kernel, cpus: &CpuMask, caps: u8) {
        let mask = self.guest.write_cmask(&self.state.cids, cpus, &mut self.mem);
        self.call(k, OpKind::SubCapsUpdated, &[mask, u64::from(caps)]);
    }

    fn sub_ecaps_updated(&mut self, k: &mut Kernel, cpu: CpuId, before: u8, after: u8) {
        let cid = self.cpu_number(cpu);
        self.call(k, OpKind::SubEcapsUpdated, &[cid, u64::from(before), u64::from(after)]);
    }

    fn cgroup_init(&mut self, k: &mut Kernel, group: GroupIx) -> Result<(), i32> {
        let args = self.guest.write_cgroup_init_args(&k.groups().get(group).knobs, &mut self.mem);
        let cgroup = self.cgroup(group);
        let r0 = self.call(k, OpKind::CgroupInit, &[cgroup, args]);
        // A failure ejects the scheduler while it is attached, whatever the number.
        if k.tells_groups() { Self::sane_outcome(k, "cgroup_init", r0) } else { Self::outcome(r0) }
    }

    fn cgroup_exit(&mut self, k: &mut Kernel, group: GroupIx) {
        let cgroup = self.cgroup(group);
        if !k.groups().get(group).life.exists() {
            self.state.tasks.groups.die(group, &mut self.mem);
        }
        self.call(k, OpKind::CgroupExit, &[cgroup]);
    }

    fn cgroup_prep_move(&mut self, k: &mut Kernel, task: TaskId, way: GroupMove) -> Result<(), i32> {
        let (from, to) = (self.cgroup(way.from), self.cgroup(way.to));
        match self.call_about(k, OpKind::CgroupPrepMove, task, from, to) {
            Some(r0) => Self::sane_outcome(k, "cgroup_prep_move", r0),
            None => Ok(()),
        }
    }

    fn cgroup_move(&mut self, k: &mut Kernel, task: TaskId, way: GroupMove) {
        let (from, to) = (self.cgroup(way.from), self.cgroup(way.to));
        self.call_about(k, OpKind::CgroupMove, task, from, to);
    }

    fn cgroup_set_weight(&mut self, k: &mut Kernel, group: GroupIx, weight: u32) {
        let cgroup = self.cgroup(group);
        self.call(k, OpKind::CgroupSetWeight, &[cgroup, u64::from(weight)]);
    }

    fn cgroup_set_bandwidth(&mut self, k: &mut Kernel, group: GroupIx, knobs: GroupKnobs) {
        let cgroup = self.cgroup(group);
        let args = [cgroup, knobs.period_us, knobs.quota_us, knobs.burst_us];
        self.call(k, OpKind::CgroupSetBandwidth, &args);
    }

    fn cgroup_set_idle(&mut self, k: &mut Kernel, group: GroupIx, idle: bool) {
        let cgroup = self.cgroup(group);
        self.call(k, OpKind::CgroupSetIdle, &[cgroup, u64::from(idle)]);
    }

    fn cpu_online(&mut self, k: &mut Kernel, cpu: CpuId) {
        let cpu = self.cpu_number(cpu);
        self.call(k, OpKind::CpuOnline, &[cpu]);
    }

    fn cpu_offline(&mut self, k: &mut Kernel, cpu: CpuId) {
        let cpu = self.cpu_number(cpu);
        self.call(k, OpKind::CpuOffline, &[cpu]);
    }

    fn dump(&mut self, k: &mut Kernel, exit: &ExitRecord) {
        let context = self.dump_context(k, exit);
        self.call(k, OpKind::Dump, &[context]);
        self.end_dump(k);
    }

    fn dump_cpu(&mut self, k: &mut Kernel, exit: &ExitRecord, cpu: CpuId, idle: bool) {
        let (context, cpu) = (self.dump_context(k, exit), self.cpu_number(cpu));
        self.call(k, OpKind::DumpCpu, &[context, cpu, u64::from(idle)]);
        self.end_dump(k);
    }

    fn dump_task(&mut self, k: &mut Kernel, exit: &ExitRecord, task: TaskId) {
        if let Some(pointer) = self.task(k, task) {
            let context = self.dump_context(k, exit);
            self.call(k, OpKind::DumpTask, &[context, pointer]);
            self.end_dump(k);
        }
    }

    fn timer_fired(&mut self, k: &mut Kernel, timer: TimerId) {
        let Some(due) = self.state.timer_due(timer, &mut self.mem) else { return };
        self.enter(k, due.func, OpKind::Timer, &due.args);
        self.state.timer_done();
    }

    fn source(&self, site: u32) -> Option<String> {
        let at = self.image.code.location(site);
        let line = self.image.calling_line(&at)?;
        Some(format!("BPF program {}: {line}", at.function))
    }

    fn mark(&self) -> u64 {
        self.mark.and_then(|addr| self.mem.read_u64(addr).ok()).unwrap_or(0)
    }

    fn tracepoint(&mut self, k: &mut Kernel, point: &TracePoint) {
        let kind = point.kind();
        if self.tracing[kind as usize].is_empty() {
            return;
        }
        if let Some(args) = self.trace_args(k, point) {
            self.trace(k, kind, &args);
        }
    }
}

impl BpfScheduler {
    /// The pointer to a group.
    fn cgroup(&self, group: GroupIx) -> u64 {
        self.state.tasks.groups.cgroup(group).0
    }

    fn path_of(&mut self, k: &Kernel, group: GroupIx) -> u64 {
        self.state.tasks.groups.write_path(k, group, &mut self.mem)
    }

    /// The typed arguments of a trace point (kernel: include/trace/events/sched.h, task.h, syscalls.h).
    fn trace_args(&mut self, k: &mut Kernel, point: &TracePoint) -> Option<[u64; 4]> {
        let idle = self.state.tasks.idle(k.ctx().cpu).0;
        let mut or_idle = |k: &mut Kernel, task: Option<TaskId>| match task {
            Some(task) => self.task(k, task),
            None => Some(idle),
        };
        Some(match *point {
            TracePoint::SchedSwitch { preempt, prev, next, prev_state } => {
                [u64::from(preempt), or_idle(k, prev)?, or_idle(k, next)?, u64::from(prev_state)]
            }
            TracePoint::SchedWaking { task }
            | TracePoint::SchedWakeup { task }
            | TracePoint::SchedWakeupNew { task } => [self.task(k, task)?, 0, 0, 0],
            TracePoint::SchedMigrateTask { task, dest } => [self.task(k, task)?, u64::from(dest.0), 0, 0],
            TracePoint::SchedProcessFork { parent, child } => {
                let shell = self.state.tasks.shell().0;
                let parent = match parent {
                    Some(parent) => self.task(k, parent)?,
                    None => shell,
                };
                [parent, self.task(k, child)?, 0, 0]
            }
            TracePoint::SchedProcessExit { task, group_dead } => {
                [self.task(k, task)?, u64::from(group_dead), 0, 0]
            }
            TracePoint::SchedProcessExec { task } => {
                let pid = k.task(task).pid;
                [self.task(k, task)?, pid as u64, self.guest.scratch.0, 0]
            }
            TracePoint::TaskRename { task } => {
                let task = self.task(k, task)?;
                [task, task + self.state.offsets.task.comm, 0, 0]
            }
            TracePoint::SysEnter { nr, args } => [self.write_regs(k, (nr, args), None)?, nr as u64, 0, 0],
            TracePoint::SysExit { nr, args, ret } => {
                [self.write_regs(k, (nr, args), Some(ret))?, ret as u64, 0, 0]
            }
            TracePoint::CgroupMkdir { group } | TracePoint::CgroupRmdir { group } => {
                [self.cgroup(group), self.path_of(k, group), 0, 0]
            }
            TracePoint::CgroupAttachTask { group, task } => {
                // The fifth argument says that all threads of the process move, which none does here.
                [self.cgroup(group), self.path_of(k, group), self.task(k, task)?, 0]
            }
            // The open file has no type here, so no program reads it.
            TracePoint::CpusetWrite { group } => {
                let (text, len) = self.state.tasks.groups.write_cpus(k, group, &mut self.mem);
                [0, text, len, 0]
            }
        })
    }
}
