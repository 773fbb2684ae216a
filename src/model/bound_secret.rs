//! Secrets that are bound to hosts: what an agent may ask there, and which header gets the value.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::gateway::KeyValues;
use super::host::{DEFAULT_PORT, HostName};

/// Longest text of a header or of a pattern, in bytes.
const TEXT_MAX: usize = 1_000;
/// Longest name of a secret, in bytes.
const NAME_MAX: usize = 64;
/// Longest name of a user in a header of the scheme `Basic`, in bytes.
const USER_MAX: usize = 200;
/// Stands for the value in a header.
const VALUE: &str = "{}";
/// Stands in a pattern for requests that begin a WebSocket, as if it were their method.
pub const WEBSOCKET: &str = "WEBSOCKET";

/// A secret of the installation, and where it may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundSecret {
    /// Its name: unique in the installation.
    pub name: String,
    /// Where the value is read from: `env:NAME`, `file:PATH` or `cmd:…`. Never the value itself.
    pub value: String,
    /// The hosts that get it, sorted. At least one.
    pub hosts: Vec<SecretHost>,
    /// The header that carries it.
    pub header: SecretHeader,
    /// What may be asked of the hosts; empty means everything.
    pub requests: Vec<RequestPattern>,
}

/// A variable of an agent that stands for a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AgentSecret {
    /// The variable, whose value is a placeholder or a base URL.
    pub variable: String,
    /// The secret's name. Followed by `.url`, the variable is the base URL under which the secret's host is reached.
    pub secret: String,
}

/// Follows the name of a secret where a variable is its base URL.
const URL: &str = ".url";

/// What a variable of an agent is for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretUse<'a> {
    /// The placeholder of the secret of this name.
    Placeholder(&'a str),
    /// The base URL of the host of the secret of this name.
    BaseUrl(&'a str),
}

impl<'a> SecretUse<'a> {
    /// Reads a text like `github` or `github.url`. None if it has no name of a secret.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let used = Self::of(text);
        is_secret_name(used.name()).then_some(used)
    }

    fn of(text: &'a str) -> Self {
        text.strip_suffix(URL).map_or(Self::Placeholder(text), Self::BaseUrl)
    }

    /// The secret's name.
    #[must_use]
    pub const fn name(self) -> &'a str {
        match self {
            Self::Placeholder(name) | Self::BaseUrl(name) => name,
        }
    }
}

impl AgentSecret {
    /// What the variable is.
    #[must_use]
    pub fn used(&self) -> SecretUse<'_> {
        SecretUse::of(&self.secret)
    }
}

/// What an incarnation gets instead of bound secrets.
#[derive(Debug, Clone)]
pub struct SecretAccess {
    /// Its variables, with their placeholders and base URLs.
    pub variables: Vec<(String, String)>,
    /// The file with the certificates that it trusts, unless it reaches all hosts of its secrets by base URL.
    pub bundle: Option<PathBuf>,
    /// The values, by the names of the secrets: to be removed from what it writes.
    pub values: Arc<KeyValues>,
}

impl PartialEq for SecretAccess {
    /// Values are not compared: the placeholders say which secrets these are.
    fn eq(&self, other: &Self) -> bool {
        (&self.variables, &self.bundle) == (&other.variables, &other.bundle)
    }
}

impl Eq for SecretAccess {}

/// Where agents see the certificates that they trust.
pub const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Variables by which programs find these certificates.
pub const BUNDLE_VARIABLES: [&str; 11] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "npm_config_cafile",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// The secrets that an agent uses, each once and in the order of their names.
#[must_use]
pub fn used(secrets: &[AgentSecret], all: &[BoundSecret]) -> Vec<BoundSecret> {
    all.iter().filter(|known| secrets.iter().any(|one| one.used().name() == known.name)).cloned().collect()
}

/// A server that gets a secret. It is reached over TLS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SecretHost {
    /// Host name, without a port.
    pub name: HostName,
    /// TCP port.
    pub port: u16,
}

