//! Reads the messages of people. Only the channel, the person and the time of a message are Slack's own; everything else is
//! what a person or their program made of it, so every field is optional.

use std::collections::BTreeMap;

use hearth_bridge::program::state::time_text;
use hearth_bridge::{Event, Sender as Person};
use serde_json::{Value, json};

use super::file::Attached;
use super::mrkdwn::{is_id, is_person};

#[derive(Debug, Clone)]
pub(super) struct Bot {
    /// As a person.
    pub(super) user: String,
    /// As a program.
    pub(super) id: String,
    pub(super) name: String,
}

/// A place in a chat, which is also the id of the message there: seconds since 1970 with six digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ts {
    seconds: u64,
    micros: u32,
}

impl Ts {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (seconds, micros) = text.split_once('.')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_time = is_number(seconds) && is_number(micros) && micros.len() == 6 && seconds.len() <= 12;
        is_time.then(|| Some(Self { seconds: seconds.parse().ok()?, micros: micros.parse().ok()? }))?
    }

    pub(super) fn at(seconds: i64) -> Self {
        Self { seconds: seconds.unsigned_abs(), micros: 0 }
    }

    pub(super) fn minus(self, seconds: u64) -> Self {
        Self { seconds: self.seconds.saturating_sub(seconds), ..self }
    }

    fn seconds(self) -> i64 {
        i64::try_from(self.seconds).unwrap_or_default()
    }
}

impl std::fmt::Display for Ts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.seconds, self.micros)
    }
}

/// Whether a text has the form of a chat's id.
pub(super) fn is_chat(text: &str) -> bool {
    is_id(text, &['C', 'D', 'G'])
}

/// A message of a person.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) chat: String,
    pub(super) ts: Ts,
    pub(super) sender: String,
    /// As Slack has it, with marks.
    pub(super) text: String,
    pub(super) thread: Option<Ts>,
    pub(super) is_direct: bool,
    pub(super) is_mention: bool,
    pub(super) files: Vec<Attached>,
}

/// The text at a place in a value.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Reads a message of a chat; none if it is no message of a person: edits, joins, messages of programs and the bot's own.
pub(super) fn read(message: &Value, chat: &str, bot: &Bot) -> Option<Written> {
    let kind = text(message, "/type").unwrap_or("message");
    let is_message = matches!(kind, "message" | "app_mention")
        && matches!(text(message, "/subtype"), None | Some("file_share" | "thread_broadcast" | "me_message"))
        && message.get("hidden") != Some(&Value::Bool(true));
    let is_program = text(message, "/bot_id").is_some();
    let sender = text(message, "/user").filter(|user| is_person(user) && *user != bot.user)?;
    if !is_message || is_program || !is_chat(chat) {
        return None;
    }
    let ts = Ts::read(text(message, "/ts")?)?;
    let shown = text(message, "/text").unwrap_or_default();
    let is_direct = text(message, "/channel_type").map_or(chat.starts_with('D'), |kind| kind == "im");
    let is_named = super::text::people(shown).any(|id| id == bot.user);
    // In a thread that the bot began, a message answers the bot.
    let is_answer = text(message, "/parent_user_id") == Some(&bot.user);
    let files = message.get("files").and_then(Value::as_array).into_iter().flatten();
    Some(Written {
        chat: chat.to_owned(),
        ts,
        sender: sender.to_owned(),
        text: shown.to_owned(),
        thread: text(message, "/thread_ts").and_then(Ts::read).filter(|root| *root != ts),
        is_direct,
        is_mention: is_direct || is_named || is_answer || kind == "app_mention",
        files: files.take(Attached::MOST).map(Attached::read).collect(),
    })
}

/// Whether the bot came into a chat: what was said before was not for it.
pub(super) fn is_arrival(message: &Value, bot: &Bot) -> bool {
    let is_join = matches!(text(message, "/subtype"), Some("channel_join" | "group_join"));
    is_join && text(message, "/user") == Some(&bot.user)
}

/// The message as Hearth takes it.
pub(super) fn event(written: &Written, bot: &Bot, name: &dyn Fn(&str) -> Option<String>) -> Event {
    let own = |id: &str| if id == bot.user { Some(bot.name.clone()) } else { name(id) };
    let text = command(&written.text, bot)
        .map_or_else(|| super::text::plain(&written.text, &own), |command| super::text::plain(command, &own));
    let message = json!({
        "id": written.ts.to_string(),
        "isMention": written.is_mention,
        "isGroup": !written.is_direct,
        "timestamp": time_text(written.ts.seconds()),
        "content": { "text": text },
    });
    let thread = written.thread.map(|thread| thread.to_string());
    let rest = [("platformId", json!(written.chat)), ("threadId", json!(thread)), ("message", message)];
    let rest: BTreeMap<String, Value> = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    // Slack says who sent it.
    let sender = Person { id: written.sender.clone(), name: name(&written.sender), verified: true };
    Event { sender: Some(sender), files: Vec::new(), rest }
}

