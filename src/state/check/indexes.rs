//! Indexes that have one row per record, or none.

use super::Check;
use crate::model::approval::QuestionState;
use crate::model::incarnation::Phase;
use crate::model::session::{ChatSession, Session, SessionName, SessionStatus};
use crate::state::{ForeignKey, Result, RouteKey, Text};

/// Agents, chats, wirings, roles, workspaces.
pub(super) fn of_entities(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.agents,
        &db.agents_by_folder,
        |id, agent| agent.archived.is_none().then(|| (Text::from(&agent.folder), *id)),
        |_, id| *id,
    )?;
    check.agree(
        &db.chats,
        &db.chats_by_address,
        |id, chat| chat.archived.is_none().then(|| (ForeignKey::chat(&chat.channel, &chat.platform_id), *id)),
        |_, id| *id,
    )?;
    check.agree(
        &db.wirings,
        &db.wirings_by_agent,
        |(chat, agent), _| Some(((*agent, *chat), ())),
        |(agent, chat), ()| (*chat, *agent),
    )?;
    check.agree(
        &db.roles,
        &db.roles_by_grant,
        |(channel, handle, role), grant| Some(((*role, grant.at, channel.clone(), handle.clone()), ())),
        |(role, _, channel, handle), ()| (channel.clone(), handle.clone(), *role),
    )?;
    check.agree(
        &db.workspaces,
        &db.workspaces_by_agent,
        |key, workspace| workspace.agent.map(|agent| (agent, *key)),
        |_, key| *key,
    )
}

/// A conversation of an agent that can be found by what it is for.
fn active(session: &Session, name: SessionName) -> Option<&ChatSession> {
    session.as_chat().filter(|chat| chat.status == SessionStatus::Active && chat.name == name)
}

/// Sessions and their incarnations.
pub(super) fn of_sessions(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.sessions,
        &db.sessions_by_id,
        |(fingerprint, discriminator, id), _| Some((*id, (*fingerprint, *discriminator))),
        |id, (fingerprint, discriminator)| (*fingerprint, *discriminator, *id),
    )?;
    check.agree(
        &db.sessions,
        &db.recency,
        |(fingerprint, discriminator, id), session| {
            (!session.is_trashed()).then(|| ((*fingerprint, *discriminator, session.recency(), *id), ()))
        },
        |(fingerprint, discriminator, _, id), ()| (*fingerprint, *discriminator, *id),
    )?;
    check.agree(
        &db.sessions,
        &db.spoken,
        |(fingerprint, discriminator, id), session| {
            let shown = session.messages() > 0 && !session.is_trashed();
            shown.then(|| ((*fingerprint, *discriminator, session.recency(), *id), ()))
        },
        |(fingerprint, discriminator, _, id), ()| (*fingerprint, *discriminator, *id),
    )?;
    check.agree_through(
        &db.sessions,
        &db.sessions_by_route,
        |(_, _, id), session| {
            let session = active(session, SessionName::Default)?;
            Some(((session.agent, RouteKey::from(&session.route)), *id))
        },
        |check, _, id| Ok(check.look_up(&db.sessions_by_id, id)?.map(|(f, d)| (f, d, *id))),
    )?;
    check.agree_through(
        &db.sessions,
        &db.sessions_by_agent,
        |(_, _, id), session| Some(((active(session, SessionName::Default)?.agent, *id), ())),
        |check, (_, id), ()| Ok(check.look_up(&db.sessions_by_id, id)?.map(|(f, d)| (f, d, *id))),
    )?;
    check.agree_through(
        &db.sessions,
        &db.maintenance_sessions,
        |(_, _, id), session| Some((active(session, SessionName::Maintenance)?.agent, *id)),
        |check, _, id| Ok(check.look_up(&db.sessions_by_id, id)?.map(|(f, d)| (f, d, *id))),
    )?;
    check.agree(
        &db.incarnations,
        &db.live,
        |(session, number), incarnation| {
            let live = !matches!(incarnation.phase, Phase::Closed { .. });
            live.then_some((*session, *number))
        },
        |session, number| (*session, *number),
    )
}

/// What lapses or falls due.
pub(super) fn of_dates(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.approvals,
        &db.approvals_due,
        |id, approval| approval.state.is_open().then_some(((approval.due, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.questions,
        &db.questions_due,
        |id, question| (question.state == QuestionState::Open).then_some(((question.expires, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.sticky,
        &db.sticky_by_time,
        |key, sticky| Some(((sticky.until, key.clone()), ())),
        |(_, key), ()| key.clone(),
    )?;
    check.agree(&db.tasks, &db.tasks_due, |id, task| task.due().map(|due| ((due, *id), ())), |(_, id), ()| *id)?;
    check.agree(
        &db.tasks,
        &db.tasks_by_agent,
        |id, task| task.state.is_open().then_some(((task.agent, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.seen,
        &db.seen_by_time,
        |(channel, chat, message), seen| Some(((seen.at, channel.clone(), chat.clone(), message.clone()), ())),
        |(_, channel, chat, message), ()| (channel.clone(), chat.clone(), message.clone()),
    )
}

/// The journal.
pub(super) fn of_journal(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.journal,
        &db.journal_by_message,
        |id, entry| entry.message.map(|message| ((message, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.journal,
        &db.journal_by_session,
        |id, entry| entry.session.map(|session| ((session, *id), ())),
        |(_, id), ()| *id,
    )
}
