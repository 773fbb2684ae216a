//! The refusal of a whole input.

/// A refusal of a whole input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A word for programs.
    pub code: &'static str,
    /// What happened, where, and what to do.
    pub message: String,
}

impl Refusal {
    /// Code for a change that is based on an outdated configuration.
    pub const CHANGED: &'static str = "changed";
}
