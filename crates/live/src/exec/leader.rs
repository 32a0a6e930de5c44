//! The process that starts a run's tasks, waits for its end, and collects what they did.
//!
//! It stands between the caller and the tasks so that whatever happens to either, no task is left:
//! it adopts orphans, dies with its caller, and takes the tasks' process group with it.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use schedlab_workload::{End, Scenario};

use super::channels::Objects;
use super::doing::{Doing, Failure};
use super::figures::KernelFigures;
use super::groups::GroupFiles;
use super::handles::Handles;
use super::hierarchy::Hierarchy;
use super::shared::{Shared, UNKNOWN};
use super::spin::SpinRate;
use super::system::{self, exit_now, now_ns};
use super::task::{Context, RunningTask};
use super::{ExecOptions, Window};

/// Stack of a task that is a thread. Chosen: programs need a few hundred bytes.
const STACK: usize = 64 << 10;

/// Process group that the handler below kills.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// Ends the tasks and then this process.
extern "C" fn end_all(_signal: libc::c_int) {
    let group = GROUP.load(SeqCst);
    // SAFETY: kill and _exit are safe in a signal handler.
    unsafe {
        if group > 0 {
            libc::kill(-group, libc::SIGKILL);
        }
        libc::_exit(2);
    }
}

/// A process of the run and the tasks in it.
#[derive(Clone)]
struct Process {
    pid: i32,
    /// The processes that it forks.
    children: Vec<usize>,
    /// One of the run's processes forks it, not the leader.
    has_parent: bool,
    tasks: Vec<usize>,
    running: bool,
}

/// Runs a scenario; the exit code says whether shared memory holds results (0) or a failure (1).
pub(super) fn lead(
    scenario: &Scenario,
    shared: &Shared,
    options: &ExecOptions,
    groups: &Hierarchy,
    window: Option<&dyn Window>,
) -> i32 {
    become_leader(&options.close);
    let entered = groups.enter().map_err(|e| Failure(Doing::Groups, e));
    let result = entered
        .and_then(|()| Objects::new(scenario).map_err(|e| Failure(Doing::Objects, e)))
        .and_then(|objects| {
            let reach = Reach { handles: &objects.handles, groups: &groups.files };
            conduct(scenario, shared, reach, options.spin_rate, window)
        });
    match result {
        Ok(()) if shared.header().failed.load(Acquire) == 0 => 0,
        Ok(()) => 1,
        Err(failure) => {
            let errno = failure.1.raw_os_error().unwrap_or(0);
            shared.fail(usize::MAX >> 32, failure.0 as u32, errno);
            1
        }
    }
}

fn become_leader(close: &[RawFd]) {
    // What keeps the scheduler loaded must be open in the caller alone.
    for &fd in close {
        // SAFETY: descriptors of the caller that this process does not use.
        unsafe { libc::close(fd) };
    }
    keep_maps_from_children();
    let handler: extern "C" fn(libc::c_int) = end_all;
    // SAFETY: plain system calls; the handler is safe for signals; sets are initialised by the calls.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::signal(libc::SIGTERM, handler as libc::sighandler_t);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        // System V objects of a namespace of our own are gone with its last process.
        libc::unshare(libc::CLONE_NEWIPC);
        let set = signal_set();
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// The leader looks into maps of BPF programs, its children do not. A fork copies the page table of each such mapping, and an exit
/// takes it down: with the ring of 1 MiB that a scheduler's lines go through, a fork took 140 us longer in the VM.
fn keep_maps_from_children() {
    // What loading has freed goes back, too.
    // SAFETY: looks at no memory that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (begin, length) in bpf_mappings(&maps) {
        // SAFETY: a mapping of this process, which stays as it is here.
        unsafe { libc::madvise(begin as *mut libc::c_void, length, libc::MADV_DONTFORK) };
    }
}

