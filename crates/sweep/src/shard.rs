//! Parts of a sweep that several machines make.

use std::str::FromStr;

/// One of several equal parts of a sweep: `2/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The shard's number, from 1.
    number: usize,
    /// How many there are.
    of: usize,
}

/// The text of no shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no shard: write NUMBER/SHARDS, as in 1/3, 2/3, 3/3")]
pub struct NoShard(String);

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Shard, NoShard> {
        let parts = text.split_once('/').map(|(number, of)| (number.parse().ok(), of.parse().ok()));
        match parts {
            Some((Some(number), Some(of))) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(NoShard(text.to_string())),
        }
    }
}

impl Shard {
    /// Whether the run of a number, counted from 0, is in it. Neighbours, which often take equally long, are in different shards.
    #[must_use]
    pub fn has(self, run: usize) -> bool {
        run % self.of == self.number - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbers_from_one() {
        assert_eq!("2/3".parse(), Ok(Shard { number: 2, of: 3 }));
        for bad in ["0/3", "4/3", "1", "a/b", "1/0", ""] {
            assert!(bad.parse::<Shard>().unwrap_err().to_string().contains("1/3"), "{bad}");
        }
    }

    #[test]
    fn each_run_is_in_one_shard() {
        for run in 0..20 {
            assert_eq!((1..=3).filter(|&number| Shard { number, of: 3 }.has(run)).count(), 1);
        }
    }
}
