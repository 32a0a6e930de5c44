//! What the kernel announces: a message when a kernel object comes or goes, and among these objects a scheduler in charge.
//! Whoever waits for such a message need not look at the scheduler's state again and again.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The kernel's own messages; those that udev has seen are in the second group.
const KERNEL: u32 = 1;

/// A socket that can be read after an announcement; netlink(7), NETLINK_KOBJECT_UEVENT.
pub(crate) struct Uevents(OwnedFd);

impl Uevents {
    /// Listens from now on.
    ///
    /// # Errors
    /// The kernel's reason, such as a sandbox that allows no such socket.
    pub(crate) fn listen() -> io::Result<Uevents> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a system call without pointers.
        let socket = match unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_KOBJECT_UEVENT) } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: the call has just made it, for us alone.
            socket => unsafe { OwnedFd::from_raw_fd(socket) },
        };
        // SAFETY: the address is plain data for which all zeroes is a valid value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = KERNEL;
        let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: reads the address, of this size.
        match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) } {
            0 => Ok(Uevents(socket)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The descriptor to wait for.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Takes all that has been announced; what it was is not asked.
    pub(crate) fn drain(&self) {
        let mut byte = 0u8;
        // A message that found no room is one too: the kernel says ENOBUFS once, and continues with the others.
        loop {
            // SAFETY: writes one byte at most; the rest of the message is discarded.
            let got = unsafe { libc::recv(self.descriptor(), (&raw mut byte).cast(), 1, 0) };
            if got < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::ENOBUFS) {
                return;
            }
        }
    }
}
