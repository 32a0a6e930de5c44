//! The guest address space: everything that a BPF program can address, and nothing else.
//!
//! A guest address is a number below [`GUEST_LIMIT`] (8 GiB). Window 0 (high half 0) holds stacks, maps and kernel
//! objects; window 1 (high half 1) holds the arena, so that the low half of an arena pointer is its offset and casts
//! between address spaces only set or clear the high half. All of it is one anonymous mapping whose pages cost
//! nothing until they are touched, and before it, in the same mapping, is one permission byte for each 4 KiB page. Because every access is an offset
//! into that mapping, checked against its length, no program reaches memory of the host. Addresses depend only on
//! the order of calls, never on the host.
//!
//! The first 64 KiB are never mapped, so NULL pointers with any member offset fault. Nor does the host let anybody touch
//! them, nor the guard regions in front of the permissions and behind the last page: an access that misses its place by
//! a little despite the checks ends the process, and changes no permission and nothing of the host's.

mod access;
mod kinds;
mod lines;
mod room;
mod snapshot;

pub(crate) use access::Store;
pub use kinds::{GuestAddr, MemoryError, Perm};
pub use lines::LINE_BYTES;
pub(crate) use lines::{NO_LINES, View};
pub use snapshot::Snapshot;

use crate::fault::{Access, Fault};
use crate::guard::{self, GUARD_LEN};
use room::Room;
use schedlab_base::{Shared, Untouched};
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes in a page, the unit of permissions.
pub const PAGE_SIZE: u64 = 4096;
/// First address above both windows.
pub const GUEST_LIMIT: u64 = 2 << 32;
/// First address of window 1, where the arena lives.
pub const ARENA_BASE: u64 = 1 << 32;
/// First address that can be mapped; below it are NULL pointers.
pub const NULL_LIMIT: u64 = 64 << 10;
/// Bytes of stack that a function has, as in the kernel (`MAX_BPF_STACK`).
pub const FRAME_SIZE: u64 = 512;
/// Frames that fit on the stack, over all nested runs and callbacks. Chosen: the kernel allows 8 for each program
/// (`MAX_CALL_FRAMES`) and programs nest (a trace point inside a kernel function inside a callback).
pub const MAX_FRAMES: u32 = 64;

/// Bytes in a huge page of the host: x86-64's and arm64's; elsewhere it is only the smallest region to ask for.
#[cfg(target_os = "linux")]
const HUGE_PAGE: u64 = 2 << 20;
const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();
const PAGE_MASK: u64 = PAGE_SIZE - 1;
/// Pages of the address space.
pub(crate) const PAGE_COUNT: usize = (GUEST_LIMIT >> PAGE_SHIFT) as usize;
/// Permission bytes before it: those of all pages, and a page of zeros for a pointer below [`GUEST_LIMIT`] and what a
/// displacement adds to it.
pub(crate) const PERM_BYTES: usize = PAGE_COUNT + PAGE_SIZE as usize;
/// Where the guest's memory begins in its mapping, and where it ends.
const GUEST_AT: usize = GUARD_LEN + PERM_BYTES;
const GUEST_END: usize = GUEST_AT + Room::BYTES;
const _: () = assert!(usize::BITS >= 64 || GUEST_END < isize::MAX as usize, "a slice holds the guest");
/// The stack region, with unmapped pages on both sides.
const STACK_BASE: u64 = 0x2_0000;
const STACK_SIZE: u64 = FRAME_SIZE * MAX_FRAMES as u64;
/// Where regions begin; the last page of window 0 stays free so that nothing touches the arena.
const REGION_BASE: u64 = 0x10_0000;
const REGION_LIMIT: u64 = ARENA_BASE - PAGE_SIZE;
/// Bytes that an object may take for its maps, its arena and the kernel objects that it makes, unless
/// [`Memory::set_limit`] says otherwise. Chosen: with the host's bookkeeping of a full hash map, one simulating process
/// stays below 1 GiB.
pub const DEFAULT_GUEST_MEMORY: u64 = 512 << 20;
/// Length from which unmapped pages are given back to the host instead of being overwritten. Chosen.
#[cfg(target_os = "linux")]
const RELEASE_LEN: u64 = 256 << 10;

