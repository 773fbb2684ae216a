//! The agent runner.
fn main() {}
