//! Compiles example schedulers of the kernel, from the distribution's kernel source package, into a folder:
//! `cargo run -p schedlab-tests --example kernel_examples -- FOLDER NAME...` prints the path of each object.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its results")]

use schedlab_live::kernel_image;
use schedlab_tests::clang;
use std::path::Path;
use std::process::ExitCode;

fn compile(folder: &Path, names: &[String]) -> Result<(), String> {
    let sources =
        kernel_image::fetch_example_sources(&mut |step| eprintln!("{step}")).map_err(|e| e.to_string())?;
    let clang =
        clang().ok_or("no clang 19 or newer: install one (Debian, Ubuntu: apt-get install clang-19)")?;
    for name in names {
        let object = folder.join(format!("{name}.bpf.o"));
        sources.compile(name, &clang, &object).map_err(|e| e.to_string())?;
        println!("{}", object.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(folder) = args.next() else {
        eprintln!("usage: kernel_examples FOLDER NAME...");
        return ExitCode::from(2);
    };
    match compile(Path::new(&folder), &args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernel_examples: {error}");
            ExitCode::from(5)
        }
    }
}
