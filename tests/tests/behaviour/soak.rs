//! Up to a minute of everything at once, with the simulator's checkers on: no task is lost, and none
//! starves. `SCHEDLAB_SOAK_SECONDS` changes the length.

use schedlab_base::{CpuId, CpuMask, DurationNs, Machine};
use schedlab_scx::{BpfScheduler, LoadOptions, run};
use schedlab_sim::{Class, Config};
use schedlab_tests::{shipped, shipped_with_swap};
use schedlab_workload::{Attribute, Op, catalog};

use crate::behaviour::lab::{Lab, Load, forever, hog, hog_after, ms, us};

/// 60 hogs of mixed nice values, two pairs that pass a byte to and fro, tasks that sleep, and tasks that fork all
/// the time.
fn storm(length: DurationNs) -> Load {
    let mut load = Load::new(length);
    for number in 0..60 {
        load.add([0, 5, 10, 19, -5, 0][number % 6], hog());
    }
    for _ in 0..2 {
        let (there, back) = (load.pipe(), load.pipe());
        let send = |channel| Op::Send { channel, bytes: 1 };
        let recv = |channel| Op::Recv { channel, bytes: 1 };
        load.add(0, forever(&[send(there), recv(back), Op::Run(us(200))]));
        load.add(0, forever(&[recv(there), Op::Run(us(200)), send(back)]));
    }
    for sleep in [1, 7, 30, 100, 900] {
        load.add(0, forever(&[Op::Run(ms(1)), Op::Sleep(ms(sleep))]));
    }
    let child = load.program(crate::behaviour::lab::program(&[Op::Exec, Op::Run(ms(2))]));
    for _ in 0..2 {
        load.add(0, forever(&[Op::Fork { program: child }, Op::WaitChild, Op::Yield]));
    }
    load
}

/// No task waits for a CPU as long as the kernel's watchdog would bear (30 s), and every task runs.
fn check(scheduler: &'static str, profile: &str, seconds: u64) {
    let lab = Lab::new(scheduler);
    let lab = if profile.is_empty() { lab } else { lab.set("profile", profile) };
    soak(scheduler, profile, lab, seconds);
}

