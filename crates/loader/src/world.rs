//! What the files of the simulated machine say: `/sys`, `/proc` and a few beside them.
//!
//! Contents are those of Linux 7.3 for the machine's CPUs, caches and nodes. What a machine has no value for is absent, as
//! on a virtual machine: no frequencies, no capacities, no idle states.

use crate::groups::GroupFiles;
use schedlab_base::{CpuId, CpuMask, Machine};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The kernel that loaders find (`uname -r`): the version that objects are linked against.
pub(crate) const RELEASE: &str = "7.3.4-schedlab";

/// Memory that the machine says it has, in KiB. Chosen: 16 GiB; machine files do not say.
pub(crate) const MEMORY_KIB: u64 = 16 << 20;

/// Folders that there may be. Chosen: each node and each of its CPUs has one.
const MOST_FOLDERS: usize = 8192;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(Vec<u8>),
    /// The names in it, and whether each is a folder.
    Folder(Vec<(String, bool)>),
}

/// The files of the simulated machine.
#[derive(Clone, Debug)]
pub(crate) struct World {
    files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
    /// Set once a scheduler is attached: its name.
    ops: Option<String>,
    /// Schedulers that were enabled.
    enabled: u32,
    cpus: usize,
    /// How long each CPU has run tasks, in nanoseconds; nothing before the simulation begins.
    busy: Vec<u64>,
    /// What is below `/sys/fs/cgroup`.
    pub(crate) groups: GroupFiles,
}

/// Paths below these are the simulated machine's alone.
const PLACES: &[&str] = &["/sys", "/proc", "/run", "/var/run", "/boot", "/tmp"];

impl World {
    /// The files of a machine whose kernel has these types (BTF).
    pub(crate) fn new(machine: &Machine, btf: &[u8]) -> World {
        let mut world = World {
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            ops: None,
            enabled: 0,
            cpus: machine.cpu_count(),
            busy: Vec::new(),
            groups: GroupFiles::new(machine.all_cpus()),
        };
        world.cpu_files(machine);
        world.node_files(machine);
        world.kernel_files(machine, btf);
        for folder in [
            "/tmp",
            "/run",
            "/var/run",
            "/sys/fs/bpf",
            "/sys/fs/cgroup",
            "/sys/kernel/debug",
            "/sys/kernel/tracing",
        ] {
            world.make_folder(folder);
        }
        world
    }

