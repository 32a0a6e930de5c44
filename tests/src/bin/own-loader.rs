//! A scheduler's own loader, as small as one can be, for `exec:` in tests: `own-loader OBJECT [MANNER]`.
//!
//! It does what loaders do with `tests/objects/loaded.bpf.c`: writes a constant, sizes and fills a map, runs a program, attaches the
//! scheduler and takes a turn every 100 ms. A manner makes it a bad one.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program says what it does")]

use libbpf_sys as bpf;
use std::ffi::{CStr, CString, c_void};
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// What stands in the object's constants and programs' contexts.
const BONUS: u64 = 41;
const GIVEN: u64 = 7;
const WEIGHT: u64 = 300;

/// What the program `setup` takes.
#[repr(C)]
struct SetupArgs {
    given: u64,
    taken: u64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let object = arguments.next().expect("own-loader OBJECT [MANNER]");
    let mut each_turn: fn(u64) = |_| {};
    match arguments.next().as_deref() {
        None => {}
        Some("polls") => {
            poll_clocks(0);
            each_turn = poll_clocks;
        }
        Some("moves") => {
            move_to_another_cpu(0);
            each_turn = move_to_another_cpu;
        }
        Some("leaves") => each_turn = leave_in_third_turn,
        Some("stuck") => each_turn = spin_in_third_turn,
        Some("floods") => each_turn = flood,
        Some("groups") => each_turn = look_at_groups,
        Some("watches") => {
            watch_groups();
            each_turn = read_reports;
        }
        Some("stubborn") => ignore_requests(),
        Some("kinds") => kinds(),
        Some("exits") => {
            eprintln!("own-loader: not today");
            std::process::exit(3);
        }
        Some("late") => std::thread::sleep(Duration::from_secs(15)),
        Some("sleeps") => std::thread::sleep(Duration::from_secs(1_000_000)),
        Some("waits") => drop(std::sync::mpsc::channel::<()>().1.recv_timeout(Duration::MAX)),
        Some("spins") => loop {
            std::hint::spin_loop();
        },
        Some("deaf") => spin_deaf(),
        Some("crowd") => spin_among_threads(true),
        Some("joins") => spin_among_threads(false),
        Some("aborts") => {
            let waits = || std::thread::sleep(Duration::from_secs(1_000_000));
            (0..3).for_each(|_| drop(std::thread::spawn(waits)));
            std::thread::sleep(Duration::from_millis(1));
            std::process::abort();
        }
        Some("bombs") => bomb(),
        Some("closes") => close_all(),
        Some("hostile") => misbehave(),
        Some("greedy") => hoard(),
        #[cfg(target_arch = "x86_64")]
        Some("narrow") => call_as_32_bits(),
        Some("wild") => ask_wildly(),
        Some(other) => panic!("no manner {other}"),
    }
    // SAFETY: libbpf's functions get what it has given, and buffers of the sizes that the object has.
    unsafe { load(&CString::new(object).expect("a path"), each_turn) };
}

/// Loads, attaches and stays.
unsafe fn load(path: &CStr, each_turn: fn(u64)) {
    // SAFETY: as the caller says.
    unsafe {
        let object = bpf::bpf_object__open_file(path.as_ptr(), null());
        assert!(!object.is_null(), "cannot open the object");
        let map = |name: &CStr| bpf::bpf_object__find_map_by_name(object, name.as_ptr());
        let mut size = 0;
        let constants = bpf::bpf_map__initial_value(map(c".rodata"), &raw mut size).cast::<u64>();
        // `bonus`, and `loader_pid` behind it.
        constants.write(BONUS);
        constants.add(1).cast::<u32>().write(std::process::id());
        assert_eq!(bpf::bpf_map__set_max_entries(map(c"weights"), 8), 0);
        let switches = bpf::bpf_object__find_program_by_name(object, c"count_switches".as_ptr());
        assert_eq!(bpf::bpf_program__set_autoload(switches, true), 0);
        assert_eq!(bpf::bpf_object__load(object), 0, "cannot load the object");
        assert!(!bpf::bpf_program__attach(switches).is_null(), "cannot attach the program");
        let weights = bpf::bpf_map__fd(map(c"weights"));
        let (key, value) = (2u32, WEIGHT);
        assert_eq!(update(weights, &key, &value), 0);
        assert_eq!(run_setup(object), BONUS + GIVEN);
        let link = bpf::bpf_map__attach_struct_ops(map(c"loaded_ops"));
        assert!(!link.is_null(), "cannot attach the scheduler");
        println!("own-loader: attached");
        stay(map(c".data"), map(c"ring"), map(c"requests"), weights, each_turn);
    }
}

