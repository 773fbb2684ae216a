//! The JSON shapes of answers: the same from the socket and from a command without a daemon.

use serde::{Deserialize, Serialize};

use crate::model::report::{Caused, ChangeReport, RouteReport, WiringReport};

/// What became of an inbound event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutedJson {
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
    pub wirings: Vec<WiringJson>,
}

/// What one wiring decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiringJson {
    /// The agent's folder.
    pub agent: String,
    /// The session the message went to.
    pub session: Option<String>,
    /// `engaged`, `accumulated`, `ignored`, `refused`, `filtered` or `denied`.
    pub decision: String,
    /// Why.
    pub why: String,
    /// The stored message.
    pub message: Option<String>,
}

/// What a configuration changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredJson {
    /// Every entity that was named.
    pub changes: Vec<ChangeJson>,
}

/// What happened to one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeJson {
    /// The entity.
    pub entity: String,
    /// `created`, `updated`, `unchanged` or `removed`.
    pub action: String,
    /// What is different, for what was updated; a command that knows what was before adds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldJson>,
}

/// How one key of an entity changes; null is its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldJson {
    /// The key, as hearth.toml names it.
    pub field: String,
    /// Its value before.
    pub before: Option<String>,
    /// Its value now.
    pub after: Option<String>,
}

/// What a sweep causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptJson {
    /// In order.
    pub effects: Vec<EffectJson>,
}

/// One thing that a sweep causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectJson {
    /// `launch`, `stop`, `deliver` and so on.
    pub effect: String,
    /// What it is about.
    pub about: String,
}

impl From<&[Caused]> for SweptJson {
    fn from(caused: &[Caused]) -> Self {
        let effect = |one: &Caused| EffectJson { effect: one.what.to_owned(), about: one.about.clone() };
        Self { effects: caused.iter().map(effect).collect() }
    }
}

impl From<&RouteReport> for RoutedJson {
    fn from(report: &RouteReport) -> Self {
        Self {
            event: report.event.clone(),
            chat: report.chat.map(|chat| chat.to_string()),
            outcome: report.outcome.as_str().to_owned(),
            reason: report.reason.map(|reason| reason.to_string()),
            error: None,
            wirings: report.wirings.iter().map(WiringJson::from).collect(),
        }
    }
}

impl RoutedJson {
    /// The result of an event that could not be taken in at all.
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

impl From<&WiringReport> for WiringJson {
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

impl From<&[ChangeReport]> for ConfiguredJson {
    fn from(reports: &[ChangeReport]) -> Self {
        let change = |report: &ChangeReport| ChangeJson {
            entity: report.entity.clone(),
            action: report.action.as_str().to_owned(),
            fields: Vec::new(),
        };
        Self { changes: reports.iter().map(change).collect() }
    }
}
