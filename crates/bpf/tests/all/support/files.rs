//! Test files: a list of small programs, each with what it must do.
//!
//! ```text
//! # comment
//! test NAME
//! mem 01 02 03              r1 points to these bytes, r2 is their number
//!   (instructions, see `asm`)
//! result 0x2a               what r0 must be; or
//! fault TEXT                the run must end in a fault whose message contains TEXT; or
//! refused TEXT              the program must be refused with a message that contains TEXT
//! after 01 02 03            the memory afterwards
//! kernel no REASON          why the kernel's verifier does not take the program although the machine runs it
//! kernel differs REASON     why the kernel, which takes the program, gives another result
//! ```
//! A test ends where the next begins.

use super::asm;
use schedlab_bpf::Insn;
use std::path::Path;

/// What a program must do.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    Result(u64),
    Fault(String),
    Refused(String),
}

/// One test of a file.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// `file: name`.
    pub(crate) name: String,
    pub(crate) memory: Vec<u8>,
    pub(crate) slots: Vec<Insn>,
    pub(crate) expect: Expect,
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) kernel: Kernel,
}

/// What the kernel does with a program that the machine runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Agrees,
    /// For a reason that the file states.
    Refuses,
    Differs,
}

/// All cases of the folder `tests/conformance`, in the order of file names.
pub(crate) fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let entries = std::fs::read_dir(&folder).expect("tests/conformance");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "txt")) {
        let text = std::fs::read_to_string(path).expect("readable test file");
        let stem = path.file_stem().expect("named").to_string_lossy();
        cases.extend(parse(&stem, &text).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
    }
    cases
}

fn parse(file: &str, text: &str) -> Result<Vec<Case>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if line.starts_with("test ") {
            blocks.push(Vec::new());
        }
        blocks.last_mut().ok_or("the first line must begin a test")?.push(line);
    }
    blocks.iter().map(|block| case(file, block)).collect()
}

fn case(file: &str, lines: &[&str]) -> Result<Case, String> {
    let (mut memory, mut after, mut expect, mut kernel) = (Vec::new(), None, None, Kernel::Agrees);
    let mut program = String::new();
    let name = format!("{file}: {}", &lines[0]["test ".len()..]);
    for line in &lines[1..] {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "mem" => memory.extend(bytes(rest)?),
            "after" => after.get_or_insert_with(Vec::new).extend(bytes(rest)?),
            "result" => expect = Some(Expect::Result(asm::number(rest).ok_or(format!("{name}: {line}"))?)),
            "fault" => expect = Some(Expect::Fault(rest.to_string())),
            "refused" => expect = Some(Expect::Refused(rest.to_string())),
            "kernel" if rest.starts_with("no ") => kernel = Kernel::Refuses,
            "kernel" if rest.starts_with("differs ") => kernel = Kernel::Differs,
            _ => program = program + line + "\n",
        }
    }
    let slots = asm::assemble(&program).map_err(|e| format!("{name}: {e}"))?;
    let expect = expect.ok_or_else(|| format!("{name}: no expectation"))?;
    Ok(Case { name, memory, slots, expect, after, kernel })
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    text.split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).map_err(|e| format!("{byte}: {e}")))
        .collect()
}