/// The guest address space. See the module's text for its layout.
pub struct Memory {
    /// A guard region, `PERM_BYTES` permission bytes, the bytes of the guest's, and another guard region: the way from
    /// permissions to guest is a constant.
    map: Arc<Untouched>,
    /// Where the bytes of an address lie among the guest's: a host of 64 bits has [`GUEST_LIMIT`] of them.
    room: Room,
    /// Next free address of window 0.
    bump: u64,
    /// The live regions that `map` handed out, by address.
    regions: BTreeMap<u64, Region>,
    /// Addresses of unmapped regions by length, reused last in, first out.
    free: BTreeMap<u64, Vec<u64>>,
    /// Bytes that the object has taken, and may take.
    used: u64,
    limit: u64,
    /// First address above everything that `map_at` ever mapped in the arena's window.
    arena_end: u64,
    /// Stack frames in use, over all nested runs.
    pub(crate) frames_used: u32,
    /// Where compiled code finds the lines.
    line_view: View,
    /// Binary logarithm of a line's bytes, or [`NO_LINES`].
    line_shift: u8,
    /// Which CPU has which line, where that has a price.
    lines: Option<Box<lines::Lines>>,
}

/// A region of window 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Region {
    /// Bytes, whole pages.
    size: u64,
    /// The map whose values lie there, or [`NO_OWNER`].
    owner: u32,
}

/// The owner of the kernel's own regions.
const NO_OWNER: u32 = u32::MAX;

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("regions", &self.regions).field("bump", &GuestAddr(self.bump)).finish()
    }
}

#[cfg(target_arch = "x86_64")]
impl Memory {
    /// Where compiled code finds the number of frames.
    pub(crate) const FRAMES_USED_AT: usize = std::mem::offset_of!(Memory, frames_used);
    /// And who has which line.
    pub(crate) const LINE_VIEW_AT: usize = std::mem::offset_of!(Memory, line_view);
}

impl Memory {
    /// An address space with nothing but the stack in it.
    ///
    /// # Errors
    /// [`MemoryError::Reserve`] if the host refuses the address space.
    pub fn new() -> Result<Self, MemoryError> {
        let len = GUEST_END + GUARD_LEN;
        let map = Untouched::new(len).map_err(MemoryError::Reserve)?;
        assert_eq!(map.size(), len, "the mapping covers permissions, guest address space and guards");
        for range in [0..GUARD_LEN, GUEST_AT..GUEST_AT + NULL_LIMIT as usize, GUEST_END..len] {
            // SAFETY: `parts` gives no reference to the first and the last; pages below `NULL_LIMIT` never get a
            // permission, and without one nobody reads or writes them.
            unsafe { guard::close(map.as_ptr(), len, range).map_err(MemoryError::Reserve)? };
        }
        let mut memory = Memory {
            map: Arc::new(map),
            room: Room::new(),
            bump: REGION_BASE,
            regions: BTreeMap::new(),
            free: BTreeMap::new(),
            used: 0,
            limit: DEFAULT_GUEST_MEMORY,
            arena_end: ARENA_BASE,
            frames_used: 0,
            line_view: View::default(),
            line_shift: NO_LINES,
            lines: None,
        };
        memory.set_perms(STACK_BASE, STACK_SIZE, Perm::READ_WRITE);
        Ok(memory)
    }

    /// The permission bytes of all pages, and all bytes of the guest.
    #[inline(always)]
    fn parts(&self) -> (&[u8], &[u8]) {
        let start = self.map.as_ptr().wrapping_add(GUARD_LEN);
        // SAFETY: the mapping is that long, as `new` checked, and nobody writes it but by `&mut self` and, while no such
        // reference lives, by a record that `share` gave away.
        unsafe { std::slice::from_raw_parts(start, GUEST_END - GUARD_LEN).split_at_unchecked(PERM_BYTES) }
    }

