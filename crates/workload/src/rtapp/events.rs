//! Events of a phase, in order.

use super::version::EVENTS_OF_HEAD;
use super::{
    Amount, BTreeMap, BarrierId, DurationNs, Node, Op, Outcome, Shared, TimerSlot, Value, Version, fault,
    integer, micros, object, text,
};
use super::{identity, memory};
use crate::program::MAX_TIMERS;

/// Events that are modelled, for messages.
pub(super) const EVENTS: &str = "run, runtime, sleep, timer, lock, unlock, wait, signal, broad, sync, barrier, suspend, \
                      resume, sem_wait, sem_post, yield, mem, memrun, iorun, fork";

/// A key that names an event, with or without a suffix.
pub(super) fn is_event(key: &str) -> bool {
    EVENTS.split(", ").any(|event| key.starts_with(event))
}

/// Settings, which may stand once in an object.
const SETTINGS: &[&str] =
    &["instance", "loop", "policy", "priority", "cpus", "delay", "phases", "taskgroup", "exec"];

/// What a written byte of `iorun` occupies the disk for, in picoseconds: 200 MB/s. Chosen.
const IO_BYTE_PS: u64 = 5_000;

/// What the kernel computes for a write to `/dev/null`, besides the system call. Chosen.
const NULL_WRITE: DurationNs = DurationNs(100);

/// Bytes of a write: rt-app's default of `mem_buffer_size`.
const BUFFER: u64 = 4 << 20;

/// Reads the events of one task.
pub(super) struct Reader<'a> {
    pub(super) shared: &'a mut Shared,
    pub(super) task: &'a str,
    pub(super) timers: BTreeMap<String, TimerSlot>,
    pub(super) ops: Vec<Op>,
}

/// Counts `instances` more parties for every barrier that the program of task
/// `number` names.
pub(super) fn count_parties(shared: &mut Shared, before: &[u32], number: usize, instances: u32) {
    let ops = shared.scenario.programs[number].ops();
    let barriers: Vec<u32> = (0..shared.scenario.barriers.len() as u32)
        .map(|barrier| u32::from(ops.contains(&Op::Barrier(BarrierId(barrier)))))
        .collect();
    for (barrier, named) in barriers.into_iter().enumerate() {
        shared.scenario.barriers[barrier] =
            before.get(barrier).copied().unwrap_or(0).saturating_add(named * instances);
    }
}