/// Address and length of the mapped BPF maps in a text of `/proc/PID/maps`.
fn bpf_mappings(maps: &str) -> impl Iterator<Item = (usize, usize)> {
    maps.lines().filter(|line| line.contains("anon_inode:bpf-map")).filter_map(|line| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        let [begin, end] = [begin, end].map(|address| usize::from_str_radix(address, 16).ok());
        Some((begin?, end?.checked_sub(begin?)?))
    })
}

/// The signals that the leader waits for: a child has ended, the caller wants an end.
fn signal_set() -> libc::sigset_t {
    // SAFETY: initialised by sigemptyset.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        set
    }
}

/// Ends all tasks when dropped.
struct TaskGroup {
    anchor: i32,
}

impl TaskGroup {
    /// A process group, held open by a process that only sleeps.
    fn new(shared: &Shared) -> Result<TaskGroup, Failure> {
        let anchor = fork().map_err(|e| Failure(Doing::Spawn, e))?;
        if anchor == 0 {
            // SAFETY: plain system calls.
            unsafe {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
        }
        // SAFETY: plain system call; the child does the same, whoever comes first.
        unsafe { libc::setpgid(anchor, anchor) };
        GROUP.store(anchor, SeqCst);
        shared.header().group.store(anchor.cast_unsigned(), Release);
        Ok(TaskGroup { anchor })
    }

    fn signal(&self, signal: i32) {
        // SAFETY: plain system call on a group of our own children.
        unsafe { libc::kill(-self.anchor, signal) };
    }
}

impl Drop for TaskGroup {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: plain system call; ends when there is no child left.
        while system::retry(|| unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } as isize).is_ok() {}
        GROUP.store(0, SeqCst);
    }
}

/// How tasks reach what is not in shared memory.
#[derive(Clone, Copy)]
struct Reach<'a> {
    handles: &'a Handles,
    groups: &'a GroupFiles,
}

fn conduct(
    scenario: &Scenario,
    shared: &Shared,
    reach: Reach<'_>,
    rate: Option<SpinRate>,
    window: Option<&dyn Window>,
) -> Result<(), Failure> {
    let rate = match rate {
        Some(rate) => rate,
        None => measure_apart(shared)?,
    };
    shared.header().spin_rate.store(rate.0, Relaxed);
    let context = Context {
        shared,
        programs: &scenario.programs,
        handles: reach.handles,
        changes: &scenario.changes,
        groups: reach.groups,
        spans: scenario.spans as usize,
        rate,
    };
    let foreground = scenario.tasks.iter().filter(|task| !task.background).count();
    shared.header().foreground.store(foreground as u32, Relaxed);
    shared.header().leader.store(std::process::id(), Relaxed);
    // The process that holds the group open is no task of the workload: its waits do not count.
    let group = TaskGroup::new(shared)?;
    if let Some(window) = window {
        window.follow(std::process::id());
    }
    let mut processes = spawn_all(scenario, context, &group)?;
    wait_until_ready(scenario, shared, &mut processes);
    for process in processes.iter_mut().filter(|process| process.has_parent) {
        process.pid = shared.slot(process.tasks[0]).pid.load(Relaxed).cast_signed();
    }
    become_punctual();
    reach.groups.begin(shared);
    let header = shared.header();
    let begin = now_ns();
    header.begin.store(begin, Relaxed);
    if let Some(window) = window {
        window.open(begin);
    }
    header.go.store(1, Release);
    system::futex_wake(&header.go, i32::MAX);
    wait_for_end(scenario.end, shared, &mut processes);
    header.end.store(now_ns(), Relaxed);
    if let Some(window) = window {
        window.close();
    }
    // Stopped tasks have their figures settled and change nothing any more.
    group.signal(libc::SIGSTOP);
    for process in processes.iter().filter(|p| p.running) {
        for &task in &process.tasks {
            collect(shared, process, task);
        }
    }
    reach.groups.end(shared);
    Ok(())
}

