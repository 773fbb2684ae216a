//! Messages from Hearth to an agent.

use crate::Result;
use crate::model::address::ForeignId;
use crate::model::content::{Content, RawJson};
use crate::model::id::{MessageId, SessionId};
use crate::model::message::{Body, MessageKind};
use crate::rows::messages::NewMessage;
use crate::rows::{messages, sessions};
use crate::rules::json;
use crate::rules::json::Field;
use crate::tx::Tx;

/// Sender name of Hearth's messages.
const SENDER: &str = "system";

/// Adds a message to a session's context. It starts no turn.
pub(crate) fn tell_agent(tx: &mut Tx<'_, '_>, session: SessionId, text: &str) -> Result<()> {
    leave(tx, session, text, MessageKind::System, false).map(drop)
}

/// Stores a message that requests a turn. The caller wakes the session.
pub(crate) fn leave_request(tx: &mut Tx<'_, '_>, session: SessionId, text: &str) -> Result<MessageId> {
    leave(tx, session, text, MessageKind::Chat, true)
}

pub(crate) fn leave(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    text: &str,
    kind: MessageKind,
    trigger: bool,
) -> Result<MessageId> {
    let sender = if trigger { ForeignId::new("the sender", SENDER).ok() } else { None };
    let raw = if trigger { woken(text) } else { payload(text) };
    let content = Content { text: text.to_owned(), sender, sender_name: Some(SENDER.to_owned()), raw };
    let body = Body {
        content,
        kind,
        said: tx.now.wall,
        source: None,
        platform_message: None,
        sender: None,
        attachments: Vec::new(),
    };
    let body = messages::insert_body(tx, &body)?;
    let (row, seq) = sessions::update(tx, session, crate::model::session::ChatSession::take_seq)?;
    let new = NewMessage {
        session,
        agent: row.agent,
        seq,
        body,
        trigger,
        reply: row.reply,
        from: None,
        slot: None,
        chat: None,
    };
    messages::insert(tx, new)
}

/// `{"text": …, "sender": "system"}`.
pub(crate) fn payload(text: &str) -> RawJson {
    json::object(&[("text", Field::Text(text)), ("sender", Field::Text(SENDER))])
}

/// The same payload with a sender id, like a person's message.
fn woken(text: &str) -> RawJson {
    json::object(&[("text", Field::Text(text)), ("sender", Field::Text(SENDER)), ("senderId", Field::Text(SENDER))])
}