/// Why a part of a secret's configuration is not usable, with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSecret(String);

impl BadSecret {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Whether a text can be the name of a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(plain)
}

impl FromStr for SecretHost {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let bad = |advice: &str| Err(BadSecret::new(format!("`{}` {advice}", shown(text))));
        if text.contains('*') {
            return bad("has a wildcard, but a secret goes to exact hosts only; write each host");
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|number| *number != 0 && !port.starts_with('+'))),
            None => (text, Some(DEFAULT_PORT)),
        };
        match (HostName::parse(name), port) {
            (Ok(name), Some(port)) => Ok(Self { name, port }),
            (Ok(_), None) => bad("has no valid port; write a number from 1 to 65535 after the colon"),
            (Err(_), _) => bad("is not the name of a host; write one like \"api.example.org\", without a path"),
        }
    }
}

impl fmt::Display for SecretHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            DEFAULT_PORT => self.name.fmt(f),
            port => write!(f, "{}:{port}", self.name),
        }
    }
}

/// A header that carries a secret, such as `Authorization: Bearer {}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHeader {
    /// Its name, in lower case.
    pub name: String,
    /// What the value stands in.
    pub form: HeaderForm,
}

/// The text of a header with a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderForm {
    /// The value with these texts before and after it.
    Text(String, String),
    /// The scheme `Basic`, with the value as the password of this user. None allows any user.
    Password(Option<String>),
    /// The scheme `Basic`, with the value as the user's name and without a password.
    User,
}

impl FromStr for SecretHeader {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let bad = |advice: &str| Err(BadSecret::new(format!("`{}` {advice}", shown(text))));
        let Some((name, template)) = text.split_once(':') else {
            return bad("is no header; write one like \"Authorization: Bearer {}\"");
        };
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || text.len() > TEXT_MAX {
            return bad("does not begin with the name of a header; write one like \"Authorization: Bearer {}\"");
        }
        let name = name.to_ascii_lowercase();
        if is_of_connection(&name) {
            return bad("is a header that Hearth sets or drops; choose the one that the server documents");
        }
        let template = template.trim();
        if template.matches(VALUE).count() != 1 || !template.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return bad("needs `{}` once where the value goes, and plain characters; write one like \"X-Api-Key: {}\"");
        }
        let (before, after) = template.split_once(VALUE).unwrap_or_default();
        let form = match before.strip_prefix("Basic ").map(|user| (user, after)) {
            Some(("", "")) => HeaderForm::Password(None),
            Some(("", ":")) => HeaderForm::User,
            Some((user, "")) if is_user(user.strip_suffix(':').unwrap_or_default()) => {
                HeaderForm::Password(Some(user.trim_end_matches(':').to_owned()))
            }
            Some(_) => {
                return bad("has no known form of Basic; write \"Basic {}\", \"Basic USER:{}\" or \"Basic {}:\"");
            }
            None => HeaderForm::Text(before.to_owned(), after.to_owned()),
        };
        Ok(Self { name, form })
    }
}

/// Whether a text can be the user of the scheme `Basic`.
#[must_use]
pub fn is_user(user: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+".contains(&byte);
    !user.is_empty() && user.len() <= USER_MAX && user.bytes().all(plain)
}

impl fmt::Display for SecretHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut begins = true;
        for letter in self.name.chars() {
            f.write_str(&if begins { letter.to_ascii_uppercase() } else { letter }.to_string())?;
            begins = letter == '-';
        }
        match &self.form {
            HeaderForm::Text(before, after) => write!(f, ": {before}{VALUE}{after}"),
            HeaderForm::Password(None) => write!(f, ": Basic {VALUE}"),
            HeaderForm::Password(Some(user)) => write!(f, ": Basic {user}:{VALUE}"),
            HeaderForm::User => write!(f, ": Basic {VALUE}:"),
        }
    }
}

/// Headers that decide about a connection, a body or its destination, and so cannot carry a secret.
fn is_of_connection(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "set-cookie",
    ];
    NAMES.contains(&name)
}

