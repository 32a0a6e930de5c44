//! Loading: what is accepted, what is refused and how.

use crate::common;
use schedlab_base::Machine;
use schedlab_scx::{Attached, BpfScheduler, LoadError, LoadErrorKind, LoadOptions};
use schedlab_sim::{OpKind, SchedExt};

fn load(name: &str, settings: &[(&str, &str)]) -> Option<Result<BpfScheduler, LoadError>> {
    let bytes = common::object(name)?;
    let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let options = LoadOptions { settings, ..LoadOptions::default() };
    Some(BpfScheduler::load(name, &bytes, &options, &Machine::uniform("test", 4)))
}

#[test]
fn a_small_scheduler_loads() {
    let Some(loaded) = load("fifo", &[]) else { return };
    let scheduler = loaded.unwrap();
    assert_eq!(scheduler.info().name, "lab");
    assert!(scheduler.info().present.has(OpKind::Enqueue) && !scheduler.info().present.has(OpKind::Tick));
    assert_eq!(scheduler.counters(), [("nr_dispatched".to_string(), 0), ("nr_enqueued".to_string(), 0)]);
}

#[test]
fn an_unknown_kernel_function_is_refused_by_name() {
    let Some(loaded) = load("unknown_kfunc", &[]) else { return };
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains("scx_bpf_read_minds") && error.contains("unknown_kfunc"), "{error}");
    assert!(error.contains("lab_enqueue"), "names the program: {error}");
}

/// The object that calls functions where they are not allowed, at load on this version of Linux.
fn forbidden(what: &str, version: &str) -> Option<Result<BpfScheduler, LoadError>> {
    let bytes = common::object("forbidden")?;
    let options =
        LoadOptions { settings: vec![("what".to_string(), what.to_string())], ..LoadOptions::default() };
    let mut machine = Machine::uniform("test", 4);
    machine.kernel.version = version.parse().unwrap();
    Some(BpfScheduler::load("forbidden", &bytes, &options, &machine))
}

/// `scx_kfunc_context_filter()` and `KF_SLEEPABLE` (`kernel/sched/ext`, 7.3).
#[test]
fn a_call_that_the_callback_may_not_make_is_refused_at_load() {
    for (what, words) in [
        ("ENQUEUE_CREATES", "scx_bpf_create_dsq is not allowed from ops.enqueue()"),
        ("ENQUEUE_MOVES", "scx_bpf_dsq_move_to_local is not allowed from ops.enqueue()"),
        ("RUNNING_INSERTS", "scx_bpf_dsq_insert is not allowed from ops.running()"),
        ("WEIGHT_SELECTS", "scx_bpf_select_cpu_dfl is not allowed from ops.set_weight()"),
        ("TIMER_CREATES", "scx_bpf_create_dsq may sleep, and ops.init() calls it from code that may not"),
        ("TIMER_MOVES", "scx_bpf_dsq_move_to_local is not allowed from ops.init()"),
    ] {
        let Some(loaded) = forbidden(what, "7.3") else { return };
        let error = loaded.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("forbidden.bpf.c:"), "{what}: {error}");
        assert_eq!(
            error.contains("program `lab_enqueue`, function `enqueue_wrongly`"),
            what.starts_with("ENQ")
        );
    }
    let Some(loaded) = forbidden("ENQUEUE_MOVES", "7.1") else { return };
    assert!(loaded.unwrap_err().to_string().contains("call it in ops.dispatch()"));
}

#[test]
fn a_call_that_constants_rule_out_is_not_refused() {
    for what in ["NOTHING", "TIMER_COUNTS"] {
        let Some(loaded) = forbidden(what, "7.3") else { return };
        assert!(loaded.is_ok(), "{what}: {:?}", loaded.err());
    }
}

/// Before Linux 7.1 the kernel looks when the call is made; that a program must be sleepable it always told at load.
#[test]
fn older_kernels_tell_less_at_load() {
    for (what, refused) in [("ENQUEUE_CREATES", true), ("ENQUEUE_MOVES", false), ("TIMER_CREATES", true)] {
        let Some(loaded) = forbidden(what, "7.0") else { return };
        assert_eq!(loaded.is_err(), refused, "{what}: {:?}", loaded.err());
    }
}

/// `bpf_prog_load()` asks the verifier by callback, so that a loader cannot put a program where it calls what it may not.
#[test]
fn a_program_in_the_place_of_another_is_refused_when_a_loader_attaches_it() {
    let attach = |functions: &[(&str, &str)]| {
        let mut scheduler = load("fifo", &[])?.unwrap();
        let functions =
            functions.iter().map(|(member, name)| (member.to_string(), name.to_string())).collect();
        Some(scheduler.attach(&Attached { name: "lab".into(), functions, ..Attached::default() }))
    };
    let Some(own) = attach(&[("enqueue", "lab_enqueue"), ("dispatch", "lab_dispatch")]) else { return };
    assert!(own.is_ok(), "{own:?}");
    let error = attach(&[("enqueue", "lab_dispatch")]).unwrap().unwrap_err().to_string();
    assert!(error.contains("scx_bpf_dsq_move_to_local is not allowed from ops.enqueue()"), "{error}");
    assert!(error.contains("program `lab_dispatch`"), "{error}");
}

