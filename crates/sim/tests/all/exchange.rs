//! No wakeup is lost: random programs whose operations match never get stuck.
//!
//! Operations are dealt out from one global order (a send and its receive, a post
//! and its wait, a barrier of all). Whatever the interleaving, the earliest
//! unfinished one can always continue, so a run that gets stuck has lost a wakeup.

use crate::common::Minimal;
use schedlab_base::{DurationNs, Machine, Policy, Prng};
use schedlab_sim::{Class, Config, run};
use schedlab_workload::{
    BarrierId, Channel, ChannelId, ChannelKind, Disk, DiskId, End, Identity, LockId, LockKind, Op, PollId,
    PollKind, PollSet, ProcessId, Program, ProgramId, Scenario, SemId, SemKind, Semaphore, TaskSpec,
    TimerSlot, Watched,
};

const KINDS: [ChannelKind; 5] =
    [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::SysvQueue, ChannelKind::PosixQueue];
const POLLS: [PollKind; 3] = [PollKind::Select, PollKind::Poll, PollKind::Epoll];
const LOCKS: [LockKind; 3] = [LockKind::Futex, LockKind::FutexPi, LockKind::Flock];

/// Adds one matching pair of operations (or one of a task alone).
fn deal(prng: &mut Prng, scenario: &Scenario, programs: &mut [Vec<Op>]) {
    let tasks = programs.len() as u64;
    let one = prng.below(tasks) as usize;
    match prng.below(12) {
        0..=4 => {
            // One reader and one writer for each channel: what a later send leaves in
            // it could keep an earlier one from ever finding room.
            let channel = ChannelId(prng.below(scenario.channels.len() as u64) as u32);
            let capacity = scenario.channels[channel.index()].capacity;
            let queue = scenario.channels[channel.index()].kind.is_message_based();
            let bytes = if queue { capacity.div_ceil(3) } else { 1 + prng.below(u64::from(capacity)) as u32 };
            let reader = channel.index() % programs.len();
            let writer = (channel.index() + 1 + channel.index() % 2) % programs.len();
            if writer != reader {
                programs[writer].push(Op::Send { channel, bytes });
                let watched = Watched::Channel(channel);
                let set = scenario.polls.iter().position(|set| set.watched.contains(&watched));
                if let Some(set) = set.filter(|_| prng.chance(1, 3)) {
                    programs[reader].push(Op::Poll(PollId(set as u32)));
                }
                programs[reader].push(Op::Recv { channel, bytes });
            }
        }
        5 | 6 => {
            let sem = SemId(prng.below(scenario.semaphores.len() as u64) as u32);
            let waiter = sem.index() % programs.len();
            if one != waiter {
                let units = 1 + prng.below(3) as u32;
                programs[one].push(Op::SemPost { sem, units });
                programs[waiter].extend((0..units).map(|_| Op::SemWait(sem)));
            }
        }
        7 => programs[one].push(Op::Run(DurationNs::from_us(prng.below(200)))),
        8 => programs[one].push(Op::Sleep(DurationNs::from_us(prng.below(300)))),
        9 => {
            let lock = LockId(prng.below(2) as u32);
            let inside = [Op::Run(DurationNs::from_us(20)), Op::Yield, Op::Sleep(DurationNs::from_us(30))];
            let shared = scenario.locks[lock.index()].is_file() && prng.chance(1, 2);
            let take = if shared { Op::LockShared(lock) } else { Op::Lock(lock) };
            programs[one].extend([take, inside[prng.below(3) as usize], Op::Unlock(lock)]);
        }
        10 if prng.chance(1, 4) => programs.iter_mut().for_each(|ops| ops.push(Op::Barrier(BarrierId(0)))),
        10 => {
            let period = DurationNs::from_us(50 + prng.below(100));
            programs[one].push(Op::TimerWait { timer: TimerSlot(1), period, absolute: prng.chance(1, 2) });
        }
        _ => programs[one].push(Op::Io { disk: DiskId(0), service: DurationNs::from_us(prng.below(80)) }),
    }
}

fn random_scenario(seed: u64) -> Scenario {
    let mut prng = Prng::new(seed);
    let mut scenario = Scenario::empty("random", End::AllExit);
    let tasks = 2 + prng.below(6) as usize;
    for channel in 0..4 {
        let capacity = [1, 7, 100, 5000, 65_536][prng.below(5) as usize];
        let kind = KINDS[prng.below(5) as usize];
        if kind != ChannelKind::SysvQueue && prng.chance(1, 2) {
            let watched = vec![Watched::Channel(ChannelId(channel))];
            scenario.polls.push(PollSet { kind: POLLS[prng.below(3) as usize], watched });
        }
        let peer = None;
        scenario.channels.push(Channel { kind, capacity: capacity.max(channel), peer });
    }
    scenario.semaphores =
        [SemKind::Sysv, SemKind::EventFd].map(|kind| Semaphore { kind, initial: 0 }).to_vec();
    scenario.locks = (0..2).map(|_| LOCKS[prng.below(3) as usize]).collect();
    scenario.barriers = vec![tasks as u32];
    scenario.disks = vec![Disk {}];
    let mut programs = vec![Vec::new(); tasks];
    for _ in 0..120 {
        deal(&mut prng, &scenario, &mut programs);
    }
    for (number, ops) in programs.into_iter().enumerate() {
        scenario.programs.push(Program::new(ops).unwrap());
        scenario.tasks.push(TaskSpec {
            name: format!("t{number}"),
            program: ProgramId(number as u32),
            process: ProcessId(number as u32 / 2),
            nice: Default::default(),
            policy: if prng.chance(1, 4) { Policy::Fifo(1 + number as u8 % 3) } else { Policy::Other },
            slice: None,
            affinity: None,
            working_set_kib: 4,
            background: false,
            group: None,
            kernel_thread: false,
            identity: Identity::default(),
        });
    }
    scenario
}

#[test]
fn matching_programs_never_get_stuck() {
    for seed in 0..400 {
        let scenario = random_scenario(seed);
        let cpus = 1 + seed as usize % 4;
        let mut config = Config::new(Machine::uniform("test", cpus), seed);
        config.checkers = true;
        let result = run(&config, &scenario, Class::<Minimal>::Fair);
        let result = result.unwrap_or_else(|error| panic!("seed {seed} on {cpus} CPUs: {error}"));
        assert!(result.tasks.iter().all(|task| task.cpu_time > DurationNs::ZERO || result.duration.0 == 0));
    }
}
