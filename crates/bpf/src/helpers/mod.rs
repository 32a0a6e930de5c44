//! The helpers that do not depend on scheduling: maps, memory, text, loops, timers, locks, identity.
//!
//! What they need of the simulated kernel (time, the current task, waiting for a lock) they ask an [`Env`] for.
//! Kernel functions of the same kind are in [`GenericKfunc`].
//!
//! Not modelled, and refused by the linker by number and name: tail calls, dynptrs but those of user ring buffers, everything on packets
//! and sockets, stacks, BTF printing, file and inode helpers, `probe_write_user`, `send_signal`.

mod format;
mod graph;
mod kfuncs;
mod map;
mod names;
mod perf;
mod probe;
mod ring;
mod timer;

pub use format::MAX_ARGS;
pub(crate) use format::format;
pub(crate) use graph::Objects;
pub use kfuncs::GenericKfunc;
pub use names::name;
pub use timer::TimerCall;
pub(crate) use timer::Timers;

use crate::args::{Arg, Callback, Caller, Function, Key, LockPlace, MapArg, Pointer, Registers, misuse};
use crate::engine::{Host, Vm};
use crate::fault::Fault;
use crate::link::{Runtime, TRAP_BASE};
use crate::maps::Errno;
use crate::memory::GuestAddr;

/// The two kinds of locks that programs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `struct bpf_spin_lock`: a program holds one at a time.
    Spin,
    /// `struct bpf_res_spin_lock`: they nest.
    Resilient,
}

/// What helpers ask of the simulated kernel.
pub trait Env: Host {
    /// Maps and other state of the loaded object.
    fn runtime(&mut self) -> &mut Runtime;

    /// A helper is about to read what lies at some of these addresses, which may be no addresses at all: objects there
    /// that the host keeps lazily are to be brought up to date.
    ///
    /// # Errors
    /// Ends the program.
    fn freshen(&mut self, addresses: &[u64], vm: &mut Vm<'_>) -> Result<(), Fault> {
        let _ = (addresses, vm);
        Ok(())
    }

    /// The CPU that the program runs on.
    fn cpu(&self) -> u32;

