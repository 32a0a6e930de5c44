//! The two versions of rt-app that differ in what a file means.

use std::fmt;
use std::str::FromStr;

/// A version of rt-app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.0, the only release, which distributions have.
    V1_0,
    /// The development branch at commit 55cb0c0 of May 2026.
    #[default]
    Head,
}

impl Version {
    /// What [`FromStr`] takes.
    pub const NAMES: [&str; 2] = ["1.0", "head"];
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        match text {
            "1.0" => Ok(Version::V1_0),
            "head" => Ok(Version::Head),
            _ => Err(format!("'{text}' is no version of rt-app; there are: {}", Self::NAMES.join(", "))),
        }
    }
}

/// Events that rt-app 1.0 does not know: it skips the key, or for `memrun` does nothing.
pub(super) const EVENTS_OF_HEAD: &[&str] = &["memrun", "fork", "sem_wait", "sem_post"];

/// Keys of tasks and phases that rt-app 1.0 does not read.
pub(super) const KEYS_OF_HEAD: &[&str] = &["taskgroup", "util_min", "util_max", "nodes_membind"];

/// Keys of phases that rt-app 1.0 reads of tasks alone.
pub(super) const PHASE_KEYS_OF_HEAD: &[&str] =
    &["policy", "priority", "dl-runtime", "dl-deadline", "dl-period"];

/// Policies that rt-app 1.0 refuses.
pub(super) const POLICIES_OF_HEAD: &[&str] = &["SCHED_BATCH", "SCHED_IDLE", "SCHED_EXT"];
