//! A value as text and as the bytes of its type: numbers, enumerators, texts, and lists for arrays.

use crate::btf::{Btf, Enum, Int, Kind, MemberAt, TypeId};
use schedlab_base::did_you_mean;

/// Most enumerators that a message lists. Chosen: more are no help, and an object may have thousands.
const LISTED: usize = 32;

/// What begins a value that is given as its bytes.
pub const BYTES: &str = "bytes:";

/// Bytes at a distance from the start of a variable.
pub(crate) type Piece = (u64, Vec<u8>);

/// The bytes that `text` stands for at `at`; a list gives several pieces where it leaves elements as they are.
pub(crate) fn encode(btf: &Btf, at: &MemberAt, text: &str) -> Result<Vec<Piece>, String> {
    if let Some(digits) = text.strip_prefix(BYTES) {
        return Ok(vec![(at.offset(), raw(btf, at, digits)?)]);
    }
    if at.bitfield != 0 {
        return Err("a bit field cannot be set".into());
    }
    let one = |bytes: Vec<u8>| Ok(vec![(at.offset(), bytes)]);
    match btf.resolved(at.ty) {
        Kind::Int(int) => one(integer(btf, at.ty, int, text)?),
        Kind::Enum(shape) | Kind::Enum64(shape) => one(enumerator(btf, at.ty, shape, text)?),
        Kind::Array(array) if is_char(btf, array.elem) => one(characters(array.count, text)?),
        Kind::Array(array) => elements(btf, at, array.elem, array.count, text),
        Kind::Ptr(target) if matches!(btf.resolved(*target), Kind::FuncProto(_)) => {
            Err("a function cannot be set".into())
        }
        Kind::Ptr(_) => Err("a pointer cannot be set".into()),
        _ => Err(format!("a {} cannot be set as a whole; name one of its members", spelled(btf, at.ty))),
    }
}

/// All bytes of a value, in the order of memory: what has no other text, such as bit fields.
fn raw(btf: &Btf, at: &MemberAt, digits: &str) -> Result<Vec<u8>, String> {
    let size = btf.size_of(at.ty).unwrap_or(0);
    bytes_of_digits(digits)
        .filter(|bytes| at.bitfield == 0 && bytes.len() as u64 == size)
        .ok_or_else(|| format!("{BYTES} takes {} hexadecimal digits for {}", 2 * size, spelled(btf, at.ty)))
}

