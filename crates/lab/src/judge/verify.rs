//! A judgement checked by a real kernel: the measured loads once more, in a VM that counts instructions.
//!
//! Simulated runs decide the score. Few real runs cannot repeat it, but they show where the simulator has the direction wrong.

use crate::failure::{Code, Failure};
use crate::judge::drawn::plain;
use crate::judge::key::Key;
use crate::judge::score::{WORST_SCORE, joined, logarithms, rounded};
use crate::judge::suite::{Suite, SuiteLoad, Work};
use crate::run::batch::in_one_vm;
use crate::run::real::{Looks, RealRun, VmOptions};
use crate::scheduler::{Scheduler, own_loader};
use schedlab_live::vm::Accelerator;
use schedlab_report::{Judgement, LoadVerdict, Verified, VerifiedLoad};
use schedlab_stats::mean;
use schedlab_trace::RunRecord;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs of each load and scheduler. Chosen: a direction counts where both agree.
const RUNS: usize = 2;

/// Longest host time of a run. Chosen: a run takes seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An instruction takes this power of two in nanoseconds. Chosen: a judgement stays at about a minute.
const SHIFT: u8 = 2;

/// What a real kernel says.
#[derive(Clone, Debug)]
pub struct Asked {
    kernel: String,
    loads: Vec<AskedLoad>,
}

#[derive(Clone, Debug)]
struct AskedLoad {
    name: String,
    /// Of each run: the mean logarithm of its metrics.
    logarithms: Vec<f64>,
    /// Why the runs do not count.
    fault: Option<String>,
}

/// A run that both schedulers make.
struct Case<'a> {
    load: &'a SuiteLoad,
    cpus: u32,
    runs: [RealRun; 2],
}

/// Makes the runs of candidate and base in a VM, one for each number of CPUs.
///
/// # Errors
/// What keeps a VM from working, and a base that does not run in it.
pub fn ask(
    [candidate, base]: [&Scheduler; 2],
    suite: &Suite,
    key: &Key,
    kernel: Option<PathBuf>,
    progress: &mut dyn FnMut(&str),
) -> Result<Asked, Failure> {
    own_loader::check_real(&[candidate.clone(), base.clone()])?;
    let accelerator = Accelerator::InstructionCount { shift: SHIFT };
    let mut vm = VmOptions { cpus: 1, timeout: TIMEOUT, kernel, accelerator, snapshot: true };
    let release = vm.kernel(progress)?.release;
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::environment(format!("{error}; make room for temporary files")))?;
    let mut by_cpus: BTreeMap<u32, Vec<Case<'_>>> = BTreeMap::new();
    for load in suite.shown().iter().filter(|load| !load.metrics.is_empty()) {
        for run in 0..RUNS {
            let case = case([candidate, base], (suite, load), key, run, folder.path())?;
            by_cpus.entry(case.cpus).or_default().push(case);
        }
    }
    let mut loads: Vec<AskedLoad> = Vec::new();
    for (cpus, cases) in by_cpus {
        vm.cpus = cpus;
        let plans: Vec<RealRun> = cases.iter().flat_map(|case| case.runs.clone()).collect();
        let results = in_one_vm(&plans, &vm, progress);
        for (case, pair) in cases.iter().zip(results.chunks(2)) {
            let name = &case.load.name;
            let at = loads.iter().position(|load| load.name == *name).unwrap_or_else(|| {
                loads.push(AskedLoad { name: name.clone(), logarithms: Vec::new(), fault: None });
                loads.len() - 1
            });
            match compared(case.load, pair)? {
                Ok(logarithm) => loads[at].logarithms.push(logarithm),
                Err(fault) => loads[at].fault = Some(fault),
            }
        }
    }
    let place = |load: &AskedLoad| suite.loads.iter().position(|one| one.name == load.name);
    loads.sort_by_key(place);
    Ok(Asked { kernel: release, loads })
}

