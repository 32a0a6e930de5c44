//! Objects compiled from tests/objects, linked against a small kernel and run.

use crate::built::{TestHost, compile, kernel, run};
use schedlab_bpf::error::LoadErrorKind;
use schedlab_bpf::helpers::TimerCall;
use schedlab_bpf::link::{Image, KernelModel, Settings, link};
use schedlab_bpf::memory::ARENA_BASE;
use schedlab_bpf::object::Object;
use schedlab_bpf::{FaultKind, FuncId, GuestAddr, Memory, Perm};

struct Loaded {
    image: Image,
    mem: Memory,
    host: TestHost,
}

impl Loaded {
    fn new(object: &Object, kernel: &KernelModel, settings: &Settings, mut mem: Memory) -> Loaded {
        let image = link(object, kernel, settings, &mut mem).expect("links");
        let host = TestHost::new(&image, &mut mem);
        Loaded { image, mem, host }
    }

    fn run(&mut self, program: &str, args: &[u64]) -> u64 {
        let func = self.program(program);
        let r0 = run(&self.image, func, args, &mut self.mem, &mut self.host);
        r0.unwrap_or_else(|fault| panic!("{program}: {fault}"))
    }

    fn program(&self, name: &str) -> FuncId {
        self.image.programs.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no {name}")).func
    }

    fn out(&self, index: usize) -> i64 {
        self.image.read_variable(&format!("out[{index}]"), &self.mem).expect("a result") as i64
    }

    #[track_caller]
    fn expect(&self, expected: &[i64]) {
        let got: Vec<i64> = (0..expected.len()).map(|i| self.out(i)).collect();
        assert_eq!(got, expected);
    }
}

/// A context of 64-bit arguments, as struct_ops programs get it.
fn context(mem: &mut Memory, args: &[u64]) -> GuestAddr {
    let at = mem.map(64, Perm::READ).expect("room");
    for (index, arg) in args.iter().enumerate() {
        mem.write_u64(at.offset(8 * index as u64), *arg).expect("mapped");
    }
    at
}

fn load(name: &str, settings: &Settings) -> Option<Loaded> {
    let object = Object::parse(name, &compile(name)?).expect("parses");
    Some(Loaded::new(&object, &kernel(), settings, Memory::new().expect("memory")))
}

#[test]
fn core_questions_are_answered_by_the_kernels_types() {
    let Some(mut l) = load("core", &Settings::new()) else { return };
    let task = l.mem.map(256, Perm::READ | Perm::KERNEL).expect("room");
    l.mem.write_u32(task.offset(8), 4242).expect("mapped");
    l.mem.write_u32(task.offset(16), 0b10 << 30 | 0x7f).expect("mapped");
    l.mem.write_u64(task.offset(88), 1 << 33 | 5).expect("mapped");
    l.mem.write_u64(task.offset(96), 66).expect("mapped");
    l.mem.write_u8(task.offset(74), b'c').expect("mapped");
    l.mem.write_u32(task.offset(24 + 8), 3).expect("mapped");
    l.mem.write_u64(task.offset(64), task.0).expect("mapped");
    let ctx = context(&mut l.mem, &[task.0]);
    assert_eq!(l.run("read_pid", &[ctx.0]), 4242);
    assert_eq!(l.run("answers", &[ctx.0]), 0);
    l.expect(&[0, 1, 8, 40, 1, 1, 0, 128, 1, 22, 0, 1, 0, 1 << 33 | 5, 1, 66, 99, 2, 1, 0]);
    assert_eq!(l.run("walk", &[ctx.0]), 3);
    l.mem.write_u64(task.offset(64), 0).expect("mapped");
    assert_eq!(l.run("walk", &[ctx.0]), 0, "a walked NULL reads as 0");
    let null = context(&mut l.mem, &[0]);
    let func = l.program("read_pid");
    let fault = run(&l.image, func, &[null.0], &mut l.mem, &mut l.host).expect_err("NULL argument");
    assert!(matches!(fault.kind(), FaultKind::NullDeref { .. }), "{fault}");
}

