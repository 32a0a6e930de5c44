//! Programs and links.

use super::{Answer, Asked, Bpf, ENOTSUPP, MOST_RUNS, Thing, error};

/// `BPF_PROG_TYPE_SYSCALL`.
const SYSCALL: u32 = 31;
/// `BPF_STRUCT_OPS` of `enum bpf_attach_type`.
const STRUCT_OPS: u32 = 44;
/// Longest context of a program that is run on request, as in the kernel (`U16_MAX`).
const LONGEST_CONTEXT: usize = u16::MAX as usize;

/// A program that was loaded.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name as passed to the kernel: at most 15 bytes.
    pub(crate) name: String,
    pub(crate) kind: u32,
    /// The object's program, once that is known.
    pub(crate) full: Option<String>,
}

/// What attaches a program.
#[derive(Debug)]
pub(crate) enum Link {
    /// The scheduler itself.
    Scheduler,
    /// A trace point or the like: the simulated kernel runs what it models without being asked.
    Other,
}

impl Bpf {
    pub(super) fn load_program(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let program = Program { kind: asked.attr.u32(0), name: asked.attr.name(48), full: None };
        Answer::Make(Thing::Program(program))
    }

    /// `BPF_LINK_CREATE`.
    pub(super) fn link(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let (first, target, kind) = (asked.attr.i32(0), asked.attr.i32(4), asked.attr.u32(8));
        let Some(number) = asked.descriptors.bpf(first) else { return Answer::Value(error(libc::EBADF)) };
        if kind == STRUCT_OPS {
            if self.attached {
                return Answer::Make(Thing::Link(Link::Scheduler));
            }
            return self.attach(number, asked);
        }
        // Libraries ask whether there are such links by giving no target.
        if target < 0 {
            return Answer::Value(error(libc::EBADF));
        }
        Answer::Make(Thing::Link(Link::Other))
    }

    /// True for the link that holds the scheduler.
    pub(crate) fn is_scheduler_link(&self, number: usize) -> bool {
        matches!(self.things.get(number), Some(Thing::Link(Link::Scheduler)))
    }

    /// True for what a path still holds.
    pub(crate) fn is_pinned(&self, number: usize) -> bool {
        self.pins.values().any(|pinned| *pinned == number)
    }

    /// `BPF_LINK_DETACH`.
    pub(super) fn unlink(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        match asked.descriptors.bpf(asked.attr.i32(0)).map(|number| &self.things[number]) {
            Some(Thing::Link(Link::Scheduler)) => {
                self.detached = self.attached;
                Answer::Value(0)
            }
            Some(Thing::Link(Link::Other)) => Answer::Value(0),
            Some(_) => Answer::Value(error(libc::EINVAL)),
            None => Answer::Value(error(libc::EBADF)),
        }
    }

    /// `BPF_PROG_RUN` of a program that runs on request.
    pub(super) fn run_program(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let Some(number) = asked.descriptors.bpf(asked.attr.i32(0)) else {
            return Answer::Value(error(libc::EBADF));
        };
        let Some(program) = self.program(number) else { return Answer::Value(error(libc::EINVAL)) };
        if program.kind != SYSCALL {
            return Answer::Value(error(ENOTSUPP));
        }
        let Some(kernel) = asked.kernel.as_deref_mut() else { return Answer::NeedsPrograms };
        let (size, place) = (asked.attr.u32(40) as usize, asked.attr.u64(48));
        if size > LONGEST_CONTEXT {
            return Answer::Value(error(libc::EINVAL));
        }
        let Some(mut context) = asked.tracee.read(place, size) else {
            return Answer::Value(error(libc::EFAULT));
        };
        let Some(name) = program.full.clone() else { return Answer::Value(error(libc::EINVAL)) };
        let returned = match kernel.run_program(&name, &mut context) {
            Ok(returned) => returned,
            Err(errno) => return Answer::Value(error(errno.0)),
        };
        if !self.attached && self.runs.len() < MOST_RUNS {
            self.runs.push((name, returned));
        }
        // The kernel writes the context back to where it came from.
        let done = asked
            .tracee
            .write(place, &context)
            .and_then(|()| asked.tracee.write(asked.attr.place(4), &returned.to_le_bytes()));
        Answer::Value(if done.is_some() { 0 } else { error(libc::EFAULT) })
    }
}
