//! Groups in guest memory: `cgroup`, its `task_group`, the `css_set` of its tasks and its directory.
//!
//! The root has a place from the start. The others have theirs when a scheduler is attached: as many as the run has groups, and
//! some more. The place of a group that is gone stays as it was for as long as possible, and goes to the group that was made after
//! all others were taken. References are counted: a place that a program holds is taken only when no other is left. The kernel's
//! destructors of pointers in map values do not run here, so such a place counts as held.

use super::{Members, kernel_perm};
use crate::kernel_model::Offsets;
use schedlab_bpf::{GuestAddr, Memory, MemoryError};
use schedlab_sim::{Group, GroupIx, Kernel};
use schedlab_workload::GroupSettings;
use std::collections::{BTreeMap, BTreeSet};

/// Places beside one for each group. Chosen: a program may look at a few groups that are gone while others are made.
const SPARE: usize = 16;

/// `SCX_TG_ONLINE` and `SCX_TG_INITED`.
const TG_ONLINE: u32 = 1;
const TG_INITED: u32 = 2;
/// `CSS_NO_REF`, `CSS_ONLINE`, `CSS_VISIBLE` and `CSS_DYING`.
const CSS_NO_REF: u32 = 1;
const CSS_ONLINE: u32 = 1 << 1;
const CSS_VISIBLE: u32 = 1 << 3;
const CSS_DYING: u32 = 1 << 4;
/// The place of the controller in `cgroup.subsys`, `cpu_cgrp_id`.
const CPU_CONTROLLER: u64 = 1;
/// `css.id` of a controller: the root's, and the lowest that others can have (`css_create()`). A group's own `css` has 0.
const ROOT_CSS: u32 = 1;
const FIRST_CSS: u32 = 2;
/// `MAX_PATH` of trace points (`TRACE_CGROUP_PATH_LEN`).
const PATH_LEN: u64 = 1024;
/// `INT_MAX`: `cgroup.max.depth` of a group for which nothing is written there.
const NO_LIMIT: u32 = i32::MAX as u32;
/// `NICE_0_LOAD`, the shares of the root; `WEIGHT_IDLEPRIO`, those of an idle group before they are scaled.
const NICE_0_SHARES: u64 = 1 << 20;

/// Where the objects of one group are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    cgroup: GuestAddr,
    task_group: GuestAddr,
    css_set: GuestAddr,
    directory: GuestAddr,
    name: GuestAddr,
}

/// A `cgroup_subsys_state` that a program points at: of the group itself, or of its CPU controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Css {
    /// The group.
    pub(crate) group: GroupIx,
    /// It is that of the controller.
    pub(crate) of_controller: bool,
}

/// The groups of the run, by number of their place; the root has 0.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    offsets: Offsets,
    root: Place,
    /// The first place after the root's, and the distances of its parts.
    first: Place,
    stride: u64,
    /// Places after the root's.
    room: u32,
    /// By place: the group that has it, if it is there.
    owners: Vec<Option<GroupIx>>,
    /// By place: references that programs hold.
    held: Vec<u32>,
    /// By group.
    places: Vec<Option<u32>>,
    /// By number of the directory's inode.
    by_id: BTreeMap<u64, u32>,
    /// Places of groups that are gone: those that programs hold after all others, then in the order in which they went.
    gone: BTreeSet<(bool, u64, u32)>,
    /// By place: how many groups had gone before the one that had it last.
    went: Vec<u64>,
    /// Groups that have gone.
    departures: u64,
    /// Numbers of controllers' states (`css.id`) that are free again, and the first that was never used.
    free_css: BTreeSet<u32>,
    next_css: u32,
    /// The text of a trace point.
    path: GuestAddr,
}

