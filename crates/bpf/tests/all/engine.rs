//! The engine seen from its host: calls, callbacks, counts, faults and their places.

use schedlab_bpf::engine::KEEPS_PAGES;
use schedlab_bpf::insn::op;
use schedlab_bpf::memory::{GUEST_LIMIT, PAGE_SIZE};
use schedlab_bpf::*;

fn code(functions: &[(&str, &[Insn])]) -> Code {
    let mut builder = CodeBuilder::new();
    for (name, insns) in functions {
        builder.add_function(name, insns, &Marks::default()).expect("valid code");
    }
    builder.build().expect("linked code")
}

/// Helper 1 calls the function value in r1 r2 times with (i, r3) and sums the results; helper 2 fails.
struct Loop;

impl Host for Loop {
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        match id {
            1 => {
                let mut sum = 0;
                for i in 0..args[1] {
                    sum += vm.call_pointer(args[0], &[i, args[2]], self)?;
                }
                Ok(sum)
            }
            _ => Err(Fault::host(7, "told to")),
        }
    }
    fn kfunc(&mut self, index: u32, _args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        Ok(u64::from(index) * 1000 + vm.insns())
    }
    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        assert_eq!(size, 4);
        vm.mem.write_u32(addr, value as u32 + 1)
    }
}

/// Runs a program on both engines, which have to agree.
fn run(code: &Code, args: &[u64], mem: &mut Memory) -> Result<Done, Fault> {
    run_with(code, args, mem, || Loop, 1_000_000)
}

/// Runs a program on both engines with a new host for each engine. The object that the first argument points to is as
/// before for the second.
fn run_with<H: Host>(
    code: &Code,
    args: &[u64],
    mem: &mut Memory,
    host: impl Fn() -> H,
    budget: u64,
) -> Result<Done, Fault> {
    let object = GuestAddr(args.first().copied().unwrap_or(0));
    let before = mem.slice(object, 64).map(<[u8]>::to_vec);
    let interpreted = Interpreter::new().run(code, FuncId(0), args, mem, &mut host(), budget);
    let after = mem.slice(object, 64).map(<[u8]>::to_vec);
    if let Ok(before) = before {
        mem.write(object, &before).unwrap();
    }
    let compiled = Compiler::new().run(code, FuncId(0), args, mem, &mut host(), budget);
    assert_eq!(interpreted, compiled, "the engines agree");
    assert_eq!(after, mem.slice(object, 64).map(<[u8]>::to_vec), "also on what they wrote");
    interpreted
}

fn loop_program() -> Code {
    let callback = Insn::ld_imm64(1, op::PSEUDO_FUNC, 1);
    let main = [
        callback[0],
        callback[1],
        Insn::alu64_imm(op::MOV, 2, 10),
        Insn::alu64_imm(op::MOV, 3, 5),
        Insn::call_helper(1),
        Insn::exit(),
    ];
    let body = [Insn::alu64_reg(op::MOV, 0, 1), Insn::alu64_reg(op::ADD, 0, 2), Insn::exit()];
    code(&[("main", &main), ("body", &body)])
}

#[test]
fn callbacks_share_the_count() {
    let mut mem = Memory::new().unwrap();
    let done = run(&loop_program(), &[], &mut mem).unwrap();
    assert_eq!(done, Done { r0: 45 + 50, insns: 5 + 30, probe_faults: 0 });
}

#[test]
fn the_budget_is_exact_also_in_callbacks() {
    let mut mem = Memory::new().unwrap();
    let code = loop_program();
    for budget in 0..35 {
        let fault = run_with(&code, &[], &mut mem, || Loop, budget).unwrap_err();
        assert_eq!(*fault.kind(), FaultKind::Budget { limit: budget });
        assert_eq!(fault.insns(), budget);
    }
    assert!(run_with(&code, &[], &mut mem, || Loop, 35).is_ok());
}

#[test]
fn a_fault_names_its_place_and_the_way_there() {
    let mut mem = Memory::new().unwrap();
    let outer = [Insn::call_local(1), Insn::exit()];
    let middle = [Insn::alu64_imm(op::MOV, 1, 0), Insn::call_local(2), Insn::exit()];
    let inner = [Insn::load(op::DW, 0, 1, 24), Insn::exit()];
    let code = code(&[("outer", &outer), ("middle", &middle), ("inner", &inner)]);
    let fault = run(&code, &[], &mut mem).unwrap_err();
    assert_eq!(*fault.kind(), FaultKind::NullDeref { addr: GuestAddr(24), access: Access::Read });
    let way: Vec<_> = fault.backtrace().iter().map(|at| (at.function.as_str(), at.insn)).collect();
    assert_eq!(way, [("inner", 0), ("middle", 1), ("outer", 0)]);
    assert_eq!(fault.insns(), 4);
    assert_eq!(fault.to_string(), "NULL pointer read at 0x18 (in inner at instruction 0)");
}

