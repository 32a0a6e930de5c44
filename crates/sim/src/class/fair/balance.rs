//! Spreading tasks of the fair class over CPUs (`sched_balance_rq()` and what is below it). It happens at the tick of a busy
//! CPU, for idle CPUs when a busy one asks, and when a CPU becomes idle.
//!
//! Absent: what balancing costs, the groups' flag for tasks that may not move (`group_imbalanced`).

use crate::Kernel;
use crate::class::fair::domains::{self, Level};
use crate::class::fair::imbalance::{Doing, Fullness, Group, Surplus, surplus};
use crate::class::fair::pelt::SCALE;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, CpuMask, DurationNs, Machine, Prng, TaskId, TimeNs};
use std::cmp::Reverse;
use std::rc::Rc;

/// How much longer the interval of a busy CPU is (`busy_factor`).
const BUSY_FACTOR: u64 = 16;
/// Tasks that are looked at in one attempt (`sysctl_sched_nr_migrate`).
const LOOKED_AT: usize = 32;
/// A task that ran so shortly ago has a warm cache (`sysctl_sched_migration_cost`).
const HOT: DurationNs = DurationNs::from_us(500);
/// The stream of random numbers of attempts when a CPU becomes idle.
const STREAM: u64 = 0x6261_6c61;

/// What balancing keeps.
#[derive(Debug)]
pub(crate) struct Balancing {
    levels: Rc<Vec<Level>>,
    /// By level and CPU.
    attempts: Vec<Vec<Attempts>>,
    /// By last-level cache: how many CPUs a wakeup may look at (`nr_idle_scan`).
    pub(crate) idle_scan: Vec<u32>,
    /// The tick from which on a busy CPU asks for idle ones to be balanced (`nohz.next_balance`).
    next_idle: u64,
    /// By CPU, the tick at which its next attempt is due (`rq->next_balance`).
    next: Vec<u64>,
    /// CPUs that became idle and have had no tick at work since (`rq->nohz_tick_stopped`).
    stopped: CpuMask,
    /// A CPU became idle, and `next_idle` does not know when its attempt is due (`nohz.needs_update`).
    outdated: bool,
    /// CPUs that were at work when `next_idle` was found, and have had no tick since. If they become idle, it stays as it is.
    missed: CpuMask,
    asked: Option<Asked>,
    prng: Prng,
}

/// What an idle CPU was asked to do for all that are idle (`nohz_flags()`).
#[derive(Clone, Copy, Debug)]
struct Asked {
    cpu: CpuId,
    /// Balance them (`NOHZ_BALANCE_KICK`).
    balance: bool,
    /// Find out when the next one is due (`NOHZ_NEXT_KICK`).
    update: bool,
}

/// Of a CPU at one level (`struct sched_domain`).
#[derive(Clone, Debug)]
struct Attempts {
    /// The tick of the last one.
    last: u64,
    /// ms, at most twice what it begins with.
    interval: u64,
    /// In a row that moved nothing.
    failed: u32,
    newidle: NewIdle,
}

/// How often looking for tasks was worth it when the CPU became idle; so often it is done (`NI_RANDOM`, `NI_RATE`).
#[derive(Clone, Debug)]
struct NewIdle {
    calls: u32,
    successes: u32,
    /// Of 1024.
    ratio: u32,
    since: TimeNs,
}

impl NewIdle {
    /// `update_newidle_stats()`.
    fn count(&mut self, success: u32, now: TimeNs) {
        self.calls += 1;
        self.successes += success;
        if self.calls >= 1024 {
            let span = now.since(std::mem::replace(&mut self.since, now)).0 >> 22;
            self.ratio = (span as u32).saturating_add(self.successes).min(1024);
            self.calls /= 2;
            self.successes /= 2;
        }
    }
}

impl Balancing {
    pub(crate) fn new(machine: &Machine, seed: u64) -> Balancing {
        let levels = domains::levels(machine, &machine.all_cpus());
        let llcs = machine.cpus.iter().map(|cpu| cpu.llc + 1).max().unwrap_or(1);
        Balancing {
            attempts: attempts(&levels, machine),
            levels: Rc::new(levels),
            idle_scan: vec![0; llcs as usize],
            next_idle: 0,
            next: vec![0; machine.cpu_count()],
            stopped: CpuMask::EMPTY,
            outdated: false,
            missed: CpuMask::EMPTY,
            asked: None,
            prng: Prng::stream(seed, STREAM),
        }
    }

