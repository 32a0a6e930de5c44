//! A task that replaces its process image and continues.
//!
//! Before `execve` it writes down where it is into a memory file; the new image, which is the same
//! program again, finds the file's number in its arguments and continues.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use schedlab_base::{CpuId, CpuMask, DurationNs, MAX_CPUS, Nice, Policy, Reservation};
use schedlab_workload::{
    Amount, Attribute, BarrierId, CURSOR_WORDS, ChangeId, ChannelId, CondId, CounterId, Cursor, DiskId,
    GroupChangeId, GroupId, ListenerId, LockId, MAX_TIMERS, Op, PollId, Program, ProgramId, SemId, SpanId,
    TaskRef, TimerSlot, Watched, WordId,
};

use super::channels::{keep_open, memory_file};
use super::groups::GroupFiles;
use super::handles::{Handles, decode_watched, encode_watched};
use super::shared::{Counts, Shared};
use super::spin::SpinRate;
use super::system;
use super::task::{Context, RunningTask};
use super::words::Words;

/// Name under which a continued task is started.
const NAME: &str = "schedlab-task";

/// Replaces the process image; returns only when that fails.
pub(super) fn exec(task: &RunningTask<'_>) -> io::Error {
    let attempt = || -> io::Result<std::convert::Infallible> {
        let words = encode(task);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let state = memory_file(&bytes)?;
        keep_open(task.context.shared.fd());
        task.context.handles.descriptors().for_each(keep_open);
        let name = CString::new(NAME)?;
        let number = CString::new(state.to_string())?;
        let args = [name.as_ptr(), number.as_ptr(), std::ptr::null()];
        // SAFETY: path and arguments are NUL-terminated, the list ends with null.
        unsafe { libc::execv(c"/proc/self/exe".as_ptr(), args.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    match attempt() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Continues the task that this process was started for; returns if it was started for
/// something else.
pub(crate) fn continue_if_asked() {
    let mut args = std::env::args();
    if args.next().as_deref() != Some(NAME) {
        return;
    }
    let code = args.next().and_then(|arg| arg.parse().ok()).and_then(go_on);
    system::exit_now(code.unwrap_or(1));
}

fn go_on(state: RawFd) -> Option<i32> {
    // SAFETY: the number was given to us by the image before this one, which left it open for us.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(state) });
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    drop(file);
    let state = State::decode(&mut Words::from_bytes(&bytes))?;
    system::set_name(&state.name);
    system::prepare_signals();
    // SAFETY: as above.
    let fd = unsafe { OwnedFd::from_raw_fd(state.shared_fd) };
    let shared = Shared::map(fd, state.counts).ok()?;
    let context = Context {
        shared: &shared,
        programs: &state.programs,
        handles: &state.handles,
        changes: &state.changes,
        groups: &state.groups,
        spans: state.open.len(),
        rate: state.rate,
    };
    let mut task = RunningTask::new(context, state.slot, state.program);
    task.cursor = state.cursor;
    task.noted = state.noted;
    task.ready = state.ready;
    task.answered = state.answered;
    task.open = state.open;
    task.timers = state.timers;
    task.background = state.background;
    Some(task.run_and_record())
}

/// Everything that a task needs to continue.
struct State {
    shared_fd: RawFd,
    counts: Counts,
    rate: SpinRate,
    name: String,
    slot: usize,
    program: usize,
    cursor: Cursor,
    background: bool,
    timers: [u64; MAX_TIMERS],
    changes: Vec<Attribute>,
    open: Vec<u64>,
    noted: Vec<(WordId, u32)>,
    ready: Option<Watched>,
    answered: Option<ChannelId>,
    handles: Handles,
    groups: GroupFiles,
    programs: Vec<Program>,
}

fn encode(task: &RunningTask<'_>) -> Vec<u64> {
    let context = &task.context;
    let counts = context.shared.counts();
    let name = own_name();
    let mut words = vec![
        context.shared.fd() as u64,
        counts.tasks as u64,
        counts.counters as u64,
        counts.locks as u64,
        counts.disks as u64,
        counts.conds as u64,
        counts.barriers as u64,
        counts.words as u64,
        counts.channels as u64,
        counts.groups as u64,
        context.rate.0,
        u64::from_le_bytes(*name.first_chunk().unwrap_or(&[0; 8])),
        u64::from_le_bytes(*name.last_chunk().unwrap_or(&[0; 8])),
        task.slot as u64,
        task.program as u64,
        u64::from(task.background),
    ];
    words.extend(task.cursor.to_words());
    words.extend(task.timers);
    words.push(context.changes.len() as u64);
    words.extend(context.changes.iter().flat_map(encode_change));
    words.push(task.open.len() as u64);
    words.extend(&task.open);
    words.push(task.noted.len() as u64);
    words.extend(task.noted.iter().flat_map(|(word, value)| [u64::from(word.0), u64::from(*value)]));
    let lists = [task.ready, task.answered.map(Watched::Channel)];
    for list in lists {
        words.push(u64::from(list.is_some()));
        words.extend(list.into_iter().flat_map(encode_watched));
    }
    context.handles.encode(&mut words);
    context.groups.encode(&mut words);
    words.push(context.programs.len() as u64);
    for program in context.programs {
        words.push(program.ops().len() as u64);
        words.extend(program.ops().iter().flat_map(encode_op));
    }
    words
}

/// This thread's name, padded with NULs.
fn own_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

impl State {
    fn decode(words: &mut Words) -> Option<State> {
        let shared_fd = words.number()?;
        let counts = Counts {
            tasks: words.size()?,
            counters: words.size()?,
            locks: words.size()?,
            disks: words.size()?,
            conds: words.size()?,
            barriers: words.size()?,
            words: words.size()?,
            channels: words.size()?,
            groups: words.size()?,
        };
        let rate = SpinRate(words.next()?);
        let name = [words.next()?.to_le_bytes(), words.next()?.to_le_bytes()].concat();
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_string();
        Some(State {
            shared_fd,
            counts,
            rate,
            name,
            slot: words.size()?,
            program: words.size()?,
            background: words.flag()?,
            cursor: Cursor::from_words(&words.array::<CURSOR_WORDS>()?)?,
            timers: words.array()?,
            changes: words.list(decode_change)?,
            open: words.list(Words::next)?,
            noted: words.list(|w| Some((WordId(w.short()?), w.short()?)))?,
            ready: words.list(decode_watched)?.pop(),
            answered: match words.list(decode_watched)?.pop() {
                Some(Watched::Channel(channel)) => Some(channel),
                _ => None,
            },
            handles: Handles::decode(words)?,
            groups: GroupFiles::decode(words)?,
            programs: words.list(|w| {
                let ops = w.list(decode_op)?;
                Program::new(ops).ok()
            })?,
        })
    }
}

/// Words of a CPU mask.
const CPU_WORDS: usize = MAX_CPUS / 64;

/// A change as its number and the words of a CPU mask, of which others use the first.
fn encode_change(change: &Attribute) -> [u64; 1 + CPU_WORDS] {
    let mut words = [0; 1 + CPU_WORDS];
    (words[0], words[1]) = match *change {
        Attribute::Policy(Policy::Deadline(reservation)) => {
            (words[2], words[3]) = (reservation.deadline().0, reservation.period().0);
            (8, reservation.runtime().0)
        }
        Attribute::Nice(nice) => (0, i64::from(nice.get()).cast_unsigned()),
        Attribute::Policy(Policy::Other) => (1, 0),
        Attribute::Policy(Policy::Batch) => (2, 0),
        Attribute::Policy(Policy::Idle) => (3, 0),
        Attribute::Policy(Policy::Fifo(priority)) => (4, priority.into()),
        Attribute::Policy(Policy::Rr(priority)) => (5, priority.into()),
        Attribute::Affinity(mask) => {
            words[1..].copy_from_slice(mask.words());
            (6, words[1])
        }
        Attribute::Policy(Policy::Ext) => (7, 0),
        Attribute::Group(group) => (9, group.map_or(0, |group| u64::from(group.0) + 1)),
    };
    words
}

fn decode_change(words: &mut Words) -> Option<Attribute> {
    let number = words.next()?;
    let mask: [u64; CPU_WORDS] = words.array()?;
    let priority = u8::try_from(mask[0]);
    Some(match number {
        0 => Attribute::Nice(Nice::new(mask[0].cast_signed())?),
        1 => Attribute::Policy(Policy::Other),
        2 => Attribute::Policy(Policy::Batch),
        3 => Attribute::Policy(Policy::Idle),
        4 => Attribute::Policy(Policy::Fifo(priority.ok()?)),
        5 => Attribute::Policy(Policy::Rr(priority.ok()?)),
        6 => {
            let mut cpus = CpuMask::EMPTY;
            mask.iter().enumerate().for_each(|(index, word)| cpus.set_word(index, *word));
            Attribute::Affinity(cpus)
        }
        7 => Attribute::Policy(Policy::Ext),
        8 => {
            let [runtime, deadline, period] = [mask[0], mask[1], mask[2]].map(DurationNs);
            Attribute::Policy(Policy::Deadline(Reservation::new(runtime, deadline, period).ok()?))
        }
        9 => {
            Attribute::Group(mask[0].checked_sub(1).and_then(|group| u32::try_from(group).ok()).map(GroupId))
        }
        _ => return None,
    })
}

/// An operation as its number and two arguments.
fn encode_op(op: &Op) -> [u64; 3] {
    match *op {
        Op::Loop(Amount::Times(times)) => [0, times, 0],
        Op::Loop(Amount::Forever) => [1, 0, 0],
        Op::EndLoop => [2, 0, 0],
        Op::Run(span) => [3, span.0, 0],
        Op::RunFor(span) => [27, span.0, 0],
        Op::RunKernel(span) => [42, span.0, 0],
        Op::Fsync { disk, service } => [43, disk.0.into(), service.0],
        Op::Connect { listener, channel: None } => [44, listener.0.into(), 0],
        Op::Connect { listener, channel: Some(channel) } => [45, listener.0.into(), channel.0.into()],
        Op::Accept(listener) => [46, listener.0.into(), 0],
        Op::Close(span) => [47, span.0.into(), 0],
        Op::Late { timer, span } => [48, timer.0.into(), span.0.into()],
        Op::Age { channel, span } => [49, channel.0.into(), span.0.into()],
        Op::Touch { kib } => [4, kib.into(), 0],
        Op::Sleep(span) => [5, span.0, 0],
        Op::Io { disk, service } => [6, disk.0.into(), service.0],
        Op::Send { channel, bytes } => [7, channel.0.into(), bytes.into()],
        Op::Recv { channel, bytes } => [8, channel.0.into(), bytes.into()],
        Op::SemWait(sem) => [9, sem.0.into(), 0],
        Op::SemPost { sem, units } => [10, sem.0.into(), units.into()],
        Op::Lock(lock) => [11, lock.0.into(), 0],
        Op::Unlock(lock) => [12, lock.0.into(), 0],
        Op::Yield => [13, 0, 0],
        Op::Fork { program } => [14, program.0.into(), 0],
        Op::Exec => [15, 0, 0],
        Op::WaitChild => [16, 0, 0],
        Op::Exit => [17, 0, 0],
        Op::Count { counter, units } => [18, counter.0.into(), units.into()],
        Op::SpanBegin(span) => [19, span.0.into(), 0],
        Op::SpanEnd(span) => [20, span.0.into(), 0],
        Op::SemDrain(sem) => [40, sem.0.into(), 0],
        Op::LockShared(lock) => [41, lock.0.into(), 0],
        Op::Poll(set) => [30, set.0.into(), 0],
        Op::RecvReady { bytes } => [31, bytes.into(), 0],
        Op::Answer { bytes } => [32, bytes.into(), 0],
        Op::Kill(task) => [33, task.0.into(), 0],
        Op::SigWait => [34, 0, 0],
        Op::Store { word, value } => [35, word.0.into(), value.into()],
        Op::Advance(word) => [36, word.0.into(), 0],
        Op::Await { word, value, step } => [37, u64::from(word.0) | u64::from(value) << 32, step.0],
        Op::Note(word) => [38, word.0.into(), 0],
        Op::RestartIfChanged(word) => [39, word.0.into(), 0],
        Op::CondWait { cond, lock } => [21, cond.0.into(), lock.0.into()],
        Op::CondSignal(cond) => [22, cond.0.into(), 0],
        Op::CondBroadcast(cond) => [23, cond.0.into(), 0],
        Op::Barrier(barrier) => [24, barrier.0.into(), 0],
        Op::TimerWait { timer, period, absolute: false } => [25, timer.0.into(), period.0],
        Op::Hotplug { cpu, online } => [51, cpu.0.into(), online.into()],
        Op::SetGroup { group, change } => [52, group.0.into(), change.0.into()],
        Op::Set { task: None, change } => [28, change.0.into(), 0],
        Op::Set { task: Some(task), change } => [29, change.0.into(), task.0.into()],
        Op::TimerWait { timer, period, absolute: true } => [26, timer.0.into(), period.0],
    }
}

fn decode_op(words: &mut Words) -> Option<Op> {
    let (number, a, b) = (words.next()?, words.next()?, words.next()?);
    let short = |value: u64| u32::try_from(value).ok();
    Some(match number {
        0 => Op::Loop(Amount::Times(a)),
        1 => Op::Loop(Amount::Forever),
        2 => Op::EndLoop,
        3 => Op::Run(DurationNs(a)),
        27 => Op::RunFor(DurationNs(a)),
        42 => Op::RunKernel(DurationNs(a)),
        43 => Op::Fsync { disk: DiskId(short(a)?), service: DurationNs(b) },
        44 => Op::Connect { listener: ListenerId(short(a)?), channel: None },
        45 => Op::Connect { listener: ListenerId(short(a)?), channel: Some(ChannelId(short(b)?)) },
        46 => Op::Accept(ListenerId(short(a)?)),
        47 => Op::Close(SpanId(short(a)?)),
        48 => Op::Late { timer: TimerSlot(short(a)?), span: SpanId(short(b)?) },
        49 => Op::Age { channel: ChannelId(short(a)?), span: SpanId(short(b)?) },
        4 => Op::Touch { kib: short(a)? },
        5 => Op::Sleep(DurationNs(a)),
        6 => Op::Io { disk: DiskId(short(a)?), service: DurationNs(b) },
        7 => Op::Send { channel: ChannelId(short(a)?), bytes: short(b)? },
        8 => Op::Recv { channel: ChannelId(short(a)?), bytes: short(b)? },
        9 => Op::SemWait(SemId(short(a)?)),
        10 => Op::SemPost { sem: SemId(short(a)?), units: short(b)? },
        11 => Op::Lock(LockId(short(a)?)),
        12 => Op::Unlock(LockId(short(a)?)),
        13 => Op::Yield,
        14 => Op::Fork { program: ProgramId(short(a)?) },
        15 => Op::Exec,
        16 => Op::WaitChild,
        17 => Op::Exit,
        18 => Op::Count { counter: CounterId(short(a)?), units: short(b)? },
        19 => Op::SpanBegin(SpanId(short(a)?)),
        20 => Op::SpanEnd(SpanId(short(a)?)),
        21 => Op::CondWait { cond: CondId(short(a)?), lock: LockId(short(b)?) },
        22 => Op::CondSignal(CondId(short(a)?)),
        23 => Op::CondBroadcast(CondId(short(a)?)),
        24 => Op::Barrier(BarrierId(short(a)?)),
        51 => Op::Hotplug { cpu: CpuId(short(a)?), online: b != 0 },
        52 => Op::SetGroup { group: GroupId(short(a)?), change: GroupChangeId(short(b)?) },
        28 => Op::Set { task: None, change: ChangeId(short(a)?) },
        29 => Op::Set { task: Some(TaskRef(short(b)?)), change: ChangeId(short(a)?) },
        40 => Op::SemDrain(SemId(short(a)?)),
        41 => Op::LockShared(LockId(short(a)?)),
        30 => Op::Poll(PollId(short(a)?)),
        31 => Op::RecvReady { bytes: short(a)? },
        32 => Op::Answer { bytes: short(a)? },
        33 => Op::Kill(TaskRef(short(a)?)),
        34 => Op::SigWait,
        35 => Op::Store { word: WordId(short(a)?), value: short(b)? },
        36 => Op::Advance(WordId(short(a)?)),
        37 => Op::Await { word: WordId(a as u32), value: (a >> 32) as u32, step: DurationNs(b) },
        38 => Op::Note(WordId(short(a)?)),
        39 => Op::RestartIfChanged(WordId(short(a)?)),
        25 | 26 => {
            Op::TimerWait { timer: TimerSlot(short(a)?), period: DurationNs(b), absolute: number == 26 }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;

    #[test]
    fn operations_survive_coding() {
        let ops = [
            Op::Loop(Amount::Times(7)),
            Op::Loop(Amount::Forever),
            Op::EndLoop,
            Op::Run(DurationNs(5)),
            Op::RunFor(DurationNs(6)),
            Op::RunKernel(DurationNs(7)),
            Op::Fsync { disk: DiskId(2), service: DurationNs(8) },
            Op::Connect { listener: ListenerId(3), channel: None },
            Op::Connect { listener: ListenerId(4), channel: Some(ChannelId(5)) },
            Op::Accept(ListenerId(6)),
            Op::Close(SpanId(7)),
            Op::Late { timer: TimerSlot(3), span: SpanId(8) },
            Op::Age { channel: ChannelId(6), span: SpanId(9) },
            Op::Touch { kib: 6 },
            Op::Sleep(DurationNs(7)),
            Op::Io { disk: DiskId(1), service: DurationNs(2) },
            Op::Send { channel: ChannelId(3), bytes: 4 },
            Op::Recv { channel: ChannelId(3), bytes: 4 },
            Op::SemWait(SemId(1)),
            Op::SemPost { sem: SemId(1), units: 2 },
            Op::Lock(LockId(1)),
            Op::Unlock(LockId(2)),
            Op::Yield,
            Op::Fork { program: ProgramId(2) },
            Op::Exec,
            Op::WaitChild,
            Op::Exit,
            Op::Count { counter: CounterId(1), units: 3 },
            Op::SpanBegin(SpanId(0)),
            Op::SpanEnd(SpanId(9)),
            Op::CondWait { cond: CondId(1), lock: LockId(2) },
            Op::CondSignal(CondId(1)),
            Op::CondBroadcast(CondId(3)),
            Op::Barrier(BarrierId(4)),
            Op::SemDrain(SemId(2)),
            Op::LockShared(LockId(3)),
            Op::Poll(PollId(1)),
            Op::RecvReady { bytes: 7 },
            Op::Answer { bytes: 8 },
            Op::Kill(TaskRef(2)),
            Op::SigWait,
            Op::Store { word: WordId(1), value: 9 },
            Op::Advance(WordId(2)),
            Op::Await { word: WordId(3), value: u32::MAX, step: DurationNs(4) },
            Op::Note(WordId(1)),
            Op::RestartIfChanged(WordId(0)),
            Op::TimerWait { timer: TimerSlot(1), period: DurationNs(9), absolute: true },
            Op::TimerWait { timer: TimerSlot(2), period: DurationNs(8), absolute: false },
            Op::Hotplug { cpu: CpuId(3), online: true },
            Op::SetGroup { group: GroupId(2), change: GroupChangeId(3) },
            Op::Set { task: None, change: ChangeId(2) },
            Op::Set { task: Some(TaskRef(3)), change: ChangeId(4) },
        ];
        let words: Vec<u64> = ops.iter().flat_map(encode_op).collect();
        let mut words = Words::new(words);
        for op in ops {
            assert_eq!(decode_op(&mut words), Some(op));
        }
        assert_eq!(decode_op(&mut words), None);
        assert_eq!(decode_op(&mut Words::new(vec![99, 0, 0])), None);
    }

    #[test]
    fn changes_survive_coding() {
        let mut cpus = CpuMask::single(CpuId(3));
        cpus.set(CpuId(MAX_CPUS as u32 - 1));
        let changes = [
            Attribute::Nice(Nice::new(-20).unwrap()),
            Attribute::Policy(Policy::Other),
            Attribute::Policy(Policy::Batch),
            Attribute::Policy(Policy::Idle),
            Attribute::Policy(Policy::Ext),
            Attribute::Policy(Policy::Fifo(50)),
            Attribute::Policy(Policy::Rr(1)),
            Attribute::Policy(Policy::Deadline("3ms/8ms/10ms".parse().unwrap())),
            Attribute::Affinity(cpus),
            Attribute::Group(None),
            Attribute::Group(Some(GroupId(7))),
        ];
        let words: Vec<u64> = changes.iter().flat_map(encode_change).collect();
        let mut words = Words::new(words);
        for change in changes {
            assert_eq!(decode_change(&mut words), Some(change));
        }
        assert_eq!(decode_change(&mut words), None);
    }
}
