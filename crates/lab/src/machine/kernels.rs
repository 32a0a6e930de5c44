//! `--kernel`: the kernel of a run, by version, by a distribution's name, or by an image's path. It is the simulated machine's in
//! simulated runs, and the VM's with `--vm`; where there are both, the simulator follows the VM.

use crate::failure::Failure;
use schedlab_base::{KernelPreset, KernelVersion, Machine};
use std::path::Path;

/// Whether a text of `--kernel` can only be a path.
pub(crate) fn is_path(path: &Path) -> bool {
    path.is_absolute() || path.components().count() > 1
}

/// The modelled version of a kernel's release: 6.18 of `6.18.15+deb13-cloud-amd64`.
pub(crate) fn version_of(release: &str) -> Option<KernelVersion> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    format!("{}.{}", numbers.next()?, numbers.next()?).parse().ok()
}

/// What a simulated machine's `--kernel` must be for it to follow a real kernel; nothing where the machine has that version
/// already, or the simulator does not know it.
pub fn following(machine: &Machine, release: &str) -> Option<String> {
    version_of(release)
        .filter(|version| *version != machine.kernel.version)
        .map(|version| version.to_string())
}

/// The machine with the kernel of `--kernel`, a preset's name or a version. What the machine file says of version, HRTICK and
/// preemption does not count then, nor of the tick where a preset has one. Results tell it behind the machine's name. Of a
/// version's three numbers two count: what is modelled does not change within a series.
///
/// # Errors
/// A name or version that is not known.
pub fn under(mut machine: Machine, kernel: Option<&str>) -> Result<Machine, Failure> {
    let Some(name) = kernel else { return Ok(machine) };
    let refused = |why: String| Failure::usage(format!("--kernel {name}: {why}"));
    if is_path(Path::new(name)) {
        return Err(refused(
            "an image is for the VM: add --vm; or name a version, such as --kernel 6.12".into(),
        ));
    }
    let name = series(name);
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

/// The machine with the kernel of `--kernel` and the CPUs of `-c`.
///
/// # Errors
/// As of [`under`], and a number of CPUs that the machine has no variant of.
pub fn with(machine: Machine, kernel: Option<&str>, cpus: Option<usize>) -> Result<Machine, Failure> {
    let machine = under(machine, kernel)?;
    match cpus {
        None => Ok(machine),
        Some(count) => {
            machine.with_cpus(count).map_err(|error| Failure::usage(format!("-c {count}: {error}")))
        }
    }
}

/// The first two of a version's three numbers; any other text as it is.
fn series(name: &str) -> &str {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((series, _)) if name.split('.').count() == 3 && name.split('.').all(is_number) => series,
        _ => name,
    }
}

/// The versions that there are.
pub fn range() -> String {
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
        let third = under(machine(), Some("7.2.13")).unwrap();
        assert_eq!((third.name.as_str(), third.kernel.version.to_string()), ("m@7.2", "7.2".into()));
        assert_eq!(under(machine(), None).unwrap().kernel, KernelFeatures::default());
    }

    #[test]
    fn unknown_kernels_are_named() {
        for (name, words) in [
            ("debian-12", "--kernel debian-12: no kernel 'debian-12' (did you mean 'debian-13'?)"),
            ("5.10", "EEVDF came with 6.6"),
            ("8.1", "Linux 8.1 is not modelled; 6.6 to 7.3 are"),
            ("windows", "or a version, 6.6 to 7.3"),
            ("./bzImage", "--kernel ./bzImage: an image is for the VM: add --vm"),
            ("8.1.2", "Linux 8.1 is not modelled"),
            ("7.2.13.4", "no version of Linux"),
        ] {
            let error = under(Machine::uniform("m", 1), Some(name)).unwrap_err().text;
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_simulated_machine_follows_a_real_kernel() {
        let machine = Machine::uniform("m", 1);
        assert_eq!(following(&machine, "7.3.4+deb13-cloud-amd64"), None);
        assert_eq!(following(&machine, "6.17.0-41-generic").as_deref(), Some("6.17"));
        assert_eq!(following(&machine, "linux"), None);
        assert_eq!(following(&machine, "9.1.2"), None, "what is not modelled is not followed");
    }
}
