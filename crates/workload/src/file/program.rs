//! Programs in text: one operation a line.

use super::{Fault, Named, Names, Outcome, Spanned, fault, groups, listed, policy};
use crate::measure::{CounterId, SpanId};
use crate::program::{Amount, ChangeId, MAX_TIMERS, Op, Program, TimerSlot};
use crate::scenario::Attribute;
use schedlab_base::{CpuId, CpuMask, DurationNs, MAX_CPUS, Nice};

/// How each operation is written.
const SYNTAX: &[(&str, &str)] = &[
    ("run", "run DURATION"),
    ("run-for", "run-for DURATION"),
    ("run-kernel", "run-kernel DURATION"),
    ("touch", "touch KIB"),
    ("sleep", "sleep DURATION"),
    ("timer", "timer NUMBER PERIOD [absolute]"),
    ("io", "io DISK DURATION"),
    ("fsync", "fsync DISK DURATION"),
    ("send", "send CHANNEL BYTES"),
    ("recv", "recv CHANNEL BYTES"),
    ("wait", "wait SEMAPHORE"),
    ("post", "post SEMAPHORE [UNITS]"),
    ("drain", "drain SEMAPHORE"),
    ("lock", "lock MUTEX"),
    ("lock-shared", "lock-shared FILE-LOCK"),
    ("unlock", "unlock MUTEX"),
    ("cond-wait", "cond-wait COND MUTEX"),
    ("signal", "signal COND"),
    ("broadcast", "broadcast COND"),
    ("barrier", "barrier BARRIER"),
    ("poll", "poll SET"),
    ("recv-ready", "recv-ready BYTES"),
    ("answer", "answer BYTES"),
    ("connect", "connect LISTENER [CHANNEL]"),
    ("accept", "accept LISTENER"),
    ("close", "close SPAN"),
    ("late", "late NUMBER SPAN"),
    ("age", "age CHANNEL SPAN"),
    ("kill", "kill TASK"),
    ("signal-wait", "signal-wait"),
    ("store", "store WORD VALUE"),
    ("advance", "advance WORD"),
    ("await", "await WORD VALUE STEP"),
    ("note", "note WORD"),
    ("restart-if-changed", "restart-if-changed WORD"),
    ("yield", "yield"),
    ("fork", "fork PROGRAM"),
    ("nice", "nice TASK|self VALUE"),
    ("policy", "policy TASK|self POLICY"),
    ("cpus", "cpus TASK|self LIST"),
    ("group", "group TASK|self PATH"),
    ("cgroup", "cgroup PATH make|remove|weight|max|burst|idle|cpus [VALUE]"),
    ("cpu", "cpu NUMBER online|offline"),
    ("exec", "exec"),
    ("wait-child", "wait-child"),
    ("exit", "exit"),
    ("count", "count COUNTER [UNITS]"),
    ("begin", "begin SPAN"),
    ("end", "end SPAN"),
    ("repeat", "repeat TIMES|forever"),
    ("done", "done"),
];

/// The words of one line.
pub(super) struct Line<'a> {
    at: usize,
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    pub(super) fn fail<T>(&self, text: &str) -> Outcome<T> {
        fault(self.at, format!("'{}': {text}", self.words.join(" ")))
    }

    /// The word at `place`, or how the line is written.
    pub(super) fn word(&self, place: usize) -> Outcome<&'a str> {
        match self.words.get(place) {
            Some(word) => Ok(word),
            None => self.fail(&format!("it is written: {}", usage(self.words[0]))),
        }
    }

    /// The word at `place`, if the line has so many.
    pub(super) fn value(&self, place: usize) -> Option<&'a str> {
        self.words.get(place).copied()
    }

    fn number<T: std::str::FromStr>(&self, place: usize) -> Outcome<T> {
        let word = self.word(place)?;
        word.parse().or_else(|_| self.fail(&format!("'{word}' is no whole number of this range")))
    }

    fn duration(&self, place: usize) -> Outcome<DurationNs> {
        self.word(place)?.parse().or_else(|error| self.fail(&format!("{error}")))
    }
}

