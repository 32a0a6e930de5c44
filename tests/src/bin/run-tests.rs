//! Runs the test programs of one `cargo test --no-run --message-format=json`: a process for each test, on all processors until
//! the end, longest first.
//!
//! `run-tests [--built] [--first WORD] [--also NAME=COMMAND] [--jobs N] [--limit SECONDS] MESSAGES [FILTER...]`
//!
//! `MESSAGES` is the file with what Cargo printed. A test is run if `PACKAGE PROGRAM NAME` contains a filter. Those that contain the
//! word of `--first` come first, and if one of them fails, the others do not run. `--also` is one more test, a command without
//! arguments. `--built` says that Cargo has built the command, the example `bench` and the objects of `schedulers`, so that no test
//! has to ask it.
//!
//! What fails is printed whole, with the command that runs it alone. A test that prints a line `skipped: REASON` is counted as
//! skipped, and one that prints `skipped on a real kernel: REASON` or the like as passed in part. The last line is the sum.
//!
//! A program with a `main()` of its own lists its tests if its folder has `"--list"` in it, and is one test otherwise.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it reports")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Tests that take long, longest first: an order for the first run, which later runs take from their own times.
const LONG: [&str; 11] = [
    "vm ",
    "python ",
    "tree page::",
    "tree planted::",
    "tree instructions::",
    "tree foreign::",
    "tree authors::",
    "tree loaders::",
    "tree swarm::",
    "tree behaviour::soak",
    "tree behaviour::cost",
];

/// A signal asks for the end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// A test program.
#[derive(Clone, Debug, PartialEq)]
struct Program {
    package: String,
    target: String,
    /// What `cargo test` calls it by: `--lib`, `--bin NAME`, `--test NAME`.
    flag: String,
    binary: PathBuf,
    /// The package's folder, where Cargo runs it.
    folder: PathBuf,
    /// Whether it lists its tests.
    lists: bool,
}

impl Program {
    /// A command that is one test.
    fn of_command(name: &str, command: &str) -> Result<Program, String> {
        let folder = std::env::current_dir().map_err(|error| error.to_string())?;
        let (package, flag) = (name.to_string(), String::new());
        let binary = folder.join(command);
        Ok(Program { target: package.clone(), package, flag, binary, folder, lists: false })
    }
}

/// A test; without a name it is its whole program.
#[derive(Clone, Debug)]
struct Test {
    program: Program,
    name: String,
}

impl Test {
    /// Name among all: that of the program, and its own.
    fn id(&self) -> String {
        let Program { package, target, flag, .. } = &self.program;
        // Several packages have a program `all`.
        match (flag.as_str(), target.as_str()) {
            ("--lib", _) => format!("{package} {}", self.name),
            (_, "all") => format!("{package}/all {}", self.name),
            _ => format!("{target} {}", self.name),
        }
    }

    /// The command that runs it alone.
    fn alone(&self) -> String {
        let Program { package, flag, binary, .. } = &self.program;
        if flag.is_empty() {
            return binary.display().to_string();
        }
        let name = if self.name.is_empty() { String::new() } else { format!(" --exact {}", self.name) };
        format!("cargo test -p {package} {flag} --{name} --nocapture")
    }
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Passed,
    /// A part of it could not run: why.
    Part(String),
    Skipped(String),
    Failed(String),
}

/// The test programs of Cargo's messages.
fn programs(messages: &str, source: &dyn Fn(&str) -> String) -> Vec<Program> {
    let artifact = |line: &str| -> Option<Program> {
        let message: Value = serde_json::from_str(line).ok()?;
        let tests = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
        let binary = message["executable"].as_str().filter(|_| tests)?;
        let target = message["target"]["name"].as_str()?.to_string();
        let manifest = Path::new(message["manifest_path"].as_str()?);
        // path+file:///tree/crates/cli#schedlab@0.1.0, or ...crates/name#0.1.0
        let id = message["package_id"].as_str()?.rsplit_once('#')?;
        let folder = id.0.rsplit('/').next().unwrap_or_default();
        let package = id.1.split_once('@').map_or(folder, |(name, _)| name).to_string();
        let kind = message["target"]["kind"][0].as_str()?;
        let flag = match kind {
            "bin" | "test" | "example" | "bench" => format!("--{kind} {target}"),
            _ => "--lib".to_string(),
        };
        let text =
            if kind == "test" { source(message["target"]["src_path"].as_str()?) } else { String::new() };
        let lists = !text.contains("\nfn main(") || text.contains("\"--list\"");
        Some(Program {
            package,
            target,
            flag,
            binary: binary.into(),
            folder: manifest.parent()?.into(),
            lists,
        })
    };
    messages.lines().filter_map(artifact).collect()
}

