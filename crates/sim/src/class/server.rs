//! Deadline servers (`kernel/sched/deadline.c`, Linux 7.3): what real-time tasks leave to the classes below them.
//!
//! Each CPU has a server for its tasks of the fair class, and Linux 7.3 one for those of sched_ext: 50 ms of CPU time in each
//! second. A server whose class can have no task is detached. It waits for as long as it can still keep that (until zero laxity); what normal tasks run by themselves
//! meanwhile is its own, and so is idle time. Then it goes before real-time tasks until its time is used up.
//!
//! The kernel arms a timer for the server all the time. Here an event is made for it only while a task of a higher class
//! runs. At other times it would change nothing but the server's figures, which follow when they matter. Hours of normal load
//! cost no event.

use crate::Kernel;
use crate::class::admission::bandwidth;
use crate::event::{Event, OfCpu};
use crate::state::ops::SchedExt;
use crate::state::rq::Served;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, KernelChange, KernelVersion, TaskId, TimeNs};

/// Time of a server in each period (`sched_init_dl_servers()`).
const RUNTIME: DurationNs = DurationNs::from_ms(50);
/// The server's period and relative deadline (the same place).
const PERIOD: DurationNs = DurationNs::from_secs(1);
/// Time consumed in the background that is not worth waiting for again (`dl_server_min_res`).
const LEAST: DurationNs = DurationNs::from_ms(1);
/// Bits that times lose before they are multiplied (`DL_SCALE`).
const SCALE: u32 = 10;

/// Where a server is in its life, by the letters of the kernel's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A: it has no tasks.
    Init,
    /// B: it waits until it has to run.
    ZeroLaxityWait,
    /// C: the same on a CPU that has been idle for all its time.
    IdleWait,
    /// D: its tasks go first.
    Running,
    /// E: its time is used up until the next period.
    ReplenishWait,
}

/// The servers of a CPU.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    fair: Server,
    ext: Server,
}

impl Servers {
    /// The servers of a kernel without a sched_ext scheduler.
    pub(crate) fn new(version: KernelVersion) -> Servers {
        let attached = version.has(KernelChange::FairServer);
        Servers { fair: Server { attached, ..Server::default() }, ext: Server::default() }
    }

    fn of(&mut self, served: Served) -> &mut Server {
        match served {
            Served::Fair => &mut self.fair,
            Served::Ext => &mut self.ext,
        }
    }

    fn both(&mut self) -> [&mut Server; 2] {
        [&mut self.fair, &mut self.ext]
    }

    /// The one whose tasks go before real-time ones: of two, that with the earlier deadline.
    #[inline]
    pub(crate) fn running(&self) -> Option<Served> {
        match (self.fair.is_running(), self.ext.is_running()) {
            (false, false) => None,
            (true, false) => Some(Served::Fair),
            (false, true) => Some(Served::Ext),
            (true, true) if self.ext.deadline < self.fair.deadline => Some(Served::Ext),
            (true, true) => Some(Served::Fair),
        }
    }
}

/// A server of a CPU.
#[derive(Clone, Debug)]
struct Server {
    state: State,
    /// The server's class can have tasks (`dl_bw_attached`).
    attached: bool,
    /// The server has had to run, and has not caught up in the background since (`dl_defer_running`).
    starving: bool,
    /// Time that it has left, ns.
    runtime: i64,
    /// Until when.
    deadline: TimeNs,
    /// Idle time of the CPU up to here has been counted.
    idle_until: TimeNs,
    /// When an event comes for it.
    event_at: Option<TimeNs>,
}

impl Default for Server {
    /// One that has had nothing to do for long: its time is whole, its deadline is past.
    fn default() -> Server {
        Server {
            state: State::Init,
            attached: false,
            starving: false,
            runtime: RUNTIME.0 as i64,
            deadline: TimeNs::ZERO,
            idle_until: TimeNs::ZERO,
            event_at: None,
        }
    }
}

impl Server {
    /// True if the server's tasks go before real-time ones.
    #[inline]
    fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// When its timer fires.
    fn timer(&self) -> Option<TimeNs> {
        match self.state {
            State::Init | State::Running => None,
            State::ZeroLaxityWait | State::IdleWait => Some(self.zero_laxity()),
            State::ReplenishWait => Some(self.deadline),
        }
    }

    /// From when on it has to run to have its time before the deadline.
    fn zero_laxity(&self) -> TimeNs {
        TimeNs(self.deadline.0.saturating_sub(self.runtime.max(0) as u64))
    }

