//! Maps: kept here until the scheduler's programs are linked, from then on the simulated kernel's.

use super::{Answer, Asked, Bpf, Thing, error, kind};
use schedlab_bpf::maps::{EXIST, MapId, NOEXIST};
use schedlab_scx::UserCalls;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Bound, Range};
use std::os::unix::fs::{FileExt, MetadataExt};

/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;
/// `BPF_F_LINK`: the scheduler is attached by a link.
const LINK: u32 = 1 << 13;
const PAGE: u64 = 4096;

/// Bytes of all maps that may be mapped, besides the arena. Chosen: far above what schedulers share with their loaders.
const MOST_SHARED: u64 = 256 << 20;
/// Bytes of one value that is not mapped, and of one for each CPU (kernel: `PCPU_MIN_UNIT_SIZE`), and bytes of a key. Chosen, but for the second.
const MOST_VALUE: u32 = 64 << 20;
const MOST_PER_CPU: u32 = 32 << 10;
const MOST_KEY: u32 = 4096;
/// Bytes of all keys and values that are kept here, and what each pair of them takes besides. Chosen: far above what loaders put
/// into maps before their programs are there.
const MOST_KEPT: u64 = 128 << 20;
const PAIR: u64 = 96;

/// A map.
#[derive(Debug)]
pub(crate) struct Map {
    /// The name as passed to the kernel: at most 15 bytes.
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
    pub(crate) extra: u64,
    pub(crate) frozen: bool,
    /// What the loader maps, for kinds that can be mapped.
    pub(crate) memory: Option<File>,
    /// Entries that were made before it is the simulated kernel's; of each all CPUs' values.
    pub(crate) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The map in the linked scheduler.
    pub(crate) linked: Option<MapId>,
}