impl Reader<'_> {
    /// Events in the order in which they are written.
    pub(super) fn events(&mut self, events: &[&(String, Node)], path: &str) -> Outcome<()> {
        events.iter().try_for_each(|(key, node)| self.event(key, node, &format!("{path}.{key}")))
    }

    /// One event. As in rt-app the key may have a suffix (`run0`, `lock_a`).
    fn event(&mut self, key: &str, node: &Node, path: &str) -> Outcome<()> {
        let is = |name: &str| key.starts_with(name);
        if EVENTS_OF_HEAD.iter().any(|event| is(event)) {
            self.shared.differs(path, "does not know the event and does nothing", "does it");
            if self.shared.version == Version::V1_0 {
                return Ok(());
            }
        }
        if is("runtime") {
            let span = micros(node, path)?;
            self.computes(span, path);
            self.ops.push(Op::RunFor(span));
        } else if is("run") {
            let span = micros(node, path)?;
            self.computes(span, path);
            self.ops.push(Op::Run(span));
        } else if is("sleep") {
            let span = micros(node, path)?;
            self.ops.push(Op::Sleep(span));
        } else if is("timer") {
            self.timer(node, path)?;
        } else if is("memrun") {
            self.memrun(node, path)?;
        } else if is("mem") {
            let kib = bytes(node, path)?.div_ceil(1024);
            self.ops.push(Op::Touch { kib: kib as u32 });
        } else if is("iorun") {
            self.write(bytes(node, path)?);
        } else if is("yield") {
            self.ops.push(Op::Yield);
        } else if is("fork") {
            self.fork(node, path)?;
        } else {
            return self.synchronisation(key, node, path);
        }
        Ok(())
    }

    /// Keeps the longest event that computes.
    fn computes(&mut self, span: DurationNs, path: &str) {
        if self.shared.longest.as_ref().is_none_or(|(longest, _)| span > *longest) {
            self.shared.longest = Some((span, path.to_string()));
        }
    }

    /// `iorun`: writes to `/dev/null` return at once, buffer by buffer, and others occupy the disk.
    fn write(&mut self, bytes: u64) {
        if !self.shared.no_device {
            let disk = self.shared.disk();
            self.ops.push(Op::Io { disk, service: DurationNs(bytes * IO_BYTE_PS / 1000) });
            return;
        }
        let call = Op::RunKernel(NULL_WRITE);
        match bytes.div_ceil(BUFFER) {
            0 => {}
            1 => self.ops.push(call),
            calls => self.ops.extend([Op::Loop(Amount::Times(calls)), call, Op::EndLoop]),
        }
    }

    /// Locks, condition variables and barriers.
    fn synchronisation(&mut self, key: &str, node: &Node, path: &str) -> Outcome<()> {
        let is = |name: &str| key.starts_with(name);
        if is("lock") || is("unlock") {
            let lock = self.shared.lock(text(node, path)?);
            self.shared.locked.insert(lock);
            self.ops.push(if is("lock") { Op::Lock(lock) } else { Op::Unlock(lock) });
        } else if is("wait") || is("sync") {
            let cond = self.shared.cond(member(node, path, "ref")?);
            let lock = self.shared.lock(member(node, path, "mutex")?);
            if is("sync") {
                self.ops.push(Op::CondSignal(cond));
            }
            self.ops.push(Op::CondWait { cond, lock });
        } else if is("signal") || is("broad") {
            let cond = self.shared.cond(reference(node, path)?);
            self.ops.push(if is("signal") { Op::CondSignal(cond) } else { Op::CondBroadcast(cond) });
        } else if is("barrier") {
            let barrier = self.shared.barrier(reference(node, path)?);
            self.ops.push(Op::Barrier(barrier));
        } else if is("suspend") || is("resume") {
            // A broadcast of a condition variable named after the task, under a mutex of that name: another event
            // that names either means the same. A name that no task waits for wakes none.
            let name =
                if is("suspend") { self.suspended(node, path)? } else { text(node, path)?.to_string() };
            let name = name.as_str();
            let (lock, cond) = (self.shared.lock(name), self.shared.cond(name));
            let inner = if is("suspend") { Op::CondWait { cond, lock } } else { Op::CondBroadcast(cond) };
            self.ops.extend([Op::Lock(lock), inner, Op::Unlock(lock)]);
        } else if is("sem_wait") || is("sem_post") {
            let sem = self.shared.semaphore(text(node, path)?);
            self.ops.push(if is("sem_wait") { Op::SemWait(sem) } else { Op::SemPost { sem, units: 1 } });
        } else {
            return unknown(key, node, path);
        }
        Ok(())
    }

    /// The name for which `suspend` waits: 1.0 takes the value, head the task's name.
    fn suspended(&mut self, node: &Node, path: &str) -> Outcome<String> {
        let own = self.task.to_string();
        let name = match &node.value {
            Value::Text(name) if *name != own => name.clone(),
            // rt-app's `workgen` writes the task's name where the value is left out.
            Value::Text(_) | Value::Null => return Ok(own),
            _ => return fault(node, path, "a task's name is expected, or nothing"),
        };
        let head = format!("waits for one of the task's own name, '{own}'");
        self.shared.differs(path, &format!("waits for a resume of '{name}'"), &head);
        Ok(if self.shared.version == Version::V1_0 { name } else { own })
    }

    /// Walks of a buffer: as many whole ones as there are, and the rest.
    fn memrun(&mut self, node: &Node, path: &str) -> Outcome<()> {
        let run = memory::read(node, path)?;
        if let Some(name) = &run.shared {
            let key = (name.clone(), run.kind);
            if *self.shared.buffers.entry(key).or_insert(run.shape) != run.shape {
                let text =
                    format!("another memrun has the buffer '{name}' with other size, stride or pattern");
                return fault(node, path, text);
            }
        }
        let (passes, rest) = (run.kib / u64::from(run.buffer_kib), run.kib % u64::from(run.buffer_kib));
        let walk = Op::Touch { kib: run.buffer_kib };
        match passes {
            0 => {}
            1 => self.ops.push(walk),
            _ => self.ops.extend([Op::Loop(Amount::Times(passes)), walk, Op::EndLoop]),
        }
        if rest > 0 {
            self.ops.push(Op::Touch { kib: rest as u32 });
        }
        Ok(())
    }

    fn timer(&mut self, node: &Node, path: &str) -> Outcome<()> {
        let name = member(node, path, "ref")?.to_string();
        let entries = object(node, path)?;
        let find = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, node)| node);
        let Some(period) = find("period") else { return fault(node, path, "\"period\" is missing") };
        let period = micros(period, &format!("{path}.period"))?;
        if let Some(mode) = find("mode")
            && !["absolute", "relative"].contains(&text(mode, &format!("{path}.mode"))?)
        {
            return fault(mode, &format!("{path}.mode"), "relative or absolute is expected");
        }
        let absolute = self.shared.timers.is_absolute(self.task, &name);
        let timer = match self.shared.timers.shared(node, path, &name)? {
            Some(timer) => timer,
            None => {
                let next = TimerSlot(self.timers.len() as u32);
                *self.timers.entry(name).or_insert(next)
            }
        };
        if self.timers.len() > MAX_TIMERS {
            return fault(node, path, format!("a task has at most {MAX_TIMERS} timers"));
        }
        self.ops.push(Op::TimerWait { timer, period, absolute });
        Ok(())
    }

    fn fork(&mut self, node: &Node, path: &str) -> Outcome<()> {
        let name = reference(node, path)?;
        let Some(&program) = self.shared.programs.get(name) else {
            return fault(node, path, format!("there is no task '{name}'"));
        };
        self.ops.push(Op::Fork { program });
        Ok(())
    }
}

