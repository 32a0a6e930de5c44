//! `--kernel` of simulated runs: distributions' kernels and versions by name.

use crate::failure::Failure;
use schedlab_base::{KernelPreset, KernelVersion, Machine};

/// The machine with the kernel of `--kernel`, a preset's name or a version. What the machine file says of version, HRTICK and
/// preemption does not count then, nor of the tick where a preset has one. Results tell it behind the machine's name.
///
/// # Errors
/// A name or version that is not known.
pub(crate) fn under(mut machine: Machine, kernel: Option<&str>) -> Result<Machine, Failure> {
    let Some(name) = kernel else { return Ok(machine) };
    let refused = |why: String| Failure::usage(format!("--kernel {name}: {why}"));
    let features = if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.parse::<KernelVersion>().map_err(|why| refused(why.to_string()))?.features()
    } else {
        let preset =
            KernelPreset::named(name).map_err(|why| refused(format!("{why}; or a version, {}", range())))?;
        machine.hz = preset.hz;
        preset.features()
    };
    let kernel = &mut machine.kernel;
    (kernel.version, kernel.hrtick, kernel.preempt) = (features.version, features.hrtick, features.preempt);
    machine.name = format!("{}@{name}", machine.name);
    Ok(machine)
}

/// The versions that there are.
pub(crate) fn range() -> String {
    format!("{} to {}", KernelVersion::FIRST, KernelVersion::LAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::{KernelFeatures, Preemption};

    #[test]
    fn a_machine_runs_another_kernel() {
        let machine = || Machine { hz: 100, ..Machine::uniform("m", 2) };
        let debian = under(machine(), Some("debian-13")).unwrap();
        assert_eq!((debian.hz, debian.kernel.version.to_string()), (250, "6.12".into()));
        assert_eq!(debian.name, "m@debian-13");
        assert_eq!((debian.kernel.preempt, debian.kernel.hrtick), (Preemption::Full, false));
        let old = under(machine(), Some("6.18")).unwrap();
        assert_eq!((old.hz, old.kernel.version.to_string(), old.kernel.hrtick), (100, "6.18".into(), false));
        assert_eq!(under(machine(), None).unwrap().kernel, KernelFeatures::default());
    }

    #[test]
    fn unknown_kernels_are_named() {
        for (name, words) in [
            ("debian-12", "--kernel debian-12: no kernel 'debian-12' (did you mean 'debian-13'?)"),
            ("5.10", "EEVDF came with 6.6"),
            ("8.1", "Linux 8.1 is not modelled; 6.6 to 7.3 are"),
            ("windows", "or a version, 6.6 to 7.3"),
        ] {
            let error = under(Machine::uniform("m", 1), Some(name)).unwrap_err().text;
            assert!(error.contains(words), "{error}");
        }
    }
}
