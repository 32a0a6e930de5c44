//! A linked program image, ready to run: functions checked and decoded once into the engine's own form.
//!
//! What the linker must have done to the instructions before it hands them over:
//!
//! * a call with source 1 (`BPF_PSEUDO_CALL`) holds the callee's [`FuncId`] in its immediate. Functions are numbered
//!   in the order of [`CodeBuilder::add_function`], so a linker can number them before it adds any;
//! * a call with source 2 (`BPF_PSEUDO_KFUNC_CALL`) holds an index that only the host interprets, and no offset (in the
//!   kernel it picks a module);
//! * a call with source 0 holds a helper's number;
//! * a 64-bit immediate load with source 0 holds a plain number (guest addresses are put in already), with source 4
//!   (`BPF_PSEUDO_FUNC`) a `FuncId` in its low half, which becomes a callable value. All other sources are refused.
//!
//! Building refuses every encoding that the kernel's verifier would refuse for its form: unknown opcodes, reserved
//! fields that are not zero, jumps out of the function or into the middle of a 64-bit immediate load, writes to r10,
//! shifts by more than the width, functions that can run past their end. It does not follow values as the verifier
//! does; the engine checks every access when it happens instead.

mod decode;
mod raw;

use crate::engine::{DIRECT_KFUNCS, Native, NotCompiled};
use crate::fault::Location;
use crate::insn::Insn;
use crate::limits::{OBJECT_INSNS, PROGRAM_INSNS};
use crate::memory::{Memory, MemoryError, NO_LINES};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

pub(crate) use decode::{Op, OpCode, Reg};
pub use raw::from_slots;

/// The number of a function in its [`Code`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FuncId(pub u32);

/// High half of a function's value. Chosen: beyond every guest address, so that it is never memory.
const POINTER_TAG: u64 = 0x0b9f_f0c0_0000_0000;

impl FuncId {
    /// The value by which a program refers to the function (what the 64-bit immediate load with source 4 yields).
    #[must_use]
    pub const fn to_pointer(self) -> u64 {
        POINTER_TAG | self.0 as u64
    }

    /// The function meant by a program's value, if it has the form of one. Whether the function exists is
    /// [`Code::function`]'s to say.
    #[must_use]
    pub const fn from_pointer(value: u64) -> Option<Self> {
        if value >> 32 == POINTER_TAG >> 32 { Some(FuncId(value as u32)) } else { None }
    }
}

/// What the loader knows about single instructions of a function.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Slots whose access may fail without ending the run, as the kernel's exception table has it for walked kernel
    /// pointers: a failing load yields 0, a failing store or atomic does nothing.
    pub probe_mem: BTreeSet<u32>,
    /// Slots of calls whose helper or kernel function takes fewer than five arguments, and how many: the host does not look
    /// at the other registers.
    pub arguments: BTreeMap<u32, u8>,
}

/// One function of an image.
#[derive(Clone, Debug)]
pub struct Function {
    name: String,
    first: u32,
    op_count: u32,
    slot_count: u32,
}

impl Function {
    /// The function's name, as given to the builder.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function's length in 8-byte slots.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        self.slot_count
    }
}

/// Where compiled code finds the elements of an array map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is compiled there"))]
pub(crate) struct ArrayPlace {
    /// Address of the first one, on CPU 0 where each has its own.
    pub(crate) base: u64,
    /// Bytes from one to the next.
    pub(crate) stride: u64,
    /// How many there are.
    pub(crate) entries: u32,
    /// Bytes from those of one CPU to those of the next; 0 where all have the same.
    pub(crate) cpu_stride: u64,
}

/// The object's arrays by the values that stand for them.
pub(crate) type Arrays = BTreeMap<u64, ArrayPlace>;

/// A checked and decoded program image. Immutable, and independent of any memory or host.
#[derive(Clone, Debug)]
pub struct Code {
    /// The instructions of all functions, one after the other; jump targets are indices into this.
    pub(crate) ops: Vec<Op>,
    /// For each of `ops`, its slot in its function.
    slots: Vec<u32>,
    functions: Vec<Function>,
    /// Where known, look-ups in arrays and the CPU's number may be compiled in line.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is compiled there"))]
    pub(crate) arrays: Option<Arrays>,
    /// By index of a kernel function: the slot by which machine code enters it, where it has one.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is compiled there"))]
    pub(crate) direct: Vec<Option<u8>>,
    /// Binary logarithm of a cache line's bytes, where machine code follows lines; else [`NO_LINES`].
    pub(crate) line_shift: u8,
    /// The image as machine code, once it was asked for; nothing where that cannot be.
    native: OnceLock<Option<Arc<Native>>>,
    /// Why it cannot.
    not_compiled: OnceLock<NotCompiled>,
}

impl Code {
    /// The image as machine code, made the first time.
    #[inline]
    pub(crate) fn native(&self) -> Option<&Native> {
        let compile = || match Native::compile(self) {
            Ok(native) => Some(Arc::new(native)),
            Err(why) => {
                self.not_compiled.get_or_init(|| why);
                None
            }
        };
        self.native.get_or_init(compile).as_deref()
    }

