//! Help, lists, completions and manual pages.

use crate::Folder;

const COMMANDS: [&str; 17] = [
    "list",
    "calibrate",
    "fidelity",
    "sim",
    "compare",
    "bench",
    "reproduce",
    "run",
    "deps",
    "check",
    "judge",
    "new",
    "stat",
    "sched-samples",
    "schema",
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
    assert_eq!(flags_under(&help("reproduce"), "Results"), [&["--figures"], &files[..]].concat());
    assert_eq!(flags_under(&help("compare"), "Results"), [&files[..], &["--record"]].concat());
    let views = ["--perfetto", "--timeline", "--explain-waits"];
    assert_eq!(flags_under(&help("compare"), "Views"), views);
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
    assert_eq!(asked("schedlab compare -s vanilla,stai", 3), "vanilla,staircase vanilla,staircase+swap");
    assert_eq!(asked("schedlab reproduce kr", 2), "kravetz");
    assert_eq!(asked("schedlab compa", 1), "compare");
}

/// True if a program is there, which a test wants; says that it is skipped if not.
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn there(shell: &str) -> bool {
    let found = std::process::Command::new(shell).args(["-c", "true"]).output().is_ok();
    if !found {
        eprintln!("skipped: there is no {shell}");
    }
    found
}

/// What a shell, asked by `words`, says in the folder.
fn said(folder: &Folder, words: &[&str]) -> String {
    let done = std::process::Command::new(words[0]).args(&words[1..]).current_dir(folder.path()).output();
    String::from_utf8_lossy(&done.unwrap().stdout).into_owned()
}

#[test]
fn fish_completes_names_lists_and_files() {
    if !there("fish") {
        return;
    }
    let folder = Folder::new();
    folder.write("completions", folder.run("completions fish").ok());
    folder.write("mine.bpf.o", "");
    let asked = |line: &str| {
        let script = format!("source completions; complete -C '{line}'");
        let text = said(&folder, &["fish", "--no-config", "-c", &script]);
        let words: Vec<String> =
            text.lines().filter_map(|line| line.split('\t').next()).map(String::from).collect();
        words
    };
    assert_eq!(asked("schedlab sim -s sta"), ["staircase", "staircase+swap"]);
    assert_eq!(asked("schedlab sim -s mi"), ["mine.bpf.o"]);
    assert_eq!(asked("schedlab compare -s vanilla,o"), ["vanilla,o1", "vanilla,o1+swap"]);
    assert_eq!(
        asked("schedlab compare --schedulers=vanilla,o"),
        ["--schedulers=vanilla,o1", "--schedulers=vanilla,o1+swap"]
    );
    assert_eq!(asked("schedlab sim -m p3"), ["p3-700"]);
    assert_eq!(asked("schedlab reproduce kr"), ["kravetz"]);
    assert_eq!(asked("schedlab list workloads mkb"), ["mkbench"]);
    assert_eq!(asked("schedlab check hamq"), ["hamq", "hamq+swap"]);
    assert!(!asked("schedlab ").contains(&"guest-list".to_string()));
}

/// Prints what the line editor of zsh makes of `$1` and a tab, in a pseudo terminal.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty z "TERM=dumb zsh -f -i"
zpty -w z "PS1='' PROMPT_EOL_MARK=; unsetopt zle_bracketed_paste; fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -D
finish() { print -r -- DONE: \$BUFFER :END; BUFFER=; zle accept-line }; zle -N finish; bindkey '^X' finish; bindkey '^I' complete-word; print REA''DY"
zpty -r -m z found '*READY*'
zpty -w -n z "$1"$'\t\x18'
zpty -r -m z found '*DONE:*:END*'
found=${found##*DONE: }
print -r -- "${found%% :END*}"
zpty -d z
"#;

#[test]
fn zsh_completes_names_lists_and_files() {
    if !there("zsh") {
        return;
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("functions")).unwrap();
    folder.write("functions/_schedlab", folder.run("completions zsh").ok());
    folder.write("mine.bpf.o", "");
    folder.write("asked.zsh", ZSH);
    let asked = |line: &str| said(&folder, &["zsh", "-f", "asked.zsh", line]);
    for (line, wanted) in [
        ("schedlab sim -s stairc", "schedlab sim -s staircase"),
        ("schedlab sim -s mi", "schedlab sim -s mine.bpf.o"),
        ("schedlab compare -s vanilla,ul", "schedlab compare -s vanilla,ule"),
        ("schedlab sim -w mkb", "schedlab sim -w mkbench"),
        ("schedlab sim -m p3", "schedlab sim -m p3-700"),
        ("schedlab reproduce kr", "schedlab reproduce kravetz"),
        ("schedlab list workloads mkb", "schedlab list workloads mkbench"),
        ("schedlab check ham", "schedlab check hamq"),
    ] {
        assert_eq!(asked(line).trim_end(), wanted);
    }
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
fn check_as_json() {
    let folder = Folder::new();
    let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let value = read(&folder.run("check o1 --json -").ok());
    assert_eq!(value["object"]["file"], "o1");
    assert_eq!(value["object"]["sha256"].as_str().map(str::len), Some(64));
    let names = |list: &str, key: &str| -> Vec<String> {
        let entries = value["object"][list].as_array().unwrap();
        entries.iter().map(|entry| entry[key].as_str().unwrap().to_string()).collect()
    };
    assert!(names("tunables", "name").contains(&"exit_weight".to_string()), "{value}");
    assert!(names("externs", "kind").contains(&"kfunc".to_string()), "{value}");
    assert_eq!(
        (&value["answers"][0]["by"], &value["answers"][0]["takes"]),
        (&"simulator".into(), &true.into())
    );
    // A refusal is written as well, and the command fails with it.
    folder.write("core.bpf.o", include_bytes!("../../../../fuzz/corpus/object/core.elf"));
    folder.run("check ./core.bpf.o --json r.json").refused(1, &["no struct_ops of type `test_ops`"]);
    let value = read(&folder.read("r.json"));
    assert_eq!(value["answers"][0]["takes"], false);
    assert!(value["answers"][0]["text"].as_str().unwrap().contains("test_ops"), "{value}");
}

#[test]
fn a_command_under_the_kernels_own_scheduler() {
    let folder = Folder::new();
    let words = ["run", "-s", "eevdf", "-q", "--", "sh", "-c", "echo hello; exit 3"];
    let done = folder.run_words(&words);
    done.refused(1, &["command sh ended with code 3"]);
    assert!(done.out.starts_with("hello\n") && done.out.contains("elapsed"));
}
