//! Answers: of a command's results, what a program that decides by them needs, in few bytes.

use serde_json::{Map, Value, json};

/// Most bytes of an answer. Chosen: what a language model reads without losing its thread.
pub const ANSWER_MOST: usize = 2048;

/// Most characters of one text in an answer.
const TEXT_MOST: usize = 300;

/// The fields of an object that have these names.
fn picked(of: &Value, names: &[&str]) -> Value {
    let fields = names.iter().filter_map(|name| Some((name.to_string(), of.get(name)?.clone())));
    Value::Object(fields.filter(|(_, value)| !value.is_null()).collect())
}

/// The entries of a list.
fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

fn texts(of: &Value, name: &str, field: &str) -> Vec<Value> {
    list(of, name).map(|entry| entry[field].clone()).collect()
}

/// `schedlab check`: which kernels take the object, and why not.
pub(crate) fn check(document: &Value) -> Value {
    let object = &document["object"];
    json!({
        "answers": document["answers"],
        "object": picked(object, &["file", "sha256", "license"]),
        "callbacks": list(object, "struct_ops").flat_map(|ops| texts(ops, "callbacks", "callback")).collect::<Vec<_>>(),
    })
}

/// Names and values of a run's metrics.
fn metrics(run: &Value) -> Map<String, Value> {
    let all = run["metrics"].as_object().into_iter().flatten();
    all.map(|(name, metric)| (name.clone(), metric["value"].clone())).collect()
}

/// The one run of `schedlab sim`.
pub(crate) fn sim(document: &Value) -> Value {
    let run = &document["runs"][0];
    json!({
        "exit": picked(&run["exit"], &["kind", "reason", "message", "after_ns"]),
        "warnings": texts(run, "warnings", "text"),
        "duration_ns": run["duration_ns"],
        "trace_hash": run["trace_hash"],
        "metrics": metrics(run),
    })
}

/// The verdicts of `schedlab compare`, those that decide first.
pub(crate) fn compare(document: &Value) -> Value {
    let row = |compared: &Value| {
        let mut row = picked(compared, &["metric", "cpus", "verdict", "difference_percent"]);
        row["between_percent"] =
            json!([compared["difference_percent_low"], compared["difference_percent_high"]]);
        row["scheduler"] = compared["candidate"]["scheduler"].clone();
        row["workload"] = compared["workload"]["name"].clone();
        row["baseline"] = compared["baseline"]["mean"].clone();
        row["mean"] = compared["candidate"]["mean"].clone();
        if compared["candidate"]["standing"] != "valid" {
            row["standing"] = compared["candidate"]["standing_reasons"].clone();
        }
        row
    };
    let mut rows: Vec<Value> = list(document, "comparisons").map(row).collect();
    let weight = |row: &Value| match row["verdict"].as_str().unwrap_or_default() {
        verdict if verdict.starts_with("worse") => 0,
        verdict if verdict.starts_with("better") => 1,
        _ => 2,
    };
    rows.sort_by_key(weight);
    let exits: Vec<Value> = list(document, "runs")
        .filter(|run| run["exit"]["kind"] != "none" && run["exit"]["kind"] != "unreg")
        .map(|run| json!({ "scheduler": run["scheduler"], "seed": run["seed"], "exit": picked(&run["exit"], &["kind", "message"]) }))
        .take(3)
        .collect();
    json!({ "exits": exits, "ranking": document["ranking"], "comparisons": rows })
}

