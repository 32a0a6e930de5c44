//! `printf` as BPF has it: a format and 64-bit arguments (`bpf_snprintf`, `bpf_trace_printk`, `scx_bpf_error`).

use super::Env;
use crate::args::{Buffer, Bytes, Caller, MAX_TEXT, Text, text};
use crate::fault::Fault;
use crate::maps::Errno;
use crate::memory::Memory;

/// Most arguments (kernel: `MAX_BPRINTF_VARARGS`).
pub const MAX_ARGS: usize = 12;

/// One conversion of a format.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    alternate: bool,
    plus: bool,
    space: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer argument.
    size: u32,
}

/// Formats as the kernel does; `%s` reads guest memory.
///
/// # Errors
/// `EINVAL` for a conversion that BPF does not allow, or more conversions than arguments.
pub(crate) fn format(form: &[u8], args: &[u64], mem: &Memory) -> Result<String, Errno> {
    let mut out: Vec<u8> = Vec::new();
    let mut args = args.iter().take(MAX_ARGS);
    let mut at = 0;
    while let Some(&byte) = form.get(at) {
        at += 1;
        if byte == 0 {
            break;
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
        let (conversion, letter, next) = parse(form, at)?;
        at = next;
        let value = *args.next().ok_or(Errno::EINVAL)?;
        // Pointer extensions: %pks and %pus are text; %px, %pK, %pB, %pS and %ps print the number.
        let rest = form.get(at..).unwrap_or(&[]);
        let tagged = letter == b'p' && (rest.starts_with(b"ks") || rest.starts_with(b"us"));
        let is_text = letter == b's' || tagged;
        if letter == b'p' {
            let plain = matches!(rest.first(), Some(b'x' | b'K' | b'B' | b'S' | b's'));
            at += if tagged { 2 } else { usize::from(plain) };
        }
        let body = if is_text {
            text(value, MAX_TEXT, mem).unwrap_or_else(|| b"(null)".to_vec())
        } else {
            integer(&conversion, letter, value)?
        };
        pad(&mut out, &conversion, body, is_text);
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Flags, width, precision and length; returns the letter and where the text goes on.
fn parse(form: &[u8], mut at: usize) -> Result<(Conversion, u8, usize), Errno> {
    let mut c = Conversion { size: 4, ..Conversion::default() };
    while let Some(&flag) = form.get(at) {
        match flag {
            b'-' => c.left = true,
            b'0' => c.zero = true,
            b'#' => c.alternate = true,
            b'+' => c.plus = true,
            b' ' => c.space = true,
            _ => break,
        }
        at += 1;
    }
    let number = |at: &mut usize| {
        let mut value = 0usize;
        while let Some(digit) = form.get(*at).filter(|d| d.is_ascii_digit()) {
            value = (value * 10 + usize::from(digit - b'0')).min(MAX_TEXT as usize);
            *at += 1;
        }
        value
    };
    c.width = number(&mut at);
    if form.get(at) == Some(&b'.') {
        at += 1;
        c.precision = Some(number(&mut at));
    }
    while let Some(&length) = form.get(at) {
        match length {
            b'l' | b'z' | b'j' | b't' => c.size = 8,
            b'h' => c.size = if c.size == 2 { 1 } else { 2 },
            _ => break,
        }
        at += 1;
    }
    let letter = *form.get(at).ok_or(Errno::EINVAL)?;
    Ok((c, letter, at + 1))
}

/// The digits (or character) of an integer conversion.
fn integer(c: &Conversion, letter: u8, value: u64) -> Result<Vec<u8>, Errno> {
    let bits = c.size * 8;
    let unsigned = if bits == 64 { value } else { value & ((1 << bits) - 1) };
    let signed = ((value << (64 - bits)) as i64) >> (64 - bits);
    let mut body = match letter {
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
        b'x' if c.alternate => format!("{unsigned:#x}"),
        b'x' => format!("{unsigned:x}"),
        b'X' if c.alternate => format!("0X{unsigned:X}"),
        b'X' => format!("{unsigned:X}"),
        b'o' => format!("{unsigned:o}"),
        b'p' => format!("{value:016x}"),
        b'c' => return Ok(vec![value as u8]),
        _ => return Err(Errno::EINVAL),
    };
    if let Some(precision) = c.precision {
        let digits = body.trim_start_matches(['-', '+', ' ']).len();
        let sign = body.len() - digits;
        body.insert_str(sign, &"0".repeat(precision.saturating_sub(digits)));
    }
    Ok(body.into_bytes())
}

fn pad(out: &mut Vec<u8>, c: &Conversion, mut body: Vec<u8>, is_text: bool) {
    if let Some(precision) = c.precision.filter(|_| is_text) {
        body.truncate(precision);
    }
    let missing = c.width.saturating_sub(body.len());
    if c.left {
        out.extend_from_slice(&body);
        out.resize(out.len() + missing, b' ');
    } else if c.zero && !is_text {
        let sign = usize::from(matches!(body.first(), Some(b'-' | b'+' | b' ')));
        out.extend_from_slice(&body[..sign]);
        out.resize(out.len() + missing, b'0');
        out.extend_from_slice(&body[sign..]);
    } else {
        out.resize(out.len() + missing, b' ');
        out.extend_from_slice(&body);
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
    let form = form[..form.len().min(MAX_TEXT as usize)].to_vec();
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
        assert_eq!(f("%#x %% %c", &[16, 65]).as_deref(), Ok("0x10 % A"));
        assert_eq!(f("%.2s|%5.3d", &[at.0, 7]).as_deref(), Ok("ta|  007"));
        let widths = f("%hhu %hu %llu", &[0x1ff, 0x1ffff, u64::MAX]);
        assert_eq!(widths.as_deref(), Ok("255 65535 18446744073709551615"));
        assert_eq!(f("%s", &[0]).as_deref(), Ok("(null)"));
        for bad in ["%n", "%", "%d %d", "%l"] {
            assert_eq!(f(bad, &[0]), Err(Errno::EINVAL), "{bad}");
        }
    }
}
