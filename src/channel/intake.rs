//! The interface that adapters call. The daemon implements it; adapters know nothing of the engine.

use std::pin::Pin;

use crate::model::address::{ForeignId, UserId};
use crate::model::channel::{Capabilities, Cursor};
use crate::model::content::{Attachment, BlobId};
use crate::model::delivery::{Attempt, DeliveryResult};
use crate::model::id::{BodyId, OutboundId};
use crate::model::input::{InboundEvent, Press};
use crate::model::report::RouteReport;

/// An asynchronous result.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why something was not accepted. Nothing of it is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Hearth is overloaded, has no room, or is stopping. The caller may try again later.
    #[error("not now: {0}")]
    Later(String),
    /// It will never be accepted.
    #[error("{0}")]
    Refused(String),
}

/// Result of a pressed button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressed {
    /// Whether the press decided something.
    pub decided: bool,
    /// Message for the person who pressed it.
    pub text: String,
}

/// Receives an adapter's input from its network.
pub trait Ingress: Send + Sync {
    /// Receives a message. Completes when the message is committed and synced: only then may the adapter confirm it to
    /// the platform.
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>>;

    /// Predicts how a message would be routed, without storing anything. The caller still has to pass it to
    /// [`Ingress::inbound`].
    fn rehearsed(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>>;

    /// How far a bridge had read when it last said so; empty for other channels.
    fn cursors(&self) -> Vec<Cursor> {
        Vec::new()
    }

    /// Stores how far a bridge has read. Completes as for a message.
    fn store_cursors(&self, _cursors: Vec<Cursor>) -> Pending<'_, Result<(), NotTaken>> {
        Box::pin(async { Err(NotTaken::Refused("only bridges have cursors".to_owned())) })
    }

    /// Stores what a bridge is and can do. Messages that arrive later are treated accordingly.
    fn bridge_ready(&self, _program: String, _can: Capabilities) {}

    /// Receives a pressed button. Completes as for a message.
    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>>;

    /// Stores the bytes of an attachment, before the message that refers to them is passed on. Without such a message
    /// they are deleted after an hour. A message that is passed on again after [`NotTaken::Later`] has to store them
    /// again. The inner error says why this file can never be stored; [`NotTaken::Later`] means that there is no room
    /// now.
    fn keep(&self, bytes: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>>;

    /// Receives files that Hearth requested: all files of the body under their original names. Those that were remote
    /// are now stored, or have the reason why they never will be. Completes as for a message.
    fn fetched(&self, body: BodyId, files: Vec<Attachment>) -> Pending<'_, Result<(), NotTaken>>;

    /// Reports the outcome of an attempt. Called once for each attempt, or once for the newest of attempts that were
    /// merged (see [`deliver`](super::Channel::deliver)).
    fn outcome(&self, delivery: OutboundId, attempt: Attempt, result: DeliveryResult);

    /// Reports the address of a person's direct messages, or why there is none.
    fn direct_opened(&self, user: UserId, chat: Result<ForeignId, String>);

    /// The channel is connected: queued messages can be sent.
    fn reachable(&self);
}
