//! Sub-schedulers: a parent's part (`kernel/sched/ext/sub.c`). CPUs are named by cid.

use super::{ENODEV, EOPNOTSUPP};
use crate::args::{CmaskIn, CmaskOrNull, CmaskOut, Cx, KernelObjects};
use crate::join::Join;
use schedlab_base::{CpuId, CpuMask};
use schedlab_bpf::Fault;
use schedlab_bpf::args::{Bytes, Text};
use schedlab_bpf::maps::Errno;
use schedlab_sim::{CAP_ALL, OpKind, SchedExt, SchedIx};
use schedlab_trace::ExitKind;

const EPERM: Errno = Errno(1);

/// The functions about sub-schedulers and their capabilities are for cid-form schedulers alone.
fn needs_cid_form(join: &mut Join<'_>) -> Result<(), Errno> {
    if join.state.cid_form {
        return Ok(());
    }
    join.k.error(ExitKind::Error, "sub-cap kfuncs require a cid-form scheduler".into());
    Err(EOPNOTSUPP)
}

/// The child of the calling scheduler that is attached to a group; an error of the scheduler if it is no child of it.
fn direct_child(join: &mut Join<'_>, cgroup: u64) -> Result<SchedIx, Errno> {
    needs_cid_form(join)?;
    let child = join.k.sub_of_group(cgroup).ok_or(ENODEV)?;
    let here = join.k.sched_here();
    if join.k.sched_parent(child) != here {
        let message = format!("{}: sub-{cgroup} is not a direct child", join.k.sched_path(here));
        join.k.error(ExitKind::Error, message);
        return Err(Errno::EINVAL);
    }
    Ok(child)
}

/// A set of capabilities; an error of the scheduler if there are others in it.
fn checked_caps(join: &mut Join<'_>, caps: u64) -> Result<u8, Errno> {
    if caps & !u64::from(CAP_ALL) != 0 {
        join.k.error(ExitKind::Error, format!("invalid caps {caps:#x}"));
        return Err(Errno::EINVAL);
    }
    Ok(caps as u8)
}

pub(super) fn dispatch(cx: &mut Cx<'_, '_, '_>, cgroup: u64) -> bool {
    let Some(child) = cx.env.k.sub_of_group(cgroup) else { return false };
    if cx.env.k.sched_parent(child) != cx.env.k.sched_here() {
        let message = format!("trying to dispatch a distant sub-sched on cgroup {cgroup}");
        cx.env.k.error(ExitKind::Error, message);
        return false;
    }
    let Some(mut sub) = cx.env.state.children.take(child) else { return false };
    let found = cx.env.k.sub_dispatch(child, &mut *sub);
    cx.env.state.children.put(child, sub);
    found
}

/// The CPUs of a mask of cids.
fn cpus_of(cx: &mut Cx<'_, '_, '_>, mask: CmaskIn) -> Result<CpuMask, Fault> {
    let mut cpus = CpuMask::EMPTY;
    for cid in mask.cids(cx)? {
        if let Some(cpu) = cx.env.state.cids.cpu(cid as i32) {
            cpus.set(cpu);
        }
    }
    Ok(cpus)
}

pub(super) fn grant(
    cx: &mut Cx<'_, '_, '_>,
    cgroup: u64,
    caps: u64,
    mask: CmaskIn,
    denied: CmaskOrNull,
) -> Result<Result<(), Errno>, Fault> {
    let found = direct_child(cx.env, cgroup).and_then(|child| Ok((child, checked_caps(cx.env, caps)?)));
    let (child, caps) = match found {
        Ok(found) => found,
        Err(errno) => return Ok(Err(errno)),
    };
    let cpus = cpus_of(cx, mask)?;
    let refused = cx.env.k.sub_grant(child, caps, &cpus);
    tell_changes(cx);
    if refused.is_empty() {
        return Ok(Ok(()));
    }
    if let Some(denied) = denied.0 {
        add_to_cmask(cx, denied, &refused)?;
    }
    Ok(Err(EPERM))
}

/// Sets the bits of these CPUs, beside those that are set.
fn add_to_cmask(cx: &mut Cx<'_, '_, '_>, mask: CmaskOut, cpus: &CpuMask) -> Result<(), Fault> {
    let before = mask.read().cids(cx)?;
    let cids: Vec<u32> = cpus.iter().map(|cpu| cx.env.state.cids.cid(cpu)).collect();
    cx.fill_cmask(mask, |cid| before.contains(&cid) || cids.contains(&cid))
}

pub(super) fn revoke(cx: &mut Cx<'_, '_, '_>, cgroup: u64, caps: u64, mask: CmaskIn) -> Result<(), Fault> {
    let Ok(child) = direct_child(cx.env, cgroup) else { return Ok(()) };
    let Ok(caps) = checked_caps(cx.env, caps) else { return Ok(()) };
    let cpus = cpus_of(cx, mask)?;
    cx.env.k.sub_revoke(child, caps, &cpus);
    tell_changes(cx);
    Ok(())
}

/// Calls `ops.sub_caps_updated()` of the schedulers below this one whose capabilities have changed.
fn tell_changes(cx: &mut Cx<'_, '_, '_>) {
    while let Some((sched, cpus, caps)) = cx.env.k.next_caps_change() {
        let way = cx.env.k.way_down(sched).to_vec();
        let Some((&child, below)) = way.split_first() else { continue };
        let Some(mut sub) = cx.env.state.children.take(child) else { continue };
        let target = below.iter().fold(&mut *sub, |at, &step| at.sub(step));
        let call = |k: &mut schedlab_sim::Kernel| target.sub_caps_updated(k, &cpus, caps);
        cx.env.k.call_below(sched, OpKind::SubCapsUpdated, call);
        cx.env.state.children.put(child, sub);
    }
}

pub(super) fn caps(
    cx: &mut Cx<'_, '_, '_>,
    cgroup: u64,
    caps: u64,
    out: CmaskOut,
) -> Result<Result<(), Errno>, Fault> {
    let sched = match cgroup {
        0 => needs_cid_form(cx.env).map(|()| cx.env.k.sched_here()),
        cgroup => direct_child(cx.env, cgroup),
    };
    let found = sched.and_then(|sched| Ok((sched, checked_caps(cx.env, caps)?)));
    let (sched, caps) = match found {
        Ok(found) => found,
        Err(errno) => return Ok(Err(errno)),
    };
    let cpus = cx.env.k.caps_of(sched, caps);
    let held: Vec<bool> = (0..cx.env.state.cids.count() as i32)
        .map(|cid| cx.env.state.cids.cpu(cid).is_some_and(|cpu: CpuId| cpus.contains(cpu)))
        .collect();
    cx.fill_cmask(out, |cid| held.get(cid as usize) == Some(&true)).map(Ok)
}

pub(super) fn kill(
    cx: &mut Cx<'_, '_, '_>,
    cgroup: u64,
    form: Text,
    data: Bytes,
) -> Result<Result<(), Errno>, Fault> {
    let child = match direct_child(cx.env, cgroup) {
        Ok(child) => child,
        Err(errno) => return Ok(Err(errno)),
    };
    let message = super::exit::formatted(cx, &form, data)?;
    // The place of the call is one of the parent's code, not of the child that leaves.
    cx.env.k.set_site(None);
    cx.env.k.as_sched(child, |k| k.error(ExitKind::ParentKill, message));
    Ok(Ok(()))
}
