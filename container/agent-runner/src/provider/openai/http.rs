//! The one place that speaks HTTP: a request on a thread of its own, and the lines of its answer.

use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};

use super::trouble::ApiError;

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Maximum bytes of a line, and of the body of an error.
const LINE_BYTES: u64 = 8 << 20;
const ERROR_BYTES: u64 = 64 << 10;
/// Lines that may wait.
const WAITING_LINES: usize = 256;

/// A request to the model's server.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) url: String,
    pub(super) key: Option<String>,
    pub(super) body: String,
}

/// Something of an answer. After an error or the end nothing comes.
#[derive(Debug)]
pub(super) enum Received {
    Line(String),
    Failed(ApiError),
    End,
}

/// The client. It keeps connections open between requests.
#[derive(Debug, Clone)]
pub(super) struct Client(Agent);

/// Creates the client.
pub(super) fn client() -> Client {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder().tls_config(tls).timeout_connect(Some(CONNECT)).http_status_as_error(false);
    // A proxy could not reach the gateway or a server on this machine.
    Client(config.proxy(None).build().into())
}

/// Sends a request. Its thread ends when the receiver is dropped and the server writes more.
pub(super) fn send(client: &Client, request: Request) -> Receiver<Received> {
    let (to, from) = sync_channel(WAITING_LINES);
    let (client, failed) = (client.clone(), to.clone());
    let thread = std::thread::Builder::new().name("model".to_owned());
    if let Err(error) = thread.spawn(move || drop(to.send(exchange(&client, request, &to)))) {
        drop(failed.send(Received::Failed(ApiError::passing(format!("no thread for a request: {error}")))));
    }
    from
}

/// Passes on the lines of the answer, and returns how it ended.
fn exchange(Client(client): &Client, request: Request, to: &SyncSender<Received>) -> Received {
    let Request { url, key, body } = request;
    let mut call = client.post(&url).header("content-type", "application/json").header("accept", "text/event-stream");
    if let Some(key) = key {
        call = call.header("authorization", format!("Bearer {key}"));
    }
    match call.send(body) {
        Ok(response) if response.status().is_success() => pass_on(response, to),
        Ok(response) => Received::Failed(refusal(response)),
        Err(ureq::Error::BadUri(why)) => Received::Failed(ApiError::lasting(format!("{url} is no address: {why}"))),
        Err(error) => Received::Failed(ApiError::unreachable(format!("cannot be reached at {url}: {error}"))),
    }
}

fn pass_on(response: Response<ureq::Body>, to: &SyncSender<Received>) -> Received {
    let mut body = BufReader::new(response.into_body().into_reader());
    loop {
        let mut line = Vec::new();
        match body.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => return Received::End,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LINE_BYTES => {
                return Received::Failed(ApiError::lasting("the model's answer has a line that is too long"));
            }
            Ok(_) => {}
            // What came before decides whether the answer is whole.
            Err(_) => return Received::End,
        }
        if to.send(Received::Line(String::from_utf8_lossy(&line).into_owned())).is_err() {
            return Received::End;
        }
    }
}

fn refusal(response: Response<ureq::Body>) -> ApiError {
    let status = response.status().as_u16();
    let after = response.headers().get("retry-after").and_then(|after| after.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    // An error without its text is still one.
    drop(response.into_body().into_reader().take(ERROR_BYTES).read_to_end(&mut body));
    ApiError::of_status(status, &String::from_utf8_lossy(&body), after.as_deref())
}
