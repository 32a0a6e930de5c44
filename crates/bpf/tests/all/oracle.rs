//! The loader against libbpf: the same objects, the same kernel types, the same instructions in the end.
//!
//! libbpf runs in this process with an emulated bpf(2), so it needs neither root nor a kernel with BPF: its only way
//! to the kernel is the C library's `syscall`, and its only way to the kernel's types is `open64`, both of which this
//! binary defines itself. Every instruction that libbpf hands to `BPF_PROG_LOAD` is then compared with ours.
//!
//! Run with `cargo test -p schedlab-bpf --features oracle --test all oracle::`. The objects are those of tests/objects
//! against the types of tests/built, and, if the environment names them, any others against a real kernel's types:
//! `SCHEDLAB_ORACLE_OBJECTS` (a directory) and `SCHEDLAB_ORACLE_BTF` (a file such as /sys/kernel/btf/vmlinux).
#![cfg(all(feature = "oracle", target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::print_stderr, reason = "says what was compared or skipped")]

use schedlab_bpf::btf::{Btf, Kind, TypeId};
use schedlab_bpf::insn::{Insn, op};
use schedlab_bpf::link::{Image, KconfigValue, KernelModel, Settings, TRAP_BASE, link};
use schedlab_bpf::memory::ARENA_BASE;
use schedlab_bpf::object::{ExternKind, Object};
use schedlab_bpf::{FuncId, GuestAddr, Memory};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::sync::Mutex;

/// What the emulated kernel saw.
#[derive(Default)]
struct Seen {
    /// By descriptor: name of a map.
    maps: BTreeMap<i32, String>,
    programs: Vec<(String, Vec<Insn>)>,
    /// File that stands for /sys/kernel/btf/vmlinux.
    btf: Option<CString>,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);
/// libbpf is used by one test at a time.
static TURN: Mutex<()> = Mutex::new(());

const VMLINUX: &[u8] = b"/sys/kernel/btf/vmlinux";
const EPERM: c_long = -1;
const EINVAL: c_long = -22;

/// The kernel proper.
fn real_syscall(number: c_long, a: [c_long; 6]) -> c_long {
    let out: c_long;
    // SAFETY: this is what the C library's own syscall(2) does; the caller answers for the arguments.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => out, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _);
    }
    out
}

