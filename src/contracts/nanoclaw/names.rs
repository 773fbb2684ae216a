//! Maps NanoClaw's names of chats, threads and people to Hearth's.
//!
//! | of NanoClaw | is here |
//! |---|---|
//! | Telegram's chat `telegram:-100` | `-100` on `telegram`, as Hearth's own adapter says |
//! | a chat of any other network | as NanoClaw's adapter says, which is what a bridge to it would say |
//! | `cli` | nothing: `hearth chat` has its own chat for the user of the machine |

use crate::model::address::{Address, BadName, ChannelName, ForeignId, UserId};

/// Channel of NanoClaw's terminal.
pub(super) const CLI: &str = "cli";
/// Channel for messages between agents.
pub(super) const AGENT: &str = "agent";

/// Suffixes of WhatsApp's ids.
const WHATSAPP: [&str; 5] = ["s.whatsapp.net", "g.us", "lid", "broadcast", "newsletter"];

/// Prefixes of ids in version 1, and their networks.
const PREFIXES: [(&str, &str); 8] = [
    ("dc", "discord"),
    ("tg", "telegram"),
    ("wa", "whatsapp"),
    ("mx", "matrix"),
    ("im", "imessage"),
    ("sl", "slack"),
    ("gc", "gchat"),
    ("gh", "github"),
];

/// The address of a chat or thread of version 2.
///
/// # Errors
/// Why there is no such address here.
pub(super) fn place(channel: &str, platform_id: &str, thread: Option<&str>) -> Result<Address, String> {
    match channel {
        CLI => return Err("it is NanoClaw's terminal; `hearth chat` has a chat of its own".to_owned()),
        AGENT => return Err("agents speak there, which no chat is".to_owned()),
        _ => {}
    }
    let said = |error: BadName| format!("{error}, so no chat can have it here");
    let plain = chat_id(channel, platform_id);
    if plain.is_empty() {
        return Err("it has no id".to_owned());
    }
    let thread = thread.map(|thread| thread_id(channel, plain, thread).to_owned());
    Ok(Address {
        channel: ChannelName::new(channel).map_err(said)?,
        platform_id: ForeignId::new("the platform id", plain).map_err(said)?,
        thread: ForeignId::optional("the thread", thread).map_err(said)?,
    })
}

/// The chat's id. Only for Telegram does Hearth's adapter use shorter ids than NanoClaw's.
fn chat_id<'t>(channel: &str, id: &'t str) -> &'t str {
    if channel == "telegram" { id.strip_prefix("telegram:").unwrap_or(id) } else { id }
}

fn thread_id<'t>(channel: &str, chat: &str, thread: &'t str) -> &'t str {
    if channel != "telegram" {
        return thread;
    }
    let bare = chat_id(channel, thread);
    bare.strip_prefix(chat).and_then(|rest| rest.strip_prefix(':')).unwrap_or(bare)
}

/// A person of version 2.
///
/// # Errors
/// Why there is no such id here.
pub(super) fn person(id: &str) -> Result<UserId, String> {
    if id.split_once(':').is_some_and(|(channel, _)| channel == CLI) {
        return Err("it is NanoClaw's terminal user; Hearth calls it `terminal:<uid>`".to_owned());
    }
    UserId::parse(id).map_err(|error| error.to_string())
}

/// A chat of version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Jid {
    pub(super) place: Address,
    /// Whether it is a group, as far as the id says.
    pub(super) group: bool,
}

/// Parses a chat id of version 1.
///
/// # Errors
/// Why it is not a chat.
pub(super) fn jid(text: &str) -> Result<Jid, String> {
    let host = text.rsplit_once('@').map(|(_, host)| host);
    if host.is_some_and(|host| WHATSAPP.contains(&host)) {
        let raw = text.strip_prefix("whatsapp:").or_else(|| text.strip_prefix("wa:")).unwrap_or(text);
        let place = place("whatsapp", raw, None)?;
        return Ok(Jid { place, group: raw.ends_with("@g.us") });
    }
    let Some((prefix, id)) = text.split_once(':') else {
        return Err("its id names no network".to_owned());
    };
    let channel = network(prefix);
    let full = match channel.as_str() {
        "telegram" | "whatsapp" => id.to_owned(),
        channel if id.starts_with(&format!("{channel}:")) => id.to_owned(),
        channel => format!("{channel}:{id}"),
    };
    let group = match channel.as_str() {
        "telegram" => id.trim_start_matches("telegram:").starts_with('-'),
        "whatsapp" => false,
        _ => true,
    };
    Ok(Jid { place: place(&channel, &full, None)?, group })
}

