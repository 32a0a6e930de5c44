//! Memory as an argument: checked once, with its size and direction, and then read and written through the caller.

use super::{Arg, Caller, Registers, Shape, misuse};
use crate::engine::WORK_FREE;
use crate::fault::Fault;
use crate::helpers::{Env, MAX_ARGS, format};
use crate::maps::Errno;
use crate::memory::{GuestAddr, Memory, PAGE_SIZE, Perm};
use std::ffi::CStr;

/// Most bytes of a text: of a format (kernel: `MAX_BPRINTF_BUF`, `SCX_EXIT_MSG_LEN`), of what one `%s` stands for, and of what is
/// printed of both.
pub const MAX_TEXT: u64 = 1024;

/// Memory that the program may read.
#[derive(Debug, Clone, Copy)]
pub struct Readable {
    at: GuestAddr,
    len: u64,
}

/// Memory of the program's own that it may write; never a kernel object.
#[derive(Debug, Clone, Copy)]
pub struct Writable {
    at: GuestAddr,
    len: u64,
}

impl Readable {
    /// Where it lies.
    #[inline]
    pub fn at(self) -> GuestAddr {
        self.at
    }

    /// Bytes.
    #[inline]
    pub fn size(self) -> u64 {
        self.len
    }

    /// The bytes of the argument.
    #[inline]
    pub(crate) fn of(self, mem: &Memory) -> Result<&[u8], Fault> {
        if self.len == 0 { Ok(&[]) } else { mem.slice(self.at, self.len) }
    }
}

impl Writable {
    /// Where it lies.
    pub fn at(self) -> GuestAddr {
        self.at
    }

    /// Bytes.
    pub fn size(self) -> u64 {
        self.len
    }
}

/// A pointer to `N` bytes that are read.
#[derive(Debug, Clone, Copy)]
pub struct In<const N: usize>(pub Readable);

/// A pointer to `N` bytes that are written.
#[derive(Debug, Clone, Copy)]
pub struct Out<const N: usize>(pub Writable);

/// A pointer to bytes that are read, and their number; no bytes may be NULL.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub Readable);

/// A pointer to room that is written, and its size; no room may be NULL.
#[derive(Debug, Clone, Copy)]
pub struct Buffer(pub Writable);

/// A pointer to `N` aligned bytes on the stack, where the kernel's verifier keeps iterators and saved flags.
#[derive(Debug, Clone, Copy)]
pub struct OnStack<const N: usize>(pub Writable);

/// A pointer that is only compared, never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer(pub GuestAddr);

/// A text that a zero ends, without it; cut to [`MAX_TEXT`] bytes.
#[derive(Debug, Clone)]
pub struct Text(pub Vec<u8>);

/// The size argument of helpers: 32 bits.
fn size(registers: &mut Registers<'_>) -> u64 {
    u64::from(registers.take() as u32)
}

macro_rules! memory_args {
    ($(($($generic:tt)*) $name:ty, [$($shape:ident),*], |$registers:ident, $caller:ident| $make:expr;)*) => { $(
        impl<E: Env, $($generic)*> Arg<E> for $name {
            const SHAPE: &'static [Shape] = &[$(Shape::$shape),*];

            #[inline(always)]
            fn take($registers: &mut Registers<'_>, $caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
                $make
            }
        }
    )* };
}

memory_args! {
    (const N: usize) In<N>, [Pointer], |registers, caller| caller.readable(registers.take(), N as u64).map(In);
    (const N: usize) Out<N>, [Pointer], |registers, caller| caller.writable(registers.take(), N as u64).map(Out);
    (const N: usize) OnStack<N>, [Pointer], |registers, caller| caller.on_stack(registers.take(), N as u64).map(OnStack);
    () Bytes, [Pointer, Number], |registers, caller| {
        let addr = registers.take();
        caller.readable(addr, size(registers)).map(Bytes)
    };
    () Buffer, [Pointer, Number], |registers, caller| {
        let addr = registers.take();
        caller.writable(addr, size(registers)).map(Buffer)
    };
    () Pointer, [Pointer], |registers, _caller| Ok(Pointer(GuestAddr(registers.take())));
    () Text, [Pointer], |registers, caller| {
        let addr = registers.take();
        let text = caller.text(addr, MAX_TEXT)?;
        text.map(Text).ok_or_else(|| misuse(format!("there is no text at {addr:#x}")))
    };
}

