//! What the machine's tests share: an assembler, test files, the expected results of arithmetic, a random source, and
//! the running kernel's BPF as a second opinion.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod asm;
pub(crate) mod files;
pub(crate) mod generate;
pub(crate) mod kernel;
pub(crate) mod reference;

use schedlab_bpf::{
    Code, CodeError, Compiler, Done, Engine, Fault, FuncId, GuestAddr, Insn, Interpreter, Memory, NoHost,
    Perm, code,
};

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

/// A machine that runs one program after the other, each on both engines, keeping its address space.
pub(crate) struct Machine {
    mem: Memory,
    interpreter: Interpreter,
    compiler: Compiler,
    /// A region that both engines are to find as it was.
    shared: Option<(GuestAddr, u64)>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Machine {
            mem: Memory::new().expect("8 GiB of address space"),
            interpreter: Interpreter::new(),
            compiler: Compiler::new(),
            shared: None,
        }
    }

    /// Maps a region of its own for all programs; the engines find it with the same content.
    pub(crate) fn share(&mut self, addr: GuestAddr, content: &[u8]) {
        let len = content.len() as u64;
        self.mem.map_at(addr, len, Perm::READ_WRITE).expect("free pages");
        self.mem.write(addr, content).expect("mapped");
        self.shared = Some((addr, len));
    }

    /// The machine's memory.
    pub(crate) fn memory(&mut self) -> &mut Memory {
        &mut self.mem
    }

    /// Runs a program in the kernel's encoding, on both engines, which have to agree on everything, with r1 = address and r2 = length of the memory (0 if empty).
    pub(crate) fn run(&mut self, slots: &[Insn], memory: &[u8], budget: u64) -> Result<Outcome, Failure> {
        let code = code::from_slots("test", slots, false).map_err(Failure::Refused)?;
        let shared = |mem: &Memory| {
            self.shared.map(|(addr, len)| (addr, mem.slice(addr, len).expect("mapped").to_vec()))
        };
        let before = shared(&self.mem);
        let interpreted = run_on(&mut self.interpreter, &mut self.mem, &code, memory, budget);
        let left = shared(&self.mem);
        if let Some((addr, content)) = before {
            self.mem.write(addr, &content).expect("mapped");
        }
        let compiled = run_on(&mut self.compiler, &mut self.mem, &code, memory, budget);
        assert!(left == shared(&self.mem), "the engines leave different memory after {slots:?}");
        assert_eq!(interpreted, compiled, "the engines disagree on {slots:?} with {budget} instructions");
        let (done, after) = interpreted;
        let done = done.map_err(Failure::Fault)?;
        Ok(Outcome { r0: done.r0, memory: after })
    }
}

/// Runs an image's first function on an engine; returns also the memory afterwards.
fn run_on(
    engine: &mut impl Engine,
    mem: &mut Memory,
    code: &Code,
    memory: &[u8],
    budget: u64,
) -> (Result<Done, Fault>, Vec<u8>) {
    let len = memory.len() as u64;
    let mut addr = GuestAddr::NULL;
    if len > 0 {
        addr = mem.map(len, Perm::READ_WRITE).expect("guest memory");
        mem.write(addr, memory).expect("mapped");
    }
    // What one run leaves on the stack must not be the next one's input.
    let stack = mem.stack();
    mem.slice_mut(stack.0, stack.1).expect("the stack is mapped").fill(0);
    let done = engine.run(code, FuncId(0), &[addr.0, len], mem, &mut NoHost, budget);
    let after = if len > 0 { mem.slice(addr, len).expect("mapped").to_vec() } else { Vec::new() };
    if len > 0 {
        mem.unmap(addr, len);
    }
    (done, after)
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
