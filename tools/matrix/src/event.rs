//! Reads what people write. Everything in an event but its room, sender, id and time is what a person or their server made
//! of it, so every field is optional.

use std::collections::BTreeMap;

use hearth_bridge::program::settings::part;
use hearth_bridge::program::state::{seconds, time_text};
use hearth_bridge::{Event, Sender as Person};
use serde_json::{Value, json};

use crate::api::{Api, Trouble};
use crate::crypto::{Crypto, Opening};
use crate::media::Media;
use crate::rooms::Members;
use crate::settings::is_user;

/// Longest text of a message that was answered, in characters.
const QUOTE_MAX: usize = 4_000;
/// Longest id.
const ID_BYTES_MAX: usize = 255;

#[derive(Debug, Clone)]
pub(crate) struct Bot {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
}

/// A file of a message.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    pub(crate) name: Option<String>,
    pub(crate) mime: Option<String>,
    /// Where it is, or why it cannot be had.
    pub(crate) place: Result<Media, String>,
}

/// A message of a person.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) id: String,
    pub(crate) sender: String,
    /// When, in milliseconds since 1970, and not in the future.
    pub(crate) at: i64,
    pub(crate) text: String,
    pub(crate) thread: Option<String>,
    /// The message that it answers.
    pub(crate) answers: Option<String>,
    pub(crate) is_mention: bool,
    pub(crate) file: Option<Attached>,
}

/// The text at a place in a value.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Whether a text can be the id of an event.
pub(crate) fn is_event_id(text: &str) -> bool {
    text.len() <= ID_BYTES_MAX
        && text.starts_with('$')
        && !text.chars().any(|char| char.is_whitespace() || char.is_control())
}

/// When an event was sent, by the clock of its server.
pub(crate) fn at(event: &Value) -> i64 {
    let at = event.get("origin_server_ts").and_then(Value::as_i64).unwrap_or_default();
    at.clamp(0, seconds().saturating_mul(1_000))
}

/// Reads an event of a room; none if it is no message of a person: edits, notices of programs, and the bot's own.
pub(crate) fn read(event: &Value, bot: &Bot) -> Option<Written> {
    let sender = text(event, "/sender").filter(|sender| is_user(sender) && *sender != bot.id)?;
    let id = text(event, "/event_id").filter(|id| is_event_id(id))?;
    let content = event.get("content")?;
    let is_sticker = text(event, "/type") == Some("m.sticker");
    let kind = if is_sticker { "m.image" } else { text(content, "/msgtype")? };
    let relation = text(content, "/m.relates_to/rel_type");
    if kind == "m.notice" || kind.starts_with("m.key.") || relation == Some("m.replace") {
        return None;
    }
    let root = text(content, "/m.relates_to/event_id").filter(|id| relation == Some("m.thread") && is_event_id(id));
    let is_fallback = content.pointer("/m.relates_to/is_falling_back") == Some(&Value::Bool(true)) && root.is_some();
    let answers = text(content, "/m.relates_to/m.in_reply_to/event_id").filter(|id| !is_fallback && is_event_id(id));
    let body = text(content, "/body").unwrap_or_default();
    let body = if answers.is_some() { without_quote(body) } else { body };
    let file = is_file(kind).then(|| attached(content, body));
    let shown = match (kind, &file) {
        ("m.emote", _) => format!("* {body}"),
        ("m.location", _) => {
            format!("(a place: {body}, {})", text(content, "/geo_uri").unwrap_or("without coordinates"))
        }
        (_, Some(_)) => caption(content, body).to_owned(),
        _ => body.to_owned(),
    };
    let is_mention = mentions(content, bot);
    Some(Written {
        id: id.to_owned(),
        sender: sender.to_owned(),
        at: at(event),
        text: if is_mention { command(&shown, bot) } else { shown },
        thread: root.map(str::to_owned),
        answers: answers.map(str::to_owned),
        is_mention,
        file,
    })
}

fn is_file(kind: &str) -> bool {
    ["m.image", "m.file", "m.audio", "m.video"].contains(&kind)
}

/// Where there is a name of the file, the body is a caption.
fn caption<'c>(content: &'c Value, body: &'c str) -> &'c str {
    text(content, "/filename").filter(|name| *name != body).map_or("", |_| body)
}

fn attached(content: &Value, body: &str) -> Attached {
    let name = text(content, "/filename").unwrap_or(body);
    let place = match (text(content, "/url"), content.get("file")) {
        (Some(address), _) => Media::read(address).ok_or_else(|| "its address is not one of a file".to_owned()),
        (None, Some(told)) => Media::sealed(told).ok_or_else(|| "its address is not one of a file".to_owned()),
        (None, None) => Err("the message does not say where it is".to_owned()),
    };
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    Attached { name, mime: text(content, "/info/mimetype").map(str::to_owned), place }
}

