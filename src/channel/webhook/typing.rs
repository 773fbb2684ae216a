//! Showing that an agent is at work: one request, which nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::post::{Receiver, Sent};
use super::wire;
use crate::model::address::Address;

/// Time for one of them; a late one is worth nothing.
const PATIENCE: Duration = Duration::from_secs(3);

/// Shows it once, unless the receiver does not know of signs: then `unknown` is set and it is left alone.
pub(super) fn show(unknown: &Arc<AtomicBool>, receiver: &Arc<Receiver>, at: &Address, tokio: &Handle) {
    if unknown.load(Ordering::Relaxed) {
        return;
    }
    let (unknown, receiver) = (Arc::clone(unknown), Arc::clone(receiver));
    let sign = wire::about_place("typing", at);
    tokio.spawn(async move {
        // A receiver that is busy or wants a pause is not bothered with signs.
        let Some(_turn) = receiver.turn_now() else { return };
        if let Ok(Sent::Unknown(_)) = tokio::time::timeout(PATIENCE, receiver.send(sign)).await {
            unknown.store(true, Ordering::Relaxed);
        }
    });
}