/// Measures the spin rate in a process of its own. Were it done here, the tasks would inherit from this process that it has
/// computed for 20 ms, which some schedulers count against them.
fn measure_apart(shared: &Shared) -> Result<SpinRate, Failure> {
    let pid = fork().map_err(|e| Failure(Doing::Spawn, e))?;
    if pid == 0 {
        shared.header().spin_rate.store(SpinRate::measure().0, Relaxed);
        exit_now(0);
    }
    // SAFETY: the child is ours; nothing is written.
    let reaped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    let rate = shared.header().spin_rate.load(Relaxed);
    if reaped == pid && rate > 0 {
        Ok(SpinRate(rate))
    } else {
        Err(Failure(Doing::Spawn, io::Error::last_os_error()))
    }
}

/// The end of a run is measured by this process: it runs before anything that is measured, real-time tasks too. Tasks
/// do not inherit that; without privilege it stays as it is.
fn become_punctual() {
    // SAFETY: asks for a number.
    let highest = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    let parameter = libc::sched_param { sched_priority: highest };
    // SAFETY: reads one sched_param.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    };
}

fn fork() -> io::Result<i32> {
    // SAFETY: this process has one thread; the child continues with a copy of everything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Starts the processes in the order of their first tasks. One with a parent among them is its parent's to start.
fn spawn_all(scenario: &Scenario, context: Context<'_>, group: &TaskGroup) -> Result<Vec<Process>, Failure> {
    let mut processes: Vec<Process> = Vec::new();
    let mut place: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
    for (number, task) in scenario.tasks.iter().enumerate() {
        let at = *place.entry(task.process.0).or_insert(processes.len());
        if at == processes.len() {
            processes.push(Process {
                pid: 0,
                children: Vec::new(),
                has_parent: false,
                tasks: Vec::new(),
                running: true,
            });
        }
        processes[at].tasks.push(number);
    }
    for (child, parent) in scenario.parents() {
        let [child, parent] = [child, parent].map(|task| place[&scenario.tasks[task].process.0]);
        processes[child].has_parent = true;
        processes[parent].children.push(child);
    }
    let all = processes.clone();
    for (at, process) in processes.iter_mut().enumerate().filter(|(_, process)| !process.has_parent) {
        process.pid =
            spawn(scenario, context, (&all, at), group.anchor).map_err(|e| Failure(Doing::Spawn, e))?;
    }
    Ok(processes)
}

/// Forks a process of the run into the process group.
fn spawn(
    scenario: &Scenario,
    context: Context<'_>,
    (all, at): (&[Process], usize),
    group: i32,
) -> io::Result<i32> {
    let pid = fork()?;
    if pid == 0 {
        run_process(scenario, context, (all, at), group);
    }
    // SAFETY: as in TaskGroup::new.
    unsafe { libc::setpgid(pid, group) };
    Ok(pid)
}

/// A process of the run, from fork to exit.
fn run_process(scenario: &Scenario, context: Context<'_>, (all, at): (&[Process], usize), group: i32) -> ! {
    let tasks = &all[at].tasks;
    // The children of the leader end with it; others outlive their parents, and end with their process group.
    let at_its_end = if all[at].has_parent { 0 } else { libc::SIGKILL };
    // SAFETY: plain system calls; the set is initialised.
    unsafe {
        libc::setpgid(0, group);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::prctl(libc::PR_SET_PDEATHSIG, at_its_end);
        let set = signal_set();
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
    system::prepare_signals();
    for &child in &all[at].children {
        if let Err(error) = spawn(scenario, context, (all, child), group) {
            context.shared.fail(all[child].tasks[0], Doing::Spawn as u32, error.raw_os_error().unwrap_or(0));
            exit_now(1);
        }
    }
    std::thread::scope(|scope| {
        for &number in &tasks[1..] {
            let started = std::thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, move || run_task(scenario, context, number));
            if let Err(error) = started {
                context.shared.fail(number, Doing::Spawn as u32, error.raw_os_error().unwrap_or(0));
                exit_now(1);
            }
        }
        run_task(scenario, context, tasks[0]);
    });
    exit_now(0)
}

fn run_task(scenario: &Scenario, context: Context<'_>, number: usize) {
    let spec = &scenario.tasks[number];
    let mut task = RunningTask::new(context, number, spec.program.index());
    if let Err(failure) = task.wait_at_gate(spec, scenario.child.reset_on_fork) {
        task.fail(&failure);
        exit_now(1);
    }
    task.background = spec.background;
    if task.run_and_record() != 0 {
        exit_now(1);
    }
}

/// Waits until all tasks are at the gate, or something fails.
fn wait_until_ready(scenario: &Scenario, shared: &Shared, processes: &mut [Process]) {
    let header = shared.header();
    while (header.ready.load(Acquire) as usize) < scenario.tasks.len() && !is_over(shared) {
        wait_for_signal(Some(Duration::from_millis(2)));
        reap(shared, processes);
    }
}

fn is_over(shared: &Shared) -> bool {
    shared.header().failed.load(Acquire) != 0 || shared.header().stop.load(Acquire) != 0
}

fn wait_for_end(end: End, shared: &Shared, processes: &mut [Process]) {
    let begin = shared.header().begin.load(Relaxed);
    let deadline = match end {
        End::AllExit | End::ForegroundExit => None,
        End::After(length) => Some(begin + length.0),
    };
    loop {
        reap(shared, processes);
        let foreground = shared.header().foreground.load(Acquire);
        let done = match end {
            End::ForegroundExit => foreground == 0,
            End::AllExit | End::After(_) => processes.iter().all(|process| !process.running),
        };
        if done || is_over(shared) {
            return;
        }
        let left = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now_ns())));
        if left == Some(Duration::ZERO) {
            return;
        }
        wait_for_signal(left);
    }
}

