//! Coherence: which CPU's cache holds a line of the guest's memory, where programs on several CPUs share it.
//!
//! The model is the usual one of invalidation. A load by a CPU whose cache lacks the line brings it there, and the other
//! caches keep it. A store takes the line away from all other caches. Either is a *transfer* if another CPU has written the
//! line before. Caches are as large as needed: a line leaves a cache by invalidation alone.
//!
//! An access belongs to the line of its first byte. Loads and stores of programs count, and what helpers read and write in
//! their place; the stack never does, and kernel objects are not stored to by programs. A line that no program has written
//! yet is in every cache.
//!
//! A line has one word, with a bit set for each CPU that lacks it, so that the question of a program's access is one test
//! of a mask, and another word that counts its transfers. Both lie in one mapping of the host's, whose pages cost
//! nothing before a program stores to the lines that they describe: 16 bytes for a line, so at most half of what the
//! object may take with lines of 32 bytes, a quarter with lines of 64.

use super::{GuestAddr, Memory, MemoryError, PAGE_SHIFT, Room, STACK_BASE, STACK_SIZE};
use schedlab_base::Untouched;
use std::fmt;
use std::ops::Range;

/// Bits of a word that stand for CPUs. The last one is always set in a line that was written, so that such a word is never 0.
const CPU_BITS: u32 = 63;

/// Lines may have from 16 to 256 bytes.
pub const LINE_BYTES: std::ops::RangeInclusive<u32> = 16..=256;

/// Shift of a line that says that nobody follows lines.
pub(crate) const NO_LINES: u8 = 0;

/// What compiled code needs: the host's address of the first word, the word of a line that only the running CPU has, and the
/// bit that stands for that CPU.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct View {
    pub(crate) words: u64,
    pub(crate) others: u64,
    pub(crate) own: u64,
}

/// The lines of a guest memory.
pub(super) struct Lines {
    /// One word for each line, then one counter for each.
    map: Untouched,
    /// Binary logarithm of a line's bytes.
    shift: u8,
    /// Cores that share a bit.
    group: u32,
    /// The word of a line that only the running CPU has.
    others: u64,
    /// Transfers that nobody has taken notice of yet.
    moved: u64,
    /// Transfers of lines whose memory has been given back.
    gone: u64,
    /// Transfers by the operation that caused them.
    by_op: Box<[u32]>,
    /// Pages of the guest, by place, with a line that moved. Reading every line's counter would touch all of them, and
    /// an object may have mapped gigabytes.
    moved_pages: Box<[bool]>,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("shift", &self.shift)
            .field("moved", &self.moved)
            .finish_non_exhaustive()
    }
}

impl Lines {
    fn new(bytes: u32, cpus: u32, ops: usize) -> Result<Lines, MemoryError> {
        assert!(bytes.is_power_of_two() && LINE_BYTES.contains(&bytes), "a machine was checked");
        let shift = bytes.trailing_zeros() as u8;
        let len = 2 * size_of::<u64>() * (Room::BYTES >> shift);
        let map = Untouched::new(len).map_err(MemoryError::Reserve)?;
        Ok(Lines {
            map,
            shift,
            group: cpus.div_ceil(CPU_BITS).max(1),
            others: !1,
            moved: 0,
            gone: 0,
            by_op: vec![0; ops].into(),
            moved_pages: no_pages(),
        })
    }

    fn count(&self) -> usize {
        Room::BYTES >> self.shift
    }

