//! From the bytes of a mail to a message of a person. Everything in them was written by a stranger.

use std::collections::BTreeSet;

use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders as _, PartType};
use sha2::{Digest as _, Sha256};

use crate::headers::{Headers, ids, is_address};
use crate::{automatic, quoted, verified, visible};

/// Longest text that is passed on, in bytes.
const TEXT_BYTES_MAX: usize = 200_000;
/// Longest subject and longest name, in characters.
const SUBJECT_MAX: usize = 300;
const NAME_MAX: usize = 100;
/// Files that are passed on, and their size in all.
const FILES_MAX: usize = 32;
const FILES_BYTES_MAX: usize = 64 << 20;
/// Maximum number of parts of a mail that are read.
const PARTS_MAX: usize = 200;

/// The mailbox's address, and the server whose checks of senders are trusted.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its address, in lower case.
    pub address: String,
    /// The server whose results about senders count.
    pub authserv_id: Option<String>,
}

impl Account {
    /// The part of the address after `@`.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.address.split_once('@').map_or("", |(_, domain)| domain)
    }

    /// The id of an outgoing mail, without `<` and `>`: always the same for the same delivery.
    #[must_use]
    pub fn message_id(&self, delivery: &str) -> String {
        let plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
        let delivery: String = delivery.chars().filter(plain).take(100).collect();
        format!("hearth.{delivery}@{}", self.domain())
    }

    /// Whether an id is that of a mail which this bridge sent.
    fn is_own_id(&self, id: &str) -> bool {
        id.starts_with("hearth.") && id.rsplit_once('@').is_some_and(|(_, domain)| domain == self.domain())
    }
}

/// How much of a mail was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// All of it.
    Whole,
    /// Its header, because it is too large.
    HeaderOnly,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mail {
    /// No message of a person, and why.
    Skipped(&'static str),
    Message(Box<Written>),
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What recognises a repeat.
    pub id: String,
    /// Its own id, as later mails refer to it.
    pub message_id: Option<String>,
    /// The address in `From`, in lower case.
    pub from: String,
    /// The name beside it.
    pub name: Option<String>,
    /// The own server vouches for the address.
    pub is_verified: bool,
    /// The id of the first mail of its conversation.
    pub thread: Option<String>,
    /// It answers another mail.
    pub is_answer: bool,
    pub subject: String,
    /// What the person wrote.
    pub text: String,
    /// Attached files.
    pub files: Vec<Attached>,
}

/// A file of a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Its name, as the sender wrote it.
    pub name: Option<String>,
    /// Its media type.
    pub mime: Option<String>,
    /// Its bytes, or why there are none.
    pub bytes: Result<Vec<u8>, String>,
}

