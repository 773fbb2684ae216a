//! Plans of calls: what to write, and what to tell the agent. One function per tool, none of which writes.

use std::time::Duration;

use hearth_wire::OutKind;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::{own, people, say, tasks};
use crate::outgoing::OutgoingRecipient;
use crate::report::{Post, Scene};

/// How long the host may take to reject an action. After that it counts as accepted.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A tool, which is pure except for checking a file to send. An error is the reason for a rejection.
pub(super) type Tool = fn(&Arguments, &Scene<'_>) -> Result<PlannedCall, String>;

/// All tools, in the agent's order.
pub(super) const TOOLS: [(&str, Tool); 15] = [
    ("send_message", say::send_message),
    ("send_file", say::send_file),
    ("edit_message", say::edit_message),
    ("add_reaction", say::add_reaction),
    ("send_card", say::send_card),
    ("ask_user_question", people::ask_user_question),
    ("create_agent", own::create_agent),
    ("install_packages", own::install_packages),
    ("add_mcp_server", own::add_mcp_server),
    ("schedule_task", tasks::schedule_task),
    ("list_tasks", tasks::list_tasks),
    ("update_task", tasks::update_task),
    ("cancel_task", tasks::cancel_task),
    ("pause_task", tasks::pause_task),
    ("resume_task", tasks::resume_task),
];

pub(super) fn tool(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
}

/// The plan of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedCall {
    pub(super) post: Post,
    pub(super) told: AcceptedReply,
    pub(super) patience: Duration,
}

/// What the agent is told if the host accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AcceptedReply {
    /// The number of the message, between two texts.
    Number(String, String),
    /// A fixed text.
    Text(String),
    /// A person's choice; `seconds` is the timeout.
    Choice { seconds: u64 },
    /// The host's text, or this default.
    Words(String),
    /// The host's text; there is no default.
    OnlyWords,
}

impl AcceptedReply {
    pub(super) fn agreed(&self, number: u64, result: &Value) -> String {
        let field = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        match self {
            Self::Number(before, after) => format!("{before}{number}{after}"),
            Self::Text(text) => text.clone(),
            Self::Choice { .. } => field("value").unwrap_or_else(|| result.to_string()),
            Self::Words(text) => field("text").unwrap_or_else(|| text.clone()),
            Self::OnlyWords => field("text").unwrap_or_else(|| result.to_string()),
        }
    }

    /// What holds if the host did not answer in time.
    pub(super) fn unanswered(&self, number: u64) -> Result<String, String> {
        match self {
            Self::Number(..) | Self::Text(_) | Self::Words(_) => Ok(self.agreed(number, &Value::Null)),
            Self::Choice { seconds } => Err(format!("Question timed out after {seconds}s")),
            Self::OnlyWords => {
                Err("the host has not answered yet; look again before you repeat this, it may have been done"
                    .to_owned())
            }
        }
    }
}

impl PlannedCall {
    /// A plan for a message in a chat.
    pub(super) fn chat(post: Post, told: AcceptedReply) -> Self {
        Self { post, told, patience: PATIENCE }
    }

    /// A plan for a request to the host. If it is shown to people, then in the current conversation.
    pub(super) fn request(
        action: &str,
        mut fields: Map<String, Value>,
        scene: &Scene<'_>,
        told: AcceptedReply,
    ) -> Self {
        fields.insert("action".to_owned(), action.into());
        let post = Post {
            kind: OutKind::System,
            content: fields.into(),
            target: OutgoingRecipient::Reply,
            in_reply_to: scene.asked.last().map(|message| message.seq),
            file: None,
        };
        Self { post, told, patience: PATIENCE }
    }
}

#[cfg(test)]
pub(super) mod tests;