#[test]
fn kernel_functions_see_the_exact_count_and_kernel_stores_reach_the_host() {
    let mut mem = Memory::new().unwrap();
    let object = mem.map(64, Perm::READ | Perm::KERNEL).unwrap();
    let main = [
        Insn::store_imm(op::W, 1, 8, 41),
        Insn::call_kfunc(3),
        Insn::load(op::W, 1, 1, 8),
        Insn::alu64_reg(op::ADD, 0, 1),
        Insn::exit(),
    ];
    let done = run(&code(&[("main", &main)]), &[object.0], &mut mem).unwrap();
    assert_eq!((done.r0, done.insns), (3002 + 42, 5));
}

/// A host whose object holds the number of looks at it.
struct Looks(u64);

impl Host for Looks {
    fn helper(&mut self, id: u32, _: &[u64; 5], _: &mut Vm<'_>) -> Result<u64, Fault> {
        Err(Fault::unsupported(format!("helper {id}")))
    }

    fn kfunc(&mut self, index: u32, _: &[u64; 5], _: &mut Vm<'_>) -> Result<u64, Fault> {
        Err(Fault::unsupported(format!("kernel function {index}")))
    }

    fn kernel_store(&mut self, addr: GuestAddr, _: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        vm.mem.write_u64(addr, value)
    }

    fn kernel_load(&mut self, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        self.0 += 1;
        mem.write_u64(addr, self.0)
    }
}

#[test]
fn lazy_objects_are_brought_up_to_date_before_each_load() {
    let mut mem = Memory::new().unwrap();
    let object = mem.map(64, Perm::LAZY | Perm::KERNEL).unwrap();
    let main = [
        Insn::store_imm(op::DW, 1, 8, 41),
        Insn::load(op::DW, 0, 1, 8),
        Insn::load(op::W, 2, 1, 8),
        Insn::alu64_reg(op::ADD, 0, 2),
        Insn::exit(),
    ];
    let code = code(&[("main", &main)]);
    let done = run_with(&code, &[object.0], &mut mem, || Looks(0), 1_000).unwrap();
    assert_eq!((done.r0, done.insns), (1 + 2, 5));
}

#[test]
fn recursion_ends_in_a_fault_and_leaves_the_stack_usable() {
    let mut mem = Memory::new().unwrap();
    let endless = code(&[("main", &[Insn::call_local(0), Insn::exit()])]);
    for _ in 0..2 {
        let fault = run(&endless, &[], &mut mem).unwrap_err();
        assert!(matches!(fault.kind(), FaultKind::CallDepth { .. }));
    }
    assert!(run(&loop_program(), &[], &mut mem).is_ok());
}

#[test]
fn a_marked_load_reads_zero_and_is_counted() {
    let mut mem = Memory::new().unwrap();
    let main = [Insn::load(op::DW, 0, 1, 0), Insn::exit()];
    let mut builder = CodeBuilder::new();
    builder.add_function("main", &main, &Marks { probe_mem: [0].into(), ..Marks::default() }).unwrap();
    let done = run(&builder.build().unwrap(), &[16], &mut mem).unwrap();
    assert_eq!((done.r0, done.probe_faults), (0, 1));
}

#[test]
#[should_panic(expected = "the host gives up")]
fn a_hosts_panic_passes_through_the_program() {
    struct Panics;
    impl Host for Panics {
        fn helper(&mut self, _: u32, _: &[u64; 5], _: &mut Vm<'_>) -> Result<u64, Fault> {
            panic!("the host gives up")
        }
        fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
            NoHost.kfunc(index, args, vm)
        }
        fn kernel_store(
            &mut self,
            at: GuestAddr,
            size: u8,
            value: u64,
            vm: &mut Vm<'_>,
        ) -> Result<(), Fault> {
            NoHost.kernel_store(at, size, value, vm)
        }
    }
    let outer = [Insn::call_local(1), Insn::exit()];
    let code = code(&[("outer", &outer), ("inner", &[Insn::call_helper(1), Insn::exit()])]);
    let mut mem = Memory::new().unwrap();
    let _ = Compiler::new().run(&code, FuncId(0), &[], &mut mem, &mut Panics, 100);
}

