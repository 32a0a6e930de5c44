//! Requests, and the heads of their answers.

use crate::Parts;
use schedlab_lab::failure::Failure;
use schedlab_lab::run::request::{Answer, Request};
use schedlab_lab::run::view::{self, Showing, View};
use schedlab_report::Record;
use schedlab_trace::Window;
use serde::{Deserialize, Serialize};
use std::io::Cursor;

/// What became of a run.
#[derive(Serialize)]
struct Head<'a> {
    trace_hash: Option<&'a str>,
    /// What the command would end with: 0, or 4 where the scheduler was ejected.
    code: i32,
    /// Its last words then.
    failure: Option<String>,
}

/// A refusal.
#[derive(Serialize)]
struct Refused {
    error: String,
    code: i32,
}

/// A view that is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    view: String,
    #[serde(default)]
    verbose: bool,
    /// The part of the run that a page draws over time, as of `--window`.
    window: Option<String>,
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and text are JSON")
}

/// The head of an answer that is a refusal.
pub(crate) fn refused(failure: &Failure) -> Vec<u8> {
    json(&Refused { error: failure.to_string(), code: failure.code as i32 })
}

/// Makes a run.
pub(crate) fn run(object: Vec<u8>, request: &[u8]) -> Result<Parts, Failure> {
    let object = Some(object).filter(|bytes| !bytes.is_empty());
    let answer = Request::of_json(request)?.run(object)?;
    let failure = answer.failure.as_ref();
    let head = json(&Head {
        trace_hash: answer.run().trace_hash.as_deref(),
        code: failure.map_or(0, |failure| failure.code as i32),
        failure: failure.map(ToString::to_string),
    });
    let Answer { json, record, .. } = answer;
    Ok([Some(head), Some(json.into_bytes()), record].into_iter().flatten().collect())
}

/// Shows a record.
pub(crate) fn view(record: &[u8], request: &[u8]) -> Result<Parts, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("the request: {error}"));
    let wanted: Wanted = serde_json::from_slice(request).map_err(|error| wrong(&error))?;
    let window = wanted.window.as_deref().map(str::parse).transpose().map_err(|error| wrong(&error))?;
    let showing = Showing {
        view: View::named(&wanted.view)?,
        verbose: wanted.verbose,
        window: window.unwrap_or(Window::ALL),
        run: 0,
    };
    let mut record =
        Record::open(Cursor::new(record)).map_err(|error| Failure::usage(format!("the record: {error}")))?;
    let shown = if showing.view.is_streamed() {
        view::stream(&mut record, &showing, Vec::new(), |error| Failure::environment(error.to_string()))?
    } else {
        view::text(&mut record, &showing)?.into_bytes()
    };
    Ok(vec![b"{}".to_vec(), shown])
}