    /// `dl_entity_overflow()`: what is left of its time is more than its part of what is left of the period.
    fn overflows(&self, now: TimeNs) -> bool {
        let left = self.deadline.since(now).0 >> SCALE;
        let runtime = (self.runtime.max(0) as u64) >> SCALE;
        left * (RUNTIME.0 >> SCALE) < (PERIOD.0 >> SCALE) * runtime
    }

    /// `replenish_dl_new_period()`.
    fn new_period(&mut self, now: TimeNs) {
        debug_assert!(self.deadline <= now + PERIOD, "a period begins no later than the one before ends");
        self.deadline = now + PERIOD;
        self.runtime = RUNTIME.0 as i64;
        if !self.starving {
            self.state = State::ZeroLaxityWait;
        }
    }

    /// `dl_server_start()`: the first task of its class is queued. False when it has been started already.
    #[inline]
    fn start(&mut self, now: TimeNs) -> bool {
        match self.state {
            State::Init if self.attached => self.begin(now),
            State::IdleWait => self.state = State::ZeroLaxityWait,
            _ => return false,
        }
        true
    }

    /// `update_dl_entity()` of a server that had no task.
    fn begin(&mut self, now: TimeNs) {
        debug_assert!(self.attached, "only a server that is attached begins");
        let passed = self.deadline < now;
        if self.starving && !passed {
            if self.overflows(now) {
                // update_dl_revised_wakeup(): its part of what is left.
                self.runtime = (self.deadline.since(now).0 / (PERIOD.0 / RUNTIME.0)) as i64;
            }
            self.state = State::Running;
        } else if passed || self.overflows(now) {
            self.starving = false;
            self.new_period(now);
        } else {
            self.state = if self.zero_laxity() < now { State::Running } else { State::ZeroLaxityWait };
        }
    }

    /// `dl_server_stop()`: it has no task.
    fn stop(&mut self) {
        self.state = State::Init;
    }

    /// `dl_server_attach_bw()`, `dl_server_detach_bw()`.
    fn attach(&mut self, attached: bool) {
        if !attached {
            self.stop();
        }
        self.attached = attached;
    }

    /// `update_curr_dl_se()`: its tasks ran for `delta` up to `now`, or the CPU was `idle`. True when its time is used up and
    /// its tasks have to step back.
    fn ran(&mut self, now: TimeNs, delta: DurationNs, idle: bool) -> bool {
        if self.state == State::Init {
            return false;
        }
        self.runtime -= delta.0 as i64;
        if !idle && self.state == State::IdleWait {
            self.state = State::ZeroLaxityWait;
        }
        if self.runtime > 0 {
            return false;
        }
        match self.state {
            State::Init => false,
            State::IdleWait => {
                self.runtime = 0;
                false
            }
            State::ZeroLaxityWait | State::ReplenishWait => {
                self.starving = false;
                self.new_period(now);
                if idle {
                    self.state = State::IdleWait;
                }
                false
            }
            State::Running => {
                self.state = State::ReplenishWait;
                if self.deadline < now {
                    self.new_period(now);
                }
                true
            }
        }
    }

    /// The CPU has been idle since `since`, of which time up to `idle_until` has been counted. The timer may have fired
    /// meanwhile.
    fn idled(&mut self, since: TimeNs, now: TimeNs) {
        let mut since = since.max(self.idle_until).min(now);
        debug_assert!(since <= now, "an idle span ends after its beginning");
        self.idle_until = now;
        while let Some(timer) = self.timer() {
            if now < timer {
                self.ran(now, now.since(since), true);
                return;
            }
            let at = timer.max(since);
            self.ran(at, at.since(since), true);
            if self.state == State::IdleWait || self.fires(at) {
                self.stop();
            }
            since = at;
        }
    }

    /// `dl_server_timer()`: true when it begins to run; else it waits on, or has been stopped.
    fn fires(&mut self, now: TimeNs) -> bool {
        match self.state {
            State::Init | State::Running => return false,
            State::IdleWait => {
                self.stop();
                return false;
            }
            State::ZeroLaxityWait => {
                if now + LEAST < self.zero_laxity() {
                    return false;
                }
                self.starving = true;
                if self.overflows(now) {
                    self.new_period(now);
                }
            }
            State::ReplenishWait => {}
        }
        while self.runtime <= 0 {
            self.deadline += PERIOD;
            self.runtime += RUNTIME.0 as i64;
        }
        debug_assert!(self.runtime > 0, "a server that runs has runtime");
        if self.deadline < now {
            self.new_period(now);
        }
        self.state = State::Running;
        true
    }
}

