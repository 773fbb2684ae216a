//! What agents may reach over the network: the policy of an agent, how an endpoint is judged by it, and the
//! connections that were made.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::bound_secret::SecretAccess;
pub use super::host::{BadHost, DEFAULT_PORT, Endpoint, Host, HostName, HostPattern, HostRule, THIS_MACHINE};
use super::id::SessionId;
use super::ip_scope::IpScope;
use super::time::Timestamp;

/// What happens to an endpoint that no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlisted {
    /// It is refused.
    Refuse,
    /// A person is asked.
    Ask,
    /// It is allowed if it is on the internet.
    Public,
}

/// Everything that is needed to judge an agent's connections. The engine makes it of settings and grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// What happens to endpoints that no rule names.
    pub unlisted: Unlisted,
    /// What the configuration allows.
    pub allow: Vec<HostRule>,
    /// What the configuration denies.
    pub deny: Vec<HostRule>,
    /// What people allowed when they were asked, and have not revoked.
    pub granted: Vec<HostRule>,
    /// What people refused for good.
    pub refused: Vec<HostRule>,
}

impl NetworkPolicy {
    /// A policy without rules.
    #[must_use]
    pub const fn new(unlisted: Unlisted) -> Self {
        Self { unlisted, allow: Vec::new(), deny: Vec::new(), granted: Vec::new(), refused: Vec::new() }
    }

    /// The ports of everything that rules allow, sorted.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        let rules = self.allow.iter().chain(&self.granted);
        let ports: BTreeSet<u16> = rules.map(|rule| rule.port.unwrap_or(DEFAULT_PORT)).collect();
        ports.into_iter().collect()
    }
}

/// Why a connection is allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RuleOrigin {
    /// A rule of the configuration.
    Allow(HostRule),
    /// The decision of a person.
    Grant(HostRule),
    /// The agent may reach the whole internet.
    Public,
    /// A secret of the agent is bound to it.
    Secret(HostRule),
}

impl fmt::Display for RuleOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow(rule) => write!(f, "allowed by `{rule}` in `allow`"),
            Self::Grant(rule) => write!(f, "allowed by a person's decision about {rule}"),
            Self::Secret(rule) => write!(f, "allowed because a secret is bound to {rule}"),
            Self::Public => f.write_str("allowed by network = \"public\""),
        }
    }
}

/// Why a connection is refused or failed. The texts are for agents and people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum NetRefusal {
    /// The configuration denies it.
    #[error("it is denied by `{0}` in `deny`")]
    Denied(HostRule),
    /// A person refused it for good.
    #[error("a person refused {0} for good")]
    RefusedByPerson(HostRule),
    /// Nothing allows it.
    #[error("this agent may not reach it; its owner can add it to `allow`")]
    Unlisted,
    /// Addresses have to be listed.
    #[error("addresses are reached only if they are listed in `allow`; use the host's name")]
    AddressUnlisted,
    /// Loopback addresses are never reached as such.
    #[error(
        "services of this machine are reached only as this-machine.internal, with a port that is listed in `allow`"
    )]
    ThisMachine,
    /// An address that is never reached.
    #[error("its address is never reached: link-local, metadata, multicast or without a host")]
    NeverReached,
    /// The name is so long that it may carry data.
    #[error("its name has more than 100 characters or 6 labels, so no person is asked about it")]
    NameTooLong,
    /// The name leads into the local network, and the rule does not name it exactly.
    #[error("it leads into the local network; its owner can list exactly this host and port in `allow`")]
    LocalNetwork,
    /// A port on which the daemon itself listens.
    #[error("Hearth itself listens there")]
    OwnPort,
    /// The TLS handshake names another host, or none.
    #[error("the TLS handshake does not name this host")]
    OtherServerName,
    /// There is no TLS handshake where one belongs.
    #[error("only TLS passes on this port")]
    NotTls,
    /// An HTTP request that is for another host, or is not plain HTTP/1.1.
    #[error("only HTTP/1.1 requests for this host pass on this port")]
    NotForThisHost,
    /// The agent has too many connections.
    #[error("the agent has too many connections at once")]
    TooManyConnections,
    /// Too many questions about hosts are open, or were asked today.
    #[error("too many questions about hosts wait for a person already")]
    TooManyQuestions,
    /// A person did not allow it a while ago.
    #[error("a person was asked a while ago and did not allow it")]
    NotNow,
    /// No one can be asked.
    #[error("no owner or admin who could allow it can be reached")]
    NobodyToAsk,
    /// The agent is frozen.
    #[error("the agent is stopped")]
    Stopped,
    /// The host is allowed, but has no address.
    #[error("its name has no address")]
    NoAddress,
    /// The host is allowed, but does not answer.
    #[error("it does not answer")]
    NoAnswer,
    /// A request to a host with a bound secret did not pass.
    #[error("{0}")]
    Request(String),
    /// A request had the value of a secret in it.
    #[error("{place} of a request had the value of {secret} in it")]
    Leak {
        /// The secret's name.
        secret: String,
        /// Where it was.
        place: String,
    },
}

