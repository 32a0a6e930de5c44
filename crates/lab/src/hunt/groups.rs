//! Puts the load of a drawn case into a tree of groups, which changes while the load runs.

use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, Policy, Prng};
use schedlab_workload::{
    Amount, Attribute, ChangeId, GroupChange, GroupChangeId, GroupId, GroupSettings, GroupSpec, Identity, Op,
    ProcessId, ProgramBuilder, ProgramId, Quota, Scenario, TaskRef, TaskSpec,
};

use super::case::Case;

/// Most groups of a drawn tree. Chosen: enough for a chain of four beside some others.
const MOST_GROUPS: u64 = 7;

/// Deepest group of a drawn tree. Chosen.
const DEEPEST: usize = 4;

impl Case {
    /// The case with its tasks in groups, by its seed: a tree with weights, quotas, idle groups and sets of CPUs. Mostly a task moves
    /// others and makes, changes and removes groups all the time.
    #[must_use]
    pub fn in_groups(mut self) -> Case {
        let mut prng = Prng::stream(self.seed, 3);
        let cpus = self.machine.cpu_count();
        tree(&mut self.scenario, &mut prng, cpus);
        let homes = homes(&self.scenario);
        for task in &mut self.scenario.tasks {
            // All groups without groups in them may be missing at first.
            if !homes.is_empty() && prng.chance(3, 4) {
                task.group = Some(homes[prng.below(homes.len() as u64) as usize]);
            }
        }
        if prng.chance(3, 4) {
            gardener(&mut self.scenario, &mut prng, cpus, &homes);
        }
        self
    }
}

fn tree(scenario: &mut Scenario, prng: &mut Prng, cpus: usize) {
    for number in 0..1 + prng.below(MOST_GROUPS) {
        let above = prng.below(scenario.groups.len() as u64 + 1);
        let parent = above.checked_sub(1).map(|above| &scenario.groups[above as usize]);
        let parent = parent.filter(|parent| !parent.later && parent.path.split('/').count() < DEEPEST);
        let path =
            parent.map_or_else(String::new, |parent| format!("{}/", parent.path)) + &format!("g{number}");
        let parent = parent.and(above.checked_sub(1)).map(|above| GroupId(above as u32));
        let cpus = prng.chance(1, 5).then(|| mask(prng, cpus));
        // The first is there from the start, so that tasks have a group.
        let later = number > 0 && prng.chance(1, 5);
        scenario.groups.push(GroupSpec { path, parent, settings: settings(prng), cpus, later });
    }
}

/// Groups that can have tasks at the start: those without groups in them that are there.
fn homes(scenario: &Scenario) -> Vec<GroupId> {
    let all = || scenario.groups.iter();
    let inner = |at: usize| all().any(|group| group.parent.is_some_and(|parent| parent.index() == at));
    let outer = all().enumerate().filter(|(at, _)| !inner(*at));
    outer.filter(|(_, group)| !group.later).map(|(at, _)| GroupId(at as u32)).collect()
}

fn settings(prng: &mut Prng) -> GroupSettings {
    let mut settings = GroupSettings::default();
    match prng.below(4) {
        0 => settings.weight = weight(prng),
        1 => settings.set_nice(nice(prng)),
        _ => {}
    }
    if prng.chance(1, 3) {
        let quota = quota(prng);
        settings.quota = Some(quota);
        if prng.chance(1, 3) {
            settings.burst = DurationNs(prng.below(quota.runtime.0) / 1000 * 1000);
        }
    }
    settings.idle = prng.chance(1, 8);
    settings
}

/// Of any order of magnitude.
fn weight(prng: &mut Prng) -> u32 {
    let most = 10_000 >> prng.below(14);
    1 + prng.below(most) as u32
}

fn nice(prng: &mut Prng) -> Nice {
    Nice::new(prng.below(40) as i64 - 20).expect("in range")
}

/// From a hundredth of a CPU to two of them.
fn quota(prng: &mut Prng) -> Quota {
    let period = DurationNs::from_ms([1, 5, 20, 100, 300][prng.below(5) as usize]);
    let runtime = DurationNs((period.0 / 100 * (1 + prng.below(200))).max(1_000_000));
    Quota { runtime, period }
}

fn mask(prng: &mut Prng, cpus: usize) -> CpuMask {
    let mut mask = CpuMask::EMPTY;
    for _ in 0..1 + prng.below(3) {
        mask.set(CpuId(prng.below(cpus as u64) as u32));
    }
    mask
}

/// A real-time task that stays in the root group, and changes groups and where tasks are.
fn gardener(scenario: &mut Scenario, prng: &mut Prng, cpus: usize, homes: &[GroupId]) {
    let tasks = scenario.tasks.len() as u64;
    let later: Vec<GroupId> = (0..scenario.groups.len())
        .filter(|at| scenario.groups[*at].later)
        .map(|at| GroupId(at as u32))
        .collect();
    let mut ops = Vec::new();
    for _ in 0..4 + prng.below(16) {
        let most = 20_000 >> prng.below(8);
        ops.push(Op::Sleep(DurationNs::from_us(20 + prng.below(most))));
        if prng.chance(1, 2) {
            let at = prng.below(homes.len() as u64 + later.len() as u64 + 1) as usize;
            let group = homes.iter().chain(&later).copied().nth(at);
            let change = ChangeId(scenario.changes.len() as u32);
            scenario.changes.push(Attribute::Group(group));
            ops.push(Op::Set { task: Some(TaskRef(prng.below(tasks) as u32)), change });
            continue;
        }
        let come_and_go = !later.is_empty() && prng.chance(1, 3);
        let (group, what) = if come_and_go {
            let group = later[prng.below(later.len() as u64) as usize];
            (group, if prng.chance(1, 2) { GroupChange::Make } else { GroupChange::Remove })
        } else {
            (GroupId(prng.below(scenario.groups.len() as u64) as u32), written(prng, cpus))
        };
        let change = GroupChangeId(scenario.group_changes.len() as u32);
        scenario.group_changes.push(what);
        ops.push(Op::SetGroup { group, change });
    }
    let builder = ProgramBuilder::new().repeat(Amount::Forever, |b| ops.iter().fold(b, |b, op| b.op(*op)));
    let program = ProgramId(scenario.programs.len() as u32);
    scenario.programs.push(builder.build().expect("a correct program"));
    scenario.tasks.push(TaskSpec {
        name: format!("gardener/{tasks}"),
        program,
        process: ProcessId(tasks as u32),
        nice: Nice::ZERO,
        policy: Policy::Fifo(98),
        slice: None,
        affinity: None,
        working_set_kib: 0,
        background: false,
        group: None,
        kernel_thread: false,
        identity: Identity::default(),
    });
}

/// What is written into a file of a group.
fn written(prng: &mut Prng, cpus: usize) -> GroupChange {
    match prng.below(7) {
        0 => GroupChange::Weight(weight(prng)),
        1 => GroupChange::Nice(nice(prng)),
        2 => GroupChange::Quota(None),
        3 => GroupChange::Quota(Some(quota(prng))),
        4 => GroupChange::Burst(DurationNs::from_us(prng.below(5_000))),
        5 => GroupChange::Idle(prng.chance(1, 2)),
        _ => GroupChange::Cpus(mask(prng, cpus)),
    }
}
