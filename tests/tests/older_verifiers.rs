//! What verifiers before Linux 7.1 refuse, and that of today does not. It is looked for in the instructions of the
//! shipped objects, with and without SWAP, since the kernel that the tests boot would take them.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};
use schedlab_bpf::insn::{FRAME_POINTER, Insn, op};
use schedlab_tests::{shipped, shipped_with_swap};

/// Functions that may be active at a time, the program itself among them (`MAX_CALL_FRAMES`).
const FRAMES: usize = 8;

/// A function: its section and the slot of its first instruction there.
type Place = (usize, usize);

/// The instructions of an object.
struct Text {
    /// By section.
    insns: BTreeMap<usize, Vec<Insn>>,
    names: BTreeMap<Place, String>,
    /// The function that a call calls, by the place of the call.
    calls: BTreeMap<Place, Place>,
}

impl Text {
    fn of(bytes: &[u8]) -> Text {
        let file = object::File::parse(bytes).expect("a shipped object is an ELF file");
        let mut text = Text { insns: BTreeMap::new(), names: BTreeMap::new(), calls: BTreeMap::new() };
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let section = symbol.section_index().expect("a function has a section").0;
            let place = (section, symbol.address() as usize / 8);
            text.names.insert(place, symbol.name().unwrap_or_default().to_string());
            text.insns.entry(section).or_insert_with(|| {
                let section = file.section_by_index(object::SectionIndex(section)).expect("it is there");
                Insn::all_from_bytes(section.data().expect("it has content")).expect("whole instructions")
            });
        }
        for (&section, insns) in &text.insns {
            // None: a function of the kernel.
            let moved: BTreeMap<usize, Option<Place>> = file
                .section_by_index(object::SectionIndex(section))
                .expect("it is there")
                .relocations()
                .filter_map(|(at, relocation)| {
                    let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
                    let symbol = file.symbol_by_index(symbol).expect("it is there");
                    let place = symbol.section_index().map(|at| (at.0, symbol.address() as usize / 8));
                    Some((at as usize / 8, place))
                })
                .collect();
            for (slot, insn) in insns.iter().enumerate() {
                if insn.code == op::CALL_K && insn.src == op::CALL_LOCAL {
                    // A symbol's or section's beginning, or this place; calls count from the next instruction.
                    let from = moved.get(&slot).copied().unwrap_or(Some((section, slot)));
                    let Some((callee, from)) = from else { continue };
                    text.calls
                        .insert((section, slot), (callee, from.wrapping_add_signed(insn.imm as isize + 1)));
                }
            }
        }
        text
    }

    /// The places where an arena pointer is added to what is none; the reverse is what these verifiers know.
    fn numbers_plus_pointers(&self) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        for &(section, begin) in self.names.keys() {
            let insns = &self.insns[&section];
            // What may hold such a pointer, before each instruction.
            let mut known: BTreeMap<usize, Pointers> = BTreeMap::new();
            let mut pending = vec![(begin, Pointers::default())];
            while let Some((slot, pointers)) = pending.pop() {
                let before = known.get(&slot).copied();
                let pointers = pointers.or(before.unwrap_or_default());
                if before == Some(pointers) || slot >= insns.len() {
                    continue;
                }
                known.insert(slot, pointers);
                let insn = insns[slot];
                let is = |register: u8| pointers.registers >> register & 1 != 0;
                if insn.code == op::ALU64 | op::ADD | op::X && is(insn.src) && !is(insn.dst) {
                    found.insert((section, slot));
                }
                let after = pointers.after(insn);
                pending.extend(insn.successors(slot).into_iter().flatten().map(|slot| (slot, after)));
            }
        }
        found
    }

    /// The longest chain of calls from here, by name; nothing calls itself.
    fn deepest(&self, function: Place, known: &mut BTreeMap<Place, Vec<String>>) -> Vec<String> {
        if let Some(chain) = known.get(&function) {
            return chain.clone();
        }
        let next =
            self.names.range((function.0, function.1 + 1)..).next().map_or((usize::MAX, 0), |(at, _)| *at);
        let callees: BTreeSet<Place> = self.calls.range(function..next).map(|(_, callee)| *callee).collect();
        let below = callees.into_iter().map(|callee| self.deepest(callee, known)).max_by_key(Vec::len);
        let mut chain = vec![self.names[&function].clone()];
        chain.extend(below.unwrap_or_default());
        known.insert(function, chain.clone());
        chain
    }
}

/// Where arena pointers may be, a bit for each place.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Pointers {
    registers: u16,
    /// Words of the stack, from its beginning downwards.
    stack: u64,
}

impl Pointers {
    fn or(self, other: Pointers) -> Pointers {
        Pointers { registers: self.registers | other.registers, stack: self.stack | other.stack }
    }

