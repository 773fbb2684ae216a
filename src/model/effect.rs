//! Effects: everything Hearth can do to the outside world.
//!
//! Committed transactions return effects. Effects are hints: each one can be derived again from the tables, as start
//! and sweep do. A lost effect only costs time.

use super::address::{Address, ChannelName, UserId};
use super::bound_secret::BoundSecret;
use super::content::{Attachment, BlobId, RawJson};
use super::delivery::Delivery;
use super::entity::{AgentSettings, Folder, ProviderKind};
use super::gateway::TurnBegan;
use super::id::{AgentId, BodyId, MessageId, OutboundId, OutgoingId, SessionId, SkipId};
use super::incarnation::SpecDigest;
use super::input::Continuation;
use super::message::{MessageKind, MessageState};
use super::network::NetworkPolicy;
use super::session::SessionName;
use super::time::Timestamp;
use super::voice::{Speaker, Transcriber, Transcript};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Put context and messages into a session's mailbox.
    Export(Box<Export>),
    /// Take messages out of the host's half of a mailbox, then remove files of the agent's half.
    Discard(Discard),
    /// Start an incarnation; its mailbox is made ready first.
    Launch(Box<Launch>),
    /// Stop an incarnation, and report when it is gone.
    Stop(SessionId, u32),
    /// Stop an incarnation for a person who waits: what has not ended within a moment is killed.
    StopNow(SessionId, u32),
    /// Tell the model gateway that a turn began.
    TurnBegan(TurnBegan),
    /// Judge the connections of an incarnation by another policy from now on.
    NetworkPolicy(Box<RunPolicy>),
    /// Report whether an incarnation still runs (Running) or not (Gone).
    Inquire(SessionId, u32),
    /// Read the rest of the mailbox of an incarnation that is gone.
    CollectRest(SessionId, u32),
    /// Deliver a message.
    Deliver(Box<Delivery>),
    /// Report the final state of a message to its source.
    Settled(Settled),
    /// Fetch files from the network that keeps them.
    Fetch(Box<Fetch>),
    /// Transcribe audio files of a message.
    Transcribe(Box<Transcribe>),
    /// Make audio of an answer.
    Speak(Box<Speak>),
    /// The audio of an answer is not needed any more.
    Silence(OutboundId),
    /// Open a direct message with a user, and report its chat.
    OpenDirect(UserId),
    /// Subscribe to all messages of a thread on its platform.
    Subscribe(Address),
    /// Show a typing indicator in a chat while a session's agent works, until it answers or fails.
    Typing(SessionId, Address),
    /// A channel instance changed: reconnect it, or disconnect it.
    Reconnect(ChannelName),
    /// Remove files that were kept for sending and are no longer needed.
    Release(SessionId, Vec<String>),
    /// Remove files from the store of files that no message needs any more.
    Unneeded(Vec<BlobId>),
    /// Scan an agent's folder for skip summaries. If a turn just ended there, its session is given.
    LookForSkips(AgentId, Folder, Option<SessionId>),
    /// Remove a skill's summary from an agent's folder if the file still has this digest, and report it.
    RemoveSkip {
        /// The agent that reported the skip.
        agent: AgentId,
        /// The row of the skip.
        id: SkipId,
        /// The agent's folder.
        folder: Folder,
        /// The skill that wrote the file.
        skill: String,
        /// Of which file.
        digest: BlobId,
    },
    /// Write the stored session state of an agent group to its file.
    ShareState(AgentId),
    /// Continue a job that was too large for one transaction.
    Continue(Continuation),
}

/// Desired content of a session's mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The session whose mailbox is written.
    pub session: SessionId,
    /// Context for the incarnation; none if it has not changed.
    pub context: Option<ContextView>,
    /// Messages for the incarnation, in ascending order.
    pub messages: Vec<ExportedMessage>,
    /// All replies to the incarnation's requests; none leaves the replies in the mailbox unchanged.
    pub replies: Option<Vec<ExportedReply>>,
    /// Whether to remove everything that is not in the lists (before an incarnation starts) or only to add to it.
    pub exact: bool,
    /// Files of ended messages that stay readable; complete if `exact`, else empty.
    pub files: Vec<ExportedFiles>,
}

/// Files of an ended message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFiles {
    /// The message's position in the session.
    pub seq: u64,
    /// Files of the message, in its order.
    pub attachments: Vec<Attachment>,
}

/// The reply to an agent's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedReply {
    /// Name of the request.
    pub request: String,
    /// The result, or why it was not done.
    pub answer: Result<RawJson, String>,
}

