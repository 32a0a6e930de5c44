//! An assembler for the few x86-64 instructions that the compiler emits. Displacements and jumps always have 32 bits.
//!
//! Every number that is cut to the width of its field goes through [`Asm::narrow`]. One that does not fit spoils the whole
//! code, as does code that is too long: [`Asm::finish`] then gives none, so there is no machine code with a wrong number.

use super::TooLong;

/// A general-purpose register, by its number in the encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[rustfmt::skip]
pub(super) enum X { Rax, Rcx, Rdx, Rbx, Rsp, Rbp, Rsi, Rdi, R8, R9, R10, R11, R12, R13, R14, R15 }

/// Width of an operation's operands; results of 32 bits clear the upper half of their register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    W32,
    W64,
}

/// A place in memory: base, perhaps an index, a displacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mem {
    pub(super) base: X,
    pub(super) index: Option<X>,
    pub(super) disp: i32,
}

/// The operand that is a register or memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Reg(X),
    Mem(Mem),
}

impl From<X> for Place {
    fn from(register: X) -> Place {
        Place::Reg(register)
    }
}

impl From<Mem> for Place {
    fn from(mem: Mem) -> Place {
        Place::Mem(mem)
    }
}

/// Operations with the common encodings; the value is the extension of the form with an immediate.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Shifts; the value is the extension.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Shift {
    RotateRight = 1,
    Left = 4,
    Right = 5,
    RightSigned = 7,
}

/// Conditions of jumps, by their number in the encoding.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum If {
    Below = 2,
    AboveEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowEqual = 6,
    Above = 7,
    Less = 12,
    GreaterEqual = 13,
    LessEqual = 14,
    Greater = 15,
}

/// A place in the code that is or will be bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(u32);

/// Where a label is that is not bound yet.
const UNBOUND: u32 = u32::MAX;

/// Machine code in the making.
#[derive(Debug)]
pub(super) struct Asm {
    bytes: Vec<u8>,
    labels: Vec<u32>,
    /// Places of relative displacements and what they lead to.
    fixups: Vec<(u32, Label)>,
    /// Bytes that the code may have.
    most: usize,
    /// A number did not fit its field.
    spoiled: bool,
}

/// One instruction's fixed parts: prefix, width, opcode bytes.
#[derive(Clone, Copy)]
struct Form<'a> {
    /// Operands of 16 bits.
    half: bool,
    width: Width,
    /// Byte registers above 3 need a REX prefix to be what they are.
    bytes: bool,
    opcode: &'a [u8],
}

impl<'a> Form<'a> {
    fn new(width: Width, opcode: &'a [u8]) -> Form<'a> {
        debug_assert!((1..=2).contains(&opcode.len()), "an opcode has one or two bytes");
        Form { half: false, width, bytes: false, opcode }
    }
}

impl Asm {
    /// No code yet, and at most `most` bytes of it.
    pub(super) fn new(most: usize) -> Asm {
        Asm { bytes: Vec::new(), labels: Vec::new(), fixups: Vec::new(), most, spoiled: false }
    }

    /// A number in the width of its field; one that does not fit spoils the code.
    #[inline]
    pub(super) fn narrow<From, To: TryFrom<From> + Default>(&mut self, number: From) -> To {
        To::try_from(number).unwrap_or_else(|_| {
            self.spoiled = true;
            To::default()
        })
    }

    /// Whether the code is of no use any more: a number did not fit, or it is too long.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled || self.bytes.len() > self.most
    }

    /// A label to be bound later.
    pub(super) fn label(&mut self) -> Label {
        let label = Label(self.narrow(self.labels.len()));
        self.labels.push(UNBOUND);
        debug_assert!(
            self.spoiled || self.labels.len() == label.0 as usize + 1,
            "labels are numbered in order"
        );
        label
    }

    /// The label is here.
    pub(super) fn bind(&mut self, label: Label) {
        let here = self.narrow(self.bytes.len());
        debug_assert!(self.spoiled || (label.0 as usize) < self.labels.len(), "a label is one of this code");
        assert!(self.labels[label.0 as usize] == UNBOUND || self.spoiled, "a label is bound once");
        self.labels[label.0 as usize] = here;
    }

