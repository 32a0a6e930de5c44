//! Groups as directories of cgroup v2: how tasks make, change, enter and leave them.
//!
//! All of them are threaded, so that threads of one process can be in different groups, and tasks beside groups. They have one
//! thread domain, the directory that they are made in: there the tasks are that the workload has in the root.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use schedlab_base::{CpuMask, DurationNs, MAX_CPUS};
use schedlab_workload::{GroupChange, GroupChangeId, GroupId, GroupSpec, Quota, Scenario};

use super::doing::{Doing, Failure};
use super::group_slot::Figures;
use super::shared::Shared;
use super::words::{Words, push_text};

/// Not made yet; the value of fresh memory.
const ABSENT: u32 = 0;
/// Tasks can come into it.
const ONLINE: u32 = 1;
/// No task can come into it any more; whoever leaves it last removes it.
const EMPTYING: u32 = 2;
/// Removed.
const GONE: u32 = 3;

/// The files of a group's directory that are written, with what is written to them.
type Contents = Vec<(String, String)>;

/// What is done to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Make,
    Remove,
    Write { file: String, text: String },
}

/// The directories of a run, and the changes that its programs make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupFiles {
    /// The directory that the groups are made in, without a slash at the end.
    base: String,
    /// Paths below it with their first contents, parents first.
    groups: Vec<(String, Contents)>,
    changes: Vec<Change>,
}

impl GroupFiles {
    /// What a scenario needs below `base`.
    pub(super) fn new(scenario: &Scenario, base: String) -> GroupFiles {
        let control = controllers(scenario).map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ");
        let parents: BTreeSet<GroupId> = scenario.groups.iter().filter_map(|group| group.parent).collect();
        let groups = scenario.groups.iter().zip(0..).map(|(spec, number)| {
            let is_parent = parents.contains(&GroupId(number));
            (spec.path.clone(), contents(spec, is_parent.then_some(control.as_str())))
        });
        let groups = groups.collect();
        GroupFiles { base, groups, changes: scenario.group_changes.iter().map(change).collect() }
    }

    fn place(&self, group: usize) -> String {
        format!("{}/{}", self.base, self.groups[group].0)
    }

