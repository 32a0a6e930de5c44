//! The search for a named kernel in an archive: its suites, what they offer, and why none of it will do.

use std::path::Path;

use super::KernelError;
use super::apt::{Candidate, Client, FetchedKernel, System};
use super::names::{Family, KernelName, OLDEST, Release, short};

/// A kernel that a suite of the archive has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offer {
    suite: String,
    candidate: Candidate,
}

/// What the archive was found to have.
#[derive(Debug, Default)]
struct Found {
    offers: Vec<Offer>,
    /// Suites that were read, and those that could not be.
    read: Vec<String>,
    unread: Vec<String>,
}

/// Fetches the newest kernel of that name that has sched_ext, and unpacks it under `work`. `kept` tells of the cache, for errors.
pub(super) fn fetch(
    work: &Path,
    name: &KernelName,
    kept: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<FetchedKernel, KernelError> {
    let system = System::detect()?;
    let system = match name {
        KernelName::Release(release) if release.family != system.family => {
            other_family(&system, release.family, work, progress)?
        }
        _ => system,
    };
    let (mut found, mut last) = (Found::default(), None);
    for suite in suites(name, &system) {
        progress(&format!("looking for kernel {name} in {suite}"));
        if let Err(error) = found.read(&suite, &system, work) {
            last = Some(error);
        }
    }
    if let (true, Some(error)) = (found.read.is_empty(), last) {
        return Err(error);
    }
    let mut without = Vec::new();
    for offer in wanted(name, &found.offers) {
        progress(&format!("fetching {}", offer.candidate.packages.join(", ")));
        let client = Client::again(&work.join(&offer.suite));
        if let Some(kernel) = client.kernel_of(&offer.candidate)? {
            return Ok(kernel);
        }
        without.push(offer.clone());
    }
    let refused =
        |why: String| KernelError::NotOffered { name: name.to_string(), why, kept: kept.to_string() };
    match name {
        KernelName::Release(release) => {
            let seen = found.offers.clone();
            let instead = release.instead.and_then(Release::named);
            for suite in instead.iter().flat_map(|other| other.suites) {
                progress(&format!("looking for another kernel in {suite}"));
                // Without it the error has less of a cure, and is none the less true.
                let _ = found.read(suite, &system, work);
            }
            let newer: Vec<&Offer> = found.offers.iter().filter(|offer| !seen.contains(offer)).collect();
            Err(refused(release_words(release, &seen, &without, &newer)))
        }
        KernelName::Version(_) => Err(refused(version_words(name, &system, &found, &without))),
    }
}

impl Found {
    /// Adds what a suite has.
    fn read(&mut self, suite: &str, system: &System, work: &Path) -> Result<(), KernelError> {
        let listed = Client::new(&work.join(suite), system, &[suite.to_string()])
            .and_then(|client| client.names("linux-"));
        match listed {
            Ok(names) => {
                let offer = |candidate| Offer { suite: suite.to_string(), candidate };
                self.offers.extend(system.candidates(&names).into_iter().map(offer));
                self.read.push(suite.to_string());
                Ok(())
            }
            Err(error) => {
                self.unread.push(suite.to_string());
                Err(error)
            }
        }
    }
}

/// Where kernels of that name can be, by the system's own archive.
fn suites(name: &KernelName, system: &System) -> Vec<String> {
    match name {
        KernelName::Release(release) => release.suites.iter().map(|suite| (*suite).to_string()).collect(),
        KernelName::Version(_) => {
            let mut all: Vec<String> = system.suites().concat();
            if system.family == Family::Debian {
                all.extend([format!("{}-backports", system.codename), "trixie".to_string()]);
            }
            let mut suites: Vec<String> = Vec::new();
            for suite in all {
                // Unstable has no backports.
                if !suites.contains(&suite) && suite != "sid-backports" {
                    suites.push(suite);
                }
            }
            suites
        }
    }
}

/// The offers to try, newest first. One of each suite is enough: a suite does not turn sched_ext off within a version. Of a
/// release it is the newest one alone, so that its name stands for one kernel.
fn wanted<'a>(name: &KernelName, offers: &'a [Offer]) -> Vec<&'a Offer> {
    let fits = |offer: &&Offer| {
        let version = offer.candidate.version.as_slice();
        let named = match name {
            KernelName::Version(numbers) => version.starts_with(numbers),
            KernelName::Release(_) => true,
        };
        named && version >= OLDEST.as_slice()
    };
    let mut sorted: Vec<&Offer> = offers.iter().filter(fits).collect();
    sorted.sort_by(|a, b| b.candidate.version.cmp(&a.candidate.version));
    if matches!(name, KernelName::Release(_)) {
        sorted.truncate(1);
    }
    let mut suites: Vec<&str> = Vec::new();
    sorted.retain(|offer| {
        let first = !suites.contains(&offer.suite.as_str());
        suites.push(&offer.suite);
        first
    });
    sorted
}

