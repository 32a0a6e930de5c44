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
/// one still has: such values lie in a map beside. Values are walked in the order of the ids, which is that of creation.
#[derive(Clone, Debug)]
pub struct TaskTable<T> {
    places: Box<[Option<T>; PLACES]>,
    /// Values whose place another task had when they came.
    beside: BTreeMap<TaskId, T>,
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
        self.beside.get(&id)
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
    fn get_beside_mut(beside: &mut BTreeMap<TaskId, T>, id: TaskId) -> Option<&mut T> {
        beside.get_mut(&id)
    }

    /// Adds the value of a task that has none.
    ///
    /// # Panics
    /// If the task has one: ids are not used again.
    pub fn insert(&mut self, value: T) {
        let id = value.task_id();
        assert!(self.ids.insert(id), "{id} has one value");
        match &mut self.places[place(id)] {
            free @ None => *free = Some(value),
            Some(_) => {
                self.beside.insert(id, value);
            }
        }
    }

    /// Takes the value of a task out.
    pub fn remove(&mut self, id: TaskId) -> Option<T> {
        if !self.ids.remove(&id) {
            return None;
        }
        let here = self.places[place(id)].take_if(|value| value.task_id() == id);
        here.or_else(|| self.beside.remove(&id))
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
        assert!(table.beside.is_empty() && table.ids.len() == 1);
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
