//! Scheduling domains: which CPUs the fair class balances among each other, from the threads of a core up to the machine.

use schedlab_base::{Cpu, CpuId, CpuMask, Machine};

/// One level of domains; each CPU is in one of them.
#[derive(Debug)]
pub(crate) struct Level {
    domains: Vec<Domain>,
    /// By CPU, which domain.
    of: Vec<u32>,
    /// Threads of a core (`SD_SHARE_CPUCAPACITY`).
    pub(crate) smt: bool,
    /// CPUs that share a last-level cache (`SD_SHARE_LLC`).
    pub(crate) shares_llc: bool,
    /// The groups are the threads of a core each.
    pub(crate) groups_are_cores: bool,
    /// The groups are domains whose tasks rather go to a sibling (`SD_PREFER_SIBLING` of the child).
    pub(crate) prefers_siblings: bool,
    /// In percent, from which on a difference matters (`imbalance_pct`).
    pub(crate) imbalance_pct: u64,
    /// Attempts after which tasks are moved that have just run (`cache_nice_tries`).
    pub(crate) cache_nice_tries: u32,
}

/// CPUs that are balanced, in groups: the domains of the level below, or single CPUs.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) groups: Vec<Vec<CpuId>>,
}

impl Level {
    pub(crate) fn domain(&self, cpu: CpuId) -> &Domain {
        &self.domains[self.of[cpu.index()] as usize]
    }
}

/// The levels of the CPUs of a machine that are online, the smallest domains first: cores, caches, nodes, all. A level that would be like the one below is left out
/// (`sd_parent_degenerate()`).
pub(crate) fn levels(machine: &Machine, online: &CpuMask) -> Vec<Level> {
    let keys: [fn(&Cpu) -> u32; 4] = [|cpu| cpu.core, |cpu| cpu.llc, |cpu| cpu.node, |_| 0];
    let mut levels: Vec<Level> = Vec::new();
    let mut below: Vec<Vec<CpuId>> = online.iter().map(|cpu| vec![cpu]).collect();
    for (rank, key) in keys.into_iter().enumerate() {
        let mut parts: Vec<Vec<CpuId>> = Vec::new();
        let last = machine.cpus.iter().map(key).max().unwrap_or(0);
        parts.resize(last as usize + 1, Vec::new());
        for cpu in online.iter() {
            parts[key(&machine.cpus[cpu.index()]) as usize].push(cpu);
        }
        parts.retain(|part| !part.is_empty());
        if parts.len() == below.len() {
            continue;
        }
        let numa = rank == 3 && machine.cpus.iter().any(|cpu| cpu.node != machine.cpus[0].node);
        levels.push(Level {
            of: index(&parts, machine.cpu_count()),
            domains: parts.iter().map(|part| domain(part, &below)).collect(),
            smt: rank == 0,
            shares_llc: rank <= 1,
            groups_are_cores: levels.last().is_some_and(|below| below.smt),
            prefers_siblings: !levels.is_empty(),
            imbalance_pct: if rank == 0 { 110 } else { 117 },
            cache_nice_tries: if rank == 0 { 0 } else { 1 + u32::from(numa) },
        });
        below = parts;
    }
    debug_assert!(levels.iter().all(|level| !level.domains.is_empty()), "a level has a domain");
    levels
}

fn index(parts: &[Vec<CpuId>], cpus: usize) -> Vec<u32> {
    debug_assert!(parts.iter().all(|part| !part.is_empty()), "a domain has a CPU");
    let mut of = vec![0; cpus];
    for (number, part) in (0..).zip(parts) {
        part.iter().for_each(|cpu| of[cpu.index()] = number);
    }
    of
}

fn domain(cpus: &[CpuId], below: &[Vec<CpuId>]) -> Domain {
    debug_assert!(!cpus.is_empty(), "a domain has a CPU");
    let groups = below.iter().filter(|group| group.first().is_some_and(|cpu| cpus.contains(cpu)));
    Domain { cpus: cpus.to_vec(), groups: groups.cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_alike_are_left_out() {
        let levels = |machine: &Machine| super::levels(machine, &machine.all_cpus());
        assert!(levels(&Machine::uniform("one", 1)).is_empty());
        let flat = levels(&Machine::uniform("flat", 4));
        assert_eq!((flat.len(), flat[0].domain(CpuId(3)).groups.len()), (1, 4));
        assert!(flat[0].shares_llc && !flat[0].smt && !flat[0].prefers_siblings);
        let mut machine = Machine::uniform("two of two threads", 8);
        for (number, cpu) in (0..).zip(&mut machine.cpus) {
            *cpu = Cpu { core: number / 2, llc: number / 4, node: number / 4 };
        }
        let levels = levels(&machine);
        let sizes: Vec<usize> = levels.iter().map(|level| level.domain(CpuId(5)).cpus.len()).collect();
        assert_eq!(sizes, [2, 4, 8]);
        assert_eq!(levels[2].domain(CpuId(0)).groups[1], [4, 5, 6, 7].map(CpuId));
        assert_eq!([0, 1, 2].map(|level: usize| levels[level].cache_nice_tries), [0, 1, 2]);
        assert!(!levels[0].prefers_siblings && levels[1].prefers_siblings && !levels[2].shares_llc);
        // One thread of each core of the first node and nothing else.
        let mut online = CpuMask::EMPTY;
        [0, 2].into_iter().for_each(|cpu| online.set(CpuId(cpu)));
        let two = super::levels(&machine, &online);
        assert_eq!((two.len(), two[0].domain(CpuId(2)).cpus.len(), two[0].smt), (1, 2, false));
    }
}
