//! Decides about each system call of the loader.

mod descriptors;
mod paths;
mod placement;
mod poll;
mod process;
mod time;
mod timers;

pub(crate) use timers::Timer;

use crate::bpf::{Answer, Asked, Attr, Thing, error};
use crate::descriptors::Held;
use crate::loader::Loader;
use crate::loader::Pause;
use crate::threads::{State, Wait};
use crate::tracee::{Call, Tracee};
use crate::watches::Watches;
use schedlab_scx::UserCalls;
use std::os::unix::fs::FileExt;

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Step {
    /// The host carries it out, with what is done afterwards.
    Pass(After),
    /// The host carries another one out.
    Replace(Call, After),
    /// The call gives this.
    Value(i64),
    /// The call waits.
    Wait { what: Wait, until: Option<u64>, expired: i64 },
    /// The other threads have their turns first.
    Yield,
    /// The call waits for the simulated kernel, and is decided again then.
    Pause(Pause),
    /// The process ends.
    End(i32),
}

/// What is done when the host has carried a call out.
#[derive(Debug)]
pub(crate) enum After {
    Nothing,
    /// The call gives this in place of its result.
    Value(i64),
    /// The new descriptor is this.
    Hold(Held),
    /// The new descriptor is this, and its file has this content.
    Fill(Vec<u8>, Held),
    /// The new descriptor is this thing of bpf(2).
    Make(Box<Thing>),
    /// The new descriptor is a timer of this clock.
    Timer(u64),
    /// The new descriptors at this address are the ends of a pair that carries reports of watches.
    Watches(u64),
    /// The new descriptor is what this one is.
    Copy(i32),
    /// Two new descriptors stand at this address.
    Pair(u64),
    /// The call looked for descriptors that are ready: without one it waits, until this time.
    Polled(Option<u64>),
    /// The call looked whether a descriptor is ready: then the call itself is made.
    Looked,
    /// The call waits now.
    Wait {
        what: Wait,
        until: Option<u64>,
        expired: i64,
    },
    Yield,
}

/// Times that threads let others go first in a turn until they wait, and how long they do, in nanoseconds. Chosen: locks that spin
/// yield a few times, and what polls by yielding is to see time pass in steps below a slice.
const MOST_YIELDS: u32 = 64;
const YIELDED: u64 = 100_000;

/// A call that does nothing, in the place of one that the host is not to see.
fn nothing() -> Call {
    Call { nr: libc::SYS_getpid, args: [0; 6] }
}

impl Loader {
    /// Decides about the call that a thread makes, and has the host do its part.
    pub(crate) fn enter(&mut self, number: usize, call: Call, kernel: Option<&mut UserCalls<'_>>) -> Step {
        if self.steps >= self.last_step {
            return Step::Pause(Pause::Sliced);
        }
        self.step();
        if call.nr < 0 {
            // Its instruction set may take arguments from other registers, where the number of a harmless call means another
            // one (39: `mkdir` in place of `getpid`). -1 is no call anywhere.
            self.refused.note("a system call of another instruction set");
            return Step::Replace(Call { nr: -1, args: call.args }, After::Value(error(libc::ENOSYS)));
        }
        if call.nr == libc::SYS_bpf {
            return self.bpf_call(number, &call, kernel);
        }
        let tracee = self.threads.all[number].tracee;
        self.process_call(number, &call)
            .or_else(|| self.time_call(tracee, &call))
            .or_else(|| self.path_call(tracee, &call))
            .or_else(|| self.descriptor_call(number, &call))
            .unwrap_or_else(|| {
                self.refused.note(&format!("system call {}", call.nr));
                Step::Value(error(libc::ENOSYS))
            })
    }