/// The bytes that a text has two hexadecimal digits for each; nothing where it has anything else.
pub fn bytes_of_digits(text: &str) -> Option<Vec<u8>> {
    let byte = |two: &[u8]| match two {
        [high, low] => Some(char::from(*high).to_digit(16)? << 4 | char::from(*low).to_digit(16)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(|two| byte(two).map(|byte| byte as u8)).collect()
}

/// The pieces of a value for an array whose length is not known yet.
pub(super) fn encode_of_any_length(btf: &Btf, at: &MemberAt, text: &str) -> Result<Vec<Piece>, String> {
    match btf.resolved(at.ty) {
        Kind::Array(array) => elements(btf, at, array.elem, u32::MAX, text),
        _ => encode(btf, at, text),
    }
}

/// The type as C writes it, without qualifiers.
pub(super) fn spelled(btf: &Btf, ty: TypeId) -> String {
    btf.spell(ty).replace("const ", "").replace("volatile ", "")
}

/// Texts are arrays of `char` itself: those of other types of one byte hold numbers.
pub(super) fn is_char(btf: &Btf, ty: TypeId) -> bool {
    matches!(btf.resolved(ty), Kind::Int(int) if int.size == 1) && btf.name(btf.resolve(ty)) == "char"
}

fn integer(btf: &Btf, ty: TypeId, int: &Int, text: &str) -> Result<Vec<u8>, String> {
    let spelled = spelled(btf, ty);
    let truth = match text {
        "true" | "yes" | "on" => Some(1),
        "false" | "no" | "off" => Some(0),
        _ => None,
    };
    let value = truth.filter(|_| int.is_bool || matches!(text, "true" | "false"));
    let value = value.or_else(|| parse_number(text)).ok_or_else(|| match int.is_bool {
        true => format!("`{text}` is neither true nor false, as {spelled} needs"),
        false => format!("`{text}` is no number for {spelled}"),
    })?;
    let bits = if int.is_bool { 1 } else { u32::from(int.bits).min(int.size * 8) };
    let (low, high) = range(bits, int.signed);
    debug_assert!(low <= high, "a range has a value");
    let bytes = value.to_le_bytes();
    let bytes = bytes.get(..int.size as usize).filter(|_| (low..=high).contains(&value));
    bytes.map(<[u8]>::to_vec).ok_or_else(|| format!("{text} does not fit into {spelled} ({low} to {high})"))
}

fn enumerator(btf: &Btf, ty: TypeId, shape: &Enum, text: &str) -> Result<Vec<u8>, String> {
    let named = named(btf, shape, text);
    let value = named.or_else(|| parse_number(text)).ok_or_else(|| {
        let near = did_you_mean(text, shape.values.iter().map(|value| btf.enumerator_name(value)));
        format!(
            "`{text}` is none of the values of {}{near}; values: {}",
            spelled(btf, ty),
            enumerators(btf, shape)
        )
    })?;
    let (low, high) = range(shape.size * 8, value < 0);
    let bytes = value.to_le_bytes();
    let bytes = bytes.get(..shape.size as usize).filter(|_| (low..=high).contains(&value));
    bytes.map(<[u8]>::to_vec).ok_or_else(|| format!("{text} does not fit into {}", spelled(btf, ty)))
}

/// The names of an enumeration's values.
pub(super) fn enumerators(btf: &Btf, shape: &Enum) -> String {
    let listed: Vec<&str> =
        shape.values.iter().take(LISTED).map(|value| btf.enumerator_name(value)).collect();
    let more = if shape.values.len() > LISTED { ", ..." } else { "" };
    format!("{}{more}", listed.join(", "))
}

/// The enumerator that a text means: its name, or the end of it after a `_`; case and `.` or `-` for `_` do not count.
fn named(btf: &Btf, shape: &Enum, text: &str) -> Option<i128> {
    let wanted = text.to_ascii_uppercase().replace(['.', '-'], "_");
    let upper = shape.values.iter().map(|value| (btf.enumerator_name(value).to_ascii_uppercase(), value));
    // The shortest name that ends so: `2_6` means PROFILE_2_6, not PROFILE_X_2_6.
    let ends =
        |name: &str| name.strip_suffix(&wanted).is_some_and(|head| head.is_empty() || head.ends_with('_'));
    let found = upper.filter(|(name, _)| ends(name)).min_by_key(|(name, _)| name.len());
    found
        .map(|(_, value)| if shape.signed { i128::from(value.value as i64) } else { i128::from(value.value) })
}

/// A text with zeros up to the end of its array, one of them at least.
fn characters(count: u32, text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.len() >= count as usize || bytes.contains(&0) {
        let most = count.saturating_sub(1);
        return Err(format!("text of {} bytes for char [{count}], which holds {most}", bytes.len()));
    }
    bytes.resize(count as usize, 0);
    debug_assert!(bytes.last() == Some(&0), "a text ends with a zero");
    Ok(bytes)
}

/// A list `[1,2,3]` sets an array's first elements.
fn elements(btf: &Btf, at: &MemberAt, elem: TypeId, count: u32, text: &str) -> Result<Vec<Piece>, String> {
    let spelled = format!("{} [{count}]", spelled(btf, elem));
    let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return Err(format!("`{text}` is no list for {spelled}; write [1,2,3], or name one element"));
    };
    let parts = split(inside).ok_or_else(|| format!("`{text}` has brackets without their other one"))?;
    if parts.len() > count as usize {
        return Err(format!("a list of {} for {spelled}", parts.len()));
    }
    let size = btf.size_of(elem).ok_or("elements of unknown size")?;
    let mut pieces = Vec::new();
    for (index, part) in (0u64..).zip(parts) {
        let distance = index.checked_mul(size).and_then(|bytes| bytes.checked_mul(8)).ok_or("too far")?;
        let bit_offset = at.bit_offset.checked_add(distance).ok_or("too far")?;
        let element = MemberAt { ty: elem, bit_offset, bitfield: 0 };
        let found = encode(btf, &element, part.trim()).map_err(|why| format!("element {index}: {why}"))?;
        pieces.extend(found);
    }
    Ok(pieces)
}

/// The parts of a list, at the commas outside of inner brackets; nothing where brackets do not match.
fn split(inside: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0usize, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[begin..]);
    (depth == 0).then_some(parts)
}

/// A number: decimal, `0x` hexadecimal, `_` between digits, `-` before it.
pub(crate) fn parse_number(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let digits = digits.replace('_', "");
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (digits.as_str(), 10),
    };
    // A sign in the middle is none that `from_str_radix` should take.
    let plain = digits.starts_with(|c: char| c.is_ascii_hexdigit());
    let value = plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()?;
    Some(sign * i128::from(value))
}

