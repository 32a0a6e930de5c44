//! Other CPUs while a callback is paused in the middle: what the kernel's own concurrency does to a scheduler.
//!
//! A kernel path runs at once elsewhere in the simulator. Here a callback stops between two instructions, and the events of
//! other CPUs that are due by then take place. They are whole paths: a callback is paused inside of no other. Only
//! callbacks are paused that the core makes while it holds nothing but a run queue's lock. A path that needs this lock would
//! wait, which it cannot here; it makes the run void ([`crate::SimError::Conflict`]).

use crate::event::OfCpu;
use crate::state::kernel::Interrupt;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sim::Sim;
use schedlab_base::{CpuId, DurationNs};

/// Most events of other CPUs at one pause. Chosen: a wakeup, a switch and what these lead to.
const EVENTS: usize = 64;

impl<S: SchedExt> Sim<S> {
    /// Lets other CPUs run while the callback is paused, and continues it, until it has ended. `rq` is locked.
    #[cold]
    #[inline(never)]
    pub(crate) fn let_others_run(&mut self, rq: Option<CpuId>) {
        while let Some((number, delay)) = self.ops.as_ref().and_then(SchedExt::paused) {
            if self.may_pause() {
                self.k.held.pause = Some(number);
                self.others(rq, delay);
                self.k.held.pause = None;
            }
            self.ops.as_mut().expect("the helper that removes a scheduler waits").resume(&mut self.k);
        }
        self.k.held.on = false;
    }

    /// The path holds nothing that the simulator does not know of: it is a pass through `schedule()` or an interrupt, not a
    /// system call that wakes.
    fn may_pause(&self) -> bool {
        let ctx = &self.k.ctx;
        let wakes =
            ctx.op == OpKind::Enqueue && ctx.interrupt == Interrupt::None && ctx.op_task != ctx.current;
        !self.k.in_setup() && !wakes && ctx.interrupt != Interrupt::Soft
    }

    /// The events of other CPUs that are due within `delay`. If there are any, the paused callback continues after that time; as
    /// on a machine whose hypervisor takes the CPU away.
    fn others(&mut self, rq: Option<CpuId>, delay: DurationNs) {
        let here = self.k.ctx.cpu;
        let until = self.k.ctx.now + delay;
        let (mut ctx, event_time) = (self.k.ctx, self.k.event_time);
        let k = &mut self.k;
        let buffer = std::mem::take(&mut k.sched.buffer);
        let dispatching = (k.sched.nr_dispatched, k.sched.direct.take(), k.sched.direct_site.take());
        let deferred = (std::mem::take(&mut k.deferred), std::mem::take(&mut k.scx.deferred_locals));
        let wanted = (std::mem::take(&mut k.kicks_pending), std::mem::take(&mut k.resched_after_pick));
        (self.k.held.cpu, self.k.held.rq, self.k.held.task) = (here, rq, ctx.op_task);
        let mut postponed = [None; OfCpu::ALL.len()];
        for _ in 0..EVENTS {
            if self.k.sched.exit.is_some() || self.k.queue.next_time() > until {
                break;
            }
            let Some((time, event)) = self.k.queue.first() else { break };
            // What is looked at is next: nothing comes before it.
            ctx.now = ctx.now.max(time);
            let Some(cpu) = event.taken_by() else { break };
            match event.of_cpu().filter(|_| cpu == here) {
                // Interrupts are off here: it comes when they are on again.
                Some(kind) => {
                    self.k.queue.expect(kind, here, until + DurationNs(1));
                    postponed[kind as usize] = Some(kind);
                }
                None if cpu == here || Some(cpu) == rq => break,
                None => {}
            }
            if cpu == here {
                continue;
            }
            self.k.queue.pop();
            self.k.event_time = time;
            self.take(time, event);
            ctx.now = until;
        }
        postponed.into_iter().flatten().for_each(|kind| self.k.queue.expect(kind, here, ctx.now));
        (self.k.held.rq, self.k.held.task) = (None, None);
        let k = &mut self.k;
        k.sched.buffer = buffer;
        (k.sched.nr_dispatched, k.sched.direct, k.sched.direct_site) = dispatching;
        (k.deferred, k.scx.deferred_locals) = deferred;
        (k.kicks_pending, k.resched_after_pick) = (k.kicks_pending || wanted.0, wanted.1);
        (k.ctx, k.event_time) = (ctx, event_time);
    }
}
