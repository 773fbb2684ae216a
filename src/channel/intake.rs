//! What a channel hands to Hearth. The daemon implements it; adapters hold it and know nothing of the engine.

use std::pin::Pin;

use crate::model::address::{ForeignId, UserId};
use crate::model::content::BlobId;
use crate::model::delivery::{Attempt, DeliveryResult};
use crate::model::id::OutboundId;
use crate::model::input::{InboundEvent, Press};
use crate::model::report::RouteReport;

/// Work that ends later.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why something was not taken in. Nothing of it is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Hearth has too much to do, no room, or is stopping: the same thing may be handed over again later.
    #[error("not now: {0}")]
    Later(String),
    /// It will never be taken like this.
    #[error("{0}")]
    Refused(String),
}

/// What became of a pressed button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressed {
    /// Whether it decided something.
    pub decided: bool,
    /// What to tell whoever pressed it.
    pub text: String,
}

/// Where adapters hand over what happens on their network.
pub trait Intake: Send + Sync {
    /// Takes in a message. Ends when it is committed and synced: only then may the platform be told that it was received.
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>>;

    /// What would become of a message. Nothing of it is stored: whoever asks still has to hand it over.
    fn rehearsed(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>>;

    /// Takes in a pressed button; ends as for a message.
    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>>;

    /// Puts the bytes of an attachment into the store of files, before the message that names them is handed over. They
    /// stay there for an hour without it; a message that is handed over again after [`NotTaken::Later`] puts them anew. The
    /// inner error says why this file can never be had; [`NotTaken::Later`] that there is no room now.
    fn keep(&self, bytes: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>>;

    /// What became of an attempt; once for each, or once for the newest of those that are one (see
    /// [`deliver`](super::Channel::deliver)).
    fn outcome(&self, delivery: OutboundId, attempt: Attempt, result: DeliveryResult);

    /// Where somebody is reached directly, or why not.
    fn direct_opened(&self, user: UserId, chat: Result<ForeignId, String>);

    /// The channel came up: what waits for it can go out.
    fn reachable(&self);
}
