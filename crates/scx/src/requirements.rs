//! What an object needs of its kernel, and whether the simulated one has it.

use crate::callbacks::TRACE_POINTS;
use crate::kfunc;
use crate::load::{LoadOptions, kernel_without_places};
use crate::scheduler::BpfScheduler;
use crate::settings::{self, Tunable};
use schedlab_base::Machine;
use schedlab_bpf::btf::essential_name;
use schedlab_bpf::error::LoadError;
use schedlab_bpf::helpers;
use schedlab_bpf::insn::op;
use schedlab_bpf::link::Image;
use schedlab_bpf::object::{ExternKind, Object, ProgramKind};
use std::collections::BTreeMap;

/// Something that an object needs by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The need's name: a kernel function, helper, trace point or kernel variable.
    pub name: String,
    /// The simulated kernel has it.
    pub modelled: bool,
    /// The object can do without (a weak symbol).
    pub optional: bool,
    /// Functions of the object that call it, in order; empty where that is not known.
    pub users: Vec<String>,
}

/// A program of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramNeed {
    /// The program's function.
    pub name: String,
    /// The program's section, for example `struct_ops/enqueue`.
    pub section: String,
}

/// A map of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNeed {
    /// The map's name.
    pub name: String,
    /// The map's type without `BPF_MAP_TYPE_`.
    pub type_name: &'static str,
    /// Entries, pages for an arena; 0 where the object's own loader decides.
    pub max_entries: u32,
    /// Bytes in a value.
    pub value_size: u32,
}

/// What an object needs.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// The scheduler's name (`ops.name`), if the object is one.
    pub scheduler: Option<String>,
    /// The object's struct: `sched_ext_ops` or `sched_ext_ops_cid`.
    pub ops_type: Option<String>,
    /// The object's license text.
    pub license: String,
    /// The object's programs, in order of the file.
    pub programs: Vec<ProgramNeed>,
    /// Kernel functions that it refers to, by name.
    pub kfuncs: Vec<Need>,
    /// Helpers that its programs can reach, by number.
    pub helpers: Vec<Need>,
    /// Kernel variables that it refers to.
    pub variables: Vec<Need>,
    /// Trace points that its programs attach to.
    pub trace_points: Vec<Need>,
    /// The object's maps.
    pub maps: Vec<MapNeed>,
    /// What `--set` can change.
    pub tunables: Vec<Tunable>,
    /// The object's counters by name, each with what it counts (empty where the object does not say).
    pub counters: Vec<(String, String)>,
    /// Why the simulator does not run it, if it does not.
    pub refusal: Option<LoadError>,
}

/// What the object file `bytes` needs; `name` is used in messages only.
///
/// # Errors
/// A file that is no BPF object or is damaged. That the simulator cannot run a valid object is no error: see
/// [`Requirements::refusal`].
pub fn requirements(name: &str, bytes: &[u8], options: &LoadOptions) -> Result<Requirements, LoadError> {
    let object = Object::parse(name, bytes)?;
    let machine = Machine::uniform("check", 2);
    let loaded = BpfScheduler::load(name, bytes, options, &machine);
    let calls = loaded.as_ref().map(|scheduler| Calls::of(&scheduler.image)).unwrap_or_default();
    let called = |name: &str| object.struct_ops().iter().find(|table| object.is_called(table, name));
    let table = options.scheduler.as_deref().map_or(object.struct_ops().first(), called);
    Ok(Requirements {
        scheduler: loaded.as_ref().ok().map(|scheduler| scheduler.info.name.clone()),
        ops_type: table.map(|table| table.type_name.clone()),
        license: object.license(),
        programs: programs(&object),
        kfuncs: kfuncs(&object, &calls),
        helpers: calls.helper_needs(),
        variables: variables(&object, &machine),
        trace_points: trace_points(&object),
        maps: maps(&object),
        tunables: settings::tunables(&object),
        counters: counters(&object),
        refusal: loaded.err(),
    })
}

