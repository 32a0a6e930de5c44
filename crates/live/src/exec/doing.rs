//! What a task was doing when something failed: a number in shared memory, and words for people.

use std::io;

use schedlab_base::Policy;

/// What was being done when something failed; kept as a number in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Doing {
    Objects = 1,
    Spawn,
    Policy,
    Reservation,
    Affinity,
    Send,
    Receive,
    Semaphore,
    Lock,
    Poll,
    Signal,
    Fork,
    Exec,
    Wait,
    Hotplug,
    Groups,
    Identity,
    Memory,
    /// A task's process ended in a way that no operation asks for.
    Crash,
}

impl Doing {
    const ALL: [Doing; 19] = [
        Doing::Objects,
        Doing::Spawn,
        Doing::Policy,
        Doing::Reservation,
        Doing::Affinity,
        Doing::Send,
        Doing::Receive,
        Doing::Semaphore,
        Doing::Lock,
        Doing::Poll,
        Doing::Signal,
        Doing::Fork,
        Doing::Exec,
        Doing::Wait,
        Doing::Hotplug,
        Doing::Groups,
        Doing::Identity,
        Doing::Memory,
        Doing::Crash,
    ];

    pub(super) fn from_number(number: u32) -> Option<Doing> {
        Doing::ALL.into_iter().find(|doing| *doing as u32 == number)
    }

    /// In words, to follow the name of a task.
    pub(super) fn words(self) -> &'static str {
        match self {
            Doing::Objects => {
                "making pipes, sockets, queues, semaphores and files (POSIX queues: EMFILE is `ulimit -q`, EINVAL is /proc/sys/fs/mqueue/msg_max)"
            }
            Doing::Spawn => "starting tasks",
            Doing::Policy => "setting nice value and policy (real-time and negative nice take root)",
            Doing::Reservation => {
                "asking for SCHED_DEADLINE (EBUSY: more than the CPUs have left; EPERM: not root, or not allowed on all CPUs)"
            }
            Doing::Affinity => "setting the affinity (does this machine have these CPUs?)",
            Doing::Send => "sending",
            Doing::Receive => "receiving",
            Doing::Semaphore => "using a semaphore",
            Doing::Lock => "using a lock",
            Doing::Poll => "polling",
            Doing::Signal => "sending a signal",
            Doing::Fork => "forking",
            Doing::Exec => "replacing the process image",
            Doing::Wait => "waiting for a child",
            Doing::Hotplug => "taking a CPU offline or back (it takes root, and a CPU besides 0)",
            Doing::Groups => {
                "making or changing a group (cgroup v2; it takes root, or a subtree that is yours)"
            }
            Doing::Identity => {
                "becoming another user (EPERM: root lacks CAP_SETUID, CAP_SETGID or CAP_SETPCAP here)"
            }
            Doing::Memory => "mapping the memory that `touch` walks",
            Doing::Crash => "running (its process was killed or crashed)",
        }
    }
}

/// What setting this policy is.
pub(super) fn of_policy(policy: Policy) -> Doing {
    if policy.reservation().is_some() { Doing::Reservation } else { Doing::Policy }
}

/// A failed operation.
pub(super) struct Failure(pub(super) Doing, pub(super) io::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_words() {
        for doing in Doing::ALL {
            assert_eq!(Doing::from_number(doing as u32), Some(doing));
            assert!(!doing.words().is_empty());
        }
        assert_eq!(Doing::from_number(0), None);
    }
}