unsafe fn update(map: i32, key: &u32, value: &u64) -> i32 {
    let (key, value) = (std::ptr::from_ref(key), std::ptr::from_ref(value));
    // SAFETY: the map's keys have 4 bytes and its values 8.
    unsafe { bpf::bpf_map_update_elem(map, key.cast(), value.cast(), 0) }
}

unsafe fn run_setup(object: *mut bpf::bpf_object) -> u64 {
    // SAFETY: zeros are the options' defaults; the context lives while the program runs.
    unsafe {
        let program = bpf::bpf_object__find_program_by_name(object, c"setup".as_ptr());
        let mut args = SetupArgs { given: GIVEN, taken: 0 };
        let mut options: bpf::bpf_test_run_opts = std::mem::zeroed();
        options.sz = size_of::<bpf::bpf_test_run_opts>() as u64;
        options.ctx_in = (&raw mut args).cast();
        options.ctx_size_in = size_of::<SetupArgs>() as u32;
        assert_eq!(bpf::bpf_prog_test_run_opts(bpf::bpf_program__fd(program), &raw mut options), 0);
        assert_eq!(options.retval, 0);
        args.taken
    }
}

/// What was read of the ring buffer: how many records, and how old the youngest and the oldest was, by this program's clock.
struct Read {
    records: u64,
    ages: [i64; 2],
}

unsafe extern "C" fn count(read: *mut c_void, record: *mut c_void, _size: bpf::size_t) -> i32 {
    // SAFETY: it is what the buffer was made with, and a record is the time at which it was sent.
    let (read, sent) = unsafe { (&mut *read.cast::<Read>(), record.cast::<u64>().read()) };
    let age = monotonic() as i64 - sent as i64;
    read.records += 1;
    read.ages = [read.ages[0].min(age), read.ages[1].max(age)];
    0
}

/// The clock of `bpf_ktime_get_ns()`, in nanoseconds.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Every 100 ms: reads the records of the ring buffer, and tells the programs by a variable, a map and a user ring buffer how many
/// turns there were. A record that it takes back is not for them. Then it does what its manner has it do in each turn.
unsafe fn stay(
    data: *mut bpf::bpf_map,
    ring: *mut bpf::bpf_map,
    requests: *mut bpf::bpf_map,
    weights: i32,
    each_turn: fn(u64),
) -> ! {
    // SAFETY: the only variable of the section is `turns_told`, as libbpf maps it.
    unsafe {
        let mut size = 0;
        let told = bpf::bpf_map__initial_value(data, &raw mut size).cast::<u64>();
        let mut read = Read { records: 0, ages: [i64::MAX, i64::MIN] };
        let buffer =
            bpf::ring_buffer__new(bpf::bpf_map__fd(ring), Some(count), (&raw mut read).cast(), null_mut());
        assert!(!buffer.is_null(), "cannot read the ring buffer");
        let out = bpf::user_ring_buffer__new(bpf::bpf_map__fd(requests), null());
        assert!(!out.is_null(), "cannot write the user ring buffer");
        let begin = Instant::now();
        for turn in 1u64.. {
            std::thread::sleep(Duration::from_millis(100));
            bpf::ring_buffer__poll(buffer, 0);
            told.write_volatile(turn);
            let (key, value) = (2u32, WEIGHT + turn);
            assert_eq!(update(weights, &key, &value), 0);
            for (request, is_meant) in [(turn, true), (u64::MAX, false)] {
                let record = bpf::user_ring_buffer__reserve(out, 8);
                assert!(!record.is_null(), "no room for request {turn}");
                record.cast::<u64>().write(request);
                if is_meant {
                    bpf::user_ring_buffer__submit(out, record);
                } else {
                    bpf::user_ring_buffer__discard(out, record);
                }
            }
            let (elapsed, Read { records, ages: [youngest, oldest] }) = (begin.elapsed(), &read);
            println!(
                "own-loader: turn {turn} after {elapsed:?}, {records} records of {youngest} to {oldest} ns"
            );
            each_turn(turn);
        }
    }
    unreachable!("turns do not end")
}

