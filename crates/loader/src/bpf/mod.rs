//! The emulated bpf(2): what libbpf and its like ask of a kernel, answered for the simulated one.

mod attr;
mod batch;
mod maps;
mod names;
mod programs;

pub(crate) use attr::Attr;
pub(crate) use maps::{Map, fill, parts};
pub(crate) use programs::{Link, Program};

use batch::Batch;
use names::Sort;

use crate::descriptors::Descriptors;
use crate::refusals::Refusals;
use crate::tracee::Tracee;
use schedlab_scx::UserCalls;
use std::collections::BTreeMap;

/// An error of the kernel's as system calls give it.
pub(crate) fn error(errno: i32) -> i64 {
    -i64::from(errno)
}

/// `ENOTSUPP`, which the kernel gives out although it is its own.
pub(crate) const ENOTSUPP: i32 = 524;

/// Types of maps, as `enum bpf_map_type` numbers them.
pub(crate) mod kind {
    pub(crate) const ARRAY: u32 = 2;
    pub(crate) const PERCPU_HASH: u32 = 5;
    pub(crate) const PERCPU_ARRAY: u32 = 6;
    pub(crate) const LRU_PERCPU_HASH: u32 = 10;
    pub(crate) const ARRAY_OF_MAPS: u32 = 12;
    pub(crate) const HASH_OF_MAPS: u32 = 13;
    pub(crate) const QUEUE: u32 = 22;
    pub(crate) const STACK: u32 = 23;
    pub(crate) const STRUCT_OPS: u32 = 26;
    pub(crate) const RINGBUF: u32 = 27;
    pub(crate) const USER_RINGBUF: u32 = 31;
    pub(crate) const ARENA: u32 = 33;
}

/// Something that bpf(2) has made.
#[derive(Debug)]
pub(crate) enum Thing {
    Map(Map),
    Program(Program),
    Link(Link),
    /// Types that were loaded. The object has the same.
    Types,
}

/// What a call is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A result or an error.
    Value(i64),
    /// A descriptor of a new thing.
    Make(Thing),
    /// Another descriptor of a thing that there is, by its number.
    Open(usize),
    /// The scheduler's programs are needed, which are not linked yet.
    NeedsPrograms,
    /// The scheduler is attached: the call is made again when it is enabled.
    Attach,
}

/// Everything that was made, by number; nothing is forgotten while the loader runs.
#[derive(Debug, Default)]
pub(crate) struct Bpf {
    pub(crate) things: Vec<Thing>,
    /// The value of the struct_ops map whose scheduler is attached: its number and bytes.
    pub(crate) operations: Option<(usize, Vec<u8>)>,
    pub(crate) attached: bool,
    pub(crate) detached: bool,
    /// What was asked for and is not there, by name.
    pub(crate) refused: Refusals,
    /// Programs that were run before it was attached, in order, and what they returned.
    pub(crate) runs: Vec<(String, u32)>,
    /// Bytes that the entries of maps take here.
    kept: u64,
    /// What is pinned, by path.
    pub(crate) pins: BTreeMap<String, usize>,
}

/// Things that a loader may make in its life, and runs of programs that are listed. Chosen.
const MOST_THINGS: usize = 8192;
const MOST_RUNS: usize = 1000;

/// Who asks, and of what.
pub(crate) struct Asked<'a, 'k> {
    pub(crate) tracee: Tracee,
    pub(crate) attr: Attr,
    pub(crate) descriptors: &'a Descriptors,
    pub(crate) kernel: Option<&'a mut UserCalls<'k>>,
    pub(crate) nr_cpus: usize,
}

impl Bpf {
    /// Answers a call; `command` is the first argument.
    pub(crate) fn call(&mut self, command: u32, asked: &mut Asked<'_, '_>) -> Answer {
        match self.answer(command, asked) {
            Answer::Make(_) if self.things.len() >= MOST_THINGS => {
                self.refused.note(&format!("more than {MOST_THINGS} maps, programs and links"));
                Answer::Value(error(libc::ENOSPC))
            }
            answer => answer,
        }
    }

