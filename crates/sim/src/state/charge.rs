//! What kernel paths cost: the local time of the CPU of the context advances, locks are waited for, sums are kept.

use crate::Kernel;
use crate::event::lock::{Grant, SimLockId, Timeline};
use schedlab_base::{CpuId, DurationNs};

/// What scheduling has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostTotals {
    /// CPU time of schedule(), wakeups, ticks, interrupts and policy code.
    pub sched_cost: DurationNs,
    /// BPF instructions executed.
    pub bpf_insns: u64,
    /// Time spent waiting for locks (part of `sched_cost`).
    pub lock_wait: DurationNs,
    /// Cache lines of the scheduler's memory that came from another CPU.
    pub lines: u64,
    /// Context switches.
    pub switches: u64,
}

impl CostTotals {
    /// Adds a scheduling cost. Local times are saturated long before this sum of their steps can wrap.
    #[inline(always)]
    fn count(&mut self, cost: DurationNs) {
        self.sched_cost = DurationNs(self.sched_cost.0.wrapping_add(cost.0));
    }
}

/// What a charge does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charging {
    /// A charge advances the CPU's local time.
    Whole,
    /// The CPUs are turns of one processor, which takes the longer the more of them execute.
    Shared,
    /// Nothing: the run is being set up, which costs no time and waits for no lock.
    Nothing,
}

impl Kernel {
    /// The callback that runs has paused in the middle ([`crate::SchedExt::paused`]).
    pub fn callback_paused(&mut self) {
        self.held.on = true;
    }

    /// The run is being set up: nothing costs time.
    #[inline]
    pub(crate) fn in_setup(&self) -> bool {
        self.charging == Charging::Nothing
    }

    /// Begins or ends a part of the run that costs no time; true if such a part had begun already.
    pub(crate) fn set_setup(&mut self, setup: bool) -> bool {
        let was = self.in_setup();
        self.charging = match (setup, self.topology.one_processor) {
            (true, _) => Charging::Nothing,
            (false, true) => Charging::Shared,
            (false, false) => Charging::Whole,
        };
        was
    }

    /// Advances the CPU's local time; counted as scheduling cost.
    #[inline]
    pub fn charge(&mut self, cost: DurationNs) {
        if self.charging != Charging::Whole {
            return self.charge_otherwise(cost);
        }
        self.ctx.now += cost;
        self.totals.count(cost);
    }

    #[inline(never)]
    fn charge_otherwise(&mut self, cost: DurationNs) {
        if !self.in_setup() {
            let span = self.spend(cost);
            self.totals.count(span);
        }
    }

    /// Lets the CPU of the context execute code that takes `work` at full speed; returns how long it took.
    #[inline]
    pub(crate) fn spend(&mut self, work: DurationNs) -> DurationNs {
        let span = if self.topology.one_processor { self.share_processor(work) } else { work };
        debug_assert!(span >= work, "a shared processor is never faster than an own one");
        self.ctx.now += span;
        span
    }

    /// Charges `count` BPF instructions, and the `cost` of the call that they end with. Fractions of a nanosecond are carried on.
    #[inline(always)]
    pub fn charge_call(&mut self, count: u64, cost: DurationNs) {
        if self.charging != Charging::Whole {
            return self.charge_call_otherwise(count, cost);
        }
        let cost = self.price_insns(count) + cost;
        self.ctx.now += cost;
        self.totals.count(cost);
    }

    #[inline(never)]
    fn charge_call_otherwise(&mut self, count: u64, cost: DurationNs) {
        if !self.in_setup() {
            let insns = self.price_insns(count);
            self.charge(insns + cost);
        }
    }

    /// Counts instructions; what they cost.
    #[inline(always)]
    fn price_insns(&mut self, count: u64) -> DurationNs {
        self.totals.bpf_insns += count;
        let ps = count * self.machine.costs.bpf_insn_ps + self.ps_remainder;
        self.ps_remainder = ps % 1000;
        debug_assert!(self.ps_remainder < 1000, "the remainder is less than a nanosecond");
        DurationNs(ps / 1000)
    }

    /// Charges `count` cache lines of the scheduler's memory that another CPU had written.
    #[cold]
    pub fn charge_lines(&mut self, count: u64) {
        if !self.in_setup() {
            self.totals.lines += count;
            self.charge(self.machine.costs.line_transfer * count);
        }
    }

    /// Makes a lock with a timeline.
    pub fn lock_new(&mut self) -> SimLockId {
        self.locks.push(Timeline::default());
        SimLockId(self.locks.len() as u32 - 1)
    }

    /// Takes a lock: waits in simulated time while another path holds it, and
    /// pays the transfer of its cache line.
    pub fn lock_acquire(&mut self, lock: SimLockId) {
        if !self.in_setup() {
            debug_assert!((lock.0 as usize) < self.locks.len(), "the lock was made");
            self.acquire(|k| &mut k.locks[lock.0 as usize]);
        }
    }

