//! Probes: small loads that each use one mechanism of the kernel, or two together, for `schedlab fidelity`. They are files of the
//! own format, and all measure the same two figures.

use super::params::Params;
use super::{CatalogError, ParamInfo, ParamKind, WorkloadInfo};
use crate::file;
use crate::scenario::{End, Scenario};

macro_rules! probes {
    ($($name:literal)*) => {
        const NAMES: &[&str] = &[$($name),*];

        fn text(name: &str) -> &'static str {
            match name {
                $($name => include_str!(concat!("probes/", $name, ".toml")),)*
                other => unreachable!("{other} is none of the parameter's words"),
            }
        }
    };
}

probes! { "affinity" "build" "deadline" "epoll" "exec" "fork" "locks" "pages" "realtime" "shell" "tcp" "unix" "yield" }

pub(super) const PROBE: WorkloadInfo = WorkloadInfo {
    name: "probe",
    about: "a small load that uses one mechanism of the kernel",
    params: &[
        ParamInfo { name: "of", default: "fork", unit: "", about: "which one", kind: ParamKind::Word(NAMES) },
        ParamInfo::time("ttime", "600ms", "ms", "duration of the run"),
    ],
    metrics: &[("turns", "1/s"), ("turn_p50", "ms")],
    build,
};

fn build(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let name = params.word("of");
    let mut scenario =
        file::parse(text(name), name).map_err(|error| CatalogError(format!("workload probe: {error}")))?;
    scenario.name = PROBE.name.to_string();
    scenario.params = params.effective();
    scenario.end = End::After(params.duration("ttime"));
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    #[test]
    fn every_probe_is_a_scenario_with_the_same_figures() {
        for name in NAMES {
            let scenario = build(&format!("probe:of={name}"), 1).unwrap();
            let figures: Vec<&str> = scenario.metrics.iter().map(|metric| metric.name.as_str()).collect();
            assert_eq!(figures, ["turns", "turn_p50"], "{name}");
            assert!(!scenario.mechanisms().is_empty(), "{name}");
        }
        assert!(build("probe:of=nothing", 1).unwrap_err().to_string().contains("affinity"));
    }
}
