//! Checks incoming messages: exactly one index row for every state, exact counts.

use std::collections::BTreeMap;

use super::Check;
use crate::derived::refused_for_backlog;
use crate::model::id::AgentId;
use crate::model::message::{Due, MessageState};
use crate::model::session::Session;
use crate::{ForeignKey, Result, SessionKey};

/// Bodies with a pending fetch have remote files or audio to transcribe, and their messages do not reach an agent before
/// that is done.
pub(super) fn fetches(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.fetches, |check, id, _| {
        let body = check.look_up(&db.bodies, &id)?;
        let remote = body.is_some_and(|body| body.attachments.iter().any(|file| file.blob.is_remote()));
        if !remote && !check.look_up(&db.transcripts, &id)?.is_some_and(|row| row.are_awaited()) {
            check.report(&db.fetches, &id, "nothing of the body has to be fetched");
        }
        Ok(())
    })?;
    check.each(&db.transcripts, |check, id, row| {
        check.refers(&db.transcripts, &id, &db.bodies, &id)?;
        if row.are_awaited() && check.look_up(&db.fetches, &id)?.is_none() {
            check.report(&db.transcripts, &id, "waits for transcripts that are not being made");
        }
        Ok(())
    })?;
    check.each(&db.messages, |check, id, message| {
        let open = matches!(message.state, MessageState::Pending(_) | MessageState::Claimed { .. });
        let body = if open { check.look_up(&db.bodies, &message.body)? } else { None };
        if !body.is_some_and(|body| body.attachments.iter().any(|file| file.blob.is_remote())) {
            return Ok(());
        }
        if check.look_up(&db.fetches, &message.body)?.is_none() {
            check.report(&db.messages, &id, "waits for files that are not being fetched");
        }
        if !matches!(message.state, MessageState::Pending(Due::At(_))) {
            check.report(&db.messages, &id, "may go to its agent before its files are there");
        }
        Ok(())
    })
}

/// Files that an agent may still read came with a message that has ended, and Hearth still has them.
pub(super) fn session_files(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.session_files, |check, key, row| {
        let message = match check.look_up(&db.messages_by_session, &key)? {
            Some(id) => check.look_up(&db.messages, &id)?,
            None => None,
        };
        let Some(message) = message else {
            check.report(&db.session_files, &key, "no message is there");
            return Ok(());
        };
        if !matches!(message.state, MessageState::Completed { .. } | MessageState::Failed { .. }) {
            check.report(&db.session_files, &key, "its message has not ended");
        }
        let body = check.look_up(&db.bodies, &message.body)?;
        if body.is_none() && db.bodies.contains(check.txn, &message.body)? {
            return Ok(()); // it is damaged, which is a finding of its own
        }
        let kept = body.map(|body| body.attachments).unwrap_or_default();
        if row.files.is_empty() || !row.files.iter().all(|file| file.blob.stored().is_some() && kept.contains(file)) {
            check.report(&db.session_files, &key, "its message does not have these files");
        }
        Ok(())
    })
}

/// Counts per agent are exact, and there are no rows with zero.
pub(super) fn backlog(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut counts: BTreeMap<AgentId, u64> = BTreeMap::new();
    check.each(&db.messages, |_, _, message| {
        if message.is_backlog() {
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

/// The newest backlog drop of each agent and chat is indexed.
pub(super) fn refusals(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut newest = BTreeMap::new();
    check.each(&db.dropped_events, |_, id, drop| {
        newest.extend(refused_for_backlog(&drop).map(|key| (key, id)));
        Ok(())
    })?;
    check.each(&db.dropped_for_backlog, |check, key, id| {
        if newest.remove(&key) != Some(id) {
            check.report(&db.dropped_for_backlog, &key, format!("{id} is not the newest refusal"));
        }
        Ok(())
    })?;
    for (key, id) in newest {
        check.report(&db.dropped_for_backlog, &key, format!("missing for {id}"));
    }
    Ok(())
}

/// References of messages have targets. The body of a finished message may be missing, because retention removes bodies
/// first.
pub(super) fn references(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.messages, |check, id, message| {
        check.refers(&db.messages, &id, &db.sessions_by_id, &message.session)?;
        check.refers(&db.messages, &id, &db.agents, &message.agent)?;
        let over = matches!(
            message.state,
            MessageState::Completed { .. } | MessageState::Failed { .. } | MessageState::Dropped { .. }
        );
        if !over {
            check.refers(&db.messages, &id, &db.bodies, &message.body)?;
        }
        if let MessageState::Claimed { incarnation, .. } = message.state
            && check.look_up(&db.live_incarnations, &message.session)? != Some(incarnation)
        {
            check.report(&db.messages, &id, format!("claimed by incarnation {incarnation}, which is not live"));
        }
        let Some(workspace) = check.look_up(&db.sessions_by_id, &message.session)? else {
            return Ok(());
        };
        let session = check.look_up(&db.sessions, &SessionKey { workspace, session: message.session })?;
        if session.and_then(Session::chat).is_some_and(|session| session.agent != message.agent) {
            check.report(&db.messages, &id, "its agent is not its session's");
        }
        Ok(())
    })
}

/// Remembered platform messages lead to messages, under the right key.
pub(super) fn seen(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.seen_events, |check, key, seen| {
        if key.message != ForeignKey::of(&seen.platform_message) {
            check.report(&db.seen_events, &key, "the key is another message's");
        }
        for message in &seen.messages {
            check.refers(&db.seen_events, &key, &db.messages, message)?;
        }
        Ok(())
    })
}