/// A command behind a mention of the bot: a text that begins with a slash never leaves Slack's clients.
fn command<'t>(text: &'t str, bot: &Bot) -> Option<&'t str> {
    let (mark, rest) = text.trim_start().strip_prefix("<@")?.split_once('>')?;
    let is_own = mark.split('|').next() == Some(&bot.user);
    Some(rest.trim_start_matches([':', ',', ' '])).filter(|rest| is_own && rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::{changed, value};
    use proptest::prelude::*;

    fn bot() -> Bot {
        Bot { user: "U0BOT".to_owned(), id: "B0BOT".to_owned(), name: "hearth".to_owned() }
    }

    fn with(more: Value) -> Option<Written> {
        let mut message = json!({ "type": "message", "user": "U0ANN", "ts": "1795737767.488263", "text": "hi" });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&message, "C0ALL", &bot())
    }

    #[test]
    fn what_is_no_message_of_a_person_is_nothing() {
        for more in [
            json!({ "user": "U0BOT" }),
            json!({ "bot_id": "B0BOT" }),
            json!({ "bot_id": "B9" }),
            json!({ "subtype": "bot_message" }),
            json!({ "subtype": "message_changed", "message": { "user": "U0ANN", "text": "x" } }),
            json!({ "subtype": "message_deleted" }),
            json!({ "subtype": "channel_join" }),
            json!({ "hidden": true }),
            json!({ "type": "reaction_added" }),
            json!({ "user": 7 }),
            json!({ "user": "u/../x" }),
            json!({ "ts": "1" }),
            json!({ "ts": "1.x00000" }),
        ] {
            assert!(with(more.clone()).is_none(), "{more}");
        }
        assert!(with(json!({ "subtype": "me_message", "text": 5 })).is_some_and(|written| written.text.is_empty()));
        assert!(read(&json!({ "user": "U0ANN", "ts": "1.000000" }), "not a chat", &bot()).is_none());
    }

    proptest! {
        #[test]
        fn whatever_slack_sends_is_read_or_nothing(
            with in value(
                &["type", "subtype", "user", "ts", "text", "thread_ts", "parent_user_id", "channel_type", "files", "id", "name",
                    "size", "url_private", "mode", "mimetype", "hidden", "bot_id"],
                &["message", "U0ANN", "U0BOT", "1795737767.488263", "file_share", "im", "https://files.slack.com/x"],
            ),
        ) {
            let base = json!({ "type": "message", "user": "U0ANN", "ts": "1795737767.488263", "text": "hi" });
            for message in [changed(base, &with), with] {
                let Some(written) = read(&message, "C0ALL", &bot()) else { continue };
                prop_assert!(is_person(&written.sender) && written.sender != "U0BOT" && written.files.len() <= Attached::MOST);
                let found = event(&written, &bot(), &|_| None);
                prop_assert_eq!(found.sender.map(|sender| sender.id), Some(written.sender));
            }
        }
    }

    #[test]
    fn mentions_and_threads_are_told_apart() {
        let is = |more: Value| with(more).unwrap().is_mention;
        assert!(is(json!({ "text": "hi <@U0BOT>" })) && is(json!({ "text": "<@U0BOT|hearth> hi" })));
        assert!(is(json!({ "type": "app_mention" })) && is(json!({ "parent_user_id": "U0BOT" })));
        assert!(is(json!({ "channel_type": "im" })));
        for text in ["hearth", "@hearth", "&lt;@U0BOT&gt;", "<!channel>", "<@U0BOTX>", "<@B0BOT>"] {
            assert!(!is(json!({ "text": text })), "{text}");
        }
        let thread = |root: &str| with(json!({ "thread_ts": root })).unwrap().thread.map(|root| root.to_string());
        assert_eq!(thread("1795737760.000001").as_deref(), Some("1795737760.000001"));
        assert_eq!((thread("1795737767.488263"), thread("x")), (None, None));
    }

    #[test]
    fn an_event_has_names_instead_of_marks() {
        let name = |id: &str| (id == "U0ANN").then(|| "Ann".to_owned());
        let of = |text: &str| {
            let event = event(&with(json!({ "text": text, "sender": "U9" })).unwrap(), &bot(), &name);
            assert_eq!(
                event.sender.as_ref().map(|sender| (sender.id.as_str(), sender.verified)),
                Some(("U0ANN", true))
            );
            event.rest["message"]["content"]["text"].as_str().unwrap().to_owned()
        };
        for (text, expected) in [
            ("<@U0BOT> /clear now", "/clear now"),
            ("<@U0BOT>: /clear", "/clear"),
            ("<@U0ANN> /clear", "@Ann /clear"),
            ("<@U0BOT> see <@U0ANN>", "@hearth see @Ann"),
        ] {
            assert_eq!(of(text), expected);
        }
    }

    #[test]
    fn times_are_ids() {
        let ts = Ts::read("1795737767.000263").unwrap();
        assert_eq!((ts.to_string(), ts.minus(7).to_string()), ("1795737767.000263".into(), "1795737760.000263".into()));
        assert!(ts < Ts::read("1795737767.000264").unwrap() && ts > Ts::at(1_795_737_767));
    }
}
