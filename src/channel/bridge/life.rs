//! Starts a bridge's program, and starts it again when it ends.

use std::sync::Arc;

use super::Shared;
use super::session::{self, End};
use crate::channel::health::LineState;
use crate::model::time::Millis;

/// Longest time that a bridge may ask to be left alone.
const WAIT_MAX: Millis = Millis::minutes(60);

/// Runs until the channel is shut down.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut closed = shared.closed.subscribe();
    let mut tries = 0;
    while !*closed.borrow() {
        let earlier = shared.lock().why.clone();
        shared.set(LineState::Connecting, earlier, None);
        let end = session::run(&shared).await;
        shared.settle();
        let times = &shared.setup.times;
        let (line, why, wait) = match end {
            End::Closed => break,
            End::Died { why, was_well } => {
                shared.crashed(&why);
                tries = if was_well { 0 } else { tries };
                let wait = times.restart.wait(tries);
                tries = tries.saturating_add(1);
                (LineState::Down, why, wait)
            }
            End::Failed { why, after: Some(after) } => (LineState::Down, why, after.min(WAIT_MAX)),
            End::Failed { why, after: None } => (LineState::Refused, why, times.changed),
        };
        tracing::warn!(channel = %shared.setup.name, why, "the bridge does not work");
        shared.set(line, Some(why), Some((shared.setup.now)().plus(wait)));
        // Shutting down ends the wait.
        drop(tokio::time::timeout(wait.duration(), closed.wait_for(|closed| *closed)).await);
    }
    shared.settle();
}
