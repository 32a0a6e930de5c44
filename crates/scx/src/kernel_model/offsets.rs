//! Where the members lie that the simulator fills in.

use schedlab_bpf::btf::Btf;

/// Declares a struct of offsets in bytes, read from the types by path.
macro_rules! offsets {
    ($(#[$doc:meta])* $name:ident of $structure:literal { $($field:ident = $path:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: u64,)*
            /// Bytes of the whole structure.
            pub(crate) size: u64,
        }

        impl $name {
            fn new(btf: &Btf) -> $name {
                $name {
                    $($field: at(btf, $structure, $path),)*
                    size: size(btf, $structure),
                }
            }
        }
    };
}

fn at(btf: &Btf, structure: &str, path: &str) -> u64 {
    let root =
        btf.find_struct(structure).unwrap_or_else(|| panic!("the kernel model has no struct {structure}"));
    let member =
        btf.at_path(root, path).unwrap_or_else(|error| panic!("struct {structure}, {path}: {error}"));
    member.offset()
}

fn size(btf: &Btf, structure: &str) -> u64 {
    btf.find_struct(structure).and_then(|id| btf.size_of(id)).unwrap_or(0)
}

offsets! {
    /// Members of `task_struct` that never change by themselves; the others are [`schedlab_sim::MEMBERS`].
    TaskAt of "task_struct" {
        tid = ".scx.tid",
        sticky_cpu = ".scx.sticky_cpu",
        holding_cpu = ".scx.holding_cpu",
        disallow = ".scx.disallow",
        pid = ".pid",
        tgid = ".tgid",
        cpus_ptr = ".cpus_ptr",
        cpus_mask = ".cpus_mask",
        mm = ".mm",
        active_mm = ".active_mm",
        start_time = ".start_time",
        start_boottime = ".start_boottime",
        real_parent = ".real_parent",
        parent = ".parent",
        group_leader = ".group_leader",
        thread_pid = ".thread_pid",
        signal = ".signal",
        real_cred = ".real_cred",
        cred = ".cred",
        cgroups = ".cgroups",
        sched_task_group = ".sched_task_group",
        stack = ".stack",
        files = ".files",
        comm = ".comm",
        exit_signal = ".exit_signal",
        rt_time_slice = ".rt.time_slice",
        se_slice = ".se.slice",
        se_depth = ".se.depth",
        load_avg = ".se.avg.load_avg",
    }
}

offsets! {
    /// Members of `rq`.
    RqAt of "rq" {
        nr_running = ".nr_running",
        cpu = ".cpu",
        online = ".online",
        cpu_capacity = ".cpu_capacity",
        curr = ".curr",
        idle = ".idle",
        nr_switches = ".nr_switches",
        clock = ".clock",
        clock_task = ".clock_task",
        clock_pelt = ".clock_pelt",
        scx_nr_running = ".scx.nr_running",
        cpuperf_target = ".scx.cpuperf_target",
        local_nr = ".scx.local_dsq.nr",
        local_id = ".scx.local_dsq.id",
        cpu_released = ".scx.cpu_released",
        scx_flags = ".scx.flags",
        scx_clock = ".scx.clock",
    }
}

offsets! {
    /// Members of `scx_exit_info`.
    ExitInfoAt of "scx_exit_info" {
        kind = ".kind",
        exit_cpu = ".exit_cpu",
        exit_code = ".exit_code",
        flags = ".flags",
        reason = ".reason",
        msg = ".msg",
        dump = ".dump",
    }
}

offsets! {
    /// Members of `scx_dump_ctx`.
    DumpCtxAt of "scx_dump_ctx" {
        kind = ".kind",
        exit_code = ".exit_code",
        reason = ".reason",
        at_ns = ".at_ns",
        at_jiffies = ".at_jiffies",
    }
}

offsets! {
    /// Members of `pt_regs`, x86-64.
    PtRegsAt of "pt_regs" {
        orig_ax = ".orig_ax",
        ax = ".ax",
        di = ".di",
        si = ".si",
        dx = ".dx",
        r10 = ".r10",
        r8 = ".r8",
        r9 = ".r9",
    }
}

