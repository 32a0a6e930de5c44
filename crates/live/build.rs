//! Compiles the programs that watch the kernel, and tells the crate where the BPF headers of the bundled libbpf are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Compilers tried, newest first.
const CLANGS: [&str; 7] = ["clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    match env::var("DEP_BPF_INCLUDE") {
        Ok(include) => println!("cargo:rustc-env=SCHEDLAB_LIBBPF_INCLUDE={include}/bpf"),
        Err(_) => println!("cargo:warning=libbpf-sys did not say where its headers are"),
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let schedulers =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../schedulers");
    println!("cargo:rerun-if-changed={}", schedulers.join("include").display());
    for name in ["events", "observe", "printed", "waits"] {
        let source = schedulers.join(format!("tools/{name}/{name}.bpf.c"));
        println!("cargo:rerun-if-changed={}", source.display());
        let object = out.join(format!("{name}.bpf.o"));
        if !compile(&source, &object) {
            // The library works without: it then sees less, and says so.
            println!("cargo:warning=no clang 19 or newer with a BPF target: built without {name}");
            fs::write(&object, b"").expect("the output folder is writable");
        }
    }
}

fn compile(source: &Path, object: &Path) -> bool {
    let named = env::var("CLANG").ok();
    named.as_deref().into_iter().chain(CLANGS).any(|clang| {
        Command::new(clang)
            .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-c"])
            .arg(source)
            .arg("-o")
            .arg(object)
            .status()
            .is_ok_and(|status| status.success())
    })
}
