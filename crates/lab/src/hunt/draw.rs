//! Draws a case from a seed: machine, load and tunables. Each seed turns some kinds of load off altogether, so that
//! rare mixtures come up.

use schedlab_base::{Cpu, CpuId, CpuMask, DurationNs, Machine, Nice, Policy, Presence, Prng};
use schedlab_workload::{
    Amount, Attribute, BarrierId, ChangeId, Channel, ChannelId, ChannelKind, Disk, DiskId, End, Identity,
    LockId, LockKind, Op, ProcessId, ProgramBuilder, ProgramId, Scenario, SemId, SemKind, Semaphore, TaskRef,
    TaskSpec, TimerSlot,
};

use super::case::Case;
use super::tunables::Tunable;

impl Case {
    /// The case of a seed for a scheduler with these tunables. Machine and load depend on the seed alone.
    pub fn draw(seed: u64, tunables: &[Tunable]) -> Case {
        let mut prng = Prng::new(seed);
        let machine = machine(&mut prng);
        let scenario = Draft::new(prng, machine.cpu_count()).scenario();
        drawn(seed, machine, scenario, tunables)
    }

    /// The case of a seed for a hunt: few CPUs and tasks, in runs long enough for a task to starve. CPUs leave and return, and a
    /// scheduler may come late or leave early. A scheduler with a loader of its own is always there (`stays`).
    pub fn draw_small(seed: u64, tunables: &[Tunable], stays: bool) -> Case {
        let mut prng = Prng::new(seed);
        let machine = small_machine(&mut prng);
        let mut draft = Draft::new(Prng::stream(seed, 2), machine.cpu_count());
        draft.shorten();
        let scenario = draft.scenario();
        let mut case = drawn(seed, machine, scenario, tunables);
        if !stays {
            case.presence = presence(&mut prng, case.length());
        }
        case
    }

    /// The same load on cores of one thread that share their cache. There the checker bounds how long a CPU of the fair class
    /// idles beside a task that waits.
    pub fn draw_flat(seed: u64) -> Case {
        let mut case = Case::draw(seed, &[]);
        for (number, cpu) in (0u32..).zip(&mut case.machine.cpus) {
            *cpu = Cpu { core: number, llc: 0, node: 0 };
        }
        case
    }
}

/// The case of a seed with this machine and load; its settings are drawn.
fn drawn(seed: u64, machine: Machine, scenario: Scenario, tunables: &[Tunable]) -> Case {
    Case {
        seed,
        machine,
        scenario,
        settings: settings(&mut Prng::stream(seed, 1), tunables),
        presence: Presence::default(),
        kernel: None,
        interleave: None,
        checked: true,
    }
}

/// 1 to 64 CPUs, small numbers often; cores of one or two threads, one or two caches.
fn machine(prng: &mut Prng) -> Machine {
    let cpus = match prng.below(8) {
        0 | 1 => 1,
        2 | 3 => 2,
        4 | 5 => 3 + prng.below(6) as usize,
        _ => 1 + prng.below(64) as usize,
    };
    let mut machine = Machine::uniform("swarm", cpus);
    machine.hz = [100, 250, 300, 1000][prng.below(4) as usize];
    let (smt, caches) = (1 + prng.below(2) as u32, 1 + prng.below(2) as u32);
    for (number, cpu) in (0u32..).zip(&mut machine.cpus) {
        let core = number / smt;
        *cpu = Cpu { core, llc: core % caches, node: 0 };
    }
    machine
}

/// 1 to 4 CPUs, rarely up to 8; cores of one or two threads, one or two caches.
pub(super) fn small_machine(prng: &mut Prng) -> Machine {
    let most = if prng.chance(1, 12) { 8 } else { 4 };
    let cpus = 1 + prng.below(most) as usize;
    let mut machine = Machine::uniform("hunt", cpus);
    machine.hz = [100, 250, 300, 1000][prng.below(4) as usize];
    let (smt, caches) = (1 + prng.below(4) as u32 / 3, 1 + prng.below(4) as u32 / 3);
    for (number, cpu) in (0u32..).zip(&mut machine.cpus) {
        let core = number / smt;
        *cpu = Cpu { core, llc: core % caches, node: 0 };
    }
    machine
}

