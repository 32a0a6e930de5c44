//! Simulated time: the timelines of locks ([`lock`]), and what is pending, ordered by time and, of one instant, by where it comes from ([`Event::source`]).
//!
//! What a CPU waits for has fixed entries, one of each kind, which are moved when it changes: nothing stale is left behind.
//! Timeouts of tasks, timers of programs and what comes from outside take an entry while they are pending.

pub(crate) mod lock;
mod wheel;

use schedlab_base::{CpuId, TaskId, TimeNs};
use wheel::Wheel;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The burst of the running task may be over.
    Work { cpu: CpuId },
    /// A CPU continues its pass through `schedule()`.
    Pass { cpu: CpuId },
    /// The timer tick of a CPU.
    Tick { cpu: CpuId },
    /// HRTICK of a CPU.
    HrTick { cpu: CpuId },
    /// A reschedule interrupt arrives.
    Ipi { cpu: CpuId },
    /// A BPF timer expires.
    Timer { timer: u32 },
    /// The timer of a CPU's deadline server.
    Server { cpu: CpuId },
    /// A CPU takes the first of the interrupts that came while it was in a kernel path.
    Late { cpu: CpuId },
    /// A sleeping task's timer, or the completion of its disk request, interrupts a CPU.
    Timeout { cpu: CpuId, task: TaskId },
    /// The latest instant of a sleeping task's timer, which has slack.
    Latest { cpu: CpuId, task: TaskId },
    /// The next period of a throttled deadline task begins.
    Replenish { cpu: CpuId, task: TaskId },
    /// A period of real-time throttling is over.
    RtPeriod { cpu: CpuId },
    /// A group's period of bandwidth is over.
    Bandwidth { group: u32 },
    /// What queues gave back to a group's pool is handed out. All numbers of events have one size, so that an event is copied at once.
    Slack { group: u32 },
    /// The sched_ext watchdog looks for starved tasks.
    Watchdog,
    /// A change of the configuration's list, from outside.
    Change { index: u32 },
    /// A turn of the scheduler's user space.
    User { turn: u32 },
    /// The scheduler's user space attaches it.
    Attach,
    /// The scheduler's user space takes it out.
    Detach,
    /// The helper thread that removes a scheduler runs.
    Disable,
    /// The timer of a CPU's rescue.
    Rescue { cpu: CpuId },
    /// A sub-scheduler of the run is attached.
    AttachSub { number: u32 },
    /// The helper thread that removes a sub-scheduler runs.
    DisableSub { sub: u32 },
}

impl Event {
    /// Where the event comes from, which orders the events of one instant. First comes what is from outside,
    /// then kernel paths that continue, interrupts, and what running tasks come to. Those of one kind go by the number of the
    /// CPU, timer or task.
    pub(crate) fn source(self) -> (u8, u32) {
        match self {
            Event::Change { index } => (0, index),
            Event::User { turn } => (1, turn),
            Event::Watchdog => (2, 0),
            Event::Disable => (3, 0),
            Event::Attach => (3, 1),
            Event::Detach => (3, 2),
            Event::AttachSub { number } => (3, 3 + 2 * number),
            Event::DisableSub { sub } => (3, 4 + 2 * sub),
            Event::Rescue { cpu } => (9, u32::MAX - cpu.0),
            Event::Pass { cpu } => (4, cpu.0),
            Event::Late { cpu } => (5, cpu.0),
            Event::Tick { cpu } => (6, cpu.0),
            Event::HrTick { cpu } => (7, cpu.0),
            Event::Server { cpu } => (8, cpu.0),
            Event::Timer { timer } => (9, timer),
            Event::Timeout { task, .. } => (10, task.0),
            Event::Latest { task, .. } => (11, task.0),
            Event::Replenish { task, .. } => (12, task.0),
            Event::RtPeriod { cpu } => (13, cpu.0),
            Event::Bandwidth { group } => (14, 2 * group),
            Event::Slack { group } => (14, 2 * group + 1),
            Event::Ipi { cpu } => (15, cpu.0),
            Event::Work { cpu } => (16, cpu.0),
        }
    }

