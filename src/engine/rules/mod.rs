//! Pure decisions: no transaction, no clock, no randomness.

pub(crate) mod access;
pub(crate) mod budgets;
pub(crate) mod caps;
pub(crate) mod commands;
pub(crate) mod engage;
pub(crate) mod fallback;
pub(crate) mod json;
pub(crate) mod launch_spec;
pub(crate) mod liveness;
pub(crate) mod occurrences;
pub mod pattern;
pub(crate) mod prices;
pub(crate) mod skip_texts;
pub(crate) mod texts;
