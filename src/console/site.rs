//! How browsers find the console.

use std::net::SocketAddr;

/// Where the console is.
#[derive(Debug, Clone)]
pub(super) struct Site {
    /// The address on which it listens.
    pub(super) bound: SocketAddr,
    /// Names and addresses by which browsers may ask for it as well.
    pub(super) names: Vec<String>,
    /// Whether it speaks TLS.
    pub(super) tls: bool,
}

/// A cookie of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The cookie of a session.
    Session,
    /// The cookie of a browser in which a person is signing in from a chat.
    Login,
}

impl Cookie {
    /// For how many seconds browsers keep it: a session lives for a month at most, a code for three minutes.
    pub(super) const fn age(self) -> u32 {
        match self {
            Self::Session => 30 * 24 * 3_600,
            Self::Login => 600,
        }
    }
}

impl Site {
    pub(super) const fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The port that browsers do not write.
    pub(super) const fn usual_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }

    /// Name of a cookie. It has the port, because cookies do not: two consoles on one machine would share one. Over TLS,
    /// browsers take a cookie with this prefix only from this very host.
    pub(super) fn cookie_name(&self, which: Cookie) -> String {
        let prefix = if self.tls { "__Host-" } else { "" };
        let kind = match which {
            Cookie::Session => "hearth",
            Cookie::Login => "hearth-login",
        };
        format!("{prefix}{kind}-{}", self.bound.port())
    }

    /// The address of the first page.
    pub(super) fn origin(&self) -> String {
        let port = self.bound.port();
        let host = match self.names.first() {
            Some(name) if name.contains(':') && !name.starts_with('[') => format!("[{name}]"),
            Some(name) => name.clone(),
            None => return format!("{}://{}", self.scheme(), self.bound),
        };
        format!("{}://{host}:{port}", self.scheme())
    }
}