offsets! {
    /// Members of `cgroup` and of what hangs on it.
    CgroupAt of "cgroup" {
        kn = ".kn",
        level = ".level",
        max_depth = ".max_depth",
        nr_descendants = ".nr_descendants",
        self_cgroup = ".self.cgroup",
        flags = ".self.flags",
        serial = ".self.serial_nr",
        self_parent = ".self.parent",
        subsys = ".subsys",
        ancestors = ".ancestors",
    }
}

offsets! {
    /// Members of `task_group`: of its css, of the fair class and of sched_ext.
    TaskGroupAt of "task_group" {
        css_cgroup = ".css.cgroup",
        css_id = ".css.id",
        css_flags = ".css.flags",
        css_parent = ".css.parent",
        idle = ".idle",
        shares = ".shares",
        flags = ".scx.flags",
        weight = ".scx.weight",
        period = ".scx.bw_period_us",
        quota = ".scx.bw_quota_us",
        burst = ".scx.bw_burst_us",
        scx_idle = ".scx.idle",
    }
}

offsets! {
    /// Members of `css_set`.
    CssSetAt of "css_set" {
        subsys = ".subsys",
        dfl_cgrp = ".dfl_cgrp",
    }
}

offsets! {
    /// Members of `kernfs_node`, a directory.
    DirectoryAt of "kernfs_node" {
        id = ".id",
        name = ".name",
        parent = ".__parent",
    }
}

/// Members of open files and what hangs on them, by the last part of their names.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the kernel's names")]
pub(crate) struct FilesAt {
    pub(crate) fdt: u64,
    pub(crate) files_size: u64,
    pub(crate) max_fds: u64,
    pub(crate) fd: u64,
    pub(crate) table_size: u64,
    pub(crate) s_magic: u64,
    pub(crate) i_mode: u64,
    pub(crate) i_ino: u64,
    pub(crate) i_sb: u64,
    pub(crate) i_pipe: u64,
    pub(crate) f_inode: u64,
    pub(crate) f_op: u64,
    pub(crate) private_data: u64,
    pub(crate) f_mode: u64,
    pub(crate) socket_type: u64,
    pub(crate) socket_file: u64,
    pub(crate) socket_sk: u64,
    pub(crate) sk_socket: u64,
    pub(crate) sk_type: u64,
    pub(crate) sk_protocol: u64,
    pub(crate) skc_family: u64,
    pub(crate) skc_state: u64,
    pub(crate) skc_daddr: u64,
    pub(crate) skc_rcv_saddr: u64,
    pub(crate) skc_num: u64,
    pub(crate) skc_dport: u64,
    pub(crate) unix_peer: u64,
    pub(crate) ep_root: u64,
    pub(crate) ep_leftmost: u64,
    pub(crate) epi_node: u64,
    pub(crate) epi_file: u64,
    pub(crate) epi_fd: u64,
    pub(crate) epi_ep: u64,
    pub(crate) rb_right: u64,
}

