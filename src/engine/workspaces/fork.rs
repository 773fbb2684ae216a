//! A session that begins like another one.

use super::super::json::{self, Field};
use super::super::{Cx, Result};
use super::rows::{self, Found, Halt, Outcome};
use super::view::{self, Way};
use super::{create, locate::happened, rename};
use crate::model::content::RawJson;
use crate::model::id::{ChangeId, SessionId};
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{Base, Lineage, WorkspaceSession};
use crate::model::session_command::{ForkSession, Home, NewSession, SessionOutcome, SessionRefusal};
use crate::model::workspace::{WorkspaceFact, WorkspaceKey};
use crate::state::Write;

/// Makes a fork. It shares the records of a workspace session and costs the same however many there are; of an agent's
/// session the newest messages are copied, since those go when their time is over.
pub(super) fn fork(cx: &Cx<'_>, txn: &mut Write<'_>, wanted: ForkSession) -> Outcome<(Found, SessionOutcome)> {
    check(&wanted)?;
    let workspace = create::settle(cx, txn, &wanted.home)?;
    match rows::load(cx, txn, wanted.parent) {
        Ok(parent) => {
            let found = share(cx, txn, &parent, (workspace, wanted))?;
            hand_over(cx, txn, (parent.workspace, parent.id), &found)?;
            Ok((found, SessionOutcome::Changed))
        }
        Err(Halt::Refused(SessionRefusal::IsChat { session })) => copy(cx, txn, session, (workspace, wanted)),
        Err(halt) => Err(halt),
    }
}

/// Whether its branch can be called so.
pub(super) fn check(wanted: &ForkSession) -> std::result::Result<(), SessionRefusal> {
    rename::check("branch", decide_branch(wanted.branch.as_deref()).as_deref())
}

fn share(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    parent: &Found,
    (workspace, wanted): (WorkspaceKey, ForkSession),
) -> Outcome<Found> {
    let all = parent.row.records;
    let upto = wanted.upto.unwrap_or(all);
    if upto > all {
        let session = parent.row.label.to_string();
        return Err(SessionRefusal::NoSuchRecord { session, wanted: upto, found: all }.into());
    }
    let label = rows::choose_label(cx, txn, workspace, wanted.label)?;
    let now = rows::stamp(cx, txn, workspace)?;
    let order: ChangeId = cx.db.allocate(txn)?;
    let messages = if upto == all { parent.row.messages } else { messages_upto(cx, txn, parent, upto)? };
    let row = WorkspaceSession {
        title: parent.row.title.clone(),
        model: parent.row.model.clone(),
        order: order.number(),
        base: base(cx, txn, parent, upto)?,
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
    Ok(rows::insert(cx, txn, workspace, row)?)
}

/// What a fork begins with: whoever has the last of its records. Those that only share it are passed over.
fn base(cx: &Cx<'_>, txn: &Write<'_>, parent: &Found, upto: u64) -> Result<Option<Base>> {
    if upto == 0 {
        return Ok(None);
    }
    let cut = view::holder(cx.db, txn, view::Cut::current(parent.id, &parent.row), upto)?;
    Ok(Some(Base { session: cut.session, revision: cut.revision, upto }))
}

/// Messages among the first records. It takes a walk over them, which only a fork in the middle needs.
fn messages_upto(cx: &Cx<'_>, txn: &Write<'_>, parent: &Found, upto: u64) -> Result<u64> {
    let parts = view::segments(cx.db, txn, view::Cut::current(parent.id, &parent.row))?;
    let (mut after, mut messages) = (0, 0_u64);
    while after < upto {
        let some = view::records(cx.db, txn, &parts, (after, cx.policy.rows_per_input))?;
        let Some((last, _)) = some.last() else { break };
        let counted = some.iter().filter(|(number, record)| *number <= upto && view::is_message(record)).count();
        messages = messages.saturating_add(u64::try_from(counted).unwrap_or(u64::MAX));
        after = *last;
    }
    Ok(messages)
}

fn copy(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    parent: SessionId,
    (workspace, wanted): (WorkspaceKey, ForkSession),
) -> Outcome<(Found, SessionOutcome)> {
    let from = cx.db.sessions_by_id.require(txn, &parent)?;
    let newest = view::conversation(cx.db, txn, parent, cx.policy.rows_per_input / 4)?;
    let all = cx.db.messages_by_session.prefix(txn, &parent)?.count();
    let all = all.saturating_add(cx.db.outbound_by_number.prefix(txn, &parent)?.count());
    let expired = newest.iter().filter(|record| record.text.is_none()).count();
    let records = newest.iter().filter_map(|record| {
        let role = if record.way == Way::In { SpeakerRole::User } else { SpeakerRole::Assistant };
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
    let before = create::create(cx, txn, new)?;
    let mut found = before.clone();
    found.row.lineage = Some(Lineage {
        parent: parent.to_string(),
        session: Some((from, parent)),
        branch: decide_branch(wanted.branch.as_deref()),
    });
    rows::save(cx, txn, &before, &found)?;
    hand_over(cx, txn, (from, parent), &found)?;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let left_out = count(all.saturating_sub(newest.len()));
    Ok((found, SessionOutcome::Copied { left_out, expired: count(expired) }))
}

/// A text as the blocks of a message.
fn text_blocks(text: &str) -> RawJson {
    let block = json::object(&[("text", Field::Text(text)), ("type", Field::Text("text"))]);
    RawJson::trusted(format!("[{}]", block.as_str()))
}

/// Both workspaces note it when a fork is in another one than its parent.
fn hand_over(cx: &Cx<'_>, txn: &mut Write<'_>, (from, parent): (WorkspaceKey, SessionId), fork: &Found) -> Result<()> {
    if from == fork.workspace {
        return Ok(());
    }
    let out = WorkspaceFact::HandedOver { session: parent, fork: fork.id, to: fork.workspace };
    happened(cx, txn, from, out)?;
    happened(cx, txn, fork.workspace, WorkspaceFact::TakenOver { session: fork.id, parent, from })
}

fn decide_branch(given: Option<&str>) -> Option<String> {
    given.map(str::trim).filter(|branch| !branch.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

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
