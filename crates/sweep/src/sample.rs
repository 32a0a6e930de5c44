//! A made-up run for the tests of this room.

use crate::key::Key;
use crate::record::Build;
use schedlab_report::from_json;
use schedlab_trace::RunRecord;

/// A build.
pub(crate) const BUILD: Build = Build { version: "1.2.3", sources: "0123456789abcdef" };

/// Key and record of the run with a seed.
pub(crate) fn run(seed: u64) -> (Key, RunRecord) {
    let mut key = Key::default();
    key.part("seed", seed.to_string());
    let json = format!(
        r#"{{"schedlab": {{"version": "0.1.0", "schema": 1}}, "runs": [{{"scheduler": "o1",
            "workload": {{"name": "chat", "params": {{"rooms": 3}}}}, "machine": "modern", "cpus": 2, "seed": {seed},
            "backend": "sim", "duration_ns": 5, "exit": {{"kind": "none", "reason": ""}},
            "metrics": {{"throughput": {{"value": 0.1, "unit": "messages/s", "better": "higher"}}}},
            "tasks": [], "trace_hash": null}}]}}"#
    );
    (key, from_json(&json).unwrap().runs.remove(0))
}