    fn bpf_call(&mut self, number: usize, call: &Call, mut kernel: Option<&mut UserCalls<'_>>) -> Step {
        /// `BPF_PROG_RUN`.
        const RUN: u64 = 10;
        let tracee = self.threads.all[number].tracee;
        let [command, addr, size, ..] = call.args;
        let runs = command == RUN;
        if let Some(kernel) = kernel.as_deref_mut().filter(|_| runs) {
            if !self.bpf.attached {
                kernel.stand_on(self.cpu);
            }
            self.share_to(kernel);
        }
        let step = self.answer(tracee, command as u32, (addr, size), kernel.as_deref_mut());
        if let Some(kernel) = kernel.filter(|_| runs) {
            self.share_from(kernel);
        }
        step
    }

    fn answer(
        &mut self,
        tracee: Tracee,
        command: u32,
        (addr, size): (u64, u64),
        kernel: Option<&mut UserCalls<'_>>,
    ) -> Step {
        let Some(attr) = Attr::read(tracee, addr, size & 0xffff_ffff) else {
            return Step::Value(error(libc::EFAULT));
        };
        let mut asked =
            Asked { tracee, attr, descriptors: &self.descriptors, kernel, nr_cpus: self.nodes.len() };
        match self.bpf.call(command, &mut asked) {
            Answer::Value(value) => Step::Value(value),
            Answer::NeedsPrograms => Step::Pause(Pause::NeedsPrograms),
            Answer::Attach => Step::Pause(Pause::Attach),
            Answer::Open(number) => self.open_again(tracee, number),
            Answer::Make(thing) => match memory_file_call(tracee) {
                Some(call) => Step::Replace(call, After::Make(Box::new(thing))),
                None => Step::Value(error(libc::EFAULT)),
            },
        }
    }

    /// Another descriptor of a thing of bpf(2).
    fn open_again(&mut self, tracee: Tracee, number: usize) -> Step {
        let has_memory = self.bpf.map(number).is_some_and(|map| map.memory.is_some());
        match (self.descriptors.of(number), memory_file_call(tracee)) {
            (Some(open), _) => {
                let args = [open as u64, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0];
                Step::Replace(Call { nr: libc::SYS_fcntl, args }, After::Copy(open))
            }
            (None, Some(call)) if !has_memory => Step::Replace(call, After::Hold(Held::Bpf(number))),
            (None, _) => {
                self.refused.note("a map that is mapped, after its last descriptor was closed");
                Step::Value(error(libc::ENOENT))
            }
        }
    }

    /// Has the host carry a decision out: what follows when the call is done.
    pub(crate) fn carry_out(&self, tracee: Tracee, step: Step) -> std::io::Result<After> {
        Ok(match step {
            Step::Pass(after) => after,
            Step::Replace(call, after) => {
                tracee.replace(call)?;
                after
            }
            Step::Value(value) => {
                tracee.replace(nothing())?;
                After::Value(value)
            }
            Step::Wait { what, until, expired } => {
                tracee.replace(nothing())?;
                After::Wait { what, until, expired }
            }
            Step::Yield => {
                tracee.replace(nothing())?;
                After::Yield
            }
            Step::Pause(_) | Step::End(_) => After::Nothing,
        })
    }

