//! One line a metric of a run: the form that spreadsheets and data frames read.

use crate::cells::{cell_of, scheduler_label};
use crate::goals::JudgedGoal;
use crate::group_tables::group_metrics;
use schedlab_base::{Better, DurationNs};
use schedlab_trace::{Provenance, RunRecord, Standing, WaitFigures};

/// Writes runs as CSV (RFC 4180 quoting, `\n` line ends) with a header line. The columns are scheduler, workload, params,
/// machine, cpus, seed, backend, exit, metric, value, unit, better. Then come whose metric it is (`scope`, `of`: empty for the
/// run's own), hashes of object, workload and machine, the build, how many warnings the run has, and its standing. A goal of the workload
/// has the lines `goal_met` (1 or 0) and `goal_margin`, without a value where the run has no figure. A text that a spreadsheet
/// would take for a formula has an apostrophe in front, see [`from_cell`].
pub fn to_csv(runs: &[RunRecord], goals: &[JudgedGoal]) -> String {
    let mut text = String::from(
        "scheduler,workload,params,machine,cpus,seed,backend,exit,metric,value,unit,better,scope,of,object_sha256,\
         workload_sha256,machine_sha256,build,warnings,standing\n",
    );
    for run in runs {
        let params: Vec<String> =
            run.workload.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let head = [scheduler_label(run), run.workload.name.clone(), params.join(","), run.machine.clone()]
            .map(|field| text_cell(&field))
            .join(",");
        let (backend, exit) = (run.backend.name(), run.exit.kind.name());
        let head = format!("{head},{},{},{backend},{exit}", run.cpus, run.seed);
        let Provenance { object, workload, machine, build, .. } = &run.provenance;
        let hashes =
            [object, workload, machine, build].map(|hash| text_cell(hash.as_deref().unwrap_or_default()));
        let tail = format!("{},{},{}", hashes.join(","), run.warnings.len(), run.standing().name());
        for metric in &run.metrics {
            let better = match metric.better {
                Better::Higher => "higher",
                Better::Lower => "lower",
                Better::Neither => "neither",
            };
            let value = if metric.value.is_finite() { metric.value.to_string() } else { String::new() };
            let own = [text_cell(&metric.name), value, text_cell(metric.unit), better.to_string()].join(",");
            text.push_str(&format!("{head},{own},,,{tail}\n"));
        }
        let of_run =
            |judged: &&JudgedGoal| judged.scheduler == scheduler_label(run) && judged.cell == cell_of(run);
        for judged in goals.iter().filter(of_run) {
            let goal = &judged.goal;
            let value = run.metric(&goal.metric).filter(|_| !judged.seeds_without_figure.contains(&run.seed));
            // What a suspect run says of a goal is no figure to add up.
            let counts = value.filter(|_| run.standing() == Standing::Valid);
            let met = counts.map(|value| u8::from(goal.is_met_by(value)).to_string()).unwrap_or_default();
            let margin = value.map(|value| goal.margin(value).to_string()).unwrap_or_default();
            let (of, unit) = (text_cell(&goal.to_string()), text_cell(goal.unit));
            text.push_str(&format!("{head},goal_met,{met},1,higher,goal,{of},{tail}\n"));
            text.push_str(&format!("{head},goal_margin,{margin},{unit},higher,goal,{of},{tail}\n"));
        }
        for waits in &run.task_waits {
            for (latency, figures) in waits.figures() {
                for (metric, value, unit, better) in wait_metrics(latency, figures) {
                    let (scope, of) = (waits.scope.name(), text_cell(&waits.name));
                    text.push_str(&format!("{head},{metric},{value},{unit},{better},{scope},{of},{tail}\n"));
                }
            }
        }
        for group in &run.groups {
            for (metric, value, unit, better) in group_metrics(group) {
                let of = text_cell(&group.name);
                text.push_str(&format!("{head},{metric},{value},{unit},{better},cgroup,{of},{tail}\n"));
            }
        }
    }
    text
}

/// What a spreadsheet takes for the beginning of a formula, some after passing over it. The apostrophe keeps
/// [`from_cell`] exact.
const FORMULA: [char; 12] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\''];

