//! Compiles the shipped schedulers and puts them, with the machine files, into the
//! command, so that only one file must be copied anywhere (into a VM too).

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, iter};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let schedulers = root.join("schedulers");
    // Paths of headers are compared with it, whose links and dots are resolved.
    let schedulers = schedulers.canonicalize().unwrap_or(schedulers);
    let machines = root.join("machines");
    let published = root.join("published");
    let suites = root.join("suites");
    for path in [&schedulers, &machines, &published, &suites] {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rustc-env=SCHEDLAB_BUILD={}", build(&root));
    let mut code = String::new();
    code.push_str("/// Name, what it is, and object files of each shipped scheduler.\n");
    code.push_str("pub static SCHEDULERS: &[Shipped] = &[\n");
    let objects = out.join("schedulers");
    let names = names(&schedulers);
    if !names.is_empty() {
        compile(&schedulers, &objects);
    }
    let stripped = out.join("stripped");
    fs::create_dir_all(&stripped).expect("the output folder is writable");
    for name in &names {
        let path = schedulers.join(name).join(format!("{name}.bpf.c"));
        let source = read(&path);
        let [object, swap] = [format!("{name}.bpf.o"), format!("{name}+swap.bpf.o")].map(|file| {
            let stripped = stripped.join(&file);
            fs::write(&stripped, without_dwarf(&objects.join(file))).expect("the output folder is writable");
            stripped
        });
        writeln!(
            code,
            "    Shipped {{ name: {name:?}, about: {:?}, object: include_bytes!({object:?}), \
             swap: include_bytes!({swap:?}), hashes: [{:?}, {:?}] }},",
            about(&source, name),
            hash_of(&object),
            hash_of(&swap),
        )
        .expect("a string takes all");
    }
    code.push_str("];\n");
    code.push_str("/// The shipped machine files: name and text.\n");
    code.push_str("pub static MACHINES: &[(&str, &str)] = &[\n");
    for path in files(&machines, "toml") {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.canonicalize().unwrap_or(path);
        writeln!(code, "    ({stem:?}, include_str!({path:?})),").expect("a string takes all");
    }
    code.push_str("];\n/// The shipped suites of `judge`: name and text.\n");
    code.push_str("pub static SUITES: &[(&str, &str)] = &[\n");
    for path in files(&suites, "toml") {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.canonicalize().unwrap_or(path);
        writeln!(code, "    ({stem:?}, include_str!({path:?})),").expect("a string takes all");
    }
    user_sources(&schedulers, &mut code);
    published_definitions(&published, &mut code);
    code.push_str("];\n");
    fs::write(out.join("shipped.rs"), code).expect("the output folder is writable");
}

/// What `new` and `check --vmlinux-h` write: the headers named scx/, and a copy of o1 with the layers that it includes.
fn user_sources(schedulers: &Path, code: &mut String) {
    let include = schedulers.join("include");
    code.push_str("];\n/// The headers named scx/: name in that folder, and text.\n");
    code.push_str("pub static SCX_HEADERS: &[(&str, &str)] = &[\n");
    for path in files(&include.join("scx"), "h") {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        writeln!(code, "    ({name:?}, include_str!({path:?})),").expect("a string takes all");
    }
    for (name, swap) in [("LAYERED", false), ("LAYERED_SWAP", true)] {
        code.push_str("];\n/// A copy of o1 with the layers that it includes, as a user's folder has it: path and text.\n");
        writeln!(code, "pub static {name}: &[(&str, &str)] = &[").expect("a string takes all");
        let mut found = Vec::new();
        let folders = [schedulers.join("o1"), include.clone()];
        with_includes(&schedulers.join("o1/o1.bpf.c"), &folders, swap, &mut found);
        found.sort();
        for path in found {
            let place = path.strip_prefix(schedulers).unwrap_or(&path);
            let place = place.strip_prefix("o1").unwrap_or(place).to_string_lossy().into_owned();
            writeln!(code, "    ({place:?}, include_str!({path:?})),").expect("a string takes all");
        }
    }
}

fn published_definitions(published: &Path, code: &mut String) {
    code.push_str("];\n/// Definitions of documents and their published figures: file name and text.\n");
    code.push_str("pub static PUBLISHED: &[(&str, &str)] = &[\n");
    for path in files(published, "toml").into_iter().chain(files(published, "csv")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.canonicalize().unwrap_or(path);
        writeln!(code, "    ({name:?}, include_str!({path:?})),").expect("a string takes all");
    }
}