/// A drawn run with the text of its workload in a file, where it has one.
fn case<'a>(
    arms: [&Scheduler; 2],
    (suite, load): (&Suite, &'a SuiteLoad),
    key: &Key,
    run: usize,
    folder: &Path,
) -> Result<Case<'a>, Failure> {
    let drawn = plain(key, suite, load, run);
    let workload = match drawn.work {
        Work::Catalogue(spec) => spec,
        Work::Text(text) => {
            let place = suite.loads.iter().position(|one| one.name == load.name).unwrap_or_default();
            let path = folder.join(format!("load-{place}-{run}.toml"));
            fs::write(&path, text)
                .map_err(|error| Failure::environment(format!("{}: {error}", path.display())))?;
            path.display().to_string()
        }
    };
    let runs = arms.map(|scheduler| RealRun {
        scheduler: scheduler.clone(),
        workload: workload.clone(),
        seed: drawn.seed,
        limit: Some(drawn.duration),
        looks: Looks::default(),
    });
    Ok(Case { load, cpus: drawn.cpus, runs })
}

/// The mean logarithm of a pair of runs, or why the candidate's does not count.
fn compared(load: &SuiteLoad, pair: &[Result<RunRecord, Failure>]) -> Result<Result<f64, String>, Failure> {
    let [candidate, base] = pair else { unreachable!("each case has two runs") };
    let base = base.as_ref().map_err(Failure::clone)?;
    let refused = |what: String| Failure::usage(format!("load {} in the VM: {what}", load.name));
    if base.is_void() {
        let why = base.standing_reasons().join(", ");
        return Err(refused(format!("the base {} does not last: {why}; take another one", base.scheduler)));
    }
    let candidate = match candidate {
        Ok(candidate) if candidate.is_void() => {
            return Ok(Err(candidate.standing_reasons().join(", ")));
        }
        Ok(candidate) => candidate,
        Err(Failure { code: Code::Usage, text }) => return Ok(Err(text.clone())),
        Err(failure) => return Err(failure.clone()),
    };
    let logarithms = logarithms(load, candidate, base).map_err(refused)?;
    Ok(Ok(mean(&logarithms).unwrap_or(0.0)))
}

/// The judgement with what the real kernel says of it. A reversed load is a reason. A reversed whole rejects, and so does a
/// scheduler that the real kernel ejects.
pub fn joined_with(mut judgement: Judgement, asked: &Asked) -> Judgement {
    if judgement.loads.is_empty() {
        return judgement;
    }
    let loads: Vec<VerifiedLoad> = asked.loads.iter().filter_map(|load| load.beside(&judgement)).collect();
    let is_void = asked.loads.iter().any(|load| load.fault.is_some());
    let by_run = |run: usize| -> Vec<f64> {
        asked.loads.iter().filter_map(|load| load.logarithms.get(run).copied()).collect()
    };
    let by_run: Vec<f64> =
        if is_void { Vec::new() } else { joined(&(0..RUNS).map(by_run).collect::<Vec<_>>()) };
    let (score, verdict) = (score(&by_run), direction(&by_run));
    let [low, high] = judgement.interval;
    let simulated = match (low > 1.0, high > 0.0 && high < 1.0) {
        (true, _) => LoadVerdict::Better,
        (_, true) => LoadVerdict::Worse,
        _ => LoadVerdict::NoDifferenceShown,
    };
    let reversed: Vec<&VerifiedLoad> = loads.iter().filter(|load| load.is_reversed()).collect();
    let mut reasons: Vec<String> = Vec::new();
    if let Some((name, fault)) = asked.loads.iter().find_map(|load| Some((&load.name, load.fault.as_ref()?)))
    {
        reasons.push(format!("{name}: on the real kernel the run does not count: {fault}"));
    }
    if simulated.is_opposite(verdict) {
        reasons.push(format!(
            "the real kernel reverses the whole: {} with the score {score:.3}, {} in the simulator",
            verdict.words(),
            simulated.words()
        ));
    }
    let rejects = !reasons.is_empty();
    reasons.extend(reversed.iter().map(|load| {
        let (real, simulated) = (load.real.words(), load.simulated.words());
        let (name, score) = (&load.name, load.score);
        format!("{name}: the real kernel says {real} with the score {score:.3}, the simulator {simulated}")
    }));
    // What rejects stands first.
    let at = if rejects || judgement.accepted { 0 } else { judgement.reasons.len() };
    judgement.reasons.splice(at..at, reasons);
    judgement.accepted &= !rejects;
    judgement.better &= !rejects;
    judgement.verify = Some(Verified {
        kernel: asked.kernel.clone(),
        score,
        verdict,
        of: loads.len(),
        agreeing: loads.iter().filter(|load| load.agrees()).count(),
        reversed: reversed.iter().map(|load| load.name.clone()).collect(),
        more_reversed: 0,
        loads,
    });
    judgement
}

