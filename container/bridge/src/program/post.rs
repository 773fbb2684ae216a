//! Deliveries of a bridge: one after the other, each with an outcome, and what was delivered is remembered first.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::state::{Side, State};
use super::{Delivered, FrameWriter, now};
use crate::{Attempted, Deliver, DeliverAct, FromBridge, Outcome, Sent};

/// How long a delivery may wait for others.
const PATIENCE: Duration = Duration::from_secs(20);
/// Seconds after which a delivery that waited for others too long is wanted again.
const LATE_AGAIN: u64 = 1;

/// A delivery, and when it came.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) deliver: Deliver,
    pub(super) came: Duration,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub result: Sent,
    /// The network's ids of the messages, with spaces between them.
    pub message: Option<String>,
    /// Why it did not succeed.
    pub why: Option<String>,
    /// Seconds for which nothing should be sent there.
    pub after: Option<u64>,
}

impl End {
    /// The network has it.
    #[must_use]
    pub const fn delivered(message: String) -> Self {
        Self { result: Sent::Delivered, message: Some(message), why: None, after: None }
    }

    /// It did not succeed.
    pub fn not(result: Sent, why: impl ToString) -> Self {
        Self { result, message: None, why: Some(why.to_string()), after: None }
    }
}

/// The deliveries of one thread.
#[derive(Debug)]
pub struct Post {
    pub(super) writer: FrameWriter,
    pub(super) jobs: Receiver<Job>,
    /// Jobs that have no outcome yet.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) delivered: Arc<Mutex<Delivered>>,
    pub(super) files: PathBuf,
    pub(super) state: State,
}

impl Post {
    /// Delivers until the main loop ends. `deliver` returns the network's ids of the messages.
    pub fn work(&self, mut deliver: impl FnMut(&Deliver) -> Result<String, End>) {
        while let Ok(job) = self.jobs.recv() {
            if self.carry_out(&job, &mut deliver).is_err() {
                // The daemon is gone.
                return;
            }
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Something of a delivery may leave from here on.
    ///
    /// # Errors
    /// If the daemon is gone.
    pub fn begin(&self, deliver: &Deliver) -> Result<(), End> {
        let begun = Attempted { id: deliver.id.clone(), attempt: deliver.attempt };
        self.writer.send(&FromBridge::Begun { begun }).map_err(|error| End::not(Sent::Retry, error))
    }

    /// The network's id of something that was sent under a key.
    #[must_use]
    pub fn known(&self, key: &str) -> Option<String> {
        self.delivered().get(key).map(str::to_owned)
    }

    /// Remembers what was sent under a key.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn remember(&self, key: &str, message: &str) -> io::Result<()> {
        self.delivered().add(key, message)
    }

    /// The path of a file of the daemon.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        inside(&self.files, name)
    }

    fn delivered(&self) -> MutexGuard<'_, Delivered> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(
        &self,
        Job { deliver, came }: &Job,
        send: &mut impl FnMut(&Deliver) -> Result<String, End>,
    ) -> io::Result<()> {
        let end = match self.known(&deliver.id) {
            Some(message) => End::delivered(message),
            // The daemon would have given up on it before its outcome.
            None if now().saturating_sub(*came) > PATIENCE => {
                let why = "the server is slow, and earlier messages had to wait for it";
                End { after: Some(LATE_AGAIN), ..End::not(Sent::Retry, why) }
            }
            None => match send(deliver) {
                Ok(message) => {
                    self.state.works(Side::Outbox);
                    // Known before the daemon hears of it.
                    self.remember(&deliver.id, &message)?;
                    End::delivered(message)
                }
                Err(end) => {
                    if matches!(end.result, Sent::Retry | Sent::Uncertain) {
                        self.state.fails(Side::Outbox, end.why.clone().unwrap_or_default());
                    }
                    end
                }
            },
        };
        for path in deliver.files.iter().filter_map(|file| self.path(file.path.as_deref()?)) {
            // It may be gone.
            drop(std::fs::remove_file(path));
        }
        let (id, attempt) = (deliver.id.clone(), deliver.attempt);
        let End { result, message, why, after } = end;
        let outcome = Outcome { id, attempt, result, message_id: message, why, after };
        self.writer.send(&FromBridge::Outcome { outcome })
    }
}

/// The path of a file in the directory for files. Hearth names files, and never paths.
fn inside(directory: &Path, name: &str) -> Option<PathBuf> {
    (!name.is_empty() && name != "." && name != ".." && !name.contains('/')).then(|| directory.join(name))
}

/// The text of a delivery; a card has numbers before its options.
///
/// # Errors
/// If the card is missing.
pub fn shown(deliver: &Deliver) -> Result<String, End> {
    match (deliver.act, &deliver.card) {
        (DeliverAct::Ask, Some(card)) => {
            let mut text = format!("{}\n\n{}\n", card.title, card.body);
            for (number, option) in card.options.iter().enumerate() {
                text.push_str(&format!("\n{}. {}", number + 1, option.label));
            }
            Ok(text)
        }
        (DeliverAct::Ask, None) => Err(End::not(Sent::Rejected, "the card is missing")),
        (DeliverAct::Say | DeliverAct::Edit | DeliverAct::React, _) => Ok(deliver.text.clone()),
    }
}
