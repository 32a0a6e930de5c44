//! Two devices of QEMU's that need no driver of the guest's kernel: they are spoken to by I/O ports, and answer at once, so that
//! what they take is the same in each run of a machine that counts instructions.

use instructions::allow;
use std::io;

/// Ports of the configuration device: an item is chosen at the first and read from the second, byte by byte (QEMU's
/// `docs/specs/fw_cfg.rst`).
const SELECT: u16 = 0x510;
const DATA: u16 = 0x511;
/// The item that lists the files among the items.
const DIRECTORY: u16 = 0x19;
/// Bytes of a file's entry there: size (4), item (2), reserved (2), name (56); numbers are big-endian.
const ENTRY: usize = 64;

/// Port of the device that reports a panic, and the bit of one (QEMU's `docs/specs/pvpanic.rst`). QEMU is configured to stop the
/// machine then.
const PANIC: u16 = 0x505;
const PANICKED: u8 = 1;

/// Stops this machine; returns when it is resumed.
///
/// # Errors
/// The ports are not ours to use.
pub(super) fn stop() -> io::Result<()> {
    allow(PANIC, 1)?;
    instructions::write_byte(PANIC, PANICKED);
    Ok(())
}

/// Reads a file of the configuration device.
///
/// # Errors
/// The ports are not ours to use, or there is no such file.
pub(super) fn item(name: &str) -> io::Result<Vec<u8>> {
    allow(SELECT, 2)?;
    instructions::write_word(SELECT, DIRECTORY);
    let count = u32::from_be_bytes(read(4).try_into().unwrap_or_default());
    for _ in 0..count {
        let entry = read(ENTRY);
        let size = u32::from_be_bytes(*entry.first_chunk().unwrap_or(&[0; 4]));
        if entry[8..].split(|byte| *byte == 0).next() == Some(name.as_bytes()) {
            instructions::write_word(SELECT, u16::from_be_bytes([entry[4], entry[5]]));
            return Ok(read(size as usize));
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("QEMU's configuration device has no {name}")))
}

fn read(count: usize) -> Vec<u8> {
    let mut bytes = vec![0_u8; count];
    instructions::read(DATA, &mut bytes);
    bytes
}

/// The instructions of x86-64 that speak to ports; the caller has been allowed the port.
#[cfg(target_arch = "x86_64")]
mod instructions {
    use std::arch::asm;
    use std::io;

    pub(super) fn allow(port: u16, count: u16) -> io::Result<()> {
        // SAFETY: a plain system call; it lets this thread use these ports.
        match unsafe { libc::ioperm(port.into(), count.into(), 1) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn write_byte(port: u16, byte: u8) {
        // SAFETY: the instruction touches no memory; a port that is not allowed ends the process.
        unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack, preserves_flags)) }
    }

    pub(super) fn write_word(port: u16, word: u16) {
        // SAFETY: as above.
        unsafe { asm!("out dx, ax", in("dx") port, in("ax") word, options(nomem, nostack, preserves_flags)) }
    }

    pub(super) fn read(port: u16, bytes: &mut [u8]) {
        // SAFETY: as above, and as many bytes are written as the slice has.
        unsafe {
            asm!("rep insb", in("dx") port, inout("rcx") bytes.len() => _,
                inout("rdi") bytes.as_mut_ptr() => _, options(nostack, preserves_flags));
        }
    }
}

/// Where there are no ports, none is allowed. The host's side refuses a VM there, so that nothing asks.
#[cfg(not(target_arch = "x86_64"))]
mod instructions {
    use std::io;

    pub(super) fn allow(_: u16, _: u16) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn write_byte(_: u16, _: u8) {}

    pub(super) fn write_word(_: u16, _: u16) {}

    pub(super) fn read(_: u16, _: &mut [u8]) {}
}
