//! Addresses, permissions, and why memory could not be mapped.

use std::fmt;
use std::ops::BitOr;

/// An address in the guest; 0 is NULL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GuestAddr(pub u64);

impl GuestAddr {
    /// The NULL pointer.
    pub const NULL: GuestAddr = GuestAddr(0);

    /// Whether this is NULL itself.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` further on, wrapping at 2^64 as the machine's addition does.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        GuestAddr(self.0.wrapping_add(bytes))
    }

    /// Whether the address lies in the arena's window.
    #[must_use]
    pub const fn is_arena(self) -> bool {
        self.0 >> 32 == 1
    }
}

impl fmt::Display for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestAddr({:#x})", self.0)
    }
}

/// Where in a permission byte it stands what the next page allows too.
const NEXT_SHIFT: u8 = 4;

/// What a program may do with a page. A page without any permission is not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Perm(pub(super) u8);

impl Perm {
    /// Not mapped.
    pub const NONE: Perm = Perm(0);
    /// The program may load from it.
    pub const READ: Perm = Perm(1);
    /// The program may store to it.
    pub const WRITE: Perm = Perm(2);
    /// A kernel object: the program's stores go to [`crate::engine::Host::kernel_store`], which decides.
    pub const KERNEL: Perm = Perm(4);
    /// A kernel object that the host brings up to date when somebody looks: the program's loads go to
    /// [`crate::engine::Host::kernel_load`] first. In the place of `READ`.
    pub const LAZY: Perm = Perm(8);
    /// Ordinary memory.
    pub const READ_WRITE: Perm = Perm(3);
    /// Every bit: what a host needs one of.
    pub(super) const ANY: Perm = Perm(15);
    /// The program may load from this page and from the next one, so that up to a page's bytes from here on can be loaded.
    /// [`super::Memory`] derives it from `READ`, as the one below from `WRITE`; neither is ever given.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const READ_NEXT: Perm = Perm(Perm::READ.0 << NEXT_SHIFT);
    /// The permission of the page behind, for stores.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const WRITE_NEXT: Perm = Perm(Perm::WRITE.0 << NEXT_SHIFT);

    /// Whether all of `other`'s permissions are here.
    #[must_use]
    pub const fn contains(self, other: Perm) -> bool {
        self.0 & other.0 == other.0
    }

    /// The permission byte of a page with these.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// That byte where the next page has the byte `next`: with what both allow.
    pub(super) const fn followed_by(self, next: u8) -> u8 {
        let own = self.0 & Perm::ANY.0;
        own | (own & next & Perm::READ_WRITE.0) << NEXT_SHIFT
    }

    /// What a permission byte says of its own page.
    pub(super) const fn of_page(byte: u8) -> Perm {
        Perm(byte & Perm::ANY.0)
    }
}

impl BitOr for Perm {
    type Output = Perm;
    fn bitor(self, other: Perm) -> Perm {
        Perm(self.0 | other.0)
    }
}

/// Why memory could not be mapped.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryError {
    /// The host did not give the 8 GiB of address space.
    Reserve(std::io::Error),
    /// The object has used up what it may take ([`super::Memory::set_limit`]).
    Limit {
        /// Bytes asked for.
        len: u64,
        /// Bytes that it may take in all.
        limit: u64,
    },
    /// Window 0 has no room for this many bytes.
    Full {
        /// Bytes asked for.
        len: u64,
    },
    /// A range that is not page-aligned, empty, below [`super::NULL_LIMIT`] or beyond [`super::GUEST_LIMIT`].
    BadRange {
        /// First address.
        addr: GuestAddr,
        /// Bytes.
        len: u64,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::Reserve(e) => write!(
                f,
                "cannot reserve 8 GiB of address space: {e}; raise the limit on virtual memory (ulimit -v)"
            ),
            MemoryError::Limit { len, limit } => {
                write!(
                    f,
                    "guest memory is used up: {len} more bytes exceed the limit of {limit} (--guest-memory)"
                )
            }
            MemoryError::Full { len } => {
                write!(f, "guest memory is full: no room for {len} bytes in 4 GiB")
            }
            MemoryError::BadRange { addr, len } => write!(f, "cannot map {len} bytes at {addr}"),
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MemoryError::Reserve(e) => Some(e),
            _ => None,
        }
    }
}