fn with_errno(result: c_long) -> c_long {
    if (-4095..0).contains(&result) {
        // SAFETY: the C library's errno is this thread's own variable.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result
}

/// Stands in front of the C library's `syscall`.
#[unsafe(no_mangle)]
extern "C" fn syscall(n: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    if n == libc::SYS_bpf {
        // SAFETY: libbpf passes a command, an attribute block and its size.
        let attr = unsafe { std::slice::from_raw_parts(b as *const u8, c as usize) };
        return with_errno(emulate(a, attr));
    }
    if n == libc::SYS_dup3 {
        // libbpf puts a map under the descriptor that its instructions already hold.
        let mut seen = SEEN.lock().expect("not poisoned");
        if let Some(seen) = seen.as_mut()
            && let Some(name) = seen.maps.get(&(a as i32)).cloned()
        {
            seen.maps.insert(b as i32, name);
        }
    }
    with_errno(real_syscall(n, [a, b, c, d, e, f]))
}

/// Whether this is the path of the kernel's types, and what stands for it.
fn redirect(path: *const c_char) -> *const c_char {
    // SAFETY: the C library's contract: a path is a C string.
    let text = unsafe { std::ffi::CStr::from_ptr(path) };
    if text.to_bytes() != VMLINUX {
        return path;
    }
    let seen = SEEN.lock().expect("not poisoned");
    // The string lives in a static for as long as libbpf works.
    seen.as_ref().and_then(|s| s.btf.as_ref()).map_or(path, |p| p.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    let path = redirect(path) as c_long;
    let at = [c_long::from(libc::AT_FDCWD), path, c_long::from(flags), c_long::from(mode), 0, 0];
    with_errno(real_syscall(libc::SYS_openat, at)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn faccessat(dir: c_int, path: *const c_char, mode: c_int, _flags: c_int) -> c_int {
    let path = redirect(path) as c_long;
    let at = [c_long::from(dir), path, c_long::from(mode), 0, 0, 0];
    with_errno(real_syscall(libc::SYS_faccessat, at)) as c_int
}

fn word(attr: &[u8], at: usize) -> u32 {
    attr.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("4 bytes")))
}

fn long(attr: &[u8], at: usize) -> u64 {
    u64::from(word(attr, at)) | u64::from(word(attr, at + 4)) << 32
}

fn name(attr: &[u8], at: usize) -> String {
    let bytes = attr.get(at..at + 16).unwrap_or(&[]);
    String::from_utf8_lossy(bytes.split(|&b| b == 0).next().unwrap_or(&[])).into_owned()
}

/// A descriptor that can be mapped, of this many bytes.
fn descriptor(bytes: u64) -> c_long {
    let fd = real_syscall(libc::SYS_memfd_create, [c"oracle".as_ptr() as c_long, 0, 0, 0, 0, 0]);
    if fd >= 0 && bytes > 0 {
        real_syscall(libc::SYS_ftruncate, [fd, bytes as c_long, 0, 0, 0, 0]);
    }
    fd
}

/// bpf(2): maps, types and programs are accepted and remembered; every feature seems to be there.
fn emulate(command: c_long, attr: &[u8]) -> c_long {
    const MAP_CREATE: c_long = 0;
    const PROG_LOAD: c_long = 5;
    const BTF_LOAD: c_long = 18;
    const ACCEPTED: [c_long; 5] = [1, 2, 22, 26, 35];
    match command {
        MAP_CREATE => {
            let (kind, value, entries) = (word(attr, 0), u64::from(word(attr, 8)), u64::from(word(attr, 12)));
            let each = if kind == 33 { 4096 } else { value.next_multiple_of(8) };
            let fd = descriptor((each * entries).next_multiple_of(4096));
            let mut seen = SEEN.lock().expect("not poisoned");
            if let Some(seen) = seen.as_mut() {
                seen.maps.insert(fd as i32, name(attr, 28));
            }
            fd
        }
        PROG_LOAD => {
            // SAFETY: the attribute holds the address and number of the instructions.
            let bytes =
                unsafe { std::slice::from_raw_parts(long(attr, 8) as *const u8, word(attr, 4) as usize * 8) };
            let insns = Insn::all_from_bytes(bytes).expect("whole slots");
            // The probe for large offsets into maps: a new kernel refuses it with this message.
            let text = c"invalid access to map value pointer".to_bytes_with_nul();
            if name(attr, 48) == "global_reloc" {
                if word(attr, 28) as usize >= text.len() {
                    // SAFETY: the attribute holds the address and size of the log buffer.
                    unsafe {
                        std::ptr::copy_nonoverlapping(text.as_ptr(), long(attr, 32) as *mut u8, text.len())
                    };
                }
                return EINVAL;
            }
            let mut seen = SEEN.lock().expect("not poisoned");
            if let Some(seen) = seen.as_mut() {
                seen.programs.push((name(attr, 48), insns));
            }
            descriptor(0)
        }
        BTF_LOAD => descriptor(0),
        c if ACCEPTED.contains(&c) => 0,
        36 => EPERM,
        _ => EINVAL,
    }
}

/// Loads with libbpf; what the emulated kernel saw, or nothing if libbpf refused the object.
fn load_with_libbpf(bytes: &[u8], btf: &CString, kconfig: &str, resize: bool) -> Option<Seen> {
    *SEEN.lock().expect("not poisoned") = Some(Seen { btf: Some(btf.clone()), ..Seen::default() });
    let kconfig = CString::new(kconfig).expect("no zero");
    let opts = libbpf_sys::bpf_object_open_opts {
        sz: size_of::<libbpf_sys::bpf_object_open_opts>() as libbpf_sys::size_t,
        object_name: c"object".as_ptr(),
        kconfig: kconfig.as_ptr(),
        ..Default::default()
    };
    // SAFETY: buffers outlive the calls; the object is closed once and not used after.
    let done = unsafe {
        let object =
            libbpf_sys::bpf_object__open_mem(bytes.as_ptr().cast::<c_void>(), bytes.len() as _, &opts);
        if object.is_null() {
            return None;
        }
        let mut map = libbpf_sys::bpf_object__next_map(object, std::ptr::null());
        while resize && !map.is_null() {
            if libbpf_sys::bpf_map__max_entries(map) == 0 && libbpf_sys::bpf_map__type(map) == 2 {
                libbpf_sys::bpf_map__set_max_entries(map, 4);
            }
            map = libbpf_sys::bpf_object__next_map(object, map);
        }
        let done = libbpf_sys::bpf_object__load(object);
        libbpf_sys::bpf_object__close(object);
        done
    };
    let seen = SEEN.lock().expect("not poisoned").take();
    seen.filter(|_| done == 0)
}

/// Both sides of one object.
struct Pair<'a> {
    object: &'a Object,
    image: &'a Image,
    kernel: &'a KernelModel,
    seen: &'a Seen,
}

impl Pair<'_> {
    /// Compares one program with everything that it calls; the number of slots that were equal.
    fn program(&self, func: FuncId, theirs: &[Insn]) -> Result<usize, String> {
        let mut queue = vec![(func, 0usize)];
        let mut seen = BTreeMap::from([(func, 0usize)]);
        let mut equal = 0;
        while let Some((func, start)) = queue.pop() {
            let ours = &self.image.functions[func.0 as usize];
            let mut slot = 0;
            while slot < ours.insns.len() {
                let a = ours.insns[slot];
                let Some(&b) = theirs.get(start + slot) else {
                    return Err(format!("{}: libbpf's program ends at slot {slot}", ours.name));
                };
                let second = ours.insns.get(slot + 1).zip(theirs.get(start + slot + 1));
                let callee = if a.is_ld_imm64() {
                    let (c, d) = second.ok_or("a constant is cut")?;
                    self.constant(a, *c, b, *d, start + slot)
                } else {
                    self.single(a, b, start + slot)
                };
                let callee = callee
                    .map_err(|e| format!("{} slot {slot}: ours {a:?}, libbpf's {b:?}: {e}", ours.name))?;
                if let Some((id, at)) = callee {
                    match seen.insert(id, at) {
                        None => queue.push((id, at)),
                        Some(old) if old != at => {
                            return Err(format!("{}: two places for one function", ours.name));
                        }
                        _ => {}
                    }
                }
                slot += if a.is_ld_imm64() { 2 } else { 1 };
                equal += if a.is_ld_imm64() { 2 } else { 1 };
            }
        }
        Ok(equal)
    }

    /// One slot; a local call says which function is expected where.
    fn single(&self, a: Insn, b: Insn, at: usize) -> Result<Option<(FuncId, usize)>, String> {
        if a.code == op::CALL_K && a.src == op::CALL_HELPER && a.imm as u32 >= TRAP_BASE {
            let reason = &self.image.runtime.traps[(a.imm as u32 - TRAP_BASE) as usize];
            // 0xbad2310: a CO-RE record without an answer; 2002...: a kernel function that is not there.
            let poisoned = b.code == op::CALL_K && (b.imm == 0x0bad_2310 || b.imm / 1_000_000 == 2002);
            let pruned = reason.contains("rule out");
            return if poisoned || pruned { Ok(None) } else { Err(format!("only ours is a trap: {reason}")) };
        }
        if a.code == op::CALL_K && a.src == op::CALL_LOCAL && b.src == op::CALL_LOCAL && b.code == a.code {
            let target = at as i64 + 1 + i64::from(b.imm);
            return Ok(Some((FuncId(a.imm as u32), target as usize)));
        }
        if a.code == op::CALL_K && a.src == op::CALL_KFUNC && b.src == op::CALL_KFUNC && b.code == a.code {
            let ours = &self.image.kfuncs[a.imm as usize].name;
            let theirs = self.kernel.btf.name(TypeId(b.imm as u32));
            return if ours == theirs { Ok(None) } else { Err(format!("{ours} and {theirs}")) };
        }
        if a == b { Ok(None) } else { Err("not equal".into()) }
    }

    /// A 64-bit constant: what ours points to must be what libbpf's names.
    fn constant(
        &self,
        a: Insn,
        c: Insn,
        b: Insn,
        d: Insn,
        at: usize,
    ) -> Result<Option<(FuncId, usize)>, String> {
        if b.code != a.code || b.dst != a.dst {
            return Err("another instruction".into());
        }
        let value = u64::from(a.imm as u32) | u64::from(c.imm as u32) << 32;
        let theirs = u64::from(b.imm as u32) | u64::from(d.imm as u32) << 32;
        let maps = &self.image.runtime.maps;
        let map = self.seen.maps.get(&b.imm);
        match b.src {
            0 if a.src == 0 => {
                (value == theirs).then_some(None).ok_or_else(|| format!("{value:#x} and {theirs:#x}"))
            }
            1 => {
                let ours = maps.by_handle(value).and_then(|id| maps.get(id)).map(|m| m.name());
                let same = ours.zip(map).is_some_and(|(o, t)| o.get(..15).unwrap_or(o) == t);
                if same { Ok(None) } else { Err(format!("maps {ours:?} and {map:?}")) }
            }
            2 => self.data(value, map.ok_or("no such map")?, d.imm as u32).map(|()| None),
            3 => {
                let name = self.kernel.btf.name(TypeId(b.imm as u32));
                let known = self.kernel.ksyms.get(name).is_some_and(|addr| addr.0 == value);
                let kfunc = self.image.kfuncs.get(value as u32 as usize).is_some_and(|k| k.name == name);
                if known || kfunc { Ok(None) } else { Err(format!("{value:#x} for {name}")) }
            }
            4 if a.src == op::PSEUDO_FUNC => {
                Ok(Some((FuncId(a.imm as u32), (at as i64 + 1 + i64::from(b.imm)) as usize)))
            }
            _ => Err("another kind of constant".into()),
        }
    }

    /// An address in a data section, which libbpf names `object.section`, cut to 15 characters.
    fn data(&self, value: u64, map: &str, offset: u32) -> Result<(), String> {
        let maps = &self.image.runtime.maps;
        let arena = maps.iter().find(|(_, m)| m.kind() == schedlab_bpf::object::MapType::ARENA);
        if arena.is_some_and(|(_, m)| m.name().get(..15).unwrap_or(m.name()) == map) {
            let ours = value.wrapping_sub(ARENA_BASE);
            return if ours == u64::from(offset) {
                Ok(())
            } else {
                Err(format!("arena {ours:#x} and {offset:#x}"))
            };
        }
        let suffix = &map[map.find('.').unwrap_or(0)..];
        for (id, m) in maps.iter().filter(|(_, m)| m.name().starts_with(suffix) && m.name().starts_with('.'))
        {
            let Some(base) = maps.element(id, 0, 0) else { continue };
            let distance = value.wrapping_sub(base.0);
            // Values in .kconfig are ours to order.
            if distance == u64::from(offset) || (suffix == ".kconfig" && distance < u64::from(m.value_size()))
            {
                return Ok(());
            }
        }
        Err(format!("{value:#x} is not {offset} bytes into {map}"))
    }
}

