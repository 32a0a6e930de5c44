//! The machine file that `schedlab calibrate` writes: what was read, what was measured, and what is assumed, each with its source.

use schedlab_base::{Cpu, KernelFeatures, KernelVersion, Preemption, TickPhase, counted};
use schedlab_live::calibrate::{Calibration, Price};
use schedlab_live::host::Found;
use schedlab_live::host::kernel::{Kernel, Told};
use std::fmt::{Display, Write};

/// How late ticks of a CPU are against those of another one, ns, where no loop sees them: as in `machines/modern.toml`.
const ASSUMED_JITTER: u64 = 500;

/// How the comment of a price begins that the tries do not agree on.
const UNSURE: &str = "  # not measured: ";

/// Where the kernel lists vulnerabilities.
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// A machine with measured prices.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// What is not measured has its figures.
    pub found: Found,
    /// One line for people.
    pub about: String,
    /// What was measured.
    pub calibration: Calibration,
    /// The kernel that it was measured on.
    pub kernel: Kernel,
}

/// The line of a key: an assignment, and what is said of it.
fn line(text: &mut String, key: &str, value: impl Display, about: &str) {
    let comment = if about.is_empty() { String::new() } else { format!("  # {about}") };
    let _ = writeln!(text, "{}", format!("{:<34}{comment}", format!("{key} = {value}")).trim_end());
}

/// What is said of a value.
fn read_or_assumed<T>(told: Option<&Told<T>>) -> String {
    told.map_or_else(|| "assumed".to_string(), |told| format!("read: {}", plain(&told.source)))
}

/// The words as part of a comment, which is one line.
fn plain(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).collect()
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

fn contention(permille: &[u32]) -> String {
    let factors: Vec<String> =
        permille.iter().map(|&factor| format!("{:?}", f64::from(factor) / 1000.0)).collect();
    format!("[{}]", factors.join(", "))
}

impl Calibrated {
    /// The machine file.
    pub fn text(&self) -> String {
        let mut text = self.head();
        self.machine(&mut text);
        self.kernel(&mut text);
        text.push_str("\n[costs]\n");
        for (key, assumed) in schedlab_machine::prices(&self.found.machine.costs) {
            let _ = writeln!(text, "{}", self.price(key, assumed));
        }
        text
    }

    /// Where the prices are from, and the mitigations, which are part of them.
    fn head(&self) -> String {
        let mut text = format!("# Measured by `schedlab calibrate` on {}.\n", plain(&self.kernel.release));
        let Some(mitigations) = &self.kernel.mitigations else {
            let _ = writeln!(text, "# Mitigations are unknown: there is no {VULNERABILITIES}.\n");
            return text;
        };
        let none = if mitigations.active.is_empty() { "none" } else { "part of the prices" };
        let _ = writeln!(text, "#\n# Active mitigations ({VULNERABILITIES}): {none}");
        for (name, words) in &mitigations.active {
            let words = plain(words);
            let words = words.strip_prefix("Mitigation: ").unwrap_or(&words);
            let _ = writeln!(text, "#   {}: {words}", plain(name));
        }
        if !mitigations.open.is_empty() {
            let _ = writeln!(text, "# Vulnerable without one: {}", plain(&mitigations.open.join(", ")));
        }
        text.push('\n');
        text
    }

    fn machine(&self, text: &mut String) {
        let machine = &self.found.machine;
        let told = |read: bool| if read { "read: /sys/devices/system/cpu" } else { "assumed" };
        text.push_str("[machine]\n");
        line(text, "name", format_args!("{:?}", machine.name), "");
        line(text, "about", format_args!("{:?}", self.about), "");
        line(text, "cpus", cpus(&machine.cpus), "read: /sys/devices/system/cpu");
        line(text, "clock_mhz", machine.clock_mhz, told(self.found.clock));
        let (hz, about) = self.hz();
        line(text, "hz", hz, &about);
        line(text, "cache_kib", machine.cache_kib, told(self.found.caches));
        line(text, "llc_kib", machine.llc_kib, told(self.found.caches));
        line(text, "smt_speed_percent", machine.smt_speed_percent, "assumed");
        line(text, "contention", contention(&machine.contention_permille), "");
        if machine.one_processor {
            line(text, "one_processor", true, "CPUs share the clock of instructions");
        }
    }

    /// The ticks a second: what the kernel says goes before what gaps look like, which a hypervisor makes too.
    fn hz(&self) -> (u32, String) {
        match (&self.kernel.hz, self.calibration.hz) {
            (Some(told), _) => {
                let other =
                    self.contradiction().map(|hz| format!("; the gaps of a lone task are {hz} a second"));
                (told.value, format!("read: {}{}", plain(&told.source), other.unwrap_or_default()))
            }
            (None, Some(hz)) => (hz, "measured: distance of ticks".to_string()),
            (None, None) => (self.found.machine.hz, "assumed".to_string()),
        }
    }

