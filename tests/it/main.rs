//! One crate of tests, one file per capability.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, wherever it does"
)]
#![allow(clippy::disallowed_methods, reason = "tests start programs, wait for them and look at their own environment")]

mod cli;
mod crash;
mod host;
mod raw;
mod recovery;
mod tidy;
mod trouble;