/// Waits for both clocks, that of the kernel and the time stamp counter, by looking at them again and again.
fn poll_clocks(turn: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3) {}
    // SAFETY: the instruction only writes registers.
    let counter = || unsafe { std::arch::x86_64::_rdtsc() };
    let begin = counter();
    while counter() - begin < 3_000_000 {}
    println!("own-loader: polled in turn {turn}");
}

/// Ends as if all were well.
fn leave_in_third_turn(turn: u64) {
    if turn == 3 {
        std::process::exit(0);
    }
}

/// Takes CPU 1 alone in even turns and CPU 0 in odd ones, and says where it is then. The kernel's answer lies far below the stack that
/// it has used so far.
fn move_to_another_cpu(turn: u64) {
    // SAFETY: the mask is ours; nothing else lies below the stack's end, and the kernel extends the stack.
    unsafe {
        let mut mask: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(1 - (turn % 2) as usize, &mut mask);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&mask), &raw const mask), 0);
        let below = (&raw mut mask).cast::<u8>().sub((turn as usize + 1) << 17).cast();
        let told = libc::sched_getaffinity(0, size_of_val(&mask), below);
        let is_there = told == 0 && libc::CPU_EQUAL(&*below, &mask);
        println!("own-loader: turn {turn} on CPU {}, {is_there}", libc::sched_getcpu());
    }
}

/// Reads the files of the group `g1`, asks for its number in two ways, and tries to change it.
fn look_at_groups(turn: u64) {
    const GROUP: &str = "/sys/fs/cgroup/g1";
    if turn != 3 {
        return;
    }
    let read = |file: &str| std::fs::read_to_string(format!("{GROUP}/{file}")).unwrap_or_default();
    let (weight, quota, tasks) = (read("cpu.weight"), read("cpu.max"), read("cgroup.procs").lines().count());
    println!("own-loader: {} and {}, {tasks} tasks", weight.trim(), quota.trim());
    let used = read("cpu.stat").lines().next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    println!("own-loader: it has run: {}", used.unwrap_or(0) > 1_000);
    let number = std::fs::metadata(GROUP).map_or(0, |data| std::os::unix::fs::MetadataExt::ino(&data));
    let (mut handle, mut mount) = ([8u32, 0, 0, 0], 0i32);
    let path = CString::new(GROUP).expect("a path");
    // SAFETY: the handle has room for 8 bytes behind its head, as it says.
    let told = unsafe {
        let (handle, mount) = (handle.as_mut_ptr(), &raw mut mount);
        libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, path.as_ptr(), handle, mount, 0)
    };
    println!("own-loader: group {number}, by its handle {told} {} {}", handle[1], handle[2]);
    let refused = |done: std::io::Result<()>| done.map_err(|error| error.kind());
    let changed = refused(std::fs::write(format!("{GROUP}/cpu.weight"), "5"));
    println!("own-loader: {changed:?} {:?}", refused(std::fs::create_dir(format!("{GROUP}/mine"))));
}

/// The descriptor of [`watch_groups`].
static WATCHES: AtomicI32 = AtomicI32::new(-1);

/// Watches the root of the groups, in which no group is yet.
fn watch_groups() {
    let wanted = libc::IN_CREATE | libc::IN_DELETE | libc::IN_ONLYDIR;
    // SAFETY: the path ends with a zero byte.
    let number = unsafe {
        let watch = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        WATCHES.store(watch, Ordering::Relaxed);
        libc::inotify_add_watch(watch, c"/sys/fs/cgroup".as_ptr(), wanted)
    };
    println!("own-loader: watch {number}");
}

/// Prints what the watch has reported since the last turn.
fn read_reports(turn: u64) {
    let mut bytes = [0u8; 4096];
    loop {
        // SAFETY: the buffer is as large as it says.
        let count =
            unsafe { libc::read(WATCHES.load(Ordering::Relaxed), bytes.as_mut_ptr().cast(), bytes.len()) };
        let Some(mut rest) = usize::try_from(count).ok().map(|count| &bytes[..count]) else { return };
        while rest.len() >= 16 {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
            let (mask, length) = (word(4), word(12) as usize);
            let name = String::from_utf8_lossy(&rest[16..16 + length]);
            println!("own-loader: turn {turn}: {:#x} {}", mask, name.trim_end_matches('\0'));
            rest = &rest[16 + length..];
        }
    }
}

/// Computes without end from the third turn on.
fn spin_in_third_turn(turn: u64) {
    if turn == 3 {
        loop {
            std::hint::spin_loop();
        }
    }
}

