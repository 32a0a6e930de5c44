//! The helpers that do not depend on scheduling: maps, memory, text, loops, timers, locks, identity.
//!
//! What they need of the simulated kernel (time, the current task, waiting for a lock) they ask an [`Env`] for.
//! Kernel functions of the same kind are in [`GenericKfunc`].
//!
//! Not modelled, and refused by the linker by number and name: tail calls, dynptrs, everything on packets and sockets,
//! perf events and stacks, user ring buffers, BTF printing, file and inode helpers, `probe_write_user`, `send_signal`.

mod format;
mod kfuncs;
mod map;
mod names;
mod probe;
mod timer;

pub use format::format;
pub use kfuncs::GenericKfunc;
pub use names::name;
pub(crate) use timer::Timer;
pub use timer::{TimerCall, cancel_timers_in};

use crate::engine::{Host, Vm};
use crate::fault::Fault;
use crate::link::{Runtime, TRAP_BASE};
use crate::maps::Errno;
use crate::memory::GuestAddr;

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

    /// The same for a cgroup.
    fn cgroup_owner(&mut self, cgroup: u64) -> Option<u32>;

    /// Where a per-CPU variable (a kernel symbol or a per-CPU allocation) is for this CPU; `None` if it is none.
    fn per_cpu_address(&mut self, variable: u64, cpu: u32) -> Option<u64>;

    /// Takes a lock: other CPUs that want it wait in simulated time from here on.
    ///
    /// # Errors
    /// Ends the program, for instance when it takes a lock that it holds.
    fn lock(&mut self, lock: GuestAddr, vm: &mut Vm<'_>) -> Result<(), Fault>;

    /// Releases a lock.
    ///
    /// # Errors
    /// Ends the program, for instance when it does not hold the lock.
    fn unlock(&mut self, lock: GuestAddr, vm: &mut Vm<'_>) -> Result<(), Fault>;

    /// Arms (or re-arms) a timer for this time; when it is due, [`TimerCall::of`] says what to run.
    fn timer_start(&mut self, timer: GuestAddr, expires_ns: u64);

    /// Disarms a timer; says whether it was armed.
    fn timer_cancel(&mut self, timer: GuestAddr) -> bool;

    /// A line that the program printed for people.
    fn trace(&mut self, text: &str);

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
}

/// Whether [`call`] knows this helper.
pub fn is_implemented(id: u32) -> bool {
    matches!(
        id,
        1..=8 | 14..=16 | 35 | 42 | 45 | 80 | 87..=89 | 93 | 94 | 112..=115 | 118 | 125 | 130..=134 | 148 | 153 | 154
            | 156..=158 | 160 | 164 | 165 | 169..=172 | 175 | 177 | 181 | 182 | 191 | 194 | 195 | 208 | 210 | 211
    )
}

/// Calls helper number `id` for a program; a [`Host::helper`] passes on to this what it does not do itself.
///
/// # Errors
/// Faults end the program: an argument that the kernel's verifier would have refused (no map, bad memory), a helper
/// that is not modelled, or an instruction that must not be reached (named).
#[inline(always)]
pub fn call<E: Env>(id: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    match id {
        // The hottest; all others are beyond a call. The first one reads a key, the rest nothing.
        1 => {
            env.freshen(&args[1..2], vm)?;
            map::lookup_on(args[0], args[1], env.cpu(), vm, env)
        }
        156 => map::storage_get(args, vm, env, false),
        8 => Ok(u64::from(env.cpu())),
        5 | 125 | 160 | 208 => Ok(env.now_ns(vm)),
        93 => env.lock(GuestAddr(args[0]), vm).map(|()| 0),
        94 => env.unlock(GuestAddr(args[0]), vm).map(|()| 0),
        _ => call_other(id, args, vm, env),
    }
}

#[inline(never)]
fn call_other<E: Env>(id: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    // These are given nothing, or a variable or a task for its identity; other registers may hold anything.
    if !matches!(id, 7 | 14 | 15 | 35 | 42 | 80 | 118 | 153 | 154 | 157 | 158 | 175) {
        env.freshen(args, vm)?;
    }
    match id {
        2 => map::update(args, vm, env),
        3 => map::delete(args, vm, env),
        87..=89 => map::queue(id, args, vm, env),
        195 => map::lookup_percpu(args, vm, env),
        157 | 211 => map::storage_delete(args, env, id == 211),
        210 => map::storage_get(args, vm, env, true),
        164 => map::for_each(args, vm, env),
        130..=134 => map::ring(id, args, vm, env),
        194 => map::exchange_pointer(args, vm),
        4 | 112 | 113 | 148 | 191 => probe::read(id, args, vm, env),
        45 | 114 | 115 => probe::read_text(id, args, vm),
        182 => probe::compare_text(args, vm),
        165 => format::to_buffer(args, vm),
        6 | 177 => format::trace(id, args, vm, env),
        169..=172 => timer::call(id, args, vm, env),
        181 => repeat(args, vm, env),
        7 => Ok(u64::from(env.random_u32())),
        35 | 158 => env.current_task(vm),
        14 => Ok(env.current_pid_tgid()),
        15 => Ok(env.current_uid_gid()),
        80 => Ok(env.current_cgroup_id()),
        42 => Ok(u64::from(env.numa_node())),
        118 => Ok(env.jiffies(vm)),
        16 => probe::current_comm(args, vm, env),
        175 => env.task_pt_regs(args[0], vm),
        153 => Ok(per_cpu(args[0], args[1] as u32, env)),
        154 => {
            let cpu = env.cpu();
            Ok(per_cpu(args[0], cpu, env))
        }
        _ => Err(unknown(id, env)),
    }
}

/// A helper that does not exist, is not modelled, or stands for an instruction that must not be reached.
fn unknown<E: Env>(id: u32, env: &mut E) -> Fault {
    let trap = id.checked_sub(TRAP_BASE).and_then(|n| env.runtime().traps.get(n as usize).cloned());
    match trap {
        Some(reason) => Fault::host(0, format!("reached an instruction that must not run: {reason}")),
        None => Fault::unsupported(format!("helper {id} ({})", name(id))),
    }
}

fn per_cpu<E: Env>(variable: u64, cpu: u32, env: &mut E) -> u64 {
    if cpu >= env.runtime().maps.nr_cpus() {
        return 0;
    }
    env.per_cpu_address(variable, cpu).unwrap_or(0)
}

/// Most passes of `bpf_loop` (kernel: `BPF_MAX_LOOPS`).
const MAX_LOOPS: u64 = 8 << 20;

/// `bpf_loop(count, callback, context, flags)`: passes made.
fn repeat<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let [count, callback, context, flags, _] = *args;
    let count = u64::from(count as u32);
    if flags != 0 {
        return Ok(Errno::EINVAL.to_r0());
    }
    if count > MAX_LOOPS {
        return Ok(Errno::E2BIG.to_r0());
    }
    for pass in 0..count {
        if vm.call_pointer(callback, &[pass, context], env)? != 0 {
            return Ok(pass + 1);
        }
    }
    Ok(count)
}

/// A program broke a rule that the verifier enforces.
fn misuse(what: impl Into<String>) -> Fault {
    Fault::host(0, what)
}
