//! Commands of clients, and their answers. The daemon and commands that run without one use the same types.

use serde::{Deserialize, Serialize};

use super::change::ChangeRequest;
use super::check;
use crate::model::as_text;
use crate::model::card::PromptSubject;
use crate::model::console::ConsoleInput;
use crate::model::id::{ConsoleSessionId, TaskId};
use crate::model::input::Input;
use crate::model::report::{Caused, ChangeReport, Refusal, Reply};
use crate::model::routed::RouteResult;
use crate::model::session_command::{SessionDone, SessionRefusal};
use crate::model::task_command::TaskCommand;
use crate::model::workspace_command::{WorkspaceInput, WorkspaceReply};

/// A change to the store that a client requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCommand {
    /// Changes the configuration.
    Change(ChangeRequest),
    /// Answers an approval or a question as the operator.
    Decide {
        /// The approval or question: `ap3` or `qu7`.
        #[serde(with = "as_text")]
        matter: PromptSubject,
        /// Value, label or number of an option.
        value: String,
    },
    /// Creates or changes a task.
    Task(TaskCommand),
    /// Changes a workspace or one of its sessions.
    Workspace(Box<WorkspaceInput>),
    /// Ends a session of the console.
    SignOut(#[serde(with = "as_text")] ConsoleSessionId),
}

impl ClientCommand {
    /// Converts the command to an input of the engine. The flag says whether it is a dry run.
    ///
    /// # Errors
    /// What is invalid, naming the field.
    pub fn input(self) -> Result<(Input, bool), String> {
        Ok(match self {
            Self::Change(change) => {
                let configure = change.configure("hearth.toml").map_err(|bad| bad.to_string())?;
                (Input::Configure(configure), change.dry_run)
            }
            Self::Decide { matter, value } => (Input::Decide(matter, value), false),
            Self::Task(command) => {
                command.check()?;
                (Input::Task(command), false)
            }
            Self::SignOut(session) => (Input::Console(ConsoleInput::SignOut(session)), false),
            Self::Workspace(input) => {
                check::workspace(&input)?;
                (Input::Workspace(input), false)
            }
        })
    }
}

/// Answer to a request that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Routing result of an event.
    Routed(RouteResult),
    /// The changes that were made.
    Configured(Vec<ChangeReport>),
    /// The effects of a sweep.
    Swept(Vec<Caused>),
    /// Result of a decision.
    Decided {
        /// Whether it decided something.
        decided: bool,
        /// Message for the operator.
        text: String,
    },
    /// The task that was created or changed.
    Task(#[serde(with = "as_text")] TaskId),
    /// Result of a change to a workspace.
    Workspace(WorkspaceReply),
    /// Result of a change to a session of a workspace.
    Session(Box<SessionDone>),
    /// The session of the console that was ended.
    SignedOut(#[serde(with = "as_text")] ConsoleSessionId),
    /// The channel is being reconnected.
    Reconnecting,
}

impl TryFrom<Reply> for Answer {
    type Error = RequestRefused;

    fn try_from(reply: Reply) -> Result<Self, RequestRefused> {
        Ok(match reply {
            Reply::Routed(report) => Self::Routed(RouteResult::from(&report)),
            Reply::Configured(changes) => Self::Configured(changes),
            Reply::Swept(caused) => Self::Swept(caused),
            Reply::Answered { decided, text } => Self::Decided { decided, text },
            Reply::Task(id, _) => Self::Task(id),
            Reply::Console(session) => Self::SignedOut(session),
            Reply::Workspace(reply) => Self::Workspace(*reply),
            Reply::Session(answer) => Self::Session(Box::new((*answer)?)),
            Reply::Refused(refusal) => return Err(refusal.into()),
            other @ (Reply::Done | Reply::State(_) | Reply::Host(_)) => {
                return Err(RequestRefused::new("unexpected", other.unexpected()));
            }
        })
    }
}

/// Why a request was refused. Nothing was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRefused {
    /// Code for programs.
    pub code: String,
    /// Message for people: what failed, where, and what to do.
    pub message: String,
    /// What to do next, if the message does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether a retry is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_safe: Option<bool>,
    /// The expected number of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The actual number of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// Process that holds the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

impl RequestRefused {
    /// A refusal with a code and a message.
    #[must_use]
    pub fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message, ..Self::default() }
    }
}

impl From<Refusal> for RequestRefused {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

impl From<SessionRefusal> for RequestRefused {
    fn from(refusal: SessionRefusal) -> Self {
        let known = Self {
            hint: Some(refusal.hint()),
            retry_safe: refusal.retry_safe(),
            ..Self::new(refusal.kind(), refusal.to_string())
        };
        match refusal {
            SessionRefusal::Changed { expected, found, .. }
            | SessionRefusal::NoSuchRecord { wanted: expected, found, .. } => {
                Self { expected: Some(expected), found: Some(found), ..known }
            }
            SessionRefusal::Held { pid, .. } | SessionRefusal::Active { pid, .. } => Self { pid: Some(pid), ..known },
            _ => known,
        }
    }
}

#[cfg(test)]
mod tests;
