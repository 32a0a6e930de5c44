//! An assembler for the notation that LLVM prints, so that test files read like a disassembly.
//!
//! One instruction a line; `label:` alone on a line names the next one. Registers r0..r10 are 64 bits, w0..w10 32 bits.
//! ```text
//! r1 = -5            w1 = r2              r1 = 0x123456789 ll      r1 = (s8)r2        r1 = be16 r1     r1 = bswap32 r1
//! r1 += 5            w1 s/= w2            r1 = -r1                 r1 = *(u32 *)(r2 + 4)              r1 = *(s8 *)(r2 - 1)
//! *(u8 *)(r2 + 0) = r1        *(u64 *)(r10 - 8) = 7        lock *(u64 *)(r10 - 8) += r1     fetch *(u32 *)(r10 - 8) ^= r1
//! xchg *(u64 *)(r10 - 8) r1   cmpxchg *(u64 *)(r10 - 8) r1 load_acquire r1 *(u64 *)(r10 - 8) store_release *(u8 *)(r10 - 8) r1
//! if r1 s> 5 goto out         if w1 & 7 goto out           goto out        gotol out        may_goto out
//! call label      callx r1    r1 = &label      call helper 5      call kfunc 3     cast r1 r2 1 (imm)     exit
//! raw 8 bytes in base 16, for what has no notation
//! ```

use schedlab_bpf::Insn;
use schedlab_bpf::insn::op;
use std::collections::BTreeMap;

/// What a label's distance goes into, once known.
#[derive(Clone, Copy)]
enum Patch {
    Offset,
    Immediate,
}

/// Assembles a program; errors name the line.
pub(crate) fn assemble(text: &str) -> Result<Vec<Insn>, String> {
    let mut slots = Vec::new();
    let mut labels = BTreeMap::new();
    let mut patches = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label.to_string(), slots.len());
            continue;
        }
        let parsed = parse(line).ok_or_else(|| format!("cannot assemble: {line}"))?;
        if let Some((label, patch)) = parsed.label {
            patches.push((slots.len(), label, patch, line.to_string()));
        }
        slots.push(parsed.insn);
        slots.extend(parsed.second);
    }
    for (slot, label, patch, line) in patches {
        let to = labels.get(&label).ok_or_else(|| format!("no label {label}: {line}"))?;
        let distance = *to as i32 - slot as i32 - 1;
        match patch {
            Patch::Offset => slots[slot].off = distance as i16,
            Patch::Immediate => slots[slot].imm = distance,
        }
    }
    Ok(slots)
}

struct Parsed {
    insn: Insn,
    second: Option<Insn>,
    label: Option<(String, Patch)>,
}

fn only(insn: Insn) -> Option<Parsed> {
    Some(Parsed { insn, second: None, label: None })
}

fn labelled(insn: Insn, label: &str, patch: Patch) -> Option<Parsed> {
    Some(Parsed { insn, second: None, label: Some((label.to_string(), patch)) })
}

/// Words of a line; brackets and the memory form's stars are dropped, `(u32 *)(r1 + 4)` becomes `u32 r1 + 4`.
fn words(line: &str) -> Vec<String> {
    let spaced: String = line.chars().map(|c| if "()*".contains(c) { ' ' } else { c }).collect();
    spaced.split_whitespace().map(str::to_string).collect()
}

