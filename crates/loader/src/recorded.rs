//! What the loader has decided: which map, program and table of the object each of its own is, and what it wrote.

use crate::bpf::{Map, kind};
use crate::loader::Loader;
use crate::terms::{Failure, Report};
use schedlab_base::DurationNs;
use schedlab_bpf::btf::{Btf, Kind};
use schedlab_bpf::object::{MapType, ProgramKind};
use schedlab_scx::{Attached, Recorded};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a name that the kernel keeps (`BPF_OBJ_NAME_LEN` without the zero).
const NAME: usize = 15;
/// `BPF_PROG_TYPE_SYSCALL`, `.._STRUCT_OPS`.
const SYSCALL: u32 = 31;
const STRUCT_OPS: u32 = 27;
/// Bytes of all data sections. Chosen: what guest memory has by default.
const MOST_SECTIONS: u64 = 512 << 20;
/// Variables that a report lists. Chosen.
const LISTED: usize = 400;

/// A name as the kernel keeps it.
fn kept(name: &str) -> &str {
    name.get(..NAME).unwrap_or(name)
}

/// Whether a map of this name is libbpf's of a data section.
fn is_section(section: &str, name: &str) -> bool {
    // `.data.x` is called so; `.data` has a part of the object's name in front.
    let own = section.matches('.').count() > 1;
    if own { kept(section) == name } else { name.ends_with(section) }
}

impl Loader {
    /// The object's names of the maps that the loader made: declared ones and data sections, each once.
    pub(crate) fn named_maps(&self) -> Vec<(usize, String)> {
        let mut sections: Vec<&str> = self.object.data_sections().into_iter().map(|(name, _)| name).collect();
        let mut declared: Vec<(&str, MapType)> =
            self.object.maps().iter().map(|map| (map.name.as_str(), map.map_type)).collect();
        let mut named = Vec::new();
        // Maps that were made to see what the kernel has may have the same names, and are closed by now.
        let open = |number: usize| self.descriptors.of(number).is_some();
        let (living, closed): (Vec<_>, Vec<_>) = self.bpf.maps().partition(|(number, _)| open(*number));
        for (number, map) in living.into_iter().chain(closed) {
            let section =
                sections.iter().position(|section| map.kind == kind::ARRAY && is_section(section, &map.name));
            if let Some(at) = section {
                named.push((number, sections.remove(at).to_string()));
                continue;
            }
            let found = declared.iter().position(|(name, kind)| kept(name) == map.name && kind.0 == map.kind);
            if let Some(at) = found {
                named.push((number, declared.remove(at).0.to_string()));
            }
        }
        named
    }

    /// Finds the object's program for each that was loaded.
    fn name_programs(&mut self) {
        let mut known: Vec<(String, bool, bool)> = self
            .object
            .programs()
            .iter()
            .map(|program| {
                let syscall = program.kind == ProgramKind::Syscall;
                let table = matches!(program.kind, ProgramKind::StructOps(_));
                (program.name.clone(), syscall, table)
            })
            .collect();
        for thing in &mut self.bpf.things {
            let crate::bpf::Thing::Program(program) = thing else { continue };
            let found = known.iter().position(|(name, syscall, table)| {
                kept(name) == program.name
                    && *syscall == (program.kind == SYSCALL)
                    && *table == (program.kind == STRUCT_OPS)
            });
            program.full = found.map(|at| known.remove(at).0);
        }
    }

    /// What was decided by the time that programs are needed.
    pub(crate) fn recorded(&mut self) -> Result<Recorded, Failure> {
        self.name_programs();
        let mut recorded = Recorded::default();
        let sizes: BTreeMap<&str, u32> =
            self.object.maps().iter().map(|map| (map.name.as_str(), map.max_entries)).collect();
        let mut bytes = 0;
        for (number, name) in self.named_maps() {
            let Some(map) = self.bpf.map(number) else { continue };
            match sizes.get(name.as_str()) {
                None => {
                    bytes += u64::from(map.value_size);
                    if bytes > MOST_SECTIONS {
                        return Err(self.failure("made its data sections larger than they may be"));
                    }
                    recorded.sections.push((name, map.content()));
                }
                Some(declared) if *declared != map.max_entries => {
                    recorded.max_entries.push((name, map.max_entries))
                }
                Some(_) => {}
            }
        }
        let loaded: BTreeSet<&String> =
            self.bpf.programs().filter_map(|(_, program)| program.full.as_ref()).collect();
        if loaded.is_empty() {
            return Err(self.failure("loaded no program of the object in it"));
        }
        for program in self.object.programs() {
            match (loaded.contains(&program.name), &program.kind) {
                (false, _) => recorded.left_out.push(program.name.clone()),
                // Only perf events attach them, of which there are none.
                (true, ProgramKind::Kprobe(_) | ProgramKind::Tp(_) | ProgramKind::PerfEvent) => {
                    recorded.left_out.push(program.name.clone());
                }
                (true, ProgramKind::Syscall) => drop(recorded.on_request.insert(program.name.clone())),
                _ => {}
            }
        }
        Ok(recorded)
    }