#[test]
fn an_unanswered_question_ends_the_program_with_its_name() {
    let Some(mut l) = load("core", &Settings::new()) else { return };
    let func = l.program("reach_gone");
    let ctx = context(&mut l.mem, &[0]);
    let fault = run(&l.image, func, &[ctx.0], &mut l.mem, &mut l.host).expect_err("must not run");
    assert!(fault.to_string().contains("struct task.gone does not exist"), "{fault}");
}

#[test]
fn struct_ops_tables_keep_functions_numbers_and_text() {
    let Some(l) = load("core", &Settings::new()) else { return };
    let ops = l.image.struct_ops_of("test_ops").expect("there");
    assert_eq!(ops.var_name, "core_ops");
    assert_eq!(ops.functions.keys().collect::<Vec<_>>(), ["answers", "reach_gone", "read_pid", "walk"]);
    assert_eq!(ops.scalars["timeout"], 5);
    assert_eq!(ops.scalars["flags"], 0x1_0000_0001);
    assert_eq!(ops.strings["name"], "core");
}

#[test]
fn members_of_a_table_can_be_set() {
    let mut settings = Settings::new();
    settings.set("core_ops.timeout", "30").set("core_ops.name", "other");
    let Some(l) = load("core", &settings) else { return };
    let ops = l.image.struct_ops_of("test_ops").expect("there");
    assert_eq!((ops.scalars["timeout"], ops.strings["name"].as_str()), (30, "other"));
    let Some(bytes) = compile("core") else { return };
    let object = Object::parse("core", &bytes).expect("parses");
    for (path, why) in [("core_ops.walk", "a function cannot be set"), ("core_ops.none", "no member `none`")]
    {
        let mut settings = Settings::new();
        settings.set(path, "1");
        let error = link(&object, &kernel(), &settings, &mut Memory::new().expect("memory")).expect_err(path);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_table_that_the_kernel_does_not_have_is_refused() {
    let Some(bytes) = compile("core") else { return };
    let object = Object::parse("core.bpf.o", &bytes).expect("parses");
    let bare = KernelModel::default();
    let error =
        link(&object, &bare, &Settings::new(), &mut Memory::new().expect("memory")).expect_err("no type");
    assert_eq!(error.kind, LoadErrorKind::Unresolved);
    assert!(error.to_string().starts_with("core.bpf.o: struct_ops `core_ops`: "), "{error}");
}

#[test]
fn everything_is_joined() {
    let mut settings = Settings::new();
    settings
        .set("slice_us", "5000")
        .set("limits.weights[2]", "0x30")
        .set("mode", "FAST")
        .set("label", "quick");
    let Some(bytes) = compile("links") else { return };
    let object = Object::parse("links.bpf.o", &bytes).expect("parses");
    let mut mem = Memory::new().expect("memory");
    let mut kernel = kernel();
    let counter = mem.map(8, Perm::READ | Perm::KERNEL).expect("room");
    mem.write_u32(counter, 31).expect("mapped");
    kernel.ksyms.insert("kernel_counter".into(), counter);
    let mut l = Loaded::new(&object, &kernel, &settings, mem);
    let ctx = context(&mut l.mem, &[2, 3]);
    assert_eq!(l.run("run", &[ctx.0]), 0);
    // (2*3+3+5) + (3*3+2+5) with `hidden` 5
    l.expect(&[
        5000,
        -5,
        77,
        30,
        6,
        15,
        42,
        250,
        1,
        0,
        0x70300,
        31,
        0,
        7,
        0x30,
        20_000_000,
        40,
        0,
        0,
        i64::from(b'q'),
    ]);
    assert_eq!(l.image.read_variable("counters[0]", &l.mem), Ok(1));
    assert_eq!(l.image.read_variable("hidden", &l.mem), Ok(6));
    assert!(l.image.read_variable("nothing", &l.mem).is_err());
    let names: Vec<&str> = l.image.programs.iter().map(|p| p.name.as_str()).collect();
    assert!(names.contains(&"on_waking") && !names.contains(&"optional"), "{names:?}");
    assert_eq!(l.run("careless", &[ctx.0]), 0);
}

/// libbpf loads it (`poison_kfunc_call()`), and the verifier refuses the call where it is reached: `invalid func unknown#2002...`.
#[test]
fn a_weak_function_that_is_not_there_is_refused_where_its_call_is_reached() {
    let Some(bytes) = compile("links") else { return };
    let object = Object::parse("links.bpf.o", &bytes).expect("parses");
    let mut kernel = kernel();
    kernel.ksyms.insert("kernel_counter".into(), GuestAddr(4));
    let mut settings = Settings::new();
    let mut refusal = |kernel: &KernelModel, careful: &str| {
        settings.set("ask", careful);
        link(&object, kernel, &settings, &mut Memory::new().expect("memory")).err().map(|e| e.to_string())
    };
    assert_eq!(refusal(&kernel, "1"), None, "constants rule the call out");
    let error = refusal(&kernel, "0").expect("refused");
    assert!(error.contains("program `careless`, section syscall, instruction "), "{error}");
    assert!(error.contains("links.bpf.c:"), "names the line: {error}");
    assert!(error.contains("`absent_weak`, which the simulated kernel does not have"), "{error}");
    kernel.other_versions.insert("absent_weak".into(), ("9.9 removed it".into(), "take 9.8".into()));
    let error = refusal(&kernel, "0").expect("refused");
    assert!(error.contains("9.9 removed it") && error.contains("take 9.8"), "{error}");
}

/// `parse_btf_map_def()` of libbpf: "map 'pairs': conflicting key size 8 != 4."
#[test]
fn a_map_whose_key_has_two_sizes_is_refused() {
    let Some(bytes) = compile("contradicts") else { return };
    let error = Object::parse("contradicts.bpf.o", &bytes).map(|_| ()).expect_err("refused").to_string();
    assert!(error.contains("map `pairs`: conflicting key size 8 != 4"), "{error}");
}

#[test]
fn linking_twice_gives_the_same_image() {
    let Some(bytes) = compile("links") else { return };
    let object = Object::parse("links", &bytes).expect("parses");
    let mut kernel = kernel();
    kernel.ksyms.insert("kernel_counter".into(), GuestAddr(4));
    let image =
        || link(&object, &kernel, &Settings::new(), &mut Memory::new().expect("memory")).expect("links");
    let (a, b) = (image(), image());
    assert_eq!(format!("{:?}", a.functions), format!("{:?}", b.functions));
    assert_eq!(a.variables, b.variables);
}

#[test]
fn settings_are_checked_by_name_and_type() {
    let Some(bytes) = compile("links") else { return };
    let object = Object::parse("links", &bytes).expect("parses");
    let mut kernel = kernel();
    kernel.ksyms.insert("kernel_counter".into(), GuestAddr(4));
    let refused = |name: &str, value: &str| {
        let mut settings = Settings::new();
        settings.set(name, value);
        let error = link(&object, &kernel, &settings, &mut Memory::new().expect("memory")).expect_err(name);
        assert_eq!(error.kind, LoadErrorKind::Setting);
        error.to_string()
    };
    assert!(refused("slice", "1").contains("there is no tunable `slice` (tunables: "));
    assert!(refused("slice", "1").contains("slice_us"));
    assert!(refused("slice_us", "4294967296").contains("does not fit"));
    assert!(refused("use_absent", "2").contains("does not fit"));
    assert!(refused("slice_us", "fast").contains("no number"));
    assert!(refused("mode", "MIDDLING").contains("values: SLOW, FAST"));
    assert!(refused("label", "much too long").contains("text of 13 bytes"));
    assert!(refused("limits.weights[4]", "1").contains("array of 4"));
    assert!(refused("limits", "1").contains("as a whole"));
}

#[test]
fn what_is_reached_and_missing_is_refused_by_name() {
    let Some(bytes) = compile("links") else { return };
    let object = Object::parse("links.bpf.o", &bytes).expect("parses");
    let refused = |kernel: &KernelModel| {
        let error = link(&object, kernel, &Settings::new(), &mut Memory::new().expect("memory"));
        error.expect_err("something is missing").to_string()
    };
    let mut lacking = kernel();
    let text = refused(&lacking);
    assert!(text.contains("program `run`") && text.contains("kernel variable `kernel_counter`"), "{text}");
    lacking.ksyms.insert("kernel_counter".into(), GuestAddr(4));
    lacking.kfuncs.remove("known_add");
    let text = refused(&lacking);
    assert!(text.contains("kernel function `known_add`") && text.contains("links.bpf.c:"), "{text}");
}

#[test]
fn an_instruction_that_does_not_exist_is_refused_with_its_line() {
    let Some(bytes) = compile("unknown_insn") else { return };
    let object = Object::parse("unknown_insn.bpf.o", &bytes).expect("parses");
    let linked = link(&object, &kernel(), &Settings::new(), &mut Memory::new().expect("memory"));
    let text = linked.expect_err("it has no such instruction").to_string();
    let source = include_str!("../objects/unknown_insn.bpf.c");
    let line = source.lines().position(|line| line.contains(".byte")).expect("it is there") + 1;
    let place = format!("section syscall, function `odd`, instruction 2 (unknown_insn.bpf.c:{line})");
    assert!(text.contains(&place) && text.contains("unknown instruction"), "{text}");
}

#[test]
fn hash_maps_follow_the_kernels_rules() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    assert_eq!(l.run("hashes", &[0]), 0);
    l.expect(&[0, -2, 0, -17, 5099, -7, 0, -2, 2, 4010, 0, 0]);
}

#[test]
fn array_maps_follow_the_kernels_rules() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    l.host.cpu = 1;
    assert_eq!(l.run("arrays", &[0]), 0);
    l.expect(&[0, -7, -17, -22, 7, 0, 0, 11, 0, 11, 11, 0]);
}

