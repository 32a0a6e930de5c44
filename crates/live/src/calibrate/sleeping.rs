//! What it costs to sleep, to be woken by a timer or from another CPU, and to leave a CPU idle meanwhile.

use super::{Child, Figure, checked, now, overshoot, owned, pin, pipe, read, reading, rest, timed, write};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A thread that computes, at the side of what is measured.
struct Beside<'a> {
    stop: &'a AtomicBool,
    loops: &'a AtomicU64,
}

impl Beside<'_> {
    fn compute(&self, cpu: usize, last: bool) {
        // SAFETY: reads one struct; where it is refused the thread has the usual policy.
        unsafe {
            let none: libc::sched_param = std::mem::zeroed();
            if pin(cpu).is_err()
                || last && libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) != 0
            {
                return;
            }
        }
        while !self.stop.load(Relaxed) {
            self.loops.fetch_add(1, Relaxed);
        }
    }
}

/// Measures while a thread computes on `cpu`, with the policy `SCHED_IDLE` if it is to give way to everything.
pub(super) fn beside<T>(
    cpu: usize,
    last: bool,
    measure: impl FnOnce(&AtomicU64) -> io::Result<T>,
) -> io::Result<T> {
    let (stop, loops) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| Beside { stop: &stop, loops: &loops }.compute(cpu, last));
        rest();
        let result = measure(&loops);
        stop.store(true, Relaxed);
        result
    })
}

/// How much later than asked a sleeper that preempts a task continues, with no timer slack.
pub(super) fn overshoot_of_busy_cpu() -> io::Result<Figure> {
    beside(0, true, |_| overshoot(1))
}

/// Arming a timer: one that is armed already, less a call that does nothing.
pub(super) fn arming() -> io::Result<Figure> {
    // SAFETY: makes a descriptor.
    let fd = checked(i64::from(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) }))?;
    let [timer] = owned([fd as i32]);
    let set = |nanoseconds: i64| {
        // SAFETY: an all-zero value is a valid one that disarms; the call reads it.
        timed(500, || unsafe {
            let mut time: libc::itimerspec = std::mem::zeroed();
            time.it_value.tv_nsec = nanoseconds;
            let result = libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const time, std::ptr::null_mut());
            checked(i64::from(result)).map(drop)
        })
    };
    let armed = set(1_000_000)?;
    Ok(armed.less(set(0)?.value))
}

/// A write that wakes a task of an idle CPU, less one that wakes nobody.
pub(super) fn queued_wakeup(cpu: usize) -> io::Result<Figure> {
    let (quiet, there) = (pipe()?, pipe()?);
    let alone = timed(200, || write(&quiet[1], &[0]))?;
    let _child = Child::new(|| {
        let mut byte = [0];
        if pin(cpu).is_ok() {
            while read(&there[0], &mut byte).is_ok() {}
        }
    })?;
    rest();
    let one = |end: &OwnedFd| -> io::Result<f64> {
        let begin = now();
        write(end, &[0])?;
        let took = (now() - begin) as f64;
        pause(200_000);
        Ok(took)
    };
    let taken: io::Result<Vec<f64>> = (0..60).map(|_| one(&there[1])).collect();
    Ok(Figure::at(taken?, 1).less(alone.value + reading()?.value))
}

/// Computes for so many nanoseconds.
fn pause(span: u64) {
    let begin = now();
    while now() - begin < span {}
}

/// All that a sleep with a timer takes of the processor, where CPUs share one: what a task of CPU 1 loses. Nothing where it
/// loses nothing.
pub(super) fn whole_sleep() -> io::Result<Figure> {
    const SLEEP: i64 = 200_000;
    beside(1, false, |loops| {
        let sleep = |span: i64| {
            let span = libc::timespec { tv_sec: 0, tv_nsec: span };
            // SAFETY: reads one timespec.
            unsafe { libc::nanosleep(&raw const span, std::ptr::null_mut()) };
        };
        let progress = |body: &dyn Fn()| {
            let (before, begin) = (loops.load(Relaxed), now());
            body();
            ((loops.load(Relaxed) - before) as f64, (now() - begin) as f64)
        };
        let (alone, span) = progress(&|| sleep(20_000_000));
        let lost = (0..20).map(|_| {
            let (made, took) = progress(&|| (0..10).for_each(|_| sleep(SLEEP)));
            (took - made * span / alone) / 10.0
        });
        Ok(Figure::of(lost.collect()))
    })
}
