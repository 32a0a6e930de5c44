//! `check`: what an object needs, whether the simulator runs it, and whether a real
//! kernel's verifier takes it.

use super::run::tell;
use crate::args::CheckArgs;
use crate::confine::Named;
use crate::output;
use schedlab_base::{Machine, counted};
use schedlab_bpf::object::{Extern, ExternKind, MapDef, Object, StructOpsVar};
use schedlab_lab::failure::{Code, Failure};
use schedlab_lab::files::target::Target;
use schedlab_lab::machine::kernels;
use schedlab_lab::machine::vm_kernel::VmKernel;
use schedlab_lab::run::deadline::TimeLimit;
use schedlab_lab::run::defect;
use schedlab_lab::run::real::{VmOptions, boot, guest_failure, guest_scheduler};
use schedlab_lab::run::trust::{left_words, listed, provenance};
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::scheduler::entry;
use schedlab_lab::scheduler::own_loader;
use schedlab_lab::scheduler::run_prog;
use schedlab_lab::shipped;
use schedlab_live::kernel_image::{KernelImage, LIBBPF_HEADERS};
use schedlab_live::load::{LoadError, verify};
use schedlab_live::vm::{Accelerator, VmJob};
use schedlab_report::{
    CheckAnswer, CheckedBy, CheckedCallback, CheckedExtern, CheckedKind, CheckedLoader, CheckedMap,
    CheckedObject, CheckedProgram, CheckedTable, CheckedTunable, check_json, check_text,
};
use schedlab_scx::{
    BpfScheduler, LeftToLoader, LoadErrorKind, LoadOptions, Tunable, kernel_header, tunables,
};
use std::path::Path;
use std::time::Duration;

/// Prints the report; fails when any part of it does.
pub(crate) fn check(args: &CheckArgs, quiet: bool) -> Result<(), Failure> {
    match (&args.vmlinux_h, &args.object) {
        (Some(path), _) => write_header(args, path, quiet),
        (None, Some(object)) => {
            args.budget.iter().try_for_each(|budget| budget.for_verifier(args.vm || args.live))?;
            check_object(args, object, quiet)
        }
        (None, None) => Err(Failure::usage("check: name an object")),
    }
}

/// Writes the C header of the simulated kernel, and beside it what sources of schedulers include: libbpf's headers in a folder
/// `bpf`, and those of sched_ext in a folder `scx`.
fn write_header(args: &CheckArgs, path: &Path, quiet: bool) -> Result<(), Failure> {
    let machine = machine(args)?;
    let target = Target::new("--vmlinux-h", path)?;
    let mut named = Named::new().outputs([&args.vmlinux_h]);
    let mut headers = Vec::new();
    if !target.is_stdout() {
        let beside = path.parent().unwrap_or(Path::new(""));
        for (folder, texts) in [("bpf", &LIBBPF_HEADERS[..]), ("scx", shipped::SCX_HEADERS)] {
            let folder = beside.join(folder);
            headers.extend(texts.iter().map(|(name, text)| (folder.join(name), *text)));
            named = named.folder(Some(&folder));
        }
    }
    named.enter(&args.host.sandbox, quiet)?;
    // What is there already may be of another libbpf or of the kernel, which its owner wants.
    for (path, text) in headers.iter().filter(|(path, _)| !path.exists()) {
        Target::new("--vmlinux-h", path)?.write(text)?;
    }
    target.write(&kernel_header(machine.kernel.version))
}

/// The machine, under the version of `--kernel`.
fn machine(args: &CheckArgs) -> Result<Machine, Failure> {
    kernels::under(shipped::machine(shipped::DEFAULT_MACHINE)?.machine, args.kernel.as_deref())
}

/// What a VM boots: an image, or why there is none.
type Image = Result<KernelImage, Failure>;

/// The image of `--vm`, and the simulated machine, with the image's version where there is one.
///
/// # Errors
/// No kernel has the name, or the machine cannot have it.
fn image_and_machine(args: &CheckArgs, quiet: bool) -> Result<(Option<Image>, Machine), Failure> {
    if !args.vm {
        return Ok((None, machine(args)?));
    }
    let kernel = VmKernel::new(args.kernel.as_deref().map(Path::new))?;
    let image = kernel.image(&mut |line| tell(line, quiet));
    let machine = shipped::machine(shipped::DEFAULT_MACHINE)?.machine;
    // An image that cannot be had is told of in the VM's place: the simulator can answer without it.
    let version = image.as_ref().ok().and_then(|image| kernels::following(&machine, &image.release));
    Ok((Some(image), kernels::under(machine, version.as_deref())?))
}

