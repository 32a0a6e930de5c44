//! Types (BTF) as libbpf has parsed them: variables of sections, enumerators, members.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::NonNull;

use libbpf_sys as sys;

use super::text::text;

/// Types of an object or of the kernel.
pub(super) struct Btf<'a> {
    btf: NonNull<sys::btf>,
    owned: bool,
    _object: PhantomData<&'a ()>,
}

/// A variable of a data section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) section: &'static str,
    pub(super) offset: usize,
    pub(super) size: usize,
    /// Members of a structure: name, offset, size.
    pub(super) members: Vec<(String, usize, usize)>,
}

/// Data sections, most constant first.
pub(super) const SECTIONS: [&str; 3] = [".rodata", ".data", ".bss"];

impl Btf<'_> {
    /// # Safety
    /// `btf` is null or outlives the lifetime given.
    pub(super) unsafe fn borrowed<'a>(btf: *mut sys::btf) -> Option<Btf<'a>> {
        NonNull::new(btf).map(|btf| Btf { btf, owned: false, _object: PhantomData })
    }

    /// The running kernel's types; `None` where it has none.
    pub(super) fn of_kernel() -> Option<Btf<'static>> {
        // SAFETY: takes nothing; the result is ours to free.
        let btf = unsafe { sys::btf__load_vmlinux_btf() };
        NonNull::new(btf).map(|btf| Btf { btf, owned: true, _object: PhantomData })
    }

    fn at(&self, id: u32) -> Option<&sys::btf_type> {
        // SAFETY: returns null or a type that lives as long as the BTF.
        unsafe { sys::btf__type_by_id(self.btf.as_ptr(), id).as_ref() }
    }

    fn name(&self, offset: u32) -> String {
        // SAFETY: returns null or a NUL-terminated string of the BTF.
        unsafe { text(sys::btf__name_by_offset(self.btf.as_ptr(), offset)) }
    }

    /// The records that follow a type in memory, `count` of type `T`.
    ///
    /// # Safety
    /// `T` is the record type that the BTF format has for the kind of `kind`.
    unsafe fn records<T>(kind: &sys::btf_type, count: usize) -> &[T] {
        let start = std::ptr::from_ref(kind).wrapping_add(1).cast::<T>();
        // SAFETY: libbpf has checked the BTF: a type is followed by its records; both are
        // 4-byte aligned like every T here.
        unsafe { std::slice::from_raw_parts(start, count) }
    }

    /// Variables of the data sections.
    pub(super) fn variables(&self) -> Vec<Variable> {
        SECTIONS.iter().flat_map(|section| self.section(section)).collect()
    }

    fn section(&self, section: &'static str) -> Vec<Variable> {
        let Ok(name) = CString::new(section) else { return Vec::new() };
        // SAFETY: the name is NUL-terminated and lives across the call.
        let id =
            unsafe { sys::btf__find_by_name_kind(self.btf.as_ptr(), name.as_ptr(), sys::BTF_KIND_DATASEC) };
        let Some(kind) = u32::try_from(id).ok().and_then(|id| self.at(id)) else {
            return Vec::new();
        };
        // SAFETY: a DATASEC is followed by btf_var_secinfo records.
        let infos: &[sys::btf_var_secinfo] = unsafe { Self::records(kind, vlen(kind)) };
        infos
            .iter()
            .filter_map(|info| {
                let var = self.at(info.type_)?;
                Some(Variable {
                    name: self.name(var.name_off),
                    section,
                    offset: info.offset as usize,
                    size: info.size as usize,
                    members: self.members(type_of(var)),
                })
            })
            .collect()
    }

    /// Whether a section holds nothing but the array `name`.
    pub(super) fn is_lone_array(&self, section: &str, name: &str) -> bool {
        let Ok(section) = CString::new(section) else { return false };
        // SAFETY: the name is NUL-terminated and lives across the call.
        let id = unsafe {
            sys::btf__find_by_name_kind(self.btf.as_ptr(), section.as_ptr(), sys::BTF_KIND_DATASEC)
        };
        let Some(kind) = u32::try_from(id).ok().and_then(|id| self.at(id)) else { return false };
        // SAFETY: a DATASEC is followed by btf_var_secinfo records.
        let infos: &[sys::btf_var_secinfo] = unsafe { Self::records(kind, vlen(kind)) };
        let [only] = infos else { return false };
        let Some(variable) = self.at(only.type_) else { return false };
        let Some(kind) = self.bare(type_of(variable)) else { return false };
        kind_of(kind) == sys::BTF_KIND_ARRAY && self.name(variable.name_off) == name
    }

    /// Follows typedefs and qualifiers.
    fn bare(&self, mut id: u32) -> Option<&sys::btf_type> {
        // The chain is finite in checked BTF; the bound is for everything else.
        for _ in 0..64 {
            let kind = self.at(id)?;
            match kind_of(kind) {
                sys::BTF_KIND_TYPEDEF
                | sys::BTF_KIND_VOLATILE
                | sys::BTF_KIND_CONST
                | sys::BTF_KIND_RESTRICT
                | sys::BTF_KIND_TYPE_TAG => id = type_of(kind),
                _ => return Some(kind),
            }
        }
        None
    }

    /// The members of a structure; none for other types.
    fn members(&self, id: u32) -> Vec<(String, usize, usize)> {
        let structure = self.bare(id).filter(|kind| kind_of(kind) == sys::BTF_KIND_STRUCT);
        let Some(structure) = structure else { return Vec::new() };
        // SAFETY: a STRUCT is followed by btf_member records.
        let members: &[sys::btf_member] = unsafe { Self::records(structure, vlen(structure)) };
        let member = |m: &sys::btf_member| {
            // SAFETY: plain query of the BTF.
            let size = unsafe { sys::btf__resolve_size(self.btf.as_ptr(), m.type_) };
            let offset = (m.offset & 0xff_ffff) / 8;
            (self.name(m.name_off), offset as usize, usize::try_from(size).unwrap_or(0))
        };
        members.iter().map(member).collect()
    }

    fn enumerators(&self, kind: &sys::btf_type) -> Vec<(String, i64)> {
        let signed = kind.info >> 31 != 0;
        if kind_of(kind) == sys::BTF_KIND_ENUM64 {
            // SAFETY: an ENUM64 is followed by btf_enum64 records.
            let records: &[sys::btf_enum64] = unsafe { Self::records(kind, vlen(kind)) };
            let value =
                |r: &sys::btf_enum64| (u64::from(r.val_hi32) << 32 | u64::from(r.val_lo32)).cast_signed();
            return records.iter().map(|r| (self.name(r.name_off), value(r))).collect();
        }
        // SAFETY: an ENUM is followed by btf_enum records.
        let records: &[sys::btf_enum] = unsafe { Self::records(kind, vlen(kind)) };
        let value = |r: &sys::btf_enum| {
            if signed { i64::from(r.val) } else { i64::from(r.val.cast_unsigned()) }
        };
        records.iter().map(|r| (self.name(r.name_off), value(r))).collect()
    }

    /// All enumerators whose name starts with `prefix`.
    pub(super) fn enumerators_with(&self, prefix: &str) -> Vec<(String, i64)> {
        // SAFETY: plain query of the BTF.
        let count = unsafe { sys::btf__type_cnt(self.btf.as_ptr()) };
        (1..count)
            .filter_map(|id| self.at(id))
            .filter(|kind| [sys::BTF_KIND_ENUM, sys::BTF_KIND_ENUM64].contains(&kind_of(kind)))
            .flat_map(|kind| self.enumerators(kind))
            .filter(|(name, _)| name.starts_with(prefix))
            .collect()
    }
}

impl Drop for Btf<'_> {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: ours, and not used afterwards.
            unsafe { sys::btf__free(self.btf.as_ptr()) }
        }
    }
}

fn kind_of(kind: &sys::btf_type) -> u32 {
    kind.info >> 24 & 0x1f
}

fn vlen(kind: &sys::btf_type) -> usize {
    (kind.info & 0xffff) as usize
}

/// The type that a qualifier, typedef or variable refers to.
fn type_of(kind: &sys::btf_type) -> u32 {
    // SAFETY: both members of the union are a u32.
    unsafe { kind.__bindgen_anon_1.type_ }
}