    /// A new label, here.
    pub(super) fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Offset of a bound label.
    pub(super) fn offset(&self, label: Label) -> u32 {
        debug_assert_ne!(self.labels[label.0 as usize], UNBOUND, "an offset is asked of a bound label");
        self.labels[label.0 as usize]
    }

    /// The code, with all jumps resolved.
    ///
    /// # Errors
    /// The code is too long, or a number in it does not fit its field.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, TooLong> {
        for (at, label) in std::mem::take(&mut self.fixups) {
            if self.is_spoiled() {
                break;
            }
            let target = self.labels[label.0 as usize];
            assert_ne!(target, UNBOUND, "every label is bound");
            debug_assert!(target as usize <= self.bytes.len(), "a jump leads into the code");
            // A jump counts from behind its displacement.
            let distance: i32 = self.narrow(i64::from(target) - (i64::from(at) + 4));
            let at = at as usize;
            debug_assert!(at + 4 <= self.bytes.len(), "a fixup lies in the code");
            self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        if self.is_spoiled() { Err(TooLong) } else { Ok(self.bytes) }
    }

    /// Prefixes, opcode and operands; `reg` is a register's number or the opcode's extension.
    fn encode(&mut self, form: Form<'_>, reg: u8, place: Place) {
        debug_assert!(reg < 16, "there are 16 registers");
        let (base, index) = match place {
            Place::Reg(register) => (register as u8, 0),
            Place::Mem(mem) => (mem.base as u8, mem.index.map_or(0, |index| index as u8)),
        };
        debug_assert!(index != X::Rsp as u8, "the stack pointer is no index");
        if form.half {
            self.bytes.push(0x66);
        }
        let wide = u8::from(form.width == Width::W64);
        let rex = 0x40 | wide << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        if rex != 0x40 || form.bytes {
            self.bytes.push(rex);
        }
        self.bytes.extend_from_slice(form.opcode);
        let reg = (reg & 7) << 3;
        match place {
            Place::Reg(_) => self.bytes.push(0xc0 | reg | (base & 7)),
            Place::Mem(mem) => {
                let short = i8::try_from(mem.disp);
                let mode = if short.is_ok() { 0x40 } else { 0x80 };
                if mem.index.is_some() || base & 7 == 4 {
                    // Index 4 (rsp) stands for none.
                    let index = if mem.index.is_some() { index & 7 } else { 4 };
                    self.bytes.extend_from_slice(&[mode | reg | 4, index << 3 | (base & 7)]);
                } else {
                    self.bytes.push(mode | reg | (base & 7));
                }
                match short {
                    Ok(disp) => self.bytes.extend_from_slice(&disp.to_le_bytes()),
                    Err(_) => self.bytes.extend_from_slice(&mem.disp.to_le_bytes()),
                }
            }
        }
    }

    fn imm32(&mut self, imm: i32) {
        self.bytes.extend_from_slice(&imm.to_le_bytes());
    }

    /// `place = place op register`.
    pub(super) fn alu(&mut self, width: Width, op: Alu, place: impl Into<Place>, src: X) {
        self.encode(Form::new(width, &[(op as u8) << 3 | 1]), src as u8, place.into());
    }

    /// `place = place op imm`, the immediate sign-extended.
    pub(super) fn alu_imm(&mut self, width: Width, op: Alu, place: impl Into<Place>, imm: i32) {
        self.encode(Form::new(width, &[0x81]), op as u8, place.into());
        self.imm32(imm);
    }

    /// `register op place` for comparisons with memory on the right.
    pub(super) fn cmp_mem(&mut self, register: X, mem: Mem) {
        self.encode(Form::new(Width::W64, &[0x3b]), register as u8, mem.into());
    }

    /// `register += memory`.
    pub(super) fn add_mem(&mut self, register: X, mem: Mem) {
        self.encode(Form::new(Width::W64, &[0x03]), register as u8, mem.into());
    }

    /// Flags of `place & register`.
    pub(super) fn test(&mut self, width: Width, place: impl Into<Place>, with: X) {
        self.encode(Form::new(width, &[0x85]), with as u8, place.into());
    }

    /// Flags of `place & imm`.
    pub(super) fn test_imm(&mut self, width: Width, place: X, imm: i32) {
        self.encode(Form::new(width, &[0xf7]), 0, place.into());
        self.imm32(imm);
    }

