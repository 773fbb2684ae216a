//! Rows of sessions that are written late: every message changes that of its session, and many messages are committed
//! together.

use super::Write;
use super::error::Result;
use super::schema::Tables;
use crate::model::id::SessionId;
use crate::model::session::Session;
use crate::model::workspace::WorkspaceKey;

/// Sessions that are held at once; before one more is, all are written.
const HELD_MAX: usize = 16;

/// Rows as they are now; those in the table are older.
#[derive(Debug, Clone, Default)]
pub(super) struct Late {
    allowed: bool,
    rows: Vec<(SessionId, WorkspaceKey, Session)>,
}

impl Tables {
    /// Says whether sessions may be written late from now on: as long as nothing reads their table in another way than
    /// [`Self::session`]. What is held is written when that ends, and before a commit.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_late(&self, txn: &mut Write<'_>, allowed: bool) -> Result<()> {
        txn.late_mut().allowed = allowed;
        if allowed { Ok(()) } else { self.write_held(txn) }
    }

    /// A session as this transaction left it, and its workspace.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn session(&self, txn: &Write<'_>, id: SessionId) -> Result<Option<(WorkspaceKey, Session)>> {
        if let Some((_, workspace, session)) = txn.late().rows.iter().find(|(held, ..)| *held == id) {
            return Ok(Some((*workspace, session.clone())));
        }
        let Some(workspace) = self.sessions_by_id.get(txn, &id)? else { return Ok(None) };
        self.sessions.require(txn, &(workspace.0, workspace.1, id)).map(|session| Some((workspace, session)))
    }

    /// Changes the row of a session that was read just now.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_session(
        &self,
        txn: &mut Write<'_>,
        (id, workspace): (SessionId, WorkspaceKey),
        session: Session,
    ) -> Result<()> {
        if !txn.late().allowed {
            return self.sessions.replace(txn, &(workspace.0, workspace.1, id), &session);
        }
        if let Some((.., held)) = txn.late_mut().rows.iter_mut().find(|(held, ..)| *held == id) {
            *held = session;
            return Ok(());
        }
        if txn.late().rows.len() >= HELD_MAX {
            self.write_held(txn)?;
        }
        txn.late_mut().rows.push((id, workspace, session));
        Ok(())
    }

    /// Writes the sessions that are held.
    pub(super) fn write_held(&self, txn: &mut Write<'_>) -> Result<()> {
        for (id, workspace, session) in std::mem::take(&mut txn.late_mut().rows) {
            self.sessions.replace(txn, &(workspace.0, workspace.1, id), &session)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{AgentId, ChatId};
    use crate::model::session::{ChatSession, Route, SessionName, SessionStatus};
    use crate::model::time::Timestamp;
    use crate::model::workspace::{Discriminator, Fingerprint};
    use crate::state::tests::store;
    use crate::state::{Error, Write};

    const WORKSPACE: WorkspaceKey = (Fingerprint::from_number(7), Discriminator(0));

    fn session(messages: u64) -> Session {
        Session::Chat(ChatSession {
            agent: AgentId::new(1),
            route: Route::AgentShared,
            name: SessionName::Default,
            reply: None,
            status: SessionStatus::Active,
            last_number: messages,
            last_incarnation: 0,
            live: None,
            provider: None,
            epoch: 0,
            failed_starts: 0,
            start_after: None,
            messages,
            context_version: 0,
            created: Timestamp::from_millis(0),
            active: Timestamp::from_millis(0),
        })
    }

    fn ids() -> impl Iterator<Item = SessionId> {
        (1..=HELD_MAX as u64 + 3).map(SessionId::new)
    }

    fn one_more(db: &Tables, txn: &mut Write<'_>, id: SessionId) -> Result<()> {
        let (workspace, before) = db.session(txn, id)?.unwrap();
        db.put_session(txn, (id, workspace), session(before.messages() + 1))
    }

    /// How many messages each session has in its table.
    fn written(db: &Tables, txn: &Write<'_>) -> Result<Vec<u64>> {
        let row = |id| db.sessions.require(txn, &(WORKSPACE.0, WORKSPACE.1, id));
        ids().map(|id| row(id).map(|session| session.messages())).collect()
    }

    #[test]
    fn sessions_are_known_at_once_and_written_in_time() {
        let (_dir, store) = store();
        let all = |messages| vec![messages; ids().count()];
        store
            .write(|db, txn| {
                for id in ids() {
                    db.sessions_by_id.put(txn, &id, &WORKSPACE)?;
                    db.sessions.put(txn, &(WORKSPACE.0, WORKSPACE.1, id), &session(0))?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        store
            .write(|db, txn| {
                ids().try_for_each(|id| one_more(db, txn, id))?;
                assert_eq!(written(db, txn)?, all(1), "at once where nobody said that it may be late");
                db.write_late(txn, true)?;
                ids().try_for_each(|id| one_more(db, txn, id))?;
                assert_eq!(written(db, txn)?.iter().filter(|messages| **messages == 1).count(), 3);
                ids().try_for_each(|id| one_more(db, txn, id))?;
                let undone = store.part(txn, |part| {
                    db.write_late(part, false)?;
                    assert_eq!(written(db, part)?, all(3));
                    ids().try_for_each(|id| one_more(db, part, id))?;
                    db.chats.require(part, &ChatId::new(9))
                });
                assert!(undone.is_err());
                store.part(txn, |part| ids().try_for_each(|id| one_more(db, part, id)))?;
                assert!(ids().all(|id| db.session(txn, id).unwrap().unwrap().1.messages() == 4));
                Ok::<_, Error>(())
            })
            .unwrap();
        let written = store.write(|db, txn| {
            assert!(db.session(txn, SessionId::new(99))?.is_none());
            written(db, txn)
        });
        assert_eq!(written.unwrap(), all(4));
    }
}