impl Kernel {
    /// A task of its class is the first on the run queue of `cpu`.
    #[inline]
    pub(crate) fn server_start(&mut self, cpu: CpuId, served: Served) {
        if self.cpus[cpu.index()].curr.is_none() {
            self.server_update_idle(cpu);
        }
        let now = self.ctx.now;
        let server = self.cpus[cpu.index()].servers.of(served);
        if !server.start(now) {
            return;
        }
        if server.is_running() {
            self.resched_curr(cpu);
        }
        self.server_expect(cpu);
    }

    /// `dl_server_update()`: a task of its class ran for `delta` ns on `cpu`.
    #[inline]
    pub(crate) fn server_update(&mut self, cpu: CpuId, served: Served, delta: u64) {
        let now = self.ctx.now;
        let server = self.cpus[cpu.index()].servers.of(served);
        if server.ran(now, DurationNs(delta), false) {
            self.resched_curr(cpu);
        }
    }

    /// `dl_server_update_idle()`: `cpu` has been idle until now.
    #[inline]
    pub(crate) fn server_update_idle(&mut self, cpu: CpuId) {
        let now = self.ctx.now;
        let entry = &mut self.cpus[cpu.index()];
        let since = entry.last_switch;
        entry.servers.both().into_iter().for_each(|server| server.idled(since, now));
    }

    /// A server waits for something else than before: its timer has to fire if a real-time task runs on `cpu`.
    fn server_expect(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].curr.is_some_and(|curr| self.starves_others(self.task(curr).class)) {
            self.server_arm(cpu);
        }
    }

    /// True if a task of this class keeps those that have a server from running.
    #[inline]
    pub(crate) fn starves_others(&self, class: SchedClass) -> bool {
        class <= SchedClass::Rt || class == SchedClass::Fair && self.scx.enabled
    }

    /// Sees to it that the servers' timers fire: a task of a higher class runs on `cpu`.
    #[inline(never)]
    pub(crate) fn server_arm(&mut self, cpu: CpuId) {
        let now = self.ctx.now;
        let servers = self.cpus[cpu.index()].servers.both();
        let timers = servers.map(|server| {
            server.event_at = server.timer().map(|at| at.max(now));
            server.event_at
        });
        if let Some(at) = timers.into_iter().flatten().min() {
            self.queue.expect(OfCpu::Server, cpu, at);
        }
    }

    /// What the servers of a CPU have, of [`schedlab_base::FULL_BANDWIDTH`].
    pub(crate) fn server_bandwidth(&self) -> u64 {
        let servers = &self.cpus[0].servers;
        let attached = u64::from(servers.fair.attached) + u64::from(servers.ext.attached);
        attached * bandwidth(RUNTIME, PERIOD)
    }

    /// The classes that can have tasks change: a server without tasks to come is detached. Older kernels have no server for
    /// sched_ext, or none at all.
    pub(crate) fn attach_servers(&mut self) {
        let version = self.machine.kernel.version;
        let ext = self.scx.enabled && version.has(KernelChange::ExtServer);
        let fair = !self.scx.switch_all && version.has(KernelChange::FairServer);
        for index in 0..self.cpus.len() {
            let entry = &mut self.cpus[index];
            entry.servers.fair.attach(fair);
            entry.servers.ext.attach(ext);
            let (cpu, ext_tasks, fair_tasks) = (entry.id, entry.scx_nr_running, entry.fair.nr);
            if fair_tasks > 0 {
                self.server_start(cpu, Served::Fair);
            }
            if ext_tasks > 0 {
                self.server_start(cpu, Served::Ext);
            }
        }
    }
}

impl<S: SchedExt> Sim<S> {
    /// The timer of a server. Those of both may be due.
    #[inline(never)]
    pub(crate) fn server_timer(&mut self, cpu: CpuId, time: TimeNs) {
        let is_due = |server: &mut Server| server.event_at.is_some_and(|at| at <= time);
        let due = self.k.cpu_mut(cpu).servers.both().map(is_due);
        if due == [false; 2] || self.postponed(cpu, time, Event::Server { cpu }) {
            return;
        }
        self.interrupt(cpu, time, |sim| {
            sim.run_sleepers(cpu, None);
            let Some(curr) = sim.k.curr(cpu) else { return };
            sim.k.rq_lock(cpu);
            sim.charge_curr(cpu, curr);
            let now = sim.k.ctx.now;
            let servers = sim.k.cpu_mut(cpu).servers.both().into_iter().zip(due);
            let fired = servers.filter(|(_, due)| *due).map(|(server, _)| server.fires(now));
            if fired.fold(false, |runs, fires| runs | fires) {
                sim.k.resched_curr(cpu);
            }
            sim.k.rq_unlock(cpu);
            sim.k.server_expect(cpu);
        });
    }