    fn answer(&mut self, command: u32, asked: &mut Asked<'_, '_>) -> Answer {
        match command {
            0 => self.make_map(asked),
            1 => self.look_up(asked, false),
            2 => self.update(asked),
            3 => self.delete(asked),
            4 => self.next_key(asked),
            5 => self.load_program(asked),
            10 => self.run_program(asked),
            11 => self.next_id(Sort::Program, asked),
            12 => self.next_id(Sort::Map, asked),
            13 => self.by_id(Sort::Program, asked),
            14 => self.by_id(Sort::Map, asked),
            30 => self.by_id(Sort::Link, asked),
            31 => self.next_id(Sort::Link, asked),
            // Modules have types too; there are none.
            19 | 23 => Answer::Value(error(libc::ENOENT)),
            15 => self.info(asked),
            17 => Answer::Make(Thing::Link(Link::Other)),
            18 => Answer::Make(Thing::Types),
            21 => self.look_up(asked, true),
            22 => self.freeze(asked),
            24 => self.batch(Batch::LookUp, asked),
            25 => self.batch(Batch::LookUpAndDelete, asked),
            26 => self.batch(Batch::Update, asked),
            27 => self.batch(Batch::Delete, asked),
            28 => self.link(asked),
            34 => self.unlink(asked),
            35 => Answer::Value(0),
            6 => self.pin(asked),
            7 => self.get_pinned(asked),
            // The kernel does not replace a scheduler by updating its link, and gives no tokens here.
            29 | 36 => Answer::Value(error(libc::EOPNOTSUPP)),
            // Run times are counted as long as this is open; nothing here shows them.
            32 => Answer::Make(Thing::Types),
            // Streams of programs, to which nothing is written here; and programs that belong to a scheduler: there is one.
            37 | 38 => Answer::Value(0),
            other => {
                self.refused.note(&format!("bpf(2) command {other}"));
                Answer::Value(error(libc::EINVAL))
            }
        }
    }

    pub(crate) fn map(&self, number: usize) -> Option<&Map> {
        match self.things.get(number)? {
            Thing::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn map_mut(&mut self, number: usize) -> Option<&mut Map> {
        match self.things.get_mut(number)? {
            Thing::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = (usize, &Map)> {
        self.things.iter().enumerate().filter_map(|(number, thing)| match thing {
            Thing::Map(map) => Some((number, map)),
            _ => None,
        })
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = (usize, &Program)> {
        self.things.iter().enumerate().filter_map(|(number, thing)| match thing {
            Thing::Program(program) => Some((number, program)),
            _ => None,
        })
    }

    pub(crate) fn program(&self, number: usize) -> Option<&Program> {
        match self.things.get(number)? {
            Thing::Program(program) => Some(program),
            _ => None,
        }
    }

    /// `BPF_OBJ_GET_INFO_BY_FD`: what libraries look at; the rest is 0.
    fn info(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let (fd, len, at) = (asked.attr.i32(0), asked.attr.u32(4) as usize, asked.attr.u64(8));
        let Some(number) = asked.descriptors.bpf(fd) else { return Answer::Value(error(libc::EBADF)) };
        // The number is the identity too; the kernel's begin at 1.
        let id = number as u32 + 1;
        let mut info = vec![0u8; len.min(512)];
        let mut put = |at: usize, bytes: &[u8]| {
            let end = (at + bytes.len()).min(info.len());
            if at < end {
                info[at..end].copy_from_slice(&bytes[..end - at]);
            }
        };
        match &self.things[number] {
            Thing::Map(map) => {
                let words = [map.kind, id, map.key_size, map.value_size, map.max_entries, map.flags];
                for (at, word) in words.into_iter().enumerate() {
                    put(at * 4, &word.to_le_bytes());
                }
                put(24, map.name.as_bytes());
                put(80, &map.extra.to_le_bytes());
            }
            Thing::Program(program) => {
                put(0, &program.kind.to_le_bytes());
                put(4, &id.to_le_bytes());
                put(64, program.name.as_bytes());
            }
            Thing::Link(_) => put(4, &id.to_le_bytes()),
            Thing::Types => put(12, &id.to_le_bytes()),
        }
        let done = asked
            .tracee
            .write(at, &info)
            .and_then(|()| asked.tracee.write(asked.attr.place(4), &(info.len() as u32).to_le_bytes()));
        Answer::Value(if done.is_some() { 0 } else { error(libc::EFAULT) })
    }
}
