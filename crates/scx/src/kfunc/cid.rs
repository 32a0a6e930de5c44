//! CPUs by topological number (cid), as cid-form schedulers (`struct sched_ext_ops_cid`, Linux 7.1) know them.

use crate::args::{Cx, KernelObjects, TaskArg};
use crate::join::Join;
use schedlab_base::{Cpu, CpuId, Machine};
use schedlab_bpf::args::Buffer;
use schedlab_bpf::maps::Errno;
use schedlab_bpf::{Fault, GuestAddr};
use schedlab_trace::ExitKind;

/// `SCX_CPUPERF_ONE`.
const FULL_SPEED: u32 = 1024;

/// The two ways between CPUs and cids, and what cids belong to.
#[derive(Clone, Debug)]
pub(crate) struct Cids {
    to_cpu: Vec<u32>,
    to_cid: Vec<u32>,
    /// By cid, `struct scx_cid_topo`: first cid and index of core, cache, node, and shard (the cache domain here).
    topology: Vec<[u32; 8]>,
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
        let places: Vec<Cpu> = to_cpu.iter().map(|&cpu| machine.cpus[cpu as usize]).collect();
        let cores = units(places.iter().map(|place| place.core));
        let caches = units(places.iter().map(|place| place.llc));
        let nodes = units(places.iter().map(|place| place.node));
        let row = |((core, cache), node): ((&[u32; 2], &[u32; 2]), &[u32; 2])| {
            [core[0], core[1], cache[0], cache[1], node[0], node[1], cache[0], cache[1]]
        };
        let topology = cores.iter().zip(&caches).zip(&nodes).map(row).collect();
        Cids { to_cpu, to_cid, topology }
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

/// For each cid, in order: the first cid of its unit, and which of its kind that is.
fn units(of: impl Iterator<Item = u32>) -> Vec<[u32; 2]> {
    let mut seen: std::collections::BTreeMap<u32, [u32; 2]> = std::collections::BTreeMap::new();
    let mut out = Vec::new();
    for (cid, unit) in of.enumerate() {
        let next = seen.len() as u32;
        out.push(*seen.entry(unit).or_insert([cid as u32, next]));
    }
    out
}

/// The CPU of a cid argument; a bad one is an error of the scheduler.
fn cpu_of(join: &mut Join<'_>, cid: i32) -> Option<CpuId> {
    let cpu = join.state.cids.cpu(cid);
    if cpu.is_none() {
        join.k.error(ExitKind::Error, format!("invalid cid {cid}"));
    }
    cpu
}

pub(super) fn cid_to_cpu(cx: &mut Cx<'_, '_, '_>, cid: i32) -> Result<u32, Errno> {
    cpu_of(cx.env, cid).map(|cpu| cpu.0).ok_or(Errno::EINVAL)
}

pub(super) fn cpu_to_cid(cx: &mut Cx<'_, '_, '_>, cpu: u32) -> Result<u32, Errno> {
    let cpu = cx.env.cpu_or_error(cpu);
    cpu.map(|cpu| cx.env.state.cids.cid(cpu)).ok_or(Errno::EINVAL)
}

pub(super) fn kick_cid(cx: &mut Cx<'_, '_, '_>, cid: i32, flags: u64) {
    if let Some(cpu) = cpu_of(cx.env, cid) {
        cx.env.k.kick_cpu(cpu.0 as i32, flags);
    }
}

pub(super) fn task_cid(cx: &mut Cx<'_, '_, '_>, task: TaskArg) -> u32 {
    let cpu = match task.living {
        Some(task) => cx.env.k.task_cpu(task),
        None => cx.remains(task).1,
    };
    cx.env.state.cids.cid(cpu)
}

pub(super) fn this_cid(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.state.cids.cid(cx.env.k.ctx().cpu)
}

pub(super) fn cid_curr(cx: &mut Cx<'_, '_, '_>, cid: i32) -> Result<Option<GuestAddr>, Fault> {
    match cpu_of(cx.env, cid) {
        Some(cpu) => cx.curr_pointer(cpu).map(Some),
        None => Ok(None),
    }
}

pub(super) fn nr_cids(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.state.cids.count() as u32
}

pub(super) fn nr_online(cx: &mut Cx<'_, '_, '_>) -> u32 {
    cx.env.k.online_cpus().count() as u32
}

pub(super) fn perf(cx: &mut Cx<'_, '_, '_>, cid: i32) -> u32 {
    cpu_of(cx.env, cid).map_or(FULL_SPEED, |cpu| cx.env.k.cpuperf_cap(cpu.0 as i32))
}

pub(super) fn perf_set(cx: &mut Cx<'_, '_, '_>, cid: i32, perf: u32) -> i32 {
    match cpu_of(cx.env, cid) {
        Some(cpu) => cx.env.k.cpuperf_set(cpu.0 as i32, perf),
        None => -Errno::EINVAL.0,
    }
}

/// Fills `struct scx_cid_topo`, as much as the caller has room for; -1 in each number without an answer.
pub(super) fn cid_topo(cx: &mut Cx<'_, '_, '_>, cid: i32, out: Buffer) -> Result<(), Fault> {
    cx.room(out.0)?.fill(0xff);
    let Some(cpu) = cpu_of(cx.env, cid) else { return Ok(()) };
    let cids = &cx.env.state.cids;
    let numbers = cids.topology[cids.cid(cpu) as usize];
    cx.fill(out.0, &numbers.map(u32::to_le_bytes).concat())
}
