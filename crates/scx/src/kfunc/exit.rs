//! Leaving and reporting: `scx_bpf_error()`, `scx_bpf_exit()`, `scx_bpf_dump()`.

use super::{Kfunc, arg_addr, kfunc};
use crate::join::Join;
use schedlab_bpf::{Fault, GuestAddr, Vm};
use schedlab_trace::ExitKind;

/// Arguments that a format string can have (kernel: `MAX_BPRINTF_VARARGS`).
const MAX_ARGUMENTS: u64 = 12;

/// Longest format string (kernel: `SCX_EXIT_MSG_LEN`).
const MAX_FORMAT: u64 = 1024;

/// The bytes up to a zero.
fn read_text(from: GuestAddr, vm: &Vm<'_>) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    for at in 0..MAX_FORMAT {
        match vm.mem.read_u8(from.offset(at))? {
            0 => break,
            byte => text.push(byte),
        }
    }
    Ok(text)
}

/// The text of a format string and its packed arguments; an error of the format is reported in its place, as the
/// kernel does.
fn formatted(fmt: u64, data: u64, size: u64, vm: &mut Vm<'_>) -> Result<String, Fault> {
    let size = u64::from(size as u32);
    if size % 8 != 0 || size > MAX_ARGUMENTS * 8 {
        return Ok(format!("exit message formatting failed ({})", -22));
    }
    let values: Vec<u64> = (0..size / 8)
        .map(|index| vm.mem.read_u64(GuestAddr(data).offset(index * 8)))
        .collect::<Result<_, _>>()?;
    let format = read_text(arg_addr(fmt), vm)?;
    Ok(match schedlab_bpf::helpers::format(&format, &values, vm.mem) {
        Ok(text) => text,
        Err(error) => format!("exit message formatting failed ({})", -error.0),
    })
}

fn error_bstr(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let text = formatted(args[0], args[1], args[2], vm)?;
    join.k.error(ExitKind::ErrorBpf, text);
    Ok(0)
}

fn exit_bstr(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let text = formatted(args[1], args[2], args[3], vm)?;
    join.state.exit_code = args[0] as i64;
    join.k.bpf_exit(args[0] as i64, text);
    Ok(0)
}

/// Text of the dump; lines may come in pieces.
fn dump_bstr(join: &mut Join<'_>, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    if !join.in_dump() {
        let text = "scx_bpf_dump() must only be called from ops.dump() and friends";
        join.k.error(ExitKind::Error, text.into());
        return Ok(0);
    }
    let text = formatted(args[0], args[1], args[2], vm)?;
    join.state.dump_text.push_str(&text);
    join.flush_dump(false);
    Ok(0)
}

/// The functions of this file.
pub(super) const TABLE: &[Kfunc] = &[
    kfunc("void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz);", error_bstr),
    kfunc(
        "void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz);",
        exit_bstr,
    ),
    kfunc("void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz);", dump_bstr),
];
