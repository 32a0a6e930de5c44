//! Divisions by weights. Products of times and weights have 128 bits, but fit in 64 in nearly all cases. There a division is one instruction;
//! in 128 bits it is a call of some 60.

/// `sum / weight`, rounded down. The sum of weighted virtual times is rarely negative, or too large for 64 bits.
#[inline(always)]
pub(super) fn quotient(sum: i128, weight: u64) -> i64 {
    debug_assert!(weight > 0, "what is on a queue has a weight");
    match u64::try_from(sum) {
        Ok(sum) => (sum / weight) as i64,
        Err(_) => wide_quotient(sum, weight),
    }
}

#[cold]
#[inline(never)]
fn wide_quotient(sum: i128, weight: u64) -> i64 {
    sum.div_euclid(i128::from(weight)) as i64
}

/// `span * part / whole`, rounded towards nothing.
#[inline(always)]
pub(super) fn proportion(span: i64, part: u64, whole: u64) -> i64 {
    debug_assert!(whole > 0 && part.max(whole) <= i64::MAX as u64, "weights are far from overflow");
    match span.checked_mul(part as i64) {
        Some(product) => product / whole as i64,
        None => wide_proportion(span, part, whole),
    }
}

#[cold]
#[inline(never)]
fn wide_proportion(span: i64, part: u64, whole: u64) -> i64 {
    (i128::from(span) * i128::from(part) / i128::from(whole)) as i64
}

/// As [`proportion`], of what has no sign.
#[inline(always)]
pub(super) fn portion(span: u64, part: u64, whole: u64) -> u64 {
    debug_assert!(whole > 0, "nothing is divided among nothing");
    match span.checked_mul(part) {
        Some(product) => product / whole,
        None => (u128::from(span) * u128::from(part) / u128::from(whole)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::fair::{NICE_0_LOAD, WEIGHT_SHIFT};

    #[test]
    fn divisions_are_the_same_in_64_bits_and_in_128() {
        let most = i64::MAX;
        for weight in [2, 15 << WEIGHT_SHIFT, NICE_0_LOAD, 88_761 << WEIGHT_SHIFT] {
            for number in [0, 1, -1, 7, -7, 3_000_000, -3_000_000, most, -most] {
                let sum = i128::from(number) * i128::from(weight) + i128::from(weight / 2);
                assert_eq!(quotient(sum, weight), wide_quotient(sum, weight), "{number} times {weight}");
                let part = proportion(number, NICE_0_LOAD, weight.max(NICE_0_LOAD));
                assert_eq!(part, wide_proportion(number, NICE_0_LOAD, weight.max(NICE_0_LOAD)));
            }
        }
        assert_eq!((quotient(-1, 2), proportion(-1, 1, 2)), (-1, 0), "down, and towards nothing");
    }
}
