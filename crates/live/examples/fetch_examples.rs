//! Fetches the kernel's example schedulers and compiles one:
//! `cargo run -p schedlab-live --example fetch_examples scx_simple clang-19 /tmp/scx_simple.bpf.o`.

use std::error::Error;
use std::path::Path;

use schedlab_live::kernel_image;

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, clang, object] = args.as_slice() else {
        return Err("usage: fetch_examples NAME CLANG OBJECT".into());
    };
    let sources = kernel_image::fetch_example_sources(&mut |line| eprintln!("{line}"))?;
    sources.compile(name, clang, Path::new(object))?;
    println!("{} of {} compiled to {object}", name, sources.package);
    Ok(())
}