impl Map {
    /// Bytes of the file that the loader maps; 0 for kinds that cannot be mapped.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let whole = |bytes: u64| bytes.next_multiple_of(PAGE);
        match self.kind {
            kind::ARENA => u64::from(self.max_entries) * PAGE,
            // The reader's page, the writer's, and the data twice.
            kind::RINGBUF | kind::USER_RINGBUF => 2 * PAGE + 2 * u64::from(self.max_entries),
            kind::ARRAY if self.flags & MMAPABLE != 0 => whole(u64::from(self.max_entries) * self.stride()),
            _ => 0,
        }
    }

    /// Bytes of the host's memory that the file takes which the loader maps.
    pub(crate) fn bytes_taken(&self) -> u64 {
        let about = self.memory.as_ref().and_then(|memory| memory.metadata().ok());
        about.map_or(0, |about| about.blocks() * 512)
    }

    /// Bytes from one value to the next.
    pub(crate) fn stride(&self) -> u64 {
        u64::from(self.value_size).next_multiple_of(8)
    }

    pub(crate) fn is_per_cpu(&self) -> bool {
        matches!(self.kind, kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH)
    }

    fn is_array(&self) -> bool {
        matches!(self.kind, kind::ARRAY | kind::PERCPU_ARRAY)
    }

    pub(super) fn is_of_maps(&self) -> bool {
        matches!(self.kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS)
    }

    /// Bytes that user space reads and writes for one key.
    pub(super) fn value_bytes(&self, cpus: usize) -> usize {
        match self.is_per_cpu() {
            true => self.stride() as usize * cpus,
            false => self.value_size as usize,
        }
    }

    /// The whole content of one value that is mapped.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.value_size as usize];
        if let Some(memory) = &self.memory {
            // What is beyond the end of the file is 0.
            let _ = memory.read_at(&mut bytes, 0);
        } else if let Some(found) = self.entries.get(&0u32.to_le_bytes()[..]) {
            bytes.clone_from(found);
        }
        bytes
    }

    /// Place of a value in what is mapped.
    fn place(&self, key: &[u8]) -> Result<u64, i32> {
        let index = u32::from_le_bytes(key.try_into().map_err(|_| libc::EINVAL)?);
        if index < self.max_entries { Ok(u64::from(index) * self.stride()) } else { Err(libc::E2BIG) }
    }

    /// The value of a key.
    pub(super) fn get(
        &self,
        key: &[u8],
        kernel: Option<&mut UserCalls<'_>>,
        cpus: usize,
    ) -> Result<Vec<u8>, i32> {
        let none = |errno: i32| if errno == libc::E2BIG { libc::ENOENT } else { errno };
        if let Some(memory) = &self.memory {
            let mut value = vec![0; self.value_size as usize];
            let _ = memory.read_at(&mut value, self.place(key).map_err(none)?);
            return Ok(value);
        }
        if let (Some(id), Some(kernel)) = (self.linked, kernel) {
            return kernel.look_up(id, key).map_err(|errno| errno.0);
        }
        match self.entries.get(key) {
            Some(value) => Ok(value.clone()),
            None if self.is_array() => self.place(key).map(|_| vec![0; self.value_bytes(cpus)]).map_err(none),
            None => Err(libc::ENOENT),
        }
    }

    pub(super) fn put(
        &mut self,
        key: Vec<u8>,
        value: Vec<u8>,
        flags: u64,
        (kernel, kept): (Option<&mut UserCalls<'_>>, &mut u64),
    ) -> Result<(), i32> {
        if self.frozen {
            return Err(libc::EPERM);
        }
        if let Some(memory) = &self.memory {
            let place = self.place(&key)?;
            return fill(memory, &value, place).map_err(|_| libc::ENOMEM);
        }
        if let (Some(id), Some(kernel)) = (self.linked, kernel) {
            return kernel.update(id, &key, &value, flags).map_err(|errno| errno.0);
        }
        if self.is_array() {
            self.place(&key)?;
        }
        let known = self.entries.contains_key(&key) || self.is_array();
        match flags & (NOEXIST | EXIST) {
            NOEXIST if known => return Err(libc::EEXIST),
            EXIST if !known => return Err(libc::ENOENT),
            _ => {}
        }
        if !self.entries.contains_key(&key) {
            if self.entries.len() >= self.max_entries as usize {
                return Err(libc::E2BIG);
            }
            *kept += (key.len() + value.len()) as u64 + PAIR;
            if *kept > MOST_KEPT {
                return Err(libc::ENOMEM);
            }
        }
        self.entries.insert(key, value);
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &[u8], kernel: Option<&mut UserCalls<'_>>) -> Result<(), i32> {
        if self.is_array() {
            return Err(libc::EINVAL);
        }
        if let (Some(id), Some(kernel)) = (self.linked, kernel) {
            return kernel.delete(id, key).map_err(|errno| errno.0);
        }
        self.entries.remove(key).map(drop).ok_or(libc::ENOENT)
    }

    fn after(&self, key: Option<&[u8]>, kernel: Option<&mut UserCalls<'_>>) -> Option<Vec<u8>> {
        if self.is_array() {
            let number = key.and_then(|key| Some(u32::from_le_bytes(key.try_into().ok()?)));
            let next = number.filter(|number| *number < self.max_entries).map_or(0, |number| number + 1);
            return (next < self.max_entries).then(|| next.to_le_bytes().to_vec());
        }
        if let (Some(id), Some(kernel)) = (self.linked, kernel) {
            return kernel.key_after(id, key);
        }
        let after = match key.filter(|key| self.entries.contains_key(*key)) {
            Some(key) => Bound::Excluded(key),
            None => Bound::Unbounded,
        };
        self.entries.range::<[u8], _>((after, Bound::Unbounded)).next().map(|(key, _)| key.clone())
    }

    /// Whether its sizes are those of a map that there can be.
    fn fits(&self) -> bool {
        let value = if self.is_per_cpu() { MOST_PER_CPU } else { MOST_VALUE };
        let ring = self.kind == kind::RINGBUF;
        let whole_pages = self.max_entries.is_power_of_two() && u64::from(self.max_entries) >= PAGE;
        let value_fits = self.value_size <= value || self.shared_bytes() > 0;
        self.key_size <= MOST_KEY && value_fits && (!ring || whole_pages)
    }
}

