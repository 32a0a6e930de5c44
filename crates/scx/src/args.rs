//! Arguments of kernel functions that mean something to the simulated kernel: tasks, masks, CPUs, iterators.
//!
//! Together with [`schedlab_bpf::args`] this is all that kernel functions see of registers and guest memory.

use crate::join::Join;
use crate::masks::{CMASK_BITS, CmaskRange, read_mask, write_mask};
use schedlab_base::{CpuId, CpuMask, TaskId};
use schedlab_bpf::args::{Arg, Caller, OnStack, Registers, Shape, misuse};
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_sim::DsqIter;
use schedlab_trace::ExitKind;

/// A program that waits for a kernel function.
pub(crate) type Cx<'a, 'v, 'k> = Caller<'a, 'v, Join<'k>>;

/// A pointer to a task, where the kernel itself reports one that is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyTask(u64);

/// A pointer to a task: living, of the system (an idle task, the shell), or what is left of one that is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskArg {
    /// Where it is.
    pub(crate) at: GuestAddr,
    /// The task of the run that lives there.
    pub(crate) living: Option<TaskId>,
}

/// A pointer to a mask that is read: the kernel's, a task's or a program's. Reading it checks that it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskArg(GuestAddr);

/// A pointer to a mask that the program made (`bpf_cpumask_create()`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeMask(GuestAddr);

/// A pointer to a mask that the program may change: one that it made, or a `struct bpf_cpumask` in memory of its own. The kernel's
/// verifier takes that as well, since nothing but numbers is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnMask(GuestAddr);

/// A pointer to a cgroup, there or gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CgroupArg {
    /// Where it is.
    pub(crate) at: GuestAddr,
    /// The number of its place.
    pub(crate) place: u32,
}

/// A pointer to a `struct scx_cmask` that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmaskOut {
    at: GuestAddr,
    range: CmaskRange,
}

/// A `struct scx_cmask` that a kernel function reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmaskIn {
    at: GuestAddr,
    range: CmaskRange,
}

/// One that a kernel function writes if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmaskOrNull(pub(crate) Option<CmaskOut>);

impl CmaskOut {
    /// The one at an address, all of which the program may write.
    fn at(value: u64, caller: &mut Cx<'_, '_, '_>) -> Result<CmaskOut, Fault> {
        caller.writable(value, CMASK_BITS)?;
        let (_, mem) = caller.kernel_objects();
        let range = CmaskRange::read(mem, GuestAddr(value))?;
        caller.writable(value, range.bytes())?;
        Ok(CmaskOut { at: GuestAddr(value), range })
    }

    /// The same mask, to be read.
    pub(crate) fn read(self) -> CmaskIn {
        CmaskIn { at: self.at, range: self.range }
    }
}

impl CmaskIn {
    /// The cids in it.
    pub(crate) fn cids(self, cx: &mut Cx<'_, '_, '_>) -> Result<Vec<u32>, Fault> {
        let (_, mem) = cx.kernel_objects();
        self.range.cids(mem, self.at)
    }
}

/// A `struct bpf_iter_scx_dsq`, which is on the stack: its first word holds the number of the simulated kernel's iterator
/// plus 1, and 0 when there is none.
type IterPlace = OnStack<48>;

/// A place for a new iterator over a dispatch queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewIter(IterPlace);

/// An iterator over a dispatch queue that the program made at this place; none after a failed start or its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenIter {
    place: IterPlace,
    /// The simulated kernel's iterator.
    pub(crate) iter: Option<DsqIter>,
}

/// A kernel function was called with something that is no task: verified programs cannot do that.
#[cold]
fn no_task(pointer: u64) -> Fault {
    misuse(format!("kernel function called with {pointer:#x}, which is no task_struct"))
}

#[cold]
fn no_mask(pointer: u64) -> Fault {
    misuse(format!("{pointer:#x} is no bpf_cpumask, or one that has been released"))
}

/// Whether a mask that the program made is there.
#[inline]
fn is_made(value: u64, caller: &mut Cx<'_, '_, '_>) -> bool {
    let (join, mem) = caller.kernel_objects();
    join.state.cpumasks.is_live(mem, GuestAddr(value))
}

macro_rules! pointers {
    ($($name:ident, |$value:ident, $caller:ident| $make:expr;)*) => { $(
        impl Arg<Join<'_>> for $name {
            const SHAPE: &'static [Shape] = &[Shape::Pointer];

            #[inline(always)]
            fn take(registers: &mut Registers<'_>, $caller: &mut Cx<'_, '_, '_>) -> Result<Self, Fault> {
                let $value = registers.take();
                $make
            }
        }
    )* };
}

