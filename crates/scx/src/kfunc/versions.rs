//! Which versions of Linux have a kernel function: on others it does not exist.

use super::{NOT_MODELLED, all};
use schedlab_base::{KernelChange, KernelVersion};
use schedlab_bpf::helpers::GenericKfunc;
use std::collections::BTreeMap;

/// The versions that have a function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Versions {
    /// The one that brought it; nothing if it is as old as sched_ext.
    since: Option<KernelVersion>,
    /// The first one that no longer has it.
    until: Option<KernelVersion>,
}

impl Versions {
    pub(crate) fn new(since: Option<(u32, u32)>, until: Option<(u32, u32)>) -> Versions {
        let version = |(major, minor)| KernelVersion::nearest(major, minor);
        Versions { since: since.map(version), until: until.map(version) }
    }

    /// Those that have the function of this name.
    pub(super) fn of(name: &str) -> Versions {
        let found = known().find(|(known, _)| *known == name);
        found.map_or_else(Versions::default, |(_, versions)| versions)
    }

    /// True if Linux `version` is one of them.
    pub(crate) fn has(self, version: KernelVersion) -> bool {
        self.since.is_none_or(|since| since <= version) && self.until.is_none_or(|until| version < until)
    }
}

/// All functions whose versions are known, those that are not modelled among them.
fn known() -> impl Iterator<Item = (&'static str, Versions)> {
    let generic = GenericKfunc::ALL.iter().map(|(name, _, since)| (*name, *since));
    let others = generic.chain(NOT_MODELLED.map(|(name, since)| (name, Some(since))));
    let others = others.map(|(name, since)| (name, Versions::new(since, None)));
    all().map(|kfunc| (kfunc.name, kfunc.versions())).chain(others)
}

/// The modelled functions that Linux `version` has, by name.
pub(crate) fn existing(version: KernelVersion) -> impl Iterator<Item = &'static str> {
    let modelled = known().filter(|(name, _)| NOT_MODELLED.iter().all(|(other, _)| other != name));
    modelled.filter(move |(_, versions)| versions.has(version)).map(|(name, _)| name)
}

/// The functions that other versions have: by name, why Linux `version` lacks it and the cure.
pub(crate) fn absences(version: KernelVersion) -> BTreeMap<String, (String, String)> {
    let absent = known().filter_map(|(name, versions)| {
        let (problem, _) = absence(version, &[name])?;
        let has = |version: &KernelVersion| version.has(KernelChange::SchedExt) && versions.has(*version);
        let has = KernelVersion::all()
            .find(has)
            .map_or(String::new(), |version| format!("; --kernel {version} has it"));
        Some((name.to_string(), (problem, format!("ask bpf_ksym_exists() before the call{has}"))))
    });
    absent.collect()
}

/// Why an object that needs all functions of these names is not for Linux `version`, and the cure; nothing if it is.
pub(crate) fn absence(version: KernelVersion, needed: &[&str]) -> Option<(String, String)> {
    let needed: Vec<(&str, Versions)> = needed.iter().map(|name| (*name, Versions::of(name))).collect();
    let (name, Versions { since, until }) = needed.iter().find(|(_, versions)| !versions.has(version))?;
    let runs = |version: &KernelVersion| {
        version.has(KernelChange::SchedExt) && needed.iter().all(|(_, versions)| versions.has(*version))
    };
    let runs = match KernelVersion::all().find(runs) {
        Some(version) => format!("--kernel {version} runs it"),
        None => "no version has all kernel functions that it needs".to_string(),
    };
    if let Some(since) = since.filter(|since| *since > version) {
        return Some((
            format!("Linux {version} has no kernel function {name}, which came with {since}"),
            format!("{runs}; or declare the function __weak and ask bpf_ksym_exists()"),
        ));
    }
    let until = until.filter(|until| *until <= version)?;
    Some((
        format!("Linux {version} has no kernel function {name}, which {until} removed"),
        format!("{runs}; or call what replaced the function"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists_in(version: KernelVersion, name: &str) -> bool {
        Versions::of(name).has(version)
    }

    #[test]
    fn older_kernels_lack_what_came_later() {
        let old: KernelVersion = "6.12".parse().unwrap();
        assert!(exists_in(old, "scx_bpf_dispatch") && !exists_in(old, "scx_bpf_now"));
        assert_eq!(
            absence(old, &["scx_bpf_now"]).unwrap().0,
            "Linux 6.12 has no kernel function scx_bpf_now, which came with 6.14"
        );
        assert_eq!(absence(KernelVersion::LAST, &["scx_bpf_now"]), None);
    }

    #[test]
    fn what_other_versions_have_is_told_with_one_of_them() {
        let gone = absences(KernelVersion::LAST);
        let (problem, cure) = &gone["scx_bpf_cpu_rq"];
        assert_eq!(problem, "Linux 7.3 has no kernel function scx_bpf_cpu_rq, which 7.3 removed");
        assert_eq!(cure, "ask bpf_ksym_exists() before the call; --kernel 7.2 has it");
        assert!(gone.contains_key("scx_bpf_consume") && !gone.contains_key("scx_bpf_now"));
        assert!(absences("6.12".parse().unwrap()).contains_key("scx_bpf_now"));
    }

    #[test]
    fn newer_kernels_lack_what_was_removed() {
        let version = |text: &str| text.parse::<KernelVersion>().unwrap();
        for (name, last, first) in [
            ("scx_bpf_consume", "6.16", "6.17"),
            ("scx_bpf_dispatch_vtime", "6.16", "6.17"),
            ("scx_bpf_cpu_rq", "7.2", "7.3"),
        ] {
            assert!(exists_in(version(last), name) && absence(version(last), &[name]).is_none(), "{name}");
            assert!(!exists_in(version(first), name), "{name}");
            let (problem, cure) = absence(KernelVersion::LAST, &[name]).unwrap();
            assert!(problem.ends_with(&format!("which {first} removed")), "{problem}");
            assert!(cure.starts_with(&format!("--kernel {last} runs it")), "{cure}");
        }
        let cure = |needed: &[&str]| absence(KernelVersion::LAST, needed).unwrap().1;
        assert!(cure(&["scx_bpf_cpu_rq", "scx_bpf_consume"]).starts_with("--kernel 6.16 runs it"));
        let never = cure(&["scx_bpf_consume", "scx_bpf_locked_rq"]);
        assert!(never.starts_with("no version has all kernel functions that it needs"), "{never}");
    }

    #[test]
    fn versions_of_a_row_follow_each_other() {
        for (name, Versions { since, until }) in known() {
            assert!(since.is_none() || until.is_none() || since < until, "{name}");
            let of_sched_ext = |version: &KernelVersion| version.has(KernelChange::SchedExt);
            let ever = KernelVersion::all().filter(of_sched_ext).any(|version| exists_in(version, name));
            assert!(ever, "{name}: a version has it");
        }
    }
}