impl Map {
    /// Up to `most` keys in the map's order, after the first `from`.
    pub(super) fn keys(&self, from: u32, most: u32, kernel: Option<&mut UserCalls<'_>>) -> Vec<Vec<u8>> {
        let (skipped, count) = (from as usize, most as usize);
        match (self.linked, kernel) {
            _ if self.is_array() => {
                let numbers = from..self.max_entries.min(from.saturating_add(most));
                numbers.map(|key| key.to_le_bytes().to_vec()).collect()
            }
            (Some(id), Some(kernel)) => kernel.keys(id).into_iter().skip(skipped).take(count).collect(),
            _ => self.entries.keys().skip(skipped).take(count).cloned().collect(),
        }
    }
}

impl Bpf {
    pub(super) fn make_map(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let attr = &asked.attr;
        let map = Map {
            kind: attr.u32(0),
            key_size: attr.u32(4),
            value_size: attr.u32(8),
            max_entries: attr.u32(12),
            flags: attr.u32(16),
            name: attr.name(28),
            extra: attr.u64(64),
            frozen: false,
            memory: None,
            entries: BTreeMap::new(),
            linked: None,
        };
        let shared: u64 =
            self.maps().filter(|(_, map)| map.kind != kind::ARENA).map(|(_, map)| map.shared_bytes()).sum();
        if !map.fits() {
            return Answer::Value(error(libc::EINVAL));
        }
        let own = map.shared_bytes();
        // An object has one arena. Those that were made to see whether there are such maps are closed by now.
        let first = map.kind != kind::ARENA || !self.has_arena(asked);
        let arena_fits = map.kind != kind::ARENA || own <= 1 << 32 && first;
        if !arena_fits || map.kind != kind::ARENA && shared + own > MOST_SHARED {
            self.refused.note(&format!("map {}: {own} bytes to share, above the limit", map.name));
            return Answer::Value(error(libc::ENOMEM));
        }
        Answer::Make(Thing::Map(map))
    }

    /// True if an arena is open; of those that are not, the memory is given back.
    fn has_arena(&mut self, asked: &Asked<'_, '_>) -> bool {
        for (number, thing) in self.things.iter_mut().enumerate() {
            let Thing::Map(map) = thing else { continue };
            if map.kind != kind::ARENA {
                continue;
            }
            if asked.descriptors.of(number).is_some() {
                return true;
            }
            if let Some(memory) = map.memory.take() {
                // A program that has it mapped still, and uses it, ends by a signal.
                let _ = memory.set_len(0);
            }
        }
        false
    }

    /// The map that a call is about, with its number.
    fn asked_map(&self, asked: &Asked<'_, '_>) -> Result<usize, i32> {
        let number = asked.descriptors.bpf(asked.attr.i32(0)).ok_or(libc::EBADF)?;
        self.map(number).map(|_| number).ok_or(libc::EINVAL)
    }

    fn key(&self, number: usize, asked: &Asked<'_, '_>) -> Result<Vec<u8>, i32> {
        let size = self.map(number).map_or(0, |map| map.key_size as usize);
        asked.tracee.read(asked.attr.u64(8), size).ok_or(libc::EFAULT)
    }

    pub(super) fn look_up(&mut self, asked: &mut Asked<'_, '_>, remove: bool) -> Answer {
        answer(self.try_look_up(asked, remove))
    }