    /// CPUs have come or gone: the domains are new (`rebuild_sched_domains()`).
    pub(crate) fn rebuild(&mut self, machine: &Machine, online: &CpuMask) {
        let levels = domains::levels(machine, online);
        self.attempts = attempts(&levels, machine);
        self.levels = Rc::new(levels);
        self.asked = None;
        // `nohz_balance_exit_idle()`, as the CPU is deactivated.
        self.stopped = self.stopped.and(online);
    }

    /// The CPU was asked to look after the idle ones.
    pub(crate) fn is_asked(&self, cpu: CpuId) -> bool {
        self.asked.is_some_and(|asked| asked.cpu == cpu)
    }

    /// `nohz_balance_enter_idle()`: an idle CPU is due earlier than a busy one. Only its first idle time since its last tick counts.
    fn enter_idle(&mut self, cpu: CpuId) {
        self.outdated |= !self.stopped.contains(cpu);
        self.stopped.set(cpu);
    }
}

/// What begins with nothing tried.
fn attempts(levels: &[Level], machine: &Machine) -> Vec<Vec<Attempts>> {
    let newidle = NewIdle { calls: 512, successes: 256, ratio: 512, since: TimeNs::ZERO };
    let of = |level: &Level| {
        let one = |cpu| Attempts {
            last: 0,
            interval: level.domain(CpuId(cpu)).cpus.len() as u64,
            failed: 0,
            newidle: newidle.clone(),
        };
        (0..machine.cpu_count() as u32).map(one).collect()
    };
    levels.iter().map(of).collect()
}

/// An attempt at one level for one CPU.
#[derive(Clone, Copy)]
struct Attempt {
    cpu: CpuId,
    level: usize,
    doing: Doing,
    /// CPUs from which tasks may come.
    from: CpuMask,
}

impl Kernel {
    fn tick_number(&self) -> u64 {
        self.ctx.now.0 / self.tick_period.0
    }

    /// `get_sd_balance_interval()` in ticks.
    fn balance_interval(&self, level: usize, cpu: CpuId, busy: bool) -> u64 {
        debug_assert!(level < self.balancing.attempts.len(), "the machine has the level");
        let ms = self.balancing.attempts[level][cpu.index()].interval * if busy { BUSY_FACTOR } else { 1 };
        let hz = u64::from(self.machine.hz);
        let ticks = (ms * hz).div_ceil(1000) - u64::from(busy);
        ticks.clamp(1, (hz * self.cpus.len() as u64 / 10).max(1))
    }

    /// How long a CPU of a flat machine idles from now on at most while a task waits that may run there. Attempts for idle CPUs
    /// are made every 2 ms a CPU at the rarest (`max_interval`), or two ticks after a CPU became idle. The third attempt moves
    /// tasks that have just run. A CPU that idles again before a tick may be due as a busy one: `nohz_balance_enter_idle()` tells
    /// only once. Between caches and nodes nothing is promised.
    pub(crate) fn longest_idle_beside(&self, cpu: CpuId) -> Option<DurationNs> {
        let cpus = self.cpus.len() as u64;
        let rarest = DurationNs::from_ms(2 * cpus) + self.machine.tick_period();
        let as_busy = if self.balancing.missed.contains(cpu) { BUSY_FACTOR * cpus } else { 0 };
        (self.balancing.levels.len() <= 1).then_some(DurationNs::from_ms(as_busy) + rarest * 4)
    }

    /// `update_next_balance()`: `cpu`, which becomes idle, is due at this level as an idle one.
    fn due_as_idle(&mut self, cpu: CpuId, level: usize) {
        let last = self.balancing.attempts[level][cpu.index()].last;
        let due = last + self.balance_interval(level, cpu, false);
        let next = &mut self.balancing.next[cpu.index()];
        *next = due.min(*next);
    }