    /// Monotonic time, in nanoseconds, including what the program has cost so far.
    fn now_ns(&mut self, vm: &Vm<'_>) -> u64;

    /// A random number from the run's seed.
    fn random_u32(&mut self) -> u32;

    /// The current task's `task_struct`, or 0.
    ///
    /// # Errors
    /// Ends the program: there is no room for it.
    fn current_task(&mut self, vm: &mut Vm<'_>) -> Result<u64, Fault>;

    /// Thread group id in the high half, thread id in the low.
    fn current_pid_tgid(&mut self) -> u64;

    /// Name of the current task, padded with zeros.
    fn current_comm(&mut self) -> [u8; 16];

    /// Bytes of user memory, if they are there.
    fn read_user(&mut self, _addr: u64, _length: usize) -> Option<Vec<u8>> {
        None
    }

    /// The saved user registers of a task, or 0.
    ///
    /// # Errors
    /// Ends the program: this is no task.
    fn task_pt_regs(&mut self, task: u64, vm: &mut Vm<'_>) -> Result<u64, Fault>;

    /// A small integer that stands for this task for as long as it lives; `None` if the address is no task.
    fn task_owner(&mut self, task: u64) -> Option<u32>;

    /// A small integer that stands for this cgroup.
    fn cgroup_owner(&mut self, cgroup: u64) -> Option<u32>;

    /// Where a per-CPU variable (a kernel symbol or a per-CPU allocation) is for this CPU; `None` if it is none.
    fn per_cpu_address(&mut self, variable: u64, cpu: u32) -> Option<u64>;

    /// Whether a lock at this address has been taken before, so that it need not be looked for in a map's value.
    fn is_known_lock(&self, lock: GuestAddr) -> bool {
        let _ = lock;
        false
    }

    /// Takes a lock: other CPUs that want it wait in simulated time from here on.
    ///
    /// # Errors
    /// Ends the program, for instance when it takes a lock that it holds.
    fn lock(&mut self, lock: GuestAddr, kind: LockKind, vm: &mut Vm<'_>) -> Result<(), Fault>;

    /// Releases a lock.
    ///
    /// # Errors
    /// Ends the program, for instance when it does not hold the lock, or has taken another one after it.
    fn unlock(&mut self, lock: GuestAddr, kind: LockKind, vm: &mut Vm<'_>) -> Result<(), Fault>;

    /// Arms (or re-arms) the timer of this number for this time; when it is due, [`TimerCall::of`] says what to run.
    fn timer_start(&mut self, timer: u32, expires_ns: u64);

    /// Disarms a timer; says whether it was armed.
    fn timer_cancel(&mut self, timer: u32) -> bool;

    /// Whether timers cannot be cancelled here, as interrupts are off (`defer_timer_wq_op()`, kernel/bpf/helpers.c, Linux 7.3).
    fn defers_timers(&self) -> bool {
        false
    }

    /// A line that the program printed for people, after so many instructions.
    fn trace(&mut self, text: &str, insns: u64);

    /// Ticks since boot.
    fn jiffies(&mut self, vm: &Vm<'_>) -> u64;

    /// The node of the current CPU.
    fn numa_node(&self) -> u32 {
        0
    }

    /// User and group id of the current task: group in the high half.
    fn current_uid_gid(&mut self) -> u64 {
        0
    }

    /// The id of the current task's cgroup.
    fn current_cgroup_id(&mut self) -> u64 {
        1
    }

    /// The id of the cgroup above the current task's at this level, or of that one itself; 0 where there is none.
    fn current_ancestor_cgroup_id(&mut self, level: i32) -> u64 {
        u64::from(level == 0)
    }
}

/// Whether [`call`] knows this helper.
pub fn is_implemented(id: u32) -> bool {
    matches!(
        id,
        1..=8 | 14..=16 | 22 | 25 | 35 | 42 | 45 | 55 | 80 | 87..=89 | 93 | 94 | 112..=115 | 118 | 123 | 125 | 130..=134 | 148 | 153 | 154
            | 156..=158 | 160 | 164 | 165 | 169..=172 | 175 | 177 | 181 | 182 | 191 | 194 | 195 | 201 | 203 | 208..=210 | 211
    )
}

/// Calls helper number `id` for a program; a [`Host::helper`] passes on to this what it does not do itself.
///
/// # Errors
/// Faults end the program: an argument that the kernel's verifier would have refused (no map, bad memory), a helper
/// that is not modelled, or an instruction that must not be reached (named).
#[inline(always)]
pub fn call<E: Env>(id: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    if vm.is_locked() && !matches!(id, 93 | 94 | 194) {
        may_call_locked(id)?;
    }
    match id {
        // The hottest; all others are beyond a call.
        1 => lookup(Caller::new(env, vm), Registers::new(args)),
        156 => task_storage(Caller::new(env, vm), Registers::new(args)),
        8 => Ok(u64::from(env.cpu())),
        5 | 125 | 160 | 208 => Ok(env.now_ns(vm)),
        93 => spin_lock(Caller::new(env, vm), Registers::new(args)),
        94 => spin_unlock(Caller::new(env, vm), Registers::new(args)),
        _ => call_other(id, args, vm, env),
    }
}

/// While it holds a lock, a program may call two helpers (kernel: `do_check()` of its verifier): the one that gives the lock
/// back, and the one that exchanges a pointer. Taking one more lock is refused by the host, which knows them.
#[cold]
fn may_call_locked(id: u32) -> Result<(), Fault> {
    // Instructions that must not be reached have faults of their own.
    if id < TRAP_BASE { Err(under_lock(&name(id))) } else { Ok(()) }
}

/// The fault of a program that calls this while it holds a lock.
#[cold]
pub fn under_lock(name: &str) -> Fault {
    misuse(format!(
        "calls {name}() while it holds a lock: the kernel's verifier does not allow that; give the lock back before"
    ))
}

/// As [`Caller::invoke`] of [`map::lookup`], without a call.
#[inline(always)]
fn lookup<E: Env>(mut caller: Caller<'_, '_, E>, mut from: Registers<'_>) -> Result<u64, Fault> {
    let caller = &mut caller;
    let map = MapArg::take(&mut from, caller)?;
    let key = Key::take(&mut from, caller)?;
    map::lookup(caller, map, key)
}

/// [`Caller::invoke`] of [`map::task_storage_get`], without a call through a pointer.
#[inline(always)]
fn task_storage<E: Env>(mut caller: Caller<'_, '_, E>, mut from: Registers<'_>) -> Result<u64, Fault> {
    let caller = &mut caller;
    let map = MapArg::take(&mut from, caller)?;
    let (task, initial, flags) = (from.take(), from.take(), from.take());
    map::task_storage_get(caller, map, task, initial, flags)
}

/// [`Caller::invoke`] of [`lock`], without a call through a pointer.
#[inline(always)]
fn spin_lock<E: Env>(mut caller: Caller<'_, '_, E>, mut from: Registers<'_>) -> Result<u64, Fault> {
    let caller = &mut caller;
    let place = LockPlace::take(&mut from, caller)?;
    lock(caller, place).map(|()| 0)
}

/// [`Caller::invoke`] of [`unlock`], without a call through a pointer.
#[inline(always)]
fn spin_unlock<E: Env>(mut caller: Caller<'_, '_, E>, mut from: Registers<'_>) -> Result<u64, Fault> {
    let place = Pointer::take(&mut from, &mut caller)?;
    unlock(&mut caller, place).map(|()| 0)
}

#[inline(never)]
fn call_other<E: Env>(id: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    match id {
        7 => return Ok(u64::from(env.random_u32())),
        35 | 158 => return env.current_task(vm),
        14 => return Ok(env.current_pid_tgid()),
        15 => return Ok(env.current_uid_gid()),
        80 => return Ok(env.current_cgroup_id()),
        123 => return Ok(env.current_ancestor_cgroup_id(args[0] as i32)),
        42 => return Ok(u64::from(env.numa_node())),
        118 => return Ok(env.jiffies(vm)),
        175 => return env.task_pt_regs(args[0], vm),
        _ => {}
    }
    call_typed(id, args, Caller::new(env, vm))
}

/// The helpers whose arguments their functions' parameters tell, by number.
macro_rules! typed_helpers {
    ($($($id:literal)|+ => $($function:ident)::+),* $(,)?) => {
        fn call_typed<E: Env>(id: u32, args: &[u64; 5], caller: Caller<'_, '_, E>) -> Result<u64, Fault> {
            match id {
                $($($id)|+ => caller.invoke($($function)::+::<E>, args),)*
                _ => Err(unknown(id, caller.env)),
            }
        }

        /// How many registers helper number `id` looks at, if it is modelled.
        pub fn arguments<E: Env>(id: u32) -> Option<u8> {
            match id {
                // Those that have a way of their own above.
                5 | 7 | 8 | 14 | 15 | 35 | 42 | 80 | 118 | 125 | 158 | 160 | 208 => Some(0),
                123 | 175 => Some(1),
                1 => Some(registers_of(map::lookup::<E>)),
                156 => Some(registers_of(map::task_storage_get::<E>)),
                93 => Some(registers_of(lock::<E>)),
                94 => Some(registers_of(unlock::<E>)),
                $($($id)|+ => Some(registers_of($($function)::+::<E>)),)*
                _ => None,
            }
        }
    };
}

typed_helpers! {
    2 => map::update,
    3 => map::delete,
    87 => map::push,
    88 => map::pop,
    89 => map::peek,
    195 => map::lookup_percpu,
    157 => map::task_storage_delete,
    210 => map::cgroup_storage_get,
    211 => map::cgroup_storage_delete,
    164 => map::for_each,
    130 => ring::output,
    131 => ring::reserve,
    132 => ring::submit,
    133 => ring::discard,
    134 => ring::query,
    201 => ring::dynptr_read,
    203 => ring::dynptr_data,
    209 => ring::drain,
    22 => perf::read,
    55 => perf::read_value,
    25 => perf::output,
    194 => map::exchange_pointer,
    4 | 113 => probe::read,
    112 | 148 => probe::read_user,
    191 => probe::read_user_task,
    45 | 115 => probe::read_text,
    114 => probe::read_user_text,
    182 => probe::compare_text,
    16 => probe::current_comm,
    165 => format::to_buffer,
    6 => format::trace,
    177 => format::trace_packed,
    169 => timer::init,
    170 => timer::set_callback,
    171 => timer::start,
    172 => timer::cancel,
    181 => self::repeat,
    153 => self::per_cpu,
    154 => self::this_cpu,
}

fn registers_of<E, P>(function: impl Function<E, P>) -> u8 {
    u8::try_from(function.shape().len()).expect("there are five")
}

/// A helper that does not exist, is not modelled, or stands for an instruction that must not be reached.
fn unknown<E: Env>(id: u32, env: &mut E) -> Fault {
    let trap = id.checked_sub(TRAP_BASE).and_then(|n| env.runtime().traps.get(n as usize).cloned());
    match trap {
        Some(reason) => Fault::host(0, format!("reached an instruction that must not run: {reason}")),
        None => Fault::unsupported(format!("helper {id} ({})", name(id))),
    }
}

/// `bpf_spin_lock(lock)`.
#[inline(always)]
fn lock<E: Env>(caller: &mut Caller<'_, '_, E>, lock: LockPlace) -> Result<(), Fault> {
    take(caller, lock, LockKind::Spin)
}

#[inline(always)]
fn take<E: Env>(caller: &mut Caller<'_, '_, E>, lock: LockPlace, kind: LockKind) -> Result<(), Fault> {
    let (env, vm) = caller.parts();
    env.lock(lock.0, kind, vm)?;
    vm.lock_taken();
    Ok(())
}

/// `bpf_spin_unlock(lock)`: a lock that is held is one.
#[inline(always)]
fn unlock<E: Env>(caller: &mut Caller<'_, '_, E>, lock: Pointer) -> Result<(), Fault> {
    give(caller, lock, LockKind::Spin)
}

#[inline(always)]
fn give<E: Env>(caller: &mut Caller<'_, '_, E>, lock: Pointer, kind: LockKind) -> Result<(), Fault> {
    let (env, vm) = caller.parts();
    env.unlock(lock.0, kind, vm)?;
    vm.lock_given();
    Ok(())
}

/// `bpf_per_cpu_ptr(variable, cpu)`.
fn per_cpu<E: Env>(caller: &mut Caller<'_, '_, E>, variable: u64, cpu: u32) -> Option<u64> {
    if cpu >= caller.env.runtime().maps.nr_cpus() {
        return None;
    }
    if let Some(own) = caller.env.runtime().objects.per_cpu(variable, cpu) {
        return Some(own);
    }
    caller.env.per_cpu_address(variable, cpu)
}

/// `bpf_this_cpu_ptr(variable)`.
fn this_cpu<E: Env>(caller: &mut Caller<'_, '_, E>, variable: u64) -> Option<u64> {
    let cpu = caller.env.cpu();
    per_cpu(caller, variable, cpu)
}

/// Most passes of `bpf_loop` (kernel: `BPF_MAX_LOOPS`).
const MAX_LOOPS: u64 = 8 << 20;

/// `bpf_loop(count, callback, context, flags)`: passes made.
fn repeat<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    count: u32,
    callback: Callback,
    context: u64,
    flags: u64,
) -> Result<Result<u64, Errno>, Fault> {
    let count = u64::from(count);
    if flags != 0 {
        return Ok(Err(Errno::EINVAL));
    }
    if count > MAX_LOOPS {
        return Ok(Err(Errno::E2BIG));
    }
    for pass in 0..count {
        if caller.call_back(callback.0, &[pass, context])? != 0 {
            return Ok(Ok(pass + 1));
        }
    }
    Ok(Ok(count))
}
