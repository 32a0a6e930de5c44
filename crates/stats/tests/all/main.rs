//! The statistics from outside, in one program.

mod calibration;
mod published;
