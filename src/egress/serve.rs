//! Serves one connection of an agent: reads what it wants, judges it, connects, copies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::answer::{OPENED, malformed, refused};
use super::leak::in_head;
use super::opened::{self, ByBaseUrl, Opening};
use super::relay::{Passing, relay};
use super::request::{BadHead, Head, Wanted};
use super::run::EgressRun;
use crate::clock;
use crate::model::network::{ConnectionSeen, Endpoint, NetRefusal, NetVerdict, SeenRequest};

/// How long a head may take to come.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a program may take to read a refusal.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A connection whose end is reported, however it ends.
pub(super) struct Seen {
    run: Arc<EgressRun>,
    row: ConnectionSeen,
    pub(super) up: AtomicU64,
    pub(super) down: AtomicU64,
}

impl Seen {
    pub(super) fn new(run: &Arc<EgressRun>, endpoint: Endpoint, verdict: NetVerdict) -> Self {
        let began = clock::wall();
        let (session, incarnation) = (run.session, run.incarnation);
        let row = ConnectionSeen {
            session,
            incarnation,
            endpoint,
            verdict,
            began,
            ended: began,
            up: 0,
            down: 0,
            request: None,
        };
        Self { run: Arc::clone(run), row, up: AtomicU64::new(0), down: AtomicU64::new(0) }
    }

    /// Records the request.
    pub(super) fn asked(&mut self, request: SeenRequest) {
        self.row.request = Some(request);
    }

