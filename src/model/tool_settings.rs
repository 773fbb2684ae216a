//! Rules about tool calls.

use serde::{Deserialize, Serialize};

pub use hearth_tool_rules::{
    Call, Pattern as ToolPattern, Place, RULES_MAX, ToolPolicy, ToolPreset, ToolRule, ToolVerdict, digest, grants_text,
};

use super::time::Millis;

/// What decides about an agent's tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolSettings {
    /// For calls that no rule matches.
    pub preset: ToolPreset,
    /// The rules, as they were written. Their order does not matter.
    pub rules: Vec<ToolRule>,
    /// Minutes that a call waits for a person; none is [`Self::WAIT`].
    pub approval_wait: Option<u32>,
}

impl ToolSettings {
    /// Default of `approval_wait`.
    pub const WAIT: u32 = 30;
    /// Upper limit of `approval_wait`: an agent that waits counts as running a tool, for at most two hours.
    pub const WAIT_MAX: u32 = 115;

    /// How long a call waits for a person.
    #[must_use]
    pub fn wait(&self) -> Millis {
        Millis::minutes(self.approval_wait.unwrap_or(Self::WAIT).min(Self::WAIT_MAX).into())
    }

    /// A preset without rules.
    #[must_use]
    pub const fn of(preset: ToolPreset) -> Self {
        Self { preset, rules: Vec::new(), approval_wait: None }
    }
}
