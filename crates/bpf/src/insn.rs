//! BPF instructions as they stand in an object file: 8-byte slots, their fields and opcode numbers.
//!
//! Numbers are those of RFC 9669 and, for what is younger than the RFC (`may_goto`, address space casts,
//! load-acquire and store-release), of Linux `include/uapi/linux/bpf.h`.

use std::fmt;

/// Opcode numbers, by field of the opcode byte and of the source, offset and immediate fields.
pub mod op {
    /// Instruction class (low three bits): loads of 64-bit immediates and the legacy packet loads.
    pub const LD: u8 = 0x00;
    /// Class: loads into a register.
    pub const LDX: u8 = 0x01;
    /// Class: stores of an immediate.
    pub const ST: u8 = 0x02;
    /// Class: stores of a register, and atomics.
    pub const STX: u8 = 0x03;
    /// Class: 32-bit arithmetic.
    pub const ALU: u8 = 0x04;
    /// Class: 64-bit jumps, calls, exit.
    pub const JMP: u8 = 0x05;
    /// Class: jumps comparing 32 bits.
    pub const JMP32: u8 = 0x06;
    /// Class: 64-bit arithmetic.
    pub const ALU64: u8 = 0x07;

    /// Source bit: the operand is the immediate.
    pub const K: u8 = 0x00;
    /// Source bit: the operand is the source register.
    pub const X: u8 = 0x08;

    /// Arithmetic operation (high four bits): addition.
    pub const ADD: u8 = 0x00;
    /// Subtraction.
    pub const SUB: u8 = 0x10;
    /// Multiplication.
    pub const MUL: u8 = 0x20;
    /// Division, unsigned with offset 0, signed with offset 1.
    pub const DIV: u8 = 0x30;
    /// Bitwise or.
    pub const OR: u8 = 0x40;
    /// Bitwise and.
    pub const AND: u8 = 0x50;
    /// Shift left.
    pub const LSH: u8 = 0x60;
    /// Logical shift right.
    pub const RSH: u8 = 0x70;
    /// Negation.
    pub const NEG: u8 = 0x80;
    /// Remainder, unsigned with offset 0, signed with offset 1.
    pub const MOD: u8 = 0x90;
    /// Bitwise exclusive or.
    pub const XOR: u8 = 0xa0;
    /// Move; with offsets 8, 16 and 32 it sign-extends, with offset 1 it casts between address spaces.
    pub const MOV: u8 = 0xb0;
    /// Arithmetic shift right.
    pub const ARSH: u8 = 0xc0;
    /// Byte order conversion.
    pub const END: u8 = 0xd0;

    /// Jump operation (high four bits): always.
    pub const JA: u8 = 0x00;
    /// Equal.
    pub const JEQ: u8 = 0x10;
    /// Greater, unsigned.
    pub const JGT: u8 = 0x20;
    /// Greater or equal, unsigned.
    pub const JGE: u8 = 0x30;
    /// Some common bit set.
    pub const JSET: u8 = 0x40;
    /// Not equal.
    pub const JNE: u8 = 0x50;
    /// Greater, signed.
    pub const JSGT: u8 = 0x60;
    /// Greater or equal, signed.
    pub const JSGE: u8 = 0x70;
    /// Call.
    pub const CALL: u8 = 0x80;
    /// Return.
    pub const EXIT: u8 = 0x90;
    /// Less, unsigned.
    pub const JLT: u8 = 0xa0;
    /// Less or equal, unsigned.
    pub const JLE: u8 = 0xb0;
    /// Less, signed.
    pub const JSLT: u8 = 0xc0;
    /// Less or equal, signed.
    pub const JSLE: u8 = 0xd0;
    /// Conditional pseudo jump: `may_goto`.
    pub const JCOND: u8 = 0xe0;

    /// Access size: 4 bytes.
    pub const W: u8 = 0x00;
    /// Access size: 2 bytes.
    pub const H: u8 = 0x08;
    /// Access size: 1 byte.
    pub const B: u8 = 0x10;
    /// Access size: 8 bytes.
    pub const DW: u8 = 0x18;

    /// Access mode (high three bits): 64-bit immediate.
    pub const IMM: u8 = 0x00;
    /// Legacy packet load at a fixed offset.
    pub const ABS: u8 = 0x20;
    /// Legacy packet load at a register's offset.
    pub const IND: u8 = 0x40;
    /// Plain memory access.
    pub const MEM: u8 = 0x60;
    /// Sign-extending load.
    pub const MEMSX: u8 = 0x80;
    /// Atomic access.
    pub const ATOMIC: u8 = 0xc0;

    /// Flag of an atomic's immediate: the old value goes to the source register.
    pub const FETCH: i32 = 0x01;
    /// Atomic exchange.
    pub const XCHG: i32 = 0xe1;
    /// Atomic compare and exchange with r0.
    pub const CMPXCHG: i32 = 0xf1;
    /// Load-acquire, in the atomic's immediate.
    pub const LOAD_ACQ: i32 = 0x100;
    /// Store-release, in the atomic's immediate.
    pub const STORE_REL: i32 = 0x110;