/// The text of a program's file, with those beside it if it is a `main.rs`.
fn source(path: &str) -> String {
    let path = Path::new(path);
    let beside =
        path.parent().filter(|_| path.ends_with("main.rs")).and_then(|folder| fs::read_dir(folder).ok());
    let others =
        beside.into_iter().flatten().flatten().map(|entry| entry.path()).filter(|other| other != path);
    let all = std::iter::once(path.to_path_buf())
        .chain(others.filter(|other| other.extension().is_some_and(|end| end == "rs")));
    all.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

/// The names in what `--list --format terse` prints.
fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect()
}

/// What a test that ended well says of itself.
fn verdict(name: &str, output: &str) -> Verdict {
    let own = format!("test {name} ... ");
    let mut part = None;
    for line in output.lines() {
        if let Some(reason) =
            line.strip_prefix("skipped: ").or_else(|| line.strip_prefix(&own)?.strip_prefix("skipped: "))
        {
            // A whole program may skip one of its tests.
            if !name.is_empty()
                || !output.lines().any(|line| line.starts_with("test ") || line.starts_with("ok: "))
            {
                return Verdict::Skipped(reason.to_string());
            }
            part.get_or_insert(reason);
        } else if let Some(ignored) = line.strip_prefix(&own).and_then(|ended| ended.strip_prefix("ignored"))
        {
            return Verdict::Skipped(format!("ignored{ignored}"));
        } else if ["skipped ", "SKIPPED ["].iter().any(|begin| line.starts_with(begin)) && line.contains(": ")
        {
            part.get_or_insert(line);
        }
    }
    if output.contains("\nrunning 0 tests\n") {
        return Verdict::Failed("there is no such test".to_string());
    }
    part.map_or(Verdict::Passed, |why| Verdict::Part(why.to_string()))
}

/// Seconds of tests in earlier runs, by name among all.
fn times(text: &str) -> BTreeMap<String, f64> {
    let one =
        |line: &str| line.split_once('\t').and_then(|(time, id)| Some((id.to_string(), time.parse().ok()?)));
    text.lines().filter_map(one).collect()
}

/// Seconds that a test is expected to take: as before, or by the list of long ones.
fn expected(id: &str, times: &BTreeMap<String, f64>) -> f64 {
    let place = LONG.iter().position(|long| id.starts_with(long));
    times.get(id).copied().unwrap_or_else(|| place.map_or(1.0, |place| 1000.0 - place as f64))
}

/// Ends a child and all that it has started in its group.
fn end(child: &mut Child) {
    // SAFETY: a number of a group that we have made, whose leader is not waited for yet.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    let _ = child.wait();
}

