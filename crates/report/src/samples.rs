//! Samples of `schedule()` as CSV, written during a run and read back, and as the
//! text of their analyses.
//!
//! The columns are those of the traces that Libenzi printed: `cpu`, `seq`, `CYSTART`,
//! `CYEND`, `SCHCY`, `PID`, `PRUN`, `mark`. A line that begins with `#` is a comment;
//! `# clock_mhz = 733` tells the clock of the cycle counter.

use crate::table::table;
use schedlab_base::{TaskId, TimeNs};
use schedlab_trace::samples::{CostFigures, SampleFigures, SchedSample, Violation, median};
use schedlab_trace::{Event, EventKind, Sink};
use std::io::{self, Write};

/// The columns in the order in which they are written.
const COLUMNS: [&str; 8] = ["cpu", "seq", "CYSTART", "CYEND", "SCHCY", "PID", "PRUN", "mark"];

/// What the last column is called in the published traces.
const HISTORIC_MARK: &str = "recalc_mark";

/// Violations that the text tells one by one.
const VIOLATIONS_SHOWN: usize = 10;

/// Writes one line for each pass through `schedule()`, as soon as the next one of the CPU
/// begins.
#[derive(Debug)]
pub struct SampleSink<W: Write> {
    out: W,
    clock_mhz: u32,
    first_pid: u32,
    /// The last record of each CPU, whose run is not over.
    open: Vec<Option<SchedSample>>,
    error: Option<io::Error>,
}

impl<W: Write> SampleSink<W> {
    /// A sink for a run on `cpus` CPUs with a cycle counter of `clock_mhz`; task 0 of the
    /// run has the PID `first_pid`, the next one the next.
    pub fn new(mut out: W, cpus: usize, clock_mhz: u32, first_pid: u32) -> SampleSink<W> {
        let error = write!(out, "# clock_mhz = {clock_mhz}\n{}\n", COLUMNS.join(",")).err();
        SampleSink { out, clock_mhz, first_pid, open: vec![None; cpus], error }
    }

    /// Ends the last run of each CPU at `end`, the end of the run, and gives the writer
    /// back.
    ///
    /// # Errors
    /// The first one of writing.
    pub fn finish(mut self, end: TimeNs) -> io::Result<W> {
        let end = self.cycles(end);
        for cpu in 0..self.open.len() {
            self.close(cpu, end);
        }
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn cycles(&self, time: TimeNs) -> u64 {
        (u128::from(time.0) * u128::from(self.clock_mhz) / 1000) as u64
    }

    /// The open record's run ends at `end`.
    fn close(&mut self, cpu: usize, end: u64) {
        let Some(mut row) = self.open[cpu].take() else { return };
        row.run = end.saturating_sub(row.start);
        if self.error.is_none() {
            self.error = write_row(&mut self.out, &row).err();
        }
    }
}

fn write_row(out: &mut impl Write, row: &SchedSample) -> io::Result<()> {
    let SchedSample { cpu, seq, start, end, cost, pid, run, mark } = row;
    writeln!(out, "{cpu},{seq},{start},{end},{cost},{pid},{run},{}", u8::from(*mark))
}

impl<W: Write> Sink for SampleSink<W> {
    fn event(&mut self, event: &Event) {
        let EventKind::Schedule { begin, next, mark } = event.kind else { return };
        let cpu = event.cpu.index();
        let (start, end) = (self.cycles(begin), self.cycles(event.time));
        let seq = self.open[cpu].map_or(1, |last| last.seq + 1);
        self.close(cpu, start);
        let pid = next.map_or(0, |TaskId(task)| u64::from(self.first_pid) + u64::from(task));
        let cpu_number = event.cpu.0;
        self.open[cpu] =
            Some(SchedSample { cpu: cpu_number, seq, start, end, cost: end - start, pid, run: 0, mark });
    }
}

/// Samples that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleFile {
    /// The records in the order of the file.
    pub rows: Vec<SchedSample>,
    /// Line of each record.
    pub lines: Vec<usize>,
    /// Clock of the cycle counter, where the file says it.
    pub clock_mhz: Option<u32>,
}

