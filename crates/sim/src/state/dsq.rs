//! Dispatch queues: FIFO or ordered by vtime, with iterators that survive removal.

use crate::event::lock::Timeline;
use crate::flags::{SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL};
use crate::state::cpu::Cpu;
use crate::state::order::Order;
use schedlab_base::{CpuId, DsqId, TaskId};

/// A queue's place in the kernel's table: local queues first (by CPU), then
/// global ones (by node), bypass queues (by CPU), then user queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DsqIx(pub(crate) u32);

/// One dispatch queue. Linked through the tasks' `dsq_prev` and `dsq_next`. What a local one needs shares a cache line
/// of the host.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Dsq {
    pub(crate) head: Option<TaskId>,
    pub(crate) tail: Option<TaskId>,
    pub(crate) nr: u32,
    pub(crate) seq: u32,
    /// The CPU of a local queue.
    pub(crate) local: Option<CpuId>,
    pub(crate) id: DsqId,
    /// Open iterators on it.
    pub(crate) cursors: u32,
    /// Order of the vtime-ordered tasks, empty for a FIFO.
    pub(crate) order: Order,
    pub(crate) lock: Timeline,
}

impl Dsq {
    pub(crate) fn new(id: DsqId, local: Option<CpuId>) -> Dsq {
        Dsq {
            id,
            nr: 0,
            seq: 0,
            head: None,
            tail: None,
            order: Order::default(),
            local,
            cursors: 0,
            lock: Timeline::default(),
        }
    }
}

impl Dsq {
    /// The built-in queues in the order of [`DsqIx`].
    pub(crate) fn built_in(cpus: &[Cpu], nr_nodes: u32) -> Vec<Dsq> {
        let local = cpus.iter().map(|cpu| Dsq::new(SCX_DSQ_LOCAL, Some(cpu.id)));
        let global = (0..nr_nodes).map(|_| Dsq::new(SCX_DSQ_GLOBAL, None));
        let bypass = cpus.iter().map(|_| Dsq::new(SCX_DSQ_BYPASS, None));
        local.chain(global).chain(bypass).collect()
    }
}

/// An open iterator (`struct bpf_iter_scx_dsq`): a handle of [`crate::Kernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsqIter(pub u32);

/// What an iterator remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) dsq: Option<DsqIx>,
    /// The last task given out, moved back when that one leaves the queue.
    pub(crate) at: Option<TaskId>,
    pub(crate) finished: bool,
    pub(crate) reverse: bool,
    /// Tasks queued after the iterator was made are not seen.
    pub(crate) seq: u32,
    pub(crate) slice: Option<u64>,
    pub(crate) vtime: Option<u64>,
}
