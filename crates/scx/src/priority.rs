//! Priorities of tasks, for schedulers whose objects show them.
//!
//! A scheduler shows the priority of a task in what it keeps per task. Its storage (a map of type `TASK_STORAGE`) is a
//! struct with a number `prio`, or with a pointer to a struct in the arena that has one. The names come from the object's
//! own types; nothing is asked of the scheduler while it runs, and nothing is charged.

use schedlab_base::{TaskId, TimeNs};
use schedlab_bpf::btf::{Btf, Kind, MemberAt, TypeId};
use schedlab_bpf::link::Image;
use schedlab_bpf::maps::{MapId, MapTable};
use schedlab_bpf::memory::ARENA_BASE;
use schedlab_bpf::object::{MapType, Object};
use schedlab_bpf::{GuestAddr, Memory};
use schedlab_trace::Priorities;

/// What the member is called.
const MEMBER: &str = ".prio";

/// Where an object keeps the priority of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriorityPlace {
    map: MapId,
    /// Distance in the storage of the pointer to the struct that has the member.
    pointer: Option<u64>,
    member: MemberAt,
}

/// The number `prio` of a struct.
fn member(types: &Btf, ty: TypeId) -> Option<MemberAt> {
    let at = types.at_path(ty, MEMBER).ok()?;
    matches!(types.resolved(at.ty), Kind::Int(_)).then_some(at)
}

impl PriorityPlace {
    /// Where this object keeps it, if it does.
    pub(crate) fn find(object: &Object, maps: &MapTable) -> Option<PriorityPlace> {
        let types = object.btf();
        let storages = object.maps().iter().filter(|map| map.map_type == MapType::TASK_STORAGE);
        storages.filter_map(|map| Some((maps.find(&map.name)?, map.value_type?))).find_map(|(map, value)| {
            if let Some(member) = member(types, value) {
                return Some(PriorityPlace { map, pointer: None, member });
            }
            types.members(value).iter().find_map(|pointer| {
                let Kind::Ptr(target) = types.resolved(pointer.ty) else { return None };
                let member = member(types, *target)?;
                Some(PriorityPlace { map, pointer: Some(u64::from(pointer.bit_offset) / 8), member })
            })
        })
    }

    /// The priority of the task with this storage slot.
    fn read(&self, slot: u32, maps: &mut MapTable, image: &Image, mem: &mut Memory) -> Option<i64> {
        let mut at = maps.storage_get(self.map, slot, false, None, mem)?;
        if let Some(pointer) = self.pointer {
            // Arena pointers differ in their high halves: the object's own view and the user's.
            let target = mem.read_u64(at.offset(pointer)).ok().filter(|target| *target != 0)?;
            at = GuestAddr(ARENA_BASE | target & 0xffff_ffff);
        }
        image.number_at(at, &self.member, mem).ok().map(|value| value as i64)
    }
}

/// Watches the priorities of a run.
#[derive(Clone, Debug)]
pub(crate) struct PriorityWatch {
    place: PriorityPlace,
    pub(crate) seen: Priorities,
}

impl PriorityWatch {
    pub(crate) fn new(place: PriorityPlace) -> PriorityWatch {
        PriorityWatch { place, seen: Priorities::default() }
    }

    /// Takes a look at a task.
    pub(crate) fn look(
        &mut self,
        (now, task, running): (TimeNs, TaskId, Option<bool>),
        slot: u32,
        maps: &mut MapTable,
        image: &Image,
        mem: &mut Memory,
    ) {
        if let Some(priority) = self.place.read(slot, maps, image, mem) {
            self.seen.add(now, task, priority, running);
        }
    }
}
