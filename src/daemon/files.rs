//! The store of files beside the engine: what comes with messages goes in before they do, and what nobody needs any more
//! goes.
//!
//! What is to be removed is found in the tables. A walk at the start, and then every hour, finds what an effect that was
//! lost would have removed, and what was put for a message that was never taken in.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Error;
use super::inbox::Heard;
use super::mailroom::{Job, Mailroom};
use super::stop::Stop;
use crate::clock;
use crate::config::Paths;
use crate::engine::commit::Engine;
use crate::engine::retention;
use crate::mailbox::{Blobs, Mailboxes, SHARDS};
use crate::model::content::BlobId;
use crate::model::id::SessionId;
use crate::model::input::Input;
use crate::model::report::{Outcome, Reply};
use crate::model::time::Timestamp;
use crate::state::{self, Admission, Store, Text};

/// Time between walks over the store of files.
const WALK: Duration = Duration::from_secs(60 * 60);
/// Walks between looks at everything that was sent.
const WALKS_PER_LOOK: u64 = 24;
/// Pause after each step of a walk, so that it is in nobody's way.
const PAUSE: Duration = Duration::from_millis(2);

/// Why an event has to come again later: there is no room for its files now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoRoom(String);

/// The store of files.
#[derive(Debug, Clone)]
pub struct Files {
    blobs: Arc<Blobs>,
}

impl Files {
    /// Opens the store of files of a data directory.
    ///
    /// # Errors
    /// [`Error::Mailbox`] if it cannot be opened.
    pub fn open(paths: &Paths) -> Result<Self, Error> {
        Ok(Self { blobs: Arc::new(Blobs::open(&paths.files())?) })
    }

    /// Puts a file in, if there is room for it beside what the store needs. The inner error says why this file can never
    /// be had.
    ///
    /// # Errors
    /// [`NoRoom`]: later there may be some.
    pub fn keep(&self, store: &Store, bytes: &[u8]) -> Result<Result<BlobId, String>, NoRoom> {
        let size = bytes.len() as u64;
        let usage = store.usage().map_err(|error| NoRoom(error.to_string()))?;
        if let Admission::Refuse(why) = usage.admission() {
            return Err(NoRoom(why.to_string()));
        }
        if usage.free < usage.needed.saturating_add(size) {
            let (free, needed) = (usage.free, usage.needed);
            let why = format!("the disk has {free} bytes left, of which {needed} stay free, and a file has {size}");
            return Err(NoRoom(format!("{why}: make room on the disk")));
        }
        match self.blobs.put(bytes) {
            Ok(blob) => Ok(Ok(blob)),
            Err(error) if error.is_full() => Err(NoRoom(format!("{error}: the disk is full; make room on it"))),
            Err(error @ crate::mailbox::Error::FileTooLarge { .. }) => Ok(Err(error.to_string())),
            Err(error) => {
                tracing::warn!(%error, "a file could not be stored");
                Ok(Err("it could not be stored".to_owned()))
            }
        }
    }

    /// For mailboxes.
    pub(super) fn blobs(&self) -> Arc<Blobs> {
        Arc::clone(&self.blobs)
    }

    /// What became of the message that files were put for is known.
    pub(super) fn settle(&self, blobs: &[BlobId]) {
        self.blobs.settle(blobs);
    }

    /// Removes a file of a message that was refused.
    fn take_back(&self, store: &Store, blob: &BlobId) -> Result<bool, Error> {
        Ok(self.blobs.take_back::<state::Error>(blob, || is_needed(store, blob))??)
    }

    /// Removes a file if no message needs it; whether it is gone.
    fn remove_unneeded(&self, store: &Store, blob: &BlobId, now: Timestamp) -> Result<bool, Error> {
        Ok(self.blobs.remove::<state::Error>(blob, now, || is_needed(store, blob))??)
    }
}

/// What becomes of the files of messages that are handed over.
#[derive(Clone)]
pub(super) struct Fates {
    files: Files,
    removals: Removals,
}

impl Fates {
    /// Settles what is in `files`.
    pub(super) fn new(files: &Files, removals: &Removals) -> Self {
        Self { files: files.clone(), removals: removals.clone() }
    }

    /// The store of files.
    pub(super) const fn files(&self) -> &Files {
        &self.files
    }

    /// Files of an event whose fate is decided: those of a refused one go at once. Whoever is to come again later is not
    /// refused.
    pub(super) fn settle(&self, files: Vec<BlobId>, heard: &Heard) {
        let Ok(Reply::Routed(report)) = heard else { return };
        if files.is_empty() || report.outcome == Outcome::Duplicate {
            return;
        }
        self.files.settle(&files);
        if report.outcome == Outcome::Dropped {
            self.removals.refuse(files);
        }
    }
}

/// Files of the store of files that an event names.
pub(super) fn files_of(input: &Input) -> Vec<BlobId> {
    let Input::Inbound(event) = input else { return Vec::new() };
    event.attachments.iter().filter_map(|file| file.blob.clone().ok()).collect()
}

