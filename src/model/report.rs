//! Replies to inputs: decisions with their reasons.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::entity::Folder;
use super::group::StateExport;
use super::id::{ChatId, ConsoleSessionId, MessageId, OutgoingId, SessionId, TaskId};
use super::input::Continuation;
use super::message::Reason;
use super::network::NetRefusal;
use super::session_command::{SessionDone, SessionRefusal};
use super::task::Task;
use super::workspace_command::WorkspaceReply;

pub use super::refusal::Refusal;

/// The reply to an input. Inputs from Hearth itself get [`Reply::Done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The input was processed; there is nothing to report.
    Done,
    /// What was decided about an inbound event.
    Routed(RouteReport),
    /// What a configuration changed.
    Configured(Vec<ChangeReport>),
    /// Effects of a sweep.
    Swept(Vec<Caused>),
    /// Result of a button press or a reply to a card.
    Answered {
        /// Whether it decided something.
        decided: bool,
        /// Text for the person.
        text: String,
    },
    /// A task, as it is now.
    Task(TaskId, Box<Task>),
    /// New content for a session-state file, if it has to be written.
    State(Option<Box<StateExport>>),
    /// Reply to a workspace input.
    Workspace(Box<WorkspaceReply>),
    /// What was done with a workspace session, or a typed reason why nothing was done.
    Session(Box<Result<SessionDone, SessionRefusal>>),
    /// The session of the console that was begun, changed or ended.
    Console(ConsoleSessionId),
    /// Whether a person is asked about a host, or may have allowed it already; or why not.
    Host(Result<(), NetRefusal>),
    /// Refused. The transaction is rolled back.
    Refused(Refusal),
}

impl Reply {
    /// Refuses an input, with a word for programs and a reason for people.
    #[must_use]
    pub const fn refused(code: &'static str, message: String) -> Self {
        Self::Refused(Refusal { code, message })
    }

    /// Replies to a button press or an answer that decided nothing.
    #[must_use]
    pub fn undecided(text: &str) -> Self {
        Self::Answered { decided: false, text: text.to_owned() }
    }

    /// Error text for a caller that expected another kind of reply.
    #[must_use]
    pub fn unexpected(&self) -> String {
        format!("an unexpected answer: {self:?}")
    }

    /// Whether nothing was done and the transaction is rolled back.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Session(answer) => answer.is_err(),
            Self::Done
            | Self::Routed(_)
            | Self::Configured(_)
            | Self::Swept(_)
            | Self::Answered { .. }
            | Self::Task(..)
            | Self::State(_)
            | Self::Console(_)
            | Self::Host(_)
            | Self::Workspace(_) => false,
        }
    }
}

/// An effect, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caused {
    /// What kind: a word for programs.
    #[serde(rename = "effect")]
    pub what: Cow<'static, str>,
    /// What it is about: `se3.2`, `mo7 to telegram/123`.
    pub about: String,
}

impl From<&Effect> for Caused {
    fn from(effect: &Effect) -> Self {
        let (what, about) = match effect {
            Effect::Export(export) => ("export", format!("{}, {} messages", export.session, export.messages.len())),
            Effect::Discard(discard) => ("discard", format!("{}, {} messages", discard.session, discard.seqs.len())),
            Effect::Launch(launch) => {
                ("launch", format!("{}.{} ({})", launch.session, launch.incarnation, launch.folder))
            }
            Effect::Stop(session, number) | Effect::StopNow(session, number) => ("stop", format!("{session}.{number}")),
            Effect::NetworkPolicy(of) => ("network_policy", format!("{}.{}", of.session, of.incarnation)),
            Effect::TurnBegan(turn) => ("begin_turn", format!("{}.{}", turn.session, turn.incarnation)),
            Effect::Inquire(session, number) => ("inquire", format!("{session}.{number}")),
            Effect::CollectRest(session, number) => ("collect", format!("{session}.{number}")),
            Effect::Deliver(delivery) => {
                ("deliver", format!("{} to {}/{}", delivery.id, delivery.to.channel, delivery.to.platform_id))
            }
            Effect::Settled(settled) => ("settle", settled.message.to_string()),
            Effect::Fetch(fetch) => ("fetch", format!("{}, {} files", fetch.body, fetch.files.len())),
            Effect::Transcribe(of) => ("transcribe", format!("{}, {} files", of.body, of.files.len())),
            Effect::Speak(of) => ("speak", of.answer.to_string()),
            Effect::Silence(answer) => ("silence", answer.to_string()),
            Effect::OpenDirect(user) => ("open_direct", user.to_string()),
            Effect::Subscribe(at) => ("subscribe", format!("{}/{}", at.channel, at.platform_id)),
            Effect::Typing(session, at) => ("typing", format!("{session} in {}/{}", at.channel, at.platform_id)),
            Effect::Reconnect(channel) => ("reconnect", channel.to_string()),
            Effect::Release(session, files) => ("release", format!("{session}, {} files", files.len())),
            Effect::Unneeded(files) => ("remove", format!("{} files", files.len())),
            Effect::LookForSkips(_, folder, _) => ("look_for_skips", folder.to_string()),
            Effect::RemoveSkip { folder, skill, .. } => ("remove_skip", format!("{skill} of {folder}")),
            Effect::ShareState(agent) => ("share_state", agent.to_string()),
            Effect::Continue(Continuation::DropMessagesOf(agent)) => {
                ("continue", format!("dropping messages of {agent}"))
            }
            Effect::Continue(Continuation::CapContext(session, _)) => {
                ("continue", format!("capping context of {session}"))
            }
            Effect::Continue(Continuation::DropWaiting(approval, ..)) => {
                ("continue", format!("dropping messages by {approval}"))
            }
            Effect::Continue(Continuation::IndexTexts) => ("continue", "indexing earlier messages".to_owned()),
            Effect::Continue(Continuation::Reconsider) => ("continue", "looking at open approvals".to_owned()),
            Effect::Continue(Continuation::PurgeSession(session)) => ("continue", format!("removing {session}")),
        };
        Self { what: Cow::Borrowed(what), about }
    }
}