/// Three of four schedulers are there from start to end; the others come or leave within the run.
pub(super) fn presence(prng: &mut Prng, length: DurationNs) -> Presence {
    let part = |prng: &mut Prng| DurationNs(length.0 / 1000 * (1 + prng.below(500)));
    let attach = prng.chance(1, 5).then(|| part(prng));
    let detach = prng.chance(1, 20).then(|| DurationNs(length.0 / 2 + part(prng).0));
    Presence { attach, detach }
}

/// Half of the seeds leave the defaults; the others change up to three tunables.
fn settings(prng: &mut Prng, tunables: &[Tunable]) -> Vec<(String, String)> {
    let count = if tunables.is_empty() || prng.chance(1, 2) { 0 } else { 1 + prng.below(3) };
    let mut settings: Vec<(String, String)> = Vec::new();
    for _ in 0..count {
        let tunable = &tunables[prng.below(tunables.len() as u64) as usize];
        settings.retain(|(name, _)| *name != tunable.name);
        settings.push((tunable.name.clone(), tunable.draw(prng)));
    }
    settings
}

/// The kinds of load; a seed has some of them.
const KINDS: [fn(&mut Draft); 11] = [
    Draft::hog,
    Draft::sleeper,
    Draft::sleeper,
    Draft::yielder,
    Draft::forker,
    Draft::pipe_pair,
    Draft::semaphore_pair,
    Draft::lockers,
    Draft::barrier,
    Draft::disk_user,
    Draft::periodic,
];

/// A scenario in the making.
struct Draft {
    prng: Prng,
    cpus: usize,
    scenario: Scenario,
    /// Features of this seed, a bit each.
    features: u64,
    long: bool,
    /// For a hunt: few tasks, and CPUs leave and return.
    small: bool,
}

impl Draft {
    fn new(mut prng: Prng, cpus: usize) -> Draft {
        let features = prng.next_u64();
        // Long enough for the watchdog to see a task that starves, with little else to run.
        let long = cpus <= 4 && prng.chance(1, 100);
        let length = if long { 35_000 } else { 50 + prng.below(250) };
        let mut scenario = Scenario::empty("swarm", End::After(DurationNs::from_ms(length)));
        scenario.disks.push(Disk {});
        scenario.child.working_set_kib = prng.below(64) as u32;
        Draft { prng, cpus, scenario, features, long, small: false }
    }

    /// Makes it the load of a hunt. One in sixteen lasts longer than the watchdog's time.
    fn shorten(&mut self) {
        self.small = true;
        self.scenario.name = "hunt".to_string();
        self.long = self.prng.chance(1, 16);
        let length = match self.below(4) {
            // A watchdog of 30 s looks every 15 s: what hangs from the start on is seen after 45 s.
            _ if self.long => 47_000,
            0 | 1 => 200 + self.below(800),
            _ => 1000 + self.below(5000),
        };
        self.scenario.end = End::After(DurationNs::from_ms(length));
    }

    fn has(&self, feature: u32) -> bool {
        self.features >> feature & 1 != 0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    /// A span of up to `most` microseconds, of any order of magnitude from tens up; longer in long runs.
    fn span(&mut self, most: u64) -> DurationNs {
        let scale = if self.long { 20 } else { 1 };
        let shift = self.below(8);
        DurationNs::from_us(scale * (20 + self.below((most >> shift).max(1))))
    }

    fn scenario(mut self) -> Scenario {
        let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| self.has(*kind as u32)).collect();
        let most = match (self.long, self.small) {
            (true, _) => 6,
            (false, true) => [2, 4, 8][self.below(3) as usize],
            (false, false) => [4, 12, 40][self.below(3) as usize],
        };
        let groups = 1 + self.below(most);
        for _ in 0..groups {
            let kind = if kinds.is_empty() { 0 } else { kinds[self.below(kinds.len() as u64) as usize] };
            KINDS[kind](&mut self);
        }
        if self.has(20) {
            self.churn();
        }
        self.scenario
    }

