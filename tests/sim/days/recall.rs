//! Searches: what a session or a person finds is what a scan of the rows that they may see finds.

use std::collections::{BTreeMap, BTreeSet};

use hearth::engine::recall::{Asked, Found, Viewer, search};
use hearth::model::address::{Address, UserId};
use hearth::model::delivery::{Act, Author, OutState};
use hearth::model::entity::{Chat, Role};
use hearth::model::id::{AgentId, BodyId, ChatId, SessionId};
use hearth::model::message::MessageKind;
use hearth::model::recall::{RecallReach, SaidId};
use hearth::model::session::{ChatSession, Route};
use hearth::state::{Error, PersonKey};
use hearth::time::zone::Zone;

use super::Sim;

/// Words that are searched at each check, and rows of each kind that they are taken from.
const WORDS: usize = 3;

/// An owner, a global admin, the admin of an agent, a member, and strangers.
const PEOPLE: [&str; 6] = ["net:boss", "web:chief", "net:others", "net:ann", "net:s1", "web:s3"];

/// A text, as the rows have it.
struct Row {
    id: SaidId,
    /// What several agents may have received.
    body: Option<BodyId>,
    session: ChatSession,
    at: Option<Address>,
    text: String,
}

impl Sim {
    /// A session finds all texts with a word that were said to it and by it in its chat, and nothing of another chat unless
    /// its agent's `recall` says so. Nothing of another agent is found ever, and nothing of a removed agent or chat.
    pub(super) fn what_is_found_was_said(&self) {
        let rows = self.said();
        let words: BTreeSet<String> =
            rows.iter().rev().filter_map(|row| words(&row.text).max_by_key(String::len)).take(WORDS).collect();
        let sessions = self.world.read(|db, txn| db.sessions.iter(txn)?.collect::<Result<Vec<_>, _>>());
        for user in PEOPLE {
            let user = UserId::parse(user).unwrap();
            for word in &words {
                self.is_found_by_those_who_may(&rows, &user, word);
            }
            self.is_held_for_deciders(&rows, &user);
        }
        for (key, session) in sessions.iter().rev().take(6) {
            let Some(session) = session.as_chat() else { continue };
            let (Route::Shared(chat) | Route::PerThread(chat, _)) = session.route else { continue };
            for word in &words {
                self.is_found_where_it_was_said(&rows, (key.session, session, chat), word);
            }
        }
    }

    fn is_found_where_it_was_said(
        &self,
        rows: &[Row],
        (id, session, chat): (SessionId, &ChatSession, ChatId),
        word: &str,
    ) {
        let found = self.found(&Viewer::Session(id), word);
        let places = self.places();
        let agent = self.world.read(|db, txn| db.agents.require(txn, &session.agent));
        let is_wide = agent.settings.recall == RecallReach::Agent;
        let is_there = |chat: ChatId| places[&chat].archived.is_none();
        if agent.archived.is_some() || !is_wide && !is_there(chat) {
            assert!(found.texts.is_empty(), "{id} finds {:?} of a removed agent or chat", found.texts);
            return;
        }
        let is_at = |at: &Address, chat: ChatId| {
            places[&chat].channel == at.channel && places[&chat].platform_id == at.platform_id
        };
        let ids: BTreeSet<SaidId> = found.texts.iter().map(|text| text.id).collect();
        for text in &found.texts {
            let row = rows.iter().find(|row| row.id == text.id).expect("what is found was said");
            assert_eq!(row.session.agent, session.agent, "{id} finds {} of another agent", text.id);
            let is_own = match &row.at {
                Some(at) => is_at(at, chat),
                None => row.session.route == session.route || chat_of(row) == Some(chat),
            };
            assert!(is_wide || is_own, "{id} finds {} of another chat", text.id);
            assert!(text.chat.is_none_or(is_there), "{id} finds {} of a removed chat", text.id);
            assert!(row.text.to_lowercase().contains(word), "{id} finds {} without {word}", text.id);
        }
        let mine = |row: &&Row| {
            let of = chat_of(row).filter(|of| is_wide && is_there(*of) || *of == chat && is_there(chat));
            let is_in = |of| row.at.as_ref().is_none_or(|at| is_at(at, of));
            row.session.agent == session.agent && of.is_some_and(is_in)
        };
        let expected = rows.iter().filter(mine).filter(|row| words(&row.text).any(|other| other == word));
        for row in expected.filter(|_| !found.cut) {
            // The same text of a message to several agents is shown once, but each agent has its own.
            assert!(ids.contains(&row.id), "{id} does not find {} with {word}: {ids:?}", row.id);
        }
    }