impl<E: Env> Caller<'_, '_, E> {
    /// Memory from which `len` bytes are to be read.
    ///
    /// # Errors
    /// Ends the program: it may not read there, or the work is beyond its budget.
    #[inline(always)]
    pub fn readable(&mut self, addr: u64, len: u64) -> Result<Readable, Fault> {
        if self.is_plain(addr, len, Perm::READ) {
            return Ok(Readable { at: GuestAddr(addr), len });
        }
        self.check_readable(addr, len)
    }

    /// Whether these bytes are few, lie in a page that has this permission, and no line is followed: most arguments do.
    #[inline(always)]
    fn is_plain(&self, addr: u64, len: u64, need: Perm) -> bool {
        len <= WORK_FREE && self.vm.mem.in_page(addr, len, need) && !self.vm.mem.follows_lines()
    }

    #[inline(never)]
    fn check_readable(&mut self, addr: u64, len: u64) -> Result<Readable, Fault> {
        let at = GuestAddr(addr);
        if len > 0 {
            self.freshen(addr)?;
            self.vm.mem.check_readable(at, len)?;
            self.vm.mem.touch_all(at, len, false, self.vm.site());
        }
        self.vm.work_bytes(len)?;
        Ok(Readable { at, len })
    }

    /// Memory to which `len` bytes are to be written.
    ///
    /// # Errors
    /// Ends the program: it may not write there, or the work is beyond its budget.
    #[inline(always)]
    pub fn writable(&mut self, addr: u64, len: u64) -> Result<Writable, Fault> {
        if self.is_plain(addr, len, Perm::WRITE) {
            return Ok(Writable { at: GuestAddr(addr), len });
        }
        self.check_writable(addr, len)
    }

    #[inline(never)]
    fn check_writable(&mut self, addr: u64, len: u64) -> Result<Writable, Fault> {
        let at = GuestAddr(addr);
        if len > 0 {
            self.vm.mem.check_own(at, len)?;
            self.vm.mem.touch_all(at, len, true, self.vm.site());
        }
        self.vm.work_bytes(len)?;
        Ok(Writable { at, len })
    }

    fn on_stack(&mut self, addr: u64, len: u64) -> Result<Writable, Fault> {
        let (start, size) = self.vm.mem.stack();
        let inside = addr.checked_sub(start.0).is_some_and(|from| from.saturating_add(len) <= size);
        if !inside || !addr.is_multiple_of(8) {
            return Err(misuse(format!("{addr:#x} is no aligned place on the stack")));
        }
        self.writable(addr, len)
    }

    /// The bytes of an argument.
    ///
    /// # Errors
    /// Ends the program: they have gone since, for a callback freed them.
    #[inline]
    pub fn bytes(&self, of: Readable) -> Result<&[u8], Fault> {
        of.of(self.vm.mem)
    }

    /// Whether somebody wants to know what calls write.
    pub(crate) fn follows_lines(&self) -> bool {
        self.vm.mem.follows_lines()
    }

    /// The call has written the value of this length that a program finds at `addr`, if it finds one.
    pub(crate) fn wrote_value(&mut self, addr: Option<GuestAddr>, len: u64) {
        if let Some(addr) = addr {
            self.vm.mem.touch_all(addr, len, true, self.vm.site());
        }
    }