    /// Flags of a byte in memory `& imm`.
    pub(super) fn test_byte(&mut self, mem: Mem, imm: u8) {
        debug_assert_ne!(imm, 0, "a permission that is tested has a bit");
        self.encode(Form::new(Width::W32, &[0xf6]), 0, mem.into());
        self.bytes.push(imm);
    }

    /// `dst = src`.
    pub(super) fn mov(&mut self, width: Width, dst: X, src: X) {
        self.encode(Form::new(width, &[0x89]), src as u8, dst.into());
    }

    /// `dst = imm`, all 64 bits of it, in the shortest form.
    pub(super) fn mov_imm(&mut self, dst: X, imm: u64) {
        if let Ok(imm) = u32::try_from(imm) {
            let rex = 0x40 | dst as u8 >> 3;
            self.bytes.extend_from_slice(&[rex, 0xb8 | (dst as u8 & 7)]);
            self.bytes.extend_from_slice(&imm.to_le_bytes());
        } else if let Ok(imm) = i32::try_from(imm.cast_signed()) {
            self.encode(Form::new(Width::W64, &[0xc7]), 0, dst.into());
            self.imm32(imm);
        } else {
            self.bytes.extend_from_slice(&[0x48 | dst as u8 >> 3, 0xb8 | (dst as u8 & 7)]);
            self.bytes.extend_from_slice(&imm.to_le_bytes());
        }
    }

    /// A load of `size` bytes, zero-extended or sign-extended to 64 bits.
    pub(super) fn load(&mut self, size: u8, signed: bool, dst: X, mem: Mem) {
        debug_assert!(matches!(size, 1 | 2 | 4 | 8), "a load is of 1, 2, 4 or 8 bytes");
        let (width, opcode): (Width, &[u8]) = match (size, signed) {
            (1, false) => (Width::W32, &[0x0f, 0xb6]),
            (2, false) => (Width::W32, &[0x0f, 0xb7]),
            (4, false) => (Width::W32, &[0x8b]),
            (1, true) => (Width::W64, &[0x0f, 0xbe]),
            (2, true) => (Width::W64, &[0x0f, 0xbf]),
            (4, true) => (Width::W64, &[0x63]),
            _ => (Width::W64, &[0x8b]),
        };
        self.encode(Form::new(width, opcode), dst as u8, mem.into());
    }

    /// A store of the low `size` bytes of a register.
    pub(super) fn store(&mut self, size: u8, mem: Mem, src: X) {
        debug_assert!(matches!(size, 1 | 2 | 4 | 8), "a store is of 1, 2, 4 or 8 bytes");
        let width = if size == 8 { Width::W64 } else { Width::W32 };
        let opcode = if size == 1 { 0x88 } else { 0x89 };
        let form = Form { half: size == 2, width, bytes: size == 1, opcode: &[opcode] };
        self.encode(form, src as u8, mem.into());
    }

    /// A store of `size` bytes of an immediate, sign-extended to 8.
    pub(super) fn store_imm(&mut self, size: u8, mem: Mem, imm: i32) {
        debug_assert!(matches!(size, 1 | 2 | 4 | 8), "a store is of 1, 2, 4 or 8 bytes");
        let width = if size == 8 { Width::W64 } else { Width::W32 };
        let opcode = if size == 1 { 0xc6 } else { 0xc7 };
        self.encode(Form { half: size == 2, width, bytes: false, opcode: &[opcode] }, 0, mem.into());
        let bytes = imm.to_le_bytes();
        self.bytes.extend_from_slice(&bytes[..usize::from(size.min(4))]);
    }

    /// `dst` = the low `size` (1, 2, 4) bytes of `src`, sign-extended to `width`.
    pub(super) fn sign_extend(&mut self, width: Width, size: u8, dst: X, src: X) {
        debug_assert!(matches!(size, 1 | 2 | 4), "a number that is extended is narrower than 64 bits");
        let opcode: &[u8] = match size {
            1 => &[0x0f, 0xbe],
            2 => &[0x0f, 0xbf],
            _ => &[0x63],
        };
        self.encode(Form { half: false, width, bytes: true, opcode }, dst as u8, src.into());
    }

    /// `register` = its low 16 bits.
    pub(super) fn zero_extend_16(&mut self, register: X) {
        self.encode(Form::new(Width::W32, &[0x0f, 0xb7]), register as u8, register.into());
    }

