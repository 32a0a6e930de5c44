//! The compiler of BPF objects: which one this machine has, and how it is called.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, iter};

/// The first clang with the BPF features that our headers use.
const OLDEST: u32 = 19;
/// The newest one that is looked for by its number. Chosen: some years ahead.
const NEWEST: u32 = 40;

/// What an object is compiled with.
pub(crate) const FLAGS: &str = "-g -O2 -target bpf -mcpu=v3";

/// How a scheduler's source is compiled, for people to copy: with the compiler that this machine has, or a word on how to
/// get one.
pub(crate) fn advice<P: AsRef<Path>>(source: &str, include: &[P]) -> String {
    let object = format!("{}.o", source.strip_suffix(".c").unwrap_or(source));
    let include = searched(include);
    let command = |clang: &str| format!("{clang} {FLAGS}{include} -c {source} -o {object}");
    match found() {
        Some(clang) => command(&clang),
        None => format!(
            "{} (no clang {OLDEST} or newer was found here; Debian, Ubuntu: apt-get install clang-{OLDEST})",
            command(&format!("clang-{OLDEST}"))
        ),
    }
}

/// The arguments by which a compiler looks for headers in these folders, each after a space.
pub(crate) fn searched<P: AsRef<Path>>(include: &[P]) -> String {
    include.iter().map(|folder| format!(" -I {}", folder.as_ref().display())).collect()
}

/// The name by which the machine's newest suitable clang can be called, looked for as a shell would; nothing is started.
pub(crate) fn found() -> Option<String> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let numbered = (OLDEST..=NEWEST).rev().map(|number| format!("clang-{number}"));
    numbered.chain(iter::once("clang".to_string())).find(|name| {
        let here = folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
        here.is_some_and(|file| name != "clang" || is_new_enough(&file))
    })
}

/// Whether the `clang` without a number in its name is one that serves. Its file, behind links, lies in the folder of its
/// version (`/usr/lib/llvm-19/bin/clang`) or has it in its name.
fn is_new_enough(clang: &Path) -> bool {
    let file = clang.canonicalize().unwrap_or_else(|_| clang.to_path_buf());
    let version = |part: &OsStr| -> Option<u32> {
        let part = part.to_str()?;
        part.strip_prefix("llvm-").or_else(|| part.strip_prefix("clang-"))?.parse().ok()
    };
    file.iter().filter_map(version).any(|version| version >= OLDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_source_object_and_headers() {
        let text = advice("mine.bpf.c", &["include"]);
        assert!(text.contains(" -target bpf -mcpu=v3 -I include -c mine.bpf.c -o mine.bpf.o"), "{text}");
    }

    #[test]
    fn a_plain_clang_says_its_version_by_its_place() {
        assert!(is_new_enough(Path::new("/nowhere/llvm-19/bin/clang")));
        assert!(is_new_enough(Path::new("/nowhere/bin/clang-21")));
        assert!(!is_new_enough(Path::new("/nowhere/llvm-14/bin/clang")));
        assert!(!is_new_enough(Path::new("/nowhere/bin/clang")));
    }
}
