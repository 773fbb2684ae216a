//! Sessions: found by their route, made when there is none, kept in the workspace of their agent.

use super::{Cx, Result, workspaces};
use crate::model::address::Address;
use crate::model::entity::{Folder, SessionMode};
use crate::model::id::{AgentId, ChatId, SessionId};
use crate::model::session::{ChatSession, Route, Session, SessionName};
use crate::model::workspace::{Fingerprint, Workspace};
use crate::state::{self, RouteKey, Write};

/// The session of an agent for a route when a message arrives for it: its last number is the message's. It is made if
/// there is none; answers of a new one go to the chat it begins in, and to its thread only if that is all it is about.
pub(super) fn arrive(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    route: Route,
    source: &Address,
) -> Result<(SessionId, ChatSession)> {
    let by_route = (agent, RouteKey::from(&route));
    if let Some(id) = cx.db.sessions_by_route.get(txn, &by_route)? {
        let (session, _) = update(cx, txn, id, |session| {
            session.active = cx.now.wall;
            session.take_seq()
        })?;
        return Ok((id, session));
    }
    let thread = source.thread.clone().filter(|_| matches!(route, Route::PerThread(..)));
    make(cx, txn, agent, route, Some(Address { thread, ..source.clone() }))
}

/// As [`arrive`], in this session or else in the newest one in which the agent talks; one without a chat is made if there
/// is none.
pub(super) fn arrive_in(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    session: Option<SessionId>,
) -> Result<(SessionId, ChatSession)> {
    let newest = cx.db.sessions_by_agent.collect_last(txn, &agent, 1)?;
    match session.or_else(|| newest.first().map(|((_, id), ())| *id)) {
        Some(id) => {
            let (session, _) = update(cx, txn, id, |session| {
                session.active = cx.now.wall;
                session.take_seq()
            })?;
            Ok((id, session))
        }
        None => make(cx, txn, agent, Route::AgentShared, None),
    }
}

/// As [`arrive`], for work that belongs to no conversation: an agent has one session for it, which has no chat.
pub(super) fn arrive_for_maintenance(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
) -> Result<(SessionId, ChatSession)> {
    if let Some(id) = cx.db.maintenance_sessions.get(txn, &agent)? {
        let (session, _) = update(cx, txn, id, |session| {
            session.active = cx.now.wall;
            session.take_seq()
        })?;
        return Ok((id, session));
    }
    let (id, session) = store(cx, txn, (agent, SessionName::Maintenance), Route::AgentShared, None)?;
    cx.db.maintenance_sessions.put(txn, &agent, &id)?;
    Ok((id, session))
}

/// As [`arrive`], before anything was said: no number is used. Tells whether it was made.
pub(super) fn open(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    route: Route,
    source: &Address,
) -> Result<(SessionId, bool)> {
    if let Some(id) = cx.db.sessions_by_route.get(txn, &(agent, RouteKey::from(&route)))? {
        return Ok((id, false));
    }
    let thread = source.thread.clone().filter(|_| matches!(route, Route::PerThread(..)));
    let (id, _) = make(cx, txn, agent, route, Some(Address { thread, ..source.clone() }))?;
    update(cx, txn, id, |session| (session.last_number, session.messages) = (0, 0))?;
    Ok((id, true))
}

/// A new session that is found by its route.
fn make(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    route: Route,
    reply: Option<Address>,
) -> Result<(SessionId, ChatSession)> {
    let by_route = (agent, RouteKey::from(&route));
    let (id, session) = store(cx, txn, (agent, SessionName::Default), route, reply)?;
    cx.db.sessions_by_route.put(txn, &by_route, &id)?;
    cx.db.sessions_by_agent.put(txn, &(agent, id), &())?;
    Ok((id, session))
}

/// The row of a new session, with the number of its first message.
fn store(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, name): (AgentId, SessionName),
    route: Route,
    reply: Option<Address>,
) -> Result<(SessionId, ChatSession)> {
    let (fingerprint, discriminator) = cx.db.workspaces_by_agent.require(txn, &agent)?;
    let id: SessionId = cx.db.allocate(txn)?;
    let mut session = ChatSession::new((agent, name), route, reply, cx.now.wall);
    session.take_seq();
    cx.db.sessions_by_id.put(txn, &id, &(fingerprint, discriminator))?;
    let row = Session::Chat(session.clone());
    cx.db.sessions.put(txn, &(fingerprint, discriminator, id), &row)?;
    cx.db.recency.put(txn, &(fingerprint, discriminator, row.recency(), id), &())?;
    cx.db.spoken.put(txn, &(fingerprint, discriminator, row.recency(), id), &())?;
    Ok((id, session))
}

/// A session of an agent by its id.
pub(super) fn load(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId) -> Result<Option<ChatSession>> {
    Ok(cx.db.session(txn, id)?.and_then(|(_, session)| session.chat()))
}