fn wait_for_signal(limit: Option<Duration>) {
    let set = signal_set();
    let time = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: reads the set and the time, or waits without limit; wants no information.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), time) };
}

/// Takes note of children that have ended; orphans of tasks are among them.
fn reap(shared: &Shared, processes: &mut [Process]) {
    loop {
        let mut status = 0;
        // SAFETY: writes the status.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            return;
        }
        let Some(process) = processes.iter_mut().find(|process| process.pid == pid) else { continue };
        process.running = false;
        if status != 0 {
            shared.fail(process.tasks[0], Doing::Crash as u32, 0);
        }
    }
}

/// Reads what the kernel knows of a task that has not ended.
fn collect(shared: &Shared, process: &Process, task: usize) {
    let slot = shared.slot(task);
    if slot.ended.load(Acquire) != 0 {
        return;
    }
    let tid = slot.tid.load(Relaxed);
    let figures = KernelFigures::read(&format!("/proc/{}/task/{tid}", process.pid));
    let exact = (process.tasks.len() == 1).then(|| system::process_cpu_ns(process.pid)).flatten();
    let used = exact.or(figures.cpu_ns).unwrap_or(0).saturating_sub(slot.before_ns.load(Relaxed));
    // The task has run on from the end until it was stopped, which is no part of the run.
    let header = shared.header();
    let long = header.end.load(Relaxed).saturating_sub(header.begin.load(Relaxed));
    slot.cpu_ns.store(used.min(long), Relaxed);
    slot.voluntary.store(figures.voluntary.unwrap_or(0), Relaxed);
    slot.involuntary.store(figures.involuntary.unwrap_or(0), Relaxed);
    slot.delay_ns.store(figures.delay_ns.unwrap_or(UNKNOWN), Relaxed);
    slot.migrations.store(figures.migrations.unwrap_or(UNKNOWN), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_bpf_maps_are_found_among_others() {
        let maps = "55d0a000-55d0c000 rw-p 00000000 00:00 0          [heap]\n\
                    7f6854c9a000-7f6854e9b000 r--s 00001000 00:13 39         anon_inode:bpf-map\n\
                    7f685506d000-7f685516e000 rw-p 00000000 00:00 0\n";
        let found: Vec<(usize, usize)> = bpf_mappings(maps).collect();
        assert_eq!(found, [(0x7f68_54c9_a000, 0x20_1000)]);
    }
}
