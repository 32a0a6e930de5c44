//! How a real kernel gets a scheduler.

use crate::scheduler::{Scheduler, own_loader};
use schedlab_live::load::SchedulerObject;

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
}
