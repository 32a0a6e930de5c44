//! Iterators over cgroups. The root is the only one, so a walk has one step or none.

use crate::args::Cx;
use schedlab_bpf::args::{OnStack, Pointer};
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};

/// `enum bpf_cgroup_iter_order`: the cgroup itself belongs to these walks.
const DESCENDANTS_PRE: u32 = 2;
const ANCESTORS_UP: u32 = 4;
/// The same, without the cgroup itself.
const CHILDREN: u32 = 5;

/// `struct bpf_iter_css`; its first word is the next cgroup, here.
type Place = OnStack<24>;

pub(super) fn css_new(
    cx: &mut Cx<'_, '_, '_>,
    place: Place,
    start: Pointer,
    order: u32,
) -> Result<Result<(), Errno>, Fault> {
    let root = cx.env.state.tasks.cgroup();
    let (first, done) = match order {
        _ if start.0 != root => (GuestAddr::NULL, Err(Errno::EINVAL)),
        DESCENDANTS_PRE..=ANCESTORS_UP => (root, Ok(())),
        CHILDREN => (GuestAddr::NULL, Ok(())),
        _ => (GuestAddr::NULL, Err(Errno::EINVAL)),
    };
    cx.fill(place.0, &first.0.to_le_bytes())?;
    Ok(done)
}

pub(super) fn css_next(cx: &mut Cx<'_, '_, '_>, place: Place) -> Result<Option<GuestAddr>, Fault> {
    let root = cx.env.state.tasks.cgroup();
    let next = cx.held(place)?;
    cx.fill(place.0, &[0; 8])?;
    Ok((next == root.0).then_some(root))
}

pub(super) fn css_destroy(cx: &mut Cx<'_, '_, '_>, place: Place) -> Result<(), Fault> {
    cx.fill(place.0, &[0; 8])
}
