//! Objects that programs make (`bpf_obj_new()`), and the trees and lists that they put them into.
//!
//! A tree's or list's order is kept here; its head and nodes in guest memory are opaque to programs, as in the kernel. What the
//! kernel's verifier refuses (an object that is gone, a node of no object) ends the program.

use super::Env;
use crate::args::{Arg, Callback, Caller, Registers, Shape, misuse};
use crate::btf::TypeId;
use crate::fault::Fault;
use crate::maps::{Errno, SpecialKind};
use crate::memory::{GuestAddr, Memory, Perm};
use std::collections::{BTreeMap, VecDeque};

/// Bytes that are mapped at once for objects of one size. Chosen.
const CHUNK: u64 = 64 << 10;
/// Granularity of sizes.
const GRAIN: u64 = 16;
/// Bytes of the host that an object counts for besides its own.
const HOST_BYTES: u64 = 128;
/// Bytes of a node in the order of a tree or list.
const NODE_BYTES: u64 = size_of::<u64>() as u64;

/// An object that a program has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Object {
    /// Bytes from one CPU's to the next's, or of the only one.
    stride: u64,
    /// How many there are: one, or one for each CPU.
    copies: u64,
    /// What holds it.
    references: u32,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    live: BTreeMap<u64, Object>,
    /// Places that are free, by size.
    free: BTreeMap<u64, Vec<u64>>,
    /// The nodes of each tree or list by the place of its head, in order.
    heads: BTreeMap<u64, VecDeque<u64>>,
    /// The head of each node that is in one.
    nodes: BTreeMap<u64, u64>,
}

impl Objects {
    /// Makes one, all zero; nothing without memory.
    fn make(&mut self, size: u64, copies: u64, mem: &mut Memory) -> Option<u64> {
        debug_assert!(copies > 0, "an object has a copy");
        let stride = size.max(1).checked_next_multiple_of(GRAIN)?;
        let bytes = stride.checked_mul(copies)?;
        mem.take(bytes + HOST_BYTES).ok()?;
        let free = self.free.entry(bytes).or_default();
        if free.is_empty() {
            let chunk = CHUNK.max(bytes);
            let Ok(base) = mem.map(chunk, Perm::READ_WRITE) else {
                mem.give_back(bytes + HOST_BYTES);
                return None;
            };
            free.extend((0..chunk / bytes).rev().map(|number| base.0 + number * bytes));
        }
        let at = free.pop()?;
        debug_assert!(
            !self.live.contains_key(&at) && at.is_multiple_of(GRAIN),
            "a free place holds no object"
        );
        mem.write(GuestAddr(at), &vec![0; bytes as usize]).expect("chunks stay mapped");
        self.live.insert(at, Object { stride, copies, references: 1 });
        Some(at)
    }

    /// True for the place of one that is there.
    pub(crate) fn is_live(&self, at: u64) -> bool {
        self.live.contains_key(&at)
    }

    /// The one that an address lies in.
    fn around(&self, addr: u64) -> Option<u64> {
        let (at, object) = self.live.range(..=addr).next_back()?;
        (addr - at < object.stride * object.copies).then_some(*at)
    }

    /// Where a CPU's copy of one with a copy for each is.
    pub(super) fn per_cpu(&self, at: u64, cpu: u32) -> Option<u64> {
        let object = self.live.get(&at)?;
        (u64::from(cpu) < object.copies && object.copies > 1).then(|| at + object.stride * u64::from(cpu))
    }