    /// What the gaps look like, where that is not what the kernel says.
    fn contradiction(&self) -> Option<u32> {
        let said = self.kernel.hz.as_ref()?.value;
        self.calibration.hz.filter(|hz| *hz != said)
    }

    fn kernel(&self, text: &mut String) {
        let (kernel, assumed) = (&self.kernel, self.features());
        text.push_str("\n[kernel]\n");
        let version = format!("\"{}\"", assumed.version);
        line(text, "version", version, &format!("the nearest to {}", plain(&kernel.release)));
        let hrtick = kernel.hrtick.as_ref();
        let about = match hrtick {
            Some(told) => format!("read: {}", plain(&told.source)),
            None => "assumed: the version's default; root reads /sys/kernel/debug/sched/features".to_string(),
        };
        line(text, "hrtick", hrtick.map_or(assumed.hrtick, |told| told.value), &about);
        let model = kernel.preempt.as_ref();
        let preempt = match model.map_or(assumed.preempt, |told| told.value.preemption()) {
            Preemption::Full => "\"full\"",
            Preemption::Lazy => "\"lazy\"",
        };
        line(text, "preempt", preempt, &read_or_assumed(model));
        let phase = kernel.ticks.as_ref();
        let aligned = phase.map_or(assumed.ticks, |told| told.value) == TickPhase::Aligned;
        let ticks = if aligned { "\"aligned\"" } else { "\"spread\"" };
        line(text, "ticks", ticks, &read_or_assumed(phase));
        let jitter = self.calibration.tick_jitter;
        let about = jitter.map_or("assumed", |_| "measured: gaps of two CPUs that read the clock");
        line(text, "tick_jitter", format_args!("\"{}ns\"", jitter.unwrap_or(ASSUMED_JITTER)), about);
        let slack = self.calibration.timer_slack;
        line(text, "timer_slack", format_args!("\"{slack}ns\""), "read: PR_GET_TIMERSLACK");
    }

    /// The line of a price; `assumed` is what it is where it was not measured.
    fn price(&self, key: &str, assumed: u64) -> String {
        let ps = key.ends_with("_ps");
        let value = |value: u64| if ps { value.to_string() } else { format!("\"{value}ns\"") };
        if let Some(price) = self.calibration.prices.iter().find(|price| price.key == key) {
            let assignment = format!("{key} = {}", value(price.value.round() as u64));
            return format!("{assignment:<34}  # {}", measured(price));
        }
        let assignment = format!("{key} = {}", value(assumed));
        if let Some(unsure) = self.calibration.unsure.iter().find(|unsure| unsure.key == key) {
            return format!("{assignment:<34}{UNSURE}{unsure}");
        }
        let missing = self.calibration.missing.iter().find(|(missing, _)| *missing == key);
        let why = missing.map_or("no loop measures it", |(_, why)| why);
        format!("{assignment:<34}  # assumed: {why}")
    }

    /// What the version has whose rules are nearest to those of the release.
    fn features(&self) -> KernelFeatures {
        let numbers: Vec<u32> =
            self.kernel.release.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
        let version = match numbers[..] {
            [major, minor, ..] => KernelVersion::nearest(major, minor),
            _ => KernelVersion::LAST,
        };
        version.features()
    }

    /// What is to be reported beside the file.
    pub fn notes(&self) -> Vec<String> {
        let contradiction = self.contradiction().map(|hz| {
            let said = self.hz().0;
            format!("hz: {said} is read from the kernel's configuration, though gaps of a lone task are {hz} a second (a hypervisor's tick?)")
        });
        let prices = &self.calibration.prices;
        let far = prices.iter().filter(|price| price.value > 0.0 && price.apart() >= 0.5);
        let widest = far.max_by(|a, b| (a.apart() / a.value).total_cmp(&(b.apart() / b.value)));
        let widest =
            widest.map(|price| format!("; the widest spread is that of {}: {}", price.key, spread(price)));
        let tries = prices.first().map_or(0, |price| price.tries.len());
        let count = counted(prices.len(), "price");
        let measured = format!("{count} measured {tries} times{}", widest.unwrap_or_default());
        contradiction.into_iter().chain([measured]).collect()
    }
}

/// Half of what tries are apart, in the price's unit and as a part of it.
fn spread(price: &Price) -> String {
    let unit = if price.key.ends_with("_ps") { "ps" } else { "ns" };
    let apart = format!("+- {:.0} {unit}", price.apart());
    if price.value < 0.5 { apart } else { format!("{apart} ({:.0} %)", 100.0 * price.apart() / price.value) }
}

/// How a price was measured. The spread of the tries comes first: it includes what happens between them.
fn measured(price: &Price) -> String {
    format!(
        "measured {} times, {}, within one +- {:.0}: {}",
        price.tries.len(),
        spread(price),
        price.spread,
        price.source
    )
}

