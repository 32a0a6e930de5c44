//! `-m host`: this machine as the kernel describes it, with the prices that `schedlab calibrate` has measured on it.

use crate::failure::Failure;
use crate::files::input;
use crate::machine::described;
use schedlab_base::counted;
use schedlab_live::host;
use schedlab_live::kernel_image::{cache_dir, cached_file, cached_path};
use schedlab_machine::MachineFile;
use std::path::PathBuf;

/// The name of the host's machine.
pub const HOST: &str = "host";

/// The calibrated description in the cache.
const KEPT: &str = "host.toml";

/// Where the calibrated description is written; nothing where there is no cache.
pub fn kept() -> Option<PathBuf> {
    cache_dir().ok().map(|folder| folder.join(KEPT))
}

/// Whether this machine's prices were measured.
pub fn is_measured() -> bool {
    cached_path(KEPT).is_some_and(|path| path.exists())
}

/// What must be read for `-m host`.
pub fn inputs() -> Vec<PathBuf> {
    cached_path(KEPT).into_iter().chain([PathBuf::from("/sys/devices/system")]).collect()
}

/// This machine: its topology now, and the prices that are kept of it, else those of the default costs.
///
/// # Errors
/// A kept description that is another user's, broken or of other CPUs, a machine that cannot be described.
pub fn machine() -> Result<MachineFile, Failure> {
    let found = host::machine().map_err(|error| Failure::environment(format!("-m {HOST}: {error}")))?;
    let kept = cached_file(KEPT).map_err(|error| Failure::environment(format!("-m {HOST}: {error}")))?;
    let Some((path, file)) = kept else {
        let about = "this machine, all prices assumed: `schedlab calibrate` measures them".to_string();
        return Ok(MachineFile { machine: found, about });
    };
    let place = path.display().to_string();
    let text = input::text_of(file).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    let file = described(&text, &place)?;
    if file.machine.cpus != found.cpus {
        return Err(Failure::usage(format!(
            "{place} describes {} of another machine; run `schedlab calibrate` again",
            counted(file.machine.cpu_count(), "CPU")
        )));
    }
    Ok(file)
}