    #[inline(always)]
    fn parts_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        let start = self.map.as_mut_ptr().wrapping_add(GUARD_LEN);
        // SAFETY: as above, and `&mut self` makes the mapping ours alone.
        unsafe {
            std::slice::from_raw_parts_mut(start, GUEST_END - GUARD_LEN).split_at_mut_unchecked(PERM_BYTES)
        }
    }

    #[inline(always)]
    fn perms(&self) -> &[u8] {
        self.parts().0
    }

    #[inline(always)]
    fn guest(&self) -> &[u8] {
        self.parts().1
    }

    #[inline(always)]
    fn guest_mut(&mut self) -> &mut [u8] {
        self.parts_mut().1
    }

    /// Maps a zeroed region of at least `len` bytes in window 0 and says where.
    ///
    /// Regions are page-granular and have an unmapped page after them. The address depends only on the order and
    /// sizes of earlier calls; an unmapped region of the same size is reused first.
    ///
    /// # Errors
    /// [`MemoryError::Full`]; [`MemoryError::BadRange`] for no bytes or no permission.
    pub fn map(&mut self, len: u64, perm: Perm) -> Result<GuestAddr, MemoryError> {
        self.map_owned(len, perm, NO_OWNER)
    }

    /// As [`Memory::map`] for values of the map number `owner`: programs may read and write them, and they count
    /// against the object's limit.
    ///
    /// # Errors
    /// Also [`MemoryError::Limit`].
    pub(crate) fn map_values(&mut self, len: u64, owner: u32) -> Result<GuestAddr, MemoryError> {
        self.take(len)?;
        self.map_owned(len, Perm::READ_WRITE, owner).inspect_err(|_| self.give_back(len))
    }

    /// The map whose values an address lies among: its number, and where that region begins.
    pub(crate) fn owner(&self, addr: u64) -> Option<(u32, u64)> {
        let (&start, region) = self.regions.range(..=addr).next_back()?;
        (addr - start < region.size && region.owner != NO_OWNER).then_some((region.owner, start))
    }

    /// Sets how many bytes the object may take from now on, those that it has included.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Counts bytes that the object takes, in the guest or of the host on its behalf.
    ///
    /// # Errors
    /// [`MemoryError::Limit`]; nothing is counted then.
    pub fn take(&mut self, len: u64) -> Result<(), MemoryError> {
        match self.used.checked_add(len).filter(|used| *used <= self.limit) {
            Some(used) => {
                debug_assert!(used <= self.limit, "the limit holds");
                self.used = used;
                Ok(())
            }
            None => Err(MemoryError::Limit { len, limit: self.limit }),
        }
    }

    /// Bytes that the object has taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.used
    }

    /// Counts bytes back that [`Memory::take`] counted.
    pub fn give_back(&mut self, len: u64) {
        debug_assert!(len <= self.used, "no more is given back than was taken");
        self.used = self.used.saturating_sub(len);
    }

    /// As [`Memory::map`], for a region of which a host of 32 bits has the first `least` bytes only: the other addresses are
    /// the region's and are not mapped there. The region is not unmapped, and there are at most two of them.
    ///
    /// # Errors
    /// As there.
    pub fn map_first(&mut self, len: u64, least: u64, perm: Perm) -> Result<GuestAddr, MemoryError> {
        let backed = Room::backed(len, least);
        let at = self.map(backed, perm)?;
        let [end, whole] = [backed, len].map(|len| at.0 + len.next_multiple_of(PAGE_SIZE));
        if end < whole {
            assert_eq!(self.bump, end + PAGE_SIZE, "no other region's addresses are used again");
            self.bump = whole + PAGE_SIZE;
            self.room.leave_out(end..whole);
        }
        Ok(at)
    }

    fn map_owned(&mut self, len: u64, perm: Perm, owner: u32) -> Result<GuestAddr, MemoryError> {
        if len == 0 || perm == Perm::NONE {
            return Err(MemoryError::BadRange { addr: GuestAddr::NULL, len });
        }
        let full = MemoryError::Full { len };
        let Some(size) = len.checked_next_multiple_of(PAGE_SIZE) else {
            return Err(full);
        };
        let addr = match self.free.get_mut(&size).and_then(Vec::pop) {
            Some(addr) => addr,
            None => {
                let next = self.bump.checked_add(size).and_then(|end| end.checked_add(PAGE_SIZE));
                let Some(next) = next.filter(|next| *next <= REGION_LIMIT) else {
                    return Err(full);
                };
                self.room.expect(self.bump, size);
                std::mem::replace(&mut self.bump, next)
            }
        };
        debug_assert!(addr >= REGION_BASE && addr + size <= REGION_LIMIT, "a region lies in window 0");
        debug_assert!(!self.regions.contains_key(&addr), "no two regions begin at one address");
        self.regions.insert(addr, Region { size, owner });
        self.set_perms(addr, size, perm);
        self.prefer_huge_pages(addr, size);
        Ok(GuestAddr(addr))
    }

    /// Asks the host for huge pages under a large region: programs jump about in it, and the host's address
    /// translation is what that costs. Nothing depends on the answer.
    fn prefer_huge_pages(&self, addr: u64, size: u64) {
        debug_assert!(addr + size <= GUEST_LIMIT, "a region lies in the guest");
        #[cfg(target_os = "linux")]
        if size >= HUGE_PAGE {
            let offset = GUEST_AT + self.room.place(addr);
            let _ = self.map.mapping().advise_range(memmap2::Advice::HugePage, offset, size as usize);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (addr, size);
    }

    /// Maps pages at a given address, usually in the arena's window; pages already mapped change permission only.
    ///
    /// # Errors
    /// [`MemoryError::BadRange`] unless both numbers are page-aligned and the range is mappable.
    pub fn map_at(&mut self, addr: GuestAddr, len: u64, perm: Perm) -> Result<(), MemoryError> {
        let aligned = (addr.0 | len) & PAGE_MASK == 0 && len != 0;
        let inside = addr.0 >= NULL_LIMIT && addr.0.checked_add(len).is_some_and(|end| end <= GUEST_LIMIT);
        if !aligned || !inside || perm == Perm::NONE {
            return Err(MemoryError::BadRange { addr, len });
        }
        self.room.expect(addr.0, len);
        self.arena_end = self.arena_end.max(addr.0 + len);
        debug_assert!(self.arena_end <= GUEST_LIMIT, "the arena lies in the guest");
        self.set_perms(addr.0, len, perm);
        Ok(())
    }

    /// Unmaps every page that the range touches and zeroes it. A whole region from [`Memory::map`] may be reused.
    pub fn unmap(&mut self, addr: GuestAddr, len: u64) {
        let start = addr.0 & !PAGE_MASK;
        let end = addr.0.saturating_add(len).min(GUEST_LIMIT).next_multiple_of(PAGE_SIZE);
        if start >= end {
            return;
        }
        self.forget_lines(start..end);
        self.zero_pages(start, end);
        self.set_perms(start, end - start, Perm::NONE);
        if self.regions.get(&start).is_some_and(|region| region.size == end - start) {
            self.regions.remove(&start);
            self.free.entry(end - start).or_default().push(start);
        }
    }

    /// The stack of all frames: its lowest address and its bytes.
    #[must_use]
    pub fn stack(&self) -> (GuestAddr, u64) {
        (GuestAddr(STACK_BASE), STACK_SIZE)
    }

    /// Whether an address lies on it.
    pub(crate) fn is_stack(&self, addr: u64) -> bool {
        (STACK_BASE..STACK_BASE + STACK_SIZE).contains(&addr)
    }

    /// Changes the permission of every mapped page that the range touches; `Perm::NONE` is [`Memory::unmap`]'s.
    ///
    /// # Panics
    /// If `perm` is `Perm::NONE`.
    pub fn protect(&mut self, addr: GuestAddr, len: u64, perm: Perm) {
        assert_ne!(perm, Perm::NONE, "unmap takes pages away, protect only changes them");
        let first = (addr.0 >> PAGE_SHIFT) as usize;
        let end = addr.0.saturating_add(len).min(GUEST_LIMIT).div_ceil(PAGE_SIZE) as usize;
        // From the last page on, so that what follows a page is known.
        for page in (first..end).rev() {
            if self.perms()[page] != 0 {
                self.set_perm(page, perm);
            }
        }
        if first < end {
            self.renew_perm(first);
        }
    }

    /// The record of `LEN` bytes at `addr`, for a host that keeps its numbers true while programs read them. It stays where
    /// it is for as long as the host has it, whatever becomes of the memory.
    ///
    /// # Errors
    /// A fault without a place if any of the pages is not mapped.
    ///
    /// # Panics
    /// If it is not aligned to 8 bytes.
    pub fn share<const LEN: usize>(&mut self, addr: GuestAddr) -> Result<Shared<LEN>, Fault> {
        assert!(addr.0.is_multiple_of(8), "the numbers of a record are aligned");
        self.check_mapped(addr.0, LEN as u64, Access::Write)?;
        let at = NonNull::new(self.at(addr.0)).expect("the mapping is not at NULL");
        // SAFETY: the record lies in the mapping, of which one owner is kept; references to it come from methods of this
        // type and end before their callers call the host again.
        Ok(unsafe { Shared::at(at, self.map.clone()) })
    }

    fn set_perms(&mut self, addr: u64, len: u64, perm: Perm) {
        debug_assert!((addr | len) & PAGE_MASK == 0, "permissions are of whole pages");
        debug_assert!(addr + len <= GUEST_LIMIT, "the range is in the guest");
        let (first, end) = ((addr >> PAGE_SHIFT) as usize, ((addr + len) >> PAGE_SHIFT) as usize);
        if first == end {
            return;
        }
        self.parts_mut().0[first..end - 1].fill(perm.followed_by(perm.0));
        self.set_perm(end - 1, perm);
        self.renew_perm(first);
    }

    /// Sets the permission of a page whose next one has its own.
    fn set_perm(&mut self, page: usize, perm: Perm) {
        debug_assert!(page + 1 < PERM_BYTES, "a page has a permission behind it");
        let perms = self.parts_mut().0;
        perms[page] = perm.followed_by(perms[page + 1]);
    }

    /// The permission of page number `page` has changed: what the one before it says of both is brought up to date.
    fn renew_perm(&mut self, page: usize) {
        if let Some(before) = page.checked_sub(1) {
            self.set_perm(before, Perm::of_page(self.perms()[before]));
        }
    }

    fn zero_pages(&mut self, start: u64, end: u64) {
        debug_assert!((start | end) & PAGE_MASK == 0 && start <= end, "pages are zeroed whole");
        #[cfg(target_os = "linux")]
        if end - start >= RELEASE_LEN {
            let (offset, len) = (GUEST_AT + self.room.place(start), (end - start) as usize);
            // SAFETY: the range is page-aligned and inside the private anonymous mapping; dropping such pages makes
            // them read as zeroes, which is the purpose, and `&mut self` proves that no reference into them lives.
            let dropped = unsafe {
                self.map.mapping().unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, len)
            };
            if dropped.is_ok() {
                return;
            }
        }
        for page in start >> PAGE_SHIFT..end >> PAGE_SHIFT {
            if self.perms()[page as usize] != 0 {
                let at = self.room.place(page << PAGE_SHIFT);
                self.guest_mut()[at..at + PAGE_SIZE as usize].fill(0);
            }
        }
    }

    /// Where the guest's memory lies in the host: [`GUEST_LIMIT`] bytes, and before them [`PERM_BYTES`] permission bytes, of
    /// which each of [`PAGE_COUNT`] pages has one. They stay there for as long as the memory exists.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn base(&mut self) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(GUEST_AT)
    }

    /// Where the byte of an address lies in the host, if its page was mapped.
    fn at(&self, addr: u64) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(GUEST_AT + self.room.place(addr))
    }

    /// The first address above the stack of frame number `frame`, which is what its r10 holds.
    #[inline(always)]
    pub(crate) fn frame_pointer(frame: u32) -> u64 {
        debug_assert!(frame <= MAX_FRAMES, "the stack has the frame");
        STACK_BASE + STACK_SIZE - FRAME_SIZE * u64::from(frame)
    }
}

#[cfg(test)]
mod tests;
