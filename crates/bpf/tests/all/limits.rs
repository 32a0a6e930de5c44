//! Every limit of `limits` refuses what exceeds it, by name, and takes what it allows.

use schedlab_bpf::btf::BtfBuilder;
use schedlab_bpf::error::{LoadError, LoadErrorKind};
use schedlab_bpf::insn::op;
use schedlab_bpf::limits::*;
use schedlab_bpf::link::{KernelModel, Settings, link};
use schedlab_bpf::object::Object;
use schedlab_bpf::{
    Code, CodeBuilder, CodeError, Compiler, Engine, FaultKind, FuncId, Insn, Interpreter, Marks, Memory,
    NoHost,
};

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_REL: u32 = 9;
const ALLOC: u64 = 2;
const EXEC: u64 = 4 | ALLOC;
const FUNC: u8 = 0x12;
const DATA: u8 = 0x11;

#[derive(Default)]
struct Section {
    name: String,
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    data: Vec<u8>,
}

/// A relocatable BPF object in the making; section 1 is `.BTF`, and the last three are symbols, their names, and the
/// sections' names.
struct File {
    sections: Vec<Section>,
    symbols: Vec<u8>,
    names: Vec<u8>,
}

impl File {
    fn new() -> File {
        let mut file = File { sections: Vec::new(), symbols: vec![0; 24], names: vec![0] };
        file.section(".BTF", 0, BtfBuilder::new().finish().to_bytes());
        file
    }

    /// Adds a section and gives its number.
    fn section(&mut self, name: &str, flags: u64, data: Vec<u8>) -> usize {
        let (name, kind) = (name.to_string(), SHT_PROGBITS);
        self.sections.push(Section { name, kind, flags, data, ..Section::default() });
        self.sections.len()
    }

    /// Adds a section of code, and one function in it.
    fn function(&mut self, section: &str, name: &str, insns: &[Insn]) -> usize {
        let data: Vec<u8> = insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        let len = data.len() as u64;
        let number = self.section(section, EXEC, data);
        self.symbol(name, FUNC, number, 0, len);
        number
    }

    /// Adds a symbol and gives its number.
    fn symbol(&mut self, name: &str, info: u8, section: usize, value: u64, size: u64) -> u32 {
        let at = self.names.len() as u32;
        self.names.extend_from_slice(name.as_bytes());
        self.names.push(0);
        self.symbols.extend(at.to_le_bytes());
        self.symbols.extend([info, 0]);
        self.symbols.extend((section as u16).to_le_bytes());
        self.symbols.extend(value.to_le_bytes());
        self.symbols.extend(size.to_le_bytes());
        (self.symbols.len() / 24 - 1) as u32
    }

    /// Adds relocations (place, symbol) of a section.
    fn relocations(&mut self, of: usize, places: impl Iterator<Item = (u64, u32)>) {
        let record =
            |(place, symbol): (u64, u32)| [place.to_le_bytes(), (u64::from(symbol) << 32 | 10).to_le_bytes()];
        let number = self.section(".rel", 0, places.flat_map(record).flatten().collect());
        let section = &mut self.sections[number - 1];
        (section.kind, section.info) = (SHT_REL, of as u32);
    }

    fn bytes(mut self) -> Vec<u8> {
        let symtab = self.sections.len() as u32 + 1;
        self.sections.iter_mut().filter(|section| section.kind == SHT_REL).for_each(|rel| rel.link = symtab);
        let (symbols, names) = (std::mem::take(&mut self.symbols), std::mem::take(&mut self.names));
        let number = self.section(".symtab", 0, symbols);
        (self.sections[number - 1].kind, self.sections[number - 1].link) = (SHT_SYMTAB, symtab + 1);
        self.section(".strtab", 0, names);
        self.sections.last_mut().unwrap().kind = SHT_STRTAB;
        self.section(".shstrtab", 0, Vec::new());
        self.sections.last_mut().unwrap().kind = SHT_STRTAB;
        let mut shstrtab = vec![0];
        let mut headers = vec![0; 64];
        let mut content = Vec::new();
        let count = self.sections.len();
        for number in 0..count {
            let name = shstrtab.len() as u32;
            shstrtab.extend_from_slice(self.sections[number].name.as_bytes());
            shstrtab.push(0);
            if number + 1 == count {
                self.sections[number].data = std::mem::take(&mut shstrtab);
            }
            let section = &self.sections[number];
            let entry = match section.kind {
                SHT_SYMTAB => 24u64,
                SHT_REL => 16,
                _ => 0,
            };
            headers.extend(name.to_le_bytes());
            headers.extend(section.kind.to_le_bytes());
            for word in [section.flags, 0, 64 + content.len() as u64, section.data.len() as u64] {
                headers.extend(word.to_le_bytes());
            }
            headers.extend(section.link.to_le_bytes());
            headers.extend(section.info.to_le_bytes());
            headers.extend(8u64.to_le_bytes());
            headers.extend(entry.to_le_bytes());
            content.extend_from_slice(&section.data);
            content.resize(content.len().next_multiple_of(8), 0);
        }
        let mut out =
            vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 247, 0, 1, 0, 0, 0];
        for word in [0, 0, 64 + content.len() as u64] {
            out.extend(word.to_le_bytes());
        }
        out.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0]);
        out.extend((count as u16 + 1).to_le_bytes());
        out.extend((count as u16).to_le_bytes());
        assert_eq!(out.len(), 64);
        out.extend(content);
        out.extend(headers);
        out
    }

    fn load(self) -> Result<Object, LoadError> {
        Object::parse("grown.bpf.o", &self.bytes())
    }
}

