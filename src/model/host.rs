//! Hosts that agents reach, and the rules that name them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::short::Short;

/// The port of a rule that allows something and names none.
pub const DEFAULT_PORT: u16 = 443;

/// The name by which agents reach services of this machine.
pub const THIS_MACHINE: &str = "this-machine.internal";

/// Longest name, by the rules of DNS.
const NAME_MAX: usize = 253;
/// Longest label of a name.
const LABEL_MAX: usize = 63;
/// Longest name about which a person is asked, and that agents can look up: longer ones can carry data.
const ASKED_MAX: usize = 100;
/// Largest number of labels of such a name.
const ASKED_LABELS_MAX: usize = 6;

/// Why a text names no host. The texts are for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// Not a name.
    #[error("`{0}` is no host name; write one like api.example.org, or an address like 192.168.1.20")]
    Name(String),
    /// Reads as an address, but is written in a form that programs understand differently.
    #[error("`{0}` is no host name; write an address as four numbers, like 192.168.1.20")]
    Number(String),
    /// The port is not one.
    #[error("`{0}` has no valid port; write a number from 1 to 65535 after the colon")]
    Port(String),
    /// No port.
    #[error("`{0}` has no port; write it like api.example.org:443")]
    NoPort(String),
    /// A wildcard in another place than at the beginning.
    #[error("`{0}` has a wildcard that means nothing; write one like *.example.org")]
    Wildcard(String),
    /// A wildcard that covers hosts of many owners.
    #[error("`{0}` covers hosts of many owners; name one of them, like *.example.org")]
    TooWide(String),
}

/// The name of a host: lower case, in ASCII (internationalized labels as punycode), without a trailing dot, at most 253
/// characters. Never a number that programs read as an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct HostName(Short);

impl HostName {
    /// Reads a name as people and programs write it.
    ///
    /// # Errors
    /// [`BadHost`] if it is none.
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        let wrong = || BadHost::Name(shortened(text));
        let given = text.strip_suffix('.').unwrap_or(text);
        let is_plain =
            given.is_ascii() && !given.to_ascii_lowercase().split('.').any(|label| label.starts_with("xn--"));
        let name = match is_plain {
            true => given.to_ascii_lowercase(),
            false => idna::domain_to_ascii_cow(given.as_bytes(), idna::AsciiDenyList::STD3)
                .map_err(|_| wrong())?
                .into_owned(),
        };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        let label = |label: &str| {
            let edge = label.starts_with('-') || label.ends_with('-');
            (1..=LABEL_MAX).contains(&label.len()) && !edge && label.bytes().all(plain)
        };
        if name.len() > NAME_MAX || !name.split('.').all(label) {
            return Err(wrong());
        }
        // Resolvers read `127.1` and `0x7f000001` as addresses.
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(BadHost::Number(shortened(text)));
        }
        Ok(Self(name.into()))
    }

    /// The name in ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as its owner writes it, if it has letters outside of ASCII. None if it has signs that could be taken
    /// for others, such as those that look like a slash.
    #[must_use]
    pub fn in_unicode(&self) -> Option<String> {
        let (shown, read) = idna::domain_to_unicode(self.as_str());
        let is_plain = shown.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_'));
        (read.is_ok() && is_plain && shown != self.as_str()).then_some(shown)
    }

    /// Whether it is a name of this machine in every network.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        self.as_str() == "localhost" || self.as_str().ends_with(".localhost")
    }

    /// Whether it is a name of the local network: it has no dot, or ends in one of the domains without owners.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let last = |domain: &&str| self.as_str().strip_suffix(*domain).is_some_and(|rest| rest.ends_with('.'));
        !self.as_str().contains('.') || ["local", "lan", "home", "internal", "home.arpa"].iter().any(last)
    }

    /// Whether the name is so long that it may carry data. No person is asked about such names.
    #[must_use]
    pub fn is_suspicious(&self) -> bool {
        self.as_str().len() > ASKED_MAX || self.labels() > ASKED_LABELS_MAX
    }

    /// Whether it lies one or more labels below another name.
    #[must_use]
    pub fn is_below(&self, domain: &Self) -> bool {
        self.as_str().strip_suffix(domain.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    fn labels(&self) -> usize {
        self.as_str().split('.').count()
    }
}

/// Whether a label is a number, as far as any program reads one.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || label.bytes().all(|byte| byte.is_ascii_digit())
}

