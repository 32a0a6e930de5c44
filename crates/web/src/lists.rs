//! What can be named in a request.

use crate::Parts;
use schedlab_bpf::object::Object;
use schedlab_lab::failure::Failure;
use schedlab_lab::scheduler::{FAIR, SWAP};
use schedlab_lab::shipped::{self, DEFAULT_MACHINE, SCHEDULERS};
use schedlab_machine::MachineFile;
use schedlab_workload::catalog;
use serde_json::{Value, json};

fn part(value: &Value) -> Parts {
    vec![value.to_string().into_bytes()]
}

fn tunables(object: &[u8]) -> Result<Value, Failure> {
    let object = Object::parse("object", object).map_err(|error| Failure::usage(error.to_string()))?;
    let one = |tunable: &schedlab_scx::Tunable| {
        json!({
            "name": tunable.name,
            "default": tunable.default,
            "meaning": tunable.meaning,
            "takes": tunable.takes,
            "values": tunable.values,
        })
    };
    Ok(schedlab_scx::tunables(&object).iter().map(one).collect())
}

fn schedulers() -> Result<Value, Failure> {
    let fair = json!({"name": FAIR, "about": "the kernel's own fair class", "tunables": []});
    let mut all = vec![fair];
    for shipped in SCHEDULERS {
        all.push(
            json!({"name": shipped.name, "about": shipped.about, "tunables": tunables(shipped.object)?}),
        );
    }
    for shipped in SCHEDULERS {
        all.push(json!({
            "name": format!("{}{SWAP}", shipped.name),
            "about": format!("{}, with SWAP: the task that a blocked task waits for runs in its place", shipped.about),
            "tunables": tunables(shipped.swap)?,
        }));
    }
    Ok(all.into())
}

fn workloads() -> Value {
    let one = |workload: &catalog::WorkloadInfo| {
        let params = workload.params.iter().map(|param| {
            json!({"name": param.name, "default": param.default, "about": param.about, "unit": param.unit})
        });
        let metrics = workload.metrics.iter().map(|(name, unit)| json!({"name": name, "unit": unit}));
        json!({
            "name": workload.name,
            "about": workload.about,
            "params": params.collect::<Value>(),
            "metrics": metrics.collect::<Value>(),
        })
    };
    catalog::list().iter().map(one).collect()
}

fn machines() -> Result<Value, Failure> {
    let one = |(name, file): &(&str, MachineFile)| {
        let (machine, about) = (&file.machine, &file.about);
        json!({
            "name": name,
            "about": about,
            "cpus": machine.cpu_count(),
            "hz": machine.hz,
            "kernel": machine.kernel.version.to_string(),
            "default": *name == DEFAULT_MACHINE,
        })
    };
    Ok(shipped::machines()?.iter().map(one).collect())
}

/// Everything.
pub(crate) fn all() -> Result<Parts, Failure> {
    Ok(part(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "schedulers": schedulers()?,
        "workloads": workloads(),
        "machines": machines()?,
    })))
}

/// The tunables of an object.
pub(crate) fn of_object(object: &[u8]) -> Result<Parts, Failure> {
    Ok(part(&json!({"tunables": tunables(object)?})))
}
