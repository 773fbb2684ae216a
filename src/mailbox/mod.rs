//! EDGE: the directory that a session shares with its agent's container.
//!
//! [`Mailboxes`] performs the effects `Export` and `Discard` and produces the inputs `Collected` and the observations
//! of `Sweep`. It decides nothing: the engine decides whether an ack counts and whether an answer is sent. It
//! guarantees that nothing an agent puts into its half makes the host read, write or remove anything else, wait, or use
//! up memory, and that every file is imported, left for later, or reported with a reason.
//!
//! Different threads may work on different sessions at once. Calls for one session must be sequential.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hearth_wire::AGENT_DIR;

use crate::model::effect::{ContextView, Discard, Export, ExportedMessage};
use crate::model::id::{OutboundId, SessionId};
use crate::model::mailbox::{Collection, Hidden, Observation, ObservedWriting};
use crate::model::secrets::Secrets;

mod action;
mod blobs;
mod budget;
mod clean;
mod cleaner;
mod collect;
mod dir;
mod discard;
mod error;
mod export;
mod files;
mod judge;
mod keep;
mod layout;
mod observe;
mod parse;
mod root;
mod share;
mod text;
mod trash;
mod watch;

#[cfg(test)]
mod tests;

pub use blobs::{Blobs, SHARDS};
pub use budget::Budget;
pub use collect::Collected;
pub use error::Error;
pub use judge::{Judged, judge};
pub use keep::KeptFiles;
pub use observe::RunnerObservation;
pub use watch::Watcher;

use dir::{Dir, DirEntry};
use layout::Mailbox;
use observe::Observer;
use root::Root;

/// Maximum number of sessions listed at once; far more than exist.
const SESSIONS_MAX: usize = 10_000_000;

/// The mailboxes of all sessions of an install.
#[derive(Debug)]
pub struct Mailboxes {
    root: Root,
    blobs: Arc<Blobs>,
    install: String,
    observer: Observer,
    /// Secrets of each session's agent.
    secrets: Mutex<HashMap<SessionId, Arc<Secrets>>>,
}

impl Mailboxes {
    /// Opens the directory of the sessions, and creates it if it is missing. `blobs` has the files that come with
    /// messages, `install` is the installation's id, for context files.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be made or opened.
    pub fn open(sessions: &Path, blobs: Arc<Blobs>, install: impl Into<String>) -> Result<Self, Error> {
        let (root, install) = (Root::open(sessions)?, install.into());
        Ok(Self { root, blobs, install, observer: Observer::default(), secrets: Mutex::default() })
    }

    /// Directory of a session, to be given to its agent: `host/` read-only, `agent/` writable, nothing else.
    #[must_use]
    pub fn path(&self, session: SessionId) -> PathBuf {
        self.root.path().join(session.to_string())
    }

    /// A file in the agent's half of a mailbox, as the agent left it.
    ///
    /// # Errors
    /// [`Error`] if the mailbox cannot be opened.
    pub fn agent_file(&self, session: SessionId, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let mailbox = self.open_mailbox(session)?;
        match mailbox.agent.read(OsStr::new(name), hearth_wire::limits::JSON_BYTES)? {
            DirEntry::Found(bytes) => Ok(Some(bytes)),
            DirEntry::Absent | DirEntry::Refused(_) => Ok(None),
        }
    }

    /// Creates the missing directories of a session.
    ///
    /// # Errors
    /// [`Error`] if one cannot be made.
    pub fn prepare(&self, session: SessionId) -> Result<(), Error> {
        self.open_mailbox(session).map(drop)
    }

    /// Performs `Effect::Export`: context first, then messages; with `exact`, others are removed. Idempotent.
    /// `timezone` is the IANA time zone of the agent's user. Returns whether a new triggering message was written.
    ///
    /// # Errors
    /// [`Error`] after everything that could be written was written; the effect may be performed again.
    pub fn export(&self, export: &Export, timezone: &str) -> Result<bool, Error> {
        export::export(&self.open_mailbox(export.session)?, &self.blobs, &self.install, timezone, export)
    }

    /// What `host/in/` and the context file would contain, as a JSON array of messages and a JSON object. Writes
    /// nothing.
    ///
    /// # Errors
    /// [`Error`] if a payload is damaged.
    pub fn told(
        session: SessionId,
        install: &str,
        timezone: &str,
        view: &ContextView,
        messages: &[ExportedMessage],
    ) -> Result<(String, String), Error> {
        export::texts(session, install, timezone, view, messages)
    }

    /// Reads the output of a live session: claims, mid-turn messages, ends with their answers, in this order. At most
    /// `allowed` mid-turn messages are collected; those beyond that are reported together as one refusal.
    ///
    /// # Errors
    /// [`Error`] if a directory cannot be read; trouble with single files is in [`Collected::faults`].
    pub fn collect(&self, session: SessionId, allowed: u32) -> Result<Collected, Error> {
        match self.find_mailbox(session)? {
            Some(mailbox) => collect::collect(&mailbox, &self.blobs, allowed, &self.secrets(session)),
            None => Ok(Collected::nothing(session, None)),
        }
    }

