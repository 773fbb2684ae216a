//! Skips: summaries of what agents' skills left undone.
//!
//! A summary is stored as soon as its file is found. People are told once the turn in which it appeared is over and the
//! same file still exists, because a skill may tell them itself and remove the file. The file is removed after the
//! message was delivered. The store records what was told, so a crash in between causes no second message.
//!
//! A temporary failure is reported as information. A deliberate skip or a repeated failure is a question that stays
//! open until it is answered.

use crate::model::effect::Effect;
use crate::model::entity::Agent;
use crate::model::id::{AgentId, SessionId, SkipId};
use crate::model::report::Reply;
use crate::model::skip::{FoundSkip, SkipFile, SkipKind, SkipLook, SkipReport, SkipState, SkipSummary};
use crate::model::time::Awake;
use crate::rows::{messages, recall};
use crate::state::{Owned, SkillKey, Text};
use crate::tx::Tx;
use crate::{Result, lifecycle};

pub(crate) mod answer;
pub(crate) mod forget;
#[cfg(test)]
mod tests;
pub(crate) mod told;

/// Maximum number of unreported skips that one sweep examines.
const DUE_MAX: usize = 250;

/// Records the skips found in an agent's folder and reports those whose turn is over. Repeating the same look changes
/// nothing.
pub(crate) fn looked(tx: &mut Tx<'_, '_>, agent: AgentId, look: &SkipLook) -> Result<Reply> {
    let Some(row) = tx.db.agents.get(tx, &agent)? else { return Ok(Reply::Done) };
    for FoundSkip { skill, content } in &look.found {
        let Ok(report) = content else { continue };
        tx.isolated(|tx| take_in(tx, agent, &row, skill, report, look.after))?;
    }
    let mut at_work = None;
    for (Owned { id, .. }, ()) in tx.db.skips_unsurfaced.collect_prefix(tx, &agent, tx.policy.rows_per_input)? {
        tx.isolated(|tx| {
            let mut skip = tx.db.skips.require(tx, &id)?;
            let over = is_over(tx, &skip, &mut at_work)?;
            let sight = decide_sight(&skip, look);
            match decide_next(skip.file, sight, over) {
                SkipAction::Leave => {}
                SkipAction::NoteReplaced => {
                    skip.file = SkipFile::Replaced;
                    tx.db.skips.put(tx, &id, &skip)?;
                }
                SkipAction::NoteTaken => {
                    (skip.state, skip.file) = (SkipState::Taken(tx.now.wall), SkipFile::Gone);
                    tx.db.skips.put(tx, &id, &skip)?;
                }
                SkipAction::Tell => {
                    if sight == SkipFileState::Another {
                        skip.file = SkipFile::Replaced;
                    }
                    told::tell(tx, id, skip, &row)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(Reply::Done)
}

/// Records that the file of a skip was removed.
pub(crate) fn gone(tx: &mut Tx<'_, '_>, id: SkipId) -> Result<()> {
    let Some(mut skip) = tx.db.skips.get(tx, &id)?.filter(|skip| skip.file == SkipFile::Left) else { return Ok(()) };
    skip.file = SkipFile::Gone;
    tx.db.skips.put(tx, &id, &skip)
}

/// Requests a look at an agent's folder, possibly after a turn of this session.
pub(crate) fn look_after(tx: &mut Tx<'_, '_>, session: Option<SessionId>, agent: AgentId) -> Result<()> {
    if let Some(row) = tx.db.agents.get(tx, &agent)?.filter(|row| row.archived.is_none()) {
        tx.effects.push(Effect::LookForSkips(agent, row.folder, session));
    }
    Ok(())
}

/// Requests a look at the folders of all agents: an earlier run may have ended before it did.
pub(crate) fn look_everywhere(tx: &mut Tx<'_, '_>) -> Result<()> {
    let mut last = AgentId::new(0);
    while let Some(agent) = tx.db.agents.next_key(tx, &last)? {
        tx.isolated(|tx| look_after(tx, None, agent))?;
        last = agent;
    }
    Ok(())
}

/// Requests another look at folders with skips that should have been reported by now, and requests the removal of files
/// that should be gone.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    let mut agents: Vec<AgentId> = Vec::new();
    let mut at_work = None;
    for (Owned { owner: agent, id }, ()) in tx.db.skips_unsurfaced.collect_range(tx, .., DUE_MAX)? {
        if agents.contains(&agent) {
            continue;
        }
        tx.isolated(|tx| {
            let skip = tx.db.skips.require(tx, &id)?;
            if is_over(tx, &skip, &mut at_work)?
                && let Some(row) = tx.db.agents.get(tx, &agent)?
            {
                tx.effects.push(Effect::LookForSkips(agent, row.folder, None));
                agents.push(agent);
            }
            Ok(())
        })?;
    }
    for (Owned { owner: agent, id }, ()) in tx.db.skips_left.collect_range(tx, .., DUE_MAX)? {
        tx.isolated(|tx| {
            if let (Some(row), Some(skip)) = (tx.db.agents.get(tx, &agent)?, tx.db.skips.get(tx, &id)?) {
                tx.effects.push(told::removal(&row, id, &skip));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Stores a report unless it is known. If a known skip was already handled, its file is removed.
fn take_in(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    row: &Agent,
    skill: &str,
    report: &SkipReport,
    after: Option<SessionId>,
) -> Result<()> {
    let Ok(file) = Text::new(format!("{skill}/{}", report.digest.as_str())) else { return Ok(()) };
    let Ok(name) = Text::new(skill) else { return Ok(()) };
    if let Some((SkillKey { skip: id, .. }, ())) = tx.db.skips_by_file.last_in(tx, &(agent, file.clone()))? {
        let mut skip = tx.db.skips.require(tx, &id)?;
        match skip.state {
            SkipState::Surfaced(..) | SkipState::Retried(_) | SkipState::Acknowledged { .. } => {
                if skip.file == SkipFile::Left {
                    return Ok(()); // the next sweep reports it at the latest
                }
                skip.file = SkipFile::There;
                told::release(tx, id, &mut skip, row);
                tx.db.skips.put(tx, &id, &skip)?;
            }
            // The file is back, or a person may be reachable by now.
            SkipState::Taken(_) | SkipState::Unsent(..) => {
                (skip.state, skip.file) = (SkipState::Waiting, SkipFile::There);
                skip.noticed = tx.now.awake;
                tx.db.skips.put(tx, &id, &skip)?;
            }
            SkipState::Waiting | SkipState::Sending(..) => {}
        }
        return Ok(());
    }
    if tx.db.skips_unsurfaced.collect_prefix(tx, &agent, tx.policy.skips_waiting_max)?.len()
        >= tx.policy.skips_waiting_max
    {
        return Ok(()); // the file stays in its folder meanwhile
    }
    let before = match tx.db.skips_by_skill.last_in(tx, &(agent, name.clone()))? {
        Some((before, ())) => tx.db.skips.get(tx, &before.skip)?,
        None => None,
    };
    let id: SkipId = tx.db.allocate(tx)?;
    let skip = SkipSummary {
        agent,
        skill: skill.to_owned(),
        session: whose(tx, agent, after)?,
        report: report.clone(),
        taken: tx.now.wall,
        noticed: tx.now.awake,
        file: SkipFile::There,
        repeats: decide_repeats(before.as_ref(), report, tx.policy.skip_repeats),
        nonce: None,
        state: SkipState::Waiting,
    };
    tx.db.skips.put(tx, &id, &skip)?;
    recall::skip_stored(tx, id, &skip)
}

/// The session whose turn produced a new file, if only one is possible.
fn whose(tx: &Tx<'_, '_>, agent: AgentId, after: Option<SessionId>) -> Result<Option<SessionId>> {
    let live = live_of(tx, agent)?;
    let mut at_work: Vec<SessionId> = after.into_iter().collect();
    for session in &live {
        if tx.db.claimed_messages.first_in(tx, session)?.is_some() && !at_work.contains(session) {
            at_work.push(*session);
        }
    }
    Ok(match (at_work.as_slice(), live.as_slice()) {
        ([only], _) | ([], [only]) => Some(*only),
        _ => None,
    })
}

/// Sessions of an agent with a live incarnation.
fn live_of(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<SessionId>> {
    Ok(lifecycle::live_of(tx, |of| of == agent)?.into_iter().map(|live| live.session).collect())
}

/// Whether every turn that may have produced the skip is over. `at_work` caches what was read for the next call.
fn is_over(tx: &Tx<'_, '_>, skip: &SkipSummary, at_work: &mut Option<(AgentId, Vec<SessionId>)>) -> Result<bool> {
    let sessions = match skip.session {
        Some(session) => vec![session],
        None if tx.now.wall >= skip.taken.plus(tx.policy.skip_wait) => return Ok(true),
        None => match at_work {
            Some((agent, sessions)) if *agent == skip.agent => sessions.clone(),
            _ => at_work.insert((skip.agent, live_of(tx, skip.agent)?)).1.clone(),
        },
    };
    let mut claims = Vec::new();
    for session in sessions {
        claims.append(&mut messages::claims_of(tx, session)?);
    }
    Ok(decide_over(skip.noticed, &claims))
}

/// A turn that began after the skip was noticed did not produce it.
fn decide_over(noticed: Awake, claims: &[Awake]) -> bool {
    claims.iter().all(|since| *since > noticed)
}

/// The number of technical skips of the same items in a row. After a question, the count starts over, so the next
/// question comes after as many more.
fn decide_repeats(before: Option<&SkipSummary>, report: &SkipReport, asked_at: u32) -> u32 {
    let sorted = |report: &SkipReport| {
        let mut items = report.items.clone();
        items.sort_unstable();
        items
    };
    let technical = |report: &SkipReport| report.kind == SkipKind::Technical;
    match before {
        Some(before)
            if technical(report)
                && technical(&before.report)
                && before.repeats < asked_at
                && sorted(&before.report) == sorted(report) =>
        {
            before.repeats.saturating_add(1)
        }
        _ => 1,
    }
}

/// What a look found in place of a skip's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkipFileState {
    Same,
    /// Another file of that name.
    Another,
    Gone,
    /// Unknown, because the look was incomplete.
    Unknown,
}

fn decide_sight(skip: &SkipSummary, look: &SkipLook) -> SkipFileState {
    match look.found.iter().find(|found| found.skill == skip.skill).map(|found| &found.content) {
        Some(Ok(report)) if report.digest == skip.report.digest => SkipFileState::Same,
        Some(_) => SkipFileState::Another,
        None if look.complete => SkipFileState::Gone,
        None => SkipFileState::Unknown,
    }
}

/// The next step for a skip that was not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkipAction {
    /// Nothing yet.
    Leave,
    /// Another report replaced it, so a reader of the file does not see this one.
    NoteReplaced,
    /// A program in the agent group told people and removed the file.
    NoteTaken,
    /// Tell people.
    Tell,
}

fn decide_next(file: SkipFile, sight: SkipFileState, over: bool) -> SkipAction {
    match (file, sight, over) {
        (SkipFile::There, SkipFileState::Gone, _) => SkipAction::NoteTaken,
        (SkipFile::There, SkipFileState::Unknown, _) => SkipAction::Leave,
        (SkipFile::There, SkipFileState::Another, false) => SkipAction::NoteReplaced,
        (SkipFile::There, SkipFileState::Same, false) => SkipAction::Leave,
        // The store has the only copy.
        (_, _, true) => SkipAction::Tell,
        (_, _, false) => SkipAction::Leave,
    }
}