    /// The CPU that takes the event, for what CPUs take while one of them is paused in a callback.
    pub(crate) fn taken_by(self) -> Option<CpuId> {
        match self {
            Event::Work { cpu }
            | Event::Pass { cpu }
            | Event::Tick { cpu }
            | Event::HrTick { cpu }
            | Event::Ipi { cpu }
            | Event::Late { cpu }
            | Event::Timeout { cpu, .. }
            | Event::Latest { cpu, .. } => Some(cpu),
            _ => None,
        }
    }

    /// The kind of an event that each CPU has an entry for.
    pub(crate) fn of_cpu(self) -> Option<OfCpu> {
        match self {
            Event::Work { .. } => Some(OfCpu::Work),
            Event::Pass { .. } => Some(OfCpu::Pass),
            Event::Tick { .. } => Some(OfCpu::Tick),
            Event::HrTick { .. } => Some(OfCpu::HrTick),
            Event::Ipi { .. } => Some(OfCpu::Ipi),
            Event::Late { .. } => Some(OfCpu::Late),
            _ => None,
        }
    }

    /// The event comes by itself, however long all tasks wait; so do timers of the kernel's own tasks.
    pub(crate) fn is_idle_source(self) -> bool {
        matches!(
            self,
            Event::Watchdog
                | Event::Timer { .. }
                | Event::Server { .. }
                | Event::Change { .. }
                | Event::User { .. }
                | Event::Attach
                | Event::AttachSub { .. }
                | Event::Rescue { .. }
                | Event::Detach
        )
    }
}

/// What a CPU waits for: one entry of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfCpu {
    Work,
    Pass,
    Late,
    Ipi,
    Tick,
    HrTick,
    Server,
}

impl OfCpu {
    pub(crate) const ALL: [OfCpu; 7] =
        [OfCpu::Work, OfCpu::Pass, OfCpu::Late, OfCpu::Ipi, OfCpu::Tick, OfCpu::HrTick, OfCpu::Server];

    fn event(self, cpu: CpuId) -> Event {
        match self {
            OfCpu::Work => Event::Work { cpu },
            OfCpu::Pass => Event::Pass { cpu },
            OfCpu::Late => Event::Late { cpu },
            OfCpu::Ipi => Event::Ipi { cpu },
            OfCpu::Tick => Event::Tick { cpu },
            OfCpu::HrTick => Event::HrTick { cpu },
            OfCpu::Server => Event::Server { cpu },
        }
    }

    /// The number of its entry.
    #[inline(always)]
    fn of(self, cpu: CpuId) -> u32 {
        debug_assert!(cpu.0 < u32::MAX / OfCpu::ALL.len() as u32, "a CPU has its entries");
        cpu.0 * OfCpu::ALL.len() as u32 + self as u32
    }
}

/// A pending event that was pushed, until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending(u32);

/// Pending events, earliest first.
#[derive(Debug)]
pub(crate) struct EventQueue {
    wheel: Wheel,
    /// Entries below are fixed.
    fixed: u32,
    /// Entries of pushed events that are free.
    free: Vec<u32>,
}

impl EventQueue {
    /// Nothing is pending on a machine of so many CPUs.
    pub(crate) fn new(cpus: usize) -> EventQueue {
        let mut wheel = Wheel::new();
        for cpu in (0..cpus as u32).map(CpuId) {
            for kind in OfCpu::ALL {
                let at = wheel.add(kind.event(cpu));
                assert_eq!(at, kind.of(cpu), "entries of CPUs come first, in order");
            }
        }
        EventQueue { wheel, fixed: cpus as u32 * OfCpu::ALL.len() as u32, free: Vec::new() }
    }

    /// Adds an event, not before the one that was taken last.
    pub(crate) fn push(&mut self, time: TimeNs, event: Event) -> Pending {
        debug_assert!(time != TimeNs::MAX, "{event:?} comes at some time");
        let at = match self.free.pop() {
            Some(at) => {
                self.wheel.rename(at, event);
                at
            }
            None => self.wheel.add(event),
        };
        self.wheel.set(at, time);
        Pending(at)
    }

