//! What things cost on this kernel and machine, measured by loops of one or two tasks under its own fair class.
//!
//! A loop is timed in batches; its figure is the first quartile of the batches (whatever else runs makes them longer, never
//! shorter), its spread half of the range of the middle half. A price that stands behind others (what a wakeup costs besides the switch it leads to) is what is left of a loop
//! when those are taken away; then its spread is that of the loop. All loops run several times, and a price on which these tries
//! do not agree is none.

mod observed;
mod paths;
mod sleeping;
mod ticks;
mod tries;

use observed::Watch;
use paths::Paths;
use schedlab_base::Costs;
pub use tries::{TRIES, Unsure};

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// A measured price.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// The key in `[costs]` of a machine file.
    pub key: &'static str,
    /// In ns; of `copy_byte_ps` in ps. The median of the tries.
    pub value: f64,
    /// Half of the range of the middle half of the batches, in the same unit: that of the try where it is widest.
    pub spread: f64,
    /// What each try gave.
    pub tries: Vec<f64>,
    /// How it was measured.
    pub source: &'static str,
}

/// What a calibration gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// The prices, in the order of a machine file.
    pub prices: Vec<Price>,
    /// How late a timer of an ordinary task may be, in ns.
    pub timer_slack: u64,
    /// Timer ticks a second, by the distance of the gaps that ticks make; nothing where none were seen.
    pub hz: Option<u32>,
    /// How late ticks of a CPU are at most against those of another one, ns; nothing where that was not seen.
    pub tick_jitter: Option<u64>,
    /// Prices that were not measured, with the reason.
    pub missing: Vec<(&'static str, &'static str)>,
    /// Prices that the tries do not agree on.
    pub unsure: Vec<Unsure>,
}

/// Batches of each loop. Chosen: enough for a quartile beside interrupts.
const BATCHES: usize = 15;

/// A loop's time and its spread, both in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figure {
    value: f64,
    spread: f64,
}

impl Figure {
    /// The median of some values.
    fn of(values: Vec<f64>) -> Figure {
        Figure::at(values, 2)
    }

    /// The value at a quartile.
    fn at(mut values: Vec<f64>, quartile: usize) -> Figure {
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            values.get((values.len().saturating_sub(1)) * quarter / 4).copied().unwrap_or(0.0)
        };
        Figure { value: at(quartile), spread: (at(3) - at(1)) / 2.0 }
    }

    /// What is left of it without parts that are known.
    fn less(self, parts: f64) -> Figure {
        Figure { value: (self.value - parts).max(0.0), ..self }
    }

    fn half(self) -> Figure {
        Figure { value: self.value / 2.0, spread: self.spread / 2.0 }
    }

    fn price(self, key: &'static str, source: &'static str) -> Price {
        Price { key, value: self.value, spread: self.spread, tries: vec![self.value], source }
    }
}

/// The present time in ns.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A look at the clock.
fn reading() -> io::Result<Figure> {
    timed(500, || {
        now();
        Ok(())
    })
}

/// How long `body` takes, on average over `count` times, batch by batch.
fn timed(count: u32, mut body: impl FnMut() -> io::Result<()>) -> io::Result<Figure> {
    let mut values = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let begin = now();
        for _ in 0..count {
            body()?;
        }
        values.push((now() - begin) as f64 / f64::from(count));
    }
    Ok(Figure::at(values, 1))
}

/// The result of a system call, as an error if it is one.
fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Binds the calling task to a CPU.
fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is a valid empty one; the call reads it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    checked(i64::from(result)).map(drop)
}

/// The two ends of a pipe, to read from and to write to.
fn pipe() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: writes two descriptors.
    checked(i64::from(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }))?;
    Ok(owned(ends))
}

fn socket_pair() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: writes two descriptors.
    checked(i64::from(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }))?;
    Ok(owned(ends))
}

fn owned<const N: usize>(ends: [RawFd; N]) -> [OwnedFd; N] {
    // SAFETY: the kernel has just given these descriptors, and nobody else has them.
    ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) })
}

fn write(end: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: reads the bytes.
    checked(unsafe { libc::write(end.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) } as i64).map(drop)
}

fn read(end: &OwnedFd, bytes: &mut [u8]) -> io::Result<()> {
    let mut got = 0;
    while got < bytes.len() {
        let rest = &mut bytes[got..];
        // SAFETY: writes at most that many bytes.
        let more =
            checked(unsafe { libc::read(end.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) } as i64)?;
        if more == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        got += more as usize;
    }
    Ok(())
}

