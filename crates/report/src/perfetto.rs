//! A Perfetto trace, streamed from the run's events. Scheduler events are in the ftrace form, which
//! ui.perfetto.dev shows as one track a CPU and one a task. Counters are tracks of their own.
//!
//! The messages are declared by hand with the field numbers of Perfetto's
//! `trace_packet.proto`, `ftrace_event.proto`, `sched.proto`, `track_descriptor.proto` and
//! `track_event.proto`; only the fields that are written here exist.

use crate::names::visible;
use prost::Message;
use schedlab_base::{CpuId, TaskId, TimeNs};
use schedlab_trace::waits::Party;
use schedlab_trace::{Event, EventKind, Sink, TaskState};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

/// `TrackEvent.Type.TYPE_INSTANT`, `TYPE_COUNTER`, `CounterDescriptor.Unit.UNIT_COUNT` and
/// `TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED`, without which track events are
/// passed over.
const TYPE_INSTANT: i32 = 3;
const TYPE_COUNTER: i32 = 4;
const UNIT_COUNT: i32 = 2;
const STATE_CLEARED: u32 = 1;

/// The counter's track; chosen.
const WAITING: u64 = 1;

/// The tracks of lines that the scheduler prints: of each CPU's idle task, and of each thread. Chosen: no CPU and no thread has a
/// number above 2^32.
const PRINTED_CPU: u64 = 1 << 32;
const PRINTED_THREAD: u64 = 2 << 32;

#[derive(Clone, PartialEq, Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, optional, tag = "1")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    tgid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    ppid: Option<i32>,
    #[prost(string, repeated, tag = "3")]
    cmdline: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    sched_switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "20")]
    sched_waking: Option<SchedWaking>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedWaking {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    target_cpu: Option<i32>,
}

/// The priority shown for idle tasks and unknown ones: nice 0 in the kernel's scale.
const PRIO: i32 = 120;

/// The parent of the tasks that are there at the start: the trace has no shell.
const INIT: i32 = 1;

/// Takes a run's events and writes them as they come. Memory grows with the number of living tasks alone. A write
/// error stops the output, and [`PerfettoSink::finish`] returns it.
#[derive(Debug)]
pub struct PerfettoSink<W: Write> {
    out: W,
    /// The tasks of the start, by number.
    parties: Vec<Party>,
    /// Forked tasks that live.
    children: BTreeMap<TaskId, Party>,
    /// The thread id of task 0.
    first_pid: i32,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
    events: u64,
    /// Tasks that are runnable without running.
    waiting: BTreeSet<TaskId>,
    /// The tracks of printed lines that have been described.
    printing: BTreeSet<u64>,
}

impl<W: Write> PerfettoSink<W> {
    /// Starts a trace of tasks whose first ones are `parties`. Task 0 has the thread id `first_pid`, the next one the next;
    /// a forked task is a process of its own, with the name of its parent, as in the kernel. What cannot be seen in a name is
    /// replaced.
    pub fn new(out: W, mut parties: Vec<Party>, first_pid: i32) -> PerfettoSink<W> {
        for party in &mut parties {
            party.name = visible(&party.name).into_owned();
        }
        let mut sink = PerfettoSink {
            out,
            parties,
            children: BTreeMap::new(),
            first_pid,
            buffer: Vec::new(),
            failed: None,
            events: 0,
            waiting: BTreeSet::new(),
            printing: BTreeSet::new(),
        };
        let leaders = sink.parties.iter().filter(|party| party.thread == party.process);
        let processes = leaders.map(|leader| process(leader, INIT)).collect();
        let threads = sink.parties.iter().map(thread).collect();
        let tree = TracePacket {
            timestamp: Some(0),
            process_tree: Some(ProcessTree { processes, threads }),
            ..sink.packet()
        };
        let track = TrackDescriptor {
            uuid: Some(WAITING),
            name: Some("tasks waiting for a CPU".to_string()),
            counter: Some(CounterDescriptor { unit: Some(UNIT_COUNT) }),
            thread: None,
        };
        let counter = TracePacket {
            timestamp: Some(0),
            track_descriptor: Some(track),
            sequence_flags: Some(STATE_CLEARED),
            ..sink.packet()
        };
        sink.write(tree);
        sink.write(counter);
        sink
    }

