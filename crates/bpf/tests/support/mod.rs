//! What the machine's tests share: an assembler, test files, the expected results of arithmetic, a random source, and
//! the running kernel's BPF as a second opinion.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod asm;
pub(crate) mod files;
pub(crate) mod generate;
pub(crate) mod kernel;
pub(crate) mod reference;

use schedlab_bpf::{CodeError, Engine, Fault, FuncId, Insn, Interpreter, Memory, NoHost, Perm, code};

/// What one program did, on either engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// r0.
    pub(crate) r0: u64,
    /// The memory that r1 pointed to, afterwards.
    pub(crate) memory: Vec<u8>,
}

/// Why the machine did not finish a program.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Refused before it ran.
    Refused(CodeError),
    /// Ended early.
    Fault(Fault),
}

/// A machine that runs one program after the other, keeping its address space.
pub(crate) struct Machine {
    mem: Memory,
    interpreter: Interpreter,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Machine { mem: Memory::new().expect("8 GiB of address space"), interpreter: Interpreter::new() }
    }

    /// The machine's memory.
    pub(crate) fn memory(&mut self) -> &mut Memory {
        &mut self.mem
    }

    /// Runs a program in the kernel's encoding with r1 = address and r2 = length of the memory (0 if empty).
    pub(crate) fn run(&mut self, slots: &[Insn], memory: &[u8], budget: u64) -> Result<Outcome, Failure> {
        let code = code::from_slots("test", slots, false).map_err(Failure::Refused)?;
        let mut args = [0, 0];
        let len = memory.len() as u64;
        if len > 0 {
            let addr = self.mem.map(len, Perm::READ_WRITE).expect("guest memory");
            self.mem.write(addr, memory).expect("mapped");
            args = [addr.0, len];
        }
        let addr = schedlab_bpf::GuestAddr(args[0]);
        let done = self.interpreter.run(&code, FuncId(0), &args, &mut self.mem, &mut NoHost, budget);
        let after = if len > 0 { self.mem.slice(addr, len).expect("mapped").to_vec() } else { Vec::new() };
        if len > 0 {
            self.mem.unmap(addr, len);
        }
        let done = done.map_err(Failure::Fault)?;
        Ok(Outcome { r0: done.r0, memory: after })
    }
}

/// A small deterministic random source (xorshift64*, Vigna 2016), so that tests need no other crate.
#[derive(Clone, Debug)]
pub(crate) struct Prng(u64);

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Prng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A value that is often near an edge of some width.
    pub(crate) fn value(&mut self) -> u64 {
        match self.below(4) {
            0 => self.next(),
            1 => self.below(16),
            2 => self.pick(&reference::EDGES),
            _ => self.next() >> self.below(64),
        }
    }
}
