//! `mcp` of a command that was built without it.

use schedlab_lab::failure::Failure;

/// Refuses, and says which build has it.
pub(crate) fn mcp() -> Result<(), Failure> {
    Err(Failure::environment(
        "mcp: this build has no server of the Model Context Protocol; `make build` makes one that does, \
         target/release/schedlab, as `cargo build -p schedlab` and every release do",
    ))
}

#[cfg(test)]
mod tests {
    use schedlab_lab::failure::Code;

    #[test]
    fn the_refusal_names_a_build_that_serves() {
        let refused = super::mcp().unwrap_err();
        assert!(matches!(refused.code, Code::Environment), "{}", refused.text);
        assert!(refused.text.contains("make build"), "{}", refused.text);
    }
}
