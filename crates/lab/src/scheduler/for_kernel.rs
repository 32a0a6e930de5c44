//! How a real kernel gets a scheduler.

use crate::scheduler::{Scheduler, own_loader};
use schedlab_live::load::{SchedulerObject, SubObject};

impl Scheduler {
    /// How a kernel gets its object, `bytes`.
    pub fn for_kernel(&self, bytes: &[u8]) -> SchedulerObject {
        SchedulerObject {
            name: self.name.clone(),
            bytes: bytes.to_vec(),
            scheduler: self.choice.clone(),
            settings: self.values.clone(),
            changes: self.changes.clone(),
            programs: self.programs.iter().map(|one| (one.name.clone(), one.context.clone())).collect(),
            timed_programs: (self.timed_programs.iter())
                .map(|timed| (timed.at, timed.program.name.clone(), timed.program.context.clone()))
                .collect(),
            presence: self.presence,
            loader: self.loader.as_ref().map(own_loader::for_kernel),
        }
    }

    /// How it gets the sub-schedulers of this one.
    pub(crate) fn subs_for_kernel(&self) -> Vec<SubObject> {
        let with_bytes = self.subs.iter().filter_map(|sub| Some((sub, sub.scheduler.object.as_ref()?)));
        let subs = with_bytes.map(|(sub, bytes)| SubObject {
            group: sub.group.clone(),
            at: sub.at,
            object: sub.scheduler.for_kernel(bytes),
        });
        subs.collect()
    }
}