/// The tunables of an object, by name.
pub fn tunables(object: &Object) -> Vec<Tunable> {
    settings::tunables(object)
}

/// Which function calls what, from the linked instructions.
#[derive(Debug, Default)]
struct Calls {
    kfuncs: BTreeMap<String, Vec<String>>,
    helpers: BTreeMap<u32, Vec<String>>,
}

impl Calls {
    fn of(image: &Image) -> Calls {
        let mut calls = Calls::default();
        for function in &image.functions {
            for insn in function.insns.iter().filter(|insn| insn.code == op::CALL_K) {
                let users = match insn.src {
                    op::CALL_HELPER => calls.helpers.entry(insn.imm as u32).or_default(),
                    op::CALL_KFUNC => match image.kfuncs.get(insn.imm as usize) {
                        Some(wanted) => calls.kfuncs.entry(wanted.name.clone()).or_default(),
                        None => continue,
                    },
                    _ => continue,
                };
                if users.last() != Some(&function.name) {
                    users.push(function.name.clone());
                }
            }
        }
        calls
    }

    fn helper_needs(&self) -> Vec<Need> {
        let real = self.helpers.iter().filter(|(id, _)| **id < schedlab_bpf::link::TRAP_BASE);
        real.map(|(id, users)| Need {
            name: helpers::name(*id),
            modelled: helpers::is_implemented(*id),
            optional: false,
            users: users.clone(),
        })
        .collect()
    }
}

fn counters(object: &Object) -> Vec<(String, String)> {
    let found = object.counters();
    found.iter().map(|counter| (counter.variable.name.clone(), counter.meaning.to_string())).collect()
}

fn programs(object: &Object) -> Vec<ProgramNeed> {
    let need = |program: &schedlab_bpf::object::Program| ProgramNeed {
        name: program.name.clone(),
        section: program.section.clone(),
    };
    object.programs().iter().map(need).collect()
}

fn kfuncs(object: &Object, calls: &Calls) -> Vec<Need> {
    let mut needs: BTreeMap<&str, Need> = BTreeMap::new();
    for wanted in object.externs().iter().filter(|wanted| wanted.kind == ExternKind::Kfunc) {
        let name = essential_name(&wanted.name);
        let need = needs.entry(name).or_insert_with(|| Need {
            name: name.to_string(),
            modelled: kfunc::find(name, false).is_some(),
            optional: true,
            users: calls.kfuncs.get(name).cloned().unwrap_or_default(),
        });
        need.optional &= wanted.weak;
    }
    needs.into_values().collect()
}

fn variables(object: &Object, machine: &Machine) -> Vec<Need> {
    let kernel = kernel_without_places(machine);
    let wanted = object.externs().iter().filter(|wanted| wanted.kind != ExternKind::Kfunc);
    wanted
        .map(|wanted| Need {
            name: wanted.name.clone(),
            modelled: kernel.ksyms.contains_key(&wanted.name)
                || kernel.kconfig.contains_key(&wanted.name)
                || wanted.name.starts_with("LINUX_"),
            optional: wanted.weak,
            users: Vec::new(),
        })
        .collect()
}

fn trace_points(object: &Object) -> Vec<Need> {
    let mut needs: BTreeMap<&str, Need> = BTreeMap::new();
    for program in object.programs() {
        let (ProgramKind::TpBtf(target) | ProgramKind::RawTp(target)) = &program.kind else { continue };
        let need = needs.entry(target).or_insert_with(|| Need {
            name: target.clone(),
            modelled: TRACE_POINTS.iter().any(|(_, name)| name == target),
            optional: false,
            users: Vec::new(),
        });
        need.users.push(program.name.clone());
    }
    needs.into_values().collect()
}

fn maps(object: &Object) -> Vec<MapNeed> {
    let need = |map: &schedlab_bpf::object::MapDef| MapNeed {
        name: map.name.clone(),
        type_name: map.map_type.name(),
        max_entries: map.max_entries,
        value_size: map.value_size,
    };
    object.maps().iter().map(need).collect()
}
