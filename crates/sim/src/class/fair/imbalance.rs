//! Which group gives how much: whether one group of CPUs is so much fuller than another that tasks
//! should move (`update_sd_pick_busiest()`, `calculate_imbalance()`).

use crate::class::fair::domains::Level;
use crate::class::fair::pelt::SCALE;
use std::cmp::Reverse;

/// What the CPU does that tasks are looked for (`enum cpu_idle_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    Work,
    Nothing,
    /// Nothing from now on.
    NothingMore,
}

/// How full a group is (`enum group_type`), by how much it wants to give.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fullness {
    HasSpare,
    FullyBusy,
    /// The only task of a CPU's fair class does not get the whole CPU (`group_misfit_task`).
    Misfit,
    /// Several threads of a core are busy.
    Smt,
    Overloaded,
}

/// Of a group (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) load: u64,
    pub(crate) util: u64,
    pub(crate) runnable: u64,
    /// Of all classes, and of the fair class alone.
    pub(crate) running: u64,
    pub(crate) fair: u64,
    pub(crate) idle_cpus: u64,
    pub(crate) cpus: u64,
    /// Load of a task behind a real-time one, of which an idle CPU would have more (`sched_reduced_capacity()`).
    pub(crate) misfit: u64,
    pub(crate) fullness: Fullness,
}

impl Group {
    /// Load by capacity.
    fn average(&self) -> u64 {
        self.load / self.cpus
    }

    /// `group_classify()`.
    pub(crate) fn classify(&mut self, level: &Level, doing: Doing) {
        let (capacity, pct) = (self.cpus * SCALE, level.imbalance_pct);
        let full = capacity * 100 < self.util * pct || capacity * pct < self.runnable * 100;
        let spare = capacity * pct >= self.runnable * 100 && capacity * 100 > self.util * pct;
        self.fullness = if self.running > self.cpus && full {
            Fullness::Overloaded
        } else if level.groups_are_cores && doing != Doing::Work && self.fair > 1 {
            Fullness::Smt
        } else if self.misfit > 0 {
            Fullness::Misfit
        } else if self.running < self.cpus || spare {
            Fullness::HasSpare
        } else {
            Fullness::FullyBusy
        };
    }

    /// `update_sd_pick_busiest()`: it gives rather than the other.
    pub(crate) fn busier_than(&self, other: &Group) -> bool {
        if self.fullness != other.fullness {
            return self.fullness > other.fullness;
        }
        let spare = self.idle_cpus + other.idle_cpus > 0;
        match self.fullness {
            Fullness::Overloaded => self.average() > other.average(),
            Fullness::Misfit => self.misfit > other.misfit,
            Fullness::Smt | Fullness::FullyBusy if !spare || self.fullness == Fullness::FullyBusy => false,
            _ => (Reverse(self.idle_cpus), self.running) > (Reverse(other.idle_cpus), other.running),
        }
    }
}

/// What is to be moved (`enum migration_type` and the imbalance).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Surplus {
    Load(u64),
    Util(u64),
    Tasks(u64),
}

impl Surplus {
    pub(crate) fn is_nothing(self) -> bool {
        let (Surplus::Load(left) | Surplus::Util(left) | Surplus::Tasks(left)) = self;
        left == 0
    }
}

