//! Dispatches queued messages to an agent's live incarnation, or starts a new one.

use crate::Result;
use crate::lifecycle::budget::{Judgement, Unjudged};
use crate::lifecycle::capacity::CapacityLimit;
use crate::lifecycle::fallback::{ChosenProvider, Next};
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{budget, capacity, fallback, halt, mailbox_view, rate_limit, start_backoff, unattended};
use crate::model::address::UserId;
use crate::model::effect::{Effect, ExportedMessage, Launch};
use crate::model::id::{MessageId, SessionId};
use crate::model::incarnation::{Incarnation, IncarnationId, Phase};
use crate::model::message::MessageKind;
use crate::model::session::{ChatSession, SessionStatus};
use crate::rows::agents::{self, LaunchConfig};
use crate::rows::host_grants::Reaching;
use crate::rows::{host_grants, notes, sessions};
use crate::state::Basis;
use crate::tx::Tx;
use std::sync::Arc;

/// Sends a session's agent a text that requests a turn of its own.
pub(crate) fn send_text(tx: &mut Tx<'_, '_>, session: SessionId, text: &str) -> Result<MessageId> {
    let message = notes::leave(tx, session, text, MessageKind::Chat, true)?;
    dispatch_message(tx, session, message)?;
    Ok(message)
}

/// Does what a session's queued messages need: an export to its live incarnation, or the start of a new one. Does
/// nothing while the incarnation is ending. Without a free slot, returns the limit that was reached. Calling it twice
/// produces the same effects twice, which is harmless.
pub(crate) fn dispatch_session(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<Option<CapacityLimit>> {
    if oldest(tx, id)?.is_none() {
        return Ok(None);
    }
    let Some(session) = sessions::load(tx, id)? else { return Ok(None) };
    let agent = tx.db.agents.require(tx, &session.agent)?;
    dispatch_to(tx, SessionRef { id, session: &session, agent: &agent }, None, None)
}

/// A message that has just been queued in a session.
pub(crate) struct DueMessage<'a> {
    /// Its session and agent.
    pub(crate) of: SessionRef<'a>,
    pub(crate) message: ExportedMessage,
    /// The person who sent it, if that is at hand.
    pub(crate) sender: Option<&'a UserId>,
}

/// Such a message, for what looks at it.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub(crate) message: &'a ExportedMessage,
    pub(crate) sender: Option<&'a UserId>,
}

/// Like [`dispatch_due`], but loads the message first.
pub(crate) fn dispatch_message(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    message: MessageId,
) -> Result<Option<CapacityLimit>> {
    let Some(session) = sessions::load(tx, id)? else { return Ok(None) };
    let agent = tx.db.agents.require(tx, &session.agent)?;
    let message = mailbox_view::view(tx, message)?;
    dispatch_due(tx, DueMessage { of: SessionRef { id, session: &session, agent: &agent }, message, sender: None })
}

/// Like [`dispatch_session`], for one message that has just been queued. The others were exported when they were
/// queued.
pub(crate) fn dispatch_due(
    tx: &mut Tx<'_, '_>,
    DueMessage { of, message, sender }: DueMessage<'_>,
) -> Result<Option<CapacityLimit>> {
    if oldest(tx, of.id)?.is_none() { Ok(None) } else { dispatch_to(tx, of, Some(message), sender) }
}

/// Like [`dispatch_due`], for a person's message. If something was dispatched, shows that the agent is typing, where
/// the answer will appear.
pub(crate) fn dispatch_visibly(tx: &mut Tx<'_, '_>, arrival: DueMessage<'_>) -> Result<Option<CapacityLimit>> {
    let (id, reply, before) = (arrival.of.id, arrival.message.reply.clone(), tx.effects.len());
    let full = dispatch_due(tx, arrival)?;
    let brought = tx.effects.iter().skip(before).any(|effect| match effect {
        Effect::Export(export) => export.session == id && !export.messages.is_empty(),
        Effect::Launch(launch) => launch.session == id,
        _ => false,
    });
    if let (true, Some(reply)) = (brought, reply) {
        tx.effects.push(Effect::Typing(id, reply));
    }
    Ok(full)
}

/// The oldest queued message of a session.
struct OldestMessage {
    seq: u64,
    id: MessageId,
}

fn oldest(tx: &Tx<'_, '_>, session: SessionId) -> Result<Option<OldestMessage>> {
    let row = tx.db.ready_messages.first_in(tx, &session)?;
    Ok(row.map(|(key, id)| OldestMessage { seq: key.seq, id }))
}

