//! Runs a workload of the catalogue for real on this machine, under the scheduler that it has:
//! `cargo run -p schedlab-live --example try_workload chat:rooms=1,messages=10`.

use std::error::Error;

use schedlab_live::exec::{self, ExecOptions};
use schedlab_workload::catalog;

#[allow(clippy::print_stdout, reason = "an example talks to its user")]
fn main() -> Result<(), Box<dyn Error>> {
    schedlab_live::enter();
    let spec = std::env::args().nth(1).ok_or("usage: try_workload NAME[:key=value,...]")?;
    let scenario = catalog::build(&spec, 1)?;
    let outcome = exec::run(&scenario, &ExecOptions::default(), &mut || true)?;
    for metric in scenario.metrics.iter().filter_map(|m| m.evaluate(&outcome.measurements)) {
        println!("{:24} {:14.3} {}", metric.name, metric.value, metric.unit);
    }
    println!("elapsed {:?}", outcome.measurements.elapsed);
    for task in outcome.tasks.iter().take(8).chain(outcome.tasks.last()) {
        println!("{task:?}");
    }
    Ok(())
}
