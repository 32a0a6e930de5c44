//! Sub-schedulers of the scheduler in charge: each is attached to a group of the workload.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use schedlab_base::DurationNs;
use schedlab_bpf::object::{Object as File, SUB_GROUP};
use schedlab_trace::{ExitKind, ExitRecord};

use super::attachment::Attachment;
use super::{LoadError, SchedulerObject, exit, sched_ext};

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
    /// Those to attach, in order of time.
    waiting: VecDeque<Waiting>,
    /// Attached ones, in the order in which they were.
    attached: Vec<Attached>,
    ends: Vec<SubEnd>,
}

struct Waiting {
    number: usize,
    sub: SubObject,
    /// The directory of its group.
    place: PathBuf,
    /// Loaded before the run, which loading would disturb, if its group was there.
    loaded: Option<Loaded>,
}

struct Loaded {
    attachment: Attachment,
    /// The number of its group.
    group: u64,
}

struct Attached {
    number: usize,
    loaded: Loaded,
    /// When it was seen to be gone, since the run began.
    left: Option<DurationNs>,
}

impl Subs {
    /// All of them, with the directories of their groups. Those whose groups are there are loaded.
    ///
    /// # Errors
    /// An object that does not load.
    pub(super) fn new(wanted: Vec<(SubObject, PathBuf)>) -> Result<Subs, LoadError> {
        let ends = vec![SubEnd::default(); wanted.len()];
        let waiting = wanted.into_iter().zip(0..).map(|((sub, place), number)| {
            let loaded = number_of(&place).ok().map(|group| Loaded::new(&sub.object, group)).transpose()?;
            Ok(Waiting { number, sub, place, loaded })
        });
        let mut waiting = waiting.collect::<Result<Vec<Waiting>, LoadError>>()?;
        waiting.sort_by_key(|one| one.sub.at);
        Ok(Subs { waiting: waiting.into(), attached: Vec::new(), ends })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// When the next one is attached, since the run began.
    pub(super) fn next(&self) -> Option<DurationNs> {
        self.waiting.front().map(|one| one.sub.at)
    }

    /// Attaches those whose time has come at `elapsed` since the run began. The kernel's refusal is kept for the end of the run.
    ///
    /// # Errors
    /// An object that does not load.
    pub(super) fn attach_due(&mut self, elapsed: DurationNs) -> Result<(), LoadError> {
        while self.next().is_some_and(|at| at <= elapsed) {
            let Waiting { number, sub, place, loaded } =
                self.waiting.pop_front().expect("there is a next one");
            let group = match number_of(&place) {
                Ok(group) => group,
                Err(error) => {
                    self.ends[number].refused = Some(error.raw_os_error().unwrap_or(libc::ENOENT));
                    continue;
                }
            };
            // A group that was removed and made again has another number.
            let loaded = loaded.filter(|loaded| loaded.group == group);
            let mut loaded = loaded.map_or_else(|| Loaded::new(&sub.object, group), Ok)?;
            match loaded.attachment.attach() {
                Ok(()) => self.attached.push(Attached { number, loaded, left: None }),
                Err(failed) => match failed.source.raw_os_error() {
                    Some(errno) => self.ends[number].refused = Some(errno),
                    None => return Err(loaded.attachment.error(failed)),
                },
            }
        }
        Ok(())
    }

    /// Looks which are gone, as of `elapsed` since the run began.
    pub(super) fn look(&mut self, elapsed: DurationNs) {
        for sub in &mut self.attached {
            if sub.left.is_none() && !sched_ext::has_sub(sub.loaded.group) {
                sub.left = Some(elapsed);
            }
        }
    }

    /// Descriptors that keep them attached.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.attached.iter().flat_map(|sub| sub.loaded.attachment.descriptors())
    }

    /// Takes them out, the last first, and says what became of each, in the order in which they were given. `elapsed` is the length
    /// of the run.
    pub(super) fn unload(mut self, elapsed: DurationNs) -> Vec<SubEnd> {
        self.look(elapsed);
        for mut sub in std::mem::take(&mut self.attached).into_iter().rev() {
            let Loaded { attachment, group } = &mut sub.loaded;
            attachment.detach();
            let waited = sched_ext::wait_until_no_sub(*group);
            let log = attachment.kernel_words();
            let mut exit = exit::record(&attachment.object, &log, exit::SUB);
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

impl Loaded {
    fn new(object: &SchedulerObject, group: u64) -> Result<Loaded, LoadError> {
        Ok(Loaded { attachment: Attachment::new(&for_group(object.clone(), group)?)?, group })
    }
}

/// The kernel's number of the group with this directory.
fn number_of(place: &Path) -> io::Result<u64> {
    fs::metadata(place).map(|directory| directory.ino())
}

/// The object with the number of its group, as its own loader would set it: in its table, and in its variable if it has one.
fn for_group(mut scheduler: SchedulerObject, group: u64) -> Result<SchedulerObject, LoadError> {
    let mut file = File::parse(&scheduler.name, &scheduler.bytes)?;
    file.choose(scheduler.scheduler.as_deref()).map_err(|error| error.in_file(&scheduler.name))?;
    let table = file.struct_ops().first().map(|table| table.name.clone());
    let variable = file.variable(SUB_GROUP).map(|_| SUB_GROUP.to_string());
    let names = table.into_iter().map(|table| format!("{table}.{SUB_GROUP}")).chain(variable);
    scheduler.settings.extend(names.map(|name| (name, group.to_string())));
    Ok(scheduler)
}
