//! Sessions: found by their route, created on demand, stored in the workspace of their agent.

use crate::Result;
use crate::model::address::Address;
use crate::model::id::{AgentId, SessionId};
use crate::model::session::{ChatSession, Route, Session, SessionName};
use crate::state;
use crate::state::{RouteKey, SessionKey};
use crate::tx::Tx;

/// The session of an agent for a route when a message arrives. Its last number becomes the message's position. If there
/// is none, it is created. Its replies go to the chat it begins in, and to the thread only if the session is for that
/// thread alone.
pub(crate) fn arrive(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    route: Route,
    source: &Address,
) -> Result<(SessionId, ChatSession)> {
    let by_route = (agent, RouteKey::from(&route));
    if let Some(id) = tx.db.sessions_by_route.get(tx, &by_route)? {
        return Ok((id, receive(tx, id)?));
    }
    let thread = source.thread.clone().filter(|_| matches!(route, Route::PerThread(..)));
    make(tx, agent, route, Some(Address { thread, ..source.clone() }))
}

/// Marks a session as active now and allocates the position of the message that arrived.
fn receive(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<ChatSession> {
    let now = tx.now.wall;
    let (session, _) = update(tx, id, |session| {
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
    match session.or_else(|| newest.first().map(|((_, id), ())| *id)) {
        Some(id) => Ok((id, receive(tx, id)?)),
        None => make(tx, agent, Route::AgentShared, None),
    }
}

/// Like [`arrive`], for work outside of conversations. Each agent has one session for it, without a chat.
pub(crate) fn arrive_for_maintenance(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<(SessionId, ChatSession)> {
    if let Some(id) = tx.db.maintenance_sessions.get(tx, &agent)? {
        return Ok((id, receive(tx, id)?));
    }
    store(tx, agent, SessionName::Maintenance, Route::AgentShared, None)
}

/// Like [`arrive`], before the first message, so no position is used. Returns whether the session was created.
pub(crate) fn open(tx: &mut Tx<'_, '_>, agent: AgentId, route: Route, source: &Address) -> Result<(SessionId, bool)> {
    if let Some(id) = tx.db.sessions_by_route.get(tx, &(agent, RouteKey::from(&route)))? {
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
    let workspace = tx.db.workspaces_by_agent.require(tx, &agent)?;
    let id: SessionId = tx.db.allocate(tx)?;
    let mut session = ChatSession::new(agent, name, route, reply, tx.now.wall);
    session.take_seq();
    tx.db.sessions.append(tx, &SessionKey { workspace, session: id }, &Session::Chat(session.clone()))?;
    Ok((id, session))
}

/// A session of an agent by its id.
pub(crate) fn load(tx: &Tx<'_, '_>, id: SessionId) -> Result<Option<ChatSession>> {
    Ok(tx.db.session(tx, id)?.and_then(|(_, session)| session.chat()))
}

/// Changes an existing session of an agent.
pub(crate) fn update<T>(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    change: impl FnOnce(&mut ChatSession) -> T,
) -> Result<(ChatSession, T)> {
    let Some((workspace, mut row)) = tx.db.session(tx, id)? else {
        return Err(state::Error::Missing { table: tx.db.sessions_by_id.name(), key: id.to_string() });
    };
    let before = row.clone();
    let Session::Chat(chat) = &mut row else {
        return Err(state::Error::Missing { table: tx.db.sessions.name(), key: format!("{id} as an agent's session") });
    };
    let (said, chat) = (change(chat), chat.clone());
    tx.db.put_session(tx, SessionKey { workspace, session: id }, &before, row)?;
    Ok((chat, said))
}
