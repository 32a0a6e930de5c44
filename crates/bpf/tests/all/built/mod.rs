//! Shared by tests on object files: compiling the C sources of tests/objects, a small kernel, a host that records.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use schedlab_bpf::btf::{Btf, BtfBuilder, MemberSpec, TypeId};
use schedlab_bpf::helpers::{self, Env, GenericKfunc, LockKind};
use schedlab_bpf::link::{Image, KconfigValue, KernelModel, Runtime};
use schedlab_bpf::{Compiler, Engine, Fault, FuncId, GuestAddr, Host, Memory, Perm, Vm};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Compiles tests/objects/NAME.bpf.c; `None`, with a line that says so, if there is no clang.
pub fn compile(name: &str) -> Option<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/objects");
    // Tests run at the same time; each has its own output file.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}.{}.{number}.bpf.o", std::process::id()));
    if schedlab_clang::found().is_none() {
        eprintln!("skipped: {}", schedlab_clang::MISSING);
        return None;
    }
    let source = dir.join(format!("{name}.bpf.c"));
    let flags = ["-Wall", "-Wno-unused-variable", "-Wno-unused-const-variable"];
    schedlab_clang::compile(&source, &out, flags).expect("it compiles");
    let bytes = std::fs::read(&out).expect("clang wrote its output");
    let _ = std::fs::remove_file(&out);
    Some(bytes)
}

/// Kernel functions of the small kernel.
pub const KFUNCS: [&str; 2] = ["known_add", "known_flavour"];

/// A kernel whose types are those of core.bpf.c, moved about.
pub fn kernel() -> KernelModel {
    KernelModel {
        kfuncs: KFUNCS.iter().chain(&GenericKfunc::NAMES).map(ToString::to_string).collect(),
        kconfig: BTreeMap::from([
            ("CONFIG_HZ".to_string(), KconfigValue::Number(250)),
            ("CONFIG_SMP".to_string(), KconfigValue::Yes),
        ]),
        version: 0x70300,
        nr_cpus: 2,
        btf: types(false).into(),
        ..KernelModel::default()
    }
}

/// The types of [`kernel`] with what libbpf wants beside them.
pub fn kernel_for_libbpf() -> Btf {
    types(true)
}

fn types(for_libbpf: bool) -> Btf {
    let mut b = BtfBuilder::new();
    let int = b.int("int", 4, true);
    let u32_ = b.int("unsigned int", 4, false);
    let u64_ = b.int("unsigned long long", 8, false);
    let char_ = b.int("char", 1, true);
    let inner = b.structure("", 8, &[MemberSpec::at("nested", u64_, 0)]);
    let place = b.structure("place", 32, &[MemberSpec::at("cpu", int, 64), MemberSpec::at("", inner, 128)]);
    let task = b.declare("task");
    let to_task = b.ptr(task);
    let comm = b.array(char_, 8);
    let field = |name, bit_offset, bitfield| MemberSpec { name, ty: u32_, bit_offset, bitfield };
    b.define(
        task,
        128,
        &[
            MemberSpec::at("pid", int, 8 * 8),
            field("flags", 16 * 8, 7),
            field("state", 16 * 8 + 30, 2),
            MemberSpec::at("where", place, 24 * 8),
            MemberSpec::at("parent", to_task, 64 * 8),
            MemberSpec::at("comm", comm, 72 * 8),
            MemberSpec::at("grown", u64_, 88 * 8),
            MemberSpec::at("only_new", u64_, 96 * 8),
        ],
    );
    b.enumeration("colour", false, &[("GREEN", 22), ("RED", 11), ("VIOLET", 99)]);
    b.enumeration64("scx_public_consts", false, &[("SCX_SLICE_DFL", 20_000_000)]);
    add_functions(&mut b, int, u32_, u64_, char_);
    if for_libbpf {
        // The value type of struct_ops maps, attach targets of tp_btf, kernel functions of the arena.
        let ops = b.find("test_ops").expect("made above");
        b.structure("bpf_struct_ops_test_ops", 128, &[MemberSpec::at("data", ops, 512)]);
        let none = b.proto(TypeId(0), &[]);
        let to_none = b.ptr(none);
        b.typedef("btf_trace_sched_waking", to_none);
        let nothing = b.ptr(TypeId(0));
        let five = [("map", nothing), ("at", nothing), ("pages", u32_), ("node", int), ("flags", u64_)];
        let alloc = b.proto(nothing, &five);
        b.func("bpf_arena_alloc_pages", alloc);
        let free = b.proto(TypeId(0), &five[..3]);
        b.func("bpf_arena_free_pages", free);
    }
    b.finish()
}

