//! `mcp`: this command as the tools of another program.

use schedlab_lab::failure::Failure;

/// Serves until standard input ends.
pub(crate) fn mcp() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::environment(format!("mcp: {error}"));
    schedlab_mcp::serve(std::env::current_exe().map_err(failed)?).map_err(failed)
}
