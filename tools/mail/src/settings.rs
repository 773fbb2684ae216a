//! What the channel's settings say.

use hearth_bridge::Hello;
use serde_json::Value;

use crate::headers::is_address;
use crate::message::Account;

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    /// TLS from the first byte.
    Tls,
    /// TLS after `STARTTLS`; without it nothing is said.
    StartTls,
    /// None; only on this machine.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) security: Security,
}

/// What happens to copies of sent mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// None are kept.
    None,
    /// The server files one when it accepts a mail: there it can be looked up whether a mail was accepted.
    ByServer,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) account: Account,
    pub(crate) user: String,
    pub(crate) imap: Server,
    pub(crate) smtp: Server,
    pub(crate) mailbox: String,
    pub(crate) copies: Copies,
    /// The mailbox with copies; none if the server says which it is.
    pub(crate) sent: Option<String>,
    /// Certificates of authorities in PEM; none for those of the system.
    pub(crate) authorities: Option<String>,
    /// Most mails to one address in an hour.
    pub(crate) per_hour: usize,
}

/// Names of settings, so that a mistyped one is noticed.
const NAMES: [&str; 11] = [
    "address",
    "authserv_id",
    "base_url",
    "certificates",
    "copies",
    "imap",
    "mailbox",
    "per_hour",
    "sent",
    "smtp",
    "user",
];

impl Settings {
    pub(crate) fn of(hello: &Hello) -> Result<Self, String> {
        if let Some(name) = hello.settings.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(format!("the setting `{name}` is not known; there are {}", NAMES.join(", ")));
        }
        let text = |name: &str| hello.settings.get(name).and_then(Value::as_str).map(str::to_owned);
        let needed = |name: &str, example: &str| {
            text(name).ok_or_else(|| format!("the setting `{name}` is missing; write one like \"{example}\""))
        };
        let address = needed("address", "bot@example.org")?.to_ascii_lowercase();
        if !is_address(&address) {
            return Err("`address` must be a plain address, like \"bot@example.org\"".to_owned());
        }
        let imap = server("imap", &needed("imap", "imap.example.org:993")?, [993, 143])?;
        let smtp = server("smtp", &needed("smtp", "smtp.example.org:465")?, [465, 587])?;
        let copies = match text("copies").as_deref() {
            None | Some("none") => Copies::None,
            Some("server") => Copies::ByServer,
            Some(_) => return Err("`copies` must be \"none\" or \"server\"".to_owned()),
        };
        let per_hour = match text("per_hour") {
            None => 60,
            Some(number) => number.parse().map_err(|_| "`per_hour` must be a number, in quotes".to_owned())?,
        };
        let mailbox = text("mailbox").unwrap_or_else(|| "INBOX".to_owned());
        if [Some(&mailbox), text("sent").as_ref(), text("user").as_ref()].iter().flatten().any(|name| !is_plain(name)) {
            return Err("`mailbox`, `sent` and `user` must be ASCII without control characters".to_owned());
        }
        Ok(Self {
            user: text("user").unwrap_or_else(|| address.clone()),
            account: Account { address, authserv_id: text("authserv_id").filter(|id| !id.trim().is_empty()) },
            imap,
            smtp,
            mailbox,
            copies,
            sent: text("sent"),
            authorities: text("certificates"),
            per_hour,
        })
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// `host:port`, with the port for TLS if there is none; the second port is that for `STARTTLS`.
fn server(name: &str, text: &str, ports: [u16; 2]) -> Result<Server, String> {
    let [tls, _] = ports;
    let wrong = || format!("`{name}` must be a host and a port, like \"{name}.example.org:{tls}\"");
    let (rest, security) = match text.split_once("://") {
        None => (text, None),
        Some(("tls", rest)) => (rest, Some(Security::Tls)),
        Some(("starttls", rest)) => (rest, Some(Security::StartTls)),
        Some(("plain", rest)) => (rest, Some(Security::None)),
        Some(_) => return Err(format!("`{name}` must begin with `tls://`, `starttls://`, `plain://` or the host")),
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (rest, tls),
    };
    let is_host = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(wrong());
    }
    let security = security.unwrap_or(if port == tls { Security::Tls } else { Security::StartTls });
    if security == Security::None && !["localhost", "127.0.0.1"].contains(&host) {
        return Err(format!("`{name}` may be `plain://` only on 127.0.0.1: the password would be readable on the way"));
    }
    Ok(Server { host: host.to_owned(), port, security })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_reached_by_tls_unless_they_are_here() {
        let of = |text: &str| server("imap", text, [993, 143]);
        let is = |text: &str, port, security| {
            assert_eq!(of(text).map(|server| (server.port, server.security)), Ok((port, security)), "{text}");
        };
        is("imap.x.test", 993, Security::Tls);
        is("imap.x.test:993", 993, Security::Tls);
        is("imap.x.test:143", 143, Security::StartTls);
        is("tls://imap.x.test:10993", 10993, Security::Tls);
        is("plain://127.0.0.1:10143", 10143, Security::None);
        for text in ["", ":993", "x:y", "plain://x.test:143", "http://x.test", "a b:1", "x:99999", "x\r\ny:1"] {
            assert!(of(text).is_err(), "{text:?}");
        }
    }
}
