//! scx