    /// Moves an event that has been pushed and not been taken.
    pub(crate) fn postpone(&mut self, pending: Pending, time: TimeNs) {
        debug_assert!(pending.0 >= self.fixed, "what a CPU waits for is moved by `expect`");
        self.wheel.set(pending.0, time);
    }

    /// What `cpu` waits for comes at `time`, whenever it was expected before.
    #[inline]
    pub(crate) fn expect(&mut self, kind: OfCpu, cpu: CpuId, time: TimeNs) {
        self.wheel.set(kind.of(cpu), time);
        debug_assert!(kind.of(cpu) < self.fixed, "the entries of the CPU come first");
    }

    /// The event does not come any more.
    pub(crate) fn forget(&mut self, kind: OfCpu, cpu: CpuId) {
        self.wheel.clear(kind.of(cpu));
        debug_assert!(kind.of(cpu) < self.fixed, "the entries of the CPU come first");
    }

    /// When it comes; [`TimeNs::MAX`] if it does not.
    #[inline]
    pub(crate) fn expected(&self, kind: OfCpu, cpu: CpuId) -> TimeNs {
        self.wheel.time(kind.of(cpu))
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(TimeNs, Event)> {
        let (at, time, event) = self.wheel.pop()?;
        debug_assert!(time <= self.wheel.next_time(), "the earliest event is taken first");
        if at >= self.fixed {
            self.free.push(at);
        }
        Some((time, event))
    }

    /// The earliest event, which stays pending.
    pub(crate) fn first(&mut self) -> Option<(TimeNs, Event)> {
        self.wheel.first()
    }

    /// When the earliest event happens; [`TimeNs::MAX`] without any.
    #[inline]
    pub(crate) fn next_time(&self) -> TimeNs {
        self.wheel.next_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one instant, sources are taken in their order, whatever the order in which they were pushed.
    #[test]
    fn ties_go_by_source() {
        let (a, b, at) = (CpuId(0), CpuId(1), TimeNs(7));
        let mut queue = EventQueue::new(2);
        queue.expect(OfCpu::Work, a, at);
        queue.expect(OfCpu::Ipi, b, at);
        queue.push(at, Event::Timeout { cpu: a, task: TaskId(9) });
        queue.push(at, Event::Timeout { cpu: b, task: TaskId(3) });
        queue.expect(OfCpu::Tick, b, at);
        queue.expect(OfCpu::Tick, a, at);
        queue.push(at, Event::Change { index: 0 });
        queue.expect(OfCpu::Late, b, TimeNs(6));
        let taken: Vec<(u64, (u8, u32))> =
            std::iter::from_fn(|| queue.pop()).map(|(time, event)| (time.0, event.source())).collect();
        assert!(taken.is_sorted() && taken.len() == 8, "{taken:?}");
        assert_eq!(queue.expected(OfCpu::Tick, a), TimeNs::MAX);
    }

    /// Entries of taken events are used again; moved ones are not left behind.
    #[test]
    fn memory_follows_what_is_pending() {
        let mut queue = EventQueue::new(1);
        let watchdog = queue.push(TimeNs(1), Event::Watchdog);
        for round in 1..1_000 {
            queue.push(TimeNs(round), Event::Disable);
            queue.expect(OfCpu::Work, CpuId(0), TimeNs(round + 5));
            queue.postpone(watchdog, TimeNs(round + 10_000));
            assert_eq!(queue.pop(), Some((TimeNs(round), Event::Disable)));
        }
        assert_eq!(queue.free.len(), 1);
        assert_eq!(queue.expected(OfCpu::Work, CpuId(0)), TimeNs(1_004));
        assert_eq!(queue.pop(), Some((TimeNs(1_004), Event::Work { cpu: CpuId(0) })));
        assert_eq!(queue.pop(), Some((TimeNs(10_999), Event::Watchdog)));
        assert_eq!(queue.pop(), None);
    }
}
