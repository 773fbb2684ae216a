//! Who may find what.

use crate::model::address::UserId;
use crate::model::console::CHANNEL;
use crate::model::entity::{Agent, Chat, Role};
use crate::model::id::{AgentId, ChatId, SessionId};
use crate::model::recall::{RecallReach, RecallScope};
use crate::model::session::SessionName;
use crate::recall::Asked;
use crate::rows::people::{has_role, is_member};
use crate::search::Query;
use crate::search::fold::fold;
use crate::state::recall::{all_scopes, scopes_of, source};
use crate::state::{ChatKey, PersonKey, Read, Tables};
use crate::{Result, readable};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// The operator of this machine, who can read the store.
    Operator,
    /// A person, with the roles that they have now.
    Person(UserId),
    /// An agent, in a session.
    Session(SessionId),
}

/// What a viewer may find.
pub(super) struct Sight {
    pub(super) scopes: Vec<RecallScope>,
    /// The viewer's own chat.
    pub(super) own: Option<RecallScope>,
}

/// Where a viewer may find something. Removed agents and chats are not among it.
pub(super) fn of(db: &Tables, txn: &Read<'_>, viewer: &Viewer) -> Result<Sight> {
    let (scopes, own) = match viewer {
        Viewer::Operator => (all_scopes(db, txn)?, None),
        Viewer::Person(user) => (of_person(db, txn, user)?, None),
        Viewer::Session(session) => of_session(db, txn, *session)?,
    };
    let mut there = Vec::with_capacity(scopes.len());
    for scope in scopes {
        if is_there(db, txn, scope)? {
            there.push(scope);
        }
    }
    Ok(Sight { scopes: there, own })
}

