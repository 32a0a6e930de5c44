//! Calls that are left to the host, with the arguments that they may have: stated once, for the seccomp filter and for what
//! traces a scheduler's own program.

use libc::c_long;

/// What one argument of a call may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// One of these values, of 32 bits.
    OneOf(&'static [u64]),
    /// Only bits of this mask.
    Within(u64),
}

/// A call, which of its arguments is looked at (the first is 0), and what it may be. A call with several rows has to keep all.
pub const PASSED: &[(c_long, u8, Allowed)] = &[
    (libc::SYS_madvise, 2, Allowed::OneOf(ADVICE)),
    (libc::SYS_mremap, 3, Allowed::Within((libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64)),
    (libc::SYS_mprotect, 2, Allowed::Within((libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64)),
    (libc::SYS_msync, 2, Allowed::Within((libc::MS_ASYNC | libc::MS_SYNC | libc::MS_INVALIDATE) as u64)),
    // Without an address a message stays in its pair of sockets.
    (libc::SYS_sendto, 4, Allowed::Within(0)),
    (libc::SYS_socketpair, 0, Allowed::OneOf(&[libc::AF_UNIX as u64])),
];

/// Advice on memory that concerns the caller alone. What takes pages from use, gives them to others, or reports them broken is
/// not among it.
const ADVICE: &[u64] = &[
    libc::MADV_NORMAL as u64,
    libc::MADV_RANDOM as u64,
    libc::MADV_SEQUENTIAL as u64,
    libc::MADV_WILLNEED as u64,
    libc::MADV_DONTNEED as u64,
    libc::MADV_FREE as u64,
    libc::MADV_DONTFORK as u64,
    libc::MADV_DOFORK as u64,
    libc::MADV_HUGEPAGE as u64,
    libc::MADV_NOHUGEPAGE as u64,
    libc::MADV_DONTDUMP as u64,
    libc::MADV_DODUMP as u64,
];

/// True unless a row of [`PASSED`] forbids this call.
pub fn allows(call: c_long, args: &[u64; 6]) -> bool {
    let of_call = PASSED.iter().filter(|(nr, ..)| *nr == call);
    of_call.into_iter().all(|(_, place, allowed)| {
        let value = args[usize::from(*place)];
        match allowed {
            // The kernel looks at 32 bits of a number of this kind.
            Allowed::OneOf(values) => values.contains(&(value & u64::from(u32::MAX))),
            Allowed::Within(mask) => value & !mask == 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row refuses something, and takes what it states.
    #[test]
    fn each_row_refuses_by_its_argument() {
        for (call, place, allowed) in PASSED {
            let with = |value: u64| {
                let mut args = [0; 6];
                // Other rows of the call are kept.
                for (_, other, allowed) in PASSED.iter().filter(|(nr, ..)| nr == call) {
                    if let Allowed::OneOf(values) = allowed {
                        args[usize::from(*other)] = values[0];
                    }
                }
                args[usize::from(*place)] = value;
                allows(*call, &args)
            };
            match allowed {
                Allowed::OneOf(values) => {
                    assert!(values.iter().all(|value| with(*value)), "{call}");
                    assert!((0..200).any(|value| !with(value)), "{call} refuses something");
                }
                Allowed::Within(mask) => {
                    assert!(with(0) && with(*mask), "{call}");
                    assert!(!with(mask | 1 << 20) || mask >> 20 & 1 == 1, "{call}");
                    assert!(!with(1 << 40), "{call}");
                }
            }
        }
        assert!(allows(libc::SYS_getpid, &[9; 6]), "other calls are not looked at here");
    }
}
