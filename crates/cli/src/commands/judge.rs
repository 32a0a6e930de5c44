//! `judge`: a verdict on a scheduler, with a score and reasons.

use super::run::tell as tell_progress;
use crate::args::JudgeArgs;
use crate::confine::Named;
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::Target;
use schedlab_lab::judge::space::space;
use schedlab_lab::judge::suite::Suite;
use schedlab_lab::judge::{Key, Trial, refused, source, verify};
use schedlab_lab::run::deadline::TimeLimit;
use schedlab_lab::scheduler::{Scheduler, entry};
use schedlab_lab::shipped;
use schedlab_report::{Judgement, judgement_json, judgement_text, space_json};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What is known of a scheduler before the sandbox closes.
enum Found {
    /// A name or path, which is read later.
    Named,
    /// A source's object, or what the compiler says.
    Compiled(Result<Vec<u8>, String>),
}

/// Judges, prints, and ends with 1 where the candidate is rejected.
pub(crate) fn judge(args: &JudgeArgs, quiet: bool) -> Result<(), Failure> {
    let json = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    let key = Key(args.seed_key.clone().map_or_else(random_key, Ok)?);
    let [candidate, base] = [&args.candidate, &args.against].map(|name| found(name));
    let (candidate, base) = (candidate?, base?);
    let names = [args.candidate.clone(), args.against.clone()];
    let inputs = entry::names(&names)?;
    let named = Named::new().inputs(inputs).inputs([&args.suite]).outputs([&args.json]);
    // A VM cannot be started from the sandbox: the real runs are made before it closes.
    let mut named = Some(named);
    if !args.verify {
        enter(&mut named, args, quiet)?;
    }
    let suite = Suite::find(&args.suite)?;
    let base = match ready(&args.against, base, &[])? {
        Ok(base) => base,
        Err(words) => return Err(Failure::usage(format!("--against {}: {words}", args.against))),
    };
    let candidate = match ready(&args.candidate, candidate, &args.settings)? {
        Ok(candidate) => candidate,
        Err(words) => {
            return tell(&refused(&args.candidate, &args.against, &suite, &key, &words), json.as_ref());
        }
    };
    if !args.over.is_empty() {
        let text = space_json(&space(&candidate, &args.over)?);
        return json.map_or_else(|| output::print_exact(&text), |target| target.write(&text));
    }
    let limit = TimeLimit(args.host.time_limit);
    let show_hidden = args.show_hidden;
    let asked = args.verify.then(|| {
        let kernel = args.kernel.clone();
        verify::ask([&candidate, &base], &suite, &key, kernel, &mut |line| tell_progress(line, quiet))
    });
    let asked = asked.transpose()?;
    enter(&mut named, args, quiet)?;
    let trial = Trial { candidate, base, suite, key, show_hidden, jobs: args.jobs, limit };
    let judgement = trial.judge(&|_, _| {})?;
    let judgement = match &asked {
        Some(asked) => verify::joined_with(judgement, asked),
        None => judgement,
    };
    tell(&judgement, json.as_ref())
}

/// Closes the sandbox, unless it is closed.
fn enter(named: &mut Option<Named>, args: &JudgeArgs, quiet: bool) -> Result<(), Failure> {
    named.take().map_or(Ok(()), |named| named.enter(&args.host.sandbox, quiet))
}

/// Compiles a source; what else a scheduler may be is read in the sandbox.
fn found(name: &str) -> Result<Found, Failure> {
    if !source::is_source(name) {
        return Ok(Found::Named);
    }
    let kernel = shipped::machine(shipped::DEFAULT_MACHINE)?.machine.kernel.version;
    source::compile(Path::new(name), kernel).map(Found::Compiled)
}

/// The scheduler with its settings, or why its source is none.
fn ready(name: &str, found: Found, settings: &[String]) -> Result<Result<Scheduler, String>, Failure> {
    match found {
        Found::Compiled(Err(words)) => Ok(Err(words)),
        Found::Compiled(Ok(object)) => Scheduler::of_object(name, object, settings).map(Ok),
        Found::Named => Ok(Ok(Scheduler::find_all(&[name.to_string()], settings)?.remove(0))),
    }
}

/// Prints the answer; a rejection is the exit code 1.
fn tell(judgement: &Judgement, json: Option<&Target>) -> Result<(), Failure> {
    if let Some(target) = json {
        target.write(&judgement_json(judgement))?;
    }
    if !json.is_some_and(Target::is_stdout) {
        output::print(&judgement_text(judgement))?;
    }
    if judgement.accepted { Ok(()) } else { Err(Failure::failed("")) }
}

/// Sixteen digits from the system.
fn random_key() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::environment(format!("/dev/urandom: {error}; give a key by --seed-key")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
