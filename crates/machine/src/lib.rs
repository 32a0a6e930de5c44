//! Machine files: TOML in, [`Machine`] out, and the prices of a machine by name. The format is described in
//! `docs/machines.md`. An unknown key, a missing unit and a machine without CPUs are
//! errors that name file, line and cure. Reads no file: the caller has the text.

use schedlab_base::{
    Background, Costs, Cpu, DurationNs, KernelFeatures, KernelPreset, KernelVersion, Machine, Mistake,
    Preemption, Start, TickPhase,
};
use serde::Deserialize;
use serde::de::Visitor;
use std::error::Error;
use std::fmt;

/// A machine with the line that `schedlab list machines` shows.
#[derive(Clone, Debug)]
pub struct MachineFile {
    /// The description to simulate.
    pub machine: Machine,
    /// One line for people.
    pub about: String,
}

/// Why a text is no machine file: one line that names file, line and cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFileError {
    /// The file, as errors name it.
    pub origin: String,
    /// The line, and what is wrong there.
    pub mistake: Mistake,
}

impl fmt::Display for MachineFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine file {}:{}", self.origin, self.mistake)
    }
}

impl Error for MachineFileError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    machine: Section,
    #[serde(default)]
    kernel: KernelSection,
    #[serde(default)]
    background: Vec<BackgroundSection>,
    #[serde(default)]
    costs: CostsSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    name: String,
    #[serde(default)]
    about: String,
    cpus: Cpus,
    clock_mhz: Option<u32>,
    hz: Option<u32>,
    cache_kib: Option<u32>,
    llc_kib: Option<u32>,
    line_bytes: Option<u32>,
    smt_speed_percent: Option<u32>,
    #[serde(default)]
    contention: Vec<f64>,
    #[serde(default)]
    one_processor: bool,
}

/// Features of the kernel; what is absent is as the version has it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelSection {
    preset: Option<Preset>,
    version: Option<Version>,
    hrtick: Option<bool>,
    preempt: Option<Choice<Preemption>>,
    ticks: Option<Choice<TickPhase>>,
    tick_jitter: Option<Span>,
    timer_slack: Option<Span>,
    start: Option<Choice<Start>>,
}

/// A kernel thread that has work now and then.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundSection {
    name: String,
    period: Span,
    length: Span,
    #[serde(default)]
    per_cpu: bool,
}

impl BackgroundSection {
    fn thread(self) -> Background {
        Background { name: self.name, period: self.period.0, length: self.length.0, per_cpu: self.per_cpu }
    }
}

impl KernelSection {
    fn features(&self) -> KernelFeatures {
        let version = self.version.as_ref().map(|version| version.0);
        let base = match (&self.preset, version) {
            (Some(Preset(preset)), None) => preset.features(),
            (_, version) => version.unwrap_or(KernelVersion::LAST).features(),
        };
        KernelFeatures {
            version: base.version,
            hrtick: self.hrtick.unwrap_or(base.hrtick),
            preempt: self.preempt.map_or(base.preempt, |preempt| preempt.0),
            ticks: self.ticks.map_or(base.ticks, |ticks| ticks.0),
            tick_jitter: self.tick_jitter.map_or(base.tick_jitter, |span| span.0),
            timer_slack: self.timer_slack.map_or(base.timer_slack, |span| span.0),
            start: self.start.map_or(base.start, |start| start.0),
        }
    }
}

/// A value with names.
trait Named: Copy + 'static {
    /// All of them.
    const ALL: &'static [(&'static str, Self)];
}

/// A version of the kernel, as `6.12`.
struct Version(KernelVersion);

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        String::deserialize(deserializer)?.parse().map(Version).map_err(serde::de::Error::custom)
    }
}

/// A distribution's kernel by its name.
struct Preset(KernelPreset);

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
        let name = String::deserialize(deserializer)?;
        KernelPreset::named(&name).map(Preset).map_err(serde::de::Error::custom)
    }
}