impl Groups {
    /// Maps the root and fills it.
    pub(super) fn new(mem: &mut Memory, offsets: &Offsets) -> Result<Groups, MemoryError> {
        let mut place = |size: u64| mem.map(size, kernel_perm());
        let css_set = place(offsets.css_set.size)?;
        let task_group = place(offsets.task_group.size)?;
        let cgroup = place(offsets.cgroup.size)?;
        let directory = place(offsets.directory.size)?;
        // A root's name is empty: the zeros behind its number.
        let name = directory.offset(offsets.directory.parent);
        let groups = Groups {
            offsets: *offsets,
            root: Place { cgroup, task_group, css_set, directory, name },
            first: Place::default(),
            stride: 0,
            room: 0,
            owners: vec![Some(GroupIx::ROOT)],
            held: vec![0],
            places: vec![Some(0)],
            by_id: BTreeMap::from([(1, 0)]),
            gone: BTreeSet::new(),
            went: vec![0],
            departures: 0,
            free_css: BTreeSet::new(),
            next_css: FIRST_CSS,
            path: GuestAddr::NULL,
        };
        groups.write_fixed(mem, 0, &Fixed { css: ROOT_CSS, id: 1, level: 0, above: None, name: "" });
        groups.write_knobs(mem, 0, &Knobs::ROOT);
        Ok(groups)
    }

    /// Makes room for the groups of a run, and shows those that exist.
    ///
    /// # Errors
    /// No room in guest memory.
    pub(crate) fn prepare(&mut self, k: &Kernel, mem: &mut Memory) -> Result<(), MemoryError> {
        let groups = k.groups();
        if groups.is_flat() {
            return Ok(());
        }
        debug_assert!(self.room == 0, "a scheduler is attached once");
        let below = groups.iter().skip(1);
        let (count, deepest, longest) = below.fold((0, 0, 0), |(count, deepest, longest), (_, group)| {
            (count + 1, group.level.max(deepest), name_of(group).len().max(longest))
        });
        let of = &self.offsets;
        let up = |bytes: u64| bytes.next_multiple_of(64);
        let task_group = up(of.cgroup.size + 8 * u64::from(deepest));
        let css_set = task_group + up(of.task_group.size);
        let directory = css_set + up(of.css_set.size);
        let name = directory + up(of.directory.size);
        self.stride = name + up(longest as u64 + 1);
        self.room = (count + SPARE) as u32;
        let base = mem.map(self.stride * u64::from(self.room), kernel_perm())?;
        let [task_group, css_set, directory, name] =
            [task_group, css_set, directory, name].map(|at| base.offset(at));
        self.first = Place { cgroup: base, task_group, css_set, directory, name };
        self.path = mem.map(PATH_LEN, kernel_perm())?;
        self.places.resize(count + 1, None);
        for (group, entry) in groups.iter() {
            if entry.life.exists() {
                self.show(k, group, mem);
                self.by_id.extend(self.places[group.index()].map(|number| (entry.id, number)));
            }
        }
        Ok(())
    }

    fn place(&self, number: u32) -> Place {
        if number == 0 {
            return self.root;
        }
        debug_assert!(number <= self.room, "the place is one of the table");
        let away = u64::from(number - 1) * self.stride;
        let Place { cgroup, task_group, css_set, directory, name } = self.first;
        let [cgroup, task_group, css_set, directory, name] =
            [cgroup, task_group, css_set, directory, name].map(|at| at.offset(away));
        Place { cgroup, task_group, css_set, directory, name }
    }

    /// The place of a group; the root's for one that is not there.
    fn place_of(&self, group: GroupIx) -> u32 {
        self.places.get(group.index()).copied().flatten().unwrap_or(0)
    }

    /// The `cgroup` of a group.
    pub(crate) fn cgroup(&self, group: GroupIx) -> GuestAddr {
        self.place(self.place_of(group)).cgroup
    }

    /// The `task_group` and the `css_set` that the group's tasks point at.
    pub(super) fn of_tasks(&self, group: GroupIx) -> (GuestAddr, GuestAddr) {
        let place = self.place(self.place_of(group));
        (place.task_group, place.css_set)
    }

    /// The `css` of a group, or of its CPU controller.
    pub(crate) fn css(&self, css: Css) -> GuestAddr {
        let place = self.place(self.place_of(css.group));
        if css.of_controller { place.task_group } else { place.cgroup }
    }

