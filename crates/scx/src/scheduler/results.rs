//! What a scheduler shows of itself during a run and after it.

use super::BpfScheduler;
use crate::callbacks::called_by_core;
use crate::helpers::Message;
use crate::paths::{Call, Paths};
use crate::priority::PriorityWatch;
use schedlab_base::DurationNs;
use schedlab_bpf::GuestAddr;
use schedlab_bpf::link::ImageVariable;
use schedlab_bpf::memory::ARENA_BASE;
use schedlab_sim::OpKind;
use schedlab_trace::{CallbackCost, PriorityCourse};

impl BpfScheduler {
    /// The scheduler's own counters ([`schedlab_bpf::object::Object::counters`]) as they are now, in order of name.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let read = |(name, addr): &(String, GuestAddr)| Some((name.clone(), self.mem.read_u64(*addr).ok()?));
        self.counters.iter().filter_map(read).collect()
    }

    /// The object's other integers ([`schedlab_bpf::object::Object::integers`]) that are not what they were when it was loaded,
    /// in order of name. What is below 0 counts nothing, and is left to the tables of variables.
    pub fn changed_integers(&self) -> Vec<(String, u64)> {
        let now = |(name, signed, before): &(String, bool, u64)| {
            let counts = |now: &u64| now != before && (!signed || now.cast_signed() >= 0);
            let now = self.variable(name).ok().filter(counts)?;
            Some((name.clone(), now))
        };
        self.integers.iter().filter_map(now).collect()
    }

    /// The bytes of the scheduler's tables ([`schedlab_bpf::object::Object::tables`]) as they are now, in order of name.
    pub fn tables(&self) -> Vec<(String, Vec<u8>)> {
        let read = |(name, place): &(String, ImageVariable)| {
            Some((name.clone(), self.mem.slice(place.addr, place.size).ok()?.to_vec()))
        };
        self.tables.iter().filter_map(read).collect()
    }

    /// Passes through `schedule()` in which the counter of this name rises are marked.
    ///
    /// # Errors
    /// A sentence: no such counter, and which there are.
    pub fn mark_by(&mut self, counter: &str) -> Result<(), String> {
        let found = self.counters.iter().find(|(name, _)| name == counter);
        self.mark = Some(found.map(|&(_, addr)| addr).ok_or_else(|| {
            let names: Vec<&str> = self.counters.iter().map(|(name, _)| name.as_str()).collect();
            let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            format!("no counter named '{counter}'; it has: {known}")
        })?);
        Ok(())
    }

    /// Watches the priorities of tasks from now on. False: the object does not show them.
    pub fn watch_priorities(&mut self) -> bool {
        self.priorities = self.priority_place.map(PriorityWatch::new);
        self.attended |= self.priorities.is_some();
        self.priorities.is_some()
    }

    /// How the priorities of tasks went, by [`schedlab_base::TaskId`]; nothing where they were not
    /// watched.
    pub fn priorities(&self) -> &[PriorityCourse] {
        self.priorities.as_ref().map_or(&[], |watch| watch.seen.courses())
    }

    /// What the programs printed with `bpf_printk()`, those of sub-schedulers too: the first lines, and the number of all.
    pub fn messages(&self) -> (Vec<Message>, u64) {
        let own = &self.state.messages;
        let (mut lines, mut count) = (own.lines.clone(), own.count);
        for child in self.state.children.iter() {
            let (more, number) = child.messages();
            lines.extend(more);
            count += number;
        }
        lines.sort_by_key(|line| line.order);
        (lines, count)
    }

    /// Keeps from now on which ways the callbacks take through their programs.
    pub fn follow_paths(&mut self) {
        self.state.paths = Some(Box::new(Paths::default()));
        self.attended = true;
    }

    /// The ways that the callbacks took, a number each; nothing where they were not followed.
    pub fn paths(&self) -> Vec<u64> {
        self.state.paths.as_ref().map(|paths| paths.seen()).unwrap_or_default()
    }

    /// The last calls of callbacks, the oldest first; nothing where they were not followed.
    pub fn last_calls(&self) -> Vec<Call> {
        let known: Vec<(OpKind, &'static str)> =
            called_by_core().filter_map(|(op, row)| Some((op, row.name(self.cid_form)?))).collect();
        let name = |op: OpKind| match known.iter().find(|(known, _)| *known == op) {
            Some((_, name)) => name,
            None if op == OpKind::Timer => "timer",
            None => "tracing",
        };
        self.state.paths.as_ref().map(|paths| paths.last(name)).unwrap_or_default()
    }

    /// What the callbacks that were called cost so far, in the order of [`OpKind`]; timers and trace points last.
    pub fn callback_costs(&self) -> Vec<CallbackCost> {
        let named = called_by_core().filter_map(|(op, row)| Some((op, row.name(self.cid_form)?)));
        let mut named: Vec<(OpKind, &str)> = named.collect();
        named.sort_by_key(|(op, _)| *op as usize);
        let all = named.into_iter().chain([(OpKind::Timer, "timer"), (OpKind::Tracing, "tracing")]);
        let cost = |(op, name): (OpKind, &str)| {
            let (all, op) = (&self.costs, op as usize);
            let (calls, insns, time) = (all.calls[op], all.insns[op], all.time[op]);
            CallbackCost { name: name.to_string(), calls, insns: Some(insns), time: DurationNs(time) }
        };
        all.map(cost).filter(|cost| cost.calls > 0).collect()
    }

    /// The sub-scheduler that was added as this one of all, from 0.
    pub fn sub_scheduler(&self, number: usize) -> Option<&BpfScheduler> {
        if let Some(Some(waits)) = self.subs.objects.get(number) {
            return Some(waits);
        }
        let children = self.state.children.iter();
        children
            .clone()
            .find(|child| child.subs.number == Some(number))
            .or_else(|| children.filter_map(|child| child.sub_scheduler(number)).next())
    }

    /// A global variable, or an element or member of one (`counts[3]`), as a number.
    ///
    /// # Errors
    /// A sentence: no such variable, or not a number.
    pub fn variable(&self, path: &str) -> Result<u64, String> {
        self.image.read_variable(path, &self.mem)
    }

    /// A member (`.base.pid`) of the object's struct `name` that lies in its arena, where `pointer`, a value that
    /// [`BpfScheduler::variable`] or this function gave, points to.
    ///
    /// # Errors
    /// A sentence: no such struct or member, not a number, or nothing in the arena at that place.
    pub fn arena_member(&self, name: &str, pointer: u64, path: &str) -> Result<u64, String> {
        // Arena pointers differ in their high halves: the object's own view and the user's.
        let addr = GuestAddr(ARENA_BASE | pointer & 0xffff_ffff);
        self.image.read_member(name, addr, path, &self.mem)
    }

    /// A copy of `len` bytes of the object's arena where `pointer`, as above, points to; nothing outside of it.
    pub fn arena_bytes(&self, pointer: u64, len: u64) -> Option<Vec<u8>> {
        let addr = GuestAddr(ARENA_BASE | pointer & 0xffff_ffff);
        self.mem.slice(addr, len).ok().map(<[u8]>::to_vec)
    }
}