    /// One reference less; with the last it goes, and what is in its trees and lists loses one too.
    fn release(&mut self, at: u64, mem: &mut Memory) -> Result<(), Fault> {
        let mut gone = vec![at];
        while let Some(at) = gone.pop() {
            let object = self.live.get_mut(&at).ok_or_else(|| no_object(at))?;
            debug_assert!(object.references > 0, "a live object has a reference");
            object.references -= 1;
            if object.references > 0 {
                continue;
            }
            let bytes = object.stride * object.copies;
            if self.nodes.range(at..at + bytes).next().is_some() {
                return Err(misuse("an object is dropped that is in a tree or list"));
            }
            let heads: Vec<u64> = self.heads.range(at..at + bytes).map(|(head, _)| *head).collect();
            for head in heads {
                for node in self.heads.remove(&head).unwrap_or_default() {
                    self.nodes.remove(&node);
                    gone.extend(self.around(node));
                }
            }
            self.live.remove(&at);
            self.free.entry(bytes).or_default().push(at);
            mem.give_back(bytes + HOST_BYTES);
        }
        Ok(())
    }

    fn insert(&mut self, head: u64, place: usize, node: u64) {
        let nodes = self.heads.entry(head).or_default();
        nodes.insert(place.min(nodes.len()), node);
        self.nodes.insert(node, head);
    }

    fn take(&mut self, head: u64, place: Option<usize>) -> Option<u64> {
        let node = self.heads.get_mut(&head)?.remove(place?)?;
        self.nodes.remove(&node);
        Some(node)
    }

    fn len(&self, head: u64) -> usize {
        self.heads.get(&head).map_or(0, VecDeque::len)
    }

    fn at(&self, head: u64, place: usize) -> Option<u64> {
        self.heads.get(&head)?.get(place).copied()
    }

    fn place_of(&self, head: u64, node: u64) -> Option<usize> {
        (self.nodes.get(&node) == Some(&head))
            .then(|| self.heads.get(&head)?.iter().position(|known| *known == node))
            .flatten()
    }
}

#[cold]
fn no_object(at: u64) -> Fault {
    misuse(format!("{at:#x} is no object of bpf_obj_new()"))
}

/// A `struct bpf_rb_root` or `bpf_list_head`: in a value of a map, or in an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head(u64);

/// A `struct bpf_rb_node` or `bpf_list_node` in an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node(u64);

/// An object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made(u64);

impl<E: Env> Arg<E> for Head {
    const SHAPE: &'static [Shape] = &[Shape::Pointer];

    fn take(registers: &mut Registers<'_>, caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
        let at = registers.take();
        let objects = &caller.env.runtime().objects;
        if !objects.heads.contains_key(&at) && objects.around(at).is_none() {
            caller.special(at, SpecialKind::Graph)?;
        }
        Ok(Head(at))
    }
}

impl<E: Env> Arg<E> for Node {
    const SHAPE: &'static [Shape] = &[Shape::Pointer];

    fn take(registers: &mut Registers<'_>, caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
        let at = registers.take();
        caller.env.runtime().objects.around(at).map(|_| Node(at)).ok_or_else(|| no_object(at))
    }
}

impl<E: Env> Arg<E> for Made {
    const SHAPE: &'static [Shape] = &[Shape::Pointer];

    fn take(registers: &mut Registers<'_>, caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
        let at = registers.take();
        caller.env.runtime().objects.is_live(at).then_some(Made(at)).ok_or_else(|| no_object(at))
    }
}

/// Makes objects of one of the object file's types.
fn make<E: Env>(caller: &mut Caller<'_, '_, E>, ty: u64, copies: u64) -> Result<Option<GuestAddr>, Fault> {
    let types = &caller.env.runtime().types;
    let size = u32::try_from(ty).ok().and_then(|ty| types.size_of(TypeId(ty)));
    let size = size.ok_or_else(|| misuse(format!("type {ty} has no size")))?;
    caller.work_bytes(size.saturating_mul(copies))?;
    Ok(caller.with_objects(|objects, mem| objects.make(size, copies, mem)).map(GuestAddr))
}

/// `bpf_obj_new(type)`.
pub(super) fn new<E: Env>(caller: &mut Caller<'_, '_, E>, ty: u64) -> Result<Option<GuestAddr>, Fault> {
    make(caller, ty, 1)
}

