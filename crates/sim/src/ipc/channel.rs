//! Byte channels: pipes, Unix stream sockets, TCP and UDP over loopback. No contents
//! are kept, only positions.
//!
//! As in the kernel, a write that begins below the capacity is taken whole up to a page (a pipe's
//! buffer, a socket's packet). So a channel holds up to one message more than its capacity.

use crate::event::lock::Timeline;
use schedlab_base::TaskId;
use schedlab_workload::{Channel as Spec, ChannelKind};
use std::collections::VecDeque;

/// A pipe buffer, and the longest write that is never split (`PIPE_BUF`).
const PAGE: u64 = 4096;

/// What a transfer did and which tasks must be woken for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Bytes transferred; fewer than asked for means that the caller blocks.
    pub(crate) bytes: u32,
    /// Pollers are notified that there is something to read.
    pub(crate) announced: bool,
    /// How many of the waiting readers to wake, in order.
    pub(crate) wake_readers: usize,
    /// How many of the waiting writers to wake, in order.
    pub(crate) wake_writers: usize,
}

/// One direction of a pipe or connection.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) kind: ChannelKind,
    capacity: u64,
    /// Bytes written and read since the start.
    written: u64,
    read: u64,
    readers: VecDeque<TaskId>,
    writers: VecDeque<TaskId>,
    /// Some task polls it.
    polled: bool,
    /// The pipe's mutex or the socket's lock.
    pub(crate) lock: Timeline,
}

impl Channel {
    /// An empty channel; `polled` when a poll set of the scenario watches it.
    pub(crate) fn new(spec: &Spec, polled: bool) -> Channel {
        Channel {
            kind: spec.kind,
            capacity: u64::from(spec.capacity),
            written: 0,
            read: 0,
            readers: VecDeque::new(),
            writers: VecDeque::new(),
            polled,
            lock: Timeline::default(),
        }
    }

    /// Bytes that can be read.
    pub(crate) fn available(&self) -> u64 {
        debug_assert!(self.read <= self.written, "what is read was written");
        self.written - self.read
    }

    /// Bytes that count against the capacity. A pipe's buffer is free again only
    /// when its last byte has been read.
    fn used(&self) -> u64 {
        let available = self.available();
        if self.kind == ChannelKind::Pipe && self.capacity >= PAGE && available > 0 {
            self.written - self.read / PAGE * PAGE
        } else {
            available
        }
    }

    /// Writes up to `bytes`.
    pub(crate) fn put(&mut self, bytes: u32) -> Moved {
        let was_empty = self.available() == 0;
        let (mut left, total) = (u64::from(bytes), u64::from(bytes));
        if self.kind == ChannelKind::Udp && self.used() + total > self.capacity {
            // The receiver's buffer is full: the datagram is lost, its sender learns nothing.
            return Moved { bytes, ..Moved::default() };
        }
        while left > 0 && self.used() < self.capacity {
            let chunk = if self.kind == ChannelKind::Pipe { left.min(PAGE) } else { left };
            self.written += chunk;
            left -= chunk;
        }
        debug_assert!(left <= total, "no more is moved than asked for");
        let moved = total - left;
        // pipe_write() wakes a reader only of an empty pipe, or of one that was ever polled, and
        // hands on to the next writer when it leaves room. A socket announces every packet.
        let announce = moved > 0 && (was_empty || self.polled || self.kind != ChannelKind::Pipe);
        let room = moved > 0 && self.kind == ChannelKind::Pipe && self.used() < self.capacity;
        Moved {
            bytes: moved as u32,
            announced: announce && self.polled,
            wake_readers: self.readers.len().min(usize::from(announce)),
            wake_writers: self.writers.len().min(usize::from(room)),
        }
    }

    /// Reads up to `bytes`.
    pub(crate) fn take(&mut self, bytes: u32) -> Moved {
        let was_full = self.used() >= self.capacity;
        let moved = self.available().min(u64::from(bytes));
        self.read += moved;
        debug_assert!(moved <= u64::from(bytes), "no more is read than asked for");
        let used = self.used();
        let wake_writers = match self.kind {
            // pipe_read(): one writer, when the first buffer of a full pipe is free.
            ChannelKind::Pipe => self.writers.len().min(usize::from(was_full && used < self.capacity)),
            // unix_writable(): all of them, at a quarter full.
            ChannelKind::Unix if used * 4 <= self.capacity => self.writers.len(),
            // sk_stream_is_writeable(): all of them, when the free part is at least half
            // of the used one.
            ChannelKind::Tcp if used * 3 <= self.capacity * 2 => self.writers.len(),
            _ => 0,
        };
        let more = moved > 0 && self.available() > 0;
        Moved {
            bytes: moved as u32,
            announced: false,
            wake_readers: self.readers.len().min(usize::from(more)),
            wake_writers: if moved > 0 { wake_writers } else { 0 },
        }
    }