/// What tells this build from others: a hash of the sources that a result depends on, the lock file with them. It is the same
/// on every machine, for every profile and target, and results are the same there too; a hash of the binary would differ.
fn build(root: &Path) -> String {
    let mut sources = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    for room in entries(&root.join("crates")) {
        sources.extend([room.join("Cargo.toml"), room.join("build.rs"), room.join("src")]);
    }
    sources.retain(|path| path.exists());
    let mut all = Vec::new();
    for path in sources {
        println!("cargo::rerun-if-changed={}", path.display());
        below(path, &mut all);
    }
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let mut all: Vec<(String, PathBuf)> = all.into_iter().map(|path| (name(&path), path)).collect();
    all.sort();
    let mut hash = Sha256::new();
    for (name, path) in all {
        let content = fs::read(&path).unwrap_or_else(|error| stop(&format!("{}: {error}", path.display())));
        for part in [name.as_bytes(), &content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An object without its DWARF, which is half of it. The kernel, its verifier's messages and ours read BTF alone, but `clang -g`
/// writes both. What would relocate BTF goes too: it has the offsets already, and libbpf skips such sections. `llvm-strip -g`
/// does about the same; it is in a package that a build needs for nothing else.
fn without_dwarf(path: &Path) -> Vec<u8> {
    let failed = |error: object::build::Error| -> ! { stop(&format!("{}: {error}", path.display())) };
    let content = fs::read(path).unwrap_or_else(|error| stop(&format!("{}: {error}", path.display())));
    let mut object = object::build::elf::Builder::read(&content[..]).unwrap_or_else(|error| failed(error));
    for section in &mut object.sections {
        section.delete = [&b".debug_"[..], b".rel.debug_", b".rel.BTF"]
            .iter()
            .any(|start| section.name.starts_with(start));
    }
    object.delete_orphans();
    // LLVM keeps names of sections among those of symbols; the library wants a table for each.
    let names = object.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = object::build::elf::SectionData::SectionString;
    object.set_section_sizes();
    let mut stripped = Vec::new();
    object.write(&mut stripped).unwrap_or_else(|error| failed(error));
    stripped
}

/// The SHA-256 of a file that was made.
fn hash_of(path: &Path) -> String {
    let content = fs::read(path).unwrap_or_else(|error| stop(&format!("{}: {error}", path.display())));
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files below a path, or the path itself; those that editors leave behind are no sources.
fn below(path: PathBuf, found: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(['.', '#']) || name.ends_with(['~', '#']) || name.ends_with(".orig") {
        return;
    }
    if path.is_dir() {
        entries(&path).into_iter().for_each(|path| below(path, found));
    } else {
        found.push(path);
    }
}

/// Folders with a policy of the same name in them, in name order.
fn names(schedulers: &Path) -> Vec<String> {
    let mut names: Vec<String> = entries(schedulers)
        .into_iter()
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .filter(|name| schedulers.join(name).join(format!("{name}.bpf.c")).is_file())
        .collect();
    names.sort();
    names
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map_or_else(|_| Vec::new(), |list| list.flatten().map(|e| e.path()).collect())
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = entries(folder);
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

/// Adds a source and the headers that it includes, each once. A header lies beside the one that names it, or in one of `folders`.
fn with_includes(path: &Path, folders: &[PathBuf], swap: bool, found: &mut Vec<PathBuf>) {
    let path = path.canonicalize().unwrap_or_else(|error| stop(&format!("{}: {error}", path.display())));
    if found.contains(&path) {
        return;
    }
    found.push(path.clone());
    for header in included(&read(&path), swap) {
        let beside = path.with_file_name(&header);
        let place = iter::once(beside).chain(folders.iter().map(|folder| folder.join(&header)));
        match place.into_iter().find(|place| place.is_file()) {
            Some(place) => with_includes(&place, folders, swap, found),
            None => stop(&format!("{}: no header {header} in {folders:?}", path.display())),
        }
    }
}

/// The headers that a text names with quotes. Those between `#ifdef SWAP` and `#endif` count with the layer SWAP alone.
fn included(text: &str, swap: bool) -> Vec<String> {
    let mut conditions = Vec::new();
    let mut headers = Vec::new();
    for line in text.lines() {
        if line.starts_with("#if") {
            conditions.push(swap || line != "#ifdef SWAP");
        } else if line.starts_with("#endif") {
            conditions.pop();
        } else if let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            headers.extend(conditions.iter().all(|holds| *holds).then(|| name.to_string()));
        }
    }
    headers
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| stop(&format!("{}: {error}", path.display())))
}

/// Runs the schedulers' own Makefile, which knows the flags, with another target
/// folder. It takes its share of the parallel jobs of this build.
fn compile(schedulers: &Path, objects: &Path) {
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(schedulers).arg(format!("out={}", objects.display()));
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        make.env_remove(name);
    }
    if let Some(jobs) = env::var_os("CARGO_MAKEFLAGS") {
        make.env("MAKEFLAGS", jobs);
    }
    match make.output() {
        Err(error) => stop(&format!("cannot run make ({error}); install it (apt-get install make)")),
        Ok(done) if !done.status.success() => stop(&format!(
            "compiling the schedulers failed; clang 19 or newer is needed (`scripts/setup build` installs it):\n{}",
            String::from_utf8_lossy(&done.stderr)
        )),
        Ok(_) => {}
    }
}

fn stop(text: &str) -> ! {
    println!("cargo::error={}", text.replace('\n', "; "));
    std::process::exit(1)
}

/// The first sentence of the header comment, after `NAME - `; a long one up to its colon.
fn about(source: &str, name: &str) -> String {
    let Some((_, rest)) = source.split_once(&format!("{name} - ")) else { return String::new() };
    let rest = rest.split("*/").next().unwrap_or("");
    let words: Vec<&str> = rest.split_whitespace().filter(|word| *word != "*").collect();
    let end = words.iter().position(|word| word.ends_with('.')).map_or(words.len(), |last| last + 1);
    let sentence = words[..end].join(" ");
    let short = if sentence.len() > 80 { sentence.split(':').next().unwrap_or("") } else { &sentence };
    short.trim_end_matches('.').to_string()
}