/// Reads samples; `origin` names the file in errors. Columns besides the eight are
/// skipped, and the last one may be called `recalc_mark`.
///
/// # Errors
/// A missing column, a line with too few or too many fields, a field that is no number:
/// names file, line and cure.
pub fn read_samples(text: &str, origin: &str) -> Result<SampleFile, String> {
    let mut file = SampleFile::default();
    let mut columns: Option<(usize, [usize; 8])> = None;
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        let at = |what: String| format!("{origin}:{number}: {what}");
        if let Some(comment) = line.strip_prefix('#') {
            if let Some((key, value)) = comment.split_once('=')
                && key.trim() == "clock_mhz"
            {
                let clock = value.trim().parse().ok().filter(|&mhz| mhz > 0);
                let bad =
                    || at(format!("clock_mhz: '{}' is not a whole number of MHz above 0", value.trim()));
                file.clock_mhz = Some(clock.ok_or_else(bad)?);
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let Some((width, places)) = &columns else {
            columns = Some((fields.len(), header(&fields).map_err(at)?));
            continue;
        };
        if fields.len() != *width {
            return Err(at(format!("{} fields, the header has {width}", fields.len())));
        }
        file.rows.push(row(&fields, places).map_err(at)?);
        file.lines.push(number);
    }
    if columns.is_none() {
        return Err(format!("{origin}:1: no header; its first line names the columns {}", COLUMNS.join(",")));
    }
    Ok(file)
}

/// Where each column is.
fn header(fields: &[&str]) -> Result<[usize; 8], String> {
    let mut places = [0; 8];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        let is = |field: &&str| *field == name || name == "mark" && *field == HISTORIC_MARK;
        *place = fields.iter().position(is).ok_or_else(|| {
            format!("no column '{name}'; samples have the columns {} (others are skipped)", COLUMNS.join(","))
        })?;
    }
    Ok(places)
}

fn row(fields: &[&str], places: &[usize; 8]) -> Result<SchedSample, String> {
    let value = |column: usize| -> Result<u64, String> {
        let text = fields[places[column]];
        text.parse().map_err(|_| format!("{}: '{text}' is not a whole number from 0", COLUMNS[column]))
    };
    let cpu = u32::try_from(value(0)?).map_err(|_| "cpu: the number is too large".to_string())?;
    let mark = match value(7)? {
        0 => false,
        1 => true,
        other => return Err(format!("mark: '{other}' is neither 0 nor 1")),
    };
    let [seq, start, end, cost, pid, run] =
        [value(1)?, value(2)?, value(3)?, value(4)?, value(5)?, value(6)?];
    Ok(SchedSample { cpu, seq, start, end, cost, pid, run, mark })
}

/// The analyses as text. Spans are in milliseconds where the clock is known, else in
/// cycles.
pub fn samples_text(file: &SampleFile, figures: &SampleFigures, origin: &str) -> String {
    let unit = if file.clock_mhz.is_some() { "ms" } else { "cycles" };
    let span = |cycles: f64| match file.clock_mhz {
        Some(mhz) => format!("{:.3}", cycles / f64::from(mhz) / 1000.0),
        None => format!("{cycles:.0}"),
    };
    let mut text = format!(
        "Samples: {} on {} CPU{}, {} {unit}\n",
        file.rows.len(),
        figures.cpus.len(),
        if figures.cpus.len() == 1 { "" } else { "s" },
        span(figures.span as f64)
    );
    text.push_str(&violations_text(file, figures, origin));
    text.push_str("\nCost of a pass in cycles\n");
    text.push_str(&costs_table(figures));
    text.push_str(&format!("\nMigrations and stints ({unit})\n"));
    text.push_str(&tasks_table(figures, &span));
    let stints = figures.hog_stints();
    let rate = file.clock_mhz.filter(|_| figures.span > 0).map_or(String::new(), |mhz| {
        let seconds = figures.span as f64 / f64::from(mhz) / 1e6;
        format!(" ({:.2} a second)", f64::from(figures.hog_migrations()) / seconds)
    });
    text.push_str(&format!(
        "Hogs (at least 1 % of the time): {} migrations{rate}, stint median {}, longest {}\n",
        figures.hog_migrations(),
        span(median(&stints)),
        span(stints.last().copied().unwrap_or(0) as f64)
    ));
    text.push_str("\nDisturbances\n");
    for cpu in &figures.cpus {
        text.push_str(&format!(
            "CPU {}: the same task went on after {} of {}\n",
            cpu.cpu, cpu.resumed, cpu.disturbances
        ));
    }
    text
}

fn violations_text(file: &SampleFile, figures: &SampleFigures, origin: &str) -> String {
    let mut text = format!("Consistency: {} violations\n", figures.violations.len());
    for &(at, violation) in figures.violations.iter().take(VIOLATIONS_SHOWN) {
        let what = match violation {
            Violation::Cost => "SCHCY is not CYEND minus CYSTART".to_string(),
            Violation::Run => "the CPU's next CYSTART is not CYSTART plus PRUN".to_string(),
            Violation::TwoCpus(other) => format!("PID {} still runs on CPU {other}", file.rows[at].pid),
        };
        text.push_str(&format!("  {origin}:{}: {what}\n", file.lines[at]));
    }
    let more = figures.violations.len().saturating_sub(VIOLATIONS_SHOWN);
    if more > 0 {
        text.push_str(&format!("  ... and {more} more\n"));
    }
    text
}