impl Named for Preemption {
    const ALL: &'static [(&'static str, Preemption)] =
        &[("full", Preemption::Full), ("lazy", Preemption::Lazy)];
}

impl Named for Start {
    const ALL: &'static [(&'static str, Start)] = &[("at-once", Start::AtOnce), ("gate", Start::Gate)];
}

impl Named for TickPhase {
    const ALL: &'static [(&'static str, TickPhase)] =
        &[("aligned", TickPhase::Aligned), ("spread", TickPhase::Spread)];
}

/// One of the named values, by its name.
#[derive(Clone, Copy)]
struct Choice<T>(T);

impl<'de, T: Named> Deserialize<'de> for Choice<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Choice<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let found = T::ALL.iter().find(|(name, _)| *name == text);
        found.map(|&(_, value)| Choice(value)).ok_or_else(|| {
            let names: Vec<String> = T::ALL.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            serde::de::Error::custom(format!("\"{text}\" is none of {}", names.join(", ")))
        })
    }
}

/// A count of equal CPUs, a regular topology, or one entry a CPU.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "cpus is a count (8), a topology ({ sockets = 2, cores = 8, smt = 2, llcs = 1, nodes = 1 }) or a \
                 list of { core, llc, node }"
)]
enum Cpus {
    Count(u32),
    Topology(Topology),
    List(Vec<CpuEntry>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topology {
    #[serde(default = "one")]
    sockets: u32,
    /// Cores of a socket.
    cores: u32,
    /// Threads of a core.
    #[serde(default = "one")]
    smt: u32,
    /// Last-level caches of a socket.
    #[serde(default = "one")]
    llcs: u32,
    /// NUMA nodes of a socket.
    #[serde(default = "one")]
    nodes: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuEntry {
    core: u32,
    #[serde(default)]
    llc: u32,
    #[serde(default)]
    node: u32,
}

fn one() -> u32 {
    1
}

/// A duration with its unit, as in `"2us"`.
#[derive(Clone, Copy)]
struct Span(DurationNs);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_str(SpanText)
    }
}

/// Reads a [`Span`].
struct SpanText;

impl Visitor<'_> for SpanText {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit (\"2us\")")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
        text.parse().map(Span).map_err(E::custom)
    }
}

/// Declares the optional keys of `[costs]` once; a cost that is added to
/// [`Costs`] and forgotten here does not compile.
macro_rules! costs_section {
    (ps: $($ps:ident)*; spans: $($span:ident)*) => {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct CostsSection {
            $($ps: Option<u64>,)*
            $($span: Option<Span>,)*
        }

        impl CostsSection {
            fn over(&self, base: Costs) -> Costs {
                let mut costs = Costs {
                    $($ps: self.$ps.unwrap_or(base.$ps),)*
                    $($span: self.$span.map_or(base.$span, |span| span.0),)*
                };
                // Without prices of their own, a switch to or from the idle task and the search for a task are like others.
                costs.idle_switch = self.idle_switch.map_or(costs.context_switch, |span| span.0);
                costs.kfunc_find = self.kfunc_find.map_or(costs.kfunc, |span| span.0);
                costs
            }
        }

        /// The names of all costs.
        const COSTS: &[&str] = &[$(stringify!($ps),)* $(stringify!($span),)*];

        /// All costs with their names, in ps or ns, in the order of a machine file.
        pub fn prices(costs: &Costs) -> Vec<(&'static str, u64)> {
            vec![$((stringify!($ps), costs.$ps),)* $((stringify!($span), costs.$span.0),)*]
        }

        /// The cost of a name, in ps or ns.
        fn cost<'a>(costs: &'a mut Costs, name: &str) -> Option<&'a mut u64> {
            $(if name == stringify!($ps) {
                return Some(&mut costs.$ps);
            })*
            $(if name == stringify!($span) {
                return Some(&mut costs.$span.0);
            })*
            None
        }
    };
}