pointers! {
    AnyTask, |value, _caller| Ok(AnyTask(value));
    TaskArg, |value, caller| {
        let at = GuestAddr(value);
        let living = caller.env.living_task(value);
        match living.is_some() || caller.env.state.tasks.is_task_pointer(at) {
            true => Ok(TaskArg { at, living }),
            false => Err(no_task(value)),
        }
    };
    MaskArg, |value, _caller| Ok(MaskArg(GuestAddr(value)));
    MadeMask, |value, caller| match is_made(value, caller) {
        true => Ok(MadeMask(GuestAddr(value))),
        false => Err(no_mask(value)),
    };
    OwnMask, |value, caller| {
        if !is_made(value, caller) {
            let size = caller.env.state.cpumasks.size();
            caller.writable(value, size).map_err(|_| no_mask(value))?;
        }
        Ok(OwnMask(GuestAddr(value)))
    };
    CgroupArg, |value, caller| match caller.env.state.tasks.groups.place_at(GuestAddr(value)) {
        Some(place) => Ok(CgroupArg { at: GuestAddr(value), place }),
        None => Err(misuse(format!("kernel function called with {value:#x}, which is no cgroup"))),
    };
    CmaskOut, |value, caller| CmaskOut::at(value, caller);
    CmaskIn, |value, caller| {
        let (_, mem) = caller.kernel_objects();
        Ok(CmaskIn { at: GuestAddr(value), range: CmaskRange::read(mem, GuestAddr(value))? })
    };
    CmaskOrNull, |value, caller| {
        let there = (value != 0).then(|| CmaskOut::at(value, caller)).transpose()?;
        Ok(CmaskOrNull(there))
    };
}

impl Arg<Join<'_>> for NewIter {
    const SHAPE: &'static [Shape] = &[Shape::Pointer];

    fn take(registers: &mut Registers<'_>, caller: &mut Cx<'_, '_, '_>) -> Result<Self, Fault> {
        let place = IterPlace::take(registers, caller)?;
        if caller.env.state.iters.iter().any(|(_, at)| *at == place.0.at()) {
            return Err(misuse("a new iterator in the place of one that was not destroyed"));
        }
        Ok(NewIter(place))
    }
}

impl Arg<Join<'_>> for OpenIter {
    const SHAPE: &'static [Shape] = &[Shape::Pointer];

    #[inline]
    fn take(registers: &mut Registers<'_>, caller: &mut Cx<'_, '_, '_>) -> Result<Self, Fault> {
        let place = IterPlace::take(registers, caller)?;
        let Some(number) = caller.held(place)?.checked_sub(1) else {
            return Ok(OpenIter { place, iter: None });
        };
        let known = |(iter, at): &&(DsqIter, GuestAddr)| u64::from(iter.0) == number && *at == place.0.at();
        match caller.env.state.iters.iter().find(known) {
            Some((iter, _)) => Ok(OpenIter { place, iter: Some(*iter) }),
            None => Err(misuse(format!("{} is no iterator that was made there", place.0.at()))),
        }
    }
}

/// What kernel functions do with the kernel's objects in guest memory.
pub(crate) trait KernelObjects {
    /// The living task that a pointer means; where there is none, the scheduler is ejected in the kernel's words.
    fn living(&mut self, task: AnyTask, function: &str) -> Option<TaskId>;

    /// The pointer to a task.
    ///
    /// # Errors
    /// There is no room for it.
    fn task_pointer(&mut self, task: Option<TaskId>) -> Result<Option<GuestAddr>, Fault>;

    /// The pointer to the kernel thread that enables schedulers.
    ///
    /// # Errors
    /// None: it always has room.
    fn enabler_pointer(&mut self) -> Result<GuestAddr, Fault>;

    /// The pointer to the task that runs on a CPU, its idle task included.
    ///
    /// # Errors
    /// As [`KernelObjects::task_pointer`].
    fn curr_pointer(&mut self, cpu: CpuId) -> Result<GuestAddr, Fault>;

    /// Whether a task that is none of the run's is on a CPU, and which CPU that is: 0 for a number that is no CPU's.
    fn remains(&mut self, task: TaskArg) -> (bool, CpuId);

    /// The pointer to the cgroup of a task, as the scheduler has it.
    fn cgroup_of(&mut self, task: TaskArg) -> Result<GuestAddr, Fault>;

