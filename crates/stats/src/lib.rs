//! Pure functions on samples: descriptions, intervals and tests.
//!
//! Knows no scheduling: a sample is a slice of finite numbers in any order. Every
//! test says what it assumes, every answer can be "no difference proven", and a
//! sample that is too small for a question gives an error and never a figure.

mod describe;
mod effect;
mod level;
mod permutation;
mod proportion;
mod ratio;
mod student;

pub use describe::{Moments, StatsError, mean, median, quantile, sd};
pub use effect::{hedges_g, hedges_interval};
pub use level::Level;
pub use permutation::{PermutationTest, permutation_test};
pub use proportion::proportion_interval;
pub use ratio::{Change, relative_change};
pub use student::{Interval, Paired, TwoSample, Welch, mean_interval, paired, runs_for, student, welch};
