//! What the running kernel tells of itself: its configuration, preemption, HRTICK, tick and mitigations.
//!
//! Nothing is measured here. What no file tells is absent, and each value names the file that it is from.

use flate2::read::GzDecoder;
use schedlab_base::{Preemption, TickPhase};
use std::fs;
use std::io::Read;
use std::path::Path;

/// Most bytes of a configuration. Chosen: forty times what a distribution's kernel has.
const LONGEST_CONFIG: u64 = 16 << 20;

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<T> {
    /// The value.
    pub value: T,
    /// Where it was read: a file, and what stood there where the file's name does not say it.
    pub source: String,
}

/// A preemption model by the kernel's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// `PREEMPT_NONE`.
    None,
    /// `PREEMPT_VOLUNTARY`.
    Voluntary,
    /// `PREEMPT`, of `PREEMPT_RT` too.
    Full,
    /// `PREEMPT_LAZY`.
    Lazy,
}

impl Model {
    /// The model with the words of `preempt=` and debugfs.
    const ALL: [(&'static str, Model); 4] = [
        ("none", Model::None),
        ("voluntary", Model::Voluntary),
        ("full", Model::Full),
        ("lazy", Model::Lazy),
    ];

    fn named(word: &str) -> Option<Model> {
        Model::ALL.into_iter().find(|(name, _)| *name == word).map(|(_, model)| model)
    }

    /// What it is to tasks in user mode.
    pub fn preemption(self) -> Preemption {
        if self == Model::Lazy { Preemption::Lazy } else { Preemption::Full }
    }
}

/// What the vulnerabilities of the CPUs need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mitigations {
    /// The mitigations that are active: the vulnerability, and the kernel's words.
    pub active: Vec<(String, String)>,
    /// Vulnerabilities of these CPUs without one.
    pub open: Vec<String>,
}

/// What the kernel tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// `CONFIG_HZ`.
    pub hz: Option<Told<u32>>,
    /// The preemption model that it runs with.
    pub preempt: Option<Told<Model>>,
    /// Whether HRTICK is on.
    pub hrtick: Option<Told<bool>>,
    /// Where the ticks of the CPUs lie.
    pub ticks: Option<Told<TickPhase>>,
    /// Nothing where the kernel does not list vulnerabilities.
    pub mitigations: Option<Mitigations>,
}

/// What the running kernel tells.
pub fn kernel() -> Kernel {
    kernel_of(Path::new("/"))
}

/// The folder's files in place of those at the root.
fn kernel_of(root: &Path) -> Kernel {
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    let release = text("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string();
    let config = Config::read(root, &release);
    let build = text("proc/sys/kernel/version").unwrap_or_default();
    let line = text("proc/cmdline");
    let debug = text("sys/kernel/debug/sched/preempt");
    let preempt = preempt(config.as_ref(), &build, line.as_deref().unwrap_or_default(), debug.as_deref());
    let features = text("sys/kernel/debug/sched/features");
    Kernel {
        hz: config.as_ref().and_then(Config::hz),
        preempt,
        hrtick: hrtick(config.as_ref(), features.as_deref()),
        ticks: line.as_deref().map(ticks),
        mitigations: mitigations(&root.join("sys/devices/system/cpu/vulnerabilities")),
        release,
    }
}

/// The kernel's configuration.
struct Config {
    text: String,
    source: String,
}

impl Config {
    /// That of the running kernel: its own copy, else what the distribution keeps of this release.
    fn read(root: &Path, release: &str) -> Option<Config> {
        let packed = fs::read(root.join("proc/config.gz")).ok().and_then(|bytes| unpacked(&bytes));
        if let Some(text) = packed {
            return Some(Config { text, source: "/proc/config.gz".to_string() });
        }
        // A release is one name in a folder.
        if release.is_empty() || release.contains('/') {
            return None;
        }
        let path = format!("boot/config-{release}");
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(Config { text, source: format!("/{path}") })
    }

    fn value(&self, key: &str) -> Option<&str> {
        let value = self.text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.map(str::trim)
    }

    fn has(&self, key: &str) -> bool {
        self.value(key) == Some("y")
    }

    fn hz(&self) -> Option<Told<u32>> {
        // The range of the machine format: a file that says otherwise is no configuration.
        let value = self.value("CONFIG_HZ")?.parse().ok().filter(|hz| (10..=10_000).contains(hz))?;
        Some(Told { value, source: self.source.clone() })
    }

    /// The model that it was built with, which a dynamic kernel boots with.
    fn model(&self) -> Option<(&'static str, Model)> {
        // PREEMPT_RT stands beside one of the others since 6.13, alone before.
        let known = [
            ("CONFIG_PREEMPT_LAZY", Model::Lazy),
            ("CONFIG_PREEMPT", Model::Full),
            ("CONFIG_PREEMPT_RT", Model::Full),
            ("CONFIG_PREEMPT_VOLUNTARY", Model::Voluntary),
            ("CONFIG_PREEMPT_NONE", Model::None),
        ];
        known.into_iter().find(|(key, _)| self.has(key))
    }
}

/// The text of a gzip file; nothing where it is none.
fn unpacked(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).take(LONGEST_CONFIG).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The value of the last parameter of that name on the kernel's command line that `known` takes. What stands behind `--` is the first
/// process's.
fn parameter<'a, T>(line: &'a str, name: &str, known: impl Fn(&'a str) -> Option<T>) -> Option<T> {
    let own = line.split_whitespace().take_while(|word| *word != "--");
    own.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).filter_map(known).last()
}