    /// The whole opcode byte of the 64-bit immediate load, which takes two slots.
    pub const LD_IMM64: u8 = LD | IMM | DW;
    /// The whole opcode byte of a call by number.
    pub const CALL_K: u8 = JMP | CALL;
    /// The whole opcode byte of a call through a register.
    pub const CALL_X: u8 = JMP | CALL | X;
    /// The whole opcode byte of the return.
    pub const EXIT_K: u8 = JMP | EXIT;
    /// The whole opcode byte of `may_goto`.
    pub const MAY_GOTO: u8 = JMP | JCOND;

    /// Source field of a call: a helper's number.
    pub const CALL_HELPER: u8 = 0;
    /// Source field of a call: a function of this program.
    pub const CALL_LOCAL: u8 = 1;
    /// Source field of a call: a kernel function.
    pub const CALL_KFUNC: u8 = 2;
    /// Source field of a 64-bit immediate load: the address of a function of this program.
    pub const PSEUDO_FUNC: u8 = 4;

    /// Offset of a move that casts an address space.
    pub const ADDR_SPACE_CAST: i16 = 1;
}

/// The first byte of any instruction's two register fields; register 10 is the frame pointer.
pub const REG_COUNT: u8 = 11;
/// The frame pointer's number; programs may read it, never write it.
pub const FRAME_POINTER: u8 = 10;

/// One 8-byte slot of a program, with the fields of RFC 9669 section 3.
///
/// A 64-bit immediate load takes two slots; the second has only `imm`, the value's high half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Insn {
    /// Opcode byte; see [`op`].
    pub code: u8,
    /// Destination register, 0 to 15 (above 10 is refused when code is built).
    pub dst: u8,
    /// Source register or kind of call or constant, 0 to 15.
    pub src: u8,
    /// Offset: bytes for memory accesses, slots for jumps.
    pub off: i16,
    /// Immediate.
    pub imm: i32,
}

