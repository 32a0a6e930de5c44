//! Files, by Landlock.

use crate::Sandbox;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use std::path::Path;

/// The newest version of Landlock whose rights are known here; older kernels get those that they have.
const KNOWN: ABI = ABI::V6;

/// Reading a file, or what lies in a folder.
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// Making, replacing and removing plain files.
const REPLACE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile});

/// Reading and running.
const RUN: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute});

/// Writing what is there.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | Truncate});

/// Limits the calling thread to the files of `sandbox`.
///
/// # Errors
/// Why the kernel does not.
pub(crate) fn restrict(sandbox: &Sandbox) -> Result<(), String> {
    let sentence = |error: &dyn std::error::Error| format!("Landlock: {error}");
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(KNOWN)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
        .and_then(Ruleset::create);
    let mut ruleset = ruleset.map_err(|error| sentence(&error))?;
    let granted = [
        (&sandbox.read, READ),
        (&sandbox.replace, REPLACE),
        (&sandbox.write, WRITE),
        (&sandbox.run, RUN),
        (&sandbox.start, RUN),
    ];
    for (paths, access) in granted {
        for path in paths {
            ruleset = allow(ruleset, path, access).map_err(|error| sentence(&error))?;
        }
    }
    match ruleset.restrict_self() {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => {
            Err("this kernel has no Landlock, or it is off (lsm= of the kernel's command line)".to_string())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(sentence(&error)),
    }
}

/// Adds a path. One that cannot be opened is left out: the code that uses it gets the system's own error. So is an open
/// pipe or socket (`/dev/stdout`, `/dev/fd/63`), which has no path: the kernel takes no rule for it and limits it by
/// none.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let (Ok(place), Ok(_)) = (PathFd::new(path), path.canonicalize()) else { return Ok(ruleset) };
    // Rights of folders mean nothing for a file, and the kernel refuses them.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    ruleset.add_rule(PathBeneath::new(place, access))
}
