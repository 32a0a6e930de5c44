//! `check`: what an object needs, whether the simulator runs it, and whether a real
//! kernel's verifier takes it.

use crate::args::CheckArgs;
use crate::confine::Named;
use crate::deadline::TimeLimit;
use crate::defect;
use crate::entry;
use crate::failure::{Code, Failure};
use crate::output;
use crate::real::{VmOptions, boot, guest_failure, guest_scheduler};
use crate::run_prog;
use crate::scheduler::Scheduler;
use crate::shipped;
use crate::trust::{left_words, listed};
use schedlab_bpf::object::{ExternKind, Object};
use schedlab_live::load::{LoadError, verify};
use schedlab_live::vm::{Accelerator, VmJob};
use schedlab_report::table;
use schedlab_scx::{BpfScheduler, LoadErrorKind, LoadOptions, Tunable, tunables};
use std::time::Duration;

/// Prints the report; fails when any part of it does.
pub(crate) fn check(args: &CheckArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    if !args.live && !args.vm {
        Named::new()
            .inputs(entry::names(std::slice::from_ref(&args.object))?)
            .inputs(&args.state)
            .enter(&args.host.sandbox, verbose);
    }
    let mut schedulers = Scheduler::find_all(std::slice::from_ref(&args.object), &args.settings)?;
    run_prog::give(&mut schedulers, &args.programs)?;
    let mut scheduler = schedulers.remove(0);
    scheduler.restore(args.state.as_deref())?;
    let Some(bytes) = &scheduler.object else {
        return Err(Failure::usage("eevdf is the kernel's own class: there is no object to check"));
    };
    let mut object = Object::parse(&args.object, bytes).map_err(refusal)?;
    if scheduler.choice.is_some() {
        object.choose(scheduler.choice.as_deref()).map_err(refusal)?;
    }
    if !args.as_guest {
        output::print(&needs(&object))?;
    }
    if let (false, Some(left)) = (args.as_guest, scheduler.left_to_loader()) {
        output::print(&format!("\nleft to its loader: {}\n", left_words(&left)))?;
    }
    let left_out = scheduler.left_out();
    if !args.as_guest && !left_out.is_empty() {
        output::print(&format!("\nleft out by the simulator: {}\n", listed(&left_out)))?;
    }
    let mut failure = None;
    let mut verdict = |place: &str, result: Result<String, Failure>| {
        let (word, text) = match result {
            Ok(text) => ("yes", text),
            Err(error) => {
                // A verifier's log keeps its lines here.
                let text = error.text.clone();
                let word = if error.code == Code::Environment { "not known" } else { "no" };
                let hard = failure.as_ref().is_some_and(|seen: &Failure| seen.code == Code::Environment);
                if !hard {
                    failure = Some(error);
                }
                (word, text)
            }
        };
        output::print(&format!("{place}: {word}{}{text}\n", if text.is_empty() { "" } else { "; " }))
    };
    if !args.as_guest {
        verdict("\nthe simulator runs it", simulator(&scheduler, bytes, args))?;
    }
    if args.live {
        verdict("this kernel's verifier takes it", verified(&scheduler, bytes))?;
    }
    if args.vm {
        verdict("the VM kernel's verifier takes it", verified_in_vm(args, &scheduler, quiet))?;
    }
    failure.map_or(Ok(()), Err)
}