    fn try_look_up(&mut self, asked: &mut Asked<'_, '_>, remove: bool) -> Result<(), i32> {
        let number = self.asked_map(asked)?;
        let key = self.key(number, asked)?;
        let map = self.map_mut(number).ok_or(libc::EINVAL)?;
        if map.kind == kind::STRUCT_OPS {
            return Err(libc::ENOENT);
        }
        if remove && matches!(map.kind, kind::QUEUE | kind::STACK) {
            let (id, kernel) = (map.linked, asked.kernel.as_deref_mut());
            // Nothing is in it before it is the simulated kernel's.
            let (Some(id), Some(kernel)) = (id, kernel) else { return Err(libc::ENOENT) };
            let value = kernel.pop(id).map_err(|errno| errno.0)?;
            return asked.tracee.write(asked.attr.u64(16), &value).ok_or(libc::EFAULT);
        }
        let cpus = asked.cpus();
        let mut value = map.get(&key, asked.kernel.as_deref_mut(), cpus)?;
        if map.is_of_maps() {
            value.resize(4, 0);
        }
        asked.tracee.write(asked.attr.u64(16), &value).ok_or(libc::EFAULT)?;
        if remove { map.remove(&key, asked.kernel.as_deref_mut()) } else { Ok(()) }
    }

    pub(super) fn update(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let number = match self.asked_map(asked) {
            Ok(number) => number,
            Err(errno) => return Answer::Value(error(errno)),
        };
        if self.map(number).is_some_and(|map| map.kind == kind::STRUCT_OPS) {
            return self.set_operations(number, asked);
        }
        answer(self.try_update(number, asked))
    }

    fn try_update(&mut self, number: usize, asked: &mut Asked<'_, '_>) -> Result<(), i32> {
        let key = self.key(number, asked)?;
        let cpus = asked.cpus();
        let map = self.map(number).ok_or(libc::EINVAL)?;
        let mut value = asked.tracee.read(asked.attr.u64(16), map.value_bytes(cpus)).ok_or(libc::EFAULT)?;
        if map.is_of_maps() {
            let fd = i32::from_le_bytes(value.as_slice().try_into().map_err(|_| libc::EINVAL)?);
            let inner = asked.descriptors.bpf(fd).ok_or(libc::EBADF)?;
            if let (Some(outer), Some(kernel)) = (map.linked, asked.kernel.as_deref_mut()) {
                let inner = self.inner(inner, kernel)?;
                return kernel.set_inner(outer, &key, inner).map_err(|errno| errno.0);
            }
            value = (inner as u32).to_le_bytes().to_vec();
        }
        let flags = asked.attr.u64(24);
        self.put(number, key, value, flags, asked)
    }

    /// Sets an entry of a map.
    pub(super) fn put(
        &mut self,
        number: usize,
        key: Vec<u8>,
        value: Vec<u8>,
        flags: u64,
        asked: &mut Asked<'_, '_>,
    ) -> Result<(), i32> {
        let Some(Thing::Map(map)) = self.things.get_mut(number) else { return Err(libc::EINVAL) };
        map.put(key, value, flags, (asked.kernel.as_deref_mut(), &mut self.kept))
    }

    /// A map that is put into another one: made in the simulated kernel if the object does not declare it.
    pub(crate) fn inner(&mut self, number: usize, kernel: &mut UserCalls<'_>) -> Result<MapId, i32> {
        let map = self.map_mut(number).ok_or(libc::EINVAL)?;
        if let Some(id) = map.linked {
            return Ok(id);
        }
        let sizes = [map.key_size, map.value_size, map.max_entries, map.flags];
        let made = kernel.make_map(&map.name, map.kind, sizes);
        let entries = std::mem::take(&mut map.entries);
        map.linked = made.as_ref().ok().copied();
        let id = made.map_err(|why| {
            self.refused.note(&format!("a map in a map: {why}"));
            libc::EINVAL
        })?;
        for (key, value) in entries {
            kernel.update(id, &key, &value, 0).map_err(|errno| errno.0)?;
        }
        Ok(id)
    }

    /// The operations of a scheduler, which a link attaches later, or this call itself.
    fn set_operations(&mut self, number: usize, asked: &mut Asked<'_, '_>) -> Answer {
        let size = self.map(number).map_or(0, |map| map.value_size as usize);
        let Some(value) = asked.tracee.read(asked.attr.u64(16), size) else {
            return Answer::Value(error(libc::EFAULT));
        };
        let by_link = self.map(number).is_some_and(|map| map.flags & LINK != 0);
        if self.attached {
            // The same call once more, now that the scheduler is enabled; or a second scheduler.
            let own = self.operations.as_ref().is_some_and(|(known, _)| *known == number);
            return Answer::Value(if own { 0 } else { error(libc::EBUSY) });
        }
        self.operations = Some((number, value));
        if by_link { Answer::Value(0) } else { self.attach(number, asked) }
    }