/// What was decided about an inbound event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteReport {
    /// The platform's id of the event; empty when it gave none.
    pub event: String,
    /// The chat, if Hearth knows it.
    pub chat: Option<ChatId>,
    /// The overall result.
    pub outcome: Outcome,
    /// Why, when it was not routed.
    pub reason: Option<Reason>,
    /// Decisions of the wirings, in the order of evaluation.
    pub wirings: Vec<WiringReport>,
    /// Hearth's own answer, if the event was a command to it.
    pub answer: Option<OutgoingId>,
}

/// Overall result for an inbound event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// At least one agent received it.
    Routed,
    /// It waits for a decision.
    Held,
    /// No agent received it.
    Dropped,
    /// It was received before.
    Duplicate,
    /// It was a reply to Hearth itself.
    Consumed,
}

impl Outcome {
    /// The word programs see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Routed => "routed",
            Self::Held => "held",
            Self::Dropped => "dropped",
            Self::Duplicate => "duplicate",
            Self::Consumed => "consumed",
        }
    }
}

/// What one wiring decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WiringReport {
    /// Folder of the agent that the wiring belongs to.
    pub agent: Folder,
    /// The session the message went to.
    pub session: Option<SessionId>,
    /// What the routing decided.
    pub decision: Decision,
    /// Reason of the decision.
    pub why: Reason,
    /// The stored message.
    pub message: Option<MessageId>,
}

/// What a wiring decides of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It becomes a turn.
    Engaged,
    /// It is kept as context.
    Accumulated,
    /// The wiring does not apply to it.
    Ignored,
    /// The sender has no access.
    Refused,
    /// A command that never reaches an agent.
    Filtered,
    /// A command for which the sender needs a role.
    Denied,
    /// A command that Hearth carried out itself.
    Done,
}

impl Decision {
    /// The word programs see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engaged => "engaged",
            Self::Accumulated => "accumulated",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::Filtered => "filtered",
            Self::Denied => "denied",
            Self::Done => "done",
        }
    }
}

/// What a configuration did to one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The entity, as people name it: `agent main`, `chat telegram/123`, `wiring telegram/123 -> main`.
    pub entity: String,
    /// What the change did.
    pub action: Action,
    /// The settings that changed. Added by commands that know the previous configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// What the daemon does because of it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Change of one setting of an entity; none is its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The setting, as hearth.toml names it.
    pub field: String,
    /// Its value before.
    pub before: Option<String>,
    /// Its value now.
    pub after: Option<String>,
}

/// What happened to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new.
    Created,
    /// It was changed.
    Updated,
    /// It was already like this.
    Unchanged,
    /// It was removed.
    Removed,
    /// It is being restarted.
    Restarted,
    /// It is being stopped.
    Stopped,
    /// It is frozen from now on.
    Frozen,
    /// It is not frozen any more.
    Unfrozen,
}

impl Action {
    /// The word people and programs see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Removed => "removed",
            Self::Restarted => "restarted",
            Self::Stopped => "stopped",
            Self::Frozen => "frozen",
            Self::Unfrozen => "unfrozen",
        }
    }
}
