//! Kernels by name: a version (`6.18`, `7.3.4`) or a release of a distribution (`debian-sid`).

use std::fmt;

use schedlab_base::did_you_mean;

/// Oldest kernel with sched_ext.
pub(super) const OLDEST: [u64; 2] = [6, 12];

/// A kernel that the archive is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelName {
    /// The newest one whose version begins with these two or three numbers.
    Version(Vec<u64>),
    /// The newest one of a release.
    Release(Release),
}

/// Package naming of a family of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Debian: `linux-binary-V-cloud-ARCH` with `linux-base-V-cloud-ARCH`, or `linux-image-...`.
    Debian,
    /// Ubuntu: `linux-image-V-generic` with `linux-buildinfo-V-generic`.
    Ubuntu,
}

/// A release of a distribution, or a part of one, with kernels of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The release's name on command lines, which is also that of the simulator's preset.
    pub name: &'static str,
    pub(super) family: Family,
    /// The release's suites in the archive.
    pub(super) suites: &'static [&'static str],
    /// The release to take where this one has no kernel with sched_ext.
    pub(super) instead: Option<&'static str>,
}

/// All of them, in the order of their names. Releases that the archives have dropped are left out.
pub const RELEASES: [Release; 9] = [
    Release::of("debian-13", Family::Debian, &["trixie", "trixie-updates"], Some("debian-13-backports")),
    Release::of("debian-13-backports", Family::Debian, &["trixie-backports"], None),
    Release::of("debian-14", Family::Debian, &["forky"], None),
    Release::of("debian-sid", Family::Debian, &["sid"], None),
    Release::of("ubuntu-24.04", Family::Ubuntu, &["noble"], Some("ubuntu-24.04-hwe")),
    Release::of("ubuntu-24.04-hwe", Family::Ubuntu, &["noble-updates"], None),
    Release::of("ubuntu-25.04", Family::Ubuntu, &["plucky", "plucky-updates"], None),
    Release::of("ubuntu-25.10", Family::Ubuntu, &["questing", "questing-updates"], None),
    Release::of("ubuntu-26.04", Family::Ubuntu, &["resolute", "resolute-updates"], None),
];

impl Release {
    const fn of(
        name: &'static str,
        family: Family,
        suites: &'static [&'static str],
        instead: Option<&'static str>,
    ) -> Release {
        Release { name, family, suites, instead }
    }

    /// The release of that name.
    pub(super) fn named(name: &str) -> Option<Release> {
        RELEASES.into_iter().find(|release| release.name == name)
    }
}

impl KernelName {
    /// The kernel that a text names; nothing where it is neither version nor release.
    ///
    /// # Errors
    /// A version that has no sched_ext, or more or fewer numbers than a version has: words for an error.
    pub fn parse(text: &str) -> Result<Option<KernelName>, String> {
        if let Some(release) = Release::named(text) {
            return Ok(Some(KernelName::Release(release)));
        }
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !text.split('.').all(is_number) {
            return Ok(None);
        }
        let numbers: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers {
            Some(numbers) if !(2..=3).contains(&numbers.len()) => {
                Err("a version has two or three numbers, as in 6.18 or 7.3.4".to_string())
            }
            Some(numbers) if numbers.as_slice() < OLDEST.as_slice() => {
                Err("sched_ext came with Linux 6.12; name that version or a newer one".to_string())
            }
            Some(numbers) => Ok(Some(KernelName::Version(numbers))),
            None => Err("no version of Linux has such numbers".to_string()),
        }
    }

    /// Words about a text that names no kernel: what does.
    pub fn unknown(text: &str) -> String {
        let names = RELEASES.map(|release| release.name);
        let near = did_you_mean(text, names);
        format!(
            "no kernel for a VM{near}; name a version (6.18, 7.3.4), the path of an image, or one of {}",
            names.join(", ")
        )
    }

    /// True if a kernel with that release string is of this version. Releases of distributions are not told from it.
    pub(super) fn is_version_of(&self, release: &str) -> bool {
        match self {
            KernelName::Version(numbers) => version_of(release).starts_with(numbers),
            KernelName::Release(_) => false,
        }
    }
}

impl fmt::Display for KernelName {
    /// As on the command line; also the name of its folder in the cache.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelName::Version(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                f.write_str(&numbers.join("."))
            }
            KernelName::Release(release) => f.write_str(release.name),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Debian => "Debian",
            Family::Ubuntu => "Ubuntu",
        })
    }
}

/// The numbers of a version, in order: `7.3.4+deb13` is 7, 3, 4, 13.
pub(super) fn version_of(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// A version as people name it: the first three numbers at most.
pub(super) fn short(version: &[u64]) -> String {
    let numbers: Vec<String> = version.iter().take(3).map(u64::to_string).collect();
    numbers.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::KernelPreset;

    fn named(text: &str) -> KernelName {
        KernelName::parse(text).unwrap().unwrap()
    }

    #[test]
    fn versions_and_releases_are_read_and_told() {
        assert_eq!(named("6.18"), KernelName::Version(vec![6, 18]));
        assert_eq!(named("7.3.4"), KernelName::Version(vec![7, 3, 4]));
        for text in ["6.12", "7.0", "7.3.4", "debian-13", "debian-sid", "ubuntu-25.10"] {
            assert_eq!(named(text).to_string(), text);
        }
        // Leading zeros are of the same version, and of the same place in the cache.
        assert_eq!(named("6.018").to_string(), "6.18");
    }

    #[test]
    fn what_is_no_name_is_left_to_others_or_refused() {
        for text in
            ["", "vmlinuz", "./6.18", "6.18/bzImage", "6.x", "6.", ".", "debian-12", "6.18-rc1", "-1.2"]
        {
            assert_eq!(KernelName::parse(text), Ok(None), "{text}");
        }
        for (text, why) in [
            ("6.11", "sched_ext came with Linux 6.12"),
            ("5.10.3", "sched_ext came with Linux 6.12"),
            ("7", "two or three numbers"),
            ("7.3.4.1", "two or three numbers"),
            ("7.99999999999999999999", "no version of Linux"),
        ] {
            let error = KernelName::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let told = KernelName::unknown("debian-31");
        assert!(told.contains("did you mean 'debian-13'?") && told.contains("ubuntu-25.10"), "{told}");
    }

    #[test]
    fn a_version_is_a_prefix_of_numbers() {
        let release = "6.18.15+deb13-cloud-amd64";
        for text in ["6.18", "6.18.15"] {
            assert!(named(text).is_version_of(release), "{text}");
        }
        for text in ["6.18.1", "6.19", "7.18"] {
            assert!(!named(text).is_version_of(release), "{text}");
        }
        assert!(named("6.17").is_version_of("6.17.0-41-generic"));
        assert!(!named("debian-13").is_version_of(release));
        assert_eq!((short(&[7, 3, 4, 13]), short(&[7, 3])), ("7.3.4".into(), "7.3".into()));
    }

    #[test]
    fn releases_are_presets_of_the_simulator() {
        assert!(RELEASES.iter().map(|release| release.name).is_sorted());
        for release in RELEASES {
            assert!(KernelPreset::named(release.name).is_ok(), "{}", release.name);
            assert!(release.instead.is_none_or(|name| Release::named(name).is_some()), "{}", release.name);
        }
    }
}
