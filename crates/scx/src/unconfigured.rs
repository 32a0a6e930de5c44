//! What an object leaves to a loader of its own, which does not take part here.

use crate::programs::RunProgram;
use crate::settings::{Tunable, is_filled, tunables};
use schedlab_bpf::object::{Object, ProgramKind};

/// What a loader of the object's own may have done before the scheduler starts, as far as the object shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftToLoader {
    /// Constants that are 0 in the object, that were not set, in an object whose operations have no flags either.
    pub constants: Vec<String>,
    /// Programs that run on request alone (`SEC("syscall")`).
    pub programs: Vec<String>,
}

impl LeftToLoader {
    /// What `object` leaves to a loader besides `settings`, the values of `--set`, and `run`, the programs that are run. Switches and enumerators that are 0 are
    /// defaults and are left out, and constants with a meaning in the object, and what both arms fill in themselves.
    pub fn of(object: &Object, settings: &[(String, String)], run: &[RunProgram]) -> LeftToLoader {
        let is_set = |name: &str| {
            let path = |set: &str| {
                set.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
            };
            settings.iter().any(|(set, _)| path(set))
        };
        let flags_set = object.struct_ops().iter().any(|table| {
            object.initial_member(table, "flags") != Some(0)
                || is_set(&format!("{}.flags", table.name))
                || is_set("ops.flags")
        });
        let is_zero = |name: &str| object.variable(name).is_some_and(|variable| object.is_zero(variable));
        let number =
            |tunable: &Tunable| matches!(tunable.default.as_str(), "0" | "") && is_zero(&tunable.name);
        // A constant whose author says in the object what it means, and what it takes, has its default there.
        let told = |tunable: &Tunable| !tunable.meaning.is_empty();
        let zero = tunables(object)
            .into_iter()
            .filter(|tunable| tunable.constant && number(tunable) && !told(tunable));
        let constants = zero.map(|tunable| tunable.name).filter(|name| !is_set(name) && !is_filled(name));
        let constants = if flags_set { Vec::new() } else { constants.collect() };
        let on_request = object.programs().iter().filter(|program| program.kind == ProgramKind::Syscall);
        let is_run = |name: &str| run.iter().any(|program| program.name == name);
        let programs = on_request.map(|program| program.name.clone()).filter(|name| !is_run(name)).collect();
        LeftToLoader { constants, programs }
    }

    /// True if a run shows the scheduler as its author means it, as far as the object tells.
    pub fn is_nothing(&self) -> bool {
        self.constants.is_empty() && self.programs.is_empty()
    }
}