/// A judgement about an endpoint, before anything about it is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The connection is made.
    Tunnel {
        /// Origin of the rule that allows it.
        rule: RuleOrigin,
        /// Whether it may lead into the local network.
        private: bool,
    },
    /// A person is asked.
    Ask,
    /// The connection is refused.
    Refuse(NetRefusal),
}

/// Judges an endpoint. What is denied or refused beats what is allowed or granted, which beats the rest.
#[must_use]
pub fn judge(policy: &NetworkPolicy, to: &Endpoint) -> Judgement {
    if let Some(rule) = policy.deny.iter().find(|rule| rule.denies(to)) {
        return Judgement::Refuse(NetRefusal::Denied(rule.clone()));
    }
    if let Some(rule) = policy.refused.iter().find(|rule| rule.denies(to)) {
        return Judgement::Refuse(NetRefusal::RefusedByPerson(rule.clone()));
    }
    if let Some(refusal) = never(&to.host) {
        return Judgement::Refuse(refusal);
    }
    let exact_first = |rules: &[HostRule]| {
        let fitting = || rules.iter().filter(|rule| rule.allows(to));
        fitting().find(|rule| rule.is_exact()).or_else(|| fitting().next()).cloned()
    };
    if let Some(rule) = exact_first(&policy.allow) {
        return Judgement::Tunnel { private: rule.is_exact(), rule: RuleOrigin::Allow(rule) };
    }
    if is_this_machine(&to.host) {
        return Judgement::Refuse(NetRefusal::ThisMachine);
    }
    if let Some(rule) = exact_first(&policy.granted) {
        // The question said so.
        let private = rule.is_exact() && is_local(&to.host);
        return Judgement::Tunnel { private, rule: RuleOrigin::Grant(rule) };
    }
    let Host::Name(name) = &to.host else { return Judgement::Refuse(NetRefusal::AddressUnlisted) };
    match policy.unlisted {
        Unlisted::Refuse => Judgement::Refuse(NetRefusal::Unlisted),
        Unlisted::Ask if name.is_suspicious() => Judgement::Refuse(NetRefusal::NameTooLong),
        Unlisted::Ask => Judgement::Ask,
        Unlisted::Public => Judgement::Tunnel { rule: RuleOrigin::Public, private: false },
    }
}

/// Whether a question about a host says that it is in the local network.
#[must_use]
pub fn is_local(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_local(),
        Host::Address(address) => IpScope::of(*address) == IpScope::Local,
    }
}

/// Whether it is the name for services of this machine.
#[must_use]
pub fn is_this_machine(host: &Host) -> bool {
    matches!(host, Host::Name(name) if name.as_str() == THIS_MACHINE)
}

/// Why a host is refused whatever is listed.
fn never(host: &Host) -> Option<NetRefusal> {
    let of_address = |address: &IpAddr| match IpScope::of(*address) {
        IpScope::Loopback => Some(NetRefusal::ThisMachine),
        IpScope::Never => Some(NetRefusal::NeverReached),
        IpScope::Public | IpScope::Local => None,
    };
    match host {
        Host::Name(name) => name.is_localhost().then_some(NetRefusal::ThisMachine),
        Host::Address(address) => of_address(address),
    }
}

/// Where the runner is a proxy, in a network of an agent's own.
pub const PROXY: &str = "http://127.0.0.1:3128";