    /// The class's `update_curr()` of the running task.
    fn charge_curr(&mut self, cpu: CpuId, curr: TaskId) {
        match self.k.task(curr).class {
            SchedClass::Dl => self.k.dl_update_curr(cpu, curr),
            SchedClass::Rt => self.k.rt_update_curr(cpu, curr),
            SchedClass::Fair => self.k.fair_update_curr(cpu),
            SchedClass::Ext => self.k.scx_update_curr(curr),
        }
    }

    /// The task that a server of `cpu` runs, if its tasks go first and its deadline is before `other`; a server without a
    /// task stops.
    #[inline]
    pub(crate) fn server_pick(&mut self, cpu: CpuId, prev: Option<TaskId>, other: TimeNs) -> Option<TaskId> {
        while let Some(served) = self.k.cpu(cpu).servers.running() {
            if self.k.cpu_mut(cpu).servers.of(served).deadline > other {
                return None;
            }
            let found = match served {
                Served::Ext => self.ext_pick(cpu, prev),
                Served::Fair => {
                    self.k.fair_update_curr(cpu);
                    self.k.fair_pick_next(cpu, true)
                }
            };
            if found.is_some() {
                return found;
            }
            self.k.cpu_mut(cpu).servers.of(served).stop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> TimeNs {
        TimeNs(ms * 1_000_000)
    }

    fn ms(ms: u64) -> DurationNs {
        DurationNs::from_ms(ms)
    }

    fn started() -> Server {
        let mut server = Server { attached: true, ..Server::default() };
        assert!(server.start(at(0)));
        server
    }

    #[test]
    fn a_starved_server_runs_for_50_ms_after_950() {
        let mut server = started();
        assert_eq!((server.state, server.timer()), (State::ZeroLaxityWait, Some(at(950))));
        assert!(server.fires(at(950)));
        assert!(!server.ran(at(999), ms(49), false));
        assert!(server.ran(at(1000), ms(1), false));
        assert_eq!((server.state, server.timer()), (State::ReplenishWait, Some(at(1950))));
        // Real-time tasks alone from here on: it does not wait again.
        assert!(server.fires(at(1950)));
    }

    #[test]
    fn background_time_puts_it_off() {
        let mut server = started();
        server.ran(at(100), ms(20), false);
        assert_eq!(server.timer(), Some(at(970)));
        assert!(!server.fires(at(950)), "a timer that was armed before");
        server.ran(at(200), ms(30), false);
        assert_eq!((server.state, server.timer()), (State::ZeroLaxityWait, Some(at(200 + 950))));
    }

    #[test]
    fn it_catches_up_after_it_was_starving() {
        let mut server = started();
        server.fires(at(950));
        server.ran(at(1002), ms(52), false);
        server.ran(at(1003), ms(1), false);
        assert_eq!(
            (server.state, server.starving, server.timer()),
            (State::ZeroLaxityWait, false, Some(at(1953)))
        );
    }

    #[test]
    fn idle_time_counts_and_stops_it() {
        let mut server = started();
        server.idled(at(10), at(30));
        assert_eq!((server.state, server.timer()), (State::ZeroLaxityWait, Some(at(970))));
        server.idled(at(40), at(90));
        assert_eq!(server.state, State::IdleWait);
        server.start(at(90));
        assert_eq!(server.state, State::ZeroLaxityWait);
        server.idled(at(100), at(5_000));
        assert_eq!(server.state, State::Init);
        server.start(at(5_000));
        assert_eq!((server.state, server.timer()), (State::ZeroLaxityWait, Some(at(5_950))));
    }

    #[test]
    fn idle_time_counts_once() {
        let mut server = started();
        server.idled(at(10), at(20));
        server.idled(at(10), at(30));
        assert_eq!(server.timer(), Some(at(970)));
    }

    #[test]
    fn a_server_without_tasks_spends_nothing() {
        let mut server = started();
        server.stop();
        assert!(!server.ran(at(100), ms(70), false));
        server.start(at(100));
        assert_eq!(server.timer(), Some(at(100 + 950)));
    }

    #[test]
    fn a_starving_server_whose_task_sleeps_gets_its_part() {
        let mut server = started();
        server.fires(at(950));
        server.ran(at(960), ms(10), false);
        server.stop();
        server.start(at(970));
        assert!(server.is_running());
        // 40 ms of 50 are left, and 980 of 1,000.
        assert_eq!(server.runtime, 40_000_000);
        server.stop();
        server.start(at(1_750));
        assert_eq!((server.is_running(), server.runtime), (true, 10_000_000));
    }
}