    /// Gives a lock back.
    pub fn lock_release(&mut self, lock: SimLockId) {
        let now = self.ctx.now;
        debug_assert!((lock.0 as usize) < self.locks.len(), "the lock was made");
        self.locks[lock.0 as usize].release(now);
    }

    /// Takes a lock of the kernel: waits for it and pays for its hand-over.
    #[inline(always)]
    pub(crate) fn acquire(&mut self, lock: impl Fn(&mut Kernel) -> &mut Timeline) {
        let (now, event, cpu) = (self.ctx.now, self.event_time, self.ctx.cpu);
        match lock(self).acquire_free(now, event, cpu) {
            Some(transfer) => self.charge(self.hand_over(transfer)),
            None => self.acquire_among(lock),
        }
    }

    /// Takes a lock of the kernel where other sections are near.
    #[inline(never)]
    fn acquire_among(&mut self, lock: impl Fn(&mut Kernel) -> &mut Timeline) {
        let (now, event, cpu) = (self.ctx.now, self.event_time, self.ctx.cpu);
        let grant = lock(self).acquire_among(now, event, cpu);
        debug_assert!(grant.at >= now, "a lock is granted no earlier than it is asked for");
        let mut cost = self.hand_over(grant.transfer);
        if grant.at > now {
            cost += self.wait_for(grant);
        }
        self.charge(cost);
    }

    /// What taking a free lock costs.
    fn hand_over(&self, transfer: bool) -> DurationNs {
        let costs = &self.machine.costs;
        if transfer { costs.lock + costs.lock_transfer } else { costs.lock }
    }

    /// Waits until the lock is there; what the CPUs that spin on it add to its hand-over. The wait ends with the section before,
    /// and is no work: it takes no longer where the CPUs are turns of one processor.
    #[inline(never)]
    fn wait_for(&mut self, grant: Grant) -> DurationNs {
        debug_assert!(self.ctx.now <= grant.at, "a wait is no negative span");
        debug_assert!(!self.in_setup(), "the setup of a run takes no lock");
        let wait = grant.at - self.ctx.now;
        self.ctx.now = grant.at;
        self.totals.lock_wait += wait;
        self.totals.count(wait);
        self.machine.costs.lock_spinner * grant.spinners
    }

    /// Takes the rq lock of `cpu`.
    #[inline(never)]
    pub(crate) fn rq_lock(&mut self, cpu: CpuId) {
        if !self.in_setup() {
            if self.held.on {
                self.lock_meets(cpu);
            }
            self.acquire(|k| &mut k.cpus[cpu.index()].lock);
        }
    }

    /// [`Kernel::charge`] in the lane, where CPUs are apart and no run is set up.
    #[inline(always)]
    pub(crate) fn lane_charge(&mut self, cost: DurationNs) {
        debug_assert!(self.charging == Charging::Whole, "the run fits the lane");
        self.ctx.now += cost;
        self.totals.count(cost);
    }

    /// [`Kernel::acquire`] in the lane.
    #[inline(always)]
    pub(crate) fn lane_acquire(&mut self, lock: impl Fn(&mut Kernel) -> &mut Timeline) {
        let (now, event, cpu) = (self.ctx.now, self.event_time, self.ctx.cpu);
        match lock(self).acquire_free(now, event, cpu) {
            Some(transfer) => self.lane_charge(self.hand_over(transfer)),
            None => self.acquire_among(lock),
        }
    }

    /// [`Kernel::charge_call`] in the lane.
    #[inline(always)]
    pub fn lane_charge_call(&mut self, count: u64, cost: DurationNs) {
        let cost = self.price_insns(count) + cost;
        self.lane_charge(cost);
    }

    /// [`Kernel::rq_unlock`] in the lane, where no callback is paused.
    #[inline(always)]
    pub(crate) fn lane_rq_unlock(&mut self, cpu: CpuId) {
        let now = self.ctx.now;
        self.cpus[cpu.index()].lock.release(now);
    }

    /// Takes it again for a path that was laid down, and held it all the time: that costs nothing.
    pub(crate) fn rq_relock(&mut self, cpu: CpuId) {
        if self.held.on {
            self.lock_meets(cpu);
        }
        let (now, event) = (self.ctx.now, self.event_time);
        let grant = self.cpus[cpu.index()].lock.acquire(now, event, cpu);
        debug_assert!(grant.at >= now, "a lock is granted no earlier than it is asked for");
        if grant.at > now {
            let wait = self.wait_for(grant);
            self.charge(wait);
        }
    }

    #[inline(never)]
    pub(crate) fn rq_unlock(&mut self, cpu: CpuId) {
        if self.held.on {
            self.lock_meets(cpu);
        }
        let now = self.ctx.now;
        self.cpus[cpu.index()].lock.release(now);
    }
}