/// Requests to end (SIGINT, SIGTERM) are none for it.
fn ignore_requests() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: numbers only.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Writes 16 MiB in each turn.
fn flood(turn: u64) {
    let lines = format!("{:>63}\n", format!("turn {turn}")).repeat(1 << 10);
    for _ in 0..256 {
        std::io::stdout().write_all(lines.as_bytes()).expect("its output takes all");
    }
}

/// Kinds of use that loaders make of a kernel besides what [`load`] does: batches, pinned maps, numbers, timers, watches. Prints
/// the result of each.
fn kinds() {
    // SAFETY: buffers of the sizes that the calls take, which live until they return.
    unsafe {
        let made = bpf::bpf_map_create(bpf::BPF_MAP_TYPE_HASH, c"many".as_ptr(), 4, 8, 100, null());
        assert!(made >= 0);
        let (keys, values): (Vec<u32>, Vec<u64>) = (0..10u32).map(|key| (key, u64::from(key) * 3)).unzip();
        let mut count = 10u32;
        let put = bpf::bpf_map_update_batch(
            made,
            keys.as_ptr().cast(),
            values.as_ptr().cast(),
            &raw mut count,
            null(),
        );
        println!("batch in: {put} {count}");
        let (mut found, mut sum, mut cursor, mut calls) = ([0u32; 4], 0, 0u32, 0);
        let mut of_call = [0u64; 4];
        loop {
            let mut count = 4u32;
            let first = if calls == 0 { null_mut() } else { (&raw mut cursor).cast() };
            let error = bpf::bpf_map_lookup_batch(
                made,
                first,
                (&raw mut cursor).cast(),
                found.as_mut_ptr().cast(),
                of_call.as_mut_ptr().cast(),
                &raw mut count,
                null(),
            );
            sum += of_call[..count as usize].iter().sum::<u64>();
            calls += 1;
            if error != 0 {
                println!("batch out: {sum} in {calls} calls, errno {}", *libc::__errno_location());
                break;
            }
        }
        let path = c"/sys/fs/bpf/own-loader";
        let pinned = bpf::bpf_obj_pin(made, path.as_ptr());
        let again = bpf::bpf_obj_get(path.as_ptr());
        let (mut value, key) = (0u64, 9u32);
        let read = bpf::bpf_map_lookup_elem(again, (&raw const key).cast(), (&raw mut value).cast());
        println!(
            "pinned: {pinned} {read} {value} {}",
            std::fs::remove_file("/sys/fs/bpf/own-loader").is_ok()
        );
        let mut id = 0;
        let next = bpf::bpf_map_get_next_id(0, &raw mut id);
        println!("number: {next} {}", bpf::bpf_map_get_fd_by_id(id) >= 0);
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        let every = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let spec = libc::itimerspec { it_interval: every, it_value: every };
        libc::timerfd_settime(timer, 0, &raw const spec, null_mut());
        let begin = Instant::now();
        let mut expirations = 0u64;
        for _ in 0..2 {
            libc::read(timer, (&raw mut expirations).cast(), 8);
        }
        println!("timer: {expirations} after {} ms", begin.elapsed().as_millis());
        std::thread::sleep(Duration::from_millis(125));
        libc::read(timer, (&raw mut expirations).cast(), 8);
        println!("timer: {expirations} after {} ms", begin.elapsed().as_millis());
        let watch = libc::inotify_init1(libc::IN_NONBLOCK);
        let known =
            libc::inotify_add_watch(watch, c"/sys/devices/system/cpu/online".as_ptr(), libc::IN_MODIFY);
        let unknown = libc::inotify_add_watch(watch, c"/sys/nowhere".as_ptr(), libc::IN_MODIFY);
        println!("watch: {} {}", known > 0, unknown);
        // Prints what it can read about its own task and the kernel.
        let mut attributes = [0u32; 14];
        let done =
            libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), size_of_val(&attributes), 0);
        println!(
            "attributes: {done} {} {} {} {}",
            attributes[0], attributes[1], attributes[6], attributes[13]
        );
        let mut longer = [1u32; 16];
        let done = libc::syscall(libc::SYS_sched_getattr, 0, longer.as_mut_ptr(), size_of_val(&longer), 0);
        println!("longer: {done} {} {}", longer[0], longer[15]);
        println!("short: {}", libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), 8, 0));
        let most = [libc::SCHED_FIFO, 7, 9].map(|policy| libc::sched_get_priority_max(policy));
        println!("priorities: {most:?} {}", libc::sched_get_priority_min(libc::SCHED_RR));
        let mut span = libc::timespec { tv_sec: 1, tv_nsec: 1 };
        println!("interval: {} {}", libc::sched_rr_get_interval(0, &raw mut span), span.tv_nsec);
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let siblings = read("/sys/devices/system/cpu/cpu0/topology/core_siblings");
        println!("files: {siblings} {}", read("/sys/kernel/sched_ext/hotplug_seq"));
        // All but one of what a counter holds: the next expiry would have to wait for a reader.
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        let soon = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let every = libc::itimerspec { it_interval: soon, it_value: soon };
        libc::timerfd_settime(timer, 0, &raw const every, null_mut());
        let full = u64::MAX - 1;
        let written = libc::write(timer, (&raw const full).cast(), 8);
        println!("written to a timer: {written} {}", *libc::__errno_location());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Tries what a loader has no business with, and prints the result.
