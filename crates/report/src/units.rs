//! Units of metrics that are read back: the record keeps static names.

use std::sync::Mutex;

/// Units that the workloads and the summary use.
const KNOWN: [&str; 12] =
    ["1", "ns", "us", "ms", "s", "messages/s", "1/s", "frames/s", "insns", "bytes", "kB", "%"];

/// Names met so far that are not in [`KNOWN`]; each is kept once, for good.
static MET: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The static name of a unit.
pub(crate) fn unit(name: &str) -> &'static str {
    if let Some(known) = KNOWN.iter().find(|known| **known == name) {
        return known;
    }
    let mut met = MET.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = met.iter().find(|known| **known == name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_string().into_boxed_str());
    met.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_kept_once() {
        assert_eq!(unit("ms"), "ms");
        assert!(std::ptr::eq(unit("widgets/s"), unit("widgets/s")));
    }
}
