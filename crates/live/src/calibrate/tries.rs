//! Tries of a whole calibration, and which of its prices they agree on.
//!
//! Within one try a loop may meet the same disturbance in all its batches: a neighbour of the VM, a sleep state of the CPU. Then
//! the spread of the batches is small and the price wrong. Tries are seconds apart, so they show that.

use super::{Calibration, Figure, Price};
use std::fmt;

/// Tries of a calibration, where nothing else is asked for.
pub const TRIES: u32 = 3;

/// Tries agree on a price if they are no further apart than this part of their median. Chosen: what an idle machine stays below.
const APART_PART: f64 = 0.3;
/// Or than this, in ns: prices of a few instructions differ by the state of caches. Chosen.
const APART_NS: f64 = 50.0;
/// The bound in ps of a byte: 40 ns of a page.
const APART_PS: f64 = 10.0;
/// Of so many tries the highest and the lowest are not looked at: the more of them, the more often another task runs in one. The
/// middle half is what spreads of loops are of, too.
const OUTLIER_OF: usize = 4;

/// Prices that are parts of one loop's figure: all of them are as measured, or none.
const TOGETHER: [&[&str]; 5] = [
    &["schedule", "sched_yield"],
    &["context_switch", "fair_switch"],
    &["wakeup", "fair_wakeup"],
    &["wakeup_queued", "ipi_send"],
    &["fork", "exit"],
];

/// A price that the tries do not agree on, or that not all of them have.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsure {
    /// The key in `[costs]` of a machine file.
    pub key: &'static str,
    /// What the tries gave, in the unit of [`Price::value`].
    pub values: Vec<f64>,
    /// How many tries there were.
    pub tries: usize,
    /// The price of the same loop that the tries do not agree on, where it is not this one.
    pub with: Option<&'static str>,
}

impl fmt::Display for Unsure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, tries) = (self.values.len(), number(self.tries));
        match count == self.tries {
            true => write!(f, "{tries} tries gave ")?,
            false => write!(f, "{count} of {tries} tries gave ")?,
        }
        for (at, value) in self.values.iter().enumerate() {
            let between = if at == 0 {
                ""
            } else if at + 1 == count {
                " and "
            } else {
                ", "
            };
            write!(f, "{between}{value:.0}")?;
        }
        f.write_str(if self.key.ends_with("_ps") { " ps" } else { " ns" })?;
        self.with.map_or(Ok(()), |key| write!(f, "; {key} is of the same loop"))
    }
}

fn number(count: usize) -> String {
    if count == 3 { "three".to_string() } else { count.to_string() }
}

/// How far values are apart, without the outliers.
fn range(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let out = values.len() / OUTLIER_OF;
    let kept = &values[out..values.len() - out];
    kept.last().copied().unwrap_or(0.0) - kept.first().copied().unwrap_or(0.0)
}

/// Whether tries agree on the price of that key.
fn agree(key: &str, values: &[f64]) -> bool {
    let near = if key.ends_with("_ps") { APART_PS } else { APART_NS };
    range(values) <= near.max(Figure::of(values.to_vec()).value * APART_PART)
}

impl Price {
    /// Half of what the tries are apart, without the outliers.
    pub fn apart(&self) -> f64 {
        range(&self.tries) / 2.0
    }

    /// The median of tries, and the widest spread of a loop.
    fn median(tries: &[&Price]) -> Price {
        let values: Vec<f64> = tries.iter().map(|price| price.value).collect();
        let spread = tries.iter().map(|price| price.spread).fold(0.0, f64::max);
        Price { value: Figure::of(values.clone()).value, spread, tries: values, ..tries[0].clone() }
    }
}

/// What the tries agree on.
pub(super) fn agreed(tries: &[Calibration]) -> Calibration {
    let mut agreed = Calibration {
        timer_slack: tries.first().map_or(0, |first| first.timer_slack),
        hz: same(tries.iter().filter_map(|one| one.hz)),
        ..Calibration::default()
    };
    let jitters: Vec<f64> = tries.iter().filter_map(|one| one.tick_jitter).map(|ns| ns as f64).collect();
    if jitters.len() == tries.len() && agree("tick_jitter", &jitters) {
        agreed.tick_jitter = Some(Figure::of(jitters).value as u64);
    }
    let mut keys: Vec<&'static str> = Vec::new();
    for price in tries.iter().flat_map(|one| &one.prices) {
        if !keys.contains(&price.key) {
            keys.push(price.key);
        }
    }
    for key in keys {
        let found: Vec<&Price> =
            tries.iter().filter_map(|one| one.prices.iter().find(|price| price.key == key)).collect();
        let price = Price::median(&found);
        if found.len() == tries.len() && agree(key, &price.tries) {
            agreed.prices.push(price);
        } else {
            agreed.unsure.push(Unsure { key, values: price.tries, tries: tries.len(), with: None });
        }
    }
    agreed.part_together(tries.len());
    let told = |key: &str, agreed: &Calibration| {
        let mut known = agreed.prices.iter().map(|price| price.key);
        known.any(|known| known == key)
            || agreed.unsure.iter().any(|unsure| unsure.key == key)
            || agreed.missing.iter().any(|(missing, _)| *missing == key)
    };
    for &(key, why) in tries.iter().flat_map(|one| &one.missing) {
        if !told(key, &agreed) {
            agreed.missing.push((key, why));
        }
    }
    agreed
}