    /// The numbers of eight bytes each that an argument begins with.
    ///
    /// # Errors
    /// As [`Caller::bytes`].
    #[inline]
    pub fn words<const N: usize, const WORDS: usize>(&self, of: In<N>) -> Result<[u64; WORDS], Fault> {
        const { assert!(WORDS * 8 <= N, "the argument has so many words") };
        let (words, _) = self.bytes(of.0)?.as_chunks::<8>();
        Ok(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
    }

    /// The room of an argument.
    ///
    /// # Errors
    /// As [`Caller::bytes`].
    #[inline]
    pub fn room(&mut self, of: Writable) -> Result<&mut [u8], Fault> {
        debug_assert!(
            of.len == 0 || self.vm.mem.check_own(of.at, of.len).is_ok(),
            "the range was checked when it was taken"
        );
        if of.len == 0 { Ok(&mut []) } else { self.vm.mem.slice_mut(of.at, of.len) }
    }

    /// Writes the first bytes of an argument's room, as many as it has.
    ///
    /// # Errors
    /// As [`Caller::bytes`].
    pub fn fill(&mut self, of: Writable, bytes: &[u8]) -> Result<(), Fault> {
        let room = self.room(of)?;
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        Ok(())
    }

    /// What an argument on the stack holds.
    ///
    /// # Errors
    /// As [`Caller::bytes`].
    pub fn held<const N: usize>(&self, place: OnStack<N>) -> Result<u64, Fault> {
        self.vm.mem.read_u64(place.0.at)
    }

    /// Copies mapped memory, whatever it is, into a buffer; false, and zeros in the buffer, where it is not mapped.
    ///
    /// # Errors
    /// As [`Caller::bytes`].
    pub(crate) fn probe(&mut self, to: Writable, from: u64) -> Result<bool, Fault> {
        self.freshen(from)?;
        let found = self.vm.mem.slice(GuestAddr(from), to.len).map(<[u8]>::to_vec);
        let room = self.room(to)?;
        match &found {
            Ok(bytes) => room.copy_from_slice(bytes),
            Err(_) => room.fill(0),
        }
        Ok(found.is_ok())
    }

    /// The bytes at an address up to, without, a zero, at most `limit`; nothing if they cannot be read.
    ///
    /// # Errors
    /// Ends the program: what the kernel keeps lazily there cannot be brought up to date.
    pub(crate) fn text(&mut self, addr: u64, limit: u64) -> Result<Option<Vec<u8>>, Fault> {
        self.freshen(addr)?;
        Ok(text(addr, limit, self.vm.mem))
    }

    /// A text with its conversions done, as the kernel does them; cut to [`MAX_TEXT`] bytes. `EINVAL` for a conversion that
    /// programs cannot use, or more conversions than arguments.
    ///
    /// # Errors
    /// Ends the program: each byte of format and text counts as an instruction, and its budget is used up.
    pub fn format(&mut self, form: &[u8], args: &[u64]) -> Result<Result<String, Errno>, Fault> {
        let text = self.format_whole(form, args)?;
        Ok(text.map(|mut text| {
            text.truncate(cut(&text, MAX_TEXT as usize).len());
            text
        }))
    }

    /// The formatted text, uncut: up to [`MAX_TEXT`] bytes for the format and for each of its conversions.
    ///
    /// # Errors
    /// As [`Caller::format`].
    pub(crate) fn format_whole(&mut self, form: &[u8], args: &[u64]) -> Result<Result<String, Errno>, Fault> {
        let text = format(form, args, self.vm.mem);
        let written = text.as_ref().map_or(0, String::len);
        self.vm.work((form.len() + written) as u64)?;
        Ok(text)
    }

    /// The packed arguments of a format; more than a format takes are left out.
    ///
    /// # Errors
    /// As [`Caller::bytes`].
    pub fn format_args(&self, of: Bytes) -> Result<Vec<u64>, Fault> {
        let words = self.bytes(of.0)?.as_chunks::<8>().0.iter().take(MAX_ARGS);
        Ok(words.map(|word| u64::from_le_bytes(*word)).collect())
    }
}

/// The beginning of a text that has at most so many bytes.
pub fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    debug_assert!(end.is_some(), "a text has a boundary at its beginning");
    &text[..end.unwrap_or(0)]
}

/// So many bytes at an address; zeros where they cannot be read.
pub(crate) fn bytes_or_zeros(addr: u64, length: u64, mem: &Memory) -> Vec<u8> {
    mem.slice(GuestAddr(addr), length).map_or_else(|_| vec![0; length as usize], <[u8]>::to_vec)
}

/// The bytes at an address up to, without, a zero, at most `limit`; nothing if they cannot be read.
pub(crate) fn text(addr: u64, limit: u64, mem: &Memory) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    let mut at = addr;
    while (found.len() as u64) < limit {
        let piece = (PAGE_SIZE - at % PAGE_SIZE).min(limit - found.len() as u64);
        let bytes = mem.slice(GuestAddr(at), piece).ok()?;
        // The library looks at words, not bytes.
        let len = CStr::from_bytes_until_nul(bytes).ok().map(CStr::count_bytes);
        found.extend_from_slice(&bytes[..len.unwrap_or(bytes.len())]);
        if len.is_some() {
            break;
        }
        at = at.checked_add(piece)?;
    }
    Some(found)
}
