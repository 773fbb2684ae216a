//! What is known of an agent, and what goes on from one of its processes to the next.

use serde::Deserialize;
use serde_json::json;

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

/// What goes on from one process to the next.
#[derive(Debug, Deserialize)]
pub(super) struct Continuation {
    pub(super) agent: String,
    pub(super) session: String,
}

/// The text that stands for a session among the continuations.
pub(super) fn continuation(agent: &str, session: &str) -> String {
    json!({"agent": agent, "session": session}).to_string()
}