    /// True for a path that never means a file of the host.
    pub(crate) fn owns(path: &str) -> bool {
        PLACES.iter().any(|place| {
            path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// What is at a normal path, at this time in nanoseconds.
    pub(crate) fn find(&self, path: &str, now: u64) -> Option<Node> {
        if let Some(content) = self.changing(path, now) {
            return Some(Node::File(content.into_bytes()));
        }
        if let Some(node) = self.groups.find(path) {
            return Some(node);
        }
        if let Some(content) = self.files.get(path) {
            return Some(Node::File(content.clone()));
        }
        let below = if path == "/" { path.to_string() } else { format!("{path}/") };
        let mut names: BTreeMap<String, bool> = BTreeMap::new();
        let files = self.files.range(below.clone()..).map(|(path, _)| (path, false));
        let folders = self.folders.range(below.clone()..).map(|path| (path, true));
        for (found, folder) in files
            .take_while(|(path, _)| path.starts_with(&below))
            .chain(folders.take_while(|(path, _)| path.starts_with(&below)))
        {
            let rest = &found[below.len()..];
            let (name, deeper) = rest.split_once('/').map_or((rest, folder), |(name, _)| (name, true));
            *names.entry(name.to_string()).or_insert(false) |= deeper;
        }
        let is_folder = self.folders.contains(path) || !names.is_empty();
        is_folder.then(|| Node::Folder(names.into_iter().collect()))
    }

    /// Makes a folder that the loader asks for, unless there are too many. It exists for the loader alone.
    pub(crate) fn make_folder(&mut self, path: &str) -> bool {
        self.folders.len() < MOST_FOLDERS && self.folders.insert(path.to_string())
    }

    /// A scheduler of this name is attached from now on; nothing: none is.
    pub(crate) fn attach(&mut self, ops: Option<String>) {
        self.enabled += u32::from(ops.is_some());
        self.ops = ops;
    }

    /// How long each CPU has run tasks by now, in nanoseconds.
    pub(crate) fn set_busy(&mut self, busy: Vec<u64>) {
        self.busy = busy;
    }

    /// Files whose content changes.
    fn changing(&self, path: &str, now: u64) -> Option<String> {
        let ext = "/sys/kernel/sched_ext/";
        Some(match path {
            "/proc/uptime" => format!("{}.{:02} 0.00\n", now / 1_000_000_000, now / 10_000_000 % 100),
            "/proc/stat" => self.stat(now),
            _ => match path.strip_prefix(ext)? {
                "state" => if self.ops.is_some() { "enabled\n" } else { "disabled\n" }.to_string(),
                "enable_seq" => format!("{}\n", self.enabled),
                "root/ops" => format!("{}\n", self.ops.as_ref()?),
                "nr_rejected" => "0\n".to_string(),
                "switch_all" => format!("{}\n", u8::from(self.ops.is_some())),
                _ => return None,
            },
        })
    }

    /// CPU times in ticks of 10 ms: what tasks ran is user time, whatever they did, and the rest idle.
    fn stat(&self, now: u64) -> String {
        const TICK: u64 = 10_000_000;
        let ticks = |cpu: usize| {
            let busy = self.busy.get(cpu).map_or(0, |busy| busy / TICK);
            (busy, (now / TICK).saturating_sub(busy))
        };
        let all = (0..self.cpus).map(ticks).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mut text = format!("cpu  {} 0 0 {} 0 0 0 0 0 0\n", all.0, all.1);
        for cpu in 0..self.cpus {
            let (busy, idle) = ticks(cpu);
            let _ = writeln!(text, "cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0");
        }
        text + "intr 0\nctxt 0\nbtime 1767225600\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
    }

    fn put(&mut self, path: impl Into<String>, content: impl std::fmt::Display) {
        self.files.insert(path.into(), format!("{content}\n").into_bytes());
    }

    fn cpu_files(&mut self, machine: &Machine) {
        let all = list(&machine.all_cpus());
        let root = "/sys/devices/system/cpu";
        for name in ["online", "possible", "present"] {
            self.put(format!("{root}/{name}"), &all);
        }
        self.put(format!("{root}/offline"), "");
        self.put(format!("{root}/isolated"), "");
        self.put(format!("{root}/kernel_max"), schedlab_base::MAX_CPUS - 1);
        let alike = |key: fn(&schedlab_base::Cpu) -> u32, value: u32| {
            let mut mask = CpuMask::EMPTY;
            for (number, cpu) in machine.cpus.iter().enumerate().filter(|(_, cpu)| key(cpu) == value) {
                let _ = cpu;
                mask.set(CpuId(number as u32));
            }
            mask
        };
        let smt = machine.cpus.iter().any(|cpu| alike(|cpu| cpu.core, cpu.core).count() > 1);
        self.put(format!("{root}/smt/active"), u8::from(smt));
        self.put(format!("{root}/smt/control"), if smt { "on" } else { "notsupported" });
        for (number, cpu) in machine.cpus.iter().enumerate() {
            let core = alike(|cpu| cpu.core, cpu.core);
            let llc = alike(|cpu| cpu.llc, cpu.llc);
            let node = alike(|cpu| cpu.node, cpu.node);
            let own = format!("{root}/cpu{number}");
            if number > 0 {
                self.put(format!("{own}/online"), 1);
            }
            let topology = format!("{own}/topology");
            for (name, value) in [
                ("core_id", cpu.core),
                ("physical_package_id", cpu.node),
                ("die_id", 0),
                ("cluster_id", u32::from(u16::MAX)),
            ] {
                self.put(format!("{topology}/{name}"), value);
            }
            for (name, mask) in [
                ("thread_siblings", &core),
                ("core_cpus", &core),
                ("core_siblings", &node),
                ("package_cpus", &node),
                ("die_cpus", &node),
            ] {
                self.put(format!("{topology}/{name}_list"), list(mask));
                self.put(format!("{topology}/{name}"), hex(mask, machine.cpu_count()));
            }
            let caches = [
                (1, "Data", 32, cpu.core, &core),
                (1, "Instruction", 32, cpu.core, &core),
                (2, "Unified", machine.cache_kib, cpu.core, &core),
                (3, "Unified", machine.llc_kib.max(machine.cache_kib), cpu.llc, &llc),
            ];
            for (index, (level, kind, kib, id, mask)) in caches.into_iter().enumerate() {
                let cache = format!("{own}/cache/index{index}");
                self.put(format!("{cache}/level"), level);
                self.put(format!("{cache}/type"), kind);
                self.put(format!("{cache}/size"), format!("{kib}K"));
                self.put(format!("{cache}/id"), id);
                self.put(format!("{cache}/coherency_line_size"), 64);
                self.put(format!("{cache}/shared_cpu_list"), list(mask));
                self.put(format!("{cache}/shared_cpu_map"), hex(mask, machine.cpu_count()));
            }
        }
        self.put("/proc/cpuinfo", cpuinfo(machine));
    }

    fn node_files(&mut self, machine: &Machine) {
        let nodes = machine.cpus.iter().map(|cpu| cpu.node + 1).max().unwrap_or(1);
        let root = "/sys/devices/system/node";
        let range = if nodes > 1 { format!("0-{}", nodes - 1) } else { "0".to_string() };
        for name in ["online", "possible", "has_cpu", "has_memory", "has_normal_memory"] {
            self.put(format!("{root}/{name}"), &range);
        }
        for node in 0..nodes {
            let mut mask = CpuMask::EMPTY;
            let own = format!("{root}/node{node}");
            for (number, _) in machine.cpus.iter().enumerate().filter(|(_, cpu)| cpu.node == node) {
                mask.set(CpuId(number as u32));
                self.make_folder(&format!("{own}/cpu{number}"));
            }
            self.put(format!("{own}/cpulist"), list(&mask));
            self.put(format!("{own}/cpumap"), hex(&mask, machine.cpu_count()));
            let far = |other: u32| if other == node { "10" } else { "20" };
            self.put(format!("{own}/distance"), (0..nodes).map(far).collect::<Vec<_>>().join(" "));
            let kib = MEMORY_KIB / u64::from(nodes);
            self.put(
                format!("{own}/meminfo"),
                format!("Node {node} MemTotal:       {kib} kB\nNode {node} MemFree:        {kib} kB"),
            );
        }
    }

    fn kernel_files(&mut self, machine: &Machine, btf: &[u8]) {
        self.files.insert("/sys/kernel/btf/vmlinux".into(), btf.to_vec());
        let config = format!(
            "CONFIG_HZ={}\nCONFIG_NR_CPUS={}\nCONFIG_SMP=y\nCONFIG_NUMA=y\nCONFIG_SCHED_CLASS_EXT=y\nCONFIG_BPF=y\n\
             CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\nCONFIG_DEBUG_INFO_BTF=y\nCONFIG_PREEMPT_RCU=y\n\
             CONFIG_CC_VERSION_TEXT=\"schedlab\"\nCONFIG_LOCALVERSION=\"-schedlab\"",
            machine.hz,
            schedlab_base::MAX_CPUS
        );
        self.put(format!("/boot/config-{RELEASE}"), config);
        self.put("/proc/version", format!("Linux version {RELEASE} (schedlab) #1 SMP PREEMPT"));
        self.put("/proc/sys/kernel/osrelease", RELEASE);
        self.put("/proc/sys/kernel/ostype", "Linux");
        // No CPU comes or goes while a loader attaches its scheduler, which is before the run.
        self.put("/sys/kernel/sched_ext/hotplug_seq", machine.hotplugs_of_boot());
        self.put("/proc/sys/kernel/pid_max", 4_194_304);
        self.put("/proc/sys/kernel/bpf_stats_enabled", 0);
        self.put("/proc/sys/net/core/bpf_jit_enable", 1);
        self.put("/proc/sys/kernel/sched_schedstats", 0);
        self.put("/proc/sys/kernel/ftrace_enabled", 1);
        self.put("/proc/loadavg", "0.00 0.00 0.00 1/2 2");
        self.put("/proc/filesystems", "nodev\tsysfs\nnodev\tproc\nnodev\tbpf\nnodev\tcgroup2");
        let mounts = "proc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n\
                      bpf /sys/fs/bpf bpf rw 0 0\ndebugfs /sys/kernel/debug debugfs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0";
        for path in ["/proc/mounts", "/proc/self/mounts"] {
            self.put(path, mounts);
        }
        self.put("/proc/self/mountinfo", "1 0 0:1 / / rw - ext4 root rw");
        self.put("/proc/self/cgroup", "0::/");
        self.put("/proc/self/comm", "loader");
        self.put("/proc/kallsyms", "");
        let memory = format!(
            "MemTotal:       {MEMORY_KIB} kB\nMemFree:        {MEMORY_KIB} kB\nMemAvailable:   {MEMORY_KIB} kB\n\
             SwapTotal:             0 kB\nSwapFree:              0 kB"
        );
        self.put("/proc/meminfo", memory);
    }
}

fn cpuinfo(machine: &Machine) -> String {
    let one = |(number, cpu): (usize, &schedlab_base::Cpu)| {
        format!(
            "processor\t: {number}\nvendor_id\t: schedlab\nmodel name\t: {}\ncpu MHz\t\t: {}.000\ncache size\t: {} KB\n\
             physical id\t: {}\ncore id\t\t: {}\nflags\t\t: fpu tsc\n",
            machine.name, machine.clock_mhz, machine.cache_kib, cpu.node, cpu.core
        )
    };
    machine.cpus.iter().enumerate().map(one).collect::<Vec<_>>().join("\n")
}

/// A list of CPUs as sysfs writes it: `0-3,8`.
pub(crate) fn list(mask: &CpuMask) -> String {
    mask.to_string()
}

/// A list of CPUs as sysfs writes masks (`%*pb`): words of 32 bits, the highest first and no longer than the CPUs need.
fn hex(mask: &CpuMask, cpus: usize) -> String {
    let word = |word: usize| {
        (0..32)
            .filter(|bit| mask.contains(CpuId((word * 32 + bit) as u32)))
            .fold(0u32, |bits, bit| bits | 1 << bit)
    };
    let words = cpus.div_ceil(32);
    let digits = |number: usize| (cpus - number * 32).min(32).div_ceil(4);
    let text = |number: usize| format!("{:0width$x}", word(number), width = digits(number));
    (0..words).rev().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_the_kernel_does() {
        let mut mask = CpuMask::EMPTY;
        for cpu in [0, 1, 2, 5, 33, 34] {
            mask.set(CpuId(cpu));
        }
        assert_eq!(list(&mask), "0-2,5,33-34");
        assert_eq!(list(&CpuMask::EMPTY), "");
        assert_eq!(hex(&mask, 40), "06,00000027");
        assert_eq!(hex(&mask, 64), "00000006,00000027");
        let one = CpuMask::single(CpuId(0));
        assert_eq!(
            [2, 4, 8, 9, 33].map(|cpus| hex(&one, cpus)),
            ["1", "1", "01", "001", "0,00000001"].map(String::from)
        );
    }

    #[test]
    fn folders_show_what_lies_below() {
        let mut world = World::new(&Machine::uniform("m", 4), b"types");
        let Some(Node::Folder(names)) = world.find("/sys/devices/system/cpu/cpu1", 0) else {
            panic!("a folder")
        };
        assert_eq!(names, [("cache".into(), true), ("online".into(), false), ("topology".into(), true)]);
        assert_eq!(world.find("/sys/devices/system/cpu/online", 0), Some(Node::File(b"0-3\n".to_vec())));
        assert_eq!(world.find("/sys/devices/system/cpu/cpu4", 0), None);
        assert_eq!(world.find("/sys/kernel/sched_ext/state", 0), Some(Node::File(b"disabled\n".to_vec())));
        world.attach(Some("mine".into()));
        assert_eq!(world.find("/sys/kernel/sched_ext/root/ops", 0), Some(Node::File(b"mine\n".to_vec())));
        world.set_busy(vec![250_000_000, 0, 0, 1_000_000_000]);
        let Some(Node::File(stat)) = world.find("/proc/stat", 1_000_000_000) else { panic!("a file") };
        let stat = String::from_utf8(stat).unwrap();
        for line in ["cpu  125 0 0 275", "cpu0 25 0 0 75", "cpu1 0 0 0 100", "cpu3 100 0 0 0"] {
            assert!(stat.contains(line), "{stat}");
        }
        world.make_folder("/run/scx/root");
        assert_eq!(world.find("/run/scx", 0), Some(Node::Folder(vec![("root".into(), true)])));
        assert!(World::owns("/sys") && World::owns("/proc/1/mem") && !World::owns("/system"));
    }
}