/// Everything that the object declares and expects.
fn needs(object: &Object) -> String {
    let mut text = format!("{}: license {}\n", object.file(), object.license());
    let mut section = |title: &str, header: &[&str], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text.push_str(&format!("\n{title}\n{}", table(header, &[], &rows)));
        }
    };
    for ops in object.struct_ops() {
        let rows = ops.functions.iter().map(|(member, function)| vec![member.clone(), function.clone()]);
        section(&format!("{} ({})", ops.name, ops.type_name), &["callback", "program"], rows.collect());
    }
    let hooks = object.programs().iter().filter(|program| !program.section.starts_with("struct_ops"));
    let rows = hooks.map(|program| vec![program.name.clone(), program.section.clone()]);
    section("other programs", &["program", "attaches to"], rows.collect());
    for (kind, title) in [
        (ExternKind::Kfunc, "kernel functions"),
        (ExternKind::Ksym, "kernel variables"),
        (ExternKind::Kconfig, "kernel configuration"),
    ] {
        let wanted = object.externs().iter().filter(|found| found.kind == kind);
        let rows = wanted.map(|found| {
            let need = if found.weak { "may be missing" } else { "needed" };
            vec![found.name.clone(), need.to_string()]
        });
        section(title, &["name", "need"], rows.collect());
    }
    let rows = object.maps().iter().map(|map| {
        let sizes = [map.key_size, map.value_size, map.max_entries].map(|size| size.to_string());
        let [key, value, entries] = sizes;
        vec![map.name.clone(), map.map_type.name().to_string(), key, value, entries]
    });
    section("maps", &["name", "type", "key bytes", "value bytes", "entries"], rows.collect());
    let rows = tunables(object).iter().map(tunable).collect();
    let header = ["name", "type", "default", "while it runs (--set-at)", "values", "meaning"];
    section("tunables (--set)", &header, rows);
    text
}

fn tunable(tunable: &Tunable) -> Vec<String> {
    let when = if tunable.constant { "" } else { "yes" };
    let Tunable { name, type_name, default, takes, meaning, .. } = tunable.clone();
    vec![name, type_name, default, when.to_string(), takes, meaning]
}

/// Loads it into the simulated kernel.
fn simulator(scheduler: &Scheduler, bytes: &[u8], args: &CheckArgs) -> Result<String, Failure> {
    let machine = shipped::machine(shipped::DEFAULT_MACHINE)?.machine;
    let what = format!("check of {}", scheduler.name);
    let _deadline = TimeLimit(args.host.time_limit).begin(&what)?;
    let options = LoadOptions { guest_memory: args.guest_memory.0, ..scheduler.load_options() };
    let load = || BpfScheduler::load(&scheduler.name, bytes, &options, &machine);
    defect::guard(|| what.clone(), || load().map(|_| String::new()).map_err(refusal))
}

/// An object that the simulator does not take fails the check. What is no answer about the object is told as in a run:
/// a wrong setting, a host that lacks something, more of something than is looked at.
fn refusal(error: schedlab_scx::LoadError) -> Failure {
    match error.kind {
        LoadErrorKind::Setting | LoadErrorKind::Host | LoadErrorKind::Limit => error.into(),
        _ => Failure::failed(error.to_string()),
    }
}

/// Has this machine's kernel verify it.
fn verified(scheduler: &Scheduler, bytes: &[u8]) -> Result<String, Failure> {
    match verify(&scheduler.for_kernel(bytes)) {
        Ok(programs) => {
            let walked: u64 = programs.iter().map(|program| u64::from(program.verified_insns)).sum();
            Ok(format!("{} programs, {walked} instructions walked", programs.len()))
        }
        Err(error @ (LoadError::NoSchedExt { .. } | LoadError::NotPrivileged)) => Err(error.into()),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

/// Has a VM's kernel verify it: this command, in the guest, does [`verified`].
fn verified_in_vm(args: &CheckArgs, scheduler: &Scheduler, quiet: bool) -> Result<String, Failure> {
    let (timeout, accelerator) = (Duration::from_secs(120), Accelerator::Auto);
    let vm = VmOptions { cpus: 1, timeout, kernel: args.kernel.clone(), accelerator };
    let mut progress = |line: &str| {
        if !quiet {
            output::note(line);
        }
    };
    let mut job = VmJob::new(vm.kernel(&mut progress)?, Vec::new());
    let inside = guest_scheduler(&mut job, "/job", scheduler);
    job.args = vec!["check".to_string(), inside.clone(), "--live".to_string(), "--as-guest".to_string()];
    for (name, value) in &scheduler.values {
        job.args.extend(["--set".to_string(), format!("{name}={value}")]);
    }
    vm.apply(&mut job);
    let release = job.kernel.release.clone();
    let output = boot(&job, &mut progress)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.trim().split_once("; ").map_or("", |(_, words)| words);
    match Code::from_number(output.exit_code) {
        Some(Code::Done) => Ok(format!("{release}: {words}")),
        Some(Code::Failed) => Err(Failure::failed(words.replace(&inside, &scheduler.name))),
        _ => Err(guest_failure(&output)),
    }
}
