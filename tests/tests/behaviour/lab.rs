//! Scenarios in a line or two, runs of them, and what their traces show.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use schedlab_base::{CpuId, CpuMask, DurationNs, Machine, Nice, Policy, TaskId, TimeNs, TimedSetting};
use schedlab_scx::{BpfScheduler, LoadOptions};
use schedlab_sim::{Change, Class, Config, RunResult, run};
use schedlab_trace::{Event, EventKind, ExitKind, TaskState};
use schedlab_workload::{
    Amount, Attribute, Channel, ChannelId, ChannelKind, Disk, DiskId, End, Identity, Op, ProcessId,
    ProgramBuilder, ProgramId, Scenario, TaskSpec, catalog,
};

use crate::behaviour::probe::Probe;

/// Makes the objects once per run of the tests, and reads one.
pub(crate) fn object(name: &str) -> Vec<u8> {
    schedlab_tests::make_objects();
    let schedulers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schedulers");
    let path = schedulers.join(format!("build/{name}.bpf.o"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn ms(ms: u64) -> DurationNs {
    DurationNs::from_ms(ms)
}

pub(crate) fn us(us: u64) -> DurationNs {
    DurationNs(us * 1000)
}

/// A program from its operations.
pub(crate) fn program(ops: &[Op]) -> ProgramBuilder {
    ops.iter().fold(ProgramBuilder::new(), |builder, op| builder.op(*op))
}

/// Operations that repeat without end.
pub(crate) fn forever(ops: &[Op]) -> ProgramBuilder {
    ProgramBuilder::new().repeat(Amount::Forever, |b| ops.iter().fold(b, |builder, op| builder.op(*op)))
}

/// Computes without end.
pub(crate) fn hog() -> ProgramBuilder {
    forever(&[Op::Run(ms(1))])
}

/// Sleeps, then computes without end.
pub(crate) fn hog_after(sleep: DurationNs) -> ProgramBuilder {
    program(&[Op::Run(us(1)), Op::Sleep(sleep)]).repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))))
}

/// A scenario in the making. Every task is a process of its own unless said otherwise.
pub(crate) struct Load(pub(crate) Scenario);

impl Load {
    pub(crate) fn new(length: DurationNs) -> Load {
        let mut scenario = Scenario::empty("behaviour", End::After(length));
        scenario.disks.push(Disk {});
        Load(scenario)
    }

    pub(crate) fn program(&mut self, builder: ProgramBuilder) -> ProgramId {
        self.0.programs.push(builder.build().expect("a correct program"));
        ProgramId(self.0.programs.len() as u32 - 1)
    }

    pub(crate) fn pipe(&mut self) -> ChannelId {
        self.0.channels.push(Channel { kind: ChannelKind::Pipe, capacity: 4096, peer: None });
        ChannelId(self.0.channels.len() as u32 - 1)
    }

    /// A task; its number is its place.
    pub(crate) fn task(mut self, nice: i32, builder: ProgramBuilder) -> Load {
        self.add(nice, builder);
        self
    }

    pub(crate) fn add(&mut self, nice: i32, builder: ProgramBuilder) {
        let program = self.program(builder);
        let number = self.0.tasks.len() as u32;
        self.0.tasks.push(TaskSpec {
            name: format!("task/{number}"),
            program,
            process: ProcessId(number),
            nice: Nice::new(nice.into()).expect("a nice value"),
            policy: Policy::Other,
            slice: None,
            affinity: None,
            working_set_kib: 0,
            background: false,
            group: None,
            kernel_thread: false,
            identity: Identity::default(),
        });
    }

    /// The task added last is a thread of the first one's process.
    pub(crate) fn thread(mut self) -> Load {
        self.last().process = ProcessId(0);
        self
    }

    /// The task added last has this scheduling policy.
    pub(crate) fn policy(mut self, policy: Policy) -> Load {
        self.last().policy = policy;
        self
    }

