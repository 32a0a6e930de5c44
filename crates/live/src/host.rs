//! This machine's CPUs as the kernel describes them in sysfs: cores, threads, caches, nodes. What it tells of itself is in
//! [`kernel`].

pub mod kernel;

use schedlab_base::{Cpu, CpuId, Machine, MachineError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A CPU as sysfs tells of it, before its parts have dense numbers.
struct Place {
    core: String,
    llc: String,
    node: u64,
}

/// This machine, and which of its figures were read.
#[derive(Clone, Debug)]
pub struct Found {
    /// The machine; what was not read is as of an assumed one.
    pub machine: Machine,
    /// Whether the clock was read.
    pub clock: bool,
    /// Whether the sizes of the caches were read.
    pub caches: bool,
}

/// This machine with default prices: what its CPUs are, which caches they share, and how large those are. CPUs that are
/// offline are left out.
///
/// # Errors
/// A machine without CPUs in sysfs, or with more than the simulator has.
pub fn machine() -> Result<Machine, MachineError> {
    Ok(found()?.machine)
}

/// The same with what of it was read.
///
/// # Errors
/// As [`machine`].
pub fn found() -> Result<Found, MachineError> {
    found_in(Path::new("/sys/devices/system"))
}

fn found_in(system: &Path) -> Result<Found, MachineError> {
    let online = fs::read_to_string(system.join("cpu/online")).unwrap_or_default();
    let numbers = list(&online);
    let places: Vec<Place> = numbers.iter().map(|&number| place(system, number)).collect();
    let mut machine = Machine::uniform("host", 1);
    machine.cpus = dense(&places);
    let caches = numbers.first().and_then(|&first| cache_sizes(system, first));
    (machine.cache_kib, machine.llc_kib) = caches.unwrap_or((machine.cache_kib, machine.llc_kib));
    let khz = number(&system.join(format!("cpu/cpu{}/cpufreq/cpuinfo_max_freq", CpuId(0).0)));
    machine.clock_mhz = khz.map_or(machine.clock_mhz, |khz| (khz / 1000).clamp(1, 100_000) as u32);
    machine.validate()?;
    Ok(Found { machine, clock: khz.is_some(), caches: caches.is_some() })
}

/// Numbers of a list such as `0-3,8`.
fn list(text: &str) -> Vec<u64> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u64>> {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    // More than any machine has: a list that says so is not believed.
    text.split(',').filter_map(range).flatten().take(1 << 16).collect()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn place(system: &Path, cpu: u64) -> Place {
    let folder = system.join(format!("cpu/cpu{cpu}"));
    let topology = |name: &str| number(&folder.join("topology").join(name));
    let package = topology("physical_package_id").unwrap_or(0);
    // Numbers of cores are unique within a die or a cluster at least; the list of a core's threads is everywhere.
    let threads = ["core_cpus_list", "thread_siblings_list"].map(|name| folder.join("topology").join(name));
    let threads = threads.iter().find_map(|path| fs::read_to_string(path).ok());
    let core = || format!("{package} {}", topology("core_id").unwrap_or(cpu));
    let caches = (0..8).rev().map(|index| folder.join(format!("cache/index{index}/shared_cpu_list")));
    let llc = caches.filter_map(|path| fs::read_to_string(path).ok()).next();
    let node = (0..1024).find(|node| folder.join(format!("node{node}")).exists()).unwrap_or(0);
    Place { core: threads.unwrap_or_else(core), llc: llc.unwrap_or_else(|| package.to_string()), node }
}

/// The same with numbers from 0 on, in the order of the CPUs.
fn dense(places: &[Place]) -> Vec<Cpu> {
    fn of<K: Ord + Clone>(known: &mut BTreeMap<K, u32>, key: &K) -> u32 {
        let next = known.len() as u32;
        *known.entry(key.clone()).or_insert(next)
    }
    let (mut cores, mut llcs, mut nodes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let cpu = |place: &Place| Cpu {
        core: of(&mut cores, &place.core),
        llc: of(&mut llcs, &place.llc),
        node: of(&mut nodes, &place.node),
    };
    places.iter().map(cpu).collect()
}

/// The cache of a core and the last level behind it, in KiB; nothing where sysfs does not tell.
fn cache_sizes(system: &Path, cpu: u64) -> Option<(u32, u32)> {
    let caches = system.join(format!("cpu/cpu{cpu}/cache"));
    let size = |index: u32| -> Option<(u64, u32)> {
        let folder = caches.join(format!("index{index}"));
        let kind = fs::read_to_string(folder.join("type")).ok()?;
        let text = fs::read_to_string(folder.join("size")).ok()?;
        let kib = text.trim().strip_suffix('K')?.parse().ok()?;
        (kind.trim() != "Instruction").then_some((number(&folder.join("level"))?, kib))
    };
    let levels: Vec<(u64, u32)> = (0..8).filter_map(size).collect();
    let of = |level: u64| levels.iter().find(|(known, _)| *known == level).map(|(_, kib)| *kib);
    Some((of(2)?, of(3).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(list("0"), [0]);
        assert!(list("").is_empty() && list("x-y").is_empty());
    }

    #[test]
    fn two_sockets_of_two_threads() {
        let folder = std::env::temp_dir().join(format!("schedlab-host-{}", std::process::id()));
        let put = |path: String, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("cpu/online".into(), "0-3\n");
        for cpu in 0..4 {
            let (package, at) = (cpu / 2, format!("cpu/cpu{cpu}"));
            put(format!("{at}/topology/physical_package_id"), &format!("{package}\n"));
            put(format!("{at}/topology/core_id"), "7\n");
            put(format!("{at}/cache/index3/shared_cpu_list"), if package == 0 { "0-1" } else { "2-3" });
            put(format!("{at}/node{package}/x"), "");
            for (index, level, size) in [(2, 2, "512K\n"), (3, 3, "8192K\n")] {
                put(format!("{at}/cache/index{index}/level"), &format!("{level}\n"));
                put(format!("{at}/cache/index{index}/type"), "Unified\n");
                put(format!("{at}/cache/index{index}/size"), size);
            }
        }
        let found = found_in(&folder).unwrap();
        assert!(found.caches && !found.clock);
        let machine = found.machine;
        let places: Vec<(u32, u32, u32)> =
            machine.cpus.iter().map(|cpu| (cpu.core, cpu.llc, cpu.node)).collect();
        assert_eq!(places, [(0, 0, 0), (0, 0, 0), (1, 1, 1), (1, 1, 1)]);
        assert_eq!((machine.cache_kib, machine.llc_kib), (512, 8192));
        fs::remove_dir_all(&folder).unwrap();
        assert!(found_in(&folder).is_err());
    }

    #[test]
    fn siblings_are_those_of_the_list_whatever_the_cores_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("cpu/online".into(), "0-3\n");
        for cpu in 0..4 {
            let topology = format!("cpu/cpu{cpu}/topology");
            // Two dies, each with a core 0.
            put(format!("{topology}/core_id"), "0\n");
            put(format!("{topology}/core_cpus_list"), if cpu % 2 == 0 { "0,2\n" } else { "1,3\n" });
        }
        let found = found_in(folder.path()).unwrap();
        let cores: Vec<u32> = found.machine.cpus.iter().map(|cpu| cpu.core).collect();
        assert_eq!(cores, [0, 1, 0, 1]);
        assert!(!found.caches && !found.clock);
    }

    #[test]
    fn this_machine_is_one() {
        assert!(machine().unwrap().cpu_count() > 0);
    }
}
