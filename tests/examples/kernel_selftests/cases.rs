//! The tests: what their user-space parts do and expect.

/// A test, or a part of one.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// The test's name, and which part.
    pub(crate) name: &'static str,
    /// The test's object, without the ending.
    pub(crate) object: &'static str,
    /// Which scheduler of the object; empty where there is one.
    pub(crate) scheduler: &'static str,
    /// For the page: what is done.
    pub(crate) about: &'static str,
    pub(crate) workload: &'static str,
    /// Besides object, workload and three CPUs.
    pub(crate) flags: &'static [&'static str],
    pub(crate) expected: Expected,
    /// What counters come to.
    pub(crate) counters: &'static [(&'static str, Holds)],
    /// What tasks have at least of a CPU.
    pub(crate) shares: &'static [(&'static str, f64)],
}

/// How it ends.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    /// The scheduler stays to the end.
    Stays,
    /// The scheduler leaves with this kind and words of this message.
    Exit(&'static str, &'static str),
    /// The object is refused with words of this.
    Refused(&'static str),
}

/// What holds of a counter.
#[derive(Clone, Copy)]
pub(crate) enum Holds {
    Is(u64),
    AtLeast(u64),
    /// The counter is what another counter is.
    Same(&'static str),
}

impl Holds {
    pub(crate) fn holds(self, value: u64, of: &dyn Fn(&str) -> u64) -> bool {
        match self {
            Holds::Is(expected) => value == expected,
            Holds::AtLeast(least) => value >= least,
            Holds::Same(other) => value == of(other),
        }
    }
}

/// Workers that compute and sleep, and hogs: plenty of scheduling events.
const BUSY: &str = "
name = 'selftest'
end = '1s'
[programs]
worker = ['repeat forever', 'run 30us', 'sleep 1ms', 'done']
hog = ['repeat forever', 'run 1ms', 'done']
[[tasks]]
name = 'worker'
program = 'worker'
count = 8
[[tasks]]
name = 'hog'
program = 'hog'
count = 4
";

/// Children that are forked, sleep and exit, and are waited for.
const CHILDREN: &str = "
name = 'children'
end = '3s'
[programs]
parent = ['repeat 20', 'fork child', 'done', 'repeat 20', 'wait-child', 'done']
child = ['sleep 1s', 'exit']
[[tasks]]
name = 'parent'
program = 'parent'
";

/// Workers whose affinity is changed while they wait.
const HAMMERED: &str = "
name = 'hammered'
end = '1s'
[programs]
worker = ['repeat forever', 'run 30us', 'sleep 1ms', 'done']
hammer = ['repeat forever', 'cpus worker/0 0', 'cpus worker/1 1', 'cpus worker/2 2', 'sleep 500us', 'cpus worker/0 0-2', 'cpus worker/1 0-2',
  'cpus worker/2 0-2', 'sleep 500us', 'done']
[[tasks]]
name = 'worker'
program = 'worker'
count = 8
[[tasks]]
name = 'hammer'
program = 'hammer'
";

/// Four workers pinned to each of three CPUs, which wake and sleep all the time.
const PINNED: &str = "
name = 'pinned'
end = '5s'
[programs]
worker = ['repeat forever', 'run 50us', 'yield', 'run 20us', 'sleep 100us', 'done']
[[tasks]]
name = 'a'
program = 'worker'
count = 4
cpus = [0]
[[tasks]]
name = 'b'
program = 'worker'
count = 4
cpus = [1]
[[tasks]]
name = 'c'
program = 'worker'
count = 4
cpus = [2]
";

/// A CPU goes offline and comes back.
const OFFLINE: &str = "
name = 'offline'
end = '1s'
changes = ['300ms cpu 1 offline', '600ms cpu 1 online']
[programs]
hog = ['repeat forever', 'run 1ms', 'done']
[[tasks]]
name = 'hog'
program = 'hog'
count = 2
";

/// Children take the policy ext, change their affinity and fork.
const CMASK: &str = "
name = 'cmask'
end = '1s'
[programs]
child0 = ['cpus self 0', 'policy self ext', 'fork grandchild', 'cpus self 1', 'run 5ms', 'cpus self 2', 'run 5ms', 'wait-child']
child1 = ['cpus self 1', 'policy self ext', 'fork grandchild', 'cpus self 2', 'run 5ms', 'cpus self 0', 'run 5ms', 'wait-child']
grandchild = ['run 20ms']
[[tasks]]
name = 'even'
program = 'child0'
count = 4
[[tasks]]
name = 'odd'
program = 'child1'
count = 4
";

/// A real-time and a normal task on one CPU.
const STALL: &str = "
name = 'stall'
end = '5s'
[programs]
hog = ['repeat forever', 'run 1ms', 'done']
[[tasks]]
name = 'ext'
program = 'hog'
policy = 'ext'
cpus = [0]
[[tasks]]
name = 'fifo'
program = 'hog'
policy = 'fifo:50'
cpus = [0]
";

/// Tasks that are there before the scheduler and end while it is attached, and children that are forked then.
const COUNTED: &str = "
name = 'counted'
end = '2s'
[programs]
before = ['sleep 1s', 'exit']
parent = ['sleep 500ms', 'repeat 5', 'fork ext', 'done', 'repeat 5', 'fork normal', 'done', 'repeat 10', 'wait-child', 'done']
ext = ['policy self ext', 'run 10us', 'exit']
normal = ['run 10us', 'exit']
[[tasks]]
name = 'before'
program = 'before'
count = 100
[[tasks]]
name = 'parent'
program = 'parent'
";

const CASE: Case = Case {
    name: "",
    object: "",
    scheduler: "",
    about: "workers and hogs for 1 s",
    workload: BUSY,
    flags: &[],
    expected: Expected::Stays,
    counters: &[],
    shares: &[],
};

/// Runs for a second and stays.
const fn stays(name: &'static str) -> Case {
    Case { name, object: name, ..CASE }
}

/// Runs until the scheduler is ejected.
const fn fails(name: &'static str, words: &'static str) -> Case {
    Case { expected: Expected::Exit("error", words), ..stays(name) }
}

const fn exits(name: &'static str, flags: &'static [&'static str], code: &'static str) -> Case {
    Case {
        name,
        object: "exit",
        flags,
        expected: Expected::Exit("unreg_bpf", code),
        about: "leaves at this callback",
        ..CASE
    }
}

const fn dequeues(name: &'static str, flags: &'static [&'static str], custody: bool) -> Case {
    let counters: &[(&str, Holds)] = if custody {
        &[("enqueue_cnt", Holds::AtLeast(1)), ("dequeue_cnt", Holds::Same("enqueue_cnt"))]
    } else {
        &[("enqueue_cnt", Holds::Is(0)), ("dequeue_cnt", Holds::Is(0))]
    };
    Case {
        name,
        object: "dequeue",
        flags,
        workload: HAMMERED,
        about: "workers whose affinity changes while they wait",
        counters,
        ..CASE
    }
}

/// Pid of the first task, as the context of a program.
const PICK: &[&str] = &["--run-prog-at", "500ms:select_cpu_from_user:e903000000000000"];

/// All that can be expressed.
pub(crate) const CASES: &[Case] = &[
    Case {
        flags: PICK,
        about: "workers and hogs for 1 s; a program picks an idle CPU at 500 ms",
        ..stays("allowed_cpus")
    },
    stays("create_dsq"),
    Case {
        name: "cyclic_kick_wait",
        object: "cyclic_kick_wait",
        flags: &["--set", "test_cpu_a=0", "--set", "test_cpu_b=1", "--set", "test_cpu_c=2"],
        workload: PINNED,
        about: "four workers on each of three CPUs, which kick and wait for each other, for 5 s",
        ..CASE
    },
    fails("ddsp_bogus_dsq_fail", "non-existent DSQ 0xcafef00d"),
    fails("ddsp_vtimelocal_fail", "cannot use vtime ordering for built-in DSQs"),
    dequeues("dequeue: local DSQ from select_cpu", &["--set", "test_scenario=0"], false),
    dequeues("dequeue: global DSQ from select_cpu", &["--set", "test_scenario=1"], false),
    dequeues("dequeue: user DSQ from select_cpu", &["--set", "test_scenario=2"], true),
    dequeues("dequeue: local DSQ from enqueue", &["--set", "test_scenario=3"], false),
    dequeues("dequeue: global DSQ from enqueue", &["--set", "test_scenario=4"], false),
    dequeues("dequeue: user DSQ from enqueue", &["--set", "test_scenario=5"], true),
    dequeues("dequeue: BPF queue from enqueue", &["--set", "test_scenario=6"], true),
    Case { counters: &[("dq_count", Holds::AtLeast(10))], workload: HAMMERED, ..stays("dequeue_iter") },
    Case {
        counters: &[("remote_running_cnt", Holds::AtLeast(1)), ("dequeue_cnt", Holds::Same("enqueue_cnt"))],
        ..stays("dequeue_remote")
    },
    Case {
        name: "dequeue_remote: move to local",
        flags: &["--set", "test_use_move_to_local=1"],
        counters: &[("remote_running_cnt", Holds::AtLeast(1)), ("dequeue_cnt", Holds::Same("enqueue_cnt"))],
        ..stays("dequeue_remote")
    },
    stays("dsp_local_on"),
    Case {
        workload: CMASK,
        about: "children that take the policy ext, change their affinity and fork",
        counters: &[
            ("nr_enable", Holds::AtLeast(16)),
            ("nr_initial_set_cmask", Holds::Same("nr_enable")),
            ("nr_set_cmask", Holds::AtLeast(17)),
            ("nr_set_weight", Holds::AtLeast(16)),
        ],
        ..stays("enable_cmask")
    },
    fails("enq_last_no_enq_fails", "SCX_OPS_ENQ_LAST requires ops.enqueue()"),
    Case {
        flags: PICK,
        about: "workers and hogs for 1 s; a program picks an idle CPU at 500 ms",
        ..stays("enq_select_cpu")
    },
    exits("exit: select_cpu", &["--set", "exit_point=0"], "0"),
    exits("exit: enqueue", &["--set", "exit_point=1"], "1"),
    exits("exit: dispatch", &["--set", "exit_point=2"], "2"),
    exits("exit: enable", &["--set", "exit_point=3"], "3"),
    exits("exit: init_task", &["--set", "exit_point=4"], "4"),
    exits("exit: init", &["--set", "exit_point=5"], "5"),
    Case {
        name: "hotplug: with callbacks",
        object: "hotplug",
        scheduler: "hotplug_cb_ops",
        workload: OFFLINE,
        about: "a CPU goes offline",
        expected: Expected::Exit("unreg_bpf", "hotplug event detected (1 going offline)"),
        ..CASE
    },
    Case {
        name: "hotplug: without callbacks",
        object: "hotplug",
        scheduler: "hotplug_nocb_ops",
        workload: OFFLINE,
        about: "a CPU goes offline",
        expected: Expected::Exit("unreg_kern", "cpu 1 going offline, exiting scheduler"),
        ..CASE
    },
    Case {
        name: "init_enable_count: all tasks",
        object: "init_enable_count",
        flags: &["--attach-at", "200ms"],
        workload: COUNTED,
        about: "100 tasks before attach, ten forked after it",
        counters: &[
            ("init_task_cnt", Holds::AtLeast(110)),
            ("enable_cnt", Holds::AtLeast(10)),
            ("init_transition_cnt", Holds::AtLeast(101)),
            ("init_fork_cnt", Holds::AtLeast(10)),
        ],
        ..CASE
    },
    Case {
        name: "init_enable_count: SCX_OPS_SWITCH_PARTIAL",
        object: "init_enable_count",
        flags: &["--attach-at", "200ms", "--set", "ops.flags=8"],
        workload: COUNTED,
        about: "the same; the five of the policy ext alone are enabled",
        counters: &[
            ("init_task_cnt", Holds::AtLeast(110)),
            ("enable_cnt", Holds::Is(5)),
            ("disable_cnt", Holds::Is(5)),
        ],
        ..CASE
    },
    stays("maximal"),
    Case {
        name: "maybe_null",
        about: "a dispatch() that looks whether it has a task",
        ..stays("maybe_null")
    },
    stays("minimal"),
    Case {
        expected: Expected::Refused("the kernel has no struct_ops of type `tcp_congestion_ops`"),
        about: "an object that is no scheduler is refused",
        ..stays("non_scx_kfunc_deny")
    },
    Case {
        flags: &["--set", "ops.flags=64"],
        about: "workers and hogs for 1 s, with SCX_OPS_BUILTIN_IDLE_PER_NODE",
        ..stays("numa")
    },
    Case {
        counters: &[
            ("dsq_peek_result1", Holds::Is(0)),
            ("dsq_peek_result2", Holds::Same("dsq_peek_result2_expected")),
            ("debug_ksym_exists", Holds::Is(1)),
            ("successful_peeks", Holds::AtLeast(1)),
        ],
        ..stays("peek_dsq")
    },
    Case {
        flags: &["--run-prog-at", "500ms:prog_run_syscall"],
        about: "a program of SEC(\"syscall\") ends the scheduler at 500 ms",
        expected: Expected::Exit("unreg_bpf", "Exited from PROG_RUN"),
        ..stays("prog_run")
    },
    Case {
        workload: STALL,
        about: "a real-time and a sched_ext task on one CPU for 5 s",
        shares: &[("ext", 0.04)],
        ..stays("rt_stall")
    },
    Case {
        workload: CHILDREN,
        about: "20 children that sleep for 1 s and exit",
        counters: &[("saw_local", Holds::Is(0))],
        ..stays("select_cpu_dfl")
    },
    Case {
        workload: CHILDREN,
        about: "20 children that sleep for 1 s and exit",
        counters: &[("saw_local", Holds::Is(1))],
        ..stays("select_cpu_dfl_nodispatch")
    },
    Case {
        workload: CHILDREN,
        about: "20 children that sleep for 1 s and exit",
        ..stays("select_cpu_dispatch")
    },
    fails("select_cpu_dispatch_bad_dsq", "non-existent DSQ 0xcafef00d"),
    fails("select_cpu_dispatch_dbl_dsp", "already direct-dispatched"),
    Case { counters: &[("consumed", Holds::Is(1))], ..stays("select_cpu_vtime") },
];

/// What cannot be expressed, and why.
pub(crate) const UNEXPRESSED: &[(&str, &str)] = &[
    (
        "maybe_null (failing objects)",
        "the kernel's verifier refuses them at load; here a NULL task is an error when it is read",
    ),
    ("nohz_tick", "CPUs whose tick is stopped by `nohz_full=` are not modelled"),
    (
        "reload_loop",
        "one scheduler is attached once in a run; two threads that attach and detach 1,024 times are none",
    ),
    (
        "hotplug: offline before attach",
        "`ops.hotplug_seq` of a loader that saw another state is a loader's; `crates/sim/tests/all/hotplug.rs` has it",
    ),
    ("total_bw", "reads /sys/kernel/debug and changes the servers' parameters, which are fixed here"),
];
