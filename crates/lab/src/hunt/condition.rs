//! A property in a user's own words: a condition on the figures of a run.

use evalexpr::{
    ContextWithMutableVariables, HashMapContext, Node, Operator, Value, ValueType, build_operator_tree,
};
use schedlab_base::did_you_mean;
use schedlab_trace::RunRecord;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Characters of a condition at most. Chosen: longer ones are unreadable, and parsing them nests as deep as they are long.
const LONGEST: usize = 400;

/// What the names of the older scheduler's figures begin with.
const OLDER: &str = "old.";

/// A condition as a user writes it: `run_delay_ns_max > 200ms && cpus > 1`. It holds for a run whose figures make it true.
///
/// Two conditions are equal if their texts are.
#[derive(Clone)]
pub struct Condition {
    text: Arc<str>,
    tree: Arc<Node>,
}

impl Condition {
    /// Reads a condition. Names are those of metrics and counters, `cpus`, `tasks`, `duration_ns`, `work_ns` and `ejected`. Durations
    /// have a unit (`200ms`) and count in ns. A name with `old.` before it means the older scheduler's figure.
    ///
    /// # Errors
    /// A text that is too long, that is no expression, or that names no figure.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let wrong = |why: &dyn fmt::Display| format!("condition '{text}': {why}");
        if text.len() > LONGEST {
            return Err(wrong(&format!("{} characters are too many; {LONGEST} may be", text.len())));
        }
        let tree = build_operator_tree(&in_nanoseconds(text)).map_err(|error| wrong(&error))?;
        if tree.iter_write_variable_identifiers().next().is_some() {
            return Err(wrong(&"'=' sets a figure; to compare, write =="));
        }
        if let Some(function) = tree.iter_function_identifiers().find(|name| !FUNCTIONS.contains(name)) {
            return Err(wrong(&format!("no function '{function}'; there are: {}", FUNCTIONS.join(", "))));
        }
        let no_number = |name: &&str| name.starts_with(|c: char| c.is_ascii_digit());
        if let Some(number) = tree.iter_variable_identifiers().find(no_number) {
            return Err(wrong(&format!("'{number}' is no number; durations are in ns, us, ms or s")));
        }
        if tree.iter_variable_identifiers().next().is_none() {
            return Err(wrong(&"no figure is named, such as run_delay_ns_max"));
        }
        Ok(Condition { text: text.into(), tree: Arc::new(tree) })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether figures of two schedulers are compared.
    pub fn compares(&self) -> bool {
        self.tree.iter_variable_identifiers().any(|name| name.starts_with(OLDER))
    }

    /// The names of figures, without the prefix of the older scheduler's.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let names = self.tree.iter_variable_identifiers();
        names.map(|name| name.strip_prefix(OLDER).unwrap_or(name)).collect()
    }

    /// The figures in words, where the condition holds for a run, beside one of the older scheduler if figures are compared. A run
    /// without one of the figures is no case of it.
    ///
    /// # Errors
    /// A condition that is a number, or compares what cannot be compared.
    pub(crate) fn of_run(
        &self,
        run: &RunRecord,
        older: Option<&RunRecord>,
    ) -> Result<Option<String>, String> {
        let mut context = HashMapContext::new();
        let mut shown = Vec::new();
        for name in self.tree.iter_variable_identifiers().collect::<BTreeSet<_>>() {
            let found = match name.strip_prefix(OLDER) {
                Some(name) => older.and_then(|record| figure(record, name)),
                None => figure(run, name),
            };
            let Some(value) = found else { return Ok(None) };
            shown.push(format!("{name} {}", words(name, &value)));
            // A new name in an empty context is refused by nothing.
            context.set_value(name.to_string(), value).expect("a context takes new names");
        }
        let wrong = |why: &dyn fmt::Display| format!("condition '{}': {why}", self.text);
        check_kinds(&self.tree, &context).map_err(|why| wrong(&why))?;
        let holds = match self.tree.eval_with_context(&context) {
            Ok(Value::Boolean(holds)) => holds,
            Ok(value) => {
                return Err(wrong(&format!("{value} is neither true nor false; compare it with < or >")));
            }
            Err(error) => return Err(wrong(&error)),
        };
        Ok(holds.then(|| shown.join(", ")))
    }
}