/// `count` instructions of which the last is an exit.
fn straight(count: u64) -> Vec<Insn> {
    let mut insns = vec![Insn::alu64_imm(op::MOV, 0, 0); count as usize - 1];
    insns.push(Insn::exit());
    insns
}

/// Checks that the refusal names file, place, number and limit.
#[track_caller]
fn refused<T>(result: Result<T, LoadError>, limit: Limit, place: &str) {
    let Err(error) = result else { panic!("more {} than {} are taken", limit.what, limit.most) };
    let text = error.to_string();
    assert_eq!(error.kind, LoadErrorKind::Limit, "{text}");
    assert!(text.starts_with("grown.bpf.o: ") && text.contains(place), "{text}");
    assert!(text.contains(&format!(" {}, the limit is {}", limit.what, limit.most)), "{text}");
}

#[test]
fn a_small_object_is_taken() {
    let mut file = File::new();
    file.function("syscall", "small", &straight(3));
    let object = file.load().expect("a proper object");
    assert_eq!(object.programs().len(), 1);
}

#[test]
fn long_files_are_refused_unread() {
    let bytes = vec![0; OBJECT_BYTES.most_len() + 1];
    refused(Object::parse("grown.bpf.o", &bytes), OBJECT_BYTES, "object file");
}

#[test]
fn tables_of_the_container_are_bounded() {
    let mut file = File::new();
    (0..SECTIONS.most).for_each(|number| {
        file.section(&number.to_string(), 0, Vec::new());
    });
    refused(file.load(), SECTIONS, "ELF");
    let mut file = File::new();
    (0..SYMBOLS.most).for_each(|_| {
        file.symbol("x", 0, 1, 0, 0);
    });
    refused(file.load(), SYMBOLS, "ELF");
    for names in [1, 0] {
        let mut file = File::new();
        let long = "x".repeat(NAME_BYTES.most_len() + names);
        file.section(&long, 0, Vec::new());
        let loaded = file.load().map(drop);
        if names == 0 { assert_eq!(loaded, Ok(())) } else { refused(loaded, NAME_BYTES, "name of a section") }
    }
    let mut file = File::new();
    file.symbol(&"x".repeat(NAME_BYTES.most_len() + 1), 0, 1, 0, 0);
    refused(file.load(), NAME_BYTES, "name of a symbol");
    let mut file = File::new();
    let number = file.section("data", ALLOC, vec![0; 8]);
    // Spread over sections that all have less.
    for _ in 0..2 {
        file.relocations(number, (0..=RELOCATIONS.most / 2).map(|place| (place, 0)));
    }
    refused(file.load(), RELOCATIONS, "section data");
}

/// Section headers that all name the same bytes would make a small file large.
#[test]
fn sections_share_no_bytes() {
    let mut file = File::new();
    for name in ["a", "b", "c"] {
        file.section(name, ALLOC, vec![0; 4096]);
    }
    let mut bytes = file.bytes();
    let headers = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    for number in [2, 3, 4] {
        let place = headers + 64 * number + 24;
        bytes[place..place + 16].copy_from_slice(&[64u64.to_le_bytes(), 12_000u64.to_le_bytes()].concat());
    }
    let error = Object::parse("grown.bpf.o", &bytes).unwrap_err();
    assert!(error.to_string().contains("overlaps others"), "{error}");
}

#[test]
fn instructions_are_bounded_by_program_and_object() {
    let mut file = File::new();
    file.function("syscall", "long", &straight(PROGRAM_INSNS.most + 1));
    refused(file.load(), PROGRAM_INSNS, "section syscall, function `long`: 1000001 instructions");
    let mut file = File::new();
    for name in ["one", "two", "three"] {
        file.function(&format!("tp/{name}"), name, &straight(OBJECT_INSNS.most / 3 + 1));
    }
    refused(file.load(), OBJECT_INSNS, "section tp/three: 2000001 instructions");
}

