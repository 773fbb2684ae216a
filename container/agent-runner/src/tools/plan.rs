//! From a call to what is written for it and what the agent is told: one function per tool, none of which writes.

use std::time::Duration;

use hearth_wire::OutKind;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::{own, people, say, tasks};
use crate::outgoing::Target;
use crate::report::{Post, Scene};

/// How long the host may take to refuse what an agent does. What it has not refused by then stands.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A tool: pure but for looking at a file that shall be sent. Refused with the reason.
pub(super) type Tool = fn(&Arguments, &Scene<'_>) -> Result<Plan, String>;

/// All of them, in the order in which the agent sees them.
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

/// What a call comes to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) post: Post,
    pub(super) told: Told,
    pub(super) patience: Duration,
}

/// What the agent is told when the host agrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// The number of what was written, between two texts.
    Number(String, String),
    /// Always the same.
    Text(String),
    /// What a person chose, after so many seconds at most.
    Choice { seconds: u64 },
    /// The host's own words, or these if it has none.
    Words(String),
    /// The host's own words: without them there is nothing to tell.
    OnlyWords,
}

impl Told {
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

    /// What stands when the host said nothing in time.
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

impl Plan {
    /// Something for a chat.
    pub(super) fn chat(post: Post, told: Told) -> Self {
        Self { post, told, patience: PATIENCE }
    }

    /// A request to the host; where it would be shown follows from what the agent was asked.
    pub(super) fn request(action: &str, mut fields: Map<String, Value>, scene: &Scene<'_>, told: Told) -> Self {
        fields.insert("action".to_owned(), action.into());
        let post = Post {
            kind: OutKind::System,
            content: fields.into(),
            target: Target::Reply,
            in_reply_to: scene.asked.last().map(|message| message.seq),
            file: None,
        };
        Self { post, told, patience: PATIENCE }
    }
}

#[cfg(test)]
pub(super) mod tests;