impl Insn {
    /// A slot from all its fields.
    #[must_use]
    pub const fn new(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Self {
        Insn { code, dst, src, off, imm }
    }

    /// A slot from its 8 little-endian bytes.
    #[must_use]
    pub const fn from_bytes(b: [u8; 8]) -> Self {
        Insn {
            code: b[0],
            dst: b[1] & 0xf,
            src: b[1] >> 4,
            off: i16::from_le_bytes([b[2], b[3]]),
            imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// The slot's 8 little-endian bytes; register numbers keep their low four bits.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let off = self.off.to_le_bytes();
        let imm = self.imm.to_le_bytes();
        let registers = (self.dst & 0xf) | (self.src << 4);
        [self.code, registers, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
    }

    /// All slots of a little-endian byte string, or `None` if its length is no multiple of 8.
    #[must_use]
    pub fn all_from_bytes(bytes: &[u8]) -> Option<Vec<Self>> {
        let (slots, rest) = bytes.as_chunks::<8>();
        rest.is_empty().then(|| slots.iter().map(|b| Self::from_bytes(*b)).collect())
    }

    /// 64-bit arithmetic with an immediate: `operation` is one of [`op`]'s arithmetic operations.
    #[must_use]
    pub const fn alu64_imm(operation: u8, dst: u8, imm: i32) -> Self {
        Self::new(op::ALU64 | op::K | operation, dst, 0, 0, imm)
    }

    /// 64-bit arithmetic with a register.
    #[must_use]
    pub const fn alu64_reg(operation: u8, dst: u8, src: u8) -> Self {
        Self::new(op::ALU64 | op::X | operation, dst, src, 0, 0)
    }

    /// A load of `size` ([`op::B`] to [`op::DW`]) from `src + off`.
    #[must_use]
    pub const fn load(size: u8, dst: u8, src: u8, off: i16) -> Self {
        Self::new(op::LDX | op::MEM | size, dst, src, off, 0)
    }

    /// A store of register `src` to `dst + off`.
    #[must_use]
    pub const fn store(size: u8, dst: u8, off: i16, src: u8) -> Self {
        Self::new(op::STX | op::MEM | size, dst, src, off, 0)
    }

    /// A store of an immediate to `dst + off`.
    #[must_use]
    pub const fn store_imm(size: u8, dst: u8, off: i16, imm: i32) -> Self {
        Self::new(op::ST | op::MEM | size, dst, 0, off, imm)
    }

    /// An unconditional jump by `off` slots after the next one.
    #[must_use]
    pub const fn jump(off: i16) -> Self {
        Self::new(op::JMP | op::JA, 0, 0, off, 0)
    }

    /// A 64-bit comparison with an immediate and a jump by `off` slots.
    #[must_use]
    pub const fn jump_imm(operation: u8, dst: u8, imm: i32, off: i16) -> Self {
        Self::new(op::JMP | op::K | operation, dst, 0, off, imm)
    }

    /// A 64-bit comparison with a register and a jump by `off` slots.
    #[must_use]
    pub const fn jump_reg(operation: u8, dst: u8, src: u8, off: i16) -> Self {
        Self::new(op::JMP | op::X | operation, dst, src, off, 0)
    }

    /// A call of helper number `id`.
    #[must_use]
    pub const fn call_helper(id: i32) -> Self {
        Self::new(op::CALL_K, 0, op::CALL_HELPER, 0, id)
    }

    /// A call of a function of this program; what `imm` means depends on the stage (see [`crate::code`]).
    #[must_use]
    pub const fn call_local(imm: i32) -> Self {
        Self::new(op::CALL_K, 0, op::CALL_LOCAL, 0, imm)
    }

    /// A call of a kernel function.
    #[must_use]
    pub const fn call_kfunc(index: i32) -> Self {
        Self::new(op::CALL_K, 0, op::CALL_KFUNC, 0, index)
    }

    /// The return.
    #[must_use]
    pub const fn exit() -> Self {
        Self::new(op::EXIT_K, 0, 0, 0, 0)
    }

    /// The two slots of a 64-bit immediate load; `src` is 0 for a plain constant.
    #[must_use]
    pub const fn ld_imm64(dst: u8, src: u8, value: u64) -> [Self; 2] {
        [
            Self::new(op::LD_IMM64, dst, src, 0, value as u32 as i32),
            Self::new(0, 0, 0, 0, (value >> 32) as u32 as i32),
        ]
    }

    /// Whether this slot is the first of the two-slot 64-bit immediate load.
    #[must_use]
    pub const fn is_ld_imm64(&self) -> bool {
        self.code == op::LD_IMM64
    }

    /// The slots where execution can continue after this instruction in slot `at`: behind it, and where it jumps. They may lie
    /// outside the function.
    #[must_use]
    pub fn successors(self, at: usize) -> [Option<usize>; 2] {
        let next = Some(at + if self.is_ld_imm64() { 2 } else { 1 });
        let jump = |by: i32| (at + 1).checked_add_signed(by as isize);
        match (self.code & 7, self.code & 0xf0) {
            (op::JMP, op::EXIT) => [None, None],
            // In the 32-bit class the distance is in the immediate.
            (op::JMP32, op::JA) => [None, jump(self.imm)],
            (op::JMP, op::JA) => [None, jump(self.off.into())],
            (op::JMP, op::CALL) => [next, None],
            (op::JMP | op::JMP32, _) => [next, jump(self.off.into())],
            _ => [next, None],
        }
    }
}

impl fmt::Debug for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Insn { code, dst, src, off, imm } = self;
        write!(f, "{{{code:#04x} dst={dst} src={src} off={off} imm={imm:#x}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        let bytes = [0xb7, 0x21, 0xfe, 0xff, 0x78, 0x56, 0x34, 0x92];
        let insn = Insn::from_bytes(bytes);
        assert_eq!(insn, Insn::new(0xb7, 1, 2, -2, 0x9234_5678_u32 as i32));
        assert_eq!(insn.to_bytes(), bytes);
    }

    #[test]
    fn a_torn_slot_is_refused() {
        assert_eq!(Insn::all_from_bytes(&[0; 9]), None);
        assert_eq!(Insn::all_from_bytes(&[0; 16]).unwrap().len(), 2);
    }

    #[test]
    fn execution_goes_on_behind_and_where_it_jumps() {
        let after = |insn: Insn| insn.successors(5);
        let jump = |code: u8, off, imm| Insn::new(code, 0, 0, off, imm);
        assert_eq!(after(Insn::alu64_imm(op::MOV, 0, 1)), [Some(6), None]);
        assert_eq!(after(Insn::ld_imm64(0, 0, 1)[0]), [Some(7), None]);
        assert_eq!(after(Insn::exit()), [None, None]);
        assert_eq!(after(Insn::call_helper(1)), [Some(6), None]);
        assert_eq!(after(jump(op::JMP | op::JA, -3, 70)), [None, Some(3)]);
        assert_eq!(after(jump(op::JMP32 | op::JA, -3, 70)), [None, Some(76)]);
        assert_eq!(after(jump(op::JMP32 | op::JEQ, 2, 70)), [Some(6), Some(8)]);
        assert_eq!(after(jump(op::MAY_GOTO, 2, 0)), [Some(6), Some(8)]);
        assert_eq!(after(jump(op::JMP | op::JNE, -7, 0)), [Some(6), None]);
        // An addition has the bits of a jump, and is none.
        assert_eq!(after(Insn::new(op::ALU64 | op::EXIT, 0, 0, 9, 0)), [Some(6), None]);
    }
}