    /// The task added last may only use this CPU.
    pub(crate) fn on(mut self, cpu: u32) -> Load {
        self.last().affinity = Some(CpuMask::single(CpuId(cpu)).into());
        self
    }

    fn last(&mut self) -> &mut TaskSpec {
        self.0.tasks.last_mut().expect("a task was added")
    }
}

/// One request to the scenario's disk: an uninterruptible sleep.
pub(crate) fn disk(service: DurationNs) -> Op {
    Op::Io { disk: DiskId(0), service }
}

/// Hogs with these nice values, one process each.
pub(crate) fn hogs(length: DurationNs, nice: &[i32]) -> Load {
    nice.iter().fold(Load::new(length), |load, nice| load.task(*nice, hog()))
}

/// A scheduler with settings, on a machine.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    name: &'static str,
    settings: Vec<(String, String)>,
    writes: Vec<TimedSetting>,
    cpus: usize,
    hz: u32,
    members: Vec<&'static str>,
    variables: Vec<&'static str>,
    changes: Vec<Change>,
    events: bool,
}

impl Lab {
    /// One CPU, HZ 1000.
    pub(crate) fn new(name: &'static str) -> Lab {
        Lab {
            name,
            settings: Vec::new(),
            writes: Vec::new(),
            cpus: 1,
            hz: 1000,
            members: Vec::new(),
            variables: Vec::new(),
            changes: Vec::new(),
            events: true,
        }
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Lab {
        self.settings.push((name.to_string(), value.to_string()));
        self
    }

    /// A variable changes while it runs; as `--set-at` has it.
    pub(crate) fn set_at(mut self, change: &str) -> Lab {
        self.writes.push(change.parse().expect("TIME:VARIABLE=VALUE"));
        self
    }

    pub(crate) fn cpus(mut self, cpus: usize) -> Lab {
        self.cpus = cpus;
        self
    }

    pub(crate) fn hz(mut self, hz: u32) -> Lab {
        self.hz = hz;
        self
    }

    /// Members of `struct task` to sample.
    pub(crate) fn watch(mut self, members: &[&'static str]) -> Lab {
        self.members = members.to_vec();
        self
    }

    /// Variables to read after each pick.
    pub(crate) fn watch_picks(mut self, variables: &[&'static str]) -> Lab {
        self.variables = variables.to_vec();
        self
    }

    /// From outside, at this time after the start, a task is given another nice value, policy or CPU mask.
    pub(crate) fn change(mut self, after: DurationNs, task: u32, attribute: Attribute) -> Lab {
        self.changes.push(Change { at: TimeNs(after.0), task: TaskId(task), attribute });
        self
    }

    /// Long runs: keep no trace.
    pub(crate) fn without_events(mut self) -> Lab {
        self.events = false;
        self
    }

    /// Runs a scenario; the scheduler must stay to the end.
    pub(crate) fn run(&self, load: Load) -> Seen {
        self.run_scenario(&load.0)
    }

    pub(crate) fn run_catalog(&self, spec: &str) -> Seen {
        self.run_scenario(&catalog::build(spec, 1).expect("a workload of the catalogue"))
    }

    fn run_scenario(&self, scenario: &Scenario) -> Seen {
        let mut machine = Machine::uniform("test", self.cpus);
        machine.hz = self.hz;
        let (settings, writes) = (self.settings.clone(), self.writes.clone());
        let options = LoadOptions { settings, changes: writes, ..LoadOptions::default() };
        let scheduler = BpfScheduler::load(self.name, &object(self.name), &options, &machine);
        let probe = Probe::new(scheduler.expect("the object loads"), &self.members, &self.variables);
        let events = Rc::new(RefCell::new(Vec::new()));
        let mut config = Config { checkers: true, changes: self.changes.clone(), ..Config::new(machine, 1) };
        if self.events {
            config.sinks.push(events.clone());
        }
        let result = run(&config, scenario, Class::Ext(probe)).expect("a correct scenario");
        assert_eq!(result.exit.kind, ExitKind::None, "{}: {:?}", self.name, result.exit);
        let events = std::mem::take(&mut *events.borrow_mut());
        Seen { result, events }
    }
}

/// A finished run.
pub(crate) struct Seen {
    pub(crate) result: RunResult<Probe>,
    pub(crate) events: Vec<Event>,
}

/// A task on a CPU, from switch to switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stint {
    pub(crate) task: TaskId,
    pub(crate) cpu: CpuId,
    pub(crate) begin: TimeNs,
    pub(crate) length: DurationNs,
    pub(crate) state: TaskState,
}

impl Seen {
    pub(crate) fn probe(&self) -> &Probe {
        self.result.scheduler.as_ref().expect("the scheduler is given back")
    }

    /// One of the scheduler's counters.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.probe().variable(name)
    }

    /// The lengths in ms of what the workload measures first, in the order of their ends: its iterations.
    pub(crate) fn iterations(&self) -> Vec<f64> {
        let spans = &self.result.measurements.spans[0];
        spans.samples().iter().map(|sample| sample.length().0 as f64 / 1e6).collect()
    }

    /// A task's share of one CPU.
    pub(crate) fn share(&self, task: usize) -> f64 {
        self.result.tasks[task].share
    }

    /// What ran when, in order of the ends; what still ran at the end is left out.
    pub(crate) fn stints(&self) -> Vec<Stint> {
        let mut since = std::collections::BTreeMap::new();
        let mut stints = Vec::new();
        for event in &self.events {
            let EventKind::SchedSwitch { prev, prev_state, next } = event.kind else { continue };
            if let (Some(task), Some(begin)) = (prev, since.remove(&event.cpu)) {
                let length = event.time.since(begin);
                stints.push(Stint { task, cpu: event.cpu, begin, length, state: prev_state });
            }
            if next.is_some() {
                since.insert(event.cpu, event.time);
            }
        }
        stints
    }

    /// The lengths in ms of the stints that `task` did not end by itself.
    pub(crate) fn lengths(&self, task: u32) -> Vec<f64> {
        let mine = |stint: &&Stint| stint.task == TaskId(task) && stint.state == TaskState::Runnable;
        self.stints().iter().filter(mine).map(|stint| stint.length.0 as f64 / 1e6).collect()
    }

    /// For each wakeup of `task`: when it was, and how long until the task ran.
    pub(crate) fn latencies(&self, task: u32) -> Vec<(TimeNs, DurationNs)> {
        let task = TaskId(task);
        let (mut woken, mut found) = (None, Vec::new());
        for event in &self.events {
            match event.kind {
                EventKind::SchedWakeup { task: wakee, .. } if wakee == task => woken = Some(event.time),
                EventKind::SchedSwitch { next: Some(next), .. } if next == task => {
                    found.extend(woken.take().map(|woken| (woken, event.time.since(woken))));
                }
                _ => {}
            }
        }
        found
    }

    /// Stints on another CPU than the task's one before.
    pub(crate) fn migrations(&self) -> Vec<Stint> {
        let mut last = std::collections::BTreeMap::new();
        let mut stints = self.stints();
        stints.retain(|s| last.insert(s.task, s.cpu).is_some_and(|cpu| cpu != s.cpu));
        stints
    }

    /// How many of them begin after `from`.
    pub(crate) fn migrations_after(&self, from: DurationNs) -> usize {
        self.migrations().iter().filter(|s| s.begin.0 > from.0).count()
    }
}

/// `left` and `right` differ by at most `by`.
#[track_caller]
pub(crate) fn near(left: f64, right: f64, by: f64) {
    assert!((left - right).abs() <= by, "{left} is not {right} (within {by})");
}

/// Each of `values`, of which there are at least `least`, is `expected` within `by`.
#[track_caller]
pub(crate) fn all_near(values: &[f64], least: usize, expected: f64, by: f64) {
    assert!(values.len() >= least, "{} values, {least} wanted: {values:?}", values.len());
    assert!(values.iter().all(|value| (value - expected).abs() <= by), "not all {expected}: {values:?}");
}