/// A byte, or more, through a channel and back to the same task: both system calls.
fn through(ends: &[OwnedFd; 2], size: usize, count: u32) -> io::Result<Figure> {
    let mut bytes = vec![0; size];
    timed(count, || {
        write(&ends[1], &bytes)?;
        read(&ends[0], &mut bytes)
    })
}

/// A child that runs `body` and ends; ended and reaped with this value.
struct Child(libc::pid_t);

impl Child {
    /// Forks. The child never returns, and ends with this process, whatever ends that.
    fn new(body: impl FnOnce()) -> io::Result<Child> {
        let parent = std::process::id().cast_signed();
        // SAFETY: the child runs `body`, which makes system calls only, and ends.
        match checked(i64::from(unsafe { libc::fork() }))? {
            0 => {
                // SAFETY: plain system calls of a process with one thread. The parent may have ended before the first of them.
                let lives = unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 && libc::getppid() == parent
                };
                if lives {
                    body();
                }
                // SAFETY: ends this process.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Child(pid as libc::pid_t)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is ours and has not been reaped.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn sched_yield() -> io::Result<()> {
    // SAFETY: takes nothing.
    checked(i64::from(unsafe { libc::sched_yield() })).map(drop)
}

/// A round of two tasks of one CPU that yield to each other: two switches.
fn yields_to_thread() -> io::Result<Figure> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let _ = sched_yield();
            }
        });
        rest();
        let figure = timed(500, sched_yield);
        stop.store(true, Relaxed);
        figure
    })
}

fn yields_to_process() -> io::Result<Figure> {
    let _child = Child::new(|| while sched_yield().is_ok() {})?;
    rest();
    timed(500, sched_yield)
}

/// A round of two processes and two pipes: each waits for the other.
fn ping_pong(cpu_of_child: usize) -> io::Result<Figure> {
    let (there, back) = (pipe()?, pipe()?);
    let _child = Child::new(|| {
        let mut byte = [0];
        if pin(cpu_of_child).is_ok() {
            while read(&there[0], &mut byte).is_ok() && write(&back[1], &byte).is_ok() {}
        }
    })?;
    rest();
    let mut byte = [0];
    timed(500, || {
        write(&there[1], &byte)?;
        read(&back[0], &mut byte)
    })
}

/// Lets tasks that have just been made come to their loops.
fn rest() {
    std::thread::sleep(std::time::Duration::from_millis(3));
}

/// How much later than asked an idle CPU's sleeper continues, with a timer slack of `slack` ns.
fn overshoot(slack: u64) -> io::Result<Figure> {
    // SAFETY: sets a number of this task.
    checked(i64::from(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) }))?;
    let late = (0..60).map(|number| {
        let span = libc::timespec { tv_sec: 0, tv_nsec: 300_000 + 1_000 * number };
        let begin = now();
        // SAFETY: reads one timespec.
        unsafe { libc::nanosleep(&raw const span, std::ptr::null_mut()) };
        (now() - begin) as f64 - span.tv_nsec as f64
    });
    Ok(Figure::of(late.collect()))
}

/// A child that ends at once.
fn fork_and_wait() -> io::Result<Figure> {
    timed(20, || {
        // SAFETY: the child ends at once; the parent reaps it.
        unsafe {
            match checked(i64::from(libc::fork()))? {
                0 => libc::_exit(0),
                pid => {
                    checked(i64::from(libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0))).map(drop)
                }
            }
        }
    })
}

/// How a calibration is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Times that all loops run.
    pub tries: u32,
    /// The ticks a second of the kernel, where they were read: other regular gaps are not its tick.
    pub hz: Option<u32>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { tries: TRIES, hz: None }
    }
}

/// Measures what it can on CPU 0, and on CPU 1 where there is one. A try takes a second or two.
///
/// # Errors
/// A system call that fails, which none should.
pub fn measure(plan: Plan) -> io::Result<Calibration> {
    measure_with(plan, false, None)
}

/// The same in a VM whose CPUs are turns of one processor, as root and with the observer of runs attached: schedulers are
/// loaded too. `known` has prices that no loop shows.
///
/// # Errors
/// As [`measure`]; a kernel that does not load them.
pub fn measure_in_vm(plan: Plan, known: &Costs) -> io::Result<Calibration> {
    let observer = observed::observer().ok_or(io::ErrorKind::Unsupported)?;
    measure_with(plan, true, Some(Watch { observer: &observer, known }))
}