    /// True if freeing a packet of it wakes all that sleep on the sender's socket: of Unix sockets that are at most a quarter full
    /// (`unix_writable()`).
    pub(crate) fn tells_of_space(&self) -> bool {
        self.kind == ChannelKind::Unix && self.used() * 4 <= self.capacity
    }

    /// True if a reader that is woken now sleeps again: there is nothing to read, and the wakeup was for writers.
    pub(crate) fn woke_for_nothing(&self) -> bool {
        self.kind == ChannelKind::Unix && self.available() == 0
    }

    /// How many tasks wait to read.
    pub(crate) fn waiting_readers(&self) -> usize {
        self.readers.len()
    }

    /// Queues a reader that found too little.
    pub(crate) fn wait_to_read(&mut self, task: TaskId) {
        debug_assert!(!self.readers.contains(&task), "{task} waits once");
        self.readers.push_back(task);
    }

    /// Queues a writer that found no room.
    pub(crate) fn wait_to_write(&mut self, task: TaskId) {
        debug_assert!(!self.writers.contains(&task), "{task} waits once");
        self.writers.push_back(task);
    }

    /// The next reader to wake.
    pub(crate) fn pop_reader(&mut self) -> Option<TaskId> {
        self.readers.pop_front()
    }

    /// The next writer to wake.
    pub(crate) fn pop_writer(&mut self) -> Option<TaskId> {
        self.writers.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(kind: ChannelKind, capacity: u32) -> Channel {
        Channel::new(&Spec { kind, capacity, peer: None }, false)
    }

    #[test]
    fn a_pipe_wakes_its_reader_only_when_it_was_empty() {
        let mut pipe = channel(ChannelKind::Pipe, 65_536);
        pipe.wait_to_read(TaskId(1));
        pipe.wait_to_read(TaskId(2));
        assert_eq!(pipe.put(4), Moved { bytes: 4, announced: false, wake_readers: 1, wake_writers: 0 });
        assert_eq!(pipe.pop_reader(), Some(TaskId(1)));
        assert_eq!(pipe.put(4).wake_readers, 0);
        // The first reader leaves data behind and hands on.
        assert_eq!(pipe.take(4), Moved { bytes: 4, announced: false, wake_readers: 1, wake_writers: 0 });
    }

    #[test]
    fn a_full_pipe_wakes_its_writer_when_a_buffer_is_free() {
        let mut pipe = channel(ChannelKind::Pipe, 8192);
        assert_eq!(pipe.put(10_000).bytes, 8192);
        assert_eq!(pipe.put(1).bytes, 0);
        pipe.wait_to_write(TaskId(1));
        assert_eq!(pipe.take(4000).wake_writers, 0);
        assert_eq!(pipe.take(2000).wake_writers, 1);
        assert_eq!(pipe.pop_writer(), Some(TaskId(1)));
    }

    #[test]
    fn sockets_wake_their_writers_at_the_kernels_marks() {
        for (kind, capacity, mark) in [(ChannelKind::Unix, 1000, 750), (ChannelKind::Tcp, 900, 300)] {
            let mut socket = channel(kind, capacity);
            assert_eq!(socket.put(capacity).bytes, capacity);
            assert_eq!(socket.put(100).bytes, 0);
            socket.wait_to_write(TaskId(1));
            socket.wait_to_write(TaskId(2));
            assert_eq!(socket.take(mark - 1).wake_writers, 0, "{kind:?}");
            assert_eq!(socket.take(1).wake_writers, 2, "{kind:?}");
        }
    }

    #[test]
    fn datagrams_without_room_are_lost() {
        let mut socket = channel(ChannelKind::Udp, 250);
        socket.wait_to_read(TaskId(1));
        assert_eq!(socket.put(100).wake_readers, 1);
        assert_eq!((socket.put(100).bytes, socket.put(100).bytes), (100, 100));
        assert_eq!((socket.take(100).bytes, socket.take(100).bytes, socket.take(100).bytes), (100, 100, 0));
    }

    #[test]
    fn pollers_of_a_pipe_hear_of_every_write() {
        let mut pipe = Channel::new(&Spec { kind: ChannelKind::Pipe, capacity: 8192, peer: None }, true);
        assert!(pipe.put(4).announced && pipe.put(4).announced);
        assert!(!channel(ChannelKind::Pipe, 8192).put(4).announced);
    }

    #[test]
    fn short_reads_make_progress() {
        let mut pipe = channel(ChannelKind::Pipe, 100);
        assert_eq!(pipe.put(60).bytes, 60);
        assert_eq!(pipe.take(100).bytes, 60);
        assert_eq!(pipe.take(40), Moved::default());
    }
}
