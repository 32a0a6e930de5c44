//! The scheduler's own user space, if it takes part: what it may ask of the simulated kernel, and when it has a turn.
//!
//! Nothing here knows how a loader runs. It sees the kernel as bpf(2) shows it: maps by key, their memory, programs that run on
//! request. A turn takes place between callbacks.

use crate::load::ops_info;
use crate::locks::Locks;
use crate::scheduler::BpfScheduler;
use crate::state::Outside;
use schedlab_base::{CpuId, CpuMask, DurationNs, Machine, TimeNs};
use schedlab_bpf::error::LoadError;
use schedlab_bpf::maps::{Errno, MapId};
use schedlab_bpf::memory::{ARENA_BASE, PAGE_SIZE};
use schedlab_bpf::object::{MapDef, MapType, ProgramKind};
use schedlab_bpf::{GuestAddr, Perm};
use schedlab_sim::{
    BandwidthFigures, Group, GroupIx, Kernel, OpKind, UserSpaceNext, UserSpaceTask, UserSpaceTurn,
};
use schedlab_trace::ExitKind;
use schedlab_workload::GroupSettings;
use std::collections::{BTreeMap, BTreeSet};

/// What a loader has decided about an object before its programs are linked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Data sections as they are then, whole; their sizes may differ from the object's.
    pub sections: Vec<(String, Vec<u8>)>,
    /// Sizes of maps.
    pub max_entries: Vec<(String, u32)>,
    /// Programs that it did not load.
    pub left_out: Vec<String>,
    /// Programs that it may run on request.
    pub on_request: BTreeSet<String>,
}

/// The operations as they are attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// `.name`.
    pub name: String,
    /// Members that are numbers.
    pub numbers: BTreeMap<String, u64>,
    /// Members that are functions, each with its program.
    pub functions: BTreeMap<String, String>,
    /// What its user space's clock shows, as the time that the kernel has been up: the run continues from there.
    pub uptime: DurationNs,
}

/// What a turn of the user space leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The turn is over for now.
    Over(UserSpaceTurn),
    /// The user space has let the scheduler go, or has ended: why.
    Detached(String),
}

/// A scheduler's user space.
pub trait UserSpace: Send {
    /// The task of the user space.
    fn task(&self) -> UserSpaceTask;

    /// Runs until all of it waits or yields.
    fn turn(&mut self, kernel: &mut UserCalls<'_>) -> Turn;

    /// What it has written so far.
    fn output(&self) -> String;

    /// What it has asked for so far and did not get, each thing once.
    fn refused(&self) -> Vec<String>;
}

/// The user space of a scheduler, as far as it has one.
#[derive(Default)]
pub(crate) struct Joined {
    /// The user space, if it takes part.
    pub(crate) part: Option<Box<dyn UserSpace>>,
    /// How long the kernel has been up when the run begins, by its clock.
    pub(crate) uptime: Option<DurationNs>,
    /// What it had written, and what it had been refused, when it let the scheduler go.
    output: String,
    refused: Vec<String>,
    /// Since when it computes without end, if it does.
    computes: Option<TimeNs>,
}

/// A group of tasks as user space finds it below `/sys/fs/cgroup`.
#[derive(Clone, Debug)]
pub struct UserGroup {
    /// Names from the root down; the root's is empty.
    pub path: String,
    /// The number of its directory, which programs know it by.
    pub id: u64,
    /// What its files say.
    pub settings: GroupSettings,
    /// The period of `cpu.max`, which stays where there is no quota.
    pub period_us: u64,
    /// `cpuset.cpus`; nothing where it was not written.
    pub cpus: Option<Box<CpuMask>>,
    /// `cpuset.cpus.effective`.
    pub effective: Box<CpuMask>,
    /// CPU time of its tasks and of all groups below it.
    pub cpu_time: DurationNs,
    /// What `cpu.stat` says of its quota.
    pub bandwidth: BandwidthFigures,
    /// The living tasks in it: thread id and process id.
    pub threads: Vec<(i32, i32)>,
}

impl UserGroup {
    /// A root whose tasks may use these CPUs, without tasks. Its directory has the number 1.
    pub fn root(cpus: CpuMask) -> UserGroup {
        UserGroup {
            path: String::new(),
            id: 1,
            settings: GroupSettings::default(),
            period_us: 100_000,
            cpus: None,
            effective: Box::new(cpus),
            cpu_time: DurationNs::ZERO,
            bandwidth: BandwidthFigures::default(),
            threads: Vec::new(),
        }
    }
}

/// What user space may ask of the kernel.
pub struct UserCalls<'k> {
    scheduler: &'k mut BpfScheduler,
    k: &'k mut Kernel,
}

