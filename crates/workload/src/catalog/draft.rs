//! Assembles a scenario piece by piece.

use schedlab_base::{Better, DurationNs, Nice, Policy};

use crate::identity::Identity;
use crate::measure::{CounterId, Formula, MetricSpec, SeriesSpec, SpanId};
use crate::program::{
    BarrierId, ChannelId, CondId, DiskId, ListenerId, LockId, PollId, Program, ProgramBuilder, ProgramId,
    SemId, WordId,
};
use crate::scenario::{
    Channel, ChannelKind, Disk, End, LockKind, PollKind, PollSet, ProcessId, Scenario, SemKind, Semaphore,
    TaskSpec, Watched,
};

use super::params::{CatalogError, Params};

/// What `time` tells of a command, with units; [`Draft::times`] measures it.
pub(super) const TIMES: &[(&str, &str)] = &[("real", "s"), ("user", "s"), ("sys", "s")];

/// A scenario in the making; every method hands out the index of what it adds.
pub(super) struct Draft {
    scenario: Scenario,
    next_process: u32,
}

impl Draft {
    pub(super) fn new(name: &str, params: &Params, end: End) -> Draft {
        let mut scenario = Scenario::empty(name, end);
        scenario.params = params.effective();
        Draft { scenario, next_process: 0 }
    }

    /// Adds a program. The catalogue only writes balanced ones.
    pub(super) fn program(&mut self, builder: ProgramBuilder) -> ProgramId {
        let program: Program = builder.build().expect("the catalogue writes well-formed programs");
        self.scenario.programs.push(program);
        ProgramId(self.scenario.programs.len() as u32 - 1)
    }

    pub(super) fn channel(&mut self, kind: ChannelKind, capacity: u32) -> ChannelId {
        self.scenario.channels.push(Channel { kind, capacity, peer: None });
        ChannelId(self.scenario.channels.len() as u32 - 1)
    }

    /// Both directions of one connection.
    pub(super) fn connection(&mut self, kind: ChannelKind, capacity: u32) -> (ChannelId, ChannelId) {
        let (there, back) = (self.channel(kind, capacity), self.channel(kind, capacity));
        self.scenario.channels[there.index()].peer = Some(back);
        self.scenario.channels[back.index()].peer = Some(there);
        (there, back)
    }

    pub(super) fn semaphore(&mut self, initial: u32) -> SemId {
        self.semaphore_of(SemKind::Sysv, initial)
    }

    pub(super) fn semaphore_of(&mut self, kind: SemKind, initial: u32) -> SemId {
        self.scenario.semaphores.push(Semaphore { kind, initial });
        SemId(self.scenario.semaphores.len() as u32 - 1)
    }

    pub(super) fn lock(&mut self, kind: LockKind) -> LockId {
        self.scenario.locks.push(kind);
        LockId(self.scenario.locks.len() as u32 - 1)
    }

    pub(super) fn cond(&mut self) -> CondId {
        self.scenario.conds += 1;
        CondId(self.scenario.conds - 1)
    }

    pub(super) fn barrier(&mut self, parties: u32) -> BarrierId {
        self.scenario.barriers.push(parties);
        BarrierId(self.scenario.barriers.len() as u32 - 1)
    }

    pub(super) fn poll_set(&mut self, kind: PollKind, watched: Vec<Watched>) -> PollId {
        self.scenario.polls.push(PollSet { kind, watched });
        PollId(self.scenario.polls.len() as u32 - 1)
    }

    pub(super) fn word(&mut self) -> WordId {
        self.scenario.words += 1;
        WordId(self.scenario.words - 1)
    }

    pub(super) fn disk(&mut self) -> DiskId {
        self.scenario.disks.push(Disk {});
        DiskId(self.scenario.disks.len() as u32 - 1)
    }

    pub(super) fn listener(&mut self) -> ListenerId {
        self.scenario.listeners += 1;
        ListenerId(self.scenario.listeners - 1)
    }

    pub(super) fn counter(&mut self) -> CounterId {
        self.scenario.counters += 1;
        CounterId(self.scenario.counters - 1)
    }

    pub(super) fn span(&mut self) -> SpanId {
        self.scenario.spans += 1;
        SpanId(self.scenario.spans - 1)
    }

    /// A process of its own.
    pub(super) fn process(&mut self) -> ProcessId {
        self.next_process += 1;
        ProcessId(self.next_process - 1)
    }

    /// A time-sharing task without affinity; nice 0 unless changed through the
    /// returned reference.
    pub(super) fn task(&mut self, name: String, process: ProcessId, program: ProgramId) -> &mut TaskSpec {
        self.scenario.tasks.push(TaskSpec {
            name,
            program,
            process,
            nice: Nice::ZERO,
            policy: Policy::Other,
            slice: None,
            affinity: None,
            working_set_kib: 0,
            background: false,
            group: None,
            kernel_thread: false,
            identity: Identity::default(),
        });
        self.scenario.tasks.last_mut().expect("just pushed")
    }

    /// Adds endless CPU hogs, one process each, that do not keep the run alive.
    pub(super) fn background_hogs(&mut self, count: u32) {
        use crate::program::{Amount, Op};
        if count == 0 {
            return;
        }
        let spin = ProgramBuilder::new().repeat(Amount::Forever, |b| b.op(Op::Run(DurationNs::from_ms(1))));
        let program = self.program(spin);
        for number in 0..count {
            let process = self.process();
            self.task(format!("hog/{number}"), process, program).background = true;
        }
    }

    pub(super) fn child_working_set(&mut self, kib: u32) {
        self.scenario.child.working_set_kib = kib;
    }

    /// Children of important tasks are not important.
    pub(super) fn reset_on_fork(&mut self) {
        self.scenario.child.reset_on_fork = true;
    }

    /// Reports every sample of a span.
    pub(super) fn series(&mut self, name: &str, span: SpanId) {
        self.scenario.series.push(SeriesSpec { name: name.into(), span });
    }

    pub(super) fn metric(&mut self, metric: MetricSpec) {
        self.scenario.metrics.push(metric);
    }

    /// The metrics [`TIMES`]: real time from begin to end of `span`, user and system time.
    pub(super) fn times(&mut self, span: SpanId) {
        let formulas = [Formula::MakespanSeconds(span), Formula::UserSeconds, Formula::SystemSeconds];
        for (&(name, unit), formula) in TIMES.iter().zip(formulas) {
            self.metric(MetricSpec { name: name.into(), unit, better: Better::Lower, formula });
        }
    }

    /// The checked scenario.
    pub(super) fn finish(self) -> Result<Scenario, CatalogError> {
        self.scenario.validate().map_err(|error| CatalogError(error.to_string()))?;
        Ok(self.scenario)
    }
}
