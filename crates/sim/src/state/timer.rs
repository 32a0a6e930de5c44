//! Timers of programs.

use crate::Kernel;
use crate::event::lock::TimerId;
use crate::event::{Event, Pending};
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

impl Kernel {
    /// Arms a timer: it fires once at `at` on the pinned CPU, otherwise on the
    /// one that armed it. Arming again replaces.
    pub fn timer_arm(&mut self, timer: TimerId, at: TimeNs, pinned: Option<CpuId>) {
        let index = timer.0 as usize;
        if self.timers.len() <= index {
            self.timers.resize(index + 1, TimerState::default());
        }
        let at = at.max(self.ctx.now);
        let state = &mut self.timers[index];
        state.armed = true;
        state.at = at;
        state.cpu = pinned.unwrap_or(self.ctx.cpu);
        if state.event_at.is_none_or(|pending| pending > at) {
            state.event_at = Some(at);
            match state.event {
                Some(event) => self.queue.postpone(event, at),
                None => state.event = Some(self.queue.push(at, Event::Timer { timer: timer.0 })),
            }
        }
    }

    /// Cancels a timer. True when it was armed.
    pub fn timer_cancel(&mut self, timer: TimerId) -> bool {
        let state = self.timers.get_mut(timer.0 as usize);
        state.is_some_and(|state| std::mem::take(&mut state.armed))
    }
}
