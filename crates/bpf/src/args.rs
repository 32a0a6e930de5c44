//! What programs pass to helpers and kernel functions: the one layer that checks it.
//!
//! A helper or kernel function is a Rust function whose parameters say what each argument is: a number, a map and a key of
//! it, memory with its size and direction, a callback, a kernel-owned part of a value. [`Caller::invoke`] makes these parameters
//! from the argument registers and refuses what the kernel's verifier would have refused. A function has no other way
//! to the guest's memory: a [`Caller`] reads and writes only what such a parameter stands for.

mod kinds;
mod memory;
mod values;

pub use kinds::{Arg, Function, Outcome, Registers, Shape};
pub use memory::{Buffer, Bytes, In, MAX_TEXT, OnStack, Out, Pointer, Readable, Text, Writable, cut};
pub(crate) use memory::{bytes_or_zeros, text};
pub use values::{Callback, LockPlace, MapArg};
pub(crate) use values::{KernelPointer, Key, KeyValue, KptrPlace, TimerPlace, ValueOut};

use crate::code::FuncId;
use crate::engine::{CALLBACK_INSNS, Host, Vm, registers};
use crate::fault::{Fault, Location};
use crate::helpers::Env;
use crate::memory::Memory;

/// A program that waits for a helper or kernel function, as that function sees it.
pub struct Caller<'a, 'v, E> {
    /// The simulated kernel.
    pub env: &'a mut E,
    vm: &'a mut Vm<'v>,
}

impl<E> std::fmt::Debug for Caller<'_, '_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("at", &self.vm.location()).finish_non_exhaustive()
    }
}

impl<'a, 'v, E> Caller<'a, 'v, E> {
    /// The caller of a helper or kernel function.
    #[inline(always)]
    pub fn new(env: &'a mut E, vm: &'a mut Vm<'v>) -> Caller<'a, 'v, E> {
        Caller { env, vm }
    }

    /// Calls `function` with parameters made of r1 to r5; its result as r0.
    ///
    /// # Errors
    /// Ends the program: an argument that the function does not take, or the function's own fault.
    #[inline(always)]
    pub fn invoke<P, F: Function<E, P>>(mut self, function: F, args: &[u64; 5]) -> Result<u64, Fault> {
        function.invoke(&mut self, args)
    }

    /// Counts work beyond what the price of a call covers, as so many instructions.
    ///
    /// # Errors
    /// Ends the program when its budget is used up.
    #[inline]
    pub fn work(&mut self, insns: u64) -> Result<(), Fault> {
        self.vm.work(insns)
    }

    /// As [`Caller::work`], for bytes that are read or written.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn work_bytes(&mut self, bytes: u64) -> Result<(), Fault> {
        self.vm.work_bytes(bytes)
    }

    /// Instructions executed so far, the one that called included.
    #[inline]
    pub fn insns(&self) -> u64 {
        self.vm.insns()
    }

    /// The instruction that called.
    pub fn location(&self) -> Location {
        self.vm.location()
    }

    /// The simulated kernel, and the guest's memory with the kernel's own objects in it.
    ///
    /// For the layer that checks and hands out kernel objects (tasks, masks, run queues), never for a function's
    /// own reads and writes: those go through its parameters. A test of the tree holds that rule.
    #[inline(always)]
    pub fn kernel_objects(&mut self) -> (&mut E, &mut Memory) {
        (self.env, self.vm.mem)
    }
}

impl<'v, E: Host> Caller<'_, 'v, E> {
    /// Calls a function of the program with the first of its registers, the others being 0; its r0. It spends the same
    /// budget, [`CALLBACK_INSNS`] more than its own.
    ///
    /// # Errors
    /// That function's fault; pass it on to end the program.
    #[inline(always)]
    pub(crate) fn call_back(&mut self, callback: FuncId, args: &[u64]) -> Result<u64, Fault> {
        self.vm.work(CALLBACK_INSNS)?;
        self.vm.call(callback, registers(args), self.env)
    }

    /// The run itself, for the host's own questions (time, locks).
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut E, &mut Vm<'v>) {
        (self.env, self.vm)
    }
}

impl<E: Env> Caller<'_, '_, E> {
    /// Brings what the kernel keeps lazily at an address up to date, before it is read.
    #[inline]
    fn freshen(&mut self, addr: u64) -> Result<(), Fault> {
        self.env.freshen(&[addr], self.vm)
    }
}

/// A program broke a rule that the kernel's verifier enforces.
#[cold]
pub fn misuse(what: impl Into<String>) -> Fault {
    Fault::host(0, what)
}
