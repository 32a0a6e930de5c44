//! `--timehist` and `--latency`: the forms of `perf sched`.

use crate::Folder;
use schedlab_report::from_json;
use schedlab_trace::WaitScope;

const RUN: &str = "sim -s o1 -w chat:rooms=1,messages=5 -c 2 --seed 3";

/// The columns of a line of the history: time, CPU, task, wait, delay and run time, times in microseconds.
fn columns(line: &str) -> (u64, usize, String, [u64; 3]) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [time, cpu, task, wait, delay, ran] = words[..] else { panic!("{line}") };
    let micros = |text: &str| text.replace('.', "").parse::<u64>().unwrap();
    let cpu = cpu.trim_matches(['[', ']']).parse().unwrap();
    (micros(time), cpu, task.to_string(), [wait, delay, ran].map(micros))
}

#[test]
fn the_history_accounts_for_all_time_of_every_cpu_and_task() {
    let folder = Folder::new();
    folder.run(&format!("{RUN} --timehist h.txt --json r.json")).ok();
    let run = from_json(&folder.read("r.json")).unwrap().runs.remove(0);
    let history = folder.read("h.txt");
    let lines: Vec<_> = history.lines().skip(3).map(columns).collect();
    assert!(lines.len() > 100, "{history}");
    // Each figure is cut to a microsecond.
    let close = |sum: u64, whole: u64, count: usize| sum.abs_diff(whole / 1_000) <= count as u64 + 1;
    for cpu in 0..2 {
        let on: Vec<_> = lines.iter().filter(|line| line.1 == cpu).collect();
        assert!(close(on.iter().map(|line| line.3[2]).sum(), run.duration.0, on.len()), "CPU {cpu}");
        assert!(on.is_sorted_by_key(|line| line.0), "time never goes back on a CPU");
    }
    for (number, task) in run.tasks.iter().filter(|task| task.name != "(forked)").enumerate() {
        let label = format!("{}[{}]", task.name, 1001 + number);
        let of: Vec<_> = lines.iter().filter(|line| line.2 == label).collect();
        assert!(close(of.iter().map(|line| line.3[2]).sum(), task.cpu_time.0, of.len()), "{label}");
        assert_eq!(of.len() as u64, task.switches, "{label}");
        assert!(
            of.iter().all(|line| line.3[1] <= line.3[0] || line.3[0] == 0),
            "{label}: a delay is part of the wait"
        );
    }
    // The longest wait for a CPU, after a wakeup or a preemption, stands there too.
    let all = run.task_waits.iter().find(|waits| waits.scope == WaitScope::All).unwrap();
    let longest = all.run_delay.as_ref().unwrap().worst.length.0;
    let told = lines.iter().filter(|line| line.2 != "<idle>").map(|line| line.3[1]).max().unwrap();
    assert!(told.abs_diff(longest / 1_000) <= 1, "{told} us, {longest} ns");
}

#[test]
fn the_history_takes_the_place_of_the_tables_and_changes_no_result() {
    let folder = Folder::new();
    folder.run(&format!("{RUN} --timehist h.txt --json with.json")).ok();
    folder.run(&format!("{RUN} --json without.json")).ok();
    assert_eq!(folder.read("with.json"), folder.read("without.json"));
    for line in ["--timehist", "--timehist -", "--timehist --quiet"] {
        assert_eq!(folder.run(&format!("{RUN} {line}")).ok(), folder.read("h.txt"), "{line}");
    }
}

#[test]
fn latencies_are_those_of_the_json_by_the_longest_wait() {
    let folder = Folder::new();
    let text = folder.run(&format!("{RUN} --latency --json r.json")).ok();
    let table = text.split("\n\n").find(|part| part.contains("wakeup avg ms")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
    let run = from_json(&folder.read("r.json")).unwrap().runs.remove(0);
    let waits = run.task_waits.iter().filter(|waits| waits.scope == WaitScope::Task);
    assert_eq!(rows.len(), waits.clone().count(), "a row a task");
    let max = |row: &Vec<&str>| row[6].parse::<f64>().unwrap_or(-1.0);
    assert!(rows.is_sorted_by(|one, next| max(one) >= max(next)), "{table}");
    for waits in waits {
        let row = rows.iter().find(|row| row[0] == waits.name).unwrap();
        let Some(delay) = &waits.run_delay else { continue };
        let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        assert_eq!(row[5..7], [ms(delay.mean.0), ms(delay.worst.length.0)], "{table}");
        assert!(
            delay.mean <= delay.worst.length
                && delay.mean.0 * delay.count >= delay.worst.length.0.saturating_sub(delay.count)
        );
        assert_eq!(row[8], delay.worst.cpu.to_string());
    }
    assert!(!folder.run(RUN).ok().contains("wakeup avg ms"));
}

#[test]
fn histories_that_have_no_place() {
    let refused = |line: &str, words: &[&str]| Folder::new().run(line).refused(2, words);
    for first in ["sim", "run"] {
        let line = format!("{first} -s eevdf -w cpuhog:ttime=1ms");
        refused(&format!("{line} --timehist no/where"), &["--timehist no/where", "folder"]);
        refused(&format!("{line} --timehist r --json r"), &["--json and --timehist", "both name r"]);
        refused(&format!("{line} --timehist --json -"), &["only one of --json and --timehist"]);
        refused(&format!("{line} --timehist --latency"), &["--latency: --timehist", "name a file"]);
        refused(&format!("{line} --latency --json -"), &["--latency: --json", "name a file"]);
    }
    refused("compare -s eevdf,o1 -w cpuhog:ttime=1ms --timehist h", &["--timehist"]);
    let full = Folder::new().run("sim -s eevdf -w cpuhog:ttime=1ms --timehist /dev/full");
    full.refused(5, &["--timehist /dev/full", "No space left"]);
}
