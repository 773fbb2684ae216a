//! EDGE: the directory that a session shares with its agent's container.
//!
//! [`Mailboxes`] performs the effects `Export` and `Discard` and makes the inputs `Collected` and the observations of
//! `Sweep`. It decides nothing: whether an ack counts, whether an answer goes out, is the engine's business. What it
//! answers for is that nothing an agent puts into its half makes the host read, write or remove anything else, wait,
//! or use up memory, and that every file is either taken in, left for later, or reported with a reason.
//!
//! Different sessions may be worked on from different threads at once; calls for one session have to come one at a time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::effect::{ContextView, Discard, Export, ExportedMessage};
use crate::model::id::SessionId;
use crate::model::mailbox::{Collection, Observation};

mod blobs;
mod budget;
mod clean;
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
mod text;
mod trash;
mod watch;
mod wish;

#[cfg(test)]
mod tests;

pub use blobs::{Blobs, SHARDS};
pub use budget::Budget;
pub use collect::Collected;
pub use error::Error;
pub use judge::{Judged, judge};
pub use keep::KeptFiles;
pub use observe::Sight;
pub use watch::Watcher;

use dir::{Dir, Look};
use layout::Mailbox;
use observe::Observer;

/// Sessions that are looked through at once; far more than there are.
const SESSIONS_MAX: usize = 10_000_000;

/// The mailboxes of all sessions of an install.
#[derive(Debug)]
pub struct Mailboxes {
    root: Dir,
    blobs: Arc<Blobs>,
    install: String,
    observer: Observer,
}

