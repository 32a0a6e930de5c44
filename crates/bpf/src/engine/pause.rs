//! Runs on the interpreter that stop between two instructions and continue later.

use super::{Done, Host, Interpreter, Vm, interpret, native, registers};
use crate::code::{Code, FuncId};
use crate::fault::Fault;
use crate::memory::Memory;

/// A run that was paused between two instructions. Other runs may take place before it continues, if each of them ends first.
#[derive(Clone, Debug)]
pub struct Paused {
    place: interpret::Place,
    frames_before: u32,
    executed: u64,
    probe_faults: u64,
}

impl Paused {
    /// Instructions executed so far.
    #[must_use]
    pub fn insns(&self) -> u64 {
        self.executed
    }
}

/// How far a run that can be paused has come.
#[derive(Clone, Debug)]
pub enum Progress {
    /// To its exit.
    Done(Done),
    /// To the instruction at which it was to pause.
    Paused(Box<Paused>),
}

impl Interpreter {
    /// As [`super::Engine::run`], until `pause` instructions are executed.
    ///
    /// # Errors
    /// As there.
    pub fn begin<H: Host>(
        &mut self,
        code: &Code,
        (func, args): (FuncId, &[u64]),
        mem: &mut Memory,
        host: &mut H,
        (budget, pause): (u64, u64),
    ) -> Result<Progress, Fault> {
        let (frames_before, args) = (mem.frames_used, registers(args));
        let mut vm = Vm::new(code, None, mem, &mut self.frames, budget, native::Span::default());
        match interpret::Place::entry(&mut vm, func, args) {
            Ok(place) => {
                advance(vm, Paused { place, frames_before, executed: 0, probe_faults: 0 }, host, pause)
            }
            Err(fault) => vm.done(Err(fault), frames_before).map(Progress::Done),
        }
    }

    /// Continues a paused run, until `pause` instructions are executed in all.
    ///
    /// # Errors
    /// As of [`super::Engine::run`].
    pub fn resume<H: Host>(
        &mut self,
        code: &Code,
        paused: Paused,
        mem: &mut Memory,
        host: &mut H,
        (budget, pause): (u64, u64),
    ) -> Result<Progress, Fault> {
        let mut vm = Vm::new(code, None, mem, &mut self.frames, budget, native::Span::default());
        vm.set_insns(paused.executed);
        vm.probe_faults = paused.probe_faults;
        advance(vm, paused, host, pause)
    }
}

fn advance<H: Host>(
    mut vm: Vm<'_>,
    mut paused: Paused,
    host: &mut H,
    mut pause: u64,
) -> Result<Progress, Fault> {
    debug_assert!(pause > paused.executed, "a run that continues executes something");
    let ended = loop {
        match paused.place.advance(&mut vm, pause, host) {
            // A lock keeps the others out: the run continues to where it gives the lock back.
            Ok(None) if vm.is_locked() => pause = vm.insns() + 1,
            Ok(None) => {
                (paused.executed, paused.probe_faults) = (vm.insns(), vm.probe_faults);
                return Ok(Progress::Paused(Box::new(paused)));
            }
            Ok(Some(r0)) => break Ok(r0),
            Err(fault) => break Err(fault),
        }
    };
    vm.done(ended, paused.frames_before).map(Progress::Done)
}
