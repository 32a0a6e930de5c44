//! `-m host`: this machine as the kernel describes it, with the prices that `schedlab calibrate` has measured on it.

use crate::failure::Failure;
use crate::input;
use crate::shipped::described;
use schedlab_base::{Cpu, KernelVersion, Machine, TickPhase, counted};
use schedlab_live::calibrate::{Calibration, Price};
use schedlab_live::host;
use schedlab_live::kernel_image::{cache_dir, cached_file, cached_path};
use schedlab_machine::MachineFile;
use std::fmt::Write;
use std::path::PathBuf;

/// How late ticks of a CPU are against those of another one, ns, where no loop sees them: as in `machines/modern.toml`.
const ASSUMED_JITTER: u64 = 500;

/// Its name.
pub(crate) const HOST: &str = "host";

/// The calibrated description in the cache.
const KEPT: &str = "host.toml";

/// Where the calibrated description is written; nothing where there is no cache.
pub(crate) fn kept() -> Option<PathBuf> {
    cache_dir().ok().map(|folder| folder.join(KEPT))
}

/// What has to be read for `-m host`.
pub(crate) fn inputs() -> Vec<PathBuf> {
    cached_path(KEPT).into_iter().chain([PathBuf::from("/sys/devices/system")]).collect()
}

/// This machine: its topology now, and the prices that are kept of it, else those of the default costs.
///
/// # Errors
/// A kept description that is another user's, broken or of other CPUs, a machine that cannot be described.
pub(crate) fn machine() -> Result<MachineFile, Failure> {
    let found = host::machine().map_err(|error| Failure::environment(format!("-m {HOST}: {error}")))?;
    let kept = cached_file(KEPT).map_err(|error| Failure::environment(format!("-m {HOST}: {error}")))?;
    let Some((path, file)) = kept else {
        let about = "this machine, all prices assumed: `schedlab calibrate` measures them".to_string();
        return Ok(MachineFile { machine: found, about });
    };
    let place = path.display().to_string();
    let text = input::text_of(file).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    let file = described(&text, &place)?;
    if file.machine.cpus != found.cpus {
        return Err(Failure::usage(format!(
            "{place} describes {} of another machine; run `schedlab calibrate` again",
            counted(file.machine.cpu_count(), "CPU")
        )));
    }
    Ok(file)
}

/// The CPUs as a machine file has them.
fn cpus(cpus: &[Cpu]) -> String {
    let alone = |(at, cpu): (usize, &Cpu)| *cpu == Cpu { core: at as u32, llc: 0, node: 0 };
    if cpus.iter().enumerate().all(alone) {
        return cpus.len().to_string();
    }
    let one = |cpu: &Cpu| format!("    {{ core = {}, llc = {}, node = {} }},\n", cpu.core, cpu.llc, cpu.node);
    format!("[\n{}]", cpus.iter().map(one).collect::<String>())
}

/// A machine with measured prices.
#[derive(Clone, Debug)]
pub(crate) struct Calibrated {
    /// What is not measured has its figures.
    pub(crate) machine: Machine,
    /// One line for people.
    pub(crate) about: String,
    /// What was measured.
    pub(crate) calibration: Calibration,
    /// Of the kernel that it was measured on.
    pub(crate) release: String,
}

