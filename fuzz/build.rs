//! Compiles the scheduler that the target `boundary` scripts, in both forms, and the object that `settings` and `state` set.

use std::path::{Path, PathBuf};

/// Variables of every kind; a test of both arms has it, too.
const SETTABLE: &str = "../tests/objects/settable.bpf.c";

/// Its headers.
const INCLUDE: &str = "../schedulers/include";

fn main() {
    println!("cargo::rerun-if-changed=driver");
    println!("cargo::rerun-if-changed={SETTABLE}");
    println!("cargo::rerun-if-changed={INCLUDE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    // SCX_OPS_KEEP_BUILTIN_IDLE, SCX_OPS_ENQ_LAST, SCX_OPS_TID_TO_TASK; in cid form the fewest.
    const DRIVER: &str = "driver/driver.bpf.c";
    for (name, source, flags) in [
        ("cpu", DRIVER, &["-DFLAGS=259"][..]),
        ("cid", DRIVER, &["-DFLAGS=257", "-DCID"]),
        ("settable", SETTABLE, &["-I", INCLUDE]),
    ] {
        let object = out.join(format!("{name}.bpf.o"));
        let flags = ["-Wall", "-Werror"].iter().chain(flags);
        schedlab_clang::compile(Path::new(source), &object, flags).expect("it compiles");
    }
}
