//! Kernel functions that do not depend on scheduling: arena pages, number iterators, casts, nested locks, objects.

use super::{Env, LockKind, give, graph, registers_of, take};
use crate::args::{Caller, LockPlace, MapArg, OnStack, Pointer, misuse};
use crate::engine::Vm;
use crate::fault::Fault;
use crate::maps::{Arena, Errno};
use crate::memory::GuestAddr;
use crate::object::MapType;

/// What taking a page back costs, in instructions: it is zeroed. Chosen: 32 bytes for each.
const PAGE_WORK: u64 = 128;

/// A kernel function of this module; a host maps the names in `Image::kfuncs` to these once, after linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenericKfunc {
    /// `bpf_arena_alloc_pages(map, addr, count, node, flags)`.
    ArenaAlloc,
    /// `bpf_arena_free_pages(map, addr, count)`.
    ArenaFree,
    /// `bpf_iter_num_new(iterator, start, end)`.
    IterNumNew,
    /// `bpf_iter_num_next(iterator)`.
    IterNumNext,
    /// `bpf_iter_num_destroy(iterator)`.
    IterNumDestroy,
    /// `bpf_rdonly_cast(object, type)` and `bpf_cast_to_kern_ctx(object)`: the object.
    Identity,
    /// `bpf_local_irq_save(flags)`.
    IrqSave,
    /// `bpf_local_irq_restore(flags)`.
    IrqRestore,
    /// `bpf_rcu_read_lock`, `bpf_preempt_disable` and their ends: nothing to do where programs are not preempted.
    Nothing,
    /// `bpf_res_spin_lock(lock)`.
    ResLock,
    /// `bpf_res_spin_unlock(lock)`.
    ResUnlock,
    /// `bpf_res_spin_lock_irqsave(lock, flags)`.
    ResLockIrq,
    /// `bpf_res_spin_unlock_irqrestore(lock, flags)`.
    ResUnlockIrq,
    /// `bpf_obj_new(type)`.
    ObjNew,
    /// `bpf_percpu_obj_new(type)`.
    ObjNewPerCpu,
    /// `bpf_obj_drop(object)` and `bpf_percpu_obj_drop(object)`.
    ObjDrop,
    /// `bpf_refcount_acquire(object)`.
    RefAcquire,
    /// `bpf_rbtree_add(root, node, less)`.
    TreeAdd,
    /// `bpf_rbtree_remove(root, node)` and `bpf_list_del(head, node)`.
    TreeRemove,
    /// `bpf_rbtree_first(root)` and `bpf_list_front(head)`.
    GraphFirst,
    /// `bpf_list_back(head)`.
    ListLast,
    /// `bpf_list_push_front(head, node)`.
    ListPushFront,
    /// `bpf_list_push_back(head, node)`.
    ListPushBack,
    /// `bpf_list_pop_front(head)`.
    ListPopFront,
    /// `bpf_list_pop_back(head)`.
    ListPopBack,
    /// `bpf_list_empty(head)`.
    ListEmpty,
    /// `bpf_list_is_first(head, node)`.
    ListIsFirst,
    /// `bpf_list_is_last(head, node)`.
    ListIsLast,
    /// `bpf_list_add(head, node, before)`.
    ListAdd,
    /// `bpf_rbtree_root(root)`.
    TreeRoot,
    /// `bpf_rbtree_left(root, node)`.
    TreeLeft,
    /// `bpf_rbtree_right(root, node)`.
    TreeRight,
}

