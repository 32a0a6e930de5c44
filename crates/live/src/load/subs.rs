//! Sub-schedulers of the scheduler in charge: each is attached to a group of the workload.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use schedlab_base::DurationNs;
use schedlab_bpf::object::Object as File;
use schedlab_trace::{ExitKind, ExitRecord};

use super::attachment::Attachment;
use super::{LoadError, SchedulerObject, exit, sched_ext};

/// The variable in which an object of sched_ext's own examples keeps the number of its group, and the member of its table for it.
const GROUP: &str = "sub_cgroup_id";

/// A sub-scheduler to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubObject {
    /// The path of its group, from below the root.
    pub group: String,
    /// When it is attached, since the run began.
    pub at: DurationNs,
    /// The scheduler.
    pub object: SchedulerObject,
}

/// What became of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubEnd {
    /// Why it was not attached: the kernel's errno.
    pub refused: Option<i32>,
    /// How it left: kind `unreg` if it stayed to the end.
    pub exit: ExitRecord,
}

/// The sub-schedulers of a run; those that are attached are taken out when this is dropped.
#[derive(Default)]
pub(super) struct Subs {
    /// Those to attach, in order of time, each with its number and the directory of its group.
    waiting: VecDeque<(usize, SubObject, PathBuf)>,
    /// Attached ones, in the order in which they were.
    attached: Vec<Attached>,
    ends: Vec<SubEnd>,
}

struct Attached {
    number: usize,
    attachment: Attachment,
    /// The number of its group.
    group: u64,
    /// When it was seen to be gone, since the run began.
    left: Option<DurationNs>,
}

impl Subs {
    /// All of them, with the directories of their groups.
    pub(super) fn new(wanted: Vec<(SubObject, PathBuf)>) -> Subs {
        let ends = vec![SubEnd::default(); wanted.len()];
        let mut waiting: Vec<_> = wanted.into_iter().zip(0..).map(|((sub, at), n)| (n, sub, at)).collect();
        waiting.sort_by_key(|(_, sub, _)| sub.at);
        Subs { waiting: waiting.into(), attached: Vec::new(), ends }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// When the next one is attached, since the run began.
    pub(super) fn next(&self) -> Option<DurationNs> {
        self.waiting.front().map(|(_, sub, _)| sub.at)
    }

    /// Attaches those whose time has come at `elapsed` since the run began. The kernel's refusal is kept for the end of the run.
    ///
    /// # Errors
    /// An object that does not load.
    pub(super) fn attach_due(&mut self, elapsed: DurationNs) -> Result<(), LoadError> {
        while self.next().is_some_and(|at| at <= elapsed) {
            let (number, sub, place) = self.waiting.pop_front().expect("there is a next one");
            let group = match fs::metadata(&place) {
                Ok(directory) => directory.ino(),
                Err(error) => {
                    self.ends[number].refused = Some(error.raw_os_error().unwrap_or(libc::ENOENT));
                    continue;
                }
            };
            let mut attachment = Attachment::new(&for_group(sub.object, group)?)?;
            match attachment.attach() {
                Ok(()) => self.attached.push(Attached { number, attachment, group, left: None }),
                Err(failed) => match failed.source.raw_os_error() {
                    Some(errno) => self.ends[number].refused = Some(errno),
                    None => return Err(attachment.error(failed)),
                },
            }
        }
        Ok(())
    }

    /// Looks which are gone, as of `elapsed` since the run began.
    pub(super) fn look(&mut self, elapsed: DurationNs) {
        for sub in &mut self.attached {
            if sub.left.is_none() && !sched_ext::has_sub(sub.group) {
                sub.left = Some(elapsed);
            }
        }
    }

    /// Descriptors that keep them attached.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.attached.iter().flat_map(|sub| sub.attachment.descriptors())
    }

    /// Takes them out, the last first, and says what became of each, in the order in which they were given. `elapsed` is the length
    /// of the run.
    pub(super) fn unload(mut self, elapsed: DurationNs) -> Vec<SubEnd> {
        self.look(elapsed);
        for mut sub in std::mem::take(&mut self.attached).into_iter().rev() {
            sub.attachment.detach();
            let waited = sched_ext::wait_until_no_sub(sub.group);
            let log = sub.attachment.kernel_words();
            let mut exit = exit::record(&sub.attachment.object, &log, exit::SUB);
            if exit.kind == ExitKind::None {
                exit.kind = ExitKind::Unreg;
            }
            if waited.is_err() && exit.message.is_empty() {
                exit.message = "the kernel did not finish taking the sub-scheduler out".to_string();
            }
            exit.after = sub.left;
            self.ends[sub.number].exit = exit;
        }
        self.ends
    }
}

/// The object with the number of its group, as its own loader would set it: in its table, and in its variable if it has one.
fn for_group(mut scheduler: SchedulerObject, group: u64) -> Result<SchedulerObject, LoadError> {
    let mut file = File::parse(&scheduler.name, &scheduler.bytes)?;
    file.choose(scheduler.scheduler.as_deref()).map_err(|error| error.in_file(&scheduler.name))?;
    let table = file.struct_ops().first().map(|table| table.name.clone());
    let variable = file.variable(GROUP).map(|_| GROUP.to_string());
    let names = table.into_iter().map(|table| format!("{table}.{GROUP}")).chain(variable);
    scheduler.settings.extend(names.map(|name| (name, group.to_string())));
    Ok(scheduler)
}