impl AskedLoad {
    /// The load in both arms.
    fn beside(&self, judgement: &Judgement) -> Option<VerifiedLoad> {
        let simulated = judgement.loads.iter().find(|load| load.name == self.name)?.verdict;
        let runs = if self.fault.is_some() { &[][..] } else { &self.logarithms };
        let (score, real) = (score(runs), direction(runs));
        Some(VerifiedLoad { name: self.name.clone(), simulated, score, real })
    }
}

/// The geometric mean of runs; 0 without any.
fn score(runs: &[f64]) -> f64 {
    mean(runs).map_or(0.0, |mean| rounded(mean.exp()))
}

/// What runs show, if all of them differ in one direction by what matters.
fn direction(runs: &[f64]) -> LoadVerdict {
    let matters = -WORST_SCORE.ln();
    match () {
        () if runs.is_empty() => LoadVerdict::NotMeasured,
        () if runs.iter().all(|run| *run > matters) => LoadVerdict::Better,
        () if runs.iter().all(|run| *run < -matters) => LoadVerdict::Worse,
        () => LoadVerdict::NoDifferenceShown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::refused;
    use schedlab_report::JudgedLoad;

    /// A judgement of one load, better in the simulator.
    fn judgement() -> Judgement {
        let suite = Suite::find("desktop").unwrap();
        let load = JudgedLoad {
            name: "keys".into(),
            score: 1.2,
            interval: [1.1, 1.3],
            verdict: LoadVerdict::Better,
        };
        Judgement {
            accepted: true,
            better: true,
            score: 1.2,
            interval: [1.1, 1.3],
            loads: vec![load],
            ..refused("mine", "eevdf", &suite, &Key("1".into()), "look at keys")
        }
    }

    fn asked(logarithms: &[f64], fault: Option<&str>) -> Asked {
        let fault = fault.map(String::from);
        let load = AskedLoad { name: "keys".into(), logarithms: logarithms.to_vec(), fault };
        Asked { kernel: "7.3".into(), loads: vec![load] }
    }

    #[test]
    fn a_reversed_whole_rejects() {
        for (runs, fault, accepted, agreeing, reversed) in [
            (&[0.2, 0.3][..], None, true, 1, 0),
            (&[0.2, 0.0], None, true, 0, 0),
            (&[-0.01, -0.02], None, true, 0, 0),
            (&[-0.2, -0.3], None, false, 0, 1),
            (&[0.2], Some("ejected"), false, 0, 0),
        ] {
            let answer = joined_with(judgement(), &asked(runs, fault));
            let verify = answer.verify.as_ref().unwrap();
            assert_eq!((answer.accepted, answer.better), (accepted, accepted), "{runs:?}");
            assert_eq!((verify.agreeing, verify.reversed.len()), (agreeing, reversed), "{runs:?}");
            assert_eq!(answer.reasons[0] == "look at keys", accepted, "{:?}", answer.reasons);
        }
    }

    #[test]
    fn a_candidate_without_runs_is_not_verified() {
        let suite = Suite::find("desktop").unwrap();
        let refused = refused("mine", "eevdf", &suite, &Key("1".into()), "no");
        assert_eq!(joined_with(refused.clone(), &asked(&[0.1, 0.1], None)), refused);
    }
}
