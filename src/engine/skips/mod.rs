//! Skips: what agents' skills left undone. The store has a summary as soon as somebody saw its file; people are told once
//! the turn in which it appeared is over and the same file is still there, since a skill inside may tell them itself and
//! remove it. The file goes when the message has arrived, and what was told is known: a crash in between tells nobody twice.
//!
//! What was broken for the moment is information; what was skipped on purpose, or was broken again and again, is a question
//! that stays open until somebody answers it.

mod answer;
mod forget;
mod texts;
mod told;

use super::{Cx, Result, lifecycle, sweep};
use crate::model::effect::Effect;
use crate::model::entity::Agent;
use crate::model::id::{AgentId, SessionId, SkipId};
use crate::model::skip::{FoundSkip, SkipFile, SkipKind, SkipLook, SkipReport, SkipState, SkipSummary};
use crate::model::time::Awake;
use crate::state::{Text, Write};

pub(super) use answer::{decide, pressed};
pub(super) use forget::{forget_agent, forget_old, is_left};
pub(super) use told::settled;

/// Skips of which people were not told yet that one sweep looks at.
const DUE_MAX: usize = 250;

/// Takes in what somebody found in an agent's folder, and tells people of what is due. The same look twice changes nothing
/// the second time.
pub(super) fn looked(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, look: &SkipLook) -> Result<Vec<Effect>> {
    let mut effects = Vec::new();
    let Some(row) = cx.db.agents.get(txn, &agent)? else { return Ok(effects) };
    for FoundSkip { skill, content } in &look.found {
        let Ok(report) = content else { continue };
        cx.apart(txn, &mut effects, |txn, effects| {
            take_in(cx, txn, (agent, &row), (skill, report, look.after), effects)
        })?;
    }
    let mut at_work = None;
    for ((_, id), ()) in cx.db.skips_unsurfaced.collect_prefix(txn, &agent, cx.policy.rows_per_input)? {
        cx.apart(txn, &mut effects, |txn, effects| {
            let mut skip = cx.db.skips.require(txn, &id)?;
            let over = is_over(cx, txn, &skip, &mut at_work)?;
            let sight = decide_sight(&skip, look);
            match decide_next(skip.file, sight, over) {
                Next::Leave => {}
                Next::NoteReplaced => {
                    skip.file = SkipFile::Replaced;
                    cx.db.skips.put(txn, &id, &skip)?;
                }
                Next::NoteTaken => {
                    (skip.state, skip.file) = (SkipState::Taken(cx.now.wall), SkipFile::Gone);
                    cx.db.skips_unsurfaced.delete(txn, &(agent, id))?;
                    cx.db.skips.put(txn, &id, &skip)?;
                }
                Next::Tell => {
                    if sight == Sight::Another {
                        skip.file = SkipFile::Replaced;
                    }
                    told::tell(cx, txn, (id, skip), &row, effects)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(effects)
}

/// Notes that the file of a skip, which had to go, is gone.
pub(super) fn gone(cx: &Cx<'_>, txn: &mut Write<'_>, id: SkipId) -> Result<()> {
    let Some(mut skip) = cx.db.skips.get(txn, &id)?.filter(|skip| skip.file == SkipFile::Left) else { return Ok(()) };
    skip.file = SkipFile::Gone;
    cx.db.skips_left.delete(txn, &(skip.agent, id))?;
    cx.db.skips.put(txn, &id, &skip)
}

/// Lets the folder of an agent be looked at, perhaps after a turn of this session.
pub(super) fn look_after(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    (session, agent): (Option<SessionId>, AgentId),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if let Some(row) = cx.db.agents.get(txn, &agent)?.filter(|row| row.archived.is_none()) {
        effects.push(Effect::LookForSkips(agent, row.folder, session));
    }
    Ok(())
}

/// Lets the folders of all agents be looked at: an earlier run may have ended before it could.
pub(super) fn look_everywhere(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let mut last = AgentId::new(0);
    while let Some(agent) = cx.db.agents.next_key(txn, &last)? {
        cx.apart(txn, effects, |txn, effects| look_after(cx, txn, (None, agent), effects))?;
        last = agent;
    }
    Ok(())
}

/// Lets the folders of agents be looked at again of whose skips people should have been told by now, and files go that
/// should be gone.
pub(super) fn due(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let mut agents: Vec<AgentId> = Vec::new();
    let mut at_work = None;
    for ((agent, id), ()) in cx.db.skips_unsurfaced.collect_range(txn, .., DUE_MAX)? {
        if agents.contains(&agent) {
            continue;
        }
        cx.apart(txn, effects, |txn, effects| {
            let skip = cx.db.skips.require(txn, &id)?;
            if is_over(cx, txn, &skip, &mut at_work)?
                && let Some(row) = cx.db.agents.get(txn, &agent)?
            {
                effects.push(Effect::LookForSkips(agent, row.folder, None));
                agents.push(agent);
            }
            Ok(())
        })?;
    }
    for ((agent, id), ()) in cx.db.skips_left.collect_range(txn, .., DUE_MAX)? {
        cx.apart(txn, effects, |txn, effects| {
            if let (Some(row), Some(skip)) = (cx.db.agents.get(txn, &agent)?, cx.db.skips.get(txn, &id)?) {
                effects.push(told::removal(&row, (id, &skip)));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Stores a report unless it is known. One that is known and over has a file that should be gone.
fn take_in(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, row): (AgentId, &Agent),
    (skill, report, after): (&str, &SkipReport, Option<SessionId>),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Ok(file) = Text::new(format!("{skill}/{}", report.digest.as_str())) else { return Ok(()) };
    let Ok(name) = Text::new(skill) else { return Ok(()) };
    if let Some(((_, _, id), ())) = cx.db.skips_by_file.last_in(txn, &(agent, file.clone()))? {
        let mut skip = cx.db.skips.require(txn, &id)?;
        match skip.state {
            SkipState::Surfaced(..) | SkipState::Retried(_) | SkipState::Acknowledged { .. } => {
                if skip.file == SkipFile::Left {
                    return Ok(()); // it goes with the next sweep at the latest
                }
                skip.file = SkipFile::There;
                told::release(cx, txn, (id, &mut skip), row, effects)?;
                cx.db.skips.put(txn, &id, &skip)?;
            }
            // It is there again, or somebody can be told by now.
            SkipState::Taken(_) | SkipState::Unsent(..) => {
                (skip.state, skip.file) = (SkipState::Waiting, SkipFile::There);
                skip.noticed = cx.now.awake;
                cx.db.skips_unsurfaced.put(txn, &(agent, id), &())?;
                cx.db.skips.put(txn, &id, &skip)?;
            }
            SkipState::Waiting | SkipState::Sending(..) => {}
        }
        return Ok(());
    }
    if cx.db.skips_unsurfaced.collect_prefix(txn, &agent, cx.policy.skips_waiting_max)?.len()
        >= cx.policy.skips_waiting_max
    {
        return Ok(()); // the file waits where it is
    }
    let before = match cx.db.skips_by_skill.last_in(txn, &(agent, name.clone()))? {
        Some(((_, _, before), ())) => cx.db.skips.get(txn, &before)?,
        None => None,
    };
    let id: SkipId = cx.db.allocate(txn)?;
    let skip = SkipSummary {
        agent,
        skill: skill.to_owned(),
        session: whose(cx, txn, agent, after)?,
        report: report.clone(),
        taken: cx.now.wall,
        noticed: cx.now.awake,
        file: SkipFile::There,
        repeats: decide_repeats(before.as_ref(), report, cx.policy.skip_repeats),
        nonce: None,
        state: SkipState::Waiting,
    };
    cx.db.skips_by_file.put(txn, &(agent, file, id), &())?;
    cx.db.skips_by_skill.put(txn, &(agent, name, id), &())?;
    cx.db.skips_unsurfaced.put(txn, &(agent, id), &())?;
    cx.db.skips.put(txn, &id, &skip)
}

/// The session in whose turn a file appeared that was not there before: the only one that it can be.
fn whose(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, after: Option<SessionId>) -> Result<Option<SessionId>> {
    let live = live_of(cx, txn, agent)?;
    let mut at_work: Vec<SessionId> = after.into_iter().collect();
    for session in &live {
        if cx.db.claims.first_in(txn, session)?.is_some() && !at_work.contains(session) {
            at_work.push(*session);
        }
    }
    Ok(match (at_work.as_slice(), live.as_slice()) {
        ([only], _) | ([], [only]) => Some(*only),
        _ => None,
    })
}

/// Sessions of an agent that have an incarnation.
fn live_of(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Vec<SessionId>> {
    Ok(lifecycle::living(cx, txn, |of| of == agent)?.into_iter().map(|(session, _)| session).collect())
}

/// Whether no turn is under way any more to which a skip may belong. `at_work` keeps what was read for the next question.
fn is_over(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    skip: &SkipSummary,
    at_work: &mut Option<(AgentId, Vec<SessionId>)>,
) -> Result<bool> {
    let sessions = match skip.session {
        Some(session) => vec![session],
        None if cx.now.wall >= skip.taken.plus(cx.policy.skip_wait) => return Ok(true),
        None => match at_work {
            Some((agent, sessions)) if *agent == skip.agent => sessions.clone(),
            _ => at_work.insert((skip.agent, live_of(cx, txn, skip.agent)?)).1.clone(),
        },
    };
    let mut claims = Vec::new();
    for session in sessions {
        claims.append(&mut sweep::claims_of(cx, txn, session)?);
    }
    Ok(decide_over(skip.noticed, &claims))
}

/// A turn that began after a skip was seen is another one.
fn decide_over(noticed: Awake, claims: &[Awake]) -> bool {
    claims.iter().all(|since| *since > noticed)
}

/// How many technical skips of the same items there were in a row. Whoever was asked is asked again after as many more.
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

/// What a look says of the file of a skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// It is there.
    Same,
    /// Another one has its name.
    Another,
    /// Nothing has its name.
    Gone,
    /// Not everything was seen.
    Unknown,
}

fn decide_sight(skip: &SkipSummary, look: &SkipLook) -> Sight {
    match look.found.iter().find(|found| found.skill == skip.skill).map(|found| &found.content) {
        Some(Ok(report)) if report.digest == skip.report.digest => Sight::Same,
        Some(_) => Sight::Another,
        None if look.complete => Sight::Gone,
        None => Sight::Unknown,
    }
}

/// What is to be done about a skip that people were not told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing yet.
    Leave,
    /// Another report was written over it: the one who reads the file does not know of this one.
    NoteReplaced,
    /// Somebody inside told people and removed the file.
    NoteTaken,
    /// People are told.
    Tell,
}

fn decide_next(file: SkipFile, sight: Sight, over: bool) -> Next {
    match (file, sight, over) {
        (SkipFile::There, Sight::Gone, _) => Next::NoteTaken,
        (SkipFile::There, Sight::Unknown, _) => Next::Leave,
        (SkipFile::There, Sight::Another, false) => Next::NoteReplaced,
        (SkipFile::There, Sight::Same, false) => Next::Leave,
        // The store has the only copy.
        (_, _, true) => Next::Tell,
        (_, _, false) => Next::Leave,
    }
}

#[cfg(test)]
mod tests;