/// A name, the function behind it, and the version of Linux that brought it.
type Row = (&'static str, GenericKfunc, Option<(u32, u32)>);

impl GenericKfunc {
    /// All of them: name, function, and the version of Linux that brought it (nothing: it is as old as sched_ext). Several
    /// names may have one function.
    pub const ALL: [Row; 47] = [
        ("bpf_arena_alloc_pages", GenericKfunc::ArenaAlloc, None),
        ("bpf_arena_free_pages", GenericKfunc::ArenaFree, None),
        ("bpf_iter_num_new", GenericKfunc::IterNumNew, None),
        ("bpf_iter_num_next", GenericKfunc::IterNumNext, None),
        ("bpf_iter_num_destroy", GenericKfunc::IterNumDestroy, None),
        ("bpf_rdonly_cast", GenericKfunc::Identity, None),
        ("bpf_cast_to_kern_ctx", GenericKfunc::Identity, None),
        ("bpf_local_irq_save", GenericKfunc::IrqSave, None),
        ("bpf_local_irq_restore", GenericKfunc::IrqRestore, None),
        ("bpf_rcu_read_lock", GenericKfunc::Nothing, None),
        ("bpf_rcu_read_unlock", GenericKfunc::Nothing, None),
        ("bpf_preempt_disable", GenericKfunc::Nothing, None),
        ("bpf_preempt_enable", GenericKfunc::Nothing, None),
        ("bpf_res_spin_lock", GenericKfunc::ResLock, None),
        ("bpf_res_spin_unlock", GenericKfunc::ResUnlock, None),
        ("bpf_res_spin_lock_irqsave", GenericKfunc::ResLockIrq, None),
        ("bpf_res_spin_unlock_irqrestore", GenericKfunc::ResUnlockIrq, None),
        ("bpf_obj_new_impl", GenericKfunc::ObjNew, None),
        ("bpf_obj_new", GenericKfunc::ObjNew, None),
        ("bpf_percpu_obj_new_impl", GenericKfunc::ObjNewPerCpu, None),
        ("bpf_percpu_obj_new", GenericKfunc::ObjNewPerCpu, None),
        ("bpf_obj_drop_impl", GenericKfunc::ObjDrop, None),
        ("bpf_obj_drop", GenericKfunc::ObjDrop, None),
        ("bpf_percpu_obj_drop_impl", GenericKfunc::ObjDrop, None),
        ("bpf_percpu_obj_drop", GenericKfunc::ObjDrop, None),
        ("bpf_refcount_acquire_impl", GenericKfunc::RefAcquire, None),
        ("bpf_refcount_acquire", GenericKfunc::RefAcquire, None),
        ("bpf_rbtree_add_impl", GenericKfunc::TreeAdd, None),
        ("bpf_rbtree_add", GenericKfunc::TreeAdd, None),
        ("bpf_rbtree_remove", GenericKfunc::TreeRemove, None),
        ("bpf_rbtree_first", GenericKfunc::GraphFirst, None),
        ("bpf_list_front", GenericKfunc::GraphFirst, Some((6, 16))),
        ("bpf_list_back", GenericKfunc::ListLast, Some((6, 16))),
        ("bpf_list_push_front_impl", GenericKfunc::ListPushFront, None),
        ("bpf_list_push_front", GenericKfunc::ListPushFront, None),
        ("bpf_list_push_back_impl", GenericKfunc::ListPushBack, None),
        ("bpf_list_push_back", GenericKfunc::ListPushBack, None),
        ("bpf_list_pop_front", GenericKfunc::ListPopFront, None),
        ("bpf_list_pop_back", GenericKfunc::ListPopBack, None),
        ("bpf_list_del", GenericKfunc::TreeRemove, None),
        ("bpf_list_empty", GenericKfunc::ListEmpty, None),
        ("bpf_list_is_first", GenericKfunc::ListIsFirst, None),
        ("bpf_list_is_last", GenericKfunc::ListIsLast, None),
        ("bpf_list_add", GenericKfunc::ListAdd, None),
        ("bpf_rbtree_root", GenericKfunc::TreeRoot, Some((6, 16))),
        ("bpf_rbtree_left", GenericKfunc::TreeLeft, Some((6, 16))),
        ("bpf_rbtree_right", GenericKfunc::TreeRight, Some((6, 16))),
    ];

    /// All names, for a [`crate::link::KernelModel`].
    pub const NAMES: [&'static str; GenericKfunc::ALL.len()] = {
        let mut names = [""; GenericKfunc::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = GenericKfunc::ALL[at].0;
            at += 1;
        }
        names
    };

    /// The function of this name.
    pub fn from_name(name: &str) -> Option<GenericKfunc> {
        let found = GenericKfunc::ALL.iter().find(|(known, ..)| *known == name);
        found.map(|(_, function, _)| *function)
    }

    /// How many registers it looks at.
    pub fn arguments<E: Env>(self) -> u8 {
        match self {
            GenericKfunc::Identity => 1,
            GenericKfunc::Nothing => 0,
            GenericKfunc::IterNumNew => registers_of(iter_new::<E>),
            GenericKfunc::IterNumNext => registers_of(iter_next::<E>),
            GenericKfunc::IterNumDestroy => registers_of(iter_destroy::<E>),
            GenericKfunc::ArenaAlloc => registers_of(arena_alloc::<E>),
            GenericKfunc::ArenaFree => registers_of(arena_free::<E>),
            GenericKfunc::IrqSave => registers_of(irq_save::<E>),
            GenericKfunc::IrqRestore => registers_of(irq_restore::<E>),
            GenericKfunc::ResLock => registers_of(res_lock::<E>),
            GenericKfunc::ResUnlock => registers_of(res_unlock::<E>),
            GenericKfunc::ResLockIrq => registers_of(res_lock_irq::<E>),
            GenericKfunc::ResUnlockIrq => registers_of(res_unlock_irq::<E>),
            GenericKfunc::ObjNew => registers_of(graph::new::<E>),
            GenericKfunc::ObjNewPerCpu => registers_of(graph::new_per_cpu::<E>),
            GenericKfunc::ObjDrop => registers_of(graph::drop::<E>),
            GenericKfunc::RefAcquire => registers_of(graph::acquire::<E>),
            GenericKfunc::TreeAdd => registers_of(graph::tree_add::<E>),
            GenericKfunc::TreeRemove => registers_of(graph::tree_remove::<E>),
            GenericKfunc::GraphFirst => registers_of(graph::first::<E>),
            GenericKfunc::ListLast => registers_of(graph::last::<E>),
            GenericKfunc::ListPushFront => registers_of(graph::push_front::<E>),
            GenericKfunc::ListPushBack => registers_of(graph::push_back::<E>),
            GenericKfunc::ListPopFront => registers_of(graph::pop_front::<E>),
            GenericKfunc::ListPopBack => registers_of(graph::pop_back::<E>),
            GenericKfunc::ListEmpty => registers_of(graph::is_empty::<E>),
            GenericKfunc::ListIsFirst => registers_of(graph::is_first::<E>),
            GenericKfunc::ListIsLast => registers_of(graph::is_last::<E>),
            GenericKfunc::ListAdd => registers_of(graph::list_add::<E>),
            GenericKfunc::TreeRoot => registers_of(graph::tree_root::<E>),
            GenericKfunc::TreeLeft => registers_of(graph::tree_left::<E>),
            GenericKfunc::TreeRight => registers_of(graph::tree_right::<E>),
        }
    }

    /// Whether a program may call it while it holds a lock (kernel: `KF_SPINLOCK_SAFE`).
    #[must_use]
    pub fn is_for_locked(self) -> bool {
        use GenericKfunc::*;
        match self {
            ArenaAlloc | ArenaFree | IterNumNew | IterNumNext | IterNumDestroy => true,
            ResLock | ResUnlock | ResLockIrq | ResUnlockIrq => true,
            TreeAdd | TreeRemove | TreeRoot | TreeLeft | TreeRight | GraphFirst => true,
            ListLast | ListPushFront | ListPushBack | ListPopFront | ListPopBack => true,
            ListEmpty | ListIsFirst | ListIsLast | ListAdd | RefAcquire => true,
            Identity | IrqSave | IrqRestore | Nothing | ObjNew | ObjNewPerCpu | ObjDrop => false,
        }
    }

    /// Calls it for a program.
    ///
    /// # Errors
    /// Ends the program for arguments that the kernel's verifier would have refused.
    pub fn call<E: Env>(self, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
        let caller = Caller::new(env, vm);
        match self {
            GenericKfunc::Identity => Ok(args[0]),
            GenericKfunc::Nothing => Ok(0),
            GenericKfunc::IterNumNew => caller.invoke(iter_new::<E>, args),
            GenericKfunc::IterNumNext => caller.invoke(iter_next::<E>, args),
            GenericKfunc::IterNumDestroy => caller.invoke(iter_destroy::<E>, args),
            GenericKfunc::ArenaAlloc => caller.invoke(arena_alloc::<E>, args),
            GenericKfunc::ArenaFree => caller.invoke(arena_free::<E>, args),
            GenericKfunc::IrqSave => caller.invoke(irq_save::<E>, args),
            GenericKfunc::IrqRestore => caller.invoke(irq_restore::<E>, args),
            GenericKfunc::ResLock => caller.invoke(res_lock::<E>, args),
            GenericKfunc::ResUnlock => caller.invoke(res_unlock::<E>, args),
            GenericKfunc::ResLockIrq => caller.invoke(res_lock_irq::<E>, args),
            GenericKfunc::ResUnlockIrq => caller.invoke(res_unlock_irq::<E>, args),
            GenericKfunc::ObjNew => caller.invoke(graph::new::<E>, args),
            GenericKfunc::ObjNewPerCpu => caller.invoke(graph::new_per_cpu::<E>, args),
            GenericKfunc::ObjDrop => caller.invoke(graph::drop::<E>, args),
            GenericKfunc::RefAcquire => caller.invoke(graph::acquire::<E>, args),
            GenericKfunc::TreeAdd => caller.invoke(graph::tree_add::<E>, args),
            GenericKfunc::TreeRemove => caller.invoke(graph::tree_remove::<E>, args),
            GenericKfunc::GraphFirst => caller.invoke(graph::first::<E>, args),
            GenericKfunc::ListLast => caller.invoke(graph::last::<E>, args),
            GenericKfunc::ListPushFront => caller.invoke(graph::push_front::<E>, args),
            GenericKfunc::ListPushBack => caller.invoke(graph::push_back::<E>, args),
            GenericKfunc::ListPopFront => caller.invoke(graph::pop_front::<E>, args),
            GenericKfunc::ListPopBack => caller.invoke(graph::pop_back::<E>, args),
            GenericKfunc::ListEmpty => caller.invoke(graph::is_empty::<E>, args),
            GenericKfunc::ListIsFirst => caller.invoke(graph::is_first::<E>, args),
            GenericKfunc::ListIsLast => caller.invoke(graph::is_last::<E>, args),
            GenericKfunc::ListAdd => caller.invoke(graph::list_add::<E>, args),
            GenericKfunc::TreeRoot => caller.invoke(graph::tree_root::<E>, args),
            GenericKfunc::TreeLeft => caller.invoke(graph::tree_left::<E>, args),
            GenericKfunc::TreeRight => caller.invoke(graph::tree_right::<E>, args),
        }
    }
}

/// The object's arena, if that is the map.
fn arena<'c, E: Env>(caller: &'c mut Caller<'_, '_, E>, map: MapArg) -> Result<&'c mut Arena, Fault> {
    let maps = &mut caller.env.runtime().maps;
    let is_arena = maps.get(map.0).is_some_and(|map| map.kind() == MapType::ARENA);
    maps.arena.as_mut().filter(|_| is_arena).ok_or_else(|| misuse("the map is no arena"))
}

