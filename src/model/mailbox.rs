//! What agents write, after the mailbox has read and bounded it.

use super::address::Address;
use super::content::{Attachment, RawJson};
use super::id::SessionId;
use super::incarnation::ToolUse;
use super::request::Wish;
use super::task::Gated;
use super::time::{Millis, Timestamp};

/// What was found in one session's mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// Whose mailbox.
    pub session: SessionId,
    /// What was found, in the order in which it has to be taken in: mid-turn answers and claims before ends.
    pub found: Vec<Found>,
    /// `Some(n)`: incarnation n is gone, this is everything that is left of it, and nothing of it will come after.
    pub closes: Option<u32>,
}

/// One thing found, with the files that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it says.
    pub record: Record,
    /// Files to remove once it is stored, names relative to the agent's half (`ack/…`, `out/…`, `out/files/…`).
    pub files: Vec<String>,
}

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An incarnation works on a message.
    Claim {
        /// The message.
        seq: u64,
        /// Who.
        incarnation: u32,
    },
    /// A turn ended.
    End {
        /// The message whose acknowledgement says so.
        seq: u64,
        /// Further messages of the turn, which end together with it.
        also: Vec<u64>,
        /// Who.
        incarnation: u32,
        /// How it failed, if it did.
        failure: Option<Failure>,
        /// Why the agent was not woken, if it was not: the word of a task's script.
        gated: Option<Gated>,
        /// The answers it names, and for those that could not be read why.
        answers: Vec<Answer>,
    },
    /// Something said at once.
    Said(Said),
    /// A final answer that no ack named before its incarnation ended.
    Leftover(Said),
    /// A file that cannot be taken in. It is kept out of the way, the reason goes into the journal.
    Unreadable {
        /// Its name.
        file: String,
        /// Why.
        reason: String,
    },
}

/// How a turn failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub error: String,
    /// Whether it may be tried again.
    pub again: Again,
}

/// Whether what failed may be tried again, as the agent's side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It would fail again.
    Never,
    /// The provider is in trouble: with a backoff, and it counts as a try.
    Later,
    /// The provider limits requests: after this time (or a backoff, if it did not say), and it costs no try.
    Wait(Option<Millis>),
}

/// An answer that an ack names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is there.
    Read(Box<Said>),
    /// It is not there: it was stored before, or never written.
    Missing(String),
    /// It is there and cannot be taken in.
    Refused {
        /// Its id.
        id: String,
        /// Why.
        reason: String,
    },
}

/// Something an agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The agent's id of it.
    pub wire_id: String,
    /// Who.
    pub incarnation: u32,
    /// The agent's number for it.
    pub number: u64,
    /// The message it answers.
    pub in_reply_to: Option<u64>,
    /// Where it goes.
    pub to: Target,
    /// Its text; empty when the payload has none.
    pub text: String,
    /// The whole payload.
    pub content: RawJson,
    /// Files to send, already copied out of the agent's reach.
    pub files: Vec<KeptFile>,
    /// Not before this time.
    pub deliver_after: Option<Timestamp>,
    /// What is to be done with it.
    pub wish: Wish,
    /// The name under which the agent waits to hear what became of it; requests to the host always have one.
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
pub enum Target {
    /// Where the question came from.
    Reply,
    /// A destination by name.
    Destination(String),
    /// An address it was given.
    Address(Address),
}

/// What changed in a live mailbox since the last look, or that nobody came to look; no change, no observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Whose mailbox.
    pub session: SessionId,
    /// Which incarnation wrote.
    pub incarnation: u32,
    /// What is known of its heartbeat.
    pub beat: Beat,
    /// Its state file changed; what it says now.
    pub state: Option<ObservedState>,
}

/// What is known of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// There was one since the last look.
    New,
    /// There was none.
    None,
    /// The last look was asked for and is not over: there may have been one, as well as anything else that a runner writes.
    Unseen,
}

/// What a state file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedState {
    /// The tool in use.
    pub tool: Option<ToolUse>,
    /// Whether the provider did something since the last look.
    pub progress: bool,
    /// Position of the message that this was about; some runners do not say.
    pub about: Option<u64>,
}
