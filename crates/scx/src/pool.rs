//! Masks that programs make (`bpf_cpumask_create()`): a pool of objects in guest memory.

use crate::mirror::kernel_perm;
use schedlab_bpf::{Fault, GuestAddr, Memory};

/// Objects per piece of guest memory.
const CHUNK: u64 = 16;

/// All masks made by programs. A free one's count is 0; addresses are reused last in, first out.
#[derive(Debug)]
pub(crate) struct Cpumasks {
    size: u64,
    /// Where `usage` lies.
    usage: u64,
    free: Vec<GuestAddr>,
}

impl Cpumasks {
    /// An empty pool of objects of `size` bytes.
    pub(crate) fn new(size: u64, usage: u64) -> Cpumasks {
        Cpumasks { size, usage, free: Vec::new() }
    }

    /// An empty mask with one reference; NULL when guest memory is full.
    pub(crate) fn create(&mut self, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        if self.free.is_empty() {
            let Ok(base) = mem.map(self.size * CHUNK, kernel_perm()) else { return Ok(GuestAddr::NULL) };
            self.free.extend((0..CHUNK).rev().map(|index| base.offset(index * self.size)));
        }
        let Some(addr) = self.free.pop() else { return Ok(GuestAddr::NULL) };
        mem.slice_mut(addr, self.size)?.fill(0);
        mem.write_u32(addr.offset(self.usage), 1)?;
        Ok(addr)
    }

    fn count(&self, mem: &Memory, addr: GuestAddr) -> Result<u32, Fault> {
        match mem.read_u32(addr.offset(self.usage))? {
            0 => Err(Fault::host(0, format!("the cpumask at {addr} has been released"))),
            count => Ok(count),
        }
    }

    /// One more reference.
    pub(crate) fn acquire(&mut self, mem: &mut Memory, addr: GuestAddr) -> Result<(), Fault> {
        let count = self.count(mem, addr)?;
        mem.write_u32(addr.offset(self.usage), count + 1)
    }

    /// One reference less; the last one frees the mask.
    pub(crate) fn release(&mut self, mem: &mut Memory, addr: GuestAddr) -> Result<(), Fault> {
        let count = self.count(mem, addr)? - 1;
        mem.write_u32(addr.offset(self.usage), count)?;
        if count == 0 {
            self.free.push(addr);
        }
        Ok(())
    }
}
