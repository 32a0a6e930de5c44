//! From an object file to a scheduler: the object is joined to the simulated kernel's types, functions and machine.

use crate::auxiliary::not_run;
use crate::callbacks::{Around, Call, OP_COUNT, OPERATIONS, TRACED, called_by_core, traced};
use crate::contents::map_types;
use crate::contexts;
use crate::guest::Guest;
use crate::join::Join;
use crate::kernel_model;
use crate::kfunc::{self, ROOT_CGROUP_ID};
use crate::mirror::Cpus;
use crate::priority::PriorityPlace;
use crate::programs::{self, RunProgram, TimedProgram, check_programs};
use crate::scheduler::{
    BpfScheduler, Costs, DEFAULT_BUDGET, ExtraOps, Interleave, Interleaving, Turn, TurnKind,
};
use crate::settings;
use crate::state::KernelState;
use crate::subs::Subs;
use crate::user::{Joined, Recorded};
use schedlab_base::{DurationNs, KernelVersion, Machine, TimeNs, TimedSetting};
use schedlab_bpf::btf::essential_name;
use schedlab_bpf::engine::{Compiler, Interpreter};
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::helpers::{self, GenericKfunc};
use schedlab_bpf::link::{self, Image, ImageVariable, KconfigValue, KernelModel, Settings, StructOps};
use schedlab_bpf::memory::DEFAULT_GUEST_MEMORY;
use schedlab_bpf::object::{ExternKind, Object, SUB_GROUP, Variable};
use schedlab_bpf::settings::{Change, Holder, timed_changes};
use schedlab_bpf::{FuncId, GuestAddr, Memory};
use schedlab_sim::flags::{SCX_EXIT_DUMP_DFL_LEN, SCX_OPS_ALL_FLAGS, SCX_WATCHDOG_MAX_TIMEOUT_SECS};
use schedlab_sim::{OpsInfo, OpsSet, TracePoints};
use std::collections::{BTreeMap, BTreeSet};

/// The patch level that objects believe to run on: that of the 7.3.4 whose types they see.
const PATCH_LEVEL: u32 = 4;

/// `SCX_RESCUE_MAX_BW_PPT` and `SCX_RESCUE_DISABLE`.
const RESCUE_MAX_BW_PPT: u64 = 250;
const RESCUE_DISABLE: u64 = u32::MAX as u64;
/// `SCX_RESCUE_MIN_QUANTUM_US` to `SCX_RESCUE_MAX_QUANTUM_US`.
const RESCUE_QUANTUM_US: std::ops::RangeInclusive<u64> = 1000..=100_000;

/// What loading may depend on besides the object.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    /// Which scheduler of an object with several, as [`Object::choose`] takes it.
    pub scheduler: Option<String>,
    /// Programs that are run before the scheduler is attached, in order.
    pub programs: Vec<RunProgram>,
    /// Programs that are run while it is attached, in any order.
    pub timed_programs: Vec<TimedProgram>,
    /// `--set` values in the order given; later ones win.
    pub settings: Vec<(String, String)>,
    /// What the object's own loader decided, which then takes part itself; the conventions of settings do not hold.
    pub recorded: Option<Recorded>,
    /// `--set-at` values, in any order: what the scheduler's user space writes into variables while it runs.
    pub changes: Vec<TimedSetting>,
    /// Instructions that one callback may execute, [`DEFAULT_BUDGET`] by default.
    pub budget: u64,
    /// Bytes that the object may take for its maps, its arena and the kernel objects that it makes,
    /// [`DEFAULT_GUEST_MEMORY`] by default.
    pub guest_memory: u64,
    /// How programs are executed.
    pub engine: EngineChoice,
    /// Where callbacks are paused in the middle, or watched for that; programs are interpreted then.
    pub interleave: Option<Interleave>,
    /// Whether an object is refused that can call what its callback may not. Fuzzing does without, so that what happens at such
    /// a call is reached.
    pub check_contexts: bool,
}