/// The running model: of a dynamic kernel debugfs, then the command line, then what it was built with.
fn preempt(config: Option<&Config>, build: &str, line: &str, debug: Option<&str>) -> Option<Told<Model>> {
    let told = |value: Model, source: String| Some(Told { value, source });
    let built = config.and_then(|config| Some((config.model()?, &config.source)));
    let says = |word: &str| build.split_whitespace().any(|part| part == word);
    if says("PREEMPT_DYNAMIC") || config.is_some_and(|config| config.has("CONFIG_PREEMPT_DYNAMIC")) {
        let running = debug.and_then(|text| text.split_once('(')?.1.split_once(')')).map(|(word, _)| word);
        if let Some(model) = running.and_then(Model::named) {
            return told(model, "/sys/kernel/debug/sched/preempt".to_string());
        }
        let asked = |word: &str| Model::named(word).map(|model| (word.to_string(), model));
        if let Some((word, model)) = parameter(line, "preempt", asked) {
            return told(model, format!("/proc/cmdline: preempt={word}"));
        }
        let ((key, model), source) = built?;
        return told(model, format!("{source}: {key}, with which PREEMPT_DYNAMIC boots"));
    }
    if let Some(((key, model), source)) = built {
        return told(model, format!("{source}: {key}"));
    }
    // Full and lazy kernels both say PREEMPT.
    let neither = !build.is_empty() && !build.contains("PREEMPT");
    neither.then(|| Told { value: Model::None, source: "uname -v, which names no preemption".to_string() })
}

/// Whether HRTICK is on. That it is compiled in does not say so; that it is not says that it is off.
fn hrtick(config: Option<&Config>, features: Option<&str>) -> Option<Told<bool>> {
    let word = |text: &str| {
        text.split_whitespace().find_map(|word| match word {
            "HRTICK" => Some(true),
            "NO_HRTICK" => Some(false),
            _ => None,
        })
    };
    if let Some(value) = features.and_then(word) {
        return Some(Told { value, source: "/sys/kernel/debug/sched/features".to_string() });
    }
    let config = config.filter(|config| !config.has("CONFIG_SCHED_HRTICK"))?;
    Some(Told { value: false, source: format!("{}: no CONFIG_SCHED_HRTICK", config.source) })
}

fn ticks(line: &str) -> Told<TickPhase> {
    match parameter(line, "skew_tick", |word| word.parse::<i64>().ok()) {
        Some(skew) if skew != 0 => {
            Told { value: TickPhase::Spread, source: format!("/proc/cmdline: skew_tick={skew}") }
        }
        _ => Told { value: TickPhase::Aligned, source: "/proc/cmdline: no skew_tick".to_string() },
    }
}