/// What may be asked of a host: a method, `*`, or `WEBSOCKET`, and a pattern of paths. In the pattern `*` stands for any characters of
/// one segment, and the segment `**` for any number of segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPattern {
    /// Method of HTTP, or `WEBSOCKET`; none matches all.
    pub method: Option<String>,
    /// Path: `*` is any part of one segment, the segment `**` any number of segments.
    pub path: String,
}

impl RequestPattern {
    /// Whether a request fits. The path must mean what it says: see `is_plain_path`. WebSockets fit only where they are
    /// named, because what passes through them is no request.
    #[must_use]
    pub fn matches(&self, method: &str, path: &str) -> bool {
        if self.method.as_deref().map_or(method == WEBSOCKET, |own| own != method) {
            return false;
        }
        let segments = |text: &str| text.split('/').skip(1).map(str::to_owned).collect::<Vec<_>>();
        fits(&segments(&self.path), &segments(path))
    }
}

impl FromStr for RequestPattern {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let bad = |advice: &str| Err(BadSecret::new(format!("`{}` {advice}", shown(text))));
        let Some((method, path)) = text.split_once(' ') else {
            return bad("is no method and path; write one like \"GET /repos/**\"");
        };
        let is_method =
            |method: &str| (1..=20).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase());
        let method = match method {
            "*" => None,
            "CONNECT" | "TRACE" => return bad("has a method that never passes; remove it"),
            method if is_method(method) => Some(method.to_owned()),
            _ => {
                return bad(
                    "does not begin with a method in capital letters, or `*`; write one like \"GET /repos/**\"",
                );
            }
        };
        if text.len() > TEXT_MAX || !is_plain_path(path) {
            return bad("has no path that begins with `/`, with plain segments; write one like \"GET /repos/**\"");
        }
        if path.split('/').any(|segment| segment.contains("**") && segment != "**") {
            return bad("has `**` as a part of a segment; write it as a segment of its own, or `*`");
        }
        Ok(Self { method, path: path.to_owned() })
    }
}

impl fmt::Display for RequestPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_deref().unwrap_or("*"), self.path)
    }
}

/// Whether a path means the same for every server: no empty segments, none that lead elsewhere, and no encoded
/// characters that separate segments.
#[must_use]
pub fn is_plain_path(path: &str) -> bool {
    let Some(below) = path.strip_prefix('/') else { return false };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte);
    // What stands before a `;` is the segment for some servers.
    let leads_elsewhere = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    let mut segments = below.split('/').rev();
    // The last one is empty where the path ends with `/`.
    let last = segments.next().unwrap_or_default();
    path.bytes().all(allowed)
        && !leads_elsewhere(last)
        && segments.all(|segment| !segment.is_empty() && !segment.starts_with(';') && !leads_elsewhere(segment))
        && is_plainly_encoded(path)
}

/// Whether encoded characters are complete, and none of them is a dot, a slash, a backslash, a percent sign or a control
/// character.
fn is_plainly_encoded(path: &str) -> bool {
    path.split('%').skip(1).all(|after| {
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| !byte.is_ascii_control() && !b"./\\%;".contains(&byte)) && !after.starts_with('+')
    })
}

/// Whether segments fit a pattern. Linear: only the last `**` that was passed is tried again.
fn fits(pattern: &[String], path: &[String]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(segment) = path.get(seen) {
        match pattern.get(at) {
            Some(any) if any == "**" => {
                retry = Some((at, seen));
                at += 1;
                continue;
            }
            Some(one) if segment_fits(one.as_bytes(), segment.as_bytes()) => {
                (at, seen) = (at + 1, seen + 1);
                continue;
            }
            _ => {}
        }
        let Some((any, from)) = retry else { return false };
        retry = Some((any, from + 1));
        (at, seen) = (any + 1, from + 1);
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|segment| segment == "**"))
}

