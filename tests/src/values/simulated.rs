//! The simulated arm.

use schedlab_base::Machine;
use schedlab_scx::{BpfScheduler, LoadOptions, run};
use schedlab_sim::{Class, Config};

use super::{Answers, Sheet, decode, script};

/// What the simulated kernel of this version says.
///
/// # Errors
/// Why the object is not loaded or run.
pub fn simulated(sheet: &Sheet, object: &[u8], machine: &Machine) -> Result<Answers, String> {
    let name = sheet.site.name.as_str();
    let scheduler = BpfScheduler::load(name, object, &LoadOptions::default(), machine);
    let scheduler = scheduler.map_err(|error| error.to_string())?;
    let result = run(&Config::new(machine.clone(), 1), &script(sheet), Class::Ext(scheduler));
    let result = result.map_err(|error| error.to_string())?;
    if result.exit.kind.is_ejection() {
        return Err(format!("{}: {}", result.exit.kind.name(), result.exit.message));
    }
    let scheduler = result.scheduler.ok_or("no scheduler is left")?;
    let tables = scheduler.tables();
    let (_, bytes) = tables.iter().find(|(name, _)| name == "answers").ok_or("no answers")?;
    Ok(decode(sheet, bytes))
}