    /// `should_we_balance()`: of the group of `cpu`, the first idle CPU does it for all, else the first one.
    fn balances(&self, group: &[CpuId], cpu: CpuId, smt: bool) -> bool {
        let idle = || group.iter().find(|&&cpu| self.is_free(cpu));
        let first =
            if smt { idle() } else { group.iter().find(|&&cpu| self.is_core_free(cpu)).or_else(idle) };
        first.or(group.first()) == Some(&cpu)
    }

    /// `update_sg_lb_stats()`.
    fn group_of(&mut self, cpus: &[CpuId], level: &Level, doing: Doing) -> Group {
        debug_assert!(!cpus.is_empty(), "a group has a CPU");
        let mut group = Group {
            load: 0,
            util: 0,
            runnable: 0,
            running: 0,
            fair: 0,
            idle_cpus: 0,
            cpus: cpus.len() as u64,
            misfit: 0,
            fullness: Fullness::HasSpare,
        };
        for &cpu in cpus {
            self.track_queue(cpu);
            let entry = &self.cpus[cpu.index()];
            let real_time = entry.curr.is_some_and(|task| self.task(task).class <= SchedClass::Rt);
            if doing != Doing::Work && real_time && entry.fair.runnable() == 1 {
                group.misfit = group.misfit.max(entry.fair.averages.load);
            }
            group.load += entry.fair.averages.load;
            group.util += entry.fair.averages.util.min(SCALE);
            group.runnable += entry.fair.averages.runnable;
            group.running += u64::from(entry.nr_running);
            group.fair += u64::from(entry.fair.runnable());
            group.idle_cpus += u64::from(self.is_free(cpu));
        }
        group.classify(level, doing);
        group
    }

    /// `update_idle_cpu_scan()`: from 85 % utilisation on, wakeups look at no CPU of the cache.
    fn update_idle_scan(&mut self, cpu: CpuId, level: &Level, util: u64) {
        let cpus = level.domain(cpu).cpus.len() as u64;
        let (each, pct) = (util / cpus, level.imbalance_pct);
        let used = (each * each * pct * pct / (10_000 * SCALE)).min(SCALE);
        let llc = self.cpus[cpu.index()].llc as usize;
        self.balancing.idle_scan[llc] = ((SCALE - used) * cpus / SCALE) as u32;
    }

    /// `sched_balance_find_src_group()`: the number of the group that gives, and how much.
    fn busiest_group(&mut self, attempt: &Attempt, levels: &[Level]) -> Option<(usize, Surplus)> {
        let level = &levels[attempt.level];
        let domain = level.domain(attempt.cpu);
        let mut local = None;
        let mut busiest: Option<(usize, Group)> = None;
        let (mut load, mut util) = (0, 0);
        for (number, cpus) in domain.groups.iter().enumerate() {
            let group = self.group_of(cpus, level, attempt.doing);
            load += group.load;
            util += group.util;
            if cpus.contains(&attempt.cpu) {
                local = Some(group);
            } else if group.fair > 0
                && cpus.iter().any(|&cpu| attempt.from.contains(cpu))
                && busiest.is_none_or(|(_, best)| group.busier_than(&best))
            {
                busiest = Some((number, group));
            }
        }
        let widest_cache = levels.get(attempt.level + 1).is_none_or(|next| !next.shares_llc);
        if level.shares_llc && widest_cache && attempt.doing != Doing::NothingMore {
            self.update_idle_scan(attempt.cpu, level, util);
        }
        let (local, (number, busiest)) = (local?, busiest?);
        let average = load / domain.cpus.len() as u64;
        let surplus = surplus(level, attempt.doing, &local, &busiest, average)?;
        (!surplus.is_nothing()).then_some((number, surplus))
    }

    /// `sched_balance_find_src_rq()`.
    fn busiest_cpu(&self, group: &[CpuId], attempt: &Attempt, surplus: Surplus) -> Option<CpuId> {
        let key = |cpu: CpuId| {
            let queue = &self.cpus[cpu.index()].fair;
            let fair = u64::from(queue.runnable());
            match surplus {
                Surplus::Load(left) if fair == 1 && queue.averages.load > left => 0,
                Surplus::Load(_) => queue.averages.load,
                Surplus::Util(_) if fair <= 1 => 0,
                Surplus::Util(_) => queue.averages.util,
                Surplus::Tasks(_) => fair,
            }
        };
        let sources = group.iter().filter(|&&cpu| attempt.from.contains(cpu)).map(|&cpu| (key(cpu), cpu));
        // The first of several.
        sources
            .filter(|&(key, _)| key > 0)
            .max_by_key(|&(key, cpu)| (key, Reverse(cpu.0)))
            .map(|found| found.1)
    }

