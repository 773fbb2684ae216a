//! The lowest crate: the model, times, and the points at which tests let a process die.

pub mod crash;
pub mod model;
pub mod time;