/// The text without the answered message, which older clients quote at its beginning.
fn without_quote(body: &str) -> &str {
    if !body.starts_with("> <") && !body.starts_with("> * <") {
        return body;
    }
    let mut rest = body;
    while rest.starts_with("> ") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.strip_prefix('\n').unwrap_or(rest)
}

/// Whether the bot is addressed: by the list of the mentioned, or, where a client writes none, by a link to it or its id
/// in the text. Its name alone is none, because everybody can have it.
fn mentions(content: &Value, bot: &Bot) -> bool {
    if let Some(listed) = content.get("m.mentions") {
        let users = listed.get("user_ids").and_then(Value::as_array).into_iter().flatten();
        return users.take(1_000).any(|user| user.as_str() == Some(&bot.id));
    }
    let ends = |rest: &str| !rest.starts_with(|char: char| char.is_ascii_alphanumeric() || ".-_:".contains(char));
    let has = |text: &str, id: &str| text.match_indices(id).any(|(at, _)| text.get(at + id.len()..).is_some_and(ends));
    let formatted = text(content, "/formatted_body").unwrap_or_default();
    has(formatted, &format!("https://matrix.to/#/{}", bot.id))
        || has(formatted, &format!("https://matrix.to/#/{}", part(&bot.id)))
        || text(content, "/body").is_some_and(|body| has(body, &bot.id))
}

/// A command without the bot's name before it: `Andy: /clear` is `/clear`.
fn command(shown: &str, bot: &Bot) -> String {
    let names = [Some(bot.id.as_str()), bot.name.as_deref()];
    let rest = names
        .into_iter()
        .flatten()
        .find_map(|name| shown.strip_prefix('@').unwrap_or(shown).strip_prefix(name.strip_prefix('@').unwrap_or(name)));
    let rest = rest.map(|rest| rest.trim_start_matches([':', ',', ' ']));
    rest.filter(|rest| rest.starts_with('/')).unwrap_or(shown).to_owned()
}

/// A message that was answered, for the agent, and whether the bot wrote it.
pub(crate) struct Answered {
    pub(crate) shown: Value,
    pub(crate) is_ours: bool,
}

/// What is needed to ask for a message that was answered.
pub(crate) struct Around<'a> {
    pub(crate) api: &'a Api,
    pub(crate) crypto: Option<&'a Crypto>,
    pub(crate) bot: &'a Bot,
    pub(crate) members: &'a Members,
}

/// Asks the server for the message that was answered.
pub(crate) fn answered(around: &Around<'_>, room: &str, id: &str) -> Result<Option<Answered>, Trouble> {
    let Around { api, crypto, bot, members } = around;
    let mut event = match api.get(&format!("client/v3/rooms/{}/event/{}", part(room), part(id))) {
        Ok(event) => event,
        Err(trouble) if trouble.is_passing() => return Err(trouble),
        Err(_) => return Ok(None),
    };
    if let (Some(crypto), Some("m.room.encrypted")) = (crypto, text(&event, "/type"))
        && let Opening::Fine(opened) = crypto.open_event(room, &event)?
    {
        event = opened;
    }
    let sender = text(&event, "/sender").unwrap_or_default();
    let body: String =
        without_quote(text(&event, "/content/body").unwrap_or_default()).chars().take(QUOTE_MAX).collect();
    let name = members.get(sender).map_or(sender, String::as_str);
    let shown = json!({ "text": body, "sender": name, "messageId": id });
    Ok(Some(Answered { shown, is_ours: sender == bot.id }))
}

/// Whether a message was written in a room of two, which is a conversation with a person.
pub(crate) fn is_direct(written: &Written, members: &Members) -> bool {
    members.len() == 2 && members.contains_key(&written.sender)
}

