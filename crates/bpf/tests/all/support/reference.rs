//! What arithmetic and comparisons must give: RFC 9669's formulas over wide integers, written apart from the machine.

use schedlab_bpf::Insn;
use schedlab_bpf::insn::op;

/// Values at the edges of every width.
pub(crate) const EDGES: [u64; 24] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x8000_0000_8000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Immediates at the edges.
pub(crate) const IMMEDIATES: [i32; 14] =
    [0, 1, 2, 3, 7, 31, 63, 0x7f, 0x80, 0x7fff_ffff, -1, -2, -128, i32::MIN];

/// All two-operand arithmetic: operation and offset.
pub(crate) const ARITHMETIC: [(u8, i16); 14] = [
    (op::ADD, 0),
    (op::SUB, 0),
    (op::MUL, 0),
    (op::DIV, 0),
    (op::DIV, 1),
    (op::OR, 0),
    (op::AND, 0),
    (op::LSH, 0),
    (op::RSH, 0),
    (op::MOD, 0),
    (op::MOD, 1),
    (op::XOR, 0),
    (op::MOV, 0),
    (op::ARSH, 0),
];

/// All one-operand arithmetic and sign-extending moves (dst is also the source): opcode byte, offset, immediate.
pub(crate) const UNARY: [(u8, i16, i32); 16] = [
    (op::ALU64 | op::NEG, 0, 0),
    (op::ALU | op::NEG, 0, 0),
    (op::ALU | op::END, 0, 16),
    (op::ALU | op::END, 0, 32),
    (op::ALU | op::END, 0, 64),
    (op::ALU | op::END | op::X, 0, 16),
    (op::ALU | op::END | op::X, 0, 32),
    (op::ALU | op::END | op::X, 0, 64),
    (op::ALU64 | op::END, 0, 16),
    (op::ALU64 | op::END, 0, 32),
    (op::ALU64 | op::END, 0, 64),
    (op::ALU64 | op::MOV | op::X, 8, 0),
    (op::ALU64 | op::MOV | op::X, 16, 0),
    (op::ALU64 | op::MOV | op::X, 32, 0),
    (op::ALU | op::MOV | op::X, 8, 0),
    (op::ALU | op::MOV | op::X, 16, 0),
];

/// All comparisons.
pub(crate) const COMPARISONS: [u8; 11] =
    [op::JEQ, op::JGT, op::JGE, op::JSET, op::JNE, op::JSGT, op::JSGE, op::JLT, op::JLE, op::JSLT, op::JSLE];

fn modulus(bits: u32) -> i128 {
    1 << bits
}

/// The value of the low bits, as an unsigned and as a signed number.
fn readings(value: u64, bits: u32) -> (i128, i128) {
    let unsigned = i128::from(value) % modulus(bits);
    let signed = if unsigned >= modulus(bits) / 2 { unsigned - modulus(bits) } else { unsigned };
    (unsigned, signed)
}

/// The result of `dst OP operand` at 32 or 64 bits (section 4.1); the operand is already extended to 64 bits.
pub(crate) fn arithmetic(operation: u8, off: i16, bits: u32, dst: u64, operand: u64) -> u64 {
    let (a, signed_a) = readings(dst, bits);
    let (b, signed_b) = readings(operand, bits);
    let shift = b % i128::from(bits);
    let result = match (operation, off) {
        (op::ADD, _) => a + b,
        (op::SUB, _) => a - b,
        (op::MUL, _) => (a as u128).wrapping_mul(b as u128) as i128,
        (op::DIV, 0) => {
            if b == 0 {
                0
            } else {
                a / b
            }
        }
        (op::DIV, _) => {
            if b == 0 {
                0
            } else {
                signed_a / signed_b
            }
        }
        (op::MOD, 0) => {
            if b == 0 {
                a
            } else {
                a - a / b * b
            }
        }
        (op::MOD, _) => {
            if b == 0 {
                a
            } else {
                signed_a - signed_a / signed_b * signed_b
            }
        }
        (op::OR, _) => a + b - (a & b),
        (op::AND, _) => a & b,
        (op::XOR, _) => a + b - 2 * (a & b),
        (op::LSH, _) => ((a as u128) << shift as u32) as i128,
        (op::RSH, _) => a / (1 << shift),
        (op::ARSH, _) => signed_a.div_euclid(1 << shift),
        (op::MOV, _) => b,
        _ => panic!("no such operation {operation:#x}"),
    };
    result.rem_euclid(modulus(bits)) as u64
}