    /// Flushes, and gives the writer back with the number of scheduler events written.
    ///
    /// # Errors
    /// The first write error of the whole trace.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.out.flush()?;
        Ok((self.out, self.events))
    }

    fn packet(&self) -> TracePacket {
        TracePacket { trusted_packet_sequence_id: Some(1), ..TracePacket::default() }
    }

    fn party(&self, task: TaskId) -> Option<&Party> {
        self.parties.get(task.index()).or_else(|| self.children.get(&task))
    }

    fn name(&self, task: TaskId) -> String {
        self.party(task).map_or_else(|| format!("task/{}", task.0), |party| party.name.clone())
    }

    fn prio(&self, task: Option<TaskId>) -> i32 {
        task.and_then(|task| self.party(task)).map_or(PRIO, |party| party.prio)
    }

    fn pid(&self, task: TaskId) -> i32 {
        self.first_pid.saturating_add(i32::try_from(task.0).unwrap_or(i32::MAX))
    }

    /// A forked task: a process of its own.
    fn fork(&mut self, event: &Event, parent: Option<TaskId>, child: TaskId) {
        let pid = self.pid(child);
        let born = Party {
            name: self.name(parent.unwrap_or(child)),
            thread: pid,
            process: pid,
            prio: self.prio(parent),
        };
        let parent = parent.and_then(|parent| self.party(parent)).map_or(INIT, |parent| parent.process);
        let (processes, threads) = (vec![process(&born, parent)], vec![thread(&born)]);
        self.children.insert(child, born);
        let packet = TracePacket {
            timestamp: Some(event.time.0),
            process_tree: Some(ProcessTree { processes, threads }),
            ..self.packet()
        };
        self.write(packet);
    }

    fn write(&mut self, packet: TracePacket) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.clear();
        let trace = Trace { packet: vec![packet] };
        let encoded = trace.encode(&mut self.buffer).map_err(io::Error::other);
        if let Err(error) = encoded.and_then(|()| self.out.write_all(&self.buffer)) {
            self.failed = Some(error);
        }
    }

    fn ftrace(&mut self, cpu: CpuId, event: FtraceEvent) {
        let bundle = FtraceEventBundle { cpu: Some(cpu.0), event: vec![event] };
        let packet = TracePacket { ftrace_events: Some(bundle), ..self.packet() };
        self.events += 1;
        self.write(packet);
    }

    /// Takes a task in or out of those that wait, and says whether that is a change.
    fn set_waiting(&mut self, task: TaskId, waits: bool) -> bool {
        if waits { self.waiting.insert(task) } else { self.waiting.remove(&task) }
    }

    fn count(&mut self, time: TimeNs) {
        let event = TrackEvent {
            kind: Some(TYPE_COUNTER),
            track_uuid: Some(WAITING),
            counter_value: Some(self.waiting.len() as i64),
            name: None,
        };
        let packet = TracePacket { timestamp: Some(time.0), track_event: Some(event), ..self.packet() };
        self.write(packet);
    }

    /// The track of lines printed beside this task, described when it is first used.
    fn printing_track(&mut self, cpu: CpuId, task: Option<TaskId>) -> u64 {
        let uuid = match task {
            Some(task) => PRINTED_THREAD | u64::from(task.0),
            None => PRINTED_CPU | u64::from(cpu.0),
        };
        if self.printing.insert(uuid) {
            let thread = task.map(|task| {
                let pid = self.party(task).map_or_else(|| self.pid(task), |party| party.process);
                ThreadDescriptor { pid: Some(pid), tid: Some(self.pid(task)) }
            });
            let name = task.is_none().then(|| format!("bpf_printk, CPU {} idle", cpu.0));
            let track = TrackDescriptor { uuid: Some(uuid), name, thread, counter: None };
            self.write(TracePacket { timestamp: Some(0), track_descriptor: Some(track), ..self.packet() });
        }
        uuid
    }

    fn comm(&self, task: Option<TaskId>, cpu: CpuId) -> String {
        task.map_or_else(|| format!("swapper/{}", cpu.0), |task| self.name(task))
    }

    fn switch(&mut self, event: &Event, prev: Option<TaskId>, state: TaskState, next: Option<TaskId>) {
        let switch = SchedSwitch {
            prev_comm: Some(self.comm(prev, event.cpu)),
            prev_pid: Some(prev.map_or(0, |prev| self.pid(prev))),
            prev_prio: Some(self.prio(prev)),
            prev_state: Some(self.state_bits(prev, state)),
            next_comm: Some(self.comm(next, event.cpu)),
            next_pid: Some(next.map_or(0, |next| self.pid(next))),
            next_prio: Some(self.prio(next)),
        };
        let pid = prev.map_or(0, |prev| self.pid(prev)) as u32;
        self.ftrace(event.cpu, FtraceEvent { sched_switch: Some(switch), ..at(event.time, pid) });
        let before = self.waiting.len();
        if let Some(prev) = prev.filter(|_| state == TaskState::Runnable) {
            self.set_waiting(prev, true);
        }
        if let Some(next) = next {
            self.set_waiting(next, false);
        }
        if self.waiting.len() != before {
            self.count(event.time);
        }
        if let (Some(prev), TaskState::Exited) = (prev, state) {
            self.children.remove(&prev);
            self.printing.remove(&(PRINTED_THREAD | u64::from(prev.0)));
        }
    }

    /// The kernel's `prev_state` bits: 0 runnable, 1 interruptible, 2 uninterruptible. A process that exits is a zombie (32)
    /// until its parent takes note; a thread is dead (16) at once (`exit_notify()`, kernel/exit.c, 7.3).
    fn state_bits(&self, task: Option<TaskId>, state: TaskState) -> i64 {
        let is_thread = |task: TaskId| {
            let pid = self.pid(task);
            self.parties.iter().any(|party| party.thread == pid && party.process != pid)
        };
        match state {
            TaskState::Runnable => 0,
            TaskState::Blocked => 1,
            TaskState::BlockedIo => 2,
            TaskState::Exited if task.is_some_and(is_thread) => 16,
            TaskState::Exited => 32,
        }
    }

    fn waking(&mut self, event: &Event, task: TaskId, cpu: CpuId, waker: Option<TaskId>) {
        let waking = SchedWaking {
            comm: Some(self.name(task)),
            pid: Some(self.pid(task)),
            prio: Some(self.prio(Some(task))),
            success: Some(1),
            target_cpu: Some(cpu.0 as i32),
        };
        let pid = waker.map_or(0, |waker| self.pid(waker)) as u32;
        self.ftrace(event.cpu, FtraceEvent { sched_waking: Some(waking), ..at(event.time, pid) });
        if self.set_waiting(task, true) {
            self.count(event.time);
        }
    }
}