impl Calibrated {
    /// The machine file: each price with its source and spread.
    pub(crate) fn text(&self) -> String {
        let machine = &self.machine;
        let mut text = format!("# Measured by `schedlab calibrate` on {}.\n\n[machine]\n", self.release);
        let mut line = |key: &str, value: String, about: &str| {
            let comment = if about.is_empty() { String::new() } else { format!("  # {about}") };
            let _ = writeln!(text, "{}", format!("{:<34}{comment}", format!("{key} = {value}")).trim_end());
        };
        line("name", format!("{:?}", machine.name), "");
        line("about", format!("{:?}", self.about), "");
        line("cpus", cpus(&machine.cpus), "");
        line("clock_mhz", machine.clock_mhz.to_string(), "");
        let hz = self.calibration.hz;
        line(
            "hz",
            hz.unwrap_or(machine.hz).to_string(),
            if hz.is_some() { "measured: distance of ticks" } else { "assumed" },
        );
        line("cache_kib", machine.cache_kib.to_string(), "");
        line("llc_kib", machine.llc_kib.to_string(), "");
        line("smt_speed_percent", machine.smt_speed_percent.to_string(), "assumed");
        line("contention", contention(&machine.contention_permille), "");
        if machine.one_processor {
            line("one_processor", "true".to_string(), "CPUs share the clock of instructions");
        }
        text.push_str("\n[kernel]\n");
        let mut line = |key: &str, value: String, about: &str| {
            let _ = writeln!(text, "{:<34}  # {about}", format!("{key} = {value}"));
        };
        line("version", format!("\"{}\"", self.version()), &format!("the nearest to {}", self.release));
        let ticks = if machine.kernel.ticks == TickPhase::Aligned { "aligned" } else { "spread" };
        line("ticks", format!("\"{ticks}\""), "assumed");
        let jitter = self.calibration.tick_jitter;
        line(
            "tick_jitter",
            format!("\"{}ns\"", jitter.unwrap_or(ASSUMED_JITTER)),
            if jitter.is_some() { "measured: gaps of two CPUs that read the clock" } else { "assumed" },
        );
        line("timer_slack", format!("\"{}ns\"", self.calibration.timer_slack), "measured: PR_GET_TIMERSLACK");
        text.push_str("\n[costs]\n");
        for (key, assumed) in schedlab_machine::prices(&machine.costs) {
            let _ = writeln!(text, "{}", self.price(key, assumed));
        }
        text
    }

    /// The line of a price; `assumed` is what it is where it was not measured.
    fn price(&self, key: &str, assumed: u64) -> String {
        let value =
            |value: u64| if key.ends_with("_ps") { value.to_string() } else { format!("\"{value}ns\"") };
        let found = self.calibration.prices.iter().find(|price| price.key == key);
        if let Some(Price { value: figure, spread, source, .. }) = found {
            let assignment = format!("{key} = {}", value(figure.round() as u64));
            return format!("{assignment:<34}  # measured: {source}; +- {spread:.0}");
        }
        let missing = self.calibration.missing.iter().find(|(missing, _)| *missing == key);
        let why = missing.map_or("no loop measures it", |(_, why)| why);
        format!("{:<34}  # assumed: {why}", format!("{key} = {}", value(assumed)))
    }

    /// The version whose rules are nearest to those of the release.
    fn version(&self) -> KernelVersion {
        let numbers: Vec<u32> =
            self.release.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
        match numbers[..] {
            [major, minor, ..] => KernelVersion::nearest(major, minor),
            _ => KernelVersion::LAST,
        }
    }
}

fn contention(permille: &[u32]) -> String {
    let factors: Vec<String> =
        permille.iter().map(|&factor| format!("{:?}", f64::from(factor) / 1000.0)).collect();
    format!("[{}]", factors.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::DurationNs;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let price = Price { key: "wakeup", value: 1234.4, spread: 5.0, source: "a loop" };
        let calibration = Calibration {
            prices: vec![price],
            timer_slack: 50_000,
            tick_jitter: Some(700),
            hz: Some(250),
            missing: vec![("exec", "depends")],
        };
        let mut machine = Machine::uniform(HOST, 2);
        machine.cpus[1].core = 0;
        let made = Calibrated { machine, about: "x".into(), calibration, release: "7.3.4-test".into() };
        let read = described(&made.text(), "host.toml").unwrap().machine;
        assert_eq!(read.cpus, made.machine.cpus);
        assert_eq!(
            (read.hz, read.costs.wakeup, read.kernel.version),
            (250, DurationNs(1234), KernelVersion::LAST)
        );
        assert_eq!(read.kernel.tick_jitter, DurationNs(700));
        assert_eq!(read.costs.exec, made.machine.costs.exec);
        let told = |words: &str| assert!(made.text().contains(words), "{}", made.text());
        told("# measured: a loop; +- 5");
        told("# assumed: depends");
        let old = Calibrated { release: "6.18.2".into(), ..made };
        assert!(old.text().contains("version = \"6.18\""));
    }
}
