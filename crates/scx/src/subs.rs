//! The sub-schedulers of an object: others that a run attaches below it.

use crate::scheduler::BpfScheduler;
use schedlab_base::DurationNs;
use schedlab_bpf::btf::Btf;
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::object::SUB_GROUP;
use schedlab_bpf::{GuestAddr, Memory, MemoryError, Perm};
use schedlab_sim::{Kernel, OpKind, SchedIx, SubWish};
use std::collections::BTreeMap;

/// Room for the path of a group (`PATH_MAX`).
const PATH_BYTES: u64 = 4096;

/// What a scheduler has to do with sub-schedulers outside of its state.
#[derive(Debug, Default)]
pub(crate) struct Subs {
    /// Those that a run attaches, by number.
    pub(crate) wishes: Vec<SubWish>,
    /// The objects of those that are not attached yet, by number.
    pub(crate) objects: Vec<Option<Box<BpfScheduler>>>,
    /// Where the arguments of callbacks about them are, if there were any.
    args: Option<SubArgs>,
    /// Which of the sub-schedulers of a run it is itself.
    pub(crate) number: Option<usize>,
}

/// The children of a scheduler. A copy of what was loaded has none: they are attached in a run.
#[derive(Debug, Default)]
pub(crate) struct Children(BTreeMap<SchedIx, Box<BpfScheduler>>);

impl Clone for Children {
    fn clone(&self) -> Children {
        assert!(self.0.is_empty(), "a scheduler with children is not copied");
        Children::default()
    }
}

impl Children {
    /// Takes a child out while it runs inside of a call of its parent; nothing if it runs already.
    pub(crate) fn take(&mut self, ix: SchedIx) -> Option<Box<BpfScheduler>> {
        self.0.remove(&ix)
    }

    pub(crate) fn put(&mut self, ix: SchedIx, child: Box<BpfScheduler>) {
        self.0.insert(ix, child);
    }

    pub(crate) fn get(&mut self, ix: SchedIx) -> &mut BpfScheduler {
        self.0.get_mut(&ix).expect("a child was adopted")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &BpfScheduler> + Clone {
        self.0.values().map(|child| &**child)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut BpfScheduler> {
        self.0.values_mut().map(|child| &mut **child)
    }
}

/// `struct scx_sub_attach_args` and what it points to, in a parent's memory.
#[derive(Clone, Copy, Debug)]
struct SubArgs {
    args: GuestAddr,
    ops: GuestAddr,
    path: GuestAddr,
    /// Where the members lie in `struct sched_ext_ops`: the group's number, and the name with its size.
    id_at: u64,
    name_at: u64,
    name_bytes: u64,
}

impl SubArgs {
    /// Maps them.
    fn new(btf: &Btf, mem: &mut Memory) -> Result<SubArgs, MemoryError> {
        let ops = btf.find_struct("sched_ext_ops").expect("the model has sched_ext_ops");
        let at = |name| btf.member(ops, name).map_or(0, |member| member.offset());
        let size = btf.size_of(ops).unwrap_or(0);
        let page = mem.map(16 + size + PATH_BYTES, Perm::READ)?;
        let args = SubArgs {
            args: page,
            ops: page.offset(16),
            path: page.offset(16 + size),
            id_at: at(SUB_GROUP),
            name_at: at("name"),
            name_bytes: 128,
        };
        mem.write_u64(args.args, args.ops.0).expect("just mapped");
        mem.write_u64(args.args.offset(8), args.path.0).expect("just mapped");
        Ok(args)
    }

    /// Fills them for one sub-scheduler; where they are.
    fn write(&self, (id, name, path): (u64, &str, &str), mem: &mut Memory) -> u64 {
        let mut text = |at: GuestAddr, text: &str, room: u64| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.truncate(room as usize - 1);
            bytes.push(0);
            mem.write(at, &bytes).expect("mapped when the first child came");
        };
        text(self.ops.offset(self.name_at), name, self.name_bytes);
        text(self.path, path, PATH_BYTES);
        mem.write_u64(self.ops.offset(self.id_at), id).expect("mapped when the first child came");
        self.args.0
    }
}

impl BpfScheduler {
    /// Has each run attach `sub` to a group, by its path from below the root, at this time.
    ///
    /// # Errors
    /// If the kernel would never take it: it is of the CPU form, or has sub-schedulers of its own that were added to it.
    pub fn add_sub(&mut self, group: &str, at: DurationNs, sub: BpfScheduler) -> Result<(), LoadError> {
        let refuse = |problem: &str, cure: &str| {
            let place = format!("the sub-scheduler of group `{group}`");
            Err(LoadError::new(LoadErrorKind::Malformed, place, problem, cure))
        };
        if !sub.cid_form || !self.cid_form {
            return refuse(
                "a sub-scheduler and the schedulers above it must be of the cid form",
                "use struct sched_ext_ops_cid",
            );
        }
        if !sub.subs.wishes.is_empty() {
            return refuse(
                "it has sub-schedulers of its own",
                "add all of them to the root scheduler; the groups say which is below which",
            );
        }
        let mut sub = sub;
        sub.subs.number = Some(self.subs.objects.len());
        self.subs.wishes.push(SubWish { group: group.to_string(), at });
        self.subs.objects.push(Some(Box::new(sub)));
        Ok(())
    }

    /// The pointer to the arguments of `ops.sub_attach()` and `ops.sub_detach()`; nothing without room for them.
    pub(crate) fn sub_args(&mut self, k: &Kernel, child: SchedIx) -> Option<u64> {
        let args = match self.subs.args {
            Some(args) => args,
            None => {
                let args = SubArgs::new(&self.state.btf, &mut self.mem).ok()?;
                *self.subs.args.insert(args)
            }
        };
        let path = k.sched_path(child);
        let name = k.sched_name(child);
        Some(args.write((k.sched_group_id(child), &name, &path), &mut self.mem))
    }

    /// Tells the object the number of its group, where it has a variable for that.
    pub(crate) fn set_group_variable(&mut self, k: &Kernel) {
        if let Some(variable) = self.image.variables.get(SUB_GROUP) {
            let id = k.sched_group_id(k.sched_here());
            let written = self.mem.write_u64(variable.addr, id);
            debug_assert!(written.is_ok(), "the variable has this place since the object was linked");
        }
    }

    /// Runs a callback that answers with an errno, or with nothing where it is not there.
    pub(crate) fn call_sub_op(&mut self, k: &mut Kernel, op: OpKind, child: SchedIx) -> u64 {
        match self.sub_args(k, child) {
            Some(args) => self.call(k, op, &[args]),
            None => -i64::from(schedlab_sim::flags::errno::ENOMEM) as u64,
        }
    }
}