    /// The image as machine code, if somebody has made it.
    #[inline(always)]
    pub(crate) fn compiled(&self) -> Option<&Native> {
        self.native.get()?.as_deref()
    }

    /// Compiles the image to the host's own instructions, unless that was done before; [`crate::Compiler`] does it
    /// by itself.
    ///
    /// # Errors
    /// Why the image is interpreted instead; its results are the same.
    pub fn compile(&self) -> Result<(), NotCompiled> {
        match (self.native(), self.not_compiled.get()) {
            (None, Some(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Machine code enters kernel functions by these slots, by their indices: [`crate::Host::direct_kfunc`]. Results are the same for
    /// machine code that was made before.
    ///
    /// # Panics
    /// If a slot is none of [`DIRECT_KFUNCS`].
    pub fn enter_directly(&mut self, slots: Vec<Option<u8>>) {
        assert!(slots.iter().flatten().all(|slot| usize::from(*slot) < DIRECT_KFUNCS), "there are that many");
        self.direct = slots;
    }

    /// Programs run in a memory that follows lines from now on: machine code asks for each access whether the running CPU has
    /// its line. Results are the same for machine code that was made before, which is not run then.
    ///
    /// # Errors
    /// The host gives no address space.
    ///
    /// # Panics
    /// If `bytes` is no power of two within [`crate::memory::LINE_BYTES`].
    pub fn follow_lines(&mut self, bytes: u32, cpus: u32, mem: &mut Memory) -> Result<(), MemoryError> {
        mem.follow_lines(bytes, cpus, self.ops.len())?;
        self.line_shift = mem.line_shift();
        Ok(())
    }

    /// The image on a host that does not compile it, for this reason.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(crate) fn refused_by_host(self, why: NotCompiled) -> Code {
        assert!(self.native.set(None).is_ok() && self.not_compiled.set(why).is_ok(), "nobody asked before");
        self
    }

    /// For each function the index of its first instruction, and how many it has.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        self.functions.iter().map(|function| (function.first as usize, function.op_count as usize))
    }

    /// The function with this number.
    #[must_use]
    pub fn function(&self, id: FuncId) -> Option<&Function> {
        self.functions.get(id.0 as usize)
    }

    /// All functions, by number.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The first function of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<FuncId> {
        let index = self.functions.iter().position(|function| function.name == name)?;
        Some(FuncId(index as u32))
    }

    /// Index of a function's first instruction, if there is such a function.
    #[inline(always)]
    pub(crate) fn entry(&self, id: FuncId) -> Option<usize> {
        self.functions.get(id.0 as usize).map(|function| function.first as usize)
    }

    /// The place that [`crate::Vm::site`] stands for.
    #[must_use]
    pub fn location(&self, site: u32) -> Location {
        let (func, insn) = self.place(site as usize);
        let function = self.function(func).map(|function| function.name().to_string()).unwrap_or_default();
        Location { func, function, insn }
    }

    /// The function and slot that an index into `ops` belongs to.
    pub(crate) fn place(&self, index: usize) -> (FuncId, u32) {
        let after = self.functions.partition_point(|function| function.first as usize <= index);
        (FuncId(after.saturating_sub(1) as u32), self.slots.get(index).copied().unwrap_or(0))
    }
}

/// What is wrong with an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeErrorKind {
    /// No such instruction, or a form of it that the machine does not have.
    UnknownOpcode(Insn),
    /// An instruction that exists but is not modelled, by name.
    Unsupported(&'static str),
    /// A field that must be zero is not.
    ReservedField(Insn),
    /// A register above r10.
    BadRegister(u8),
    /// A write to the frame pointer.
    FramePointerWrite,
    /// A shift by at least the operand's width.
    BadShift(i32),
    /// A jump to a slot outside the function or into the second half of a 64-bit immediate load.
    BadJump(i64),
    /// A 64-bit immediate load without its second slot, or with one that is not blank.
    TornImmediate,
    /// A source field that the linker should have resolved.
    UnresolvedSource(u8),
    /// A call of, or reference to, a function that is not in the image.
    UnknownFunction(i32),
    /// The last instruction can fall through to the next one.
    FallsOffEnd,
    /// A function without instructions, or with more than [`PROGRAM_INSNS`].
    BadLength(usize),
    /// A function with which the image would have more than [`OBJECT_INSNS`]: this many.
    TooMuchCode(usize),
    /// A mark on a slot that holds no memory access, or no call of the host.
    BadMark,
}

impl fmt::Display for CodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeErrorKind::UnknownOpcode(insn) => write!(f, "unknown instruction {insn:?}"),
            CodeErrorKind::Unsupported(name) => write!(f, "{name} is not supported"),
            CodeErrorKind::ReservedField(insn) => {
                write!(f, "reserved field is not zero in {insn:?}")
            }
            CodeErrorKind::BadRegister(register) => write!(f, "no register r{register}"),
            CodeErrorKind::FramePointerWrite => f.write_str("the frame pointer r10 is read-only"),
            CodeErrorKind::BadShift(by) => write!(f, "shift by {by}"),
            CodeErrorKind::BadJump(to) => {
                write!(f, "jump to slot {to}, where no instruction of the function begins")
            }
            CodeErrorKind::TornImmediate => f.write_str("64-bit immediate load without a proper second slot"),
            CodeErrorKind::UnresolvedSource(src) => {
                write!(f, "source field {src} was not resolved by the linker")
            }
            CodeErrorKind::UnknownFunction(id) => write!(f, "no function number {id} in the image"),
            CodeErrorKind::FallsOffEnd => {
                f.write_str("the function's last instruction is neither exit nor jump")
            }
            CodeErrorKind::BadLength(slots) => {
                write!(f, "a function of {slots} slots; 1 to {} are possible", PROGRAM_INSNS.most)
            }
            CodeErrorKind::TooMuchCode(slots) => {
                write!(f, "{slots} {}, the limit is {}", OBJECT_INSNS.what, OBJECT_INSNS.most)
            }
            CodeErrorKind::BadMark => f.write_str("a mark on an instruction that it is not for"),
        }
    }
}

