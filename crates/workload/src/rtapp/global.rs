//! The section `global`.

use super::policy::{Named, named};
use super::{DurationNs, Node, Outcome, Policy, Value, fault, integer, object, text};

/// Keys of `global` that decide.
pub(super) const KEYS: &[&str] = &["duration", "default_policy", "pi_enabled", "io_device"];

/// Keys of `global` that change nothing that is modelled.
pub(super) const IGNORED_GLOBAL: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "logsize",
    "gnuplot",
    "ftrace",
    "frag",
    "mem_buffer_size",
    "cumulative_slack",
];

/// What `global` sets.
pub(super) struct Global {
    /// None when endless.
    pub(super) duration: Option<DurationNs>,
    pub(super) policy: Named,
    pub(super) inherits: bool,
    pub(super) no_device: bool,
}

impl Default for Global {
    fn default() -> Global {
        Global { duration: None, policy: Named::Plain(Policy::Other), inherits: false, no_device: true }
    }
}

pub(super) fn boolean(node: &Node, path: &str) -> Outcome<bool> {
    match node.value {
        Value::Bool(value) => Ok(value),
        _ => fault(node, path, "true or false is expected"),
    }
}

/// Reads the section.
pub(super) fn read_global(node: &Node) -> Outcome<Global> {
    let mut global = Global::default();
    for (key, node) in object(node, "global")? {
        let path = format!("global.{key}");
        match key.as_str() {
            "duration" => {
                const MOST: i64 = (DurationNs::LONGEST.0 / 1_000_000_000) as i64;
                global.duration = match integer(node, &path)? {
                    // rt-app waits for the threads unless it is above 0.
                    ..=0 => None,
                    seconds @ 1..=MOST => Some(DurationNs::from_secs(seconds as u64)),
                    _ => {
                        return fault(
                            node,
                            &path,
                            format!("seconds from 1 to {MOST} (30 days), or -1, are expected"),
                        );
                    }
                }
            }
            "default_policy" => global.policy = named(node, &path)?,
            "pi_enabled" => global.inherits = boolean(node, &path)?,
            "io_device" => global.no_device = text(node, &path)? == "/dev/null",
            _ if IGNORED_GLOBAL.contains(&key.as_str()) => {}
            _ => {
                return fault(
                    node,
                    &path,
                    format!(
                        "unknown or not modelled; there are: {}, and ignored: {}",
                        KEYS.join(", "),
                        IGNORED_GLOBAL.join(", ")
                    ),
                );
            }
        }
    }
    Ok(global)
}
