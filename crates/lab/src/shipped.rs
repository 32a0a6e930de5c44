//! What the command carries in itself: schedulers and machines.

use crate::failure::Failure;
use crate::files::input;
use crate::machine::described;
use crate::machine::host::{self, HOST};
use schedlab_base::did_you_mean;
use schedlab_machine::MachineFile;
use std::path::Path;

/// A scheduler that is built in.
#[derive(Debug)]
pub struct Shipped {
    /// The scheduler's name.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    /// The compiled object.
    pub object: &'static [u8],
    /// The compiled object of the policy with the layer SWAP.
    pub swap: &'static [u8],
    /// SHA-256 of the two.
    hashes: [&'static str; 2],
}

/// The SHA-256 of an object that the command carries, known since it was built; nothing for bytes from elsewhere.
pub(crate) fn hash_of(object: &[u8]) -> Option<&'static str> {
    let objects = |one: &'static Shipped| [one.object, one.swap].into_iter().zip(one.hashes);
    let mut all = SCHEDULERS.iter().flat_map(objects);
    all.find(|(own, _)| std::ptr::eq(*own, object)).map(|(_, hash)| hash)
}

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The machine used without `-m`.
pub const DEFAULT_MACHINE: &str = "modern";

/// All shipped machines, in name order.
pub fn machines() -> Result<Vec<(&'static str, MachineFile)>, Failure> {
    MACHINES.iter().map(|(name, text)| Ok((*name, described(text, name)?))).collect()
}

/// The machine that a file describes.
pub fn machine_file(path: &Path) -> Result<MachineFile, Failure> {
    let text = input::definition(path)
        .map_err(|error| Failure::usage(format!("machine file {}: {error}", path.display())))?;
    described(&text, &path.display().to_string())
}

/// The machine of `-m`: a shipped name, `host` or a file.
pub fn machine(name: &str) -> Result<MachineFile, Failure> {
    if let Some((name, text)) = MACHINES.iter().find(|(shipped, _)| *shipped == name) {
        return described(text, name);
    }
    if name == HOST {
        return host::machine();
    }
    if name.ends_with(".toml") || name.contains('/') {
        return machine_file(Path::new(name));
    }
    if let Some(wrong) = input::there_instead(name, "*.toml, or ./FILE") {
        return Err(Failure::usage(format!("machine {name}: {wrong}")));
    }
    let names: Vec<&str> = MACHINES.iter().map(|(name, _)| *name).chain([HOST]).collect();
    let near = did_you_mean(name, &names);
    Err(Failure::usage(format!(
        "no machine named '{name}'{near}; there are: {} (or give a file: *.toml)",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn known_hashes_are_those_of_the_objects() {
        for one in SCHEDULERS {
            for object in [one.object, one.swap] {
                let hash: String = Sha256::digest(object).iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(hash_of(object), Some(hash.as_str()), "{}", one.name);
                let copy = object.to_vec();
                assert_eq!(hash_of(&copy), None, "only what the command carries is known");
            }
        }
    }

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

    /// Keys of a machine file in order, each with whether its line, or the one above, has a comment.
    fn keys(text: &str) -> Vec<(String, bool)> {
        let lines: Vec<&str> = text.lines().collect();
        let assigned = |at: usize| {
            let (key, rest) = lines[at].split_once(" = ")?;
            let commented = rest.contains('#') || at > 0 && lines[at - 1].starts_with('#');
            (!key.starts_with('#')).then(|| (key.to_string(), commented))
        };
        let background = lines.iter().position(|line| *line == "[[background]]");
        (0..background.unwrap_or(lines.len())).filter_map(assigned).collect()
    }

    #[test]
    fn each_machine_states_every_parameter_and_where_it_is_from() {
        // These have defaults that follow from other prices, and one processor is said in place of contention.
        let optional = [
            "block",
            "dsq_enqueue",
            "idle_enter",
            "idle_switch",
            "kfunc_find",
            "switch_end",
            "wakeup_queued",
        ];
        let names = |text: &str| {
            let stated = keys(text).into_iter().map(|(key, _)| key);
            let wanted = stated.filter(|key| !optional.contains(&key.as_str()));
            wanted.map(|key| key.replace("one_processor", "contention")).collect::<Vec<_>>()
        };
        let (_, modern) = MACHINES.iter().find(|(name, _)| *name == DEFAULT_MACHINE).expect("it is shipped");
        let mut wanted = names(modern);
        wanted.sort();
        for (name, text) in MACHINES {
            let mut stated = names(text);
            stated.sort();
            assert_eq!(stated, wanted, "{name}");
            for (key, commented) in keys(text) {
                assert!(commented || ["name", "about", "cpus"].contains(&key.as_str()), "{name}: {key}");
            }
        }
    }

    #[test]
    fn the_pentium_4_has_two_threads_of_one_core() {
        let machine = machine("p4-3200e").expect("it is shipped").machine;
        assert_eq!(machine.cpus.iter().map(|cpu| cpu.core).collect::<Vec<_>>(), [0, 0]);
        assert_eq!(machine.smt_speed_percent, 60);
    }
}
