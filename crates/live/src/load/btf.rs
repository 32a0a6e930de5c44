//! Types (BTF) as libbpf has parsed them: variables of sections, enumerators, members.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::NonNull;

use libbpf_sys as sys;

use super::raw::text;

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
    pub(super) kind: Kind,
    /// Declared `volatile`: it is set from outside.
    pub(super) volatile: bool,
}

/// What a variable holds, as far as values can be given by name or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int {
        signed: bool,
    },
    Bool,
    Enum {
        enumerators: Vec<(String, i64)>,
        signed: bool,
    },
    /// Array of characters.
    Text,
    /// Members by name: offset, size, kind is not needed by anyone.
    Struct {
        members: Vec<(String, usize, usize)>,
    },
    Other,
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

    /// The tables of operations.
    pub(super) fn struct_ops(&self) -> Vec<Variable> {
        [".struct_ops.link", ".struct_ops"].iter().flat_map(|section| self.section(section)).collect()
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
                    kind: self.kind(type_of(var)),
                    volatile: self.is_volatile(type_of(var)),
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

    /// Whether `volatile` is among the qualifiers of a type.
    fn is_volatile(&self, mut id: u32) -> bool {
        // The chain is finite in checked BTF; the bound is for everything else.
        for _ in 0..64 {
            let Some(kind) = self.at(id) else { return false };
            match kind_of(kind) {
                sys::BTF_KIND_VOLATILE => return true,
                sys::BTF_KIND_TYPEDEF
                | sys::BTF_KIND_CONST
                | sys::BTF_KIND_RESTRICT
                | sys::BTF_KIND_TYPE_TAG => id = type_of(kind),
                _ => return false,
            }
        }
        false
    }

    fn kind(&self, id: u32) -> Kind {
        self.bare(id).map_or(Kind::Other, |kind| self.plain_kind(kind))
    }

    fn plain_kind(&self, kind: &sys::btf_type) -> Kind {
        match kind_of(kind) {
            sys::BTF_KIND_INT => {
                // SAFETY: an INT is followed by one u32: encoding in bits 24 to 27.
                let encoding = unsafe { Self::records::<u32>(kind, 1) }[0] >> 24 & 0xf;
                if encoding & 4 != 0 { Kind::Bool } else { Kind::Int { signed: encoding & 1 != 0 } }
            }
            sys::BTF_KIND_ENUM | sys::BTF_KIND_ENUM64 => {
                Kind::Enum { enumerators: self.enumerators(kind), signed: kind.info >> 31 != 0 }
            }
            sys::BTF_KIND_ARRAY => {
                // SAFETY: an ARRAY is followed by one btf_array.
                let array = unsafe { Self::records::<sys::btf_array>(kind, 1) }[0];
                let is_char = self.at(array.type_).is_some_and(|element| {
                    kind_of(element) == sys::BTF_KIND_INT && self.name(element.name_off) == "char"
                });
                if is_char { Kind::Text } else { Kind::Other }
            }
            sys::BTF_KIND_STRUCT => {
                // SAFETY: a STRUCT is followed by btf_member records.
                let members: &[sys::btf_member] = unsafe { Self::records(kind, vlen(kind)) };
                let members = members
                    .iter()
                    .map(|m| {
                        // SAFETY: plain query of the BTF.
                        let size = unsafe { sys::btf__resolve_size(self.btf.as_ptr(), m.type_) };
                        let offset = (m.offset & 0xff_ffff) / 8;
                        (self.name(m.name_off), offset as usize, usize::try_from(size).unwrap_or(0))
                    })
                    .collect();
                Kind::Struct { members }
            }
            _ => Kind::Other,
        }
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