/// Runs a test with its output in a file; what it said is returned with how it ended.
fn run(test: &Test, output: &Path, limit: Duration, built: bool) -> (Verdict, String) {
    let mut command = Command::new(&test.program.binary);
    if test.program.lists {
        command.args(["--exact", &test.name, "--nocapture"]);
    }
    let file = File::create(output).expect("the target folder is writable");
    command.stdin(Stdio::null()).stderr(file.try_clone().expect("a descriptor is left")).stdout(file);
    command.current_dir(&test.program.folder).env("CARGO_MANIFEST_DIR", &test.program.folder);
    // With one thread a test would run in the first one.
    command.env("RUST_TEST_THREADS", "2").process_group(0);
    if built {
        command.env("SCHEDLAB_BUILT", "1");
    }
    // As under `cargo test`: Cargo compiles a package in its folder, where a file may ask rustup for another tool chain.
    if std::env::var_os("RUSTUP_TOOLCHAIN").is_none()
        && let Some(toolchain) = Path::new(env!("CARGO")).ancestors().nth(2)
    {
        command.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    let begin = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Verdict::Failed(format!("it does not start: {error}")), String::new()),
    };
    let mut pause = Duration::from_millis(1);
    let ended = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break (!status.success()).then(|| status.to_string());
        }
        if begin.elapsed() > limit || ENDS.load(Ordering::Relaxed) {
            end(&mut child);
            break Some(format!("ended after {} s: the limit, or a signal", begin.elapsed().as_secs()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let said = String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned();
    (ended.map_or_else(|| verdict(&test.name, &said), Verdict::Failed), said)
}

/// The tests of a program, or why they are not known.
fn tests(program: &Program) -> Result<Vec<Test>, String> {
    let names = if program.lists {
        let done = Command::new(&program.binary)
            .args(["--list", "--format", "terse"])
            .current_dir(&program.folder)
            .output();
        let done = done.map_err(|error| format!("{}: {error}", program.binary.display()))?;
        if !done.status.success() {
            return Err(format!(
                "{} --list: {}",
                program.binary.display(),
                String::from_utf8_lossy(&done.stderr)
            ));
        }
        listed(&String::from_utf8_lossy(&done.stdout))
    } else {
        vec![String::new()]
    };
    Ok(names.into_iter().map(|name| Test { program: program.clone(), name }).collect())
}

/// What the command line asks for.
struct Asked {
    built: bool,
    first: Option<String>,
    also: Vec<Program>,
    jobs: usize,
    limit: Duration,
    messages: PathBuf,
    filters: Vec<String>,
}

impl Asked {
    fn read(args: impl Iterator<Item = String>) -> Result<Asked, String> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut asked = Asked {
            built: false,
            first: None,
            also: Vec::new(),
            jobs,
            limit: Duration::from_secs(900),
            messages: PathBuf::new(),
            filters: Vec::new(),
        };
        let mut args = args.peekable();
        while let Some(option) = args.next_if(|arg| arg.starts_with("--")) {
            let number = |text: Option<String>| {
                let number = text.and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
                number.ok_or_else(|| format!("{option}: give a number"))
            };
            match option.as_str() {
                "--built" => asked.built = true,
                "--first" => asked.first = Some(args.next().ok_or("--first: give a word")?),
                "--also" => {
                    let text = args.next().unwrap_or_default();
                    let (name, command) = text.split_once('=').ok_or("--also: give NAME=COMMAND")?;
                    asked.also.push(Program::of_command(name, command)?);
                }
                "--jobs" => asked.jobs = number(args.next())? as usize,
                "--limit" => asked.limit = Duration::from_secs(number(args.next())?),
                _ => return Err(format!("{option}: no such option")),
            }
        }
        asked.messages = args.next().ok_or("which file has Cargo's messages?")?.into();
        asked.filters = args.collect();
        Ok(asked)
    }
}

/// A test that has ended: how, and after how many seconds.
type Ended = (Test, Verdict, f64);

/// Runs all, `asked.jobs` at a time, in their order.
fn run_all(tests: &[Test], asked: &Asked, scratch: &Path) -> Vec<Ended> {
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |worker: usize| {
        let output = scratch.join(format!("output-{worker}"));
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed))
            && !ENDS.load(Ordering::Relaxed)
        {
            let begin = Instant::now();
            // A whole program has many tests.
            let limit = asked.limit * if test.program.lists { 1 } else { 6 };
            let (verdict, said) = run(test, &output, limit, asked.built);
            let seconds = begin.elapsed().as_secs_f64();
            let mut ended = ended.lock().expect("no worker panics");
            if let Verdict::Failed(how) = &verdict {
                println!(
                    "---- {} failed: {how}\n{}\n---- alone: {}",
                    test.id(),
                    said.trim_end(),
                    test.alone()
                );
            } else if seconds > 10.0 {
                println!("{seconds:7.1} s  {} ({} of {})", test.id(), ended.len() + 1, tests.len());
            }
            ended.push((test.clone(), verdict, seconds));
        }
    };
    let work = &work;
    std::thread::scope(|scope| (0..asked.jobs).for_each(|worker| drop(scope.spawn(move || work(worker)))));
    ended.into_inner().expect("no worker panicked")
}

