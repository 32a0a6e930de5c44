//! `printf` as BPF has it: a format and 64-bit arguments (`bpf_snprintf`, `bpf_trace_printk`, `scx_bpf_error`).

use super::Env;
use crate::args::{Buffer, Bytes, Caller, MAX_TEXT, Text, bytes_or_zeros, text};
use crate::fault::Fault;
use crate::maps::Errno;
use crate::memory::Memory;

/// Most arguments (kernel: `MAX_BPRINTF_VARARGS`).
pub const MAX_ARGS: usize = 12;

/// Room for packed arguments (kernel: `MAX_BPRINTF_BIN_ARGS`).
const PACKED: usize = 512;

/// One conversion of a format.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    width: usize,
    /// Bytes of an integer argument.
    size: u32,
}

/// Formats as `bpf_bprintf_prepare()` (kernel/bpf/helpers.c) and `bstr_printf()` (lib/vsprintf.c) of Linux 7.3 do; texts and
/// addresses of networks are read from guest memory, and are empty where it cannot be read.
///
/// # Errors
/// `EINVAL` for a conversion or a control character that BPF does not allow, or more conversions than arguments; `ENOSPC` where
/// the arguments take more than [`PACKED`] bytes.
pub(crate) fn format(form: &[u8], args: &[u64], mem: &Memory) -> Result<String, Errno> {
    let mut out: Vec<u8> = Vec::new();
    let mut args = args.iter().take(MAX_ARGS);
    let mut room = PACKED;
    let mut at = 0;
    while let Some(&byte) = form.get(at).filter(|byte| **byte != 0) {
        at += 1;
        if byte.is_ascii_control() && !is_space(byte) {
            return Err(Errno::EINVAL);
        }
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        if form.get(at) == Some(&b'%') {
            out.push(b'%');
            at += 1;
            continue;
        }
        let value = *args.next().ok_or(Errno::EINVAL)?;
        let mut conversion = flags_and_width(form, &mut at);
        debug_assert!(room <= PACKED, "the room for arguments only shrinks");
        let body = match form.get(at) {
            Some(b'p') => {
                at += 1;
                let body = pointer(form, &mut at, value, mem)?;
                // What is packed as text is copied as it is.
                conversion.width = if body.raw { 0 } else { conversion.width };
                conversion.zero = false;
                room = room.checked_sub(body.packed).ok_or(Errno::ENOSPC)?;
                body.text
            }
            Some(b's') => {
                at += 1;
                if form
                    .get(at)
                    .is_some_and(|next| *next != 0 && !is_space(*next) && !next.is_ascii_punctuation())
                {
                    return Err(Errno::EINVAL);
                }
                conversion.zero = false;
                let body = copied(value, room, mem);
                room = room.checked_sub(body.len() + 1).ok_or(Errno::ENOSPC)?;
                body
            }
            Some(b'c') => {
                at += 1;
                conversion.zero = false;
                room = room.checked_sub(1).ok_or(Errno::ENOSPC)?;
                vec![value as u8]
            }
            _ => {
                let letter = length_and_letter(form, &mut at, &mut conversion)?;
                // Words begin at multiples of four.
                room = (room / 4 * 4).checked_sub(conversion.size as usize).ok_or(Errno::ENOSPC)?;
                integer(&conversion, letter, value)
            }
        };
        pad(&mut out, &conversion, &body);
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The kernel's `isspace()`, which knows the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// A text for `%s`; what cannot be read is none.
fn copied(from: u64, room: usize, mem: &Memory) -> Vec<u8> {
    text(from, (room as u64).saturating_sub(1), mem).unwrap_or_default()
}

/// What stands before the letter: of flags the kernel's programs have `0`, `+`, `-` and the blank.
fn flags_and_width(form: &[u8], at: &mut usize) -> Conversion {
    let mut conversion = Conversion { size: 4, ..Conversion::default() };
    while let Some(&flag) = form.get(*at) {
        match flag {
            b'-' => conversion.left = true,
            b'0' => conversion.zero = true,
            b'+' => conversion.plus = true,
            b' ' => conversion.space = true,
            _ => break,
        }
        *at += 1;
    }
    while let Some(digit) = form.get(*at).filter(|digit| digit.is_ascii_digit()) {
        conversion.width = (conversion.width * 10 + usize::from(digit - b'0')).min(MAX_TEXT as usize);
        *at += 1;
    }
    debug_assert!(conversion.width <= MAX_TEXT as usize, "no text is wider than the limit");
    conversion
}

/// `l` or `ll`, and one of the letters of integers.
fn length_and_letter(form: &[u8], at: &mut usize, conversion: &mut Conversion) -> Result<u8, Errno> {
    for _ in 0..2 {
        if form.get(*at) == Some(&b'l') {
            conversion.size = 8;
            *at += 1;
        }
    }
    let letter = form.get(*at).copied().filter(|letter| matches!(letter, b'i' | b'd' | b'u' | b'x' | b'X'));
    *at += 1;
    letter.ok_or(Errno::EINVAL)
}

/// A pointer's text.
struct PointerText {
    text: Vec<u8>,
    /// Bytes that it takes among the packed arguments.
    packed: usize,
    /// Copied without a width.
    raw: bool,
}

/// What follows `%p`: nothing, `x`, `K`, `s`, `S`, `B`, `ks`, `us`, or an address of a network. Letters and digits behind it
/// are swallowed. The kernel prints a hash in the place of an address; here it is the guest's, which tells nothing.
fn pointer(form: &[u8], at: &mut usize, value: u64, mem: &Memory) -> Result<PointerText, Errno> {
    let rest = form.get(*at..).unwrap_or(&[]);
    let number = |text: String| PointerText { text: text.into_bytes(), packed: 8, raw: false };
    let packed = |text: Vec<u8>| PointerText { packed: text.len() + 1, text, raw: true };
    let found = match rest {
        [b'k' | b'u', b's', next @ ..] => {
            if next.first().is_some_and(|next| *next != 0 && !is_space(*next) && !next.is_ascii_punctuation())
            {
                return Err(Errno::EINVAL);
            }
            packed(copied(value, PACKED, mem))
        }
        [b'x' | b'K', ..] => number(format!("{value:016x}")),
        [b's' | b'S', ..] => number(format!("{value:#x}")),
        [b'B', ..] => packed(format!("{value:#x}").into_bytes()),
        [kind @ (b'i' | b'I'), b'4', ..] => packed(address_4(*kind == b'I', &bytes_or_zeros(value, 4, mem))),
        [kind @ (b'i' | b'I'), b'6', ..] => packed(address_6(*kind == b'I', &bytes_or_zeros(value, 16, mem))),
        [] => number(format!("{value:016x}")),
        [next, ..] if *next == 0 || is_space(*next) || next.is_ascii_punctuation() => {
            number(format!("{value:016x}"))
        }
        _ => return Err(Errno::EINVAL),
    };
    *at += rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    Ok(found)
}

/// `%pI4` and `%pi4`, which has leading zeros.
fn address_4(short: bool, bytes: &[u8]) -> Vec<u8> {
    let part = |byte: &u8| if short { byte.to_string() } else { format!("{byte:03}") };
    bytes.iter().map(part).collect::<Vec<_>>().join(".").into_bytes()
}

/// `%pI6` and `%pi6`, which has no colons.
fn address_6(colons: bool, bytes: &[u8]) -> Vec<u8> {
    let parts = bytes.chunks_exact(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
    parts.collect::<Vec<_>>().join(if colons { ":" } else { "" }).into_bytes()
}

/// The digits of an integer conversion.
fn integer(c: &Conversion, letter: u8, value: u64) -> Vec<u8> {
    let bits = c.size * 8;
    let unsigned = if bits == 64 { value } else { value & ((1 << bits) - 1) };
    let signed = ((value << (64 - bits)) as i64) >> (64 - bits);
    let body = match letter {
        b'd' | b'i' => {
            let sign = match signed {
                n if n < 0 => "-",
                _ if c.plus => "+",
                _ if c.space => " ",
                _ => "",
            };
            format!("{sign}{}", signed.unsigned_abs())
        }
        b'u' => unsigned.to_string(),
        b'x' => format!("{unsigned:x}"),
        _ => format!("{unsigned:X}"),
    };
    body.into_bytes()
}

fn pad(out: &mut Vec<u8>, c: &Conversion, body: &[u8]) {
    let missing = c.width.saturating_sub(body.len());
    if c.left {
        out.extend_from_slice(body);
        out.resize(out.len() + missing, b' ');
    } else if c.zero {
        let sign = usize::from(matches!(body.first(), Some(b'-' | b'+' | b' ')));
        out.extend_from_slice(&body[..sign]);
        out.resize(out.len() + missing, b'0');
        out.extend_from_slice(&body[sign..]);
    } else {
        out.resize(out.len() + missing, b' ');
        out.extend_from_slice(body);
    }
}

/// `bpf_snprintf(buffer, size, format, data, data bytes)`: bytes that the whole text needs, with its zero.
pub(super) fn to_buffer<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    to: Buffer,
    form: Text,
    data: Bytes,
) -> Result<Result<u64, Errno>, Fault> {
    let values = caller.format_args(data)?;
    let done = match caller.format_whole(&form.0, &values)? {
        Ok(done) => done.into_bytes(),
        Err(error) => return Ok(Err(error)),
    };
    if let Some(room) = to.0.size().checked_sub(1) {
        let mut cut = done[..done.len().min(room as usize)].to_vec();
        cut.push(0);
        caller.fill(to.0, &cut)?;
    }
    Ok(Ok(done.len() as u64 + 1))
}

/// `bpf_trace_printk(format, size, a, b, c)`.
pub(super) fn trace<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    form: Bytes,
    a: u64,
    b: u64,
    c: u64,
) -> Result<Result<u64, Errno>, Fault> {
    print(caller, form, &[a, b, c])
}

/// `bpf_trace_vprintk(format, size, data, bytes)`.
pub(super) fn trace_packed<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    form: Bytes,
    data: Bytes,
) -> Result<Result<u64, Errno>, Fault> {
    let values = caller.format_args(data)?;
    print(caller, form, &values)
}