/// Why a release has none: its kernel is too old, or was built without sched_ext; and which release has one.
fn release_words(release: &Release, offers: &[Offer], without: &[Offer], newer: &[&Offer]) -> String {
    let newest = |offers: &mut dyn Iterator<Item = &Offer>| {
        offers.map(|offer| offer.candidate.version.clone()).max().map(|version| short(&version))
    };
    let name = release.name;
    let why = match (without.first(), newest(&mut offers.iter())) {
        (Some(offer), _) => format!(
            "{name}'s kernel {} has no sched_ext (CONFIG_SCHED_CLASS_EXT is not set)",
            short(&offer.candidate.version)
        ),
        (None, Some(version)) => format!("{name}'s kernel {version} has no sched_ext, which came with 6.12"),
        (None, None) => {
            format!("the suites of {name}, {}, have no kernel image for VMs", release.suites.join(" and "))
        }
    };
    match (release.instead, newest(&mut newer.iter().copied())) {
        (Some(other), Some(version)) => {
            let suite = newer.first().map_or("", |offer| offer.suite.as_str());
            format!("{why}; {suite} has {version}: --kernel {other}")
        }
        (Some(other), None) => format!("{why}; name {other}"),
        (None, _) => why,
    }
}

/// Why no kernel of a version is to be had, and which are offered: the newest of each series.
fn version_words(name: &KernelName, system: &System, found: &Found, without: &[Offer]) -> String {
    let mut why = if without.is_empty() {
        format!("{}'s archive has no such kernel in {}", system.family, found.read.join(", "))
    } else {
        let all: Vec<String> = without
            .iter()
            .map(|offer| format!("{} of {}", short(&offer.candidate.version), offer.suite))
            .collect();
        format!("{} no sched_ext (CONFIG_SCHED_CLASS_EXT is not set)", has(&all))
    };
    if !found.unread.is_empty() {
        why += &format!("; {} could not be read", found.unread.join(", "));
    }
    let offered = series(found, without, name);
    let list = if offered.is_empty() { "nothing else".to_string() } else { offered.join(", ") };
    format!("{why}; the archive offers {list}")
}

fn has(all: &[String]) -> String {
    format!("{} {}", all.join(" and "), if all.len() == 1 { "has" } else { "have" })
}

/// The newest kernel of each series, oldest first, without what is known to lack sched_ext.
fn series(found: &Found, without: &[Offer], name: &KernelName) -> Vec<String> {
    let lacks = |offer: &Offer| {
        let version = &offer.candidate.version;
        version.as_slice() < OLDEST.as_slice()
            || without
                .iter()
                .any(|other| other.suite == offer.suite && version.starts_with(&other.candidate.version[..2]))
    };
    let mut versions: Vec<&Vec<u64>> =
        found.offers.iter().filter(|offer| !lacks(offer)).map(|offer| &offer.candidate.version).collect();
    versions.sort();
    // All of the series that was asked for, since its numbers are what went wrong.
    let asked = |version: &[u64]| match name {
        KernelName::Version(numbers) => numbers.len() > 2 && version.starts_with(&numbers[..2]),
        KernelName::Release(_) => false,
    };
    let newest = |at: usize| {
        versions.get(at + 1).is_none_or(|next| !next.starts_with(&versions[at][..2.min(versions[at].len())]))
    };
    let shown = versions.iter().enumerate().filter(|(at, version)| newest(*at) || asked(version));
    let mut names: Vec<String> = shown.map(|(_, version)| short(version)).collect();
    names.dedup();
    names
}