fn costs_table(figures: &SampleFigures) -> String {
    let line = |cpu: u32, mark: &str, costs: &CostFigures| {
        let figure = |value: f64| format!("{value:.1}");
        vec![
            cpu.to_string(),
            mark.to_string(),
            costs.count.to_string(),
            costs.min.to_string(),
            figure(costs.median),
            figure(costs.mean),
            costs.max.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = figures
        .cpus
        .iter()
        .flat_map(|cpu| [line(cpu.cpu, "no", &cpu.plain), line(cpu.cpu, "yes", &cpu.marked)])
        .filter(|cells| cells[2] != "0")
        .collect();
    table(&["CPU", "mark", "passes", "min", "median", "mean", "max"], &[0, 2, 3, 4, 5, 6], &rows)
}

fn tasks_table(figures: &SampleFigures, span: &dyn Fn(f64) -> String) -> String {
    let rows: Vec<Vec<String>> = figures
        .tasks
        .iter()
        .map(|task| {
            vec![
                task.pid.to_string(),
                span(task.time as f64),
                task.migrations.to_string(),
                task.stints.len().to_string(),
                span(median(&task.stints)),
                span(task.stints.last().copied().unwrap_or(0) as f64),
            ]
        })
        .collect();
    table(&["PID", "time", "migrations", "stints", "median", "longest"], &[0, 1, 2, 3, 4, 5], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;
    use schedlab_trace::samples::analyse;

    fn schedule(begin: u64, end: u64, next: Option<u32>) -> Event {
        let next = next.map(TaskId);
        let kind = EventKind::Schedule { begin: TimeNs(begin), next, mark: begin == 2000 };
        Event { time: TimeNs(end), cpu: CpuId(0), kind }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut sink = SampleSink::new(Vec::new(), 2, 500, 1001);
        sink.event(&schedule(1, 100, Some(0)));
        sink.event(&schedule(2000, 2300, None));
        let text = String::from_utf8(sink.finish(TimeNs(5000)).unwrap()).unwrap();
        let rows = "0,1,0,50,50,1001,1000,0\n0,2,1000,1150,150,0,1500,1\n";
        assert_eq!(text, format!("# clock_mhz = 500\n{}\n{rows}", COLUMNS.join(",")));
        let file = read_samples(&text, "x.csv").unwrap();
        assert_eq!((file.clock_mhz, file.lines.as_slice()), (Some(500), &[3, 4][..]));
        let figures = analyse(&file.rows, &[]);
        assert_eq!((figures.violations.len(), figures.cpus[0].marked.count), (0, 1));
        let shown = samples_text(&file, &figures, "x.csv");
        assert!(shown.starts_with("Samples: 2 on 1 CPU, 0.005 ms\nConsistency: 0 violations\n"), "{shown}");
    }

    #[test]
    fn mistakes_name_file_line_and_cure() {
        let header = COLUMNS.join(",");
        let fails = |text: String| read_samples(&text, "x.csv").unwrap_err();
        assert!(fails(String::new()).starts_with("x.csv:1: no header"));
        let missing = fails("cpu,seq,CYSTART\n".into());
        assert!(
            missing.contains("x.csv:1: no column 'CYEND'; samples have the columns cpu,seq"),
            "{missing}"
        );
        assert!(fails(format!("{header}\n0,1,2\n")).contains("x.csv:2: 3 fields, the header has 8"));
        let number = fails(format!("\n{header}\n0,1,x,2,3,4,5,0\n"));
        assert!(number.contains("x.csv:3: CYSTART: 'x' is not a whole number"), "{number}");
        assert!(fails(format!("{header}\n0,1,0,2,2,4,5,2\n")).contains("mark: '2' is neither"));
        assert!(fails(format!("# clock_mhz = 0\n{header}\n")).contains("x.csv:1: clock_mhz"));
    }

    #[test]
    fn violations_are_told_with_their_lines() {
        let text = format!("{}\n0,1,0,2,2,7,10,0\n0,2,11,13,3,7,10,0\n", COLUMNS.join(","));
        let file = read_samples(&text, "x.csv").unwrap();
        let shown = samples_text(&file, &analyse(&file.rows, &[]), "x.csv");
        assert!(
            shown.contains("Consistency: 2 violations\n  x.csv:2: the CPU's next CYSTART is not"),
            "{shown}"
        );
        assert!(shown.contains("  x.csv:3: SCHCY is not CYEND minus CYSTART\n"), "{shown}");
        assert!(shown.contains("Migrations and stints (cycles)"), "{shown}");
    }
}
