//! What people are told on how to compile a scheduler.

use schedlab_clang::{FLAGS, MISSING, OLDEST};
use std::path::Path;

/// How a scheduler's source is compiled, for people to copy: with the compiler that this machine has, or a word on how to
/// get one.
pub(crate) fn advice<P: AsRef<Path>>(source: &str, include: &[P]) -> String {
    let object = format!("{}.o", source.strip_suffix(".c").unwrap_or(source));
    let include = searched(include);
    let command = |clang: &str| format!("{clang} {}{include} -c {source} -o {object}", FLAGS.join(" "));
    match schedlab_clang::found() {
        Some(clang) => command(&clang),
        None => format!("{}; here is {MISSING}", command(&format!("clang-{OLDEST}"))),
    }
}

/// The arguments by which a compiler looks for headers in these folders, each after a space.
pub(crate) fn searched<P: AsRef<Path>>(include: &[P]) -> String {
    include.iter().map(|folder| format!(" -I {}", folder.as_ref().display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_source_object_and_headers() {
        let text = advice("mine.bpf.c", &["include"]);
        assert!(text.contains(" -target bpf -mcpu=v3 -I include -c mine.bpf.c -o mine.bpf.o"), "{text}");
    }
}