/// How programs are executed; results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// As machine code, from the first callback on.
    #[default]
    Compiled,
    /// On the interpreter until that has cost as much as compiling, then as machine code: for runs that may be short.
    Patient,
    /// On the interpreter, the compiler's reference.
    Interpreted,
}

impl EngineChoice {
    /// The compiler that this takes, if any.
    fn compiler(self) -> Option<Compiler> {
        match self {
            EngineChoice::Compiled => Some(Compiler::new()),
            EngineChoice::Patient => Some(Compiler::patient()),
            EngineChoice::Interpreted => None,
        }
    }
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            scheduler: None,
            programs: Vec::new(),
            recorded: None,
            timed_programs: Vec::new(),
            settings: Vec::new(),
            changes: Vec::new(),
            budget: DEFAULT_BUDGET,
            guest_memory: DEFAULT_GUEST_MEMORY,
            engine: EngineChoice::default(),
            interleave: None,
            check_contexts: true,
        }
    }
}

/// The simulated kernel of a machine as objects see it, its variables (which have a place in guest memory) by name
/// only.
pub(crate) fn kernel_without_places(machine: &Machine) -> KernelModel {
    let ksyms = Cpus::declared().map(|(name, _)| (name.to_string(), GuestAddr::NULL));
    KernelModel { ksyms: ksyms.collect(), ..kernel(machine) }
}

/// The types of the simulated kernel, as user space finds them in `/sys/kernel/btf/vmlinux`.
pub fn kernel_types() -> schedlab_bpf::btf::Btf {
    kernel_model::shown(kfunc::all().map(|kfunc| kfunc.prototype))
}

/// The types and kernel functions of the simulated kernel of this version as a C header, for the sources of schedulers.
/// `bpftool btf dump ... format c` makes one of a real kernel. Kernel functions are declared weak, as there.
pub fn kernel_header(version: KernelVersion) -> String {
    let own = kfunc::all().filter(|function| function.versions().has(version));
    kernel_model::header(own.map(|function| function.prototype))
}

/// Numbers of helpers are below this; Linux 7.3 has 212.
const HELPERS: u32 = 256;

