//! Which variables, maps and source lines of an object make cache lines move between CPUs.

use crate::scheduler::BpfScheduler;
use schedlab_bpf::GuestAddr;
use schedlab_bpf::btf::TypeId;
use schedlab_bpf::link::ImageVariable;
use schedlab_trace::SchedulerTable;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

/// Rows of each table. Chosen: what a person reads.
const SHOWN: usize = 64;

/// A thing in the object's memory that has a name.
struct Named {
    name: String,
    start: GuestAddr,
    size: u64,
    ty: Option<TypeId>,
}

/// The variables at places that are asked for in ascending order: an object may have many variables, and many lines that move.
struct Sweep<'a> {
    /// The variables that lie further on, the nearest last, and those that reach up to the present place, by name.
    ahead: Vec<(&'a String, &'a ImageVariable)>,
    here: BTreeMap<&'a String, &'a ImageVariable>,
    /// Where those of `here` end, the nearest first.
    ends: BinaryHeap<Reverse<(u64, &'a String)>>,
}

impl<'a> Sweep<'a> {
    fn new(variables: &'a BTreeMap<String, ImageVariable>) -> Sweep<'a> {
        let mut ahead: Vec<_> = variables.iter().collect();
        ahead.sort_by_key(|(_, variable)| Reverse(variable.addr.0));
        Sweep { ahead, here: BTreeMap::new(), ends: BinaryHeap::new() }
    }

    /// The first by name of those that lie in `range`.
    fn first_within(&mut self, range: Range<u64>) -> Option<(&'a String, &'a ImageVariable)> {
        debug_assert!(range.start < range.end, "a line has bytes");
        while let Some((name, variable)) = self.ahead.pop_if(|(_, variable)| variable.addr.0 < range.end) {
            self.here.insert(name, variable);
            self.ends.push(Reverse((variable.addr.0 + variable.size.max(1), name)));
        }
        while let Some(Reverse((end, name))) = self.ends.peek().copied()
            && end <= range.start
        {
            self.ends.pop();
            self.here.remove(name);
        }
        self.here.first_key_value().map(|(name, variable)| (*name, *variable))
    }
}

/// Transfers of one symbol.
#[derive(Default)]
struct Symbol {
    moved: u64,
    /// Of its line that moved most: how often, and what lies in it.
    most: (u64, String),
}

impl BpfScheduler {
    /// Whether cache lines of the scheduler's memory are followed: the machine prices them and has several CPUs.
    pub fn follows_lines(&self) -> bool {
        self.mem.follows_lines()
    }

    /// The variables and maps whose cache lines moved between CPUs, those that did most first; nothing where lines are not
    /// followed. `switches` is what figures are made per.
    pub fn lines_by_symbol(&self, switches: u64) -> Option<SchedulerTable> {
        let bytes = self.mem.line_bytes()?;
        let (lines, gone) = self.mem.moved_lines();
        let mut symbols: BTreeMap<String, Symbol> = BTreeMap::new();
        let mut variables = Sweep::new(&self.image.variables);
        for (at, moved) in lines {
            let (name, holds) = self.line_contents(at, bytes, &mut variables);
            let symbol = symbols.entry(name).or_default();
            symbol.moved += moved;
            if moved > symbol.most.0 {
                symbol.most = (moved, holds);
            }
        }
        if gone > 0 {
            symbols.insert("(memory given back)".into(), Symbol { moved: gone, ..Symbol::default() });
        }
        let row = |(name, symbol): (String, Symbol)| {
            (symbol.moved, vec![name, symbol.most.1, symbol.most.0.to_string()])
        };
        let meaning = format!("transfers of cache lines ({bytes} bytes) between CPUs, by variable or map");
        let columns = ["symbol", "its line that moved most", "times"];
        Some(table("lines", meaning, &columns, symbols.into_iter().map(row).collect(), switches))
    }