    /// The paths of all groups, parents first.
    pub(super) fn places(&self) -> impl DoubleEndedIterator<Item = String> + '_ {
        (0..self.groups.len()).map(|group| self.place(group))
    }

    /// Makes a group that is not there, or no longer; nothing if its parent is not there.
    pub(super) fn make(&self, shared: &Shared, group: usize) -> io::Result<()> {
        let slot = shared.group(group);
        if matches!(slot.life.load(Acquire), ONLINE | EMPTYING) {
            return Ok(());
        }
        let place = self.place(group);
        match fs::create_dir(&place) {
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for (file, text) in &self.groups[group].1 {
            fs::write(format!("{place}/{file}"), text)?;
        }
        slot.before.iter().for_each(|figure| figure.store(0, Relaxed));
        slot.life.store(ONLINE, Release);
        Ok(())
    }

    /// Does to a group what a program asks for. Nothing happens to a group that is not there; what the kernel refuses
    /// for the state of a group leaves it as it is.
    pub(super) fn change(
        &self,
        shared: &Shared,
        group: GroupId,
        change: GroupChangeId,
    ) -> Result<(), Failure> {
        let done = self.apply(shared, group.index(), &self.changes[change.index()]);
        done.map_err(|error| Failure(Doing::Groups, error))
    }

    fn apply(&self, shared: &Shared, group: usize, change: &Change) -> io::Result<()> {
        let life = &shared.group(group).life;
        match change {
            Change::Make => self.make(shared, group),
            Change::Remove => {
                if life.compare_exchange(ONLINE, EMPTYING, AcqRel, Relaxed).is_ok() {
                    self.remove_if_empty(shared, group);
                }
                Ok(())
            }
            Change::Write { .. } if life.load(Acquire) != ONLINE => Ok(()),
            Change::Write { file, text } => match fs::write(format!("{}/{file}", self.place(group)), text) {
                Err(error) if is_absent(&error) || error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                done => done,
            },
        }
    }

    /// Puts a thread, 0 for the caller, into a group; nothing if one of them is not there.
    pub(super) fn enter(&self, shared: &Shared, thread: u32, group: Option<GroupId>) -> io::Result<()> {
        let to = group.map(|group| group.index());
        if to.is_some_and(|to| shared.group(to).life.load(Acquire) != ONLINE) {
            return Ok(());
        }
        let from = self.removes().then(|| self.current(thread)).flatten();
        let place = to.map_or_else(|| self.base.clone(), |to| self.place(to));
        match fs::write(format!("{place}/cgroup.threads"), thread.to_string()) {
            Err(error) if is_absent(&error) || error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            done => {
                done?;
                from.into_iter().for_each(|from| self.remove_if_empty(shared, from));
                Ok(())
            }
        }
    }

    /// The caller is about to end: a group that waits for it to leave can be removed.
    pub(super) fn leave(&self, shared: &Shared) {
        let own = self.removes().then(|| self.current(0)).flatten();
        if own.is_some_and(|own| shared.group(own).life.load(Acquire) == EMPTYING) {
            // A failure leaves the group to the end of the run.
            let _ = self.enter(shared, 0, None);
        }
    }

    fn removes(&self) -> bool {
        self.changes.contains(&Change::Remove)
    }

    /// The group that a thread is in, 0 for the caller.
    fn current(&self, thread: u32) -> Option<usize> {
        let file =
            if thread == 0 { "/proc/thread-self/cgroup".into() } else { format!("/proc/{thread}/cgroup") };
        let text = fs::read_to_string(file).ok()?;
        let path = own_path(&text)?;
        // The base ends with the path from the hierarchy's root to it.
        self.places().position(|place| place.ends_with(path) && place.len() - path.len() <= self.base.len())
    }

    fn remove_if_empty(&self, shared: &Shared, group: usize) {
        let slot = shared.group(group);
        if slot.life.load(Acquire) != EMPTYING {
            return;
        }
        let place = self.place(group);
        let figures = Figures::read(&place);
        slot.keep_settings(&place);
        // EBUSY where a task is left, ENOENT where another has removed it.
        if fs::remove_dir(place).is_ok() {
            slot.add(figures);
            slot.life.store(GONE, Release);
        }
    }

    /// What the groups have used so far is no part of the run.
    pub(super) fn begin(&self, shared: &Shared) {
        for group in 0..self.groups.len() {
            let slot = shared.group(group);
            if slot.life.load(Acquire) != ABSENT {
                let figures = Figures::read(&self.place(group));
                figures.store(&slot.before);
            }
        }
    }

    /// Adds up what the groups that are still there have used.
    pub(super) fn end(&self, shared: &Shared) {
        for group in 0..self.groups.len() {
            let slot = shared.group(group);
            if matches!(slot.life.load(Acquire), ONLINE | EMPTYING) {
                slot.add(Figures::read(&self.place(group)));
                slot.keep_settings(&self.place(group));
            }
        }
    }

    /// The directories as numbers, for [`GroupFiles::decode`].
    pub(super) fn encode(&self, words: &mut Vec<u64>) {
        push_text(words, &self.base);
        words.push(self.groups.len() as u64);
        for (path, contents) in &self.groups {
            push_text(words, path);
            words.push(contents.len() as u64);
            for text in contents.iter().flat_map(|(file, text)| [file, text]) {
                push_text(words, text);
            }
        }
        words.push(self.changes.len() as u64);
        for change in &self.changes {
            let (file, text) = match change {
                Change::Make => ("", "1"),
                Change::Remove => ("", "0"),
                Change::Write { file, text } => (file.as_str(), text.as_str()),
            };
            push_text(words, file);
            push_text(words, text);
        }
    }

    /// Reads what [`GroupFiles::encode`] wrote.
    pub(super) fn decode(words: &mut Words) -> Option<GroupFiles> {
        let pair = |words: &mut Words| Some((words.text()?, words.text()?));
        let base = words.text()?;
        let groups = words.list(|words| Some((words.text()?, words.list(pair)?)))?;
        let changes = words.list(|words| {
            let (file, text) = pair(words)?;
            Some(match (file.as_str(), text.as_str()) {
                ("", "1") => Change::Make,
                ("", _) => Change::Remove,
                _ => Change::Write { file, text },
            })
        });
        Some(GroupFiles { base, groups, changes: changes? })
    }
}

/// The controllers that a scenario needs.
pub(super) fn controllers(scenario: &Scenario) -> impl Iterator<Item = &'static str> {
    let sets = scenario.groups.iter().any(|group| group.cpus.is_some());
    let changes = scenario.group_changes.iter().any(|change| matches!(change, GroupChange::Cpus(_)));
    ["cpu"].into_iter().chain((sets || changes).then_some("cpuset"))
}

/// The path of cgroup v2 in a text of `/proc/PID/cgroup`.
pub(super) fn own_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The group has been removed, or was not made.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