/// Refuses == and != between values of two kinds: to the library they differ, so that `ejected == 1` would never hold.
fn check_kinds(node: &Node, context: &HashMapContext) -> Result<(), String> {
    if let (Operator::Eq | Operator::Neq, [left, right]) = (node.operator(), node.children()) {
        // What cannot be evaluated is refused with the whole.
        let values = [left, right].map(|side| side.eval_with_context(context).ok());
        if let [Some(left), Some(right)] = &values
            && ValueType::from(left) != ValueType::from(right)
        {
            return Err(format!("{left} and {right} are of two kinds and cannot be equal"));
        }
    }
    node.children().iter().try_for_each(|child| check_kinds(child, context))
}

/// What the names of counters begin with: of the shipped schedulers, of the kernel.
const COUNTERS: [&str; 2] = ["nr_", "SCX_EV_"];

/// What may be called in a condition, of the library's functions: those of numbers.
const FUNCTIONS: [&str; 9] =
    ["min", "max", "floor", "ceil", "round", "math::abs", "math::log2", "math::sqrt", "math::pow"];

/// What a condition may name in this run.
pub(crate) fn names_of(record: &RunRecord) -> BTreeSet<String> {
    let metrics = record.metrics.iter().map(|one| &one.name);
    let counters = record.counters.iter().map(|one| &one.name);
    let own = OWN.iter().map(|name| (*name).to_string());
    own.chain(metrics.chain(counters).cloned()).collect()
}

/// The error on a name that no run has.
pub(crate) fn unknown(condition: &Condition, name: &str, known: &BTreeSet<String>) -> String {
    let near = did_you_mean(name, known.iter().map(String::as_str));
    // Counters are many; a report of any run has them.
    let metrics = known
        .iter()
        .map(String::as_str)
        .filter(|name| COUNTERS.iter().all(|prefix| !name.starts_with(prefix)));
    format!(
        "condition '{}': no run has a figure '{name}'{near}; a run has {}, and its counters",
        condition.text,
        Vec::from_iter(metrics).join(", ")
    )
}

/// Figures that are neither metrics nor counters.
const OWN: [&str; 5] = ["cpus", "tasks", "duration_ns", "work_ns", "ejected"];

fn figure(record: &RunRecord, name: &str) -> Option<Value> {
    let number = |value: u64| Value::Float(value as f64);
    Some(match name {
        "cpus" => number(record.cpus as u64),
        "tasks" => number(record.tasks.len() as u64),
        "duration_ns" => number(record.duration.0),
        "work_ns" => number(record.tasks.iter().map(|task| task.cpu_time.0).sum()),
        "ejected" => Value::Boolean(record.exit.kind.is_ejection()),
        _ => {
            let counter = || record.counters.iter().find(|one| one.name == name).map(|one| one.value as f64);
            Value::Float(record.metric(name).or_else(counter)?)
        }
    })
}

/// A value as a person reads it.
fn words(name: &str, value: &Value) -> String {
    let is_time = name.ends_with("_ns") || name.contains("_ns_");
    match value {
        Value::Float(ns) if is_time && *ns >= 1e6 => format!("was {:.3} ms", ns / 1e6),
        Value::Float(ns) if is_time => format!("was {:.3} us", ns / 1e3),
        Value::Float(value) => format!("was {value}"),
        other => format!("was {other}"),
    }
}

