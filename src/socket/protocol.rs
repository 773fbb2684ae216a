//! The lines of the socket.

use serde::{Deserialize, Serialize};

use super::change::ChangeRequest;
use super::session::{SessionAnswer, SessionRequest};
use super::shape::{ConfiguredJson, RoutedJson, SweptJson};
use super::task::TaskRequest;
use super::workspace::{WorkspaceDone, WorkspaceRequest};

/// Version of the lines.
pub const VERSION: u32 = 1;

/// Longest line either side accepts, in bytes: an event with files in it, every character of it escaped.
pub const LINE_MAX: usize = 64 << 20;

/// Longest greeting: whoever has not said the token does not get much memory.
pub const GREETING_MAX: usize = 4 << 10;

/// What a client says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Request {
    /// First line: who may speak at all.
    Hello {
        /// Version of the lines.
        v: u32,
        /// Content of the token file.
        token: String,
    },
    /// An inbound event.
    Inject {
        /// The event as it was given: text, because JSON within a tagged line could not be kept as it is.
        event: String,
        /// Only say what would become of it.
        dry_run: bool,
    },
    /// A configuration, or a part of one.
    Change(ChangeRequest),
    /// Look at what is due.
    Sweep {
        /// As if it were then, in milliseconds since 1970; only with `dry_run`.
        at: Option<i64>,
        /// Only say what it would cause.
        dry_run: bool,
    },
    /// Decide something that was asked by card, as the operator.
    Decide {
        /// What: `ap3` or `qu7`.
        matter: String,
        /// The value of an option, its label or its number.
        value: String,
    },
    /// Do something with a task.
    Task {
        /// What.
        wanted: TaskRequest,
    },
    /// Do something with workspaces and their sessions.
    Workspace {
        /// What.
        wanted: WorkspaceRequest,
    },
    /// Do something with a workspace session.
    Session {
        /// What.
        wanted: SessionRequest,
    },
    /// What the daemon knows of itself.
    Status,
    /// Talk to an agent from here on; the chat is wired if it is not.
    Attach {
        /// The agent's folder; the only one, or the default, if not given.
        agent: Option<String>,
    },
    /// Say something in the attached chat.
    Say {
        /// Made by the client, the same when it repeats itself.
        id: String,
        /// What.
        text: String,
    },
    /// A message was shown.
    Shown {
        /// Its id.
        id: String,
    },
}

/// What the daemon says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Response {
    /// The greeting was right.
    Welcome {
        /// Version of Hearth.
        version: String,
        /// Process of the daemon.
        pid: u32,
    },
    /// It was not done.
    Refused {
        /// A word for programs.
        code: String,
        /// What, where, what to do.
        message: String,
        /// The client's id of what was said, if it was that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// What became of an event.
    Routed(RoutedJson),
    /// What a configuration changed.
    Configured(ConfiguredJson),
    /// What a sweep causes.
    Swept(SweptJson),
    /// What became of a decision.
    Answered {
        /// Whether it decided something.
        decided: bool,
        /// What to tell.
        text: String,
    },
    /// It was done to this task.
    Task {
        /// Its id.
        task: String,
    },
    /// What became of something about a workspace.
    Workspace {
        /// What.
        done: WorkspaceDone,
    },
    /// What became of something about a workspace session.
    Session {
        /// What.
        answer: SessionAnswer,
    },
    /// What the daemon knows of itself.
    Status(DaemonStatus),
    /// The chat is there.
    Attached {
        /// The agent's folder.
        agent: String,
        /// Its name.
        name: String,
    },
    /// What was said is stored.
    Accepted {
        /// The client's id of it.
        id: String,
        /// Hearth's id of it.
        message: String,
    },
    /// What was said was the answer to a card: no agent has it.
    Consumed {
        /// The client's id of it.
        id: String,
    },
    /// An agent, or Hearth, says something.
    Said {
        /// Its id; show each once.
        id: String,
        /// Who says it; none is Hearth.
        speaker: Option<String>,
        /// What.
        text: String,
        /// Paths of the files that go with it.
        files: Vec<String>,
        /// The message it answers.
        in_reply_to: Option<String>,
    },
    /// A message came to its end.
    Settled {
        /// Its id.
        message: String,
        /// How.
        #[serde(flatten)]
        end: End,
    },
}

/// How a message ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    /// `completed`, `failed` or `dropped`.
    pub state: String,
    /// Why it failed.
    pub error: Option<String>,
    /// What was said about it when it ended; these may still be on their way.
    pub answers: Vec<String>,
}

impl Response {
    /// A refusal of something that was said names it.
    #[must_use]
    pub fn about(self, said: String) -> Self {
        match self {
            Self::Refused { code, message, .. } => Self::Refused { code, message, id: Some(said) },
            other => other,
        }
    }
}

/// What only a running daemon knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its process.
    pub pid: u32,
    /// Version of Hearth.
    pub version: String,
    /// Runtime in use.
    pub runtime: String,
    /// Why it is that one, to be read after "because".
    #[serde(default)]
    pub runtime_why: String,
    /// What the configuration asked for when it was chosen; null is whatever can be had.
    #[serde(default)]
    pub runtime_setting: Option<String>,
    /// Nothing new is begun: it waits for what is under way to end.
    #[serde(default)]
    pub draining: bool,
    /// Zone that holds where none is configured.
    #[serde(default)]
    pub zone: String,
    /// Where that zone comes from, in words.
    #[serde(default)]
    pub zone_from: String,
    /// Terminals attached.
    pub terminals: usize,
    /// Inputs that wait for the engine.
    pub queued: usize,
    /// Channels that are configured.
    #[serde(default)]
    pub channels: Vec<ChannelStatus>,
    /// Images that are being built, and those that could not be.
    #[serde(default)]
    pub builds: Vec<BuildJson>,
}

/// A build of an agent's image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildJson {
    /// Folder of the agent.
    pub agent: String,
    /// Name of the image.
    pub image: String,
    /// `building`, or `waiting` for another try.
    pub state: String,
    /// How often it failed.
    pub failed: u32,
    /// Why it failed last.
    pub why: Option<String>,
}

/// How a channel is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its name.
    pub name: String,
    /// What drives it.
    #[serde(rename = "type")]
    pub kind: String,
    /// `up` or `down`.
    pub state: String,
    /// Why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
