//! The lowest crate: the model, times, full-text search, and the points at which tests let a process die.

pub mod crash;
pub mod model;
pub mod search;
pub mod time;
