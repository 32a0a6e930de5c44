//! Groups of tasks: what the real kernel gives them, beside the simulator.

use super::{Lab, check, check_state, number};
use schedlab_base::Machine;
use schedlab_sim::{Class, Config};
use schedlab_workload::{Scenario, file};

/// How the example is named among the jobs of the VM.
pub(super) const NAME: &str = "groups.toml";

/// Most that shares may differ.
const LEEWAY: f64 = 0.02;

/// The example of the documentation.
pub(super) fn scenario() -> Result<Scenario, String> {
    let text = include_str!("../../../workloads/groups.toml");
    file::parse(text, NAME).map_err(|error| error.to_string())
}

/// The example has the same shares in both arms, and its quota is met in both.
pub(super) fn shares_of_groups(lab: &Lab) -> Result<(), String> {
    let output = lab.run(1, &[&format!("{NAME}@")], None)?;
    check_state(&output, 0, "")?;
    let mut machine = Machine::uniform("one", 1);
    machine.hz = 250;
    let simulated = schedlab_scx::run(&Config::new(machine, 1), &scenario()?, Class::Fair)
        .map_err(|error| error.to_string())?;
    let mut findings = Vec::new();
    for group in &simulated.groups {
        let seen = number(&output, &format!("group:{}", group.name))?;
        if (seen - group.share).abs() > LEEWAY {
            findings.push(format!("{}: {seen:.3}, simulated {:.3}", group.name, group.share));
        }
    }
    let throttled = number(&output, "throttled:c")?;
    let expected = simulated.groups.iter().find(|group| group.name == "c").map_or(0, |group| group.throttled);
    if (throttled - expected as f64).abs() > 2.0 {
        findings.push(format!("c was throttled in {throttled} periods, simulated {expected}"));
    }
    check(findings.is_empty(), findings.join("\n"))
}