fn at(time: TimeNs, pid: u32) -> FtraceEvent {
    FtraceEvent { timestamp: Some(time.0), pid: Some(pid), ..FtraceEvent::default() }
}

fn process(leader: &Party, parent: i32) -> Process {
    Process { pid: Some(leader.process), ppid: Some(parent), cmdline: vec![leader.name.clone()] }
}

fn thread(party: &Party) -> Thread {
    Thread { tid: Some(party.thread), name: Some(party.name.clone()), tgid: Some(party.process) }
}

impl<W: Write> Sink for PerfettoSink<W> {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SchedSwitch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            EventKind::SchedWakeup { task, cpu, waker } => self.waking(event, task, cpu, waker),
            EventKind::Fork { parent, child } if child.index() >= self.parties.len() => {
                self.fork(event, parent, child);
            }
            EventKind::Fork { .. }
            | EventKind::SchedMigrate { .. }
            | EventKind::Exit { .. }
            | EventKind::Schedule { .. }
            | EventKind::Call { .. }
            | EventKind::Priority { .. }
            | EventKind::DsqInsert { .. } => {}
        }
    }

    fn printed(&mut self, time: TimeNs, cpu: CpuId, task: Option<TaskId>, text: &str) {
        let event = TrackEvent {
            kind: Some(TYPE_INSTANT),
            track_uuid: Some(self.printing_track(cpu, task)),
            name: Some(visible(text).into_owned()),
            counter_value: None,
        };
        self.write(TracePacket { timestamp: Some(time.0), track_event: Some(event), ..self.packet() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(name: &str, thread: i32, process: i32) -> Party {
        Party { name: name.to_string(), thread, process, prio: 125 }
    }

    fn hog() -> Vec<Party> {
        vec![party("hog/0", 1001, 1001)]
    }

    fn events() -> [Event; 3] {
        let at = |time, kind| Event { time: TimeNs(time), cpu: CpuId(1), kind };
        let (a, b) = (TaskId(0), TaskId(1));
        [
            at(3, EventKind::Fork { parent: Some(a), child: b }),
            at(5, EventKind::SchedWakeup { task: b, cpu: CpuId(1), waker: Some(a) }),
            at(9, EventKind::SchedSwitch { prev: Some(a), prev_state: TaskState::Blocked, next: Some(b) }),
        ]
    }

    #[test]
    fn packets_decode_to_what_happened() {
        let mut bytes = Vec::new();
        let mut sink = PerfettoSink::new(&mut bytes, hog(), 1001);
        events().iter().for_each(|event| sink.event(event));
        assert_eq!(sink.finish().unwrap().1, 2);
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        assert_eq!(trace.packet.len(), 7);
        let wakeup = trace.packet[3].ftrace_events.as_ref().unwrap();
        let waking = wakeup.event[0].sched_waking.as_ref().unwrap();
        // The waker is the task of the event.
        assert_eq!((wakeup.event[0].pid, waking.pid, waking.target_cpu), (Some(1001), Some(1002), Some(1)));
        let switch = trace.packet[5].ftrace_events.as_ref().unwrap();
        assert_eq!(switch.cpu, Some(1));
        let event = &switch.event[0];
        assert_eq!(event.timestamp, Some(9));
        let switch = event.sched_switch.as_ref().unwrap();
        assert_eq!((switch.prev_pid, switch.prev_state, switch.next_pid), (Some(1001), Some(1), Some(1002)));
        // A child is a process of its own with its parent's name.
        assert_eq!((switch.next_comm.as_deref(), switch.next_prio), (Some("hog/0"), Some(125)));
        let born = &trace.packet[2].process_tree.as_ref().unwrap().processes[0];
        assert_eq!((born.pid, born.ppid, born.cmdline[0].as_str()), (Some(1002), Some(1001), "hog/0"));
    }

    #[test]
    fn printed_lines_are_instants_of_the_task_or_the_idle_cpu() {
        let mut bytes = Vec::new();
        let mut sink = PerfettoSink::new(&mut bytes, hog(), 1001);
        let hog = Some(TaskId(0));
        sink.printed(TimeNs(4), CpuId(1), hog, "one");
        sink.printed(TimeNs(5), CpuId(1), hog, "two\u{1b}[2J");
        sink.printed(TimeNs(6), CpuId(3), None, "three");
        sink.finish().unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let tracks: Vec<&TrackDescriptor> =
            trace.packet[2..].iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
        assert_eq!(tracks.len(), 2, "each track is described once");
        let thread = tracks[0].thread.as_ref().unwrap();
        assert_eq!((thread.pid, thread.tid), (Some(1001), Some(1001)));
        assert_eq!(tracks[1].name.as_deref(), Some("bpf_printk, CPU 3 idle"));
        let instants = trace.packet.iter().filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            assert_eq!(event.kind, Some(TYPE_INSTANT));
            Some((packet.timestamp?, event.track_uuid, event.name.clone()?))
        });
        let (task, idle) = (tracks[0].uuid, tracks[1].uuid);
        let expected = [(4, task, "one"), (5, task, "two\u{fffd}[2J"), (6, idle, "three")];
        assert!(instants.eq(expected.map(|(time, track, text)| (time, track, text.to_string()))));
    }

    #[test]
    fn threads_stand_under_their_process() {
        let mut bytes = Vec::new();
        let parties = vec![party("web/0", 1001, 1001), party("web/1", 1002, 1001), party("db", 1003, 1003)];
        PerfettoSink::new(&mut bytes, parties, 1001).finish().unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let tree = trace.packet[0].process_tree.as_ref().unwrap();
        assert_eq!(tree.processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [Some(1001), Some(1003)]);
        let threads = tree.threads.iter().map(|t| (t.tid, t.tgid, t.name.as_deref()));
        let expected = [(1001, 1001, "web/0"), (1002, 1001, "web/1"), (1003, 1003, "db")];
        assert!(threads.eq(expected.map(|(tid, tgid, name)| (Some(tid), Some(tgid), Some(name)))));
    }

    #[test]
    fn memory_is_that_of_the_living() {
        let mut bytes = Vec::new();
        let mut sink = PerfettoSink::new(&mut bytes, hog(), 1001);
        for number in 1..50 {
            let (parent, child) = (Some(TaskId(0)), TaskId(number));
            let at = |kind| Event { time: TimeNs(u64::from(number)), cpu: CpuId(0), kind };
            sink.event(&at(EventKind::Fork { parent, child }));
            sink.event(&at(EventKind::SchedWakeup { task: child, cpu: CpuId(0), waker: parent }));
            let (on, off) = (TaskState::Runnable, TaskState::Exited);
            sink.event(&at(EventKind::SchedSwitch { prev: parent, prev_state: on, next: Some(child) }));
            sink.event(&at(EventKind::SchedSwitch { prev: Some(child), prev_state: off, next: parent }));
        }
        assert_eq!((sink.children.len(), sink.waiting.len()), (0, 0));
    }

    #[test]
    fn tasks_that_wait_are_a_counter() {
        let mut bytes = Vec::new();
        let mut sink = PerfettoSink::new(&mut bytes, hog(), 1001);
        events().iter().for_each(|event| sink.event(event));
        let preempted =
            EventKind::SchedSwitch { prev: Some(TaskId(1)), prev_state: TaskState::Runnable, next: None };
        sink.event(&Event { time: TimeNs(12), cpu: CpuId(1), kind: preempted });
        sink.finish().unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let track = trace.packet[1].track_descriptor.as_ref().unwrap();
        assert_eq!((track.uuid, track.counter.is_some()), (Some(WAITING), true));
        assert_eq!(trace.packet[1].sequence_flags, Some(STATE_CLEARED));
        let values = trace.packet.iter().filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            assert_eq!((event.kind, event.track_uuid), (Some(TYPE_COUNTER), Some(WAITING)));
            Some((packet.timestamp?, event.counter_value?))
        });
        assert_eq!(values.collect::<Vec<_>>(), [(5, 1), (9, 0), (12, 1)]);
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        #[derive(Debug)]
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut sink = PerfettoSink::new(Full, Vec::new(), 1001);
        events().iter().for_each(|event| sink.event(event));
        assert_eq!(sink.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