/// The checks of `sched_balance_find_src_group()` and `calculate_imbalance()`; nothing where there is balance.
pub(crate) fn surplus(
    level: &Level,
    doing: Doing,
    local: &Group,
    busiest: &Group,
    average: u64,
) -> Option<Surplus> {
    if busiest.fullness == Fullness::Misfit {
        return Some(Surplus::Load(busiest.misfit));
    }
    if local.fullness > busiest.fullness {
        return None;
    }
    let (mine, theirs) = (local.average(), busiest.average());
    if local.fullness == Fullness::Overloaded
        && (mine >= theirs || mine >= average || 100 * theirs <= level.imbalance_pct * mine)
    {
        return None;
    }
    let siblings = siblings_surplus(doing, local, busiest);
    let forced = level.prefers_siblings && local.fullness == Fullness::HasSpare && siblings > 1;
    if !forced && busiest.fullness != Fullness::Overloaded {
        let evenly_idle = busiest.cpus > 1 && local.idle_cpus <= busiest.idle_cpus + 1;
        if doing == Doing::Work || evenly_idle || busiest.fair == 1 {
            return None;
        }
    }
    if busiest.fullness == Fullness::Smt {
        return Some(Surplus::Tasks(1));
    }
    if local.fullness == Fullness::HasSpare {
        if busiest.fullness > Fullness::FullyBusy && !level.shares_llc {
            let room = (local.cpus * SCALE).saturating_sub(local.util);
            let pull_one = doing != Doing::Work && room == 0;
            return Some(if pull_one { Surplus::Tasks(1) } else { Surplus::Util(room) });
        }
        let idle = local.idle_cpus.saturating_sub(busiest.idle_cpus);
        let tasks = if busiest.cpus == 1 || level.prefers_siblings { siblings } else { idle };
        return Some(Surplus::Tasks(tasks / 2));
    }
    if mine >= theirs || mine >= average {
        return None;
    }
    let (over, under) = (theirs.saturating_sub(average), average - mine);
    Some(Surplus::Load((over * busiest.cpus).min(under * local.cpus)))
}

/// `sibling_imbalance()`, for groups of equally many cores or not.
fn siblings_surplus(doing: Doing, local: &Group, busiest: &Group) -> u64 {
    if doing == Doing::Work || busiest.running == 0 {
        return 0;
    }
    if local.cpus == busiest.cpus {
        return busiest.running.saturating_sub(local.running);
    }
    let both = local.cpus + busiest.cpus;
    let tasks = (local.cpus * busiest.running).saturating_sub(busiest.cpus * local.running);
    let tasks = (2 * tasks + both) / both;
    if tasks <= 1 && local.running == 0 && busiest.running > 1 { 2 } else { tasks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::fair::domains::levels;
    use schedlab_base::Machine;

    /// A group of two CPUs with so many tasks of nice 0, all of which have computed for long.
    fn of(tasks: u64) -> Group {
        let mut group = Group {
            load: tasks * 1024,
            util: tasks.min(2) * 1024,
            runnable: tasks * 1024,
            running: tasks,
            fair: tasks,
            idle_cpus: 2u64.saturating_sub(tasks),
            cpus: 2,
            misfit: 0,
            fullness: Fullness::HasSpare,
        };
        group.classify(&between_caches(), Doing::Work);
        group
    }

    fn between_caches() -> Level {
        let mut machine = Machine::uniform("two caches", 4);
        (0..).zip(&mut machine.cpus).for_each(|(number, cpu)| cpu.llc = number / 2);
        levels(&machine, &machine.all_cpus()).pop().unwrap()
    }

    #[test]
    fn groups_are_as_full_as_their_tasks_make_them() {
        let full = [0, 1, 2, 3].map(|tasks| of(tasks).fullness);
        assert_eq!(full, [Fullness::HasSpare, Fullness::HasSpare, Fullness::FullyBusy, Fullness::Overloaded]);
        assert!(of(3).busier_than(&of(2)) && of(4).busier_than(&of(3)) && !of(2).busier_than(&of(2)));
        assert!(of(1).busier_than(&of(0)));
    }

    #[test]
    fn busy_cpus_take_load_and_idle_ones_tasks() {
        let level = between_caches();
        let told = |doing, mine, theirs| {
            let (mine, theirs) = (of(mine), of(theirs));
            format!("{:?}", surplus(&level, doing, &mine, &theirs, (mine.load + theirs.load) / 4))
        };
        // Of the average that both come to.
        assert_eq!(told(Doing::Work, 3, 7), "Some(Load(2048))");
        // A difference must be at least 17 %.
        assert_eq!(told(Doing::Work, 7, 8), "None");
        assert_eq!(told(Doing::Work, 1, 2), "None", "an idle CPU sees to that");
        assert_eq!(told(Doing::Nothing, 0, 2), "Some(Tasks(1))");
        assert_eq!(told(Doing::Nothing, 1, 4), "Some(Util(1024))");
        assert_eq!(told(Doing::Nothing, 4, 2), "None");
    }
}
