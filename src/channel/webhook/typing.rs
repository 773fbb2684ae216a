//! Sends the typing indicator: one request, without waiting for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::post::{Receiver, Sent};
use super::wire;
use crate::model::address::Address;

/// Timeout of the request; a late indicator is worthless.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sends it once, unless the receiver does not support it. In that case `unknown` is set, and no more are sent.
pub(super) fn show(unknown: &Arc<AtomicBool>, receiver: &Arc<Receiver>, at: &Address, tokio: &Handle) {
    if unknown.load(Ordering::Relaxed) {
        return;
    }
    let (unknown, receiver) = (Arc::clone(unknown), Arc::clone(receiver));
    let sign = wire::about_place("typing", at);
    tokio.spawn(async move {
        // Do not bother a busy or pausing receiver with indicators.
        let Some(_turn) = receiver.turn_now() else { return };
        if let Ok(Sent::Unknown(_)) = tokio::time::timeout(PATIENCE, receiver.send(sign)).await {
            unknown.store(true, Ordering::Relaxed);
        }
    });
}
