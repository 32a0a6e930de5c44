//! The order of a dispatch queue by vtime: a sorted sequence in pieces, each of which is searched and shifted by itself.
//!
//! A short queue is one piece, and adding to its end or taking its first task touches nothing else. In a long one both
//! searches take the logarithm of its length, and a bounded number of places is shifted.

use schedlab_base::TaskId;
use std::collections::VecDeque;

/// The most places of a piece; a longer one is halved. Chosen: half of them, 2 KiB, are shifted as quickly as found.
const PIECE: usize = 256;

/// `a` before `b` on a wrapping scale (`time_before64()`).
fn vtime_before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// `a` before `b` on the wrapping scale of numbers of insertions.
pub(crate) fn seq_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// A task's place: by vtime, equal ones by the number of their insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) vtime: u64,
    pub(crate) seq: u32,
    pub(crate) task: TaskId,
}

impl Place {
    #[inline]
    fn before(&self, other: &Place) -> bool {
        vtime_before(self.vtime, other.vtime) || self.vtime == other.vtime && seq_before(self.seq, other.seq)
    }
}

/// Places in order.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Only the first one may be empty, and then it is the only one.
    pieces: VecDeque<VecDeque<Place>>,
}

impl Order {
    /// True without any place.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.front().is_none_or(VecDeque::is_empty)
    }

    /// The piece that `place` is in, or belongs to.
    #[inline]
    fn piece_of(&self, place: &Place) -> usize {
        if self.pieces.len() <= 1 {
            return 0;
        }
        let past = |piece: &VecDeque<Place>| piece.back().is_some_and(|last| last.before(place));
        self.pieces.partition_point(past).min(self.pieces.len() - 1)
    }

    /// Adds a place; returns the task before it.
    #[inline(always)]
    pub(crate) fn insert(&mut self, place: Place) -> Option<TaskId> {
        // Mostly there is one piece with room, and the place comes last.
        if self.pieces.len() == 1
            && let Some(piece) = self.pieces.front_mut().filter(|piece| piece.len() < PIECE)
            && let Some(last) = piece.back().copied().filter(|last| last.before(&place))
        {
            piece.push_back(place);
            return Some(last.task);
        }
        self.insert_within(place)
    }

    #[inline(never)]
    fn insert_within(&mut self, place: Place) -> Option<TaskId> {
        let index = self.piece_of(&place);
        if self.pieces.is_empty() {
            self.pieces.push_back(VecDeque::new());
        }
        debug_assert!(index < self.pieces.len(), "a place belongs to a piece");
        let piece = &mut self.pieces[index];
        let at = match piece.back().is_some_and(|last| last.before(&place)) {
            true => piece.len(),
            false => piece.partition_point(|other| other.before(&place)),
        };
        piece.insert(at, place);
        let before = match at.checked_sub(1) {
            Some(before) => Some(piece[before].task),
            None => index.checked_sub(1).and_then(|index| self.pieces[index].back()).map(|last| last.task),
        };
        if self.pieces[index].len() > PIECE {
            self.halve(index);
        }
        before
    }

    #[cold]
    fn halve(&mut self, index: usize) {
        debug_assert!(self.pieces[index].len() > PIECE, "a short piece is not halved");
        let rest = self.pieces[index].split_off(PIECE / 2);
        self.pieces.insert(index + 1, rest);
    }

    /// Takes the place of a task out.
    ///
    /// # Panics
    /// If the task has none.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(piece) = self.pieces.front_mut()
            && piece.front().is_some_and(|first| first.task == place.task)
        {
            piece.pop_front();
            if piece.is_empty() {
                self.drop_empty(0);
            }
            return;
        }
        self.remove_within(place);
    }

    #[inline(never)]
    fn remove_within(&mut self, place: Place) {
        let index = self.piece_of(&place);
        debug_assert!(index < self.pieces.len(), "a linked task belongs to a piece");
        let at = self.pieces[index].partition_point(|other| other.before(&place));
        let found = self.pieces[index].get(at).is_some_and(|other| other.task == place.task);
        let (index, at) = if found { (index, at) } else { self.find(place.task) };
        self.pieces[index].remove(at);
        if self.pieces[index].is_empty() {
            self.drop_empty(index);
        }
    }

    /// Where a task is whose vtime has been changed since it was added.
    #[cold]
    fn find(&self, task: TaskId) -> (usize, usize) {
        let at = |piece: &VecDeque<Place>| piece.iter().position(|place| place.task == task);
        let mut places = self.pieces.iter().enumerate();
        places.find_map(|(index, piece)| Some((index, at(piece)?))).expect("a linked task is in the order")
    }

    /// A piece has become empty: it goes, unless it is the only one, whose room is used again.
    fn drop_empty(&mut self, index: usize) {
        debug_assert!(self.pieces[index].is_empty(), "an empty piece goes");
        if self.pieces.len() > 1 {
            self.pieces.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Prng;

    /// Against a vector that is sorted by a stable search, with equal vtimes, around the wrap of the scale.
    #[test]
    fn places_are_kept_as_a_sorted_list_keeps_them() {
        for (seed, most, range) in [(1, 20, 5), (2, 600, 40), (3, 5_000, 100_000), (4, 3_000, 1)] {
            let (mut order, mut model) = (Order::default(), Vec::<Place>::new());
            let (mut random, mut seq) = (Prng::new(seed), u32::MAX - 1_000);
            for number in 0..20_000 {
                let full = model.len() as u64 >= most;
                if model.is_empty() || !full && random.chance(3, 5) {
                    seq = seq.wrapping_add(1);
                    let vtime = (u64::MAX - range / 2).wrapping_add(random.below(range));
                    let place = Place { vtime, seq, task: TaskId(number) };
                    let at = model.partition_point(|other| !vtime_before(vtime, other.vtime));
                    let before = at.checked_sub(1).map(|before| model[before].task);
                    assert_eq!(order.insert(place), before);
                    model.insert(at, place);
                } else {
                    let at = if random.chance(1, 2) { 0 } else { random.below(model.len() as u64) as usize };
                    order.remove(model.remove(at));
                }
                assert_eq!(order.is_empty(), model.is_empty());
            }
            assert!(order.pieces.iter().flatten().eq(&model));
            assert!(order.pieces.iter().all(|piece| piece.len() <= PIECE));
        }
    }

    #[test]
    fn a_task_is_found_whose_vtime_was_changed_meanwhile() {
        let mut order = Order::default();
        let place = |number: u32| Place { vtime: u64::from(number), seq: number, task: TaskId(number) };
        (0..1_000).for_each(|number| {
            order.insert(place(number));
        });
        order.remove(Place { vtime: 3, ..place(700) });
        order.remove(Place { vtime: 2_000, ..place(999) });
        let left: Vec<u32> = order.pieces.iter().flatten().map(|place| place.task.0).collect();
        assert!(left.len() == 998 && left.is_sorted() && !left.contains(&700));
    }
}