fn mitigations(folder: &Path) -> Option<Mitigations> {
    let mut names: Vec<String> =
        fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let mut found = Mitigations::default();
    for name in names {
        let words = fs::read_to_string(folder.join(&name)).unwrap_or_default();
        let words = words.lines().next().unwrap_or_default().trim();
        // Words of others too: "KVM: Mitigation: VMX disabled".
        if words.contains("Mitigation") {
            found.active.push((name, words.to_string()));
        } else if !words.is_empty() && !words.starts_with("Not affected") {
            found.open.push(name);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    /// What a kernel with 250 Hz has of the keys.
    const DYNAMIC: &str = "# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_PREEMPT_BUILD=y\n\
                           CONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_DYNAMIC=y\n\
                           CONFIG_SCHED_HRTICK=y\n";

    fn config(text: &str) -> Config {
        Config { text: text.to_string(), source: "here".to_string() }
    }

    fn hz(text: &str) -> Option<u32> {
        config(text).hz().map(|told| told.value)
    }

    #[test]
    fn the_tick_is_that_of_config_hz_alone() {
        assert_eq!(hz(DYNAMIC), Some(250));
        for none in ["", "CONFIG_HZ_1000=y\n", "# CONFIG_HZ=250\n", "CONFIG_HZ=fast\n", "CONFIG_HZ=0\n"] {
            assert_eq!(hz(none), None, "{none}");
        }
    }

    #[test]
    fn the_running_model_goes_before_that_of_the_build() {
        let dynamic = config(DYNAMIC);
        let of = |line: &str, debug: Option<&str>| preempt(Some(&dynamic), "", line, debug).unwrap();
        assert_eq!(of("preempt=lazy", Some("none voluntary (full) lazy\n")).value, Model::Full);
        assert_eq!(of("preempt=full quiet preempt=lazy", None).value, Model::Lazy);
        let built = of("quiet -- preempt=full", None);
        assert_eq!(built.value, Model::None);
        assert_eq!(built.source, "here: CONFIG_PREEMPT_NONE, with which PREEMPT_DYNAMIC boots");
        assert_eq!(of("preempt=all", Some("(undefined)")), built);
    }

    #[test]
    fn a_fixed_model_is_that_of_the_build() {
        let of = |text: &str, build: &str| {
            let config = config(text);
            preempt(Some(&config), build, "preempt=lazy", None).map(|told| told.value)
        };
        assert_eq!(of("CONFIG_PREEMPT=y\n", "#1 SMP PREEMPT"), Some(Model::Full));
        assert_eq!(of("CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT_LAZY=y\n", ""), Some(Model::Lazy));
        assert_eq!(of("CONFIG_PREEMPT_VOLUNTARY=y\n", ""), Some(Model::Voluntary));
        assert_eq!(of("CONFIG_PREEMPT_COUNT=y\n", "#1 SMP PREEMPT"), None);
        let alone = |build: &str, line: &str| preempt(None, build, line, None).map(|told| told.value);
        assert_eq!(alone("#1 SMP Fri Nov 27", ""), Some(Model::None));
        assert_eq!(alone("#1 SMP PREEMPT_DYNAMIC Fri", "preempt=voluntary"), Some(Model::Voluntary));
        assert_eq!(alone("#1 SMP PREEMPT_DYNAMIC Fri", ""), None);
        assert_eq!(alone("", ""), None);
    }

    #[test]
    fn hrtick_is_on_by_its_feature_and_off_without_its_code() {
        let built = config(DYNAMIC);
        let value =
            |config: Option<&Config>, features: Option<&str>| hrtick(config, features).map(|told| told.value);
        assert_eq!(value(Some(&built), Some("PLACE_LAG HRTICK HRTICK_DL")), Some(true));
        assert_eq!(value(Some(&built), Some("PLACE_LAG NO_HRTICK HRTICK_DL")), Some(false));
        assert_eq!(value(Some(&built), Some("HRTICK_DL")), None);
        assert_eq!(value(Some(&built), None), None);
        assert_eq!(value(Some(&config("CONFIG_HZ=250\n")), None), Some(false));
        assert_eq!(value(None, None), None);
    }

    #[test]
    fn ticks_are_spread_where_the_command_line_says_so() {
        assert_eq!(ticks("quiet skew_tick=1").value, TickPhase::Spread);
        assert_eq!(ticks("quiet -- skew_tick=1").value, TickPhase::Aligned);
        assert_eq!(ticks("skew_tick=0").value, TickPhase::Aligned);
    }

    #[test]
    fn a_kernel_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        assert_eq!(kernel_of(root.path()), Kernel::default());
        put("proc/sys/kernel/osrelease", b"6.18.1-test\n");
        put("boot/config-6.18.1-test", b"CONFIG_HZ=1000\n");
        put("boot/config-6.18.2-test", b"CONFIG_HZ=300\n");
        let hz = || kernel_of(root.path()).hz.unwrap();
        assert_eq!(hz(), Told { value: 1000, source: "/boot/config-6.18.1-test".to_string() });
        put("proc/config.gz", b"no gzip");
        assert_eq!(hz().value, 1000);
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(DYNAMIC.as_bytes()).unwrap();
        put("proc/config.gz", &packer.finish().unwrap());
        assert_eq!(hz(), Told { value: 250, source: "/proc/config.gz".to_string() });
        let of = |name: &str| format!("sys/devices/system/cpu/vulnerabilities/{name}");
        put(&of("spectre_v2"), b"Mitigation: Retpolines\n");
        put(&of("itlb_multihit"), b"KVM: Mitigation: VMX disabled\n");
        put(&of("mds"), b"Vulnerable\n");
        put(&of("tsa"), b"Not affected\n");
        let kernel = kernel_of(root.path());
        let found = kernel.mitigations.unwrap();
        let names: Vec<&str> = found.active.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, found.open), (vec!["itlb_multihit", "spectre_v2"], vec!["mds".to_string()]));
        assert_eq!(kernel.release, "6.18.1-test");
    }
}
