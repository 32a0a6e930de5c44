//! `memrun`: how much of which buffer is walked.

use super::{Node, Outcome, fault, integer, object, text};

/// The largest buffer. Chosen: a gibibyte, which a real run allocates for each task.
const MAX_SIZE: u64 = 1 << 30;

/// Bytes of a cache line, of which a longer stride touches one.
const LINE: u64 = 64;

/// What is done to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Read,
    Write,
    Chase,
}

/// What events that name the same buffer have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    size: u64,
    stride: u64,
    random: bool,
}

/// One `memrun` event.
pub(super) struct MemRun {
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// The name of a buffer that tasks share.
    pub(super) shared: Option<String>,
    /// KiB of cache lines that the buffer has, at least 1.
    pub(super) buffer_kib: u32,
    /// KiB of cache lines that are touched in all.
    pub(super) kib: u64,
}

/// Reads the event. `count` is bytes of `read` and `write`, steps of `chase`.
pub(super) fn read(node: &Node, path: &str) -> Outcome<MemRun> {
    let (mut kind, mut size, mut count, mut shared) = (None, None, None, None);
    let (mut stride, mut random) = (LINE, true);
    for (key, node) in object(node, path)? {
        let path = &format!("{path}.{key}");
        match key.as_str() {
            "type" => kind = Some(kind_of(node, path)?),
            "size" => size = Some(within(node, path, 1, MAX_SIZE)?),
            "count" => count = Some(within(node, path, 0, i32::MAX as u64)?),
            "stride" => stride = within(node, path, 8, MAX_SIZE)?,
            "pattern" => match text(node, path)? {
                "random" => random = true,
                "sequential" => random = false,
                _ => return fault(node, path, "random or sequential is expected"),
            },
            "ref" => shared = Some(text(node, path)?.to_string()),
            _ => return fault(node, path, "unknown; there are: type, size, count, stride, pattern, ref"),
        }
    }
    let (Some(kind), Some(size), Some(count)) = (kind, size, count) else {
        return fault(node, path, "\"type\", \"size\" and \"count\" are needed");
    };
    let shape = Shape { size, stride, random };
    let (buffer, bytes) = match kind {
        Kind::Read | Kind::Write => (size, count),
        Kind::Chase => {
            // As in rt-app a power of two of places, each of which is one line at most.
            let places = match size / stride {
                0 | 1 => return fault(node, path, "a chase needs a size of at least two strides"),
                places => 1 << places.ilog2(),
            };
            let touched = stride.min(LINE);
            (places * touched, count * touched)
        }
    };
    let buffer_kib = buffer.div_ceil(1024) as u32;
    Ok(MemRun { kind, shape, shared, buffer_kib, kib: bytes.div_ceil(1024) })
}

fn kind_of(node: &Node, path: &str) -> Outcome<Kind> {
    match text(node, path)? {
        "read" => Ok(Kind::Read),
        "write" => Ok(Kind::Write),
        "chase" => Ok(Kind::Chase),
        other => fault(node, path, format!("'{other}' is none of read, write, chase")),
    }
}

fn within(node: &Node, path: &str, least: u64, most: u64) -> Outcome<u64> {
    match u64::try_from(integer(node, path)?) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => fault(node, path, format!("{least} to {most} is expected")),
    }
}
