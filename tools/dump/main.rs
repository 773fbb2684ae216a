//! Dump.
fn main() {}
