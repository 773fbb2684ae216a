//! The file store. Files are stored before the messages that refer to them, and removed when no message needs them.
//!
//! Unneeded files are found through the tables. A walk at the start and then every hour finds the rest: files whose
//! removal effect was lost, and files of messages that were never accepted.

use std::io::Read as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Error;
use super::engine_thread::InputReply;
use super::mailbox_workers::{Job, MailboxWorkers};
use super::stop::Stop;
use super::worker;
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

/// Interval of walks over the file store.
const WALK: Duration = Duration::from_secs(60 * 60);
/// Number of walks between checks of all files in mailboxes.
const WALKS_PER_LOOK: u64 = 24;
/// Pause after each step of a walk, so that it does not slow down other work.
const PAUSE: Duration = Duration::from_millis(2);

/// There is no space for the event's files. The sender has to retry later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoRoom(String);

/// The file store.
#[derive(Debug, Clone)]
pub struct Files {
    blobs: Arc<Blobs>,
}

impl Files {
    /// Opens the file store of a data directory.
    ///
    /// # Errors
    /// [`Error::Mailbox`] if it cannot be opened.
    pub fn open(paths: &Paths) -> Result<Self, Error> {
        Ok(Self { blobs: Arc::new(Blobs::open(&paths.files())?) })
    }

    /// Stores a file if there is room for it beside what the store needs. The inner error says why this file can never
    /// be stored.
    ///
    /// # Errors
    /// [`NoRoom`]. A later attempt may succeed.
    pub fn keep(&self, store: &Store, bytes: &[u8]) -> Result<Result<BlobId, String>, NoRoom> {
        Self::room(store, bytes.len() as u64)?;
        match self.blobs.put(bytes) {
            Ok(blob) => Ok(Ok(blob)),
            Err(error) if error.is_full() => Err(NoRoom(format!("{error}: the disk is full; make room on it"))),
            Err(error @ crate::mailbox::Error::FileTooLarge { .. }) => Ok(Err(error.to_string())),
            Err(error) => {
                tracing::warn!(%error, "cannot store a file");
                Ok(Err("it could not be stored".to_owned()))
            }
        }
    }

    /// Checks that there is room for a file beside what the store needs.
    pub(super) fn room(store: &Store, size: u64) -> Result<(), NoRoom> {
        let usage = store.usage().map_err(|error| NoRoom(error.to_string()))?;
        if let Admission::Refuse(why) = usage.admission() {
            return Err(NoRoom(why.to_string()));
        }
        if usage.free < usage.needed.saturating_add(size) {
            let (free, needed) = (usage.free, usage.needed);
            let why = format!("the disk has {free} bytes left, of which {needed} stay free, and a file has {size}");
            return Err(NoRoom(format!("{why}: make room on the disk")));
        }
        Ok(())
    }

    /// Reads a file of at most `max` bytes. None if it is not kept any more.
    pub(super) fn read(&self, blob: &BlobId, max: u64) -> Result<Option<Vec<u8>>, String> {
        let found = self.blobs.read(blob).map_err(|error| error.to_string())?;
        let Some((file, _)) = found else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(max).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(Some(bytes))
    }

    /// For mailboxes.
    pub(super) fn blobs(&self) -> Arc<Blobs> {
        Arc::clone(&self.blobs)
    }

    /// The message that these files belong to has been accepted or refused.
    pub(super) fn settle(&self, blobs: &[BlobId]) {
        self.blobs.settle(blobs);
    }

    /// Removes a file of a message that was refused.
    fn take_back(&self, store: &Store, blob: &BlobId) -> Result<bool, Error> {
        Ok(self.blobs.take_back::<state::Error>(blob, || is_needed(store, blob))??)
    }

    /// Removes a file if no message needs it. Returns whether it was removed.
    fn remove_unneeded(&self, store: &Store, blob: &BlobId, now: Timestamp) -> Result<bool, Error> {
        Ok(self.blobs.remove::<state::Error>(blob, now, || is_needed(store, blob))??)
    }
}

/// Decides about the files of submitted messages.
#[derive(Clone)]
pub(super) struct BlobGuard {
    files: Files,
    removals: BlobGc,
}

impl BlobGuard {
    /// Settles what is in `files`.
    pub(super) fn new(files: &Files, removals: &BlobGc) -> Self {
        Self { files: files.clone(), removals: removals.clone() }
    }

    /// The store of files.
    pub(super) const fn files(&self) -> &Files {
        &self.files
    }

    /// Settles the files of an event after the engine's answer. The files of a dropped event are removed at once, and
    /// so are files that were not kept with an event that waits for approval. Files of an event that is to be retried
    /// stay.
    pub(super) fn settle(&self, files: Vec<BlobId>, heard: &InputReply) {
        let unneeded = match heard {
            Ok(Reply::Routed(report)) if report.outcome == Outcome::Duplicate => return,
            Ok(Reply::Routed(report)) => matches!(report.outcome, Outcome::Dropped | Outcome::Held),
            // The message of a fetched file may be gone.
            Ok(Reply::Done) => true,
            _ => return,
        };
        if files.is_empty() {
            return;
        }
        self.files.settle(&files);
        if unneeded {
            self.removals.refuse(files);
        }
    }
}

/// Files in the file store that an input refers to.
pub(super) fn files_of(input: &Input) -> Vec<BlobId> {
    let attachments = match input {
        Input::Inbound(event) => &event.attachments,
        Input::Fetched(_, attachments) => attachments,
        _ => return Vec::new(),
    };
    attachments.iter().filter_map(|file| file.blob.stored().cloned()).collect()
}