/// How an incarnation with a network of its own reaches others: by the socket [`NETWORK_SOCKET`] in a directory, which
/// also has files that replace some of the system's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAccess {
    /// The directory.
    pub directory: PathBuf,
    /// Ports on which its programs reach hosts by name, in addition to those that are always there.
    pub ports: Vec<u16>,
    /// What it gets instead of bound secrets, if it uses some.
    pub secrets: Option<SecretAccess>,
}

/// Name of the socket in its directory.
pub const NETWORK_SOCKET: &str = "net.sock";

/// Files in that directory, and their content: names are looked up within the agent's own network only.
pub const NETWORK_FILES: [(&str, &str); 3] = [
    ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"),
    ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n"),
];

/// What was decided about a connection, and by what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NetVerdict {
    /// It was made.
    Allowed(RuleOrigin),
    /// It was refused, or failed.
    Refused(NetRefusal),
    /// A person was asked, and had not answered when the connection ended.
    Asked,
}

/// The request of a connection that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRequest {
    /// Method of HTTP.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
}

/// A connection of an agent that has ended or was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSeen {
    /// The session that connected.
    pub session: SessionId,
    /// The run that connected.
    pub incarnation: u32,
    /// Where it went.
    pub endpoint: Endpoint,
    /// What was decided.
    pub verdict: NetVerdict,
    /// When the agent asked for it.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Bytes that the agent sent.
    pub up: u64,
    /// Bytes that it received.
    pub down: u64,
    /// The request, of connections that are opened.
    pub request: Option<SeenRequest>,
}