    /// Reads what an incarnation that is gone left behind, including final answers that no ack names. `closes` is set
    /// when nothing is left, and then the tools that it used in its last turn are included; while [`Collected::more`] is set instead, discard what was found and call again.
    ///
    /// # Errors
    /// As for [`Self::collect`].
    pub fn collect_rest(&self, session: SessionId, incarnation: u32, allowed: u32) -> Result<Collected, Error> {
        match self.find_mailbox(session)? {
            Some(mailbox) => {
                let secrets = self.secrets(session);
                let mut rest = collect::collect_rest(&mailbox, &self.blobs, incarnation, allowed, &secrets)?;
                if rest.collection.closes.is_some() {
                    rest.collection.found.extend(observe::tools(&mailbox, incarnation)?);
                }
                Ok(rest)
            }
            None => Ok(Collected::nothing(session, Some(incarnation))),
        }
    }

    /// Sets the values that are removed from the output of a session's agent, from the next collection on.
    pub fn hide(&self, session: SessionId, secrets: Arc<Secrets>) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).insert(session, secrets);
    }

    fn secrets(&self, session: SessionId) -> Arc<Secrets> {
        let known = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&session).cloned().unwrap_or_default()
    }

    /// Performs `Effect::Discard`: messages of the host's half first, then the agent's files in the given order. Doing
    /// it twice changes nothing.
    ///
    /// # Errors
    /// The first [`Error`], after everything that could be removed was removed.
    pub fn discard(&self, discard: &Discard) -> Result<(), Error> {
        match self.find_mailbox(discard.session)? {
            Some(mailbox) => discard::discard(&mailbox, discard),
            None => Ok(()),
        }
    }

    /// Removes the files that came with messages of a session and for which `needed` says no, by the message's position.
    /// Returns the number of messages whose files were removed.
    ///
    /// # Errors
    /// [`Error`] and those of `needed`.
    pub fn remove_received<E: From<Error>>(
        &self,
        session: SessionId,
        needed: impl FnMut(u64) -> Result<bool, E>,
    ) -> Result<u64, E> {
        match self.find_mailbox(session)? {
            Some(mailbox) => files::remove_unneeded(&mailbox, needed),
            None => Ok(0),
        }
    }

    /// Reads heartbeat and state of a live incarnation; none if it has no mailbox.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot read; what the agent wrote is never one.
    pub fn observe(&self, session: SessionId, incarnation: u32) -> Result<Option<RunnerObservation>, Error> {
        let agent = self.agent_half(session)?;
        agent.map(|agent| self.observer.observe(session, &agent, incarnation)).transpose()
    }

    /// The text that a live incarnation is writing, and the position of the message that it answers; both are what the
    /// agent says.
    ///
    /// # Errors
    /// [`Error`] as for [`Self::observe`].
    pub fn writing(&self, session: SessionId, incarnation: u32) -> Result<Option<ObservedWriting>, Error> {
        match self.agent_half(session)? {
            Some(agent) => observe::writing(&agent, incarnation, &self.secrets(session)),
            None => Ok(None),
        }
    }

    fn agent_half(&self, session: SessionId) -> Result<Option<Dir>, Error> {
        let root = self.root.dir()?;
        let agent = format!("{session}/{AGENT_DIR}");
        match root.dir(&agent)? {
            DirEntry::Found(agent) => Ok(Some(agent)),
            DirEntry::Absent => Ok(None),
            DirEntry::Refused(reason) => Err(Error::Unusable { path: root.path().join(agent), reason }),
        }
    }

    /// Returns what is new in an observation and records it as known. Unless `wholly`, only the heartbeat is recorded:
    /// an agent's activity can be interpreted only when its earlier output is known.
    pub fn note(&self, sight: RunnerObservation, wholly: bool) -> Option<Observation> {
        self.observer.note(sight, wholly)
    }

    /// Forgets the observations of a session that is no longer live.
    pub fn forget(&self, session: SessionId) {
        self.observer.forget(session);
    }

    /// Stores continuations for a session that never ran, unless some are already stored. Returns whether it did.
    /// `sessions` is the directory of all sessions.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot write.
    pub fn seed(sessions: &Path, session: SessionId, continuations: BTreeMap<String, String>) -> Result<bool, Error> {
        let root = Root::open(sessions)?.dir()?;
        observe::seed(&Mailbox::open(&root, session)?, continuations)
    }

    /// The stored continuations of a session's providers; none if there never were any. `sessions` is as in
    /// [`Self::seed`].
    ///
    /// # Errors
    /// [`Error`] if the machine cannot read.
    pub fn noted(sessions: &Path, session: SessionId) -> Result<Option<BTreeMap<String, String>>, Error> {
        if !sessions.join(session.to_string()).is_dir() {
            return Ok(None);
        }
        let mailbox = Mailbox::open(&Dir::open_trusted(sessions)?, session)?;
        if observe::is_noted(&mailbox)? { observe::continuations(&mailbox).map(Some) } else { Ok(None) }
    }

    /// Provider name -> the continuation of that provider, as the agent wrote it.
    ///
    /// # Errors
    /// As for [`Self::observe`].
    pub fn continuations(&self, session: SessionId) -> Result<BTreeMap<String, String>, Error> {
        match self.find_mailbox(session)? {
            Some(mailbox) => observe::continuations(&mailbox),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Keeps the audio of a session's answer for sending. Returns its name for [`Self::kept`]; none if the session has no
    /// mailbox any more.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot write.
    pub fn keep_audio(
        &self,
        session: SessionId,
        answer: OutboundId,
        name: &str,
        bytes: &[u8],
    ) -> Result<Option<String>, Error> {
        let mailbox = self.find_mailbox(session)?;
        mailbox.map(|mailbox| keep::audio(&mailbox, answer, name, bytes)).transpose()
    }

    /// Opens a file to send by the name that a collection gave it; `None` if it was released.
    ///
    /// # Errors
    /// [`Error::BadName`] for other names.
    pub fn kept(&self, name: &str) -> Result<Option<File>, Error> {
        let (place, file) = kept_name(name)?;
        let DirEntry::Found(dir) = self.root.dir()?.dir(place)? else { return Ok(None) };
        match dir.file(OsStr::new(file), hearth_wire::limits::FILE_BYTES)? {
            DirEntry::Found((file, _)) => Ok(Some(file)),
            DirEntry::Absent => Ok(None),
            DirEntry::Refused(reason) => Err(Error::Unusable { path: dir.path().join(file), reason }),
        }
    }

    /// Removes kept files that are no longer needed.
    ///
    /// # Errors
    /// [`Error::BadName`] for other names, and errors of the system.
    pub fn release(&self, names: &[String]) -> Result<(), Error> {
        let root = self.root.dir()?;
        for name in names {
            let (place, file) = kept_name(name)?;
            let DirEntry::Found(dir) = root.dir(place)? else { continue };
            dir.remove(OsStr::new(file))?;
            if let Some((kept, place)) = place.rsplit_once('/')
                && let DirEntry::Found(kept) = root.dir(kept)?
                && dir.list(1)?.names.is_empty()
            {
                kept.remove(OsStr::new(place))?;
            }
        }
        Ok(())
    }

    /// Sessions that have a mailbox.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let names = self.root.dir()?.list(SESSIONS_MAX)?.names;
        Ok(names.into_iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// The kept files of a session, sent or not.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn all_kept(&self, session: SessionId) -> Result<Vec<KeptFiles>, Error> {
        let place = format!("{session}/{}", layout::KEPT_DIR);
        let DirEntry::Found(kept) = self.root.dir()?.dir(place)? else { return Ok(Vec::new()) };
        keep::list(session, &kept)
    }

    /// Opens a session's mailbox and creates its missing parts.
    fn open_mailbox(&self, session: SessionId) -> Result<Mailbox, Error> {
        let root = self.root.dir()?;
        Mailbox::open(&root, session)
    }

    /// Opens a session's mailbox if there is one.
    fn find_mailbox(&self, session: SessionId) -> Result<Option<Mailbox>, Error> {
        let root = self.root.dir()?;
        Mailbox::find(&root, session)
    }
}

impl Collected {
    fn nothing(session: SessionId, closes: Option<u32>) -> Self {
        let collection = Collection { session, found: Vec::new(), closes };
        let hidden = Hidden::default();
        Self { collection, hidden, more: false, crowded: false, said: 0, left_out: 0, faults: Vec::new() }
    }
}

/// `se12/kept/3.a1/report.pdf` -> the directory and the name in it.
fn kept_name(name: &str) -> Result<(&str, &str), Error> {
    let bad = || Error::BadName { name: text::reason(name) };
    let (place, file) = name.rsplit_once('/').ok_or_else(bad)?;
    let mut parts = place.split('/');
    let session = parts.next().is_some_and(|part| part.parse::<SessionId>().is_ok());
    let kept = parts.next() == Some(layout::KEPT_DIR);
    let answer =
        parts.next().is_some_and(|part| !hearth_wire::is_temporary(part) && dir::is_component(OsStr::new(part)));
    let plain = session && kept && answer && parts.next().is_none() && hearth_wire::is_safe_file_name(file);
    if plain { Ok((place, file)) } else { Err(bad()) }
}