/// `bpf_percpu_obj_new(type)`.
pub(super) fn new_per_cpu<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    ty: u64,
) -> Result<Option<GuestAddr>, Fault> {
    // A machine with one CPU has an extra copy, which distinguishes these from the others.
    let copies = u64::from(caller.env.runtime().maps.nr_cpus()).max(2);
    make(caller, ty, copies)
}

/// `bpf_obj_drop(object)` and `bpf_percpu_obj_drop(object)`.
pub(super) fn drop<E: Env>(caller: &mut Caller<'_, '_, E>, object: Made) -> Result<(), Fault> {
    caller.with_objects(|objects, mem| objects.release(object.0, mem))
}

/// `bpf_refcount_acquire(object)`.
pub(super) fn acquire<E: Env>(caller: &mut Caller<'_, '_, E>, object: Made) -> Option<GuestAddr> {
    let known = caller.env.runtime().objects.live.get_mut(&object.0)?;
    known.references = known.references.saturating_add(1);
    Some(GuestAddr(object.0))
}

/// Puts a node into a tree or list; one that is in one already stays there, and its object loses a reference.
fn insert<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    head: Head,
    node: Node,
    place: impl FnOnce(&mut Caller<'_, '_, E>) -> Result<usize, Fault>,
) -> Result<Result<(), Errno>, Fault> {
    if caller.env.runtime().objects.nodes.contains_key(&node.0) {
        caller.with_objects(|objects, mem| match objects.around(node.0) {
            Some(object) => objects.release(object, mem),
            None => Ok(()),
        })?;
        return Ok(Err(Errno::EINVAL));
    }
    let place = place(caller)?;
    // A verifier forbids `less` to change trees; an object that comes here unverified may.
    if caller.env.runtime().objects.nodes.contains_key(&node.0) {
        return Err(misuse(format!(
            "the node {:#x} was added to a tree by the function that orders it",
            node.0
        )));
    }
    let behind = caller.env.runtime().objects.len(head.0).saturating_sub(place);
    caller.work_bytes(place.min(behind) as u64 * NODE_BYTES)?;
    caller.env.runtime().objects.insert(head.0, place, node.0);
    Ok(Ok(()))
}

/// The place of a node in the order of a tree or list, if it is in that one; the search is work for each of them.
fn place_of<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head, node: Node) -> Result<Option<usize>, Fault> {
    let nodes = caller.env.runtime().objects.len(head.0) as u64;
    caller.work_bytes(nodes * NODE_BYTES)?;
    Ok(caller.env.runtime().objects.place_of(head.0, node.0))
}

/// `bpf_rbtree_add(root, node, less)`: behind all that it is not less than.
pub(super) fn tree_add<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    root: Head,
    node: Node,
    less: Callback,
) -> Result<Result<(), Errno>, Fault> {
    insert(caller, root, node, |caller| {
        let (mut from, mut to) = (0, caller.env.runtime().objects.len(root.0));
        while from < to {
            let middle = (from + to) / 2;
            let Some(other) = caller.env.runtime().objects.at(root.0, middle) else { break };
            // r0 of a function that returns bool.
            if caller.call_back(less.0, &[node.0, other])? & 0xff != 0 {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        Ok(from)
    })
}

/// `bpf_list_push_front(head, node)`.
pub(super) fn push_front<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    head: Head,
    node: Node,
) -> Result<Result<(), Errno>, Fault> {
    insert(caller, head, node, |_| Ok(0))
}

/// `bpf_list_push_back(head, node)`.
pub(super) fn push_back<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    head: Head,
    node: Node,
) -> Result<Result<(), Errno>, Fault> {
    insert(caller, head, node, |_| Ok(usize::MAX))
}

/// `bpf_rbtree_first(root)` and `bpf_list_front(head)`.
pub(super) fn first<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head) -> Option<GuestAddr> {
    caller.env.runtime().objects.at(head.0, 0).map(GuestAddr)
}

/// `bpf_list_back(head)`.
pub(super) fn last<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head) -> Option<GuestAddr> {
    let objects = &caller.env.runtime().objects;
    objects.at(head.0, objects.len(head.0).checked_sub(1)?).map(GuestAddr)
}