impl std::fmt::Debug for UserCalls<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserCalls").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl UserCalls<'_> {
    /// The time.
    pub fn now(&self) -> TimeNs {
        self.k.ctx().now
    }

    /// The CPU that it is on.
    pub fn cpu(&self) -> CpuId {
        self.k.ctx().cpu
    }

    /// Before the scheduler is attached, programs run on this CPU from now on.
    pub fn stand_on(&mut self, cpu: CpuId) {
        self.k.stand_on(cpu);
    }

    /// How long each CPU has run tasks.
    pub fn busy_times(&self) -> Vec<DurationNs> {
        self.k.busy_times().collect()
    }

    /// The groups that exist, parents first; none where the root is the only one.
    pub fn groups(&self) -> Vec<UserGroup> {
        let groups = self.k.groups();
        if groups.is_flat() {
            return Vec::new();
        }
        let mut times = self.k.group_cpu_times(self.now());
        for (group, entry) in groups.iter().rev() {
            let own = times[group.index()];
            if let Some(parent) = entry.parent {
                times[parent.index()] += own;
            }
        }
        let mut threads: Vec<Vec<(i32, i32)>> = vec![Vec::new(); times.len()];
        for task in self.k.live_tasks() {
            threads[self.k.task_group(task.id).index()].push((task.pid, task.tgid));
        }
        let existing = groups.iter().filter(|(_, entry)| entry.life.exists());
        let view = |(group, entry): (GroupIx, &Group)| UserGroup {
            path: entry.path.clone(),
            id: entry.id,
            settings: entry.settings,
            period_us: entry.knobs.period_us,
            cpus: entry.cpus.map(Box::new),
            effective: Box::new(**self.k.group_cpus(group)),
            cpu_time: times[group.index()],
            bandwidth: self.k.group_bandwidth(group).unwrap_or_default(),
            threads: std::mem::take(&mut threads[group.index()]),
        };
        existing.map(view).collect()
    }

    /// The map, or data section, of this name.
    pub fn find_map(&self, name: &str) -> Option<MapId> {
        self.scheduler.state.runtime.maps.find(name)
    }

    /// Where the values of an array stand in a row, and how many bytes they take.
    pub fn row(&self, id: MapId) -> Option<(GuestAddr, u64)> {
        let maps = &self.scheduler.state.runtime.maps;
        let map = maps.get(id).filter(|map| map.kind() == MapType::ARRAY)?;
        let first = maps.element(id, 0, 0)?;
        let stride = match map.max_entries() {
            1 => u64::from(map.value_size()),
            _ => maps.element(id, 1, 0)?.0 - first.0,
        };
        debug_assert!(stride > 0, "an entry has bytes");
        Some((first, stride * u64::from(map.max_entries())))
    }

    /// Memory that programs see; nothing unless all of it is mapped.
    pub fn read(&self, addr: GuestAddr, len: u64) -> Option<&[u8]> {
        self.scheduler.mem.slice(addr, len).ok()
    }

    /// Memory that programs see, to write.
    pub fn bytes_mut(&mut self, addr: GuestAddr, len: u64) -> Option<&mut [u8]> {
        self.scheduler.mem.slice_mut(addr, len).ok()
    }

    /// The pages of the arena that are allocated: place in the arena and content of each run.
    pub fn arena(&self) -> Vec<(u64, &[u8])> {
        let Some(arena) = &self.scheduler.state.runtime.maps.arena else { return Vec::new() };
        let content = |(first, count): (u32, u32)| {
            let at = u64::from(first) * PAGE_SIZE;
            let bytes = self.scheduler.mem.slice(GuestAddr(ARENA_BASE + at), u64::from(count) * PAGE_SIZE);
            Some((at, bytes.ok()?))
        };
        arena.taken().into_iter().filter_map(content).collect()
    }

    /// Writes whole pages of the arena, which are allocated where they are not: user space does that by touching them. False:
    /// they lie outside, or there is no memory left.
    pub fn write_arena(&mut self, at: u64, bytes: &[u8]) -> bool {
        let (mem, maps) = (&mut self.scheduler.mem, &mut self.scheduler.state.runtime.maps);
        let Some(arena) = &mut maps.arena else { return false };
        for (number, page) in bytes.chunks(PAGE_SIZE as usize).enumerate() {
            let addr = GuestAddr(ARENA_BASE + at + number as u64 * PAGE_SIZE);
            let there = mem.perm_at(addr) != Perm::NONE || arena.alloc(Some(addr.0), 1, mem).is_some();
            if !there || mem.write(addr, page).is_err() {
                return false;
            }
        }
        true
    }

    /// Takes the oldest record of a ring buffer, if it `fits`.
    pub fn next_record(&mut self, id: MapId, fits: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        self.scheduler.state.runtime.maps.ring_next(id, &self.scheduler.mem, fits)
    }

    /// Puts a record into a user ring buffer. False: there is no room.
    pub fn put_record(&mut self, id: MapId, record: &[u8]) -> bool {
        self.scheduler.state.runtime.maps.user_ring_put(id, record, &mut self.scheduler.mem)
    }

    fn cpus(&self, id: MapId) -> u32 {
        let maps = &self.scheduler.state.runtime.maps;
        if maps.get(id).is_some_and(|map| map.kind().is_per_cpu()) { maps.nr_cpus() } else { 1 }
    }

    /// The value of a key; of a map with one for each CPU all, each padded to 8 bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn look_up(&mut self, id: MapId, key: &[u8]) -> Result<Vec<u8>, Errno> {
        let cpus = self.cpus(id);
        let (mem, maps) = (&self.scheduler.mem, &mut self.scheduler.state.runtime.maps);
        let (kind, size) = maps.get(id).map(|map| (map.kind(), map.value_size())).ok_or(Errno::EINVAL)?;
        if matches!(kind, MapType::QUEUE | MapType::STACK) {
            return maps.pop(id, false, mem);
        }
        let mut value = Vec::new();
        for cpu in 0..cpus {
            let at = maps.lookup(id, key, cpu, mem).ok_or(Errno::ENOENT)?;
            value.extend_from_slice(mem.slice(at, u64::from(size)).map_err(|_| Errno::EFAULT)?);
            if cpus > 1 {
                value.resize(value.len().next_multiple_of(8), 0);
            }
        }
        Ok(value)
    }

    /// Takes the next element of a queue or stack.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pop(&mut self, id: MapId) -> Result<Vec<u8>, Errno> {
        self.scheduler.state.runtime.maps.pop(id, true, &self.scheduler.mem)
    }

    /// Sets the value of a key, in the same form.
    ///
    /// # Errors
    /// The kernel's.
    pub fn update(&mut self, id: MapId, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        let cpus = self.cpus(id);
        let (mem, maps) = (&mut self.scheduler.mem, &mut self.scheduler.state.runtime.maps);
        let (kind, size) =
            maps.get(id).map(|map| (map.kind(), map.value_size() as usize)).ok_or(Errno::EINVAL)?;
        if matches!(kind, MapType::QUEUE | MapType::STACK) {
            return maps.push(id, value, flags, mem);
        }
        for (cpu, part) in (0..cpus).zip(value.chunks(size.next_multiple_of(8).max(1))) {
            let flags = if cpu == 0 { flags } else { 0 };
            maps.update(id, key, part.get(..size).ok_or(Errno::EINVAL)?, flags, cpu, mem)?;
        }
        Ok(())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(&mut self, id: MapId, key: &[u8]) -> Result<(), Errno> {
        self.scheduler.state.runtime.maps.delete(id, key, &mut self.scheduler.mem)
    }

    /// The key after this one in the map's order, the first one after a key that is not there.
    pub fn key_after(&self, id: MapId, key: Option<&[u8]>) -> Option<Vec<u8>> {
        self.scheduler.state.runtime.maps.key_after(id, key)
    }

    /// All keys, in the map's order.
    pub fn keys(&self, id: MapId) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        self.scheduler.state.runtime.maps.visit(id, &mut |entry| {
            if entry.cpu.is_none_or(|cpu| cpu == 0) {
                keys.push(entry.key.to_vec());
            }
        });
        keys
    }

    /// Puts a map into a map of maps.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_inner(&mut self, outer: MapId, key: &[u8], inner: MapId) -> Result<(), Errno> {
        self.scheduler.state.runtime.maps.set_inner(outer, key, inner, &mut self.scheduler.mem)
    }

    /// Makes a map that the object does not declare; `sizes` are those of key and value, the number of entries and flags.
    ///
    /// # Errors
    /// A sentence.
    pub fn make_map(&mut self, name: &str, kind: u32, sizes: [u32; 4]) -> Result<MapId, String> {
        let [key_size, value_size, max_entries, flags] = sizes;
        let def = MapDef::plain(name, MapType(kind), [key_size, value_size, max_entries], flags);
        let types = &self.scheduler.image.types;
        self.scheduler.state.runtime.maps.create(&def, types, &mut self.scheduler.mem)
    }

    /// Runs a program that runs on request, with its context, which it may change.
    ///
    /// # Errors
    /// The kernel's: no such program, no memory, a program that ended by a fault (`EFAULT`; the scheduler is ejected).
    pub fn run_program(&mut self, name: &str, context: &mut [u8]) -> Result<u32, Errno> {
        let programs = &self.scheduler.image.programs;
        let is_meant = |kind: &ProgramKind| *kind == ProgramKind::Syscall;
        let found = programs.iter().find(|program| program.name == name && is_meant(&program.kind));
        let func = found.map(|program| program.func).ok_or(Errno::EINVAL)?;
        let (mut place, mut room) = (GuestAddr::NULL, (GuestAddr::NULL, 0));
        if !context.is_empty() {
            (place, room) =
                crate::programs::placed(context, &mut self.scheduler.mem).map_err(|_| Errno::ENOMEM)?;
        }
        self.scheduler.state.outside = Some(Outside::Loader);
        let returned = self.scheduler.enter(self.k, func, OpKind::Init, &[place.0]);
        self.scheduler.state.outside = None;
        if let Ok(bytes) = self.scheduler.mem.slice(place, context.len() as u64)
            && !context.is_empty()
        {
            context.copy_from_slice(bytes);
        }
        if room.1 > 0 {
            self.scheduler.mem.unmap(room.0, room.1);
        }
        if self.k.failure().is_some() { Err(Errno::EFAULT) } else { Ok(returned as u32) }
    }
}