/// The network of a prefix in version 1.
fn network(prefix: &str) -> String {
    let prefix = prefix.to_lowercase();
    PREFIXES.iter().find(|(short, _)| *short == prefix).map_or(prefix, |(_, long)| (*long).to_owned())
}

/// The sender of a message of NanoClaw 1, whose ids may or may not include their network.
///
/// # Errors
/// Why Hearth cannot have such an id.
pub(super) fn sender(channel: &str, id: &str) -> Result<UserId, String> {
    let bare = match id.split_once(':') {
        Some((prefix, rest)) if network(prefix) == channel => rest,
        _ => id,
    };
    person(&format!("{channel}:{bare}"))
}

/// The trigger of version 1 as a pattern. A trigger is literal text at the beginning of a message. It must be a whole
/// word, and its case does not matter.
pub(super) fn trigger(text: &str) -> String {
    let mut pattern = "^\\s*".to_owned();
    for c in text.trim().chars() {
        let (mut lower, mut upper) = (c.to_lowercase(), c.to_uppercase());
        match (lower.next(), lower.next(), upper.next(), upper.next()) {
            (Some(lower), None, Some(upper), None) if lower != upper => {
                pattern.extend(['[', lower, upper, ']']);
            }
            _ => {
                if ".*+?^${}()|[]\\/".contains(c) {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
        }
    }
    pattern + "\\b"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_version_1_are_taken_apart() {
        for (jid_text, expected) in [
            ("123@g.us", Ok(("whatsapp", "123@g.us", true))),
            ("1555@s.whatsapp.net", Ok(("whatsapp", "1555@s.whatsapp.net", false))),
            ("wa:1555@s.whatsapp.net", Ok(("whatsapp", "1555@s.whatsapp.net", false))),
            ("tg:-100", Ok(("telegram", "-100", true))),
            ("telegram:77", Ok(("telegram", "77", false))),
            ("DC:9", Ok(("discord", "discord:9", true))),
            ("discord:discord:9", Ok(("discord", "discord:9", true))),
            ("foo:1", Ok(("foo", "foo:1", true))),
            ("Slack:C01", Ok(("slack", "slack:C01", true))),
            ("bare", Err(())),
            ("tg:", Err(())),
            ("cli:local", Err(())),
            ("tg:a\nb", Err(())),
        ] {
            let found = jid(jid_text);
            match (&found, expected) {
                (Ok(found), Ok((channel, id, group))) => {
                    let told = (found.place.channel.as_str(), found.place.platform_id.as_str(), found.group);
                    assert_eq!(told, (channel, id, group), "{jid_text}");
                }
                (Err(_), Err(())) => {}
                _ => panic!("{jid_text}: {found:?}"),
            }
        }
    }

    #[test]
    fn chats_and_threads_of_version_2_are_named_as_here() {
        for (channel, id, thread, expected) in [
            ("telegram", "telegram:-100", Some("telegram:-100:7"), Ok("telegram/-100 7")),
            ("telegram", "-100", Some("7"), Ok("telegram/-100 7")),
            ("discord", "discord:g:c", Some("discord:g:c:t"), Ok("discord/discord:g:c discord:g:c:t")),
            ("whatsapp", "1@g.us", None, Ok("whatsapp/1@g.us")),
            ("telegram", "1", Some(""), Ok("telegram/1")),
            ("telegram", "telegram:", None, Err(())),
            ("cli", "local", None, Err(())),
            ("agent", "ag-1", None, Err(())),
            ("", "1", None, Err(())),
        ] {
            let found = place(channel, id, thread);
            let told = found.as_ref().map(|place| {
                let thread = place.thread.as_ref().map_or_else(String::new, |thread| format!(" {thread}"));
                format!("{}/{}{thread}", place.channel, place.platform_id)
            });
            assert_eq!(told.map_err(|_| ()), expected.map(str::to_owned), "{channel} {id}");
        }
        assert!(person("cli:local").is_err() && person("nobody").is_err());
        assert_eq!(sender("telegram", "tg:7").unwrap(), sender("telegram", "7").unwrap());
    }

    #[test]
    fn triggers_of_version_1_are_texts() {
        assert_eq!(trigger(" @Andy "), r"^\s*@[aA][nN][dD][yY]\b");
        assert_eq!(trigger("@C.L"), r"^\s*@[cC]\.[lL]\b");
        assert_eq!(trigger("ß1"), r"^\s*ß1\b");
    }
}
