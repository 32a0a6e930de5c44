//! Memory that reads as zero and costs the host nothing before it is touched.

#[cfg(target_family = "wasm")]
mod linear;
#[cfg(not(target_family = "wasm"))]
mod mapped;

#[cfg(target_family = "wasm")]
pub use linear::Untouched;
#[cfg(not(target_family = "wasm"))]
pub use mapped::Untouched;
