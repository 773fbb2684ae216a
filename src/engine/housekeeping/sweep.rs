//! The sweep: does all work whose time has come. It uses only indexes, so the cost follows the work, not the size of
//! the store.

use crate::decisions::due;
use crate::delivery::{queue, result, speech};
use crate::entities::threads;
use crate::housekeeping::{removal, retention};
use crate::lifecycle::{budget, capacity, caps, dispatch, fetch, network, replies};
use crate::model::delivery::OutState;
use crate::model::effect::Effect;
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::incarnation::{IncarnationId, Phase};
use crate::model::mailbox::{Beat, Observation};
use crate::model::message::{Due, MessageState};
use crate::model::report::{Caused, Reply};
use crate::requests::questions;
use crate::rows::{agents, messages};
use crate::rules::liveness;
use crate::rules::liveness::{Liveness, Signs};
use crate::schedule::{recompute, run};
use crate::state::{InboxKey, Timed};
use crate::state_file::pending;
use crate::tx::Tx;
use crate::{Result, lifecycle, skips};
use std::collections::BTreeMap;

/// Records observations, then does all work whose time has come. Without any, nothing is written.
pub(crate) fn sweep(tx: &mut Tx<'_, '_>, observations: &[Observation]) -> Result<Reply> {
    for observation in observations {
        tx.isolated(|tx| observe(tx, observation))?;
    }
    let beats = beats_of(observations);
    tx.isolated(|tx| judge_all(tx, &beats))?;
    let parts = [
        due::due,
        questions::expire,
        recompute::renew_some,
        run::due,
        fetch::due,
        speech::due,
        budget::go_on,
        queue_due_messages,
        capacity::dispatch_waiting,
        replies::again,
        enqueue_due_outbound,
        attempt_again,
        pending::due,
        threads::expire,
        network::expire,
        skips::due,
        removal::resume,
        removal::index_more,
    ];
    for part in parts {
        tx.isolated(part)?;
    }
    let mut caused: Vec<Caused> = tx.effects.iter().map(Caused::from).collect();
    caused.append(&mut retention::sweep(tx)?);
    Ok(Reply::Swept(caused))
}

fn observe(tx: &mut Tx<'_, '_>, observation: &Observation) -> Result<()> {
    let key = IncarnationId { session: observation.session, number: observation.incarnation };
    if tx.db.live_incarnations.get(tx, &observation.session)? != Some(observation.incarnation) {
        return Ok(());
    }
    let mut incarnation = tx.db.incarnations.require(tx, &key)?;
    let before = incarnation.clone();
    if matches!(observation.beat, Beat::Heard { .. }) {
        if !incarnation.has_beaten() {
            incarnation.beat = tx.now.awake;
        }
        // A runner with a heartbeat is running, even if the runtime did not report it.
        if incarnation.phase == Phase::Starting {
            incarnation.phase = Phase::Running;
        }
    }
    if let Some(state) = &observation.state {
        if incarnation.tool != state.tool || state.progress {
            incarnation.tool_since = state.tool.as_ref().map(|_| tx.now.awake);
        }
        incarnation.tool.clone_from(&state.tool);
        if state.progress && is_of_claims(tx, observation.session, state.about)? {
            incarnation.get_on(tx.now.awake);
        }
    }
    // A repeated heartbeat changes nothing and must not cost a commit.
    if incarnation == before { Ok(()) } else { tx.db.incarnations.put(tx, &key, &incarnation) }
}

/// The newest heartbeat of each incarnation. An unfinished look hides all others.
fn beats_of(observations: &[Observation]) -> BTreeMap<IncarnationId, Beat> {
    let mut beats = BTreeMap::new();
    for seen in observations {
        let known = beats.entry(IncarnationId { session: seen.session, number: seen.incarnation }).or_insert(seen.beat);
        if *known != Beat::Unseen {
            *known = seen.beat;
        }
    }
    beats
}

/// Whether a sign of progress concerns a claimed message. The last actions of one turn prove nothing about the next
/// turn, which may hang. That holds even if the next message was already here before and is retried behind newer ones.
/// `about` is the message that the progress concerns. Without a claim, it is work between turns.
fn is_of_claims(tx: &Tx<'_, '_>, session: SessionId, about: Option<u64>) -> Result<bool> {
    let Some(about) = about else { return Ok(true) };
    Ok(tx.db.claimed_messages.contains(tx, &InboxKey { session, seq: about })?
        || tx.db.claimed_messages.first_in(tx, &session)?.is_none())
}