    /// The place that an address is the start of, as a `cgroup` or a `task_group`.
    fn at(&self, addr: GuestAddr) -> Option<(u32, bool)> {
        let known = |number: u32| {
            let place = self.place(number);
            let of_controller = place.task_group == addr;
            (place.cgroup == addr || of_controller).then_some((number, of_controller))
        };
        known(0).or_else(|| {
            let away = addr.0.checked_sub(self.first.cgroup.0).filter(|_| self.room > 0)?;
            let number = u32::try_from(away / self.stride).ok()?.checked_add(1)?;
            ((number as usize) < self.owners.len()).then(|| known(number)).flatten()
        })
    }

    /// The place of a `cgroup`, whether its group is there or gone.
    pub(crate) fn place_at(&self, cgroup: GuestAddr) -> Option<u32> {
        self.at(cgroup).filter(|(_, of_controller)| !of_controller).map(|(number, _)| number)
    }

    /// The place of a `cgroup` whose group exists.
    pub(crate) fn living_at(&self, cgroup: GuestAddr) -> Option<u32> {
        self.place_at(cgroup).filter(|number| self.owners[*number as usize].is_some())
    }

    /// The group that has this place.
    pub(crate) fn owner(&self, place: u32) -> Option<GroupIx> {
        self.owners[place as usize]
    }

    /// The `css` at an address, if its group exists.
    pub(crate) fn css_at(&self, addr: GuestAddr) -> Option<Css> {
        let (number, of_controller) = self.at(addr)?;
        self.owners[number as usize].map(|group| Css { group, of_controller })
    }

    /// The `cgroup` with this number.
    pub(crate) fn by_id(&self, id: u64) -> Option<GuestAddr> {
        self.by_id.get(&id).map(|number| self.place(*number).cgroup)
    }

    /// A program has one reference more to what lies at a place: false if the group is gone and nothing holds it any more.
    pub(crate) fn hold(&mut self, place: u32) -> bool {
        let held = self.held[place as usize];
        let there = held > 0 || self.owners[place as usize].is_some();
        self.set_held(place, held + u32::from(there));
        there
    }

    /// A program has one reference less.
    pub(crate) fn release(&mut self, place: u32) {
        self.set_held(place, self.held[place as usize].saturating_sub(1));
    }

    fn set_held(&mut self, place: u32, held: u32) {
        let before = std::mem::replace(&mut self.held[place as usize], held);
        let entry = |held: u32| (held > 0, self.went[place as usize], place);
        if (before > 0) != (held > 0) && self.gone.remove(&entry(before)) {
            self.gone.insert(entry(held));
        }
    }

    /// Shows a group as it is now; gives it a place if it has none. Its number leads to it from the second time on, as its directory
    /// is there after `ops.cgroup_init()` alone (`cgroup_mkdir()`).
    pub(crate) fn show(&mut self, k: &Kernel, group: GroupIx, mem: &mut Memory) {
        let entry = k.groups().get(group);
        let number = match self.places.get(group.index()).copied().flatten() {
            Some(number) => {
                self.by_id.insert(entry.id, number);
                number
            }
            None => {
                let number = self.claim(group);
                let above = entry.parent.map(|parent| self.place_of(parent));
                let css = self.claim_css();
                let fixed = Fixed { css, id: entry.id, level: entry.level, above, name: name_of(entry) };
                self.write_fixed(mem, number, &fixed);
                number
            }
        };
        self.write_knobs(mem, number, &Knobs::of(entry));
        let below = self.place(number).cgroup.offset(self.offsets.cgroup.nr_descendants);
        mem.write_u32(below, entry.nr_descendants).expect("places are mapped");
    }

    /// `idr_alloc()`: the lowest number that is free.
    fn claim_css(&mut self) -> u32 {
        self.free_css.pop_first().unwrap_or_else(|| {
            self.next_css += 1;
            self.next_css - 1
        })
    }

