//! What the command carries in itself: schedulers and machines.

use crate::failure::Failure;
use crate::machine_file::{self, MachineFile};
use std::path::Path;

/// A scheduler that is built in.
#[derive(Debug)]
pub(crate) struct Shipped {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is, one line.
    pub(crate) about: &'static str,
    /// Tunables: name and comment.
    pub(crate) tunables: &'static [(&'static str, &'static str)],
    /// The compiled object.
    pub(crate) object: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The machine used without `-m`.
pub(crate) const DEFAULT_MACHINE: &str = "modern";

/// All shipped machines, in name order.
pub(crate) fn machines() -> Result<Vec<(&'static str, MachineFile)>, Failure> {
    MACHINES.iter().map(|(name, text)| Ok((*name, machine_file::parse(text, name)?))).collect()
}

/// The machine of `-m`: a shipped name or a file.
pub(crate) fn machine(name: &str) -> Result<MachineFile, Failure> {
    if let Some((name, text)) = MACHINES.iter().find(|(shipped, _)| *shipped == name) {
        return machine_file::parse(text, name);
    }
    if name.ends_with(".toml") || name.contains('/') {
        return machine_file::read(Path::new(name));
    }
    let names: Vec<&str> = MACHINES.iter().map(|(name, _)| *name).collect();
    Err(Failure::usage(format!(
        "no machine named '{name}'; there are: {} (or give a file: *.toml)",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_machines_are_readable() {
        for (name, file) in machines().unwrap() {
            assert_eq!(file.machine.name, name);
            assert!(!file.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn unknown_machines_are_refused_with_the_list() {
        let text = machine("pdp-11").unwrap_err().text;
        assert!(text.contains("'pdp-11'") && text.contains("*.toml"), "{text}");
        assert!(machine("missing/x.toml").unwrap_err().text.contains("missing/x.toml"));
    }
}
