//! A table by [`TaskId`] whose memory follows the tasks that live, not those that ever did.

use crate::ids::TaskId;
use crate::untouched::Untouched;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Places of a table: as many tasks as can live at once are found without sharing one. A power of two, so that a place is found
/// without a check of its bounds.
const PLACES: usize = MAX_TASKS as usize;

/// The largest number of tasks that live at once in a simulated kernel, idle tasks included. Chosen: a million, which is more than
/// kernels allow on all but the largest machines (`kernel.pid_max` is 4,194,304 at most).
pub const MAX_TASKS: u32 = 1 << 20;

/// How many of them this host has room for, where programs see them. Chosen for addresses of 32 bits: 40 MiB of tasks.
pub const ROOM_FOR_TASKS: u32 = if usize::BITS >= 64 { MAX_TASKS } else { 1 << 15 };

/// What belongs to one task.
pub trait OfTask {
    /// The task.
    fn task_id(&self) -> TaskId;
}

/// A place of the table. One without a value is a zero, as new memory is.
type Slot<T> = Option<Box<T>>;

/// All places, in memory of their own. An allocator that has had them before would clear 8 MiB for a run of a few tasks.
struct Places<T> {
    memory: Untouched,
    slots: PhantomData<Slot<T>>,
}

impl<T> Places<T> {
    /// Empty ones, none of which is touched.
    ///
    /// # Panics
    /// If the process may not have the memory, as an allocator does.
    fn new() -> Places<T> {
        let memory = Untouched::new(size_of::<[Slot<T>; PLACES]>()).expect("8 MiB of addresses");
        Places { memory, slots: PhantomData }
    }
}

impl<T> Deref for Places<T> {
    type Target = [Slot<T>; PLACES];

    #[inline(always)]
    fn deref(&self) -> &[Slot<T>; PLACES] {
        // SAFETY: the memory is as long as the array, aligned to a page, and only ever a row of slots: an empty one is a zero.
        unsafe { &*self.memory.as_ptr().cast() }
    }
}

impl<T> DerefMut for Places<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Slot<T>; PLACES] {
        // SAFETY: as above; the memory is this value's own.
        unsafe { &mut *self.memory.as_mut_ptr().cast() }
    }
}

/// One value per living task.
///
/// A task's place is the low bits of its id. Ids are never used again, so a later task can meet a place that an older
/// one still has. Then the values of both lie in a map beside, and the place stays empty. What is found in a place is
/// thus the value of the only task that could have it. Values are walked in the order of the ids, which is that of
/// creation.
pub struct TaskTable<T> {
    /// [`TaskTable::drop`] empties them; it looks at those of living tasks only.
    places: Places<T>,
    /// Values that share a place, by it and the task.
    beside: BTreeMap<(usize, TaskId), Box<T>>,
    ids: BTreeSet<TaskId>,
}

/// The place of a task.
#[inline(always)]
fn place(id: TaskId) -> usize {
    id.0 as usize % PLACES
}

impl<T: OfTask + Clone> TaskTable<T> {
    /// An empty table.
    pub fn new() -> TaskTable<T> {
        TaskTable { places: Places::new(), beside: BTreeMap::new(), ids: BTreeSet::new() }
    }