    /// After `insn`.
    fn after(self, insn: Insn) -> Pointers {
        let (dst, src) = (1u16 << insn.dst, 1u16 << insn.src);
        let before = self.registers;
        let word = |offset: i16| 1u64.checked_shl(u32::from(offset.unsigned_abs()).div_ceil(8)).unwrap_or(0);
        let to = |holds: bool| if holds { before | dst } else { before & !dst };
        let registers = match insn.code & 7 {
            op::ALU64 => match (insn.code & 0xf0, insn.code & op::X) {
                // The immediate 1 makes a pointer of an arena's address, the other one the reverse.
                (op::MOV, op::X) if insn.off == op::ADDR_SPACE_CAST => to(insn.imm == 1),
                (op::MOV, op::X) => to(before & src != 0 && insn.off == 0),
                (op::ADD | op::SUB, op::K) => before,
                (op::ADD, op::X) => to(before & (dst | src) != 0),
                _ => to(false),
            },
            op::LDX if insn.src == FRAME_POINTER => to(self.stack & word(insn.off) != 0),
            op::ALU | op::LD | op::LDX => to(false),
            op::STX if insn.code & 0xe0 == op::ATOMIC && insn.imm == op::CMPXCHG => before & !1,
            op::STX if insn.code & 0xe0 == op::ATOMIC && insn.imm & op::FETCH != 0 => before & !src,
            op::JMP if insn.code & 0xf0 == op::CALL => before & !0x3f,
            _ => before,
        };
        let mut stack = self.stack;
        if insn.code & 7 == op::STX && insn.dst == FRAME_POINTER {
            let holds = if before & src != 0 { word(insn.off) } else { 0 };
            stack = stack & !word(insn.off) | holds;
        }
        Pointers { registers, stack }
    }
}

fn objects() -> Vec<(String, Text)> {
    let all = shipped().into_iter().chain(shipped_with_swap());
    all.map(|(name, bytes)| (name, Text::of(&bytes))).collect()
}

/// "pointer arithmetic on arena prohibited", before 7.0.
#[test]
fn arena_pointers_are_what_is_added_to() {
    let mut wrong = Vec::new();
    for (name, text) in objects() {
        assert!(text.calls.len() > 10, "{name}: calls are found");
        for at in text.numbers_plus_pointers() {
            let (begin, function) = text.names.range(..=at).next_back().expect("it is in a function");
            wrong.push(format!("{name}: {function}, instruction {}", at.1 - begin.1));
        }
    }
    assert!(wrong.is_empty(), "a number plus an arena pointer (cure: element()):\n{}", wrong.join("\n"));
}

/// "the call stack of 8 frames is too deep".
#[test]
fn calls_nest_no_deeper_than_older_kernels_have_frames() {
    for (name, text) in objects() {
        let mut known = BTreeMap::new();
        for &function in text.names.keys() {
            let chain = text.deepest(function, &mut known);
            assert!(chain.len() <= FRAMES, "{name}: {} functions deep: {}", chain.len(), chain.join(" > "));
        }
    }
}

/// "BPF program is too large": a static function is walked again for each way that leads to it.
#[test]
fn what_picks_is_walked_once() {
    for (name, bytes) in shipped().into_iter().chain(shipped_with_swap()) {
        let file = object::File::parse(&*bytes).expect("a shipped object is an ELF file");
        let choose = file.symbol_by_name("choose").expect("it picks");
        assert!(choose.is_global(), "{name}: choose() is static");
    }
}

#[test]
fn both_are_found() {
    let sum = Insn::alu64_reg(op::ADD, 2, 1);
    let mut cast = Insn::alu64_reg(op::MOV, 1, 6);
    (cast.off, cast.imm) = (op::ADDR_SPACE_CAST, 1);
    let text = |insns: Vec<Insn>| Text {
        insns: BTreeMap::from([(0, insns)]),
        names: (0..9).map(|n| ((0, n), format!("f{n}"))).collect(),
        calls: (0..8).map(|n| ((0, n), (0, n + 1))).collect(),
    };
    let one = |insns| Text { names: BTreeMap::from([((0, 0), "f".to_string())]), ..text(insns) };
    assert_eq!(one(vec![cast, sum, Insn::exit()]).numbers_plus_pointers(), BTreeSet::from([(0, 1)]));
    // The reverse; and on one of two ways only.
    assert!(one(vec![cast, Insn::alu64_reg(op::ADD, 1, 2), Insn::exit()]).numbers_plus_pointers().is_empty());
    // By way of the stack.
    let (spilt, filled) =
        (Insn::store(op::DW, FRAME_POINTER, -8, 1), Insn::load(op::DW, 3, FRAME_POINTER, -8));
    let by_stack = vec![cast, spilt, filled, Insn::alu64_reg(op::ADD, 2, 3), Insn::exit()];
    assert_eq!(one(by_stack).numbers_plus_pointers(), BTreeSet::from([(0, 3)]));
    let skipped = vec![Insn::jump_imm(op::JEQ, 3, 0, 1), cast, sum, Insn::exit()];
    assert_eq!(one(skipped).numbers_plus_pointers(), BTreeSet::from([(0, 2)]));
    assert_eq!(text(vec![]).deepest((0, 0), &mut BTreeMap::new()).len(), 9);
}
