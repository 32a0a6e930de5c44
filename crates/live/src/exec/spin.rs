//! A loop that takes a known CPU time.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::system::{now_ns, thread_cpu_ns};

/// How often [`Op::RunFor`] looks at the clock.
const RUN_FOR_CHUNK_NS: u64 = 1_000;

/// Iterations per CPU microsecond, times `SCALE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinRate(pub(super) u64);

/// Fixed point of a rate.
const SCALE: u64 = 1 << 20;
/// Measurements, of which the fastest counts on an idle machine: interrupts and neighbours only ever slow one down.
const TRIALS: usize = 20;
/// Shortest measurement taken seriously, in ns.
const TRIAL_NS: u64 = 500_000;
/// Shortest measurement among others, in ns: long against the turns that CPUs of one emulator's thread take.
const LONG_TRIAL_NS: u64 = 2_500_000;
/// Iterations between two pauses, some 20 us on today's machines. QEMU before 8.1, when it counts instructions, runs one CPU
/// from one timer to the next and leaves nothing to the others, unless that one pauses.
const TURN: u64 = 4096;

impl SpinRate {
    /// Measures this machine; takes some 20 ms.
    pub fn measure() -> SpinRate {
        SpinRate::of(trials(TRIAL_NS), 0)
    }

    /// Measures this machine while `others` threads compute: there are machines whose CPUs slow each other down, above all
    /// emulated ones that share a thread. Takes some 100 ms, after which the threads are gone.
    pub fn measure_among(others: usize) -> SpinRate {
        let measured = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| {
                    while !measured.load(Relaxed) {
                        spin(TURN);
                    }
                });
            }
            let trials = trials(LONG_TRIAL_NS);
            measured.store(true, Relaxed);
            // The fastest may be from before they had found CPUs of their own, the slow ones had interrupts.
            SpinRate::of(trials, TRIALS / 4)
        })
    }

    /// What the trial of this rank, 0 being the fastest, says.
    fn of((iterations, mut times): (u64, [u64; TRIALS]), rank: usize) -> SpinRate {
        times.sort_unstable();
        let rate = u128::from(iterations) * 1000 * u128::from(SCALE) / u128::from(times[rank].max(1));
        SpinRate(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }

    /// Uses about that much CPU time.
    pub(super) fn run(self, ns: u64) {
        let iterations = u128::from(ns) * u128::from(self.0) / (1000 * u128::from(SCALE));
        spin(u64::try_from(iterations).unwrap_or(u64::MAX));
    }
}

impl SpinRate {
    /// Computes until so much time has passed, on the CPU or not.
    pub(super) fn run_for(&self, ns: u64) {
        let end = now_ns() + ns;
        while now_ns() < end {
            self.run(RUN_FOR_CHUNK_NS);
        }
    }
}

/// How long so many iterations, which take `least` or more, took in each trial, ns.
fn trials(least: u64) -> (u64, [u64; TRIALS]) {
    let mut iterations = 10_000;
    // Twice, for an interrupted measurement seems long enough.
    while timed(iterations).min(timed(iterations)) < least && iterations < 1 << 40 {
        iterations *= 2;
    }
    (iterations, std::array::from_fn(|_| timed(iterations)))
}

fn timed(iterations: u64) -> u64 {
    let begin = thread_cpu_ns();
    spin(iterations);
    thread_cpu_ns() - begin
}

#[inline(never)]
fn spin(iterations: u64) {
    let mut value = black_box(1u64);
    let mut left = iterations;
    while left > 0 {
        let turn = left.min(TURN);
        for step in 0..turn {
            // Knuth's MMIX multiplier; any chain of dependent arithmetic would do.
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
        }
        left -= turn;
        std::hint::spin_loop();
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_takes_about_that() {
        let rate = SpinRate::measure();
        let taken = (0..10)
            .map(|_| {
                let begin = thread_cpu_ns();
                rate.run(2_000_000);
                thread_cpu_ns() - begin
            })
            .min()
            .unwrap();
        // The machine may change its frequency between measurement and use.
        assert!((1_000_000..4_000_000).contains(&taken), "{taken} ns");
    }
}