costs_section! {
    ps: bpf_insn_ps copy_byte_ps;
    spans: callback kfunc helper kfunc_insert kfunc_move kfunc_find dsq_enqueue kfunc_kick irq_work lock lock_transfer line_transfer lock_spinner schedule
        block context_switch idle_switch switch_end address_space_switch wakeup wakeup_queued fair_wakeup fair_switch ipi_send ipi_latency idle_enter idle_exit interrupt timer tick cache_refill_per_kib memory_refill_per_kib touch_per_kib migration syscall pipe socket loopback sysv futex
        sched_yield fork fork_child exec exit page_fault page_copy page_reuse
}

/// Most ns of a price. Chosen: thousands of times any real one. A cache of 4 GiB, refilled at the highest contention, and all
/// instructions that a callback may execute still are a time that 64 bits hold.
const MOST_NS: u64 = 100_000_000;

/// The bound in ps.
const MOST_PS: u64 = 1000 * MOST_NS;

/// Parameters besides the costs that can be scaled.
const CACHES: [&str; 2] = ["cache_kib", "llc_kib"];

/// The names of all parameters that [`scaled`] takes.
pub fn parameters() -> Vec<&'static str> {
    COSTS.iter().copied().chain(CACHES).collect()
}

/// A machine with one parameter `numerator / denominator` times as large. Nothing for
/// an unknown name, or where that changes nothing.
pub fn scaled(machine: &Machine, name: &str, numerator: u32, denominator: u32) -> Option<Machine> {
    let mut machine = machine.clone();
    let kib = match name {
        "cache_kib" => Some(&mut machine.cache_kib),
        "llc_kib" => Some(&mut machine.llc_kib),
        _ => None,
    };
    let changed = if let Some(kib) = kib {
        let before = *kib;
        *kib = before.saturating_mul(numerator) / denominator;
        *kib != before
    } else {
        let cost = cost(&mut machine.costs, name)?;
        let before = *cost;
        *cost = before.saturating_mul(u64::from(numerator)) / u64::from(denominator);
        *cost != before
    };
    (changed && machine.validate().is_ok()).then_some(machine)
}

/// Reads a machine description; `origin` names it in errors.
///
/// # Errors
/// The first mistake of the text.
pub fn parse(text: &str, origin: &str) -> Result<MachineFile, MachineFileError> {
    let refused = |mistake: Mistake| MachineFileError { origin: origin.to_string(), mistake };
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        refused(Mistake::of_toml(text, at, error.message()))
    })?;
    let section = file.machine;
    let of_key = |key: &str, words: String| {
        let starts = |line: &str| line.trim_start().trim_start_matches('[').starts_with(key);
        refused(Mistake { line: text.lines().position(starts).map_or(1, |index| index + 1), words })
    };
    let mut machine = Machine::uniform(&section.name, 1);
    machine.cpus = cpus(&section.cpus).map_err(|what| of_key("cpus", what))?;
    machine.clock_mhz = section.clock_mhz.unwrap_or(machine.clock_mhz);
    let of_kernel = file.kernel.preset.as_ref().map(|preset| preset.0.hz);
    machine.hz = section.hz.or(of_kernel).unwrap_or(machine.hz);
    machine.cache_kib = section.cache_kib.unwrap_or(machine.cache_kib);
    machine.llc_kib = section.llc_kib.unwrap_or(machine.llc_kib);
    machine.line_bytes = section.line_bytes.unwrap_or(machine.line_bytes);
    machine.smt_speed_percent = section.smt_speed_percent.unwrap_or(machine.smt_speed_percent);
    machine.contention_permille = section.contention.iter().map(|f| (f * 1000.0).round() as u32).collect();
    machine.one_processor = section.one_processor;
    machine.kernel = file.kernel.features();
    machine.background = file.background.into_iter().map(BackgroundSection::thread).collect();
    machine.costs = file.costs.over(Costs::default());
    if file.costs.line_transfer.is_none() {
        machine.costs.line_transfer = machine.costs.lock_transfer;
    }
    machine.validate().map_err(|error| {
        let words = error.to_string();
        of_key(words.split(':').next().unwrap_or(""), words.clone())
    })?;
    if let Some((key, words)) = too_dear(&machine.costs) {
        return Err(of_key(key, words));
    }
    Ok(MachineFile { machine, about: section.about })
}

