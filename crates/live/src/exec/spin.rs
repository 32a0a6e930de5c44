//! A loop that takes a known CPU time.

use std::hint::black_box;

use super::system::thread_cpu_ns;

/// Iterations per CPU microsecond, times `SCALE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinRate(pub(super) u64);

/// Fixed point of a rate.
const SCALE: u64 = 1 << 20;
/// Measurements of which the fastest counts: interrupts and neighbours only ever slow one down.
const TRIALS: usize = 20;
/// Shortest measurement taken seriously, in ns.
const TRIAL_NS: u64 = 500_000;

impl SpinRate {
    /// Measures this machine; takes some 20 ms.
    pub fn measure() -> SpinRate {
        let mut iterations = 10_000;
        while timed(iterations) < TRIAL_NS && iterations < 1 << 40 {
            iterations *= 2;
        }
        let best = (0..TRIALS).map(|_| timed(iterations)).min().unwrap_or(1).max(1);
        let rate = u128::from(iterations) * 1000 * u128::from(SCALE) / u128::from(best);
        SpinRate(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }

    /// Uses about that much CPU time.
    pub(super) fn run(self, ns: u64) {
        let iterations = u128::from(ns) * u128::from(self.0) / (1000 * u128::from(SCALE));
        spin(u64::try_from(iterations).unwrap_or(u64::MAX));
    }
}

fn timed(iterations: u64) -> u64 {
    let begin = thread_cpu_ns();
    spin(iterations);
    thread_cpu_ns() - begin
}

#[inline(never)]
fn spin(iterations: u64) {
    let mut value = black_box(1u64);
    for step in 0..iterations {
        // Knuth's MMIX multiplier; any chain of dependent arithmetic would do.
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
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
