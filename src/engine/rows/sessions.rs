//! Sessions: found by their route, created on demand, stored in the workspace of their agent.

use crate::Result;
use crate::model::address::Address;
use crate::model::id::{AgentId, SessionId};
use crate::model::session::{ChatSession, Route, Session, SessionName};
use crate::model::workspace::WorkspaceKey;
use crate::state;
use crate::state::{AgentRouteKey, Basis, Owned, RouteKey, SessionKey};
use crate::tx::Tx;
use std::sync::Arc;

/// The session of an agent for a route when a message arrives. Its last number becomes the message's position. If there
/// is none, it is created. Its replies go to the chat it begins in, and to the thread only if the session is for that
/// thread alone.
pub(crate) fn arrive(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    route: Route,
    source: &Address,
) -> Result<(SessionId, ChatSession)> {
    let by_route = AgentRouteKey { agent, route: RouteKey::from(&route) };
    if let Some(session) = tx.db.sessions_by_route.get(tx, &by_route)? {
        let workspace = workspace_of(tx, agent)?;
        return Ok((session, receive(tx, SessionKey { workspace, session })?));
    }
    let thread = source.thread.clone().filter(|_| matches!(route, Route::PerThread(..)));
    make(tx, agent, route, Some(Address { thread, ..source.clone() }))
}

/// Marks a session as active now and allocates the position of the message that arrived.
fn receive(tx: &mut Tx<'_, '_>, key: SessionKey) -> Result<ChatSession> {
    let now = tx.now.wall;
    let (session, _) = update_at(tx, key, |session| {
        session.active = now;
        session.take_seq()
    })?;
    Ok(session)
}

/// Like [`arrive`], for a given session, or otherwise the agent's newest one. If the agent has none, one without a chat
/// is created.
pub(crate) fn arrive_in(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    session: Option<SessionId>,
) -> Result<(SessionId, ChatSession)> {
    let newest = tx.db.sessions_by_agent.collect_last(tx, &agent, 1)?;
    match session.or_else(|| newest.first().map(|(Owned { id, .. }, ())| *id)) {
        Some(id) => Ok((id, receive(tx, key_of(tx, id)?)?)),
        None => make(tx, agent, Route::AgentShared, None),
    }
}

/// Like [`arrive`], for work outside of conversations. Each agent has one session for it, without a chat.
pub(crate) fn arrive_for_maintenance(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<(SessionId, ChatSession)> {
    if let Some(id) = tx.db.maintenance_sessions.get(tx, &agent)? {
        return Ok((id, receive(tx, key_of(tx, id)?)?));
    }
    store(tx, agent, SessionName::Maintenance, Route::AgentShared, None)
}

/// The session of an agent for a route, if there is one.
pub(crate) fn find(tx: &Tx<'_, '_>, agent: AgentId, route: &Route) -> Result<Option<SessionId>> {
    tx.db.sessions_by_route.get(tx, &AgentRouteKey { agent, route: RouteKey::from(route) })
}

/// Like [`arrive`], before the first message, so no position is used. Returns whether the session was created.
pub(crate) fn open(tx: &mut Tx<'_, '_>, agent: AgentId, route: Route, source: &Address) -> Result<(SessionId, bool)> {
    if let Some(id) = tx.db.sessions_by_route.get(tx, &AgentRouteKey { agent, route: RouteKey::from(&route) })? {
        return Ok((id, false));
    }
    let thread = source.thread.clone().filter(|_| matches!(route, Route::PerThread(..)));
    let (id, _) = make(tx, agent, route, Some(Address { thread, ..source.clone() }))?;
    update(tx, id, |session| (session.last_number, session.messages) = (0, 0))?;
    Ok((id, true))
}

/// Creates a session that is found by its route.
fn make(tx: &mut Tx<'_, '_>, agent: AgentId, route: Route, reply: Option<Address>) -> Result<(SessionId, ChatSession)> {
    store(tx, agent, SessionName::Default, route, reply)
}

/// Stores the row of a new session and allocates the position of its first message.
fn store(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    name: SessionName,
    route: Route,
    reply: Option<Address>,
) -> Result<(SessionId, ChatSession)> {
    let workspace = workspace_of(tx, agent)?;
    let id: SessionId = tx.db.allocate(tx)?;
    let mut session = ChatSession::new(agent, name, route, reply, tx.now.wall);
    session.take_seq();
    tx.db.sessions.append(tx, &SessionKey { workspace, session: id }, &Session::Chat(session.clone()))?;
    Ok((id, session))
}

/// A session of an agent by its id.
pub(crate) fn load(tx: &Tx<'_, '_>, id: SessionId) -> Result<Option<ChatSession>> {
    let Some(workspace) = tx.db.sessions_by_id.get(tx, &id)? else { return Ok(None) };
    let key = SessionKey { workspace, session: id };
    let row = tx.once(Basis::Sessions, &key, || tx.db.sessions.require(tx, &key))?;
    Ok(Session::clone(&row).chat())
}

/// The workspace in which an agent's sessions live. It never changes.
fn workspace_of(tx: &Tx<'_, '_>, agent: AgentId) -> Result<WorkspaceKey> {
    tx.once(Basis::Decisions, &agent, || tx.db.workspaces_by_agent.require(tx, &agent)).map(|workspace| *workspace)
}

fn key_of(tx: &Tx<'_, '_>, id: SessionId) -> Result<SessionKey> {
    tx.db.sessions_by_id.require(tx, &id).map(|workspace| SessionKey { workspace, session: id })
}

/// Changes an existing session of an agent.
pub(crate) fn update<T>(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    change: impl FnOnce(&mut ChatSession) -> T,
) -> Result<(ChatSession, T)> {
    let key = key_of(tx, id)?;
    update_at(tx, key, change)
}

/// Like [`update`], for a session whose workspace is known. That saves a look-up in the index of all sessions.
fn update_at<T>(
    tx: &mut Tx<'_, '_>,
    key: SessionKey,
    change: impl FnOnce(&mut ChatSession) -> T,
) -> Result<(ChatSession, T)> {
    // Messages that are committed together often belong to the same session.
    let before = tx.once(Basis::Sessions, &key, || tx.db.sessions.require(tx, &key))?;
    let mut after = Session::clone(&before);
    let Session::Chat(chat) = &mut after else {
        let key = format!("{} as an agent's session", key.session);
        return Err(state::Error::Missing { table: tx.db.sessions.name(), key });
    };
    let (said, chat) = (change(chat), chat.clone());
    tx.db.sessions.replace(tx, &key, &before, &after)?;
    tx.keep(Basis::Sessions, &key, Arc::new(after));
    Ok((chat, said))
}