    /// Where the connection goes.
    pub(super) const fn endpoint(&self) -> &Endpoint {
        &self.row.endpoint
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let mut row = self.row.clone();
        row.ended = clock::wall();
        (row.up, row.down) = (self.up.load(Ordering::Relaxed), self.down.load(Ordering::Relaxed));
        (self.run.hooks.seen)(row);
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(mut agent: UnixStream, run: Arc<EgressRun>) {
    let Begun { head, text, rest } = match timeout(HEAD_PATIENCE, read_head(&mut agent)).await {
        Ok(Ok(Ok(Some(begun)))) => begun,
        Ok(Ok(Err(why))) => return say(agent, &malformed(&why)).await,
        // It said nothing, or broke off.
        Ok(Ok(Ok(None)) | Err(_)) | Err(_) => return,
    };
    if head.target.starts_with('/')
        && let Some(bound) = run.bound.get().filter(|bound| bound.run.has_base_urls())
    {
        return opened::serve_by_base_url(ByBaseUrl { agent, begun: [text, rest].concat(), bound }, &run).await;
    }
    let wanted = match Wanted::of(&head) {
        Ok(wanted) => wanted,
        Err(why) => return say(agent, &malformed(&why)).await,
    };
    let (to, head_to_send) = match wanted {
        Wanted::Connect(to) => (to, None),
        Wanted::Request(to, bytes) => (to, Some(bytes)),
    };
    if let Some(bound) = run.bound.get()
        && let Some(host) = bound.host(&to)
    {
        let by_base_url = bound.base_url(&to).map(|url| NetRefusal::Request(format!("this agent reaches it by {url}")));
        let refusal = by_base_url.or_else(|| head_to_send.is_some().then_some(NetRefusal::NotTls));
        if let Some(refusal) = refusal {
            let verdict = NetVerdict::Refused(refusal);
            let words = refused(&to, &verdict);
            drop(Seen::new(&run, to, verdict));
            return say(agent, &words).await;
        }
        let (host, opener) = (Arc::clone(host), Arc::clone(&bound.opener));
        return opened::serve(Opening { agent, rest, to, host, opener }, &run).await;
    }
    if head_to_send.is_some()
        && let Err(leak) = in_head(&run.known.now(), &head)
    {
        let verdict = NetVerdict::Refused(leak);
        let words = refused(&to, &verdict);
        drop(Seen::new(&run, to, verdict));
        return say(agent, &words).await;
    }
    let (mut reached, upstream) = match reach(&run, &to).await {
        Ok(reached) => reached,
        Err(verdict) => {
            let words = refused(&to, &verdict);
            tracing::debug!(session = %run.session, %to, ?verdict, "a connection of an agent was not made");
            drop(Seen::new(&run, to, verdict));
            return say(agent, &words).await;
        }
    };
    let began = match &head_to_send {
        None => agent.write_all(OPENED).await.map(|()| Passing::of_tunnel(&to, &run.known)),
        Some(bytes) => upstream_head(&upstream, bytes, &reached.seen.up)
            .await
            .map(|()| Passing::of_request(&to, head.framing, &run.known)),
    };
    // A program that is gone needs no connection.
    let Ok(passing) = began else { return };
    let verdict = tokio::select! {
        refusal = relay(&reached.seen, agent, upstream, rest, passing) => refusal.map(NetVerdict::Refused),
        () = run.forbidden(&to, reached.private) => None,
    };
    if let Some(verdict) = verdict {
        reached.seen.row.verdict = verdict;
    }
}

/// Refuses a connection before it is served. What it wants is read, so that the refusal can be reported.
pub(super) async fn refuse(mut agent: UnixStream, run: &Arc<EgressRun>, verdict: NetVerdict) {
    let read = timeout(LAST_PATIENCE, read_head(&mut agent)).await;
    let Ok(Ok(Ok(Some(Begun { head, .. })))) = read else { return };
    if let Ok(Wanted::Connect(to) | Wanted::Request(to, _)) = Wanted::of(&head) {
        let words = refused(&to, &verdict);
        drop(Seen::new(run, to, verdict));
        say(agent, &words).await;
    }
}

/// A connection that was made.
struct Reached {
    seen: Seen,
    private: bool,
}

/// Judges an endpoint and connects to it.
async fn reach(run: &Arc<EgressRun>, to: &Endpoint) -> Result<(Reached, TcpStream), NetVerdict> {
    let allowed = run.judge(to).await?;
    let upstream = run.reach.connect(to, allowed.private).await.map_err(NetVerdict::Refused)?;
    // Small writes are not held back; without that, everything works, only slower.
    drop(upstream.set_nodelay(true));
    let seen = Seen::new(run, to.clone(), NetVerdict::Allowed(allowed.rule));
    Ok((Reached { seen, private: allowed.private }, upstream))
}

async fn upstream_head(upstream: &TcpStream, head: &[u8], counted: &AtomicU64) -> io::Result<()> {
    let mut rest = head;
    while !rest.is_empty() {
        upstream.writable().await?;
        match upstream.try_write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    counted.fetch_add(u64::try_from(head.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
    Ok(())
}

/// A connection of which the first head has come.
struct Begun {
    head: Head,
    /// The head as it came.
    text: Vec<u8>,
    /// What followed it at once.
    rest: Vec<u8>,
}

type ReadHead = Result<Option<Begun>, BadHead>;

/// Reads a head, and what followed it at once.
async fn read_head(agent: &mut UnixStream) -> io::Result<ReadHead> {
    let mut bytes = Vec::new();
    loop {
        match Head::read(&bytes) {
            Ok(Some(head)) => {
                let rest = bytes.split_off(head.length.min(bytes.len()));
                return Ok(Ok(Some(Begun { head, text: bytes, rest })));
            }
            Ok(None) => {}
            Err(why) => return Ok(Err(why)),
        }
        if agent.read_buf(&mut bytes).await? == 0 {
            return Ok(Ok(None));
        }
    }
}

/// Says something and ends. What the program still sends is read, so that it is not told of an error instead.
pub(super) async fn say(mut agent: UnixStream, words: &[u8]) {
    let said = async {
        agent.write_all(words).await?;
        agent.shutdown().await?;
        let mut rest = [0; 4096];
        while agent.read(&mut rest).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    // A program that is gone hears nothing.
    drop(timeout(LAST_PATIENCE, said).await);
}
