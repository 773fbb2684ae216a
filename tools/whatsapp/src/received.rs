//! Reads what people wrote. Only who wrote, where and when comes from WhatsApp; everything else is what a person or their
//! program made of it, so every field is optional.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use whatsapp_rust::Jid;
use whatsapp_rust::prelude::{MessageExt as _, MessageInfo, wa};

use crate::chat::{Chat, Id, is_id};
use crate::settings::Owner;
use crate::written::{Attached, Kind, Written};

/// Mentions of a message that get names.
const MENTIONS_MAX: usize = 100;
/// Longest text in bytes.
const TEXT_BYTES: usize = 256 << 10;
/// Characters of a message that was answered.
const QUOTE_MAX: usize = 500;
/// Longest name in characters.
const NAME_MAX: usize = 100;
/// Contacts of a message.
const CONTACTS_MAX: usize = 32;
/// How a mention of the bot is shown.
const OWN_NAME: &str = "hearth";

/// The account of the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) number: Chat,
    /// WhatsApp's id for it.
    pub(crate) hidden: Option<Chat>,
    pub(crate) owner: Owner,
}

impl Account {
    fn is(&self, chat: &Chat) -> bool {
        *chat == self.number || Some(chat) == self.hidden.as_ref()
    }

    fn is_text(&self, jid: Option<&str>) -> bool {
        jid.and_then(person).is_some_and(|person| self.is(&person))
    }
}

/// What is known of people: numbers by their hidden ids, and names that they gave themselves.
#[derive(Debug, Default)]
pub(crate) struct People {
    pub(crate) numbers: BTreeMap<Chat, Chat>,
    pub(crate) names: BTreeMap<Chat, String>,
}

impl People {
    /// The person of an address, by their number if it is known.
    fn person(&self, jid: &Jid, other: Option<&Jid>) -> Option<Chat> {
        let person = Chat::of(jid).filter(|person| !person.is_group())?;
        if let Chat::Number(_) = person {
            return Some(person);
        }
        let number = other.and_then(Chat::of).filter(|other| matches!(other, Chat::Number(_)));
        Some(number.or_else(|| self.numbers.get(&person).cloned()).unwrap_or(person))
    }

    fn shown(&self, jid: &str) -> String {
        let Some(person) = person(jid) else { return "?".to_owned() };
        let person = self.numbers.get(&person).cloned().unwrap_or(person);
        self.names.get(&person).cloned().unwrap_or_else(|| person.to_string())
    }
}

/// The person of an address in a message.
fn person(jid: &str) -> Option<Chat> {
    Chat::of(&jid.parse().ok()?).filter(|person| !person.is_group())
}

/// Reads a message; none if it is no message of a person: edits, deletions, reactions, statuses and the bot's own.
pub(crate) fn read(message: &wa::Message, info: &MessageInfo, account: &Account, people: &People) -> Option<Written> {
    let source = &info.source;
    let is_own = source.is_from_me;
    if is_own && account.owner == Owner::Bot {
        return None;
    }
    let author =
        if is_own { account.number.clone() } else { people.person(&source.sender, source.sender_alt.as_ref())? };
    let chat = match Chat::of(&source.chat) {
        Some(chat @ Chat::Group(_)) => chat,
        Some(chat) if account.is(&chat) => account.number.clone(),
        Some(_) if is_own => people.person(&source.chat, source.recipient_alt.as_ref())?,
        Some(_) => author.clone(),
        // Statuses, channels and lists.
        None => return None,
    };
    let body = message.get_base_message();
    if body.protocol_message.is_set() || body.reaction_message.is_set() || body.enc_reaction_message.is_set() {
        return None;
    }
    let context = context(body);
    let is_view_once = message.is_view_once();
    let files = if is_view_once { Vec::new() } else { attached(body) };
    let text = shown(body, context, is_view_once, (account, people));
    if text.trim().is_empty() && files.is_empty() {
        return None;
    }
    let is_direct = !chat.is_group();
    let mentions = context.map(|context| context.mentioned_jid.as_slice()).unwrap_or_default();
    let mentions_bot = mentions.iter().take(MENTIONS_MAX).any(|jid| account.is_text(Some(jid)));
    let answers_bot = context.is_some_and(|context| account.is_text(context.participant.as_deref()));
    let id = Id { id: id(&info.id), author: (!is_own).then(|| source.sender.to_non_ad_string()) };
    Some(Written {
        is_note: is_own && chat == account.number,
        // A person does not address themselves in a group.
        is_mention: is_direct || (!is_own && (mentions_bot || answers_bot)),
        chat: chat.to_string(),
        is_group: !is_direct,
        id: id.to_string(),
        author: author.to_string(),
        name: Some(named(&info.push_name)).filter(|name| !name.is_empty()),
        time: info.timestamp.timestamp(),
        text,
        answered: context.and_then(|context| answered(context, account, people)),
        files,
    })
}

/// The id of a message, in a form that can be named. A sender can choose any id.
fn id(text: &str) -> String {
    if is_id(text) {
        return text.to_owned();
    }
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("strange-{hash:016x}")
}

pub(crate) fn named(name: &str) -> String {
    name.trim().chars().filter(|char| !char.is_control()).take(NAME_MAX).collect()
}

fn context(body: &wa::Message) -> Option<&wa::ContextInfo> {
    let of = [
        body.extended_text_message.as_option().and_then(|part| part.context_info.as_option()),
        body.image_message.as_option().and_then(|part| part.context_info.as_option()),
        body.video_message.as_option().and_then(|part| part.context_info.as_option()),
        body.audio_message.as_option().and_then(|part| part.context_info.as_option()),
        body.document_message.as_option().and_then(|part| part.context_info.as_option()),
        body.sticker_message.as_option().and_then(|part| part.context_info.as_option()),
        body.location_message.as_option().and_then(|part| part.context_info.as_option()),
        body.contact_message.as_option().and_then(|part| part.context_info.as_option()),
    ];
    of.into_iter().flatten().next()
}

