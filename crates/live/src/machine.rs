//! What this machine says about itself.

use std::fs;

/// The running kernel's release, as `uname -r` prints it.
pub(crate) fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}