#[test]
fn a_callback_that_may_not_sleep_takes_no_sleepable_program() {
    let Some(loaded) = load("sleepy", &[]) else { return };
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains("ops.running() takes no sleepable program"), "{error}");
    assert!(error.contains("SEC(\"struct_ops/lab_running\")"), "{error}");
}

#[test]
fn a_license_that_no_kernel_takes_is_refused_with_the_cure() {
    let Some(loaded) = load("proprietary", &[]) else { return };
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains("license") && error.contains("\"MIT\"") && error.contains("= \"GPL\""), "{error}");
}

#[test]
fn settings_reach_their_variables() {
    let values = [("profile", "2.6.10"), ("slice", "7000000"), ("loud", "true"), ("weights[2]", "9")];
    let Some(loaded) = load("parts", &values) else { return };
    let scheduler = loaded.unwrap();
    let value = |path: &str| scheduler.variable(path).unwrap();
    assert_eq!((value("profile"), value("slice"), value("loud")), (1, 7_000_000, 1));
    assert_eq!((value("weights[2]"), value("weights[3]"), value("nr_cpu_ids")), (9, 4, 4));
}

#[test]
fn bad_settings_are_refused_with_the_cure() {
    let cases = [
        (("slyce", "1"), "tunables: loud, nr_cpu_ids, period_ns, profile, slice, weights"),
        (("profile", "medium"), "values: PROFILE_SLOW, PROFILE_FAST_2_6_10"),
        (("slice", "soon"), "`soon`"),
        (("weights[4]", "1"), "array of 4"),
        (("map.ticks.max_entries", "many"), "number of entries"),
        (("map.clocks.max_entries", "3"), "maps: ticks, entries, storage"),
    ];
    for (setting, expected) in cases {
        let Some(loaded) = load("parts", &[setting]) else { return };
        let error = loaded.unwrap_err();
        assert_eq!(error.kind, LoadErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Loads the object with switches and `changes`, as texts of `--set-at`.
fn load_switched(changes: &[&str]) -> Option<Result<BpfScheduler, LoadError>> {
    let bytes = common::object("switched")?;
    let changes = changes.iter().map(|text| text.parse().unwrap()).collect();
    let options = LoadOptions { changes, ..LoadOptions::default() };
    Some(BpfScheduler::load("switched", &bytes, &options, &Machine::uniform("test", 4)))
}

#[test]
fn changes_of_constants_and_strangers_are_refused_with_the_cure() {
    let cases = [
        ("1s:slice=1", "`slice` is constant once the scheduler is loaded"),
        ("1s:slice=1", "--set slice=1; while it runs: mode, weights"),
        ("1s:sloce=1", "tunables: mode, slice, weights"),
        ("1s:nr_fast=1", "there is no tunable `nr_fast`"),
        ("1s:mode=medium", "values: MODE_SLOW, MODE_FAST"),
        ("1s:weights[2]=1", "array of 2"),
        ("1s:weights[1]=x", "`x`"),
        ("1s:lab.timeout_ms=1", "--set lab.timeout_ms=1"),
    ];
    for (change, expected) in cases {
        let Some(loaded) = load_switched(&[change]) else { return };
        let error = loaded.unwrap_err();
        assert_eq!(error.kind, LoadErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let Some(loaded) = load_switched(&["1s:mode=fast", "20ms:weights[1]=7"]) else { return };
    loaded.unwrap();
}

#[test]
fn what_can_change_while_it_runs_can_be_set_before() {
    let Some(loaded) = load("switched", &[("mode", "fast"), ("weights[0]", "3")]) else { return };
    let scheduler = loaded.unwrap();
    assert_eq!((scheduler.variable("mode"), scheduler.variable("weights[0]")), (Ok(1), Ok(3)));
    let bytes = common::object("switched").unwrap();
    let object = schedlab_bpf::object::Object::parse("switched", &bytes).unwrap();
    let tunables = schedlab_scx::tunables(&object);
    let constant: Vec<_> = tunables.iter().map(|t| (t.name.as_str(), t.constant)).collect();
    assert_eq!(constant, [("mode", false), ("slice", true), ("weights", false)]);
}

#[test]
fn other_files_are_refused() {
    let machine = Machine::uniform("test", 1);
    for bytes in [&b""[..], b"#!/bin/sh\n", &[0x7f, b'E', b'L', b'F']] {
        let error = BpfScheduler::load("x.o", bytes, &LoadOptions::default(), &machine).unwrap_err();
        assert!(error.to_string().starts_with("x.o: "), "{error}");
    }
}

#[test]
fn requirements_name_what_is_missing() {
    let Some(bytes) = common::object("unknown_kfunc") else { return };
    let needs = schedlab_scx::requirements("x.bpf.o", &bytes, &LoadOptions::default()).unwrap();
    let minds = needs.kfuncs.iter().find(|need| need.name == "scx_bpf_read_minds").unwrap();
    assert!(!minds.modelled && !minds.optional);
    assert!(needs.refusal.unwrap().to_string().contains("scx_bpf_read_minds"));
    assert!(needs.kfuncs.iter().any(|need| need.name == "scx_bpf_dsq_move_to_local" && need.modelled));
}

#[test]
fn requirements_list_the_parts_of_an_object() {
    let Some(bytes) = common::object("parts") else { return };
    let needs = schedlab_scx::requirements("parts.bpf.o", &bytes, &LoadOptions::default()).unwrap();
    assert!(needs.refusal.is_none(), "{:?}", needs.refusal);
    assert_eq!(needs.scheduler.as_deref(), Some("lab"));
    let maps: Vec<_> = needs.maps.iter().map(|map| (map.name.as_str(), map.type_name)).collect();
    assert_eq!(maps, [("ticks", "ARRAY"), ("entries", "ARRAY"), ("storage", "TASK_STORAGE")]);
    let profile = needs.tunables.iter().find(|tunable| tunable.name == "profile").unwrap();
    assert_eq!((profile.default.as_str(), profile.values.len()), ("PROFILE_SLOW", 2));
    assert!(
        needs.helpers.iter().any(|need| need.name == "bpf_timer_start" && need.users == ["fire", "lab_init"]
            || need.users == ["lab_init", "fire"])
    );
    assert!(needs.counters.iter().any(|(name, _)| name == "nr_fired"));
}

#[test]
fn members_of_the_operations_can_be_set() {
    let Some(loaded) = load("fifo", &[("lab.timeout_ms", "2000")]) else { return };
    assert_eq!(loaded.unwrap().info().timeout, schedlab_base::DurationNs::from_secs(2));
    let Some(loaded) = load("fifo", &[("lab.timeout_ms", "40000")]) else { return };
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains("timeout_ms 40000"), "{error}");
}

#[test]
fn arrays_that_wait_for_their_length_are_found_and_given_one() {
    let Some(bytes) = common::object("resizable") else { return };
    let mut object = schedlab_bpf::object::Object::parse("resizable.bpf.o", &bytes).unwrap();
    let mut names: Vec<&str> = object.resizable_arrays().iter().map(|v| v.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["starts", "uei_dump"]);
    assert!(object.resize_array("starts", 4));
    assert_eq!(object.variable("starts").unwrap().size, 32);
    for (name, elements) in [("pair", 4), ("absent", 4), ("starts", u32::MAX)] {
        assert!(!object.resize_array(name, elements), "{name}");
    }
    assert_eq!(object.variable("pair").unwrap().size, 16);
    let Some(loaded) = load("resizable", &[]) else { return };
    let scheduler = loaded.unwrap();
    assert_eq!(scheduler.variable("uei_dump_len"), Ok(32768), "as a loader makes room for the dump");
}

#[test]
fn an_object_that_wants_more_memory_than_it_may_take_is_refused() {
    let Some(bytes) = common::object("fifo") else { return };
    let load = |guest_memory| {
        let options = LoadOptions { guest_memory, ..LoadOptions::default() };
        BpfScheduler::load("fifo", &bytes, &options, &Machine::uniform("test", 4))
    };
    let error = load(8).unwrap_err().to_string();
    assert!(error.contains("the limit of 8 (--guest-memory)"), "{error}");
    assert!(load(1 << 20).is_ok());
}

/// A source that includes `vmlinux.h` compiles with the header of the simulated kernel, and the object loads.
#[test]
fn sources_compile_with_the_header_of_the_simulated_kernel() {
    let folder = std::env::temp_dir().join(format!("schedlab-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let version = "7.3".parse().unwrap();
    std::fs::write(folder.join("vmlinux.h"), schedlab_scx::kernel_header(version)).unwrap();
    let source = "#include \"vmlinux.h\"\n\
        #define SEC(name) __attribute__((section(name), used))\n\
        char _license[] SEC(\"license\") = \"GPL\";\n\
        SEC(\"struct_ops/h_enqueue\") void h_enqueue(u64 *ctx)\n\
        { struct task_struct *p = (void *)ctx[0]; scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, p->scx.slice, ctx[1]); }\n\
        SEC(\".struct_ops.link\") struct sched_ext_ops h = { .enqueue = (void *)h_enqueue, .name = \"h\" };\n";
    let (from, to) = (folder.join("h.bpf.c"), folder.join("h.bpf.o"));
    std::fs::write(&from, source).unwrap();
    let done = schedlab_clang::compile(&from, &to, [format!("-I{}", folder.display())]);
    let bytes = std::fs::read(&to);
    std::fs::remove_dir_all(&folder).unwrap();
    if schedlab_clang::found().is_none() {
        return;
    }
    done.unwrap();
    let machine = Machine::uniform("test", 2);
    BpfScheduler::load("h", &bytes.unwrap(), &LoadOptions::default(), &machine).unwrap();
}