/// The text of a message or its caption.
fn words(body: &wa::Message) -> &str {
    let document = || body.document_message.as_option().and_then(|part| part.caption.as_deref());
    body.text_content().or_else(|| body.get_caption()).or_else(document).unwrap_or_default()
}

/// The text that people see, and lines for what is no text.
fn shown(
    body: &wa::Message,
    context: Option<&wa::ContextInfo>,
    is_view_once: bool,
    known: (&Account, &People),
) -> String {
    let mentions = context.map(|context| context.mentioned_jid.as_slice()).unwrap_or_default();
    let mut shown = with_names(words(body), mentions, known);
    let mut more = Vec::new();
    if let Some(place) = body.location_message.as_option() {
        let (latitude, longitude) = (place.degrees_latitude.unwrap_or(0.0), place.degrees_longitude.unwrap_or(0.0));
        let name = named(place.name.as_deref().unwrap_or_default());
        more.push(format!("(place: {name} {latitude:.6}, {longitude:.6})").replace(":  ", ": "));
    }
    if body.live_location_message.is_set() {
        more.push("(live location)".to_owned());
    }
    let several = body.contacts_array_message.as_option().map(|array| array.contacts.as_slice()).unwrap_or_default();
    for contact in body.contact_message.as_option().into_iter().chain(several.iter().take(CONTACTS_MAX)) {
        more.push(format!("(contact: {})", named(contact.display_name.as_deref().unwrap_or_default())));
    }
    let polls = [
        &body.poll_creation_message,
        &body.poll_creation_message_v2,
        &body.poll_creation_message_v3,
        &body.poll_creation_message_v5,
    ];
    if let Some(poll) = polls.into_iter().find_map(|poll| poll.as_option()) {
        more.push(format!("(poll: {})", named(poll.name.as_deref().unwrap_or_default())));
    }
    if is_view_once {
        more.push("(a file to be seen once, which is not kept)".to_owned());
    }
    for line in more {
        shown.push_str(if shown.is_empty() { "" } else { "\n" });
        shown.push_str(&line);
    }
    shown
}

/// A text with names where people are mentioned. A command behind a mention of the bot is one without it.
fn with_names(text: &str, mentions: &[String], (account, people): (&Account, &People)) -> String {
    let of = |jid: &'_ String| (jid.split(['@', ':']).next().unwrap_or_default().to_owned(), jid.clone());
    let mentions: BTreeMap<String, String> = mentions.iter().take(MENTIONS_MAX).map(of).collect();
    let mut rest = text.get(..text.floor_char_boundary(TEXT_BYTES)).unwrap_or_default();
    let mut shown = String::new();
    while let Some((before, after)) = rest.split_once('@') {
        let end = after.find(|char: char| !char.is_ascii_digit()).unwrap_or(after.len());
        let (digits, next) = after.split_at_checked(end).unwrap_or((after, ""));
        shown.push_str(before);
        let jid = mentions.get(digits);
        let is_own = account.is_text(jid.map(String::as_str));
        if is_own && shown.trim().is_empty() {
            let command = next.trim_start_matches([':', ',', ' ']);
            if command.starts_with('/') {
                return command.to_owned();
            }
        }
        let name = match jid {
            Some(_) if is_own => OWN_NAME.to_owned(),
            Some(jid) => people.shown(jid),
            None => digits.to_owned(),
        };
        shown.push_str(&format!("@{name}"));
        rest = next;
    }
    shown.push_str(rest);
    shown
}

/// The message that is answered.
fn answered(context: &wa::ContextInfo, account: &Account, people: &People) -> Option<Value> {
    let id = context.stanza_id.as_deref().map(id)?;
    let author = context.participant.as_deref().filter(|author| person(author).is_some());
    let is_own = account.is_text(author);
    let quoted = context.quoted_message.as_option().map(|quoted| words(quoted.get_base_message())).unwrap_or_default();
    let quoted: String = quoted.chars().take(QUOTE_MAX).collect();
    let id = Id { id, author: author.filter(|_| !is_own).map(str::to_owned) };
    let sender = author.map(|author| if is_own { OWN_NAME.to_owned() } else { people.shown(author) });
    Some(json!({ "text": quoted, "sender": sender, "messageId": id.to_string() }))
}

/// The files of a message. One without an address or a key cannot be fetched.
fn attached(body: &wa::Message) -> Vec<Attached> {
    macro_rules! file {
        ($part:expr, $kind:expr, $name:expr) => {
            $part.as_option().map(|part| Attached {
                kind: $kind,
                name: $name(part),
                mime: part.mimetype.as_deref().map(named).filter(|mime| !mime.is_empty()),
                size: part.file_length.unwrap_or_default(),
                path: part.direct_path.clone().unwrap_or_default(),
                key: part.media_key.clone().unwrap_or_default(),
                digest: part.file_sha256.clone().unwrap_or_default(),
                encrypted_digest: part.file_enc_sha256.clone().unwrap_or_default(),
            })
        };
    }
    let document = |part: &wa::message::DocumentMessage| part.file_name.as_deref().or(part.title.as_deref()).map(named);
    let found: [Option<Attached>; 6] = [
        file!(body.image_message, Kind::Image, |_| None),
        file!(body.video_message, Kind::Video, |_| None),
        file!(body.ptv_message, Kind::Video, |_| None),
        file!(body.audio_message, Kind::Audio, |_| None),
        file!(body.document_message, Kind::Document, document),
        file!(body.sticker_message, Kind::Sticker, |_| None),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
