//! Numbers that one process image leaves to the next: u64, little-endian.

/// Reader of encoded numbers; every read may find the end.
pub(super) struct Words(std::vec::IntoIter<u64>);

impl Words {
    /// A reader of these numbers.
    pub(super) fn new(words: Vec<u64>) -> Words {
        Words(words.into_iter())
    }

    /// The numbers of whole groups of eight bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Words {
        Words::new(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub(super) fn next(&mut self) -> Option<u64> {
        self.0.next()
    }

    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.next()?).ok()
    }

    /// A signed number: a descriptor, or -1.
    pub(super) fn number(&mut self) -> Option<i32> {
        i32::try_from(self.next()?.cast_signed()).ok()
    }

    pub(super) fn short(&mut self) -> Option<u32> {
        u32::try_from(self.next()?).ok()
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        Some(self.next()? != 0)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u64; N]> {
        let values: Vec<u64> = (0..N).map_while(|_| self.next()).collect();
        values.try_into().ok()
    }

    /// What [`push_text`] wrote.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.size()?;
        let words = (0..length.div_ceil(8)).map(|_| self.next()).collect::<Option<Vec<u64>>>()?;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }

    /// A counted list.
    pub(super) fn list<T>(&mut self, mut read: impl FnMut(&mut Words) -> Option<T>) -> Option<Vec<T>> {
        let count = self.size()?;
        (0..count).map(|_| read(self)).collect()
    }
}

/// A text as its length and its bytes, eight to a number.
pub(super) fn push_text(words: &mut Vec<u64>, text: &str) {
    words.push(text.len() as u64);
    words.extend(text.as_bytes().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }));
}
