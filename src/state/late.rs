//! Write cache for session rows: every message changes its session's row, and many messages are committed together.

use super::Write;
use super::error::Result;
use super::indexed::Derive as _;
use super::keys::SessionKey;
use super::schema::Tables;
use crate::model::id::SessionId;
use crate::model::session::Session;
use crate::model::workspace::WorkspaceKey;

/// Maximum number of cached sessions; all are written before another one is added.
const HELD_MAX: usize = 16;

/// Current rows; those in the table may be older.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteBehind {
    allowed: bool,
    rows: Vec<(SessionId, WorkspaceKey, Session)>,
}

impl Tables {
    /// Enables or disables the cache. It may be enabled only while the session table is read through [`Self::session`]
    /// alone. Cached rows are written when it is disabled, and before a commit.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_late(&self, txn: &mut Write<'_>, allowed: bool) -> Result<()> {
        txn.late_mut().allowed = allowed;
        if allowed { Ok(()) } else { self.write_held(txn) }
    }

    /// The current state of a session in this transaction, and its workspace.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn session(&self, txn: &Write<'_>, id: SessionId) -> Result<Option<(WorkspaceKey, Session)>> {
        if let Some((_, workspace, session)) = txn.late().rows.iter().find(|(held, ..)| *held == id) {
            return Ok(Some((*workspace, session.clone())));
        }
        let Some(workspace) = self.sessions_by_id.get(txn, &id)? else { return Ok(None) };
        self.sessions.require(txn, &SessionKey { workspace, session: id }).map(|session| Some((workspace, session)))
    }

    /// Updates the row of a session that was just read. Its index rows are written at once.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_session(&self, txn: &mut Write<'_>, key: SessionKey, before: &Session, session: Session) -> Result<()> {
        let SessionKey { workspace, session: id } = key;
        if !txn.late().allowed {
            return self.sessions.replace(txn, &key, before, &session);
        }
        self.sessions.indexes().change(txn, &key, Some(before), Some(&session))?;
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

    /// Writes all cached sessions.
    pub(super) fn write_held(&self, txn: &mut Write<'_>) -> Result<()> {
        for (id, workspace, session) in std::mem::take(&mut txn.late_mut().rows) {
            self.sessions.rows().replace(txn, &SessionKey { workspace, session: id }, &session)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{AgentId, ChatId};
    use crate::model::session::{ChatSession, Route, SessionName};
    use crate::model::time::Timestamp;
    use crate::model::workspace::{Discriminator, Fingerprint};
    use crate::tests::store;
    use crate::{Error, Store, Write};

    const WORKSPACE: WorkspaceKey =
        WorkspaceKey { fingerprint: Fingerprint::from_number(7), discriminator: Discriminator(0) };

    fn session(messages: u64) -> Session {
        let (agent, name) = (AgentId::new(1), SessionName::Default);
        let session = ChatSession::new(agent, name, Route::AgentShared, None, Timestamp::from_millis(0));
        Session::Chat(ChatSession { last_number: messages, messages, ..session })
    }

    fn ids() -> impl Iterator<Item = SessionId> {
        (1..=HELD_MAX as u64 + 3).map(SessionId::new)
    }

    fn one_more(db: &Tables, txn: &mut Write<'_>, id: SessionId) -> Result<()> {
        let (workspace, before) = db.session(txn, id)?.unwrap();
        db.put_session(txn, SessionKey { workspace, session: id }, &before, session(before.messages() + 1))
    }

    /// How many messages each session has in its table.
    fn written(db: &Tables, txn: &Write<'_>) -> Result<Vec<u64>> {
        let row = |id| db.sessions.require(txn, &SessionKey { workspace: WORKSPACE, session: id });
        ids().map(|id| row(id).map(|session| session.messages())).collect()
    }

    /// How many messages each session has as the transaction sees it.
    fn known(db: &Tables, txn: &Write<'_>) -> Vec<u64> {
        ids().map(|id| db.session(txn, id).unwrap().unwrap().1.messages()).collect()
    }

    fn all(messages: u64) -> Vec<u64> {
        vec![messages; ids().count()]
    }

    /// A store with these sessions and no messages.
    fn silent() -> (tempfile::TempDir, Store) {
        let (dir, store) = store();
        let put = |db: &Tables, txn: &mut Write<'_>, id| {
            db.sessions.put(txn, &SessionKey { workspace: WORKSPACE, session: id }, &session(0))
        };
        store.write(|db, txn| ids().try_for_each(|id| put(db, txn, id))).unwrap();
        (dir, store)
    }

    /// Fails like a nested transaction that must be rolled back.
    fn fail(db: &Tables, txn: &Write<'_>) -> Result<()> {
        db.chats.require(txn, &ChatId::new(9)).map(drop)
    }

    #[test]
    fn sessions_are_known_at_once_and_written_in_time() {
        let (_dir, store) = silent();
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
                    fail(db, part)
                });
                assert!(undone.is_err());
                store.part(txn, |part| ids().try_for_each(|id| one_more(db, part, id)))?;
                assert_eq!(known(db, txn), all(4));
                Ok::<_, Error>(())
            })
            .unwrap();
        let written = store.write(|db, txn| {
            assert!(db.session(txn, SessionId::new(99))?.is_none());
            written(db, txn)
        });
        assert_eq!(written.unwrap(), all(4));
    }

    /// Parts within parts, each of which holds more than there is room for, so that it writes what was held before it,
    /// too.
    #[test]
    fn what_a_part_wrote_of_what_was_held_before_it_is_held_again_when_it_is_undone() {
        let (_dir, store) = silent();
        store
            .write(|db, txn| {
                db.write_late(txn, true)?;
                one_more(db, txn, SessionId::new(1))?;
                let outer = store.part(txn, |outer| {
                    ids().try_for_each(|id| one_more(db, outer, id))?;
                    let before = written(db, outer)?;
                    let inner = store.part(outer, |inner| {
                        ids().try_for_each(|id| one_more(db, inner, id))?;
                        assert_ne!(written(db, inner)?, before, "there was no room for all");
                        fail(db, inner)
                    });
                    assert!(inner.is_err());
                    assert_eq!(written(db, outer)?, before);
                    assert_eq!(known(db, outer)[..2], [2, 1]);
                    store.part(outer, |inner| one_more(db, inner, SessionId::new(2)))?;
                    assert_eq!(known(db, outer)[..3], [2, 2, 1]);
                    fail(db, outer)
                });
                assert!(outer.is_err());
                assert_eq!((written(db, txn)?, known(db, txn)[0]), (all(0), 1));
                one_more(db, txn, SessionId::new(3))
            })
            .unwrap();
        let written = store.write(|db, txn| written(db, txn)).unwrap();
        assert_eq!((&written[..3], written.iter().sum()), (&[1, 0, 1][..], 2_u64));
    }

    /// Inputs of a group: each says something in all sessions, late or not, and fails if it is asked to.
    #[test]
    fn a_group_leaves_what_its_inputs_leave_however_it_is_carried_out() {
        for undoable in [|_: &(bool, bool)| true, |_: &(bool, bool)| false] {
            let (_dir, store) = silent();
            let work = |db: &Tables, txn: &mut Write<'_>, (late, fails): &(bool, bool)| {
                db.write_late(txn, *late)?;
                let before = known(db, txn);
                assert!(*late || written(db, txn)? == before, "whoever looks for itself finds all");
                ids().try_for_each(|id| one_more(db, txn, id))?;
                if *fails {
                    fail(db, txn)?
                }
                Ok::<_, Error>(before[0])
            };
            let inputs = [(true, false), (true, true), (false, false), (true, false), (false, true), (true, false)];
            let answers = store.write_batch(&inputs, work, undoable, Error::is_full).unwrap();
            let answers: Vec<Option<u64>> = answers.into_iter().map(|answer| answer.ok()).collect();
            assert_eq!(answers, [Some(0), None, Some(1), Some(2), None, Some(3)]);
            assert_eq!(store.write(|db, txn| written(db, txn)).unwrap(), all(4));
        }
    }

    #[test]
    fn what_was_held_goes_with_its_transaction() {
        let (_dir, store) = silent();
        let undone = store.write(|db, txn| {
            db.write_late(txn, true)?;
            ids().try_for_each(|id| one_more(db, txn, id))?;
            fail(db, txn)
        });
        assert!(undone.is_err());
        store
            .write(|db, txn| {
                assert_eq!(known(db, txn), all(0));
                one_more(db, txn, SessionId::new(1))?;
                assert_eq!(written(db, txn)?[0], 1, "late is said anew in each transaction");
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}