fn check_object(args: &CheckArgs, object: &String, quiet: bool) -> Result<(), Failure> {
    let (image, simulated) = image_and_machine(args, quiet)?;
    let named = Named::new().inputs(entry::names(std::slice::from_ref(object))?);
    let named = named.inputs(&args.state).outputs([&args.json]);
    if args.live || args.vm {
        named.spare_inputs()?;
    } else {
        named.enter(&args.host.sandbox, quiet)?;
    }
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(object), &args.settings)?;
    run_prog::give(&mut schedulers, &args.programs)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.restore(args.state.as_deref())?;
    let Some(bytes) = &scheduler.object else {
        return Err(Failure::usage("eevdf is the kernel's own class: there is no object to check"));
    };
    let mut object = Object::parse(object, bytes).map_err(refusal)?;
    if scheduler.choice.is_some() {
        object.choose(scheduler.choice.as_deref()).map_err(refusal)?;
    }
    let checked = CheckedObject {
        left_to_loader: scheduler.left_to_loader().map(left_to_loader).unwrap_or_default(),
        left_out: scheduler.left_out().concat(),
        sha256: provenance(&scheduler, None, None).object,
        ..needs(&object)
    };
    let json = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    // The guest tells the answer of its kernel alone.
    let in_words = !json.as_ref().is_some_and(Target::is_stdout);
    let tell = |text: &str| if in_words { output::print(text) } else { Ok(()) };
    if !args.as_guest {
        tell(&about(&scheduler, &checked))?;
    }
    let (mut failure, mut answers) = (None, Vec::new());
    let mut verdict = |by: CheckedBy, result: Result<String, Failure>| {
        let (takes, text) = match result {
            Ok(text) => (Some(true), text),
            Err(error) => {
                // A verifier's log keeps its lines here.
                let text = error.text.clone();
                let takes = if error.code == Code::Environment { None } else { Some(false) };
                let hard = failure.as_ref().is_some_and(|seen: &Failure| seen.code == Code::Environment);
                if !hard {
                    // The log stands in the answer.
                    let line = text.lines().next().unwrap_or_default().to_string();
                    failure = Some(Failure { text: line, ..error });
                }
                (takes, text)
            }
        };
        let answer = CheckAnswer { by, takes, text };
        let line = answer.line();
        answers.push(answer);
        tell(&line)
    };
    if !args.as_guest {
        verdict(CheckedBy::Simulator, simulator(&scheduler, bytes, args, &simulated))?;
    }
    if args.live {
        verdict(CheckedBy::ThisKernel, verified(&scheduler, bytes))?;
    }
    if let Some(image) = image {
        verdict(CheckedBy::VmKernel, image.and_then(|image| verified_in_vm(image, &scheduler, quiet)))?;
    }
    if let Some(target) = &json {
        target.write(&check_json(&checked, &answers))?;
    }
    failure.map_or_else(|| within_budget(args, &answers), Err)
}

/// Compares what the verifiers walked with `--budget`.
fn within_budget(args: &CheckArgs, answers: &[CheckAnswer]) -> Result<(), Failure> {
    let texts = || answers.iter().map(|answer| answer.text.as_str());
    args.budget.iter().try_for_each(|budget| budget.judge_verifier(texts()))
}

/// What is told of the object before the simulator or a kernel answers.
fn about(scheduler: &Scheduler, checked: &CheckedObject) -> String {
    let mut text = check_text(checked);
    if let Some(left) = scheduler.left_to_loader() {
        text += &format!("\nleft to its loader: {}\n", left_words(&left));
    }
    if !checked.left_out.is_empty() {
        text += &format!("\nleft out by the simulator: {}\n", listed(&checked.left_out));
    }
    text + "\n"
}

/// Everything that the object declares and expects.
fn needs(object: &Object) -> CheckedObject {
    let callback = |(callback, program): &(String, String)| CheckedCallback {
        callback: callback.clone(),
        program: program.clone(),
    };
    let table = |ops: &StructOpsVar| CheckedTable {
        name: ops.name.clone(),
        type_name: ops.type_name.clone(),
        callbacks: ops.functions.iter().map(callback).collect(),
    };
    let programs = object.programs().iter().filter(|program| !program.section.starts_with("struct_ops"));
    CheckedObject {
        file: object.file().to_string(),
        license: object.license(),
        struct_ops: object.struct_ops().iter().map(table).collect(),
        programs: programs
            .map(|program| CheckedProgram { name: program.name.clone(), section: program.section.clone() })
            .collect(),
        externs: object.externs().iter().map(wanted).collect(),
        maps: object.maps().iter().map(map).collect(),
        tunables: tunables(object).iter().map(tunable).collect(),
        ..CheckedObject::default()
    }
}

