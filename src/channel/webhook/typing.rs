//! Showing that an agent is at work: said again every few seconds, because nobody can promise to say that it is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::super::signs::{AGAIN, SIGNS_MAX, Signs};
use super::post::{Receiver, Sent};
use super::wire;
use crate::model::address::Address;

/// Time for one of them; a late one is worth nothing.
const PATIENCE: Duration = Duration::from_secs(4);

/// Shows it from now on; where it is shown already, its time begins anew.
pub(super) fn show(signs: &Signs, receiver: &Arc<Receiver>, at: &Address, tokio: &Handle) {
    let (receiver, place) = (Arc::clone(receiver), at.clone());
    let task = tokio.spawn(async move {
        for _ in 0..SIGNS_MAX {
            // A receiver that is busy or wants a pause is not bothered with signs.
            if let Some(_turn) = receiver.turn_now() {
                let sign = receiver.send(wire::about_place("typing", &place));
                if let Ok(Sent::Unknown(_) | Sent::Refused(_)) = tokio::time::timeout(PATIENCE, sign).await {
                    return;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    });
    signs.show(at, task.abort_handle());
}
