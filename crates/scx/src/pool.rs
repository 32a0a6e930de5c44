//! Masks that programs make (`bpf_cpumask_create()`): a pool of objects in guest memory.

use crate::mirror::kernel_perm;
use schedlab_bpf::{Fault, GuestAddr, Memory};

/// Masks that can exist at once. Chosen: four for each task there can be.
const MAX_MASKS: u64 = 4 << 16;

/// All masks made by programs. A free one's count is 0; addresses are reused last in, first out.
#[derive(Clone, Debug)]
pub(crate) struct Cpumasks {
    size: u64,
    /// Where `usage` lies.
    usage: u64,
    /// The first one's place, once there is one.
    base: Option<GuestAddr>,
    /// Masks that have been made at least once: those with lower numbers.
    made: u64,
    free: Vec<GuestAddr>,
}

impl Cpumasks {
    /// An empty pool of objects of `size` bytes.
    pub(crate) fn new(size: u64, usage: u64) -> Cpumasks {
        debug_assert!(usage < size, "a mask has a count of its users");
        Cpumasks { size, usage, base: None, made: 0, free: Vec::new() }
    }

    /// Bytes of a mask.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// An empty mask with one reference; none when guest memory is full.
    pub(crate) fn create(&mut self, mem: &mut Memory) -> Result<Option<GuestAddr>, Fault> {
        let base = match self.base {
            Some(base) => base,
            None => match mem.map(self.size * MAX_MASKS, kernel_perm()) {
                Ok(base) => *self.base.insert(base),
                Err(_) => return Ok(None),
            },
        };
        if self.free.is_empty() && self.made == MAX_MASKS || mem.take(self.size).is_err() {
            return Ok(None);
        }
        let addr = self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            base.offset((self.made - 1) * self.size)
        });
        mem.slice_mut(addr, self.size)?.fill(0);
        mem.write_u32(addr.offset(self.usage), 1)?;
        debug_assert!(self.is_live(mem, addr), "a new mask has a user");
        Ok(Some(addr))
    }

    /// Whether there is a mask at an address that has not been released.
    #[inline]
    pub(crate) fn is_live(&self, mem: &Memory, addr: GuestAddr) -> bool {
        let distance = self.base.and_then(|base| addr.0.checked_sub(base.0));
        let made =
            distance.is_some_and(|from| from.is_multiple_of(self.size) && from / self.size < self.made);
        made && mem.read_u32(addr.offset(self.usage)).is_ok_and(|count| count > 0)
    }

    /// One more reference to a live mask.
    pub(crate) fn acquire(&mut self, mem: &mut Memory, addr: GuestAddr) -> Result<(), Fault> {
        debug_assert!(self.is_live(mem, addr), "only a live mask has users");
        let count = mem.read_u32(addr.offset(self.usage))?;
        mem.write_u32(addr.offset(self.usage), count.saturating_add(1))
    }

    /// One reference to a live mask less; the last one frees it.
    pub(crate) fn release(&mut self, mem: &mut Memory, addr: GuestAddr) -> Result<(), Fault> {
        debug_assert!(self.is_live(mem, addr), "only a live mask has users");
        let count = mem.read_u32(addr.offset(self.usage))?.saturating_sub(1);
        mem.write_u32(addr.offset(self.usage), count)?;
        if count == 0 {
            self.free.push(addr);
            mem.give_back(self.size);
        }
        Ok(())
    }
}