/// Compares one object; slots compared, or why there is nothing to compare.
fn compare(
    file: &str,
    bytes: &[u8],
    kernel: &KernelModel,
    btf: &CString,
    kconfig: &str,
) -> Result<usize, String> {
    let object = Object::parse(file, bytes).map_err(|e| e.to_string())?;
    let mut kernel = kernel.clone();
    for ext in object.externs().iter().filter(|e| e.kind == ExternKind::Ksym && e.ty.is_some()) {
        if kernel.btf.find(&ext.name, |k| matches!(k, Kind::Var(..))).is_some() {
            kernel.ksyms.insert(ext.name.clone(), GuestAddr(0x5000 + kernel.ksyms.len() as u64));
        }
    }
    let mut settings = Settings::new();
    let zero: Vec<_> = object.maps().iter().filter(|m| m.max_entries == 0 && m.map_type.0 == 2).collect();
    for map in &zero {
        settings.resize_map(&map.name, 4);
    }
    let mut mem = Memory::new().map_err(|e| e.to_string())?;
    let ours = link(&object, &kernel, &settings, &mut mem);
    let theirs = load_with_libbpf(bytes, btf, kconfig, !zero.is_empty());
    let (image, seen) = match (ours, theirs) {
        (Ok(image), Some(seen)) => (image, seen),
        (Ok(_), None) => return Err(format!("{file}: only libbpf refuses it")),
        (Err(error), Some(_)) => return Err(format!("only ours refuses it: {error}")),
        (Err(error), None) => {
            eprintln!("{file}: refused by both: {error}");
            return Ok(0);
        }
    };
    let pair = Pair { object: &object, image: &image, kernel: &kernel, seen: &seen };
    let mut total = 0;
    for program in &image.programs {
        let short = program.name.get(..15).unwrap_or(&program.name);
        let candidates = seen.programs.iter().filter(|(n, _)| n == short);
        let mut errors = Vec::new();
        let found = candidates.map(|(_, insns)| pair.program(program.func, insns)).find_map(|r| match r {
            Ok(slots) => Some(slots),
            Err(error) => {
                errors.push(error);
                None
            }
        });
        total += found.ok_or_else(|| format!("{file}: program {}: {errors:?}", program.name))?;
    }
    assert!(!pair.object.programs().is_empty(), "{file} has programs");
    Ok(total)
}

