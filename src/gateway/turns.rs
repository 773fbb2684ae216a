//! What the models may still be asked for in the turn of an incarnation.
//!
//! The engine says when a turn begins and what is left of the caps of its message. The gateway counts from there, so that
//! it can answer at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::model::gateway::{Allowance, Cap, OverCap, TurnBegan};
use crate::model::id::MessageId;

/// How long a request over a cap is held. An agent may begin its next turn before the engine has read that it did.
pub(super) const HELD: Duration = Duration::from_millis(500);

/// One turn. Requests count for the turn in which they came.
#[derive(Debug, Default)]
pub(super) struct Turn {
    message: Option<MessageId>,
    left: Allowance,
    tokens: AtomicU64,
    calls: AtomicU32,
}

impl Turn {
    /// Counts a call, unless a cap is reached.
    fn call(&self) -> Result<(), Cap> {
        if self.left.tokens.is_some_and(|left| self.tokens.load(Ordering::Relaxed) >= left) {
            return Err(Cap::Tokens);
        }
        let more = |calls: u32| self.left.calls.is_none_or(|left| calls < left).then(|| calls.saturating_add(1));
        self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Cap::Calls)
    }

    /// Counts what a call used.
    pub(super) fn used(&self, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }
}

/// The turns of one incarnation.
#[derive(Debug, Default)]
pub(super) struct Turns(watch::Sender<Arc<Turn>>);

impl Turns {
    pub(super) fn begin(&self, began: &TurnBegan) {
        let turn = Turn { message: Some(began.message), left: began.left, ..Turn::default() };
        self.0.send_replace(Arc::new(turn));
    }

    /// Counts a call of the current turn. Over a cap, waits a moment for the next turn.
    pub(super) async fn call(&self) -> Result<Arc<Turn>, OverCap> {
        let mut turns = self.0.subscribe();
        let held = tokio::time::sleep(HELD);
        tokio::pin!(held);
        loop {
            let turn = Arc::clone(&turns.borrow_and_update());
            let Err(cap) = turn.call() else { return Ok(turn) };
            tokio::select! {
                changed = turns.changed() => if changed.is_err() { return Err(OverCap { message: turn.message, cap }) },
                () = &mut held => return Err(OverCap { message: turn.message, cap }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::SessionId;

    fn began(message: u64, tokens: Option<u64>, calls: Option<u32>) -> TurnBegan {
        let left = Allowance { tokens, calls };
        TurnBegan { session: SessionId::new(1), incarnation: 1, message: MessageId::new(message), left }
    }

    #[tokio::test]
    async fn calls_and_tokens_of_a_turn_end_at_its_caps() {
        let turns = Turns::default();
        for _ in 0..100 {
            turns.call().await.unwrap();
        }
        turns.begin(&began(4, Some(10), Some(3)));
        let first = turns.call().await.unwrap();
        first.used(9);
        turns.call().await.unwrap();
        let third = turns.call().await.unwrap();
        let over = |cap| Some(OverCap { message: Some(MessageId::new(4)), cap });
        assert_eq!(turns.call().await.err(), over(Cap::Calls));
        third.used(1);
        assert_eq!(turns.call().await.err(), over(Cap::Tokens));
        turns.begin(&began(5, Some(0), None));
        assert_eq!(turns.call().await.unwrap_err().cap, Cap::Tokens);
        turns.begin(&began(6, None, Some(u32::MAX)));
        turns.call().await.unwrap().used(u64::MAX - 1);
        turns.call().await.unwrap();
        // The calls of earlier turns count for those.
        first.used(1_000);
        turns.call().await.unwrap();
    }

    #[tokio::test]
    async fn a_request_over_a_cap_waits_a_moment_for_the_next_turn() {
        let turns = Arc::new(Turns::default());
        turns.begin(&began(4, None, Some(0)));
        let asking = Arc::clone(&turns);
        let asked = tokio::spawn(async move { asking.call().await.map(|turn| turn.message) });
        tokio::time::sleep(HELD / 2).await;
        turns.begin(&began(5, None, Some(1)));
        assert_eq!(asked.await.unwrap(), Ok(Some(MessageId::new(5))));
    }
}