/// Reads a mail.
#[must_use]
pub fn read(raw: &[u8], fetched: Fetched, account: &Account) -> Mail {
    let headers = Headers::read(raw);
    // Most methods of the parsed message expect at least one part.
    let Some(parsed) = MessageParser::default().parse(raw).filter(|parsed| !parsed.parts.is_empty()) else {
        return Mail::Skipped("it is no mail");
    };
    let Some(from) = from(&parsed, &headers) else { return Mail::Skipped("it has no usable sender") };
    if from.address == account.address {
        return Mail::Skipped("it is from the own address");
    }
    if let Some(why) = automatic::reason(&headers, &from.address) {
        return Mail::Skipped(why);
    }
    let message_id = headers.only("message-id").and_then(|value| ids(value).into_iter().next());
    if message_id.as_ref().is_some_and(|id| account.is_own_id(id)) {
        return Mail::Skipped("this bridge sent it");
    }
    let domain = from.address.split_once('@').map_or("", |(_, domain)| domain);
    let is_verified = from.is_plain
        && account.authserv_id.as_ref().is_some_and(|server| verified::is_verified(&headers, server, domain));
    let named = message_id.clone().unwrap_or_else(|| format!("sha256:{}", digest(raw)));
    // A forged sender must not take ids away from the real one.
    let id = if is_verified { named } else { format!("unverified:{named}") };
    let parents: Vec<String> =
        ["references", "in-reply-to"].iter().flat_map(|name| headers.all(name)).flat_map(ids).collect();
    let answers_own = parents.iter().any(|id| account.is_own_id(id));
    let text = match fetched {
        Fetched::Whole => text(&parsed, answers_own),
        Fetched::HeaderOnly => "(This mail is too large and was not fetched.)".to_owned(),
    };
    let subject = line(parsed.subject().unwrap_or_default(), SUBJECT_MAX);
    let name = from.name.map(|name| line(&name, NAME_MAX)).filter(|name| !name.is_empty());
    Mail::Message(Box::new(Written {
        id,
        thread: parents.first().cloned().or_else(|| message_id.clone()),
        is_answer: !parents.is_empty(),
        message_id,
        from: from.address,
        name,
        is_verified,
        subject,
        text,
        files: if fetched == Fetched::Whole { files(&parsed, raw) } else { Vec::new() },
    }))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sender as the mail names it.
struct From {
    address: String,
    name: Option<String>,
    /// No program could read another address from this field.
    is_plain: bool,
}

fn from(parsed: &Message<'_>, headers: &Headers) -> Option<From> {
    let addresses: Vec<_> = match parsed.from()? {
        Address::List(list) => list.iter().collect(),
        Address::Group(groups) => groups.iter().flat_map(|group| &group.addresses).collect(),
    };
    let first = addresses.first()?;
    let address = first.address.as_deref()?.trim().to_ascii_lowercase();
    if !is_address(&address) {
        return None;
    }
    let name = first.name.as_deref().map(str::to_owned);
    let looks_like_address = name.as_ref().is_some_and(|name| name.contains(['@', '＠', '﹫']));
    let raw = headers.only("from");
    let is_plain = !looks_like_address
        && addresses.len() == 1
        && raw.is_some_and(|raw| raw.matches('@').count() == 1 && raw.to_ascii_lowercase().contains(&address));
    Some(From { address, name, is_plain })
}

/// What the person wrote.
fn text(parsed: &Message<'_>, answers_own: bool) -> String {
    let (mut text, mut has_hidden) = (String::new(), false);
    for part in parsed.text_bodies().take(PARTS_MAX) {
        let piece = match &part.body {
            PartType::Text(plain) => plain.to_string(),
            PartType::Html(html) => {
                let found = visible::text(html);
                has_hidden |= found.has_hidden;
                found.text
            }
            _ => continue,
        };
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&piece);
        if text.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    let text = quoted::without_signature(&cleaned(&text));
    // Quotes of others are not known to the agent yet.
    let text = if answers_own { quoted::without_quote(&text) } else { text };
    let mut text = cut(text.trim_matches('\n'), TEXT_BYTES_MAX);
    if has_hidden {
        text.push_str("\n\n(hidden text left out)");
    }
    text
}

/// Text without characters that cannot be seen.
fn cleaned(text: &str) -> String {
    let is_unseen = |char: char| {
        matches!(char, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
    };
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|char| matches!(char, '\n' | '\t') || !char.is_control() && !is_unseen(*char)).collect()
}

/// One line of text.
fn line(text: &str, most: usize) -> String {
    let spaced = cleaned(text).replace(['\n', '\t'], " ");
    spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").chars().take(most).collect()
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n\n(the rest of the text was left out)", text.get(..end).unwrap_or_default())
}

/// The files of a mail: everything that is not its text.
fn files(parsed: &Message<'_>, raw: &[u8]) -> Vec<Attached> {
    let bodies: BTreeSet<*const MessagePart<'_>> = parsed.text_bodies().map(std::ptr::from_ref).collect();
    let (mut files, mut room) = (Vec::new(), FILES_BYTES_MAX);
    let all = parsed.attachments().filter(|part| !bodies.contains(&std::ptr::from_ref(*part)));
    for part in all.take(FILES_MAX) {
        let bytes = match &part.body {
            PartType::Message(_) => {
                let range = part.raw_body_offset() as usize..part.raw_end_offset() as usize;
                raw.get(range).unwrap_or_default()
            }
            PartType::Multipart(_) => continue,
            _ => part.contents(),
        };
        let kind = part.content_type();
        let mime = kind
            .and_then(|kind| Some(format!("{}/{}", kind.ctype(), kind.subtype()?)).map(|mime| line(&mime, NAME_MAX)));
        let name = part.attachment_name().map(|name| line(name, 2 * NAME_MAX)).filter(|name| !name.is_empty());
        let name = name.or_else(|| matches!(part.body, PartType::Message(_)).then(|| "message.eml".to_owned()));
        let bytes = match room.checked_sub(bytes.len()) {
            Some(left) => {
                room = left;
                Ok(bytes.to_vec())
            }
            None => Err(format!("the files of this mail are larger than {FILES_BYTES_MAX} bytes")),
        };
        files.push(Attached { name, mime, bytes });
    }
    files
}

/// The subject without marks of answers.
pub(crate) fn bare_subject(subject: &str) -> &str {
    let mut bare = subject.trim();
    while let Some((mark, rest)) = bare.split_once(':') {
        if !["re", "aw", "sv", "antw", "fw", "fwd", "wg", "tr", "rv"].contains(&mark.trim().to_lowercase().as_str()) {
            break;
        }
        bare = rest.trim_start();
    }
    bare
}

#[cfg(test)]
mod tests;
