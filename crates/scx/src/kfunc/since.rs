//! Which version of Linux brought a kernel function of sched_ext, and which one removed it: on others it does not exist.
//!
//! The versions are those that the compatibility header of `tools/sched_ext` states (7.3), and for what it does not name those
//! of the kernel's history. Functions that are not here came with sched_ext itself, or are older.

use schedlab_base::{KernelChange, KernelVersion};
use std::collections::BTreeMap;

/// Functions by the version that brought them.
const SINCE: &[((u32, u32), &[&str])] = &[
    (
        (6, 13),
        &[
            "scx_bpf_dsq_insert",
            "scx_bpf_dsq_insert_vtime",
            "scx_bpf_dsq_move",
            "scx_bpf_dsq_move_set_slice",
            "scx_bpf_dsq_move_set_vtime",
            "scx_bpf_dsq_move_to_local",
            "scx_bpf_dsq_move_vtime",
        ],
    ),
    ((6, 14), &["scx_bpf_now"]),
    (
        (6, 15),
        &[
            "bpf_cpumask_populate",
            "scx_bpf_cpu_node",
            "scx_bpf_events",
            "scx_bpf_get_idle_cpumask_node",
            "scx_bpf_get_idle_smtmask_node",
            "scx_bpf_nr_node_ids",
            "scx_bpf_pick_any_cpu_node",
            "scx_bpf_pick_idle_cpu_node",
        ],
    ),
    (
        (6, 16),
        &[
            "bpf_list_back",
            "bpf_list_front",
            "bpf_rbtree_left",
            "bpf_rbtree_right",
            "bpf_rbtree_root",
            "scx_bpf_select_cpu_and",
        ],
    ),
    ((6, 18), &["scx_bpf_cpu_curr", "scx_bpf_locked_rq"]),
    (
        (6, 19),
        &[
            "__scx_bpf_dsq_insert_vtime",
            "__scx_bpf_select_cpu_and",
            "scx_bpf_dsq_insert___v2",
            "scx_bpf_dsq_peek",
            "scx_bpf_reenqueue_local___v2",
            "scx_bpf_task_set_dsq_vtime",
            "scx_bpf_task_set_slice",
        ],
    ),
    ((7, 1), &["scx_bpf_dsq_move_to_local___v2", "scx_bpf_dsq_reenq", "scx_bpf_sub_dispatch"]),
    (
        (7, 3),
        &[
            "scx_bpf_cid_curr",
            "scx_bpf_cid_override",
            "scx_bpf_cid_to_cpu",
            "scx_bpf_cid_topo",
            "scx_bpf_cidperf_cap",
            "scx_bpf_cidperf_cur",
            "scx_bpf_cidperf_set",
            "scx_bpf_cpu_to_cid",
            "scx_bpf_kick_cid",
            "scx_bpf_nr_cids",
            "scx_bpf_nr_online_cids",
            "scx_bpf_sub_caps",
            "scx_bpf_sub_grant",
            "scx_bpf_sub_kill_bstr",
            "scx_bpf_sub_revoke",
            "scx_bpf_task_cid",
            "scx_bpf_this_cid",
            "scx_bpf_tid_to_task",
        ],
    ),
];

/// Functions by the first version without them.
///
/// Linux 6.17: commit 4ecf83741401 ("sched_ext: Drop kfuncs marked for removal in 6.15"), in the merge of sched_ext for 6.17.
/// Linux 7.3: `kernel/sched/ext/ext.c` of 7.3 has no `scx_bpf_cpu_rq()`; the compatibility header there tells that it was dropped.
const UNTIL: &[((u32, u32), &[&str])] = &[
    (
        (6, 17),
        &[
            "scx_bpf_consume",
            "scx_bpf_dispatch",
            "scx_bpf_dispatch_from_dsq",
            "scx_bpf_dispatch_from_dsq_set_slice",
            "scx_bpf_dispatch_from_dsq_set_vtime",
            "scx_bpf_dispatch_vtime",
            "scx_bpf_dispatch_vtime_from_dsq",
        ],
    ),
    ((7, 3), &["scx_bpf_cpu_rq"]),
];

/// The version that brought the function of this name; nothing if it is as old as sched_ext.
fn since(name: &str) -> Option<KernelVersion> {
    let found = SINCE.iter().find(|(_, names)| names.contains(&name));
    found.map(|((major, minor), _)| KernelVersion::nearest(*major, *minor))
}

/// The first version that no longer has the function of this name.
fn until(name: &str) -> Option<KernelVersion> {
    let found = UNTIL.iter().find(|(_, names)| names.contains(&name));
    found.map(|((major, minor), _)| KernelVersion::nearest(*major, *minor))
}

/// True if Linux `version` has the function of this name.
pub(crate) fn exists_in(version: KernelVersion, name: &str) -> bool {
    since(name).is_none_or(|since| since <= version) && until(name).is_none_or(|until| version < until)
}

/// The functions that other versions have: by name, why Linux `version` lacks it and the cure.
pub(crate) fn absences(version: KernelVersion) -> BTreeMap<String, (String, String)> {
    let names = SINCE.iter().chain(UNTIL).flat_map(|(_, names)| *names);
    let absent = names.filter_map(|name| {
        let (problem, _) = absence(version, &[name])?;
        let has = |version: &KernelVersion| version.has(KernelChange::SchedExt) && exists_in(*version, name);
        let has = KernelVersion::all()
            .find(has)
            .map_or(String::new(), |version| format!("; --kernel {version} has it"));
        Some((name.to_string(), (problem, format!("ask bpf_ksym_exists() before the call{has}"))))
    });
    absent.collect()
}

/// Why an object that needs all functions of these names is not for Linux `version`, and the cure; nothing if it is.
pub(crate) fn absence(version: KernelVersion, needed: &[&str]) -> Option<(String, String)> {
    let name = needed.iter().find(|name| !exists_in(version, name))?;
    let runs = |version: &KernelVersion| {
        version.has(KernelChange::SchedExt) && needed.iter().all(|name| exists_in(*version, name))
    };
    let runs = match KernelVersion::all().find(runs) {
        Some(version) => format!("--kernel {version} runs it"),
        None => "no version has all kernel functions that it needs".to_string(),
    };
    if let Some(since) = since(name).filter(|since| *since > version) {
        return Some((
            format!("Linux {version} has no kernel function {name}, which came with {since}"),
            format!("{runs}; or declare the function __weak and ask bpf_ksym_exists()"),
        ));
    }
    let until = until(name).filter(|until| *until <= version)?;
    Some((
        format!("Linux {version} has no kernel function {name}, which {until} removed"),
        format!("{runs}; or call what replaced the function"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kfunc;

    #[test]
    fn functions_of_the_table_are_known() {
        // Of these, other tables have what they answer.
        let elsewhere = ["scx_bpf_cid_override", "scx_bpf_dsq_reenq"];
        for name in SINCE.iter().flat_map(|(_, names)| *names).filter(|name| !elsewhere.contains(name)) {
            assert!(kfunc::find(name, false).is_some(), "{name}");
        }
        assert!(SINCE.is_sorted_by_key(|(version, _)| *version));
        assert!(SINCE.iter().all(|(_, names)| names.is_sorted()));
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
        for name in UNTIL.iter().flat_map(|(_, names)| *names) {
            assert!(kfunc::find(name, false).is_some(), "{name}");
        }
    }
}
