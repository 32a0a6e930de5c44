//! How a scheduler left: from the record that it keeps itself, or from the kernel's log.

use schedlab_trace::{ExitKind, ExitRecord};

use super::btf::Variable;
use super::raw::Object;
use super::settings::section_map;

/// The present values of the counters that the object file has, in name order.
pub(super) fn counters(object: &Object, names: &[String]) -> Vec<(String, u64)> {
    let variables = object.btf().map(|btf| btf.variables()).unwrap_or_default();
    let value = |name: &String| {
        let variable = variables.iter().find(|v| v.name == *name)?;
        Some((name.clone(), number(&read(object, variable)?)))
    };
    names.iter().filter_map(value).collect()
}

/// The bytes of the tables that the object file has, in name order.
pub(super) fn tables(object: &Object, names: &[String]) -> Vec<(String, Vec<u8>)> {
    let variables = object.btf().map(|btf| btf.variables()).unwrap_or_default();
    let bytes = |name: &String| {
        let variable = variables.iter().find(|v| v.name == *name)?;
        Some((name.clone(), read(object, variable)?))
    };
    names.iter().filter_map(bytes).collect()
}

/// What the kernel's log calls the scheduler of the whole machine (Linux 7.3, `scx_log_sched_disable()`).
pub(super) const ROOT: &str = "BPF scheduler";

/// What it calls one that is attached to a group.
pub(super) const SUB: &str = "BPF sub-scheduler";

/// How it left, from its own record if it keeps one that is filled in, else from what the log says of the first that it calls
/// `kind`.
pub(super) fn record(object: &Object, log: &[String], kind: &str) -> ExitRecord {
    let from_log = from_log(log, kind);
    match own_record(object) {
        // Of several schedulers with one name the log may mean another.
        Some(own) if own.kind != ExitKind::None && own.kind != from_log.kind => own,
        Some(own) if own.kind != ExitKind::None => ExitRecord {
            message: if own.message.is_empty() { from_log.message } else { own.message },
            reason: if own.reason.is_empty() { from_log.reason } else { own.reason },
            ..own
        },
        _ => from_log,
    }
}

/// Schedulers record their exit in a structure with the members `kind`, `reason` and `msg`; the
/// debug dump is in a variable with that name and `_dump`.
fn own_record(object: &Object) -> Option<ExitRecord> {
    let variables = object.btf()?.variables();
    let has = |v: &Variable, name: &str| v.members.iter().any(|m| m.0 == name);
    let variable = variables.iter().find(|v| ["kind", "reason", "msg"].iter().all(|name| has(v, name)))?;
    let bytes = read(object, variable)?;
    let member = |name: &str| {
        let (_, offset, size) = variable.members.iter().find(|m| m.0 == name)?;
        bytes.get(*offset..offset.checked_add(*size)?)
    };
    let kind = ExitKind::from_code(number(member("kind")?)).unwrap_or(ExitKind::Error);
    let dump_map = object.maps().find(|m| m.name() == format!(".data.{}_dump", variable.name));
    let dump = dump_map.and_then(|map| (0..=15).rev().find_map(|bits| map.read(0, 1 << bits)));
    Some(ExitRecord {
        kind,
        reason: string(member("reason")?),
        message: string(member("msg")?),
        dump: dump.map(|bytes| string(&bytes)).unwrap_or_default(),
        after: None,
    })
}

/// The kernel's words for the kinds (Linux 7.3, `scx_exit_reason`).
const REASONS: [(&str, ExitKind); 10] = [
    ("unregistered from user space", ExitKind::Unreg),
    ("unregistered from BPF", ExitKind::UnregBpf),
    ("unregistered from the main kernel", ExitKind::UnregKern),
    ("disabled by sysrq-S", ExitKind::Sysrq),
    ("parent exiting", ExitKind::Parent),
    ("killed by parent scheduler", ExitKind::ParentKill),
    ("runtime error", ExitKind::Error),
    ("scx_bpf_error", ExitKind::ErrorBpf),
    ("runnable task stall", ExitKind::ErrorStall),
    ("reenqueue limit", ExitKind::ErrorReenq),
];

/// Two lines of the kernel's log: `sched_ext: BPF scheduler "o1" disabled (runtime error)` and,
/// for errors, `sched_ext: o1: what was wrong`.
pub(super) fn from_log(log: &[String], kind: &str) -> ExitRecord {
    let mut record = ExitRecord::default();
    for line in log {
        let Some(text) = line.strip_prefix("sched_ext: ") else { continue };
        if let Some((head, reason)) = text.split_once("disabled (") {
            if !head.strip_prefix(kind).is_some_and(|rest| rest.starts_with(" \"")) {
                continue;
            }
            let reason = reason.trim_end_matches(')');
            let known = REASONS.iter().find(|(words, _)| *words == reason);
            record.kind = known.map_or(ExitKind::Error, |(_, kind)| *kind);
            record.reason = reason.to_string();
            record.message = head.split('"').nth(1).unwrap_or_default().to_string();
        } else if record.kind.is_ejection()
            && let Some(message) = text.strip_prefix(&format!("{}: ", record.message))
        {
            record.message = message.to_string();
            return record;
        }
    }
    record.message.clear();
    record
}

fn read(object: &Object, variable: &Variable) -> Option<Vec<u8>> {
    section_map(object, variable.section)?.read(variable.offset, variable.size)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn the_log_names_kind_and_message() {
        let log = lines(
            "sched_ext: BPF scheduler \"o1\" enabled\n\
             sched_ext: BPF scheduler \"o1\" disabled (runnable task stall)\n\
             sched_ext: o1: hog[77] failed to run for 30.1s\n",
        );
        let record = from_log(&log, ROOT);
        assert_eq!(record.kind, ExitKind::ErrorStall);
        assert_eq!(record.reason, "runnable task stall");
        assert_eq!(record.message, "hog[77] failed to run for 30.1s");
    }

    #[test]
    fn a_sub_scheduler_is_told_from_the_root() {
        let log = lines(
            "sched_ext: BPF sub-scheduler \"qmap\" disabled (parent exiting)\n\
             sched_ext: BPF scheduler \"qmap\" disabled (runtime error)\n\
             sched_ext: qmap: wrong\n",
        );
        assert_eq!(from_log(&log, SUB).kind, ExitKind::Parent);
        let root = from_log(&log, ROOT);
        assert_eq!((root.kind, root.message.as_str()), (ExitKind::Error, "wrong"));
        assert_eq!(from_log(&log[..1], ROOT), ExitRecord::default());
    }

    #[test]
    fn a_plain_unload_has_no_message() {
        let log = lines("sched_ext: BPF scheduler \"o1\" disabled (unregistered from user space)\n");
        let record = from_log(&log, ROOT);
        assert_eq!((record.kind, record.message.as_str()), (ExitKind::Unreg, ""));
        assert_eq!(from_log(&[], ROOT), ExitRecord::default());
    }
}
