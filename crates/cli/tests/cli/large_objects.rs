//! Objects that a hostile author has grown: refused by the limit's name, soon, and in little memory.

use crate::faults::compile;
use crate::{Done, Folder};
use std::io::Read;
use std::mem::MaybeUninit;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What a refusal may take.
const MOST_TIME: Duration = Duration::from_secs(10);
const MOST_MEMORY: u64 = 1 << 30;

/// The number at a place of a file.
fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(word) as usize
}

fn put(bytes: &mut [u8], at: usize, number: usize) {
    bytes[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
}

/// Lengthens the first code section of an object to `slots` instructions (`r0 = r0`), and with it the last function in it
/// if `function`.
fn grow(mut object: Vec<u8>, slots: usize, function: bool) -> Vec<u8> {
    const EXEC: usize = 4;
    let (headers, count) = (number::<8>(&object, 0x28), number::<2>(&object, 0x3c));
    let header = |index: usize| headers + 64 * index;
    let section = (1..count)
        .find(|&index| {
            number::<8>(&object, header(index) + 8) & EXEC != 0
                && number::<8>(&object, header(index) + 32) > 0
        })
        .expect("an object has code");
    let (from, len) =
        (number::<8>(&object, header(section) + 24), number::<8>(&object, header(section) + 32));
    let text = object[from..from + len].to_vec();
    let nop = [0xbf, 0, 0, 0, 0, 0, 0, 0];
    let fill = nop.iter().copied().cycle().take(8 * slots - len);
    let at = object.len().next_multiple_of(8);
    object.resize(at, 0);
    // The exit stays the last instruction.
    object.extend(text[..len - 8].iter().copied().chain(fill).chain(text[len - 8..].iter().copied()));
    put(&mut object, header(section) + 24, at);
    put(&mut object, header(section) + 32, 8 * slots);
    if function {
        let symtab = (1..count).find(|&index| number::<4>(&object, header(index) + 4) == 2).expect("symbols");
        let (from, len) =
            (number::<8>(&object, header(symtab) + 24), number::<8>(&object, header(symtab) + 32));
        let last = (from..from + len)
            .step_by(24)
            .filter(|&at| object[at + 4] & 15 == 2 && number::<2>(&object, at + 6) == section)
            .max_by_key(|&at| number::<8>(&object, at + 8))
            .expect("the section has a function");
        let value = number::<8>(&object, last + 8);
        put(&mut object, last + 16, 8 * slots - value);
    }
    object
}

/// Runs a command to its end, and tells the most memory that it took, in bytes.
#[allow(clippy::zombie_processes, reason = "wait4 waits for it, and tells what it took")]
fn measured(folder: &Folder, line: &str) -> (Done, u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = folder.command(&words);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both places are ours, and no other code waits for the child.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(child.id().cast_signed(), &raw mut status, 0, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    assert_eq!(pid, child.id().cast_signed(), "the child has ended");
    assert!(libc::WIFEXITED(status), "no signal ends it: {status}");
    (Done { code: libc::WEXITSTATUS(status), out, err }, usage.ru_maxrss.cast_unsigned() << 10)
}

fn refused_soon(folder: &Folder, words: &[&str]) {
    for line in
        ["check ./big.bpf.o", "sim -s ./big.bpf.o -w cpuhog", "compare -s eevdf,./big.bpf.o -w cpuhog"]
    {
        let start = Instant::now();
        let (done, memory) = measured(folder, line);
        let time = start.elapsed();
        done.refused(2, words);
        assert!(time < MOST_TIME, "{line}: {time:?}");
        assert!(memory < MOST_MEMORY, "{line}: {memory} bytes");
    }
}

#[test]
fn thirty_million_instructions() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let object = std::fs::read(folder.path().join("stall.bpf.o")).unwrap();
    folder.write("big.bpf.o", grow(object.clone(), 30_000_000, true));
    refused_soon(&folder, &["./big.bpf.o: 240", "bytes in an object file, the limit is 67108864"]);
    folder.write("big.bpf.o", grow(object.clone(), 8_000_000, false));
    refused_soon(
        &folder,
        &["./big.bpf.o: section ", ": 8000", "instructions in an object, the limit is 2000000"],
    );
    folder.write("big.bpf.o", grow(object.clone(), 1_500_000, true));
    let words = ["./big.bpf.o: section ", ", function `", " instructions in a program, the limit is 1000000"];
    refused_soon(&folder, &words);
    // Much is not too much.
    folder.write("big.bpf.o", grow(object, 900_000, true));
    let (done, memory) = measured(&folder, "sim -s ./big.bpf.o -w cpuhog:ntasks=1,ttime=1ms -c 1");
    assert!(memory < MOST_MEMORY && matches!(done.code, 0 | 4), "{memory} bytes, {done:?}");
}
