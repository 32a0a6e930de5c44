//! Reading and writing: the host's view, and what programs may do.

use super::{GUEST_LIMIT, GuestAddr, Memory, NULL_LIMIT, PAGE_MASK, PAGE_SHIFT, PAGE_SIZE, Perm, STACK_BASE};
use crate::fault::{Access, Fault, FaultKind};

/// The outcome of a program's store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Store {
    Done,
    /// The page belongs to the kernel: the host is to decide.
    Kernel,
}

impl Memory {
    /// The permission of the page that holds `addr`.
    #[must_use]
    pub fn perm_at(&self, addr: GuestAddr) -> Perm {
        self.perm_byte(addr.0).map_or(Perm::NONE, Perm::of_page)
    }

    /// The permission byte of the page that holds `addr`, if the guest has the page. Its number may be beyond the host's
    /// `usize`.
    #[inline(always)]
    fn perm_byte(&self, addr: u64) -> Option<u8> {
        self.perms().get(usize::try_from(addr >> PAGE_SHIFT).ok()?).copied()
    }

    /// The host's view of `len` mapped bytes.
    ///
    /// # Errors
    /// A fault without a place if any of the pages is not mapped.
    #[inline]
    pub fn slice(&self, addr: GuestAddr, len: u64) -> Result<&[u8], Fault> {
        if !self.in_mapped_page(addr.0, len) {
            self.check_mapped(addr.0, len, Access::Read)?;
        }
        debug_assert!(addr.0 + len <= GUEST_LIMIT, "a mapped range lies in the guest");
        let at = self.room.place(addr.0);
        Ok(&self.guest()[at..at + len as usize])
    }

