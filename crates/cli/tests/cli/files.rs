//! Files that results go to: replaced whole or left as they were, whatever happens on the way.

#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use crate::{Done, Folder};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SHORT: &str = "sim -q -s eevdf -w cpuhog:ttime=10ms";
/// Result files of more than 64 KiB.
const LARGE: &str = "sim -q -s eevdf -w cpuhog:ntasks=400,ttime=300ms";
/// Streams for minutes.
const LONG: &str = "sim -q -s eevdf -w cpuhog:ntasks=64,ttime=10000s";

/// Names in the folder, those of unfinished files too.
fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn unfinished(folder: &Folder) -> usize {
    names(folder).iter().filter(|name| name.starts_with(".schedlab-") && name.ends_with(".part")).count()
}

/// Runs the command in a shell, after `before`.
fn after(folder: &Folder, before: &str, line: &str) -> Done {
    let text = format!("{before}; exec {} {line} > /dev/null", env!("CARGO_BIN_EXE_schedlab"));
    Done::of(Command::new("sh").args(["-c", &text]).current_dir(folder.path()).output().unwrap())
}

#[test]
fn modes_are_those_of_the_umask_or_of_the_older_file() {
    let folder = Folder::new();
    folder.write("old.json", "old");
    std::fs::set_permissions(folder.path().join("old.json"), PermissionsExt::from_mode(0o604)).unwrap();
    after(&folder, "umask 027", &format!("{SHORT} --json old.json --csv new.csv")).ok();
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("old.json"), mode("new.csv")), (0o604, 0o640));
    assert!(folder.read("old.json").starts_with('{') && folder.read("new.csv").starts_with("scheduler,"));
    assert_eq!(names(&folder), ["new.csv", "old.json"]);
}

#[test]
fn an_input_is_not_replaced_by_a_result() {
    const ENDLESS: &str = "name = \"o\"\n[programs]\nhog = [\"repeat forever\", \"run 1ms\", \"done\"]\n\
        [[tasks]]\nname = \"hog\"\nprogram = \"hog\"\n";
    let folder = Folder::new();
    folder.write("own.toml", ENDLESS);
    folder.write("numbers.txt", "1 2 3\n");
    symlink("own.toml", folder.path().join("link.toml")).unwrap();
    let before = names(&folder);
    for line in [
        "sim -s o1 -w own.toml --duration 1ms --json own.toml",
        "sim -s o1 -w link.toml --duration 1ms --csv ./own.toml",
        "sim -s o1 -w own.toml --duration 1ms --perfetto link.toml",
        "compare -s o1,ule -w own.toml --duration 1ms --html own.toml",
        "sim --no-sandbox -s o1 -w own.toml --duration 1ms --json own.toml",
        "run -s eevdf -w own.toml --duration 1ms --json own.toml",
        "compare --live -s eevdf -w own.toml --duration 1ms --json own.toml",
        "fidelity --host -s eevdf -w own.toml --duration 1ms -o own.toml",
    ] {
        folder.run(line).refused(2, &[".toml is read by this command", "name another file"]);
    }
    folder.run("stat numbers.txt --json numbers.txt").refused(2, &["numbers.txt is read by this command"]);
    assert_eq!((folder.read("own.toml").as_str(), names(&folder)), (ENDLESS, before));
    std::fs::create_dir(folder.path().join("folder.toml")).unwrap();
    for (line, words) in [
        ("sim -s o1 -w folder.toml", "it is a folder; name a file"),
        ("stat .", "it is a folder; name a file"),
        ("sim -s o1[ -w own.toml", "its '[' has no ']'"),
        ("reproduce libenzi --quick --figures /dev/null", "--figures /dev/null"),
    ] {
        folder.run(line).refused(2, &[words]);
    }
    let told = folder.run("sim -s o1 -w own.toml --time-limit 1s").err;
    assert!(told.contains("task 'hog' repeats for ever") && told.contains("--duration"), "{told}");
}

