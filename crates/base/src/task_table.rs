//! A table by [`TaskId`] whose memory follows the tasks that live, not those that ever did.

use crate::ids::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// Places of a table. Chosen: a power of two above the tasks that live at once in practice, and 16 bits, so that a
/// place is found without a check of its bounds.
const PLACES: usize = 1 << 16;

/// What belongs to one task.
pub trait OfTask {
    /// The task.
    fn task_id(&self) -> TaskId;
}

/// One value per living task.
///
/// A task's place is the low half of its id. Ids are never used again, so a later task can meet a place that an older
/// one still has: the values of both lie in a map beside, and the place stays empty. What is found in a place is thus
/// the value of the only task that could have it. Values are walked in the order of the ids, which is that of creation.
#[derive(Clone, Debug)]
pub struct TaskTable<T> {
    places: Box<[Option<T>; PLACES]>,
    /// Values that share a place, by it and the task.
    beside: BTreeMap<(usize, TaskId), T>,
    ids: BTreeSet<TaskId>,
}

/// The place of a task.
#[inline(always)]
fn place(id: TaskId) -> usize {
    usize::from(id.0 as u16)
}

impl<T: OfTask + Clone> TaskTable<T> {
    /// An empty table.
    pub fn new() -> TaskTable<T> {
        let places = vec![None; PLACES].into_boxed_slice();
        let Ok(places) = places.try_into() else { unreachable!("the vector has the array's length") };
        TaskTable { places, beside: BTreeMap::new(), ids: BTreeSet::new() }
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
        self.beside.get(&(place(id), id))
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
    fn get_beside_mut(beside: &mut BTreeMap<(usize, TaskId), T>, id: TaskId) -> Option<&mut T> {
        beside.get_mut(&(place(id), id))
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
        let id = value.task_id();
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
        here.or_else(|| self.beside.remove(&(place(id), id)))
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
        for id in [3, 1 << 20, 5, (1 << 16) + 3] {
            table.insert(Named(id, ""));
        }
        let ids: Vec<u32> = table.iter().map(|value| value.0).collect();
        assert_eq!(ids, [3, 5, (1 << 16) + 3, 1 << 20]);
    }

    #[test]
    #[should_panic(expected = "task3 has one value")]
    fn no_task_has_two_values() {
        let mut table = TaskTable::new();
        table.insert(Named(3, ""));
        table.insert(Named(3, ""));
    }
}