    /// Owners and global admins find everything, admins of an agent what that agent heard and said, and others what was said
    /// in their direct message.
    fn is_found_by_those_who_may(&self, rows: &[Row], user: &UserId, word: &str) {
        let found = self.found(&Viewer::Person(user.clone()), word);
        let (places, roles, gone) = (self.places(), self.roles(user), self.archived_agents());
        let rules = roles.contains(&Role::Owner) || roles.contains(&Role::GlobalAdmin);
        let direct = self.direct_chat(user, &places);
        let may = |row: &Row, chat: Option<ChatId>| {
            let is_there = chat.is_none_or(|chat| places[&chat].archived.is_none());
            let sees = rules || roles.contains(&Role::AdminOf(row.session.agent)) || chat.is_some() && chat == direct;
            sees && is_there && !gone.contains(&row.session.agent)
        };
        let ids: BTreeSet<SaidId> = found.texts.iter().map(|text| text.id).collect();
        for text in &found.texts {
            match rows.iter().find(|row| row.id == text.id) {
                Some(row) => {
                    let one = chats_at(&places, row).contains(&text.chat);
                    assert!(one && may(row, text.chat), "{user} finds {} in {:?}", text.id, text.chat);
                }
                None => assert!(matches!(text.id, SaidId::Held(_)), "{user} finds {}, which was not said", text.id),
            }
        }
        for row in rows.iter().filter(|_| !found.cut) {
            // If several chats have had the address, the row does not say in which of them it was said.
            let [chat] = chats_at(&places, row)[..] else { continue };
            if may(row, chat) && words(&row.text).any(|other| other == word) {
                // A message to several agents is shown once, also if one of them waits for an approval.
                let same = |other: &Row| other.id == row.id || other.body.is_some() && other.body == row.body;
                let is_found = rows.iter().any(|other| same(other) && ids.contains(&other.id));
                let is_found = is_found || row.body.is_some_and(|body| ids.contains(&SaidId::Held(body)));
                assert!(is_found, "{user} does not find {} with {word}: {ids:?}", row.id);
            }
        }
    }

    /// A message that waits for an approval is found by those who rule, and by the person who was asked.
    fn is_held_for_deciders(&self, rows: &[Row], user: &UserId) {
        let roles = self.roles(user);
        let rules = roles.contains(&Role::Owner) || roles.contains(&Role::GlobalAdmin);
        let held = self.world.read(|db, txn| {
            let mut held = Vec::new();
            for row in db.held_messages.iter(txn)? {
                let (key, _) = row?;
                let approval = db.approvals.require(txn, &key.approval)?;
                let asked = approval.approver.as_ref() == Some(user);
                held.push((key.body, db.bodies.require(txn, &key.body)?.content.text, rules || asked));
            }
            Ok::<_, Error>(held)
        });
        for (body, text, may) in held.iter().rev().take(WORDS) {
            let Some(word) = words(text).max_by_key(String::len) else { continue };
            let found = self.found(&Viewer::Person(user.clone()), &word);
            let is_held = found.texts.iter().any(|text| text.id == SaidId::Held(*body));
            // Another agent may have received it already. It is shown once.
            let received = |id| rows.iter().any(|row| row.id == id && row.body == Some(*body));
            let is_found = is_held || found.texts.iter().any(|text| received(text.id));
            assert!(*may || !is_held, "{user} finds the held {body}");
            assert!(!*may || is_found || found.cut, "{user} does not find the held {body} with {word}");
        }
    }

    fn found(&self, viewer: &Viewer, query: &str) -> Found {
        let (now, zone) = (self.world.now().wall, &Zone::utc());
        let asked = Asked { query, agent: None, chat: None, after: None, before: None, most: 100, now, zone };
        self.world.read(|db, txn| search(db, txn, viewer, &asked)).unwrap_or_default()
    }