    /// Swaps the two low bytes.
    pub(super) fn swap_16(&mut self, register: X) {
        let form = Form { half: true, width: Width::W32, bytes: false, opcode: &[0xc1] };
        self.encode(form, 0, register.into());
        self.bytes.push(8);
    }

    /// Reverses the bytes.
    pub(super) fn swap(&mut self, width: Width, register: X) {
        let wide = u8::from(width == Width::W64);
        self.bytes.extend_from_slice(&[
            0x40 | wide << 3 | register as u8 >> 3,
            0x0f,
            0xc8 | (register as u8 & 7),
        ]);
    }

    /// `register = -register`.
    pub(super) fn neg(&mut self, width: Width, register: X) {
        self.encode(Form::new(width, &[0xf7]), 3, register.into());
    }

    /// `dst *= src`.
    pub(super) fn mul(&mut self, width: Width, dst: X, src: X) {
        self.encode(Form::new(width, &[0x0f, 0xaf]), dst as u8, src.into());
    }

    /// `dst *= imm`.
    pub(super) fn mul_imm(&mut self, width: Width, dst: X, imm: i32) {
        self.encode(Form::new(width, &[0x69]), dst as u8, dst.into());
        self.imm32(imm);
    }

    /// Divides rdx:rax by `by`: quotient in rax, remainder in rdx.
    pub(super) fn div(&mut self, width: Width, by: X) {
        self.encode(Form::new(width, &[0xf7]), 6, by.into());
    }

    /// Shifts by a constant, modulo the width.
    pub(super) fn shift_imm(&mut self, width: Width, shift: Shift, register: X, by: u8) {
        debug_assert!(by < 64, "a shift stays below the register's width");
        self.encode(Form::new(width, &[0xc1]), shift as u8, register.into());
        self.bytes.push(by);
    }

    /// Shifts by cl, modulo the width.
    pub(super) fn shift_cl(&mut self, width: Width, shift: Shift, register: X) {
        self.encode(Form::new(width, &[0xd3]), shift as u8, register.into());
    }

    /// Sets bit `bit` of all 64.
    pub(super) fn set_bit(&mut self, register: X, bit: u8) {
        debug_assert!(bit < 64, "a register has 64 bits");
        self.encode(Form::new(Width::W64, &[0x0f, 0xba]), 5, register.into());
        self.bytes.push(bit);
    }

    /// If memory equals rax: memory = `src`; else rax = memory.
    pub(super) fn compare_exchange(&mut self, width: Width, mem: Mem, src: X) {
        self.encode(Form::new(width, &[0x0f, 0xb1]), src as u8, mem.into());
    }

    /// `dst` = the address of `mem`.
    pub(super) fn lea(&mut self, dst: X, mem: Mem) {
        self.encode(Form::new(Width::W64, &[0x8d]), dst as u8, mem.into());
    }

    pub(super) fn push(&mut self, register: X) {
        self.bytes.extend_from_slice(&[0x40 | register as u8 >> 3, 0x50 | (register as u8 & 7)]);
    }

    pub(super) fn pop(&mut self, register: X) {
        self.bytes.extend_from_slice(&[0x40 | register as u8 >> 3, 0x58 | (register as u8 & 7)]);
    }

    pub(super) fn ret(&mut self) {
        self.bytes.push(0xc3);
    }

    fn leads_to(&mut self, label: Label) {
        debug_assert!(
            self.spoiled || (label.0 as usize) < self.labels.len(),
            "a jump leads to a label of this code"
        );
        let at = self.narrow(self.bytes.len());
        self.fixups.push((at, label));
        self.imm32(0);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.bytes.push(0xe9);
        self.leads_to(label);
    }

    pub(super) fn jump_if(&mut self, condition: If, label: Label) {
        self.bytes.extend_from_slice(&[0x0f, 0x80 | condition as u8]);
        self.leads_to(label);
    }

    pub(super) fn call(&mut self, label: Label) {
        self.bytes.push(0xe8);
        self.leads_to(label);
    }

    /// Calls what `place` holds.
    pub(super) fn call_indirect(&mut self, place: impl Into<Place>) {
        self.encode(Form::new(Width::W32, &[0xff]), 2, place.into());
    }
}