fn wanted(found: &Extern) -> CheckedExtern {
    let kind = match found.kind {
        ExternKind::Kfunc => CheckedKind::Kfunc,
        ExternKind::Ksym => CheckedKind::Ksym,
        ExternKind::Kconfig => CheckedKind::Kconfig,
    };
    CheckedExtern { name: found.name.clone(), kind, needed: !found.weak }
}

fn map(map: &MapDef) -> CheckedMap {
    CheckedMap {
        name: map.name.clone(),
        map_type: map.map_type.name().to_string(),
        key_size: map.key_size,
        value_size: map.value_size,
        max_entries: map.max_entries,
    }
}

fn tunable(tunable: &Tunable) -> CheckedTunable {
    let Tunable { name, type_name, default, takes, meaning, constant, .. } = tunable.clone();
    CheckedTunable { name, type_name, default, while_running: !constant, takes, meaning }
}

fn left_to_loader(left: LeftToLoader) -> CheckedLoader {
    CheckedLoader { constants: left.constants, programs: left.programs }
}

/// Loads it into the simulated kernel.
fn simulator(
    scheduler: &Scheduler,
    bytes: &[u8],
    args: &CheckArgs,
    machine: &Machine,
) -> Result<String, Failure> {
    let what = format!("check of {}", scheduler.name);
    let _deadline = TimeLimit(args.host.time_limit).begin(&what)?;
    let options = LoadOptions { guest_memory: args.guest_memory.0, ..scheduler.load_options() };
    if let Some(command) = &scheduler.loader {
        let load = || own_loader::load(command, bytes, &options, machine, 1, false);
        let (_, report) = defect::guard(|| what.clone(), load)?;
        return Ok(own_loader::words(&report));
    }
    let load = || BpfScheduler::load(&scheduler.name, bytes, &options, machine);
    defect::guard(|| what.clone(), || load().map(|_| String::new()).map_err(refusal))
}

/// An object that the simulator does not take fails the check. What is no answer about the object is told as in a run.
/// That is a file that is none, a wrong setting, a host that lacks something, or more of something than is looked at.
fn refusal(error: schedlab_scx::LoadError) -> Failure {
    match error.kind {
        LoadErrorKind::NotAnObject | LoadErrorKind::Malformed => error.into(),
        LoadErrorKind::Setting | LoadErrorKind::Host | LoadErrorKind::Limit => error.into(),
        _ => Failure::failed(error.to_string()),
    }
}

/// Has this machine's kernel verify it.
fn verified(scheduler: &Scheduler, bytes: &[u8]) -> Result<String, Failure> {
    match verify(&scheduler.for_kernel(bytes)) {
        Ok(programs) => {
            let walked: u64 = programs.iter().map(|program| u64::from(program.verified_insns)).sum();
            Ok(format!("{}, {} walked", counted(programs.len(), "program"), counted(walked, "instruction")))
        }
        Err(error @ (LoadError::NoSchedExt { .. } | LoadError::NotPrivileged)) => Err(error.into()),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

/// Has a VM's kernel verify it: this command, in the guest, does [`verified`].
fn verified_in_vm(image: KernelImage, scheduler: &Scheduler, quiet: bool) -> Result<String, Failure> {
    let (timeout, accelerator) = (Duration::from_secs(120), Accelerator::Auto);
    let vm = VmOptions { cpus: 1, timeout, kernel: None, accelerator, snapshot: true };
    let mut job = VmJob::new(image, Vec::new());
    // The verifier is asked about the object; its own program is not run.
    let object = Scheduler { loader: None, ..scheduler.clone() };
    let inside = guest_scheduler(&mut job, "/job", &object)?;
    job.args = vec!["check".to_string(), inside.clone(), "--live".to_string(), "--as-guest".to_string()];
    for (name, value) in &scheduler.values {
        job.args.extend(["--set".to_string(), format!("{name}={value}")]);
    }
    vm.apply(&mut job);
    let release = job.kernel.release.clone();
    let output = boot(&job, &mut |line| tell(line, quiet))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.trim().split_once("; ").map_or("", |(_, words)| words);
    match Code::from_number(output.exit_code) {
        Some(Code::Done) => Ok(format!("{release}: {words}")),
        Some(Code::Failed) => Err(Failure::failed(words.replace(&inside, &scheduler.name))),
        _ => Err(guest_failure(&output)),
    }
}