    fn places(&self) -> BTreeMap<ChatId, Chat> {
        self.world.read(|db, txn| db.chats.iter(txn)?.collect())
    }

    fn roles(&self, user: &UserId) -> BTreeSet<Role> {
        let grants: Vec<_> = self.world.read(|db, txn| db.roles.iter(txn)?.collect());
        grants.into_iter().filter(|(_, grant)| grant.user == *user).map(|(key, _)| key.role).collect()
    }

    fn archived_agents(&self) -> BTreeSet<AgentId> {
        let agents: Vec<_> = self.world.read(|db, txn| db.agents.iter(txn)?.collect());
        agents.into_iter().filter(|(_, agent)| agent.archived.is_some()).map(|(id, _)| id).collect()
    }

    fn direct_chat(&self, user: &UserId, places: &BTreeMap<ChatId, Chat>) -> Option<ChatId> {
        let opened: Vec<_> = self.world.read(|db, txn| db.direct_messages.iter(txn)?.collect());
        let opened = opened.into_iter().find(|(key, _)| *key == PersonKey::of(user)).map(|(_, row)| row.address);
        let own = || Address { channel: user.channel().clone(), platform_id: user.handle().clone(), thread: None };
        let at = opened.unwrap_or_else(own);
        let here = |chat: &Chat| chat.channel == at.channel && chat.platform_id == at.platform_id;
        places.iter().find(|(_, chat)| here(chat) && !chat.group && chat.archived.is_none()).map(|(id, _)| *id)
    }

    /// Everything that was said, from the rows.
    fn said(&self) -> Vec<Row> {
        self.world.read(|db, txn| {
            let session = |id: SessionId| -> Result<Option<ChatSession>, Error> {
                let Some(workspace) = db.sessions_by_id.get(txn, &id)? else { return Ok(None) };
                Ok(db
                    .sessions
                    .get(txn, &hearth::state::SessionKey { workspace, session: id })?
                    .and_then(|row| row.chat()))
            };
            let mut rows = Vec::new();
            for row in db.messages.iter(txn)? {
                let (id, row) = row?;
                let Some(body) = db.bodies.get(txn, &row.body)? else { continue };
                let own = body.kind != MessageKind::Task && body.source.is_none() && body.sender.is_none();
                if body.kind == MessageKind::System || own {
                    continue;
                }
                let Some(session) = session(row.session)? else { continue };
                rows.push(Row {
                    id: SaidId::Message(id),
                    body: Some(row.body),
                    session,
                    at: body.source,
                    text: body.content.text,
                });
            }
            for row in db.outbound.iter(txn)? {
                let (id, row) = row?;
                let Author::Agent { session: of, .. } = row.author else { continue };
                let stands = !matches!(
                    row.state,
                    OutState::Refused { .. } | OutState::Abandoned { .. } | OutState::Carried { .. }
                );
                if let (true, Act::Say | Act::Edit(_), Some(session)) = (stands, row.act, session(of)?) {
                    rows.push(Row { id: SaidId::Answer(id), body: None, session, at: row.to, text: row.text });
                }
            }
            Ok::<_, Error>(rows)
        })
    }
}

/// The chats in which something may have been said: those of its address, or else that of its session.
fn chats_at(places: &BTreeMap<ChatId, Chat>, row: &Row) -> Vec<Option<ChatId>> {
    let here = |chat: &Chat| {
        row.at.as_ref().is_some_and(|at| chat.channel == at.channel && chat.platform_id == at.platform_id)
    };
    let there: Vec<_> = places.iter().filter(|(_, chat)| here(chat)).map(|(id, _)| Some(*id)).collect();
    if there.is_empty() { vec![chat_of(row)] } else { there }
}

fn chat_of(row: &Row) -> Option<ChatId> {
    match row.session.route {
        Route::Shared(chat) | Route::PerThread(chat, _) => Some(chat),
        Route::AgentShared => None,
    }
}

/// Words of at least two letters. The simulator writes plain English.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.is_ascii() && (2..20).contains(&word.len()))
        .map(str::to_lowercase)
}
