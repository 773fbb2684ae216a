//! The console in the browser: its settings, and the sessions of people who signed in to it.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::address::UserId;
use super::id::ConsoleSessionId;
use super::time::{Millis, Timestamp};

/// Name of the channel of chats in the console, and of its only instance. Its senders are people of other channels.
pub const CHANNEL: &str = "console";

/// Whether and where the console listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSettings {
    /// Whether it listens.
    pub enabled: bool,
    /// The address and port. Off loopback, it speaks TLS only.
    pub listen: SocketAddr,
    /// Whether people may sign in by a message to a bot.
    pub chat_login: bool,
    /// Names and addresses by which browsers may ask for it, besides its own address.
    pub names: Vec<String>,
    /// The operator's own certificate; none is one that Hearth makes.
    pub certificate: Option<CertificateFiles>,
}

/// Files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFiles {
    /// The certificate and those that lead to its root, as PEM.
    pub cert: String,
    /// Its key, as PEM.
    pub key: String,
}

impl ConsoleSettings {
    /// Default of `listen`.
    pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 18_790);

    /// Whether it speaks TLS: always where others could read along.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        !self.listen.ip().is_loopback() || self.certificate.is_some()
    }
}

impl Default for ConsoleSettings {
    fn default() -> Self {
        Self { enabled: false, listen: Self::LISTEN, chat_login: false, names: Vec::new(), certificate: None }
    }
}

/// SHA-256 digest of the token in a browser's cookie. The token itself is stored nowhere.
pub type TokenDigest = [u8; 32];

/// A browser in which a person is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSession {
    /// The person who is signed in.
    pub user: UserId,
    /// Digest of the newest token.
    pub token: [u8; 32],
    /// The token before it.
    pub replaced: Option<ReplacedToken>,
    /// Digest of the first token, from which tokens of forms are made.
    pub seed: [u8; 32],
    /// What the browser calls itself.
    pub browser: String,
    /// When the person signed in.
    pub signed_in: Timestamp,
    /// When the token was last replaced.
    pub rotated: Timestamp,
    /// How the person signed in.
    pub login: Login,
}

/// How a person signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Login {
    /// By a link from the command line.
    Link,
    /// By a message to a bot. Such a session grants no roles and changes no agents.
    Chat,
}

/// A token that a session had before its present one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedToken {
    /// SHA-256 of the token.
    pub token: [u8; 32],
    /// Until when requests may still have it; none until the browser has used the new one.
    pub until: Option<Timestamp>,
}

impl ConsoleSession {
    /// How long a browser stays signed in.
    pub const LIFE: Millis = Millis::minutes(30 * 24 * 60);
    /// How long a browser stays signed in without a request.
    pub const IDLE: Millis = Millis::minutes(7 * 24 * 60);
    /// How often its token is replaced.
    pub const ROTATE: Millis = Millis::minutes(60);
    /// How long requests may have a token after the browser has used the next one.
    pub const OVERLAP: Millis = Millis::seconds(60);
    /// Most sessions at a time. Another one ends the one that was used least recently.
    pub const MAX: usize = 100;
    /// Longest name of a browser, in characters.
    pub const BROWSER_MAX: usize = 200;

    /// When it ends without further requests.
    #[must_use]
    pub fn expires(&self) -> Timestamp {
        self.signed_in.plus(Self::LIFE).min(self.rotated.plus(Self::IDLE))
    }
}

/// What happens to sessions of the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsoleInput {
    /// A person signed in.
    SignIn {
        /// The person who signs in.
        user: UserId,
        /// Digest of the browser's token.
        token: TokenDigest,
        /// What the browser calls itself.
        browser: String,
        /// What the person signed in with.
        login: Login,
    },
    /// The token of a browser is replaced.
    Rotate {
        /// The session whose token is replaced.
        session: ConsoleSessionId,
        /// Digest of the token that the browser has.
        from: TokenDigest,
        /// Digest of the new one.
        to: TokenDigest,
    },
    /// A browser has used its new token.
    Confirm(ConsoleSessionId),
    /// Ends a session.
    SignOut(ConsoleSessionId),
}