    /// The host's writable view of `len` mapped bytes, whatever the program may do with them.
    ///
    /// # Errors
    /// A fault without a place if any of the pages is not mapped.
    #[inline]
    pub fn slice_mut(&mut self, addr: GuestAddr, len: u64) -> Result<&mut [u8], Fault> {
        if !self.in_mapped_page(addr.0, len) {
            self.check_mapped(addr.0, len, Access::Write)?;
        }
        debug_assert!(addr.0 + len <= GUEST_LIMIT, "a mapped range lies in the guest");
        let at = self.room.place(addr.0);
        Ok(&mut self.guest_mut()[at..at + len as usize])
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// As [`Memory::slice`]; the same holds for all reads below.
    pub fn read_u8(&self, addr: GuestAddr) -> Result<u8, Fault> {
        self.read::<1>(addr).map(u8::from_le_bytes)
    }

    /// Reads four little-endian bytes.
    #[allow(clippy::missing_errors_doc, reason = "stated once at read_u8")]
    pub fn read_u32(&self, addr: GuestAddr) -> Result<u32, Fault> {
        self.read::<4>(addr).map(u32::from_le_bytes)
    }

    /// Reads eight little-endian bytes.
    #[allow(clippy::missing_errors_doc, reason = "stated once at read_u8")]
    pub fn read_u64(&self, addr: GuestAddr) -> Result<u64, Fault> {
        self.read::<8>(addr).map(u64::from_le_bytes)
    }

    /// Writes one byte, whatever the program may do with the page.
    ///
    /// # Errors
    /// As [`Memory::slice_mut`]; the same holds for all writes below.
    pub fn write_u8(&mut self, addr: GuestAddr, value: u8) -> Result<(), Fault> {
        self.write_number(addr, value.to_le_bytes())
    }

    /// Writes four little-endian bytes.
    #[allow(clippy::missing_errors_doc, reason = "stated once at write_u8")]
    pub fn write_u32(&mut self, addr: GuestAddr, value: u32) -> Result<(), Fault> {
        self.write_number(addr, value.to_le_bytes())
    }

    /// Writes eight little-endian bytes.
    #[allow(clippy::missing_errors_doc, reason = "stated once at write_u8")]
    pub fn write_u64(&mut self, addr: GuestAddr, value: u64) -> Result<(), Fault> {
        self.write_number(addr, value.to_le_bytes())
    }

    /// Writes a byte string.
    #[allow(clippy::missing_errors_doc, reason = "stated once at write_u8")]
    pub fn write(&mut self, addr: GuestAddr, bytes: &[u8]) -> Result<(), Fault> {
        self.slice_mut(addr, bytes.len() as u64)?.copy_from_slice(bytes);
        Ok(())
    }

    fn write_number<const N: usize>(&mut self, addr: GuestAddr, bytes: [u8; N]) -> Result<(), Fault> {
        if self.poke(addr.0, Perm::ANY, bytes) { Ok(()) } else { self.write(addr, &bytes) }
    }

    fn read<const N: usize>(&self, addr: GuestAddr) -> Result<[u8; N], Fault> {
        if let Some(bytes) = self.peek(addr.0, Perm::ANY) {
            return Ok(bytes);
        }
        self.read_slowly(addr)
    }

    /// A read that crosses a page, or fails.
    #[cold]
    fn read_slowly<const N: usize>(&self, addr: GuestAddr) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.slice(addr, N as u64)?);
        Ok(bytes)
    }

    /// Checks that a program's own instruction may access `len` bytes in the given direction; a kernel page counts as
    /// writable, since its host decides.
    ///
    /// # Errors
    /// The fault that the program's own access would have raised, without a place.
    pub(crate) fn check_program_access(
        &self,
        addr: GuestAddr,
        len: u64,
        access: Access,
    ) -> Result<(), Fault> {
        let allowed = |perm: u8| match access {
            Access::Read => perm & (Perm::READ.0 | Perm::LAZY.0) != 0,
            Access::Write => perm & (Perm::WRITE.0 | Perm::KERNEL.0) != 0,
        };
        self.check_pages(addr.0, len, access, allowed)
    }

    /// Checks that a helper may write `len` bytes for a program: memory of the program's own, never a kernel object.
    ///
    /// # Errors
    /// The fault that the program's own access would have raised, without a place.
    #[inline]
    pub fn check_own(&self, addr: GuestAddr, len: u64) -> Result<(), Fault> {
        if self.in_page(addr.0, len, Perm::WRITE) {
            return Ok(());
        }
        self.check_pages(addr.0, len, Access::Write, |perm| perm & Perm::WRITE.0 != 0)
    }

    /// Checks that a helper may read `len` bytes for a program.
    ///
    /// # Errors
    /// As [`Memory::check_own`].
    #[inline]
    pub fn check_readable(&self, addr: GuestAddr, len: u64) -> Result<(), Fault> {
        if self.in_page(addr.0, len, Perm(Perm::READ.0 | Perm::LAZY.0)) {
            return Ok(());
        }
        self.check_program_access(addr, len, Access::Read)
    }

    /// Whether these bytes lie within one page that has one of the permissions `need`.
    #[inline]
    pub(crate) fn in_page(&self, addr: u64, len: u64, need: Perm) -> bool {
        (addr & PAGE_MASK).saturating_add(len) <= PAGE_SIZE
            && self.perm_byte(addr).is_some_and(|perm| perm & need.0 != 0)
    }

    /// Whether these bytes lie within a mapped page, as most objects do.
    #[inline]
    fn in_mapped_page(&self, addr: u64, len: u64) -> bool {
        self.in_page(addr, len, Perm::ANY)
    }

    #[inline(never)]
    pub(super) fn check_mapped(&self, addr: u64, len: u64, access: Access) -> Result<(), Fault> {
        self.check_pages(addr, len, access, |perm| perm != 0)
    }

    #[inline]
    fn check_pages(&self, addr: u64, len: u64, access: Access, ok: impl Fn(u8) -> bool) -> Result<(), Fault> {
        let bad = || Fault::new(Self::classify(addr, len, access));
        let end = addr.checked_add(len).filter(|end| *end <= GUEST_LIMIT).ok_or_else(bad)?;
        // An empty range still names a page: a NULL pointer with length 0 stays legal only for the caller to allow.
        let first = (addr >> PAGE_SHIFT) as usize;
        let last = (end.max(addr + 1) - 1) >> PAGE_SHIFT;
        debug_assert!(first <= last as usize, "a range has a first and a last page");
        let pages = self.perms().get(first..=last as usize).ok_or_else(bad)?;
        if pages.iter().all(|perm| ok(*perm)) { Ok(()) } else { Err(bad()) }
    }

    /// The name of a failed access.
    #[cold]
    pub(crate) fn classify(addr: u64, size: u64, access: Access) -> FaultKind {
        let guest = GuestAddr(addr);
        if addr < NULL_LIMIT {
            FaultKind::NullDeref { addr: guest, access }
        } else if (STACK_BASE - PAGE_SIZE..STACK_BASE).contains(&addr) {
            FaultKind::StackOverflow { addr: guest }
        } else {
            FaultKind::BadAccess { addr: guest, size, access }
        }
    }

    /// Whether `N` bytes at `addr` lie in one page that has one of the permissions `need`.
    #[inline(always)]
    fn fast<const N: usize>(&self, addr: u64, need: Perm) -> bool {
        let in_page = (addr & PAGE_MASK) <= PAGE_SIZE - N as u64;
        in_page && self.perm_byte(addr).is_some_and(|perm| perm & need.0 != 0)
    }

    /// `N` bytes that lie in one page with permission `need`; `None` if they do not.
    #[inline(always)]
    fn peek<const N: usize>(&self, addr: u64, need: Perm) -> Option<[u8; N]> {
        if !self.fast::<N>(addr, need) {
            return None;
        }
        debug_assert!(addr + N as u64 <= GUEST_LIMIT, "a mapped page lies in the guest");
        let mut bytes = [0; N];
        // SAFETY: `fast` found a permission of addr's page, so addr < GUEST_LIMIT, and the N bytes end in the same page, so
        // they lie in the guest's part of the mapping.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.guest().as_ptr().add(self.room.place(addr)),
                bytes.as_mut_ptr(),
                N,
            )
        };
        Some(bytes)
    }

    /// Writes bytes that lie in one page with permission `need`; false if they do not.
    #[inline(always)]
    fn poke<const N: usize>(&mut self, addr: u64, need: Perm, bytes: [u8; N]) -> bool {
        if !self.fast::<N>(addr, need) {
            return false;
        }
        debug_assert!(addr + N as u64 <= GUEST_LIMIT, "a mapped page lies in the guest");
        let at = self.room.place(addr);
        // SAFETY: as in `peek`; `&mut self` makes the mapping ours alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.guest_mut().as_mut_ptr().add(at), N) };
        true
    }

    /// A program's load of `N` bytes, zero-extended, if it goes straight to one readable page; else the caller asks
    /// [`Memory::is_lazy`] and then [`Memory::load_fresh`].
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&self, addr: u64) -> Option<u64> {
        self.peek::<N>(addr, Perm::READ).map(widen)
    }

    /// A program's store of the low `N` bytes of `value`.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, addr: u64, value: u64) -> Result<Store, ()> {
        let mut low = [0; N];
        low.copy_from_slice(&value.to_le_bytes()[..N]);
        if self.poke(addr, Perm::WRITE, low) {
            return Ok(Store::Done);
        }
        self.store_slowly(addr, N as u64, value)
    }

    /// Whether an access of `size` bytes touches a page marked [`Perm::LAZY`].
    #[inline]
    pub(crate) fn is_lazy(&self, addr: u64, size: u64) -> bool {
        let lazy = |addr: u64| self.perm_at(GuestAddr(addr)).contains(Perm::LAZY);
        lazy(addr) || (addr & PAGE_MASK) + size > PAGE_SIZE && lazy(addr.wrapping_add(size - 1))
    }

    /// A load that may touch pages marked [`Perm::LAZY`], which the host has brought up to date.
    #[inline]
    pub(crate) fn load_fresh<const N: usize>(&self, addr: u64) -> Result<u64, ()> {
        match self.peek::<N>(addr, Perm(Perm::READ.0 | Perm::LAZY.0)) {
            Some(low) => Ok(widen(low)),
            None => self.load_slowly(addr, N as u64),
        }
    }

    /// Loads that cross a page, or fail.
    #[cold]
    #[inline(never)]
    fn load_slowly(&self, addr: u64, size: u64) -> Result<u64, ()> {
        self.check_program_access(GuestAddr(addr), size, Access::Read).map_err(|_| ())?;
        debug_assert!(size <= 8, "a load is of 8 bytes at most");
        let mut bytes = [0; 8];
        let at = self.room.place(addr);
        bytes[..size as usize].copy_from_slice(&self.guest()[at..at + size as usize]);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores that cross a page, meet a kernel page, or fail.
    #[cold]
    #[inline(never)]
    fn store_slowly(&mut self, addr: u64, size: u64, value: u64) -> Result<Store, ()> {
        self.check_program_access(GuestAddr(addr), size, Access::Write).map_err(|_| ())?;
        debug_assert!((1..=8).contains(&size), "a store is of 8 bytes at most");
        let last = GuestAddr(addr + size - 1);
        if self.perm_at(GuestAddr(addr)).contains(Perm::KERNEL) || self.perm_at(last).contains(Perm::KERNEL) {
            return Ok(Store::Kernel);
        }
        let at = self.room.place(addr);
        self.guest_mut()[at..at + size as usize].copy_from_slice(&value.to_le_bytes()[..size as usize]);
        Ok(Store::Done)
    }
}

/// Little-endian bytes as a number.
#[inline(always)]
fn widen<const N: usize>(low: [u8; N]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&low);
    u64::from_le_bytes(bytes)
}
