//! Retries calls to Podman until it answers.

use super::error::Fault;
use crate::model::backoff::Backoff;
use crate::model::time::Millis;

/// Pauses before retries.
const PAUSES: Backoff = Backoff::new(Millis::new(50), Millis::seconds(2));
/// A warning is logged after this many unanswered tries.
const WARN_EVERY: u32 = 16;

/// Growing pauses between retries.
#[derive(Default)]
pub(super) struct Pauses(u32);

impl Pauses {
    pub(super) async fn pause(&mut self) {
        let pause = PAUSES.wait(self.0);
        self.0 += 1;
        tokio::time::sleep(pause.duration()).await;
    }
}

/// Repeats a query until it succeeds. A rejected query counts as unanswered.
pub(super) async fn insist<T, F: Future<Output = Result<T, Fault>>>(what: &str, attempt: impl Fn() -> F) -> T {
    let mut pauses = Pauses::default();
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(error) => {
                pauses.pause().await;
                if pauses.0.is_multiple_of(WARN_EVERY) {
                    tracing::warn!(what, %error, tries = pauses.0, "Podman does not answer, retrying");
                }
            }
        }
    }
}