/// `bpf_arena_alloc_pages(map, addr, count, node, flags)`.
fn arena_alloc<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    addr: u64,
    count: u32,
    _node: i32,
    flags: u64,
) -> Result<Option<GuestAddr>, Fault> {
    arena(caller, map)?;
    if flags != 0 {
        return Ok(None);
    }
    // Besides the pages themselves, the free runs that are passed over are work.
    let at = (addr != 0).then_some(addr);
    let (page, work) = caller.with_maps(|maps, mem| {
        let arena = maps.arena.as_mut().expect("looked at above");
        (arena.alloc(at, count, mem), arena.runs() as u64)
    });
    caller.work(if page.is_some() { work + u64::from(count) } else { work })?;
    Ok(page)
}

/// `bpf_arena_free_pages(map, addr, count)`.
fn arena_free<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    addr: u64,
    count: u32,
) -> Result<(), Fault> {
    let pages = arena(caller, map)?.pages().min(count);
    caller.work(u64::from(pages) * PAGE_WORK)?;
    caller.with_maps(|maps, mem| maps.arena.as_mut().expect("looked at above").release(addr, count, mem));
    Ok(())
}

/// `struct bpf_iter_num`: the last number given (low half) and the end (high half), as the kernel's has them.
type Numbers = OnStack<8>;

