//! What the channel's settings say.

use hearth_bridge::Hello;
use serde_json::Value;

/// Who may invite the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invitor {
    /// A person.
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

/// Everything.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The address of the server, without a slash at its end.
    pub(crate) server: String,
    pub(crate) invites: Vec<Invitor>,
    pub(crate) kind: Kind,
}

/// Names of settings, so that a mistyped one is noticed.
const NAMES: [&str; 4] = ["base_url", "invites", "kind", "server"];

impl Settings {
    pub(crate) fn of(hello: &Hello) -> Result<Self, String> {
        if let Some(name) = hello.settings.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(format!("the setting `{name}` is not known; there are {}", NAMES.join(", ")));
        }
        let text = |name: &str| hello.settings.get(name).and_then(Value::as_str);
        let server = text("server").or(text("base_url"));
        let server = server.ok_or("the setting `server` is missing; write one like \"https://matrix.org\"")?;
        let kind = match text("kind") {
            None | Some("text") => Kind::Text,
            Some("notice") => Kind::Notice,
            Some(_) => return Err("`kind` must be \"text\" or \"notice\"".to_owned()),
        };
        Ok(Self { server: address(server)?, invites: invites(text("invites").unwrap_or_default())?, kind })
    }
}

/// The address of a server. Without TLS only this machine is reached, because the token would be readable on the way.
fn address(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let wrong = || "`server` must be an address, like \"https://matrix.org\"".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let is_host = !host.is_empty() && host.chars().all(|char| char.is_ascii_alphanumeric() || "-._".contains(char));
    if !is_host || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(wrong());
    }
    match scheme {
        "https" => Ok(text.to_owned()),
        "http" if ["localhost", "127.0.0.1"].contains(&host) => Ok(text.to_owned()),
        "http" => Err("`server` may be `http://` only on 127.0.0.1: the token would be readable on the way".to_owned()),
        _ => Err(wrong()),
    }
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
    fn servers_are_reached_by_tls_unless_they_are_here() {
        for text in ["https://x.test", "https://x.test:8448/", "http://127.0.0.1:8008", "http://localhost"] {
            assert_eq!(address(text).as_deref(), Ok(text.trim_end_matches('/')));
        }
        for text in
            ["", "x.test", "http://x.test", "https://", "https://x/y", "https://a@x", "https://x:port", "ftp://x"]
        {
            assert!(address(text).is_err(), "{text:?}");
        }
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
