//! Inputs of the engine. Each one is handled in its own transaction.

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::card::{Button, PromptSubject};
use super::channel::{Capabilities, Cursor};
use super::configure::Configure;
use super::console::ConsoleInput;
use super::console_command::ConsoleCommand;
use super::content::{Attachment, Content};
use super::delivery::{Attempt, DeliveryResult};
use super::entity::Packages;
use super::gateway::ModelCall;
use super::group::GroupInput;
use super::id::{AgentId, ApprovalId, BodyId, ConsoleSessionId, OutboundId, SessionId};
use super::incarnation::Exit;
use super::mailbox::{Collection, Observation};
use super::message::MessageKind;
use super::network::{ConnectionSeen, HostWanted};
use super::task_command::TaskCommand;
use super::time::{Millis, Timestamp};
use super::voice::{Made, Transcript};
use super::workspace_command::WorkspaceInput;

/// One input, one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The daemon started. Nothing from an earlier run is assumed to be running.
    Start,
    /// A platform has a message.
    Inbound(Box<InboundEvent>),
    /// A platform has a message with a code for pairing.
    PairingCode(Box<InboundEvent>, PairingCodeUse),
    /// A platform has a message that begins with the command to sign in to the console, or has a code for it.
    LoginCode(Box<InboundEvent>, LoginCodeUse),
    /// Agents wrote something.
    Collected(Collection),
    /// The gateway passed on an agent's request to a model, and it has ended.
    ModelCall(ModelCall),
    /// An agent wants to reach a host that no rule names.
    HostWanted(HostWanted),
    /// Connections of agents have ended, or were refused.
    Connections(Vec<ConnectionSeen>),
    /// The runtime reports the state of an incarnation.
    Runtime(RuntimeEvent),
    /// The image of an agent was built with these packages, or could not be.
    Built(AgentId, Packages, Result<(), String>),
    /// A channel reports the outcome of a delivery attempt.
    Delivered(OutboundId, Attempt, DeliveryResult),
    /// A channel fetched the files of a body: all of the body's files, each stored or with the reason why it never will
    /// be.
    Fetched(BodyId, Vec<Attachment>),
    /// Audio files of a body were transcribed, or have the reason why not.
    Transcribed(BodyId, Vec<Transcript>),
    /// An answer was spoken, or cannot be.
    Spoken(Spoken),
    /// The recipient at an address is reachable now; without an address, the whole channel is.
    Reachable(ChannelName, Option<Address>),
    /// A channel has not been connected for a while, and why; none if it is connected again.
    ChannelState(ChannelName, Option<String>),
    /// What the bridge of a channel is and can do.
    BridgeReady(ChannelName, String, Capabilities),
    /// How far the bridge of a channel has read, without a message.
    BridgeCursors(ChannelName, Vec<Cursor>),
    /// A person pressed a button on a card.
    Pressed(Press),
    /// The operator decides by command: the value of an option.
    Decide(PromptSubject, String),
    /// The person of a console session decides: the value of an option.
    DecideAs(ConsoleSessionId, PromptSubject, String),
    /// The person of a console session gives a command.
    CommandAs(ConsoleSessionId, Box<ConsoleCommand>),
    /// Something happened to a session of the console.
    Console(ConsoleInput),
    /// A channel opened a direct message with a user, or could not.
    DirectOpened(UserId, Result<ForeignId, String>),
    /// Time passed: process everything that is due.
    Sweep(Vec<Observation>),
    /// The machine's wall clock or time zone changed.
    Clock(ClockChange),
    /// An operator's command about scheduled tasks.
    Task(TaskCommand),
    /// A change to workspaces or their sessions.
    Workspace(Box<WorkspaceInput>),
    /// A configuration change by an operator.
    Configure(Configure),
    /// The files of an agent group changed.
    Group(AgentId, GroupInput),
    /// The rest of a job that was too large for one transaction.
    Continue(Continuation),
}

/// The audio of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    /// The outgoing message whose text was spoken.
    pub answer: OutboundId,
    /// The name of the audio among the kept files of the answer's session, or why there is none.
    pub audio: Result<String, String>,
    /// What made it.
    pub by: Made,
}

/// The effect of a pairing code that arrived in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingCodeUse {
    /// It named its sender. The operator decides about them at the terminal.
    Accepted,
    /// Others may have read it, so it is void.
    Exposed,
    /// It was void before.
    Void,
}

/// The effect of a code for signing in that arrived in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginCodeUse {
    /// Its browser may sign in as the sender.
    Accepted {
        /// What the browser calls itself.
        browser: String,
    },
    /// No browser shows this code.
    Wrong,
    /// The sender sent too many wrong ones.
    TooMany,
    /// The command works only in a direct message, on a network that proves who a sender is.
    NotHere,
    /// Others may have read the code, so it is void.
    Exposed,
}

/// Clock changes that the current time alone does not reveal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockChange {
    /// The wall clock was set back by this much.
    SetBack(Millis),
    /// The machine's time zone changed; this is the name of the previous one.
    Zone(String),
}

/// A job that continues in a further transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// Drop the messages that wait for a removed agent.
    DropMessagesOf(AgentId),
    /// Remove the rows of a workspace session that is purged.
    PurgeSession(SessionId),
    /// Complete context messages that exceed the cap and are older than this message of the session.
    CapContext(SessionId, u64),
    /// Drop the messages that wait for the budget of this rejected approval, from this position of the session on.
    DropWaiting(ApprovalId, SessionId, u64),
    /// Re-evaluate more open approvals after a configuration change or a decision.
    Reconsider,
    /// Index more of what was said before the store had an index for searches.
    IndexTexts,
}

/// An incoming message from a channel, validated and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundEvent {
    /// Chat and thread it came from.
    pub source: Address,
    /// The platform's id. An event without one is never treated as a duplicate.
    pub platform_message: Option<ForeignId>,
    /// What kind of message.
    pub kind: MessageKind,
    /// What the sender wrote.
    pub content: Content,
    /// When it was sent. None if the platform does not say; the current time is used then.
    pub said: Option<Timestamp>,
    /// Whether the platform reports that the bot was addressed, or it is a direct message.
    pub mention: bool,
    /// Whether the platform reports that the chat is a group. A known chat can become a group and stays one.
    pub group: bool,
    /// Where the answer goes, if not to the source.
    pub reply_to: Option<Address>,
    /// Whether the adapter's chats have threads with conversations of their own. If the adapter does not say, the
    /// channel's kind decides.
    pub threads: Option<bool>,
    /// The platform's name for the chat.
    pub chat_name: Option<String>,
    /// How far its channel has read its network, stored together with the message.
    pub cursors: Vec<Cursor>,
    /// Files that came with it: their bytes are stored already, or the network keeps them.
    pub attachments: Vec<Attachment>,
}

/// A button press as the platform reports it. The presser controls nothing but the choice of the button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Press {
    /// Who, by the adapter's id in the channel's namespace.
    pub by: UserId,
    /// Chat in which the card is.
    pub at: Address,
    /// The button's payload.
    pub button: Button,
}

/// Reports from the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// The incarnation runs.
    Running(SessionId, u32),
    /// The incarnation runs from an outdated image: a new one would start from another image.
    Outdated(SessionId, u32),
    /// The incarnation is gone with all its processes.
    Gone {
        /// The session of the run.
        session: SessionId,
        /// Number of the run.
        incarnation: u32,
        /// How the process ended.
        exit: Exit,
        /// Last lines of its standard error.
        stderr_tail: String,
    },
}
