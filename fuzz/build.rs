//! Compiles the scheduler that the target `boundary` scripts, in both forms, and the object that `settings` and `state` set.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Compilers that know arena pointers, newest first.
const CLANGS: [&str; 5] = ["clang-22", "clang-21", "clang-20", "clang-19", "clang"];

/// Variables of every kind; a test of both arms has it, too.
const SETTABLE: &str = "../tests/objects/settable.bpf.c";

/// Its headers.
const INCLUDE: &str = "../schedulers/include";

fn main() {
    println!("cargo::rerun-if-changed=driver");
    println!("cargo::rerun-if-changed={SETTABLE}");
    println!("cargo::rerun-if-changed={INCLUDE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let answers = |name: &&str| {
        let done = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    let clang =
        CLANGS.iter().find(|name| answers(name)).expect("clang 19 or newer (apt-get install clang-19)");
    // SCX_OPS_KEEP_BUILTIN_IDLE, SCX_OPS_ENQ_LAST, SCX_OPS_TID_TO_TASK; in cid form the fewest.
    const DRIVER: &str = "driver/driver.bpf.c";
    for (name, source, flags) in [
        ("cpu", DRIVER, &["-DFLAGS=259"][..]),
        ("cid", DRIVER, &["-DFLAGS=257", "-DCID"]),
        ("settable", SETTABLE, &["-I", INCLUDE]),
    ] {
        let mut command = Command::new(clang);
        command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c", source]);
        let done = command.args(flags).arg("-o").arg(out.join(format!("{name}.bpf.o"))).status();
        assert!(done.is_ok_and(|status| status.success()), "{clang} compiles {source}");
    }
}
