//! The built-in workloads: builders from (parameters, seed) to a [`Scenario`].
//!
//! Each workload has one file with its parameter table and its task programs.
//! Where a default is published, the comment names the document; everything
//! else is chosen and stays a parameter.

mod ab;
mod builds;
mod cgroups;
mod chat;
mod compute;
mod cpuhog;
mod draft;
mod draws;
mod mixed;
mod mkbench;
mod modern;
mod oltp;
mod params;
mod probe;
mod reflex;
mod swap;
mod swap_multi;
mod thin_client;
mod yields;

pub use params::{CatalogError, ParamInfo, ParamKind};

use crate::scenario::Scenario;
use params::Params;
use schedlab_base::did_you_mean;

/// One built-in workload.
#[derive(Clone, Copy)]
pub struct WorkloadInfo {
    /// The workload's name, as in `-w NAME`.
    pub name: &'static str,
    /// What it does, one line.
    pub about: &'static str,
    /// The workload's parameters in display order.
    pub params: &'static [ParamInfo],
    /// Names and units of the figures it reports of itself.
    pub metrics: &'static [(&'static str, &'static str)],
    build: fn(&Params, u64) -> Result<Scenario, CatalogError>,
}

static WORKLOADS: &[WorkloadInfo] = &[
    ab::AB,
    builds::BUILDS,
    builds::BUILDWORLD,
    compute::CDPARANOIA,
    chat::CHAT,
    builds::COMPILE,
    cpuhog::CPUHOG,
    modern::CYCLICTEST,
    modern::HACKBENCH,
    swap::INVERSION,
    cpuhog::KEYBOARD,
    reflex::LAT_CTX,
    yields::LAT_SCHED,
    mixed::MIXED,
    mkbench::MKBENCH,
    compute::OGGENC,
    oltp::OLTP,
    compute::OPENSSL,
    yields::PERIODIC,
    modern::PIPE,
    probe::PROBE,
    reflex::REFLEX,
    modern::SCHBENCH,
    compute::STREAM,
    swap::BROKER,
    swap::CONDVAR,
    swap::EPOLL,
    swap::EVENTFD,
    swap::FCNTL,
    swap::FLOCK,
    swap::FUTEX,
    swap::MQ,
    swap::MSG,
    swap_multi::SWAP_MULTI,
    swap::PIPE,
    swap::POLL,
    swap::SELECT,
    swap::SEM,
    swap::SIG,
    swap::SOCK,
    swap::TCP,
    swap::UDP,
    swap::WAIT,
    thin_client::THIN_CLIENT,
    compute::UBENCH,
    chat::VOLANO,
];

/// The built-in workloads in name order.
pub fn list() -> &'static [WorkloadInfo] {
    WORKLOADS
}

/// Builds the workload of `spec`, which is `NAME` or `NAME:key=value,key=value`.
/// Missing parameters have their defaults. All random draws come from `seed`.
///
/// # Errors
/// An unknown name or key, a bad value or an impossible combination; the message
/// names the place and lists what exists.
pub fn build(spec: &str, seed: u64) -> Result<Scenario, CatalogError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name.trim()) else {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        if let Some((first, _)) = name.split_once(',').filter(|(first, _)| names.contains(&first.trim())) {
            return Err(CatalogError(format!(
                "a command takes one workload, and '{spec}' names several; parameters follow a colon ({}:key=value,...)",
                first.trim()
            )));
        }
        return Err(CatalogError(format!(
            "no workload named '{}'{}; there are: {} (or give a file: *.toml, *.json)",
            name.trim(),
            did_you_mean(name.trim(), &names),
            names.join(", ")
        )));
    };
    let (rest, groups) = cgroups::take(workload.name, rest)?;
    let mut scenario = (workload.build)(&Params::parse(workload.name, workload.params, &rest)?, seed)?;
    if let Some(weights) = groups {
        cgroups::spread(&mut scenario, &weights)?;
    }
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_builds_with_its_defaults_and_is_deterministic() {
        for workload in list() {
            let first = build(workload.name, 7).unwrap();
            assert_eq!(first, build(workload.name, 7).unwrap(), "{}", workload.name);
            assert_eq!(first.params.len(), workload.params.len());
            let names: Vec<&str> = first.metrics.iter().map(|metric| metric.name.as_str()).collect();
            let promised: Vec<&str> = workload.metrics.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, promised, "{}", workload.name);
            assert!(workload.about.len() < 100 && !workload.about.ends_with('.'));
        }
    }

    #[test]
    fn smallest_values_build_or_are_refused() {
        for workload in list() {
            for param in workload.params {
                for value in ["0", "1", "2", "0ms", "1ns", "0/0"] {
                    let text = format!("{}:{}={value}", workload.name, param.name);
                    if let Err(error) = build(&text, 1) {
                        assert!(
                            error.to_string().contains(&format!("parameter {}", param.name)),
                            "{text}: {error}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn workloads_are_sorted() {
        assert!(list().is_sorted_by_key(|workload| workload.name));
    }

    #[test]
    fn unknown_workloads_are_refused_with_the_list() {
        let error = build("nope:x=1", 1).unwrap_err().to_string();
        assert!(error.contains("'nope'") && error.contains("cpuhog"), "{error}");
    }
}