/// An agent finds what was said in the chat of its session. A session for all chats finds all of them, and so does an agent
/// whose `recall` says so.
fn of_session(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<(Vec<RecallScope>, Option<RecallScope>)> {
    let Some(session) = source::session(db, txn, id)? else { return Ok((Vec::new(), None)) };
    let own = source::chat_of(&session.route).map(|chat| RecallScope::Chat(session.agent, Some(chat)));
    let reach = readable(db.agents.get(txn, &session.agent))?.map_or(RecallReach::Chat, |agent| agent.settings.recall);
    let everywhere = reach == RecallReach::Agent || (own.is_none() && session.name == SessionName::Default);
    let scopes = match own {
        _ if everywhere => scopes_of(db, txn, session.agent)?,
        Some(own) => vec![own],
        // Work that belongs to no chat.
        None => vec![RecallScope::Chat(session.agent, None)],
    };
    Ok((scopes, own))
}

fn of_person(db: &Tables, txn: &Read<'_>, user: &UserId) -> Result<Vec<RecallScope>> {
    let all = all_scopes(db, txn)?;
    if has_role(db, txn, user, Role::Owner)? || has_role(db, txn, user, Role::GlobalAdmin)? {
        return Ok(all);
    }
    let direct = direct_chat(db, txn, user)?;
    let mut seen = Vec::new();
    for scope in all {
        let sees = match scope {
            RecallScope::Chat(_, Some(chat)) if Some(chat) == direct => true,
            RecallScope::Chat(agent, chat) => {
                has_role(db, txn, user, Role::AdminOf(agent))? || is_console_chat(db, txn, user, agent, chat)?
            }
            RecallScope::Held(approval) => {
                let row = readable(db.approvals.get(txn, &approval))?;
                row.is_some_and(|row| row.approver.as_ref() == Some(user))
            }
        };
        seen.extend(sees.then_some(scope));
    }
    Ok(seen)
}

/// Whether a chat is the one of a person with an agent in the console, which they see as long as they are a member.
fn is_console_chat(db: &Tables, txn: &Read<'_>, user: &UserId, agent: AgentId, chat: Option<ChatId>) -> Result<bool> {
    let Some(chat) = chat else { return Ok(false) };
    let Some(chat) = readable(db.chats.get(txn, &chat))?.filter(|chat| chat.channel.as_str() == CHANNEL) else {
        return Ok(false);
    };
    if !is_member(db, txn, user, agent)? {
        return Ok(false);
    }
    let agent = readable(db.agents.get(txn, &agent))?;
    Ok(agent.is_some_and(|agent| chat.platform_id.as_str() == format!("{}/{user}", agent.folder)))
}

/// The chat of a person alone with Hearth.
fn direct_chat(db: &Tables, txn: &Read<'_>, user: &UserId) -> Result<Option<ChatId>> {
    let key = match db.direct_messages.get(txn, &PersonKey::of(user))? {
        Some(known) => ChatKey::of(&known.address.channel, &known.address.platform_id),
        None => ChatKey::of(user.channel(), user.handle()),
    };
    let Some(id) = db.chats_by_address.get(txn, &key)? else { return Ok(None) };
    let chat = readable(db.chats.get(txn, &id))?;
    Ok(chat.filter(|chat| !chat.group).map(|_| id))
}

/// Whether neither the agent nor the chat was removed, and the approval is open.
fn is_there(db: &Tables, txn: &Read<'_>, scope: RecallScope) -> Result<bool> {
    match scope {
        RecallScope::Chat(agent, chat) => {
            let agent = readable(db.agents.get(txn, &agent))?;
            let chat = match chat {
                Some(chat) => readable(db.chats.get(txn, &chat))?.is_some_and(|chat| chat.archived.is_none()),
                None => true,
            };
            Ok(chat && agent.is_some_and(|agent| agent.archived.is_none()))
        }
        RecallScope::Held(approval) => {
            Ok(readable(db.approvals.get(txn, &approval))?.is_some_and(|row| row.state.is_open()))
        }
    }
}

/// Applies the filters for agents and chats.
pub(super) fn narrow(
    db: &Tables,
    txn: &Read<'_>,
    mut scopes: Vec<RecallScope>,
    asked: &Asked<'_>,
    query: &Query,
) -> Result<Vec<RecallScope>> {
    let mut kept = Vec::with_capacity(scopes.len());
    for scope in scopes.drain(..) {
        let fits = match scope {
            RecallScope::Chat(agent, chat) => {
                asked.agent.is_none_or(|asked| asked == agent)
                    && asked.chat.is_none_or(|asked| Some(asked) == chat)
                    && fits_agent(db, txn, query, agent)?
                    && fits_chat(db, txn, query, chat)?
            }
            RecallScope::Held(_) => {
                asked.agent.is_none() && asked.chat.is_none() && query.agent.is_none() && query.chat.is_none()
            }
        };
        kept.extend(fits.then_some(scope));
    }
    Ok(kept)
}

fn fits_agent(db: &Tables, txn: &Read<'_>, query: &Query, id: AgentId) -> Result<bool> {
    let Some(wanted) = &query.agent else { return Ok(true) };
    let row = readable(db.agents.get(txn, &id))?;
    let fits = |agent: &Agent| agent.folder.as_str() == wanted || fold(&agent.settings.name) == fold(wanted);
    Ok(row.is_some_and(|agent| fits(&agent)) || id.to_string() == *wanted)
}

/// By id, address, or a part of the name.
fn fits_chat(db: &Tables, txn: &Read<'_>, query: &Query, id: Option<ChatId>) -> Result<bool> {
    let (Some(wanted), Some(id)) = (&query.chat, id) else { return Ok(query.chat.is_none()) };
    let fits = |chat: &Chat| {
        let address = format!("{}/{}", chat.channel, chat.platform_id);
        let named = chat.name.as_deref().is_some_and(|name| fold(name).contains(&*fold(wanted)));
        address == *wanted || chat.channel.as_str() == wanted || named
    };
    Ok(id.to_string() == *wanted || readable(db.chats.get(txn, &id))?.is_some_and(|chat| fits(&chat)))
}
