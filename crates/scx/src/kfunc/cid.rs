//! CPUs by topological number (cid), as cid-form schedulers (`struct sched_ext_ops_cid`, Linux 7.1) know them.

use super::{Kfunc, arg_addr, arg_i32, errno, kfunc, signed};
use crate::join::Join;
use schedlab_base::{CpuId, Machine};
use schedlab_bpf::{Fault, GuestAddr, Memory, Vm};
use schedlab_trace::ExitKind;

/// `SCX_CPUPERF_ONE`.
const FULL_SPEED: u64 = 1024;
/// `__SCX_CAP_ALL`.
const ALL_CAPS: u64 = 15;
/// Where the bits of a `struct scx_cmask` begin.
const CMASK_BITS: u64 = 16;

/// The two ways between CPUs and cids.
#[derive(Debug)]
pub(crate) struct Cids {
    to_cpu: Vec<u32>,
    to_cid: Vec<u32>,
}

impl Cids {
    /// The kernel's default: CPUs in order of node, last-level cache, core, number.
    pub(crate) fn new(machine: &Machine) -> Cids {
        let mut to_cpu: Vec<u32> = (0..machine.cpu_count() as u32).collect();
        to_cpu.sort_by_key(|&cpu| {
            let place = machine.cpus[cpu as usize];
            (place.node, place.llc, place.core, cpu)
        });
        let mut to_cid = vec![0; to_cpu.len()];
        for (cid, &cpu) in to_cpu.iter().enumerate() {
            to_cid[cpu as usize] = cid as u32;
        }
        Cids { to_cpu, to_cid }
    }

    /// The cid of a CPU.
    pub(crate) fn cid(&self, cpu: CpuId) -> u32 {
        self.to_cid[cpu.index()]
    }

    /// The CPU of a cid, if there is such a cid.
    pub(crate) fn cpu(&self, cid: i32) -> Option<CpuId> {
        self.to_cpu.get(usize::try_from(cid).ok()?).map(|cpu| CpuId(*cpu))
    }

    /// Number of cids.
    pub(crate) fn count(&self) -> usize {
        self.to_cpu.len()
    }
}

/// Sets exactly the bits in a guest's cmask for which `wanted` holds; bits beyond the mask's range stay out.
pub(crate) fn fill_cmask(mem: &mut Memory, at: GuestAddr, wanted: impl Fn(u32) -> bool) -> Result<(), Fault> {
    let (base, count) = (mem.read_u32(at)?, mem.read_u32(at.offset(4))?);
    for cid in base..base.saturating_add(count.min(1 << 16)) {
        let word = at.offset(CMASK_BITS + u64::from(cid / 64 - base / 64) * 8);
        let old = mem.read_u64(word)?;
        let bit = 1u64 << (cid % 64);
        mem.write_u64(word, if wanted(cid) { old | bit } else { old & !bit })?;
    }
    Ok(())
}

/// The CPU of a cid argument; a bad one is an error of the scheduler.
fn cpu_of(join: &mut Join<'_>, arg: u64) -> Option<CpuId> {
    let cid = arg_i32(arg);
    let cpu = join.state.cids.cpu(cid);
    if cpu.is_none() {
        join.k.error(ExitKind::Error, format!("invalid cid {cid}"));
    }
    cpu
}

fn cid_to_cpu(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(cpu_of(join, args[0]).map_or(errno(22), |cpu| u64::from(cpu.0)))
}

fn cpu_to_cid(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let cpu = join.cpu_or_error(args[0]);
    Ok(cpu.map_or(errno(22), |cpu| u64::from(join.state.cids.cid(cpu))))
}

fn kick_cid(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if let Some(cpu) = cpu_of(join, args[0]) {
        join.k.kick_cpu(cpu.0 as i32, args[1]);
    }
    Ok(0)
}

fn task_cid(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let at = join.task_member(args[0], join.state.offsets.task.cpu, vm.mem)?;
    let cpu = vm.mem.read_u32(at)?;
    Ok(u64::from(join.state.cids.cid(CpuId(cpu))))
}

