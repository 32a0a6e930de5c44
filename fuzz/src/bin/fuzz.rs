//! A fuzz target under libFuzzer: `FUZZ_TARGET` names it, the arguments are libFuzzer's.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_fuzz::{Target, target};
use std::sync::OnceLock;

/// The target that the environment names.
fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names the target");
        target(&name).unwrap_or_else(|| panic!("no fuzz target {name}"))
    })
}

fuzz_target!(|input: &[u8]| (chosen().run)(input));
