//! Named byte records, the format of everything that passes between host and guest.
//!
//! A record is `SLR1`, the length of its name (u32), the length of its data (u64), name, data;
//! numbers are little-endian. A stream that was cut short yields the records before the cut.

use std::io::{self, Write};

const MAGIC: &[u8; 4] = b"SLR1";

/// Longest name accepted when reading; our own are far shorter.
const MAX_NAME: usize = 4096;

/// One named piece of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

/// Writes one record.
pub(crate) fn write_record(out: &mut impl Write, name: &str, data: &[u8]) -> io::Result<()> {
    let mut head = Vec::with_capacity(16 + name.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&(name.len() as u32).to_le_bytes());
    head.extend_from_slice(&(data.len() as u64).to_le_bytes());
    head.extend_from_slice(name.as_bytes());
    out.write_all(&head)?;
    out.write_all(data)
}

/// The complete records at the start of `bytes`.
pub(crate) fn read_records(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some((record, rest)) = split_record(bytes) {
        records.push(record);
        bytes = rest;
    }
    records
}

fn split_record(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC.as_slice())?;
    let (name_len, rest) = rest.split_first_chunk::<4>()?;
    let (data_len, rest) = rest.split_first_chunk::<8>()?;
    let name_len = u32::from_le_bytes(*name_len) as usize;
    let data_len = usize::try_from(u64::from_le_bytes(*data_len)).ok()?;
    if name_len > MAX_NAME || rest.len() < name_len || rest.len() - name_len < data_len {
        return None;
    }
    let (name, rest) = rest.split_at(name_len);
    let (data, rest) = rest.split_at(data_len);
    let name = String::from_utf8(name.to_vec()).ok()?;
    Some((Record { name, data: data.to_vec() }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_a_cut_one_is_dropped() {
        let mut bytes = Vec::new();
        write_record(&mut bytes, "a", b"one").unwrap();
        write_record(&mut bytes, "b", b"").unwrap();
        let whole = bytes.len();
        write_record(&mut bytes, "c", b"three").unwrap();
        assert_eq!(read_records(&bytes).len(), 3);
        for cut in whole..bytes.len() {
            let records = read_records(&bytes[..cut]);
            assert_eq!(records.len(), 2);
            assert_eq!((records[0].name.as_str(), records[0].data.as_slice()), ("a", b"one".as_slice()));
        }
    }

    #[test]
    fn noise_and_absurd_lengths_are_not_records() {
        assert!(read_records(b"noise").is_empty());
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[0xff; 12]);
        assert!(read_records(&bytes).is_empty());
    }
}