/// `bpf_iter_num_new(iterator, start, end)`.
fn iter_new<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    iter: Numbers,
    start: i32,
    end: i32,
) -> Result<Result<(), Errno>, Fault> {
    let error = match i64::from(end) - i64::from(start) {
        span if span < 0 => Some(Errno::EINVAL),
        span if span > super::MAX_LOOPS as i64 => Some(Errno::E2BIG),
        _ => None,
    };
    let word = match error {
        Some(_) => 0,
        None => u64::from(end as u32) << 32 | u64::from(start.wrapping_sub(1) as u32),
    };
    caller.fill(iter.0, &word.to_le_bytes())?;
    Ok(error.map_or(Ok(()), Err))
}

/// `bpf_iter_num_next(iterator)`: the address of the next number, or NULL.
fn iter_next<E: Env>(caller: &mut Caller<'_, '_, E>, iter: Numbers) -> Result<Option<GuestAddr>, Fault> {
    let word = caller.held(iter)?;
    let next = (word as u32 as i32).wrapping_add(1);
    if next >= (word >> 32) as u32 as i32 {
        caller.fill(iter.0, &[0; 8])?;
        return Ok(None);
    }
    caller.fill(iter.0, &next.to_le_bytes())?;
    Ok(Some(iter.0.at()))
}

