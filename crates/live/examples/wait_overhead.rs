//! What watching waits costs: reads and writes of a pipe, with and without the watcher of
//! `schedlab deps`. As root, on a quiet machine:
//!
//!     cargo run --release -p schedlab-live --example wait_overhead
//!
//! Prints ns per call of a ping-pong between two processes on one CPU (two switches and one or two
//! wakeups a round trip) and of a process that reads what it has just written (none), then the kernel's own measure of each
//! BPF program. Rounds with and without take turns; the medians are shown.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::time::Instant;

use schedlab_live::load::count_run_time;
use schedlab_live::waits::WaitWatcher;

/// Rounds of each kind, and round trips in each.
const ROUNDS: usize = 15;
const TRIPS: u32 = 50_000;

#[allow(clippy::print_stdout, reason = "an example talks to its user")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    pin_to_first_cpu();
    let mut echo = Echo::start()?;
    let (mut own_reader, mut own_writer) = io::pipe()?;
    let mut plain = [Vec::new(), Vec::new()];
    let mut watched = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        plain[0].push(ping_pong(&mut echo)?);
        plain[1].push(read_own(&mut own_reader, &mut own_writer)?);
        let watcher = WaitWatcher::start()?;
        watcher.watch_all();
        watched[0].push(ping_pong(&mut echo)?);
        watched[1].push(read_own(&mut own_reader, &mut own_writer)?);
        if round + 1 == ROUNDS {
            costs(&watcher, &mut echo)?;
        }
    }
    for (kind, name) in ["ping-pong", "reads that do not block"].iter().enumerate() {
        let (without, with) = (median(&mut plain[kind]), median(&mut watched[kind]));
        println!("{name}: {without:.0} ns per call without, {with:.0} with, {:+.0}", with - without);
    }
    Ok(())
}

/// The kernel's measure of each program, in a ping-pong of its own.
#[allow(clippy::print_stdout, reason = "an example talks to its user")]
fn costs(watcher: &WaitWatcher, echo: &mut Echo) -> io::Result<()> {
    let counting = count_run_time()?;
    let before = watcher.run_times();
    ping_pong(echo)?;
    let after = watcher.run_times();
    drop(counting);
    for (before, after) in before.iter().zip(&after) {
        let (runs, time) = (after.runs - before.runs, after.time.0 - before.time.0);
        if runs > 0 {
            let (per_run, per_call) = (time as f64 / runs as f64, time as f64 / f64::from(4 * TRIPS));
            println!("{}: {runs} runs, {per_run:.0} ns each, {per_call:.0} ns per call", after.name);
        }
    }
    Ok(())
}

/// A process that sends back every byte that it gets.
struct Echo {
    to: PipeWriter,
    from: PipeReader,
    child: libc::pid_t,
}

impl Echo {
    fn start() -> io::Result<Echo> {
        let (mut there, to) = io::pipe()?;
        let (from, mut back) = io::pipe()?;
        // SAFETY: this process has one thread, so the child may continue as it likes.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop((to, from));
            let mut byte = [0];
            while there.read_exact(&mut byte).and_then(|()| back.write_all(&byte)).is_ok() {}
            std::process::exit(0);
        }
        if child < 0 { Err(io::Error::last_os_error()) } else { Ok(Echo { to, from, child }) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // SAFETY: our own child, which is not waited for elsewhere.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
    }
}

/// ns per call: four calls a round trip.
fn ping_pong(echo: &mut Echo) -> io::Result<f64> {
    let begin = Instant::now();
    let mut byte = [1];
    for _ in 0..TRIPS {
        echo.to.write_all(&byte)?;
        echo.from.read_exact(&mut byte)?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(4 * TRIPS))
}

/// ns per call: a write and a read.
fn read_own(reader: &mut PipeReader, writer: &mut PipeWriter) -> io::Result<f64> {
    let begin = Instant::now();
    let mut byte = [1];
    for _ in 0..TRIPS {
        writer.write_all(&byte)?;
        reader.read_exact(&mut byte)?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pin_to_first_cpu() {
    // SAFETY: the set is plain data that lives across the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
