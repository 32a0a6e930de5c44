//! The part of cgroup v2 that a run has for itself: found, made, and removed at the end.
//!
//! In a VM of ours that is the root, so that groups have the same paths and neighbours as in the simulator. Elsewhere it is a
//! directory named after our process id: below the root for root, else below the caller's own group. A run that was killed leaves
//! its directory to the next one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schedlab_workload::Scenario;

use super::ExecError;
use super::groups::{GroupFiles, controllers, cpus_here, own_path};
use super::shared::Shared;
use crate::vm::GUEST_FILE;

/// How directories of ours begin; the process id follows.
const PREFIX: &str = "schedlab.";

/// How long killed tasks are waited for. Chosen: as long as the run itself waits for them.
const PATIENCE: Duration = super::END_LIMIT;

/// What to do where the kernel lets us make no groups.
const CURE: &str =
    "run it as root, or in a subtree of your own: systemd-run --user --scope -p Delegate=yes schedlab ...";

/// The directories of a run; they are removed when this is dropped.
pub(super) struct Hierarchy {
    pub(super) files: GroupFiles,
    /// The directory of our own, and the one that it is in.
    own: Option<PathBuf>,
    /// Where controllers were enabled, and which.
    enabled: Option<(PathBuf, String)>,
}

impl Hierarchy {
    /// Makes the groups of a scenario that are there at the start.
    pub(super) fn make(scenario: &Scenario, shared: &Shared) -> Result<Hierarchy, ExecError> {
        if scenario.groups.is_empty() {
            return Ok(Hierarchy { files: GroupFiles::default(), own: None, enabled: None });
        }
        scenario.check_group_cpus(&cpus_here()).map_err(ExecError::Groups)?;
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = mount_point(&mounts)
            .ok_or_else(|| refused("this machine has no cgroup v2 (it is not mounted); mount it", None))?;
        let needed: Vec<&str> = controllers(scenario).collect();
        let parent = parent_in(Path::new(root));
        let known = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
        if let Some(missing) = needed.iter().find(|name| !has(&known, name)) {
            return Err(refused(&missing_text(missing, &mounts, &parent), None));
        }
        let own = (!Path::new(GUEST_FILE).is_file())
            .then(|| parent.join(format!("{PREFIX}{}", std::process::id())));
        let base = own.as_deref().unwrap_or(&parent).to_string_lossy().into_owned();
        let mut made = Hierarchy { files: GroupFiles::new(scenario, base), own, enabled: None };
        remove_leftovers(&parent);
        made.fill(scenario, shared, &parent, &needed)?;
        Ok(made)
    }

    fn fill(
        &mut self,
        scenario: &Scenario,
        shared: &Shared,
        parent: &Path,
        needed: &[&str],
    ) -> Result<(), ExecError> {
        let switch = parent.join("cgroup.subtree_control");
        let on = fs::read_to_string(&switch).unwrap_or_default();
        let off: Vec<&str> = needed.iter().copied().filter(|name| !has(&on, name)).collect();
        if !off.is_empty() {
            attempt("writing", &switch, fs::write(&switch, signed('+', &off)))?;
            self.enabled = Some((switch, signed('-', &off)));
        }
        if let Some(own) = &self.own {
            attempt("making", own, fs::create_dir(own))?;
            if parent.join("cgroup.type").exists() {
                // The caller stays beside it, which only threaded groups allow. The root has no such file, and no such rule.
                let kind = own.join("cgroup.type");
                attempt("writing", &kind, fs::write(&kind, "threaded"))?;
            }
            let switch = own.join("cgroup.subtree_control");
            attempt("writing", &switch, fs::write(&switch, signed('+', needed)))?;
        }
        for (number, (group, place)) in scenario.groups.iter().zip(self.files.places()).enumerate() {
            if !group.later {
                attempt("making", Path::new(&place), self.files.make(shared, number))?;
            }
        }
        Ok(())
    }

