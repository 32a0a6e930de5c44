//! `.BTF.ext`: CO-RE relocation records and source lines per code section. Function records are not needed here.

use super::parse::Words;
use super::{Btf, TypeId};
use crate::error::LoadError;
use std::collections::BTreeMap;

/// Records of one object, by name of the code section they belong to, in order of the file.
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
        let offset = insn as u64 * 8;
        lines.iter().rfind(|line| u64::from(line.insn_off) <= offset && line.line != 0)
    }

    /// `file:line`; the file without its folders.
    pub(crate) fn place(&self, btf: &Btf) -> String {
        let file = btf.string(self.file);
        format!("{}:{}", file.rsplit('/').next().unwrap_or(file), self.line)
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
        let mut out = BtfExt::default();
        for (index, &(off, len)) in parts.iter().enumerate().skip(1) {
            if len == 0 {
                continue;
            }
            let from = header.checked_add(off).filter(|&f| f <= bytes.len());
            let to = from.and_then(|f| f.checked_add(len)).filter(|&t| t <= bytes.len());
            let (Some(from), Some(to)) = (from, to) else {
                return Err(bad("records reach beyond the end of the section"));
            };
            out.read_part(&bytes[from..to], index == 2, btf)?;
        }
        Ok(out)
    }

    /// Record size, then per section: name, count, records.
    fn read_part(&mut self, bytes: &[u8], core: bool, btf: &Btf) -> Result<(), LoadError> {
        let mut w = Words::new(bytes, "section .BTF.ext");
        let size = w.u32()? as usize;
        if size < 16 || !size.is_multiple_of(4) {
            return Err(bad(format!("records of {size} bytes")));
        }
        while !w.done() {
            let section = btf.string(w.u32()?).to_string();
            for _ in 0..w.u32()? {
                let mut r = Words::new(w.take(size)?, "section .BTF.ext");
                let (insn_off, second, third, fourth) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
                if core {
                    let record = CoreRecord { insn_off, ty: TypeId(second), access: third, kind: fourth };
                    self.core.entry(section.clone()).or_default().push(record);
                } else {
                    // File name, source text, then line << 10 | column.
                    let record = LineRecord { insn_off, file: second, text: third, line: fourth >> 10 };
                    self.lines.entry(section.clone()).or_default().push(record);
                }
            }
        }
        Ok(())
    }
}
