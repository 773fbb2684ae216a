//! What the channel's settings say.

use std::collections::BTreeMap;

use hearth_bridge::Hello;
use hearth_bridge::program::settings::{address, only, setting};

/// Who may invite the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invitor {
    Person(String),
    /// Everybody on the bot's own server.
    OwnServer,
}

/// How the bot's messages are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Like those of people.
    Text,
    /// As those of programs, which notify no person and which other programs leave alone.
    Notice,
}

impl Kind {
    pub(crate) fn msgtype(self) -> &'static str {
        match self {
            Self::Text => "m.text",
            Self::Notice => "m.notice",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The address of the server, without a slash at its end.
    pub(crate) server: String,
    pub(crate) invites: Vec<Invitor>,
    pub(crate) kind: Kind,
    /// Signing keys of people that the owner has agreed to, by their ids.
    pub(crate) identities: BTreeMap<String, String>,
    /// People who may verify the bot.
    pub(crate) verifies: Vec<String>,
    /// Seconds for which a message that cannot be read waits for its key.
    pub(crate) patience: i64,
}

/// Patience without the setting: an hour.
const PATIENCE: i64 = 3_600;
const EXAMPLE: &str = "https://matrix.org";
const NAMES: [&str; 7] = ["base_url", "identities", "invites", "key_patience", "kind", "server", "verifies"];

impl Settings {
    pub(crate) fn of(hello: &Hello) -> Result<Self, String> {
        only(hello, &NAMES)?;
        let server = setting(hello, "server").or(setting(hello, "base_url"));
        let server = server.ok_or_else(|| format!("the setting `server` is missing; write one like \"{EXAMPLE}\""))?;
        let kind = match setting(hello, "kind") {
            None | Some("text") => Kind::Text,
            Some("notice") => Kind::Notice,
            Some(_) => return Err("`kind` must be \"text\" or \"notice\"".to_owned()),
        };
        let patience = setting(hello, "key_patience").map(|text| text.parse().ok().filter(|count| *count >= 0));
        let patience = match patience {
            None => PATIENCE,
            Some(Some(seconds)) => seconds,
            Some(None) => return Err("`key_patience` must be a number of seconds, like \"3600\"".to_owned()),
        };
        Ok(Self {
            server: address(server, EXAMPLE)?,
            invites: invites(setting(hello, "invites").unwrap_or_default())?,
            kind,
            identities: identities(setting(hello, "identities").unwrap_or_default())?,
            verifies: verifies(setting(hello, "verifies").unwrap_or_default())?,
            patience,
        })
    }
}

/// Pairs of a person and a signing key, with spaces or commas between them.
fn identities(text: &str) -> Result<BTreeMap<String, String>, String> {
    let is_key =
        |key: &str| key.len() == 43 && key.chars().all(|char| char.is_ascii_alphanumeric() || "+/".contains(char));
    let pair = |word: &str| {
        let pair = word.split_once('=').filter(|(person, key)| is_user(person) && is_key(key));
        let pair = pair.map(|(person, key)| (person.to_owned(), key.to_owned()));
        pair.ok_or_else(|| {
            format!(
                "`{word}` in `identities` must be a person and their key, like \"@ann:example.org=\" and 43 characters"
            )
        })
    };
    text.split([',', ' ']).filter(|word| !word.is_empty()).map(pair).collect()
}

/// People and `server`, with spaces or commas between them.
fn invites(text: &str) -> Result<Vec<Invitor>, String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let invitor = |word: &str| match word {
        "server" => Ok(Invitor::OwnServer),
        _ if is_user(word) => Ok(Invitor::Person(word.to_owned())),
        _ => Err(format!("`{word}` in `invites` must be `server` or a person, like \"@ann:example.org\"")),
    };
    words.map(invitor).collect()
}

/// People, with spaces or commas between them.
fn verifies(text: &str) -> Result<Vec<String>, String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let person = |word: &str| match is_user(word) {
        true => Ok(word.to_owned()),
        false => Err(format!("`{word}` in `verifies` must be a person, like \"@ann:example.org\"")),
    };
    words.map(person).collect()
}

/// Whether a text has the form of a person's id.
pub(crate) fn is_user(text: &str) -> bool {
    let parts = text.strip_prefix('@').and_then(|rest| rest.split_once(':'));
    let is_fine = |char: char| !char.is_whitespace() && !char.is_control();
    text.len() <= 255
        && parts.is_some_and(|(name, server)| !name.is_empty() && !server.is_empty())
        && text.chars().all(is_fine)
}

/// The server of a person.
pub(crate) fn server_of(user: &str) -> Option<&str> {
    user.split_once(':').map(|(_, server)| server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_people_and_keys() {
        let key = "a".repeat(43);
        let one = BTreeMap::from([("@a:x".to_owned(), key.clone())]);
        assert_eq!(identities(&format!("@a:x={key}")), Ok(one));
        assert_eq!(identities(""), Ok(BTreeMap::new()));
        for text in ["@a:x", "@a:x=abc", &format!("a={key}"), &format!("@a:x={key}=")] {
            assert!(identities(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_people_verify() {
        assert_eq!(verifies("@a:x, @b:y"), Ok(vec!["@a:x".to_owned(), "@b:y".to_owned()]));
        assert!(verifies("server").is_err() && verifies("*").is_err());
    }

    #[test]
    fn invitors_are_people_and_the_own_server() {
        let person = |id: &str| Invitor::Person(id.to_owned());
        assert_eq!(
            invites("@a:x, server @b:y:8448"),
            Ok(vec![person("@a:x"), Invitor::OwnServer, person("@b:y:8448")])
        );
        assert_eq!(invites(""), Ok(Vec::new()));
        for text in ["ann", "@ann", "@:x", "*", ":x"] {
            assert!(invites(text).is_err(), "{text:?}");
        }
    }
}
