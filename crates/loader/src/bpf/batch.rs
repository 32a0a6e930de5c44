//! Many entries of a map in one call, as `BPF_MAP_*_BATCH` take and give them.

use super::{Answer, Asked, Bpf, ENOTSUPP, error};

/// What is done with each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batch {
    LookUp,
    LookUpAndDelete,
    Update,
    Delete,
}

/// Most entries that a call gives, which may be fewer than asked for, and takes. Chosen.
const MOST: u32 = 1 << 16;
const MOST_TAKEN: u32 = 1 << 20;

/// Places in `union bpf_attr`.
const IN: usize = 0;
const OUT: usize = 8;
const KEYS: usize = 16;
const VALUES: usize = 24;
const COUNT: usize = 32;
const MAP: usize = 36;
const FLAGS: usize = 40;

impl Bpf {
    /// Does one batch operation. The attribute gets how many entries were done, whatever the result.
    pub(super) fn batch(&mut self, what: Batch, asked: &mut Asked<'_, '_>) -> Answer {
        let found = asked.descriptors.bpf(asked.attr.i32(MAP)).ok_or(libc::EBADF);
        let number = match found {
            Ok(number) if self.map(number).is_some_and(|map| !map.is_of_maps()) => number,
            Ok(_) => return Answer::Value(error(ENOTSUPP)),
            Err(errno) => return Answer::Value(error(errno)),
        };
        let mut done = 0;
        let result = match what {
            Batch::LookUp | Batch::LookUpAndDelete => self.give(number, what, &mut done, asked),
            Batch::Update | Batch::Delete => self.take(number, what, &mut done, asked),
        };
        let told = asked.tracee.write(asked.attr.place(COUNT), &done.to_le_bytes());
        Answer::Value(match (result, told) {
            (_, None) => error(libc::EFAULT),
            (Ok(()), _) => 0,
            (Err(errno), _) => error(errno),
        })
    }

    /// Copies entries to the loader, from where the last call ended; `ENOENT` with the last of them.
    fn give(
        &mut self,
        number: usize,
        what: Batch,
        done: &mut u32,
        asked: &mut Asked<'_, '_>,
    ) -> Result<(), i32> {
        let from = match asked.attr.u64(IN) {
            0 => 0,
            at => asked.tracee.number::<4>(at).ok_or(libc::EFAULT)? as u32,
        };
        let (keys, values) = (asked.attr.u64(KEYS), asked.attr.u64(VALUES));
        let most = asked.attr.u32(COUNT).min(MOST);
        let cpus = asked.cpus();
        let map = self.map_mut(number).ok_or(libc::EINVAL)?;
        let (key_size, value_size) = (u64::from(map.key_size), map.value_bytes(cpus) as u64);
        // One more tells whether these are the last.
        let found = map.keys(from, most + 1, asked.kernel.as_deref_mut());
        for key in found.iter().take(most as usize) {
            let value = map.get(key, asked.kernel.as_deref_mut(), cpus)?;
            let place = u64::from(*done);
            asked.tracee.write(keys.wrapping_add(place * key_size), key).ok_or(libc::EFAULT)?;
            asked.tracee.write(values.wrapping_add(place * value_size), &value).ok_or(libc::EFAULT)?;
            *done += 1;
            if what == Batch::LookUpAndDelete {
                map.remove(key, asked.kernel.as_deref_mut())?;
            }
        }
        let next = if what == Batch::LookUpAndDelete { from } else { from + *done };
        asked.tracee.write(asked.attr.u64(OUT), &next.to_le_bytes()).ok_or(libc::EFAULT)?;
        if found.len() <= most as usize { Err(libc::ENOENT) } else { Ok(()) }
    }

    /// Takes entries, or keys that go, from the loader, up to the first that is refused.
    fn take(
        &mut self,
        number: usize,
        what: Batch,
        done: &mut u32,
        asked: &mut Asked<'_, '_>,
    ) -> Result<(), i32> {
        let (keys, values, count) = (asked.attr.u64(KEYS), asked.attr.u64(VALUES), asked.attr.u32(COUNT));
        let (flags, cpus) = (asked.attr.u64(FLAGS), asked.cpus());
        if count > MOST_TAKEN {
            return Err(libc::E2BIG);
        }
        while *done < count {
            let map = self.map(number).ok_or(libc::EINVAL)?;
            let (key_size, value_size) = (map.key_size as usize, map.value_bytes(cpus));
            let place = |base: u64, size: usize| base.wrapping_add(u64::from(*done) * size as u64);
            let key = asked.tracee.read(place(keys, key_size), key_size).ok_or(libc::EFAULT)?;
            if what == Batch::Update {
                let value = asked.tracee.read(place(values, value_size), value_size).ok_or(libc::EFAULT)?;
                self.put(number, key, value, flags, asked)?;
            } else {
                self.map_mut(number).ok_or(libc::EINVAL)?.remove(&key, asked.kernel.as_deref_mut())?;
            }
            *done += 1;
        }
        Ok(())
    }
}
