//! From a message of Discord to one of Hearth. Only what is needed is read, and who wrote it comes from Discord.

use std::collections::BTreeMap;

use hearth_bridge::program::state::time_text;
use hearth_bridge::{Event, Sender as Person};
use serde::Deserialize;
use serde_json::{Value, json};

use super::channels::Place;
use super::snowflake::Snowflake;

/// Files of a message that are looked at; Discord allows ten.
const FILES_MAX: usize = 10;
/// Characters of a message that was answered.
const QUOTE_MAX: usize = 500;
/// Longest name of a person, in characters.
const NAME_MAX: usize = 100;
/// Kinds of messages that people write: an ordinary one, and an answer. All others say what happened.
const WRITTEN: [u64; 2] = [0, 19];

/// A person or a program.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct User {
    pub(crate) id: Snowflake,
    #[serde(default)]
    pub(crate) username: String,
    #[serde(default)]
    pub(crate) global_name: Option<String>,
    #[serde(default)]
    pub(crate) bot: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct Member {
    #[serde(default)]
    nick: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) id: Snowflake,
    #[serde(default)]
    pub(crate) filename: String,
    #[serde(default)]
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    /// Where it is, for a day.
    #[serde(default)]
    pub(crate) url: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Sticker {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Question {
    #[serde(default)]
    text: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Poll {
    question: Question,
}

/// A message that was forwarded.
#[derive(Debug, Clone, Deserialize)]
struct Snapshot {
    message: Forwarded,
}

#[derive(Debug, Clone, Deserialize)]
struct Forwarded {
    #[serde(default)]
    content: String,
    #[serde(default)]
    attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Message {
    pub(crate) id: Snowflake,
    pub(crate) channel_id: Snowflake,
    #[serde(default)]
    pub(crate) guild_id: Option<Snowflake>,
    author: User,
    #[serde(default)]
    member: Option<Member>,
    /// Programs with an address of the channel write under any name.
    #[serde(default)]
    webhook_id: Option<Snowflake>,
    #[serde(default)]
    content: String,
    #[serde(default, rename = "type")]
    kind: u64,
    #[serde(default)]
    mentions: Vec<User>,
    #[serde(default)]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(default)]
    sticker_items: Vec<Sticker>,
    #[serde(default)]
    poll: Option<Poll>,
    #[serde(default)]
    message_snapshots: Vec<Snapshot>,
    #[serde(default)]
    referenced_message: Option<Box<Message>>,
}

impl Message {
    /// Whether a person wrote it. The bot's own messages and those of other programs are not for an agent.
    pub(crate) fn is_of_a_person(&self) -> bool {
        WRITTEN.contains(&self.kind) && !self.author.bot && self.webhook_id.is_none()
    }

    /// Its files, with those of a forwarded message.
    pub(crate) fn files(&self) -> Vec<&Attachment> {
        let forwarded = self.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        self.attachments.iter().chain(forwarded).take(FILES_MAX).collect()
    }

    /// Whether it addresses the bot: by an entry in the list of the mentioned, or by an answer to it. Names, roles and
    /// `@everyone` do not.
    fn addresses(&self, bot: &User) -> bool {
        let answers = self.referenced_message.as_ref().is_some_and(|answered| answered.author.id == bot.id);
        answers || self.mentions.iter().any(|user| user.id == bot.id)
    }

    /// The text that people see, and lines for what is no text.
    fn shown(&self, bot: &User) -> String {
        let mut text = command(&self.content, bot).unwrap_or_else(|| named(&self.content, &self.mentions));
        let mut more = Vec::new();
        for snapshot in &self.message_snapshots {
            more.push(format!("(forwarded) {}", snapshot.message.content));
        }
        more.extend(self.sticker_items.iter().map(|sticker| format!("(sticker: {})", sticker.name)));
        if let Some(question) = self.poll.as_ref().and_then(|poll| poll.question.text.as_ref()) {
            more.push(format!("(poll: {question})"));
        }
        for line in more {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&line);
        }
        text
    }

    fn name(&self) -> String {
        let own = self.member.as_ref().and_then(|member| member.nick.as_deref());
        let name = own.or(self.author.global_name.as_deref()).filter(|name| !name.trim().is_empty());
        let name = name.unwrap_or(&self.author.username);
        name.chars().filter(|char| !char.is_control()).take(NAME_MAX).collect()
    }

    /// The message as Hearth takes it; nothing for one that no person wrote or that has no content for the bot.
    pub(crate) fn event(&self, place: Place, bot: &User) -> Option<Event> {
        let text = self.shown(bot);
        // Discord shows the bot no content of messages that do not address it, unless that is switched on.
        if !self.is_of_a_person() || (text.trim().is_empty() && self.files().is_empty()) {
            return None;
        }
        let mut content = json!({ "text": text });
        if let (Some(fields), Some(answered)) = (content.as_object_mut(), &self.referenced_message) {
            let quoted: String = named(&answered.content, &answered.mentions).chars().take(QUOTE_MAX).collect();
            let shown = json!({ "text": quoted, "sender": answered.name(), "messageId": answered.id.to_string() });
            fields.insert("replyTo".to_owned(), shown);
        }
        let is_group = !place.is_direct();
        let message = json!({
            "id": self.id.to_string(),
            "isMention": !is_group || self.addresses(bot),
            "isGroup": is_group,
            "timestamp": time_text(self.id.seconds()),
            "content": content,
        });
        let rest = [
            ("platformId", json!(place.chat().to_string())),
            ("threadId", json!(place.thread().map(|thread| thread.to_string()))),
            ("supportsThreads", json!(is_group)),
            ("message", message),
        ];
        let rest: BTreeMap<String, Value> = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let sender = Person { id: self.author.id.to_string(), name: Some(self.name()), verified: true };
        Some(Event { sender: Some(sender), files: Vec::new(), rest })
    }
}

/// A command without the mention of the bot before it: `<@42> /clear` is `/clear`.
fn command(content: &str, bot: &User) -> Option<String> {
    let rest = content.trim_start();
    let rest = [format!("<@{}>", bot.id), format!("<@!{}>", bot.id)]
        .iter()
        .find_map(|mention| rest.strip_prefix(mention.as_str()))?;
    let rest = rest.trim_start_matches([':', ',', ' ']);
    rest.starts_with('/').then(|| rest.to_owned())
}

/// A text with the names of people instead of their ids.
fn named(content: &str, mentions: &[User]) -> String {
    let mut text = content.to_owned();
    for user in mentions.iter().take(100) {
        for mention in [format!("<@{}>", user.id), format!("<@!{}>", user.id)] {
            if text.contains(&mention) {
                text = text.replace(&mention, &format!("@{}", user.global_name.as_deref().unwrap_or(&user.username)));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::{changed, value};
    use proptest::prelude::*;

    fn bot() -> User {
        User { id: Snowflake(42), username: "andy".to_owned(), global_name: None, bot: true }
    }

    fn message(more: Value) -> Message {
        let mut base = json!({"id": "175928847299117063", "channel_id": "7", "author": {"id": "5", "username": "ann", "global_name": "Ann"}, "content": "hi", "type": 0});
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(base).unwrap()
    }

    fn event(more: Value) -> Option<Value> {
        let event = message(more).event(Place::Group(Snowflake(7)), &bot())?;
        Some(serde_json::to_value(event).unwrap())
    }

    #[test]
    fn what_no_person_wrote_is_nothing() {
        for more in [
            json!({"author": {"id": "5", "bot": true}}),
            json!({"webhook_id": "9"}),
            json!({"type": 7}),
            json!({"type": 21}),
            json!({"content": ""}),
            json!({"content": " \n"}),
        ] {
            assert_eq!(event(more.clone()), None, "{more}");
        }
        assert!(serde_json::from_value::<Message>(json!({"id": "1", "author": {"id": "../x"}})).is_err());
    }

    proptest! {
        #[test]
        fn whatever_discord_sends_is_read_or_nothing(
            with in value(
                &["id", "channel_id", "guild_id", "author", "username", "global_name", "member", "nick", "content", "type",
                    "mentions", "attachments", "filename", "size", "url", "sticker_items", "name", "poll", "question", "text",
                    "message_snapshots", "message", "referenced_message", "webhook_id", "bot"],
                &["42", "5", "<@42> /clear", "<@5>"],
            ),
        ) {
            let base = json!({"id": "175928847299117063", "channel_id": "7", "author": {"id": "5"}, "content": "hi", "type": 0});
            for message in [changed(base, &with), with] {
                let Ok(message) = serde_json::from_value::<Message>(message) else { continue };
                prop_assert!(message.files().len() <= FILES_MAX);
                let Some(found) = message.event(Place::Group(Snowflake(7)), &bot()) else { continue };
                prop_assert_eq!(found.sender.map(|sender| sender.id), Some(message.author.id.to_string()));
            }
        }
    }

    #[test]
    fn who_wrote_it_and_what_comes_from_discord() {
        let found = event(json!({"senderId": "1", "sender": {"id": "1"}, "member": {"nick": "Annie"}})).unwrap();
        assert_eq!(found["sender"], json!({"id": "5", "name": "Annie", "verified": true}));
        assert_eq!(found["message"]["timestamp"], "2016-04-30T11:18:25Z");
        assert_eq!((&found["platformId"], &found["threadId"]), (&json!("7"), &json!(null)));
        assert_eq!((&found["message"]["isMention"], &found["message"]["isGroup"]), (&json!(false), &json!(true)));
    }

    #[test]
    fn a_mention_is_listed_or_an_answer() {
        let is = |more: Value| event(more).unwrap()["message"]["isMention"] == json!(true);
        assert!(is(json!({"mentions": [{"id": "42", "username": "andy"}]})));
        assert!(is(json!({"type": 19, "referenced_message": {"id": "1", "channel_id": "7", "author": {"id": "42"}}})));
        assert!(!is(json!({"content": "@andy <@42>", "mention_everyone": true})));
        assert!(!is(json!({"type": 19, "referenced_message": null})));
    }

    #[test]
    fn texts_have_names_and_commands_begin_with_a_slash() {
        let text = |more: Value| event(more).unwrap()["message"]["content"]["text"].as_str().unwrap().to_owned();
        let mentions = json!([{"id": "42", "username": "andy"}, {"id": "6", "username": "b", "global_name": "Bob"}]);
        assert_eq!(text(json!({"content": "<@42> ask <@!6>", "mentions": mentions})), "@andy ask @Bob");
        assert_eq!(text(json!({"content": "<@42> /clear", "mentions": mentions})), "/clear");
        assert_eq!(text(json!({"content": "see <@42> /clear", "mentions": mentions})), "see @andy /clear");
        assert_eq!(text(json!({"content": "", "sticker_items": [{"name": "Wave"}]})), "(sticker: Wave)");
        let forwarded = json!([{"message": {"content": "far", "attachments": [{"id": "1", "filename": "a"}]}}]);
        assert_eq!(text(json!({"content": "", "message_snapshots": forwarded})), "(forwarded) far");
        assert_eq!(message(json!({"message_snapshots": forwarded})).files().len(), 1);
    }
}