fn usage(word: &str) -> &'static str {
    SYNTAX.iter().find(|(name, _)| *name == word).map_or("", |(_, usage)| usage)
}

/// Reads the program `name`.
pub(super) fn parse(name: &str, lines: &[Spanned<String>], names: &mut Names) -> Outcome<Program> {
    let mut ops = Vec::with_capacity(lines.len());
    for text in lines {
        let words: Vec<&str> = text.get_ref().split_whitespace().collect();
        let line = Line { at: text.span().start, words };
        if line.words.is_empty() {
            continue;
        }
        ops.push(operation(&line, names)?);
    }
    let at = lines.first().map_or(0, |line| line.span().start);
    Program::new(ops).map_err(|error| Fault { at, text: format!("program {name}: {error}") })
}

/// The program that makes the changes in `lines`, each a time since the start of the run
/// and an operation that changes an attribute; none without lines.
pub(super) fn timed_changes(lines: &[Spanned<String>], names: &mut Names) -> Outcome<Option<Program>> {
    const USAGE: &str = "a change is written: TIME nice|policy|cpus|group TASK VALUE, TIME cgroup PATH WHAT [VALUE] or TIME cpu NUMBER online|offline, as in 2s nice hog/0 10";
    let mut changes = Vec::with_capacity(lines.len());
    for text in lines {
        let at = text.span().start;
        let (time, rest) = text.get_ref().trim().split_once(' ').unwrap_or((text.get_ref(), ""));
        let whole = Line { at, words: vec![text.get_ref()] };
        let time: DurationNs = time.parse().or_else(|error| whole.fail(&format!("{error}; {USAGE}")))?;
        let line = Line { at, words: rest.split_whitespace().collect() };
        match line.words.as_slice() {
            ["nice" | "policy" | "cpus" | "group", "self", ..] => {
                return line.fail("name a task; nobody is self here");
            }
            ["nice" | "policy" | "cpus" | "group" | "cgroup" | "cpu", ..] => {
                changes.push((time, operation(&line, names)?))
            }
            _ => return whole.fail(USAGE),
        }
    }
    changes.sort_by_key(|&(time, _)| time);
    let mut ops = Vec::with_capacity(2 * changes.len());
    let mut last = DurationNs::ZERO;
    for (time, op) in changes {
        if time > last {
            // Expiries count from the start, however late the last change was.
            ops.push(Op::TimerWait {
                timer: TimerSlot(0),
                period: time.saturating_sub(last),
                absolute: true,
            });
            last = time;
        }
        ops.push(op);
    }
    let program = (!ops.is_empty()).then(|| Program::new(ops)).transpose();
    program.map_err(|error| Fault { at: 0, text: format!("changes: {error}") })
}