fn print<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    form: Bytes,
    values: &[u64],
) -> Result<Result<u64, Errno>, Fault> {
    let form = caller.bytes(form.0)?;
    let Some(end) = form.iter().position(|byte| *byte == 0) else { return Ok(Err(Errno::EINVAL)) };
    let form = form[..end.min(MAX_TEXT as usize)].to_vec();
    Ok(caller.format(&form, values)?.map(|line| {
        let insns = caller.insns();
        caller.env.trace(line.trim_end_matches('\n'), insns);
        line.len() as u64
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Perm;

    #[test]
    fn conversions_follow_the_kernel() {
        let mut mem = Memory::new().expect("memory");
        let at = mem.map(16, Perm::READ).expect("room");
        mem.write(at, b"task\0").expect("mapped");
        let f = |form: &str, args: &[u64]| format(form.as_bytes(), args, &mem);
        assert_eq!(f("%d %u %s!", &[u64::MAX, 5, at.0]).as_deref(), Ok("-1 5 task!"));
        let padded = f("%08x|%-6d|%6d|%lld", &[0xbeef, 42, 42, (-7i64) as u64]);
        assert_eq!(padded.as_deref(), Ok("0000beef|42    |    42|-7"));
        assert_eq!(f("%x %% %c", &[16, 65]).as_deref(), Ok("10 % A"));
        assert_eq!(
            f("%20llu|%+d|% d|%-5d|", &[7, 4, 4, 7]).as_deref(),
            Ok("                   7|+4| 4|7    |")
        );
        assert_eq!(f("%5c|%-3c|%10s", &[65, 65, at.0]).as_deref(), Ok("    A|A  |      task"));
        // Text that cannot be read is empty.
        assert_eq!(f("[%s] [%pks]", &[0, at.0]).as_deref(), Ok("[] [task]"));
        assert_eq!(f("%px %ps %pB", &[0x1234, 0, 0]).as_deref(), Ok("0000000000001234 0x0 0x0"));
        let networks = f("%pI4 %pi4", &[at.0, at.0]);
        assert_eq!(networks.as_deref(), Ok("116.97.115.107 116.097.115.107"));
        let longer = f("%pI6", &[0]);
        assert_eq!(longer.as_deref(), Ok("0000:0000:0000:0000:0000:0000:0000:0000"));
        assert_eq!(f("a\tb\u{e9}", &[]).as_deref(), Ok("a\tb\u{e9}"));
        // As Linux 7.3.4 refuses them (tests/values).
        let refused = [
            "%n", "%", "%d %d", "%l", "%#x", "%hd", "%hhx", "%.2s", "%5.3d", "%zu", "%jd", "%lls", "%o",
            "%e", "%*d", "%lc", "%sx", "%pI5", "%pQ", "\u{1}",
        ];
        for bad in refused {
            assert_eq!(f(bad, &[0]), Err(Errno::EINVAL), "{bad}");
        }
    }
}
