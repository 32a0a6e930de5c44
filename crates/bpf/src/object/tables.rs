//! Tables: what an object leaves in its variables for people to read.
//!
//! A global array of structures outside of `.rodata` with a tag (`btf_decl_tag`) that says what it shows is a table. Each
//! element is a row, but for those that are all zeros; the structure's members that are numbers are the columns,
//! in their order, enumerations by name. Loaders read it when the scheduler has left.

use super::{Object, Variable};
use crate::btf::{Kind, TypeId};

/// A table of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table<'a> {
    /// The array.
    pub variable: &'a Variable,
    /// What it shows, as the object says.
    pub meaning: &'a str,
    /// The names of its columns.
    pub columns: Vec<&'a str>,
    fields: Vec<Field>,
    row: usize,
}

/// A member that is a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    ty: TypeId,
    offset: usize,
    size: usize,
}

impl Object {
    /// The object's tables, in order of name.
    pub fn tables(&self) -> Vec<Table<'_>> {
        let outside = |v: &&Variable| v.global && !v.section.starts_with(".rodata");
        let mut tables: Vec<Table<'_>> =
            self.variables.iter().filter(outside).filter_map(|variable| self.table(variable)).collect();
        tables.sort_by(|a, b| a.variable.name.cmp(&b.variable.name));
        tables
    }

    fn table<'a>(&'a self, variable: &'a Variable) -> Option<Table<'a>> {
        let Kind::Array(array) = self.btf.resolved(variable.ty?) else { return None };
        let Kind::Struct(row) = self.btf.resolved(array.elem) else { return None };
        let meaning = self.tags.get(&variable.name)?;
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for member in row.members.iter().filter(|member| member.bitfield == 0) {
            let size = match self.btf.resolved(member.ty) {
                Kind::Int(int) => int.size,
                Kind::Enum(e) | Kind::Enum64(e) => e.size,
                _ => continue,
            } as usize;
            columns.push(self.btf.member_name(member));
            fields.push(Field { ty: member.ty, offset: member.bit_offset as usize / 8, size });
        }
        Some(Table { variable, meaning, columns, fields, row: row.size as usize })
    }

    /// The rows of a table whose variable has these bytes.
    pub fn rows(&self, table: &Table<'_>, bytes: &[u8]) -> Vec<Vec<String>> {
        let filled = bytes.chunks_exact(table.row.max(1)).filter(|row| row.iter().any(|byte| *byte != 0));
        filled.map(|row| table.fields.iter().map(|field| self.cell(*field, row)).collect()).collect()
    }

    fn cell(&self, field: Field, row: &[u8]) -> String {
        let mut word = [0u8; 8];
        let Some(bytes) = row.get(field.offset..field.offset + field.size).filter(|b| b.len() <= 8) else {
            return String::new();
        };
        word[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        let shift = 64 - 8 * bytes.len().max(1) as u32;
        let signed = (value << shift) as i64 >> shift;
        match self.btf.resolved(field.ty) {
            Kind::Enum(e) | Kind::Enum64(e) => {
                let named = e.values.iter().find(|named| named.value << shift == value << shift);
                named.map_or_else(|| value.to_string(), |named| self.btf.enumerator_name(named).to_string())
            }
            Kind::Int(int) if int.signed => signed.to_string(),
            _ => value.to_string(),
        }
    }
}