/// Whether a message needs a file.
fn is_needed(store: &Store, blob: &BlobId) -> Result<bool, state::Error> {
    store.read(|db, txn| Ok(db.blobs.first_in(txn, &Text::new(blob.as_str())?)?.is_some()))
}

/// What a walk over the files of an installation without a daemon removed.
///
/// # Errors
/// What the store or the machine says.
pub fn tidy(paths: &Paths, store: &Store, now: Timestamp) -> Result<u64, Error> {
    let files = Files::open(paths)?;
    let mut removed = 0;
    for shard in 0..SHARDS {
        for blob in files.blobs.shard(shard, now)? {
            removed += u64::from(files.remove_unneeded(store, &blob, now)?);
        }
    }
    let mailboxes = Mailboxes::open(&paths.sessions(), files.blobs(), String::new())?;
    for session in mailboxes.sessions()? {
        let names = unneeded_sent(&mailboxes, store, (session, now))?;
        mailboxes.release(&names)?;
        removed += names.len() as u64;
    }
    Ok(removed)
}

/// Files of a session that were sent, or never will be, and that nobody needs any more.
fn unneeded_sent(
    mailboxes: &Mailboxes,
    store: &Store,
    (session, now): (SessionId, Timestamp),
) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for kept in mailboxes.all_kept(session)? {
        let of = (session, kept.wire_id.as_str());
        let needed = store.read(|db, txn| retention::needs_sent_files(db, txn, of, (kept.since, now)))?;
        if !needed {
            names.extend(kept.files);
        }
    }
    Ok(names)
}

/// Where the daemon says what to remove.
#[derive(Clone)]
pub(super) struct Removals(Sender<Wish>);

/// What to remove.
enum Wish {
    /// What no message needs any more.
    Unneeded(Vec<BlobId>),
    /// What was put for a message that was refused.
    Refused(Vec<BlobId>),
}

impl Removals {
    /// Files that no message needs any more.
    pub(super) fn forget(&self, blobs: Vec<BlobId>) {
        // Whoever would do it is gone when the daemon stops; the next start walks.
        drop(self.0.send(Wish::Unneeded(blobs)));
    }

    /// Files of a message that was refused: strangers do not get to fill the disk with what nobody will read.
    pub(super) fn refuse(&self, blobs: Vec<BlobId>) {
        drop(self.0.send(Wish::Refused(blobs)));
    }
}

/// The thread that removes files.
pub(super) struct Remover {
    files: Files,
    engine: Weak<Engine>,
    mailroom: Weak<Mailroom>,
    stop: Arc<Stop>,
}

impl Remover {
    pub(super) fn new(files: &Files, engine: &Arc<Engine>, mailroom: &Arc<Mailroom>, stop: &Arc<Stop>) -> Self {
        let (engine, mailroom) = (Arc::downgrade(engine), Arc::downgrade(mailroom));
        Self { files: files.clone(), engine, mailroom, stop: Arc::clone(stop) }
    }

    /// Starts the thread.
    pub(super) fn start(self) -> Result<Removals, Error> {
        let (removals, wanted) = channel();
        let run = move || self.run(&wanted);
        std::thread::Builder::new().name("files".to_owned()).spawn(run).map_err(Error::Thread)?;
        Ok(Removals(removals))
    }

    fn run(&self, wanted: &Receiver<Wish>) {
        for walk in 0_u64.. {
            if let Err(error) = self.walk(walk % WALKS_PER_LOOK == 0) {
                tracing::warn!(%error, "files that nobody needs could not be looked for; it is tried again");
            }
            loop {
                match wanted.recv_timeout(WALK) {
                    Ok(Wish::Unneeded(blobs)) => blobs.iter().for_each(|blob| self.remove(blob)),
                    Ok(Wish::Refused(blobs)) => blobs.iter().for_each(|blob| self.take_back(blob)),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    fn remove(&self, blob: &BlobId) {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.stop.is_asked()) else { return };
        if let Err(error) = self.files.remove_unneeded(engine.store(), blob, clock::wall()) {
            tracing::warn!(%error, "a file that nobody needs could not be removed; it is tried again");
        }
    }

    fn take_back(&self, blob: &BlobId) {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.stop.is_asked()) else { return };
        if let Err(error) = self.files.take_back(engine.store(), blob) {
            tracing::warn!(%error, "a file of a refused message could not be removed; it is tried again");
        }
    }

    fn walk(&self, sent_too: bool) -> Result<(), Error> {
        for shard in 0..SHARDS {
            for blob in self.files.blobs.shard(shard, clock::wall())? {
                if self.stop.is_asked() {
                    return Ok(());
                }
                self.remove(&blob);
            }
            std::thread::sleep(PAUSE);
        }
        let Some(room) = self.mailroom.upgrade().filter(|_| sent_too) else { return Ok(()) };
        for session in room.mailboxes().sessions()? {
            let Some(engine) = self.engine.upgrade().filter(|_| !self.stop.is_asked()) else { return Ok(()) };
            let names = unneeded_sent(room.mailboxes(), engine.store(), (session, clock::wall()))?;
            drop(engine);
            if !names.is_empty() {
                room.give(session, Job::Release(session, names));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
