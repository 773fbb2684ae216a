//! Agents' output, after the mailbox has read and bounded it.

use std::collections::BTreeSet;

use super::address::Address;
use super::content::{Attachment, RawJson};
use super::id::SessionId;
use super::incarnation::ToolUse;
use super::request::RequestedAction;
use super::spend::ReportedUse;
use super::task::Gated;
use super::time::{Millis, Timestamp};

/// Output collected from one session's mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// The session whose mailbox was read.
    pub session: SessionId,
    /// The records, in the order in which they must be processed: mid-turn answers and claims before ends.
    pub found: Vec<CollectedRecord>,
    /// `Some(n)`: incarnation n is gone, and this is the rest of its output. Nothing more comes from it.
    pub closes: Option<u32>,
}

/// One record, with the files that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedRecord {
    /// The parsed content.
    pub record: Record,
    /// Files to remove once it is stored, names relative to the agent's half (`ack/…`, `out/…`, `out/files/…`).
    pub files: Vec<String>,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An incarnation works on a message.
    Claim {
        /// Position of the message.
        seq: u64,
        /// The run that claims it.
        incarnation: u32,
    },
    /// A turn ended.
    End {
        /// The message whose acknowledgement ends the turn.
        seq: u64,
        /// Further messages of the turn, which end together with it.
        also: Vec<u64>,
        /// The run that ended the turn.
        incarnation: u32,
        /// How it failed, if it did.
        failure: Option<Failure>,
        /// Why the agent was not woken, if it was not; reported by a task's script.
        gated: Option<Gated>,
        /// The answers it names, and for those that could not be read why.
        answers: Vec<Answer>,
    },
    /// What a turn used of models, before its end.
    Used {
        /// The message whose acknowledgement ends the turn.
        seq: u64,
        /// The run that reports.
        incarnation: u32,
        /// One entry for each model.
        used: Vec<ReportedUse>,
    },
    /// A message sent during the turn.
    Said(Said),
    /// A final answer that no ack named before its incarnation ended.
    Leftover(Said),
    /// The tools that a run used in its last turn, as far as it said. Only of a run that is gone.
    Tools(Vec<String>),
    /// Values of secrets were removed from the agent's output. The agent and the owner are told.
    Hidden(Hidden),
    /// A file that cannot be imported. It is moved out of the way, and the reason goes into the journal.
    Unreadable {
        /// Name of the file.
        file: String,
        /// Why it cannot be read.
        reason: String,
    },
}

/// Secrets that were removed from an agent's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden {
    /// Variables whose values were replaced.
    pub names: BTreeSet<String>,
    /// Files that were not sent.
    pub files: Vec<HiddenFile>,
}

/// A file that was not sent because it contains the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenFile {
    /// Name of the file.
    pub file: String,
    /// The variable whose value was found in it.
    pub name: String,
}

/// How a turn failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Description of the error, as the runner wrote it.
    pub error: String,
    /// Whether it may be retried.
    pub again: RetryHint,
}

/// Whether a failed turn may be retried, as the agent's side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    /// Not retried: it would fail again.
    Never,
    /// The provider has a problem. Retried with a backoff; counts as a try.
    Later,
    /// The provider limits requests. Retried after this time, or after a backoff if the provider gave none; costs no
    /// try.
    Wait(Option<Millis>),
    /// The provider cannot be reached. Retried after a backoff; costs no try.
    Unreachable,
}

/// An answer that an ack names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It exists.
    Read(Box<Said>),
    /// It does not exist: it was stored before, or never written.
    Missing(String),
    /// It exists and cannot be imported.
    Refused {
        /// Id of the answer.
        id: String,
        /// Why it was refused.
        reason: String,
    },
}

/// A message written by an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The agent's id of it.
    pub wire_id: String,
    /// The run that wrote it.
    pub incarnation: u32,
    /// The agent's number for it.
    pub number: u64,
    /// The message it answers.
    pub in_reply_to: Option<u64>,
    /// Where it is to be sent.
    pub to: Recipient,
    /// Its text; empty when the payload has none.
    pub text: String,
    /// The whole payload.
    pub content: RawJson,
    /// Files to send, already copied out of the agent's reach.
    pub files: Vec<KeptFile>,
    /// Not before this time.
    pub deliver_after: Option<Timestamp>,
    /// The action that the agent wants.
    pub action: RequestedAction,
    /// The name under which the agent waits for the result. Requests to the host always have one.
    pub request: Option<String>,
}

/// A file of an agent, kept twice: to be sent, and for another agent to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Its name among the files kept to be sent.
    pub kept: String,
    /// The same bytes in the store of files, where they stay only if a message refers to them.
    pub attachment: Attachment,
}

/// Where an agent wants something to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// Where the message that it answers came from.
    Reply,
    /// A destination by name.
    Destination(String),
    /// An address it was given.
    Address(Address),
}

/// Observation of a live mailbox, or a note that the scan has not finished. Every sweep receives the heartbeat; the
/// state is included only if it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The session whose mailbox was looked at.
    pub session: SessionId,
    /// Which incarnation wrote.
    pub incarnation: u32,
    /// The newest sign of life.
    pub beat: Beat,
    /// New content of its state file, if that changed.
    pub state: Option<ObservedState>,
}

/// State of a runner's heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// The newest beat.
    Heard {
        /// Age of the beat at the last scan. If a message ended the runner's rest: age of that message.
        ago: Millis,
        /// How much longer than usual the next beat takes, because the runner rests. Zero if it does not.
        rest: Millis,
    },
    /// No beat was seen in this run of the daemon.
    None,
    /// The last scan was requested and has not finished. The runner may have beaten or written anything else.
    Unseen,
}

impl Beat {
    /// A beat that the last scan found, from a runner that does not rest.
    pub const NOW: Self = Self::resting(Millis::ZERO);

    /// A beat that the last scan found, from a runner that rests.
    #[must_use]
    pub const fn resting(rest: Millis) -> Self {
        Self::Heard { ago: Millis::ZERO, rest }
    }
}

/// Content of a runner's state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedState {
    /// The tool in use.
    pub tool: Option<ToolUse>,
    /// Whether the provider was active since the last scan.
    pub progress: bool,
    /// Position of the message that this activity belongs to; some runners do not say.
    pub about: Option<u64>,
}

/// A text that is not complete, as a runner shows it. Only for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedWriting {
    /// Position of the message that it answers.
    pub in_reply_to: u64,
    /// Its end, without secrets and on one line.
    pub text: String,
}