/// The first price that is beyond [`MOST_NS`] or [`MOST_PS`], and what is wrong with it.
fn too_dear(costs: &Costs) -> Option<(&'static str, String)> {
    let beyond = |(key, price): (&'static str, u64)| {
        let (most, unit) = if key.ends_with("_ps") { (MOST_PS, "ps") } else { (MOST_NS, "ns") };
        (price > most).then(|| (key, format!("{key}: {price} {unit} is more than 100 ms")))
    };
    prices(costs).into_iter().find_map(beyond)
}

fn cpus(cpus: &Cpus) -> Result<Vec<Cpu>, String> {
    let limit = schedlab_base::MAX_CPUS as u64;
    let check = |count: u64| match count {
        0 => Err("cpus: a machine needs at least one CPU; write cpus = 1 or more".to_string()),
        count if count > limit => Err(format!("cpus: {count} CPUs, at most {limit} are supported")),
        _ => Ok(()),
    };
    match cpus {
        Cpus::Count(count) => {
            check(u64::from(*count))?;
            Ok((0..*count).map(|core| Cpu { core, llc: 0, node: 0 }).collect())
        }
        Cpus::List(list) => {
            check(list.len() as u64)?;
            Ok(list.iter().map(|cpu| Cpu { core: cpu.core, llc: cpu.llc, node: cpu.node }).collect())
        }
        Cpus::Topology(topology) => {
            let parts = [topology.sockets, topology.cores, topology.smt];
            check(parts.iter().fold(1u64, |product, &part| product.saturating_mul(u64::from(part))))?;
            regular(topology)
        }
    }
}