fn misbehave() {
    // SAFETY: calls on numbers and on texts that live until they return; a child that is made ends at once.
    unsafe {
        println!("read: {}", std::fs::read("/etc/shadow").is_ok());
        println!("write: {}", std::fs::write("/tmp/own-loader-was-here", "x").is_ok());
        let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
        println!("home: {}", std::fs::write(home + "/own-loader-was-here", "x").is_ok());
        println!("socket: {}", libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) >= 0);
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        println!("fork: {}", child > 0);
        println!("exec: {}", std::process::Command::new("/bin/true").status().is_ok());
        let size = 100 << 30;
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, shared, -1, 0);
        println!("memory: {}", memory != libc::MAP_FAILED);
        println!("kill: {}", libc::kill(libc::getppid(), libc::SIGTERM) == 0);
        println!("trace: {}", libc::ptrace(libc::PTRACE_ATTACH, libc::getppid(), 0, 0) == 0);
        println!("reboot: {}", libc::syscall(libc::SYS_reboot, 0, 0, 0, 0) == 0);
        // Harmless advice, which concerns other processes' pages too.
        let page =
            libc::mmap(null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        println!("advice: {}", libc::madvise(page, 4096, libc::MADV_MERGEABLE) == 0);
        println!("own advice is taken: {}", libc::madvise(page, 4096, libc::MADV_DONTNEED) == 0);
        // A pair of sockets, and a message to a place that there is not.
        let mut pair = [-1; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        let length = size_of::<libc::sockaddr_un>() as u32;
        let sent = libc::sendto(pair[0], c"x".as_ptr().cast(), 1, 0, (&raw const address).cast(), length);
        println!("address: {}", sent >= 0 || *libc::__errno_location() != libc::EPERM);
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_name, message.msg_namelen) = ((&raw mut address).cast(), length);
        let sent = libc::sendmsg(pair[0], &raw const message, 0);
        println!("message: {}", sent >= 0 || *libc::__errno_location() != libc::EPERM);
    }
}

/// Makes a folder by the system calls of 32 bits, which has the number that `getpid` has among those of 64.
#[cfg(target_arch = "x86_64")]
fn call_as_32_bits() -> ! {
    // SAFETY: the memory is new; the call reads its text and changes no other register than those named.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        let text = libc::mmap(null_mut(), 4096, protection, flags, -1, 0);
        assert_ne!(text, libc::MAP_FAILED);
        c"/tmp/own-loader-was-here".as_ptr().copy_to(text.cast(), 25);
        let mut done = 39i64;
        std::arch::asm!(
            "xchg {path}, rbx", "int 0x80", "xchg {path}, rbx",
            path = inout(reg) text => _, inout("rax") done, in("rcx") 0o700i64,
            out("rdi") _, out("rsi") _, out("rdx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
        println!("32 bits: {}", done == 0);
    }
    std::process::exit(3);
}

/// Has three threads, and computes without end: the first thread, or another one that the first waits for.
fn spin_among_threads(first: bool) -> ! {
    let spins = || loop {
        std::hint::spin_loop();
    };
    let others = [(); 3].map(|()| std::thread::spawn(spins));
    if first {
        spins();
    }
    others.into_iter().for_each(|thread| drop(thread.join()));
    unreachable!("threads do not end")
}

/// Makes children without end, which do the same.
fn bomb() -> ! {
    loop {
        // SAFETY: a child does what its parent does.
        unsafe { libc::fork() };
    }
}

/// Closes every descriptor that it has, its output among them, and starts again as daemons do.
fn close_all() {
    // SAFETY: numbers, and a text that lives until the calls return; what is lost is not used again.
    unsafe {
        libc::close_range(0, u32::MAX, 0);
        for _ in 0..3 {
            libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        }
    }
}

/// Computes without end with every signal blocked that can be.
fn spin_deaf() -> ! {
    // SAFETY: the set is ours; a signal that cannot be blocked is left out by the kernel.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, null_mut());
    }
    loop {
        std::hint::spin_loop();
    }
}

