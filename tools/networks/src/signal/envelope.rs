//! Reads what signal-cli reports of the messages of people. Only who wrote, where and when comes from Signal; everything else
//! is what a person or their program made of it, so every field is optional.

use std::collections::BTreeMap;

use hearth_bridge::program::state::time_text;
use hearth_bridge::{Event, Sender as Person};
use serde_json::{Value, json};

use super::chat::{Chat, Id, person};

/// Files of a message that are looked at.
const FILES_MAX: usize = 32;
/// Mentions of a message that get names.
const MENTIONS_MAX: usize = 100;
/// Characters of a message that was answered.
const QUOTE_MAX: usize = 500;
/// Longest name of a person, in characters.
const NAME_MAX: usize = 100;
/// The type of the file that has a long text.
const LONG_TEXT: &str = "text/x-signal-plain";
/// How a mention of the bot is shown: signal-cli does not say what people call it.
const OWN_NAME: &str = "hearth";
/// Fields of messages that are none: what happened to others, and answers to stories.
const NO_MESSAGE: [&str; 8] = [
    "reaction",
    "remoteDelete",
    "pollVote",
    "pollTerminate",
    "pinMessage",
    "unpinMessage",
    "adminDelete",
    "storyContext",
];

/// The account of the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    /// For people, and for signal-cli.
    pub(super) number: String,
    /// Its id as a person.
    pub(super) id: String,
    /// It is a device of a person's account, so that it gets what that person writes and is written.
    pub(super) is_linked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    /// signal-cli's name for it; none if it has not got it.
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) size: u64,
}

impl Attached {
    pub(super) fn read(value: &Value) -> Self {
        // It is the name of a file, and never a path.
        let is_name = |id: &&str| {
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            (1..=200).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_sign)
        };
        Self {
            id: text(value, "/id").filter(is_name).map(str::to_owned),
            name: text(value, "/filename").filter(|name| !name.is_empty()).map(str::to_owned),
            mime: text(value, "/contentType").map(str::to_owned),
            size: value.get("size").and_then(Value::as_u64).unwrap_or_default(),
        }
    }
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) chat: Chat,
    pub(super) id: Id,
    pub(super) author: String,
    pub(super) name: Option<String>,
    pub(super) text: String,
    pub(super) is_mention: bool,
    /// Written by the person whose account it is, to themselves.
    pub(super) is_note: bool,
    /// The message that it answers, as agents see it.
    answered: Option<Value>,
    /// The whole text, if that is too long for a message.
    pub(super) long_text: Option<Attached>,
    /// UTF-16 code units of the beginning of such a text that came with the message.
    beginning: usize,
    pub(super) files: Vec<Attached>,
}

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What a notification reports, if it is for this account.
pub(super) fn reported<'v>(notification: &'v Value, account: &Account) -> Option<&'v Value> {
    let parameters = notification.get("params")?;
    // A daemon that was started otherwise says it without a subscription.
    let result = parameters.get("result").unwrap_or(parameters);
    // A daemon can have more accounts than this one.
    let is_own = text(result, "/account").is_none_or(|number| number == account.number);
    Some(result).filter(|_| is_own)
}

/// Reads a message; none if it is no message of a person: receipts, typing, edits, deletions, reactions and the bot's own.
/// `names` has the names of people by their ids.
pub(super) fn read(result: &Value, account: &Account, names: &BTreeMap<String, String>) -> Option<Written> {
    let envelope = result.get("envelope")?;
    let author = person(text(envelope, "/sourceUuid")?)?;
    let is_own = author == account.id;
    let data = match envelope.pointer("/syncMessage/sentMessage") {
        // What its person writes on another device. A bot of its own has none.
        Some(sent) if is_own && account.is_linked && sent.get("editMessage").is_none_or(Value::is_null) => sent,
        Some(_) => return None,
        None => envelope.get("dataMessage").filter(|_| !is_own)?,
    };
    let happened = |name: &str| data.get(name).is_some_and(|field| !field.is_null());
    if NO_MESSAGE.iter().any(|name| happened(name)) || data.get("isExpirationUpdate") == Some(&Value::Bool(true)) {
        return None;
    }
    let chat = match text(data, "/groupInfo/groupId") {
        Some(group) => Chat::read(group).filter(|chat| matches!(chat, Chat::Group(_)))?,
        None if is_own => Chat::Person(person(text(data, "/destinationUuid")?)?),
        None => Chat::Person(author.clone()),
    };
    let timestamp =
        [data, envelope].iter().find_map(|value| value.get("timestamp")?.as_u64().filter(|time| *time > 0))?;
    let is_view_once = data.get("viewOnce") == Some(&Value::Bool(true));
    let attached: Vec<Attached> = list(data, "attachments").iter().take(FILES_MAX).map(Attached::read).collect();
    let (mut long, mut files): (Vec<_>, Vec<_>) =
        attached.into_iter().partition(|attached| attached.mime.as_deref() == Some(LONG_TEXT));
    if is_view_once {
        files.clear();
    }
    let shown = shown(data, account, names);
    if shown.trim().is_empty() && files.is_empty() {
        return None;
    }
    let is_direct = matches!(chat, Chat::Person(_));
    let mentions_bot = list(data, "mentions").iter().any(|mention| of(mention, "/uuid").as_ref() == Some(&account.id));
    let answers_bot = of(data, "/quote/authorUuid").as_ref() == Some(&account.id);
    Some(Written {
        is_note: is_own && chat.id() == account.id,
        chat,
        id: Id { timestamp, author: Some(author.clone()) },
        author,
        name: text(envelope, "/sourceName").map(named).filter(|name| !name.is_empty()),
        text: shown,
        // A person does not address themselves in a group.
        is_mention: is_direct || (!is_own && (mentions_bot || answers_bot)),
        answered: answered(data, account, names),
        beginning: text(data, "/message").unwrap_or_default().encode_utf16().count(),
        long_text: long.pop(),
        files,
    })
}

