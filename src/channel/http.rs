//! The HTTP client of networks. TLS is rustls with ring, and trusts what the system trusts.

use std::time::Duration;

use reqwest::Client;

/// Time to reach a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Time after which a connection that nobody uses is closed: shorter than what servers allow, so that a request is rarely
/// written to a connection that the server is just closing.
const IDLE: Duration = Duration::from_secs(30);

/// Makes a client. It follows no redirects, because a request carries secrets that are meant for one server; and uses the
/// proxies that the environment names, except for servers without TLS, which are this machine's or its network's.
///
/// # Errors
/// When TLS cannot be set up: usually the system has no certificates.
pub(super) fn client(plain: bool) -> Result<Client, reqwest::Error> {
    // Fails only if there is one already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")));
    if plain { builder.no_proxy().build() } else { builder.build() }
}
