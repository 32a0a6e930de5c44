//! Why a run ended early: one kind, the place in the program, and how much had been executed.

use crate::code::FuncId;
use crate::memory::GuestAddr;
use std::fmt;

/// What a program did with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load, or a host's read on the program's behalf.
    Read,
    /// A store, an atomic, or a host's write on the program's behalf.
    Write,
}

/// The reasons for which a run ends without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access in the first 64 KiB, which are never mapped: a NULL pointer, perhaps with a member's offset.
    NullDeref {
        /// The address.
        addr: GuestAddr,
        /// The direction of the access.
        access: Access,
    },
    /// An access to an address that is not mapped, or not for this direction.
    BadAccess {
        /// The address of the access's first byte.
        addr: GuestAddr,
        /// Bytes.
        size: u64,
        /// The direction of the access.
        access: Access,
    },
    /// An access below the stack of the deepest frame.
    StackOverflow {
        /// The address.
        addr: GuestAddr,
    },
    /// The run executed as many instructions as it was given.
    Budget {
        /// The number it was given.
        limit: u64,
    },
    /// More frames than the stack holds, callbacks included.
    CallDepth {
        /// The number of frames that the stack holds.
        limit: u32,
    },
    /// A call through a register that holds no function of this program, or of a function that is not there.
    BadCall {
        /// The register's value, or the function's number.
        target: u64,
    },
    /// Something the machine or its host does not model, by name.
    Unsupported(String),
    /// A host's own reason.
    Host {
        /// The host's number for it; 0 if it has none.
        code: u64,
        /// One line for people.
        text: String,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |access: &Access| match access {
            Access::Read => "read",
            Access::Write => "write",
        };
        match self {
            FaultKind::NullDeref { addr, access } => {
                write!(f, "NULL pointer {} at {addr}", verb(access))
            }
            FaultKind::BadAccess { addr, size, access } => {
                write!(f, "bad {} of {size} bytes at {addr}", verb(access))
            }
            FaultKind::StackOverflow { addr } => write!(f, "stack overflow at {addr}"),
            FaultKind::Budget { limit } => write!(f, "ran too long: {limit} instructions"),
            FaultKind::CallDepth { limit } => write!(f, "calls nest deeper than {limit} frames"),
            FaultKind::BadCall { target } => {
                write!(f, "call of {target:#x}, which is no function of this program")
            }
            FaultKind::Unsupported(what) => write!(f, "{what} is not supported"),
            FaultKind::Host { text, .. } => f.write_str(text),
        }
    }
}

/// Where in a program a fault happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The function.
    pub func: FuncId,
    /// The function's name, as given when the code was built.
    pub function: String,
    /// Slot of the instruction, counted from the function's start.
    pub insn: u32,
}

/// The end of a run that did not reach its exit.
///
/// A fault is one pointer wide, so that results on the fast path stay in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: FaultKind,
    backtrace: Vec<Location>,
    insns: u64,
}

impl Fault {
    /// A fault without a place; the engine adds place and count as it passes.
    #[must_use]
    pub fn new(kind: FaultKind) -> Self {
        Fault(Box::new(Inner { kind, backtrace: Vec::new(), insns: 0 }))
    }

    /// A host's own fault: a number for programs, a line for people.
    #[must_use]
    pub fn host(code: u64, text: impl Into<String>) -> Self {
        Self::new(FaultKind::Host { code, text: text.into() })
    }

    /// A fault for something that is not modelled; `what` names it.
    #[must_use]
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Unsupported(what.into()))
    }

    /// The reason.
    #[must_use]
    pub fn kind(&self) -> &FaultKind {
        &self.0.kind
    }

    /// The instruction that faulted, or called the host that did; `None` outside a run.
    #[must_use]
    pub fn location(&self) -> Option<&Location> {
        self.0.backtrace.first()
    }

    /// The faulting instruction, then the call sites that led there, innermost first, callbacks included.
    #[must_use]
    pub fn backtrace(&self) -> &[Location] {
        &self.0.backtrace
    }

    /// Instructions executed by the run up to and including the faulting one.
    #[must_use]
    pub fn insns(&self) -> u64 {
        self.0.insns
    }

    pub(crate) fn push_location(&mut self, location: Location) {
        self.0.backtrace.push(location);
    }

    pub(crate) fn set_insns(&mut self, insns: u64) {
        self.0.insns = insns;
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.location() {
            Some(at) => write!(f, "{} (in {} at instruction {})", self.0.kind, at.function, at.insn),
            None => self.0.kind.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        Fault::new(kind)
    }
}