/// The result of one of [`UNARY`] on `value` (sections 4.1 and 4.2).
pub(crate) fn unary(code: u8, off: i16, imm: i32, value: u64) -> u64 {
    let wide = code & 7 == op::ALU64;
    let bits = if wide { 64 } else { 32 };
    match (code & 0xf0, off) {
        (op::NEG, _) => (-readings(value, bits).0).rem_euclid(modulus(bits)) as u64,
        (op::MOV, from) => readings(value, from as u32).1.rem_euclid(modulus(bits)) as u64,
        _ => {
            let bytes = value.to_le_bytes();
            let kept = &bytes[..imm as usize / 8];
            let to_little = !wide && code & op::X == 0;
            let weigh = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            if to_little { kept.iter().rev().fold(0, weigh) } else { kept.iter().fold(0, weigh) }
        }
    }
}

/// Whether a comparison jumps (section 4.3).
pub(crate) fn comparison(operation: u8, bits: u32, dst: u64, operand: u64) -> bool {
    let (a, signed_a) = readings(dst, bits);
    let (b, signed_b) = readings(operand, bits);
    match operation {
        op::JEQ => a == b,
        op::JNE => a != b,
        op::JGT => a > b,
        op::JGE => a >= b,
        op::JLT => a < b,
        op::JLE => a <= b,
        op::JSGT => signed_a > signed_b,
        op::JSGE => signed_a >= signed_b,
        op::JSLT => signed_a < signed_b,
        op::JSLE => signed_a <= signed_b,
        op::JSET => a & b != 0,
        _ => panic!("no such comparison {operation:#x}"),
    }
}

/// One instruction, the program around it, and what it must give for each pair of operands.
///
/// The program loads r0 and r2 from the memory's first and second 8 bytes, so that the kernel's verifier knows neither.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) slots: Vec<Insn>,
    /// First operand, second operand, r0.
    pub(crate) rows: Vec<(u64, u64, u64)>,
}

/// Every arithmetic and comparison instruction in every form, over all edge values.
pub(crate) fn tables() -> Vec<Table> {
    let mut tables = Vec::new();
    for (bits, class, jump_class) in [(64, op::ALU64, op::JMP), (32, op::ALU, op::JMP32)] {
        for (operation, off) in ARITHMETIC {
            let expect = |a, b| arithmetic(operation, off, bits, a, b);
            let with = |b: u64, insn| table(insn, b, expect);
            tables.extend(forms(class | operation, off, bits).into_iter().map(|(insn, b)| with(b, insn)));
        }
        for operation in COMPARISONS {
            let expect = |a, b| u64::from(comparison(operation, bits, a, b));
            let all = forms(jump_class | operation, 1, bits);
            tables.extend(all.into_iter().map(|(insn, b)| table(insn, b, expect)));
        }
    }
    for (code, off, imm) in UNARY {
        tables.push(table(Insn::new(code, 0, 0, off, imm), 0, |a, _| unary(code, off, imm, a)));
    }
    tables
}

/// The register form, then the immediate forms that a kernel takes, each with its constant operand (0 for registers).
fn forms(code: u8, off: i16, bits: u32) -> Vec<(Insn, u64)> {
    let mut all = vec![(Insn::new(code | op::X, 0, 2, off, 0), 0)];
    let arithmetic = matches!(code & 7, op::ALU | op::ALU64);
    let shift = arithmetic && matches!(code & 0xf0, op::LSH | op::RSH | op::ARSH);
    let division = arithmetic && matches!(code & 0xf0, op::DIV | op::MOD);
    for imm in IMMEDIATES {
        let refused = shift && !(0..bits as i32).contains(&imm) || division && imm == 0;
        if !refused {
            all.push((Insn::new(code, 0, 0, off, imm), imm as i64 as u64));
        }
    }
    all
}

fn table(insn: Insn, constant: u64, expect: impl Fn(u64, u64) -> u64) -> Table {
    let jump = matches!(insn.code & 7, op::JMP | op::JMP32);
    let mut slots = vec![Insn::load(op::DW, 0, 1, 0), Insn::load(op::DW, 2, 1, 8), insn];
    if jump {
        // Not taken: 0. Taken: over the jump, to 1.
        let not_taken = [Insn::jump(2), Insn::alu64_imm(op::MOV, 0, 1), Insn::exit()];
        slots.extend(not_taken);
        slots.extend([Insn::alu64_imm(op::MOV, 0, 0)]);
    }
    slots.push(Insn::exit());
    let uses_register = insn.src == 2;
    let second: &[u64] = if uses_register { &EDGES } else { &[0] };
    let mut rows = Vec::new();
    for a in EDGES {
        rows.extend(second.iter().map(|b| (a, *b, expect(a, if uses_register { *b } else { constant }))));
    }
    Table { name: format!("{insn:?}"), slots, rows }
}