/// The value, if all are the same.
fn same(mut values: impl Iterator<Item = u32>) -> Option<u32> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

impl Calibration {
    /// Takes away what is of the same loop as a price that the tries do not agree on.
    fn part_together(&mut self, tries: usize) {
        for group in TOGETHER {
            let cause = self.unsure.iter().map(|unsure| unsure.key).find(|key| group.contains(key));
            let Some(cause) = cause else { continue };
            let (gone, kept) = self.prices.drain(..).partition(|price| group.contains(&price.key));
            self.prices = kept;
            let gone: Vec<Price> = gone;
            self.unsure.extend(gone.into_iter().map(|price| Unsure {
                key: price.key,
                values: price.tries,
                tries,
                with: Some(cause),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(prices: &[(&'static str, [f64; 3])]) -> Vec<Calibration> {
        let one = |at: usize| {
            let price = |&(key, values): &(&'static str, [f64; 3])| {
                Figure { value: values[at], spread: at as f64 }.price(key, "a loop")
            };
            Calibration { prices: prices.iter().map(price).collect(), ..Calibration::default() }
        };
        (0..3).map(one).collect()
    }

    fn told(calibration: &Calibration) -> Vec<String> {
        calibration.unsure.iter().map(|unsure| format!("{}: {unsure}", unsure.key)).collect()
    }

    #[test]
    fn tries_that_agree_give_their_median_and_how_far_they_are_apart() {
        let agreed = agreed(&tries(&[("wakeup", [1700.0, 1900.0, 1750.0]), ("futex", [0.0, 40.0, 10.0])]));
        assert!(agreed.unsure.is_empty());
        let wakeup = &agreed.prices[0];
        assert_eq!((wakeup.value, wakeup.apart(), wakeup.spread), (1750.0, 100.0, 2.0));
        assert_eq!((agreed.prices[1].value, agreed.prices[1].apart()), (10.0, 20.0));
    }

    #[test]
    fn a_price_that_tries_do_not_agree_on_is_none_and_takes_its_other_part_along() {
        let of = [("wakeup_queued", [7646.0, 75.0, 16.0]), ("ipi_send", [30.0, 37.0, 8.0])];
        let agreed = agreed(&tries(&of));
        assert!(agreed.prices.is_empty());
        assert_eq!(
            told(&agreed),
            [
                "wakeup_queued: three tries gave 7646, 75 and 16 ns",
                "ipi_send: three tries gave 30, 37 and 8 ns; wakeup_queued is of the same loop"
            ]
        );
        assert!(agree("copy_byte_ps", &[100.0, 120.0, 110.0]) && !agree("copy_byte_ps", &[20.0, 60.0, 40.0]));
    }

    #[test]
    fn one_of_five_tries_may_be_disturbed_at_each_end() {
        let of = |values: &[f64]| agree("wakeup", values);
        assert!(of(&[1000.0, 1020.0, 9000.0, 100.0, 1010.0]));
        assert!(!of(&[1000.0, 1020.0, 9000.0, 9100.0, 1010.0]));
        assert!(!of(&[1000.0, 1020.0, 9000.0]));
    }

    #[test]
    fn what_some_tries_lack_is_not_measured() {
        let mut tries = tries(&[("tick", [900.0, 910.0, 905.0])]);
        tries[0].hz = Some(250);
        tries[1].hz = Some(250);
        tries[2].prices.clear();
        tries[2].missing = vec![("tick", "no regular gaps"), ("exec", "depends")];
        let found = agreed(&tries);
        assert_eq!(
            (told(&found), found.hz),
            (vec!["tick: 2 of three tries gave 900 and 910 ns".into()], Some(250))
        );
        assert_eq!(found.missing, [("exec", "depends")]);
        tries[1].hz = Some(1000);
        assert_eq!(agreed(&tries).hz, None);
    }
}
