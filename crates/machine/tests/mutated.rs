//! Machine files with one mistake each: every value of every shipped file is removed, doubled, or given another type or size. Each
//! is one error on the line of the mistake, or a machine where the value may be missing.

use schedlab_machine::parse;
use std::fs;
use std::path::Path;

/// All sections and kinds of values that no shipped file has together.
const MORE: &str = r#"[machine]
name = "more"
about = "all the rest"
cpus = { sockets = 2, cores = 4, smt = 2, llcs = 2, nodes = 1 }
clock_mhz = 2000
hz = 1000
contention = [1.0, 1.1, 1.25]
smt_speed_percent = 60

[kernel]
preset = "debian-13"
hrtick = true
preempt = "lazy"
ticks = "spread"
start = "gate"

[[background]]
name = "kworker"
period = "3ms"
length = "15us"
per_cpu = true
"#;

/// Values that no key takes, with the types that they are wrong for.
const WRONG: [&str; 12] = [
    "-1",
    "\"-5ns\"",
    "nan",
    "-inf",
    "1e30",
    "99999999999999999999",
    "\"\"",
    "\"5 parsecs\"",
    "\"1000000h\"",
    "[[]]",
    "{ x = 1 }",
    "1979-05-27",
];

fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap())
    };
    let mut all: Vec<(String, String)> = files.map(read).collect();
    all.push(("more.toml".to_string(), MORE.to_string()));
    all.sort();
    all
}

/// The text with the line at `at` replaced by others.
fn with(text: &str, at: usize, lines: &str) -> String {
    let kept = text.lines().enumerate();
    kept.map(|(number, line)| if number == at { format!("{lines}\n") } else { format!("{line}\n") }).collect()
}

/// One line that names the file, one of the lines, and something else.
fn check(error: &str, file: &str, lines: &[usize]) {
    let places = lines.iter().any(|line| error.starts_with(&format!("machine file {file}:{line}: ")));
    assert!(places && !error.contains('\n'), "{lines:?}: {error}");
}

#[test]
fn every_value_is_checked_at_its_place() {
    let mut count = 0;
    for (file, text) in files() {
        parse(&text, &file).unwrap();
        for (at, line) in text.lines().enumerate() {
            let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with('#')) else {
                continue;
            };
            let own = [at + 1];
            for wrong in WRONG {
                let text_wanted = ["name", "about"].contains(&key) && wrong.starts_with('"');
                let number_wanted = ["cpus", "contention"].contains(&key) && wrong == "[[]]";
                if text_wanted || number_wanted {
                    continue;
                }
                count += 1;
                let mutated = with(&text, at, &format!("{key} = {wrong}"));
                match parse(&mutated, &file) {
                    Ok(_) => panic!("{file}:{}: {key} = {wrong} is taken", at + 1),
                    Err(error) => check(&error.to_string(), &file, &own),
                }
            }
            let twice = parse(&with(&text, at, &format!("{line}\n{line}")), &file).unwrap_err().to_string();
            check(&twice, &file, &[at + 1, at + 2]);
            let misspelt =
                parse(&with(&text, at, &format!("{key}x = {value}")), &file).unwrap_err().to_string();
            check(&misspelt, &file, &own);
            assert!(misspelt.contains(key), "{misspelt}");
            let open = parse(&with(&text, at, &format!("{key} = [")), &file).unwrap_err().to_string();
            assert!(open.starts_with(&format!("machine file {file}:")) && !open.contains('\n'), "{open}");
            // What may be missing has a value of its own; what may not is named.
            if let Err(error) = parse(&with(&text, at, ""), &file) {
                assert!(error.to_string().contains(key), "{file}: without {key}: {error}");
            }
        }
    }
    assert!(count > 2000, "{count} mistakes");
}