/// `bpf_iter_num_destroy(iterator)`.
fn iter_destroy<E: Env>(caller: &mut Caller<'_, '_, E>, iter: Numbers) -> Result<(), Fault> {
    caller.fill(iter.0, &[0; 8])
}

/// `bpf_local_irq_save(flags)`.
fn irq_save<E: Env>(caller: &mut Caller<'_, '_, E>, flags: OnStack<8>) -> Result<(), Fault> {
    let depth = caller.env.runtime().irq_depth;
    caller.env.runtime().irq_depth = depth.saturating_add(1);
    caller.fill(flags.0, &u64::from(depth).to_le_bytes())
}

/// `bpf_local_irq_restore(flags)`.
fn irq_restore<E: Env>(caller: &mut Caller<'_, '_, E>, _flags: OnStack<8>) -> Result<(), Fault> {
    let depth = caller.env.runtime().irq_depth;
    let outer = depth.checked_sub(1).ok_or_else(|| misuse("interrupts were not disabled"))?;
    caller.env.runtime().irq_depth = outer;
    Ok(())
}

/// `bpf_res_spin_lock(lock)`.
fn res_lock<E: Env>(caller: &mut Caller<'_, '_, E>, lock: LockPlace) -> Result<(), Fault> {
    take(caller, lock, LockKind::Resilient)
}

/// `bpf_res_spin_unlock(lock)`.
fn res_unlock<E: Env>(caller: &mut Caller<'_, '_, E>, lock: Pointer) -> Result<(), Fault> {
    give(caller, lock, LockKind::Resilient)
}

/// `bpf_res_spin_lock_irqsave(lock, flags)`.
fn res_lock_irq<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    lock: LockPlace,
    flags: OnStack<8>,
) -> Result<(), Fault> {
    irq_save(caller, flags)?;
    res_lock(caller, lock)
}

/// `bpf_res_spin_unlock_irqrestore(lock, flags)`.
fn res_unlock_irq<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    lock: Pointer,
    flags: OnStack<8>,
) -> Result<(), Fault> {
    res_unlock(caller, lock)?;
    irq_restore(caller, flags)
}
