//! What is shown of a record: the bytes of a view are those that the run's own flags would have written.

use crate::failure::Failure;
use schedlab_base::{TimeNs, did_you_mean};
use schedlab_report::{
    Document, ExtraTables, HtmlPage, PerfettoSink, Record, RecordOf, RunHead, RunTables, SampleSink,
    TimehistSink, comparison_text, latency_table, priorities_svg, run_text, scheduler_tables, to_csv,
    to_html, to_json, waits_table,
};
use schedlab_trace::{RunRecord, Sink, TimelineSink, Window};
use std::io::{self, Read, Seek, Write};

/// How a record is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// What the command itself prints.
    #[default]
    Table,
    /// The results as `--json` writes them.
    Json,
    /// One line per run and metric.
    Csv,
    /// A self-contained page.
    Html,
    /// A self-contained page with the CPUs over time and nothing else.
    Timeline,
    /// One line per stretch of a task on a CPU.
    Timehist,
    /// How long each task waited for a CPU.
    Latency,
    /// A trace for ui.perfetto.dev.
    Perfetto,
    /// A picture (SVG) of the tasks' priorities.
    Priorities,
    /// Which cache lines moved, and which source lines moved them.
    Lines,
    /// Which task waited for which.
    Waits,
    /// One line per pass through `schedule()`.
    Samples,
}

/// The names of the views, as `schedlab show --as` has them.
const NAMES: [(&str, View); 12] = [
    ("table", View::Table),
    ("json", View::Json),
    ("csv", View::Csv),
    ("html", View::Html),
    ("timeline", View::Timeline),
    ("timehist", View::Timehist),
    ("latency", View::Latency),
    ("perfetto", View::Perfetto),
    ("priorities", View::Priorities),
    ("lines", View::Lines),
    ("waits", View::Waits),
    ("samples", View::Samples),
];

impl View {
    /// The view with this name.
    ///
    /// # Errors
    /// A name that none has.
    pub fn named(name: &str) -> Result<View, Failure> {
        let found = NAMES.iter().find(|(own, _)| *own == name).map(|(_, view)| *view);
        found.ok_or_else(|| {
            let names = NAMES.map(|(name, _)| name);
            let near = did_you_mean(name, names);
            Failure::usage(format!("no view '{name}'{near}; there are: {}", names.join(", ")))
        })
    }

    /// Whether the view is a table for a terminal.
    pub fn is_for_people(self) -> bool {
        matches!(self, View::Table | View::Latency | View::Lines | View::Waits)
    }

    /// Whether the view is made while the events are read.
    pub fn is_streamed(self) -> bool {
        matches!(self, View::Timehist | View::Perfetto | View::Samples)
    }

    /// Whether the view is bytes rather than text.
    pub fn is_binary(self) -> bool {
        self == View::Perfetto
    }
}

/// What of a record's extras a view has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The scheduler's maps and changed integers: `-v`.
    pub contents: bool,
    /// Moved cache lines one by one: `--profile-lines`.
    pub lines: bool,
    /// The waits of tasks for each other: `--explain-waits`.
    pub waits: bool,
    /// The priorities of tasks: `--priorities` and `--html`.
    pub priorities: bool,
}

/// Takes the extras that are not wanted out of results; `extra` says by run which tables those are.
pub fn only(document: &mut Document, extra: &[ExtraTables], wanted: Wanted) {
    for (index, run) in document.runs.iter_mut().enumerate() {
        let ExtraTables { contents, lines } = extra.get(index).cloned().unwrap_or_default();
        let mut at = 0;
        run.tables.retain(|_| {
            let kept = (wanted.contents || !contents.contains(&at)) && (wanted.lines || !lines.contains(&at));
            at += 1;
            kept
        });
        if !wanted.waits {
            run.waits = None;
        }
        if !wanted.priorities {
            run.priorities.clear();
        }
    }
}

/// Says which of the record's contents are shown.
#[derive(Clone, Debug)]
pub struct Showing {
    /// How it is shown.
    pub view: View,
    /// All metrics, counters and tables.
    pub verbose: bool,
    /// The part of the run that a page draws over time.
    pub window: Window,
    /// The run of a comparison whose events are shown, from 0.
    pub run: usize,
}

