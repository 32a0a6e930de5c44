//! The CPUs of a VM that counts instructions, and their turns on the one host thread that executes them all.
//!
//! QEMU lets a CPU execute until the next timer of the guest's clock is due, then the next CPU until the timer after that. Before
//! QEMU 8.1 the next CPU finds the timer due already: it executes nothing, and a CPU that does not halt and sets no timer keeps
//! the others from executing at all. Measured with two tasks that compute on two CPUs: one got all instructions for 60 ms, the
//! other one none.
//!
//! Two things give all CPUs turns of equal length. A timer that the guest does not see is due every [`TURN_US`] thousand
//! instructions, or as many as the job says: that of a filter on a network without members. And behind each CPU but the last stands
//! one that is never started, which is the one that finds the timer due. Later versions divide the time to the next timer by the
//! number of CPUs instead: there the turns are shorter.

use std::process::Command;

/// Length of a turn in thousands of instructions. Chosen: a wakeup on another CPU takes ten thousand, so that a turn is not what
/// is measured; each turn costs the host about the time of eight thousand (QEMU 7.2, 2026-11-29).
pub(super) const TURN_US: u32 = 2;

/// The most CPUs that a VM with turns can have: QEMU's machine has places for 255.
pub(super) const MOST_CPUS: u32 = 128;

/// The guest's CPUs, `count` of them, each instruction of 2^`shift` ns, in turns of so many thousand. What is added to the kernel's
/// command line.
pub(super) fn add_cpus(command: &mut Command, count: u32, shift: u8, turn: u32) -> String {
    if count == 1 {
        command.args(["-smp", "1"]);
        return String::new();
    }
    // The kernel numbers CPUs by their place, QEMU lets them execute in the order of their making.
    let places = 2 * count - 1;
    command.args(["-smp", &format!("1,sockets=1,cores={places},maxcpus={places}")]);
    for cpu in 1..count {
        for place in [count - 1 + cpu, cpu] {
            command.args(["-device", &format!("max-x86_64-cpu,socket-id=0,core-id={place},thread-id=0")]);
        }
    }
    command.args(["-netdev", "hubport,id=turns,hubid=0"]);
    command.args(["-object", &format!("filter-buffer,id=turn,netdev=turns,interval={}", turn << shift)]);
    format!(" nr_cpus={count}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(count: u32, shift: u8) -> (Vec<String>, String) {
        let mut command = Command::new("qemu");
        let line = add_cpus(&mut command, count, shift, TURN_US);
        (command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect(), line)
    }

    #[test]
    fn one_cpu_needs_no_turns() {
        assert_eq!(arguments(1, 3), (vec!["-smp".to_string(), "1".to_string()], String::new()));
    }

    #[test]
    fn a_cpu_that_is_never_started_stands_between_any_two() {
        let (args, line) = arguments(3, 1);
        let place = |arg: &String| arg.split("core-id=").nth(1)?.split(',').next()?.parse::<u32>().ok();
        // The first one is the machine's own, at place 0.
        assert_eq!(args.iter().filter_map(place).collect::<Vec<_>>(), [3, 1, 4, 2]);
        assert_eq!(line, " nr_cpus=3");
        assert!(args.last().is_some_and(|arg| arg.ends_with("interval=4")), "{args:?}");
    }
}
