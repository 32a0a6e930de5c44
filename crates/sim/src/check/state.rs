//! The checker of the kernel's state between two events.

use crate::Kernel;
use crate::state::group::GroupIx;
use crate::state::ops::SchedExt;
use crate::state::pressure::Stall;
use crate::state::sim::Sim;
use crate::state::task::{OpsState, RunState, SchedClass, Task};
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use std::collections::BTreeMap;

/// What the checker remembers between events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    clocks: Vec<TimeNs>,
    /// Since when a CPU has idled beside a task it could run, and how long it may.
    idle_beside: Vec<Option<(TimeNs, DurationNs)>>,
}

/// How often each task was found waiting on a queue.
fn places(k: &Kernel) -> BTreeMap<TaskId, u8> {
    let mut found = BTreeMap::new();
    for cpu in &k.cpus {
        let waiting_rt = cpu.rt.iter().copied().filter(|&task| cpu.curr != Some(task));
        assert!(cpu.dl.is_sorted_by_key(|(deadline, _)| *deadline), "deadlines of {} are in order", cpu.id);
        let waiting_dl = cpu.dl.iter().map(|(_, task)| *task).filter(|&task| cpu.curr != Some(task));
        for task in waiting_rt.chain(waiting_dl).chain(cpu.fair.waiting()) {
            assert_eq!(k.task(task).cpu, cpu.id, "{task} waits on the queue of its CPU");
            *found.entry(task).or_default() += 1;
        }
    }
    for (number, dsq) in k.dsqs.iter().enumerate() {
        let mut before = None;
        let mut count = 0;
        let mut at = dsq.head;
        while let Some(task) = at {
            let scx = &k.task(task).scx;
            assert_eq!(scx.dsq_prev, before, "the links of queue {} match at {task}", dsq.id);
            assert!(scx.dsq.is_some_and(|ix| ix.0 as usize == number), "{task} knows its queue");
            if let Some(cpu) = dsq.local {
                assert_eq!(k.task(task).cpu, cpu, "{task} is on the local queue of its CPU");
            }
            *found.entry(task).or_default() += 1;
            count += 1;
            before = at;
            at = scx.dsq_next;
        }
        assert_eq!((dsq.tail, dsq.nr), (before, count), "queue {} ends where it ends", dsq.id);
    }
    found
}

fn check_task(k: &Kernel, task: &Task, found: u8) {
    let id = task.id;
    let custody = u8::from(task.scx.ops_state == OpsState::Queued);
    if task.on_cpu {
        assert_eq!(k.curr(task.cpu), Some(id), "{id} runs where it says");
        assert_eq!((found, custody), (0, 0), "{id} runs and waits nowhere");
        assert!(
            task.allows(task.cpu) || k.cpu(task.cpu).push_off || task.migration_disabled > 0,
            "{id} runs on {} against its affinity",
            task.cpu
        );
    } else if task.on_rq && k.is_delayed(id) {
        assert_eq!((found, custody), (1, 0), "{id} is still queued");
        assert!(task.state.is_blocked(), "{id} is on its way to sleep, it is {:?}", task.state);
    } else if task.on_rq && task.is_throttled() {
        assert_eq!((found, custody), (0, 0), "{id} waits for its next period");
        assert_eq!(task.state, RunState::Runnable, "{id} is throttled because it is runnable");
    } else if task.on_rq {
        assert_eq!(found + custody, 1, "{id} ({:?}) waits in one place", task.class);
        assert_eq!(task.state, RunState::Runnable, "{id} waits because it is runnable");
    } else {
        assert_eq!((found, custody), (0, 0), "{id} does not wait for a CPU");
        assert!(task.state.is_blocked(), "{id} sleeps, it is {:?}", task.state);
    }
}

fn check_counts(k: &Kernel) {
    let mut total = 0;
    let mut counts = vec![(0, 0); k.cpus.len()];
    let throttled = |task: &Task| match task.class {
        SchedClass::Rt => k.cpu(task.cpu).rt_budget.throttled,
        _ => task.is_throttled(),
    };
    for task in k.live_tasks().filter(|task| task.on_rq && !throttled(task)) {
        let (on, ext) = &mut counts[task.cpu.index()];
        *on += 1;
        *ext += u32::from(task.class == SchedClass::Ext);
        total += 1;
    }
    for (cpu, count) in k.cpus.iter().zip(counts) {
        assert_eq!((cpu.nr_running, cpu.scx_nr_running), count, "the counts of {} match", cpu.id);
        assert!(!cpu.in_dispatch, "{} is not in a dispatch between events", cpu.id);
    }
    assert_eq!(k.total_running, total, "the runnable tasks are counted");
    let busy = k.cpus.iter().filter(|cpu| cpu.curr.is_some()).count() as u32;
    assert_eq!(k.busy_cpus, busy, "the busy CPUs are counted");
}