/// A program that calls three functions, each shorter than a program may be.
#[test]
fn what_a_program_calls_counts() {
    let mut file = File::new();
    let len = PROGRAM_INSNS.most / 3;
    let text: Vec<Insn> = (0..3).flat_map(|_| straight(len)).collect();
    let number = file.section(".text", EXEC, text.iter().flat_map(|insn| insn.to_bytes()).collect());
    let mut part = |index| file.symbol(&format!("part{index}"), FUNC, number, index * len * 8, len * 8);
    let parts = [part(0), part(1), part(2)];
    let call = Insn::new(op::CALL_K, 0, op::CALL_LOCAL, 0, -1);
    let whole = file.function("syscall", "whole", &[call, call, call, Insn::exit()]);
    // A program that is short enough despite the others.
    let two = file.function("syscall", "two", &[call, call, Insn::exit()]);
    for (program, calls) in [(whole, 3), (two, 2)] {
        file.relocations(program, (0..calls).map(|slot| (slot * 8, parts[slot as usize])));
    }
    let object = file.load().expect("no function is too long");
    let mut mem = Memory::new().expect("address space");
    // 333,333 instructions three times, and 4 of the program: 3 too many.
    let linked = link(&object, &kernel(), &Settings::new(), &mut mem);
    refused(linked, PROGRAM_INSNS, "program `whole`: 1000003 instructions");
}

fn kernel() -> KernelModel {
    KernelModel { nr_cpus: 1, ..KernelModel::default() }
}

#[test]
fn declarations_are_bounded() {
    let mut file = File::new();
    let number = file.section(".maps", ALLOC, vec![0; 8]);
    (0..=MAPS.most).for_each(|place| {
        file.symbol("map", DATA, number, place, 0);
    });
    refused(file.load(), MAPS, "section .maps");
    let mut file = File::new();
    let number = file.section(".struct_ops.link", ALLOC, vec![0; 8]);
    (0..=STRUCT_OPS.most).for_each(|place| {
        file.symbol("table", DATA, number, place, 0);
    });
    refused(file.load(), STRUCT_OPS, "section .struct_ops.link");
    let mut file = File::new();
    let count = PROGRAMS.most + 1;
    let data = (0..count).flat_map(|_| Insn::exit().to_bytes()).collect();
    let number = file.section("syscall", EXEC, data);
    (0..count).for_each(|place| {
        file.symbol(&format!("p{place}"), FUNC, number, place * 8, 8);
    });
    refused(file.load(), PROGRAMS, "section syscall, function `p1024`");
}

fn types(build: impl FnOnce(&mut BtfBuilder)) -> File {
    let mut builder = BtfBuilder::new();
    build(&mut builder);
    let mut file = File::new();
    file.sections[0].data = builder.finish().to_bytes();
    file
}

#[test]
fn types_are_bounded() {
    let long = |bytes: u64| "x".repeat(bytes as usize);
    let int = |bytes| {
        types(|b| {
            b.int(&long(bytes), 4, true);
        })
    };
    refused(int(NAME_BYTES.most + 1).load(), NAME_BYTES, "type 1");
    assert!(int(NAME_BYTES.most).load().is_ok());
    let values = |b: &mut BtfBuilder| {
        b.enumeration("e", false, &[(&long(NAME_BYTES.most + 1), 0)]);
    };
    refused(types(values).load(), NAME_BYTES, "type 1");
    let tag = |bytes| {
        types(|b| {
            let int = b.int("int", 4, true);
            b.decl_tag(&long(bytes), int);
        })
    };
    refused(tag(TAG_BYTES.most + 1).load(), TAG_BYTES, "type 2");
    assert!(tag(TAG_BYTES.most).load().is_ok());
    let mut file = File::new();
    file.sections[0].data.resize(BTF_BYTES.most_len() + 1, 0);
    refused(file.load(), BTF_BYTES, "section .BTF");
    // Pointers to nothing, 12 bytes each, are the smallest types.
    let pointers = (0..=BTF_TYPES.most).flat_map(|_| [0u32, 2 << 24, 0]);
    let types: Vec<u8> = pointers.flat_map(u32::to_le_bytes).collect();
    let mut file = File::new();
    let words = [0x0001_eb9f, 24, 0, types.len() as u32, types.len() as u32, 1];
    file.sections[0].data = words.into_iter().flat_map(u32::to_le_bytes).chain(types).chain([0]).collect();
    refused(file.load(), BTF_TYPES, "section .BTF");
}

