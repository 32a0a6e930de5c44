//! Null comparisons must be rejected at the nominal rate, and real differences
//! found: otherwise a verdict means nothing.

use schedlab_base::Prng;
use schedlab_stats::{Level, Moments, permutation_test, student, welch};

const TRIALS: u32 = 4000;

/// About normal: the sum of twelve uniform numbers.
fn normal(prng: &mut Prng) -> f64 {
    let uniform = |prng: &mut Prng| (prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (0..12).map(|_| uniform(prng)).sum::<f64>() - 6.0
}

fn sample(prng: &mut Prng, count: usize, shift: f64) -> Vec<f64> {
    (0..count).map(|_| normal(prng) + shift).collect()
}

/// The part of the trials in which `test` proves a difference of `shift`.
fn rate(shift: f64, count: usize, test: impl Fn(&[f64], &[f64]) -> bool) -> f64 {
    let mut prng = Prng::new(42);
    let hits = (0..TRIALS)
        .filter(|_| {
            let (x, y) = (sample(&mut prng, count, shift), sample(&mut prng, count, 0.0));
            test(&x, &y)
        })
        .count();
    hits as f64 / f64::from(TRIALS)
}

fn by_student(level: Level) -> impl Fn(&[f64], &[f64]) -> bool {
    move |x, y| student(&Moments::of(x).unwrap(), &Moments::of(y).unwrap(), level).unwrap().proven
}

#[test]
fn student_rejects_at_the_nominal_rate() {
    for level in Level::ALL {
        let nominal = 1.0 - f64::from(level.permille()) / 1000.0;
        // Five standard errors of a binomial rate.
        let room = 5.0 * (nominal * (1.0 - nominal) / f64::from(TRIALS)).sqrt();
        let measured = rate(0.0, 5, by_student(level));
        assert!((measured - nominal).abs() < room, "{level}: {measured} is not {nominal}");
    }
}

#[test]
fn welch_rejects_at_the_nominal_rate_or_below() {
    let measured = rate(0.0, 8, |x, y| {
        welch(&Moments::of(x).unwrap(), &Moments::of(y).unwrap(), Level::P95).unwrap().proven
    });
    assert!((0.03..0.065).contains(&measured), "{measured}");
}

#[test]
fn permutations_reject_at_the_nominal_rate_or_below() {
    let measured = rate(0.0, 5, |x, y| permutation_test(x, y, 1).unwrap().p_value <= 0.05);
    assert!((0.03..0.065).contains(&measured), "{measured}");
}

#[test]
fn a_large_difference_is_found() {
    assert!(rate(3.0, 5, by_student(Level::P95)) > 0.97);
}
