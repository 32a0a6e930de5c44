//! What programs refer to, with all functions that they can call: variables, maps and kernel functions.

use super::Object;
use crate::insn::op;
use std::collections::BTreeSet;

/// What programs refer to, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// Variables; of a place that no variable covers, the section.
    pub variables: BTreeSet<String>,
    /// Maps.
    pub maps: BTreeSet<String>,
    /// Kernel functions and variables.
    pub externs: BTreeSet<String>,
}

/// A function by its place: code section, function in it.
type Key = (usize, usize);

/// Places in data sections: index of the section, byte in it.
type Places = BTreeSet<(usize, u64)>;

impl Object {
    /// What the programs of these names refer to.
    pub fn uses<'a>(&self, programs: impl IntoIterator<Item = &'a str>) -> Uses {
        let names: BTreeSet<&str> = programs.into_iter().collect();
        let mut work: Vec<Key> = Vec::new();
        for (code, section) in self.code.iter().enumerate().filter(|(_, section)| section.name != ".text") {
            let named = section.functions.iter().enumerate();
            let named = named.filter(|(_, function)| names.contains(function.name.as_str()));
            work.extend(named.map(|(function, _)| (code, function)));
        }
        let (mut seen, mut uses, mut places) = (BTreeSet::new(), Uses::default(), Places::new());
        while let Some(key) = work.pop() {
            if seen.insert(key) {
                work.extend(self.references(key, &mut uses, &mut places));
            }
        }
        self.name_places(&places, &mut uses);
        uses
    }

    /// Notes what a function refers to, and gives the functions among it.
    fn references(&self, (code, function): Key, uses: &mut Uses, places: &mut Places) -> Vec<Key> {
        let section = &self.code[code];
        let def = &section.functions[function];
        let slots = def.start..def.start + def.len;
        let mut called = Vec::new();
        let bytes = slots.start as u64 * 8..slots.end as u64 * 8;
        for reloc in self.elf.sections[section.index].relocs_within(bytes) {
            let Some(insn) = section.insns.get((reloc.offset / 8) as usize) else { continue };
            let (symbol, addend) = (&self.elf.symbols[reloc.symbol], i64::from(insn.imm));
            let Some(index) = symbol.section.filter(|_| !symbol.undefined) else {
                uses.externs.insert(symbol.name.clone());
                continue;
            };
            let place = symbol.value.wrapping_add(addend as u64);
            match self.code.iter().position(|code| code.index == index) {
                Some(target) if insn.code == op::CALL_K => {
                    called.extend(self.function_at(target, (symbol.value / 8) as i64 + addend + 1));
                }
                Some(target) => called.extend(self.function_at(target, (place / 8) as i64)),
                None => {
                    places.insert((index, place));
                }
            }
        }
        // Calls within a section may have no relocation.
        let local = slots.filter_map(|slot| Some((slot, section.insns.get(slot)?)));
        let local = local.filter(|(_, insn)| insn.code == op::CALL_K && insn.src == op::CALL_LOCAL);
        let target = |(slot, insn): (usize, &crate::insn::Insn)| slot as i64 + i64::from(insn.imm) + 1;
        called.extend(local.filter_map(|call| self.function_at(code, target(call))));
        called
    }

    fn function_at(&self, code: usize, slot: i64) -> Option<Key> {
        let found = self.code[code].functions.binary_search_by_key(&slot, |function| function.start as i64);
        found.ok().map(|function| (code, function))
    }

    /// Gives places the names of the variables and maps that cover them.
    fn name_places(&self, places: &Places, uses: &mut Uses) {
        let mut unnamed = places.clone();
        let mut take = |section: &str, from: u64, end: u64| {
            let index = self.elf.section(section).map_or(usize::MAX, |(index, _)| index);
            let inside: Vec<(usize, u64)> =
                unnamed.range((index, from)..(index, end.max(from))).copied().collect();
            inside.iter().for_each(|place| {
                unnamed.remove(place);
            });
            !inside.is_empty()
        };
        for variable in &self.variables {
            let end = variable.offset.saturating_add(variable.size);
            if take(&variable.section, variable.offset, end) {
                uses.variables.insert(variable.name.clone());
            }
        }
        for (at, map) in self.maps.iter().enumerate() {
            let end = self.maps.get(at + 1).map_or(u64::MAX, |next| next.offset);
            if take(".maps", map.offset, end) {
                uses.maps.insert(map.name.clone());
            }
        }
        let section = |(index, _): &(usize, u64)| Some(self.elf.sections.get(*index)?.name.clone());
        uses.variables.extend(unnamed.iter().filter_map(section));
    }
}
