//! What an agent says of itself before its first prompt, and how the host asks for it.

use serde::{Deserialize, Serialize};

/// Variable that makes the runner shake hands instead of working.
pub const HANDSHAKE_VARIABLE: &str = "HEARTH_HANDSHAKE";
/// The result, a [`HandshakeResult`] as JSON, in the agent's half of the session directory.
pub const HANDSHAKE_FILE: &str = "handshake.json";

/// What an agent says of itself, or why it says nothing.
pub type HandshakeResult = Result<Handshake, String>;

/// What an agent says of itself before its first prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// The name that it gives itself.
    pub agent: String,
    pub version: String,
    pub modes: Offered,
    pub models: Offered,
    /// Whether it asked for Hearth's tools.
    pub has_tools: bool,
}

/// What an agent offers to choose from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    pub values: Vec<String>,
    /// The one in use.
    pub current: Option<String>,
}
