//! What a value is drawn from: `40..80`, `1ms..20ms`, `a|b`, or a constant.

use schedlab_base::{DurationNs, Prng};

/// A value, or what one is drawn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Whole numbers, both ends included.
    Whole(u64, u64),
    /// Times, both ends included.
    Time(DurationNs, DurationNs),
    /// One of several texts.
    OneOf(Vec<String>),
}

impl Range {
    /// Reads it.
    ///
    /// # Errors
    /// A range whose ends are not of one kind, or in the wrong order.
    pub fn parse(text: &str) -> Result<Range, String> {
        let wrong = || format!("'{text}' is no range: write 40..80, 1ms..20ms, a|b or one value");
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return if low <= high { Ok(Range::Whole(low, high)) } else { Err(wrong()) };
        }
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return if low <= high { Ok(Range::Time(low, high)) } else { Err(wrong()) };
        }
        if text.contains("..") || text.is_empty() {
            return Err(wrong());
        }
        Ok(Range::OneOf(text.split('|').map(str::to_string).collect()))
    }

    /// Draws a value. Times are whole microseconds, so that they can be written with a unit.
    pub(super) fn draw(&self, prng: &mut Prng) -> String {
        match self {
            Range::Whole(low, high) => between(prng, *low, *high).to_string(),
            Range::Time(low, high) => DurationNs(between(prng, low.0, high.0) / 1000 * 1000).to_string(),
            Range::OneOf(texts) => texts[prng.below(texts.len() as u64) as usize].clone(),
        }
    }

    /// Its ends as numbers: nanoseconds of times.
    pub(super) fn ends(&self) -> Option<(u64, u64)> {
        match self {
            Range::Whole(low, high) => Some((*low, *high)),
            Range::Time(low, high) => Some((low.0, high.0)),
            Range::OneOf(_) => None,
        }
    }
}

fn between(prng: &mut Prng, low: u64, high: u64) -> u64 {
    low + prng.below((high - low).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_ends() {
        let mut prng = Prng::new(3);
        for (text, low, high) in [("40..80", 40, 80), ("7", 7, 7)] {
            let range = Range::parse(text).unwrap();
            for _ in 0..200 {
                let value: u64 = range.draw(&mut prng).parse().unwrap();
                assert!((low..=high).contains(&value), "{value}");
            }
        }
        let time: DurationNs = Range::parse("1ms..2ms").unwrap().draw(&mut prng).parse().unwrap();
        assert!((1_000_000..=2_000_000).contains(&time.0));
        let drawn = Range::parse("a|b").unwrap().draw(&mut prng);
        assert!(drawn == "a" || drawn == "b");
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for text in ["", "9..2", "1..2ms", "a..b", "2ms..1ms"] {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }
}