fn add_functions(b: &mut BtfBuilder, int: TypeId, u32_: TypeId, u64_: TypeId, char_: TypeId) {
    let add = b.proto(int, &[("a", int), ("b", int)]);
    b.func("known_add", add);
    let one = b.proto(int, &[("a", int)]);
    b.func("known_flavour", one);
    b.var("kernel_counter", int);
    let method = b.proto(int, &[("ctx", u64_)]);
    let method = b.ptr(method);
    let text = b.array(char_, 16);
    b.structure(
        "test_ops",
        72,
        &[
            MemberSpec::at("read_pid", method, 0),
            MemberSpec::at("walk", method, 64),
            MemberSpec::at("answers", method, 128),
            MemberSpec::at("reach_gone", method, 192),
            MemberSpec::at("timeout", u32_, 256),
            MemberSpec::at("flags", u64_, 320),
            MemberSpec::at("name", text, 384),
        ],
    );
    b.structure("bpf_spin_lock", 4, &[]);
}

/// A host that keeps a clock, a current task and lists of what was asked.
pub struct TestHost {
    pub runtime: Runtime,
    pub kfuncs: Vec<String>,
    pub cpu: u32,
    pub now: u64,
    pub task: u64,
    pub armed: BTreeMap<u32, u64>,
    pub lines: Vec<String>,
    pub locked: u32,
}

impl TestHost {
    pub fn new(image: &Image, mem: &mut Memory) -> TestHost {
        let task = mem.map(4096, Perm::READ | Perm::KERNEL).expect("room for a task").0;
        TestHost {
            runtime: image.runtime.clone(),
            kfuncs: image.kfuncs.iter().map(|k| k.name.clone()).collect(),
            cpu: 0,
            now: 1000,
            task,
            armed: BTreeMap::new(),
            lines: Vec::new(),
            locked: 0,
        }
    }
}

impl Host for TestHost {
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        helpers::call(id, args, vm, self)
    }

    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        let name = self.kfuncs[index as usize].clone();
        match name.as_str() {
            "known_add" => Ok(u64::from((args[0] as u32).wrapping_add(args[1] as u32))),
            "known_flavour" => Ok(args[0] * 10),
            _ => GenericKfunc::from_name(&name).expect("a known function").call(args, vm, self),
        }
    }

    fn kernel_store(&mut self, addr: GuestAddr, _: u8, _: u64, _: &mut Vm<'_>) -> Result<(), Fault> {
        Err(Fault::host(1, format!("store to a kernel object at {addr}")))
    }
}

impl Env for TestHost {
    fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }
    fn cpu(&self) -> u32 {
        self.cpu
    }
    fn now_ns(&mut self, _: &Vm<'_>) -> u64 {
        self.now
    }
    fn random_u32(&mut self) -> u32 {
        4
    }
    fn current_task(&mut self, _: &mut Vm<'_>) -> Result<u64, Fault> {
        Ok(self.task)
    }
    fn current_pid_tgid(&mut self) -> u64 {
        7 << 32 | 7
    }
    fn current_comm(&mut self) -> [u8; 16] {
        *b"test\0\0\0\0\0\0\0\0\0\0\0\0"
    }
    fn task_pt_regs(&mut self, _: u64, _: &mut Vm<'_>) -> Result<u64, Fault> {
        Ok(0)
    }
    fn task_owner(&mut self, task: u64) -> Option<u32> {
        (task == self.task).then_some(7)
    }
    fn cgroup_owner(&mut self, _: u64) -> Option<u32> {
        None
    }
    fn per_cpu_address(&mut self, _: u64, _: u32) -> Option<u64> {
        None
    }
    fn lock(&mut self, _: GuestAddr, _: LockKind, _: &mut Vm<'_>) -> Result<(), Fault> {
        self.locked += 1;
        Ok(())
    }
    fn unlock(&mut self, _: GuestAddr, _: LockKind, _: &mut Vm<'_>) -> Result<(), Fault> {
        self.locked -= 1;
        Ok(())
    }
    fn timer_start(&mut self, timer: u32, expires_ns: u64) {
        self.armed.insert(timer, expires_ns);
    }
    fn timer_cancel(&mut self, timer: u32) -> bool {
        self.armed.remove(&timer).is_some()
    }
    fn trace(&mut self, text: &str, _insns: u64) {
        self.lines.push(text.to_string());
    }
    fn jiffies(&mut self, _: &Vm<'_>) -> u64 {
        0
    }
}

/// Runs a function of the image with one million instructions to spend.
pub fn run(
    image: &Image,
    func: FuncId,
    args: &[u64],
    mem: &mut Memory,
    host: &mut TestHost,
) -> Result<u64, Fault> {
    Compiler::new().run(&image.code, func, args, mem, host, 1_000_000).map(|done| done.r0)
}