/// An agent wants to reach an endpoint about which a person has to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostWanted {
    /// The session that wants to connect.
    pub session: SessionId,
    /// The run that wants to connect.
    pub incarnation: u32,
    /// Where it wants to go.
    pub endpoint: Endpoint,
    /// Whether that is in the local network, as far as the name tells.
    pub local: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(texts: &[&str]) -> Vec<HostRule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn judged(policy: &NetworkPolicy, to: &str) -> Judgement {
        judge(policy, &to.parse().unwrap())
    }

    fn refused(judgement: &Judgement) -> Option<&NetRefusal> {
        match judgement {
            Judgement::Refuse(refusal) => Some(refusal),
            Judgement::Tunnel { .. } | Judgement::Ask => None,
        }
    }

    #[test]
    fn what_is_denied_beats_what_is_allowed() {
        let mut policy = NetworkPolicy {
            allow: rules(&["a.org", "*.b.org", "c.org:80"]),
            granted: rules(&["d.org:443"]),
            ..NetworkPolicy::new(Unlisted::Ask)
        };
        let allowed = |to: &str, policy: &NetworkPolicy| matches!(judged(policy, to), Judgement::Tunnel { .. });
        for to in ["a.org:443", "x.b.org:443", "c.org:80", "d.org:443"] {
            assert!(allowed(to, &policy), "{to}");
        }
        assert_eq!(judged(&policy, "c.org:443"), Judgement::Ask);
        policy.deny = rules(&["*.b.org", "a.org:443"]);
        policy.refused = rules(&["c.org", "d.org:443"]);
        for to in ["a.org:443", "x.b.org:443", "c.org:80", "d.org:443", "c.org:443"] {
            assert!(refused(&judged(&policy, to)).is_some(), "{to}");
        }
        assert_eq!(judged(&policy, "a.org:80"), Judgement::Ask);
    }

    #[test]
    fn the_network_decides_about_the_rest() {
        let mut policy = NetworkPolicy::new(Unlisted::Refuse);
        assert_eq!(refused(&judged(&policy, "a.org:443")), Some(&NetRefusal::Unlisted));
        policy.unlisted = Unlisted::Public;
        assert_eq!(judged(&policy, "a.org:443"), Judgement::Tunnel { rule: RuleOrigin::Public, private: false });
        assert_eq!(refused(&judged(&policy, "1.1.1.1:443")), Some(&NetRefusal::AddressUnlisted));
        policy.unlisted = Unlisted::Ask;
        assert_eq!(judged(&policy, "a.org:443"), Judgement::Ask);
        let long = format!("{}.{}.org:443", "a".repeat(60), "b".repeat(60));
        for to in ["a.b.c.d.e.f.org:443", &long] {
            assert_eq!(refused(&judged(&policy, to)), Some(&NetRefusal::NameTooLong));
        }
    }

    #[test]
    fn only_an_exact_rule_leads_into_the_local_network() {
        let policy = NetworkPolicy {
            allow: rules(&["*.home.example", "nas.home.example", "192.168.1.20:8123"]),
            granted: rules(&["x.org:443", "hub.local:443"]),
            ..NetworkPolicy::new(Unlisted::Public)
        };
        let private = |to: &str| match judged(&policy, to) {
            Judgement::Tunnel { private, .. } => private,
            other => panic!("{to}: {other:?}"),
        };
        assert!(private("nas.home.example:443") && private("192.168.1.20:8123") && private("hub.local:443"));
        assert!(!private("a.home.example:443") && !private("x.org:443") && !private("y.org:443"));
    }

    #[test]
    fn this_machine_has_one_name_that_must_be_listed() {
        let listed =
            rules(&["this-machine.internal:11434", "localhost:80", "127.0.0.1:80", "169.254.169.254:80", "[::1]:80"]);
        for unlisted in [Unlisted::Refuse, Unlisted::Ask, Unlisted::Public] {
            let granted = rules(&["this-machine.internal:22"]);
            let policy = NetworkPolicy { allow: listed.clone(), granted, ..NetworkPolicy::new(unlisted) };
            assert!(matches!(judged(&policy, "this-machine.internal:11434"), Judgement::Tunnel { private: true, .. }));
            for to in [
                "this-machine.internal:22",
                "localhost:80",
                "a.localhost:80",
                "127.0.0.1:80",
                "[::1]:80",
                "[::ffff:127.0.0.1]:80",
            ] {
                assert_eq!(refused(&judged(&policy, to)), Some(&NetRefusal::ThisMachine), "{to}");
            }
            assert_eq!(refused(&judged(&policy, "169.254.169.254:80")), Some(&NetRefusal::NeverReached));
        }
    }

    fn some_rule() -> impl Strategy<Value = HostRule> {
        let hosts =
            ["a.org", "b.a.org", "*.a.org", "*.b.a.org", "c.org", "10.0.0.1", "this-machine.internal", "localhost"];
        let port = prop_oneof![Just(None), Just(Some(443)), Just(Some(80))];
        (prop::sample::select(hosts.to_vec()), port).prop_map(|(host, port)| HostRule { port, ..host.parse().unwrap() })
    }

    fn some_policy() -> impl Strategy<Value = NetworkPolicy> {
        let list = || prop::collection::vec(some_rule(), 0..3);
        let unlisted = prop::sample::select(vec![Unlisted::Refuse, Unlisted::Ask, Unlisted::Public]);
        (unlisted, list(), list(), list(), list()).prop_map(|(unlisted, allow, deny, granted, refused)| NetworkPolicy {
            unlisted,
            allow,
            deny,
            granted,
            refused,
        })
    }

    fn some_endpoint() -> impl Strategy<Value = Endpoint> {
        let hosts =
            ["a.org", "b.a.org", "x.b.a.org", "c.org", "d.org", "10.0.0.1", "127.0.0.1", "this-machine.internal"];
        (prop::sample::select(hosts.to_vec()), prop::sample::select(vec![443, 80, 22]))
            .prop_map(|(host, port)| Endpoint { host: host.parse().unwrap(), port })
    }

    proptest! {
        #[test]
        fn a_further_denial_never_allows_more(policy in some_policy(), rule in some_rule(), to in some_endpoint()) {
            let before = judge(&policy, &to);
            for of_person in [false, true] {
                let mut more = policy.clone();
                if of_person { more.refused.push(rule.clone()) } else { more.deny.push(rule.clone()) }
                let after = judge(&more, &to);
                prop_assert!(refused(&after).is_some() || after == before);
            }
        }

        #[test]
        fn a_further_allowance_never_overrides_a_denial(policy in some_policy(), rule in some_rule(), to in some_endpoint()) {
            let before = judge(&policy, &to);
            let mut more = policy;
            more.allow.push(rule.clone());
            more.granted.push(rule);
            let after = judge(&more, &to);
            let denied = matches!(refused(&before), Some(NetRefusal::Denied(_) | NetRefusal::RefusedByPerson(_)));
            prop_assert!(!denied || after == before);
        }
    }
}
