//! Runs one program given in base 16, for people and for conformance suites.
//!
//! ```text
//! echo b7000000 2a000000 95000000 00000000 | cargo run -q -p schedlab-bpf --example run_hex [--engine ENGINE] [MEMORY]
//! ```
//!
//! Standard input holds the instructions in the kernel's encoding; white space is ignored. `MEMORY`, also in base 16, is
//! placed in guest memory: r1 is its address and r2 its length (both 0 without it). Prints r0 in base 16, exit code 0;
//! any error is one line on standard error, exit code 1. `ENGINE` is `compiled`, the default, or `interpreted`; where the
//! host does not run compiled code, a line on standard error says so, and the program is interpreted. Shifts by more than the width follow RFC 9669. There are no
//! helpers and no kernel functions.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints")]

use schedlab_bpf::{Compiler, Engine, FuncId, Insn, Interpreter, Memory, NoHost, Perm, code};
use std::io::Read;
use std::process::ExitCode;

/// Instructions after which a program counts as endless. Chosen: a few seconds.
const BUDGET: u64 = 1_000_000_000;

fn main() -> ExitCode {
    match run() {
        Ok(r0) => {
            println!("{r0:x}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{}", message.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<u64, String> {
    let Arguments { memory, interpret } = arguments()?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| format!("standard input: {e}"))?;
    let bytes = from_hex(&text).map_err(|e| format!("standard input: {e}"))?;
    let insns = Insn::all_from_bytes(&bytes).ok_or_else(|| {
        format!("standard input: {} bytes are no whole number of 8-byte instructions", bytes.len())
    })?;
    let code = code::from_slots("program", &insns, true).map_err(|e| e.to_string())?;
    let mut mem = Memory::new().map_err(|e| e.to_string())?;
    let mut args = [0, 0];
    if !memory.is_empty() {
        let addr = mem.map(memory.len() as u64, Perm::READ_WRITE).map_err(|e| e.to_string())?;
        mem.write(addr, &memory).map_err(|e| e.to_string())?;
        args = [addr.0, memory.len() as u64];
    }
    let done = if interpret {
        Interpreter::new().run(&code, FuncId(0), &args, &mut mem, &mut NoHost, BUDGET)
    } else {
        if let Err(why) = code.compile() {
            eprintln!("{why}; the program is interpreted");
        }
        Compiler::new().run(&code, FuncId(0), &args, &mut mem, &mut NoHost, BUDGET)
    };
    done.map(|done| done.r0).map_err(|fault| fault.to_string())
}

/// What the command line says.
struct Arguments {
    /// The memory's content.
    memory: Vec<u8>,
    interpret: bool,
}

fn arguments() -> Result<Arguments, String> {
    let (mut memory, mut interpret) = (None, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--elf" => return Err("--elf is not supported: pass bare instructions".to_string()),
            "--engine" => {
                interpret = match words.next().as_deref() {
                    Some("compiled") => false,
                    Some("interpreted") => true,
                    _ => return Err("--engine: write compiled or interpreted".to_string()),
                };
            }
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ if memory.is_some() => return Err("more than one memory argument".to_string()),
            hex => memory = Some(from_hex(hex).map_err(|e| format!("memory argument: {e}"))?),
        }
    }
    Ok(Arguments { memory: memory.unwrap_or_default(), interpret })
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let mut digits = Vec::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        digits.push(c.to_digit(16).ok_or_else(|| format!("{c:?} is no base 16 digit"))? as u8);
    }
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("odd number of base 16 digits".to_string());
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