/// Prints the slowest, what was skipped and what failed, and the sum. True if nothing failed.
fn conclude(mut ended: Vec<Ended>, all: usize) -> bool {
    ended.sort_by(|a, b| b.2.total_cmp(&a.2));
    println!("The slowest:");
    ended.iter().take(10).for_each(|(test, _, seconds)| println!("{seconds:7.1} s  {}", test.id()));
    let (mut reasons, mut parts) =
        (BTreeMap::<&str, Vec<String>>::new(), BTreeMap::<&str, Vec<String>>::new());
    let mut failed = Vec::new();
    for (test, verdict, _) in &ended {
        match verdict {
            Verdict::Passed => {}
            Verdict::Part(why) => parts.entry(why).or_default().push(test.id()),
            Verdict::Skipped(why) => reasons.entry(why).or_default().push(test.id()),
            Verdict::Failed(_) => failed.push(test),
        }
    }
    for (title, found) in [("Skipped", &reasons), ("Passed in part", &parts)] {
        for (why, names) in found {
            println!("{title}: {why}\n    {}", names.join("\n    "));
        }
    }
    failed.iter().for_each(|test| println!("Failed: {}\n    {}", test.id(), test.alone()));
    if ended.len() < all {
        println!("{} tests did not run", all - ended.len());
    }
    let skipped = reasons.values().map(Vec::len).sum::<usize>();
    println!("{} passed, {} failed, {skipped} skipped", ended.len() - failed.len() - skipped, failed.len());
    failed.is_empty() && ended.len() == all
}

extern "C" fn on_signal(_: libc::c_int) {
    ENDS.store(true, Ordering::Relaxed);
}

fn main() -> ExitCode {
    match whole() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("run-tests: {error}");
            ExitCode::from(2)
        }
    }
}