impl BpfScheduler {
    /// Has user space do what it does before it attaches the scheduler, on a kernel that runs nothing else and has been up so long.
    ///
    /// # Errors
    /// What ejected the scheduler: a program that faulted.
    pub fn before_attach<T>(
        &mut self,
        machine: &Machine,
        seed: u64,
        uptime: DurationNs,
        body: impl FnOnce(&mut UserCalls<'_>) -> T,
    ) -> Result<T, String> {
        let mut k = Kernel::unloaded(machine, seed, uptime);
        let result = body(&mut UserCalls { scheduler: self, k: &mut k });
        // Locks get their places in the kernel that the run has.
        self.state.locks = Locks::new();
        if k.has_timers() {
            return Err("a program that it ran has armed a timer before the scheduler is attached, which is not modelled".into());
        }
        match k.failure() {
            Some(why) => Err(why.to_string()),
            None => Ok(result),
        }
    }

    /// Takes the operations as user space attaches them.
    ///
    /// # Errors
    /// What the kernel refuses of them.
    pub fn attach(&mut self, attached: &Attached) -> Result<(), LoadError> {
        self.user.uptime = Some(attached.uptime);
        let table = &mut self.table;
        for (name, number) in &attached.numbers {
            if let Some(member) = table.scalars.get_mut(name) {
                *member = *number;
            }
        }
        table.strings.insert("name".into(), attached.name.clone());
        let program = |name: &String| self.image.programs.iter().find(|program| program.name == *name);
        let func = |(member, name): (&String, &String)| Some((member.clone(), program(name)?.func));
        table.functions = attached.functions.iter().filter_map(func).collect();
        // A loader may have put a program in the place of another, which may call less there.
        crate::load::checked_form(&self.image, &self.table, self.verifier)?;
        self.ops = crate::load::callbacks(&self.table, self.cid_form);
        self.extra = crate::load::extra_ops(&self.table, self.cid_form);
        self.info = ops_info(&self.table, &self.ops, self.cid_form)?;
        self.state.ops_flags = self.info.flags;
        Ok(())
    }

    /// Lets a user space take part in the run.
    pub fn take_part(&mut self, user: Box<dyn UserSpace>) {
        self.user.part = Some(user);
        self.state.rings.are_read = true;
    }

    /// What the user space has written.
    pub fn user_output(&self) -> String {
        self.user.part.as_ref().map_or_else(|| self.user.output.clone(), |user| user.output())
    }

    /// What the user space has asked for and did not get.
    pub fn user_refused(&self) -> Vec<String> {
        self.user.part.as_ref().map_or_else(|| self.user.refused.clone(), |user| user.refused())
    }

    /// Since when the user space computes without end, if it does.
    pub fn user_computes(&self) -> Option<TimeNs> {
        self.user.computes
    }

    /// A turn of the user space. One that has let its scheduler go never has another.
    pub(crate) fn take_user_space_turn(&mut self, k: &mut Kernel) -> UserSpaceTurn {
        let gone = UserSpaceTurn { calls: 0, affinity: None, next: UserSpaceNext::Wait(None) };
        let Some(mut user) = self.user.part.take() else { return gone };
        let turn = user.turn(&mut UserCalls { scheduler: self, k });
        match turn {
            Turn::Over(turn) => {
                if turn.next == UserSpaceNext::Compute {
                    self.user.computes = Some(k.ctx().now);
                }
                self.user.part = Some(user);
                turn
            }
            Turn::Detached(why) => {
                (self.user.output, self.user.refused) = (user.output(), user.refused());
                k.error(ExitKind::Unreg, why);
                gone
            }
        }
    }
}
