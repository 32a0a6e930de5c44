//! `calibrate`: what things cost on a real kernel, as a machine file.

use super::run::{VM_CPUS, tell};
use crate::args::{CalibrateArgs, InstructionTime};
use crate::output;
use crate::typed::without_vm;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::Target;
use schedlab_lab::machine::calibrated::{Calibrated, not_measured};
use schedlab_lab::machine::host::kept;
use schedlab_lab::run::real::{boot, guest_failure};
use schedlab_lab::shipped;
use schedlab_live::calibrate::{self as loops, Plan};
use schedlab_live::host::{self, Found, kernel::kernel};
use schedlab_live::vm::VmJob;
use std::path::PathBuf;

/// The machine of the VM that counts instructions; what is not measured there is as in its file.
const VM_MACHINE: &str = "vm-icount";

/// Where the guest leaves its machine file.
const GUEST_FILE: &str = "/tmp/machine.toml";

/// Measures, and writes the machine file.
pub(crate) fn calibrate(args: &CalibrateArgs, quiet: bool) -> Result<(), Failure> {
    without_vm(&args.machine, args.vm)?;
    let place = place(args)?;
    let target = Target::new("-o", &place)?;
    let text = if args.vm { in_vm(args, quiet)? } else { here(args, quiet)? };
    target.write(&text)?;
    if !quiet && let Some(told) = not_measured(&text) {
        output::note(&told);
    }
    if !quiet && place.as_os_str() != "-" {
        output::note(&format!("written to {}", place.display()));
        if args.output.is_none() {
            output::note("-m host uses it: schedlab sim -m host -s o1 -w chat");
        }
    }
    Ok(())
}

/// Where the machine file goes.
fn place(args: &CalibrateArgs) -> Result<PathBuf, Failure> {
    match (&args.output, args.vm) {
        (Some(path), _) => Ok(path.clone()),
        (None, true) => Ok(PathBuf::from("-")),
        (None, false) => {
            kept().ok_or_else(|| Failure::environment("there is no cache directory; name a file with -o"))
        }
    }
}

fn here(args: &CalibrateArgs, quiet: bool) -> Result<String, Failure> {
    let failed = |what: &str, error: String| Failure::environment(format!("{what}: {error}"));
    let mut found = host::found().map_err(|error| failed("describing this machine", error.to_string()))?;
    let kernel = kernel();
    let plan = Plan { tries: args.tries, hz: kernel.hz.as_ref().map(|told| told.value) };
    let calibration = if args.as_guest {
        found.machine.costs = shipped::machine(VM_MACHINE)?.machine.costs;
        loops::measure_in_vm(plan, &found.machine.costs)
    } else {
        loops::measure(plan)
    };
    let calibration = calibration.map_err(|error| failed("measuring", error.to_string()))?;
    let about = if args.as_guest {
        without_hardware(&mut found);
        format!("QEMU counting instructions, {}", kernel.release)
    } else {
        format!("this machine, {}", kernel.release)
    };
    let made = Calibrated { found, about, calibration, kernel };
    if !quiet {
        made.notes().iter().for_each(|told| output::note(told));
    }
    Ok(made.text())
}

/// The machine in a VM that counts instructions: it has no caches, and its CPUs share the clock.
fn without_hardware(found: &mut Found) {
    (found.clock, found.caches) = (false, false);
    let machine = &mut found.machine;
    machine.name = VM_MACHINE.to_string();
    machine.clock_mhz = 1000;
    machine.llc_kib = 0;
    machine.smt_speed_percent = 100;
    machine.one_processor = true;
    let costs = &mut machine.costs;
    for nothing in [
        &mut costs.lock_transfer,
        &mut costs.lock_spinner,
        &mut costs.cache_refill_per_kib,
        &mut costs.memory_refill_per_kib,
        &mut costs.migration,
    ] {
        nothing.0 = 0;
    }
}

fn in_vm(args: &CalibrateArgs, quiet: bool) -> Result<String, Failure> {
    let mut vm = args.machine.clone();
    vm.icount = vm.icount.or(Some(InstructionTime(0)));
    let options = vm.options(VM_CPUS);
    let mut progress = |line: &str| tell(line, quiet);
    let mut job = VmJob::new(options.kernel(&mut progress)?, Vec::new());
    let tries = args.tries.to_string();
    job.args =
        ["-q", "calibrate", "--as-guest", "--tries", &tries, "-o", GUEST_FILE].map(String::from).to_vec();
    job.collect = vec![GUEST_FILE.to_string()];
    options.apply(&mut job);
    let output = boot(&job, &mut progress)?;
    let text = output.file(GUEST_FILE).ok_or_else(|| guest_failure(&output))?;
    Ok(String::from_utf8_lossy(text).into_owned())
}
