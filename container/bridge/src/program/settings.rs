//! What bridges in Rust check in their settings.

use crate::Hello;

/// The text of a setting.
#[must_use]
pub fn setting<'h>(hello: &'h Hello, name: &str) -> Option<&'h str> {
    hello.settings.get(name).and_then(serde_json::Value::as_str)
}

/// A setting that is on or off, and off if it is missing.
///
/// # Errors
/// If it is neither, for people.
pub fn switch(hello: &Hello, name: &str) -> Result<bool, String> {
    match setting(hello, name) {
        None | Some("off") => Ok(false),
        Some("on") => Ok(true),
        Some(_) => Err(format!("`{name}` must be \"on\" or \"off\"")),
    }
}

/// Checks that all settings are known, so that a mistyped one is noticed.
///
/// # Errors
/// If one is not, for people.
pub fn only(hello: &Hello, names: &[&str]) -> Result<(), String> {
    match hello.settings.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(format!("the setting `{name}` is not known; there are {}", names.join(", "))),
        None => Ok(()),
    }
}

/// A secret that goes into a header of requests.
///
/// # Errors
/// If it is missing or cannot be one, for people.
pub fn secret(hello: &Hello, name: &str, what: &str) -> Result<String, String> {
    let secret = hello.secrets.get(name).cloned().ok_or_else(|| format!("{what} is missing; set `{name}`"))?;
    let is_fine = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if is_fine { Ok(secret) } else { Err(format!("{what} has spaces or signs that none has; correct `{name}`")) }
}

/// The address of a server. Without TLS only this machine is reached, because the token would be readable on the way.
///
/// # Errors
/// If it is none, for people.
pub fn address(text: &str, example: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let wrong = || format!("`server` must be an address, like \"{example}\"");
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

/// A part of an address: everything but letters, digits and some signs is encoded.
#[must_use]
pub fn part(text: &str) -> String {
    let mut part = String::new();
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) => part.push(char::from(byte)),
            byte => part.push_str(&format!("%{byte:02X}")),
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_reached_by_tls_unless_they_are_here() {
        for text in ["https://x.test", "https://x.test:8448/", "http://127.0.0.1:8008", "http://localhost"] {
            assert_eq!(address(text, "x").as_deref(), Ok(text.trim_end_matches('/')));
        }
        for text in
            ["", "x.test", "http://x.test", "https://", "https://x/y", "https://a@x", "https://x:port", "ftp://x"]
        {
            assert!(address(text, "x").is_err(), "{text:?}");
        }
    }

    #[test]
    fn parts_of_addresses_stay_parts() {
        assert_eq!(part("!a:b/../c?d#e%😀"), "%21a%3Ab%2F%2E%2E%2Fc%3Fd%23e%25%F0%9F%98%80");
    }
}
