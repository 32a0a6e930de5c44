//! What `/sys/kernel/sched_ext` says.

use std::fs;
use std::io;
use std::path::PathBuf;

const ROOT: &str = "/sys/kernel/sched_ext";

fn read(name: &str) -> Option<String> {
    Some(fs::read_to_string(format!("{ROOT}/{name}")).ok()?.trim().to_string())
}

/// True where the running kernel has sched_ext.
pub fn is_supported() -> bool {
    read("state").is_some()
}

/// `enabled`, `disabled`, or a state on the way; `None` without sched_ext.
pub fn state() -> Option<String> {
    read("state")
}

/// Name of the scheduler in charge, if one is.
pub fn current_scheduler() -> Option<String> {
    read("root/ops").filter(|name| !name.is_empty())
}

/// The kernel's counters of unusual events of the scheduler in charge, by name.
pub fn events() -> Vec<(String, u64)> {
    let text = read("root/events").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_string(), count.trim().parse().ok()?))
        })
        .collect()
}

/// True while a sub-scheduler is attached to the group with this number, below whichever scheduler.
pub(super) fn has_sub(group: u64) -> bool {
    let name = format!("sub-{group}");
    let mut schedulers = vec![PathBuf::from(format!("{ROOT}/root"))];
    while let Some(scheduler) = schedulers.pop() {
        for child in fs::read_dir(scheduler.join("sub")).into_iter().flatten().flatten() {
            if child.file_name() == *name {
                return true;
            }
            schedulers.push(child.path());
        }
    }
    false
}

/// Waits until no sub-scheduler is attached to a group.
pub(super) fn wait_until_no_sub(group: u64) -> io::Result<()> {
    wait_until(DISABLE_LIMIT, || !has_sub(group))
}

/// Number of enables so far; tells two loads of one scheduler apart.
pub(super) fn enable_sequence() -> Option<u64> {
    read("enable_seq")?.parse().ok()
}

/// Time for the kernel to take a scheduler out. Chosen: it takes milliseconds, under emulation
/// and load some tenths of a second.
const DISABLE_LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// Waits until no scheduler is in charge.
pub(super) fn wait_until_disabled() -> io::Result<()> {
    wait_until(DISABLE_LIMIT, || state().is_none_or(|state| state == "disabled"))
}

/// Has the kernel take out whatever scheduler is in charge (SysRq-S), and waits for that.
pub(super) fn reset() {
    // A kernel without SysRq leaves it in.
    let _ = fs::write("/proc/sysrq-trigger", "S");
    let _ = wait_until_disabled();
}

/// Waits until `condition` holds, at most `limit`.
pub(crate) fn wait_until(limit: std::time::Duration, condition: impl Fn() -> bool) -> io::Result<()> {
    let deadline = std::time::Instant::now() + limit;
    while !condition() {
        if std::time::Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}
