//! Loads a scheduler object into a real kernel in a VM and shows what the verifier made of it and
//! how it left: `cargo run -p schedlab-live --example try_object FILE.bpf.o [VAR=VALUE ...]`.

use std::error::Error;
use std::time::Duration;

use schedlab_live::load::{self, SchedulerObject};
use schedlab_live::vm::{self, VmJob};
use schedlab_live::{guest, kernel_image};

#[allow(clippy::print_stdout, reason = "an example talks to its user")]
fn inside(args: &[String]) -> Result<(), Box<dyn Error>> {
    let settings = args[1..].iter().filter_map(|a| a.split_once('='));
    let scheduler = SchedulerObject {
        name: args[0].clone(),
        bytes: std::fs::read("/scheduler.bpf.o")?,
        settings: settings.map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        ..SchedulerObject::default()
    };
    let loaded = load::load(&scheduler)?;
    println!("in charge: {} ({})", loaded.ops_name(), loaded.is_in_charge());
    for program in loaded.programs() {
        println!("  {:32} verified {:7} insns {:6}", program.name, program.verified_insns, program.insns);
    }
    std::thread::sleep(Duration::from_secs(2));
    println!("{:#?}", loaded.unload());
    Ok(())
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]
fn main() -> Result<(), Box<dyn Error>> {
    if guest::is_init() {
        guest::main();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        None => return Err("usage: try_object FILE.bpf.o [VAR=VALUE ...]".into()),
        Some("inside") => {
            if let Err(error) = inside(&args[1..]) {
                eprintln!("{error}");
                std::process::exit(1);
            }
            return Ok(());
        }
        Some(_) => {}
    }
    let mut progress = |line: &str| eprintln!("{line}");
    let kernel = kernel_image::find_or_fetch(&mut progress)?;
    let mut guest_args = vec!["inside".to_string()];
    guest_args.extend(args.iter().cloned());
    let mut job = VmJob::new(kernel, guest_args);
    job.cpus = 2;
    job.files = vec![("/scheduler.bpf.o".to_string(), std::fs::read(&args[0])?)];
    let output = vm::run(&job, &mut progress)?;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    println!("exit {}, kernel log: {:#?}", output.exit_code, output.kernel_log);
    Ok(())
}
