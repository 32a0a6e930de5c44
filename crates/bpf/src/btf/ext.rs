//! `.BTF.ext`: CO-RE relocation records and source lines per code section. Function records are not needed here.

use super::parse::Words;
use super::{Btf, TypeId};
use crate::error::LoadError;
use crate::limits::{CORE_RECORDS, LINE_RECORDS, Limit};
use std::collections::BTreeMap;
use std::ops::Range;

/// Records of one object, by name of the code section they belong to, in order of their instructions.
#[derive(Debug, Clone, Default)]
pub(crate) struct BtfExt {
    pub(crate) core: BTreeMap<String, Vec<CoreRecord>>,
    pub(crate) lines: BTreeMap<String, Vec<LineRecord>>,
}

/// One CO-RE relocation as written by the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoreRecord {
    /// Bytes from the start of the section.
    pub(crate) insn_off: u32,
    /// Root type in the object's BTF.
    pub(crate) ty: TypeId,
    /// Offset of the access string in the object's BTF strings.
    pub(crate) access: u32,
    /// Which question is asked; see `core_relo`.
    pub(crate) kind: u32,
}

/// Where an instruction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineRecord {
    /// Bytes from the start of the section.
    pub(crate) insn_off: u32,
    /// Offsets of file name and source text in the BTF strings.
    pub(crate) file: u32,
    pub(crate) text: u32,
    /// 0 where the compiler made the instruction up.
    pub(crate) line: u32,
}

impl LineRecord {
    /// The record that covers an instruction, by its number in the section.
    pub(crate) fn of(lines: &[LineRecord], insn: usize) -> Option<&LineRecord> {
        let before = lines.partition_point(|line| u64::from(line.insn_off) <= insn as u64 * 8);
        lines[..before].iter().rfind(|line| line.line != 0)
    }

    /// `file:line`; the file without its folders.
    pub(crate) fn place(&self, btf: &Btf) -> String {
        let file = btf.string(self.file);
        format!("{}:{}", file.rsplit('/').next().unwrap_or(file), self.line)
    }
}

/// A record about an instruction.
pub(crate) trait Record: Copy {
    /// The record of the four words that all have at least.
    fn of(words: [u32; 4]) -> Self;

    /// Bytes of the instruction from the start of its section.
    fn insn_off(&self) -> u32;

    /// The records of a range of slots, of those of a section.
    fn within(records: &[Self], slots: Range<usize>) -> &[Self] {
        debug_assert!(records.is_sorted_by_key(Record::insn_off), "records are in order");
        let before =
            |slot: usize| records.partition_point(|record| u64::from(record.insn_off()) < slot as u64 * 8);
        &records[before(slots.start)..before(slots.end)]
    }
}

impl Record for CoreRecord {
    fn of([insn_off, ty, access, kind]: [u32; 4]) -> Self {
        CoreRecord { insn_off, ty: TypeId(ty), access, kind }
    }

    fn insn_off(&self) -> u32 {
        self.insn_off
    }
}

impl Record for LineRecord {
    fn of([insn_off, file, text, line]: [u32; 4]) -> Self {
        // The last word is line << 10 | column.
        LineRecord { insn_off, file, text, line: line >> 10 }
    }

    fn insn_off(&self) -> u32 {
        self.insn_off
    }
}

fn bad(problem: impl Into<String>) -> LoadError {
    LoadError::malformed("section .BTF.ext", problem)
}

impl BtfExt {
    pub(crate) fn parse(bytes: &[u8], btf: &Btf) -> Result<BtfExt, LoadError> {
        let mut w = Words::new(bytes, "section .BTF.ext");
        let head = w.take(4)?;
        if head[..3] != [0x9f, 0xeb, 1] {
            return Err(bad("not little-endian BTF.ext of version 1"));
        }
        let header = w.u32()? as usize;
        let mut parts = [(0usize, 0usize); 3];
        // Function records, line records, CO-RE records; old compilers write no third pair.
        for part in parts.iter_mut().take(if header >= 32 { 3 } else { 2 }) {
            *part = (w.u32()? as usize, w.u32()? as usize);
        }
        // The first pair is of functions.
        let part = |(off, len): (usize, usize)| {
            let from = header.checked_add(off).filter(|&f| f <= bytes.len());
            let to = from.and_then(|f| f.checked_add(len)).filter(|&t| t <= bytes.len());
            match (from, to) {
                _ if len == 0 => Ok(None),
                (Some(from), Some(to)) => Ok(Some(&bytes[from..to])),
                _ => Err(bad("records reach beyond the end of the section")),
            }
        };
        let lines = part(parts[1])?.map(|bytes| read_part(bytes, LINE_RECORDS, btf)).transpose()?;
        let core = part(parts[2])?.map(|bytes| read_part(bytes, CORE_RECORDS, btf)).transpose()?;
        Ok(BtfExt { core: core.unwrap_or_default(), lines: lines.unwrap_or_default() })
    }
}

/// Record size, then per section: name, count, records.
fn read_part<R: Record>(
    bytes: &[u8],
    limit: Limit,
    btf: &Btf,
) -> Result<BTreeMap<String, Vec<R>>, LoadError> {
    let mut out: BTreeMap<String, Vec<R>> = BTreeMap::new();
    let mut w = Words::new(bytes, "section .BTF.ext");
    let size = w.u32()? as usize;
    if size < 16 || !size.is_multiple_of(4) {
        return Err(bad(format!("records of {size} bytes")));
    }
    // A section counts like a record.
    let mut found = 0usize;
    while !w.done() {
        let section = btf.string(w.u32()?).to_string();
        let count = w.u32()?;
        found = found.saturating_add(count as usize + 1);
        limit.check(found, || format!("section .BTF.ext, records of {section}"))?;
        let records = out.entry(section).or_default();
        for _ in 0..count {
            let mut r = Words::new(w.take(size)?, "section .BTF.ext");
            records.push(R::of([r.u32()?, r.u32()?, r.u32()?, r.u32()?]));
        }
    }
    // Compilers write them in this order; a stable sort keeps several of one instruction as they are.
    out.values_mut().for_each(|records| records.sort_by_key(Record::insn_off));
    Ok(out)
}
