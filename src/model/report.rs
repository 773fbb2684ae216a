//! What transactions answer: decisions with their reasons.

use super::effect::Effect;
use super::entity::Folder;
use super::group::StateExport;
use super::id::{ChatId, MessageId, SessionId, TaskId};
use super::input::Continuation;
use super::message::Reason;
use super::session_command::{SessionDone, SessionRefusal};
use super::task::Task;
use super::workspace::WorkspaceReply;

/// The answer to an input. Inputs of Hearth's own edges get [`Reply::Done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Taken in.
    Done,
    /// What became of an inbound event.
    Routed(RouteReport),
    /// What a configuration changed.
    Configured(Vec<ChangeReport>),
    /// What a sweep causes.
    Swept(Vec<Caused>),
    /// What became of a button or an answer to a card: what to tell whoever gave it.
    Answered {
        /// Whether it decided something.
        decided: bool,
        /// What to tell.
        text: String,
    },
    /// A task, as it is now.
    Task(TaskId, Box<Task>),
    /// What is to be written into a session-state file, if anything.
    State(Option<Box<StateExport>>),
    /// What became of something about a workspace.
    Workspace(Box<WorkspaceReply>),
    /// What was done with a workspace session, or why nothing was: a refusal of its own.
    Session(Box<Result<SessionDone, SessionRefusal>>),
    /// Not done, nothing was changed; the transaction is undone.
    Refused(Refusal),
}

impl Reply {
    /// What to say where another kind of answer was due.
    #[must_use]
    pub fn unexpected(&self) -> String {
        format!("an unexpected answer: {self:?}")
    }

    /// Whether nothing was done, so that the transaction is undone.
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
            | Self::Workspace(_) => false,
        }
    }
}

/// An effect, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caused {
    /// What kind: a word for programs.
    pub what: &'static str,
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
            Effect::Stop(session, number) => ("stop", format!("{session}.{number}")),
            Effect::Inquire(session, number) => ("inquire", format!("{session}.{number}")),
            Effect::CollectRest(session, number) => ("collect", format!("{session}.{number}")),
            Effect::Deliver(delivery) => {
                ("deliver", format!("{} to {}/{}", delivery.id, delivery.to.channel, delivery.to.platform_id))
            }
            Effect::Settled(settled) => ("settle", settled.message.to_string()),
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
            Effect::Continue(Continuation::PurgeSession(session)) => ("continue", format!("removing {session}")),
        };
        Self { what, about }
    }
}

/// A refusal of a whole input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A word for programs.
    pub code: &'static str,
    /// What, where, and what to do.
    pub message: String,
}

impl Refusal {
    /// The code of a change that was thought out over a configuration that is another by now.
    pub const CHANGED: &'static str = "changed";
}

/// What became of an inbound event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteReport {
    /// The platform's id of the event; empty when it gave none.
    pub event: String,
    /// The chat, if Hearth knows it.
    pub chat: Option<ChatId>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, when it was not routed.
    pub reason: Option<Reason>,
    /// What each wiring decided, in the order in which they were asked.
    pub wirings: Vec<WiringReport>,
}

/// What became of an inbound event as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// At least one agent has it.
    Routed,
    /// It waits for a decision.
    Held,
    /// Nobody has it.
    Dropped,
    /// It was here before.
    Duplicate,
    /// It was an answer to Hearth itself.
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
    /// The agent.
    pub agent: Folder,
    /// The session the message went to.
    pub session: Option<SessionId>,
    /// The decision.
    pub decision: Decision,
    /// Why.
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
    /// It is none of the agent's business.
    Ignored,
    /// The sender may not.
    Refused,
    /// A command that never reaches an agent.
    Filtered,
    /// A command for which the sender needs a role.
    Denied,
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
        }
    }
}

/// What a configuration did to one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeReport {
    /// The entity, as people name it: `agent main`, `chat telegram/123`, `wiring telegram/123 -> main`.
    pub entity: String,
    /// What happened.
    pub action: Action,
}

/// What happened to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It was like this before.
    Unchanged,
    /// It is gone.
    Removed,
    /// It starts again.
    Restarted,
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
        }
    }
}
