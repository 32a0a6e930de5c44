//! The traced process: its threads' registers and memory, by ptrace(2). All unsafe code that looks at it is here.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A thread's number in the system.
pub(crate) type Tid = libc::pid_t;

/// Bytes below the stack pointer that compiled code may use (`red zone` of the x86-64 ABI), and room for what is put there.
const RED_ZONE: u64 = 128;
const SCRATCH: u64 = 1024;

/// Longest text that is read, as the kernel's `PATH_MAX`.
const TEXT: usize = 4096;

/// Why a thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before a system call is carried out.
    Entry,
    /// After one.
    Exit,
    /// The thread has made this thread.
    Clone(Tid),
    /// The thread is about to be given this signal.
    Signal(i32),
    /// The thread is gone: its exit code, or the signal that ended it.
    Gone(Result<i32, i32>),
    /// Something that needs no answer.
    Other,
}

/// A system call as the kernel was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The call's number; -1 for one of another instruction set.
    pub(crate) nr: i64,
    /// The call's arguments.
    pub(crate) args: [u64; 6],
}

/// One thread of the traced process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracee(pub(crate) Tid);

fn ptrace(request: libc::c_uint, tid: Tid, addr: u64, data: u64) -> io::Result<i64> {
    // SAFETY: addr and data are numbers, or point to live buffers of the callers below, of the size that the request takes.
    let result = unsafe { libc::ptrace(request, tid, addr, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Waits for the thread of this number, or for one of the group of minus this number: its number and status.
fn wait_for(which: libc::pid_t) -> io::Result<(Tid, libc::c_int)> {
    let mut status = 0;
    loop {
        // SAFETY: status outlives the call.
        let found = unsafe { libc::waitpid(which, &raw mut status, libc::__WALL) };
        if found > 0 {
            return Ok((found, status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

impl Tracee {
    /// Waits for the thread to stop.
    pub(crate) fn wait(self) -> io::Result<Stop> {
        self.stop(wait_for(self.0)?.1)
    }

    /// Waits for a thread of the process that this is the first of, which leads its process group: which one, and its status.
    pub(crate) fn wait_for_any(self) -> io::Result<(Tracee, libc::c_int)> {
        wait_for(-self.0).map(|(tid, status)| (Tracee(tid), status))
    }

    /// What a status of the thread means.
    pub(crate) fn stop(self, status: libc::c_int) -> io::Result<Stop> {
        if libc::WIFEXITED(status) {
            return Ok(Stop::Gone(Ok(libc::WEXITSTATUS(status))));
        }
        if libc::WIFSIGNALED(status) {
            return Ok(Stop::Gone(Err(libc::WTERMSIG(status))));
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        Ok(match (signal, event) {
            (signal, 0) if signal == libc::SIGTRAP | 0x80 => self.call_stop()?,
            (libc::SIGTRAP, libc::PTRACE_EVENT_CLONE) => Stop::Clone(self.message()? as Tid),
            (_, 0) => Stop::Signal(signal),
            _ => Stop::Other,
        })
    }

    fn call_stop(self) -> io::Result<Stop> {
        let info = self.info()?;
        Ok(if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY { Stop::Entry } else { Stop::Exit })
    }

    fn info(self) -> io::Result<libc::ptrace_syscall_info> {
        // SAFETY: plain numbers, for which zero is a value.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::ptrace_syscall_info>() as u64;
        ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.0, size, &raw mut info as u64)?;
        Ok(info)
    }

    fn message(self) -> io::Result<u64> {
        let mut message: libc::c_ulong = 0;
        ptrace(libc::PTRACE_GETEVENTMSG, self.0, 0, &raw mut message as u64)?;
        Ok(message)
    }

    /// What is asked of the kernel, at an entry.
    pub(crate) fn call(self) -> io::Result<Call> {
        /// `AUDIT_ARCH_X86_64`.
        const X86_64: u32 = 0xc000_003e;
        let info = self.info()?;
        // SAFETY: at an entry, which the caller has seen, this part is valid.
        let entry = unsafe { info.u.entry };
        let nr = if info.arch == X86_64 { entry.nr as i64 } else { -1 };
        Ok(Call { nr, args: entry.args })
    }

    /// The thread's registers.
    pub(crate) fn registers(self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: plain numbers, for which zero is a value.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.0, 0, &raw mut registers as u64)?;
        Ok(registers)
    }

    /// Changes them.
    pub(crate) fn set_registers(self, registers: &libc::user_regs_struct) -> io::Result<()> {
        ptrace(libc::PTRACE_SETREGS, self.0, 0, std::ptr::from_ref(registers) as u64).map(drop)
    }

    /// At an entry: has another call made in its place.
    pub(crate) fn replace(self, call: Call) -> io::Result<()> {
        let mut registers = self.registers()?;
        registers.orig_rax = call.nr as u64;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = call.args;
        self.set_registers(&registers)
    }

    /// At an exit: what the call has given.
    pub(crate) fn result(self) -> io::Result<i64> {
        Ok(self.registers()?.rax as i64)
    }

    /// At an exit: the call gives this, and its arguments are what they were.
    pub(crate) fn finish(self, call: &Call, result: i64) -> io::Result<()> {
        let mut registers = self.registers()?;
        registers.rax = result as u64;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = call.args;
        self.set_registers(&registers)
    }

    /// At an exit: the call is made again when the thread is resumed.
    pub(crate) fn again(self, call: &Call) -> io::Result<()> {
        let mut registers = self.registers()?;
        registers.rax = call.nr as u64;
        // The instruction `syscall` has two bytes.
        registers.rip = registers.rip.wrapping_sub(2);
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = call.args;
        self.set_registers(&registers)
    }

    /// Resumes the thread up to its next stop, with a signal unless that is 0.
    pub(crate) fn go_on(self, signal: i32) -> io::Result<()> {
        ptrace(libc::PTRACE_SYSCALL, self.0, 0, signal as u64).map(drop)
    }

    /// Has system calls and new threads stop it, and itself end with the process that traces it.
    pub(crate) fn set_options(self) -> io::Result<()> {
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_EXITKILL
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK;
        ptrace(libc::PTRACE_SETOPTIONS, self.0, 0, options as u64).map(drop)
    }

    /// Copies from its memory: the bytes up to the first that it does not have.
    pub(crate) fn read_some(self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; len];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: len };
        // SAFETY: the local part is the buffer; the remote part is checked by the kernel.
        let count = unsafe { libc::process_vm_readv(self.0, &raw const local, 1, &raw const remote, 1, 0) };
        bytes.truncate(usize::try_from(count).unwrap_or(0));
        bytes
    }

    /// Copies from its memory; nothing unless it has all of it.
    pub(crate) fn read(self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let all = |bytes: &Vec<u8>| bytes.len() == len;
        Some(self.read_some(addr, len)).filter(all).or_else(|| {
            self.extend_stack(addr)?;
            Some(self.read_some(addr, len)).filter(all)
        })
    }

    /// Has the stack reach down to this address, as an access by the kernel does: copies between processes do not. Nothing: the
    /// address is no place for a stack.
    fn extend_stack(self, addr: u64) -> Option<()> {
        ptrace(libc::PTRACE_PEEKDATA, self.0, addr & !7, 0).ok().map(drop)
    }

    /// A number of `N` bytes in its memory.
    pub(crate) fn number<const N: usize>(self, addr: u64) -> Option<u64> {
        let bytes = self.read(addr, N)?;
        let mut word = [0; 8];
        word[..N].copy_from_slice(&bytes);
        Some(u64::from_le_bytes(word))
    }

    /// Copies into its memory, where it may write.
    pub(crate) fn write(self, addr: u64, bytes: &[u8]) -> Option<()> {
        self.write_mapped(addr, bytes).or_else(|| {
            self.extend_stack(addr)?;
            self.write_mapped(addr, bytes)
        })
    }

    fn write_mapped(self, addr: u64, bytes: &[u8]) -> Option<()> {
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: as above; the local buffer is only read.
        let count = unsafe { libc::process_vm_writev(self.0, &raw const local, 1, &raw const remote, 1, 0) };
        (usize::try_from(count) == Ok(bytes.len())).then_some(())
    }

    /// A text that ends with a zero byte; nothing for one that is longer than a path can be.
    pub(crate) fn text(self, addr: u64) -> Option<String> {
        let mut text = Vec::new();
        while text.len() < TEXT {
            // Never beyond the page, which may be the last one.
            let at = addr.checked_add(text.len() as u64)?;
            let piece = self.read_some(at, (4096 - at % 4096) as usize);
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                return String::from_utf8(text).ok();
            }
            if piece.is_empty() {
                return None;
            }
        }
        None
    }

    /// Puts a few bytes where the stopped thread does not use its stack, for the next call to read: where they are.
    pub(crate) fn scratch(self, bytes: &[u8]) -> Option<u64> {
        debug_assert!(bytes.len() as u64 <= SCRATCH - RED_ZONE, "chosen larger than what is put there");
        let at = self.registers().ok()?.rsp.wrapping_sub(SCRATCH) & !15;
        self.write(at, bytes)?;
        Some(at)
    }

    /// A second descriptor here for one that the process has.
    pub(crate) fn take_descriptor(self, process: Tid, fd: i32) -> io::Result<OwnedFd> {
        let own = |fd: i64| {
            let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
            // SAFETY: the kernel has just made it for us alone.
            Ok::<OwnedFd, io::Error>(unsafe { OwnedFd::from_raw_fd(fd) })
        };
        use std::os::fd::AsRawFd;
        // SAFETY: numbers only.
        let pidfd = own(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
        // SAFETY: as above.
        own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0) })
    }

    /// Ends the process.
    pub(crate) fn kill(self) {
        // SAFETY: numbers only; the process is our child and not reaped yet, so that the number is its own.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}
