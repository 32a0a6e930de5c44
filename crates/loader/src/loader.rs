//! The whole: a loader from its start to its end.

use crate::bpf::Bpf;
use crate::calls::{After, Step, Timer};
use crate::descriptors::Descriptors;
use crate::files::Files;
use crate::output::Output;
use crate::refusals::Refusals;
use crate::start::{reads_counter, start};
use crate::terms::{CPU_TIME, Config, Failure, Report};
use crate::threads::{State, Threads};
use crate::tracee::{Stop, Tid, Tracee};
use crate::watch::Watch;
use crate::watches::Watches;
use crate::world::World;
use schedlab_base::{CpuId, CpuMask, DurationNs, Policy, Prng, TimeNs};
use schedlab_bpf::btf::Btf;
use schedlab_bpf::object::Object;
use schedlab_scx::{
    BpfScheduler, LoadOptions, Turn, UPTIME, UserCalls, UserSpace, UserSpaceNext, UserSpaceTask,
    UserSpaceTurn,
};

/// Threads that a loader may make in its life. Chosen.
pub(crate) const MOST_THREADS: usize = 256;
/// How long a loader may wait before it attaches its scheduler, of its own time, in nanoseconds. Chosen.
const PATIENCE: u64 = 60_000_000_000;
/// System calls of a turn, and times that it reads the time stamp counter: with more it is over, and the next one follows. So what
/// looks again and again without waiting sees time pass, and its scheduler can take the CPU away. Chosen: about a
/// millisecond of the loader's task.
const MOST_CALLS: u64 = 1000;
/// Bytes of its output that a message shows.
const SHOWN: usize = 2000;
/// The stream of random numbers that loaders get.
const STREAM: u64 = 0x6c6f_6164;

/// Why a loader stopped running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// A call needs the scheduler's programs.
    NeedsPrograms,
    /// The scheduler is to be attached.
    Attach,
    /// All its threads wait, until this time of its clock.
    Waiting(Option<u64>),
    /// Threads may run, and let the rest of the machine go first.
    Yields,
    /// The loader has made as many calls as a turn may have.
    Sliced,
    /// The loader has let its scheduler go.
    Detached,
    /// The loader has ended, with this exit code or signal.
    Ended(Result<i32, i32>),
}

/// A scheduler's own user-space program, running.
#[derive(Debug)]
pub struct Loader {
    pub(crate) name: String,
    /// The file name of its program, as its task has it.
    comm: String,
    /// The policy of its task.
    pub(crate) policy: Policy,
    /// The slice of the fair class and the time between two ticks on its machine, ns.
    pub(crate) slice: u64,
    pub(crate) tick: u64,
    pub(crate) object: Object,
    pub(crate) types: Btf,
    pub(crate) threads: Threads,
    pub(crate) files: Files,
    pub(crate) descriptors: Descriptors,
    pub(crate) bpf: Bpf,
    pub(crate) timers: Vec<Timer>,
    /// Instances of watches of files (inotify).
    pub(crate) watches: Vec<Watches>,
    /// The node of each CPU.
    pub(crate) nodes: Vec<u32>,
    /// The CPUs that its task may use, and the one that it is on.
    pub(crate) affinity: CpuMask,
    pub(crate) cpu: CpuId,
    /// The CPUs that it may use have changed in this turn.
    pub(crate) moves: bool,
    /// The loader's monotonic clock, in nanoseconds: the clock that programs of the object read.
    pub(crate) clock: u64,
    /// What the clock showed when simulated time began.
    before: u64,
    /// What it asked for and did not get, besides files.
    pub(crate) refused: Refusals,
    /// System calls so far, and how many there are when the turn is over.
    pub(crate) steps: u64,
    pub(crate) last_step: u64,
    /// Bytes of the simulated machine's files that it has mapped in its life.
    pub(crate) mapped: u64,
    /// Times that a thread has let others go first in this turn.
    pub(crate) yields: u32,
    /// All threads that may run have let others go first.
    pub(crate) yielded: bool,
    prng: Prng,
    pub(crate) output: Output,
    watch: Watch,
}

