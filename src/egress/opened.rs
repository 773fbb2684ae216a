//! Connections to hosts with bound secrets: not copied, but opened.

use std::io::Cursor;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::answer::{OPENED, malformed, refused};
use super::request::BadHead;
use super::run::{Allowed, EgressRun};
use super::serve::{Seen, say};
use crate::gateway::opened::{BoundRun, Dial, Finding, Forbidden, OpenedHost, Opener, RequestSeen, Way};
use crate::model::bound_secret::SecretHost;
use crate::model::network::{Endpoint, Host, HostRule, NetRefusal, NetVerdict, SeenRequest};

/// The bound secrets of an incarnation.
pub(super) struct Bound {
    pub(super) opener: Arc<Opener>,
    pub(super) run: BoundRun,
}

impl Bound {
    /// The host, if a secret is bound to it.
    pub(super) fn host(&self, to: &Endpoint) -> Option<&Arc<OpenedHost>> {
        let Host::Name(name) = &to.host else { return None };
        self.run.host(&SecretHost { name: name.clone(), port: to.port })
    }

    /// The base URL by which the host is reached.
    pub(super) fn base_url(&self, to: &Endpoint) -> Option<String> {
        let Host::Name(name) = &to.host else { return None };
        self.run.base_url(&SecretHost { name: name.clone(), port: to.port })
    }

    /// The rule for the host, if a secret is bound to it.
    pub(super) fn rule(&self, to: &Endpoint) -> Option<HostRule> {
        self.host(to).map(|_| HostRule::exactly(to.clone()))
    }
}

/// A connection to such a host.
pub(super) struct Opening {
    pub(super) agent: UnixStream,
    /// What the program has sent already.
    pub(super) rest: Vec<u8>,
    pub(super) to: Endpoint,
    pub(super) host: Arc<OpenedHost>,
    pub(super) opener: Arc<Opener>,
}

/// Serves a connection to such a host until it ends, or until the policy forbids it. Each request is a row.
pub(super) async fn serve(opening: Opening, run: &Arc<EgressRun>) {
    let Opening { mut agent, rest, to, host, opener } = opening;
    let Allowed { rule, private } = match run.judge(&to).await {
        Ok(allowed) => allowed,
        Err(verdict) => {
            let words = refused(&to, &verdict);
            drop(Seen::new(run, to, verdict));
            return say(agent, &words).await;
        }
    };
    // A program that is gone needs no connection.
    if agent.write_all(OPENED).await.is_err() {
        return;
    }
    let way = way(run, &to, &host, Allowed { rule, private });
    let (dial, seen, forbidden) = (way.dial, way.seen, (way.forbidden)());
    let (reader, writer) = agent.into_split();
    let stream = tokio::io::join(Cursor::new(rest).chain(reader), writer);
    let served = tokio::select! {
        served = opener.serve(stream, &host, dial, seen) => served,
        () = forbidden => Ok(()),
    };
    if let Err(error) = served {
        drop(Seen::new(run, to, NetVerdict::Refused(NetRefusal::Request(error.to_string()))));
    }
}

/// A connection to the base URLs of an agent.
pub(super) struct ByBaseUrl<'a> {
    pub(super) agent: UnixStream,
    /// What the program has sent already.
    pub(super) begun: Vec<u8>,
    pub(super) bound: &'a Bound,
}

/// Serves such a connection until it ends. Each request is judged, and is a row.
pub(super) async fn serve_by_base_url(connection: ByBaseUrl<'_>, run: &Arc<EgressRun>) {
    let ByBaseUrl { agent, begun, bound } = connection;
    let find: Finding<'_> = Box::new(|secret| {
        Box::pin(async move {
            let (to, host) = bound.run.at_base_url(&secret).ok_or_else(|| malformed(&BadHead::NoBaseUrl))?;
            match run.judge(&to).await {
                Ok(allowed) => Ok(way(run, &to, host, allowed)),
                Err(verdict) => {
                    let words = refused(&to, &verdict);
                    drop(Seen::new(run, to, verdict));
                    Err(words)
                }
            }
        })
    });
    let (reader, writer) = agent.into_split();
    let stream = tokio::io::join(Cursor::new(begun).chain(reader), writer);
    if let Err(error) = bound.opener.serve_by_base_url(stream, find).await {
        tracing::warn!(session = %run.session, %error, "an agent does not reach the host of a secret by its base URL");
    }
}

/// The way of requests to a host that was judged.
fn way(run: &Arc<EgressRun>, to: &Endpoint, host: &Arc<OpenedHost>, allowed: Allowed) -> Way {
    let Allowed { rule, private } = allowed;
    let dial: Dial = {
        let (reach, to) = (run.reach.clone(), to.clone());
        Arc::new(move || {
            let (reach, to) = (reach.clone(), to.clone());
            Box::pin(async move { reach.connect(&to, private).await.map_err(|why| why.to_string()) })
        })
    };
    let seen = {
        let (run, to) = (Arc::clone(run), to.clone());
        Arc::new(move |request: RequestSeen| {
            let verdict = verdict(&request).map_or_else(|| NetVerdict::Allowed(rule.clone()), NetVerdict::Refused);
            let mut row = Seen::new(&run, to.clone(), verdict);
            let RequestSeen { method, path, .. } = request;
            row.asked(SeenRequest { method, path });
        })
    };
    let forbidden: Forbidden = {
        let (run, to) = (Arc::clone(run), to.clone());
        Arc::new(move || {
            let (run, to) = (Arc::clone(&run), to.clone());
            Box::pin(async move { run.forbidden(&to, private).await })
        })
    };
    Way { host: Arc::clone(host), dial, seen, forbidden }
}

/// Why a request did not pass.
fn verdict(request: &RequestSeen) -> Option<NetRefusal> {
    match (&request.leak, &request.refused) {
        (Some(leak), _) => Some(NetRefusal::Leak { secret: leak.name.clone(), place: leak.place.to_string() }),
        (None, Some(words)) => Some(NetRefusal::Request(words.clone())),
        (None, None) => None,
    }
}