    fn program(&mut self, builder: ProgramBuilder) -> ProgramId {
        self.scenario.programs.push(builder.build().expect("a correct program"));
        ProgramId(self.scenario.programs.len() as u32 - 1)
    }

    /// A task that does `ops` without end, after a moment in some seeds.
    fn repeats(&mut self, name: &str, ops: &[Op]) {
        let late = self.has(21).then(|| self.span(20_000));
        let start = late.map_or_else(ProgramBuilder::new, |span| ProgramBuilder::new().op(Op::Sleep(span)));
        let builder = start.repeat(Amount::Forever, |b| ops.iter().fold(b, |b, op| b.op(*op)));
        let program = self.program(builder);
        self.task(name, program);
    }

    fn task(&mut self, name: &str, program: ProgramId) {
        let number = self.scenario.tasks.len() as u32;
        let mut task = TaskSpec {
            name: format!("{name}/{number}"),
            program,
            process: ProcessId(if self.has(22) { number / 3 } else { number }),
            nice: Nice::ZERO,
            policy: Policy::Other,
            slice: None,
            affinity: None,
            working_set_kib: if self.has(23) { self.below(500) as u32 } else { 0 },
            background: false,
            group: None,
            kernel_thread: false,
            identity: Identity::default(),
        };
        if self.has(24) {
            task.nice = self.nice();
        }
        if self.has(25) && self.prng.chance(1, 3) {
            task.affinity = Some(self.cpu_mask().into());
        }
        // In half of the loads of a hunt no task of a real-time policy hides what starves.
        if self.has(26) && !self.long && !(self.small && self.has(29)) {
            task.policy = self.policy();
        }
        self.scenario.tasks.push(task);
    }

    fn nice(&mut self) -> Nice {
        Nice::new(self.below(40) as i64 - 20).expect("in range")
    }

    fn policy(&mut self) -> Policy {
        match self.below(8) {
            0 => Policy::Fifo(1 + self.below(98) as u8),
            1 => Policy::Rr(1 + self.below(98) as u8),
            2 => Policy::Batch,
            3 => Policy::Idle,
            _ => Policy::Other,
        }
    }

    fn cpu_mask(&mut self) -> CpuMask {
        let cpus = self.cpus as u64;
        let mut mask = CpuMask::single(CpuId(self.below(cpus) as u32));
        for _ in 0..self.below(3) {
            mask.set(CpuId(self.below(cpus) as u32));
        }
        mask
    }

    fn hog(&mut self) {
        let run = Op::Run(self.span(5_000));
        self.repeats("hog", &[run]);
    }

    fn sleeper(&mut self) {
        let ops = [Op::Run(self.span(3_000)), Op::Sleep(self.span(20_000))];
        self.repeats("sleeper", &ops);
    }

    fn yielder(&mut self) {
        let ops = [Op::Run(self.span(500)), Op::Yield];
        self.repeats("yielder", &ops);
    }

    fn forker(&mut self) {
        let mut child = ProgramBuilder::new();
        if self.has(27) {
            child = child.op(Op::Exec);
        }
        child = child.op(Op::Run(self.span(3_000)));
        if self.has(28) {
            child = child.op(Op::Sleep(self.span(3_000))).op(Op::Run(self.span(1_000)));
        }
        let program = self.program(child);
        let pause = Op::Sleep(DurationNs(self.span(5_000).0 + 1_000_000));
        let fork = Op::Fork { program };
        match self.below(3) {
            0 => self.repeats("forker", &[fork, Op::WaitChild]),
            1 => self.repeats(
                "forker",
                &[fork, fork, Op::Run(DurationNs::from_us(50)), Op::WaitChild, Op::WaitChild],
            ),
            // No task waits for these.
            _ => self.repeats("forker", &[fork, pause]),
        }
    }

