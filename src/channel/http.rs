//! The HTTP client of adapters. TLS is rustls with ring; the system's certificates are trusted.

use std::time::Duration;

use reqwest::Client;

/// Timeout of connecting to a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Idle connections are closed after this time. It is shorter than servers' timeouts, so that a request is rarely
/// written to a connection that the server is just closing.
const IDLE: Duration = Duration::from_secs(30);

/// Creates a client. It follows no redirects, because a request carries secrets that are meant for one server. It uses
/// the proxies that the environment names, except for servers without TLS, which are on this machine or its network.
///
/// # Errors
/// If TLS cannot be set up: usually the system has no certificates.
pub(super) fn client(plain: bool) -> Result<Client, reqwest::Error> {
    // Fails only if one is already installed, which is just as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")));
    if plain { builder.no_proxy().build() } else { builder.build() }
}