impl Loader {
    /// Starts the program and runs it up to the call that needs the scheduler's programs.
    fn start(config: Config<'_>) -> Result<Loader, Failure> {
        let name = config.command.words.join(" ");
        let mut prng = Prng::stream(config.seed, STREAM);
        let failed = |error: std::io::Error| Failure(format!("{name}: {error}"));
        let output = Output::new().map_err(failed)?;
        let tracee = start(config.command, output.file(), &mut prng).map_err(failed)?;
        let watch = Watch::begin(tracee.0, CPU_TIME).map_err(|error| {
            tracee.kill();
            failed(error)
        })?;
        let world = World::new(config.machine, &config.types.to_bytes());
        Ok(Loader {
            threads: Threads::new(tracee),
            files: Files::new(world, config.command),
            descriptors: Descriptors::default(),
            bpf: Bpf::default(),
            timers: Vec::new(),
            watches: Vec::new(),
            nodes: config.machine.cpus.iter().map(|cpu| cpu.node).collect(),
            affinity: config.machine.all_cpus(),
            cpu: CpuId(0),
            moves: false,
            clock: UPTIME.0,
            before: UPTIME.0,
            refused: Refusals::default(),
            steps: 0,
            last_step: u64::MAX,
            mapped: 0,
            yields: 0,
            yielded: false,
            object: config.object,
            types: config.types.clone(),
            comm: config.command.program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            policy: Policy::Other,
            slice: config.machine.base_slice(),
            tick: 1_000_000_000 / u64::from(config.machine.hz.max(1)),
            name,
            prng,
            output,
            watch,
        })
    }

    /// Has a loader load and attach its scheduler, and take part in what follows if it stays.
    ///
    /// # Errors
    /// The loader ended or waits indefinitely without attaching a scheduler, or the scheduler is refused.
    pub fn load(
        config: Config<'_>,
        options: &LoadOptions,
        bytes: &[u8],
    ) -> Result<(BpfScheduler, Report), Failure> {
        let (machine, seed, stays) = (config.machine, config.seed, config.stays);
        let mut loader = Loader::start(config)?;
        match loader.run(None)? {
            Pause::NeedsPrograms => {}
            other => return Err(loader.did_not_attach(&other)),
        }
        let recorded = loader.recorded()?;
        let given = loader.given(&recorded);
        let mut options = LoadOptions { recorded: Some(recorded), ..options.clone() };
        options.scheduler = Some(loader.table_name()?);
        let failed = |error: String| Failure(error);
        let mut scheduler = BpfScheduler::load(&loader.name, bytes, &options, machine)
            .map_err(|error| failed(error.to_string()))?;
        let attached = scheduler
            .before_attach(machine, seed, DurationNs(loader.clock), |kernel| loader.until_attached(kernel))
            .map_err(|why| failed(format!("{}: {why}", loader.name)))??;
        scheduler.attach(&attached).map_err(|error| failed(format!("{}: {error}", loader.name)))?;
        let report = loader.report(given, &attached);
        if stays {
            loader.enabled(attached.name.clone());
            scheduler.take_part(Box::new(loader));
        }
        Ok((scheduler, report))
    }

    /// From the first need of programs to the attached scheduler.
    fn until_attached(&mut self, kernel: &mut UserCalls<'_>) -> Result<schedlab_scx::Attached, Failure> {
        self.link(kernel)?;
        let pause = self.run(Some(kernel))?;
        self.share_to(kernel);
        match pause {
            Pause::Attach => self.attached(),
            other => Err(self.did_not_attach(&other)),
        }
    }

    /// The scheduler is enabled: time is the simulation's from now on.
    fn enabled(&mut self, name: String) {
        self.bpf.attached = true;
        self.before = self.clock;
        self.files.world.attach(Some(name));
    }

    fn did_not_attach(&self, pause: &Pause) -> Failure {
        let what = match pause {
            Pause::Ended(Ok(code)) => format!("ended with exit code {code} before it attached a scheduler"),
            Pause::Ended(Err(libc::SIGKILL)) if self.watch.has_ended_it() => {
                format!("used up {} s of CPU time and attached no scheduler", CPU_TIME.as_secs())
            }
            Pause::Ended(Err(signal)) => {
                format!("was ended by signal {signal} before it attached a scheduler")
            }
            Pause::Waiting(Some(_)) => {
                format!("waited {} s of its own time and attached no scheduler", PATIENCE / 1_000_000_000)
            }
            Pause::Waiting(None) => {
                "waits for something that never comes and has attached no scheduler".to_string()
            }
            Pause::Detached => "let its scheduler go before it was enabled".to_string(),
            Pause::NeedsPrograms | Pause::Attach => "attached a scheduler twice".to_string(),
            Pause::Yields | Pause::Sliced => "yielded instead of attaching a scheduler".to_string(),
        };
        self.failure(&what)
    }

    /// A sentence about the loader, with what it was refused and the last of what it wrote.
    pub(crate) fn failure(&self, what: &str) -> Failure {
        let mut text = format!("{} {what}", self.name);
        let refused = self.everything_refused();
        if !refused.is_empty() {
            text += &format!("; it was refused: {}", refused.join(", "));
        }
        let output = self.output.text();
        let from = output.char_indices().rev().nth(SHOWN).map_or(0, |(at, _)| at);
        let last = output[from..].trim();
        if !last.is_empty() {
            text += &format!("; its last output:\n{last}");
        }
        Failure(text)
    }