/// `bpf_list_pop_front(head)`.
pub(super) fn pop_front<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head) -> Option<GuestAddr> {
    caller.env.runtime().objects.take(head.0, Some(0)).map(GuestAddr)
}

/// `bpf_list_pop_back(head)`.
pub(super) fn pop_back<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head) -> Option<GuestAddr> {
    let objects = &mut caller.env.runtime().objects;
    let last = objects.len(head.0).checked_sub(1);
    objects.take(head.0, last).map(GuestAddr)
}

/// `bpf_rbtree_remove(root, node)` and `bpf_list_del(head, node)`: the node, or NULL if it is not in that one.
pub(super) fn tree_remove<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    root: Head,
    node: Node,
) -> Result<Option<GuestAddr>, Fault> {
    let place = place_of(caller, root, node)?;
    Ok(caller.env.runtime().objects.take(root.0, place).map(GuestAddr))
}

/// `bpf_list_empty(head)`.
pub(super) fn is_empty<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head) -> bool {
    caller.env.runtime().objects.len(head.0) == 0
}

/// `bpf_list_is_first(head, node)`.
pub(super) fn is_first<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head, node: Node) -> bool {
    caller.env.runtime().objects.at(head.0, 0) == Some(node.0)
}

/// `bpf_list_is_last(head, node)`.
pub(super) fn is_last<E: Env>(caller: &mut Caller<'_, '_, E>, head: Head, node: Node) -> bool {
    last(caller, head) == Some(GuestAddr(node.0))
}

/// `bpf_list_add(head, node, before)`: behind a node that is in the list.
pub(super) fn list_add<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    head: Head,
    node: Node,
    before: Node,
) -> Result<Result<(), Errno>, Fault> {
    match place_of(caller, head, before)? {
        Some(place) => insert(caller, head, node, |_| Ok(place + 1)),
        None => Ok(Err(Errno::EINVAL)),
    }
}

/// A node of a tree: the middle one of a part of its order, as a balanced tree has it.
fn middle(objects: &Objects, root: Head, from: usize, to: usize) -> Option<GuestAddr> {
    debug_assert!(to <= objects.len(root.0), "the range lies in the tree");
    (from < to).then(|| objects.at(root.0, (from + to) / 2)).flatten().map(GuestAddr)
}

/// The part of the order that lies below a node, and the node's own place.
fn below<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    root: Head,
    node: Node,
) -> Result<Option<(usize, usize, usize)>, Fault> {
    let Some(place) = place_of(caller, root, node)? else { return Ok(None) };
    let (mut from, mut to) = (0, caller.env.runtime().objects.len(root.0));
    loop {
        let middle = (from + to) / 2;
        match place.cmp(&middle) {
            std::cmp::Ordering::Less => to = middle,
            std::cmp::Ordering::Greater => from = middle + 1,
            std::cmp::Ordering::Equal => return Ok(Some((from, place, to))),
        }
    }
}

/// `bpf_rbtree_root(root)`.
pub(super) fn tree_root<E: Env>(caller: &mut Caller<'_, '_, E>, root: Head) -> Option<GuestAddr> {
    let objects = &caller.env.runtime().objects;
    middle(objects, root, 0, objects.len(root.0))
}

/// `bpf_rbtree_left(root, node)`.
pub(super) fn tree_left<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    root: Head,
    node: Node,
) -> Result<Option<GuestAddr>, Fault> {
    let Some((from, place, _)) = below(caller, root, node)? else { return Ok(None) };
    Ok(middle(&caller.env.runtime().objects, root, from, place))
}

/// `bpf_rbtree_right(root, node)`.
pub(super) fn tree_right<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    root: Head,
    node: Node,
) -> Result<Option<GuestAddr>, Fault> {
    let Some((_, place, to)) = below(caller, root, node)? else { return Ok(None) };
    Ok(middle(&caller.env.runtime().objects, root, place + 1, to))
}