    /// A call has been carried out. False: the thread does not continue for now.
    pub(crate) fn leave(&mut self, number: usize, call: &Call, after: After) -> std::io::Result<bool> {
        let tracee = self.threads.all[number].tracee;
        let result = tracee.result()?;
        let fd = i32::try_from(result).unwrap_or(-1);
        match after {
            After::Nothing => return Ok(true),
            After::Value(value) => tracee.finish(call, value)?,
            After::Hold(held) if fd >= 0 => self.descriptors.set(fd, Some(held)),
            After::Copy(from) if fd == from => {}
            After::Copy(from) if fd >= 0 => {
                // What it was before is closed.
                self.close(fd);
                self.descriptors.copy(from, fd);
            }
            After::Fill(content, held) if fd >= 0 => {
                let file = std::fs::File::from(tracee.take_descriptor(self.process(), fd)?);
                file.write_all_at(&content, 0)?;
                self.descriptors.set(fd, Some(held));
                tracee.finish(call, result)?;
            }
            After::Make(thing) if fd >= 0 => {
                self.make(tracee, fd, *thing)?;
                tracee.finish(call, result)?;
            }
            After::Timer(clock) if fd >= 0 => {
                let counter = std::fs::File::from(tracee.take_descriptor(self.process(), fd)?);
                self.descriptors.set(fd, Some(Held::Timer(self.timers.len())));
                self.timers.push(Timer::new(counter, clock));
                tracee.finish(call, result)?;
            }
            After::Watches(place) if result == 0 => {
                let fd = self.make_watches(tracee, place)?;
                tracee.finish(call, fd)?;
            }
            After::Pair(place) if result == 0 => {
                for at in [place, place + 4] {
                    let fd = tracee.number::<4>(at).map_or(-1, |fd| fd as i32);
                    self.descriptors.set(fd, Some(Held::Waitable));
                }
            }
            After::Polled(until) if result == 0 => {
                self.threads.all[number].state = State::Waiting { what: Wait::Ready, until, expired: 0 };
                return Ok(false);
            }
            After::Looked => {
                let thread = &mut self.threads.all[number];
                thread.looked = result != 0;
                thread.state = match result {
                    0 => State::Waiting { what: Wait::Ready, until: None, expired: 0 },
                    _ => State::Again,
                };
                if result != 0 {
                    self.threads.first(number);
                }
                return Ok(false);
            }
            After::Wait { what, until, expired } => {
                self.threads.all[number].state = State::Waiting { what, until, expired };
                return Ok(false);
            }
            After::Yield => {
                self.give_way(number);
                return Ok(false);
            }
            // The arguments are what they were, for programs that look at their registers.
            _ => tracee.finish(call, result)?,
        }
        Ok(true)
    }

    /// A thread lets others go first. If all that may run do so, or one again and again, the loader's task yields; before there
    /// is one, the thread waits: only that lets time pass.
    fn give_way(&mut self, number: usize) {
        self.yields += 1;
        let alone = self.yields > MOST_YIELDS || !self.threads.has_ready();
        if !alone || self.bpf.attached {
            self.yielded = alone;
            self.threads.all[number].state = State::Ready(Some(0));
            self.threads.last(number);
        } else {
            let until = Some(self.clock.saturating_add(YIELDED));
            self.threads.all[number].state = State::Waiting { what: Wait::Time, until, expired: 0 };
        }
    }

    /// A pair of sockets is at this address: the loader reads reports from the first one, whose number this gives. The second one
    /// stays open in the loader as well, which has no use for it.
    fn make_watches(&mut self, tracee: Tracee, place: u64) -> std::io::Result<i64> {
        let [fd, end] = [place, place + 4].map(|at| tracee.number::<4>(at).map_or(-1, |fd| fd as i32));
        let end = std::fs::File::from(tracee.take_descriptor(self.process(), end)?);
        self.descriptors.set(fd, Some(Held::Watches(self.watches.len())));
        self.watches.push(Watches::new(end));
        Ok(i64::from(fd))
    }

    /// A thing of bpf(2) has its descriptor: maps get their memory.
    fn make(&mut self, tracee: Tracee, fd: i32, mut thing: Thing) -> std::io::Result<()> {
        if let Thing::Map(map) = &mut thing {
            let bytes = map.shared_bytes();
            if bytes > 0 {
                let file = std::fs::File::from(tracee.take_descriptor(self.process(), fd)?);
                file.set_len(bytes)?;
                map.memory = Some(file);
            }
        }
        self.descriptors.set(fd, Some(Held::Bpf(self.bpf.things.len())));
        self.bpf.things.push(thing);
        Ok(())
    }
}

/// A call that makes a file in memory, in the place of another one.
fn memory_file_call(tracee: Tracee) -> Option<Call> {
    let name = tracee.scratch(b"schedlab\0")?;
    Some(Call { nr: libc::SYS_memfd_create, args: [name, u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0] })
}