    pub(crate) fn everything_refused(&self) -> Vec<String> {
        [&self.refused, &self.bpf.refused, &self.files.refused]
            .into_iter()
            .flat_map(Refusals::names)
            .collect()
    }

    /// The process, as the host numbers it.
    pub(crate) fn process(&self) -> Tid {
        self.threads.all[0].tracee.0
    }

    pub(crate) fn random_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.prng.next_u64().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// Runs the threads one after the other until all wait, or something else has to happen first.
    fn run(&mut self, mut kernel: Option<&mut UserCalls<'_>>) -> Result<Pause, Failure> {
        loop {
            if self.threads.are_gone() {
                return Ok(Pause::Ended(Ok(0)));
            }
            let Some(number) = self.threads.next() else {
                if self.deliver_reports() {
                    self.threads.look_again();
                    continue;
                }
                let deadline = self.deadline();
                if self.bpf.attached || deadline.is_none_or(|deadline| deadline > UPTIME.0 + PATIENCE) {
                    return Ok(Pause::Waiting(deadline));
                }
                // Nothing else happens before the scheduler is attached: time passes at once.
                self.clock = self.clock.max(deadline.unwrap_or(0));
                self.expire();
                continue;
            };
            let (looks, steps) = (self.threads.all[number].state == State::Again, self.steps);
            let pause = match self.run_thread(number, kernel.as_deref_mut()) {
                Ok(pause) => pause,
                // It was killed while it was stopped.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ECHILD)) => {
                    self.end();
                    return Ok(Pause::Ended(Err(libc::SIGKILL)));
                }
                Err(error) => return Err(self.failure(&format!("cannot be traced: {error}"))),
            };
            if let Some(pause) = pause {
                return Ok(pause);
            }
            if self.bpf.detached {
                return Ok(Pause::Detached);
            }
            if self.yielded {
                return Ok(Pause::Yields);
            }
            // One that only looked again has changed nothing for the others.
            if !looks || self.steps > steps + 1 {
                self.threads.look_again();
            }
        }
    }

    /// Runs one thread until it waits.
    fn run_thread(
        &mut self,
        number: usize,
        mut kernel: Option<&mut UserCalls<'_>>,
    ) -> std::io::Result<Option<Pause>> {
        let tracee = self.threads.all[number].tracee;
        let mut stop = self.resume(number)?;
        let mut after = After::Nothing;
        loop {
            match stop {
                Stop::Entry => {
                    let thread = &mut self.threads.all[number];
                    let call = match (thread.state, thread.call) {
                        (State::Held, Some(call)) => call,
                        _ => tracee.call()?,
                    };
                    thread.call = Some(call);
                    thread.state = State::Ready(None);
                    let step = self.enter(number, call, kernel.as_deref_mut());
                    match step {
                        Step::Pause(pause) => {
                            self.threads.all[number].state = State::Held;
                            self.threads.first(number);
                            return Ok(Some(pause));
                        }
                        Step::End(code) => {
                            self.end();
                            return Ok(Some(Pause::Ended(Ok(code))));
                        }
                        step => after = self.carry_out(tracee, step)?,
                    }
                }
                Stop::Exit => {
                    if let Some(call) = self.threads.all[number].call {
                        let done = std::mem::replace(&mut after, After::Nothing);
                        if !self.leave(number, &call, done)? {
                            return Ok(None);
                        }
                    }
                }
                Stop::Clone(tid) => {
                    let new = Tracee(tid);
                    // It is stopped before its first instruction.
                    self.wait(new)?;
                    self.threads.add(new);
                }
                Stop::Signal(signal) => {
                    if self.signalled(number, signal)? && self.steps >= self.last_step {
                        self.threads.all[number].state = State::Ready(None);
                        self.threads.first(number);
                        return Ok(Some(Pause::Sliced));
                    }
                }
                Stop::Gone(how) => {
                    self.threads.all[number].state = State::Gone;
                    self.threads.wake_changed();
                    let ended = number == 0 || how.is_err();
                    if ended {
                        self.end();
                    }
                    return Ok(ended.then_some(Pause::Ended(how)));
                }
                Stop::Other => {}
            }
            stop = self.go_on(number)?;
        }
    }

    /// Resumes a thread where it waited, up to its next stop.
    fn resume(&mut self, number: usize) -> std::io::Result<Stop> {
        let thread = &mut self.threads.all[number];
        match (thread.state, thread.call) {
            (State::Held, _) => return Ok(Stop::Entry),
            (State::Again, Some(call)) => thread.tracee.again(&call)?,
            (State::Ready(Some(result)), Some(call)) => thread.tracee.finish(&call, result)?,
            _ => {}
        }
        self.go_on(number)
    }

    /// Resumes a thread, with the signal that it is to get, and waits for its next stop.
    fn go_on(&mut self, number: usize) -> std::io::Result<Stop> {
        let thread = &mut self.threads.all[number];
        thread.state = State::Ready(None);
        let signal = std::mem::take(&mut thread.signal);
        let tracee = thread.tracee;
        tracee.go_on(signal)?;
        self.wait(tracee)
    }

    /// Waits for the next stop of a thread. The kernel tells the end of the first thread when those of all others were taken.
    fn wait(&mut self, tracee: Tracee) -> std::io::Result<Stop> {
        if self.threads.take_begun(tracee) {
            return Ok(Stop::Other);
        }
        loop {
            let (other, status) = Tracee(self.process()).wait_for_any()?;
            if other == tracee {
                return tracee.stop(status);
            }
            // No other one runs: it has just been made, or the process ends.
            self.threads.told(other, libc::WIFSTOPPED(status));
        }
    }

    /// A signal: reading the time stamp counter gives the simulated time, everything else is the loader's. True: it read it.
    fn signalled(&mut self, number: usize, signal: i32) -> std::io::Result<bool> {
        let tracee = self.threads.all[number].tracee;
        if signal == libc::SIGSEGV {
            let mut registers = tracee.registers()?;
            if let Some(length) = reads_counter(tracee, registers.rip) {
                self.step();
                registers.rip += length;
                registers.rax = self.clock & 0xffff_ffff;
                registers.rdx = self.clock >> 32;
                if length == 3 {
                    registers.rcx = 0;
                }
                tracee.set_registers(&registers)?;
                return Ok(true);
            }
        }
        self.threads.all[number].signal = signal;
        Ok(false)
    }

    /// Counts a call. Until there is a task that it is charged to, it lets time pass itself.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if !self.bpf.attached {
            self.clock = self.clock.saturating_add(UserSpaceTurn::BETWEEN_CALLS.0);
        }
    }

    /// Ends the process and waits until it is gone.
    pub(crate) fn end(&mut self) {
        let first = &self.threads.all[0];
        if first.state != State::Gone {
            let first = first.tracee;
            first.kill();
            // Its end comes when those of all others were taken, with those of threads that nobody knows yet.
            let lives = |(tracee, status)| tracee != first || libc::WIFSTOPPED(status);
            while first.wait_for_any().is_ok_and(lives) {}
        }
        self.threads.all.iter_mut().for_each(|thread| thread.state = State::Gone);
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.end();
    }
}