    /// The table of operations that the loader made a map for.
    pub(crate) fn table_name(&self) -> Result<String, Failure> {
        let made: Vec<&Map> =
            self.bpf.maps().map(|(_, map)| map).filter(|map| map.kind == kind::STRUCT_OPS).collect();
        let is_made = |name: &str| made.iter().any(|map| map.name == kept(name));
        let found = self.object.struct_ops().iter().find(|table| is_made(&table.name));
        found
            .map(|table| table.name.clone())
            .ok_or_else(|| self.failure("made no scheduler of the object in it"))
    }

    /// The operations as they are attached.
    pub(crate) fn attached(&self) -> Result<Attached, Failure> {
        let Some((_, bytes)) = &self.bpf.operations else {
            return Err(self.failure("attached no operations"));
        };
        let table = self.table_name()?;
        let table = self.object.struct_ops().iter().find(|found| found.name == table);
        let kind = table.map_or("", |table| table.type_name.as_str());
        let types = &self.types;
        let wrapper = types.find_struct(&format!("bpf_struct_ops_{kind}"));
        let data = wrapper
            .and_then(|wrapper| types.member(wrapper, "data"))
            .map(|member| (member.offset(), member.ty));
        let Some((offset, ty)) = data else {
            return Err(self.failure("attached operations of another kind"));
        };
        let mut attached = Attached { uptime: DurationNs(self.clock), ..Attached::default() };
        for member in types.members(ty) {
            let name = types.member_name(member).to_string();
            let at = offset as usize + (member.bit_offset / 8) as usize;
            let size = types.size_of(member.ty).unwrap_or(0) as usize;
            let Some(content) = bytes.get(at..at + size) else { continue };
            match types.resolved(member.ty) {
                Kind::Ptr(_) => {
                    if let Some(program) = self.program_of(content) {
                        attached.functions.insert(name, program);
                    }
                }
                Kind::Array(_) => attached.name = text(content),
                _ => drop(attached.numbers.insert(name, number(content))),
            }
        }
        Ok(attached)
    }

    /// The program whose descriptor stands in a member that is a function.
    fn program_of(&self, content: &[u8]) -> Option<String> {
        let fd = i32::try_from(number(content)).ok().filter(|fd| *fd > 0)?;
        self.bpf.program(self.descriptors.bpf(fd)?)?.full.clone()
    }

    /// Variables and sizes that differ from the object's.
    pub(crate) fn given(&self, recorded: &Recorded) -> Report {
        let mut report = Report::default();
        let sections: BTreeMap<&str, &Vec<u8>> =
            recorded.sections.iter().map(|(name, content)| (name.as_str(), content)).collect();
        for variable in self.object.variables() {
            let Some(content) = sections.get(variable.section.as_str()) else { continue };
            let end = variable.offset.saturating_add(variable.size);
            let now = content.get(variable.offset as usize..end as usize);
            let Some(now) = now.filter(|now| *now != self.object.initial_bytes(variable)) else { continue };
            if report.variables.len() < LISTED {
                report.variables.push((variable.name.clone(), shown(self.object.btf(), variable.ty, now)));
            }
        }
        report.sizes.clone_from(&recorded.max_entries);
        report
    }

    /// The report as it stands when the scheduler is attached.
    pub(crate) fn report(&self, given: Report, attached: &Attached) -> Report {
        let number = |(name, number): (&String, &u64)| (name.clone(), format!("{number:#x}"));
        let mut operations = vec![("name".to_string(), attached.name.clone())];
        operations.extend(attached.numbers.iter().filter(|(_, number)| **number != 0).map(number));
        operations.extend(attached.functions.clone());
        Report {
            operations,
            runs: self.bpf.runs.clone(),
            refused: self.everything_refused(),
            output: self.output.text(),
            ..given
        }
    }
}

/// A number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A value in words: a number, a text, or how many bytes of it are not 0.
fn shown(types: &Btf, ty: Option<schedlab_bpf::btf::TypeId>, bytes: &[u8]) -> String {
    match ty.map(|ty| types.resolved(ty)) {
        Some(Kind::Int(int)) if int.signed && (1..=8).contains(&bytes.len()) => {
            let shift = 64 - 8 * bytes.len() as u32;
            (((number(bytes) << shift) as i64) >> shift).to_string()
        }
        Some(Kind::Int(_) | Kind::Enum(_) | Kind::Enum64(_) | Kind::Ptr(_)) if bytes.len() <= 8 => {
            number(bytes).to_string()
        }
        Some(Kind::Array(array))
            if types.size_of(array.elem) == Some(1)
                && bytes.iter().all(|b| *b == 0 || b.is_ascii_graphic()) =>
        {
            text(bytes)
        }
        _ => format!(
            "{} bytes, {} of them not 0",
            bytes.len(),
            bytes.iter().filter(|byte| **byte != 0).count()
        ),
    }
}
