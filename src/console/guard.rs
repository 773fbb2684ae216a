//! What is checked before anything else: whether a request was made for this console, and by one of its own pages; and
//! what browsers are told about every answer.

use std::net::IpAddr;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use super::site::{Cookie, Site};
use super::token;

/// Longest address of a page.
const URI_MAX: usize = 4_096;
/// Longest `Cookie` header that is searched.
const COOKIE_MAX: usize = 8_192;

/// Only this console's own files, nothing inside of pages, and no other page around them.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Why a request is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It names another host.
    Host,
    /// It comes from a page of another origin.
    Origin,
    /// Its method is not used here.
    Method,
    /// Its address is too long.
    Length,
}

impl Refused {
    pub(super) const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "This is the console of Hearth, and it was asked for under another name. Open the link that `hearth console` prints.",
            ),
            Self::Origin => (StatusCode::FORBIDDEN, "This request came from another page, so nothing was done."),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "Only GET and POST are answered here."),
            Self::Length => (StatusCode::URI_TOO_LONG, "This address is too long."),
        }
    }
}

/// Checks where a request comes from and where it was meant to go.
///
/// A page of another site can make a browser send requests here, also under a name of its own that resolves to this
/// address. The first is refused by `Origin` and `Sec-Fetch-Site`, the second by `Host`.
pub(super) fn check(site: &Site, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
    let host = one(headers, &HOST).filter(|host| is_ours(site, host)).ok_or(Refused::Host)?;
    if uri.path_and_query().is_none_or(|path| path.as_str().len() > URI_MAX) {
        return Err(Refused::Length);
    }
    let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match *method {
        // A link in a chat or in a terminal leads to a page.
        Method::GET => Ok(()),
        Method::POST => {
            let origin = one(headers, &ORIGIN).ok_or(Refused::Origin)?;
            let ours = origin.strip_prefix(site.scheme()).and_then(|rest| rest.strip_prefix("://")) == Some(host);
            if ours && from.is_none_or(|from| from == b"same-origin") { Ok(()) } else { Err(Refused::Origin) }
        }
        _ => Err(Refused::Method),
    }
}

/// Whether a stream or a script's request comes from one of this console's pages, as far as the browser says.
pub(super) fn is_same_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site.as_bytes() == b"same-origin")
}

/// A header that occurs once.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    all.next().is_none().then(|| first.to_str().ok()).flatten()
}

/// Whether a `Host` header names this console: its address, `localhost` if that is one of this machine alone, or a name from
/// the configuration, with its port.
fn is_ours(site: &Site, host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok().filter(|_| plain_number(port))),
        _ => (host, Some(site.usual_port())),
    };
    if port != Some(site.bound.port()) {
        return false;
    }
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let address = inner.parse::<IpAddr>().ok();
    let local = name == "localhost" && site.bound.ip().is_loopback();
    local
        || address.is_some_and(|address| address == site.bound.ip())
        || site.names.iter().any(|known| match address {
            Some(address) => known.parse() == Ok(address),
            None => known.eq_ignore_ascii_case(name),
        })
}

/// Whether a port is written as browsers write it.
fn plain_number(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0')
}

/// The token in a cookie of a request.
pub(super) fn cookie<'h>(site: &Site, which: Cookie, headers: &'h HeaderMap) -> Option<&'h str> {
    let name = site.cookie_name(which);
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        let text = header.to_str().ok().filter(|text| text.len() <= COOKIE_MAX)?;
        for (key, value) in text.split(';').filter_map(|pair| pair.trim().split_once('=')) {
            if key == name && token::is_token(value) {
                // Another program on this machine may have set a second one for a longer path.
                if found.is_some_and(|known| known != value) {
                    return None;
                }
                found = Some(value);
            }
        }
    }
    found
}

/// Sets a cookie to a token; none ends it.
pub(super) fn set_cookie(site: &Site, which: Cookie, token: Option<&str>) -> Option<HeaderValue> {
    let name = site.cookie_name(which);
    let age = if token.is_some() { which.age() } else { 0 };
    let token = token.unwrap_or_default();
    let secure = if site.tls { "; Secure" } else { "" };
    let text = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
    HeaderValue::from_str(&text).ok()
}

