//! `deps`: the running kernel is watched: which task waits for which, through what, how long, how
//! sure.

use crate::args::DepsArgs;
use crate::output;
use crate::results::command_line;
use schedlab_base::DurationNs;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{self, Target};
use schedlab_live::signals;
use schedlab_live::waits::WaitWatcher;
use schedlab_report::{Document, HtmlPage, to_json, waits_dot, waits_html, waits_table};
use schedlab_trace::waits::{Party, Waits};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pairs in a table that refreshes. Chosen: what a small terminal shows.
const PAIRS_ON_SCREEN: usize = 18;
/// Pairs in the last table without `-v`.
const PAIRS_SHOWN: usize = 50;
/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The files asked for.
struct Targets {
    json: Option<Target>,
    dot: Option<Target>,
    html: Option<Target>,
}

impl Targets {
    fn new(args: &DepsArgs) -> Result<Targets, Failure> {
        let target = |option, path: &Option<PathBuf>| {
            path.as_deref().map(|path| Target::new(option, path)).transpose()
        };
        let targets = Targets {
            json: target("--json", &args.json)?,
            dot: target("--dot", &args.dot)?,
            html: target("--html", &args.html)?,
        };
        target::distinct(targets.all())?;
        Ok(targets)
    }

    fn all(&self) -> impl Iterator<Item = &Target> {
        [&self.json, &self.dot, &self.html].into_iter().flatten()
    }

    fn to_stdout(&self) -> bool {
        self.all().any(Target::is_stdout)
    }

    /// Writes all files. One that fails keeps nothing else from being written.
    fn write(&self, waits: Waits, min_confidence: u32) -> Result<(), Failure> {
        let write = |target: &Option<Target>, text: &dyn Fn() -> String| {
            target.as_ref().map_or(Ok(()), |target| target.write(&text()))
        };
        let head =
            HtmlPage { title: "Who waits for whom".to_string(), command: command_line(), notes: Vec::new() };
        let dot = write(&self.dot, &|| waits_dot(&waits, min_confidence));
        let html = write(&self.html, &|| waits_html(&head, &waits, min_confidence));
        let document = Document { waits: Some(waits), ..Document::default() };
        let json = write(&self.json, &|| to_json(&document));
        json.and(dot).and(html)
    }
}

/// Watches and tells.
pub(crate) fn deps(args: &DepsArgs, quiet: bool, verbose: bool) -> Result<(), Failure> {
    let targets = Targets::new(args)?;
    existing(&args.pid)?;
    signals::catch();
    let watcher = WaitWatcher::start().map_err(|error| Failure::environment(error.to_string()))?;
    let begin = Instant::now();
    watcher.watch_all();
    let on_screen = !targets.to_stdout() && std::io::stdout().is_terminal();
    if !quiet && !on_screen && args.duration.is_none() {
        output::note("watching; Ctrl-C ends with the result");
    }
    let elapsed = || DurationNs(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut shown = DurationNs::ZERO;
    while !signals::stop_wanted() && args.duration.is_none_or(|end| elapsed() < end) {
        let left = args.duration.map_or(LOOK, |end| Duration::from_nanos(end.saturating_sub(elapsed()).0));
        std::thread::sleep(left.min(LOOK));
        if on_screen && elapsed().saturating_sub(shown) >= args.interval {
            shown = elapsed();
            let waits = chosen(watcher.read(shown), args);
            output::print_anew(&text(&waits, args.min_confidence, PAIRS_ON_SCREEN))?;
        }
    }
    let mut waits = chosen(watcher.read(elapsed()), args);
    drop(watcher);
    if !targets.to_stdout() {
        let limit = if verbose { usize::MAX } else { PAIRS_SHOWN };
        let print = if shown > DurationNs::ZERO { output::print_anew } else { output::print };
        print(&text(&waits, args.min_confidence, limit))?;
    }
    waits.pairs.retain(|pair| pair.confidence >= args.min_confidence);
    targets.write(waits, args.min_confidence)
}

/// Refuses numbers that no process has: nothing could be told about them.
fn existing(pids: &[i32]) -> Result<(), Failure> {
    let gone = pids.iter().find(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    gone.map_or(Ok(()), |pid| {
        Err(Failure::usage(format!(
            "--pid {pid}: no process and no thread has this number; ps -eLf lists them"
        )))
    })
}

fn text(waits: &Waits, min_confidence: u32, limit: usize) -> String {
    let table = waits_table(waits, min_confidence, limit);
    format!("who waited for whom in {:.1} s\n\n{table}", waits.span.as_secs_f64())
}

/// The pairs that `--pid` and `--comm` let through.
fn chosen(mut waits: Waits, args: &DepsArgs) -> Waits {
    let named = |party: &Party| args.comm.iter().any(|text| party.name.contains(text.as_str()));
    let numbered = |party: &Party| args.pid.contains(&party.thread) || args.pid.contains(&party.process);
    waits.pairs.retain(|pair| {
        let sides = [&pair.requester, &pair.provider];
        (args.comm.is_empty() || sides.into_iter().any(named))
            && (args.pid.is_empty() || sides.into_iter().any(numbered))
    });
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::waits::{ConfidenceFrom, Mechanism, WaitPair};

    #[test]
    fn filters_look_at_both_sides() {
        let party =
            |name: &str, thread, process| Party { name: name.to_string(), thread, process, prio: 120 };
        let pair = |requester, provider| WaitPair {
            requester,
            provider,
            mechanism: Mechanism::Pipe,
            object: None,
            waits: 1,
            time: DurationNs(1),
            longest: DurationNs(1),
            inversion: DurationNs::ZERO,
            confidence: 20,
            confidence_from: ConfidenceFrom::Counts,
        };
        let seen = Waits {
            pairs: vec![
                pair(party("client", 5, 4), party("server", 7, 6)),
                pair(party("a", 1, 1), party("b", 2, 2)),
            ],
            ..Waits::default()
        };
        let count = |line: &[&str]| {
            let line = ["schedlab", "deps"].iter().chain(line);
            let cli = <crate::args::Cli as clap::Parser>::try_parse_from(line).unwrap();
            let crate::args::Command::Deps(args) = cli.command else { panic!("it is deps") };
            chosen(seen.clone(), &args).pairs.len()
        };
        assert_eq!((count(&[]), count(&["--pid", "6"]), count(&["--pid", "5,2"])), (2, 1, 2));
        assert_eq!((count(&["--comm", "serv"]), count(&["--comm", "x"])), (1, 0));
        assert_eq!(count(&["--comm", "serv", "--pid", "1"]), 0);
    }
}