/// The text with its durations as numbers of nanoseconds: `200ms` as `200000000.0`. All numbers get a point, so that nothing is
/// computed in integers, whose division truncates.
fn in_nanoseconds(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_name = first.is_alphabetic() || first == '_';
        let end = |stays: &dyn Fn(char) -> bool| rest.find(|c| !stays(c)).unwrap_or(rest.len());
        if is_name {
            let (name, after) = rest.split_at(end(&|c| c.is_alphanumeric() || "_.:".contains(c)));
            out.push_str(name);
            rest = after;
        } else if first.is_ascii_digit() {
            let (number, after) = rest.split_at(end(&|c| c.is_ascii_digit() || "._".contains(c)));
            let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            let digits = number.replace('_', "");
            match digits.parse::<f64>().ok().zip(nanoseconds(unit)) {
                Some((value, factor)) => out.push_str(&format!("{:?}", value * factor)),
                // No number: the parser says so.
                None => out.push_str(&rest[..number.len() + unit.len()]),
            }
            rest = after;
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Nanoseconds of a unit; of none, one.
fn nanoseconds(unit: &str) -> Option<f64> {
    let units = [("", 1.0), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    units.into_iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor)
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:?})", self.text)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Condition) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

impl PartialOrd for Condition {
    fn partial_cmp(&self, other: &Condition) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Condition {
    fn cmp(&self, other: &Condition) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::simulation::Simulation;
    use crate::scheduler::Scheduler;
    use crate::shipped;

    fn record(workload: &str) -> RunRecord {
        let machine = shipped::machine("modern").unwrap().machine.with_cpus(1).unwrap();
        Simulation::new(Scheduler::find("o1").unwrap(), workload, machine).run().unwrap()
    }

    fn holds(text: &str, run: &RunRecord, older: Option<&RunRecord>) -> Result<bool, String> {
        Condition::parse(text)?.of_run(run, older).map(|found| found.is_some())
    }

    #[test]
    fn figures_of_a_run_decide() {
        let run = record("cpuhog:ntasks=2,ttime=100ms");
        for (text, expected) in [
            ("cpus == 1", true),
            ("tasks == 2 && !ejected", true),
            ("duration_ns > 90ms && duration_ns < 0.2s", true),
            ("run_delay_ns_max > 100s", false),
            ("context_switches / 1000 > 0", true),
            ("work_ns / duration_ns > 0.9", true),
            ("max(cpus, tasks) == 2", true),
            // Another workload's metric.
            ("throughput > 0", false),
        ] {
            assert_eq!(holds(text, &run, None), Ok(expected), "{text}");
        }
        let found = Condition::parse("duration_ns > 90ms").unwrap().of_run(&run, None).unwrap().unwrap();
        assert!(found.starts_with("duration_ns was 1"), "{found}");
    }

    #[test]
    fn an_older_run_is_compared() {
        let (short, long) = (record("cpuhog:ntasks=1,ttime=50ms"), record("cpuhog:ntasks=1,ttime=200ms"));
        let condition = "duration_ns > 2 * old.duration_ns";
        assert!(Condition::parse(condition).unwrap().compares());
        assert_eq!(holds(condition, &long, Some(&short)), Ok(true));
        assert_eq!(holds(condition, &short, Some(&long)), Ok(false));
        assert_eq!(holds(condition, &long, None), Ok(false));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let run = record("cpuhog:ntasks=1,ttime=10ms");
        for (text, why) in [
            ("cpus = 2", "write =="),
            ("1 < 2", "no figure is named"),
            ("cpus > ", "condition 'cpus > '"),
            ("cpus > 5min", "'5min' is no number"),
            ("cpus > (2", "condition"),
            ("exec(cpus)", "no function 'exec'"),
            ("cpus + 1", "neither true nor false"),
            ("ejected == 1", "false and 1 are of two kinds"),
            ("cpus < 9 && (cpus != \"1\")", "of two kinds"),
            ("cpus + ejected > 1", "condition 'cpus + ejected > 1'"),
            (&"(".repeat(LONGEST + 1), "characters are too many"),
        ] {
            let said = holds(text, &run, None).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
        // As deep as it may be.
        let deep = format!("{}cpus{} > 0", "(".repeat(195), ")".repeat(195));
        assert_eq!(holds(&deep, &run, None), Ok(true));
    }
}
