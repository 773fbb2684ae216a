//! The plan of a call: what to write, and what to tell the agent.

use std::time::Duration;

use hearth_wire::OutKind;
use serde_json::{Map, Value};

use crate::outgoing::OutgoingRecipient;
use crate::report::{Post, Scene};

/// How long the host may take to reject an action. After that it counts as accepted.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

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