    /// A pointer to a copy of an idle mask as of now (the kernel's own would keep changing), that of a node if one is
    /// asked for.
    fn idle_mask_pointer(&mut self, smt: bool, node: Option<i32>) -> Result<GuestAddr, Fault>;

    /// A copy of the mask of the CPUs that are online, as of now.
    fn online_mask_pointer(&mut self) -> Result<GuestAddr, Fault>;

    /// The CPUs of a mask.
    fn mask(&mut self, mask: MaskArg) -> Result<CpuMask, Fault>;

    /// Whether a CPU is in a mask.
    fn mask_has(&mut self, mask: MaskArg, cpu: CpuId) -> Result<bool, Fault>;

    /// Sets or clears a CPU in a mask and returns whether it was set.
    fn change_cpu(&mut self, mask: OwnMask, cpu: CpuId, set: bool) -> Result<bool, Fault>;

    /// A new mask of the program's; none when guest memory is used up.
    fn new_mask(&mut self) -> Result<Option<GuestAddr>, Fault>;

    /// One more reference to a mask.
    fn acquire_mask(&mut self, mask: MadeMask) -> Result<GuestAddr, Fault>;

    /// One reference less.
    fn release_mask(&mut self, mask: MadeMask) -> Result<(), Fault>;

    /// Changes a mask and returns what `change` says.
    fn change_mask<T>(&mut self, mask: OwnMask, change: impl FnOnce(&mut CpuMask) -> T) -> Result<T, Fault>;

    /// Sets exactly the bits of a cmask for which `wanted` holds.
    fn fill_cmask(&mut self, mask: CmaskOut, wanted: impl Fn(u32) -> bool) -> Result<(), Fault>;

    /// Puts a new iterator, or none, into its place.
    fn open_iter(&mut self, place: NewIter, iter: Option<DsqIter>) -> Result<(), Fault>;

    /// Empties an iterator's place.
    fn close_iter(&mut self, iter: OpenIter) -> Result<(), Fault>;

    /// Counts bytes that the host keeps for the object; false when the object has used up what it may take.
    fn take_host(&mut self, bytes: u64) -> bool;

    /// Counts them back.
    fn give_back_host(&mut self, bytes: u64);
}

