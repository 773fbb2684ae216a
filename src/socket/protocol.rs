//! Messages of the socket protocol, one per line.

use serde::{Deserialize, Serialize};

use super::command::{Answer, ClientCommand, RequestRefused};
use crate::model::Awake;

pub const VERSION: u32 = 2;

/// Longest line that either side accepts, in bytes. Fits an event with embedded files and every character escaped.
pub const LINE_MAX: usize = 64 << 20;

/// Longest greeting, in bytes. Small, because the client is not authenticated yet.
pub const GREETING_MAX: usize = 4 << 10;

/// A message from a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Request {
    /// Greeting: the first line, which authenticates the client.
    Hello {
        v: u32,
        /// Content of the token file.
        token: String,
    },
    /// An inbound event.
    Inject {
        /// The event's JSON as text. Nested JSON in a tagged enum would not be preserved as written.
        event: String,
        /// Only report how the event would be routed.
        dry_run: bool,
    },
    /// A change to the store.
    Submit { command: ClientCommand },
    /// Run a sweep.
    Sweep {
        /// Simulated time, in milliseconds since 1970. Only with `dry_run`.
        at: Option<i64>,
        /// Only report the effects.
        dry_run: bool,
    },
    /// Ask for the daemon's status.
    Status,
    /// Resolve a channel's secrets again, and reconnect it.
    Reconnect {
        /// Name of the channel.
        channel: String,
    },
    /// Open a pairing on a channel. It ends with the connection.
    Pair {
        /// Name of the channel.
        channel: String,
    },
    /// Ask for the state of the connection's pairing.
    Pairing,
    /// Attach a terminal to an agent. The chat is wired if it is not yet.
    Attach {
        /// The agent's folder. If absent: the only agent, or the default one.
        agent: Option<String>,
        /// Whether the client understands [`Response::Tool`].
        #[serde(default)]
        tools: bool,
        /// Whether the client understands [`Response::Writing`].
        #[serde(default)]
        writing: bool,
    },
    /// Send a message to the attached chat.
    Say {
        /// Idempotency key: chosen by the client, unchanged when it repeats the request.
        id: String,
        text: String,
    },
    /// Make a link that signs a person in to the console once.
    Console {
        /// The person's id. If absent: the user who asks.
        user: Option<String>,
    },
    /// A message was shown.
    Shown { id: String },
}