/// A function that cannot be run, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeError {
    /// The function's name.
    pub function: String,
    /// The offending slot, counted from the function's start.
    pub insn: u32,
    /// What is wrong.
    pub kind: CodeErrorKind,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: instruction {}: {}", self.function, self.insn, self.kind)
    }
}

impl std::error::Error for CodeError {}

/// Collects functions and makes a [`Code`] of them.
#[derive(Debug, Default)]
pub struct CodeBuilder {
    ops: Vec<Op>,
    slots: Vec<u32>,
    functions: Vec<Function>,
    /// Slots of all functions.
    slot_count: usize,
    wide_shifts: bool,
    arrays: Option<Arrays>,
}

impl CodeBuilder {
    /// A builder without functions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts shifts by an immediate of at least the operand's width and masks them, as RFC 9669 section 4.1 says;
    /// the default is the kernel's refusal.
    #[must_use]
    pub fn wide_shifts(mut self, accept: bool) -> Self {
        self.wide_shifts = accept;
        self
    }

    /// Lets look-ups in these arrays, and questions for the CPU's number, be compiled in line: their helpers must be the
    /// kernel's.
    #[must_use]
    pub(crate) fn in_line(mut self, arrays: Arrays) -> Self {
        self.arrays = Some(arrays);
        self
    }

    /// The number that the next added function will have.
    #[must_use]
    pub fn next_id(&self) -> FuncId {
        FuncId(self.functions.len() as u32)
    }

    /// Checks and decodes a function; numbers are given in the order of calls, from 0.
    ///
    /// # Errors
    /// The first offending instruction; a function of more than [`PROGRAM_INSNS`] slots, or one with which all have more
    /// than [`OBJECT_INSNS`]. References to other functions are checked by [`CodeBuilder::build`].
    pub fn add_function(&mut self, name: &str, insns: &[Insn], marks: &Marks) -> Result<FuncId, CodeError> {
        let id = self.next_id();
        let first = self.ops.len();
        let slot_count = self.slot_count.saturating_add(insns.len());
        if slot_count > OBJECT_INSNS.most_len() {
            let (function, kind) = (name.to_string(), CodeErrorKind::TooMuchCode(slot_count));
            return Err(CodeError { function, insn: 0, kind });
        }
        let decoded = decode::function(insns, marks, first, self.wide_shifts);
        let decoded = decoded.map_err(|(insn, kind)| CodeError { function: name.to_string(), insn, kind })?;
        self.functions.push(Function {
            name: name.to_string(),
            first: first as u32,
            op_count: decoded.ops.len() as u32,
            slot_count: insns.len() as u32,
        });
        debug_assert_eq!(self.ops.len(), self.slots.len(), "each operation has a slot");
        self.slot_count = slot_count;
        self.ops.extend(decoded.ops);
        self.slots.extend(decoded.slots);
        Ok(id)
    }

    /// Resolves the references between functions.
    ///
    /// # Errors
    /// The first call of, or reference to, a function that was not added.
    pub fn build(self) -> Result<Code, CodeError> {
        let (native, not_compiled) = (OnceLock::new(), OnceLock::new());
        let CodeBuilder { ops, slots, functions, arrays, .. } = self;
        let (direct, line_shift) = (Vec::new(), NO_LINES);
        let mut code = Code { ops, slots, functions, arrays, direct, line_shift, native, not_compiled };
        debug_assert!(
            code.functions.iter().all(|function| function.op_count > 0),
            "a function has operations"
        );
        for index in 0..code.ops.len() {
            if let Some(id) = code.ops[index].callee() {
                let Some(entry) = code.entry(FuncId(id)) else {
                    let (func, insn) = code.place(index);
                    let function = code.functions[func.0 as usize].name.clone();
                    return Err(CodeError {
                        function,
                        insn,
                        kind: CodeErrorKind::UnknownFunction(id as i32),
                    });
                };
                code.ops[index].link(entry);
            }
        }
        Ok(code)
    }
}