    /// `can_migrate_task()`, for a task that may run there.
    fn moves_to(&mut self, task: TaskId, attempt: &Attempt, failed: u32, nice_tries: u32) -> bool {
        if self.bandwidth_used() && self.fair_is_throttled(attempt.cpu, task) {
            return false;
        }
        let entry = self.task(task);
        let ineligible = || {
            let there = &self.cpus[attempt.cpu.index()].fair;
            there.nr > 0 && !self.cpus[entry.cpu.index()].fair.eligible(entry.fair.vruntime)
        };
        if entry.on_cpu || self.is_delayed(task) || (failed == 0 && ineligible()) {
            return false;
        }
        self.ctx.now.since(entry.exec_start) >= HOT || failed > nice_tries
    }
}

impl<S: SchedExt> Sim<S> {
    /// `sched_balance_newidle()`. Holds the rq lock of `cpu`.
    #[inline(never)]
    pub(crate) fn newidle_balance(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        let running = self.k.busy_cpus - u32::from(prev.is_some());
        if !self.k.cpu(cpu).wake_list.is_empty() {
            return;
        }
        let levels = self.k.balancing.levels.len();
        if levels > 0 && self.k.total_running <= running {
            self.k.due_as_idle(cpu, 0);
        } else if self.look_for_tasks(cpu, levels) {
            return;
        }
        self.k.balancing.enter_idle(cpu);
    }

    /// The attempts at each level of a CPU that becomes idle: whether one moved a task.
    fn look_for_tasks(&mut self, cpu: CpuId, levels: usize) -> bool {
        self.k.track_groups(cpu);
        for level in 0..levels {
            self.k.due_as_idle(cpu, level);
            let now = self.k.ctx.now;
            let dice = self.k.balancing.prng.below(1024) as u32;
            let newidle = &mut self.k.balancing.attempts[level][cpu.index()].newidle;
            // What is tried more rarely counts for as many as were left out.
            let (tries, chance) = (newidle.ratio < 1024, 1 + newidle.ratio);
            if tries && dice > chance {
                newidle.count(0, now);
                continue;
            }
            let weight = if tries { (1024 + chance / 2) / chance } else { 1 };
            let moved = self.balance(cpu, level, Doing::NothingMore).0;
            let newidle = &mut self.k.balancing.attempts[level][cpu.index()].newidle;
            newidle.count(if moved { weight } else { 0 }, now);
            if moved {
                return true;
            }
        }
        false
    }

    /// `sched_balance_trigger()`: at the tick of a busy CPU. One that is offline is in no domain; it still has a tick where that
    /// comes before its last task leaves.
    pub(crate) fn tick_balance(&mut self, cpu: CpuId) {
        if !self.k.is_online(cpu) {
            return;
        }
        self.balance_levels(cpu, Doing::Work);
        self.k.balancing.stopped.clear(cpu);
        self.k.balancing.missed.clear(cpu);
        self.ask_for_idle(cpu);
    }

    /// `nohz_balancer_kick()`: an idle CPU is asked to balance those that are, when there may be something to take. Or it is
    /// asked when that is due, if another one has become idle.
    fn ask_for_idle(&mut self, cpu: CpuId) {
        let k = &self.k;
        let (tick, update) = (k.tick_number(), k.balancing.outdated);
        let all_busy = k.busy_cpus >= k.online_cpus().count() as u32;
        if all_busy || k.balancing.asked.is_some() || (tick < k.balancing.next_idle && !update) {
            return;
        }
        let near = &k.topology.llc_masks[k.cpu(cpu).llc as usize];
        let crowded =
            || k.cpu(cpu).nr_running >= 2 || near.iter().filter(|&other| !k.is_free(other)).count() > 1;
        let balance = tick >= k.balancing.next_idle && crowded();
        let idle = k.cpus.iter().map(|entry| entry.id).find(|&other| k.is_free(other));
        if let Some(cpu) = idle.filter(|_| balance || update) {
            self.k.balancing.asked = Some(Asked { cpu, balance, update });
            self.k.send_ipi(cpu);
        }
    }