fn dispatch_to(
    tx: &mut Tx<'_, '_>,
    of: SessionRef<'_>,
    arrived: Option<ExportedMessage>,
    sender: Option<&UserId>,
) -> Result<Option<CapacityLimit>> {
    let incarnation = match of.session.live {
        Some(number) => {
            let id = IncarnationId { session: of.id, number };
            tx.once(Basis::Runs, &id, || tx.db.incarnations.get(tx, &id))?
        }
        None => Arc::new(None),
    };
    // A removed agent starts nothing, even before its sessions are archived.
    let step = decide(of.session, (*incarnation).as_ref(), of.agent.archived.is_some());
    if step == Step::Nothing || halt::frozen(tx, of.session.agent)?.is_some() {
        return Ok(None);
    }
    let provider = match fallback::next(tx, of)? {
        Next::Provider(provider) => provider,
        Next::Wait(hold_off) => return rate_limit::postpone_all(tx, of.id, &hold_off).map(|()| None),
    };
    if unattended::holds(tx, of, arrived.as_ref().map(|message| message.id))? {
        return Ok(None);
    }
    let queued = budget::unjudged(tx, of, arrived.as_ref().map(|message| Arrived { message, sender }))?;
    let Affordable { provider, judgement } = affordable(tx, of, provider, &queued)?;
    let drives = provider.drives(tx, of.id)?;
    // The failed starts were those of another provider, unless it drives the session already. A turn under way goes on
    // with its provider, and with what arrives meanwhile.
    if (step == Step::Launch && drives && !start_backoff::may_start(of.session, tx.now.awake))
        || (step == Step::Export && !drives && make_way(tx, of)?)
    {
        return Ok(None);
    }
    let admission = budget::admit(tx, of, judgement)?;
    // Some messages may wait for a budget now.
    let oldest = self::oldest(tx, of.id)?.filter(|_| arrived.as_ref().is_none_or(|one| !admission.holds(one.id)));
    let Some(oldest) = oldest else { return Ok(None) };
    if step == Step::Launch
        && let Some(full) = capacity::full(tx, of, &provider)?
    {
        return capacity::make_room(tx, full, oldest.id).map(|()| Some(full));
    }
    budget::reserve(tx, admission)?;
    if step == Step::Launch {
        return launch(tx, of, provider).map(|()| None);
    }
    let export = match arrived {
        // What a person's message lets go on was not exported before.
        Some(message) if message.seq > oldest.seq && unattended::held_before(tx, of, message.seq)? => {
            Some(mailbox_view::everything(tx, of, false)?)
        }
        Some(message) => mailbox_view::one(tx, of, message, oldest.seq)?,
        None => Some(mailbox_view::everything(tx, of, false)?),
    };
    tx.effects.extend(export.map(|export| Effect::Export(Box::new(export))));
    Ok(None)
}

/// The provider whose run goes on with the queued messages that it has; none if its session has to be dispatched first.
pub(crate) fn goes_on_with(tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<Option<ChosenProvider>> {
    let Some(number) = of.session.live else { return Ok(None) };
    let incarnation = tx.db.incarnations.get(tx, &IncarnationId { session: of.id, number })?;
    if decide(of.session, incarnation.as_ref(), of.agent.archived.is_some()) != Step::Export
        || halt::frozen(tx, of.session.agent)?.is_some()
        || unattended::waits_for_person(tx.db, tx, of.id, of.agent)?.is_some()
    {
        return Ok(None);
    }
    match fallback::next(tx, of)? {
        Next::Provider(provider) if provider.drives(tx, of.id)? => Ok(Some(provider)),
        Next::Provider(_) | Next::Wait(_) => Ok(None),
    }
}

/// The provider of a next turn, and what budgets say about its messages.
struct Affordable {
    provider: ChosenProvider,
    judgement: Judgement,
}

/// If a budget has no room for a turn of this provider, one that costs nothing takes its place.
fn affordable(
    tx: &Tx<'_, '_>,
    of: SessionRef<'_>,
    provider: ChosenProvider,
    queued: &[Unjudged],
) -> Result<Affordable> {
    if queued.is_empty() {
        return Ok(Affordable { provider, judgement: Judgement::default() });
    }
    let judgement = budget::judge(tx, of, budget::costs_nothing(tx, of, &provider)?, queued)?;
    let Some(budget) = judgement.waits_for() else { return Ok(Affordable { provider, judgement }) };
    let Some(free) = fallback::free(tx, of, &budget)? else { return Ok(Affordable { provider, judgement }) };
    let judgement = budget::judge(tx, of, true, queued)?;
    Ok(Affordable { provider: free, judgement })
}

/// Exports messages that did not fit into a session's mailbox before, if there can be any. `over` are the positions of
/// the messages that have just ended.
pub(crate) fn dispatch_rest(tx: &mut Tx<'_, '_>, id: SessionId, over: &[u64]) -> Result<()> {
    let Some((newest, _)) = tx.db.ready_messages.last_in(tx, &id)? else { return Ok(()) };
    // The oldest message that was queued at the last export is at least as old as these.
    let claimed = tx.db.claimed_messages.first_in(tx, &id)?.map(|(key, _)| key.seq);
    let ready = tx.db.ready_messages.first_in(tx, &id)?.map(|(key, _)| key.seq);
    let oldest = over.iter().copied().chain(claimed).chain(ready).min().unwrap_or(0);
    if mailbox_view::in_window(oldest, newest.seq) { Ok(()) } else { dispatch_session(tx, id).map(drop) }
}

/// What a session's queued messages need.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Export,
    Launch,
}

