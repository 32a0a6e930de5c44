//! Checkers of a running simulation: simple, slow, and apart from what they check.
