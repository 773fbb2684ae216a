//! Forks sessions.

use crate::Result;
use crate::model::content::RawJson;
use crate::model::id::{ChangeId, SessionId};
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{Base, Lineage, WorkspaceSession};
use crate::model::session_command::{ForkSession, Home, NewSession, SessionOutcome, SessionRefusal};
use crate::model::workspace::{WorkspaceFact, WorkspaceKey};
use crate::rules::json;
use crate::rules::json::Field;
use crate::tx::Tx;
use crate::workspaces::rows::{Halt, Outcome, StoredSession};
use crate::workspaces::view::{Cut, Direction};
use crate::workspaces::{create, locate, rename, rows, view};

/// Creates a fork. A fork of a workspace session shares its records, at the same cost for any number of them. For an
/// agent's session the newest messages are copied, because retention removes the originals.
pub(crate) fn fork(tx: &mut Tx<'_, '_>, wanted: ForkSession) -> Outcome<(StoredSession, SessionOutcome)> {
    check(&wanted)?;
    let workspace = create::settle(tx, &wanted.home)?;
    match rows::load(tx, wanted.parent) {
        Ok(parent) => {
            let found = share(tx, &parent, workspace, wanted)?;
            hand_over(tx, parent.workspace, parent.id, &found)?;
            Ok((found, SessionOutcome::Changed))
        }
        Err(Halt::Refused(SessionRefusal::IsChat { session })) => copy(tx, session, workspace, wanted),
        Err(halt) => Err(halt),
    }
}

/// Checks the name of the branch.
pub(crate) fn check(wanted: &ForkSession) -> std::result::Result<(), SessionRefusal> {
    rename::check("branch", decide_branch(wanted.branch.as_deref()).as_deref())
}

fn share(
    tx: &mut Tx<'_, '_>,
    parent: &StoredSession,
    workspace: WorkspaceKey,
    wanted: ForkSession,
) -> Outcome<StoredSession> {
    let all = parent.row.records;
    let upto = wanted.upto.unwrap_or(all);
    if upto > all {
        let session = parent.row.label.to_string();
        return Err(SessionRefusal::NoSuchRecord { session, wanted: upto, found: all }.into());
    }
    let label = rows::choose_label(tx, workspace, wanted.label)?;
    let now = rows::stamp(tx, workspace)?;
    let order: ChangeId = tx.db.allocate(tx)?;
    let messages = if upto == all { parent.row.messages } else { messages_upto(tx, parent, upto)? };
    let row = WorkspaceSession {
        title: parent.row.title.clone(),
        model: parent.row.model.clone(),
        order: order.number(),
        base: base(tx, parent, upto)?,
        records: upto,
        messages,
        lineage: Some(Lineage {
            parent: parent.row.label.to_string(),
            session: Some((parent.workspace, parent.id)),
            branch: decide_branch(wanted.branch.as_deref()),
        }),
        compaction: parent.row.compaction.clone(),
        ..WorkspaceSession::new(label, now)
    };
    Ok(rows::insert(tx, workspace, row)?)
}

/// The base of a fork: the revision that holds the last of its records itself. Revisions that only share the record are
/// skipped.
fn base(tx: &Tx<'_, '_>, parent: &StoredSession, upto: u64) -> Result<Option<Base>> {
    if upto == 0 {
        return Ok(None);
    }
    let cut = view::holder(tx.db, tx, Cut::current(parent.id, &parent.row), upto)?;
    Ok(Some(Base { session: cut.session, revision: cut.revision, upto }))
}

/// The number of messages among the first records. It walks over them, which only a fork in the middle needs.
fn messages_upto(tx: &Tx<'_, '_>, parent: &StoredSession, upto: u64) -> Result<u64> {
    let parts = view::segments(tx.db, tx, Cut::current(parent.id, &parent.row))?;
    let (mut after, mut messages) = (0, 0_u64);
    while after < upto {
        let some = view::records(tx.db, tx, &parts, after, tx.policy.rows_per_input)?;
        let Some((last, _)) = some.last() else { break };
        let counted = some.iter().filter(|(number, record)| *number <= upto && view::is_message(record)).count();
        messages = messages.saturating_add(u64::try_from(counted).unwrap_or(u64::MAX));
        after = *last;
    }
    Ok(messages)
}

fn copy(
    tx: &mut Tx<'_, '_>,
    parent: SessionId,
    workspace: WorkspaceKey,
    wanted: ForkSession,
) -> Outcome<(StoredSession, SessionOutcome)> {
    let from = tx.db.sessions_by_id.require(tx, &parent)?;
    let newest = view::conversation(tx.db, tx, parent, tx.policy.rows_per_input / 4)?;
    let all = tx.db.messages_by_session.prefix(tx, &parent)?.count();
    let all = all.saturating_add(tx.db.outbound_by_number.prefix(tx, &parent)?.count());
    let expired = newest.iter().filter(|record| record.text.is_none()).count();
    let records = newest.iter().filter_map(|record| {
        let role = if record.way == Direction::In { SpeakerRole::User } else { SpeakerRole::Assistant };
        let blocks = text_blocks(record.text.as_deref()?);
        let body = RecordBody::Message { role, blocks, usage: None, ends_turn: None };
        Some(SessionRecord { at: record.at, body, extra: None })
    });
    let new = NewSession {
        home: Home::Known(workspace),
        label: wanted.label,
        title: None,
        model: None,
        times: None,
        source: None,
        records: records.collect(),
    };
    let before = create::create(tx, new)?;
    let mut found = before.clone();
    found.row.lineage = Some(Lineage {
        parent: parent.to_string(),
        session: Some((from, parent)),
        branch: decide_branch(wanted.branch.as_deref()),
    });
    rows::save(tx, &before, &found)?;
    hand_over(tx, from, parent, &found)?;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let left_out = count(all.saturating_sub(newest.len()));
    Ok((found, SessionOutcome::Copied { left_out, expired: count(expired) }))
}

/// A text as the blocks of a message.
fn text_blocks(text: &str) -> RawJson {
    let block = json::object(&[("text", Field::Text(text)), ("type", Field::Text("text"))]);
    RawJson::trusted(format!("[{}]", block.as_str()))
}

/// Records a fork from one workspace into another, in both workspaces.
fn hand_over(tx: &mut Tx<'_, '_>, from: WorkspaceKey, parent: SessionId, fork: &StoredSession) -> Result<()> {
    if from == fork.workspace {
        return Ok(());
    }
    let out = WorkspaceFact::HandedOver { session: parent, fork: fork.id, to: fork.workspace };
    locate::happened(tx, from, out)?;
    locate::happened(tx, fork.workspace, WorkspaceFact::TakenOver { session: fork.id, parent, from })
}

fn decide_branch(given: Option<&str>) -> Option<String> {
    given.map(str::trim).filter(|branch| !branch.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use crate::workspaces::fork::*;

    #[test]
    fn branches_are_trimmed() {
        for (given, branch) in [
            (None, None),
            (Some(""), None),
            (Some("   "), None),
            (Some("  b 1 \n"), Some("b 1")),
            (Some("bugfix"), Some("bugfix")),
        ] {
            assert_eq!(decide_branch(given).as_deref(), branch, "{given:?}");
        }
    }
}