fn operation(line: &Line<'_>, names: &mut Names) -> Outcome<Op> {
    let first = line.words[0];
    let most = usage(first).split_whitespace().count();
    if most == 0 {
        let known: Vec<&str> = SYNTAX.iter().map(|(name, _)| *name).collect();
        return line.fail(&format!("unknown operation; there are: {}", known.join(", ")));
    }
    if line.words.len() > most {
        return line.fail(&format!("too many words; it is written: {}", usage(first)));
    }
    Ok(match first {
        "run" => Op::Run(line.duration(1)?),
        "run-for" => Op::RunFor(line.duration(1)?),
        "run-kernel" => Op::RunKernel(line.duration(1)?),
        "touch" => Op::Touch { kib: line.number(1)? },
        "sleep" => Op::Sleep(line.duration(1)?),
        "timer" => timer(line)?,
        "recv-ready" => Op::RecvReady { bytes: line.number(1)? },
        "answer" => Op::Answer { bytes: line.number(1)? },
        "signal-wait" => Op::SigWait,
        "kill" => match names.tasks.get(line.word(1)?) {
            Some(&task) => Op::Kill(task),
            None => {
                return line
                    .fail(&format!("no such task; there are: {}", listed(line.word(1)?, &names.tasks)));
            }
        },
        "yield" => Op::Yield,
        "exec" => Op::Exec,
        "wait-child" => Op::WaitChild,
        "exit" => Op::Exit,
        "done" => Op::EndLoop,
        "repeat" => Op::Loop(match line.word(1)? {
            "forever" => Amount::Forever,
            _ => Amount::Times(line.number(1)?),
        }),
        "fork" => match names.programs.get(line.word(1)?) {
            Some(&program) => Op::Fork { program },
            None => {
                let there = listed(line.word(1)?, &names.programs);
                return line.fail(&format!("no such program; there are: {there}"));
            }
        },
        "nice" | "policy" | "cpus" | "group" => change(line, names)?,
        "cgroup" => groups::change(line, names)?,
        "cpu" => hotplug(line)?,
        "count" => {
            let next = CounterId(names.counters.len() as u32);
            let counter = *names.counters.entry(line.word(1)?.to_string()).or_insert(next);
            Op::Count { counter, units: optional(line, 2)? }
        }
        "begin" | "end" => {
            let span = span(line, 1, names)?;
            if first == "begin" { Op::SpanBegin(span) } else { Op::SpanEnd(span) }
        }
        "close" => Op::Close(span(line, 1, names)?),
        "late" => Op::Late { timer: timer_slot(line)?, span: span(line, 2, names)? },
        _ => on_object(line, names)?,
    })
}

/// The span named at `place`.
fn span(line: &Line<'_>, place: usize, names: &mut Names) -> Outcome<SpanId> {
    let next = SpanId(names.spans.len() as u32);
    Ok(*names.spans.entry(line.word(place)?.to_string()).or_insert(next))
}

/// A change of a task's attributes.
fn change(line: &Line<'_>, names: &mut Names) -> Outcome<Op> {
    let task = match line.word(1)? {
        "self" => None,
        name => match names.tasks.get(name) {
            Some(&task) => Some(task),
            None => {
                return line.fail(&format!("no such task; there are: self, {}", listed(name, &names.tasks)));
            }
        },
    };
    let value = line.word(2)?;
    let attribute = match line.words[0] {
        "nice" => {
            Nice::new(line.number(2)?).map(Attribute::Nice).ok_or("nice values are -20 to 19".to_string())
        }
        "policy" => policy(value).map(Attribute::Policy),
        "group" => groups::home(value, names),
        _ => cpu_list(value).map(Attribute::Affinity),
    };
    let attribute = attribute.or_else(|text| line.fail(&text))?;
    let change = *names.changes_known.entry(attribute).or_insert_with(|| {
        names.changes.push(attribute);
        ChangeId(names.changes.len() as u32 - 1)
    });
    Ok(Op::Set { task, change })
}

/// A CPU that comes or goes.
fn hotplug(line: &Line<'_>) -> Outcome<Op> {
    let number: u64 = line.number(1)?;
    let cpu = u32::try_from(number).ok().filter(|cpu| (1..MAX_CPUS).contains(&(*cpu as usize)));
    let Some(cpu) = cpu else {
        return line.fail(&format!("CPU {number} is none of 1 to {}; CPU 0 stays online", MAX_CPUS - 1));
    };
    let online = match line.word(2)? {
        "online" => true,
        "offline" => false,
        other => return line.fail(&format!("'{other}' is neither online nor offline")),
    };
    Ok(Op::Hotplug { cpu: CpuId(cpu), online })
}

/// CPUs as in `0,2-3`.
pub(super) fn cpu_list(text: &str) -> Result<CpuMask, String> {
    let wrong = || format!("'{text}' is no list of CPUs (0 to {}) such as 0,2-3", MAX_CPUS - 1);
    let mut mask = CpuMask::EMPTY;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().ok().filter(|&cpu| (cpu as usize) < MAX_CPUS);
        let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
        if first > last {
            return Err(wrong());
        }
        (first..=last).for_each(|cpu| mask.set(CpuId(cpu)));
    }
    Ok(mask)
}

