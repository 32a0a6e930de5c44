//! Iterators over cgroups.

use crate::args::Cx;
use crate::mirror::Css;
use schedlab_bpf::args::{OnStack, Pointer};
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_sim::{GroupIx, Groups};

/// `enum bpf_cgroup_iter_order`: the cgroup itself belongs to these walks.
const DESCENDANTS_PRE: u32 = 2;
const DESCENDANTS_POST: u32 = 3;
const ANCESTORS_UP: u32 = 4;
/// The same, without the cgroup itself.
const CHILDREN: u32 = 5;

/// `struct bpf_iter_css`; its first word says here how far the walk is.
type Place = OnStack<24>;

/// Bits of the number of a group in that word.
const BITS: u32 = 24;

/// A walk: where it starts and how it goes on, and the group that it has reached, none before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    start: Css,
    order: u32,
    at: Option<GroupIx>,
}

impl Walk {
    /// As a word; 0 is no walk, as after one that could not begin.
    fn word(self) -> u64 {
        let number = |group: GroupIx| u64::from(group.0);
        let at = self.at.map_or(0, |at| number(at) + 1);
        let head = u64::from(self.order) << 1 | u64::from(self.start.of_controller);
        head << (2 * BITS) | at << BITS | number(self.start.group)
    }

    fn of(word: u64) -> Option<Walk> {
        let number = |shift: u32| (word >> shift) as u32 & ((1 << BITS) - 1);
        let (order, of_controller) = ((word >> (2 * BITS + 1)) as u32, word >> (2 * BITS) & 1 != 0);
        let start = Css { group: GroupIx(number(0)), of_controller };
        (order != 0).then(|| Walk { start, order, at: number(BITS).checked_sub(1).map(GroupIx) })
    }

    /// The group after the one that it has reached. After the last one it begins again.
    fn next(self, groups: &Groups) -> Option<GroupIx> {
        let start = self.start.group;
        match self.order {
            DESCENDANTS_PRE => groups.next_before(self.at, start),
            DESCENDANTS_POST => groups.next_after(self.at, start),
            ANCESTORS_UP => self.at.map_or(Some(start), |at| groups.get(at).parent),
            _ => groups.next_child(self.at, start),
        }
    }
}

pub(super) fn css_new(
    cx: &mut Cx<'_, '_, '_>,
    place: Place,
    start: Pointer,
    order: u32,
) -> Result<Result<(), Errno>, Fault> {
    let start = cx.env.state.tasks.groups.css_at(start.0);
    let walk = start.filter(|_| (DESCENDANTS_PRE..=CHILDREN).contains(&order));
    let walk = walk.map(|start| Walk { start, order, at: None });
    cx.fill(place.0, &walk.map_or(0, Walk::word).to_le_bytes())?;
    Ok(walk.map(|_| ()).ok_or(Errno::EINVAL))
}

pub(super) fn css_next(cx: &mut Cx<'_, '_, '_>, place: Place) -> Result<Option<GuestAddr>, Fault> {
    let count = cx.env.k.groups().iter().len();
    // The word lies in the program's stack.
    let known = |walk: &Walk| walk.start.group.index() < count && walk.at.is_none_or(|at| at.index() < count);
    let Some(walk) = Walk::of(cx.held(place)?).filter(known) else { return Ok(None) };
    let at = walk.next(cx.env.k.groups());
    cx.fill(place.0, &Walk { at, ..walk }.word().to_le_bytes())?;
    Ok(at.map(|group| cx.env.state.tasks.groups.css(Css { group, ..walk.start })))
}

pub(super) fn css_destroy(cx: &mut Cx<'_, '_, '_>, place: Place) -> Result<(), Fault> {
    cx.fill(place.0, &[0; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_a_word_and_no_walk_is_none() {
        for (group, at) in [(0, None), (100_000, Some(GroupIx(0))), (7, Some(GroupIx(100_000)))] {
            for (order, of_controller) in [(DESCENDANTS_PRE, false), (CHILDREN, true)] {
                let walk = Walk { start: Css { group: GroupIx(group), of_controller }, order, at };
                assert_eq!(Walk::of(walk.word()), Some(walk));
            }
        }
        assert_eq!(Walk::of(0), None);
    }
}