/// The simulated kernel of a machine as objects see it, without its variables.
fn kernel(machine: &Machine) -> KernelModel {
    let own_arguments = kfunc::all().map(|kfunc| (kfunc.name.to_string(), kfunc.argument_count()));
    let generic_arguments = GenericKfunc::ALL.iter();
    let generic_arguments = generic_arguments
        .map(|(name, function, _)| (name.to_string(), function.arguments::<Join<'static>>()));
    let kconfig = [
        ("CONFIG_HZ", KconfigValue::Number(u64::from(machine.hz))),
        ("CONFIG_NR_CPUS", KconfigValue::Number(schedlab_base::MAX_CPUS as u64)),
        ("CONFIG_SMP", KconfigValue::Yes),
        ("CONFIG_NUMA", KconfigValue::Yes),
        ("CONFIG_SCHED_CLASS_EXT", KconfigValue::Yes),
        ("CONFIG_PREEMPT_RCU", KconfigValue::Yes),
        ("CONFIG_CC_VERSION_TEXT", KconfigValue::Text("schedlab".into())),
        ("CONFIG_LOCALVERSION", KconfigValue::Text("-schedlab".into())),
    ];
    KernelModel {
        btf: kernel_model::types(),
        kfuncs: kfunc::existing(machine.kernel.version).map(str::to_string).collect(),
        other_versions: kfunc::absences(machine.kernel.version),
        helpers: BTreeSet::new(),
        helper_arguments: (0..HELPERS)
            .filter_map(|id| Some((id, helpers::arguments::<Join<'static>>(id)?)))
            .collect(),
        kfunc_arguments: own_arguments.chain(generic_arguments).collect(),
        ksyms: BTreeMap::new(),
        kconfig: kconfig.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        version: machine.kernel.version.code() | PATCH_LEVEL,
        nr_cpus: machine.cpu_count() as u32,
    }
}

fn memory_error(error: &dyn std::fmt::Display) -> LoadError {
    LoadError::new(
        LoadErrorKind::Memory,
        "guest memory",
        error.to_string(),
        "declare smaller maps and arrays",
    )
}

/// The object's integers besides its counters, with whether they have a sign, as they are now.
fn integers(object: &Object, image: &Image, mem: &Memory) -> Vec<(String, bool, u64)> {
    let now = |(variable, signed): (&Variable, bool)| {
        let value = image.read_variable(&variable.name, mem).ok()?;
        Some((variable.name.clone(), signed, value))
    };
    object.integers().into_iter().filter_map(now).collect()
}

/// Which variables of these names the image has, and where.
fn places(names: impl Iterator<Item = String>, image: &Image) -> Vec<(String, ImageVariable)> {
    names.filter_map(|name| Some((name.clone(), *image.variables.get(&name)?))).collect()
}

/// The object's counters and where they are, by name.
fn counter_places(object: &Object, image: &Image) -> Vec<(String, GuestAddr)> {
    let named = places(object.counters().iter().map(|counter| counter.variable.name.clone()), image);
    named.into_iter().map(|(name, variable)| (name, variable.addr)).collect()
}

/// Whether the scheduler is of the cid form; refuses programs that can call what their callback may not.
pub(crate) fn checked_form(
    image: &Image,
    table: &StructOps,
    verifier: Option<KernelVersion>,
) -> Result<bool, LoadError> {
    match verifier {
        Some(version) => contexts::check(image, table, version),
        None => Ok(contexts::is_cid_form(table)),
    }
}

impl BpfScheduler {
    /// Loads the object file `bytes` as a scheduler for `machine`; `name` is used in messages only.
    ///
    /// # Errors
    /// Names the file, the place and the cure. It is not an object, has no scheduler in it, or needs something that the
    /// simulated kernel does not have. Or a setting does not fit.
    pub fn load(
        name: &str,
        bytes: &[u8],
        options: &LoadOptions,
        machine: &Machine,
    ) -> Result<BpfScheduler, LoadError> {
        BpfScheduler::of(Object::parse(name, bytes)?, name, options, machine)
    }

    /// Loads an object that has been read.
    ///
    /// # Errors
    /// As [`BpfScheduler::load`].
    pub fn of(
        mut object: Object,
        name: &str,
        options: &LoadOptions,
        machine: &Machine,
    ) -> Result<BpfScheduler, LoadError> {
        load(&mut object, options, machine).map_err(|error| error.in_file(name))
    }
}

/// An object that cannot do without what a later kernel brought, or this one no longer has, is refused, as libbpf does it.
fn check_version(object: &Object, machine: &Machine) -> Result<(), LoadError> {
    let strong = object.externs().iter().filter(|wanted| wanted.kind == ExternKind::Kfunc && !wanted.weak);
    let needed: Vec<&str> = strong.map(|wanted| essential_name(&wanted.name)).collect();
    match kfunc::absence(machine.kernel.version, &needed) {
        None => Ok(()),
        Some((problem, cure)) => {
            Err(LoadError::new(LoadErrorKind::Unresolved, "kernel functions", problem, cure))
        }
    }
}

/// Licenses that the kernel takes for compatible with its own (`license_is_gpl_compatible()`).
const GPL_COMPATIBLE: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

/// A scheduler of another license is refused, as by the kernel's verifier.
fn check_license(object: &Object) -> Result<(), LoadError> {
    let license = object.license();
    if object.struct_ops().is_empty() || GPL_COMPATIBLE.contains(&license.as_str()) {
        return Ok(());
    }
    Err(LoadError::new(
        LoadErrorKind::Unresolved,
        "license",
        format!(
            "{license:?} is not compatible with the GPL, and a kernel takes no scheduler with such a license"
        ),
        "char _license[] SEC(\"license\") = \"GPL\"",
    ))
}

fn load(object: &mut Object, options: &LoadOptions, machine: &Machine) -> Result<BpfScheduler, LoadError> {
    object.choose(options.scheduler.as_deref())?;
    check_license(object)?;
    let timed = options.timed_programs.iter().map(|timed| timed.program.clone());
    let programs: Vec<RunProgram> = options.programs.iter().cloned().chain(timed).collect();
    check_programs(object, &programs)?;
    check_version(object, machine)?;
    let settings = linker_settings(object, options, &programs, machine.cpu_count())?;
    let mut mem =
        Memory::new().map_err(|error| LoadError::new(LoadErrorKind::Host, "", error.to_string(), ""))?;
    mem.set_limit(options.guest_memory);
    let mut kernel = kernel(machine);
    let state = KernelState::new(&mut mem, &kernel.btf, machine).map_err(|error| memory_error(&error))?;
    kernel.ksyms = state.ksyms();
    let mut image = link::link(object, &kernel, &settings, &mut mem)?;
    let programs = programs::ready(&image, &options.programs, &mut mem)?;
    let turns = turns(options, object, &image, &mut mem)?;
    let table = take_ops(&mut image)?;
    let verifier = options.check_contexts.then_some(machine.kernel.version);
    let cid_form = checked_form(&image, &table, verifier)?;
    let ops = callbacks(&table, cid_form);
    let info = ops_info(&table, &ops, cid_form)?;
    check_subs(&table, cid_form)?;
    let (tracing, wants) = tracing(&image);
    let cmask = if cid_form { arena_room(&mut image, &mut mem)? } else { GuestAddr::NULL };
    let dump_len = if info.exit_dump_len == 0 { SCX_EXIT_DUMP_DFL_LEN } else { info.exit_dump_len };
    let guest = Guest::new(&mut mem, &state.offsets, dump_len as usize, cmask)
        .map_err(|error| memory_error(&error))?;
    let tables = places(object.tables().iter().map(|table| table.variable.name.clone()), &image);
    let (counters, integers) = (counter_places(object, &image), integers(object, &image, &mem));
    let priority_place = PriorityPlace::find(object, &image.runtime.maps);
    let map_types = map_types(object, |name| image.runtime.maps.find(name));
    fit_code(machine, &mut image, &mut mem)?;
    let mut state = state.join(machine, image.runtime.clone(), &image.kfuncs, (info.flags, cid_form));
    state.follows_lines = mem.follows_lines();
    state.keep_preempt_count(object.externs().iter().any(|wanted| wanted.name == "__preempt_count"));
    Ok(BpfScheduler {
        info,
        extra: extra_ops(&table, cid_form),
        attended: options.interleave.is_some() || BpfScheduler::is_attended(&state, &mem),
        table,
        verifier,
        user: Joined::default(),
        wants,
        engine: options.engine.compiler().filter(|_| options.interleave.is_none()),
        interleaving: options.interleave.clone().map(Interleaving::new),
        reference: Interpreter::new(),
        image,
        mem,
        state,
        guest,
        ops,
        tracing,
        budget: options.budget,
        cid_form,
        counters,
        integers,
        tables,
        mark: None,
        turns,
        programs,
        returned: Vec::new(),
        priority_place,
        priorities: None,
        costs: Costs::default(),
        globals: Vec::new(),
        map_types,
        subs: Subs::default(),
    })
}

/// What the object's own loader has decided, or else the conventions; then the user's settings.
fn linker_settings(
    object: &mut Object,
    options: &LoadOptions,
    programs: &[RunProgram],
    nr_cpus: usize,
) -> Result<Settings, LoadError> {
    if let Some(recorded) = &options.recorded {
        return settings::recorded(object, recorded, &options.settings);
    }
    let mut settings = settings::prepare(object, &options.settings, nr_cpus);
    for program in not_run(object, programs)? {
        settings.leave_out(&program.name);
    }
    Ok(settings)
}

/// Fits the code to kernel and machine. It enters kernel functions directly, and follows the cache lines of the object's memory
/// where the machine prices them. The threads of a core share its cache, and a single core takes lines from no other.
fn fit_code(machine: &Machine, image: &mut Image, mem: &mut Memory) -> Result<(), LoadError> {
    let slots = image.kfuncs.iter().map(|wanted| kfunc::slot(&wanted.name)).collect();
    image.code.enter_directly(slots);
    let cores = machine.cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(1);
    if machine.line_bytes == 0 || cores == 1 {
        return Ok(());
    }
    image.code.follow_lines(machine.line_bytes, cores, mem).map_err(|error| memory_error(&error))
}

/// What user space does while the scheduler runs, in order of time.
fn turns(
    options: &LoadOptions,
    object: &Object,
    image: &Image,
    mem: &mut Memory,
) -> Result<Vec<Turn>, LoadError> {
    let mut turns = Vec::new();
    for change in &options.changes {
        for part in timed_changes(object, change)? {
            let Change::Bytes { of: Holder::Variable(name), offset, bytes } = part else { continue };
            let Some(variable) = image.variables.get(&name) else { continue };
            let addr = variable.addr.offset(offset);
            turns.push(Turn { at: TimeNs::ZERO + change.at, kind: TurnKind::Write { addr, bytes } });
        }
    }
    let timed = &options.timed_programs;
    let ready = programs::ready(image, timed.iter().map(|timed| &timed.program), mem)?;
    for (timed, program) in timed.iter().zip(ready) {
        turns.push(Turn { at: TimeNs::ZERO + timed.at, kind: TurnKind::Run(program) });
    }
    turns.sort_by_key(|turn| turn.at);
    Ok(turns)
}

/// The table of the scheduler's operations, the only one that is left.
fn take_ops(image: &mut Image) -> Result<StructOps, LoadError> {
    let is_scheduler =
        |table: &StructOps| matches!(table.type_name.as_str(), "sched_ext_ops" | "sched_ext_ops_cid");
    let table = image.struct_ops.drain(..).find(is_scheduler);
    table.ok_or_else(|| {
        LoadError::new(
            LoadErrorKind::Unresolved,
            "section .struct_ops.link",
            "there is no scheduler in this object",
            "define a struct sched_ext_ops in SEC(\".struct_ops.link\")",
        )
    })
}

pub(crate) fn callbacks(table: &StructOps, cid_form: bool) -> [Option<FuncId>; OP_COUNT] {
    let mut ops = [None; OP_COUNT];
    for (kind, operation) in called_by_core() {
        ops[kind as usize] = operation.name(cid_form).and_then(|name| table.functions.get(name).copied());
    }
    ops
}

pub(crate) fn extra_ops(table: &StructOps, cid_form: bool) -> ExtraOps {
    let find = |around| {
        let found = OPERATIONS.iter().find(|operation| operation.call == Call::Around(around));
        table.functions.get(found?.name(cid_form)?).copied()
    };
    ExtraOps { init_cids: find(Around::InitCids).filter(|_| cid_form) }
}

/// The fixed part of the ops, checked against the kernel's rules (`scx_validate_ops()` and `bpf_scx_init_member()`).
pub(crate) fn ops_info(
    table: &StructOps,
    ops: &[Option<FuncId>; OP_COUNT],
    cid_form: bool,
) -> Result<OpsInfo, LoadError> {
    let number = |name: &str| table.scalars.get(name).copied().unwrap_or(0);
    let place = format!("struct_ops `{}`", table.var_name);
    let refuse =
        |problem: String, cure: &str| Err(LoadError::new(LoadErrorKind::Malformed, &place, problem, cure));
    let name = table.strings.get("name").cloned().unwrap_or_default();
    if name.is_empty() {
        return refuse("the scheduler has no name".into(), "set .name");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.')) {
        return refuse(format!("`{name}` is no name for a kernel"), "use letters, digits, `_` and `.`");
    }
    let flags = number("flags");
    if flags & !SCX_OPS_ALL_FLAGS != 0 {
        return refuse(
            format!("unknown flags {:#x}", flags & !SCX_OPS_ALL_FLAGS),
            "use the SCX_OPS_* of this kernel",
        );
    }
    if number("dispatch_max_batch") > i32::MAX as u64 {
        return refuse("dispatch_max_batch is too large".into(), "a batch has 32 entries by default");
    }
    let (bandwidth, quantum) = (number("rescue_bandwidth_ppt"), number("rescue_quantum_us"));
    if bandwidth > RESCUE_MAX_BW_PPT && bandwidth != RESCUE_DISABLE {
        return refuse(
            format!("rescue_bandwidth_ppt {bandwidth} is above 250"),
            "it is in parts per thousand",
        );
    }
    if quantum != 0 && !RESCUE_QUANTUM_US.contains(&quantum) {
        return refuse(format!("rescue_quantum_us {quantum} is no quantum"), "it is 1000 to 100000, or 0");
    }
    let timeout_ms = number("timeout_ms");
    if timeout_ms > SCX_WATCHDOG_MAX_TIMEOUT_SECS * 1000 {
        return refuse(format!("timeout_ms {timeout_ms} is above 30000"), "the watchdog waits 30 s at most");
    }
    // Some are wanted whether the object has them or not. More than `ops.init()` happens at init, and the others are
    // when attributes of a task are written for programs to read.
    let present =
        called_by_core().filter(|(kind, operation)| operation.is_wanted || ops[*kind as usize].is_some());
    let present: OpsSet = present.map(|(kind, _)| kind).collect();
    Ok(OpsInfo {
        name,
        flags,
        timeout: DurationNs::from_ms(timeout_ms),
        dispatch_max_batch: number("dispatch_max_batch") as u32,
        exit_dump_len: number("exit_dump_len").min(1 << 20) as u32,
        hotplug_seq: number("hotplug_seq"),
        rescue_bandwidth_ppt: bandwidth as u32,
        rescue_quantum_us: quantum as u32,
        cid_form,
        present,
    })
}

/// The kernel has sub-schedulers for the cid form alone. Which group one is attached to is said to the run, not by the object.
fn check_subs(table: &StructOps, cid_form: bool) -> Result<(), LoadError> {
    let member = |name: &str| format!("struct_ops `{}`, member {name}", table.var_name);
    if table.scalars.get(SUB_GROUP).is_some_and(|id| *id > ROOT_CGROUP_ID) {
        let (problem, cure) =
            ("the object names its group itself", "set 0, and attach it by `--sub GROUP=OBJECT`");
        return Err(LoadError::new(LoadErrorKind::Unsupported, member(SUB_GROUP), problem, cure));
    }
    let taker = ["sub_attach", "sub_detach"].into_iter().find(|name| table.functions.contains_key(*name));
    match taker.filter(|_| !cid_form) {
        Some(name) => Err(LoadError::new(
            LoadErrorKind::Malformed,
            member(name),
            "sub_attach/sub_detach requires cid-form struct_ops",
            "use struct sched_ext_ops_cid",
        )),
        None => Ok(()),
    }
}

/// Tracing programs by trace point.
fn tracing(image: &Image) -> (Vec<Vec<FuncId>>, TracePoints) {
    let mut programs = vec![Vec::new(); TRACED];
    let mut wants = TracePoints::NONE;
    for program in &image.programs {
        // Programs at places that are not modelled are left out or refused.
        if let Some(kind) = traced(&program.kind) {
            programs[kind as usize].push(program.func);
            wants = wants.with(kind);
        }
    }
    (programs, wants)
}

/// A page of the arena for masks that the kernel hands to a cid-form scheduler.
fn arena_room(image: &mut Image, mem: &mut Memory) -> Result<GuestAddr, LoadError> {
    let page = image.runtime.maps.arena.as_mut().and_then(|arena| arena.alloc(None, 1, mem));
    page.ok_or_else(|| {
        LoadError::new(
            LoadErrorKind::Unresolved,
            "struct sched_ext_ops_cid",
            "a cid-form scheduler needs an arena with a free page",
            "declare a map of type BPF_MAP_TYPE_ARENA",
        )
    })
}
