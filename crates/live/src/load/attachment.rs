//! A loaded object and what of it is attached.

use std::io;
use std::os::fd::RawFd;

use super::raw::{self, Link, Object};
use super::{LoadError, SchedulerObject, prepare, verifier};
use crate::kernel_log::KernelLog;

/// An object in the kernel. It is detached and closed when this is dropped.
pub(super) struct Attachment {
    // Fields are dropped in order: hooks and the scheduler go before their object.
    hooks: Vec<Link>,
    ops: Vec<Link>,
    pub(super) object: Object,
    name: String,
    log: Option<KernelLog>,
}

/// What the kernel did not attach, and its reason.
pub(super) struct NotAttached {
    pub(super) what: String,
    pub(super) source: io::Error,
}

impl Attachment {
    /// Has the kernel verify and load an object with a scheduler in it.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub(super) fn new(scheduler: &SchedulerObject) -> Result<Attachment, LoadError> {
        let log = KernelLog::from_now().ok();
        let (object, name) = (prepare(scheduler)?, scheduler.name.clone());
        if !object.maps().any(|map| map.is_struct_ops() && map.is_created()) {
            return Err(LoadError::NoScheduler { name });
        }
        Ok(Attachment { hooks: Vec::new(), ops: Vec::new(), object, name, log })
    }

    /// Attaches the scheduler, then its hooks: a hook may rely on what the scheduler set up.
    ///
    /// # Errors
    /// What the kernel refuses; what was attached before is so until the value is dropped.
    pub(super) fn attach(&mut self) -> Result<(), NotAttached> {
        for map in self.object.maps().filter(|map| map.is_struct_ops() && map.is_created()) {
            let link = map.attach_struct_ops();
            self.ops.push(link.map_err(|source| NotAttached { what: map.name(), source })?);
        }
        for program in self.object.programs().filter(raw::Program::is_hook) {
            let link = program.attach();
            self.hooks.push(link.map_err(|source| NotAttached { what: program.name(), source })?);
        }
        Ok(())
    }

    /// The error for what was not attached, with what libbpf and the kernel said of it.
    pub(super) fn error(&self, failed: NotAttached) -> LoadError {
        let mut words = verifier::words(&raw::take_messages());
        words.extend(self.kernel_words());
        LoadError::Attach { name: self.name.clone(), what: failed.what, source: failed.source, words }
    }

    /// Takes out hooks and scheduler.
    pub(super) fn detach(&mut self) {
        self.hooks.clear();
        self.ops.clear();
    }

    /// What the kernel's log has said about sched_ext since the load.
    pub(super) fn kernel_words(&self) -> Vec<String> {
        let messages = self.log.as_ref().map(KernelLog::messages).unwrap_or_default();
        messages.into_iter().map(|m| m.text).filter(|t| t.contains("sched_ext")).collect()
    }

    /// Descriptors that keep it attached.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        self.ops.iter().chain(&self.hooks).map(Link::fd).collect()
    }
}