/// CPUs numbered as Linux does: the first thread of every core, then the second
/// ones.
fn regular(topology: &Topology) -> Result<Vec<Cpu>, String> {
    for (key, parts) in [("llcs", topology.llcs), ("nodes", topology.nodes)] {
        if parts == 0 || !topology.cores.is_multiple_of(parts) {
            return Err(format!(
                "cpus: {key} = {parts} does not divide the {} cores of a socket",
                topology.cores
            ));
        }
    }
    let cores = topology.sockets * topology.cores;
    let cpu = |core: u32| {
        let (socket, place) = (core / topology.cores, core % topology.cores);
        let part = |parts: u32| socket * parts + place / (topology.cores / parts);
        Cpu { core, llc: part(topology.llcs), node: part(topology.nodes) }
    };
    Ok((0..topology.smt).flat_map(|_| (0..cores).map(cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, "m.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_full_description() {
        let text = "[machine]\nname = 'two'\nabout = 'x'\ncpus = { sockets = 2, cores = 2, smt = 2 }\nhz = 100\n\
                    cache_kib = 512\ncontention = [1.0, 1.05]\n[costs]\nbpf_insn_ps = 1400\nfork = '250us'\n";
        let machine = parse(text, "m.toml").unwrap().machine;
        assert_eq!((machine.cpu_count(), machine.hz, machine.cache_kib), (8, 100, 512));
        assert_eq!(machine.contention_permille, [1000, 1050]);
        assert_eq!(machine.costs.fork, DurationNs::from_us(250));
        assert_eq!(machine.costs.bpf_insn_ps, 1400);
        assert_eq!(machine.cpus[3], Cpu { core: 3, llc: 1, node: 1 });
        assert_eq!(machine.cpus[5], Cpu { core: 1, llc: 0, node: 0 });
    }

    #[test]
    fn kernel_and_background_are_read_and_mistakes_named() {
        let head = "[machine]\nname = 'm'\ncpus = 1\n";
        let parsed = |rest: &str| parse(&format!("{head}{rest}"), "m.toml").unwrap().machine;
        assert_eq!(parsed("").kernel, KernelVersion::LAST.features());
        let old = parsed("[kernel]\nversion = '6.18'\nticks = 'spread'\ntimer_slack = '0ns'\n").kernel;
        assert!(!old.hrtick && old.ticks == TickPhase::Spread && old.timer_slack == DurationNs::ZERO);
        assert!(parsed("[kernel]\nversion = '6.18'\nhrtick = true\n").kernel.hrtick);
        let debian = parsed("[kernel]\npreset = 'debian-13'\n");
        assert_eq!((debian.hz, debian.kernel), (250, KernelPreset::named("debian-13").unwrap().features()));
        let mixed = parsed("hz = 300\n[kernel]\npreset = 'fedora-43'\npreempt = 'full'\n");
        assert_eq!((mixed.hz, mixed.kernel.preempt), (300, Preemption::Full));
        let threads = "[[background]]\nname = 'a'\nperiod = '5ms'\nlength = '10us'\nper_cpu = true\n";
        let thread = &parsed(threads).background[0];
        assert!(thread.per_cpu && thread.length == DurationNs::from_us(10));
        for (rest, told) in [
            ("[kernel]\nversion = '5.4'\n", "m.toml:5:"),
            ("[kernel]\nversion = '5.4'\n", "Linux 5.4 is not modelled: its fair class is CFS"),
            ("contention = [1.0, 2.0]\none_processor = true\n", "m.toml:4: contention: one_processor"),
            ("[kernel]\npreempt = 'none'\n", "\"none\" is none of \"full\", \"lazy\""),
            ("[kernel]\nhr_tick = true\n", "hr_tick"),
            ("[kernel]\npreset = 'debain-13'\n", "no kernel 'debain-13' (did you mean 'debian-13'?)"),
            ("[kernel]\ntimer_slack = '2s'\n", "m.toml:5: timer_slack: 2s is more than 1 s"),
            ("[[background]]\nname = 'a'\nperiod = '5ms'\n", "length"),
            (
                "[[background]]\nname = 'a'\nperiod = '5us'\nlength = '1us'\n",
                "m.toml:4: background: a: a period",
            ),
            ("[[background]]\nname = 'a'\nperiod = '5ms'\nlength = '6ms'\n", "at most its period"),
            ("[[background]]\nname = ''\nperiod = '5ms'\nlength = '1ms'\n", "1 to 15 bytes"),
        ] {
            let text = error(&format!("{head}{rest}"));
            assert!(text.contains(told), "{rest}: {text}");
        }
    }

    #[test]
    fn prices_beyond_all_sense_are_refused() {
        let head = "[machine]\nname = 'm'\ncpus = 1\n[costs]\n";
        assert!(parse(&format!("{head}fork = '100ms'\n"), "m.toml").is_ok());
        for (price, told) in [
            ("fork = '18446744073709551615ns'", "m.toml:5: '18446744073709551615ns' is too long"),
            ("fork = '720h'", "m.toml:5: fork: 2592000000000000 ns is more than 100 ms"),
            ("bpf_insn_ps = 100000000001", "m.toml:5: bpf_insn_ps: 100000000001 ps is more than 100 ms"),
        ] {
            let text = error(&format!("{head}{price}\n"));
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn every_parameter_can_be_scaled() {
        let mut machine = Machine::uniform("m", 1);
        let costs = &mut machine.costs;
        let zero = [&mut costs.lock_spinner, &mut costs.idle_enter, &mut costs.loopback];
        let parts = [
            &mut costs.block,
            &mut costs.switch_end,
            &mut costs.dsq_enqueue,
            &mut costs.touch_per_kib,
            &mut costs.fork_child,
        ];
        zero.into_iter().chain(parts).for_each(|price| *price = DurationNs(10));
        for name in parameters() {
            let (half, double) = (scaled(&machine, name, 1, 2), scaled(&machine, name, 2, 1));
            assert!(half.is_some() && double.is_some() && half != double, "{name}");
        }
        assert_eq!(scaled(&machine, "fork", 1, 2).unwrap().costs.fork.0 * 2, machine.costs.fork.0);
        machine.costs.lock_spinner = DurationNs(0);
        assert_eq!((scaled(&machine, "lock_spinner", 2, 1), scaled(&machine, "colour", 2, 1)), (None, None));
    }

    #[test]
    fn zero_cpus_are_refused_in_every_form() {
        for cpus in ["0", "[]", "{ cores = 0 }", "{ sockets = 0, cores = 4 }"] {
            let text = error(&format!("[machine]\nname = 'm'\ncpus = {cpus}\n"));
            assert!(text.contains("m.toml:3: cpus: a machine needs at least one CPU"), "{text}");
        }
    }

    #[test]
    fn mistakes_name_line_and_cure() {
        let unknown = error("[machine]\nname = 'm'\ncpus = 1\n[costs]\nforks = '1us'\n");
        assert!(unknown.contains("m.toml:5:") && unknown.contains("`fork`"), "{unknown}");
        let unit = error("[machine]\nname = 'm'\ncpus = 1\n[costs]\nfork = '10'\n");
        assert!(unit.contains("m.toml:5:") && unit.contains("write a number and a unit"), "{unit}");
        let hz = error("[machine]\nname = 'm'\ncpus = 1\nhz = 5\n");
        assert!(hz.contains("m.toml:4: hz: 5 is outside"), "{hz}");
        let odd = error("[machine]\nname = 'm'\ncpus = { cores = 3, llcs = 2 }\n");
        assert!(odd.contains("m.toml:3:") && odd.contains("does not divide"), "{odd}");
        let huge = error("[machine]\nname = 'm'\ncpus = 4000000000\n");
        assert!(huge.contains("at most"), "{huge}");
        let form = error("[machine]\nname = 'm'\ncpus = 'many'\n");
        assert!(form.contains("cpus is a count"), "{form}");
        assert!(error("what").contains("m.toml:1:"));
    }

    #[test]
    fn values_of_another_kind_name_the_key_and_what_is_wanted() {
        let told = |line: &str| error(&format!("[machine]\nname = 'm'\ncpus = 1\n{line}\n"));
        let wrong = [
            ("hz = 'fast'", "4: hz: a whole number from 0 to 4294967295 is wanted, not string \"fast\""),
            ("hz = -5", "4: hz: a whole number from 0 to 4294967295 is wanted, not integer `-5`"),
            (
                "llc_kib = 1.5",
                "4: llc_kib: a whole number from 0 to 4294967295 is wanted, not floating point `1.5`",
            ),
            (
                "contention = 3",
                "4: contention: a list in brackets is wanted, not integer `3`: write contention = [3]",
            ),
            ("contention = [\n1.0,\n'a']", "6: contention: a number is wanted, not string \"a\""),
            ("about = 3", "4: about: a text in quotes is wanted, not integer `3`"),
            (
                "[costs]\nbpf_insn_ps = 'x'",
                "5: bpf_insn_ps: a whole number from 0 up is wanted, not string \"x\"",
            ),
            ("[costs]\nfork = 5", "5: fork: a time with its unit (\"2us\") is wanted, not integer `5`"),
        ];
        for (line, words) in wrong {
            assert_eq!(told(line), format!("machine file m.toml:{words}"));
        }
        let costs = error("costs = 4\n[machine]\nname = 'm'\ncpus = 1\n");
        assert!(
            costs.contains(":1: costs: a section, in single brackets on a line of its own, is wanted"),
            "{costs}"
        );
    }
}