fn of(value: &Value, pointer: &str) -> Option<String> {
    text(value, pointer).and_then(person)
}

fn named(name: &str) -> String {
    name.trim().chars().filter(|char| !char.is_control()).take(NAME_MAX).collect()
}

/// The text that people see, and lines for what is no text.
fn shown(data: &Value, account: &Account, names: &BTreeMap<String, String>) -> String {
    let mut shown = with_names(text(data, "/message").unwrap_or_default(), data, account, names);
    let mut more = Vec::new();
    if data.get("sticker").is_some_and(|sticker| !sticker.is_null()) {
        more.push("(sticker)".to_owned());
    }
    for contact in list(data, "contacts").iter().take(FILES_MAX) {
        let name = text(contact, "/name/display").or(text(contact, "/name/given")).unwrap_or_default();
        more.push(format!(
            "(contact: {} {})",
            named(name),
            text(contact, "/phone/0/value").map(named).unwrap_or_default()
        ));
    }
    if let Some(question) = text(data, "/pollCreate/question") {
        more.push(format!("(poll: {question})"));
    }
    if data.get("payment").is_some_and(|payment| !payment.is_null()) {
        more.push("(payment)".to_owned());
    }
    if data.get("viewOnce") == Some(&Value::Bool(true)) && !list(data, "attachments").is_empty() {
        more.push("(a file to be seen once, which is not kept)".to_owned());
    }
    for line in more {
        shown.push_str(if shown.is_empty() { "" } else { "\n" });
        shown.push_str(&line);
    }
    shown
}

/// A mention: a range of a text, in UTF-16.
struct Mention {
    start: usize,
    length: usize,
    person: String,
}

impl Mention {
    fn read(value: &Value) -> Option<Self> {
        let number = |key: &str| usize::try_from(value.get(key)?.as_u64()?).ok();
        Some(Self { start: number("start")?, length: number("length")?, person: of(value, "/uuid")? })
    }
}

/// A text with names where people are mentioned. A command behind a mention of the bot is one without it.
fn with_names(whole: &str, data: &Value, account: &Account, names: &BTreeMap<String, String>) -> String {
    let mut mentions: Vec<Mention> =
        list(data, "mentions").iter().take(MENTIONS_MAX).filter_map(Mention::read).collect();
    mentions.sort_by_key(|mention| mention.start);
    let units: Vec<u16> = whole.encode_utf16().collect();
    let (mut shown, mut at) = (Vec::with_capacity(units.len()), 0);
    for mention in &mentions {
        let end = mention.start.saturating_add(mention.length);
        // A range that does not fit, or that another one covers, is text.
        let (Some(before), Some(_)) = (units.get(at..mention.start), units.get(mention.start..end)) else { continue };
        shown.extend_from_slice(before);
        let is_own = mention.person == account.id;
        if is_own && String::from_utf16_lossy(&shown).trim().is_empty() {
            let rest = String::from_utf16_lossy(units.get(end..).unwrap_or_default());
            let rest = rest.trim_start_matches([':', ',', ' ']);
            if rest.starts_with('/') {
                return rest.to_owned();
            }
        }
        let name = if is_own { OWN_NAME } else { names.get(&mention.person).unwrap_or(&mention.person) };
        shown.extend(format!("@{name}").encode_utf16());
        at = end;
    }
    shown.extend_from_slice(units.get(at..).unwrap_or_default());
    String::from_utf16_lossy(&shown)
}

/// The message that is answered.
fn answered(data: &Value, account: &Account, names: &BTreeMap<String, String>) -> Option<Value> {
    let quote = data.get("quote")?;
    let timestamp = quote.get("id").and_then(Value::as_u64)?;
    let author = of(quote, "/authorUuid");
    let is_own = author.as_ref() == Some(&account.id);
    let name =
        author.as_ref().and_then(|author| if is_own { Some(OWN_NAME) } else { names.get(author).map(String::as_str) });
    let quoted = with_names(text(quote, "/text").unwrap_or_default(), quote, account, names);
    let quoted: String = quoted.chars().take(QUOTE_MAX).collect();
    let id = Id { timestamp, author: author.clone().filter(|_| !is_own) };
    Some(json!({ "text": quoted, "sender": name.or(author.as_deref()), "messageId": id.to_string() }))
}

impl Written {
    /// Adds what a long text has after the beginning, which has names instead of mentions already.
    pub(super) fn lengthen(&mut self, whole: &str) {
        let units: Vec<u16> = whole.encode_utf16().collect();
        self.text.push_str(&String::from_utf16_lossy(units.get(self.beginning..).unwrap_or_default()));
    }

    /// The message as Hearth takes it.
    pub(super) fn event(&self) -> Event {
        let mut content = json!({ "text": self.text });
        if let (Some(fields), Some(answered)) = (content.as_object_mut(), &self.answered) {
            fields.insert("replyTo".to_owned(), answered.clone());
        }
        let message = json!({
            "id": self.id.to_string(),
            "isMention": self.is_mention,
            "isGroup": matches!(self.chat, Chat::Group(_)),
            "timestamp": time_text(i64::try_from(self.id.timestamp / 1_000).unwrap_or_default()),
            "content": content,
        });
        let rest = [("platformId", json!(self.chat.id())), ("threadId", Value::Null), ("message", message)];
        let rest = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        // Signal vouches for the id.
        let sender = Person { id: self.author.clone(), name: self.name.clone(), verified: true };
        Event { sender: Some(sender), files: Vec::new(), rest }
    }
}

#[cfg(test)]
mod tests;
