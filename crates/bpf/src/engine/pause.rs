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

/// What a program shares with programs on other CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedPlace {
    /// Memory, by its address.
    Memory(u64),
    /// A map's elements, by the pointer to the map.
    Map(u64),
    /// State of the kernel behind a kernel function.
    Kernel,
}

/// An access to what is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedAccess {
    /// What is accessed; of memory the 8-byte word.
    pub place: SharedPlace,
    /// It may write.
    pub writes: bool,
}

impl Paused {
    /// Instructions executed so far.
    #[must_use]
    pub fn insns(&self) -> u64 {
        self.executed
    }

    /// The instruction that is next, by its index in the code.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.place.next()
    }

    /// What the next instruction accesses that others may access, too: not registers and the stack.
    #[must_use]
    pub fn next_access(&self, code: &Code, mem: &Memory) -> Option<SharedAccess> {
        let (place, writes) = self.place.next_access(code)?;
        let place = match place {
            SharedPlace::Memory(addr) if mem.is_stack(addr) => return None,
            SharedPlace::Memory(addr) => SharedPlace::Memory(addr & !7),
            other => other,
        };
        Some(SharedAccess { place, writes })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CodeBuilder, Marks};
    use crate::insn::{Insn, op};
    use crate::memory::GuestAddr;

    /// Helper 1 takes a lock that is never given back.
    struct Locks;

    impl Host for Locks {
        fn helper(&mut self, _: u32, _: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
            vm.lock_taken();
            Ok(0)
        }

        fn kfunc(&mut self, index: u32, _: &[u64; 5], _: &mut Vm<'_>) -> Result<u64, Fault> {
            Err(Fault::unsupported(format!("kernel function {index}")))
        }

        fn kernel_store(&mut self, _: GuestAddr, _: u8, _: u64, _: &mut Vm<'_>) -> Result<(), Fault> {
            Ok(())
        }
    }

    /// Counts r6 down to 0 behind a call.
    fn counts_down(helper: Option<i32>) -> (Code, FuncId) {
        let mut insns = vec![Insn::alu64_imm(op::MOV, 6, 1_000_000)];
        insns.extend(helper.map(Insn::call_helper));
        insns.extend([
            Insn::alu64_imm(op::SUB, 6, 1),
            Insn::jump_imm(op::JNE, 6, 0, -2),
            Insn::alu64_imm(op::MOV, 0, 7),
            Insn::exit(),
        ]);
        let mut builder = CodeBuilder::new();
        let func = builder.add_function("counts_down", &insns, &Marks::default()).unwrap();
        (builder.build().unwrap(), func)
    }

    #[test]
    fn a_paused_run_continues_where_it_stood() {
        let (code, func) = counts_down(None);
        let (mut mem, mut interpreter) = (Memory::new().unwrap(), Interpreter::new());
        let budget = 10_000_000;
        let begun = interpreter.begin(&code, (func, &[]), &mut mem, &mut Locks, (budget, 1000)).unwrap();
        let Progress::Paused(paused) = begun else { panic!("it is to pause: {begun:?}") };
        assert_eq!(paused.insns(), 1000);
        let ended = interpreter.resume(&code, *paused, &mut mem, &mut Locks, (budget, u64::MAX)).unwrap();
        let Progress::Done(done) = ended else { panic!("it is to end: {ended:?}") };
        assert_eq!((done.r0, done.insns), (7, 2_000_003));
    }

    /// However long the lock is held: the host's stack does not grow with that.
    #[test]
    fn a_run_is_not_paused_under_a_lock() {
        let (code, func) = counts_down(Some(1));
        let (mut mem, mut interpreter) = (Memory::new().unwrap(), Interpreter::new());
        let pace = (10_000_000, 1000);
        let ended = interpreter.begin(&code, (func, &[]), &mut mem, &mut Locks, pace).unwrap();
        let Progress::Done(done) = ended else { panic!("it is to end: {ended:?}") };
        assert_eq!((done.r0, done.insns), (7, 2_000_004));
    }
}
