//! Builds the test objects: C compiled for BPF when the tests run.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A compiler that knows arena pointers, if there is one.
fn clang() -> Option<&'static str> {
    let works =
        |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    ["clang-19", "clang-20", "clang-21", "clang-22"].iter().find(works).copied()
}

/// The object made of `tests/objects/<name>.bpf.c`; says so and gives nothing without a compiler.
pub fn object(name: &str) -> Option<Vec<u8>> {
    let Some(clang) = clang() else {
        println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
        return None;
    };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/objects");
    // Tests of one process run side by side, and so do test processes.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{name}.{}.{}.bpf.o", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique);
    let done = Command::new(clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c", "-o"])
        .arg(&out)
        .arg(folder.join(format!("{name}.bpf.c")))
        .output()
        .expect("the compiler starts");
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
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
