//! What is known of an agent, and what goes on from one of its processes to the next.

use serde::{Deserialize, Serialize};

use super::usage::SessionTotals;

/// What an agent says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) version: String,
    /// Whether it can go on with a session without repeating it.
    pub(super) resumes: bool,
    /// Whether it can go on with a session, and repeats it.
    pub(super) loads: bool,
    /// Whether it takes images in prompts.
    pub(super) sees_images: bool,
    /// Whether it takes instructions with a session.
    pub(super) takes_instructions: bool,
}

/// What goes on from one process to the next: the text that stands for a session among the continuations.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Continuation {
    pub(super) agent: String,
    pub(super) session: String,
    /// The address of the server that it goes on with, if it keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    /// What the agent has counted so far, if it counts on.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) totals: SessionTotals,
}

fn is_empty(totals: &SessionTotals) -> bool {
    *totals == SessionTotals::default()
}
