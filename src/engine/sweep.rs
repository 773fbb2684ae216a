//! What is due, from indexes only: the cost follows the work, not the size of the store.

use std::collections::BTreeSet;

use super::stuck::{self, Verdict};
use super::{
    Applied, Cx, Result, approvals, deliver, group, lifecycle, messages, outbox, places, remove, requests, retention,
    schedule, skips, threads, wake,
};
use crate::model::delivery::OutState;
use crate::model::effect::Effect;
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::incarnation::Phase;
use crate::model::mailbox::{Beat, Observation};
use crate::model::message::{Due, MessageState};
use crate::model::report::{Caused, Reply};
use crate::model::time::Awake;
use crate::state::Write;

/// Takes in what was observed, then does everything that is due. Nothing due: nothing is written.
pub(super) fn sweep(cx: &Cx<'_>, txn: &mut Write<'_>, observations: &[Observation]) -> Result<Applied> {
    let mut effects = Vec::new();
    for observation in observations {
        cx.apart(txn, &mut effects, |txn, _| observe(cx, txn, observation))?;
    }
    let unseen = observations.iter().filter(|seen| seen.beat == Beat::Unseen).map(|seen| seen.session).collect();
    cx.apart(txn, &mut effects, |txn, effects| judge_all(cx, txn, &unseen, effects))?;
    let parts = [
        approvals::due,
        requests::expire,
        schedule::renew_some,
        schedule::due,
        ripen_messages,
        places::fill,
        requests::replies::again,
        ripen_outbound,
        attempt_again,
        group::due,
        threads::expire,
        skips::due,
        remove::resume,
    ];
    for part in parts {
        cx.apart(txn, &mut effects, |txn, effects| part(cx, txn, effects))?;
    }
    let mut caused: Vec<Caused> = effects.iter().map(Caused::from).collect();
    caused.append(&mut retention::sweep(cx, txn, &mut effects)?);
    Ok(Applied::new(Reply::Swept(caused), effects))
}

fn observe(cx: &Cx<'_>, txn: &mut Write<'_>, observation: &Observation) -> Result<()> {
    let key = (observation.session, observation.incarnation);
    if cx.db.live.get(txn, &observation.session)? != Some(observation.incarnation) {
        return Ok(());
    }
    let mut incarnation = cx.db.incarnations.require(txn, &key)?;
    if observation.beat == Beat::New {
        incarnation.beat = cx.now.awake;
        // A runner that beats runs, whatever became of the runtime's word.
        if incarnation.phase == Phase::Starting {
            incarnation.phase = Phase::Running;
        }
    }
    if let Some(state) = &observation.state {
        if incarnation.tool != state.tool || state.progress {
            incarnation.tool_since = state.tool.as_ref().map(|_| cx.now.awake);
        }
        incarnation.tool.clone_from(&state.tool);
        if state.progress && is_of_claims(cx, txn, observation.session, state.about)? {
            incarnation.get_on(cx.now.awake);
        }
    }
    cx.db.incarnations.put(txn, &key, &incarnation)
}

/// Whether progress says something of what is claimed: what the last turn did at its end says nothing of the next one, which
/// may hang all the same, also if it was here before and is tried again behind newer ones. Without a claim it is work
/// between turns. `about`: the message that it was about.
fn is_of_claims(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, about: Option<u64>) -> Result<bool> {
    let Some(about) = about else { return Ok(true) };
    Ok(cx.db.claims.contains(txn, &(session, about))? || cx.db.claims.first_in(txn, &session)?.is_none())
}

fn judge_all(cx: &Cx<'_>, txn: &mut Write<'_>, unseen: &BTreeSet<SessionId>, effects: &mut Vec<Effect>) -> Result<()> {
    for live in cx.db.live.collect_range(txn, .., cx.policy.rows_per_input)? {
        let is_seen = !unseen.contains(&live.0);
        cx.apart(txn, effects, |txn, effects| judge(cx, txn, live, is_seen, effects))?;
    }
    Ok(())
}

