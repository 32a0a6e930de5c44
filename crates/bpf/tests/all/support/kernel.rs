//! The running kernel's BPF, reached by bpf(2), as a second opinion.
//!
//! A program runs as a subprogram of a small `BPF_PROG_TYPE_SYSCALL` program, whose context is any memory up to 64 KiB and
//! comes back changed; the wrapper stores the full 64-bit r0 behind the memory.

use super::Outcome;
use schedlab_bpf::Insn;
use schedlab_bpf::insn::op;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_PROG_TYPE_SYSCALL: u32 = 31;
const BPF_F_SLEEPABLE: u32 = 1 << 4;
const BPF_MAP_TYPE_ARENA: u32 = 33;
const BPF_F_MMAPABLE: u32 = 1 << 10;
/// Source field of a 64-bit immediate load: a map's descriptor.
const BPF_PSEUDO_MAP_FD: u8 = 1;

/// The members of `union bpf_attr` for BPF_MAP_CREATE, up to `map_extra`.
#[repr(C)]
#[derive(Default)]
struct MapAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    unused: [u32; 11],
    map_extra: u64,
}

/// The leading members of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// The members of `union bpf_attr` for BPF_PROG_TEST_RUN.
#[repr(C)]
#[derive(Default)]
struct RunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> Result<i32, Error> {
    // SAFETY: `attr` is a live, properly laid out attribute of the given size; the pointers in it are to buffers that
    // the callers below keep alive over the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result as i32) }
}

/// A program that the kernel accepted.
pub(crate) struct Loaded {
    fd: OwnedFd,
    memory_len: usize,
}

/// Why the kernel did not accept a program: the error, and the end of the verifier's log.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: Error,
    pub(crate) log: String,
}

/// An arena of the kernel, mapped where the machine has its own.
pub(crate) struct Arena {
    fd: OwnedFd,
    len: usize,
}

impl Arena {
    /// An arena of so many pages at user address `base`, none of them allocated.
    pub(crate) fn new(base: u64, pages: u32) -> Result<Arena, Error> {
        let mut attr = MapAttr {
            map_type: BPF_MAP_TYPE_ARENA,
            max_entries: pages,
            map_flags: BPF_F_MMAPABLE,
            map_extra: base,
            ..MapAttr::default()
        };
        let fd = bpf(BPF_MAP_CREATE, &mut attr)?;
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let len = pages as usize * 4096;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping that replaces no other one; only `page` touches it.
        let at = unsafe { libc::mmap(base as *mut _, len, protection, flags, fd.as_raw_fd(), 0) };
        if at as u64 == base { Ok(Arena { fd, len }) } else { Err(Error::last_os_error()) }
    }

    /// A page's content, by its user address; touching it allocates it.
    pub(crate) fn page(&mut self, addr: u64) -> &mut [u8; 4096] {
        // SAFETY: callers name a page of the arena, which stays mapped; test programs run only between calls.
        unsafe { &mut *(addr as *mut [u8; 4096]) }
    }

    /// Unmaps the arena, so that the address can be used again.
    pub(crate) fn remove(self, base: u64) {
        // SAFETY: no reference to the mapping outlives `page`'s borrow of the arena, which is gone.
        unsafe { libc::munmap(base as *mut _, self.len) };
    }
}

/// Loads a program that will be given memory of this length.
pub(crate) fn load(slots: &[Insn], memory_len: usize) -> Result<Loaded, Refusal> {
    load_with(slots, memory_len, None)
}

/// As `load`; the program may use the arena.
pub(crate) fn load_with(slots: &[Insn], memory_len: usize, arena: Option<&Arena>) -> Result<Loaded, Refusal> {
    let result_at = memory_len.next_multiple_of(8) as i16;
    // Naming the arena once lets the whole program use it.
    let arena = arena.map(|arena| Insn::ld_imm64(0, BPF_PSEUDO_MAP_FD, arena.fd.as_raw_fd() as u64));
    let mut wrapped: Vec<Insn> = arena.into_iter().flatten().collect();
    wrapped.extend([
        Insn::alu64_reg(op::MOV, 6, 1),
        Insn::alu64_imm(op::MOV, 2, memory_len as i32),
        Insn::call_local(3),
        Insn::store(op::DW, 6, result_at, 0),
        Insn::alu64_imm(op::MOV, 0, 0),
        Insn::exit(),
    ]);
    wrapped.extend(slots);
    let bytes: Vec<u8> = wrapped.iter().flat_map(|insn| insn.to_bytes()).collect();
    // The log costs time, so it is asked for only after a refusal.
    let mut log = vec![0_u8; 1 << 20];
    let mut attempt = |level: u32| {
        let mut attr = LoadAttr {
            prog_type: BPF_PROG_TYPE_SYSCALL,
            insn_cnt: wrapped.len() as u32,
            insns: bytes.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level: level,
            log_size: if level == 0 { 0 } else { log.len() as u32 },
            log_buf: if level == 0 { 0 } else { log.as_mut_ptr() as u64 },
            prog_flags: BPF_F_SLEEPABLE,
            ..LoadAttr::default()
        };
        bpf(BPF_PROG_LOAD, &mut attr)
    };
    match attempt(0) {
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        Ok(fd) => Ok(Loaded { fd: unsafe { OwnedFd::from_raw_fd(fd) }, memory_len }),
        Err(error) => {
            let _ = attempt(1);
            let text = String::from_utf8_lossy(&log);
            let text = text.trim_end_matches('\0').trim_end();
            let lines: Vec<&str> = text.lines().rev().take(6).collect();
            let log = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
            Err(Refusal { error, log })
        }
    }
}

impl Loaded {
    /// Runs the program with r1 = address and r2 = length of a copy of this memory.
    pub(crate) fn run(&self, memory: &[u8]) -> Result<Outcome, Error> {
        assert_eq!(memory.len(), self.memory_len, "the memory that the program was loaded for");
        let result_at = memory.len().next_multiple_of(8);
        let mut context = memory.to_vec();
        context.resize(result_at + 8, 0);
        let mut attr = RunAttr {
            prog_fd: self.fd.as_raw_fd() as u32,
            ctx_size_in: context.len() as u32,
            ctx_in: context.as_mut_ptr() as u64,
            ..RunAttr::default()
        };
        bpf(BPF_PROG_TEST_RUN, &mut attr)?;
        let r0 = u64::from_le_bytes(context[result_at..].try_into().expect("eight bytes"));
        context.truncate(memory.len());
        Ok(Outcome { r0, memory: context })
    }
}

/// Whether the kernel runs the simplest program; if not, why, for people.
pub(crate) fn available() -> Result<(), String> {
    let program = [Insn::alu64_imm(op::MOV, 0, 42), Insn::exit()];
    let loaded =
        load(&program, 0).map_err(|refusal| format!("BPF_PROG_LOAD: {} {}", refusal.error, refusal.log))?;
    let outcome = loaded.run(&[]).map_err(|error| format!("BPF_PROG_TEST_RUN: {error}"))?;
    if outcome.r0 == 42 { Ok(()) } else { Err(format!("the kernel's r0 is {} instead of 42", outcome.r0)) }
}
