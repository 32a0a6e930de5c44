//! Waits of tasks for each other: what is known of them, whichever arm watched, and how sure it is.

mod explain;

pub use explain::{Explainer, Inversion};

use crate::record::Counter;
use schedlab_base::DurationNs;
use std::collections::BTreeMap;

/// Through what a task waits: the kind of kernel object behind the call that it blocks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// A call that has no name of its own here (a terminal, a device, `open` of a FIFO).
    Other,
    /// A pipe or FIFO.
    Pipe,
    /// A Unix socket.
    Unix,
    /// A TCP connection.
    Tcp,
    /// A UDP socket.
    Udp,
    /// A System V semaphore.
    Semaphore,
    /// A System V message queue.
    Message,
    /// A POSIX message queue.
    PosixMessage,
    /// A signal.
    Signal,
    /// `flock()`.
    Flock,
    /// A record lock of `fcntl()`.
    Fcntl,
    /// A futex: mutex, condition variable, barrier, `join`.
    Futex,
    /// An eventfd.
    Eventfd,
    /// `poll()`.
    Poll,
    /// `select()`.
    Select,
    /// `epoll_wait()`.
    Epoll,
    /// The end of a child.
    Child,
}

/// Each mechanism and its name.
const MECHANISMS: [(Mechanism, &str); 17] = [
    (Mechanism::Other, "other"),
    (Mechanism::Pipe, "pipe"),
    (Mechanism::Unix, "unix"),
    (Mechanism::Tcp, "tcp"),
    (Mechanism::Udp, "udp"),
    (Mechanism::Semaphore, "sem"),
    (Mechanism::Message, "msg"),
    (Mechanism::PosixMessage, "mq"),
    (Mechanism::Signal, "signal"),
    (Mechanism::Flock, "flock"),
    (Mechanism::Fcntl, "fcntl"),
    (Mechanism::Futex, "futex"),
    (Mechanism::Eventfd, "eventfd"),
    (Mechanism::Poll, "poll"),
    (Mechanism::Select, "select"),
    (Mechanism::Epoll, "epoll"),
    (Mechanism::Child, "child"),
];

impl Mechanism {
    /// The name in results.
    pub fn name(self) -> &'static str {
        MECHANISMS.iter().find(|known| known.0 == self).map_or("other", |known| known.1)
    }

    /// The mechanism with this name.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        MECHANISMS.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Mechanism> {
        MECHANISMS.iter().map(|known| known.0)
    }

    /// True for calls that wait for several objects at once.
    pub fn is_poll(self) -> bool {
        matches!(self, Mechanism::Poll | Mechanism::Select | Mechanism::Epoll)
    }
}

/// Confidence in a provider that was seen once, and that no other wait contradicted: SWAP's C
/// (Zheng and Nieh 2004). Twice as much is certainty.
pub const CONFIDENCE_DEFAULT: u32 = 20;

/// One side of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The task's name.
    pub name: String,
    /// The task's thread id.
    pub thread: i32,
    /// The id of its process.
    pub process: i32,
    /// The task's priority as the kernel counts (`task->prio`): 0 to 99 real time, 100 to 139 nice -20
    /// to 19; lower is better.
    pub prio: i32,
}

/// Which task waited for which, through what.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitPair {
    /// The task that waited.
    pub requester: Party,
    /// The task that ended the waits.
    pub provider: Party,
    /// Through what.
    pub mechanism: Mechanism,
    /// Of a wait for several objects: the one that ended it, where that is known.
    pub object: Option<Mechanism>,
    /// How often.
    pub waits: u64,
    /// How long, in total: from blocking to the wakeup.
    pub time: DurationNs,
    /// The longest of the waits.
    pub longest: DurationNs,
    /// How much of the time was priority inversion.
    pub inversion: DurationNs,
    /// How sure it is that this provider ends the requester's next wait: 0 to twice
    /// [`CONFIDENCE_DEFAULT`].
    pub confidence: u32,
    /// What that is made of.
    pub confidence_from: ConfidenceFrom,
}

/// The waits of a pair for one resource: a descriptor, an identifier, an address of the requester.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitEntry {
    /// The pair; its confidence means nothing yet.
    pub pair: WaitPair,
    /// The resource, a number among those of the requester's mechanism.
    pub resource: u64,
}

/// What confidences are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfidenceFrom {
    /// Of the waits that were seen: see [`pairs`].
    #[default]
    Counts,
    /// Of the table of the layer SWAP at the end of the run.
    Swap,
}

impl ConfidenceFrom {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            ConfidenceFrom::Counts => "counts",
            ConfidenceFrom::Swap => "swap",
        }
    }
}

/// What was seen of waits in a span of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// Length of the span.
    pub span: DurationNs,
    /// The pairs, the longest total first.
    pub pairs: Vec<WaitPair>,
    /// What else was counted.
    pub counters: Vec<Counter>,
}

