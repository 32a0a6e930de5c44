//! Sets of CPUs.

use crate::CpuId;
use std::fmt;

/// The largest number of CPUs of a simulated machine (the `NR_CPUS` of the
/// simulated kernel). Chosen: above the largest machine of any comparison.
pub const MAX_CPUS: usize = 4096;

const WORDS: usize = MAX_CPUS / 64;

/// A set of CPUs, bit `n` of word `n / 64` for CPU `n`, as the kernel's cpumask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuMask {
    words: [u64; WORDS],
}

impl CpuMask {
    /// No CPU.
    pub const EMPTY: CpuMask = CpuMask { words: [0; WORDS] };

    /// CPUs 0 to `count - 1`. `count` is at most [`MAX_CPUS`].
    pub fn first(count: usize) -> CpuMask {
        assert!(count <= MAX_CPUS, "{count} CPUs do not fit a mask of {MAX_CPUS}");
        let mut mask = CpuMask::EMPTY;
        mask.words[..count / 64].fill(u64::MAX);
        if !count.is_multiple_of(64) {
            mask.words[count / 64] = (1 << (count % 64)) - 1;
        }
        mask
    }

    /// Just `cpu`.
    pub fn single(cpu: CpuId) -> CpuMask {
        let mut mask = CpuMask::EMPTY;
        mask.set(cpu);
        mask
    }

    /// Adds `cpu`.
    pub fn set(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    /// Removes `cpu`.
    pub fn clear(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    /// True when `cpu` is in the set; false beyond [`MAX_CPUS`].
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.index() % 64) & 1 != 0)
    }

    /// True without any CPU.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The number of CPUs in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The CPUs of both sets.
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        CpuMask { words: std::array::from_fn(|i| self.words[i] & other.words[i]) }
    }

    /// The CPUs of either set.
    pub fn or(&self, other: &CpuMask) -> CpuMask {
        CpuMask { words: std::array::from_fn(|i| self.words[i] | other.words[i]) }
    }

    /// The CPUs of this set that are not in `other`.
    pub fn and_not(&self, other: &CpuMask) -> CpuMask {
        CpuMask { words: std::array::from_fn(|i| self.words[i] & !other.words[i]) }
    }

    /// The lowest CPU.
    pub fn lowest(&self) -> Option<CpuId> {
        self.next_from(0)
    }

    /// The lowest CPU that is `>= from`.
    pub fn next_from(&self, from: usize) -> Option<CpuId> {
        let mut word = from / 64;
        let mut bits = self.words.get(word)? & (!0u64 << (from % 64));
        loop {
            if bits != 0 {
                return Some(CpuId((word * 64) as u32 + bits.trailing_zeros()));
            }
            word += 1;
            bits = *self.words.get(word)?;
        }
    }

    /// The CPUs, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let cpu = self.next_from(from)?;
            from = cpu.index() + 1;
            Some(cpu)
        })
    }

    /// The words, lowest CPUs first, as they lie in a kernel's cpumask.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Replaces word `index`.
    pub fn set_word(&mut self, index: usize, word: u64) {
        self.words[index] = word;
    }
}

impl CpuMask {
    fn write_ranges(&self, f: &mut fmt::Formatter<'_>, between: &str) -> fmt::Result {
        let mut next = self.lowest();
        while let Some(first) = next {
            let end = (first.index()..).find(|&cpu| !self.contains(CpuId(cpu as u32))).unwrap_or(MAX_CPUS);
            next = self.next_from(end);
            let between = if next.is_some() { between } else { "" };
            match end - 1 - first.index() {
                0 => write!(f, "{}{between}", first.0)?,
                _ => write!(f, "{}-{}{between}", first.0, end - 1)?,
            }
        }
        Ok(())
    }
}

/// As ranges: `{0-3, 7}`.
impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        self.write_ranges(f, ", ")?;
        f.write_str("}")
    }
}

/// As a list of the kernel's files: `0-3,7`, nothing for an empty set.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_ranges(f, ",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterates_in_order_across_words() {
        let mut mask = CpuMask::single(CpuId(3));
        mask.set(CpuId(64));
        mask.set(CpuId(4095));
        assert_eq!(mask.iter().map(|cpu| cpu.0).collect::<Vec<_>>(), [3, 64, 4095]);
        assert_eq!(mask.next_from(65), Some(CpuId(4095)));
        assert_eq!(mask.next_from(MAX_CPUS), None);
        for count in [0, 1, 63, 64, 130, MAX_CPUS] {
            let cpus: Vec<usize> = CpuMask::first(count).iter().map(CpuId::index).collect();
            assert_eq!(cpus, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn is_shown_as_ranges() {
        let mut mask = CpuMask::first(4);
        mask.set(CpuId(7));
        assert_eq!(format!("{mask:?}"), "{0-3, 7}");
        assert_eq!(format!("{:?}", CpuMask::EMPTY), "{}");
        assert_eq!(format!("{:?}", CpuMask::first(MAX_CPUS)), format!("{{0-{}}}", MAX_CPUS - 1));
    }
}
