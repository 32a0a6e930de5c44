//! What one run of a load is, drawn from the key.

use crate::failure::Failure;
use crate::judge::disguise::{Disguised, disguise};
use crate::judge::key::Key;
use crate::judge::range::Range;
use crate::judge::suite::{Suite, SuiteLoad, Work};
use crate::shipped;
use crate::workload;
use schedlab_base::{DurationNs, Machine, Prng};
use schedlab_workload::{Scenario, file};

/// What answers call a load that they do not show.
pub(super) const NOT_SHOWN: &str = "a load that is not shown";

/// One run, the same for candidate and base.
pub(super) struct Drawn {
    pub(super) what: Disguised,
    pub(super) machine: Machine,
    pub(super) duration: DurationNs,
    pub(super) seed: u64,
}

/// One run as a real kernel makes it, without another name or process.
pub(super) struct Plain {
    /// The catalogue's workload with its parameters, or a workload file's text.
    pub(super) work: Work,
    pub(super) cpus: u32,
    pub(super) duration: DurationNs,
    pub(super) seed: u64,
}

/// CPUs of a VM, where the load leaves a choice: one VM then serves all loads of a shipped suite. Chosen.
const VM_CPUS: u64 = 2;

/// Draws the run of a load that [`draw`] makes, for a VM.
pub(super) fn plain(key: &Key, suite: &Suite, load: &SuiteLoad, run: usize) -> Plain {
    let of = |what: &str| key.prng(&[&suite.name, &load.name, &run.to_string(), what]);
    let (_, duration, seed) = sizes(load, &of);
    let cpus = match load.cpus {
        Range::Whole(low, high) => VM_CPUS.clamp(low, high.max(low)),
        _ => 1,
    };
    Plain {
        work: work(load, &mut of("parameters")),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        duration,
        seed,
    }
}

/// CPUs, length and seed of a run.
fn sizes(load: &SuiteLoad, of: &dyn Fn(&str) -> Prng) -> (usize, DurationNs, u64) {
    let mut sizes = of("machine");
    let cpus = load.cpus.draw(&mut sizes).parse().unwrap_or(1);
    let duration = load.duration.draw(&mut sizes).parse().unwrap_or(DurationNs::from_secs(1));
    // Half of the numbers, so that sums of seeds stay in range.
    (cpus, duration, of("seed").next_u64() >> 1)
}

/// Draws a run of a load.
///
/// # Errors
/// A machine, workload or parameter of the suite that is refused.
pub(super) fn draw(key: &Key, suite: &Suite, load: &SuiteLoad, run: usize) -> Result<Drawn, Failure> {
    let of = |what: &str| key.prng(&[&suite.name, &load.name, &run.to_string(), what]);
    let refused = |what: String| Failure::usage(format!("suite {}: load {}: {what}", suite.name, load.name));
    let (cpus, duration, seed) = sizes(load, &of);
    let machine = shipped::machine(&load.machine)?.machine.with_cpus(cpus);
    let machine = machine.map_err(|error| refused(error.to_string()))?;
    let scenario = scenario(load, seed, duration, &mut of("parameters"));
    let scenario = scenario.map_err(|failure| refused(failure.text))?;
    let unknown = |name: &&String| {
        scenario.metrics.iter().all(|metric| metric.name != **name)
            && schedlab_base::RUN_METRICS.iter().all(|(known, _)| known != name)
    };
    if let Some(name) = load.metrics.iter().find(unknown) {
        let known: Vec<&str> = scenario.metrics.iter().map(|metric| metric.name.as_str()).collect();
        return Err(refused(format!("no metric '{name}'; there are: {}", known.join(", "))));
    }
    let what = disguise(&scenario, &mut of("disguise")).map_err(refused)?;
    Ok(Drawn { what, machine, duration, seed })
}

fn scenario(load: &SuiteLoad, seed: u64, limit: DurationNs, prng: &mut Prng) -> Result<Scenario, Failure> {
    match work(load, prng) {
        Work::Catalogue(spec) => workload::scenario(&spec, seed, Some(limit)),
        Work::Text(text) => file::parse(&text, "text").map_err(|error| Failure::usage(error.to_string())),
    }
}

/// What a load runs, with its parameters drawn.
fn work(load: &SuiteLoad, prng: &mut Prng) -> Work {
    let mut values: Vec<(&String, String)> =
        load.draw.iter().map(|(key, range)| (key, range.draw(prng))).collect();
    match &load.work {
        Work::Catalogue(name) => {
            let values: Vec<String> = values.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let colon = if values.is_empty() { "" } else { ":" };
            Work::Catalogue(format!("{name}{colon}{}", values.join(",")))
        }
        Work::Text(text) => {
            // A parameter may begin another one.
            values.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
            let mut text = text.clone();
            for (key, value) in values {
                text = text.replace(&format!("${key}"), &value);
            }
            Work::Text(text)
        }
    }
}
