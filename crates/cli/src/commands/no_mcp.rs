//! `mcp` of a command that was built without it.

use schedlab_lab::failure::Failure;

/// Refuses, and says which build has it.
pub(crate) fn mcp() -> Result<(), Failure> {
    Err(Failure::environment(
        "mcp: this build has no server of the Model Context Protocol; `make build` makes one that does, \
         target/release/schedlab, as `cargo build --features mcp` and every release do",
    ))
}