/// Text of others for a message.
fn shortened(text: &str) -> String {
    text.chars().take(ASKED_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl<'de> Deserialize<'de> for HostName {
    /// Validates a name that comes as text. A record's name is trusted.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_text = deserializer.is_human_readable();
        let text = Short::deserialize(deserializer)?;
        if is_text { Self::parse(&text).map_err(D::Error::custom) } else { Ok(Self(text)) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host as it is judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Host {
    /// By name.
    Name(HostName),
    /// By its address. An IPv4 address in the form of IPv6 is one of IPv4.
    Address(IpAddr),
}

impl FromStr for Host {
    type Err = BadHost;

    /// Reads a name, an IPv4 address, or an IPv6 address with or without brackets.
    fn from_str(text: &str) -> Result<Self, BadHost> {
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match inner.unwrap_or(text).parse::<IpAddr>() {
            Ok(address) if inner.is_none() || address.is_ipv6() => Ok(Self::Address(address.to_canonical())),
            _ if inner.is_some() => Err(BadHost::Name(shortened(text))),
            _ => HostName::parse(text).map(Self::Name),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Where a connection goes: a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The host, by name or by address.
    pub host: Host,
    /// TCP port.
    pub port: u16,
}

impl FromStr for Endpoint {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let (host, port) = split_port(text)?;
        Ok(Self { host: host.parse()?, port: port.ok_or_else(|| BadHost::NoPort(shortened(text)))? })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Splits `host:port`, `[::1]:port`, `host` and `::1`.
fn split_port(text: &str) -> Result<(&str, Option<u16>), BadHost> {
    let bad = || BadHost::Port(shortened(text));
    let in_brackets = text.find(']').map(|at| text.split_at(at.saturating_add(1)));
    let (host, port) = match in_brackets {
        Some((host, "")) => return Ok((host, None)),
        Some((host, rest)) => (host, rest.strip_prefix(':').ok_or_else(bad)?),
        None if text.matches(':').count() > 1 => return Ok((text, None)),
        None => match text.split_once(':') {
            Some(parts) => parts,
            None => return Ok((text, None)),
        },
    };
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_number && *port != 0);
    port.map(|port| (host, Some(port))).ok_or_else(bad)
}

/// The hosts that a rule covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HostPattern {
    /// Exactly one host.
    Exact(Host),
    /// All names one or more labels below this one, and not the name itself.
    Below(HostName),
}

/// A rule about hosts: `example.org`, `*.example.org` or `192.168.1.20`, with or without a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostRule {
    /// Hosts that the rule applies to.
    pub pattern: HostPattern,
    /// The port. None is 443 where the rule allows something, and every port where it denies something.
    pub port: Option<u16>,
}

impl HostRule {
    /// The rule for exactly one endpoint.
    #[must_use]
    pub fn exactly(to: Endpoint) -> Self {
        Self { pattern: HostPattern::Exact(to.host), port: Some(to.port) }
    }

    /// Whether the rule covers a host.
    #[must_use]
    pub fn covers(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (HostPattern::Exact(exact), _) => exact == host,
            (HostPattern::Below(domain), Host::Name(name)) => name.is_below(domain),
            (HostPattern::Below(_), Host::Address(_)) => false,
        }
    }

    /// Whether the rule allows an endpoint, where it stands in a list of what is allowed.
    #[must_use]
    pub fn allows(&self, to: &Endpoint) -> bool {
        self.port.unwrap_or(DEFAULT_PORT) == to.port && self.covers(&to.host)
    }

    /// Whether the rule denies an endpoint, where it stands in a list of what is denied.
    #[must_use]
    pub fn denies(&self, to: &Endpoint) -> bool {
        self.port.is_none_or(|port| port == to.port) && self.covers(&to.host)
    }

    /// Whether the rule names one host, so that it may lead into the local network.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self.pattern, HostPattern::Exact(_))
    }

    /// Checks a rule for a list of what is allowed. There, a wildcard below a name under which everybody gets names is
    /// refused, as far as such names are known here. Where things are denied, such a wildcard makes sense.
    ///
    /// # Errors
    /// [`BadHost::TooWide`].
    pub fn check_allowed(&self) -> Result<(), BadHost> {
        match &self.pattern {
            HostPattern::Below(domain) if is_public_suffix(domain) => Err(BadHost::TooWide(self.to_string())),
            HostPattern::Below(_) | HostPattern::Exact(_) => Ok(()),
        }
    }
}

/// Labels below which a country registers names, such as `co.uk`.
const REGISTRIES: [&str; 14] =
    ["ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ltd", "mil", "ne", "net", "or", "org"];

/// Domains below which a host gives names to everybody.
const SHARED: [&str; 22] = [
    "amazonaws.com",
    "azurewebsites.net",
    "blogspot.com",
    "cloudfront.net",
    "firebaseapp.com",
    "fly.dev",
    "github.io",
    "gitlab.io",
    "herokuapp.com",
    "netlify.app",
    "ngrok-free.app",
    "ngrok.app",
    "ngrok.io",
    "pages.dev",
    "r2.dev",
    "run.app",
    "sslip.io",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "workers.dev",
    "nip.io",
];

fn is_public_suffix(domain: &HostName) -> bool {
    let name = domain.as_str();
    let country = |(first, last): (&str, &str)| last.len() == 2 && REGISTRIES.contains(&first);
    domain.labels() < 2 || SHARED.contains(&name) || name.split_once('.').is_some_and(country)
}

impl FromStr for HostRule {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let (host, port) = split_port(text)?;
        let pattern = match host.strip_prefix("*.") {
            Some(domain) if domain.contains('*') => return Err(BadHost::Wildcard(shortened(text))),
            Some(domain) => HostPattern::Below(HostName::parse(domain)?),
            None if host.contains('*') => return Err(BadHost::Wildcard(shortened(text))),
            None => HostPattern::Exact(host.parse()?),
        };
        match &pattern {
            HostPattern::Below(domain) if domain.labels() < 2 => Err(BadHost::TooWide(shortened(text))),
            HostPattern::Below(_) | HostPattern::Exact(_) => Ok(Self { pattern, port }),
        }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            HostPattern::Exact(host) => host.fmt(f)?,
            HostPattern::Below(domain) => write!(f, "*.{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<String, BadHost> {
        text.parse::<Host>().map(|host| host.to_string())
    }

    fn rule(text: &str) -> HostRule {
        text.parse().unwrap()
    }

    fn to(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[test]
    fn names_have_one_form() {
        for (text, name) in [
            ("Example.ORG", "example.org"),
            ("example.org.", "example.org"),
            ("a_b.example.org", "a_b.example.org"),
            ("3.example.org", "3.example.org"),
            ("homeassistant", "homeassistant"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("ｅxample.org", "example.org"),
            ("192.168.1.20", "192.168.1.20"),
            ("::1", "[::1]"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(name), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = vec!["a".repeat(60); 5].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "user@a",
            "a:b",
            "-a.b",
            "a-.b",
            "a\0b",
            "a\nb",
            "127.1",
            "0x7f.1",
            "2130706433",
            "0x7f000001",
            "1.2.3.4.5",
            "01.2.3.4",
            "a.1",
            "a.0x1f",
            "[a]",
            "[1.2.3.4]",
            "*.a",
            "xn--a.org",
            "a%2eb",
            &long,
            &longer,
            "fe80::1%eth0",
        ] {
            assert!(host(text).is_err(), "{text:?}: {:?}", host(text));
        }
    }

    #[test]
    fn a_name_is_shown_as_its_owner_writes_it() {
        let name = |text: &str| HostName::parse(text).unwrap();
        assert_eq!(name("bücher.example").in_unicode().as_deref(), Some("bücher.example"));
        assert_eq!(name("example.org").in_unicode(), None);
        assert_eq!(name("bank.example\u{2044}x.org").in_unicode(), None);
        assert!(name("a.b.c.d.e.f.org").is_suspicious() && !name("a.b.c.d.e.org").is_suspicious());
        assert!(name(&format!("{}.{}.org", "a".repeat(60), "b".repeat(40))).is_suspicious());
        assert!(name("nas").is_local() && name("a.local").is_local() && name("b.home.arpa").is_local());
        assert!(!name("local.example").is_local() && !name("notlocal.xlocal").is_local());
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "example.org",
            "*.example.org",
            "example.org:8443",
            "*.example.org:80",
            "192.168.1.20:8123",
            "[fd00::1]:8080",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(rule("[fd00::1]"), rule("fd00::1"));
        for text in [
            "*",
            "*.",
            "*.com",
            "a.*.org",
            "*a.org",
            "*.*.org",
            "a.org:",
            "a.org:0",
            "a.org:70000",
            "a.org:+1",
            "*.1.2.3.4",
            "[::1",
        ] {
            assert!(text.parse::<HostRule>().is_err(), "{text}");
        }
        for text in ["*.co.uk", "*.github.io", "*.gov.br"] {
            assert!(rule(text).check_allowed().is_err(), "{text}");
        }
        for text in ["co.uk", "*.example.co.uk", "*.githubusercontent.com", "*.bbc.uk"] {
            assert_eq!(rule(text).check_allowed(), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_rule_covers_no_more_than_it_says() {
        let wide = rule("*.example.org");
        for name in ["a.example.org", "a.b.example.org"] {
            assert!(wide.covers(&name.parse().unwrap()), "{name}");
        }
        for name in ["example.org", "aexample.org", "example.org.evil.net", "a.example.orgx"] {
            assert!(!wide.covers(&name.parse().unwrap()), "{name}");
        }
        assert!(rule("a.org").allows(&to("a.org:443")) && !rule("a.org").allows(&to("a.org:80")));
        assert!(rule("a.org").denies(&to("a.org:80")) && !rule("a.org:443").denies(&to("a.org:80")));
        assert!(rule("10.0.0.1:80").allows(&to("[::ffff:10.0.0.1]:80")));
    }
}
