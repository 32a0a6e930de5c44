//! Compiles the programs that watch the kernel, and tells the crate where the BPF headers of the bundled libbpf are.

use std::path::PathBuf;
use std::{env, fs};

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
    for name in ["events", "observe", "prices", "printed", "waits"] {
        let source = schedulers.join(format!("tools/{name}/{name}.bpf.c"));
        println!("cargo:rerun-if-changed={}", source.display());
        let object = out.join(format!("{name}.bpf.o"));
        // An object has the names of its sources in it, which must not depend on where this tree lies.
        let names = format!("-ffile-prefix-map={}=schedulers", schedulers.display());
        let arguments = ["-Wall", &names, "-fdebug-compilation-dir=."];
        if let Err(reason) = schedlab_clang::compile(&source, &object, arguments) {
            // The library works without: it then sees less, and says so.
            println!("cargo:warning=built without {name}: {}", reason.replace('\n', "; "));
            fs::write(&object, b"").expect("the output folder is writable");
        }
    }
}
