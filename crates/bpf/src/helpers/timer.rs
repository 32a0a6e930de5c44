//! Timers in map values: what the program says is kept here, when they fire is the [`Env`]'s part.

use super::Env;
use crate::args::{Callback, Caller, MapArg, TimerPlace, misuse};
use crate::code::FuncId;
use crate::fault::Fault;
use crate::link::Runtime;
use crate::maps::{Errno, MapId, SpecialKind};
use crate::memory::{GuestAddr, Memory};
use std::collections::BTreeMap;

/// The kernel's EDEADLK: a callback cancels its own timer.
const EDEADLK: Errno = Errno(35);
/// `BPF_F_TIMER_ABS` and `BPF_F_TIMER_CPU_PIN`.
const ABSOLUTE: u64 = 1;
const PINNED: u64 = 2;
/// Bytes that the host keeps for a timer, here and in the simulated kernel.
const HOST_BYTES: u64 = 256;

/// A timer that was initialised.
#[derive(Debug, Clone)]
struct Timer {
    at: GuestAddr,
    map: MapId,
    callback: Option<FuncId>,
}

/// The timers of an object, which the simulated kernel knows by number and programs by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    by_address: BTreeMap<GuestAddr, u32>,
    by_number: Vec<Option<Timer>>,
    free: Vec<u32>,
    /// The one whose callback runs now.
    running: Option<u32>,
}

impl Timers {
    /// The number of the timer at an address. A callback mostly asks for its own timer, to start it again.
    fn number(&self, at: GuestAddr) -> Option<u32> {
        let is_there = |number: &u32| {
            self.by_number.get(*number as usize).and_then(Option::as_ref).is_some_and(|timer| timer.at == at)
        };
        self.running.filter(is_there).or_else(|| self.by_address.get(&at).copied())
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Timer> {
        self.by_number.get_mut(number as usize)?.as_mut()
    }

    fn add(&mut self, timer: Timer) {
        debug_assert!(!self.by_address.contains_key(&timer.at), "a place has one timer");
        let number = self.free.pop().unwrap_or(self.by_number.len() as u32);
        debug_assert!(
            self.by_number.get(number as usize).is_none_or(Option::is_none),
            "a free number has no timer"
        );
        self.by_address.insert(timer.at, number);
        match self.by_number.get_mut(number as usize) {
            Some(place) => *place = Some(timer),
            None => self.by_number.push(Some(timer)),
        }
    }

    fn remove(&mut self, number: u32) {
        if let Some(timer) = self.by_number.get_mut(number as usize).and_then(Option::take) {
            debug_assert_eq!(self.by_address.get(&timer.at), Some(&number), "a timer is known by its place");
            self.by_address.remove(&timer.at);
            self.running = self.running.filter(|running| *running != number);
            self.free.push(number);
        }
    }
}

/// What to run when a timer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerCall {
    /// The callback.
    pub func: FuncId,
    /// The arguments of the function: map, key, value.
    pub args: [u64; 3],
}

impl TimerCall {
    /// What to run for the timer of this number, which is due; `None` if it was cancelled or its element is gone.
    pub fn of(timer: u32, runtime: &mut Runtime, mem: &mut Memory) -> Option<TimerCall> {
        let known = runtime.timers.get_mut(timer)?;
        let (func, map, at) = (known.callback?, known.map, known.at);
        let value = runtime.maps.special_at(at.0, SpecialKind::Timer, mem)?;
        runtime.timers.running = Some(timer);
        let key = runtime.maps.key_of(&value, mem);
        Some(TimerCall { func, args: [runtime.maps.handle(map).0, key.0, value.start.0] })
    }

    /// To be called when the callback has returned.
    pub fn finished(runtime: &mut Runtime) {
        runtime.timers.running = None;
    }
}

/// Cancels and forgets the timers inside a value that is going away.
pub(super) fn cancel_timers_in<E: Env>(value: GuestAddr, size: u64, caller: &mut Caller<'_, '_, E>) {
    let inside = caller.env.runtime().timers.by_address.range(value..value.offset(size));
    let inside: Vec<u32> = inside.map(|(_, number)| *number).collect();
    for number in inside {
        caller.env.timer_cancel(number);
        caller.with_maps(|_, mem| mem.give_back(HOST_BYTES));
        caller.env.runtime().timers.remove(number);
    }
}

/// `bpf_timer_init(timer, map, clock)`.
pub(super) fn init<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    timer: TimerPlace,
    map: MapArg,
    clock: u64,
) -> Result<Result<(), Errno>, Fault> {
    if timer.value.map != map.0 {
        return Err(misuse("the timer is not in a value of that map"));
    }
    // CLOCK_REALTIME 0, CLOCK_MONOTONIC 1, CLOCK_BOOTTIME 7; the simulation has one clock for all.
    if !matches!(clock, 0 | 1 | 7) {
        return Ok(Err(Errno::EINVAL));
    }
    if caller.env.runtime().timers.number(timer.at).is_some() {
        return Ok(Err(Errno::EBUSY));
    }
    if caller.with_maps(|_, mem| mem.take(HOST_BYTES)).is_err() {
        return Ok(Err(Errno::ENOMEM));
    }
    let made = Timer { at: timer.at, map: map.0, callback: None };
    caller.env.runtime().timers.add(made);
    Ok(Ok(()))
}

/// The timer at a place, if it was initialised, and its number.
fn known<'c, E: Env>(
    caller: &'c mut Caller<'_, '_, E>,
    timer: TimerPlace,
) -> Result<(u32, &'c mut Timer), Errno> {
    let timers = &mut caller.env.runtime().timers;
    let number = timers.number(timer.at).ok_or(Errno::EINVAL)?;
    timers.get_mut(number).map(|timer| (number, timer)).ok_or(Errno::EINVAL)
}

/// `bpf_timer_set_callback(timer, callback)`.
pub(super) fn set_callback<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    timer: TimerPlace,
    callback: Callback,
) -> Result<(), Errno> {
    known(caller, timer)?.1.callback = Some(callback.0);
    Ok(())
}

/// `bpf_timer_start(timer, ns, flags)`.
pub(super) fn start<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    timer: TimerPlace,
    ns: u64,
    flags: u64,
) -> Result<(), Errno> {
    let (number, known) = known(caller, timer)?;
    if known.callback.is_none() || flags & !(ABSOLUTE | PINNED) != 0 {
        return Err(Errno::EINVAL);
    }
    let (env, vm) = caller.parts();
    let from = if flags & ABSOLUTE != 0 { 0 } else { env.now_ns(vm) };
    env.timer_start(number, from.saturating_add(ns));
    Ok(())
}

/// `bpf_timer_cancel(timer)`: whether it was armed. As in the kernel, it needs a callback again before it can start.
pub(super) fn cancel<E: Env>(caller: &mut Caller<'_, '_, E>, timer: TimerPlace) -> Result<bool, Errno> {
    if caller.env.defers_timers() {
        return Err(Errno::EOPNOTSUPP);
    }
    let (number, _) = known(caller, timer)?;
    let timers = &mut caller.env.runtime().timers;
    if timers.running == Some(number) {
        return Err(EDEADLK);
    }
    if let Some(known) = timers.get_mut(number) {
        known.callback = None;
    }
    Ok(caller.env.timer_cancel(number))
}
