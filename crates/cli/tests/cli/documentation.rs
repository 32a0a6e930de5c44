//! Help, lists, completions and manual pages.

use crate::Folder;

const COMMANDS: [&str; 13] = [
    "list",
    "sim",
    "compare",
    "bench",
    "reproduce",
    "run",
    "deps",
    "check",
    "new",
    "stat",
    "sched-samples",
    "completions",
    "man",
];

#[test]
fn every_command_teaches_with_examples() {
    let folder = Folder::new();
    let main = folder.run("--help").ok();
    for command in COMMANDS {
        assert!(main.contains(&format!("  {command} ")), "{command} is in the main help");
        let help = folder.run(&format!("{command} --help")).ok();
        assert!(help.contains("Examples:\n"), "{command}: {help}");
    }
    assert!(folder.run("--version").ok().starts_with("schedlab "));
}

/// The flags and arguments that stand under a heading of a help text.
fn flags_under(help: &str, heading: &str) -> Vec<String> {
    let part =
        help.split(&format!("\n{heading}:\n")).nth(1).unwrap_or_else(|| panic!("no {heading}: {help}"));
    let lines = part.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
    let flag = |line: &str| {
        line.split_whitespace().find(|word| word.starts_with("--") || word.starts_with('[')).map(String::from)
    };
    lines.filter(|line| line.trim_start().starts_with(['-', '['])).filter_map(flag).collect()
}

#[test]
fn flags_stand_under_their_own_heading() {
    let folder = Folder::new();
    let help = |command: &str| folder.run(&format!("{command} --help")).ok();
    for command in ["sim", "compare", "run"] {
        assert_eq!(flags_under(&help(command), "SWAP"), ["--swap-types", "--swap-exclude"], "{command}");
    }
    for command in ["compare", "reproduce"] {
        assert_eq!(flags_under(&help(command), "Many runs"), ["--jobs", "--resume", "--shard"], "{command}");
    }
    let files = ["--json", "--csv", "--html", "--strict"];
    assert_eq!(flags_under(&help("reproduce"), "Results"), files);
    let looks = ["--perfetto", "--timeline", "--explain-waits"];
    assert_eq!(flags_under(&help("compare"), "Results"), [&files[..], &looks].concat());
    assert_eq!(flags_under(&help("run"), "Arguments"), ["[COMMAND]..."]);
}

#[test]
fn no_command_prints_the_help_and_fails() {
    let done = Folder::new().run("");
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(done.err.contains("Usage: schedlab"));
}

#[test]
fn completions_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = folder.run(&format!("completions {shell}")).ok();
        assert!(COMMANDS.iter().all(|command| text.contains(command)), "{shell}");
    }
    folder.run("completions tcsh").refused(2, &["tcsh", "bash"]);
}

#[test]
fn bash_completes_names() {
    let folder = Folder::new();
    folder.write("completions", folder.run("completions bash").ok());
    let asked = |words: &str, last: usize| {
        let script = format!(
            "source ./completions; COMP_WORDS=({words}); COMP_CWORD={last}; _schedlab schedlab \"${{COMP_WORDS[last]}}\" \
             \"${{COMP_WORDS[last-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let script = script.replace("last", &last.to_string());
        let done =
            std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output();
        String::from_utf8(done.unwrap().stdout).unwrap().trim().to_string()
    };
    assert_eq!(asked("schedlab sim -s sta", 3), "staircase staircase+swap");
    assert_eq!(asked("schedlab compare -w mkb", 3), "mkbench");
    assert_eq!(asked("schedlab sim -m p3", 3), "p3-700");
    assert_eq!(asked("schedlab compa", 1), "compare");
}

#[test]
fn other_shells_complete_names_and_files() {
    let folder = Folder::new();
    let zsh = folder.run("completions zsh").ok();
    assert!(
        zsh.contains("{_alternative \"names:name:(eevdf ") && zsh.contains("\"files:file:_files\"}"),
        "{zsh}"
    );
    let fish = folder.run("completions fish").ok();
    assert!(fish.contains("-r -F -a \"eevdf\\t''\n"), "{fish}");
}

#[test]
fn manual_pages() {
    let folder = Folder::new();
    assert!(folder.run("man").ok().contains(".TH schedlab 1"));
    folder.run("man .").ok();
    for command in COMMANDS {
        assert!(folder.read(&format!("schedlab-{command}.1")).contains("\n.SH EXAMPLES\n"), "{command}");
    }
    let page = folder.read("schedlab-sim.1");
    for section in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
        assert!(
            page.contains(&format!(".SH \"{section}\"")) || page.contains(&format!(".SH {section}")),
            "{section}"
        );
    }
    assert!(
        page.contains("SCHEDLAB_CACHE") && page.contains("staircase") && page.contains("p3\\-700"),
        "{page}"
    );
    folder.run("man nowhere").refused(2, &["nowhere", "make it first"]);
}

#[test]
fn lists_name_what_can_be_used() {
    let folder = Folder::new();
    let all = folder.run("list").ok();
    for name in
        ["eevdf", "vanilla", "o1", "cpuhog", "chat", "mkbench", "reflex", "p3-700", "modern", "dual-p3-733"]
    {
        assert!(all.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {all}");
    }
    let schedulers = folder.run("list schedulers").ok();
    assert!(schedulers.starts_with("eevdf") && !schedulers.contains("p3-700"));
    let words = [
        "--set profile=PROFILE_2_6_10",
        "generation of the scheduler; PROFILE_D1, PROFILE_RH8, PROFILE_2_6_10",
        "weight of a parent's own average against that of an exiting child; 1..100",
        "--set swap_providers=20",
    ];
    let schedulers = folder.run("list schedulers -v").ok();
    assert!(words.iter().all(|word| schedulers.contains(word)), "{schedulers}");
    assert!(folder.run("list workloads -v").ok().contains("ntasks=3"));
}

#[test]
fn check_tells_what_an_object_needs() {
    let text = Folder::new().run("check o1").ok();
    assert!(
        text.contains("sched_ext_ops") && text.contains("PROFILE_D1, PROFILE_RH8, PROFILE_2_6_10"),
        "{text}"
    );
    assert!(text.contains("1..100") && text.contains("average against that of an exiting child"), "{text}");
    assert!(text.contains("the simulator runs it: yes"), "{text}");
}

#[test]
fn a_command_under_the_kernels_own_scheduler() {
    let folder = Folder::new();
    let words = ["run", "-s", "eevdf", "-q", "--", "sh", "-c", "echo hello; exit 3"];
    let done = folder.run_words(&words);
    done.refused(1, &["command sh ended with code 3"]);
    assert!(done.out.starts_with("hello\n") && done.out.contains("elapsed"));
}
