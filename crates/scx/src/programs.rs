//! Programs that a loader runs before it attaches the scheduler (`SEC("syscall")`), here on request.

use crate::scheduler::BpfScheduler;
use schedlab_base::{DurationNs, did_you_mean};
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::link::Image;
use schedlab_bpf::memory::PAGE_SIZE;
use schedlab_bpf::object::{Object, ProgramKind};
use schedlab_bpf::{FuncId, GuestAddr, Memory, Perm};
use schedlab_sim::flags::errno::EINVAL;
use schedlab_sim::{Kernel, OpKind};
use schedlab_trace::ExitKind;

/// A program that is run before the scheduler is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProgram {
    /// The function.
    pub name: String,
    /// The bytes of its context; none is a NULL context.
    pub context: Vec<u8>,
}

/// A program that is run while the scheduler is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedProgram {
    /// When, since the run began.
    pub at: DurationNs,
    /// What.
    pub program: RunProgram,
}

/// What a program that was run while the scheduler was attached has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The function.
    pub name: String,
    /// The program's result.
    pub value: i32,
}

/// Such a program with its places in the image.
#[derive(Clone, Debug)]
pub(crate) struct ReadyProgram {
    name: String,
    func: FuncId,
    context: GuestAddr,
}

/// Checks that the object has these programs and that they run on request.
///
/// # Errors
/// Names the program and those that there are.
pub fn check_programs(object: &Object, programs: &[RunProgram]) -> Result<(), LoadError> {
    let on_request = || object.programs().iter().filter(|program| program.kind == ProgramKind::Syscall);
    for wanted in programs {
        if on_request().any(|program| program.name == wanted.name) {
            continue;
        }
        let names: Vec<&str> = on_request().map(|program| program.name.as_str()).collect();
        let near = did_you_mean(&wanted.name, &names);
        let problem = format!("there is no program `{}` in SEC(\"syscall\"){near}", wanted.name);
        let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        let place = format!("--run-prog {}", wanted.name);
        return Err(LoadError::new(LoadErrorKind::Setting, place, problem, format!("there are: {known}")));
    }
    Ok(())
}

/// Puts the programs' contexts into memory.
pub(crate) fn ready<'a>(
    image: &Image,
    programs: impl IntoIterator<Item = &'a RunProgram>,
    mem: &mut Memory,
) -> Result<Vec<ReadyProgram>, LoadError> {
    let mut ready = Vec::new();
    for wanted in programs {
        let Some(program) = image.programs.iter().find(|program| program.name == wanted.name) else {
            continue;
        };
        let context = if wanted.context.is_empty() {
            GuestAddr::NULL
        } else {
            placed(&wanted.context, mem).map(|(place, _)| place).map_err(|error| {
                let place = format!("--run-prog {}", wanted.name);
                LoadError::new(LoadErrorKind::Memory, place, error, "give it a smaller context")
            })?
        };
        ready.push(ReadyProgram { name: wanted.name.clone(), func: program.func, context });
    }
    Ok(ready)
}

/// A context ends where its pages end, before one that programs cannot read: a program that reads more of it faults, as the
/// kernel refuses to run it. Where it is, and the room that was mapped for it.
pub(crate) fn placed(context: &[u8], mem: &mut Memory) -> Result<(GuestAddr, (GuestAddr, u64)), String> {
    let length = context.len() as u64;
    let pages = length.div_ceil(PAGE_SIZE) * PAGE_SIZE;
    let room = mem.map(pages + PAGE_SIZE, Perm::READ_WRITE).map_err(|error| error.to_string())?;
    mem.protect(room.offset(pages), PAGE_SIZE, Perm::KERNEL);
    let place = room.offset(pages - length);
    mem.write(place, context).map_err(|error| error.to_string())?;
    Ok((place, (room, pages + PAGE_SIZE)))
}

impl BpfScheduler {
    /// Runs a program that a loader starts while the scheduler is attached.
    pub(crate) fn run_program(&mut self, k: &mut Kernel, program: &ReadyProgram) {
        let value = self.enter(k, program.func, OpKind::Init, &[program.context.0]) as i32;
        self.returned.push(Returned { name: program.name.clone(), value });
    }

    /// What the programs of [`crate::LoadOptions::timed_programs`] have returned, in order.
    pub fn returned(&self) -> &[Returned] {
        &self.returned
    }

    /// Runs the programs before `ops.init()`, once.
    ///
    /// # Errors
    /// A program that does not return 0, as a loader would stop there.
    pub(crate) fn run_programs(&mut self, k: &mut Kernel) -> Result<(), i32> {
        for program in std::mem::take(&mut self.programs) {
            let returned = self.enter(k, program.func, OpKind::Init, &[program.context.0]) as i32;
            if returned != 0 {
                let text = format!("--run-prog {}: the program returned {returned}", program.name);
                k.error(ExitKind::Error, text);
                return Err(EINVAL);
            }
        }
        Ok(())
    }
}