/// A number that is 1 when it is missing.
fn optional(line: &Line<'_>, place: usize) -> Outcome<u32> {
    if line.words.len() > place { line.number(place) } else { Ok(1) }
}

fn timer_slot(line: &Line<'_>) -> Outcome<TimerSlot> {
    let timer = TimerSlot(line.number(1)?);
    if timer.index() >= MAX_TIMERS {
        return line.fail(&format!("a task has the timers 0 to {}", MAX_TIMERS - 1));
    }
    Ok(timer)
}

fn timer(line: &Line<'_>) -> Outcome<Op> {
    let timer = timer_slot(line)?;
    let absolute = match line.words.get(3) {
        None => false,
        Some(&"absolute") => true,
        Some(_) => return line.fail("only the word absolute may follow the period"),
    };
    Ok(Op::TimerWait { timer, period: line.duration(2)?, absolute })
}

/// Operations whose first operand names an object.
fn on_object(line: &Line<'_>, names: &mut Names) -> Outcome<Op> {
    let name = line.word(1)?;
    let Some(&object) = names.objects.get(name) else {
        return line.fail(&format!("no object '{name}'; there are: {}", listed(name, &names.objects)));
    };
    Ok(match (line.words[0], object) {
        ("io", Named::Disk(disk)) => Op::Io { disk, service: line.duration(2)? },
        ("fsync", Named::Disk(disk)) => Op::Fsync { disk, service: line.duration(2)? },
        ("accept", Named::Listener(listener)) => Op::Accept(listener),
        ("connect", Named::Listener(listener)) => {
            match line.words.get(2).map(|name| names.objects.get(*name)) {
                None => Op::Connect { listener, channel: None },
                Some(Some(&Named::Channel(channel))) => Op::Connect { listener, channel: Some(channel) },
                Some(_) => return line.fail("the second name has to be a channel"),
            }
        }
        ("age", Named::Channel(channel)) => Op::Age { channel, span: span(line, 2, names)? },
        ("send", Named::Channel(channel)) => Op::Send { channel, bytes: line.number(2)? },
        ("recv", Named::Channel(channel)) => Op::Recv { channel, bytes: line.number(2)? },
        ("wait", Named::Semaphore(sem)) => Op::SemWait(sem),
        ("post", Named::Semaphore(sem)) => Op::SemPost { sem, units: optional(line, 2)? },
        ("drain", Named::Semaphore(sem)) => Op::SemDrain(sem),
        ("poll", Named::Poll(set)) => Op::Poll(set),
        ("store", Named::Word(word)) => Op::Store { word, value: line.number(2)? },
        ("advance", Named::Word(word)) => Op::Advance(word),
        ("await", Named::Word(word)) => Op::Await { word, value: line.number(2)?, step: line.duration(3)? },
        ("note", Named::Word(word)) => Op::Note(word),
        ("restart-if-changed", Named::Word(word)) => Op::RestartIfChanged(word),
        ("lock", Named::Mutex(lock)) => Op::Lock(lock),
        ("lock-shared", Named::Mutex(lock)) => Op::LockShared(lock),
        ("unlock", Named::Mutex(lock)) => Op::Unlock(lock),
        ("signal", Named::Cond(cond)) => Op::CondSignal(cond),
        ("broadcast", Named::Cond(cond)) => Op::CondBroadcast(cond),
        ("barrier", Named::Barrier(barrier)) => Op::Barrier(barrier),
        ("cond-wait", Named::Cond(cond)) => match names.objects.get(line.word(2)?) {
            Some(&Named::Mutex(lock)) => Op::CondWait { cond, lock },
            _ => return line.fail("the second name has to be a mutex"),
        },
        (word, _) => {
            return line.fail(&format!("'{name}' is of another kind; it is written: {}", usage(word)));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_list_is_understood() {
        for (name, usage) in SYNTAX {
            let words: Vec<&str> = vec![name];
            let error = operation(&Line { at: 0, words }, &mut Names::default());
            if let Err(fault) = error {
                assert!(fault.text.contains(usage), "{name}: {}", fault.text);
            }
        }
    }
}