    /// Attaches the scheduler of a struct_ops map.
    pub(super) fn attach(&mut self, number: usize, asked: &Asked<'_, '_>) -> Answer {
        if self.operations.as_ref().is_none_or(|(known, _)| *known != number) {
            return Answer::Value(error(libc::EINVAL));
        }
        if asked.kernel.is_none() { Answer::NeedsPrograms } else { Answer::Attach }
    }

    pub(super) fn delete(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let done = self.asked_map(asked).and_then(|number| {
            let key = self.key(number, asked)?;
            let map = self.map_mut(number).ok_or(libc::EINVAL)?;
            if map.kind == kind::STRUCT_OPS {
                self.detached = self.attached;
                return Ok(());
            }
            map.remove(&key, asked.kernel.as_deref_mut())
        });
        answer(done)
    }

    pub(super) fn next_key(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let done = self.asked_map(asked).and_then(|number| {
            let given = if asked.attr.u64(8) == 0 { None } else { Some(self.key(number, asked)?) };
            let map = self.map(number).ok_or(libc::EINVAL)?;
            let next = map.after(given.as_deref(), asked.kernel.as_deref_mut()).ok_or(libc::ENOENT)?;
            asked.tracee.write(asked.attr.u64(16), &next).ok_or(libc::EFAULT)
        });
        answer(done)
    }

    pub(super) fn freeze(&mut self, asked: &mut Asked<'_, '_>) -> Answer {
        let done = self.asked_map(asked).map(|number| {
            if let Some(map) = self.map_mut(number) {
                map.frozen = true;
            }
        });
        answer(done)
    }
}

impl Asked<'_, '_> {
    /// CPUs that per-CPU maps have values for.
    pub(super) fn cpus(&self) -> usize {
        self.nr_cpus
    }
}

fn answer(done: Result<(), i32>) -> Answer {
    Answer::Value(done.map_or_else(error, |()| 0))
}

/// Makes a mapped file hold this from a place on, and takes no memory of the host for pages that are and were zero.
pub(crate) fn fill(memory: &File, bytes: &[u8], place: u64) -> io::Result<()> {
    const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
    let mut taken = parts(memory).into_iter().peekable();
    // What is to be written begins at `from`; pages are the file's.
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        let begin = place + at as u64;
        let end = bytes.len().min(at + (PAGE - begin % PAGE) as usize);
        while taken.next_if(|part| part.end <= begin).is_some() {}
        let is_taken = taken.peek().is_some_and(|part| part.start < place + end as u64);
        if !is_taken && bytes[at..end] == ZEROS[..end - at] {
            memory.write_all_at(&bytes[from..at], place + from as u64)?;
            from = end;
        }
        at = end;
    }
    memory.write_all_at(&bytes[from..], place + from as u64)
}

/// Where the parts of a mapped file lie that were ever written.
pub(crate) fn parts(memory: &File) -> Vec<Range<u64>> {
    use std::os::fd::AsRawFd;
    let mut parts = Vec::new();
    let seek = |at: i64, what: i32| {
        // SAFETY: numbers only.
        unsafe { libc::lseek(memory.as_raw_fd(), at, what) }
    };
    let mut at = 0;
    loop {
        let begin = seek(at, libc::SEEK_DATA);
        if begin < 0 {
            break;
        }
        let end = seek(begin, libc::SEEK_HOLE);
        if end <= begin {
            break;
        }
        parts.push(begin as u64..end as u64);
        at = end;
    }
    // The position is the loader's own, shared with its descriptor; it reads nothing by it.
    let _ = (&*memory).read(&mut []);
    parts
}
