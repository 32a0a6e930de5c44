//! Who waits for whom on the running kernel: a BPF program adds waits up per pair of tasks, here
//! its table is read. Takes a kernel with BTF, 5.19 or newer, and nothing of sched_ext.

use std::os::fd::RawFd;

use schedlab_base::DurationNs;
use schedlab_bpf::btf::Kind;
use schedlab_bpf::object::Object;
use schedlab_trace::Counter;
use schedlab_trace::waits::{ConfidenceFrom, Mechanism, Party, WaitEntry, WaitPair, Waits, pairs};

use crate::exec::Window;
use crate::load::{LoadError, ProgramRunTime, Watcher};

/// The object file; empty where no compiler was at hand.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/waits.bpf.o"));

/// Sizes of `struct pair_key` and `struct pair` in the program's source.
const KEY_SIZE: usize = 24;
const PAIR_SIZE: usize = 80;

/// The attached program; it is gone when this is dropped.
pub struct WaitWatcher(Watcher);

impl WaitWatcher {
    /// Attaches the program; it counts nothing yet.
    ///
    /// # Errors
    /// No privilege, a build without the program, a kernel that refuses it.
    pub fn start() -> Result<WaitWatcher, LoadError> {
        Watcher::start_wanted("waits", OBJECT).map(WaitWatcher)
    }

    /// Counts everybody's waits from now on.
    pub fn watch_all(&self) {
        self.0.write("active", 1);
    }

    /// Descriptors that keep it attached.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.0.descriptors()
    }

    /// What its programs cost, while [`crate::load::count_run_time`] holds.
    pub fn run_times(&self) -> Vec<ProgramRunTime> {
        self.0.run_times()
    }

    /// What it saw so far, in a span of this length.
    pub fn read(&self, span: DurationNs) -> Waits {
        let present = self.0.entries::<KEY_SIZE, PAIR_SIZE>("pairs");
        let known = mechanisms();
        let entries: Vec<WaitEntry> = present.iter().filter_map(|one| entry(one, &known)).collect();
        let mut counters = self.counters();
        if let Some(made) = counters.iter_mut().find(|counter| counter.name == "nr_pairs") {
            let evicted = made.value.saturating_sub(present.len() as u64);
            let meaning = "entries that the table of pairs has lost to others".to_string();
            *made = Counter { name: "nr_evicted".to_string(), value: evicted, meaning };
        }
        Waits { span, pairs: pairs(entries), counters }
    }

    fn counters(&self) -> Vec<Counter> {
        let object = Object::parse("waits", OBJECT);
        let known = object.as_ref().map(Object::counters).unwrap_or_default();
        known
            .iter()
            .map(|counter| Counter {
                name: counter.variable.name.clone(),
                value: self.0.read(&counter.variable.name).first().copied().unwrap_or(0),
                meaning: counter.meaning.to_string(),
            })
            .collect()
    }
}

impl Window for WaitWatcher {
    fn follow(&self, leader: u32) {
        self.0.write("leader", u64::from(leader));
    }

    fn open(&self, _begin_ns: u64) {
        self.0.write("active", 1);
    }

    fn close(&self) {
        self.0.write("active", 0);
    }
}

/// The numbers by which the program calls mechanisms: `THROUGH_PIPE` of its `enum mechanism` is the one named `pipe`.
fn mechanisms() -> Vec<(u64, Mechanism)> {
    let Ok(object) = Object::parse("waits", OBJECT) else { return Vec::new() };
    let types = object.btf();
    let found = types.find("mechanism", |kind| matches!(kind, Kind::Enum(_)));
    let Some(Kind::Enum(shape)) = found.map(|id| types.kind(id)) else { return Vec::new() };
    let named = |name: &str| Mechanism::from_name(&name.strip_prefix("THROUGH_")?.to_lowercase());
    let values = shape.values.iter();
    values.filter_map(|one| Some((one.value, named(types.enumerator_name(one))?))).collect()
}

/// An entry of the table; none where the mechanism is unknown or no wait was added yet.
fn entry(
    (key, value): &([u8; KEY_SIZE], [u8; PAIR_SIZE]),
    mechanisms: &[(u64, Mechanism)],
) -> Option<WaitEntry> {
    let number = |bytes: &[u8], at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let id = |bytes: &[u8], at: usize| (number(bytes, at, 4) as u32).cast_signed();
    let mechanism = |at: usize| {
        let code = number(key, at, 4);
        mechanisms.iter().find(|known| known.0 == code).map(|known| known.1)
    };
    let name = |at: usize| {
        let text = &value[at..at + 16];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    };
    let party = |thread, at: usize, comm| Party {
        name: name(comm),
        thread,
        process: id(value, at),
        prio: id(value, at + 8),
    };
    let pair = WaitPair {
        requester: party(id(key, 8), 32, 48),
        provider: party(id(key, 12), 36, 64),
        mechanism: mechanism(16)?,
        object: mechanism(20),
        waits: number(value, 0, 8),
        time: DurationNs(number(value, 8, 8)),
        longest: DurationNs(number(value, 16, 8)),
        inversion: DurationNs(number(value, 24, 8)),
        confidence: 0,
        confidence_from: ConfidenceFrom::Counts,
    };
    (pair.waits > 0).then_some(WaitEntry { pair, resource: number(key, 0, 8) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_the_program_writes_them() {
        let (mut key, mut value) = ([0; KEY_SIZE], [0; PAIR_SIZE]);
        let known = [(16, Mechanism::Epoll), (4, Mechanism::Tcp)];
        key[0] = 7;
        (key[8], key[12], key[16], key[20]) = (1, 2, 16, 4);
        (value[0], value[8], value[16], value[25]) = (3, 90, 50, 1);
        (value[32], value[36], value[40], value[44]) = (10, 20, 100, 120);
        value[48..52].copy_from_slice(b"left");
        value[64..80].copy_from_slice(b"exactly sixteen!");
        let WaitEntry { pair, resource } = entry(&(key, value), &known).unwrap();
        let party = |name: &str, thread, process, prio| Party { name: name.into(), thread, process, prio };
        assert_eq!(pair.requester, party("left", 1, 10, 100));
        assert_eq!(pair.provider, party("exactly sixteen!", 2, 20, 120));
        assert_eq!((pair.mechanism, pair.object, resource), (Mechanism::Epoll, Some(Mechanism::Tcp), 7));
        assert_eq!((pair.waits, pair.time, pair.longest), (3, DurationNs(90), DurationNs(50)));
        assert_eq!(pair.inversion, DurationNs(256));
        key[16] = 99;
        assert!(entry(&(key, value), &known).is_none());
    }

    #[test]
    fn the_program_knows_every_mechanism_and_the_sizes_of_its_table() {
        if OBJECT.is_empty() {
            return;
        }
        let known = mechanisms();
        for wanted in Mechanism::all() {
            assert_eq!(known.iter().filter(|one| one.1 == wanted).count(), 1, "{wanted:?}");
        }
        let object = Object::parse("waits", OBJECT).unwrap();
        let pairs = object.maps().iter().find(|map| map.name == "pairs").unwrap();
        assert_eq!((pairs.key_size as usize, pairs.value_size as usize), (KEY_SIZE, PAIR_SIZE));
    }

    #[test]
    fn the_program_carries_its_counters_meanings() {
        if OBJECT.is_empty() {
            return;
        }
        let object = Object::parse("waits", OBJECT).unwrap();
        let counters = object.counters();
        assert!(counters.len() >= 6 && counters.iter().all(|counter| !counter.meaning.is_empty()));
    }
}