/// Writes a view that is made of events while they are read; `failed` puts the refusal of a place into words.
///
/// # Errors
/// A view that the record has nothing for, a broken record, and a place that cannot be written.
pub fn stream<R: Read + Seek, W: Write>(
    record: &mut Record<R>,
    showing: &Showing,
    out: W,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<W, Failure> {
    let place = events_of(record, showing)?;
    let head = record.runs()[place].clone();
    let end = TimeNs::ZERO + record.document.runs[head.run].duration;
    Ok(match showing.view {
        View::Timehist => {
            let mut sink = TimehistSink::new(out, head.cpus, head.first_pid);
            for (number, party) in (0..).zip(&head.parties) {
                sink.named(schedlab_base::TaskId(number), &party.name);
            }
            replay(record, place, &mut sink)?;
            let mut out = sink.finish(end).map_err(&failed)?;
            tell_lost(&mut out, record.about.lost).map_err(&failed)?;
            out
        }
        View::Perfetto => {
            simulated(&head.parties, "perfetto")?;
            let mut sink = PerfettoSink::new(out, head.parties, head.first_pid);
            replay(record, place, &mut sink)?;
            sink.finish().map_err(&failed)?.0
        }
        _ => {
            simulated(&head.parties, "samples")?;
            let mut sink = SampleSink::new(out, head.cpus, head.clock_mhz, head.first_pid.cast_unsigned());
            replay(record, place, &mut sink)?;
            sink.finish(end).map_err(&failed)?
        }
    })
}

/// Says how many events are missing.
pub(crate) fn tell_lost(out: &mut impl Write, lost: u64) -> io::Result<()> {
    if lost == 0 {
        return Ok(());
    }
    writeln!(out, "(switches and wakeups that came too fast and are missing: {lost})")
}

/// Refuses a view for which a real kernel's recording lacks events.
fn simulated<T>(parties: &[T], view: &str) -> Result<(), Failure> {
    if parties.is_empty() {
        let text = format!(
            "--as {view}: the record is of a real kernel, whose recording has switches and wakeups only; --as timehist shows them"
        );
        return Err(Failure::usage(text));
    }
    Ok(())
}

fn replay<R: Read + Seek>(record: &mut Record<R>, place: usize, sink: &mut dyn Sink) -> Result<(), Failure> {
    record.replay(place, sink).map_err(|error| Failure::usage(format!("reading the events: {error}")))
}

/// Where the events of the wanted run are.
fn events_of<R: Read + Seek>(record: &Record<R>, showing: &Showing) -> Result<usize, Failure> {
    run_of(&record.document, showing)?;
    record.runs().iter().position(|head| head.run == showing.run).ok_or_else(|| {
        let text = match record.about.of {
            RecordOf::Comparison => {
                "a comparison keeps no events; record one run with `schedlab sim -o RECORD`, with the scheduler and seed in question"
            }
            RecordOf::Run => "this record has no events: the run had a command or a kernel that records none",
        };
        Failure::usage(text)
    })
}

fn run_of<'a>(document: &'a Document, showing: &Showing) -> Result<&'a RunRecord, Failure> {
    document.runs.get(showing.run).ok_or_else(|| {
        let most = document.runs.len();
        Failure::usage(format!("--run {}: the record has {most} runs, counted from 0", showing.run))
    })
}

/// A view that is text: all but those that are made while the events are read.
///
/// # Errors
/// A view that the record has nothing for, and a broken record.
pub fn text<R: Read + Seek>(record: &mut Record<R>, showing: &Showing) -> Result<String, Failure> {
    let about = record.about.clone();
    let mut document = record.document.clone();
    let comparison = about.of == RecordOf::Comparison;
    let wanted = Wanted {
        contents: showing.verbose,
        lines: showing.view == View::Lines,
        waits: comparison || showing.view == View::Waits,
        priorities: matches!(showing.view, View::Html | View::Priorities),
    };
    only(&mut document, &about.extra_tables, wanted);
    let page = || HtmlPage { title: document.title(), command: about.command.clone(), notes: Vec::new() };
    let run = || run_of(&document, showing);
    Ok(match showing.view {
        View::Json => to_json(&document),
        View::Csv => to_csv(&document.runs, &document.goals),
        View::Html => {
            run()?;
            let page = page();
            // A page of a run without a simulation's events has no CPUs over time.
            let has_events = |head: &RunHead| head.run == showing.run && !head.parties.is_empty();
            if let Some(place) = record.runs().iter().position(has_events) {
                add_timeline(record, place, showing.window, &mut document.runs[showing.run])?;
            }
            to_html(&page, &document)
        }
        View::Timeline => {
            let page = page();
            let mut run = RunRecord { priorities: Vec::new(), waits: None, ..run()?.clone() };
            let place = events_of(record, showing)?;
            add_timeline(record, place, showing.window, &mut run)?;
            schedlab_report::timeline_html(&page, &run)
        }
        View::Latency => latency_table(run()?),
        View::Priorities => priorities_svg(run()?)
            .ok_or_else(|| no_priorities("--as priorities", &run().expect("it was found").scheduler))?,
        View::Lines => {
            let shown = scheduler_tables(run()?, |name| name.starts_with("lines"));
            if shown.is_empty() {
                let text = "--as lines: the machine has no line_bytes, so no cache lines were followed";
                return Err(Failure::usage(text));
            }
            shown
        }
        View::Waits => {
            let none =
                || Failure::usage("--as waits: this run was not watched for them; give --explain-waits");
            waits_table(run()?.waits.as_ref().ok_or_else(none)?, 0, usize::MAX)
        }
        _ if comparison => {
            let own = |workload: &str, metric: &str| {
                let of = |(name, own): &(String, Vec<String>)| {
                    name == workload && own.iter().any(|own| own == metric)
                };
                about.own.iter().any(of)
            };
            comparison_text(&document, own, showing.verbose) + &about.notes
        }
        _ => {
            run()?;
            run_text(&document, RunTables { verbose: showing.verbose, ..RunTables::default() })
        }
    })
}

/// The failure of a scheduler that has no priorities to draw.
pub fn no_priorities(option: &str, scheduler: &str) -> Failure {
    Failure::usage(format!(
        "{option}: scheduler {scheduler} shows no priorities: what it keeps per task has no number called prio"
    ))
}

/// Gives a run its CPUs over time, from the events at this place of the record.
fn add_timeline<R: Read + Seek>(
    record: &mut Record<R>,
    place: usize,
    window: Window,
    run: &mut RunRecord,
) -> Result<(), Failure> {
    let mut sink = TimelineSink::new(window);
    replay(record, place, &mut sink)?;
    run.timeline = Some(sink.finish(TimeNs::ZERO + run.duration));
    Ok(())
}