    /// `nohz_idle_balance()`, in an interrupt of the CPU that was asked: for the other idle ones, then for itself. When it has got
    /// work meanwhile, the next tick of a busy CPU asks again.
    pub(crate) fn idle_balance(&mut self, cpu: CpuId) {
        let Some(asked) = self.k.balancing.asked.take_if(|asked| asked.cpu == cpu) else { return };
        let now = self.k.tick_number();
        if asked.balance {
            self.k.balancing.next_idle = now + 1;
        }
        if !self.k.is_free(cpu) {
            return;
        }
        self.k.balancing.outdated &= !asked.update;
        let count = self.k.cpus.len();
        let mut next = u64::MAX;
        for step in 1..=count {
            let other = CpuId(((cpu.index() + step) % count) as u32);
            if self.k.is_free(other) {
                if asked.balance {
                    self.balance_levels(other, Doing::Nothing);
                }
                next = next.min(self.k.balancing.next[other.index()]);
            }
            let seen = self.k.is_free(other);
            let missed = &mut self.k.balancing.missed;
            if seen { missed.clear(other) } else { missed.set(other) }
        }
        if next != u64::MAX {
            self.k.balancing.next_idle = next.clamp(now + 1, now + u64::from(self.k.machine.hz));
        }
    }

    /// `sched_balance_domains()`: at each level whose time has come, up to one at which another CPU of the group does it.
    /// Notes the tick at which the next level is due at the earliest.
    fn balance_levels(&mut self, cpu: CpuId, mut doing: Doing) {
        self.k.track_groups(cpu);
        let (now, mut next, mut alone) = (self.k.tick_number(), u64::MAX, true);
        for level in 0..self.k.balancing.levels.len() {
            let last = self.k.balancing.attempts[level][cpu.index()].last;
            if now >= last + self.k.balance_interval(level, cpu, doing == Doing::Work) {
                let (moved, does_it) = self.balance(cpu, level, doing);
                if moved && doing == Doing::Nothing {
                    doing = Doing::Work;
                }
                self.k.balancing.attempts[level][cpu.index()].last = now;
                alone = does_it;
            }
            let last = self.k.balancing.attempts[level][cpu.index()].last;
            next = next.min(last + self.k.balance_interval(level, cpu, doing == Doing::Work));
            if !alone {
                break;
            }
        }
        if next != u64::MAX {
            self.k.balancing.next[cpu.index()] = next;
        }
    }

    /// `sched_balance_rq()`: whether something was moved, and whether this CPU is the one that does it for its group.
    fn balance(&mut self, cpu: CpuId, level: usize, doing: Doing) -> (bool, bool) {
        let levels = Rc::clone(&self.k.balancing.levels);
        let domain = levels[level].domain(cpu);
        let mut from = CpuMask::EMPTY;
        domain.cpus.iter().filter(|&&other| other != cpu).for_each(|&other| from.set(other));
        let mut attempt = Attempt { cpu, level, doing, from };
        let group =
            domain.groups.iter().find(|group| group.contains(&cpu)).expect("an online CPU is in a group");
        let does_it = match doing {
            Doing::NothingMore => self.k.cpu(cpu).nr_running == 0,
            Doing::Work | Doing::Nothing => self.k.balances(group, cpu, levels[level].smt),
        };
        let mut outcome = if does_it { Outcome::AllPinned } else { Outcome::Balanced };
        while outcome == Outcome::AllPinned {
            outcome = Outcome::Balanced;
            if let Some((number, surplus)) = self.k.busiest_group(&attempt, &levels)
                && let Some(source) = self.k.busiest_cpu(&domain.groups[number], &attempt, surplus)
            {
                let tries = levels[level].cache_nice_tries;
                outcome = self.take_from(source, &attempt, surplus, tries);
                if outcome == Outcome::Failed && matches!(surplus, Surplus::Tasks(_)) {
                    outcome = self.push_running(source, &attempt, tries);
                }
                attempt.from.clear(source);
            }
        }
        self.settle(&attempt, domain.cpus.len() as u64, outcome);
        (outcome == Outcome::Moved, does_it)
    }

