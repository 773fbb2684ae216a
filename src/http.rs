//! The HTTP client of everything that reaches networks. TLS is rustls with ring; the system's certificates are trusted.
//! Requests carry secrets: no error leaves here with a URL, and texts of servers are cleaned before people read them.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use reqwest::{Client, Response};

/// Timeout of connecting to a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Idle connections are closed after this time. It is shorter than servers' timeouts, so that a request is rarely
/// written to a connection that the server is just closing.
const IDLE: Duration = Duration::from_secs(30);
/// Longest text of a server that is shown, in characters.
const SHOWN_MAX: usize = 500;

/// Creates a client. It follows no redirects, because a request carries secrets that are meant for one server. It uses
/// the proxies that the environment names, except for servers without TLS, which are on this machine or its network.
///
/// # Errors
/// If TLS cannot be set up: usually the system has no certificates.
pub(crate) fn client(plain: bool) -> Result<Client, reqwest::Error> {
    // Fails only if one is already installed, which is just as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")));
    if plain { builder.no_proxy().build() } else { builder.build() }
}

/// Reads a body of at most `max` bytes. None if it is longer.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn body(mut response: Response, max: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len().saturating_add(chunk.len()) > max {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// The message of the HTTP client with its causes, without the URL.
pub(crate) fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    causes(&error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Why a server was not reached, in words, with the cause of the operating system at the end.
pub(crate) fn unreached(error: reqwest::Error) -> String {
    let error = error.without_url();
    let last = causes(&error).last().map(ToString::to_string).unwrap_or_default();
    let names = causes(&error).any(|cause| cause.to_string().contains("dns error"));
    let kind = causes(&error).find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    let secured = causes(&error).any(|cause| is_of_tls(cause) || cause.to_string().contains("certificate"));
    let why = match kind {
        _ if error.is_timeout() => return "it does not answer in time".to_owned(),
        _ if names => "no server of this name was found",
        _ if secured => "no secure connection (TLS) could be made",
        Some(ErrorKind::ConnectionRefused) => "nothing listens there",
        _ => return words(error),
    };
    format!("{why} ({last})")
}

/// Whether TLS failed. I/O errors do not return the error they wrap from `source`, even when they are nested.
fn is_of_tls(error: &(dyn Error + 'static)) -> bool {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || inner.is_some_and(|inner| is_of_tls(inner))
}

/// A foreign text without a secret, on one line and bounded.
pub(crate) fn clean(text: &str, secret: &str, instead: &str) -> String {
    let hidden = if secret.is_empty() { text.to_owned() } else { text.replace(secret, instead) };
    hidden.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_MAX).collect()
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
}