    fn claim(&mut self, group: GroupIx) -> u32 {
        let number = if self.owners.len() <= self.room as usize {
            self.owners.push(None);
            self.held.push(0);
            self.went.push(0);
            self.owners.len() as u32 - 1
        } else {
            self.gone.pop_first().expect("there are more places than groups").2
        };
        (self.owners[number as usize], self.held[number as usize]) = (Some(group), 0);
        self.places[group.index()] = Some(number);
        number
    }

    /// A group's directory is gone, so that nothing finds it any more; its controllers stay until `ops.cgroup_exit()` has
    /// returned (`cgroup_destroy_locked()`).
    pub(crate) fn die(&mut self, group: GroupIx, mem: &mut Memory) {
        let (place, of) = (self.place(self.place_of(group)), &self.offsets);
        let id = mem.read_u64(place.directory.offset(of.directory.id)).expect("places are mapped");
        self.by_id.remove(&id);
        let states = [
            (place.cgroup.offset(of.cgroup.flags), 0),
            (place.task_group.offset(of.task_group.css_flags), CSS_ONLINE | CSS_DYING),
        ];
        for (flags, value) in states {
            mem.write_u32(flags, value).expect("places are mapped");
        }
    }

    /// A group is gone; returns which place it had.
    pub(crate) fn remove(&mut self, group: GroupIx, mem: &mut Memory) -> Option<u32> {
        self.places.get(group.index()).copied().flatten()?;
        self.die(group, mem);
        let number = self.places[group.index()].take()?;
        debug_assert!(number > 0, "the root stays");
        self.owners[number as usize] = None;
        self.departures += 1;
        self.went[number as usize] = self.departures;
        self.gone.insert((self.held[number as usize] > 0, self.departures, number));
        let (place, of) = (self.place(number), self.offsets);
        let css = mem.read_u32(place.task_group.offset(of.task_group.css_id)).expect("places are mapped");
        self.free_css.insert(css);
        mem.write_u32(place.task_group.offset(of.task_group.css_flags), CSS_DYING)
            .expect("places are mapped");
        mem.write_u32(place.task_group.offset(of.task_group.flags), 0).expect("places are mapped");
        Some(number)
    }

    /// The path of a group as trace points have it.
    pub(crate) fn write_path(&self, k: &Kernel, group: GroupIx, mem: &mut Memory) -> u64 {
        let text = format!("/{}", k.groups().get(group).path);
        write_text(mem, self.path, PATH_LEN, &text);
        self.path.0
    }

    /// What is written into `cpuset.cpus`: where it is, and how long.
    pub(crate) fn write_cpus(&self, k: &Kernel, group: GroupIx, mem: &mut Memory) -> (u64, u64) {
        let text = k.groups().get(group).cpus.map_or_else(String::new, |cpus| cpus.to_string());
        write_text(mem, self.path, PATH_LEN, &text);
        (self.path.0, (text.len() as u64).min(PATH_LEN - 1))
    }

