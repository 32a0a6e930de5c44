//! The end of a stream of bytes, and how much of it is missing.

use std::collections::VecDeque;

/// The last bytes of what a program writes; the others are counted.
#[derive(Clone, Debug)]
pub struct Tail {
    most: usize,
    kept: VecDeque<u8>,
    left_out: u64,
}

impl Tail {
    /// Keeps up to `most` bytes.
    pub fn new(most: usize) -> Tail {
        Tail { most, kept: VecDeque::new(), left_out: 0 }
    }

    /// Bytes that follow.
    pub fn push(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(self.most)..];
        let old = (self.kept.len() + new.len()).saturating_sub(self.most);
        self.left_out += (bytes.len() - new.len() + old) as u64;
        self.kept.drain(..old);
        self.kept.extend(new);
    }

    /// So many bytes that follow are left out, and with them all before.
    pub fn skip(&mut self, count: u64) {
        if count > 0 {
            self.left_out += count + self.kept.len() as u64;
            self.kept.clear();
        }
    }

    /// How many bytes are left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What is kept, behind a line that tells how much was left out.
    pub fn into_bytes(self) -> Vec<u8> {
        let note = match self.left_out {
            0 => String::new(),
            count => format!("[{count} bytes of output left out]\n"),
        };
        note.into_bytes().into_iter().chain(self.kept).collect()
    }

    /// What is kept, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.clone().into_bytes()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_rest_counted() {
        let told = |parts: &[&str]| {
            let mut tail = Tail::new(5);
            parts.iter().for_each(|part| tail.push(part.as_bytes()));
            tail.text()
        };
        assert_eq!(told(&["ab", "", "cde"]), "abcde");
        assert_eq!(told(&["ab", "cdef"]), "[1 bytes of output left out]\nbcdef");
        assert_eq!(told(&["ab", "cdefghij", "k"]), "[6 bytes of output left out]\nghijk");
        let mut tail = Tail::new(5);
        tail.push(b"ab");
        tail.skip(7);
        tail.push(b"cd");
        assert_eq!((tail.left_out(), tail.text().lines().last()), (9, Some("cd")));
    }
}