    /// The value of `id`, if it has one.
    #[inline]
    pub fn get(&self, id: TaskId) -> Option<&T> {
        match &self.places[place(id)] {
            Some(value) if value.task_id() == id => Some(value),
            _ => self.get_beside(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_beside(&self, id: TaskId) -> Option<&T> {
        self.beside.get(&(place(id), id)).map(|value| &**value)
    }

    /// The value of a task that has one, which is looked at in debug builds alone.
    ///
    /// # Panics
    /// If no task with this place has a value.
    #[inline]
    pub fn living(&self, id: TaskId) -> &T {
        match &self.places[place(id)] {
            Some(value) => {
                debug_assert_eq!(value.task_id(), id, "the task lives");
                value
            }
            None => self.get_beside(id).expect("the task lives"),
        }
    }

    /// The value of `id` to change, if it has one. It stays the value of this task.
    #[inline]
    pub fn get_mut(&mut self, id: TaskId) -> Option<&mut T> {
        match &mut self.places[place(id)] {
            Some(value) if value.task_id() == id => Some(value),
            _ => Self::get_beside_mut(&mut self.beside, id),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_beside_mut(beside: &mut BTreeMap<(usize, TaskId), Box<T>>, id: TaskId) -> Option<&mut T> {
        beside.get_mut(&(place(id), id)).map(|value| &mut **value)
    }

    /// As [`TaskTable::living`], to change.
    ///
    /// # Panics
    /// As there.
    #[inline]
    pub fn living_mut(&mut self, id: TaskId) -> &mut T {
        match &mut self.places[place(id)] {
            Some(value) => {
                debug_assert_eq!(value.task_id(), id, "the task lives");
                value
            }
            None => Self::get_beside_mut(&mut self.beside, id).expect("the task lives"),
        }
    }

    /// Adds the value of a task that has none.
    ///
    /// # Panics
    /// If the task has one: ids are not used again.
    pub fn insert(&mut self, value: T) {
        let (id, value) = (value.task_id(), Box::new(value));
        assert!(self.ids.insert(id), "{id} has one value");
        let at = place(id);
        if let Some(older) = self.places[at].take() {
            self.beside.insert((at, older.task_id()), older);
        }
        let sharing = (at, TaskId(0))..=(at, TaskId(u32::MAX));
        if self.beside.range(sharing).next().is_some() {
            self.beside.insert((at, id), value);
        } else {
            self.places[at] = Some(value);
        }
    }

    /// Takes the value of a task out.
    pub fn remove(&mut self, id: TaskId) -> Option<T> {
        if !self.ids.remove(&id) {
            return None;
        }
        let here = self.places[place(id)].take_if(|value| value.task_id() == id);
        here.or_else(|| self.beside.remove(&(place(id), id))).map(|value| *value)
    }

    /// All values in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.ids.iter().filter_map(|id| self.get(*id))
    }
}

impl<T: OfTask + Clone> Default for TaskTable<T> {
    fn default() -> TaskTable<T> {
        TaskTable::new()
    }
}

impl<T: OfTask + Clone> Clone for TaskTable<T> {
    fn clone(&self) -> TaskTable<T> {
        let mut table = TaskTable::new();
        self.iter().for_each(|value| table.insert(value.clone()));
        table
    }
}

impl<T: OfTask + Clone + fmt::Debug> fmt::Debug for TaskTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T> Drop for TaskTable<T> {
    fn drop(&mut self) {
        // A place that has a value is that of a living task.
        for id in &self.ids {
            self.places[place(*id)] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Named(u32, &'static str);

    impl OfTask for Named {
        fn task_id(&self) -> TaskId {
            TaskId(self.0)
        }
    }

    #[test]
    fn tasks_of_one_place_do_not_meet() {
        let later = PLACES as u32 + 7;
        let mut table = TaskTable::new();
        table.insert(Named(7, "old"));
        table.insert(Named(later, "new"));
        assert_eq!(table.get(TaskId(7)), Some(&Named(7, "old")));
        assert_eq!(table.get(TaskId(later)), Some(&Named(later, "new")));
        assert_eq!(table.get(TaskId(later + PLACES as u32)), None);
        table.get_mut(TaskId(later)).expect("it is there").1 = "changed";
        assert_eq!(table.remove(TaskId(7)), Some(Named(7, "old")));
        assert_eq!(table.get(TaskId(7)), None);
        assert_eq!(table.remove(TaskId(7)), None);
        assert_eq!(table.get(TaskId(later)), Some(&Named(later, "changed")));
        table.insert(Named(2 * PLACES as u32 + 7, "third"));
        assert_eq!(table.iter().map(|value| value.1).collect::<Vec<_>>(), ["changed", "third"]);
        assert_eq!(table.remove(TaskId(later)), Some(Named(later, "changed")));
        assert_eq!(table.remove(TaskId(2 * PLACES as u32 + 7)), Some(Named(2 * PLACES as u32 + 7, "third")));
        assert!(table.beside.is_empty() && table.ids.is_empty());
    }

    #[test]
    fn what_shares_a_place_is_found_while_it_lives() {
        let [old, new, third] = [9, PLACES as u32 + 9, 2 * PLACES as u32 + 9];
        let mut table = TaskTable::new();
        table.insert(Named(old, "old"));
        assert_eq!(table.living(TaskId(old)).1, "old");
        table.insert(Named(new, "new"));
        table.remove(TaskId(old));
        table.insert(Named(third, "third"));
        assert_eq!((table.living(TaskId(new)).1, table.living(TaskId(third)).1), ("new", "third"));
        table.living_mut(TaskId(new)).1 = "changed";
        assert_eq!(table.get(TaskId(new)).map(|value| value.1), Some("changed"));
        assert!(table.get(TaskId(old)).is_none());
    }

    #[test]
    #[should_panic(expected = "the task lives")]
    fn a_task_that_is_gone_does_not_live() {
        let mut table = TaskTable::new();
        table.insert(Named(4, ""));
        table.remove(TaskId(4));
        table.living(TaskId(4));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the task lives")]
    fn debug_builds_notice_another_task_in_its_place() {
        let mut table = TaskTable::new();
        table.insert(Named(PLACES as u32 + 4, ""));
        table.living(TaskId(4));
    }

    #[test]
    fn values_are_walked_in_the_order_of_creation() {
        let mut table = TaskTable::new();
        for id in [3, 1 << 24, 5, MAX_TASKS + 3] {
            table.insert(Named(id, ""));
        }
        let ids: Vec<u32> = table.iter().map(|value| value.0).collect();
        assert_eq!(ids, [3, 5, MAX_TASKS + 3, 1 << 24]);
    }

    #[test]
    fn values_are_dropped_once_wherever_they_lie() {
        #[derive(Clone, Debug)]
        struct Counted {
            id: u32,
            _counter: std::rc::Rc<()>,
        }
        impl OfTask for Counted {
            fn task_id(&self) -> TaskId {
                TaskId(self.id)
            }
        }
        let counter = std::rc::Rc::new(());
        let mut table = TaskTable::new();
        for id in [1, 2, MAX_TASKS + 2, 3] {
            table.insert(Counted { id, _counter: counter.clone() });
        }
        let copy = table.clone();
        table.remove(TaskId(3));
        assert_eq!(std::rc::Rc::strong_count(&counter), 8);
        drop(table);
        assert_eq!((std::rc::Rc::strong_count(&counter), copy.iter().count()), (5, 4));
        drop(copy);
        assert_eq!(std::rc::Rc::strong_count(&counter), 1);
    }

    #[test]
    #[should_panic(expected = "task3 has one value")]
    fn no_task_has_two_values() {
        let mut table = TaskTable::new();
        table.insert(Named(3, ""));
        table.insert(Named(3, ""));
    }
}