/// A message from the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Response {
    /// The greeting was accepted.
    Welcome {
        /// Version of Hearth.
        version: String,
        /// Process of the daemon.
        pid: u32,
    },
    /// The request was refused.
    Refused {
        #[serde(flatten)]
        refusal: RequestRefused,
        /// The client's id of the message, if the request was `Say`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// The request was carried out.
    Done { answer: Answer },
    /// The daemon's status.
    Status(DaemonStatus),
    /// A pairing was opened.
    Code(PairingCode),
    /// The state of the connection's pairing.
    Pairing(PairingJson),
    /// A link to the console.
    Console(ConsoleLink),
    /// The chat is attached.
    Attached {
        /// The agent's folder.
        agent: String,
        name: String,
        #[serde(default)]
        provider: String,
        /// Ids of the owners of this installation.
        #[serde(default)]
        owners: Vec<String>,
    },
    /// The message is stored.
    Accepted {
        /// The client's id of the message.
        id: String,
        /// Hearth's id of the message.
        message: String,
    },
    /// The message goes to no agent: it answered a card, or was a command to Hearth.
    Consumed {
        /// The client's id of the message.
        id: String,
        /// Which of them, as in the reasons of dropped messages.
        reason: String,
        /// The message with Hearth's answer, if it was a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// A message from an agent or from Hearth.
    Said {
        /// The message's id; show each once.
        id: String,
        /// The sender; none is Hearth.
        speaker: Option<String>,
        text: String,
        /// Paths of the files that go with it.
        files: Vec<String>,
        /// The message it answers.
        in_reply_to: Option<String>,
    },
    /// The agent uses this tool now, or none. Only for clients that want it.
    Tool { name: Option<String> },
    /// The agent is writing the answer to a message that this client sent. Only for clients that want it.
    Writing {
        message: String,
        /// The end of the text so far. Empty if the agent does something else now.
        text: String,
    },
    /// A message has ended.
    Settled {
        message: String,
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
    /// Ids of answers that existed when it ended. They may still be in delivery.
    pub answers: Vec<String>,
}

impl Response {
    /// A refusal with a code for programs and a message for people.
    #[must_use]
    pub fn refused(code: &str, message: String) -> Self {
        Self::Refused { refusal: RequestRefused::new(code, message), id: None }
    }

    /// Adds the client's message id to a refusal.
    #[must_use]
    pub fn about(self, said: String) -> Self {
        match self {
            Self::Refused { refusal, .. } => Self::Refused { refusal, id: Some(said) },
            other => other,
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct PairingCode {
    /// The code to type.
    pub code: String,
    /// A link that sends another code, if the network has such links.
    pub link: Option<String>,
    /// When code and link expire.
    pub expires: String,
}

impl std::fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairingCode").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// A link that signs a person in to the console once.
#[derive(Clone, Serialize, Deserialize)]
pub struct ConsoleLink {
    pub link: String,
    /// Who is signed in.
    pub user: String,
    /// When it expires.
    pub expires: String,
    /// The SHA-256 digest of a certificate that Hearth made, which browsers warn of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl std::fmt::Debug for ConsoleLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleLink").field("user", &self.user).field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The state of a pairing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairingJson {
    /// Wrong codes that were sent so far.
    pub wrong: u32,
    /// The pairing's progress.
    #[serde(flatten)]
    pub state: PairingStateJson,
}

/// The progress of a pairing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum PairingStateJson {
    /// The code was not sent yet.
    Open,
    /// A person sent it.
    Answered {
        user: String,
        /// Their name on the network.
        name: Option<String>,
    },
    Void {
        why: String,
    },
}

/// State that only a running daemon knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DaemonStatus {
    pub pid: u32,
    /// Version of Hearth.
    pub version: String,
    /// Runtime in use.
    pub runtime: String,
    /// Why this runtime is in use, to be read after "because".
    #[serde(default)]
    pub runtime_why: String,
    /// The configured runtime when it was chosen; null means the best available one.
    #[serde(default)]
    pub runtime_setting: Option<String>,
    /// Whether the command that started the daemon asked for this runtime, whatever the configuration says.
    #[serde(default)]
    pub runtime_asked: bool,
    /// Whether the daemon is draining: it begins nothing new, and waits for work in progress.
    #[serde(default)]
    pub draining: bool,
    /// Default time zone if none is configured.
    #[serde(default)]
    pub zone: String,
    /// Source of that time zone, as text.
    #[serde(default)]
    pub zone_from: String,
    /// Terminals attached.
    pub terminals: usize,
    /// Inputs that wait for the engine.
    pub queued: usize,
    /// Channels that are configured.
    #[serde(default)]
    pub channels: Vec<ChannelStatus>,
    /// Images that are being built, and failed builds.
    #[serde(default)]
    pub builds: Vec<BuildJson>,
    /// Sessions whose agents write more than Hearth collects.
    #[serde(default)]
    pub floods: Vec<FloodJson>,
    /// Variables that `env:` references name and that are not set where the daemon runs; null from a daemon too old to
    /// report it.
    #[serde(default)]
    pub unset_variables: Option<Vec<String>>,
    /// The current point of its awake time, by which retries are timed; null from a daemon too old to report it.
    #[serde(default)]
    pub awake: Option<Awake>,
}

/// A session whose agent writes more than Hearth collects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloodJson {
    pub session: String,
    /// Number of records discarded since the agent last wrote at a normal rate.
    pub discarded: u64,
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
    /// The reason for the last failure.
    pub why: Option<String>,
}

/// State of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// `up`, `down` or `connecting`.
    pub state: String,
    /// Why it is down, or the last failure of a channel that is connecting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When its service last answered a call, or made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<String>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
}
