//! Numbers of CPUs on the command line: `8`, or several in a row, `2-4`.

use std::error::Error;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Most CPUs that a range reaches to: what a machine takes.
const MOST_CPUS: usize = schedlab_base::MAX_CPUS;

/// A number of CPUs, or several in a row: `8` or `2-4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuCounts(RangeInclusive<NonZeroUsize>);

impl CpuCounts {
    /// All numbers of a list, in its order.
    pub(crate) fn all(list: &[CpuCounts]) -> Vec<NonZeroUsize> {
        let numbers = list.iter().flat_map(|CpuCounts(range)| range.start().get()..=range.end().get());
        numbers.filter_map(NonZeroUsize::new).collect()
    }
}

impl FromStr for CpuCounts {
    type Err = Box<dyn Error + Send + Sync>;

    fn from_str(text: &str) -> Result<CpuCounts, Self::Err> {
        let Some((from, to)) = text.split_once('-') else {
            let number = text.parse()?;
            return Ok(CpuCounts(number..=number));
        };
        let (from, to): (NonZeroUsize, NonZeroUsize) = (from.parse()?, to.parse()?);
        if from > to || to.get() > MOST_CPUS {
            return Err(
                format!("write a range from the smaller number, to {MOST_CPUS} at most, as in 2-4").into()
            );
        }
        Ok(CpuCounts(from..=to))
    }
}