fn judge(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, number): (SessionId, u32),
    is_seen: bool,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let incarnation = cx.db.incarnations.require(txn, &(session, number))?;
    let claims = claims_of(cx, txn, session)?;
    match stuck::decide(&incarnation, &claims, cx.policy, cx.now.awake) {
        Verdict::Leave => lifecycle::end_outdated(cx, txn, (session, number), effects)?,
        // What it has to say for itself may lie there unread: a slow disk, or the files of another, is not its fault.
        Verdict::Stop(_) if !is_seen => {}
        Verdict::Stop(why) => lifecycle::stop(cx, txn, (session, number), why, effects)?,
        Verdict::LaunchAgain => wake::launch_again(cx, txn, (session, number), effects)?,
        Verdict::Inquire => effects.push(Effect::Inquire(session, number)),
        Verdict::StopAgain => effects.push(Effect::Stop(session, number)),
        Verdict::CollectAgain => effects.push(Effect::CollectRest(session, number)),
    }
    Ok(())
}

/// Since when each message that a session has claimed is claimed.
pub(super) fn claims_of(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<Vec<Awake>> {
    let mut claims = Vec::new();
    for (_, id) in cx.db.claims.collect_prefix(txn, &session, cx.policy.rows_per_input)? {
        if let MessageState::Claimed { since, .. } = cx.db.messages.require(txn, &id)?.state {
            claims.push(since);
        }
    }
    Ok(claims)
}

/// Messages whose time or backoff is over may go now.
fn ripen_messages(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let limit = cx.policy.rows_per_input / 4;
    let past_all_ids = MessageId::new(u64::MAX);
    let later = cx.db.later.collect_range(txn, ..=(cx.now.wall, past_all_ids), limit)?;
    let retries = cx.db.retries.collect_range(txn, ..=(cx.now.awake, past_all_ids), limit)?;
    let ids = later.into_iter().map(|((_, id), ())| id).chain(retries.into_iter().map(|((_, id), ())| id));
    for id in ids.collect::<Vec<_>>() {
        cx.apart(txn, effects, |txn, effects| ripen(cx, txn, id, effects))?;
    }
    Ok(())
}

fn ripen(cx: &Cx<'_>, txn: &mut Write<'_>, id: MessageId, effects: &mut Vec<Effect>) -> Result<()> {
    let message = messages::update(cx, txn, id, |message| message.state = MessageState::Pending(Due::Now))?;
    if remove::is_removed(cx, txn, message.agent)? { remove::drop_message(cx, txn, id, effects) } else { Ok(()) }
}

/// Outgoing messages whose time has come enter their lanes.
fn ripen_outbound(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let due = (cx.now.wall, OutboundId::new(u64::MAX));
    for ((time, id), ()) in cx.db.outbound_later.collect_range(txn, ..=due, cx.policy.rows_per_input / 4)? {
        cx.apart(txn, effects, |txn, effects| {
            cx.db.outbound_later.delete(txn, &(time, id))?;
            let mut outbound = cx.db.outbound.require(txn, &id)?;
            outbound.state = OutState::Waiting { until: None, after: None };
            cx.db.outbound.put(txn, &id, &outbound)?;
            outbox::enter_lane(cx, txn, id, &outbound, effects)
        })?;
    }
    Ok(())
}

/// First messages of lanes for which something has to be done.
fn attempt_again(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let due = (cx.now.awake, OutboundId::new(u64::MAX));
    // Points of earlier runs sort before this one's: what they waited for is due at once.
    for ((_, id), ()) in cx.db.lane_heads.collect_range(txn, ..=due, cx.policy.rows_per_input / 4)? {
        cx.apart(txn, effects, |txn, effects| deliver::overdue(cx, txn, id, effects))?;
    }
    Ok(())
}