impl KernelObjects for Cx<'_, '_, '_> {
    #[inline]
    fn living(&mut self, task: AnyTask, function: &str) -> Option<TaskId> {
        let living = self.env.living_task(task.0);
        if living.is_none() {
            report_no_task(self.env, task.0, function);
        }
        living
    }

    #[inline]
    fn task_pointer(&mut self, task: Option<TaskId>) -> Result<Option<GuestAddr>, Fault> {
        let Some(task) = task else { return Ok(None) };
        let (join, mem) = self.kernel_objects();
        join.state.tasks.pointer(task, join.k, mem).map(Some)
    }

    fn enabler_pointer(&mut self) -> Result<GuestAddr, Fault> {
        let (join, mem) = self.kernel_objects();
        join.state.tasks.enabler(join.k, mem)
    }

    fn curr_pointer(&mut self, cpu: CpuId) -> Result<GuestAddr, Fault> {
        let (join, mem) = self.kernel_objects();
        debug_assert!(cpu.index() < join.state.nr_cpus, "the CPU is one of the machine");
        match join.k.curr(cpu) {
            Some(task) => join.state.tasks.pointer(task, join.k, mem),
            None => Ok(join.state.tasks.idle(cpu)),
        }
    }

    fn remains(&mut self, task: TaskArg) -> (bool, CpuId) {
        let (join, mem) = self.kernel_objects();
        if let Some(cpu) = join.state.tasks.idle_around(task.at) {
            return (join.k.curr(cpu).is_none(), cpu);
        }
        let (on_cpu, cpu) = join.state.tasks.remains(task.at, mem);
        (on_cpu, if (cpu as usize) < join.state.nr_cpus { CpuId(cpu) } else { CpuId(0) })
    }

    fn cgroup_of(&mut self, task: TaskArg) -> Result<GuestAddr, Fault> {
        let (join, mem) = self.kernel_objects();
        join.state.tasks.cgroup_of(task.at, mem)
    }

    fn idle_mask_pointer(&mut self, smt: bool, node: Option<i32>) -> Result<GuestAddr, Fault> {
        let (join, mem) = self.kernel_objects();
        let mask = join.k.idle_mask(smt, node);
        let known = |node: &usize| *node < join.k.nr_node_ids() as usize;
        let place = node.and_then(|node| usize::try_from(node).ok()).filter(known).unwrap_or(0);
        debug_assert!(place < join.k.nr_node_ids() as usize, "the node has a mask");
        let at = join.state.cpus.idle_mask(smt, place);
        write_mask(mem, at, &mask).map(|()| at)
    }

    fn online_mask_pointer(&mut self) -> Result<GuestAddr, Fault> {
        let (join, mem) = self.kernel_objects();
        let at = join.state.cpus.online_mask();
        write_mask(mem, at, join.k.online_cpus()).map(|()| at)
    }

    fn mask(&mut self, mask: MaskArg) -> Result<CpuMask, Fault> {
        read_mask(self.kernel_objects().1, mask.0)
    }

    #[inline]
    fn mask_has(&mut self, mask: MaskArg, cpu: CpuId) -> Result<bool, Fault> {
        let (word, bit) = bit_of(mask.0, cpu);
        Ok(self.kernel_objects().1.read_u64(word)? & bit != 0)
    }

    #[inline]
    fn change_cpu(&mut self, mask: OwnMask, cpu: CpuId, set: bool) -> Result<bool, Fault> {
        let (word, bit) = bit_of(mask.0, cpu);
        let (_, mem) = self.kernel_objects();
        let old = mem.read_u64(word)?;
        mem.write_u64(word, if set { old | bit } else { old & !bit })?;
        Ok(old & bit != 0)
    }

    fn new_mask(&mut self) -> Result<Option<GuestAddr>, Fault> {
        let (join, mem) = self.kernel_objects();
        join.state.cpumasks.create(mem)
    }

    fn acquire_mask(&mut self, mask: MadeMask) -> Result<GuestAddr, Fault> {
        let (join, mem) = self.kernel_objects();
        join.state.cpumasks.acquire(mem, mask.0).map(|()| mask.0)
    }

    fn release_mask(&mut self, mask: MadeMask) -> Result<(), Fault> {
        let (join, mem) = self.kernel_objects();
        join.state.cpumasks.release(mem, mask.0)
    }

    fn change_mask<T>(&mut self, mask: OwnMask, change: impl FnOnce(&mut CpuMask) -> T) -> Result<T, Fault> {
        let (_, mem) = self.kernel_objects();
        let mut bits = read_mask(mem, mask.0)?;
        let result = change(&mut bits);
        write_mask(mem, mask.0, &bits).map(|()| result)
    }

    fn fill_cmask(&mut self, mask: CmaskOut, wanted: impl Fn(u32) -> bool) -> Result<(), Fault> {
        let (_, mem) = self.kernel_objects();
        mask.range.fill(mem, mask.at, wanted)
    }

    fn open_iter(&mut self, place: NewIter, iter: Option<DsqIter>) -> Result<(), Fault> {
        let word = iter.map_or(0, |iter| u64::from(iter.0) + 1);
        debug_assert!(
            iter.is_none_or(|iter| self.env.state.iters.iter().all(|(other, _)| *other != iter)),
            "an iterator is open in one place"
        );
        if let Some(iter) = iter {
            self.env.state.iters.push((iter, place.0.0.at()));
        }
        self.fill(place.0.0, &word.to_le_bytes())
    }

    fn close_iter(&mut self, iter: OpenIter) -> Result<(), Fault> {
        self.env.state.iters.retain(|(_, at)| *at != iter.place.0.at());
        self.fill(iter.place.0, &0u64.to_le_bytes())
    }

    fn take_host(&mut self, bytes: u64) -> bool {
        self.kernel_objects().1.take(bytes).is_ok()
    }

    fn give_back_host(&mut self, bytes: u64) {
        self.kernel_objects().1.give_back(bytes);
    }
}

/// The word of a mask that a CPU's bit is in, and the bit.
fn bit_of(mask: GuestAddr, cpu: CpuId) -> (GuestAddr, u64) {
    debug_assert!(cpu.index() < schedlab_base::MAX_CPUS, "a mask has the CPU's bit");
    (mask.offset(u64::from(cpu.0 / 64) * 8), 1 << (cpu.0 % 64))
}

#[cold]
fn report_no_task(join: &mut Join<'_>, pointer: u64, function: &str) {
    let what = match pointer {
        0 => "called with NULL task".into(),
        _ => format!("{function}: no such task"),
    };
    join.k.error(ExitKind::Error, what);
}
