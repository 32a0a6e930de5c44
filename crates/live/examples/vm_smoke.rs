//! Boots a VM with this program as its only content and runs a small job in it.

use std::time::Duration;

use schedlab_live::vm::{self, VmJob};
use schedlab_live::{guest, kernel_image};

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    if guest::is_init() {
        guest::main();
    }
    if std::env::args().nth(1).as_deref() == Some("job") {
        eprintln!("the job runs");
        std::fs::write("/tmp/state", std::fs::read("/sys/kernel/sched_ext/state")?)?;
        println!("cpus {}", std::thread::available_parallelism()?);
        return Ok(());
    }
    let mut progress = |line: &str| eprintln!("{line}");
    let kernel = kernel_image::find_or_fetch(&mut progress)?;
    let mut job = VmJob::new(kernel, vec!["job".to_string()]);
    job.cpus = 2;
    job.collect = vec!["/tmp/state".to_string()];
    job.timeout = Duration::from_secs(30);
    let output = vm::run(&job, &mut progress)?;
    println!("{output:#?}");
    Ok(())
}
