//! Clocks, sleeps and futexes: all of them in simulated time.

use super::Step;
use crate::bpf::error;
use crate::loader::Loader;
use crate::threads::Wait;
use crate::tracee::{Call, Tracee};

pub(super) const SECOND: u64 = 1_000_000_000;

/// What the wall clock showed when the simulated machine was started: 2026-01-01, in nanoseconds. Chosen.
pub(crate) const EPOCH: u64 = 1_767_225_600 * SECOND;

/// Operations of futex(2) without their flags.
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_REQUEUE: u64 = 3;
const FUTEX_CMP_REQUEUE: u64 = 4;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_CLOCK_REALTIME: u64 = 256;

impl Loader {
    pub(super) fn time_call(&mut self, tracee: Tracee, call: &Call) -> Option<Step> {
        let [first, second, third, ..] = call.args;
        let fault = Step::Value(error(libc::EFAULT));
        let give =
            |done: Option<()>| if done.is_some() { Step::Value(0) } else { Step::Value(error(libc::EFAULT)) };
        Some(match call.nr {
            libc::SYS_clock_gettime => {
                let Some(now) = self.shown(first) else { return Some(Step::Value(error(libc::EINVAL))) };
                give(tracee.write(second, &timespec(now)))
            }
            libc::SYS_clock_getres if second == 0 => Step::Value(0),
            libc::SYS_clock_getres => {
                // CLOCK_REALTIME_COARSE and CLOCK_MONOTONIC_COARSE move with ticks.
                let coarse = [libc::CLOCK_REALTIME_COARSE, libc::CLOCK_MONOTONIC_COARSE].map(|id| id as u64);
                give(tracee.write(second, &timespec(if coarse.contains(&first) { self.tick } else { 1 })))
            }
            libc::SYS_gettimeofday => {
                let now = EPOCH + self.clock;
                let value = [(now / SECOND).to_le_bytes(), (now % SECOND / 1000).to_le_bytes()].concat();
                give(if first == 0 { Some(()) } else { tracee.write(first, &value) })
            }
            libc::SYS_time => Step::Value(((EPOCH + self.clock) / SECOND) as i64),
            libc::SYS_times => Step::Value((self.clock / 10_000_000) as i64),
            libc::SYS_nanosleep => match span(tracee, first) {
                Some(span) => self.sleep(self.clock.saturating_add(span)),
                None => fault,
            },
            libc::SYS_clock_nanosleep => match span(tracee, third) {
                Some(span) if second & libc::TIMER_ABSTIME as u64 == 0 => {
                    self.sleep(self.clock.saturating_add(span))
                }
                Some(until) if first == libc::CLOCK_REALTIME as u64 => {
                    self.sleep(until.saturating_sub(EPOCH))
                }
                Some(until) => self.sleep(until),
                None => fault,
            },
            libc::SYS_futex => self.futex(tracee, &call.args),
            libc::SYS_alarm => Step::Value(0),
            _ => return None,
        })
    }

    /// What a clock shows; nothing for one that there is not.
    fn shown(&self, clock: u64) -> Option<u64> {
        match clock as i32 {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(EPOCH + self.clock),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME => Some(self.clock),
            // The loader takes no time.
            libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Some(0),
            _ => None,
        }
    }

    fn sleep(&self, until: u64) -> Step {
        if until <= self.clock {
            Step::Value(0)
        } else {
            Step::Wait { what: Wait::Time, until: Some(until), expired: 0 }
        }
    }

    fn futex(&mut self, tracee: Tracee, args: &[u64; 6]) -> Step {
        let [addr, op, value, timeout, _, bits] = *args;
        let command = op & 0x7f;
        match command {
            FUTEX_WAIT | FUTEX_WAIT_BITSET => {
                let Some(word) = tracee.number::<4>(addr) else { return Step::Value(error(libc::EFAULT)) };
                if word != value & 0xffff_ffff {
                    return Step::Value(error(libc::EAGAIN));
                }
                let until = match (timeout, span(tracee, timeout)) {
                    (0, _) => None,
                    (_, None) => return Step::Value(error(libc::EFAULT)),
                    (_, Some(span)) if command == FUTEX_WAIT => Some(self.clock.saturating_add(span)),
                    (_, Some(until)) if op & FUTEX_CLOCK_REALTIME != 0 => Some(until.saturating_sub(EPOCH)),
                    (_, Some(until)) => Some(until),
                };
                if until.is_some_and(|until| until <= self.clock) {
                    return Step::Value(error(libc::ETIMEDOUT));
                }
                let bits = if command == FUTEX_WAIT { u32::MAX } else { bits as u32 };
                let what = Wait::Futex { addr, bits, value: word as u32 };
                Step::Wait { what, until, expired: error(libc::ETIMEDOUT) }
            }
            FUTEX_WAKE => Step::Value(self.threads.wake(addr, u32::MAX, value) as i64),
            FUTEX_WAKE_BITSET => Step::Value(self.threads.wake(addr, bits as u32, value) as i64),
            // Who would wait elsewhere looks at the value again instead, which futexes allow.
            FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
                Step::Value(self.threads.wake(addr, u32::MAX, u64::MAX) as i64)
            }
            _ => Step::Value(error(libc::ENOSYS)),
        }
    }
}

/// Time in nanoseconds as `struct timespec` has it.
pub(super) fn timespec(time: u64) -> Vec<u8> {
    [(time / SECOND).to_le_bytes(), (time % SECOND).to_le_bytes()].concat()
}

/// The time that stands at an address, in nanoseconds; negative ones are 0.
pub(super) fn span(tracee: Tracee, addr: u64) -> Option<u64> {
    let seconds = tracee.number::<8>(addr)? as i64;
    let rest = tracee.number::<8>(addr + 8)?;
    Some(u64::try_from(seconds).unwrap_or(0).saturating_mul(SECOND).saturating_add(rest))
}