fn judge_all(tx: &mut Tx<'_, '_>, beats: &BTreeMap<IncarnationId, Beat>) -> Result<()> {
    for (session, number) in tx.db.live_incarnations.collect_range(tx, .., tx.policy.rows_per_input)? {
        let id = IncarnationId { session, number };
        tx.isolated(|tx| judge(tx, id, beats.get(&id).copied()))?;
    }
    Ok(())
}

fn judge(tx: &mut Tx<'_, '_>, id: IncarnationId, beat: Option<Beat>) -> Result<()> {
    let IncarnationId { session, number } = id;
    let incarnation = tx.db.incarnations.require(tx, &id)?;
    let signs = Signs { claims: messages::claims_of(tx, session)?, beat };
    let lives = matches!(incarnation.phase, Phase::Starting | Phase::Running);
    // The end of its turn may still be unread.
    if lives && beat != Some(Beat::Unseen) && caps::time_is_over(tx, id, &signs.claims)? {
        return Ok(());
    }
    match liveness::decide(&incarnation, &signs, tx.policy, tx.now.awake) {
        Liveness::Leave => lifecycle::stop_if_idle(tx, id)?,
        // Its signs of life may still be unread, because of a slow disk or of other sessions' files. That is not its
        // fault.
        Liveness::Stop(_) if beat == Some(Beat::Unseen) => {}
        Liveness::Stop(why) => lifecycle::stop(tx, id, why)?,
        Liveness::LaunchAgain => dispatch::launch_again(tx, id)?,
        Liveness::Inquire => tx.effects.push(Effect::Inquire(session, number)),
        Liveness::StopAgain => tx.effects.push(Effect::Stop(session, number)),
        Liveness::CollectAgain => tx.effects.push(Effect::CollectRest(session, number)),
    }
    Ok(())
}

/// Queues messages whose time has come or whose backoff is over.
fn queue_due_messages(tx: &mut Tx<'_, '_>) -> Result<()> {
    let limit = tx.policy.rows_per_input / 4;
    let past_all_ids = MessageId::new(u64::MAX);
    let later = tx.db.scheduled_messages.collect_range(tx, ..=Timed { at: tx.now.wall, id: past_all_ids }, limit)?;
    let retries =
        tx.db.messages_in_backoff.collect_range(tx, ..=Timed { at: tx.now.awake, id: past_all_ids }, limit)?;
    let ids = later.into_iter().map(|(key, ())| key.id).chain(retries.into_iter().map(|(key, ())| key.id));
    for id in ids.collect::<Vec<_>>() {
        tx.isolated(|tx| queue_due(tx, id))?;
    }
    Ok(())
}

fn queue_due(tx: &mut Tx<'_, '_>, id: MessageId) -> Result<()> {
    if messages::is_awaited(tx, id)? {
        return messages::park(tx, id);
    }
    let message = messages::update(tx, id, |message| message.state = MessageState::Pending(Due::Now))?;
    if agents::is_removed(tx, message.agent)? { messages::drop_message(tx, id) } else { Ok(()) }
}

/// Puts outgoing messages whose time has come into their queues.
fn enqueue_due_outbound(tx: &mut Tx<'_, '_>) -> Result<()> {
    let due = Timed { at: tx.now.wall, id: OutboundId::new(u64::MAX) };
    for (Timed { id, .. }, ()) in tx.db.scheduled_outbound.collect_range(tx, ..=due, tx.policy.rows_per_input / 4)? {
        tx.isolated(|tx| {
            let waiting = OutState::Waiting { until: None, after: None };
            let outbound = tx.db.outbound.update(tx, &id, |outbound| outbound.state = waiting)?.after;
            queue::enqueue(tx, id, &outbound)
        })?;
    }
    Ok(())
}

/// Handles heads of outgoing queues whose deadline has passed.
fn attempt_again(tx: &mut Tx<'_, '_>) -> Result<()> {
    let due = Timed { at: tx.now.awake, id: OutboundId::new(u64::MAX) };
    // Awake times of earlier runs sort before those of this run, so they have all passed.
    for (Timed { id, .. }, ()) in tx.db.queue_heads.collect_range(tx, ..=due, tx.policy.rows_per_input / 4)? {
        tx.isolated(|tx| result::overdue(tx, id))?;
    }
    Ok(())
}