fn decide(session: &ChatSession, incarnation: Option<&Incarnation>, removed: bool) -> Step {
    if removed || session.status != SessionStatus::Active {
        return Step::Nothing;
    }
    // An incarnation that ends with its turn receives nothing more either.
    let phase = incarnation.filter(|incarnation| incarnation.outdated.is_none()).map(|incarnation| &incarnation.phase);
    match (session.live, phase) {
        (None, _) => Step::Launch,
        (Some(_), Some(Phase::Starting | Phase::Running)) => Step::Export,
        // An ending incarnation receives nothing more. Its close wakes the session again.
        (Some(_), _) => Step::Nothing,
    }
}

/// Ends the session's run if it is idle, for a run of another provider.
fn make_way(tx: &mut Tx<'_, '_>, of: SessionRef<'_>) -> Result<bool> {
    let live = of.session.live.map(|number| IncarnationId { session: of.id, number });
    live.map_or(Ok(false), |live| fallback::make_way(tx, live))
}

fn launch(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, provider: ChosenProvider) -> Result<()> {
    let id = of.id;
    let changes = !provider.drives(tx, id)?;
    fallback::switch(tx, of, provider)?;
    let (session, number) = sessions::update(tx, id, |session| {
        if changes {
            (session.failed_starts, session.start_after) = (0, None);
        }
        session.last_incarnation = session.last_incarnation.saturating_add(1);
        session.live = Some(session.last_incarnation);
        session.context_version = session.context_version.saturating_add(1);
        session.last_incarnation
    })?;
    let digest = agents::of(tx, id, &session, of.agent)?.digest;
    let incarnation = Incarnation::new(tx.now.awake, tx.now.wall, digest);
    tx.db.incarnations.put(tx, &IncarnationId { session: id, number }, &incarnation)?;
    launch_effect(tx, SessionRef { session: &session, ..of }, number)
}

/// Requests the start of an incarnation again. The runtime starts it only if it is not running.
pub(crate) fn launch_again(tx: &mut Tx<'_, '_>, incarnation: IncarnationId) -> Result<()> {
    let IncarnationId { session: id, number } = incarnation;
    let Some(session) = sessions::load(tx, id)? else { return Ok(()) };
    let agent = tx.db.agents.require(tx, &session.agent)?;
    launch_effect(tx, SessionRef { id, session: &session, agent: &agent }, number)
}

fn launch_effect(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, incarnation: u32) -> Result<()> {
    let export = mailbox_view::everything(tx, of, true)?;
    let LaunchConfig { digest, image, secrets } = agents::of(tx, of.id, of.session, of.agent)?;
    let settings = agents::settings_in(tx.db, tx, of.id, of.session, of.agent)?.into_owned();
    let reaching = Reaching { agent: of.session.agent, session: of.id, settings: &settings };
    let policy = host_grants::policy(tx.db, tx, reaching, tx.now.wall)?;
    tx.effects.push(Effect::Launch(Box::new(Launch {
        session: of.id,
        incarnation,
        folder: of.agent.folder.to_string(),
        settings,
        session_name: of.session.name,
        digest,
        image,
        secrets,
        policy,
        export,
    })));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::dispatch::*;
    use crate::model::id::AgentId;
    use crate::model::incarnation::{Exit, SpecDigest, StopReason};
    use crate::model::session::{Route, SessionName};
    use crate::model::time::{Awake, Timestamp};

    #[test]
    fn a_session_has_one_incarnation_at_a_time() {
        let at = Timestamp::from_millis(0);
        let awake = Awake::new(1, 0);
        let session = |live, status| {
            let (agent, name) = (AgentId::new(1), SessionName::Default);
            ChatSession {
                last_incarnation: 1,
                live,
                status,
                ..ChatSession::new(agent, name, Route::AgentShared, None, at)
            }
        };
        let decide_for = |phase: Option<Phase>, status, removed| {
            let live = phase.is_some().then_some(1);
            let incarnation =
                phase.map(|phase| Incarnation { phase, ..Incarnation::new(awake, at, SpecDigest::new(0)) });
            decide(&session(live, status), incarnation.as_ref(), removed)
        };
        let stopping = Phase::Stopping { why: StopReason::Ceiling, since: awake };
        let collecting = Phase::Collecting { exit: Exit::Code(0), since: awake };
        for (phase, status, removed, expected) in [
            (None, SessionStatus::Active, false, Step::Launch),
            (None, SessionStatus::Active, true, Step::Nothing),
            (None, SessionStatus::Archived, false, Step::Nothing),
            (Some(Phase::Starting), SessionStatus::Active, false, Step::Export),
            (Some(Phase::Running), SessionStatus::Active, false, Step::Export),
            (Some(Phase::Running), SessionStatus::Active, true, Step::Nothing),
            (Some(stopping), SessionStatus::Active, false, Step::Nothing),
            (Some(collecting), SessionStatus::Active, false, Step::Nothing),
        ] {
            assert_eq!(decide_for(phase.clone(), status, removed), expected, "{phase:?} {status:?} {removed}");
        }
    }
}
