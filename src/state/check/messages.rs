//! Messages on their way to agents: exactly one index row for every state, exact counts.

use std::collections::BTreeMap;

use super::Check;
use crate::model::id::{AgentId, BodyId};
use crate::model::message::{Body, Due, Message, MessageState};
use crate::model::session::Session;
use crate::state::{ForeignKey, Result, Text};

/// Where a message waits, according to its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Ready,
    Later,
    Retries,
    Context,
    Claims,
    Nowhere,
}

fn waits(message: &Message) -> Waits {
    match (&message.state, message.trigger) {
        (MessageState::Pending(_), false) => Waits::Context,
        (MessageState::Pending(Due::Now), true) => Waits::Ready,
        (MessageState::Pending(Due::At(_)), true) => Waits::Later,
        (MessageState::Pending(Due::Retry(_)), true) => Waits::Retries,
        (MessageState::Claimed { .. }, _) => Waits::Claims,
        (MessageState::Completed { .. } | MessageState::Failed { .. } | MessageState::Dropped { .. }, _) => {
            Waits::Nowhere
        }
    }
}

/// Every message is in exactly the indexes of its state.
pub(super) fn states(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.messages,
        &db.messages_by_session,
        |id, message| Some(((message.session, message.seq), *id)),
        |_, id| *id,
    )?;
    for (index, place) in [(&db.ready, Waits::Ready), (&db.context, Waits::Context), (&db.claims, Waits::Claims)] {
        check.agree(
            &db.messages,
            index,
            |id, message| (waits(message) == place).then_some(((message.session, message.seq), *id)),
            |_, id| *id,
        )?;
    }
    check.agree(
        &db.messages,
        &db.later,
        |id, message| match message.state {
            MessageState::Pending(Due::At(at)) if message.trigger => Some(((at, *id), ())),
            _ => None,
        },
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.messages,
        &db.retries,
        |id, message| match message.state {
            MessageState::Pending(Due::Retry(at)) if message.trigger => Some(((at, *id), ())),
            _ => None,
        },
        |(_, id), ()| *id,
    )
}

/// Messages are found by what they say, and files by the bodies that need them.
pub(super) fn bodies(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.messages,
        &db.messages_by_body,
        |id, message| Some(((message.body, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.each(&db.bodies, |check, id, body| {
        for key in blobs_of(id, &body) {
            if check.look_up(&db.blobs, &key)?.is_none() {
                check.report(&db.blobs, &key, format!("missing for bodies {id}"));
            }
        }
        Ok(())
    })?;
    check.each(&db.blobs, |check, key, ()| {
        let body = check.look_up(&db.bodies, &key.1)?;
        if !body.is_some_and(|body| blobs_of(key.1, &body).contains(&key)) {
            check.report(&db.blobs, &key, "left over: no row of bodies has it");
        }
        Ok(())
    })
}

fn blobs_of(id: BodyId, body: &Body) -> Vec<(Text, BodyId)> {
    let blobs = body.attachments.iter().filter_map(|file| file.blob.as_ref().ok());
    blobs.filter_map(|blob| Some((Text::new(blob.as_str()).ok()?, id))).collect()
}

/// Counts per agent are exact, and no row is kept for nothing.
pub(super) fn backlog(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut counts: BTreeMap<AgentId, u64> = BTreeMap::new();
    check.each(&db.messages, |_, _, message| {
        if message.trigger && matches!(message.state, MessageState::Pending(_) | MessageState::Claimed { .. }) {
            *counts.entry(message.agent).or_default() += 1;
        }
        Ok(())
    })?;
    check.each(&db.backlog, |check, agent, said| {
        let counted = counts.remove(&agent).unwrap_or_default();
        if counted != said || said == 0 {
            check.report(&db.backlog, &agent, format!("says {said}, counted {counted}"));
        }
        Ok(())
    })?;
    for (agent, counted) in counts {
        check.report(&db.backlog, &agent, format!("missing, counted {counted}"));
    }
    Ok(())
}

/// What messages refer to is there. A body may be gone when its message is over: retention removes bodies first.
pub(super) fn references(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.messages, |check, id, message| {
        let from = (&db.messages, &id);
        check.refers(from, (&db.sessions_by_id, &message.session))?;
        check.refers(from, (&db.agents, &message.agent))?;
        let over = matches!(
            message.state,
            MessageState::Completed { .. } | MessageState::Failed { .. } | MessageState::Dropped { .. }
        );
        if !over {
            check.refers(from, (&db.bodies, &message.body))?;
        }
        if let MessageState::Claimed { incarnation, .. } = message.state
            && check.look_up(&db.live, &message.session)? != Some(incarnation)
        {
            check.report(&db.messages, &id, format!("claimed by incarnation {incarnation}, which is not live"));
        }
        let Some((fingerprint, discriminator)) = check.look_up(&db.sessions_by_id, &message.session)? else {
            return Ok(());
        };
        let session = check.look_up(&db.sessions, &(fingerprint, discriminator, message.session))?;
        if session.and_then(Session::chat).is_some_and(|session| session.agent != message.agent) {
            check.report(&db.messages, &id, "its agent is not its session's");
        }
        Ok(())
    })
}

/// What is remembered of platform messages leads to messages, under the right key.
pub(super) fn seen(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.seen, |check, key, seen| {
        if key.2 != ForeignKey::of(&seen.platform_message) {
            check.report(&db.seen, &key, "the key is another message's");
        }
        for message in &seen.messages {
            check.refers((&db.seen, &key), (&db.messages, message))?;
        }
        Ok(())
    })
}