impl Mailboxes {
    /// Opens the directory that holds the sessions, and makes it if it is not there. `blobs` has the files that come
    /// with messages, `install` is the install's id, for context files.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be made or opened.
    pub fn open(sessions: &Path, blobs: Arc<Blobs>, install: impl Into<String>) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(sessions);
        made.map_err(|e| Error::io("create", sessions, e))?;
        let root = Dir::open_trusted(sessions)?;
        Ok(Self { root, blobs, install: install.into(), observer: Observer::default() })
    }

    /// Directory of a session, to be given to its agent: `host/` read-only, `agent/` writable, nothing else.
    #[must_use]
    pub fn path(&self, session: SessionId) -> PathBuf {
        self.root.path().join(session.to_string())
    }

    /// Makes the directories of a session where they are missing.
    ///
    /// # Errors
    /// [`Error`] if one cannot be made.
    pub fn prepare(&self, session: SessionId) -> Result<(), Error> {
        self.open_mailbox(session).map(drop)
    }

    /// Performs `Effect::Export`: context first, then messages; with `exact` others are removed. Doing it twice changes
    /// nothing. `timezone` is the IANA zone of the agent's user.
    ///
    /// # Errors
    /// [`Error`] after everything that could be written was written; the effect may be performed again.
    pub fn export(&self, export: &Export, timezone: &str) -> Result<(), Error> {
        export::export(&self.open_mailbox(export.session)?, &self.blobs, (&self.install, timezone), export)
    }

    /// What `host/in/` and the context file would say, as a JSON array of messages and a JSON object. Nothing is written.
    ///
    /// # Errors
    /// [`Error`] if a payload is damaged.
    pub fn told(
        about: (SessionId, &str, &str),
        view: &ContextView,
        messages: &[ExportedMessage],
    ) -> Result<(String, String), Error> {
        export::texts(about, view, messages)
    }

    /// Reads what a live session wrote: claims, things said at once, ends with their answers, in this order. Of things said
    /// at once `allowed` are taken in; what is beyond that is found as one thing that is refused.
    ///
    /// # Errors
    /// [`Error`] if a directory cannot be read; trouble with single files is in [`Collected::faults`].
    pub fn collect(&self, session: SessionId, allowed: u32) -> Result<Collected, Error> {
        match Mailbox::find(&self.root, session)? {
            Some(mailbox) => collect::collect(&mailbox, &self.blobs, allowed),
            None => Ok(Collected::nothing(session, None)),
        }
    }

    /// Reads what an incarnation that is gone left behind, including final answers that no ack names. `closes` is set
    /// when nothing is left; while [`Collected::more`] is set instead, discard what was found and call again.
    ///
    /// # Errors
    /// As for [`Self::collect`].
    pub fn collect_rest(&self, session: SessionId, incarnation: u32, allowed: u32) -> Result<Collected, Error> {
        match Mailbox::find(&self.root, session)? {
            Some(mailbox) => collect::collect_rest(&mailbox, &self.blobs, (incarnation, allowed)),
            None => Ok(Collected::nothing(session, Some(incarnation))),
        }
    }

    /// Performs `Effect::Discard`: messages of the host's half first, then the agent's files in the given order. Doing it
    /// twice changes nothing.
    ///
    /// # Errors
    /// The first [`Error`], after everything that could be removed was removed.
    pub fn discard(&self, discard: &Discard) -> Result<(), Error> {
        match Mailbox::find(&self.root, discard.session)? {
            Some(mailbox) => discard::discard(&mailbox, discard),
            None => Ok(()),
        }
    }

    /// Reads heartbeat and state of a live incarnation; none if it has no mailbox.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot read; what the agent wrote is never one.
    pub fn observe(&self, session: SessionId, incarnation: u32) -> Result<Option<Sight>, Error> {
        match Mailbox::find(&self.root, session)? {
            Some(mailbox) => self.observer.observe(&mailbox, incarnation).map(Some),
            None => Ok(None),
        }
    }

    /// What is new in what was seen since something was noted last; it is not new any more then. Only the heartbeat is
    /// noted unless `wholly`: what the agent did can be told only when what it wrote before is known.
    pub fn note(&self, sight: Sight, wholly: bool) -> Option<Observation> {
        self.observer.note(sight, wholly)
    }

    /// Forgets what was observed of a session that is not live any more.
    pub fn forget(&self, session: SessionId) {
        self.observer.forget(session);
    }

    /// Notes in a session that never ran where its providers are to go on, unless something is noted there; tells whether
    /// it was done. `sessions` is the directory of all sessions.
    ///
    /// # Errors
    /// [`Error`] if the machine cannot write.
    pub fn seed(sessions: &Path, session: SessionId, continuations: BTreeMap<String, String>) -> Result<bool, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(sessions);
        made.map_err(|e| Error::io("create", sessions, e))?;
        observe::seed(&Mailbox::open(&Dir::open_trusted(sessions)?, session)?, continuations)
    }

    /// What is noted of where a session's providers go on; none if nothing ever was. `sessions` is as in [`Self::seed`].
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

    /// Provider name -> what that provider needs to go on where it was, as the agent wrote it.
    ///
    /// # Errors
    /// As for [`Self::observe`].
    pub fn continuations(&self, session: SessionId) -> Result<BTreeMap<String, String>, Error> {
        match Mailbox::find(&self.root, session)? {
            Some(mailbox) => observe::continuations(&mailbox),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Opens a file to send by the name that a collection gave it; `None` if it was released.
    ///
    /// # Errors
    /// [`Error::BadName`] for other names.
    pub fn kept(&self, name: &str) -> Result<Option<File>, Error> {
        let (place, file) = kept_name(name)?;
        let Look::Found(dir) = self.root.dir(place)? else { return Ok(None) };
        match dir.file(OsStr::new(file), hearth_wire::limits::FILE_BYTES)? {
            Look::Found((file, _)) => Ok(Some(file)),
            Look::Absent => Ok(None),
            Look::Refused(reason) => Err(Error::Unusable { path: dir.path().join(file), reason }),
        }
    }

    /// Removes files to send that nobody needs any more.
    ///
    /// # Errors
    /// [`Error::BadName`] for other names, and what the machine says.
    pub fn release(&self, names: &[String]) -> Result<(), Error> {
        for name in names {
            let (place, file) = kept_name(name)?;
            let Look::Found(dir) = self.root.dir(place)? else { continue };
            dir.remove(OsStr::new(file))?;
            if let Some((kept, place)) = place.rsplit_once('/')
                && let Look::Found(kept) = self.root.dir(kept)?
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
    /// What the machine says.
    pub fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let names = self.root.list(SESSIONS_MAX)?.names;
        Ok(names.into_iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// What is kept of a session to be sent, or was sent.
    ///
    /// # Errors
    /// What the machine says.
    pub fn all_kept(&self, session: SessionId) -> Result<Vec<KeptFiles>, Error> {
        let place = format!("{session}/{}", layout::KEPT_DIR);
        let Look::Found(kept) = self.root.dir(place)? else { return Ok(Vec::new()) };
        keep::list(session, &kept)
    }

    /// Opens a session's mailbox and makes what is missing of it.
    fn open_mailbox(&self, session: SessionId) -> Result<Mailbox, Error> {
        Mailbox::open(&self.root, session)
    }
}

impl Collected {
    fn nothing(session: SessionId, closes: Option<u32>) -> Self {
        let collection = Collection { session, found: Vec::new(), closes };
        Self { collection, more: false, crowded: false, said: 0, left_out: 0, faults: Vec::new() }
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