#[test]
fn links_stay_and_what_they_lead_to_is_replaced() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    folder.write("d/old.json", "old");
    symlink("d/old.json", folder.path().join("link.json")).unwrap();
    symlink("d/new.csv", folder.path().join("dangling.csv")).unwrap();
    symlink("loop", folder.path().join("loop")).unwrap();
    folder.run(&format!("{SHORT} --json link.json --csv dangling.csv")).ok();
    assert!(folder.path().join("link.json").is_symlink() && folder.path().join("dangling.csv").is_symlink());
    assert!(folder.read("d/old.json").starts_with('{') && folder.read("d/new.csv").starts_with("scheduler,"));
    folder.run(&format!("{SHORT} --json loop")).refused(2, &["--json loop", "too many symbolic links"]);
    folder.run(&format!("{SHORT} --json link.json --csv d/old.json")).refused(2, &["both name"]);
}

#[test]
fn devices_pipes_and_open_files_are_written_directly() {
    let folder = Folder::new();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let pipe = folder.path().join("pipe");
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    folder.run(&format!("{SHORT} --json pipe --csv /dev/null --html /dev/stderr")).code_is(0);
    assert!(reader.join().unwrap().starts_with('{'));
    let is_pipe = std::os::unix::fs::FileTypeExt::is_fifo;
    assert!(is_pipe(&std::fs::metadata(folder.path().join("pipe")).unwrap().file_type()));
    // The shell's file would be another one than that of the name.
    let line = format!("exec {} {SHORT} --json /dev/fd/3 3> three", env!("CARGO_BIN_EXE_schedlab"));
    let shell = Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
    assert!(shell.status.success() && folder.read("three").starts_with('{'));
    assert_eq!(names(&folder), ["pipe", "three"]);
}

impl Done {
    fn code_is(self, code: i32) {
        assert_eq!(self.code, code, "{self:?}");
    }
}

/// A file may not grow over 16 KiB: what a full disk does, without one.
#[test]
fn what_does_not_fit_leaves_the_older_result() {
    let folder = Folder::new();
    for option in ["--json", "--html", "--perfetto", "--sched-samples"] {
        folder.write("old", "old");
        // A shell counts in blocks of 512 or 1,024 bytes.
        let done = after(&folder, "ulimit -f 16", &format!("{LARGE} {option} old"));
        done.refused(5, &[option, "File too large"]);
        assert_eq!((folder.read("old").as_str(), names(&folder).len()), ("old", 1), "{option}");
    }
}

#[test]
fn a_full_disk_leaves_the_older_result() {
    let folder = Folder::new();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", "disk"].join(" ");
    // In a mount namespace of its own, which nothing outlives.
    let line = format!(
        "{mount} || exit 99; echo old > disk/old; {} {LARGE} --json disk/old > /dev/null; code=$?; \
         echo \"$code $(cat disk/old) $(ls -A disk)\"",
        env!("CARGO_BIN_EXE_schedlab")
    );
    let shell = Command::new("unshare").args(["-m", "sh", "-c", &line]).current_dir(folder.path()).output();
    let Ok(shell) = shell.inspect_err(|error| eprintln!("skipped: unshare: {error}")) else { return };
    if shell.status.code() != Some(0) {
        eprintln!(
            "skipped: a file system is mounted by root only: {}",
            String::from_utf8_lossy(&shell.stderr)
        );
        return;
    }
    assert_eq!(String::from_utf8_lossy(&shell.stdout), "5 old old\n");
    assert!(String::from_utf8_lossy(&shell.stderr).contains("No space left"));
}

