//! Everything Hearth can do to the world.
//!
//! Effects are returned by committed transactions. They are hints: whatever one asks for can be derived again from the
//! tables, which is what start and sweep do, so a lost effect costs time and nothing else.

use super::address::{Address, ChannelName, UserId};
use super::content::{Attachment, BlobId, RawJson};
use super::delivery::Delivery;
use super::entity::{AgentSettings, Folder, ProviderKind};
use super::id::{AgentId, MessageId, OutboundId, SessionId, SkipId};
use super::incarnation::SpecDigest;
use super::input::Continuation;
use super::message::{MessageKind, MessageState};
use super::session::SessionName;
use super::time::Timestamp;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Put context and messages into a session's mailbox.
    Export(Box<Export>),
    /// Take messages out of the host's half of a mailbox, then remove files of the agent's half.
    Discard(Discard),
    /// Start an incarnation; its mailbox is made ready first.
    Launch(Box<Launch>),
    /// End an incarnation and say so when it is gone.
    Stop(SessionId, u32),
    /// Say whether an incarnation still runs (Running) or not (Gone).
    Inquire(SessionId, u32),
    /// Read the mailbox of an incarnation that is gone to its end.
    CollectRest(SessionId, u32),
    /// Deliver a message.
    Deliver(Box<Delivery>),
    /// Tell the source of a message what became of it.
    Settled(Settled),
    /// Open a direct message with somebody, and say where it is.
    OpenDirect(UserId),
    /// Tell the platform that every message of a thread is wanted from now on.
    Subscribe(Address),
    /// Show in a chat that a session's agent is at work, until it answers or gives up.
    Typing(SessionId, Address),
    /// A channel instance was changed: connect it anew, or let it go.
    Reconnect(ChannelName),
    /// Remove files that were kept to be sent and are not needed any more.
    Release(SessionId, Vec<String>),
    /// Remove files of the store of files that no message needs any more.
    Unneeded(Vec<BlobId>),
    /// Look for skip summaries in an agent's folder, after a turn of this session if that is why.
    LookForSkips(AgentId, Folder, Option<SessionId>),
    /// Remove the summary of a skill from an agent's folder if its file still has this digest, and say so.
    RemoveSkip {
        /// Whose.
        agent: AgentId,
        /// Which.
        id: SkipId,
        /// Where.
        folder: Folder,
        /// Of which skill.
        skill: String,
        /// Of which file.
        digest: BlobId,
    },
    /// Let the session-state file of an agent group say what the store says.
    ShareState(AgentId),
    /// Do the rest of some work.
    Continue(Continuation),
}

/// What a session's mailbox should hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Whose mailbox.
    pub session: SessionId,
    /// What the incarnation needs to know; none when nothing of it has changed.
    pub context: Option<ContextView>,
    /// Messages it may work on, ascending.
    pub messages: Vec<ExportedMessage>,
    /// Answers to requests of the incarnation, all there are; none leaves those that lie there.
    pub replies: Option<Vec<ExportedReply>>,
    /// Whether messages that are not in the list have to go (before an incarnation starts), or the list is an addition.
    pub exact: bool,
}

/// The answer to a request of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedReply {
    /// Name of the request.
    pub request: String,
    /// What was asked for, or why it was not done.
    pub answer: Result<RawJson, String>,
}

/// One message for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedMessage {
    /// Position in the session.
    pub seq: u64,
    /// Id.
    pub id: MessageId,
    /// What kind of message.
    pub kind: MessageKind,
    /// Whether it asks for a turn.
    pub trigger: bool,
    /// When it was said.
    pub said: Timestamp,
    /// Where an answer goes.
    pub reply: Option<Address>,
    /// The payload.
    pub content: RawJson,
    /// Files that came with it.
    pub attachments: Vec<Attachment>,
}

/// The facts of the context file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextView {
    /// Rises with every change.
    pub version: u64,
    /// Agent's folder.
    pub folder: String,
    /// How the agent is run.
    pub settings: AgentSettings,
    /// The one incarnation that may work.
    pub incarnation: u32,
    /// `default` or `maintenance`.
    pub session_name: SessionName,
    /// Default reply address.
    pub reply: Option<Address>,
    /// Chats and agents the agent may write to.
    pub destinations: Vec<DestinationView>,
    /// Smallest number the agent may use.
    pub next_number: u64,
    /// What was said in a turn that did not end.
    pub already_sent: Vec<AlreadySent>,
    /// What drives the session.
    pub provider: ProviderKind,
    /// Which beginning of the session this is.
    pub epoch: u32,
    /// Zone of its people, if one was configured; none is the machine's.
    pub timezone: Option<String>,
}

/// A destination by the name the agent uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationView {
    /// The name.
    pub name: String,
    /// Name for people.
    pub display: Option<String>,
    /// What it is.
    pub target: DestinationTarget,
}

/// What a destination is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationTarget {
    /// A chat.
    Chat(Address),
    /// Another agent's folder.
    Agent(String),
}

/// Something said mid-turn by an incarnation that died before the turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlreadySent {
    /// Message whose turn it belonged to.
    pub in_reply_to: Option<u64>,
    /// Number of the outgoing message.
    pub number: u64,
    /// Its text.
    pub text: String,
}

/// Files to remove: first the host's, then the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discard {
    /// Whose mailbox.
    pub session: SessionId,
    /// Messages that are over.
    pub seqs: Vec<u64>,
    /// Files of the agent's half, relative to it.
    pub agent_files: Vec<String>,
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Session.
    pub session: SessionId,
    /// Which incarnation.
    pub incarnation: u32,
    /// Agent's folder.
    pub folder: String,
    /// How the agent is run.
    pub settings: AgentSettings,
    /// `default` or `maintenance`.
    pub session_name: SessionName,
    /// Digest of what it is started with.
    pub digest: SpecDigest,
    /// Image of the installation, if one was configured.
    pub image: Option<String>,
    /// What its mailbox has to hold before it starts.
    pub export: Export,
}

/// What became of a message, for whoever sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Which.
    pub message: MessageId,
    /// Chat and thread it came from.
    pub source: Address,
    /// Where it is now.
    pub state: MessageState,
    /// What was said about it when it ended.
    pub answers: Vec<OutboundId>,
}
