//! Directory layout of one session.
//!
//! ```text
//! se12/host/   context.json  in/<seq>.json  in/files/<seq>/  reply/   read-only for the agent
//! se12/agent/  ack/  out/<id>.json  out/files/<id>/  state.json …     the agent's own; nothing in it is trusted
//! se12/kept/   <incarnation>.<id>/<name>                              files to send, out of the agent's reach
//! se12/kept/   spoken.<answer>/<name>                                 audio of an answer
//! se12/trash/  <number>                                               directories on their way to being deleted
//! ```

use hearth_wire::{ACK_DIR, AGENT_DIR, CONTEXT_FILE, FILES_DIR, HOST_DIR, IN_DIR, OUT_DIR, REPLY_DIR};

use rustix::fs::RawMode;

use crate::model::id::SessionId;

use super::dir::{Dir, DirEntry};
use super::error::Error;
use super::trash::Trash;

/// Directories that agents never see.
const PRIVATE: RawMode = 0o700;
/// Directories that are mounted into containers, whose user may be another one.
pub(super) const SHARED: RawMode = 0o755;
/// Files to send; part of their names.
pub(super) const KEPT_DIR: &str = "kept";
const TRASH_DIR: &str = "trash";

/// One session's mailbox, open.
#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) session: SessionId,
    /// The half that the host writes.
    pub(super) host: Dir,
    /// The half that the agent writes.
    pub(super) agent: Dir,
    /// Files to send.
    pub(super) kept: Dir,
    /// Directories being deleted.
    pub(super) trash: Trash,
}

impl Mailbox {
    /// Opens a session's mailbox and creates its missing parts. If an agent replaced its own directories by something
    /// else, that stays until it has been reported.
    pub(super) fn open(sessions: &Dir, session: SessionId) -> Result<Self, Error> {
        let mailbox = Self::of(&sessions.ensure_dir(&session.to_string(), PRIVATE)?, session)?;
        mailbox.messages()?.ensure_dir(FILES_DIR, SHARED)?;
        mailbox.replies()?;
        Ok(mailbox)
    }

    /// Opens a session's mailbox if there is one, as every sweep does. Unlike [`Self::open`], leaves the directories in
    /// `host/` alone: exports and removals open them anyway.
    pub(super) fn find(sessions: &Dir, session: SessionId) -> Result<Option<Self>, Error> {
        match sessions.dir(session.to_string())? {
            DirEntry::Found(root) => Self::of(&root, session).map(Some),
            DirEntry::Absent => Ok(None),
            DirEntry::Refused(reason) => {
                Err(Error::Unusable { path: sessions.path().join(session.to_string()), reason })
            }
        }
    }

    fn of(root: &Dir, session: SessionId) -> Result<Self, Error> {
        let mailbox = Self {
            session,
            host: root.ensure_dir(HOST_DIR, SHARED)?,
            agent: root.ensure_dir(AGENT_DIR, SHARED)?,
            kept: root.ensure_dir(KEPT_DIR, PRIVATE)?,
            trash: Trash::new(root.ensure_dir(TRASH_DIR, PRIVATE)?),
        };
        mailbox.offer_agent_dirs()?;
        Ok(mailbox)
    }

    /// Creates `ack`, `out` and `out/files` if these names are free.
    pub(super) fn offer_agent_dirs(&self) -> Result<(), Error> {
        self.agent.offer_dir(ACK_DIR, SHARED)?;
        self.agent.offer_dir(OUT_DIR, SHARED)?;
        if let DirEntry::Found(out) = self.agent.dir(OUT_DIR)? {
            out.offer_dir(FILES_DIR, SHARED)?;
        }
        Ok(())
    }

    /// `host/reply/`.
    pub(super) fn replies(&self) -> Result<Dir, Error> {
        self.host.ensure_dir(REPLY_DIR, SHARED)
    }

    /// `host/in/`.
    pub(super) fn messages(&self) -> Result<Dir, Error> {
        self.host.ensure_dir(IN_DIR, SHARED)
    }

    /// The incarnation that the context file names: the latest one that was prepared. `None` if there is no readable
    /// context file.
    pub(super) fn incarnation(&self) -> Result<Option<u32>, Error> {
        let DirEntry::Found(bytes) = self.host.read(CONTEXT_FILE.as_ref(), hearth_wire::limits::JSON_BYTES)? else {
            return Ok(None);
        };
        let value: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
        let incarnation = value.and_then(|v| v.get("incarnation").and_then(serde_json::Value::as_u64));
        Ok(incarnation.and_then(|number| u32::try_from(number).ok()))
    }
}