fn soak(scheduler: &str, profile: &str, lab: Lab, seconds: u64) {
    let seconds =
        std::env::var("SCHEDLAB_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(seconds);
    let lab = lab.cpus(2).hz(250).without_events();
    let seen = lab.run(storm(DurationNs::from_secs(seconds)));
    let longest = seen.result.summary.run_delay.quantile(1000).expect("somebody waited");
    assert!(longest < DurationNs::from_secs(25), "{scheduler} {profile}: somebody waited for {longest}");
    for task in &seen.result.tasks {
        assert!(task.cpu_time > DurationNs::ZERO, "{scheduler} {profile}: {task:?}");
    }
}

#[test]
fn vanilla_2_4() {
    check("vanilla", "2_4", 20);
}

#[test]
fn vanilla_tsss() {
    check("vanilla", "tsss", 20);
}

#[test]
fn hamq() {
    check("hamq", "", 20);
}

#[test]
fn libenzi() {
    check("libenzi", "", 20);
}

#[test]
fn o1_d1() {
    check("o1", "d1", 60);
}

#[test]
fn o1_rh8() {
    check("o1", "rh8", 60);
}

#[test]
fn o1_2_6_10() {
    check("o1", "2_6_10", 60);
}

#[test]
fn ule_5_2() {
    check("ule", "5_2", 60);
}

#[test]
fn ule_6_x() {
    check("ule", "6_x", 60);
}

#[test]
fn bsd4_5_x() {
    check("bsd4", "5_x", 60);
}

#[test]
fn bsd4_6_x() {
    check("bsd4", "6_x", 60);
}

#[test]
fn staircase() {
    check("staircase", "", 60);
}

#[test]
fn staircase_compute() {
    soak("staircase", "compute", Lab::new("staircase").set("compute", "true"), 60);
}

/// A task of the best priority that yields waits in the expired array. So many hogs that each has waited for too long
/// when its turn comes, and goes first, keep the active array from ever being empty. That task must be let go first as well.
#[test]
fn yielder_of_the_best_priority_runs_under_o1() {
    let yielder = forever(&[Op::Run(us(100)), Op::Yield]);
    let load = (0..80).fold(Load::new(ms(40_000)).task(-20, yielder), |load, _| load.task(0, hog()));
    let seen = Lab::new("o1").hz(250).run(load);
    let stints = seen.stints();
    let begins: Vec<u64> = stints.iter().filter(|s| s.task.0 == 0).map(|s| s.begin.0).collect();
    let longest = begins.windows(2).map(|pair| pair[1] - pair[0]).max().expect("it ran");
    assert!(begins.len() > 4 && longest < 12_000_000_000, "{} turns, {longest} ns apart", begins.len());
}

/// A hog that is moved five times a second has its turns, while tasks that sleep most of the time keep both CPUs
/// busy. The other hogs have theirs at different times, so that one of them always has waited for longer than the
/// one that arrives.
fn moved_hog_runs(scheduler: &'static str) {
    let mut load = Load::new(ms(30_000)).task(0, hog());
    for other in 1..5 {
        load = load.task(0, hog_after(ms(1100 * u64::from(other)))).on(other % 2);
    }
    for _ in 0..16 {
        load.add(0, forever(&[Op::Run(ms(1)), Op::Sleep(ms(4))]));
    }
    let lab = (1..150).fold(Lab::new(scheduler).cpus(2), |lab, step| {
        lab.change(ms(200 * step), 0, Attribute::Affinity(CpuMask::single(CpuId(step as u32 % 2))))
    });
    let seen = lab.run(load);
    let begins: Vec<u64> = seen.stints().iter().filter(|s| s.task.0 == 0).map(|s| s.begin.0).collect();
    let longest = begins.windows(2).map(|two| two[1] - two[0]).max().expect("the hog runs");
    assert!(begins.len() > 3 && longest < ms(12_000).0, "{} turns, {longest} ns apart", begins.len());
}

#[test]
fn moved_hog_runs_under_bsd4() {
    moved_hog_runs("bsd4");
}

#[test]
fn moved_hog_runs_under_o1() {
    moved_hog_runs("o1");
}

#[test]
fn moved_hog_runs_under_staircase() {
    moved_hog_runs("staircase");
}

#[test]
fn moved_hog_runs_under_ule() {
    moved_hog_runs("ule");
}

/// The workload of the soaks in VMs, on CPUs as slow as emulated ones. Chat threads, which sleep now and then, keep both busy, and
/// hogs are moved and made nicer all the time. No task waits for so long that the kernel complains of a task which it preempted in
/// an RCU read-side section (21 s), which unloads the scheduler.
#[test]
fn nobody_starves_on_slow_cpus() {
    let mut findings = Vec::new();
    for (name, object) in shipped().into_iter().chain(shipped_with_swap()) {
        for seed in 1..4 {
            let machine = slow_machine();
            let scheduler = BpfScheduler::load(&name, &object, &LoadOptions::default(), &machine);
            let scenario = catalog::build("mixed:ttime=60s", seed).expect("a workload of ours");
            let class = Class::Ext(scheduler.expect("a shipped object loads"));
            let result = run(&Config::new(machine, seed), &scenario, class).expect("a correct scenario");
            let longest = result.summary.run_delay.quantile(1000).expect("somebody waited");
            if result.exit.kind.is_ejection() || longest > DurationNs::from_secs(21) {
                findings.push(format!(
                    "{name}, seed {seed}: somebody waited for {longest}; {:?}",
                    result.exit.kind
                ));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Two CPUs as slow as those that QEMU emulates with 16 ns an instruction: 45 times what a present-day one takes.
fn slow_machine() -> Machine {
    let mut machine = Machine::uniform("slow", 2);
    machine.hz = 250;
    let costs = &mut machine.costs;
    costs.bpf_insn_ps *= 45;
    for cost in [
        &mut costs.callback,
        &mut costs.kfunc,
        &mut costs.lock,
        &mut costs.schedule,
        &mut costs.context_switch,
        &mut costs.address_space_switch,
        &mut costs.wakeup,
        &mut costs.syscall,
        &mut costs.socket,
        &mut costs.pipe,
        &mut costs.sysv,
        &mut costs.fork,
        &mut costs.exec,
        &mut costs.exit,
    ] {
        cost.0 *= 45;
    }
    machine
}