/// The least and the greatest number of so many bits; of wider ones what 64 bits hold.
fn range(bits: u32, signed: bool) -> (i128, i128) {
    let bits = bits.clamp(1, 64);
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::BtfBuilder;

    #[test]
    fn numbers_are_read_in_all_spellings() {
        assert_eq!(parse_number("20_000"), Some(20_000));
        assert_eq!(parse_number("0xff"), Some(255));
        assert_eq!(parse_number("-3"), Some(-3));
        assert_eq!(parse_number("18446744073709551615"), Some(i128::from(u64::MAX)));
        for bad in ["5ms", "", "--3", "+3", "0x", "1e3", "18446744073709551616"] {
            assert_eq!(parse_number(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_width_and_sign_has_its_range() {
        for (size, signed) in
            [(1, false), (1, true), (2, false), (2, true), (4, false), (4, true), (8, false), (8, true)]
        {
            let mut b = BtfBuilder::new();
            let ty = b.int("number", size, signed);
            let btf = b.finish();
            let at = MemberAt { ty, bit_offset: 64, bitfield: 0 };
            let (low, high) = range(size * 8, signed);
            for value in [low, 0, high] {
                let expected = value.to_le_bytes()[..size as usize].to_vec();
                assert_eq!(encode(&btf, &at, &value.to_string()), Ok(vec![(8, expected)]), "{size} {value}");
            }
            for value in [low - 1, high + 1] {
                assert!(encode(&btf, &at, &value.to_string()).is_err(), "{size} {value}");
            }
        }
    }

    #[test]
    fn bytes_are_taken_whole() {
        let mut b = BtfBuilder::new();
        let short = b.int("short", 2, true);
        let btf = b.finish();
        let at = MemberAt { ty: short, bit_offset: 16, bitfield: 0 };
        assert_eq!(encode(&btf, &at, "bytes:1fe0"), Ok(vec![(2, vec![0x1f, 0xe0])]));
        for bad in ["bytes:", "bytes:1f", "bytes:1fe", "bytes:1fe0aa", "bytes:+f+e", "bytes:1\u{e9}e"] {
            let told = encode(&btf, &at, bad).unwrap_err();
            assert_eq!(told, "bytes: takes 4 hexadecimal digits for short", "{bad}");
        }
    }

    #[test]
    fn lists_set_the_first_elements_and_may_nest() {
        let mut b = BtfBuilder::new();
        let short = b.int("short", 2, true);
        let two = b.array(short, 2);
        let six = b.array(two, 3);
        let btf = b.finish();
        let at = MemberAt { ty: six, bit_offset: 0, bitfield: 0 };
        let pieces = encode(&btf, &at, "[[1,-2], [3]]").unwrap();
        assert_eq!(pieces, [(0, vec![1, 0]), (2, vec![0xfe, 0xff]), (4, vec![3, 0])]);
        for (text, why) in [
            ("[[1,2],[3],[4],[5]]", "a list of 4 for short [2] [3]"),
            ("[[1,2,3]]", "element 0: a list of 3"),
            ("[[1,40000]]", "element 0: element 1: 40000 does not fit into short (-32768 to 32767)"),
            ("[[1]", "brackets"),
            ("[[1]]]", "brackets"),
            ("7", "no list for short [2] [3]"),
            ("[]", "element 0: `` is no list"),
        ] {
            let found = encode(&btf, &at, text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn only_arrays_of_char_are_texts() {
        let mut b = BtfBuilder::new();
        let (char, byte) = (b.int("char", 1, true), b.int("unsigned char", 1, false));
        let (text, numbers) = (b.array(char, 4), b.array(byte, 4));
        let btf = b.finish();
        let at = |ty| MemberAt { ty, bit_offset: 0, bitfield: 0 };
        assert_eq!(encode(&btf, &at(text), "ab"), Ok(vec![(0, b"ab\0\0".to_vec())]));
        assert_eq!(encode(&btf, &at(numbers), "[7,255]"), Ok(vec![(0, vec![7]), (1, vec![255])]));
        assert!(encode(&btf, &at(text), "abcd").unwrap_err().contains("text of 4 bytes for char [4]"));
        assert!(encode(&btf, &at(text), "a\0b").is_err());
        assert!(encode(&btf, &at(numbers), "12").unwrap_err().contains("no list for unsigned char [4]"));
    }
}
