//! The sched_ext kfuncs, named as the kernel's without `scx_bpf_`. Return values
//! and errors are the kernel's; numbers that come from a program are plain
//! integers, checked here.

use crate::Kernel;
use crate::dsq::DsqIter;
use crate::scx::EventCounters;
use schedlab_base::{CpuId, CpuMask, DsqId, TaskId, TimeNs};
use schedlab_trace::ExitKind;

impl Kernel {
    /// `scx_bpf_create_dsq()`: 0 or a negative errno.
    pub fn create_dsq(&mut self, id: DsqId, node: i32) -> i32 {
        let _ = (id, node);
        unimplemented!()
    }
    /// `scx_bpf_destroy_dsq()`.
    pub fn destroy_dsq(&mut self, id: DsqId) {
        let _ = id;
        unimplemented!()
    }
    /// `scx_bpf_dsq_insert()`.
    pub fn dsq_insert(&mut self, task: TaskId, dsq: DsqId, slice: u64, enq_flags: u64) -> bool {
        let _ = (task, dsq, slice, enq_flags);
        unimplemented!()
    }
    /// `scx_bpf_dsq_insert_vtime()`.
    pub fn dsq_insert_vtime(
        &mut self,
        task: TaskId,
        dsq: DsqId,
        slice: u64,
        vtime: u64,
        enq_flags: u64,
    ) -> bool {
        let _ = (task, dsq, slice, vtime, enq_flags);
        unimplemented!()
    }
    /// `scx_bpf_dispatch_nr_slots()`.
    pub fn dispatch_nr_slots(&self) -> u32 {
        unimplemented!()
    }
    /// `scx_bpf_dispatch_cancel()`.
    pub fn dispatch_cancel(&mut self) {
        unimplemented!()
    }
    /// `scx_bpf_dsq_move_to_local()`.
    pub fn dsq_move_to_local(&mut self, dsq: DsqId, enq_flags: u64) -> bool {
        let _ = (dsq, enq_flags);
        unimplemented!()
    }
    /// `scx_bpf_dsq_nr_queued()`: the number or a negative errno.
    pub fn dsq_nr_queued(&self, dsq: DsqId) -> i32 {
        let _ = dsq;
        unimplemented!()
    }
    /// `scx_bpf_dsq_peek()`.
    pub fn dsq_peek(&mut self, dsq: DsqId) -> Option<TaskId> {
        let _ = dsq;
        unimplemented!()
    }
    /// `bpf_iter_scx_dsq_new()`. # Errors: a negative errno.
    pub fn dsq_iter_new(&mut self, dsq: DsqId, flags: u64) -> Result<DsqIter, i32> {
        let _ = (dsq, flags);
        unimplemented!()
    }
    /// `bpf_iter_scx_dsq_next()`.
    pub fn dsq_iter_next(&mut self, iter: DsqIter) -> Option<TaskId> {
        let _ = iter;
        unimplemented!()
    }
    /// `bpf_iter_scx_dsq_destroy()`.
    pub fn dsq_iter_destroy(&mut self, iter: DsqIter) {
        let _ = iter;
        unimplemented!()
    }
    /// `scx_bpf_dsq_move_set_slice()`.
    pub fn dsq_move_set_slice(&mut self, iter: DsqIter, slice: u64) {
        let _ = (iter, slice);
        unimplemented!()
    }
    /// `scx_bpf_dsq_move_set_vtime()`.
    pub fn dsq_move_set_vtime(&mut self, iter: DsqIter, vtime: u64) {
        let _ = (iter, vtime);
        unimplemented!()
    }
    /// `scx_bpf_dsq_move()`.
    pub fn dsq_move(&mut self, iter: DsqIter, task: TaskId, dsq: DsqId, enq_flags: u64) -> bool {
        let _ = (iter, task, dsq, enq_flags);
        unimplemented!()
    }
    /// `scx_bpf_dsq_move_vtime()`.
    pub fn dsq_move_vtime(&mut self, iter: DsqIter, task: TaskId, dsq: DsqId, enq_flags: u64) -> bool {
        let _ = (iter, task, dsq, enq_flags);
        unimplemented!()
    }
    /// `scx_bpf_reenqueue_local()`: the number of tasks that will be re-enqueued.
    pub fn reenqueue_local(&mut self) -> u32 {
        unimplemented!()
    }
    /// `scx_bpf_kick_cpu()`.
    pub fn kick_cpu(&mut self, cpu: i32, flags: u64) {
        let _ = (cpu, flags);
        unimplemented!()
    }
    /// `scx_bpf_select_cpu_dfl()`: the CPU, and whether it was idle.
    pub fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) {
        let _ = (task, prev_cpu, wake_flags);
        unimplemented!()
    }
    /// `scx_bpf_select_cpu_and()`: the idle CPU or a negative errno.
    pub fn select_cpu_and(
        &mut self,
        task: TaskId,
        prev_cpu: i32,
        wake_flags: u64,
        allowed: &CpuMask,
        flags: u64,
    ) -> i32 {
        let _ = (task, prev_cpu, wake_flags, allowed, flags);
        unimplemented!()
    }
    /// `scx_bpf_test_and_clear_cpu_idle()`.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        let _ = cpu;
        unimplemented!()
    }
    /// `scx_bpf_pick_idle_cpu()`: the CPU or a negative errno.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuMask, flags: u64) -> i32 {
        let _ = (allowed, flags);
        unimplemented!()
    }
    /// `scx_bpf_pick_any_cpu()`: the CPU or a negative errno.
    pub fn pick_any_cpu(&mut self, allowed: &CpuMask, flags: u64) -> i32 {
        let _ = (allowed, flags);
        unimplemented!()
    }
    /// `scx_bpf_get_idle_cpumask()`.
    pub fn idle_cpumask(&mut self) -> CpuMask {
        unimplemented!()
    }
    /// `scx_bpf_get_idle_smtmask()`.
    pub fn idle_smtmask(&mut self) -> CpuMask {
        unimplemented!()
    }
    /// `scx_bpf_task_running()`.
    pub fn task_running(&self, task: TaskId) -> bool {
        self.task(task).on_cpu
    }
    /// `scx_bpf_task_cpu()`.
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.task(task).cpu
    }
    /// `scx_bpf_task_set_slice()`.
    pub fn task_set_slice(&mut self, task: TaskId, slice: u64) -> bool {
        self.task_mut(task).scx.slice = slice;
        true
    }
    /// `scx_bpf_task_set_dsq_vtime()`.
    pub fn task_set_dsq_vtime(&mut self, task: TaskId, vtime: u64) -> bool {
        self.task_mut(task).scx.dsq_vtime = vtime;
        true
    }
    /// `scx_bpf_cpu_curr()`: an error for a bad CPU; nothing is the idle task.
    pub fn cpu_curr(&mut self, cpu: i32) -> Option<TaskId> {
        let _ = cpu;
        unimplemented!()
    }
    /// `scx_bpf_nr_cpu_ids()`.
    pub fn nr_cpu_ids(&self) -> u32 {
        self.cpus.len() as u32
    }
    /// `scx_bpf_nr_node_ids()`.
    pub fn nr_node_ids(&self) -> u32 {
        self.nr_nodes
    }
    /// `scx_bpf_cpu_node()`: the node, or 0 after an error for a bad CPU.
    pub fn cpu_node(&mut self, cpu: i32) -> i32 {
        let _ = cpu;
        unimplemented!()
    }
    /// `scx_bpf_cpuperf_cap()`: 1024 for every CPU.
    pub fn cpuperf_cap(&mut self, cpu: i32) -> u32 {
        let _ = cpu;
        1024
    }
    /// `scx_bpf_cpuperf_cur()`: 1024, frequencies are not modelled.
    pub fn cpuperf_cur(&mut self, cpu: i32) -> u32 {
        let _ = cpu;
        1024
    }
    /// `scx_bpf_cpuperf_set()`: checked, otherwise without effect.
    pub fn cpuperf_set(&mut self, cpu: i32, perf: u32) {
        let _ = (cpu, perf);
        unimplemented!()
    }
    /// `scx_bpf_events()`.
    pub fn events(&self) -> &EventCounters {
        &self.scx.events
    }
    /// `scx_bpf_now()`.
    pub fn now(&self) -> TimeNs {
        self.ctx.now
    }
    /// `scx_error()`: claims the exit; the first one counts.
    pub fn error(&mut self, kind: ExitKind, message: String) {
        let _ = (kind, message);
        unimplemented!()
    }
    /// `scx_bpf_exit()`.
    pub fn bpf_exit(&mut self, code: i64, message: String) {
        let _ = (code, message);
        unimplemented!()
    }
    /// `scx_bpf_dump()`: a line of the exit dump, from the dump callbacks.
    pub fn dump_line(&mut self, line: &str) {
        let _ = line;
        unimplemented!()
    }
}