#[test]
fn hosts_faults_keep_their_code() {
    let mut mem = Memory::new().unwrap();
    let fault = run(&code(&[("main", &[Insn::call_helper(2), Insn::exit()])]), &[], &mut mem).unwrap_err();
    assert_eq!(*fault.kind(), FaultKind::Host { code: 7, text: "told to".into() });
    assert_eq!(fault.location().map(|at| at.insn), Some(0));
}

/// A host that, in its helper, runs another program on the same memory, as a trace point inside a kernel function does.
struct Nesting<'a> {
    inner: &'a Code,
    insns: u64,
}

impl Host for Nesting<'_> {
    fn helper(&mut self, _id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        let done = Compiler::new().run(self.inner, FuncId(0), &args[..1], vm.mem, &mut NoHost, 100)?;
        self.insns += done.insns;
        Ok(done.r0)
    }
    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        NoHost.kfunc(index, args, vm)
    }
    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        NoHost.kernel_store(addr, size, value, vm)
    }
}

#[test]
fn a_program_run_inside_a_helper_has_its_own_stack_frames_and_count() {
    let inner = code(&[(
        "inner",
        &[
            Insn::store(op::DW, 10, -8, 1),
            Insn::load(op::DW, 0, 10, -8),
            Insn::alu64_imm(op::ADD, 0, 1),
            Insn::exit(),
        ],
    )]);
    let outer = code(&[(
        "outer",
        &[
            Insn::store_imm(op::DW, 10, -8, 40),
            Insn::alu64_imm(op::MOV, 1, 1),
            Insn::call_helper(1),
            Insn::load(op::DW, 1, 10, -8),
            Insn::alu64_reg(op::ADD, 0, 1),
            Insn::exit(),
        ],
    )]);
    let (mut mem, mut host) = (Memory::new().unwrap(), Nesting { inner: &inner, insns: 0 });
    let done = Compiler::new().run(&outer, FuncId(0), &[], &mut mem, &mut host, 100).unwrap();
    assert_eq!((done.r0, done.insns, host.insns), (42, 6, 4));
    let done = Interpreter::new().run(&outer, FuncId(0), &[], &mut mem, &mut host, 100).unwrap();
    assert_eq!((done.r0, done.insns, host.insns), (42, 6, 8));
}

#[test]
fn atomics_on_kernel_pages_are_the_hosts_to_store() {
    let mut mem = Memory::new().unwrap();
    let object = mem.map(64, Perm::READ | Perm::KERNEL).unwrap();
    mem.write_u32(object, 10).unwrap();
    let add = Insn::new(op::STX | op::ATOMIC | op::W, 1, 2, 0, op::FETCH);
    let main = [Insn::alu64_imm(op::MOV, 2, 5), add, Insn::alu64_reg(op::MOV, 0, 2), Insn::exit()];
    let done = run(&code(&[("main", &main)]), &[object.0], &mut mem).unwrap();
    // The host of these tests stores one more than it is given.
    assert_eq!((done.r0, mem.read_u32(object).unwrap()), (10, 16));
}

/// Calls the function value in r1 once with itself, for as long as there are frames.
struct Deeper;

impl Host for Deeper {
    fn helper(&mut self, _id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        vm.call_pointer(args[0], &args[..1], self)
    }
    fn kfunc(&mut self, _index: u32, _args: &[u64; 5], _vm: &mut Vm<'_>) -> Result<u64, Fault> {
        Err(Fault::host(1, "not called"))
    }
    fn kernel_store(&mut self, _: GuestAddr, _: u8, _: u64, _: &mut Vm<'_>) -> Result<(), Fault> {
        Err(Fault::host(1, "not called"))
    }
}

/// Programs and hosts that call each other take the host's stack by depth, which the frames bound: a small stack holds
/// it, on both engines, whether calls nest in the program or through the host.
#[test]
fn the_deepest_nesting_fits_a_small_stack_of_the_host() {
    let through_host = code(&[("main", &[Insn::call_helper(1), Insn::exit()])]);
    let [first, second] = Insn::ld_imm64(1, op::PSEUDO_FUNC, 0);
    let both = code(&[
        ("main", &[first, second, Insn::call_helper(1), Insn::exit()]),
        ("direct", &[Insn::call_local(1), Insn::exit()]),
    ]);
    let deep = move || {
        let mut mem = Memory::new().unwrap();
        for (code, func) in [(&through_host, 0), (&both, 0), (&both, 1)] {
            let (func, args) = (FuncId(func), [FuncId(0).to_pointer()]);
            let interpreted = Interpreter::new().run(code, func, &args, &mut mem, &mut Deeper, 1 << 20);
            let compiled = Compiler::new().run(code, func, &args, &mut mem, &mut Deeper, 1 << 20);
            assert_eq!(interpreted, compiled, "the engines agree");
            let limit = memory::MAX_FRAMES;
            assert_eq!(*interpreted.unwrap_err().kind(), FaultKind::CallDepth { limit });
        }
    };
    let small = std::thread::Builder::new().stack_size(192 << 10);
    small.spawn(deep).unwrap().join().unwrap();
}