fn quiet() {
    // SAFETY: a null callback switches messages off.
    unsafe { libbpf_sys::libbpf_set_print(None) };
}

#[test]
fn our_objects_against_the_small_kernel() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    quiet();
    let kernel = crate::built::kernel();
    let path = format!("{}/oracle.{}.btf", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::write(&path, crate::built::kernel_for_libbpf().to_bytes()).expect("writes");
    let kernel = KernelModel { btf: crate::built::kernel_for_libbpf(), ..kernel };
    let btf = CString::new(path.clone()).expect("no zero");
    for name in ["core", "links", "maps"] {
        let Some(bytes) = crate::built::compile(name) else { return };
        let done = compare(name, &bytes, &kernel, &btf, "CONFIG_HZ=250\nCONFIG_SMP=y\n");
        let slots = done.unwrap_or_else(|e| panic!("{e}"));
        assert!(slots > 50, "{name}: {slots} slots compared");
        eprintln!("{name}: {slots} slots equal");
    }
    let _ = std::fs::remove_file(path);
}

#[test]
fn objects_named_by_the_environment() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (Ok(dir), Ok(btf)) = (std::env::var("SCHEDLAB_ORACLE_OBJECTS"), std::env::var("SCHEDLAB_ORACLE_BTF"))
    else {
        eprintln!("skipped: SCHEDLAB_ORACLE_OBJECTS and SCHEDLAB_ORACLE_BTF are not set");
        return;
    };
    quiet();
    let types = Btf::parse(&std::fs::read(&btf).expect("the BTF file")).expect("BTF");
    let functions = types.iter().filter(|(_, t)| matches!(t.kind, Kind::Func(..)));
    let kernel = KernelModel {
        kfuncs: functions.map(|(id, _)| types.name(id).to_string()).collect(),
        kconfig: [("CONFIG_HZ".to_string(), KconfigValue::Number(250))].into(),
        nr_cpus: 4,
        btf: types.clone(),
        ..KernelModel::default()
    };
    let btf = CString::new(btf).expect("no zero");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("the directory").map(|e| e.expect("entry").path()).collect();
    files.sort();
    let mut failures = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).expect("readable");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        match compare(&name, &bytes, &kernel, &btf, "CONFIG_HZ=250\n") {
            Ok(slots) => eprintln!("{name}: {slots} slots equal"),
            Err(error) => failures.push(error),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
