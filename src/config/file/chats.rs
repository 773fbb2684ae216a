//! `[[chats]]` and `[[chats.wirings]]`.

use super::section::{Keys, Problems, Section};
use super::{Once, trigger_rules};
use crate::model::address::{BadName, ChannelName, ForeignId};
use crate::model::configure::{Change, ChatSpec, WiringSpec};
use crate::model::entity::{ContextFrom, Engage, Ignored, SenderScope, SessionMode, UnknownSenders};

pub(super) const CHATS: Keys = Keys {
    place: "[[chats]]",
    known: &["channel", "platform_id", "name", "group", "unknown_senders", "wirings"],
    later: &[],
};

pub(super) const WIRINGS: Keys = Keys {
    place: "[[chats.wirings]]",
    known: &[
        "agent",
        "engage",
        "pattern",
        "senders",
        "ignored",
        "session",
        "priority",
        "context_from",
        "trigger_rules",
        "response_scope",
    ],
    later: &[],
};

pub(super) const UNKNOWN_SENDERS: [(&str, UnknownSenders); 3] = [
    ("strict", UnknownSenders::Strict),
    ("request_approval", UnknownSenders::RequestApproval),
    ("public", UnknownSenders::Public),
];

pub(super) const SENDERS: [(&str, SenderScope); 2] = [("all", SenderScope::All), ("known", SenderScope::Known)];

pub(super) const IGNORED: [(&str, Ignored); 2] = [("drop", Ignored::Drop), ("accumulate", Ignored::Accumulate)];

pub(super) const CONTEXT_FROM: [(&str, ContextFrom); 2] =
    [("known", ContextFrom::Known), ("anyone", ContextFrom::Anyone)];

pub(super) const SESSIONS: [(&str, SessionMode); 3] = [
    ("shared", SessionMode::Shared),
    ("per-thread", SessionMode::PerThread),
    ("agent-shared", SessionMode::AgentShared),
];

/// `engage` as the file says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Pattern,
    Mention,
    Sticky,
}

pub(super) const MODES: [(&str, Mode); 3] =
    [("pattern", Mode::Pattern), ("mention", Mode::Mention), ("mention-sticky", Mode::Sticky)];

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<Change> {
    let mut once = Once::default();
    let mut changes = Vec::new();
    for mut section in top.tables(problems, "chats", &CHATS) {
        let channel = named(problems, &section, "channel", |text| ChannelName::new(text));
        let platform_id = named(problems, &section, "platform_id", platform_id);
        if let (Some(channel), Some(platform_id)) = (&channel, &platform_id) {
            section.describes(format!("the chat `{platform_id}` on `{channel}`"));
        }
        let name = section.line(problems, "name");
        let group = section.flag(problems, "group").unwrap_or(false);
        let unknown_senders = section.word(problems, "unknown_senders", &UNKNOWN_SENDERS);
        let unknown_senders = unknown_senders.unwrap_or(UnknownSenders::RequestApproval);
        let wirings = wirings(problems, &section);
        let (Some(channel), Some(platform_id)) = (channel, platform_id) else { continue };
        if once.note(problems, section.at(), format!("the chat `{platform_id}` on `{channel}`")) {
            let chat = ChatSpec { channel, platform_id, name, group, unknown_senders, wirings };
            changes.push(Change::PutChat(chat));
        }
    }
    changes
}

/// A required identifier from outside.
fn named<T>(
    problems: &mut Problems<'_>,
    section: &Section<'_>,
    key: &str,
    read: fn(&str) -> Result<T, BadName>,
) -> Option<T> {
    let (at, text) = section.needed(problems, key)?;
    read(text).map_err(|error| problems.add(at, format!("{error}; write it as the channel gives it"))).ok()
}

fn platform_id(text: &str) -> Result<ForeignId, BadName> {
    let what = "the platform id";
    ForeignId::optional(what, Some(text.to_owned()))?.ok_or(BadName::Empty { what })
}

fn wirings(problems: &mut Problems<'_>, chat: &Section<'_>) -> Vec<WiringSpec> {
    let mut once = Once::default();
    let mut wirings = Vec::new();
    for mut section in chat.tables(problems, "wirings", &WIRINGS) {
        section.needed(problems, "agent");
        let agent = section.folder(problems, "agent");
        if let Some((_, agent)) = &agent {
            section.describes(format!("the wiring to `{agent}` of {}", chat.subject()));
        }
        let (engage, senders) = match trigger_rules::wiring(problems, &section) {
            Some(wiring) => wiring,
            None => {
                let engage = engage(problems, &section);
                (engage, section.word(problems, "senders", &SENDERS).unwrap_or(SenderScope::All))
            }
        };
        let ignored = section.word(problems, "ignored", &IGNORED).unwrap_or(Ignored::Drop);
        let session = section.word(problems, "session", &SESSIONS).unwrap_or(SessionMode::Shared);
        let bounds = i64::from(i32::MIN)..=i64::from(i32::MAX);
        let priority = section.number(problems, "priority", bounds).unwrap_or(0);
        let context_from = section.word(problems, "context_from", &CONTEXT_FROM);
        let Some((_, agent)) = agent else { continue };
        if once.note(problems, section.at(), format!("the wiring to `{agent}` in this chat")) {
            wirings.push(WiringSpec { agent, engage, senders, ignored, session, priority, context_from });
        }
    }
    wirings
}

/// When the agent engages. The transaction checks whether the pattern compiles, because it has the compiler.
fn engage(problems: &mut Problems<'_>, section: &Section<'_>) -> Engage {
    let mode = match section.get("engage") {
        Some(_) => section.word(problems, "engage", &MODES),
        None => Some(Mode::Mention),
    };
    let pattern = section.text(problems, "pattern");
    match (mode, pattern) {
        (Some(Mode::Pattern), Some((_, pattern))) => Engage::Pattern(pattern.to_owned()),
        (Some(Mode::Pattern), None) if section.get("pattern").is_none() => {
            let what = "`engage = \"pattern\"` requires `pattern`; add it (\".\" is every message)";
            problems.add(section.at(), what);
            Engage::Mention
        }
        (Some(Mode::Mention | Mode::Sticky), Some((at, _))) => {
            problems.add(at, "`pattern` means nothing without `engage = \"pattern\"`; add that, or remove the pattern");
            Engage::Mention
        }
        (Some(Mode::Sticky), None) => Engage::MentionSticky,
        _ => Engage::Mention,
    }
}
