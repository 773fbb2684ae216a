//! Routing results as text, for the socket, for webhooks and for `hearth inject`.

use serde::{Deserialize, Serialize};

use super::report::{RouteReport, WiringReport};

/// Routing result of an inbound event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteResult {
    /// The platform's id of the event.
    pub event: String,
    /// The chat, if Hearth knows it.
    pub chat: Option<String>,
    /// `routed`, `held`, `dropped`, `duplicate` or `consumed`.
    pub outcome: String,
    /// Why, when it was not routed.
    pub reason: Option<String>,
    /// What went wrong with the event itself; only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What each wiring decided.
    pub wirings: Vec<WiringResult>,
}

/// What one wiring decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiringResult {
    /// The agent's folder.
    pub agent: String,
    /// The session the message went to.
    pub session: Option<String>,
    /// `engaged`, `accumulated`, `ignored`, `refused`, `filtered` or `denied`.
    pub decision: String,
    /// Reason in words for people.
    pub why: String,
    /// The stored message.
    pub message: Option<String>,
}

impl From<&RouteReport> for RouteResult {
    fn from(report: &RouteReport) -> Self {
        Self {
            event: report.event.clone(),
            chat: report.chat.map(|chat| chat.to_string()),
            outcome: report.outcome.as_str().to_owned(),
            reason: report.reason.map(|reason| reason.to_string()),
            error: None,
            wirings: report.wirings.iter().map(WiringResult::from).collect(),
        }
    }
}

impl RouteResult {
    /// The result for an invalid event.
    #[must_use]
    pub fn invalid(reason: &str, error: String) -> Self {
        Self {
            event: String::new(),
            chat: None,
            outcome: "dropped".to_owned(),
            reason: Some(reason.to_owned()),
            error: Some(error),
            wirings: Vec::new(),
        }
    }
}

impl From<&WiringReport> for WiringResult {
    fn from(report: &WiringReport) -> Self {
        Self {
            agent: report.agent.to_string(),
            session: report.session.map(|session| session.to_string()),
            decision: report.decision.as_str().to_owned(),
            why: report.why.to_string(),
            message: report.message.map(|message| message.to_string()),
        }
    }
}