    /// Puts the calling process, and so its children, into the directory of our own.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.own.as_ref().map_or(Ok(()), |own| fs::write(own.join("cgroup.procs"), "0"))
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        // Failures have no reader any more.
        let until = Instant::now() + PATIENCE;
        for place in self.files.places().rev() {
            let _ = remove(Path::new(&place), until);
        }
        if let Some(own) = &self.own {
            let _ = remove(own, until);
        }
        if let Some((switch, off)) = &self.enabled {
            let _ = fs::write(switch, off);
        }
    }
}

fn attempt(what: &str, path: &Path, done: io::Result<()>) -> Result<(), ExecError> {
    done.map_err(|error| refused(&format!("{what} {}", path.display()), Some(error)))
}

/// Controllers as they are written to `cgroup.subtree_control`.
fn signed(sign: char, names: &[&str]) -> String {
    names.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>().join(" ")
}

fn refused(what: &str, source: Option<io::Error>) -> ExecError {
    let why = source.map(|source| format!(" ({source})")).unwrap_or_default();
    ExecError::Groups(format!("{what}{why}; {CURE}"))
}

/// Where cgroup v2 is mounted.
fn mount_point(mounts: &str) -> Option<&str> {
    mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)
}

fn missing_text(controller: &str, mounts: &str, parent: &Path) -> String {
    let old = mounts.lines().any(|line| {
        let mut parts = line.split(' ').skip(2);
        parts.next() == Some("cgroup")
            && parts.next().is_some_and(|options| options.split(',').any(|option| option == controller))
    });
    if old {
        format!(
            "the {controller} controller of this machine is in cgroup v1, and groups are made in v2 alone (--vm has it)"
        )
    } else {
        format!("{} has no {controller} controller", parent.display())
    }
}

/// The directory that ours is made in: the root for root, else the caller's group.
fn parent_in(root: &Path) -> PathBuf {
    // SAFETY: plain system call.
    let is_root = unsafe { libc::geteuid() } == 0;
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own_path(&own).filter(|_| !is_root).unwrap_or("/");
    root.join(path.trim_start_matches('/'))
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

/// Removes the directories of runs whose command is gone.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::write(entry.path().join("cgroup.kill"), "1");
            remove_tree(&entry.path(), Instant::now() + PATIENCE);
        }
    }
}

/// Removes a directory with those in it.
fn remove_tree(place: &Path, until: Instant) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path(), until);
        }
    }
    let _ = remove(place, until);
}

/// Removes a directory as soon as its last task is gone.
fn remove(place: &Path, until: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir(place) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";

    #[test]
    fn the_second_version_is_found_and_the_first_is_named() {
        assert_eq!(mount_point(MIXED), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount_point("tmpfs /tmp tmpfs rw 0 0\n"), None);
        let parent = Path::new("/sys/fs/cgroup/unified");
        assert!(missing_text("cpu", MIXED, parent).contains("in cgroup v1"));
        assert!(missing_text("cpuset", MIXED, parent).contains("unified has no cpuset controller"));
        let text = refused("making /x", Some(io::Error::from_raw_os_error(libc::EACCES))).to_string();
        assert!(text.contains("making /x (Permission denied") && text.contains("Delegate=yes"), "{text}");
    }

    #[test]
    fn directories_of_dead_commands_are_removed_with_all_in_them() {
        let folder = std::env::temp_dir().join(format!("schedlab-leftovers-{}", std::process::id()));
        let (dead, own) =
            (folder.join("schedlab.4294967295"), folder.join(format!("{PREFIX}{}", std::process::id())));
        for place in [dead.join("a/b"), own.clone(), folder.join("other.4294967295")] {
            fs::create_dir_all(place).unwrap();
        }
        remove_leftovers(&folder);
        let left = [&dead, &own, &folder.join("other.4294967295")].map(|place| place.exists());
        fs::remove_dir_all(&folder).unwrap();
        // Files of a common file system stay where the kernel's would go: there are none besides the one just written.
        assert_eq!((left[1], left[2], dead.join("a").exists()), (true, true, false));
    }
}
