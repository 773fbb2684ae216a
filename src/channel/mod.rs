//! EDGE: where messages come from and go to. One file per network; what comes in is checked in [`event`].

use std::sync::Arc;

use crate::model::address::{Address, UserId};
use crate::model::delivery::{Attempt, Delivery, DeliveryResult};
use crate::model::effect::Settled;
use crate::model::id::{OutboundId, SessionId};

pub mod attachments;
pub mod event;
mod http;
pub mod intake;
mod json;
pub mod split;
pub mod telegram;
pub mod terminal;
pub mod webhook;

/// Who is told what became of deliveries. Called from any thread, never while a channel holds a lock.
pub type Outcomes = Arc<dyn Fn(OutboundId, Attempt, DeliveryResult) + Send + Sync>;

/// A network on which agents talk to people: the contract of adapters.
///
/// An adapter is made by an `async fn start(Setup, Arc<dyn Intake>) -> Result<Arc<dyn Channel>, String>`, which ends when the
/// network can be used, or with why it cannot, for people; it is started again after a while then. What it hands over goes
/// to its [`Intake`](intake::Intake), which tells it apart from every other: an adapter speaks for its own instance only.
///
/// * **Capabilities** are declared once per kind, in [`capabilities`](crate::model::channel::ChannelKind::capabilities), and
///   hold for all instances. What is declared is asked for and nothing else: without `edits` nobody edits, without
///   `opens_direct` a person's id is their chat, without `threads` a thread that an event names is ignored.
/// * **Inbound**: ids as the platform gives them, the sender's from the platform and never from what somebody wrote. A message
///   is confirmed to the platform after `inbound` ended well. [`Later`](intake::NotTaken::Later) means the same again later,
///   [`Refused`](intake::NotTaken::Refused) never. The same message may be handed over any number of times.
/// * **Nothing is cached** of chats, wirings or people: who may talk to whom is decided for each message, so that a change of
///   the configuration acts on the next one.
/// * **Calls return at once**, from any thread, and are never an answer by themselves: work goes on in tasks.
/// * **Secrets** are in no log, error or outcome, nor are addresses that may have one in them.
/// * **Bounds**: whatever comes from the network, in either direction, has a limit in bytes and in time.
pub trait Channel: Send + Sync {
    /// Delivers a message, and reports its outcome once, within the time the engine grants an attempt
    /// ([`attempt_max`](crate::model::policy::Policy)); later it counts as unknown and the message comes again.
    ///
    /// The outcome says what is known and not more: [`Retry`](DeliveryResult::Retry) only if nothing went out,
    /// [`Uncertain`](DeliveryResult::Uncertain) if it may have. What happens then is declared as `on_uncertain`: with
    /// `SendAgain` the id of the delivery is a key by which the platform knows a repetition; with `SendAgainMarked` it comes
    /// with `repeated`, and people have to see that. Those of one address come one after the other. A delivery that is asked
    /// for again while it is under way is not made twice: its outcome is that of the newest attempt.
    ///
    /// * `Say`: the text in as many parts as the platform needs, files with the first; one that cannot be sent is told of, and
    ///   takes neither the text nor the others with it. The id reported is that of the first part.
    /// * `Ask`: a card. With `choice` of `Buttons` each option is a button that says `Card::button`; with `Numbers` title, body
    ///   and options are text, numbered from 1, and the answer is an ordinary message. Body and labels are plain text,
    ///   whatever they contain.
    /// * `Edit`: the new text replaces the old one, and buttons go. A message that is like that already is done.
    /// * `React`: the text is an emoji. A platform that has not got it rejects.
    fn deliver(&self, delivery: Delivery);

    /// A message that came through this channel came to its end.
    fn settled(&self, _settled: Settled) {}

    /// Opens a direct message with somebody and reports where it is; only channels that open them are asked.
    fn open_direct(&self, _user: UserId) {}

    /// Every message of a thread is wanted from now on; asked again it changes nothing.
    fn subscribe(&self, _thread: &Address) {}

    /// Why the channel does not work at the moment, although it is connected.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Asks the platform for nothing new any more, where it is asked; deliveries go on. What comes all the same is answered
    /// with [`Later`](intake::NotTaken::Later) by whom it is handed over to.
    fn stop_taking(&self) {}

    /// Hands nothing over any more and lets its connections and addresses go, so that another one can take them. What was not
    /// answered is handed over by the next one; deliveries under way may end.
    fn shut_down(&self) {}

    /// Shows once, for the few seconds that platforms show it, that a session's agent is at work. Whoever calls decides how
    /// long it goes on. Best effort: nothing waits for it, and a sign that cannot be given at once is not given.
    fn typing(&self, _session: SessionId, _at: &Address) {}
}
