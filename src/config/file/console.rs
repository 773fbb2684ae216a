//! `[console]`: the console in the browser.

use std::net::SocketAddr;
use std::path::Path;

use super::section::{Keys, Problems, Section, excerpt};
use crate::model::configure::Change;
use crate::model::console::{CertificateFiles, ConsoleSettings};
use crate::model::host::Host;

pub(super) const KEYS: Keys = Keys {
    place: "[console]",
    known: &["enabled", "listen", "chat_login", "names", "tls_cert", "tls_key"],
    later: &[],
};
/// Names of the console.
const NAMES_MAX: usize = 16;

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<Change> {
    let section = top.table(problems, "console", &KEYS)?;
    let enabled = section.flag(problems, "enabled").unwrap_or(true);
    let chat_login = section.flag(problems, "chat_login").unwrap_or(false);
    let names = names(problems, &section);
    let certificate = certificate(problems, &section);
    let listen = match section.text(problems, "listen") {
        Some((at, text)) => {
            let address = listen(problems, at, text)?;
            if address.ip().is_unspecified() && names.is_empty() {
                problems.add(
                    at,
                    format!(
                        "`console.listen` is \"{}\", which no browser can ask for; write how browsers find this machine as \
                         well, like names = [\"hearth.lan\", \"192.168.1.20\"]",
                        excerpt(text)
                    ),
                );
            }
            address
        }
        None => ConsoleSettings::LISTEN,
    };
    Some(Change::PutConsole(ConsoleSettings { enabled, listen, chat_login, names, certificate }))
}

/// What a file has for it, besides the names.
pub(super) fn keys(settings: &ConsoleSettings) -> Vec<(&'static str, String)> {
    let ConsoleSettings { enabled, listen, chat_login, names: _, certificate } = settings;
    let mut keys = vec![("enabled", enabled.to_string()), ("listen", listen.to_string())];
    keys.extend(chat_login.then(|| ("chat_login", true.to_string())));
    if let Some(CertificateFiles { cert, key }) = certificate {
        keys.extend([("tls_cert", cert.clone()), ("tls_key", key.clone())]);
    }
    keys
}

fn listen(problems: &mut Problems<'_>, at: usize, text: &str) -> Option<SocketAddr> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => return Some(address),
        Ok(_) => problems
            .add(at, format!("`console.listen` cannot be \"{}\"; write a port, like 127.0.0.1:18790", excerpt(text))),
        Err(_) => problems.add(
            at,
            format!(
                "`console.listen` cannot be \"{}\"; write an address and a port, like 127.0.0.1:18790",
                excerpt(text)
            ),
        ),
    }
    None
}

fn names(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for (at, text) in section.texts(problems, "names") {
        match text.parse::<Host>() {
            Ok(host) => names.push(host.to_string()),
            Err(error) => problems.add(
                at,
                format!("`console.names`: {error}; write a name or an address without a port, like \"hearth.lan\""),
            ),
        }
    }
    if names.len() > NAMES_MAX {
        problems.add(section.at(), format!("`console.names` has {} names, at most {NAMES_MAX} are used", names.len()));
    }
    names
}

/// Both files, or neither.
fn certificate(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<CertificateFiles> {
    let mut file = |key| {
        let (at, text) = section.text(problems, key)?;
        if !Path::new(text).is_absolute() {
            let what =
                format!("`console.{key}` is \"{}\"; write the whole path of the file, beginning with /", excerpt(text));
            problems.add(at, what);
        }
        Some((at, text.to_owned()))
    };
    match (file("tls_cert"), file("tls_key")) {
        (Some((_, cert)), Some((_, key))) => Some(CertificateFiles { cert, key }),
        (None, None) => None,
        (Some((at, _)), None) => {
            problems.add(at, "`console.tls_cert` has no key; write `tls_key` as well");
            None
        }
        (None, Some((at, _))) => {
            problems.add(at, "`console.tls_key` has no certificate; write `tls_cert` as well");
            None
        }
    }
}
