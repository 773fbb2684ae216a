//! Hearth.
fn main() {}