    /// The words of all lines, and their counters.
    #[inline]
    fn tables(&mut self) -> (&mut [u64], &mut [u64]) {
        let count = self.count();
        // SAFETY: the mapping has 16 bytes for each line, is aligned to a page, holds plain numbers, and is borrowed with
        // `self`; compiled code, which also writes it, does not run meanwhile.
        let all = unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast::<u64>(), 2 * count) };
        all.split_at_mut(count)
    }

    /// The counters of all lines.
    fn counts(&self) -> &[u64] {
        let count = self.count();
        // SAFETY: as in `tables`.
        let all = unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<u64>(), 2 * count) };
        &all[count..]
    }

    /// A program of operation `op` reads or writes line number `line`.
    #[inline]
    fn touch(&mut self, line: usize, write: bool, op: u32) {
        debug_assert!(line < self.count(), "the line is one of the guest");
        let others = self.others;
        let word = self.tables().0[line];
        let has_it = if write { word == others } else { word & !others == 0 };
        if !has_it {
            self.missed(line, write, op);
        }
    }

    /// A program reads or writes a line where the running CPU lacks the line, or must take it from others.
    #[cold]
    fn missed(&mut self, line: usize, write: bool, op: u32) {
        debug_assert_eq!(self.others.count_zeros(), 1, "one group of CPUs runs at a time");
        let (others, at) = (self.others, (line as u64) << self.shift);
        if (STACK_BASE..STACK_BASE + STACK_SIZE).contains(&at) {
            return;
        }
        let (words, counts) = self.tables();
        let word = words[line];
        words[line] = if write { others } else { word & others };
        if word == 0 {
            // Nobody has written it before.
            return;
        }
        counts[line] += 1;
        self.moved += 1;
        self.moved_pages[(at >> PAGE_SHIFT) as usize] = true;
        if let Some(count) = self.by_op.get_mut(op as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// The lines' memory has been given back: they are as new.
    fn forget(&mut self, range: Range<usize>) {
        debug_assert!(range.start <= range.end && range.end <= Room::BYTES, "the pages lie in the guest");
        let shift = self.shift;
        let lines = range.start >> shift..range.end >> shift;
        let (words, counts) = self.tables();
        let mut gone = 0;
        for line in lines {
            if words[line] != 0 {
                gone += std::mem::take(&mut counts[line]);
                words[line] = 0;
            }
        }
        self.gone += gone;
    }
}

/// No page of the guest. The host commits what is set alone.
fn no_pages() -> Box<[bool]> {
    vec![false; Room::BYTES >> PAGE_SHIFT].into()
}

/// Which lines of the guest's memory moved from one CPU's cache to another's.
impl Memory {
    /// Follows the lines of `bytes` bytes from now on, for programs of `ops` operations on `cpus` CPUs. With more than 63
    /// CPUs neighbours share a bit: what one of them has, all of them have.
    ///
    /// # Errors
    /// [`MemoryError::Reserve`]: the host gives no address space.
    ///
    /// # Panics
    /// If `bytes` is no power of two within [`LINE_BYTES`].
    pub(crate) fn follow_lines(&mut self, bytes: u32, cpus: u32, ops: usize) -> Result<(), MemoryError> {
        let lines = Lines::new(bytes, cpus, ops)?;
        self.line_shift = lines.shift;
        self.lines = Some(Box::new(lines));
        self.run_on(0);
        Ok(())
    }

    /// All lines are as new, and their transfers are counted from nothing.
    pub(super) fn forget_all_lines(&mut self) {
        if let Some(lines) = &mut self.lines {
            if lines.map.renew().is_err() {
                lines.forget(0..Room::BYTES);
            }
            (lines.moved, lines.gone) = (0, 0);
            lines.by_op.fill(0);
            lines.moved_pages = no_pages();
        }
        self.run_on(0);
    }

    /// Binary logarithm of a line's bytes; [`NO_LINES`] where nobody follows them.
    #[inline]
    pub(crate) fn line_shift(&self) -> u8 {
        self.line_shift
    }

    /// Whether lines are followed.
    #[inline]
    #[must_use]
    pub fn follows_lines(&self) -> bool {
        self.line_shift != NO_LINES
    }

    /// Programs run on this CPU from now on.
    #[inline]
    pub fn run_on(&mut self, cpu: u32) {
        if let Some(lines) = &mut self.lines {
            debug_assert!(lines.group > 0, "a group has CPUs");
            lines.others = !(1 << (cpu / lines.group).min(CPU_BITS - 1));
            let (words, others) = (lines.map.as_mut_ptr() as u64, lines.others);
            self.line_view = View { words, others, own: !others };
        }
    }

    /// Operation `op` of a program reads or writes at `addr`, which is in the guest's memory.
    #[inline]
    pub(crate) fn touch(&mut self, addr: u64, write: bool, op: u32) {
        let at = self.room.place(addr);
        if let Some(lines) = &mut self.lines {
            lines.touch(at >> lines.shift, write, op);
        }
    }

    /// A helper reads or writes these bytes for operation `op`.
    #[inline]
    pub(crate) fn touch_all(&mut self, addr: GuestAddr, len: u64, write: bool, op: u32) {
        if let Some(lines) = &mut self.lines
            && len > 0
        {
            let at = self.room.place(addr.0);
            for line in at >> lines.shift..=(at + len as usize - 1) >> lines.shift {
                lines.touch(line, write, op);
            }
        }
    }

    /// Compiled code of operation `op` lacks the line whose word is at this address of the host.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn line_missed(&mut self, word: u64, write: bool, op: u32) {
        debug_assert!(word >= self.line_view.words, "the word is one of the table");
        let line = (word - self.line_view.words) as usize / size_of::<u64>();
        if let Some(lines) = &mut self.lines {
            lines.missed(line, write, op);
        }
    }

    /// The line of a lock that the running CPU has just taken is in its cache now; its transfer is the lock's.
    #[inline]
    pub fn brought_by_lock(&mut self, addr: GuestAddr) {
        if let Some(lines) = &mut self.lines {
            let (others, line) = (lines.others, self.room.place(addr.0) >> lines.shift);
            lines.tables().0[line] = others;
        }
    }

    /// Transfers since the last call.
    #[inline]
    pub fn take_moved(&mut self) -> u64 {
        self.lines.as_mut().map_or(0, |lines| std::mem::take(&mut lines.moved))
    }

    /// The lines of mapped memory that moved: their first bytes' addresses and how often, in order of address; then how often
    /// lines moved whose memory has been given back.
    #[must_use]
    pub fn moved_lines(&self) -> (Vec<(GuestAddr, u64)>, u64) {
        let Some(lines) = &self.lines else { return (Vec::new(), 0) };
        let (shift, gone, counts) = (lines.shift, lines.gone, lines.counts());
        let in_page = PAGE_SHIFT - u32::from(shift);
        let pages =
            self.extents().into_iter().flat_map(|(start, end)| start >> PAGE_SHIFT..end >> PAGE_SHIFT);
        let has_moved = |page: &u64| lines.moved_pages[self.room.place(page << PAGE_SHIFT) >> PAGE_SHIFT];
        let mut moved = Vec::new();
        for line in pages.filter(has_moved).flat_map(|page| page << in_page..(page + 1) << in_page) {
            let count = counts[self.room.place(line << shift) >> shift];
            if count > 0 {
                moved.push((GuestAddr(line << shift), count));
            }
        }
        moved.sort_unstable_by_key(|(addr, _)| addr.0);
        (moved, gone)
    }

    /// How many transfers each operation caused.
    #[must_use]
    pub fn moved_by_op(&self) -> &[u32] {
        self.lines.as_ref().map_or(&[], |lines| &lines.by_op)
    }

    /// Bytes of a line, where lines are followed.
    #[must_use]
    pub fn line_bytes(&self) -> Option<u64> {
        self.lines.as_ref().map(|lines| 1 << lines.shift)
    }

    /// The memory of these lines has been given back.
    pub(super) fn forget_lines(&mut self, range: Range<u64>) {
        if let Some(lines) = &mut self.lines {
            lines.forget(self.room.places(range));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PAGE_SIZE, Perm};
    use super::*;

    /// A memory of four CPUs with lines of 64 bytes and one page, and that page's address.
    fn memory() -> (Memory, u64) {
        let mut mem = Memory::new().unwrap();
        mem.follow_lines(64, 4, 2).unwrap();
        let page = mem.map(PAGE_SIZE, Perm::READ_WRITE).unwrap();
        (mem, page.0)
    }

    #[test]
    fn a_line_moves_when_another_cpu_has_written_it() {
        let (mut mem, at) = memory();
        let mut on = |cpu, addr, write| {
            mem.run_on(cpu);
            mem.touch(addr, write, 1);
            mem.take_moved()
        };
        assert_eq!([on(0, at, false), on(1, at, false)], [0, 0], "nobody has written it");
        assert_eq!([on(0, at, true), on(0, at, false), on(0, at + 63, true)], [0, 0, 0]);
        assert_eq!([on(1, at + 8, false), on(1, at, false), on(0, at, false)], [1, 0, 0], "now both have it");
        assert_eq!([on(0, at, true), on(0, at, true)], [1, 0], "the other one loses it");
        assert_eq!([on(1, at, true), on(0, at + 64, true)], [1, 0], "the next line is another one");
        assert_eq!(mem.moved_lines(), (vec![(GuestAddr(at), 3)], 0));
        assert_eq!(mem.moved_by_op(), [0, 3]);
    }

    #[test]
    fn memory_that_comes_back_is_new_and_its_transfers_stay_counted() {
        let (mut mem, at) = memory();
        mem.touch(at, true, 0);
        mem.run_on(1);
        mem.touch(at, true, 0);
        mem.unmap(GuestAddr(at), PAGE_SIZE);
        assert_eq!(mem.map(PAGE_SIZE, Perm::READ_WRITE).unwrap().0, at);
        mem.run_on(2);
        mem.touch(at, true, 0);
        assert_eq!((mem.take_moved(), mem.moved_lines()), (1, (vec![], 1)));
    }

    #[test]
    fn the_stack_and_the_line_of_a_lock_do_not_move() {
        let (mut mem, at) = memory();
        for cpu in [0, 1] {
            mem.run_on(cpu);
            mem.touch(STACK_BASE + 8, true, 0);
            mem.brought_by_lock(GuestAddr(at));
            mem.touch(at + 16, true, 0);
        }
        assert_eq!(mem.take_moved(), 0);
    }

    #[test]
    fn neighbours_share_a_bit_where_there_are_many_cpus() {
        let mut mem = Memory::new().unwrap();
        mem.follow_lines(32, 128, 0).unwrap();
        let at = mem.map(PAGE_SIZE, Perm::READ_WRITE).unwrap().0;
        let mut moved = [0, 1, 2, 3, 127].map(|cpu| {
            mem.run_on(cpu);
            mem.touch(at, true, 0);
            mem.take_moved()
        });
        assert_eq!(moved, [0, 0, 0, 1, 1]);
        mem.touch_all(GuestAddr(at + 31), 34, true, 0);
        mem.run_on(0);
        mem.touch_all(GuestAddr(at + 31), 34, false, 0);
        moved[0] = mem.take_moved();
        assert_eq!(moved[0], 3, "34 bytes from the last one of a line lie in three");
    }
}
