//! Connections to hosts with bound secrets: not copied, but opened.

use std::io::Cursor;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::answer::{OPENED, refused};
use super::run::{Allowed, EgressRun};
use super::serve::{Seen, say};
use crate::gateway::opened::{BoundRun, Dial, OpenedHost, Opener, RequestSeen};
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
    let (reader, writer) = agent.into_split();
    let stream = tokio::io::join(Cursor::new(rest).chain(reader), writer);
    let served = tokio::select! {
        served = opener.serve(stream, &host, dial, seen) => served,
        () = run.forbidden(&to, private) => Ok(()),
    };
    if let Err(error) = served {
        drop(Seen::new(run, to, NetVerdict::Refused(NetRefusal::Request(error.to_string()))));
    }
}

/// Why a request did not pass.
fn verdict(request: &RequestSeen) -> Option<NetRefusal> {
    match (&request.leak, &request.refused) {
        (Some(leak), _) => Some(NetRefusal::Leak { secret: leak.name.clone(), place: leak.place.to_string() }),
        (None, Some(words)) => Some(NetRefusal::Request(words.clone())),
        (None, None) => None,
    }
}