/// Adds what browsers are told about every answer.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Without any referrer, browsers hide the origin of forms, too.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Site {
        Site { bound: "127.0.0.1:18790".parse().unwrap(), names: Vec::new(), tls: false }
    }

    fn secured(bound: &str) -> Site {
        let names = vec!["hearth.lan".to_owned(), "192.168.1.20".to_owned()];
        Site { bound: bound.parse().unwrap(), names, tls: true }
    }

    fn checked(method: Method, headers: &[(HeaderName, &str)]) -> Result<(), Refused> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        check(&plain(), &method, &Uri::from_static("/"), &headers)
    }

    #[test]
    fn only_its_own_names_are_the_consoles() {
        for (host, ours) in [
            ("127.0.0.1:18790", true),
            ("localhost:18790", true),
            ("127.0.0.1", false),
            ("127.0.0.1:80", false),
            ("127.0.0.2:18790", false),
            ("[::1]:18790", false),
            ("evil.example:18790", false),
            ("localhost.evil.example:18790", false),
            ("127.0.0.1.evil.example:18790", false),
            ("127.0.0.1:18790.evil.example", false),
            ("user@127.0.0.1:18790", false),
            ("", false),
        ] {
            let expected = if ours { Ok(()) } else { Err(Refused::Host) };
            assert_eq!(checked(Method::GET, &[(HOST, host)]), expected, "{host}");
        }
        assert_eq!(checked(Method::GET, &[]), Err(Refused::Host));
        let six = Site { bound: "[::1]:80".parse().unwrap(), ..plain() };
        assert!(is_ours(&six, "[::1]:80") && is_ours(&six, "[::1]") && !is_ours(&six, "[::2]:80"));
    }

    #[test]
    fn over_tls_the_configured_names_are_the_consoles_and_the_machines_are_not() {
        let site = secured("0.0.0.0:443");
        for (host, ours) in [
            ("hearth.lan", true),
            ("Hearth.LAN:443", true),
            ("192.168.1.20:443", true),
            ("192.168.1.20", true),
            ("192.168.1.21", false),
            ("localhost", false),
            ("hearth.lan:18790", false),
            ("hearth.lan:0443", false),
            ("hearth.lan:+443", false),
            ("hearth.lan.", false),
            ("x.hearth.lan", false),
        ] {
            assert_eq!(is_ours(&site, host), ours, "{host}");
        }
        assert!(!is_ours(&secured("192.168.1.20:18790"), "hearth.lan"), "the port belongs to it");
        let headers = |origin: &str| {
            HeaderMap::from_iter([(HOST, "hearth.lan".parse().unwrap()), (ORIGIN, origin.parse().unwrap())])
        };
        let post = |origin| check(&site, &Method::POST, &Uri::from_static("/"), &headers(origin));
        assert_eq!((post("https://hearth.lan"), post("http://hearth.lan")), (Ok(()), Err(Refused::Origin)));
        let cookie = set_cookie(&site, Cookie::Session, Some("x")).unwrap();
        assert_eq!(
            cookie.to_str().unwrap(),
            "__Host-hearth-443=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000; Secure"
        );
    }

    #[test]
    fn changes_come_from_the_consoles_own_pages() {
        let site = HeaderName::from_static("sec-fetch-site");
        let ours = (HOST, "127.0.0.1:18790");
        for (headers, expected) in [
            (vec![(ORIGIN, "http://127.0.0.1:18790")], Ok(())),
            (vec![(ORIGIN, "http://127.0.0.1:18790"), (site.clone(), "same-origin")], Ok(())),
            (vec![(ORIGIN, "http://127.0.0.1:18790"), (site.clone(), "cross-site")], Err(Refused::Origin)),
            (vec![(ORIGIN, "http://127.0.0.1:18790"), (site, "same-site")], Err(Refused::Origin)),
            (vec![(ORIGIN, "http://localhost:18790")], Err(Refused::Origin)),
            (vec![(ORIGIN, "https://127.0.0.1:18790")], Err(Refused::Origin)),
            (vec![(ORIGIN, "http://127.0.0.1:9999")], Err(Refused::Origin)),
            (vec![(ORIGIN, "http://evil.example")], Err(Refused::Origin)),
            (vec![(ORIGIN, "null")], Err(Refused::Origin)),
            (vec![], Err(Refused::Origin)),
        ] {
            let all: Vec<_> = std::iter::once(ours.clone()).chain(headers).collect();
            assert_eq!(checked(Method::POST, &all), expected, "{all:?}");
        }
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD, Method::TRACE] {
            assert_eq!(checked(method, std::slice::from_ref(&ours)), Err(Refused::Method));
        }
    }

    #[test]
    fn a_cookie_is_found_among_others_unless_there_are_two() {
        let (one, two) = ("a".repeat(64), "b".repeat(64));
        let found = |text: &str| {
            let headers = HeaderMap::from_iter([(COOKIE, text.parse().unwrap())]);
            cookie(&plain(), Cookie::Session, &headers).map(str::to_owned)
        };
        assert_eq!(found(&format!("x=1; hearth-18790={one}; y=2")), Some(one.clone()));
        assert_eq!(found(&format!("hearth-18790={one}; hearth-18790={one}")), Some(one.clone()));
        for text in [
            String::new(),
            format!("hearth-18790={one}; hearth-18790={two}"),
            format!("hearth-1879={one}"),
            "hearth-18790=short".to_owned(),
            format!("hearth-18790={}", "A".repeat(64)),
            format!("{}; hearth-18790={one}", "x".repeat(COOKIE_MAX)),
        ] {
            assert_eq!(found(&text), None, "{text}");
        }
    }
}
