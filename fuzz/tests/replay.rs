//! Every target on its corpus and on a short row of random inputs, and the driver's header against the simulator's tables.

use schedlab_fuzz::{TARGETS, calls, noise, target};
use std::path::Path;

/// Runs the corpus, then damaged copies of it and noise.
fn replay(name: &str) {
    let target = target(name).unwrap();
    let inputs = noise::corpus(target).unwrap();
    let inputs: Vec<Vec<u8>> = inputs.into_iter().map(|(_, input)| input).collect();
    inputs.iter().for_each(|input| (target.run)(input));
    let mut row = noise::Noise::new(0, inputs);
    for _ in 0..target.smoke {
        (target.run)(&row.next_input());
    }
}

macro_rules! targets {
    ($($function:ident: $name:expr,)*) => {
        const REPLAYED: &[&str] = &[$($name),*];

        $(#[test]
        fn $function() {
            replay($name);
        })*
    };
}

targets! {
    boundary: "boundary",
    whole: "whole",
    engines: "engines",
    object: "object",
    machine_file: "machine-file",
    workload_file: "workload-file",
    rt_app: "rt-app",
    results: "results",
    samples: "samples",
    csv: "csv",
    settings: "settings",
    state: "state",
}

#[test]
fn every_target_is_replayed() {
    assert_eq!(TARGETS.map(|target| target.name), *REPLAYED);
}

/// A call that is added to the simulator is one that the fuzzer makes.
#[test]
fn the_driver_makes_every_call() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("driver/calls.h");
    let wanted = calls::header();
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == wanted, "{}: run SCHEDLAB_BLESS=1 cargo test -p schedlab-fuzz", path.display());
    assert!(calls::all().len() <= usize::from(calls::MOST), "more calls than a script can name");
}