/// A command that ends with its test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a long run that writes `trace`, and sends it a signal in the middle of it.
fn ended_by(folder: &Folder, signal: i32, before: &str) -> Option<i32> {
    let line = format!("{before} exec {} {LONG} --perfetto trace", env!("CARGO_BIN_EXE_schedlab"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    crate::heed_signals(&mut shell);
    let mut child = Running(shell.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    let begun = || {
        let parts = names(folder).into_iter().filter(|name| name.ends_with(".part"));
        parts.filter_map(|name| std::fs::metadata(folder.path().join(name)).ok()).any(|found| found.len() > 0)
    };
    while !begun() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(begun(), "it writes beside the older file");
    let send = |signal: i32| {
        let kill = Command::new("kill").args([format!("-{signal}"), child.0.id().to_string()]).status();
        assert!(kill.unwrap().success());
    };
    send(signal);
    if !before.is_empty() {
        std::thread::sleep(Duration::from_millis(200));
        assert!(begun(), "the signal is ignored");
        send(15);
    }
    child.0.wait().unwrap().signal()
}

#[test]
fn signals_leave_the_older_result_and_nothing_else() {
    let folder = Folder::new();
    folder.write("trace", "old");
    for signal in [1, 2, 15, 24] {
        assert_eq!(ended_by(&folder, signal, ""), Some(signal));
        assert_eq!((folder.read("trace").as_str(), names(&folder).len()), ("old", 1), "signal {signal}");
    }
    // As nohup(1) starts it.
    assert_eq!(ended_by(&folder, 1, "trap '' HUP;"), Some(15));
    assert_eq!((folder.read("trace").as_str(), names(&folder).len()), ("old", 1));
    assert_eq!(ended_by(&folder, 9, ""), Some(9));
    assert_eq!(
        (folder.read("trace").as_str(), unfinished(&folder)),
        ("old", 1),
        "nothing can follow a SIGKILL"
    );
}

/// As a user that may write the file, but make none in its folder.
#[test]
fn a_folder_that_takes_no_new_file() {
    let folder = Folder::new();
    folder.write("old.json", "old");
    let path = |name: &str| folder.path().join(name);
    let set = |path: std::path::PathBuf, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap()
    };
    set(path("old.json"), 0o666);
    set(path(""), 0o555);
    let words: Vec<&str> = SHORT.split_whitespace().chain(["--json", "old.json"]).collect();
    let mut command = folder.command(&words);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    match command.stdin(Stdio::null()).output() {
        Err(error) => eprintln!("skipped: another user cannot start the binary here: {error}"),
        Ok(output) => {
            let done = Done::of(output);
            assert!(done.code == 0 && done.err.contains("takes no new file"), "{done:?}");
            assert!(folder.read("old.json").starts_with('{'));
            set(path("old.json"), 0o444);
            let mut command = folder.command(&words);
            if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
                command.uid(65534).gid(65534);
            }
            Done::of(command.output().unwrap()).refused(2, &["--json old.json", "may write"]);
        }
    }
    set(path(""), 0o755);
}

/// Names of a workload file do nothing to a terminal, and stay what they are in data.
#[test]
fn names_with_control_characters() {
    let folder = Folder::new();
    let name = "\\u001b[2J\\u202e=x\\u0000";
    folder.write(
        "w.toml",
        format!(
            "name = \"=w{name}\"\n[programs]\np = [\"run 1ms\"]\n\
             [[tasks]]\nname = \"{name}\"\nprogram = \"p\"\n"
        ),
    );
    let done = folder.run("sim -s eevdf -w w.toml --json r.json --html r.html --csv r.csv");
    assert_eq!(done.code, 0, "{done:?}");
    let hidden = |text: &str| text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}');
    assert!(!hidden(&done.out) && !hidden(&folder.read("r.json")) && !hidden(&folder.read("r.html")));
    assert!(folder.read("r.json").contains(name));
    assert!(folder.read("r.csv").lines().nth(1).unwrap().contains(",'=w"), "{}", folder.read("r.csv"));
}

/// Data go to a terminal as text that does not steer it.
#[test]
fn a_terminal_gets_nothing_that_it_obeys() {
    let folder = Folder::new();
    let file = "name = 'x'\n[programs]\np = ['run 1ms']\n[[tasks]]\nname = 'a'\nprogram = 'p'\n";
    folder.write("w.toml", file.replace("'x'", "\"\\u001b[2J\""));
    // script(1) runs a command on a terminal of its own.
    let shown = |flags: &str| {
        let line = format!("{} sim -q -s eevdf -w w.toml {flags}", env!("CARGO_BIN_EXE_schedlab"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(folder.path());
        script.stdin(Stdio::null()).output().map(|output| (output.status.code(), output.stdout))
    };
    let Ok((code, csv)) = shown("--csv -") else {
        eprintln!("skipped: no script(1)");
        return;
    };
    let csv = String::from_utf8(csv).unwrap();
    assert!(code == Some(0) && csv.contains("eevdf,\u{fffd}[2J,") && !csv.contains('\x1b'), "{csv:?}");
    let piped = folder.run("sim -q -s eevdf -w w.toml --csv -").ok();
    assert!(piped.contains("eevdf,\x1b[2J,"), "data stay as they are: {piped:?}");
    let (code, text) = shown("--perfetto -").unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(code == Some(2) && text.contains("--perfetto -: standard output is a terminal"), "{text}");
}