/// Whether a message needs a file.
fn is_needed(store: &Store, blob: &BlobId) -> Result<bool, state::Error> {
    store.read(|db, txn| Ok(db.bodies_by_file.first_in(txn, &Text::new(blob.as_str())?)?.is_some()))
}

/// Walks over the files of an installation without a daemon. Returns the number of removed files.
///
/// # Errors
/// Errors of the store or the operating system.
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
        let names = unneeded_sent(&mailboxes, store, session, now)?;
        mailboxes.release(&names)?;
        removed += names.len() as u64 + remove_received(&mailboxes, store, session)?;
    }
    Ok(removed)
}

/// Removes files of messages whose removal was lost. Errors are logged, because the next search repeats it.
pub(super) fn search_received(mailboxes: &Mailboxes, store: &Store, session: SessionId) {
    if let Err(error) = remove_received(mailboxes, store, session) {
        tracing::warn!(%session, %error, "cannot search for unneeded files of messages, retrying");
    }
}

/// Removes files that came with messages of a session and that its agent may not read any more.
fn remove_received(mailboxes: &Mailboxes, store: &Store, session: SessionId) -> Result<u64, Error> {
    mailboxes.remove_received(session, |seq| {
        Ok(store.read(|db, txn| retention::needs_received_files(db, txn, session, seq))?)
    })
}

/// Files of a session that were sent, or never will be, and are no longer needed.
fn unneeded_sent(
    mailboxes: &Mailboxes,
    store: &Store,
    session: SessionId,
    now: Timestamp,
) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for kept in mailboxes.all_kept(session)? {
        let of = (session, kept.wire_id.as_str());
        let needed = store.read(|db, txn| retention::needs_sent_files(db, txn, of.0, of.1, kept.since, now))?;
        if !needed {
            names.extend(kept.files);
        }
    }
    Ok(names)
}

/// Handle for requesting removals.
#[derive(Clone)]
pub(super) struct BlobGc(Sender<FileRemoval>);

/// A removal request.
enum FileRemoval {
    /// Files that may no longer be needed.
    Unneeded(Vec<BlobId>),
    /// Files of a refused message.
    Refused(Vec<BlobId>),
}

impl BlobGc {
    /// Requests the removal of files that no message needs any more.
    pub(super) fn forget(&self, blobs: Vec<BlobId>) {
        // During shutdown the thread is gone. The next start walks.
        drop(self.0.send(FileRemoval::Unneeded(blobs)));
    }

    /// Removes the files of a refused message at once, so that strangers cannot fill the disk.
    pub(super) fn refuse(&self, blobs: Vec<BlobId>) {
        drop(self.0.send(FileRemoval::Refused(blobs)));
    }
}

/// The thread that removes files.
pub(super) struct Remover {
    files: Files,
    engine: Weak<Engine>,
    workers: Weak<MailboxWorkers>,
    stop: Arc<Stop>,
}

impl Remover {
    pub(super) fn new(files: &Files, engine: &Arc<Engine>, workers: &Arc<MailboxWorkers>, stop: &Arc<Stop>) -> Self {
        let (engine, workers) = (Arc::downgrade(engine), Arc::downgrade(workers));
        Self { files: files.clone(), engine, workers, stop: Arc::clone(stop) }
    }

    /// Starts the thread.
    pub(super) fn start(self) -> Result<BlobGc, Error> {
        let (removals, wanted) = channel();
        worker::start("files", move || self.run(&wanted))?;
        Ok(BlobGc(removals))
    }

    fn run(&self, wanted: &Receiver<FileRemoval>) {
        for walk in 0_u64.. {
            if let Err(error) = self.walk(walk % WALKS_PER_LOOK == 0) {
                tracing::warn!(%error, "cannot search for unneeded files, retrying");
            }
            loop {
                match wanted.recv_timeout(WALK) {
                    Ok(FileRemoval::Unneeded(blobs)) => blobs.iter().for_each(|blob| self.remove(blob)),
                    Ok(FileRemoval::Refused(blobs)) => blobs.iter().for_each(|blob| self.take_back(blob)),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    fn remove(&self, blob: &BlobId) {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.stop.is_asked()) else { return };
        if let Err(error) = self.files.remove_unneeded(engine.store(), blob, clock::wall()) {
            tracing::warn!(%error, "cannot remove an unneeded file, retrying");
        }
    }

    fn take_back(&self, blob: &BlobId) {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.stop.is_asked()) else { return };
        if let Err(error) = self.files.take_back(engine.store(), blob) {
            tracing::warn!(%error, "cannot remove a file of a refused message, retrying");
        }
    }

    fn walk(&self, mailboxes_too: bool) -> Result<(), Error> {
        for shard in 0..SHARDS {
            for blob in self.files.blobs.shard(shard, clock::wall())? {
                if self.stop.is_asked() {
                    return Ok(());
                }
                self.remove(&blob);
            }
            std::thread::sleep(PAUSE);
        }
        let Some(room) = self.workers.upgrade().filter(|_| mailboxes_too) else { return Ok(()) };
        for session in room.mailboxes().sessions()? {
            let Some(engine) = self.engine.upgrade().filter(|_| !self.stop.is_asked()) else { return Ok(()) };
            let names = unneeded_sent(room.mailboxes(), engine.store(), session, clock::wall())?;
            drop(engine);
            if !names.is_empty() {
                room.give(session, Job::Release(session, names));
            }
            room.give(session, Job::RemoveReceived(session));
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