#[test]
fn queues_and_ring_buffers_keep_their_order() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    assert_eq!(l.run("queues", &[0]), 0);
    l.expect(&[-2, -7, 0, 2, 2, 1, 0, 0]);
    let ring = l.host.runtime.maps.find("ring").expect("declared");
    let records = l.host.runtime.maps.ring_drain(ring, &l.mem);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0][..8], 123u64.to_le_bytes());
    assert_eq!(records[1], 9u32.to_le_bytes());
}

#[test]
fn storage_belongs_to_its_task() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    assert_eq!(l.run("storage", &[0]), 0);
    l.expect(&[0, 51, 0, -2, 0]);
}

#[test]
fn arena_pages_come_in_order_and_globals_stand_at_the_end() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    assert_eq!(l.image.variables["in_arena"].addr.0, ARENA_BASE + 63 * 4096);
    assert_eq!(l.run("pages", &[0]), 0);
    l.expect(&[41, 17, 8192, 0, 42]);
}

#[test]
fn timers_call_back_with_their_map_key_and_value() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    assert_eq!(l.run("timing", &[0]), 0);
    l.expect(&[-22, 0, -16, -22, 0, 0, 0, 1]);
    let (&timer, &due) = l.host.armed.iter().next().expect("armed");
    assert_eq!(due, 2000);
    let call = TimerCall::of(timer, &mut l.host.runtime, &mut l.mem).expect("a callback");
    run(&l.image, call.func, &call.args, &mut l.mem, &mut l.host).expect("runs");
    assert_eq!(l.mem.read_u64(GuestAddr(call.args[2])).ok(), Some(2), "key 1, plus 1");
}

#[test]
fn texts_are_formatted_and_compared() {
    let Some(mut l) = load("maps", &Settings::new()) else { return };
    assert_eq!(l.run("texts", &[0]), 0);
    // A NULL pointer is none of the kernel's addresses: -ERANGE.
    l.expect(&[13, 0, -34, 0, 3, i64::from(b'b') * 256]);
}
