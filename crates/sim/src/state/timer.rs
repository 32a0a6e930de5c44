//! Timers of programs.

use crate::Kernel;
use crate::event::lock::TimerId;
use crate::event::{Event, Pending};
use crate::state::subs::SchedIx;
use schedlab_base::{CpuId, TimeNs};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerState {
    pub(crate) armed: bool,
    pub(crate) cpu: CpuId,
    pub(crate) at: TimeNs,
    /// The timer's event, which comes when the timer expires or before.
    pub(crate) event: Option<Pending>,
    /// When that comes, or came if the CPU was busy then.
    pub(crate) event_at: Option<TimeNs>,
}

/// Bits of a timer's number among those of its scheduler; above them is the scheduler.
const NUMBER_BITS: u32 = 20;

/// The timers of all schedulers by one number.
impl Kernel {
    /// The number of a timer of the scheduler at hand.
    fn timer_code(&self, timer: TimerId) -> u32 {
        assert!(timer.0 >> NUMBER_BITS == 0, "a scheduler has up to a million timers");
        u32::from(self.subs.at.0) << NUMBER_BITS | timer.0
    }

    /// The scheduler of a timer, and which of its timers it is.
    pub(crate) fn timer_of(code: u32) -> (SchedIx, TimerId) {
        (SchedIx((code >> NUMBER_BITS) as u16), TimerId(code & ((1 << NUMBER_BITS) - 1)))
    }

    pub(crate) fn timers_of(&mut self, sched: SchedIx) -> &mut Vec<TimerState> {
        if sched == SchedIx::ROOT { &mut self.timers } else { &mut self.subs.node_mut(sched).timers }
    }

    /// The timer of this number, which has been armed.
    pub(crate) fn timer(&mut self, code: u32) -> &mut TimerState {
        let (sched, timer) = Kernel::timer_of(code);
        &mut self.timers_of(sched)[timer.0 as usize]
    }
}

impl Kernel {
    /// Arms a timer: it fires once at `at` on the pinned CPU, otherwise on the
    /// one that armed it. Arming again replaces.
    pub fn timer_arm(&mut self, timer: TimerId, at: TimeNs, pinned: Option<CpuId>) {
        let (code, index, here) = (self.timer_code(timer), timer.0 as usize, self.subs.at);
        let timers = self.timers_of(here);
        if timers.len() <= index {
            timers.resize(index + 1, TimerState::default());
        }
        let (at, cpu) = (at.max(self.ctx.now), pinned.unwrap_or(self.ctx.cpu));
        let state = self.timer(code);
        (state.armed, state.at, state.cpu) = (true, at, cpu);
        if state.event_at.is_none_or(|pending| pending > at) {
            state.event_at = Some(at);
            match state.event {
                Some(event) => self.queue.postpone(event, at),
                None => {
                    let event = self.queue.push(at, Event::Timer { timer: code });
                    self.timer(code).event = Some(event);
                }
            }
        }
    }

    /// Cancels a timer. True when it was armed.
    pub fn timer_cancel(&mut self, timer: TimerId) -> bool {
        let here = self.subs.at;
        let state = self.timers_of(here).get_mut(timer.0 as usize);
        state.is_some_and(|state| std::mem::take(&mut state.armed))
    }
}
