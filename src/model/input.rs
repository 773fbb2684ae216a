//! Everything that can happen to Hearth.

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::card::{Button, Matter};
use super::configure::Configure;
use super::content::{Attachment, Content};
use super::delivery::{Attempt, DeliveryResult};
use super::entity::Packages;
use super::group::GroupInput;
use super::id::{AgentId, OutboundId, SessionId};
use super::incarnation::Exit;
use super::mailbox::{Collection, Observation};
use super::message::MessageKind;
use super::task::TaskCommand;
use super::time::{Millis, Timestamp};
use super::workspace::WorkspaceInput;

/// One input, one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The daemon started: nothing of an earlier run is running as far as anybody knows.
    Start,
    /// A platform has a message.
    Inbound(Box<InboundEvent>),
    /// Agents wrote something.
    Collected(Collection),
    /// The runtime says what became of an incarnation.
    Runtime(RuntimeEvent),
    /// The image of an agent was built with these packages, or could not be.
    Built(AgentId, Packages, Result<(), String>),
    /// A channel says what became of an attempt to deliver.
    Delivered(OutboundId, Attempt, DeliveryResult),
    /// Somebody is there to take what waits for an address, or a whole channel came up.
    Reachable(ChannelName, Option<Address>),
    /// Somebody pressed a button.
    Pressed(Press),
    /// The operator decides by command: the value of an option.
    Decide(Matter, String),
    /// A channel opened a direct message with somebody, or could not.
    DirectOpened(UserId, Result<ForeignId, String>),
    /// Time passed: look at what is due.
    Sweep(Vec<Observation>),
    /// Something happened to the clocks of the machine.
    Clock(ClockChange),
    /// An operator wants something done with tasks.
    Task(TaskCommand),
    /// Something happens to workspaces and their sessions.
    Workspace(Box<WorkspaceInput>),
    /// An operator wants the entities to be like this.
    Configure(Configure),
    /// Something happened to the files of an agent group.
    Group(AgentId, GroupInput),
    /// The rest of work that was too large for one transaction.
    Continue(Continuation),
}

/// What happened to the clocks of the machine that time itself does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockChange {
    /// The wall clock was set back by so much.
    SetBack(Millis),
    /// The machine is in another zone now; it was in the one of this name.
    Zone(String),
}

/// What is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// Drop the messages that wait for a removed agent.
    DropMessagesOf(AgentId),
    /// Remove the rows of a workspace session that goes for good.
    PurgeSession(SessionId),
    /// Complete context that is beyond the cap and older than this message of the session.
    CapContext(SessionId, u64),
}

/// A message as a channel hands it over, checked and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundEvent {
    /// Chat and thread it was said in.
    pub source: Address,
    /// The platform's id; none is never a duplicate.
    pub platform_message: Option<ForeignId>,
    /// What kind of message.
    pub kind: MessageKind,
    /// What it says.
    pub content: Content,
    /// When it was said; none when the platform does not tell: then it is now.
    pub said: Option<Timestamp>,
    /// The platform says that the bot was addressed, or it is a direct message.
    pub mention: bool,
    /// The platform says that the chat is a group; a known chat becomes one, and never stops being one.
    pub group: bool,
    /// Where the answer goes, if not where it was said.
    pub reply_to: Option<Address>,
    /// Whether the adapter's chats have threads with conversations of their own; none when nobody says, and then the
    /// channel's kind does.
    pub threads: Option<bool>,
    /// How the platform calls the chat.
    pub chat_name: Option<String>,
    /// Files that came with it, their bytes stored already.
    pub attachments: Vec<Attachment>,
}

/// A button that was pressed, as the platform says: nothing the presser chose but the button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Press {
    /// Who, by the adapter's id in the channel's namespace.
    pub by: UserId,
    /// Chat in which the card is.
    pub at: Address,
    /// What the button said.
    pub button: Button,
}

/// What the runtime says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// The incarnation runs.
    Running(SessionId, u32),
    /// The incarnation runs from another image than one that is started now.
    Outdated(SessionId, u32),
    /// The incarnation is gone with all its processes.
    Gone {
        /// Session.
        session: SessionId,
        /// Which.
        incarnation: u32,
        /// How.
        exit: Exit,
        /// Last lines of its standard error.
        stderr_tail: String,
    },
}
