//! Numbers of things in sentences: `1 CPU`, `2 CPUs`.

use std::fmt::Display;

/// A number with what it counts, in its plural form where there is not exactly one.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_the_only_singular() {
        assert_eq!(counted(0_usize, "CPU"), "0 CPUs");
        assert_eq!(counted(1_u64, "run"), "1 run");
        assert_eq!(counted(2_u32, "seed"), "2 seeds");
    }
}
