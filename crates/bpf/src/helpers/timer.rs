//! Timers in map values: what the program says is kept here, when they fire is the [`Env`]'s part.

use super::{Env, misuse};
use crate::code::FuncId;
use crate::engine::Vm;
use crate::fault::Fault;
use crate::link::Runtime;
use crate::maps::{Errno, MapId};
use crate::memory::{GuestAddr, Memory};

/// A timer that was initialised.
#[derive(Debug, Clone)]
pub(crate) struct Timer {
    map: MapId,
    callback: Option<FuncId>,
    /// Its callback is running now.
    running: bool,
}

/// What to run when a timer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerCall {
    /// The callback.
    pub func: FuncId,
    /// Its arguments: map, key, value.
    pub args: [u64; 3],
}

impl TimerCall {
    /// What to run for a timer that is due; `None` if it was cancelled or its element is gone.
    pub fn of(timer: GuestAddr, runtime: &mut Runtime, mem: &mut Memory) -> Option<TimerCall> {
        let known = runtime.timers.get_mut(&timer.0)?;
        let (func, map) = (known.callback?, known.map);
        let (_, value, key) = runtime.maps.owner_of(timer.0, mem)?;
        known.running = true;
        Some(TimerCall { func, args: [runtime.maps.handle(map).0, key.0, value.0] })
    }

    /// To be called when the callback has returned.
    pub fn finished(timer: GuestAddr, runtime: &mut Runtime) {
        if let Some(known) = runtime.timers.get_mut(&timer.0) {
            known.running = false;
        }
    }
}

/// Cancels and forgets the timers inside a value that is going away.
pub fn cancel_timers_in<E: Env>(value: GuestAddr, size: u64, env: &mut E) {
    let range = value.0..value.0.saturating_add(size);
    let inside: Vec<u64> = env.runtime().timers.range(range).map(|(at, _)| *at).collect();
    for at in inside {
        env.timer_cancel(GuestAddr(at));
        env.runtime().timers.remove(&at);
    }
}

/// Init (169), set_callback (170), start (171), cancel (172).
pub(super) fn call<E: Env>(id: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    /// The kernel's EDEADLK: a callback cancels its own timer.
    const EDEADLK: Errno = Errno(35);
    const ABSOLUTE: u64 = 1;
    const PINNED: u64 = 2;
    let timer = GuestAddr(args[0]);
    if id == 169 {
        return init(timer, args, vm, env);
    }
    let Some(known) = env.runtime().timers.get_mut(&timer.0) else {
        return Ok(Errno::EINVAL.to_r0());
    };
    match id {
        170 => {
            let func = FuncId::from_pointer(args[1]).ok_or_else(|| misuse("the callback is no function"))?;
            known.callback = Some(func);
            Ok(0)
        }
        171 => {
            if known.callback.is_none() || args[2] & !(ABSOLUTE | PINNED) != 0 {
                return Ok(Errno::EINVAL.to_r0());
            }
            let start = if args[2] & ABSOLUTE != 0 { 0 } else { env.now_ns(vm) };
            env.timer_start(timer, start.saturating_add(args[1]));
            Ok(0)
        }
        _ if known.running => Ok(EDEADLK.to_r0()),
        _ => {
            // As in the kernel, a cancelled timer needs a callback again before it can start.
            known.callback = None;
            Ok(u64::from(env.timer_cancel(timer)))
        }
    }
}

/// `bpf_timer_init(timer, map, clock)`.
fn init<E: Env>(timer: GuestAddr, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let map = env.runtime().maps.by_handle(args[1]);
    let map = map.ok_or_else(|| misuse(format!("{:#x} is no map", args[1])))?;
    if env.runtime().maps.owner_of(timer.0, vm.mem).map(|o| o.0) != Some(map) {
        return Err(misuse("the timer is not in a value of that map"));
    }
    // CLOCK_REALTIME 0, CLOCK_MONOTONIC 1, CLOCK_BOOTTIME 7; the simulation has one clock for all.
    if !matches!(args[2], 0 | 1 | 7) {
        return Ok(Errno::EINVAL.to_r0());
    }
    if env.runtime().timers.contains_key(&timer.0) {
        return Ok(Errno::EBUSY.to_r0());
    }
    env.runtime().timers.insert(timer.0, Timer { map, callback: None, running: false });
    Ok(0)
}
