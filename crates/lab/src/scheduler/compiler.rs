//! Advice on how to compile a scheduler.

use crate::files::input;
use crate::shipped::SCX_HEADERS;
use schedlab_clang::{FLAGS, MISSING, OLDEST};
use std::path::{Path, PathBuf};

/// How a scheduler's source is compiled, for people to copy: with the compiler that this machine has, or a word on how to
/// get one.
pub fn advice<P: AsRef<Path>>(source: &str, include: &[P]) -> String {
    advice_with(source, &searched(include))
}

/// The advice with these arguments, the first after a space.
pub fn advice_with(source: &str, arguments: &str) -> String {
    let object = shell_word(Path::new(&format!("{}.o", source.strip_suffix(".c").unwrap_or(source))));
    let source = shell_word(Path::new(source));
    let command = |clang: &str| format!("{clang} {}{arguments} -c {source} -o {object}", FLAGS.join(" "));
    match schedlab_clang::found() {
        Some(clang) => command(&clang),
        None => format!("{}; here is {MISSING}", command(&format!("clang-{OLDEST}"))),
    }
}

/// How a source is compiled; what writes the headers that it includes, and that nothing beside it has, comes first.
pub(crate) fn advice_for(source: &Path) -> String {
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut include = headers_beside(source);
    let text = input::definition(source).unwrap_or_default();
    let wanted = included(&text).into_iter().filter(|header| {
        let places = include.iter().map(PathBuf::as_path).chain([folder, Path::new("/usr/include")]);
        !places.map(|place| place.join(header)).any(|path| path.is_file())
    });
    let wanted: Vec<&str> = wanted.collect();
    let ours = |header: &&str| {
        *header == "vmlinux.h"
            || header.starts_with("bpf/")
            || header.strip_prefix("scx/").is_some_and(|name| SCX_HEADERS.iter().any(|(own, _)| *own == name))
    };
    let mut words = String::new();
    if wanted.iter().any(ours) {
        words = format!("schedlab check --vmlinux-h {} && ", shell_word(&folder.join("vmlinux.h")));
    }
    if text.contains("#include") && !include.iter().any(|known| known == folder) {
        include.push(folder.to_path_buf());
    }
    words.push_str(&advice(&source.display().to_string(), &include));
    let others: Vec<&str> = wanted.into_iter().filter(|header| !ours(header)).collect();
    if !others.is_empty() {
        words.push_str(&format!(
            ", with -I FOLDER for {} (headers named scx/ are in tools/sched_ext/include of the kernel's source and in scheds/include of scx)",
            others.join(", ")
        ));
    }
    words
}

/// The headers that a source names.
fn included(text: &str) -> Vec<&str> {
    fn header(line: &str) -> Option<&str> {
        let name = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let (name, end) = name
            .strip_prefix('<')
            .map(|name| (name, '>'))
            .or(name.strip_prefix('"').map(|name| (name, '"')))?;
        name.split_once(end).map(|(name, _)| name)
    }
    text.lines().filter_map(header).collect()
}

/// Folders with headers of the source `path`, as `schedlab new` makes them: its own where a policy.h is, and `include`.
fn headers_beside(path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let own = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let layered = own.join("policy.h").is_file().then(|| own.to_path_buf());
    let include = folder.join("include");
    layered.into_iter().chain(include.is_dir().then_some(include)).collect()
}

/// A path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=:@%,".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The arguments by which a compiler looks for headers in these folders, each after a space.
fn searched<P: AsRef<Path>>(include: &[P]) -> String {
    include.iter().map(|folder| format!(" -I {}", shell_word(folder.as_ref()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_source_object_and_headers() {
        let text = advice("mine.bpf.c", &["include"]);
        assert!(text.contains(" -target bpf -mcpu=v3 -I include -c mine.bpf.c -o mine.bpf.o"), "{text}");
        let text = advice("a b.bpf.c", &["it's"]);
        assert!(text.contains(" -I 'it'\\''s' -c 'a b.bpf.c' -o 'a b.bpf.o'"), "{text}");
    }

    #[test]
    fn headers_of_a_source_are_found() {
        let text = "#include \"vmlinux.h\"\n # include <bpf/bpf_helpers.h> // x\n#include NAME\nint x;";
        assert_eq!(included(text), ["vmlinux.h", "bpf/bpf_helpers.h"]);
    }
}