fn measure_with(plan: Plan, shared: bool, watch: Option<Watch<'_>>) -> io::Result<Calibration> {
    // SAFETY: asks for a number.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    let timer_slack = u64::try_from(slack).unwrap_or(50_000);
    pin(0)?;
    let one = || try_once(plan, timer_slack, shared, watch);
    let tries = (0..plan.tries.max(1)).map(|_| one()).collect::<io::Result<Vec<_>>>()?;
    Ok(tries::agreed(&tries))
}

/// All loops, once.
fn try_once(plan: Plan, timer_slack: u64, shared: bool, watch: Option<Watch<'_>>) -> io::Result<Calibration> {
    let mut calibration = Calibration { timer_slack, ..Calibration::default() };
    // SAFETY: takes nothing.
    let syscall = timed(2_000, || checked(unsafe { libc::syscall(libc::SYS_getppid) }).map(drop))?;
    let alone = timed(1_000, sched_yield)?.less(syscall.value);
    let yields = yields_to_thread()?.half().less(alone.value + syscall.value);
    let processes = yields_to_process()?.half().less(alone.value + syscall.value);
    let one = through(&pipe()?, 1, 1_000)?;
    let page = through(&pipe()?, 4_096, 500)?;
    let round = ping_pong(0)?.half();
    let arming = sleeping::arming()?;
    let inside = watch
        .map(|watch| watch.inside(yields.value + alone.value + syscall.value, syscall.value))
        .transpose()?;
    let arms = inside.map_or(0.0, |inside| inside.arms);
    let switch = yields.less(arms * arming.value);
    let space = processes.less(yields.value);
    let paths = Paths { syscall, one, alone, switch, space, round, arming, inside };
    let (woken, idle) = paths.price(&mut calibration, shared)?;
    overshoot(timer_slack)?;
    calibration.tick(plan.hz)?;
    calibration.calls(syscall, one, page)?;
    let prices = &mut calibration.prices;
    prices.push(
        part(alone, 1.0 - SCHEDULE_PART).price("sched_yield", "a lone sched_yield, one sixth (assumed)"),
    );
    let forked = fork_and_wait()?;
    prices.push(part(forked, FORK_PART).price("fork", "fork, exit and wait, seven tenths (assumed)"));
    prices.push(part(forked, 1.0 - FORK_PART).price("exit", "fork, exit and wait, three tenths (assumed)"));
    calibration.across(shared, [woken + one.value / 2.0, idle])?;
    let measured = |key: &str| calibration.prices.iter().any(|price| price.key == key);
    let missing: Vec<_> = NEVER.into_iter().filter(|(key, _)| !measured(key)).collect();
    calibration.missing.extend(missing);
    Ok(calibration)
}

impl Calibration {
    /// The tick, by the gaps that a lone task sees, and that of two CPUs. `known` is what the kernel says of it.
    fn tick(&mut self, known: Option<u32>) -> io::Result<()> {
        let (tick, hz) = ticks::alone();
        self.hz = hz;
        match (tick, hz) {
            (_, Some(hz)) if known.is_some_and(|known| known != hz) => {
                self.missing.push(("tick", "the gaps that were seen are not those of the kernel's tick"));
            }
            (Some(tick), Some(hz)) => {
                self.prices.push(tick.price("tick", "median gap of a lone task that reads the clock"));
                if pin(1).is_ok() {
                    pin(0)?;
                    self.tick_jitter = ticks::jitter(tick.value, hz)?;
                }
            }
            _ => self.missing.push(("tick", "no regular gaps were seen")),
        }
        Ok(())
    }

    /// Calls that do not block, from a call that does nothing and from `one` byte and a `page` through a pipe and back.
    fn calls(&mut self, syscall: Figure, one: Figure, page: Figure) -> io::Result<()> {
        let prices = &mut self.prices;
        prices.push(syscall.price("syscall", "getppid"));
        prices.push(one.half().less(syscall.value).price("pipe", "a byte through a pipe, less the calls"));
        let copied = Figure { value: (page.value - one.value).max(0.0), ..page };
        prices.push(
            part(copied, 1_000.0 / (2.0 * 4_095.0))
                .price("copy_byte_ps", "4096 bytes through a pipe less one"),
        );
        let socket = through(&socket_pair()?, 1, 1_000)?.half().less(syscall.value);
        prices.push(socket.price("socket", "a byte through a Unix socket, less the calls"));
        prices.push(futex()?.less(syscall.value).price("futex", "a wake of nobody, less a system call"));
        Ok(())
    }
}