#[test]
fn records_are_bounded() {
    for (core, limit) in [(true, CORE_RECORDS), (false, LINE_RECORDS)] {
        let mut part: Vec<u8> =
            [16, 0, limit.most as u32 + 1].into_iter().flat_map(u32::to_le_bytes).collect();
        part.resize(part.len() + 16 * (limit.most_len() + 1), 0);
        let len = part.len() as u32;
        let (lines, cores) = if core { (0, len) } else { (len, 0) };
        let words = [0x0001_eb9f, 32, 0, 0, 0, lines, 0, cores];
        let mut file = File::new();
        file.section(".BTF.ext", 0, words.into_iter().flat_map(u32::to_le_bytes).chain(part).collect());
        refused(file.load(), limit, "section .BTF.ext");
    }
}

/// What is quadratic in the object's numbers would take hours: functions, calls, symbols, names at their limits.
#[test]
fn an_object_at_its_limits_is_linked() {
    let mut file = File::new();
    // Each function but the last calls the next, so that what is known of arguments has far to go.
    let functions = SYMBOLS.most / 2;
    let call = |to: u64, slot: u64| Insn::new(op::CALL_K, 0, op::CALL_LOCAL, 0, to as i32 - slot as i32 - 1);
    let chain = (0..functions).flat_map(|index| match index + 1 {
        next if next == functions => [Insn::alu64_imm(op::MOV, 0, 0), Insn::exit()],
        next => [call(2 * next, 2 * index), Insn::exit()],
    });
    let data = chain.flat_map(|insn| insn.to_bytes()).collect();
    let number = file.section(".text", EXEC, data);
    for index in 0..functions {
        file.symbol(&format!("f{index}"), FUNC, number, 16 * index, 16);
    }
    let calls = RELOCATIONS.most;
    let mut main = vec![Insn::new(op::CALL_K, 0, op::CALL_LOCAL, 0, -1); calls as usize];
    main.push(Insn::exit());
    let main = file.function("syscall", "main", &main);
    file.relocations(main, (0..calls).map(|slot| (slot * 8, 1 + (slot % functions) as u32)));
    let variables = file.section(".data", ALLOC, vec![0; 8 * 30_000]);
    (0..30_000).for_each(|place| {
        file.symbol(&format!("nr_{place}"), DATA, variables, 8 * place, 8);
    });
    let object = file.load().expect("within all limits");
    let mut mem = Memory::new().expect("address space");
    let image = link(&object, &kernel(), &Settings::new(), &mut mem).expect("links");
    assert_eq!(image.functions.len() as u64, functions + 1);
    assert_eq!(image.variables.len(), 30_000);
}

fn add(builder: &mut CodeBuilder, name: &str, insns: &[Insn]) -> Result<FuncId, CodeError> {
    builder.add_function(name, insns, &Marks::default())
}

/// A builder takes as much as an object may have and no more, and what it has built runs alike on both engines: the
/// machine code of a call is among the longest there is.
#[test]
fn a_builder_is_driven_to_its_cap() {
    let mut builder = CodeBuilder::new();
    let mut calls = vec![Insn::call_local(2); PROGRAM_INSNS.most_len() - 1];
    calls.push(Insn::exit());
    add(&mut builder, "first", &calls).expect("the longest function");
    calls.truncate(OBJECT_INSNS.most_len() - PROGRAM_INSNS.most_len() - 3);
    calls.push(Insn::exit());
    add(&mut builder, "second", &calls).expect("another");
    add(&mut builder, "leaf", &straight(2)).expect("to the last slot");
    let error = add(&mut builder, "more", &[Insn::exit()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "more: instruction 0: 2000001 instructions in an object, the limit is 2000000"
    );
    let code: Code = builder.build().expect("linked");
    code.compile().expect("its machine code is within the limit");
    let mut mem = Memory::new().expect("address space");
    for func in [0, 1] {
        let func = FuncId(func);
        let run = |engine: &mut dyn FnMut(&mut Memory, u64) -> _, mem: &mut Memory| {
            [10_000_000, 1_234_567].map(|budget| engine(mem, budget))
        };
        let (mut interpreter, mut compiler) = (Interpreter::new(), Compiler::new());
        let first =
            run(&mut |mem, budget| interpreter.run(&code, func, &[], mem, &mut NoHost, budget), &mut mem);
        let second =
            run(&mut |mem, budget| compiler.run(&code, func, &[], mem, &mut NoHost, budget), &mut mem);
        assert_eq!(first, second, "the engines agree");
        assert!(first[0].is_ok(), "{first:?}");
        assert_eq!(*first[1].as_ref().unwrap_err().kind(), FaultKind::Budget { limit: 1_234_567 });
    }
}

#[test]
fn a_function_longer_than_a_program_is_refused() {
    let insns = straight(PROGRAM_INSNS.most + 1);
    let error = add(&mut CodeBuilder::new(), "long", &insns).unwrap_err();
    assert!(error.to_string().contains("a function of 1000001 slots; 1 to 1000000 are possible"), "{error}");
}