    /// What does not change while the group is there.
    fn write_fixed(&self, mem: &mut Memory, number: u32, fixed: &Fixed<'_>) {
        let Fixed { css, id, level, above, name } = *fixed;
        let (place, of) = (self.place(number), &self.offsets);
        if number > 0 {
            mem.slice_mut(place.cgroup, self.stride).expect("places are mapped").fill(0);
            write_text(mem, place.name, name.len() as u64 + 1, name);
        }
        let at = of.cgroup;
        let mut words = vec![
            (place.css_set.offset(of.css_set.dfl_cgrp), place.cgroup.0),
            (place.css_set.offset(of.css_set.subsys + 8 * CPU_CONTROLLER), place.task_group.0),
            (place.task_group.offset(of.task_group.css_cgroup), place.cgroup.0),
            (place.cgroup.offset(at.kn), place.directory.0),
            (place.cgroup.offset(at.self_cgroup), place.cgroup.0),
            // It grows with each group that is made.
            (place.cgroup.offset(at.serial), if number == 0 { 0 } else { id }),
            (place.cgroup.offset(at.subsys + 8 * CPU_CONTROLLER), place.task_group.0),
            (place.cgroup.offset(at.ancestors + 8 * u64::from(level)), place.cgroup.0),
            (place.directory.offset(of.directory.id), id),
            (place.directory.offset(of.directory.name), place.name.0),
        ];
        if let Some(above) = above.map(|above| self.place(above)) {
            words.extend([
                (place.task_group.offset(of.task_group.css_parent), above.task_group.0),
                (place.cgroup.offset(at.self_parent), above.cgroup.0),
                (place.directory.offset(of.directory.parent), above.directory.0),
            ]);
            for level in 0..u64::from(level) {
                let from = above.cgroup.offset(at.ancestors + 8 * level);
                words.push((place.cgroup.offset(at.ancestors + 8 * level), mem.read_u64(from).unwrap_or(0)));
            }
        }
        for (addr, value) in words {
            mem.write_u64(addr, value).expect("places are mapped");
        }
        let root = if number == 0 { CSS_NO_REF } else { 0 };
        let numbers = [
            (place.cgroup.offset(at.level), level),
            (place.cgroup.offset(at.max_depth), NO_LIMIT),
            (place.cgroup.offset(at.flags), root | CSS_ONLINE | CSS_VISIBLE),
            (place.task_group.offset(of.task_group.css_id), css),
            (place.task_group.offset(of.task_group.css_flags), root | CSS_ONLINE | CSS_VISIBLE),
        ];
        for (addr, value) in numbers {
            mem.write_u32(addr, value).expect("places are mapped");
        }
    }

    /// What changes while it is there.
    fn write_knobs(&self, mem: &mut Memory, number: u32, knobs: &Knobs) {
        let (place, at) = (self.place(number), self.offsets.task_group);
        let whole = mem.slice_mut(place.task_group, at.size).expect("places are mapped");
        let mut object = Members(whole);
        object.u32(at.flags, TG_ONLINE | if knobs.inited { TG_INITED } else { 0 });
        object.u32(at.weight, knobs.weight);
        object.u64(at.period, knobs.period_us);
        object.u64(at.quota, knobs.quota_us);
        object.u64(at.burst, knobs.burst_us);
        object.bytes(at.scx_idle, &[u8::from(knobs.idle)]);
        object.u32(at.idle, u32::from(knobs.idle));
        object.u64(at.shares, knobs.shares);
    }
}

/// What a group's objects say as long as it is there.
struct Fixed<'a> {
    /// The number of its controller's state.
    css: u32,
    /// That of its directory.
    id: u64,
    level: u32,
    /// The place of the group above.
    above: Option<u32>,
    name: &'a str,
}

/// What a `task_group` says.
struct Knobs {
    inited: bool,
    weight: u32,
    period_us: u64,
    quota_us: u64,
    burst_us: u64,
    idle: bool,
    shares: u64,
}

impl Knobs {
    /// Those of the root, which has no files for them.
    const ROOT: Knobs = Knobs {
        inited: true,
        weight: 100,
        period_us: 100_000,
        quota_us: u64::MAX,
        burst_us: 0,
        idle: false,
        shares: NICE_0_SHARES,
    };

    fn of(group: &Group) -> Knobs {
        let knobs = group.knobs;
        // `scale_load()`.
        let settings = GroupSettings { idle: knobs.idle, ..group.settings };
        let shares = u64::from(settings.load_weight()) << 10;
        Knobs {
            inited: group.inited,
            weight: knobs.weight,
            period_us: knobs.period_us,
            quota_us: knobs.quota_us,
            burst_us: knobs.burst_us,
            idle: knobs.idle,
            shares,
        }
    }
}

/// The name of a group's directory.
fn name_of(group: &Group) -> &str {
    group.path.rsplit('/').next().unwrap_or_default()
}

/// Writes a text with its closing zero, cut to the room there is.
fn write_text(mem: &mut Memory, addr: GuestAddr, room: u64, text: &str) {
    let to = mem.slice_mut(addr, room).expect("places are mapped");
    let len = text.len().min(to.len() - 1);
    to[..len].copy_from_slice(&text.as_bytes()[..len]);
    to[len] = 0;
}