/// Asks for more than it may have of everything that the host keeps for it, and says how far it came.
fn hoard() {
    // SAFETY: calls on numbers and on memory that lives until they return.
    unsafe {
        println!("inherited: {}", libc::fcntl(9, libc::F_GETFL) >= 0);
        println!("above a link: {}", std::fs::read("/usr/lib/ssl/certs/../../passwd").is_ok());
        let own = libc::memfd_create(c"own".as_ptr(), 0);
        println!(
            "memory file: {}",
            libc::write(own, c"x".as_ptr().cast(), 1) == 1 || libc::ftruncate(own, 4096) == 0
        );
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(null_mut(), 4 << 30, libc::PROT_READ | libc::PROT_WRITE, shared, -1, 0);
        println!("shared memory: {}", memory != libc::MAP_FAILED);
        let stack = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN;
        let memory = libc::mmap(null_mut(), 4 << 30, libc::PROT_READ | libc::PROT_WRITE, stack, -1, 0);
        println!("stack memory: {}", memory != libc::MAP_FAILED);
        // However a descriptor is named again, it stays what it is.
        let filled = |what: &str, again: &dyn Fn(i32)| {
            let own = libc::memfd_create(c"own".as_ptr(), 0);
            again(own);
            println!("memory file after {what}: {}", libc::write(own, c"x".as_ptr().cast(), 1) == 1);
        };
        filled("dup2", &|own| _ = libc::dup2(own, own));
        filled("dup3", &|own| _ = libc::syscall(libc::SYS_dup3, own, own, 0));
        filled("a dup2 that fails", &|own| _ = libc::dup2(-1, own));
        filled("close_range", &|own| _ = libc::syscall(libc::SYS_close_range, own, own, 4));
        let hash = |key_size, value_size| {
            bpf::bpf_map_create(1, c"hoard".as_ptr(), key_size, value_size, 1 << 20, null())
        };
        println!("large keys: {}", hash(1 << 20, 8) >= 0);
        let (map, value) = (hash(4, 32 << 20), vec![1u8; 32 << 20]);
        let put = |key: &u32| {
            bpf::bpf_map_update_elem(map, std::ptr::from_ref(key).cast(), value.as_ptr().cast(), 0) == 0
        };
        println!("large values: {}", (0u32..32).filter(put).count());
        let maps = (0..20_000).map(|_| hash(4, 4)).take_while(|fd| *fd >= 0 && libc::close(*fd) == 0);
        println!("maps: {}", maps.count() < 10_000);
        let folders = (0..20_000).map(|number| std::fs::create_dir(format!("/tmp/{number}")));
        println!("folders: {}", folders.take_while(Result::is_ok).count() < 10_000);
        (0..1000).for_each(|number| drop(std::fs::write(format!("/file-{number}"), "x")));
    }
    std::process::exit(3);
}

/// Makes calls whose arguments lie at the end of the address space or are as large as they can be.
fn ask_wildly() {
    // SAFETY: the kernel checks what is an address; the time lives until its call returns.
    unsafe {
        let set = libc::epoll_create1(0);
        let map = bpf::bpf_map_create(1, c"wild".as_ptr(), 4, 4, 1, null());
        libc::syscall(libc::SYS_epoll_ctl, set, libc::EPOLL_CTL_ADD, map, -2i64);
        libc::syscall(libc::SYS_sched_setattr, 0, -2i64, 0);
        for command in 0..40 {
            for size in [0, 8, 72, -1i64] {
                libc::syscall(libc::SYS_bpf, command, -3i64, size);
            }
        }
        println!("no pages: {}", bpf::bpf_map_create(27, c"ring".as_ptr(), 0, 0, 0, null()) < 0);
        let longest = libc::timeval { tv_sec: i64::MAX, tv_usec: i64::MAX };
        libc::syscall(libc::SYS_select, 0, 0, 0, 0, &raw const longest);
    }
    std::process::exit(3);
}
