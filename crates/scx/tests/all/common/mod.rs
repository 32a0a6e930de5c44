//! Builds the test objects: C compiled for BPF when the tests run.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The object made of `tests/objects/<name>.bpf.c`; says so and gives nothing without a compiler.
pub fn object(name: &str) -> Option<Vec<u8>> {
    if schedlab_clang::found().is_none() {
        println!("skipped: {}", schedlab_clang::MISSING);
        return None;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/objects");
    // Tests of one process run side by side, and so do test processes.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{name}.{}.{}.bpf.o", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique);
    let source = folder.join(format!("{name}.bpf.c"));
    schedlab_clang::compile(&source, &out, ["-Wall", "-Werror"]).expect("it compiles");
    let bytes = std::fs::read(&out).expect("the object is there");
    let _ = std::fs::remove_file(&out);
    Some(bytes)
}

/// An object built by `make -C schedulers`, if it was.
pub fn shipped(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../schedulers/build/{name}.bpf.o"));
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            println!("skipped: {}: {error}; run make -C schedulers", path.display());
            None
        }
    }
}