/// The archive of another family than this system's. Its keyring comes from this system's archive, so that what vouches for the
/// packages is what this system trusts.
fn other_family(
    system: &System,
    family: Family,
    work: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<System, KernelError> {
    let other = system.of_family(family)?;
    if other.keyring.is_some() {
        return Ok(other);
    }
    let package = family.keyring_package();
    let from = System { components: "main universe".to_string(), ..system.clone() };
    let from = if system.family == Family::Debian { system } else { &from };
    let suites = ["-backports", ""].map(|suffix| format!("{}{suffix}", system.codename));
    let suites = suites.into_iter().chain((system.family == Family::Debian).then(|| "trixie".to_string()));
    for suite in suites {
        progress(&format!("looking for {package} in {suite}"));
        let dir = work.join(format!("keyring-{suite}"));
        let Ok(client) = Client::new(&dir, from, std::slice::from_ref(&suite)) else { continue };
        if let Some(keyring) = client.keyring(family)? {
            return Ok(System { keyring: Some(keyring), ..other });
        }
    }
    Err(KernelError::NoPackageClient { missing: format!("{family}'s keyring (package {package})") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(suite: &str, version: &[u64]) -> Offer {
        let candidate = Candidate { version: version.to_vec(), packages: vec!["p".to_string()] };
        Offer { suite: suite.to_string(), candidate }
    }

    fn offers() -> Vec<Offer> {
        vec![
            offer("trixie-backports", &[6, 18, 5, 13]),
            offer("trixie-backports", &[6, 18, 15, 13]),
            offer("trixie-backports", &[7, 2, 12, 13]),
            offer("trixie", &[6, 12, 117, 13]),
            offer("trixie", &[6, 12, 107, 13]),
            offer("bookworm-backports", &[6, 12, 95, 12]),
            offer("bookworm-backports", &[6, 1, 5, 12]),
            offer("sid", &[7, 2, 13, 14]),
        ]
    }

    fn name(text: &str) -> KernelName {
        KernelName::parse(text).unwrap().unwrap()
    }

    fn system() -> System {
        System {
            family: Family::Debian,
            codename: "bookworm".into(),
            archive: "http://a".into(),
            components: "main".into(),
            arch: "amd64".into(),
            keyring: None,
        }
    }

    #[test]
    fn the_newest_of_each_suite_is_tried() {
        let all = offers();
        let tried = |text: &str| -> Vec<String> {
            let name = name(text);
            wanted(&name, &all)
                .iter()
                .map(|o| format!("{} {}", short(&o.candidate.version), o.suite))
                .collect()
        };
        assert_eq!(tried("6.18"), ["6.18.15 trixie-backports"]);
        assert_eq!(tried("6.18.5"), ["6.18.5 trixie-backports"]);
        assert_eq!(tried("7.2"), ["7.2.13 sid", "7.2.12 trixie-backports"]);
        assert_eq!(tried("6.12"), ["6.12.117 trixie", "6.12.95 bookworm-backports"]);
        assert_eq!(tried("7.3"), Vec::<String>::new());
        let old = [offer("noble", &[6, 8, 0, 31])];
        assert!(wanted(&name("ubuntu-24.04"), &old).is_empty(), "older than sched_ext");
        let trixie = [offer("trixie", &[6, 12, 107]), offer("trixie-updates", &[6, 12, 117])];
        assert_eq!(wanted(&name("debian-13"), &trixie), [&trixie[1]]);
    }

    #[test]
    fn a_version_that_is_not_offered_tells_which_are() {
        let found = Found {
            offers: offers(),
            read: vec!["trixie-backports".into(), "sid".into()],
            unread: vec!["forky".into()],
        };
        let told = version_words(&name("6.15"), &system(), &found, &[]);
        let want = "Debian's archive has no such kernel in trixie-backports, sid; forky could not be read; the archive offers \
                    6.12.117, 6.18.15, 7.2.13";
        assert_eq!(told, want);
        let told = version_words(&name("6.18.9"), &system(), &found, &[]);
        assert!(told.ends_with("the archive offers 6.12.117, 6.18.5, 6.18.15, 7.2.13"), "{told}");
        let (first, second) = (found.offers[3].clone(), found.offers[5].clone());
        let told = version_words(&name("6.12"), &system(), &found, &[first, second]);
        let want = "6.12.117 of trixie and 6.12.95 of bookworm-backports have no sched_ext (CONFIG_SCHED_CLASS_EXT is \
                    not set); forky could not be read; the archive offers 6.18.15, 7.2.13";
        assert_eq!(told, want);
        let told = version_words(&name("6.12"), &system(), &Found::default(), &[]);
        assert!(told.ends_with("the archive offers nothing else"), "{told}");
    }

    #[test]
    fn a_release_without_sched_ext_names_the_one_that_has_it() {
        let trixie = offer("trixie", &[6, 12, 117, 13]);
        let newer = offer("trixie-backports", &[7, 3, 4, 13]);
        let debian = Release::named("debian-13").unwrap();
        assert_eq!(
            release_words(&debian, std::slice::from_ref(&trixie), std::slice::from_ref(&trixie), &[&newer]),
            "debian-13's kernel 6.12.117 has no sched_ext (CONFIG_SCHED_CLASS_EXT is not set); trixie-backports has 7.3.4: \
             --kernel debian-13-backports"
        );
        let noble = offer("noble", &[6, 8, 0, 31]);
        let ubuntu = Release::named("ubuntu-24.04").unwrap();
        assert_eq!(
            release_words(&ubuntu, &[noble], &[], &[]),
            "ubuntu-24.04's kernel 6.8.0 has no sched_ext, which came with 6.12; name ubuntu-24.04-hwe"
        );
        let sid = Release::named("debian-sid").unwrap();
        assert_eq!(
            release_words(&sid, &[], &[], &[]),
            "the suites of debian-sid, sid, have no kernel image for VMs"
        );
    }

    #[test]
    fn a_version_is_looked_for_in_all_suites_once() {
        let debian = suites(&name("6.18"), &system());
        assert_eq!(debian, ["trixie-backports", "forky", "sid", "bookworm-backports", "trixie"]);
        let sid = suites(&name("6.18"), &System { codename: "sid".into(), ..system() });
        assert_eq!(sid, ["trixie-backports", "sid", "forky", "trixie"]);
        assert_eq!(suites(&name("debian-sid"), &system()), ["sid"]);
    }
}