impl UserSpace for Loader {
    fn output(&self) -> String {
        self.output.text()
    }

    fn refused(&self) -> Vec<String> {
        self.everything_refused()
    }

    fn task(&self) -> UserSpaceTask {
        UserSpaceTask { name: self.comm.clone(), policy: self.policy, affinity: Box::new(self.affinity) }
    }

    fn turn(&mut self, kernel: &mut UserCalls<'_>) -> Turn {
        self.watch.allow_more(CPU_TIME);
        self.clock = self.clock.max(self.before + kernel.now().0);
        self.files.world.set_busy(kernel.busy_times().into_iter().map(|busy| busy.0).collect());
        self.set_groups(kernel.groups());
        self.deliver_reports();
        self.share_from(kernel);
        self.expire();
        (self.yields, self.yielded) = (0, false);
        self.threads.look_again();
        let before = self.steps;
        self.last_step = before + MOST_CALLS;
        (self.cpu, self.moves) = (kernel.cpu(), false);
        let pause = self.run(Some(kernel));
        let computes = self.watch.has_ended_it();
        // When it was ended, and with what in its memory, depends on the host.
        if !computes {
            self.share_to(kernel);
        }
        let affinity = self.moves.then(|| Box::new(self.affinity));
        let over = |next| Turn::Over(UserSpaceTurn { calls: self.steps - before, affinity, next });
        match pause {
            Ok(Pause::Waiting(until)) => {
                let at = |until: u64| TimeNs(until.saturating_sub(self.before));
                over(UserSpaceNext::Wait(until.map(at)))
            }
            Ok(Pause::Yields) => over(UserSpaceNext::Yield),
            Ok(Pause::Sliced) => over(UserSpaceNext::GoOn),
            Ok(Pause::Ended(_)) if computes => over(UserSpaceNext::Compute),
            Ok(Pause::Detached) => Turn::Detached("unregistered from user space".into()),
            Ok(Pause::Ended(Ok(code))) => Turn::Detached(format!("its loader ended with exit code {code}")),
            Ok(Pause::Ended(Err(signal))) => {
                Turn::Detached(format!("its loader was ended by signal {signal}"))
            }
            Ok(Pause::NeedsPrograms | Pause::Attach) => Turn::Detached("its loader attached it again".into()),
            Err(failure) => Turn::Detached(failure.0),
        }
    }
}