impl FilesAt {
    fn new(btf: &Btf) -> FilesAt {
        let sock = |path: &str| at(btf, "sock", path);
        FilesAt {
            fdt: at(btf, "files_struct", ".fdt"),
            files_size: size(btf, "files_struct"),
            max_fds: at(btf, "fdtable", ".max_fds"),
            fd: at(btf, "fdtable", ".fd"),
            table_size: size(btf, "fdtable"),
            s_magic: at(btf, "super_block", ".s_magic"),
            i_mode: at(btf, "inode", ".i_mode"),
            i_ino: at(btf, "inode", ".i_ino"),
            i_sb: at(btf, "inode", ".i_sb"),
            i_pipe: at(btf, "inode", ".i_pipe"),
            f_inode: at(btf, "file", ".f_inode"),
            f_op: at(btf, "file", ".f_op"),
            private_data: at(btf, "file", ".private_data"),
            f_mode: at(btf, "file", ".f_mode"),
            socket_type: at(btf, "socket", ".type"),
            socket_file: at(btf, "socket", ".file"),
            socket_sk: at(btf, "socket", ".sk"),
            sk_socket: sock(".sk_socket"),
            sk_type: sock(".sk_type"),
            sk_protocol: sock(".sk_protocol"),
            skc_family: sock(".__sk_common.skc_family"),
            skc_state: sock(".__sk_common.skc_state"),
            skc_daddr: sock(".__sk_common.skc_daddr"),
            skc_rcv_saddr: sock(".__sk_common.skc_rcv_saddr"),
            skc_num: sock(".__sk_common.skc_num"),
            skc_dport: sock(".__sk_common.skc_dport"),
            unix_peer: at(btf, "unix_sock", ".peer"),
            ep_root: at(btf, "eventpoll", ".rbr.rb_root.rb_node"),
            ep_leftmost: at(btf, "eventpoll", ".rbr.rb_leftmost"),
            epi_node: at(btf, "epitem", ".rbn"),
            epi_file: at(btf, "epitem", ".ffd.file"),
            epi_fd: at(btf, "epitem", ".ffd.fd"),
            epi_ep: at(btf, "epitem", ".ep"),
            rb_right: at(btf, "rb_node", ".rb_right"),
        }
    }
}

/// All offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    pub(crate) task: TaskAt,
    pub(crate) rq: RqAt,
    pub(crate) exit_info: ExitInfoAt,
    pub(crate) dump_ctx: DumpCtxAt,
    pub(crate) regs: PtRegsAt,
    pub(crate) files: FilesAt,
    pub(crate) cgroup: CgroupAt,
    /// `pid.numbers[0].nr`, and the size of `pid`.
    pub(crate) pid_nr: u64,
    pub(crate) pid_size: u64,
    pub(crate) task_group: TaskGroupAt,
    pub(crate) css_set: CssSetAt,
    pub(crate) directory: DirectoryAt,
    /// Size of `signal_struct`.
    pub(crate) signal_size: u64,
    pub(crate) signal_live: u64,
    pub(crate) signal_nr_threads: u64,
    /// Size of `cred`, and where its users and groups are.
    pub(crate) cred_size: u64,
    pub(crate) cred_uids: [u64; 4],
    pub(crate) cred_gids: [u64; 4],
    pub(crate) mm_size: u64,
    pub(crate) mm_users: u64,
    pub(crate) mm_owner: u64,
}

impl Offsets {
    /// Reads the offsets from the kernel model's types.
    ///
    /// # Panics
    /// If a member is missing: the list and the types contradict each other.
    pub(crate) fn new(btf: &Btf) -> Offsets {
        Offsets {
            task: TaskAt::new(btf),
            rq: RqAt::new(btf),
            exit_info: ExitInfoAt::new(btf),
            dump_ctx: DumpCtxAt::new(btf),
            regs: PtRegsAt::new(btf),
            files: FilesAt::new(btf),
            cgroup: CgroupAt::new(btf),
            pid_nr: at(btf, "pid", ".numbers[0].nr"),
            pid_size: size(btf, "pid"),
            task_group: TaskGroupAt::new(btf),
            css_set: CssSetAt::new(btf),
            directory: DirectoryAt::new(btf),
            signal_size: size(btf, "signal_struct"),
            signal_live: at(btf, "signal_struct", ".live"),
            signal_nr_threads: at(btf, "signal_struct", ".nr_threads"),
            cred_size: size(btf, "cred"),
            cred_uids: [".uid.val", ".suid.val", ".euid.val", ".fsuid.val"].map(|path| at(btf, "cred", path)),
            cred_gids: [".gid.val", ".sgid.val", ".egid.val", ".fsgid.val"].map(|path| at(btf, "cred", path)),
            mm_size: size(btf, "mm_struct"),
            mm_users: at(btf, "mm_struct", ".mm_users"),
            mm_owner: at(btf, "mm_struct", ".owner"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_member_exists() {
        let btf = super::super::build(std::iter::empty());
        let offsets = Offsets::new(&btf);
        assert!(offsets.task.size > offsets.task.comm);
    }
}