/// Requester, provider, mechanism and object. Children end once, so they go by name.
type PairKey = (i32, Result<i32, String>, Mechanism, Option<Mechanism>);

/// Sums entries up over the resources, and over the children of the same name, of which the
/// youngest is shown. Gives each pair its confidence, in units of half a [`CONFIDENCE_DEFAULT`].
/// That is the part that this provider ended of the requester's waits for the same resources, and
/// of one more that is yet to come. So a provider that was seen once has the default, one of
/// several comes below it, and one that always was the one rises towards twice of it.
pub fn pairs(entries: Vec<WaitEntry>) -> Vec<WaitPair> {
    let mut waits: BTreeMap<(i32, Mechanism, u64), u64> = BTreeMap::new();
    for entry in &entries {
        let pair = &entry.pair;
        *waits.entry((pair.requester.thread, pair.mechanism, entry.resource)).or_default() += pair.waits;
    }
    let mut sums: BTreeMap<PairKey, (WaitPair, u64)> = BTreeMap::new();
    for WaitEntry { pair, resource } in entries {
        let all = waits[&(pair.requester.thread, pair.mechanism, resource)];
        let provider = match pair.mechanism {
            Mechanism::Child => Err(pair.provider.name.clone()),
            _ => Ok(pair.provider.thread),
        };
        let key = (pair.requester.thread, provider, pair.mechanism, pair.object);
        match sums.get_mut(&key) {
            None => {
                sums.insert(key, (pair, all));
            }
            Some((sum, total)) => {
                if pair.provider.thread > sum.provider.thread {
                    sum.provider = pair.provider;
                }
                sum.waits += pair.waits;
                sum.time += pair.time;
                sum.longest = sum.longest.max(pair.longest);
                sum.inversion += pair.inversion;
                *total += all;
            }
        }
    }
    let confident = |(mut pair, all): (WaitPair, u64)| {
        let scaled = u64::from(2 * CONFIDENCE_DEFAULT).saturating_mul(pair.waits) / (all + 1);
        pair.confidence = scaled as u32;
        pair
    };
    let mut pairs: Vec<WaitPair> = sums.into_values().map(confident).collect();
    // Stable: equal times keep the order of the ids.
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.time));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(requester: i32, provider: i32, resource: u64, waits: u64) -> WaitEntry {
        let party = |thread| Party { thread, ..Party::default() };
        let pair = WaitPair {
            requester: party(requester),
            provider: party(provider),
            mechanism: Mechanism::Pipe,
            object: None,
            waits,
            time: DurationNs(10 * waits),
            longest: DurationNs(waits),
            inversion: DurationNs(waits),
            confidence: 0,
            confidence_from: ConfidenceFrom::Counts,
        };
        WaitEntry { pair, resource }
    }

    #[test]
    fn confidence_is_the_share_of_the_resource_that_was_seen() {
        let seen = pairs(vec![
            entry(1, 2, 0, 1),
            entry(3, 4, 7, 9),
            entry(3, 5, 7, 1),
            entry(6, 4, 7, 99),
            entry(6, 5, 8, 99),
        ]);
        let of = |requester, provider| {
            let same = |p: &&WaitPair| p.requester.thread == requester && p.provider.thread == provider;
            seen.iter().find(same).unwrap().confidence
        };
        assert_eq!(of(1, 2), CONFIDENCE_DEFAULT);
        assert_eq!((of(3, 4), of(3, 5)), (32, 3));
        assert_eq!((of(6, 4), of(6, 5)), (39, 39), "two resources do not contradict each other");
    }

    #[test]
    fn children_of_the_same_name_are_one_pair() {
        let child = |thread: i32, name: &str| {
            let mut entry = entry(1, thread, thread as u64, 1);
            entry.pair.mechanism = Mechanism::Child;
            entry.pair.provider.name = name.into();
            entry
        };
        let seen = pairs(vec![child(5, "cc"), child(7, "cc"), child(6, "cc"), child(8, "ld")]);
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].waits, seen[0].provider.thread, seen[0].confidence), (3, 7, 30));
        assert_eq!((seen[1].waits, seen[1].confidence), (1, CONFIDENCE_DEFAULT));
    }

    #[test]
    fn resources_of_one_pair_are_summed_up() {
        let seen = pairs(vec![entry(1, 2, 0, 3), entry(1, 2, 9, 5), entry(2, 1, 0, 20)]);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].requester.thread, 2, "the longest total first");
        let both = &seen[1];
        assert_eq!((both.waits, both.time, both.longest), (8, DurationNs(80), DurationNs(5)));
        assert_eq!((both.inversion, both.confidence), (DurationNs(8), 35));
    }

    #[test]
    fn names_are_one_to_one() {
        for (mechanism, name) in MECHANISMS {
            assert_eq!((Mechanism::from_name(name), mechanism.name()), (Some(mechanism), name));
        }
    }
}
