//! What only privilege shows: where in the paths of a wakeup and of a switch their events are, and what the kernel does for
//! the tasks of a loaded scheduler. The observer of runs is attached, so its own work is part of the prices, as it is in runs.

use super::sleeping::beside;
use super::{Figure, checked, now, ping_pong, reading, rest};
use crate::load::{LoadError, LoadedScheduler, SchedulerObject, load};
use crate::observe::Observer;
use schedlab_base::Costs;
use std::io;

/// The object file of the scheduler; empty where no compiler was at hand.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/prices.bpf.o"));

/// Instructions of the two callbacks of that scheduler where tasks wait on a queue. Counted by the simulator.
const INSNS: f64 = 25.0;
/// An armed HRTICK is not moved by less, ns (`hrtick_needs_rearm()`).
const NEAR: f64 = 5_000.0;

/// The observer, and prices that were measured otherwise.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    pub(super) observer: &'a Observer,
    pub(super) known: &'a Costs,
}

/// A sleep: between the events of the wakeup and of the switch, from the switch on, and from when it was due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) entering: Figure,
    pub(super) going_on: Figure,
    pub(super) whole: Figure,
}

/// What the loops here tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inside {
    /// From the event of a switch on.
    pub(super) switch_end: Figure,
    /// Between the wakeup and the switch in a pipe of the fair class.
    pub(super) entering: Figure,
    /// How often HRTICK is armed in a switch between two tasks that both stay runnable.
    pub(super) arms: f64,
    /// The fair class's own part of a switch and of a wakeup.
    pub(super) fair_switch: Figure,
    pub(super) fair_wakeup: Figure,
    pub(super) dsq_enqueue: Figure,
    pub(super) kfunc_find: Figure,
    /// A sleeper without slack that takes its CPU from a task, from when it was due.
    pub(super) busy: Figure,
    /// One that the scheduler kicks the CPU for, between the wakeup and the switch, less the calls.
    pub(super) kicked: Figure,
    /// One on an idle CPU.
    pub(super) idle: Way,
}

/// The observer, which follows this process from now on; nothing where this build or process has none.
pub(super) fn observer() -> Option<Observer> {
    Observer::start().ok().flatten().filter(Observer::follow_this)
}

impl Watch<'_> {
    /// Several waits of this task on CPU 0; `wait` returns when each was due, or began.
    fn ways(self, count: u32, mut wait: impl FnMut() -> io::Result<u64>) -> io::Result<Way> {
        let (mut entering, mut going_on, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = self.waits()?.0;
        for _ in 0..count {
            let due = wait()?;
            let end = now();
            let entered = self.observer.switched(0).ok_or(io::ErrorKind::NotFound)?;
            let waited = self.waits()?.0;
            entering.push((waited - before) as f64);
            before = waited;
            going_on.push(end.saturating_sub(entered) as f64);
            whole.push(end as f64 - due as f64);
        }
        Ok(Way { entering: Figure::of(entering), going_on: Figure::of(going_on), whole: Figure::of(whole) })
    }

    /// What this task waited to run so far, ns, and how often.
    fn waits(self) -> io::Result<(u64, u64)> {
        Ok(self.observer.totals(std::process::id()).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Sleeps with a timer without slack.
    fn sleeps(self) -> io::Result<Way> {
        // SAFETY: sets a number of this task.
        checked(i64::from(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) }))?;
        let mut number = 0;
        self.ways(60, || {
            number += 1;
            let due = now() + 300_000 + 1_000 * number;
            let part = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
            let at = libc::timespec { tv_sec: part(due / 1_000_000_000), tv_nsec: part(due % 1_000_000_000) };
            let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
            // SAFETY: reads one timespec.
            unsafe { libc::clock_nanosleep(clock, flags, &raw const at, std::ptr::null_mut()) };
            Ok(due)
        })
    }

    /// A pipe under the scheduler in charge: a turn, and how long a task of it waits from its wakeup on.
    fn pipe(self) -> io::Result<[Figure; 2]> {
        let turn = ping_pong(0)?.half();
        let before = self.waits()?;
        ping_pong(0)?;
        let after = self.waits()?;
        let wait = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
        Ok([turn, Figure { value: wait, spread: 0.0 }])
    }

    /// A pipe under the scheduler of this room.
    fn pipe_under(self, way: u32) -> io::Result<[Figure; 2]> {
        let _loaded = scheduler(way).map_err(|error| io::Error::other(error.to_string()))?;
        rest();
        self.pipe()
    }

    /// A sleeper that takes its CPU from a task, under the scheduler of this room, which kicks.
    fn kicked(self) -> io::Result<Figure> {
        let _loaded = scheduler(3).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(beside(0, true, |_| self.sleeps())?.entering)
    }

    /// All loops; `switch` is what two threads that yield to each other take of a switch, `syscall` a call that does nothing.
    /// Half of that call is its end, and half of a look at the clock follows what it tells (assumed).
    pub(super) fn inside(self, switch: f64, syscall: f64) -> io::Result<Inside> {
        let ns = |price: schedlab_base::DurationNs| price.0 as f64;
        let known = self.known;
        let idle = self.sleeps()?;
        let end = (syscall + reading()?.value) / 2.0;
        let busy = beside(0, true, |_| self.sleeps())?;
        let kicked = self.kicked()?;
        let [turn, entering] = self.pipe()?;
        let [[queued, queue_wait], [held, held_wait], [twice, _]] =
            [self.pipe_under(0)?, self.pipe_under(1)?, self.pipe_under(2)?];
        let insns = INSNS * known.bpf_insn_ps as f64 / 1000.0 / 2.0;
        let [enqueue, dispatch] =
            [known.kfunc_insert, known.kfunc_move].map(|call| ns(known.callback) + ns(call) + insns);
        let fair_switch = entering.value - queue_wait.value + dispatch;
        let search = twice.value - held.value;
        let from_hand = search + ns(known.kfunc_insert) - ns(known.kfunc_move);
        let of = |value: f64, like: Figure| Figure { value: value.max(0.0), spread: like.spread };
        let dsq_enqueue = of(held_wait.value - queue_wait.value - from_hand, held);
        let fair_wakeup = turn.value - queued.value - fair_switch + enqueue + dispatch + dsq_enqueue.value;
        Ok(Inside {
            switch_end: idle.going_on.less(end),
            entering,
            arms: 1.0 / (NEAR / switch).ceil(),
            fair_switch: of(fair_switch, turn),
            fair_wakeup: of(fair_wakeup, turn),
            dsq_enqueue,
            kfunc_find: of(search - ns(known.kfunc), twice),
            busy: busy.whole.less(end),
            kicked: kicked.less(enqueue + dispatch + dsq_enqueue.value),
            idle: Way { whole: idle.whole.less(end), ..idle },
        })
    }
}

fn scheduler(way: u32) -> Result<LoadedScheduler, LoadError> {
    load(&SchedulerObject {
        name: "prices".to_string(),
        bytes: OBJECT.to_vec(),
        settings: vec![("way".to_string(), way.to_string())],
        ..SchedulerObject::default()
    })
}