fn parse(line: &str) -> Option<Parsed> {
    // Multiplication is the one operator that `words` would drop.
    let words = words(&line.replace("*=", "mul="));
    let w: Vec<&str> = words.iter().map(String::as_str).collect();
    match w.as_slice() {
        ["exit"] => only(Insn::exit()),
        ["raw", bytes @ ..] => only(raw(bytes)?),
        ["goto", label] => labelled(Insn::jump(0), label, Patch::Offset),
        ["gotol", label] => labelled(Insn::new(op::JMP32 | op::JA, 0, 0, 0, 0), label, Patch::Immediate),
        ["may_goto", label] => labelled(Insn::new(op::MAY_GOTO, 0, 0, 0, 0), label, Patch::Offset),
        ["call", "helper", id] => only(Insn::call_helper(number(id)? as i32)),
        ["call", "kfunc", id] => only(Insn::call_kfunc(number(id)? as i32)),
        ["call", label] => labelled(Insn::call_local(0), label, Patch::Immediate),
        ["callx", r] => only(Insn::new(op::CALL_X, register(r)?.0, 0, 0, 0)),
        ["cast", dst, src, imm] => {
            let (dst, src) = (register(dst)?.0, register(src)?.0);
            let code = op::ALU64 | op::MOV | op::X;
            only(Insn::new(code, dst, src, op::ADDR_SPACE_CAST, number(imm)? as i32))
        }
        ["if", a, operator, b, "goto", label] => labelled(condition(a, operator, b)?, label, Patch::Offset),
        [kind @ ("lock" | "fetch" | "xchg" | "cmpxchg" | "load_acquire" | "store_release"), rest @ ..] => {
            only(atomic(kind, rest)?)
        }
        [size, base, sign, off, "=", value] if memory_size(size).is_some() => {
            only(store(memory_size(size)?.0, base, displacement(sign, off)?, value)?)
        }
        [dst, "=", size, base, sign, off] if memory_size(size).is_some() => {
            let (size, signed) = memory_size(size)?;
            let mode = if signed { op::MEMSX } else { op::MEM };
            let code = op::LDX | mode | size;
            only(Insn::new(code, register(dst)?.0, register(base)?.0, displacement(sign, off)?, 0))
        }
        _ => arithmetic(&w),
    }
}

fn arithmetic(w: &[&str]) -> Option<Parsed> {
    let (dst, wide) = register(w.first()?)?;
    let class = if wide { op::ALU64 } else { op::ALU };
    match w[1..] {
        ["=", value, "ll"] => {
            let [insn, second] = Insn::ld_imm64(dst, 0, number(value)?);
            Some(Parsed { insn, second: Some(second), label: None })
        }
        ["=", label] if label.starts_with('&') => {
            let [insn, second] = Insn::ld_imm64(dst, op::PSEUDO_FUNC, 0);
            let label = Some((label[1..].to_string(), Patch::Immediate));
            Some(Parsed { insn, second: Some(second), label })
        }
        ["=", order, same] if order.len() > 3 && register(same)? == (dst, wide) => {
            only(byte_order(dst, order)?)
        }
        ["=", cast @ ("s8" | "s16" | "s32"), src] => {
            let bits: i16 = cast[1..].parse().ok()?;
            only(Insn::new(class | op::MOV | op::X, dst, register(src)?.0, bits, 0))
        }
        ["=", negated] if negated.strip_prefix('-').is_some_and(|r| register(r) == Some((dst, wide))) => {
            only(Insn::new(class | op::NEG, dst, 0, 0, 0))
        }
        [operator, value] => {
            let (operation, off) = operation(operator)?;
            match register(value) {
                Some((src, _)) => only(Insn::new(class | operation | op::X, dst, src, off, 0)),
                None => only(Insn::new(class | operation, dst, 0, off, immediate(value)?)),
            }
        }
        _ => None,
    }
}

fn byte_order(dst: u8, order: &str) -> Option<Insn> {
    let digits = order.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let code = match &order[..order.len() - digits.len()] {
        "le" => op::ALU | op::END,
        "be" => op::ALU | op::END | op::X,
        "bswap" => op::ALU64 | op::END,
        _ => return None,
    };
    Some(Insn::new(code, dst, 0, 0, digits.parse().ok()?))
}

fn operation(operator: &str) -> Option<(u8, i16)> {
    Some(match operator {
        "=" => (op::MOV, 0),
        "+=" => (op::ADD, 0),
        "-=" => (op::SUB, 0),
        "mul=" => (op::MUL, 0),
        "/=" => (op::DIV, 0),
        "s/=" => (op::DIV, 1),
        "%=" => (op::MOD, 0),
        "s%=" => (op::MOD, 1),
        "|=" => (op::OR, 0),
        "&=" => (op::AND, 0),
        "^=" => (op::XOR, 0),
        "<<=" => (op::LSH, 0),
        ">>=" => (op::RSH, 0),
        "s>>=" => (op::ARSH, 0),
        _ => return None,
    })
}

