//! File descriptors of channels as system call arguments show them.
//!
//! All tasks of a run see one table: a pipe `c` has its read end at `3 + 2c` and
//! its write end one above; a connection of channels `c` and `d` (`c < d`) has the
//! endpoint that sends into `c` at `3 + 2c` and the other one above.

use schedlab_workload::{Channel, ChannelId, ChannelKind};

/// The first descriptor after the standard ones.
const FIRST: u32 = 3;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The pipe, or the lower channel of a connection.
    pub channel: ChannelId,
    /// What it is made of.
    pub kind: ChannelKind,
    /// Of a pipe: the write end. Of a connection: the endpoint that sends into the
    /// higher channel.
    pub second: bool,
}

/// The descriptor through which a task writes (or reads) `channel`.
pub fn descriptor(channels: &[Channel], channel: ChannelId, write: bool) -> u32 {
    let spec = &channels[channel.index()];
    let lower = spec.peer.map_or(channel, |peer| peer.min(channel));
    let second = match spec.kind {
        ChannelKind::Pipe => write,
        ChannelKind::Unix | ChannelKind::Tcp => (channel == lower) != write,
    };
    FIRST + 2 * lower.0 + u32::from(second)
}

/// What descriptor `fd` stands for, if anything.
pub fn resolve(channels: &[Channel], fd: u32) -> Option<Descriptor> {
    let channel = ChannelId(fd.checked_sub(FIRST)? / 2);
    let spec = channels.get(channel.index())?;
    if spec.peer.is_some_and(|peer| peer < channel) {
        return None;
    }
    Some(Descriptor { channel, kind: spec.kind, second: (fd - FIRST) % 2 == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_of_an_endpoint_are_one_descriptor() {
        let socket = |peer| Channel { kind: ChannelKind::Tcp, capacity: 1, peer: Some(ChannelId(peer)) };
        let pipe = Channel { kind: ChannelKind::Pipe, capacity: 1, peer: None };
        let channels = [socket(1), socket(0), pipe];
        let fd = |channel, write| descriptor(&channels, ChannelId(channel), write);
        assert_eq!((fd(0, true), fd(1, false)), (3, 3));
        assert_eq!((fd(0, false), fd(1, true)), (4, 4));
        assert_eq!((fd(2, false), fd(2, true)), (7, 8));
        assert_eq!(resolve(&channels, 4).unwrap().channel, ChannelId(0));
        assert!(resolve(&channels, 4).unwrap().second);
        assert_eq!(resolve(&channels, 5), None);
        assert_eq!(resolve(&channels, 8).unwrap().kind, ChannelKind::Pipe);
        assert_eq!((resolve(&channels, 1), resolve(&channels, 99)), (None, None));
    }
}
