//! One crate of tests, one file per capability.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, wherever it does"
)]

mod commands;
mod delivery;
mod entities;
mod lifecycle;
mod routing;
mod tidy;
mod world;
