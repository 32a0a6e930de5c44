//! What the usual harness would do: its command line as far as runners need it, and what it prints.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::{Lab, Test};

/// What the usual harness ends with when a test fails, or when it does not know an option.
pub(super) const FAILED: u8 = 101;

/// What the command line asks for.
#[derive(Default)]
pub(super) struct Asked {
    /// Names are printed, and nothing runs.
    pub(super) list: bool,
    /// `--format terse`: a list without its sum.
    terse: bool,
    /// A filter is a whole name.
    exact: bool,
    /// `--ignored`: only tests that are ignored, and there are none.
    ignored: bool,
    filters: Vec<String>,
    skipped: Vec<String>,
    /// Tests at a time; as many as there are processors without, for an emulated one hardly uses more than one of ours.
    threads: Option<usize>,
}

impl Asked {
    /// # Errors
    /// An option that is not known, or one without its value.
    pub(super) fn of(args: &[String]) -> Result<Asked, String> {
        let mut asked = Asked::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, own) = match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
                _ => (arg.as_str(), None),
            };
            let mut value = || {
                own.clone().or_else(|| args.next().cloned()).ok_or_else(|| format!("{name} wants a value"))
            };
            match name {
                "--list" => asked.list = true,
                "--exact" => asked.exact = true,
                "--ignored" => asked.ignored = true,
                "--format" => asked.terse = value()? == "terse",
                "--skip" => asked.skipped.push(value()?),
                "--test-threads" => asked.threads = Some(number(&value()?)?),
                "--color" => drop(value()?),
                "--nocapture" | "--no-capture" | "--show-output" | "--include-ignored" | "--quiet" | "-q" => {
                }
                option if option.starts_with('-') => return Err(format!("there is no option {option}")),
                filter => asked.filters.push(filter.to_string()),
            }
        }
        Ok(asked)
    }

    /// The tests that are asked for.
    pub(super) fn of_all<'a>(&self, tests: &'a [Test]) -> Vec<&'a Test> {
        let meets = |name: &str, filter: &String| {
            if self.exact { name == filter } else { name.contains(filter.as_str()) }
        };
        let wanted = |name: &str| {
            let named = self.filters.is_empty() || self.filters.iter().any(|filter| meets(name, filter));
            named && !self.ignored && !self.skipped.iter().any(|filter| meets(name, filter))
        };
        tests.iter().filter(|(name, _)| wanted(name)).collect()
    }

    /// Prints the names.
    #[allow(clippy::print_stdout, reason = "a test program reports")]
    pub(super) fn print_list(&self, tests: &[&Test]) {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        if !self.terse {
            println!("\n{} tests, 0 benchmarks", tests.len());
        }
    }

    /// Runs the tests in the laboratory, or says why none runs, and prints how each ended. Returns whether none failed.
    #[allow(clippy::print_stdout, reason = "a test program reports")]
    pub(super) fn run(&self, lab: Result<Lab, String>, tests: &[&Test], all: usize) -> bool {
        let begin = Instant::now();
        println!("\nrunning {} tests", tests.len());
        let (failed, ignored) = match lab {
            Ok(lab) => (self.run_in(&lab, tests), 0),
            Err(reason) => {
                tests.iter().for_each(|(name, _)| println!("test {name} ... skipped: {reason}"));
                (0, tests.len())
            }
        };
        println!(
            "\ntest result: {}. {} passed; {failed} failed; {ignored} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
            if failed == 0 { "ok" } else { "FAILED" },
            tests.len() - failed - ignored,
            all - tests.len(),
            begin.elapsed().as_secs_f64()
        );
        failed == 0
    }

    /// Returns how many failed.
    #[allow(clippy::print_stdout, reason = "a test program reports")]
    fn run_in(&self, lab: &Lab, tests: &[&Test]) -> usize {
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            while let Some((name, test)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begin = Instant::now();
                let verdict = test(lab);
                let took = format!("{name} took {:.0} s", begin.elapsed().as_secs_f64());
                match verdict {
                    Ok(()) => println!("{took}\ntest {name} ... ok"),
                    Err(why) => {
                        println!("{took}\n{why}\ntest {name} ... FAILED");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        };
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.threads.unwrap_or_else(processors).clamp(1, tests.len().max(1));
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
        failed.into_inner()
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
