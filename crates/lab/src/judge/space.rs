//! The tunables that an optimiser may choose, as a space.

use crate::failure::Failure;
use crate::judge::range::Range;
use crate::scheduler::Scheduler;
use schedlab_bpf::object::Object;
use schedlab_report::{Parameter, Space};
use schedlab_scx::tunables;

/// A range over a factor of this is chosen from on a logarithmic scale. Chosen.
const WIDE: u64 = 10;

/// Reads `NAME=LOW..HIGH` of `--over`, and has the object decide about the ends.
///
/// # Errors
/// Another form, a variable that the object lacks, or a value that it does not take.
pub fn space(scheduler: &Scheduler, over: &[String]) -> Result<Space, Failure> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for text in over {
        let refused = |what: &str| Failure::usage(format!("--over {text}: {what}"));
        let form = "write VARIABLE=LOW..HIGH, as in slice_ns=1ms..20ms";
        let (name, range) = text.split_once('=').ok_or_else(|| refused(form))?;
        let range = Range::parse(range).map_err(|error| refused(&error))?;
        let (low, high) = range.ends().ok_or_else(|| refused(form))?;
        if parameters.iter().any(|known| known.name == name) {
            return Err(refused("it is given twice"));
        }
        let object = match scheduler.parsed() {
            Some(Ok(object)) => object,
            Some(Err(error)) => return Err(refused(&error.to_string())),
            None => return Err(refused("the kernel's own class has no tunables")),
        };
        for value in [low, high] {
            scheduler.takes(name, &value.to_string())?;
        }
        let log = low > 0 && high / low >= WIDE;
        parameters.push(Parameter {
            name: name.to_string(),
            low,
            high,
            default: default(&object, name),
            log,
        });
    }
    let settings = parameters.iter().flat_map(|one| ["--set".to_string(), format!("{}=VALUE", one.name)]);
    let fixed = ["schedlab", "judge", &scheduler.given, "--json", "-"].map(String::from);
    let judge = fixed.into_iter().chain(settings).collect();
    Ok(Space { candidate: scheduler.given.clone(), parameters, judge })
}

fn default(object: &Object, name: &str) -> String {
    let found = tunables(object).into_iter().find(|tunable| tunable.name == name);
    found.map(|tunable| tunable.default).unwrap_or_default()
}
