//! Leaving and reporting: `scx_bpf_error()`, `scx_bpf_exit()`, `scx_bpf_dump()`.

use crate::args::Cx;
use schedlab_bpf::Fault;
use schedlab_bpf::args::{Bytes, Text};
use schedlab_bpf::helpers::MAX_ARGS;
use schedlab_trace::ExitKind;

/// The text of a format and its packed arguments; an error of the format is reported in its place, as the
/// kernel does.
pub(super) fn formatted(cx: &mut Cx<'_, '_, '_>, form: &Text, data: Bytes) -> Result<String, Fault> {
    let failed = |error: i32| format!("exit message formatting failed ({error})");
    if !data.0.size().is_multiple_of(8) || data.0.size() > MAX_ARGS as u64 * 8 {
        return Ok(failed(-22));
    }
    let values = cx.format_args(data)?;
    Ok(cx.format(&form.0, &values)?.unwrap_or_else(|error| failed(-error.0)))
}

pub(super) fn error_bstr(cx: &mut Cx<'_, '_, '_>, form: Text, data: Bytes) -> Result<(), Fault> {
    let text = formatted(cx, &form, data)?;
    cx.env.k.error(ExitKind::ErrorBpf, text);
    Ok(())
}

pub(super) fn exit_bstr(cx: &mut Cx<'_, '_, '_>, code: i64, form: Text, data: Bytes) -> Result<(), Fault> {
    let text = formatted(cx, &form, data)?;
    cx.env.k.bpf_exit(code, text);
    Ok(())
}

/// Text of the dump; lines may come in pieces.
pub(super) fn dump_bstr(cx: &mut Cx<'_, '_, '_>, form: Text, data: Bytes) -> Result<(), Fault> {
    if !cx.env.in_dump() {
        let text = "scx_bpf_dump() must only be called from ops.dump() and friends";
        cx.env.k.error(ExitKind::Error, text.into());
        return Ok(());
    }
    let text = formatted(cx, &form, data)?;
    cx.env.add_to_dump(&text);
    Ok(())
}