    /// The lines that moved most, one by one, and the places of the source that made lines move; for a user that looks for
    /// the cause.
    pub fn line_profile(&self, switches: u64) -> Vec<SchedulerTable> {
        let Some(bytes) = self.mem.line_bytes() else { return Vec::new() };
        let (lines, _) = self.mem.moved_lines();
        let mut variables = Sweep::new(&self.image.variables);
        let by_line = lines.into_iter().map(|(at, moved)| {
            let (name, holds) = self.line_contents(at, bytes, &mut variables);
            (moved, vec![at.to_string(), if holds.is_empty() { name } else { holds }])
        });
        let mut places: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for (op, moved) in (0..).zip(self.mem.moved_by_op()).filter(|(_, moved)| **moved > 0) {
            let at = self.image.code.location(op);
            let line = self.image.source_line(&at).unwrap_or_else(|| format!("instruction {}", at.insn));
            *places.entry(vec![at.function.clone(), line]).or_default() += u64::from(*moved);
        }
        let by_place = places.into_iter().map(|(cells, moved)| (moved, cells)).collect();
        let of = |what: &str| format!("transfers of cache lines ({bytes} bytes) between CPUs, {what}");
        vec![
            table("lines by address", of("line by line"), &["address", "holds"], by_line.collect(), switches),
            table(
                "lines by source",
                of("by the place of the source whose access made them move"),
                &["function", "source"],
                by_place,
                switches,
            ),
        ]
    }

    /// The symbol that a line belongs to, and what of it lies there; of several symbols the first.
    fn line_contents(&self, at: GuestAddr, bytes: u64, variables: &mut Sweep<'_>) -> (String, String) {
        let Some(found) = self.named_at(at, bytes, variables) else {
            let what = if at.is_arena() { "arena, allocated" } else { "memory without a name" };
            return (what.into(), at.to_string());
        };
        let from = at.0.max(found.start.0) - found.start.0;
        let last = (at.0 + bytes).min(found.start.0 + found.size) - found.start.0 - 1;
        debug_assert!(from <= last, "the line and what it holds overlap");
        let path = |offset| found.ty.map_or_else(String::new, |ty| self.image.types.path_to(ty, offset));
        // A line may end in padding.
        let (first, last) = (path(from), (from..=last).rev().map(path).find(|path| !path.is_empty()));
        let last = last.unwrap_or_default();
        let holds = match first == last {
            true => format!("{}{first}", found.name),
            false => format!("{}{first} to {last}", found.name),
        };
        (found.name, holds)
    }

    /// The first variable or value of a map in a line.
    fn named_at(&self, at: GuestAddr, bytes: u64, variables: &mut Sweep<'_>) -> Option<Named> {
        if let Some((name, variable)) = variables.first_within(at.0..at.0 + bytes) {
            let (start, size, ty) = (variable.addr, variable.size, variable.ty);
            return Some(Named { name: name.to_string(), start, size, ty });
        }
        let maps = &self.state.runtime.maps;
        // A line may begin before its first value.
        let mut words = (at.0..at.0 + bytes).step_by(8).map(GuestAddr);
        let (id, start) = words.find_map(|word| maps.value_around(word, &self.mem))?;
        let map = maps.get(id)?;
        let ty = self.map_types.iter().find(|types| types.map == id).and_then(|types| types.value);
        Some(Named { name: map.name().to_string(), start, size: u64::from(map.value_size()), ty })
    }
}

/// A table of transfers: rows of how often and cells, the most first.
fn table(
    name: &str,
    meaning: String,
    columns: &[&str],
    mut rows: Vec<(u64, Vec<String>)>,
    switches: u64,
) -> SchedulerTable {
    rows.sort_by(|(a, cells), (b, others)| b.cmp(a).then_with(|| cells.cmp(others)));
    let all: u64 = rows.iter().map(|(moved, _)| moved).sum();
    debug_assert!(all > 0 || rows.is_empty(), "a row has transfers");
    let more = rows.len().saturating_sub(SHOWN);
    let meaning = if more > 0 { format!("{meaning}; {more} more are left out") } else { meaning };
    let full = |(moved, cells): (u64, Vec<String>)| {
        let share = 100.0 * moved as f64 / all as f64;
        let per_switch = moved as f64 / switches.max(1) as f64;
        let figures = [moved.to_string(), format!("{share:.1}"), format!("{per_switch:.3}")];
        cells.into_iter().chain(figures).collect()
    };
    let figures = ["transfers", "percent", "per switch"];
    SchedulerTable {
        name: name.into(),
        meaning,
        columns: columns.iter().chain(&figures).map(ToString::to_string).collect(),
        rows: rows.into_iter().take(SHOWN).map(full).collect(),
    }
}