fn condition(a: &str, operator: &str, b: &str) -> Option<Insn> {
    let operation = match operator {
        "==" => op::JEQ,
        "!=" => op::JNE,
        "&" => op::JSET,
        ">" => op::JGT,
        ">=" => op::JGE,
        "<" => op::JLT,
        "<=" => op::JLE,
        "s>" => op::JSGT,
        "s>=" => op::JSGE,
        "s<" => op::JSLT,
        "s<=" => op::JSLE,
        _ => return None,
    };
    let (dst, wide) = register(a)?;
    let class = if wide { op::JMP } else { op::JMP32 };
    match register(b) {
        Some((src, _)) => Some(Insn::new(class | operation | op::X, dst, src, 0, 0)),
        None => Some(Insn::new(class | operation, dst, 0, 0, immediate(b)?)),
    }
}

fn store(size: u8, base: &str, off: i16, value: &str) -> Option<Insn> {
    let base = register(base)?.0;
    match register(value) {
        Some((src, _)) => Some(Insn::store(size, base, off, src)),
        None => Some(Insn::store_imm(size, base, off, immediate(value)?)),
    }
}

fn atomic(kind: &str, rest: &[&str]) -> Option<Insn> {
    let code = op::STX | op::ATOMIC;
    let at = |size: &str, base: &str, sign: &str, off: &str| {
        Some((memory_size(size)?.0, register(base)?.0, displacement(sign, off)?))
    };
    match (kind, rest) {
        ("load_acquire", [dst, size, base, sign, off]) => {
            let (size, base, off) = at(size, base, sign, off)?;
            Some(Insn::new(code | size, register(dst)?.0, base, off, op::LOAD_ACQ))
        }
        ("lock" | "fetch", [size, base, sign, off, operator, src]) => {
            let (size, base, off) = at(size, base, sign, off)?;
            let operation = i32::from(operation(operator)?.0);
            let fetch = if kind == "fetch" { op::FETCH } else { 0 };
            Some(Insn::new(code | size, base, register(src)?.0, off, operation | fetch))
        }
        (_, [size, base, sign, off, src]) => {
            let (size, base, off) = at(size, base, sign, off)?;
            let operation = match kind {
                "xchg" => op::XCHG,
                "cmpxchg" => op::CMPXCHG,
                _ => op::STORE_REL,
            };
            Some(Insn::new(code | size, base, register(src)?.0, off, operation))
        }
        _ => None,
    }
}

fn raw(bytes: &[&str]) -> Option<Insn> {
    let hex: String = bytes.concat();
    let value = u64::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 16)?;
    Some(Insn::from_bytes(value.to_be_bytes()))
}

/// Number and whether it is the 64-bit name.
fn register(name: &str) -> Option<(u8, bool)> {
    let wide = name.starts_with('r');
    let number = name.strip_prefix(['r', 'w'])?.parse().ok()?;
    Some((number, wide))
}

fn memory_size(name: &str) -> Option<(u8, bool)> {
    let size = match name.get(1..)? {
        "8" => op::B,
        "16" => op::H,
        "32" => op::W,
        "64" => op::DW,
        _ => return None,
    };
    match &name[..1] {
        "u" => Some((size, false)),
        "s" => Some((size, true)),
        _ => None,
    }
}

fn displacement(sign: &str, off: &str) -> Option<i16> {
    let off = number(off)? as i64;
    i16::try_from(if sign == "-" { -off } else { off }).ok()
}

/// A signed 32-bit immediate; written in base 16 also by its bits.
fn immediate(text: &str) -> Option<i32> {
    let value = number(text)? as i64;
    let bits = text.contains("0x").then(|| u32::try_from(value).ok()).flatten().map(|bits| bits as i32);
    i32::try_from(value).ok().or(bits)
}

/// A number in base 10 or 16, perhaps negative, as 64 bits.
pub(crate) fn number(text: &str) -> Option<u64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}