/// One message for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedMessage {
    /// Position in the session.
    pub seq: u64,
    /// The message that is exported.
    pub id: MessageId,
    /// What kind of message.
    pub kind: MessageKind,
    /// Whether it asks for a turn.
    pub trigger: bool,
    /// When it was sent.
    pub said: Timestamp,
    /// Whether the sender is unknown to the agent.
    pub unknown_sender: bool,
    /// Where an answer goes.
    pub reply: Option<Address>,
    /// JSON for the agent.
    pub content: RawJson,
    /// Files that came with it.
    pub attachments: Vec<Attachment>,
    /// Transcripts of those that are audio.
    pub transcripts: Vec<Transcript>,
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
    /// Lowest message number that the agent may use.
    pub next_number: u64,
    /// Messages sent in a turn that did not end.
    pub already_sent: Vec<AlreadySent>,
    /// What the provider missed while another one answered.
    pub recap: Vec<RecapLine>,
    /// The session's provider.
    pub provider: ProviderKind,
    /// The name under which the runner keeps the provider's continuation, if not that of the provider.
    pub memory: Option<String>,
    /// Epoch of the session: rises with every reset.
    pub epoch: u32,
    /// Time zone of its users, if configured; none is the machine's.
    pub timezone: Option<String>,
    /// Patterns of tool calls that people allowed in advance.
    pub granted: Vec<String>,
}

/// A destination, with the agent's name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationView {
    /// Name under which the agent writes to it.
    pub name: String,
    /// Name for people.
    pub display: Option<String>,
    /// What it is.
    pub target: DestinationTarget,
}

/// Where a destination leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationTarget {
    /// A chat.
    Chat(Address),
    /// Another agent's folder.
    Agent(String),
}

/// A message sent mid-turn by an incarnation that died before the turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlreadySent {
    /// Message whose turn it belonged to.
    pub in_reply_to: Option<u64>,
    /// Number of the outgoing message.
    pub number: u64,
    /// Its text.
    pub text: String,
}

/// A message that the provider of a session missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecapLine {
    /// Its number in the session.
    pub number: u64,
    /// The name of the person who wrote it; none is the agent.
    pub from: Option<String>,
    /// Its text, or the beginning of it.
    pub text: String,
}

/// Files to remove from a mailbox: first the host's, then the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discard {
    /// The session whose mailbox is cleaned.
    pub session: SessionId,
    /// Positions of finished messages.
    pub seqs: Vec<u64>,
    /// Messages whose files go.
    pub files: Vec<u64>,
    /// Files of the agent's half, relative to it.
    pub agent_files: Vec<String>,
}

/// An incarnation to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The session that the agent is started for.
    pub session: SessionId,
    /// Number of the run.
    pub incarnation: u32,
    /// Agent's folder.
    pub folder: String,
    /// How the agent is run.
    pub settings: AgentSettings,
    /// `default` or `maintenance`.
    pub session_name: SessionName,
    /// Digest of its launch configuration.
    pub digest: SpecDigest,
    /// Image of the installation, if one was configured.
    pub image: Option<String>,
    /// The bound secrets that its agent uses.
    pub secrets: Vec<BoundSecret>,
    /// What it may reach, if its network has rules.
    pub policy: Option<NetworkPolicy>,
    /// Content of its mailbox before it starts.
    pub export: Export,
}

/// The network policy of an incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPolicy {
    /// The session of the run.
    pub session: SessionId,
    /// Number of the run.
    pub incarnation: u32,
    /// The rules for its connections from now on.
    pub policy: NetworkPolicy,
}

/// Files of one message to fetch from its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The message's body.
    pub body: BodyId,
    /// The channel that keeps the files.
    pub channel: ChannelName,
    /// All files of the message, in order; those that are [remote](super::content::FileBytes::Remote) are fetched.
    pub files: Vec<Attachment>,
}

/// Audio files of one message to transcribe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcribe {
    /// The message's body.
    pub body: BodyId,
    /// The files, which are in the store of files.
    pub files: Vec<Attachment>,
    /// The program or server that transcribes.
    pub with: Transcriber,
}

/// An answer to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speak {
    /// The outgoing message whose text is spoken.
    pub answer: OutboundId,
    /// The session of its agent, which keeps the audio.
    pub session: SessionId,
    /// Its text, as the agent wrote it.
    pub text: String,
    /// The program or server that speaks.
    pub with: Speaker,
}

/// Final state of a message, reported to its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The message that ended.
    pub message: MessageId,
    /// Chat and thread it came from.
    pub source: Address,
    /// The final state.
    pub state: MessageState,
    /// Outgoing messages that tell about its end.
    pub answers: Vec<OutgoingId>,
}