/// Whether one segment fits, where `*` stands for any characters. An empty segment fits only an empty pattern.
fn segment_fits(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(seen) {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, seen));
                at += 1;
            }
            Some(same) if same == byte => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (at, seen) = (star + 1, from + 1);
            }
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// The beginning of a text, safe to show.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_are_exact_names_with_a_port() {
        let host = |name: &str, port| Ok(SecretHost { name: HostName::parse(name).unwrap(), port });
        assert_eq!("api.github.com".parse(), host("api.github.com", 443));
        assert_eq!("git.example.org:8443".parse(), host("git.example.org", 8443));
        assert_eq!("Fran\u{e7}ais.fr.".parse(), host("xn--franais-xxa.fr", 443));
        for bad in [
            "",
            "*.example.org",
            "https://a.example",
            "a.example/x",
            "a..example",
            "1.2.3.4",
            "[::1]",
            "a.example:0",
            "a.example:65536",
            "a.example:+1",
            "a.example:",
            "a:b@c",
            "-a.example",
        ] {
            assert!(bad.parse::<SecretHost>().is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_have_a_place_for_the_value() {
        let text = |before: &str, after: &str| HeaderForm::Text(before.to_owned(), after.to_owned());
        for (written, name, form, shown) in [
            ("Authorization: Bearer {}", "authorization", text("Bearer ", ""), "Authorization: Bearer {}"),
            ("x-api-key:{}", "x-api-key", text("", ""), "X-Api-Key: {}"),
            ("Authorization: Basic {}", "authorization", HeaderForm::Password(None), "Authorization: Basic {}"),
            ("authorization: Basic {}:", "authorization", HeaderForm::User, "Authorization: Basic {}:"),
            (
                "Authorization: Basic git:{}",
                "authorization",
                HeaderForm::Password(Some("git".to_owned())),
                "Authorization: Basic git:{}",
            ),
            ("Cookie: session={}; a=b", "cookie", text("session=", "; a=b"), "Cookie: session={}; a=b"),
        ] {
            let header: SecretHeader = written.parse().unwrap();
            assert_eq!((header.name.as_str(), &header.form), (name, &form), "{written}");
            assert_eq!(header.to_string(), shown);
            assert_eq!(shown.parse(), Ok(header));
        }
        for bad in [
            "",
            "Authorization",
            "Authorization: Bearer",
            "A: {} {}",
            "A b: {}",
            ": {}",
            "Host: {}",
            "content-length: {}",
            "Authorization: Basic {}x",
            "Authorization: Basic a b:{}",
            "A: {}\u{fc}",
            "A: {}\nB: c",
            "Upgrade: {}",
        ] {
            assert!(bad.parse::<SecretHeader>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_variable_is_a_placeholder_or_a_base_url() {
        assert_eq!(SecretUse::parse("github"), Some(SecretUse::Placeholder("github")));
        assert_eq!(SecretUse::parse("github.url"), Some(SecretUse::BaseUrl("github")));
        for bad in ["", ".url", "github.uri", "github.url.url", "git hub.url", "env:A"] {
            assert_eq!(SecretUse::parse(bad), None, "{bad}");
        }
        let one = AgentSecret { variable: "API_URL".into(), secret: "github.url".into() };
        assert_eq!((one.used(), one.used().name()), (SecretUse::BaseUrl("github"), "github"));
    }

    #[test]
    fn patterns_allow_methods_and_paths() {
        for (pattern, fitting, other) in [
            ("GET /repos/**", ["GET /repos/a", "GET /repos/a/b/c"], ["GET /other", "POST /repos/a"]),
            ("* /v1/*/items", ["GET /v1/a/items", "PUT /v1/b/items"], ["GET /v1/items", "GET /v1/a/b/items"]),
            ("GET /a-*-z.json", ["GET /a--z.json", "GET /a-q-z.json"], ["GET /a-z.json", "GET /a-/-z.json"]),
            ("GET /**/end", ["GET /end", "GET /a/b/end"], ["GET /end/", "GET /ending"]),
            ("GET /", ["GET /", "GET /"], ["GET /a", "POST /"]),
            // What passes through a WebSocket is no request, so that it has to be named.
            ("* /**", ["GET /", "POST /a"], ["WEBSOCKET /", "WEBSOCKET /a"]),
            ("WEBSOCKET /live/*", ["WEBSOCKET /live/a", "WEBSOCKET /live/b"], ["GET /live/a", "WEBSOCKET /live"]),
            ("GET /a/**/b/**/c", ["GET /a/b/c", "GET /a/x/b/y/b/z/c"], ["GET /a/c", "GET /a/b/c/d"]),
        ] {
            let read: RequestPattern = pattern.parse().unwrap();
            assert_eq!(read.to_string(), pattern);
            let matches = |text: &str| text.split_once(' ').is_some_and(|(method, path)| read.matches(method, path));
            assert!(fitting.into_iter().all(matches), "{pattern}");
            assert!(!other.into_iter().any(matches), "{pattern}");
        }
        for bad in [
            "",
            "GET",
            "/a",
            "get /a",
            "GET a",
            "GET //a",
            "GET /a/../b",
            "GET /a**",
            "TRACE /a",
            "CONNECT /",
            "GET /a?b",
        ] {
            assert!(bad.parse::<RequestPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_that_mean_something_else_are_not_plain() {
        for plain in ["/", "/a", "/a/", "/a/b.c", "/a/...", "/a%20b", "/a;b=1", "/a/b,c", "/~u/@x:y"] {
            assert!(is_plain_path(plain), "{plain}");
        }
        for other in [
            "",
            "a",
            "//",
            "//a",
            "/a//b",
            "/..",
            "/../a",
            "/a/..",
            "/a/../b",
            "/a/./b",
            "/.",
            "/%2e%2e/a",
            "/a%2Fb",
            "/a%2fb",
            "/%2E/a",
            "/a\\b",
            "/a%5cb",
            "/a%252fb",
            "/a/..;/b",
            "/a/..;x=1",
            "/;/a",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%+1b",
            "/a%00",
            "/a?b",
            "/a#b",
            "/a b",
            "/a\u{fc}",
            "/a\n",
            "/a%0a",
            "/a%3b",
        ] {
            assert!(!is_plain_path(other), "{other}");
        }
    }

    proptest! {
        /// The same as a recursive reading, which is slow and obvious.
        #[test]
        fn matching_is_what_it_says(pattern in "(/(\\*\\*|[ab*]{0,3})){1,5}", path in "(/[ab]{0,3}){1,6}") {
            fn slow(pattern: &[&str], path: &[&str]) -> bool {
                match (pattern.split_first(), path.split_first()) {
                    (None, None) => true,
                    (Some((&"**", rest)), _) => slow(rest, path) || path.split_first().is_some_and(|(_, less)| slow(pattern, less)),
                    (Some((one, rest)), Some((segment, less))) => glob(one, segment) && slow(rest, less),
                    _ => false,
                }
            }
            fn glob(pattern: &str, text: &str) -> bool {
                fn any(pattern: &[u8], text: &[u8]) -> bool {
                    match (pattern.split_first(), text.split_first()) {
                        (None, None) => true,
                        (Some((b'*', rest)), _) => any(rest, text) || text.split_first().is_some_and(|(_, less)| any(pattern, less)),
                        (Some((a, rest)), Some((b, less))) => a == b && any(rest, less),
                        _ => false,
                    }
                }
                if text.is_empty() { pattern.is_empty() } else { any(pattern.as_bytes(), text.as_bytes()) }
            }
            prop_assume!(pattern.split('/').all(|segment| segment == "**" || !segment.contains("**")));
            let split = |text: &str| text.split('/').skip(1).map(str::to_owned).collect::<Vec<_>>();
            let (pattern, path) = (split(&pattern), split(&path));
            let (one, other): (Vec<&str>, Vec<&str>) =
                (pattern.iter().map(String::as_str).collect(), path.iter().map(String::as_str).collect());
            prop_assert_eq!(fits(&pattern, &path), slow(&one, &other));
        }
    }
}