fn contents(spec: &GroupSpec, control: Option<&str>) -> Contents {
    let mut contents = vec![("cgroup.type".to_string(), "threaded".to_string())];
    let mut add = |file: &str, text: String| contents.push((file.to_string(), text));
    if let Some(control) = control {
        add("cgroup.subtree_control", control.to_string());
    }
    let settings = &spec.settings;
    match settings.nice {
        Some(nice) => add("cpu.weight.nice", nice.get().to_string()),
        None => add("cpu.weight", settings.weight.to_string()),
    }
    if let Some(quota) = settings.quota {
        add("cpu.max", quota_text(Some(quota)));
    }
    if settings.burst > DurationNs::ZERO {
        add("cpu.max.burst", microseconds(settings.burst));
    }
    if settings.idle {
        add("cpu.idle", "1".to_string());
    }
    if let Some(cpus) = &spec.cpus {
        add("cpuset.cpus", cpu_text(cpus));
    }
    contents
}

fn change(change: &GroupChange) -> Change {
    let write = |file: &str, text: String| Change::Write { file: file.to_string(), text };
    match change {
        GroupChange::Make => Change::Make,
        GroupChange::Remove => Change::Remove,
        GroupChange::Weight(weight) => write("cpu.weight", weight.to_string()),
        GroupChange::Nice(nice) => write("cpu.weight.nice", nice.get().to_string()),
        GroupChange::Quota(quota) => write("cpu.max", quota_text(*quota)),
        GroupChange::Burst(burst) => write("cpu.max.burst", microseconds(*burst)),
        GroupChange::Idle(idle) => write("cpu.idle", u8::from(*idle).to_string()),
        GroupChange::Cpus(cpus) => write("cpuset.cpus", cpu_text(cpus)),
    }
}

fn quota_text(quota: Option<Quota>) -> String {
    quota.map_or_else(
        || "max".to_string(),
        |quota| format!("{} {}", microseconds(quota.runtime), microseconds(quota.period)),
    )
}

fn microseconds(time: DurationNs) -> String {
    (time.0 / 1_000).to_string()
}

/// The CPUs of this machine.
pub(super) fn cpus_here() -> CpuMask {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1);
    CpuMask::first(usize::try_from(count).unwrap_or(1).min(MAX_CPUS))
}

/// The CPUs of a set that this machine has. A scenario whose set names none of them is refused.
fn cpu_text(cpus: &CpuMask) -> String {
    let known: Vec<String> = cpus.and(&cpus_here()).iter().map(|cpu| cpu.0.to_string()).collect();
    known.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"name = "tree"
end = "1s"
changes = [ "10ms cgroup late make", "30ms cgroup late remove", "40ms cgroup a/b max max" ]
[[groups]]
name = "a/b"
cpu_weight = 300
cpu_max = "50ms/100ms"
cpu_max_burst = "10ms"
cpus = [0]
[[groups]]
name = "late"
cpu_weight_nice = -5
cpu_idle = true
later = true
[programs]
hog = [ "run 1ms" ]
[[tasks]]
name = "hog"
program = "hog"
group = "a/b"
"#;

    fn files() -> GroupFiles {
        GroupFiles::new(&schedlab_workload::file::parse(TEXT, "t.toml").unwrap(), "/base".to_string())
    }

    #[test]
    fn directories_get_what_the_file_says_parents_first() {
        let files = files();
        assert_eq!(files.places().collect::<Vec<_>>(), ["/base/late", "/base/a", "/base/a/b"]);
        let text = |group: usize| {
            let lines = files.groups[group].1.iter().map(|(file, text)| format!("{file}={text}"));
            lines.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(0), "cgroup.type=threaded cpu.weight.nice=-5 cpu.idle=1");
        assert_eq!(text(1), "cgroup.type=threaded cgroup.subtree_control=+cpu +cpuset cpu.weight=100");
        assert_eq!(
            text(2),
            "cgroup.type=threaded cpu.weight=300 cpu.max=50000 100000 cpu.max.burst=10000 cpuset.cpus=0"
        );
        assert!(files.removes());
    }

    #[test]
    fn directories_survive_coding() {
        let mut numbers = Vec::new();
        files().encode(&mut numbers);
        let mut words = Words::new(numbers.clone());
        assert_eq!(GroupFiles::decode(&mut words), Some(files()));
        assert_eq!(words.next(), None);
        assert_eq!(GroupFiles::decode(&mut Words::new(numbers[..9].to_vec())), None);
    }

    #[test]
    fn paths_are_found() {
        assert_eq!(own_path("1:cpu:/\n0::/a/b\n"), Some("/a/b"));
        assert_eq!(own_path("1:cpu:/\n"), None);
        assert_eq!(cpu_text(&CpuMask::first(1)), "0");
    }
}