/// Part of a lone `sched_yield` that is `schedule()`. Assumed.
const SCHEDULE_PART: f64 = 5.0 / 6.0;
/// Part of making and ending a child that is making it. Assumed.
const FORK_PART: f64 = 0.7;

/// What no loop of ordinary tasks shows.
const NEVER: [(&str, &str); 20] = [
    ("bpf_insn_ps", "needs a loaded program"),
    ("callback", "needs a loaded scheduler"),
    ("kfunc", "needs a loaded scheduler"),
    ("helper", "needs a loaded scheduler"),
    ("kfunc_insert", "needs a loaded scheduler"),
    ("kfunc_move", "needs a loaded scheduler"),
    ("kfunc_find", "needs a loaded scheduler"),
    ("dsq_enqueue", "needs a loaded scheduler"),
    ("block", "needs the observer"),
    ("switch_end", "needs the observer"),
    ("kfunc_kick", "needs a loaded scheduler"),
    ("irq_work", "needs a loaded scheduler"),
    ("lock", "is part of the kernel's paths"),
    ("lock_transfer", "is part of the kernel's paths"),
    ("lock_spinner", "is part of the kernel's paths"),
    ("cache_refill_per_kib", "needs the sizes of the caches"),
    ("memory_refill_per_kib", "needs the sizes of the caches"),
    ("migration", "is not told from the caches"),
    ("sysv", "has no loop"),
    ("exec", "depends on the program"),
];

fn part(figure: Figure, of: f64) -> Figure {
    Figure { value: figure.value * of, spread: figure.spread * of }
}

fn futex() -> io::Result<Figure> {
    let word = AtomicU32::new(0);
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: wakes whoever waits at the word, which nobody does.
    timed(1_000, || checked(unsafe { libc::syscall(libc::SYS_futex, &raw const word, wake, 1) }).map(drop))
}

impl Calibration {
    /// What a wakeup on another, idle CPU takes: the waker's part and the interrupt's way there.
    fn across(&mut self, shared: bool, [here, there]: [f64; 2]) -> io::Result<()> {
        if pin(1).is_err() {
            for key in ["wakeup_queued", "ipi_send", "ipi_latency"] {
                self.missing.push((key, "there is one CPU"));
            }
            return Ok(());
        }
        pin(0)?;
        let queued = sleeping::queued_wakeup(1)?;
        self.prices.push(part(queued, 1.0 - IPI_PART).price(
            "wakeup_queued",
            "a write that wakes a task of an idle CPU, less one that wakes nobody, two thirds (assumed)",
        ));
        self.prices.push(part(queued, IPI_PART).price("ipi_send", "the other third"));
        if shared {
            let next = Figure::default();
            self.prices.push(next.price("ipi_latency", "the other CPU's turn begins at the interrupt"));
            return Ok(());
        }
        let left = ping_pong(1)?.half().less(here + there);
        self.prices.push(
            left.price("ipi_latency", "two processes on two CPUs, less calls, wakeup, idle exit and switch"),
        );
        Ok(())
    }
}

/// Part of a waker's work for an idle CPU that is the interrupt. Assumed.
const IPI_PART: f64 = 1.0 / 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_middle_of_its_values() {
        let figure = Figure::of(vec![5.0, 1.0, 2.0, 3.0, 100.0]);
        assert_eq!((figure.value, figure.spread), (3.0, 1.5));
        assert!(figure.less(10.0).value.abs() < 1e-9);
        assert_eq!(Figure::of(Vec::new()), Figure::default());
    }

    #[test]
    fn this_machine_has_prices() {
        let measured = measure(Plan { tries: 1, hz: None }).expect("the loops use what every Linux has");
        let of = |key: &str| measured.prices.iter().find(|price| price.key == key).map(|price| price.value);
        assert!(
            of("syscall").is_some_and(|ns| ns > 0.0)
                && of("fork").is_some_and(|ns| ns > of("syscall").unwrap())
        );
        assert!(measured.prices.iter().all(|price| price.value.is_finite() && price.value >= 0.0));
        let named =
            |key: &str| of(key).is_some() || measured.missing.iter().any(|(missing, _)| *missing == key);
        for key in ["tick", "wakeup", "ipi_latency", "callback", "exec", "copy_byte_ps"] {
            assert!(named(key), "{key} is measured or told to be missing");
        }
    }
}