    fn pipe_pair(&mut self) {
        let first = self.scenario.channels.len() as u32;
        let kind = [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp][self.below(3) as usize];
        let connected = kind != ChannelKind::Pipe;
        for peer in [first + 1, first] {
            let peer = connected.then_some(ChannelId(peer));
            self.scenario.channels.push(Channel { kind, capacity: 4096, peer });
        }
        let (there, back) = (ChannelId(first), ChannelId(first + 1));
        let bytes = 1 + self.below(512) as u32;
        let send = |channel| Op::Send { channel, bytes };
        let recv = |channel| Op::Recv { channel, bytes };
        let (ask, answer) = (Op::Run(self.span(500)), Op::Run(self.span(500)));
        self.repeats("client", &[send(there), ask, recv(back)]);
        self.repeats("server", &[recv(there), answer, send(back)]);
    }

    fn semaphore_pair(&mut self) {
        let sem = SemId(self.scenario.semaphores.len() as u32);
        self.scenario.semaphores.push(Semaphore { initial: 0, kind: SemKind::Sysv });
        let (work, pause) = (Op::Run(self.span(2_000)), Op::Sleep(self.span(3_000)));
        let consume = Op::Run(self.span(1_000));
        let units = 1 + self.below(3) as u32;
        self.repeats("producer", &[work, Op::SemPost { sem, units }, pause]);
        for _ in 0..units {
            self.repeats("consumer", &[Op::SemWait(sem), consume]);
        }
    }

    fn lockers(&mut self) {
        let lock = LockId(self.scenario.locks.len() as u32);
        self.scenario.locks.push(LockKind::Futex);
        for _ in 0..2 + self.below(3) {
            let (inside, outside) = (Op::Run(self.span(300)), Op::Run(self.span(1_000)));
            self.repeats("locker", &[Op::Lock(lock), inside, Op::Unlock(lock), outside]);
        }
    }

    fn barrier(&mut self) {
        let barrier = BarrierId(self.scenario.barriers.len() as u32);
        let parties = 2 + self.below(4) as u32;
        self.scenario.barriers.push(parties);
        for _ in 0..parties {
            let work = Op::Run(self.span(2_000));
            self.repeats("party", &[work, Op::Barrier(barrier)]);
        }
    }

    fn disk_user(&mut self) {
        let io = Op::Io { disk: DiskId(0), service: self.span(5_000) };
        let run = Op::Run(self.span(1_000));
        self.repeats("reader", &[io, run]);
        let sync = Op::Fsync { disk: DiskId(0), service: self.span(5_000) };
        let kernel = Op::RunKernel(self.span(500));
        self.repeats("writer", &[kernel, sync]);
    }

    fn periodic(&mut self) {
        let period = self.span(20_000);
        let run = Op::Run(self.span(2_000));
        self.repeats("periodic", &[Op::TimerWait { timer: TimerSlot(0), period, absolute: false }, run]);
    }

    /// A real-time task that changes attributes of the others all the time, as `taskset`, `renice` and `chrt` do.
    fn churn(&mut self) {
        let tasks = self.scenario.tasks.len() as u64;
        let mut ops = Vec::new();
        for _ in 0..4 + self.below(12) {
            ops.push(Op::Sleep(self.span(10_000)));
            if self.small && self.cpus > 1 && self.prng.chance(1, 4) {
                let cpu = CpuId(1 + self.below(self.cpus as u64 - 1) as u32);
                let away = Op::Sleep(self.span(20_000));
                ops.extend([Op::Hotplug { cpu, online: false }, away, Op::Hotplug { cpu, online: true }]);
            }
            let attribute = match self.below(6) {
                0 | 1 => Attribute::Nice(self.nice()),
                2 if !self.long && !self.small => Attribute::Policy(self.policy()),
                2 if self.small => {
                    Attribute::Policy([Policy::Other, Policy::Batch, Policy::Idle][self.below(3) as usize])
                }
                _ => Attribute::Affinity(self.cpu_mask()),
            };
            let task = Some(TaskRef(self.below(tasks) as u32));
            let change = ChangeId(self.scenario.changes.len() as u32);
            self.scenario.changes.push(attribute);
            ops.push(Op::Set { task, change });
        }
        self.repeats("hand", &ops);
        let hand = self.scenario.tasks.last_mut().expect("just added");
        (hand.policy, hand.affinity, hand.background) = (Policy::Fifo(99), None, self.small);
    }
}