/// Refuses a key that is no event.
fn unknown(key: &str, node: &Node, path: &str) -> Outcome<()> {
    let first = key.trim_end_matches(|c: char| c.is_ascii_digit());
    if first != key && (SETTINGS.contains(&first) || identity::KEYS.contains(&first)) {
        let text = format!(
            "'{first}' stands twice; workgen renames the second one to '{key}', which rt-app does not read; \
             remove one"
        );
        return fault(node, path, text);
    }
    fault(node, path, format!("the event '{key}' is not modelled; there are: {EVENTS}"))
}

fn bytes(node: &Node, path: &str) -> Outcome<u64> {
    match integer(node, path)? {
        bytes @ 0..=0xff_ffff_ffff => Ok(bytes as u64),
        _ => fault(node, path, "bytes from 0 to a tebibyte are expected"),
    }
}

/// The string `key` of an object.
fn member<'a>(node: &'a Node, path: &str, key: &str) -> Outcome<&'a str> {
    match object(node, path)?.iter().find(|(name, _)| name == key) {
        Some((_, node)) => text(node, &format!("{path}.{key}")),
        None => fault(node, path, format!("\"{key}\" is missing")),
    }
}

/// A name, plain or as `{ "ref": name }`.
fn reference<'a>(node: &'a Node, path: &str) -> Outcome<&'a str> {
    match &node.value {
        Value::Object(_) => member(node, path, "ref"),
        _ => text(node, path),
    }
}
