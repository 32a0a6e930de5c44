//! Several runs in one boot of a VM.

use crate::failure::{Code, Failure};
use crate::run::real::{RealRun, VmOptions, boot, guest_failure, named_after, read_runs, told_failure};
use schedlab_live::guest::{Listed, encode_list};
use schedlab_live::signals;
use schedlab_live::vm::{VmJob, VmOutput};
use schedlab_trace::RunRecord;

/// Where the guest finds what to do.
const LIST: &str = "/job/list";

/// The subcommand that a guest runs which has a list to do.
const GUEST_LIST: &str = "guest-list";

/// The list that this command, in a guest, was given to do.
pub fn run_list() -> Result<(), Failure> {
    schedlab_live::guest::run_list(LIST.as_ref())
        .map_err(|error| Failure::environment(format!("doing the guest's list: {error}")))
}

fn result_file(number: usize) -> String {
    format!("/tmp/result-{number}.json")
}

fn failure_file(number: usize) -> String {
    format!("/tmp/failure-{number}.txt")
}

/// Makes the runs in a VM that boots once for all of them, in their order. Where the VM does not live to the end, each
/// run gets one of its own, so that the others are not lost.
pub fn in_one_vm(
    runs: &[RealRun],
    vm: &VmOptions,
    progress: &mut dyn FnMut(&str),
) -> Vec<Result<RunRecord, Failure>> {
    match boot_for(runs, vm, progress) {
        Ok(output) => (0..runs.len()).map(|number| outcome(&output, &runs[number], number)).collect(),
        Err(failure) if runs.len() == 1 || signals::stop_wanted() || failure.code == Code::Usage => {
            runs.iter().map(|_| Err(failure.clone())).collect()
        }
        Err(failure) => {
            progress(&format!("{failure}; each run gets a VM of its own"));
            runs.iter().map(|run| run.in_vm(vm, progress)).collect()
        }
    }
}

fn boot_for(runs: &[RealRun], vm: &VmOptions, progress: &mut dyn FnMut(&str)) -> Result<VmOutput, Failure> {
    let mut job = VmJob::new(vm.kernel(progress)?, vec![GUEST_LIST.to_string()]);
    let mut list = Vec::with_capacity(runs.len());
    for (number, run) in runs.iter().enumerate() {
        let same = |other: &RealRun| {
            other.scheduler.object == run.scheduler.object
                && other.scheduler.given == run.scheduler.given
                && other.workload == run.workload
        };
        let folder = runs.iter().position(same).unwrap_or(number);
        let args = run.guest_args(&mut job, &format!("/job/{folder}"), &result_file(number))?;
        list.push(Listed { args, failure: failure_file(number) });
        job.collect.extend([result_file(number), failure_file(number)]);
    }
    let list = encode_list(&list).map_err(|error| Failure::environment(error.to_string()))?;
    job.files.push((LIST.to_string(), list));
    vm.apply(&mut job);
    job.timeout *= u32::try_from(runs.len()).unwrap_or(u32::MAX);
    Ok(boot(&job, progress)?)
}

/// What the guest has left of a run.
fn outcome(output: &VmOutput, run: &RealRun, number: usize) -> Result<RunRecord, Failure> {
    let record = match output.file(&result_file(number)) {
        Some(result) => read_runs(result)?.into_iter().next(),
        None => None,
    };
    let told = || match output.file(&failure_file(number)) {
        Some(failure) => {
            let at = failure.iter().position(|&byte| byte == b'\n').map_or(failure.len(), |at| at + 1);
            let (code, stderr) = failure.split_at(at);
            told_failure(stderr, String::from_utf8_lossy(code).trim().parse().unwrap_or(-1))
        }
        None => guest_failure(output),
    };
    let mut record = record.ok_or_else(told)?;
    named_after(&mut record, &run.scheduler);
    Ok(record)
}