/// What a machine file lacks because tries did not agree: keys with what they gave, and what to do about it.
pub fn not_measured(text: &str) -> Option<String> {
    let of_line = |line: &str| {
        let (assignment, why) = line.split_once(UNSURE)?;
        Some(format!("{} ({why})", assignment.split_once(" = ")?.0))
    };
    let found: Vec<String> = text.lines().filter_map(of_line).collect();
    (!found.is_empty()).then(|| {
        format!(
            "not measured, assumed in the file: {}. Calibrate again while nothing else runs, or longer (--tries 9)",
            found.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::described;
    use schedlab_base::{DurationNs, Machine};
    use schedlab_live::calibrate::Unsure;
    use schedlab_live::host::kernel::{Mitigations, Model};

    fn told<T>(value: T, source: &str) -> Option<Told<T>> {
        Some(Told { value, source: source.to_string() })
    }

    fn calibrated() -> Calibrated {
        let tries = vec![1200.0, 1234.4, 1300.0];
        let price = Price { key: "wakeup", value: 1234.4, spread: 5.0, tries, source: "a loop" };
        let unsure = Unsure { key: "futex", values: vec![7646.0, 75.0, 16.0], tries: 3, with: None };
        let calibration = Calibration {
            prices: vec![price],
            timer_slack: 50_000,
            tick_jitter: Some(700),
            hz: Some(250),
            missing: vec![("exec", "depends")],
            unsure: vec![unsure],
        };
        let mut machine = Machine::uniform("host", 2);
        machine.cpus[1].core = 0;
        let found = Found { machine, clock: false, caches: true };
        let kernel = Kernel { release: "7.3.4-test".into(), ..Kernel::default() };
        Calibrated { found, about: "x".into(), calibration, kernel }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let made = calibrated();
        let read = described(&made.text(), "host.toml").unwrap().machine;
        assert_eq!(read.cpus, made.found.machine.cpus);
        assert_eq!(
            (read.hz, read.costs.wakeup, read.kernel.version),
            (250, DurationNs(1234), KernelVersion::LAST)
        );
        assert_eq!(read.kernel.tick_jitter, DurationNs(700));
        let assumed = &made.found.machine.costs;
        assert_eq!((read.costs.exec, read.costs.futex), (assumed.exec, assumed.futex));
        let told = |words: &str| assert!(made.text().contains(words), "{}", made.text());
        told("# measured 3 times, +- 50 ns (4 %), within one +- 5: a loop");
        told("# assumed: depends");
        told("  # not measured: three tries gave 7646, 75 and 16 ns\n");
        told("# measured: distance of ticks");
        told("# Mitigations are unknown");
        let mut old = calibrated();
        old.kernel.release = "6.18.2".into();
        assert!(old.text().contains("version = \"6.18\"") && old.text().contains("hrtick = false"));
    }

    #[test]
    fn what_the_kernel_tells_goes_before_what_is_seen_and_assumed() {
        let mut made = calibrated();
        made.calibration.hz = Some(1000);
        made.kernel.hz = told(250, "/proc/config.gz");
        made.kernel.preempt = told(Model::None, "/proc/config.gz: CONFIG_PREEMPT_NONE");
        made.kernel.hrtick = told(false, "/sys/kernel/debug/sched/features");
        made.kernel.ticks = told(TickPhase::Spread, "/proc/cmdline: skew_tick=1");
        let active = vec![("spectre_v2".to_string(), "Mitigation: Ret\npolines".to_string())];
        made.kernel.mitigations = Some(Mitigations { active, open: vec!["mds".to_string()] });
        let text = made.text();
        let read = described(&text, "host.toml").unwrap().machine;
        let kernel = read.kernel;
        assert_eq!((read.hz, kernel.preempt, kernel.hrtick), (250, Preemption::Full, false));
        assert_eq!(kernel.ticks, TickPhase::Spread);
        for words in [
            "# read: /proc/config.gz; the gaps of a lone task are 1000 a second\n",
            "# read: /proc/config.gz: CONFIG_PREEMPT_NONE\n",
            "#   spectre_v2: Retpolines\n# Vulnerable without one: mds\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(made.notes()[0].starts_with("hz: 250 is read"));
        made.calibration.hz = Some(250);
        assert!(made.text().contains("# read: /proc/config.gz\n"));
        let widest = "1 price measured 3 times; the widest spread is that of wakeup: +- 50 ns (4 %)";
        assert_eq!(made.notes(), [widest]);
    }

    #[test]
    fn what_tries_do_not_agree_on_is_told_with_the_cure() {
        let mut made = calibrated();
        let told = not_measured(&made.text()).unwrap();
        assert!(told.contains("futex (three tries gave 7646, 75 and 16 ns). Calibrate again"), "{told}");
        made.calibration.unsure.clear();
        assert_eq!(not_measured(&made.text()), None);
    }
}
