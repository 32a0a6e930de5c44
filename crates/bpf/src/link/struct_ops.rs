//! struct_ops tables: the object's struct compared with the kernel's, member by member.

use super::{Linker, Settings};
use crate::btf::{Kind, Member, TypeId};
use crate::code::FuncId;
use crate::error::{LoadError, LoadErrorKind};
use crate::object::{StructOpsVar, little_endian};
use std::collections::{BTreeMap, BTreeSet};

/// A struct_ops table of the image, such as a scheduler's `sched_ext_ops`.
#[derive(Debug, Clone, Default)]
pub struct StructOps {
    /// Name of its struct, without flavour.
    pub type_name: String,
    /// Name of the variable.
    pub var_name: String,
    /// Members that are set to functions.
    pub functions: BTreeMap<String, FuncId>,
    /// Members that are numbers, also those that are 0.
    pub scalars: BTreeMap<String, u64>,
    /// Members that are texts.
    pub strings: BTreeMap<String, String>,
}

/// A table that fits the kernel; its functions are still names.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    table: StructOps,
    /// Member to name of function.
    pub(super) functions: Vec<(String, String)>,
}

impl Checked {
    pub(super) fn finish(self, by_name: &BTreeMap<String, FuncId>) -> StructOps {
        let find = |(member, name): (String, String)| Some((member, *by_name.get(&name)?));
        StructOps { functions: self.functions.into_iter().filter_map(find).collect(), ..self.table }
    }
}

impl Linker<'_> {
    pub(super) fn check_struct_ops(&self, settings: &Settings) -> Result<Vec<Checked>, LoadError> {
        let table = |var: &StructOpsVar| {
            let data = settings.apply_to_table(self.object, var)?;
            self.check_table(&StructOpsVar { data, ..var.clone() })
        };
        self.object.struct_ops().iter().map(table).collect()
    }

    fn check_table(&self, var: &StructOpsVar) -> Result<Checked, LoadError> {
        let place = format!("struct_ops `{}`", var.name);
        let Some(kernel_ty) = self.kernel.btf.find_struct(&var.type_name) else {
            return Err(LoadError::new(
                LoadErrorKind::Unresolved,
                place,
                format!("the kernel has no struct_ops of type `{}`", var.type_name),
                "only schedulers (sched_ext_ops) are simulated",
            ));
        };
        let btf = self.object.btf();
        let set: BTreeSet<&str> = var.functions.iter().map(|(member, _)| member.as_str()).collect();
        let mut table = StructOps {
            type_name: var.type_name.clone(),
            var_name: var.name.clone(),
            ..StructOps::default()
        };
        for member in btf.members(var.ty) {
            let name = btf.member_name(member);
            let place = format!("{place}, member `{name}`");
            self.check_member(var, kernel_ty, member, set.contains(name), &place)?;
            let bytes = var.content(btf, member);
            match btf.resolved(member.ty) {
                Kind::Int(_) | Kind::Enum(_) | Kind::Enum64(_) => {
                    table.scalars.extend(little_endian(bytes).map(|number| (name.to_string(), number)));
                }
                Kind::Array(array) if btf.size_of(array.elem) == Some(1) => {
                    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
                    table.strings.insert(name.to_string(), text);
                }
                _ => {}
            }
        }
        let programs: BTreeSet<&str> = self.object.programs().iter().map(|p| p.name.as_str()).collect();
        for (member, function) in &var.functions {
            if !programs.contains(function.as_str()) {
                let place = format!("{place}, member `{member}`");
                let problem = format!("`{function}` is no struct_ops program");
                let cure = "put the function in SEC(\"struct_ops/...\") (BPF_STRUCT_OPS does)";
                return Err(LoadError::unsupported(place, problem, cure));
            }
        }
        Ok(Checked { table, functions: var.functions.clone() })
    }

    /// Same kind and size as in the kernel, `set` where it is a function; a member that the kernel does not have must be unset.
    fn check_member(
        &self,
        var: &StructOpsVar,
        kernel_ty: TypeId,
        member: &Member,
        set: bool,
        place: &str,
    ) -> Result<(), LoadError> {
        let (btf, kernel) = (self.object.btf(), &self.kernel.btf);
        let name = btf.member_name(member);
        let fail = |problem: String, cure: &str| {
            Err(LoadError::new(LoadErrorKind::Unresolved, place, problem, cure))
        };
        let (Some(size), false) = (btf.size_of(member.ty), member.bitfield != 0) else {
            return fail("a member of unknown size or a bit field".into(), "use the kernel's own struct");
        };
        let from = (member.bit_offset / 8) as usize;
        let bytes = from.checked_add(size as usize).and_then(|end| var.data.get(from..end)).unwrap_or(&[]);
        let zero = bytes.iter().all(|&b| b == 0);
        let Some(theirs) = kernel.member(kernel_ty, name) else {
            if set || !zero {
                return fail(
                    format!("the kernel's `{}` has no such member", var.type_name),
                    "leave it unset, or load against a kernel that has it",
                );
            }
            return Ok(());
        };
        let (ours, kernels) = (btf.resolved(member.ty), kernel.resolved(theirs.ty));
        if std::mem::discriminant(ours) != std::mem::discriminant(kernels) {
            return fail("the kernel's member is of another kind".into(), "use the kernel's own struct");
        }
        if matches!(ours, Kind::Ptr(_)) {
            if !zero {
                return fail("a pointer that is not a function".into(), "leave it unset");
            }
        } else if kernel.size_of(theirs.ty) != Some(size) {
            return fail("the kernel's member has another size".into(), "use the kernel's own struct");
        }
        Ok(())
    }
}