/// A cell of text. Cells of numbers are written as they are, whatever their sign.
fn text_cell(text: &str) -> String {
    let mark = if text.starts_with(FORMULA) { "'" } else { "" };
    let field = format!("{mark}{text}");
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

/// The text of a cell as it was before [`to_csv`] put an apostrophe in front.
pub fn from_cell(cell: &str) -> &str {
    cell.strip_prefix('\'').unwrap_or(cell)
}

/// The figures of a latency, named as the run's own.
fn wait_metrics(latency: &str, figures: &WaitFigures) -> [(String, u64, &'static str, &'static str); 5] {
    let time = |what: &str, time: DurationNs| (format!("{latency}_{what}"), time.0, "ns", "lower");
    [
        (format!("{}_count", latency.trim_end_matches("_ns")), figures.count, "1", "neither"),
        time("p50", figures.p50),
        time("p95", figures.p95),
        time("p99", figures.p99),
        time("max", figures.worst.length),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::judge_goals;
    use crate::made_up::run;
    use crate::names::tests::nasty;
    use schedlab_base::Goal;
    use schedlab_trace::ExitKind;

    #[test]
    fn fields_with_commas_are_quoted() {
        let text = to_csv(&[run("o1", 1, 2.5)], &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "o1,chat,\"rooms=3,fanout=a<b\",modern,2,1,sim,none,throughput,2.5,messages/s,higher,,,ab12,,,0.1,1,valid"
        );
        assert!(
            lines[3].ends_with("run_delay_count,3,1,neither,task,client/0,ab12,,,0.1,1,valid"),
            "{}",
            lines[3]
        );
        assert!(lines[7].contains("run_delay_ns_max,900,ns,lower,task,client/0,"), "{}", lines[7]);
        assert!(lines[10].contains(",share,1,1,neither,cgroup,ui/<b>,"), "{}", lines[10]);
        assert!(lines[13].contains(",cpu_some,4750000,ns,lower,cgroup,ui/<b>,"), "{}", lines[13]);
        assert_eq!(lines.len(), 20);
        assert!(lines.iter().all(|line| line.split(',').count() >= 19));
    }

    #[test]
    fn goals_are_lines_of_their_runs() {
        let goal = Goal::parse("throughput > 2 messages/s", |_| Some("messages/s")).unwrap();
        let mut ejected = run("o1", 3, 9.0);
        ejected.exit.kind = ExitKind::ErrorStall;
        let runs = [run("o1", 1, 2.5), run("o1", 2, 1.5), ejected, run("vanilla", 1, 4.0)];
        let judged = judge_goals(&runs[..3], &[(runs[0].workload.clone(), vec![goal])]);
        let text = to_csv(&runs, &judged);
        let of = "goal,throughput > 2 messages/s,ab12,";
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(of)).collect();
        let wanted = [
            "goal_met,1,1,",
            "goal_margin,0.5,messages/s,",
            "goal_met,0,",
            "goal_margin,-0.5,",
            "goal_met,,1,",
            "goal_margin,,",
        ];
        assert_eq!(lines.len(), wanted.len(), "{text}");
        for (line, wanted) in lines.iter().zip(wanted) {
            assert!(line.starts_with("o1,chat,") && line.contains(wanted), "{wanted}: {line}");
        }
    }

    #[test]
    fn formulas_are_text_and_numbers_are_numbers() {
        for name in nasty().into_iter().chain(["'=1", "''", "\u{ff1d}1", "plain"].map(String::from)) {
            let mut one = run(&name, 1, -2.5);
            one.workload.name.clone_from(&name);
            one.machine.clone_from(&name);
            let text = to_csv(&[one], &[]);
            let mut reader = ::csv::Reader::from_reader(text.as_bytes());
            let record = reader.records().next().unwrap().unwrap();
            for column in [0, 1, 3] {
                assert_eq!(from_cell(&record[column]), name);
                assert!(
                    !record[column].starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}']),
                    "{name:?}"
                );
            }
            assert_eq!((&record[4], &record[5], &record[9]), ("2", "1", "-2.5"));
        }
    }
}