/// Changes a session of an agent that is known to exist.
pub(super) fn update<T>(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: SessionId,
    change: impl FnOnce(&mut ChatSession) -> T,
) -> Result<(ChatSession, T)> {
    let Some((workspace, mut row)) = cx.db.session(txn, id)? else {
        return Err(state::Error::Missing { table: cx.db.sessions_by_id.name(), key: id.to_string() });
    };
    let ((fingerprint, discriminator), before, spoke) = (workspace, row.recency(), row.messages() > 0);
    let Session::Chat(chat) = &mut row else {
        return Err(state::Error::Missing { table: cx.db.sessions.name(), key: format!("{id} as an agent's session") });
    };
    let (said, chat) = (change(chat), chat.clone());
    let (recency, spoken) = (row.recency(), row.messages() > 0);
    cx.db.put_session(txn, (id, workspace), row)?;
    if before != recency {
        cx.db.recency.delete(txn, &(fingerprint, discriminator, before, id))?;
        cx.db.recency.put(txn, &(fingerprint, discriminator, recency, id), &())?;
    }
    if (before, spoke) != (recency, spoken) {
        if spoke {
            cx.db.spoken.delete(txn, &(fingerprint, discriminator, before, id))?;
        }
        if spoken {
            cx.db.spoken.put(txn, &(fingerprint, discriminator, recency, id), &())?;
        }
    }
    Ok((chat, said))
}

/// How the messages of a chat share sessions: where groups have threads, each has its own, unless the agent has one
/// session for everything. Where nobody knows, and in direct messages, it is as the wiring says.
pub(super) fn decide_mode(wired: SessionMode, threads: Option<bool>, group: bool) -> SessionMode {
    match wired {
        SessionMode::AgentShared => SessionMode::AgentShared,
        SessionMode::Shared | SessionMode::PerThread if threads == Some(true) && group => SessionMode::PerThread,
        wired => wired,
    }
}

/// Which session a message of a chat belongs to.
pub(super) fn decide_route(mode: SessionMode, chat: ChatId, source: &Address) -> Route {
    match mode {
        SessionMode::Shared => Route::Shared(chat),
        SessionMode::PerThread => Route::PerThread(chat, source.thread.clone()),
        SessionMode::AgentShared => Route::AgentShared,
    }
}

/// Gives an agent group's folder its workspace. The key is the hash of the folder's path now and stays when the data
/// directory moves; a colliding path gets the next discriminator.
pub(super) fn make_workspace(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, folder: &Folder) -> Result<()> {
    let mut path = cx.groups_path.to_vec();
    path.push(b'/');
    path.extend_from_slice(folder.as_str().as_bytes());
    let fingerprint = Fingerprint::of_path(&path);
    let key = workspaces::free_key(cx, txn, fingerprint)?;
    let workspace = Workspace {
        path: format!("groups/{folder}").into_bytes(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: Some(agent),
        witness: None,
        project: None,
        replaced: None,
        current: None,
        created: cx.now.wall,
    };
    workspaces::stored(cx, txn, key, (None, &workspace))?;
    cx.db.workspaces_by_agent.put(txn, &agent, &key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::{ChannelName, ForeignId};

    #[test]
    fn threads_of_groups_have_sessions_of_their_own() {
        use SessionMode::{AgentShared, PerThread, Shared};
        for (wired, threads, group, expected) in [
            (Shared, Some(true), true, PerThread),
            (PerThread, Some(true), true, PerThread),
            (AgentShared, Some(true), true, AgentShared),
            (Shared, Some(true), false, Shared),
            (PerThread, Some(true), false, PerThread),
            (Shared, Some(false), true, Shared),
            (Shared, None, true, Shared),
            (PerThread, None, true, PerThread),
        ] {
            assert_eq!(decide_mode(wired, threads, group), expected, "{wired:?} {threads:?} {group}");
        }
    }

    #[test]
    fn threads_matter_only_per_thread() {
        let source = |thread: Option<&str>| Address {
            channel: ChannelName::new("slack").unwrap(),
            platform_id: ForeignId::new("chat", "C1").unwrap(),
            thread: thread.map(|t| ForeignId::new("thread", t).unwrap()),
        };
        let chat = ChatId::new(7);
        assert_eq!(decide_route(SessionMode::Shared, chat, &source(Some("t1"))), Route::Shared(chat));
        assert_eq!(decide_route(SessionMode::AgentShared, chat, &source(Some("t1"))), Route::AgentShared);
        assert_eq!(decide_route(SessionMode::PerThread, chat, &source(None)), Route::PerThread(chat, None));
        assert_ne!(
            decide_route(SessionMode::PerThread, chat, &source(Some("t1"))),
            decide_route(SessionMode::PerThread, chat, &source(Some("t2")))
        );
    }
}
