//! Searches: what a session finds is what a scan of the rows that it may see finds.

use std::collections::{BTreeMap, BTreeSet};

use hearth::engine::recall::{Asked, Found, Viewer, search};
use hearth::model::Address;
use hearth::model::delivery::{Act, Author, OutState};
use hearth::model::entity::Chat;
use hearth::model::id::{ChatId, SessionId};
use hearth::model::message::MessageKind;
use hearth::model::recall::{RecallReach, SaidId};
use hearth::model::session::{ChatSession, Route};
use hearth::state::Error;
use hearth::time::zone::Zone;

use super::Sim;

/// Words that are searched at each check, and rows of each kind that they are taken from.
const WORDS: usize = 3;

/// A text, as the rows have it.
struct Row {
    id: SaidId,
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
        let asked = Asked {
            query: word,
            agent: None,
            chat: None,
            after: None,
            before: None,
            most: 100,
            now: self.world.now().wall,
            zone: &Zone::utc(),
        };
        let (found, agent, places) = self.world.read(|db, txn| {
            let found = search(db, txn, &Viewer::Session(id), &asked)?.unwrap_or_default();
            let places = db.chats.iter(txn)?.collect::<Result<BTreeMap<ChatId, Chat>, _>>()?;
            Ok::<(Found, _, _), Error>((found, db.agents.require(txn, &session.agent)?, places))
        });
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
                rows.push(Row { id: SaidId::Message(id), session, at: body.source, text: body.content.text });
            }
            for row in db.outbound.iter(txn)? {
                let (id, row) = row?;
                let Author::Agent { session: of, .. } = row.author else { continue };
                let stands = !matches!(
                    row.state,
                    OutState::Refused { .. } | OutState::Abandoned { .. } | OutState::Carried { .. }
                );
                if let (true, Act::Say | Act::Edit(_), Some(session)) = (stands, row.act, session(of)?) {
                    rows.push(Row { id: SaidId::Answer(id), session, at: row.to, text: row.text });
                }
            }
            Ok::<_, Error>(rows)
        })
    }
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