/// Accesses by one pointer, which compiled code checks together: loads and stores around a jump out of their middle.
fn grouped() -> Code {
    code(&[(
        "main",
        &[
            Insn::load(op::DW, 0, 1, 16),
            Insn::alu64_reg(op::MOV, 2, 1),
            Insn::alu64_imm(op::ADD, 2, 24),
            Insn::load(op::W, 3, 2, 0),
            Insn::alu64_reg(op::ADD, 0, 3),
            Insn::jump_imm(op::JSET, 3, 8, 4),
            Insn::store_imm(op::DW, 1, 32, 5),
            Insn::store_imm(op::B, 2, 20, 6),
            Insn::load(op::H, 3, 2, 8),
            Insn::alu64_reg(op::ADD, 0, 3),
            Insn::exit(),
        ],
    )])
}

#[test]
fn what_is_checked_together_fails_as_each_would_alone() {
    let code = grouped();
    let mut outcomes = [0; 2];
    for perm in [Perm::READ_WRITE, Perm::READ, Perm::READ | Perm::KERNEL] {
        let mut mem = Memory::new().unwrap();
        let start = mem.map(2 * 4096, perm).unwrap();
        for offset in 0..2 * 4096 - 8 {
            mem.write_u8(start.offset(offset), offset as u8).unwrap();
        }
        // Aligned or not, over the boundary of the pages, before the first and behind the last, and no address at all.
        let near = |edge: u64| (0..80).map(move |distance| edge.wrapping_add(distance).wrapping_sub(72));
        let edges = [start.0, start.0 + 4096, start.0 + 2 * 4096, 0, GUEST_LIMIT, 1 << 63];
        for pointer in edges.into_iter().flat_map(near) {
            for budget in [3, 8, 1_000_000] {
                let done = run_with(&code, &[pointer], &mut mem, || NoHost, budget);
                outcomes[usize::from(done.is_ok())] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 100), "{outcomes:?} failed and passed");
}

/// Takes the page away that the program uses.
struct Taker(GuestAddr);

impl Host for Taker {
    fn helper(&mut self, id: u32, _args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        assert!(!KEEPS_PAGES.contains(&id));
        vm.mem.unmap(self.0, PAGE_SIZE);
        Ok(0)
    }

    fn kfunc(&mut self, _index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.helper(0, args, vm)
    }

    fn kernel_store(
        &mut self,
        addr: GuestAddr,
        _size: u8,
        _value: u64,
        _vm: &mut Vm<'_>,
    ) -> Result<(), Fault> {
        Err(Fault::unsupported(format!("{addr}")))
    }
}

#[test]
fn accesses_behind_a_call_that_takes_their_page_away_fail() {
    for call in [Insn::call_helper(4), Insn::call_kfunc(0)] {
        let insns = [
            Insn::alu64_reg(op::MOV, 6, 1),
            Insn::load(op::DW, 2, 6, 0),
            Insn::load(op::DW, 2, 6, 8),
            call,
            Insn::load(op::DW, 0, 6, 0),
            Insn::load(op::DW, 0, 6, 8),
            Insn::exit(),
        ];
        let code = code(&[("f", &insns)]);
        let mut mem = Memory::new().unwrap();
        let mut faults = Vec::new();
        for compiled in [false, true] {
            let at = mem.map(PAGE_SIZE, Perm::READ_WRITE).unwrap();
            let mut host = Taker(at);
            let (func, args) = (FuncId(0), [at.0]);
            let fault = match compiled {
                false => Interpreter::new().run(&code, func, &args, &mut mem, &mut host, 100).unwrap_err(),
                true => Compiler::new().run(&code, func, &args, &mut mem, &mut host, 100).unwrap_err(),
            };
            assert_eq!((fault.insns(), fault.location().unwrap().insn), (5, 4), "{fault}");
            faults.push(fault.to_string());
        }
        assert_eq!(faults[0], faults[1]);
    }
}
