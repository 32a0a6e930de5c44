//! Which tasks may have the policy `SCHED_DEADLINE` (`sched_dl_overflow()` and what is around it). The bandwidth of all of
//! them and of the deadline servers is within that of the CPUs that are online. Each may use all of these CPUs.
//!
//! The kernel answers others with an error, which no workload handles: the run ends with it.

use crate::Kernel;
use schedlab_base::{CpuMask, DurationNs, FULL_BANDWIDTH, Policy, Reservation, TaskId};

/// A bandwidth as a part of one CPU.
fn percent(bandwidth: u64) -> String {
    format!("{:.1} %", bandwidth as f64 * 100.0 / FULL_BANDWIDTH as f64)
}

impl Kernel {
    /// The bandwidth that `cpus` CPUs have for deadline tasks, of which their servers take some.
    fn dl_room(&self, cpus: u64) -> u64 {
        let most = self.machine.kernel.version.deadline_bandwidth();
        cpus * most.saturating_sub(self.server_bandwidth())
    }

    /// What forbids `task` the reservation, as sched_setattr(2) would answer.
    fn dl_refusal(&mut self, task: TaskId, asked: Reservation) -> Option<String> {
        let entry = self.task(task);
        let narrow = entry.cpus_allowed.and(&self.online) != self.online;
        let own = entry.policy.reservation().map_or(0, Reservation::bandwidth);
        if narrow {
            return Some("EPERM: a deadline task may use all CPUs; give it no affinity of its own".into());
        }
        let (now, wanted) = (self.ctx.now, asked.bandwidth());
        let cpus = self.online.count() as u64;
        let (room, used) = (self.dl_room(cpus), self.dl_admitted.at(now) - own);
        (used + wanted > room).then(|| {
            format!(
                "EBUSY: it asks for {} of a CPU, deadline tasks have {} of {} ({cpus} CPUs less their servers)",
                percent(wanted),
                percent(used),
                percent(room)
            )
        })
    }

    /// `task` has `policy` from now on: bandwidth is taken and given back. False when the kernel refuses it, which ends the run.
    pub(crate) fn dl_admit(&mut self, task: TaskId, policy: Policy) -> bool {
        let old = self.task(task).policy.reservation();
        if let Some(asked) = policy.reservation() {
            if let Some(why) = self.dl_refusal(task, asked) {
                let name = self.task(task).name().to_string();
                self.refuse(format!("task {name}: sched_setattr() of deadline:{asked}: {why}"));
                return false;
            }
            // What it had before is no longer its.
            self.dl_admitted.leaving.retain(|(_, other, _)| *other != task);
            self.dl_admitted.tasks += asked.bandwidth();
            self.dl_admitted.tasks -= old.map_or(0, Reservation::bandwidth);
            self.dl_ask(task, asked);
        } else if old.is_some() {
            self.dl_release(task);
        }
        true
    }

    /// A deadline task is none any more, or ends: its bandwidth is free at its zero-lag time.
    #[inline(never)]
    pub(crate) fn dl_release(&mut self, task: TaskId) {
        let bandwidth = self.task(task).policy.reservation().map_or(0, Reservation::bandwidth);
        let until = self.dl_leave(task);
        self.dl_admitted.tasks -= bandwidth;
        if until > self.ctx.now {
            self.dl_admitted.leaving.push((until, task, bandwidth));
        }
    }

    /// `dl_task_check_affinity()`: false when the kernel refuses `mask`, which ends the run.
    pub(crate) fn dl_allows_affinity(&mut self, task: TaskId, mask: &CpuMask) -> bool {
        let deadline = self.task(task).policy.reservation().is_some();
        let fits = !deadline || mask.and(&self.online) == self.online;
        if !fits {
            let name = self.task(task).name().to_string();
            self.refuse(format!(
                "task {name}: sched_setaffinity(): EBUSY: a deadline task may use all CPUs; leave it all of them"
            ));
        }
        fits
    }

    /// `dl_bw_deactivate()`: false when the CPUs that stay could not keep what deadline tasks were promised.
    pub(crate) fn dl_allows_offline(&mut self) -> bool {
        let (now, rest) = (self.ctx.now, self.online.count() as u64 - 1);
        let used = self.dl_admitted.at(now);
        let fits = used == 0 || rest > 0 && used <= self.dl_room(rest);
        if !fits {
            self.refuse(format!(
                "a CPU is taken offline: EBUSY: deadline tasks have {}, the CPUs that stay {}",
                percent(used),
                percent(self.dl_room(rest))
            ));
        }
        fits
    }

    /// The workload asks for what the kernel answers with an error, or what is not modelled: the run ends with `why`.
    pub(crate) fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }
}

/// `bandwidth` of `runtime` in `period` (`to_ratio()`).
pub(crate) fn bandwidth(runtime: DurationNs, period: DurationNs) -> u64 {
    (u128::from(runtime.0) * u128::from(FULL_BANDWIDTH) / u128::from(period.0)) as u64
}