    /// What an attempt does to the next ones.
    fn settle(&mut self, attempt: &Attempt, shortest: u64, outcome: Outcome) {
        let entry = &mut self.k.balancing.attempts[attempt.level][attempt.cpu.index()];
        let newly = attempt.doing == Doing::NothingMore;
        match outcome {
            Outcome::Moved | Outcome::Pushed => (entry.failed, entry.interval) = (0, shortest),
            Outcome::Failed => {
                entry.failed += u32::from(!newly);
                entry.interval = shortest;
            }
            Outcome::Balanced | Outcome::AllPinned => {
                entry.failed = 0;
                if !newly && entry.interval < 2 * shortest {
                    entry.interval *= 2;
                }
            }
        }
    }

    /// `detach_tasks()` and `attach_tasks()`: those that have waited longest first.
    fn take_from(&mut self, source: CpuId, attempt: &Attempt, mut surplus: Surplus, tries: u32) -> Outcome {
        let failed = self.k.balancing.attempts[attempt.level][attempt.cpu.index()].failed;
        let mut waiting: Vec<(TimeNs, TaskId)> = {
            let of = |task: TaskId| (self.k.task(task).ready_at, task);
            self.k.cpu(source).fair.waiting().map(of).collect()
        };
        waiting.sort_unstable();
        let crowd = self.k.cpu(source);
        let stays = crowd.curr.is_none_or(|task| !self.k.task(task).allows(attempt.cpu));
        let (mut moved, mut pinned) = (false, crowd.nr_running > 1 && stays);
        for (_, task) in waiting.into_iter().take(LOOKED_AT) {
            if self.k.cpu(source).nr_running <= 1 {
                break;
            }
            if !self.k.task(task).allows(attempt.cpu) {
                continue;
            }
            pinned = false;
            if !self.k.moves_to(task, attempt, failed, tries) || !self.k.fits(task, &mut surplus, failed) {
                continue;
            }
            self.take_over(task, attempt);
            moved = true;
            if attempt.doing == Doing::NothingMore || surplus.is_nothing() {
                break;
            }
        }
        match (moved, pinned) {
            (true, _) => Outcome::Moved,
            (false, true) => Outcome::AllPinned,
            (false, false) => Outcome::Failed,
        }
    }

    /// `active_load_balance_cpu_stop()`: after attempts in vain the running task itself moves.
    fn push_running(&mut self, source: CpuId, attempt: &Attempt, tries: u32) -> Outcome {
        let fair = |task: &TaskId| self.k.task(*task).class == SchedClass::Fair;
        let movable = self.k.cpu(source).curr.filter(fair);
        let movable = movable.is_some_and(|task| self.k.task(task).allows(attempt.cpu));
        let entry = &mut self.k.balancing.attempts[attempt.level][attempt.cpu.index()];
        let failed = entry.failed + u32::from(attempt.doing != Doing::NothingMore);
        if failed <= tries + 2 || !movable {
            return Outcome::Failed;
        }
        self.k.cpu_mut(source).push_to = Some(attempt.cpu);
        self.k.resched_curr(source);
        Outcome::Pushed
    }

    fn take_over(&mut self, task: TaskId, attempt: &Attempt) {
        let cpu = attempt.cpu;
        if attempt.doing == Doing::NothingMore {
            return self.pull(task, cpu);
        }
        self.k.rq_lock(cpu);
        self.pull(task, cpu);
        self.wakeup_preempt(cpu, task, false);
        self.k.rq_unlock(cpu);
    }
}

impl Kernel {
    /// A task that is not too much to move, less with every attempt that failed; what is left is less by it.
    fn fits(&self, task: TaskId, surplus: &mut Surplus, failed: u32) -> bool {
        let (size, left) = match surplus {
            Surplus::Load(left) => (self.fair_task_load(task).max(1), left),
            Surplus::Util(left) => (self.task(task).fair.averages.util, left),
            Surplus::Tasks(left) => (1, left),
        };
        if size >> failed.min(63) > *left {
            return false;
        }
        *left = left.saturating_sub(size);
        true
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Moved,
    /// A running task will move.
    Pushed,
    /// There is too much elsewhere, and nothing could be moved.
    Failed,
    Balanced,
    /// No task of the source may run here.
    AllPinned,
}
