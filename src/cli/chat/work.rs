//! What an agent does while its answer is awaited, for a person at a terminal.

use std::time::Duration;

use crate::clock;
use crate::model::time::Timestamp;

/// Interval of updates.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// The work on the messages of a conversation.
pub(super) struct Work {
    /// Name of the agent.
    agent: String,
    /// Since when messages are open; none while there are none.
    since: Option<Timestamp>,
    /// The tool in use.
    tool: Option<String>,
}

impl Work {
    pub(super) const fn of(agent: String) -> Self {
        Self { agent, since: None, tool: None }
    }

    /// The agent uses a tool, or none any more.
    pub(super) fn tool(&mut self, name: Option<String>) {
        // The name is the agent's, who may have chosen any text.
        self.tool = name.map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "));
    }

    /// The text to show while messages are open, except in the first second. Begins anew when there were none.
    pub(super) fn text(&mut self, open: bool) -> Option<String> {
        if !open {
            (self.since, self.tool) = (None, None);
            return None;
        }
        let now = clock::wall();
        let since = *self.since.get_or_insert(now);
        let seconds = now.millis().saturating_sub(since.millis()).max(0) / 1_000;
        if seconds == 0 {
            return None;
        }
        let tool = self.tool.as_ref().map(|tool| format!(", using {tool}")).unwrap_or_default();
        Some(format!("{} is working, {seconds} s{tool}", self.agent))
    }
}