/// Why the run of `schedlab sim --explain-waits` went as it did.
pub(crate) fn explain(document: &Value) -> Value {
    let run = &document["runs"][0];
    let pair = |pair: &Value| {
        let name =
            |side: &str| format!("{} {}", pair[side]["name"].as_str().unwrap_or_default(), pair[side]["tid"]);
        let mut row = picked(pair, &["mechanism", "waits", "time_ns", "longest_ns", "inversion_ns"]);
        row["waiter"] = name("requester").into();
        row["for"] = name("provider").into();
        row
    };
    let mut delays: Vec<&Value> = list(run, "task_waits").filter(|wait| wait["scope"] == "task").collect();
    delays.sort_by_key(|wait| std::cmp::Reverse(wait["run_delay_ns"]["max"].as_u64()));
    let delay = |wait: &Value| {
        let mut row = picked(&wait["run_delay_ns"], &["max", "p50", "since_ns", "cpu", "behind"]);
        row["task"] = wait["name"].clone();
        row
    };
    let delays: Vec<Value> = delays.into_iter().map(delay).take(5).collect();
    json!({
        "exit": picked(&run["exit"], &["kind", "reason", "message", "after_ns"]),
        "warnings": texts(run, "warnings", "text"),
        "longest_waits_for_a_cpu_ns": delays,
        "waits_for_each_other": list(&run["waits"], "pairs").map(pair).take(8).collect::<Vec<_>>(),
        "callbacks": run["callbacks"],
    })
}

/// The command's message about what is wrong, without what stands before it.
pub(crate) fn last_error(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let told = text.lines().rev().find_map(|line| line.split_once("schedlab: error: "));
    told.map(|(_, told)| told.to_string())
}

/// The answer in at most [`ANSWER_MOST`] bytes: texts are shortened, then the longest list loses its last entry, again and
/// again. `left_out` says how many entries are gone.
pub(crate) fn fitted(mut answer: Value) -> Value {
    shorten(&mut answer);
    let mut left_out = 0;
    while answer.to_string().len() > ANSWER_MOST {
        if !drop_last(&mut answer) {
            return json!({ "error": "the answer is too long for a client; use the command itself" });
        }
        left_out += 1;
        answer["left_out"] = left_out.into();
    }
    answer
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(TEXT_MOST) {
                text.truncate(at);
                text.push_str("...");
            }
        }
        // Fractions of a unit decide nothing, and their digits fill an answer.
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                let digits = format!("{float:.4e}").parse::<f64>().ok();
                *value = digits.and_then(serde_json::Number::from_f64).map_or(Value::Null, Value::Number);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Takes the last entry of the longest list or map below the top; whether there was one.
fn drop_last(answer: &mut Value) -> bool {
    let Some(fields) = answer.as_object_mut() else { return false };
    let entries = |value: &Value| match value {
        Value::Array(values) => values.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    let longest =
        fields.values_mut().filter(|value| entries(value) > 0).max_by_key(|value| value.to_string().len());
    match longest {
        Some(Value::Array(values)) => values.pop().is_some(),
        Some(Value::Object(fields)) => {
            let last = fields.keys().next_back().cloned();
            last.is_some_and(|last| fields.remove(&last).is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_fits_and_says_what_is_left_out() {
        let rows: Vec<Value> =
            (0..500).map(|row| json!({ "metric": format!("m{row}"), "verdict": "same" })).collect();
        let answer = fitted(json!({ "comparisons": rows, "exits": [], "error": "e".repeat(5000) }));
        assert!(answer.to_string().len() <= ANSWER_MOST);
        let kept = answer["comparisons"].as_array().unwrap().len();
        assert_eq!(answer["left_out"], 500 - kept);
        assert!(kept > 10 && answer["comparisons"][0]["metric"] == "m0");
        let whole = json!({ "exits": [1.5], "metrics": { "a": 1 } });
        assert_eq!(fitted(whole.clone()), whole);
    }

    #[test]
    fn verdicts_that_decide_come_first() {
        let row = |metric: &str, verdict: &str| {
            json!({ "metric": metric, "verdict": verdict, "workload": { "name": "chat" },
                    "baseline": { "mean": 1.0 }, "candidate": { "scheduler": "o1", "mean": 2.0, "standing": "valid" } })
        };
        let document =
            json!({ "runs": [], "comparisons": [row("a", "none"), row("b", "better"), row("c", "worse")] });
        let answer = compare(&document);
        let order: Vec<&Value> = list(&answer, "comparisons").map(|row| &row["metric"]).collect();
        assert_eq!(order, ["c", "b", "a"]);
    }
}