/// Groups count the tasks in them by what they do.
fn check_pressure(k: &Kernel) {
    if k.groups().is_flat() {
        return;
    }
    let mut counts: BTreeMap<(GroupIx, CpuId), [u32; 3]> = BTreeMap::new();
    for task in k.live_tasks() {
        assert_eq!(task.stall, Stall::of(task), "{} counts as what it does", task.id);
        if let Some(place) = (task.stall as usize).checked_sub(1) {
            for group in k.groups().upward(task.group) {
                counts.entry((group, task.cpu)).or_default()[place] += 1;
            }
        }
    }
    for (group, _) in k.groups().iter().skip(1) {
        for (cpu, stalls) in k.stalls(group) {
            let count = counts.get(&(group, cpu)).copied().unwrap_or_default();
            assert_eq!(stalls, count, "{group:?} counts its tasks on {cpu}");
        }
    }
}

fn check_waits(k: &Kernel, now: TimeNs) {
    if !k.scx.loaded || k.scx.disabling {
        return;
    }
    let bound = k.sched.timeout + k.scx.watchdog_interval + DurationNs::from_ms(10);
    for task in k.live_tasks().filter(|task| task.scx.runnable_seq != 0 && task.class == SchedClass::Ext) {
        let waited = now.since(task.scx.runnable_at);
        assert!(waited <= bound, "{} has waited {waited}, beyond the watchdog's bound", task.id);
    }
}

impl Watch {
    fn check_clocks(&mut self, k: &Kernel) {
        self.clocks.resize(k.cpus.len(), TimeNs::ZERO);
        for (last, cpu) in self.clocks.iter_mut().zip(&k.cpus) {
            assert!(cpu.clock >= *last, "the clock of {} does not go back", cpu.id);
            *last = cpu.clock;
        }
    }

    /// Work conservation of the fair class, as far as its balancing goes.
    fn check_idle(&mut self, k: &Kernel, now: TimeNs) {
        self.idle_beside.resize(k.cpus.len(), None);
        // Not on an idle CPU that is about to run it.
        let kept = |cpu: CpuId| k.curr(cpu).is_some() || !k.cpu(cpu).need_resched;
        let waits = |task: &&Task| {
            task.on_rq
                && !task.on_cpu
                && task.class == SchedClass::Fair
                && kept(task.cpu)
                && !k.is_delayed(task.id)
                // What waits for a quota moves nowhere.
                && !task.is_throttled()
                && !k.groups().has_quota(task.group)
        };
        let waiting: Vec<TaskId> = k.live_tasks().filter(waits).map(|task| task.id).collect();
        for cpu in (0..k.cpus.len() as u32).map(CpuId) {
            let could = k.is_online(cpu)
                && k.curr(cpu).is_none()
                && waiting.iter().any(|&task| k.task(task).allows(cpu));
            let since = &mut self.idle_beside[cpu.index()];
            if !could {
                *since = None;
                continue;
            }
            let Some(bound) = k.longest_idle_beside(cpu) else { return };
            let (since, bound) = *since.get_or_insert((now, bound));
            let idle = now.since(since);
            assert!(
                idle <= bound,
                "{cpu} has idled {idle} beside {:?} at {now}",
                waiting
                    .iter()
                    .map(|&task| (task, k.task(task).cpu, k.curr(k.task(task).cpu)))
                    .collect::<Vec<_>>()
            );
        }
    }
}

impl<S: SchedExt> Sim<S> {
    /// Checks the state between two events; `time` is the last one's.
    #[inline(never)]
    pub(crate) fn check_state(&mut self, time: TimeNs) {
        let k = &self.k;
        let found = places(k);
        for task in k.live_tasks() {
            check_task(k, task, found.get(&task.id).copied().unwrap_or(0));
        }
        check_counts(k);
        check_pressure(k);
        check_waits(k, time);
        self.watch.check_clocks(&self.k);
        self.watch.check_idle(&self.k, time);
    }
}