/// The message as Hearth takes it.
pub(crate) fn event(written: &Written, chat: &str, members: &Members, answered: Option<Answered>) -> Event {
    let is_group = !is_direct(written, members);
    let is_ours = answered.as_ref().is_some_and(|answered| answered.is_ours);
    let mut content = json!({ "text": written.text });
    if let (Some(fields), Some(answered)) = (content.as_object_mut(), answered) {
        fields.insert("replyTo".to_owned(), answered.shown);
    }
    let message = json!({
        "id": written.id,
        "isMention": written.is_mention || is_ours || !is_group,
        "isGroup": is_group,
        "timestamp": time_text(written.at / 1_000),
        "content": content,
    });
    let rest = [("platformId", json!(chat)), ("threadId", json!(written.thread)), ("message", message)];
    let rest: BTreeMap<String, Value> = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let name = members.get(&written.sender).cloned();
    // The server says who sent it, and refuses others.
    let sender = Person { id: written.sender.clone(), name, verified: true };
    Event { sender: Some(sender), files: Vec::new(), rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot() -> Bot {
        Bot { id: "@bot:x.test".to_owned(), name: Some("Andy".to_owned()) }
    }

    fn written(content: Value) -> Option<Written> {
        let event = json!({"type": "m.room.message", "sender": "@ann:x.test", "event_id": "$1", "origin_server_ts": 5, "content": content});
        read(&event, &bot())
    }

    #[test]
    fn what_is_no_message_of_a_person_is_nothing() {
        for content in [
            json!({}),
            json!(7),
            json!({"body": "x"}),
            json!({"msgtype": "m.notice", "body": "x"}),
            json!({"msgtype": "m.text", "body": "* x", "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}),
        ] {
            assert!(written(content.clone()).is_none(), "{content}");
        }
        let own = json!({"sender": "@bot:x.test", "event_id": "$1", "content": {"msgtype": "m.text", "body": "x"}});
        assert!(read(&own, &bot()).is_none());
        let incomplete = json!({"sender": "ann", "event_id": "$1", "content": {"msgtype": "m.text", "body": "x"}});
        assert!(read(&incomplete, &bot()).is_none());
        assert_eq!(written(json!({"msgtype": "m.text", "body": {"a": 1}})).unwrap().text, "");
    }

    #[test]
    fn a_mention_is_listed_or_linked_and_no_name() {
        let is = |content: Value| written(content).unwrap().is_mention;
        let text = |body: &str| json!({"msgtype": "m.text", "body": body});
        assert!(is(
            json!({"msgtype": "m.text", "body": "hi", "m.mentions": {"user_ids": ["@ann:x.test", "@bot:x.test"]}})
        ));
        assert!(!is(json!({"msgtype": "m.text", "body": "@bot:x.test", "m.mentions": {}})));
        assert!(!is(json!({"msgtype": "m.text", "body": "hi", "m.mentions": {"room": true}})));
        assert!(is(
            json!({"msgtype": "m.text", "body": "Andy: hi", "formatted_body": "<a href=\"https://matrix.to/#/@bot:x.test\">Andy</a>: hi"})
        ));
        assert!(is(text("hi @bot:x.test!")));
        assert!(!is(text("hi @bot:x.tester")) && !is(text("Andy: hi")));
    }

    #[test]
    fn commands_lose_the_name_before_them() {
        let of = |body: &str| {
            written(json!({"msgtype": "m.text", "body": body, "m.mentions": {"user_ids": ["@bot:x.test"]}}))
                .unwrap()
                .text
        };
        for (body, expected) in [
            ("Andy: /clear", "/clear"),
            ("@bot:x.test /clear now", "/clear now"),
            ("@Andy, /clear", "/clear"),
            ("Andy: hello", "Andy: hello"),
            ("see /clear", "see /clear"),
        ] {
            assert_eq!(of(body), expected);
        }
    }

    #[test]
    fn threads_and_answers_are_told_apart() {
        let with = |relation: Value, body: &str| {
            let found = written(json!({"msgtype": "m.text", "body": body, "m.relates_to": relation})).unwrap();
            (found.thread, found.answers, found.text)
        };
        let some = |id: &str| Some(id.to_owned());
        let reply = json!({"m.in_reply_to": {"event_id": "$9"}});
        assert_eq!(with(reply, "> <@bot:x.test> a\n> b\n\nyes\n> no"), (None, some("$9"), "yes\n> no".to_owned()));
        let thread = json!({"rel_type": "m.thread", "event_id": "$8", "is_falling_back": true, "m.in_reply_to": {"event_id": "$9"}});
        assert_eq!(with(thread, "> a"), (some("$8"), None, "> a".to_owned()));
        let both = json!({"rel_type": "m.thread", "event_id": "$8", "m.in_reply_to": {"event_id": "$9"}});
        assert_eq!(with(both, "x"), (some("$8"), some("$9"), "x".to_owned()));
        assert_eq!(with(json!({"rel_type": "m.thread", "event_id": "no id"}), "x"), (None, None, "x".to_owned()));
    }

    #[test]
    fn files_have_names_and_captions() {
        let file = |content: Value| {
            let found = written(content).unwrap();
            let file = found.file.unwrap();
            (found.text, file.name.unwrap_or_default(), file.place.is_ok())
        };
        let texts = |text: &str, name: &str, is: bool| (text.to_owned(), name.to_owned(), is);
        assert_eq!(file(json!({"msgtype": "m.image", "body": "a.png", "url": "mxc://x/1"})), texts("", "a.png", true));
        assert_eq!(
            file(json!({"msgtype": "m.file", "body": "look", "filename": "a.txt", "url": "mxc://x/1"})),
            texts("look", "a.txt", true)
        );
        assert_eq!(
            file(json!({"msgtype": "m.file", "body": "a.txt", "file": {"url": "mxc://x/1"}})),
            texts("", "a.txt", true)
        );
        assert_eq!(file(json!({"msgtype": "m.file", "body": "a.txt", "file": {"url": 7}})), texts("", "a.txt", false));
        assert_eq!(
            file(json!({"msgtype": "m.file", "body": "a.txt", "url": "https://evil.test/"})),
            texts("", "a.txt", false)
        );
    }
}