fn this_cid(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(u64::from(join.state.cids.cid(join.k.ctx().cpu)))
}

fn cid_curr(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    match cpu_of(join, args[0]) {
        Some(cpu) => join.curr_pointer(cpu, vm.mem),
        None => Ok(0),
    }
}

fn nr_cids(join: &mut Join<'_>, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(join.state.cids.count() as u64)
}

fn perf(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    Ok(cpu_of(join, args[0]).map_or(FULL_SPEED, |cpu| u64::from(join.k.cpuperf_cap(cpu.0 as i32))))
}

fn perf_set(join: &mut Join<'_>, args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(cpu) = cpu_of(join, args[0]) else { return Ok(errno(22)) };
    join.k.cpuperf_set(cpu.0 as i32, args[1] as u32);
    Ok(0)
}

/// First number of a topological unit in cid order, and which of its kind it is.
fn unit(join: &Join<'_>, cid: usize, of: impl Fn(&schedlab_base::Cpu) -> u32) -> (u64, u64) {
    let cids = &join.state.cids;
    let place = |cid: usize| of(&join.k.machine().cpus[cids.to_cpu[cid] as usize]);
    let mine = place(cid);
    let first = (0..cids.count()).find(|&other| place(other) == mine).unwrap_or(cid);
    let mut seen: Vec<u32> = Vec::new();
    for other in 0..first {
        let there = place(other);
        if !seen.contains(&there) {
            seen.push(there);
        }
    }
    (first as u64, seen.len() as u64)
}

/// Fills `struct scx_cid_topo`: first cid and index of core, cache, node, and shard (the cache domain here).
fn cid_topo(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let Some(cpu) = cpu_of(join, args[0]) else { return Ok(0) };
    let cid = join.state.cids.cid(cpu) as usize;
    let units = [
        unit(join, cid, |place| place.core),
        unit(join, cid, |place| place.llc),
        unit(join, cid, |place| place.node),
        unit(join, cid, |place| place.llc),
    ];
    let numbers = units.iter().flat_map(|(first, index)| [*first, *index]);
    for (place, number) in numbers.enumerate().take((args[2] / 4) as usize) {
        vm.mem.write_u32(arg_addr(args[1]).offset(place as u64 * 4), number as u32)?;
    }
    Ok(0)
}

/// The root scheduler holds every capability on every CPU; there are no others.
fn sub_caps(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if args[1] & !ALL_CAPS != 0 {
        join.k.error(ExitKind::Error, format!("invalid caps {:#x}", args[1]));
        return Ok(errno(22));
    }
    if args[0] != 0 {
        return Ok(errno(19));
    }
    let count = join.state.cids.count() as u32;
    // ENQ_IMMED alone is what a time-shared CPU of a child is held with; the kernel's root has it everywhere.
    fill_cmask(vm.mem, arg_addr(args[2]), |cid| args[1] != 0 && cid < count)?;
    Ok(signed(0))
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc("s32 scx_bpf_cid_to_cpu(s32 cid);", cid_to_cpu),
    kfunc("s32 scx_bpf_cpu_to_cid(s32 cpu);", cpu_to_cid),
    kfunc("void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, size_t out__sz);", cid_topo),
    kfunc("void scx_bpf_kick_cid(s32 cid, u64 flags);", kick_cid),
    kfunc("s32 scx_bpf_task_cid(const struct task_struct *p);", task_cid),
    kfunc("s32 scx_bpf_this_cid(void);", this_cid),
    kfunc("struct task_struct *scx_bpf_cid_curr(s32 cid);", cid_curr),
    kfunc("u32 scx_bpf_nr_cids(void);", nr_cids),
    kfunc("u32 scx_bpf_nr_online_cids(void);", nr_cids),
    kfunc("u32 scx_bpf_cidperf_cap(s32 cid);", perf),
    kfunc("u32 scx_bpf_cidperf_cur(s32 cid);", perf),
    kfunc("s32 scx_bpf_cidperf_set(s32 cid, u32 perf);", perf_set),
    kfunc("s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask *out);", sub_caps),
];
