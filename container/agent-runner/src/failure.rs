//! A failed turn.

use hearth_wire::Retry;

/// A failed turn: the error, and whether to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: String,
    pub(crate) retry: Option<Retry>,
}

impl Failure {
    /// Would fail again.
    pub(crate) fn lasting(error: impl Into<String>) -> Self {
        Self { error: error.into(), retry: None }
    }

    /// Temporary: a retry counts as an attempt for the messages.
    pub(crate) fn passing(error: impl Into<String>) -> Self {
        Self { error: error.into(), retry: Some(Retry::default()) }
    }
}
