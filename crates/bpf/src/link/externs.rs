//! What an object expects of the kernel: kernel functions, variables and configuration, each resolved once.

use super::{KconfigValue, KfuncRef, Linker, memory};
use crate::btf::{Btf, Kind, TypeId, essential_name};
use crate::core_relo::types_are_compat;
use crate::error::{LoadError, LoadErrorKind};
use crate::memory::Memory;
use crate::object::{Extern, ExternKind};

/// What a reference to an extern becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolved {
    /// A kernel function: index into the image's table.
    Kfunc(u32),
    /// An address: of a kernel variable, of a configuration value, or 0.
    Address(u64),
    /// A weak extern that the kernel does not have; its address is 0.
    Absent,
    /// A strong one that the kernel does not have: an error where it is reached.
    Missing,
}

/// High half of the value of a kernel function's address, which programs may only compare with 0. Chosen: beyond
/// every guest address.
pub(super) const KFUNC_TAG: u64 = 0x0b9f_f0c1_0000_0000;

impl Linker<'_> {
    pub(super) fn resolve_externs(&mut self, mem: &mut Memory) -> Result<(), LoadError> {
        let object = self.object;
        self.place_kconfig(mem)?;
        for wanted in object.externs() {
            let resolved = match wanted.kind {
                ExternKind::Kconfig => continue,
                ExternKind::Kfunc => self.resolve_kfunc(wanted),
                ExternKind::Ksym => match self.kernel.ksyms.get(&wanted.name) {
                    Some(addr) => Resolved::Address(addr.0),
                    None => absent(wanted),
                },
            };
            self.externs.insert(wanted.name.clone(), resolved);
        }
        self.steps.check(|| "kernel functions".to_string())
    }

    /// By name without flavour; where the kernel's types know its prototype, the two must be compatible.
    fn resolve_kfunc(&mut self, wanted: &Extern) -> Resolved {
        let name = essential_name(&wanted.name);
        if !self.kernel.kfuncs.contains(name) || !self.prototype_agrees(name, wanted.ty) {
            return absent(wanted);
        }
        self.kfuncs.push(KfuncRef { name: name.to_string(), proto: wanted.ty, weak: wanted.weak });
        Resolved::Kfunc(self.kfuncs.len() as u32 - 1)
    }

    fn prototype_agrees(&self, name: &str, ours: Option<TypeId>) -> bool {
        let btf = &self.kernel.btf;
        match (ours, btf.find_func(name).map(|f| btf.kind(f))) {
            (Some(ours), Some(Kind::Func(theirs, _))) => {
                types_are_compat(self.object.btf(), ours, btf, *theirs, &self.steps)
            }
            _ => true,
        }
    }

    /// All configuration values in one read-only region, each at its natural alignment.
    fn place_kconfig(&mut self, mem: &mut Memory) -> Result<(), LoadError> {
        let object = self.object;
        let wanted: Vec<&Extern> =
            object.externs().iter().filter(|e| e.kind == ExternKind::Kconfig).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut content = Vec::new();
        let mut places = Vec::new();
        for ext in &wanted {
            let bytes = self.kconfig_bytes(ext)?;
            content.resize(content.len().next_multiple_of(8), 0);
            places.push(content.len() as u64);
            content.extend_from_slice(&bytes);
        }
        let size = content.len() as u64;
        debug_assert_eq!(places.len(), wanted.len(), "each extern has a place");
        let length = u32::try_from(size).map_err(|e| memory(".kconfig", &e))?;
        let base = self.maps.add_section(".kconfig", length, Vec::new(), mem);
        let base = base.map_err(|e| memory(".kconfig", &e))?;
        mem.write(base, &content).map_err(|e| memory(".kconfig", &e))?;
        for (ext, place) in wanted.iter().zip(places) {
            self.externs.insert(ext.name.clone(), Resolved::Address(base.offset(place).0));
        }
        let placed = super::sections::Placed { base, size, read_only: true };
        self.sections.insert(usize::MAX, placed);
        Ok(())
    }

    /// The value of one configuration extern in its declared type.
    fn kconfig_bytes(&self, ext: &Extern) -> Result<Vec<u8>, LoadError> {
        let place = format!("extern `{}` __kconfig", ext.name);
        let btf = self.object.btf();
        let size = ext.ty.and_then(|t| btf.size_of(t)).filter(|&s| (1..=4096).contains(&s));
        let (Some(ty), Some(size)) = (ext.ty, size) else {
            return Err(LoadError::malformed(place, "its type has no size"));
        };
        let virtual_value = match ext.name.as_str() {
            "LINUX_KERNEL_VERSION" => Some(KconfigValue::Number(u64::from(self.kernel.version))),
            // libbpf's virtual values: what its own feature probes say on a current kernel.
            "LINUX_HAS_BPF_COOKIE" | "LINUX_HAS_SYSCALL_WRAPPER" => Some(KconfigValue::Number(1)),
            _ => None,
        };
        let Some(value) = virtual_value.as_ref().or_else(|| self.kernel.kconfig.get(&ext.name)) else {
            if ext.weak {
                return Ok(vec![0; size as usize]);
            }
            return Err(LoadError::new(
                LoadErrorKind::Unresolved,
                place,
                "the simulated kernel's configuration has no such value",
                "declare the extern __weak (it then reads 0)",
            ));
        };
        encode(btf, ty, size, value).ok_or_else(|| {
            LoadError::malformed(place, format!("{value:?} does not fit into {}", btf.spell(ty)))
        })
    }
}

fn absent(wanted: &Extern) -> Resolved {
    if wanted.weak { Resolved::Absent } else { Resolved::Missing }
}

/// `y`, `n`, `m` as `bool`, `char` or `enum libbpf_tristate`; numbers in integers; text in arrays.
fn encode(btf: &Btf, ty: TypeId, size: u64, value: &KconfigValue) -> Option<Vec<u8>> {
    let mut out = vec![0; size as usize];
    debug_assert!(!out.is_empty(), "a value has bytes");
    let number = match (btf.resolved(ty), value) {
        (Kind::Array(_), KconfigValue::Text(text)) => {
            // A longer text is cut, with a closing zero, as in libbpf.
            let len = text.len().min(out.len() - 1);
            out[..len].copy_from_slice(&text.as_bytes()[..len]);
            return Some(out);
        }
        (Kind::Int(int), KconfigValue::Yes | KconfigValue::No | KconfigValue::Module) => match value {
            KconfigValue::Module if int.is_bool => return None,
            KconfigValue::Yes if int.is_bool => 1,
            KconfigValue::No if int.is_bool => 0,
            KconfigValue::Yes if int.size == 1 => u64::from(b'y'),
            KconfigValue::Module if int.size == 1 => u64::from(b'm'),
            KconfigValue::No if int.size == 1 => u64::from(b'n'),
            _ => return None,
        },
        // enum libbpf_tristate: TRI_NO 0, TRI_YES 1, TRI_MODULE 2.
        (Kind::Enum(_), KconfigValue::No) => 0,
        (Kind::Enum(_), KconfigValue::Yes) => 1,
        (Kind::Enum(_), KconfigValue::Module) => 2,
        (Kind::Int(_), KconfigValue::Number(n)) => *n,
        _ => return None,
    };
    let bytes = number.to_le_bytes();
    let len = out.len().min(8);
    if bytes[len..].iter().any(|&b| b != 0) {
        return None;
    }
    out[..len].copy_from_slice(&bytes[..len]);
    Some(out)
}