fn whole() -> Result<bool, String> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let messages = fs::read_to_string(&asked.messages)
        .map_err(|error| format!("{}: {error}", asked.messages.display()))?;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores to one atomic.
        unsafe { libc::signal(signal, on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    let programs = programs(&messages, &source);
    let mut all = Vec::new();
    for program in programs.iter().chain(&asked.also) {
        all.extend(tests(program)?);
    }
    let named = |test: &Test, word: &String| format!("{} {}", test.program.package, test.id()).contains(word);
    all.retain(|test| asked.filters.is_empty() || asked.filters.iter().any(|filter| named(test, filter)));
    let first = programs.first().filter(|_| !all.is_empty()).ok_or("there are no such tests")?;
    // .../target/PROFILE/deps/test-hash
    let profile = first.binary.ancestors().nth(2).ok_or("test programs lie in PROFILE/deps")?;
    // What earlier runs have left.
    let scratch = profile.join("tmp-tests");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let kept = profile.join("test-times");
    let mut times = times(&fs::read_to_string(&kept).unwrap_or_default());
    all.sort_by(|a, b| expected(&b.id(), &times).total_cmp(&expected(&a.id(), &times)));
    println!("{} tests of {} programs, {} at a time", all.len(), programs.len(), asked.jobs);
    let begin = Instant::now();
    let (first, others): (Vec<_>, Vec<_>) =
        all.iter().cloned().partition(|test| asked.first.as_ref().is_some_and(|word| named(test, word)));
    let mut ended = run_all(&first, &asked, &scratch);
    if !ended.iter().any(|(_, verdict, _)| matches!(verdict, Verdict::Failed(_))) {
        ended.extend(run_all(&others, &asked, &scratch));
    }
    println!("{} s", begin.elapsed().as_secs());
    times.extend(ended.iter().map(|(test, _, seconds)| (test.id(), *seconds)));
    let text: String = times.iter().map(|(id, seconds)| format!("{seconds:.3}\t{id}\n")).collect();
    fs::write(&kept, text).map_err(|error| format!("{}: {error}", kept.display()))?;
    Ok(conclude(ended, all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_messages() {
        let line = |kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///tree/crates/cli#schedlab@0.1.0",
                "manifest_path":"/tree/crates/cli/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}",
                "src_path":"{name}.rs"}},"profile":{{"test":{test}}},"executable":"/target/debug/deps/{name}-1"}}"#
            )
            .replace('\n', "")
        };
        let messages = [
            line("test", "cli", true),
            line("bin", "schedlab", false),
            line("lib", "own", true),
            line("test", "vm", true),
        ];
        let messages = format!("{}\n{{\"reason\":\"build-finished\"}}\nwarning", messages.join("\n"));
        let found = programs(&messages, &|path| {
            if path == "vm.rs" { "\nfn main() {}".into() } else { String::new() }
        });
        let seen: Vec<_> = found.iter().map(|one| (&*one.package, &*one.flag, one.lists)).collect();
        assert_eq!(
            seen,
            [("schedlab", "--test cli", true), ("schedlab", "--lib", true), ("schedlab", "--test vm", false)]
        );
        assert_eq!(found[0].folder, Path::new("/tree/crates/cli"));
        let test = Test { program: found[0].clone(), name: "files::kept".into() };
        assert_eq!(test.id(), "cli files::kept");
        assert_eq!(test.alone(), "cargo test -p schedlab --test cli -- --exact files::kept --nocapture");
        assert_eq!(
            programs(&messages, &|_| "\nfn main() { \"--list\" }".into())
                .iter()
                .filter(|one| one.lists)
                .count(),
            3
        );
    }

    #[test]
    fn lists_and_times_are_read() {
        assert_eq!(listed("a::b: test\nc: test\nd: benchmark\n\n2 tests"), ["a::b", "c"]);
        let times = times("1.500\tcli a\nwrong\n20\ttree page::b c\n");
        assert_eq!(times, BTreeMap::from([("cli a".to_string(), 1.5), ("tree page::b c".to_string(), 20.0)]));
        assert!(expected("cli a", &times) < 2.0);
        assert!(expected("vm boots", &times) > expected("tree page::x", &times));
        assert!(expected("tree page::x", &times) > expected("cli b", &times));
    }

    #[test]
    fn what_a_test_says_of_itself() {
        let of = |output: &str| verdict("a", output);
        assert_eq!(of("\nrunning 1 test\ntest a ... ok\n"), Verdict::Passed);
        assert_eq!(
            of("\nrunning 1 test\nskipped: no QEMU\ntest a ... ok\n"),
            Verdict::Skipped("no QEMU".into())
        );
        assert_eq!(of("test a ... skipped: no QEMU\nok\n"), Verdict::Skipped("no QEMU".into()));
        assert_eq!(of("test a ... ignored, takes days\n"), Verdict::Skipped("ignored, takes days".into()));
        let part = "skipped on a real kernel: no QEMU";
        assert_eq!(of(&format!("{part}\ntest a ... ok")), Verdict::Part(part.into()));
        assert!(matches!(of("\nrunning 0 tests\n"), Verdict::Failed(_)));
        assert_eq!(verdict("", "ok: one\nskipped: two\n"), Verdict::Part("two".into()));
        assert!(matches!(verdict("", "SKIPPED [1] a.py:3: no ray\n1 passed\n"), Verdict::Part(_)));
        assert_eq!(verdict("", "skipped: no QEMU\n"), Verdict::Skipped("no QEMU".into()));
    }

    #[test]
    fn the_command_line_is_read() {
        let asked = |line: &str| Asked::read(line.split_whitespace().map(str::to_string));
        let asked_for =
            asked("--built --first tidy --also python=scripts/x --jobs 3 --limit 5 messages a b").unwrap();
        assert_eq!((asked_for.built, asked_for.jobs, asked_for.limit.as_secs()), (true, 3, 5));
        assert_eq!(
            (asked_for.first.as_deref(), asked_for.filters),
            (Some("tidy"), vec!["a".into(), "b".into()])
        );
        assert!(
            asked("--jobs 0 messages").is_err()
                && asked("--jobs").is_err()
                && asked("--other m").is_err()
                && asked("").is_err()
        );
    }

    /// A test that does not end is ended, with what it has started.
    #[test]
    fn a_limit_ends_a_test() {
        let program = Program {
            package: String::new(),
            target: String::new(),
            flag: String::new(),
            binary: "/bin/cat".into(),
            folder: "/".into(),
            lists: false,
        };
        let folder = std::env::temp_dir();
        let output = folder.join(format!("run-tests-{}", std::process::id()));
        let mut test = Test { program, name: String::new() };
        assert_eq!(run(&test, &output, Duration::from_secs(60), false).0, Verdict::Passed);
        test.program.binary = "/usr/bin/yes".into();
        assert!(matches!(run(&test, &output, Duration::from_millis(50), false).0, Verdict::Failed(_)));
        fs::remove_file(output).unwrap();
    }
}
