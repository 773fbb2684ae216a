//! Requests by base URL: `http://127.0.0.1:3128/NAME/PATH` becomes `https://HOST/PATH`. The agent's program speaks no TLS
//! and trusts no other certificates. Everything else is as on opened connections.

use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::head::Head;
use super::inbound::{Inbound, write};
use super::refusal::Refusal;
use super::run::OpenedHost;
use super::upstream::{Dial, Upstream};
use super::{Ended, OpenError, Opener, Seen, Served, answer_one, refuse};

/// The way of requests to one host.
#[derive(Clone)]
pub struct Way {
    pub host: Arc<OpenedHost>,
    /// Connects to it.
    pub dial: Dial,
    /// Receives requests that have ended.
    pub seen: Seen,
    /// Ends when the policy forbids the host.
    pub forbidden: Forbidden,
}

/// Waits until a host is forbidden.
pub type Forbidden = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;
/// Finds the way for the secret of this name. The error is the whole answer to the program.
pub type Finding<'a> =
    Box<dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<Way, Vec<u8>>> + Send + 'a>> + Send + Sync + 'a>;

/// The host that the requests of a connection went to last.
struct Current {
    secret: String,
    way: Way,
    upstream: Upstream,
}

impl Opener {
    /// Serves a connection of an agent that sends requests by base URL, until it ends.
    ///
    /// # Errors
    /// [`OpenError`] if the gate cannot speak TLS.
    pub async fn serve_by_base_url<S>(&self, stream: S, find: Finding<'_>) -> Result<(), OpenError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let client = self.client()?;
        let (reader, mut writer) = tokio::io::split(stream);
        let mut inbound = Inbound::new(reader);
        let mut current: Option<Current> = None;
        loop {
            let mut head = match inbound.head().await {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(refusal) => {
                    refuse(&mut writer, &refusal).await;
                    break;
                }
            };
            let Some(secret) = split_off_secret(&mut head) else {
                refuse(&mut writer, &Refusal::Form("its path does not begin with the name of a secret")).await;
                break;
            };
            // Judged for each request: the policy may have changed.
            let way = match find(secret.clone()).await {
                Ok(way) => way,
                Err(answer) => {
                    // The program may be gone.
                    drop(write(&mut writer, &answer).await);
                    break;
                }
            };
            let upstream = match current.take().filter(|known| known.secret == secret) {
                Some(known) => known.upstream,
                None => Upstream::new(way.host.name.to_string(), Arc::clone(&client), Arc::clone(&way.dial)),
            };
            let current = current.insert(Current { secret, way, upstream });
            let served = Served { host: &current.way.host, seen: &current.way.seen };
            let ended = tokio::select! {
                ended = answer_one(&mut inbound, &mut writer, &mut current.upstream, served, &head) => ended,
                () = (current.way.forbidden)() => Ended::Closed,
            };
            if ended == Ended::Closed {
                break;
            }
        }
        // The program may be gone.
        drop(writer.shutdown().await);
        inbound.discard().await;
        Ok(())
    }
}

/// Takes the name of the secret off the path.
fn split_off_secret(head: &mut Head) -> Option<String> {
    let path = head.path.strip_prefix('/')?;
    let (secret, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let secret = secret.to_owned();
    head.path = if rest.is_empty() { "/".to_owned() } else { rest.to_owned() };
    (!secret.is_empty()).then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::super::head::parse;
    use super::*;

    #[test]
    fn the_name_of_the_secret_is_taken_off_the_path() {
        let split = |path: &str| {
            let mut head = parse(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            split_off_secret(&mut head).map(|secret| (secret, head.address()))
        };
        let to = |secret: &str, address: &str| Some((secret.to_owned(), address.to_owned()));
        assert_eq!(split("/github/repos/a?b=c"), to("github", "/repos/a?b=c"));
        assert_eq!(split("/github"), to("github", "/"));
        assert_eq!(split("/github?b"), to("github", "/?b"));
        assert_eq!(split("/github//x/../y"), to("github", "//x/../y"), "refused later, as on every way");
        assert_eq!(split("/"), None);
        assert_eq!(split("//github"), None);
    }
}
