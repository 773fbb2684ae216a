//! EDGE: channels, the adapters to messaging networks, one module each. [`event`] checks inbound events.

use std::path::Path;
use std::sync::Arc;

use crate::model::address::{Address, UserId};
use crate::model::delivery::{Attempt, Delivery, DeliveryResult};
use crate::model::effect::{Fetch, Settled};
use crate::model::id::{MessageId, OutboundId, SessionId};
use health::{Health, LineState};

pub mod attachments;
pub mod bridge;
pub mod event;
pub mod health;
pub mod intake;
mod json;
mod kept;
pub mod split;
pub mod telegram;
pub mod terminal;
pub mod webhook;

/// Receives the outcomes of deliveries. Called from any thread, never while a channel holds a lock.
pub type Outcomes = Arc<dyn Fn(OutboundId, Attempt, DeliveryResult) + Send + Sync>;

/// A network on which agents talk to people: the contract of adapters.
///
/// An adapter is started by an `async fn start(Setup, Arc<dyn Intake>) -> Result<Arc<dyn Channel>, String>`. It returns
/// when the network can be used, or with the reason why not, worded for people; after a failure Hearth starts it again
/// after a while. The adapter passes everything to its [`Ingress`](intake::Ingress), which belongs to this adapter only:
/// an adapter speaks for its own instance.
///
/// * **Capabilities** are declared once per kind, in
///   [`capabilities`](crate::model::channel::ChannelKind::capabilities), and hold for all instances. Hearth uses only
///   what is declared: without `edits` there are no edits, without `opens_direct` a person's id is their chat, without
///   `threads` the thread of an event is ignored.
/// * **Inbound**: ids are the platform's own. The sender comes from the platform and never from the text of a message.
///   The adapter confirms a message to the platform after `inbound` succeeded. [`Later`](intake::NotTaken::Later) means
///   to try again later, [`Refused`](intake::NotTaken::Refused) never. The same message may be passed on any number of
///   times.
/// * **Nothing is cached** of chats, wirings or people: permissions are checked for each message, so that a change of
///   the configuration applies to the next one.
/// * **Files** of messages that wait for an approval stay at the network, if it keeps them: the adapter first asks how
///   the message would be routed ([`rehearsed`](intake::Ingress::rehearsed)).
/// * **Calls return at once**, from any thread, and their return is not a result: work continues in tasks.
/// * **Secrets** are in no log, error or outcome, nor are addresses that may contain one.
/// * **Links** are shown without previews unless the channel's `link_previews` is set. For a preview the network
///   fetches the link's target, so that an agent could send data to any server with a link that no person opens. An
///   adapter turns previews off with every call that can create one, edits included. One that cannot says so in its
///   documentation.
/// * **Bounds**: everything that comes from the network, in either direction, has a limit in bytes and in time.
pub trait Channel: Send + Sync {
    /// Delivers a message and reports its outcome once, within the time limit of an attempt
    /// ([`attempt_max`](crate::model::policy::Policy)). After that time the outcome counts as unknown and the message
    /// is repeated.
    ///
    /// The outcome claims no more than is certain: [`Retry`](DeliveryResult::Retry) only if nothing was sent,
    /// [`Uncertain`](DeliveryResult::Uncertain) if it may have been. `on_uncertain` declares what happens next: with
    /// `SendAgain` the delivery's id is a key by which the platform detects a repeat; with `SendAgainMarked` the repeat
    /// has `repeated` set, and people have to see that. Deliveries to one address are sent one after the other. If a
    /// delivery is requested again while it is in progress, it is not sent twice, and the outcome is reported for the
    /// newest attempt.
    ///
    /// * `Say`: the text in as many parts as the platform needs, files with the first. A file that cannot be sent is
    ///   mentioned to the recipients and does not affect the text or the other files. The id reported is that of the
    ///   first part.
    /// * `Ask`: a card. With `choice` of `Buttons` each option is a button that sends `Card::button`; with `Numbers`
    ///   title, body and options are text, numbered from 1, and the answer is an ordinary message. Body and labels are
    ///   plain text, whatever they contain.
    /// * `Edit`: the new text replaces the old one, and buttons are removed. If the message already looks like that,
    ///   the edit is done.
    /// * `React`: the text is an emoji. A platform that does not have it rejects the delivery.
    fn deliver(&self, delivery: Delivery);

    /// A message that was received through this channel is finished.
    fn settled(&self, _settled: Settled) {}

    /// Fetches files that this channel reported as [remote](crate::model::content::FileBytes::Remote), stores them, and
    /// reports them with [`fetched`](intake::Ingress::fetched). Temporary failures are not reported: Hearth asks again.
    /// Files that are already being fetched are not fetched twice.
    fn fetch(&self, _fetch: Fetch) {}

    /// Opens a direct message with a person and reports its address. Only called for channels with `opens_direct`.
    fn open_direct(&self, _user: UserId) {}

    /// Asks for every message of a thread from now on. Repeated calls change nothing.
    fn subscribe(&self, _thread: &Address) {}

    /// Address that opens a direct message with the bot and sends it `/start PAYLOAD`, if the network has such addresses
    /// and the bot's name is known.
    fn start_link(&self, _payload: &str) -> Option<String> {
        None
    }

    /// State of the connection to the service.
    fn health(&self) -> Health {
        Health::of(LineState::Up)
    }

    /// Stops polling the platform, if the channel polls; deliveries continue. Messages that still arrive are answered
    /// with [`Later`](intake::NotTaken::Later) by the intake.
    fn stop_taking(&self) {}

    /// Passes on nothing more, and closes connections and listening sockets, so that another instance can use them. The
    /// next instance passes on everything that was not confirmed. Deliveries in progress may finish.
    fn shut_down(&self) {}

    /// Shows once that a session's agent is working; platforms show it for a few seconds. The caller decides how often
    /// to repeat it. Best effort: nothing waits for it, and an indicator that cannot be sent at once is dropped.
    fn typing(&self, _session: SessionId, _at: &Address) {}

    /// Whether it can show a text that is not complete at an address, in place of [`Self::typing`].
    fn shows_drafts(&self, _at: &Address) -> bool {
        false
    }

    /// Shows what an agent has written so far in answer to a message. Best effort, like [`Self::typing`]; the complete text
    /// comes as a delivery.
    fn draft(&self, _at: &Address, _draft: Draft<'_>) {}

    /// Says which tool a session's agent uses now; none between two tools. Best effort, like [`Self::typing`].
    fn tool(&self, _at: &Address, _tool: Option<&str>) {}
}

/// A text that an agent is writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draft<'a> {
    /// The message that it answers.
    pub answers: MessageId,
    /// What was written so far, or the end of it.
    pub text: &'a str,
}

/// Logs why a file of a message cannot be read. Returns the text for the chat, which names no cause of the system.
fn unreadable(path: &Path, error: &std::io::Error) -> String {
    tracing::warn!(path = %path.display(), %error, "a file of a message cannot be read");
    "it cannot be read".to_owned()
}
