//! Passes a request of an agent on to a server, with the key in place of the placeholder.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, RANGE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use reqwest::{Client, StatusCode, Url};

use super::Finished;
use super::answer::{OF_A_CONNECTION, Report, named_by_connection, pass_on};
use super::body::{check_model, prepare};
use super::judge::{Allowed, judge};
use super::opened::{Leak, Place, in_address, in_header};
use super::refusal::Refusal;
use super::run::{AgentRun, Freshness};
use super::scan::Scanner;
use crate::connections::{ConnectionHandle, Priority};
use crate::model::gateway::{Api, KEY_VARIABLES, ModelCall, Operation};
use crate::model::time::Timestamp;
use crate::{clock, http};

/// How long a body may take to come.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// The clients for the servers, and where finished calls go. A client is made when it is needed: reading the system's
/// certificates would delay the daemon's start.
pub(super) struct Upstream {
    secure: OnceLock<Client>,
    /// For servers without TLS, which are on this machine or its network: not by a proxy.
    plain: OnceLock<Client>,
    finished: Finished,
}

impl Upstream {
    pub(super) const fn new(finished: Finished) -> Self {
        Self { secure: OnceLock::new(), plain: OnceLock::new(), finished }
    }

    fn client(&self, server: &Url) -> Result<&Client, Refusal> {
        let is_plain = server.scheme() != "https";
        let made = if is_plain { &self.plain } else { &self.secure };
        if let Some(client) = made.get() {
            return Ok(client);
        }
        let client = http::client(is_plain).map_err(|error| Refusal::Unreached(http::words(error)))?;
        Ok(made.get_or_init(|| client))
    }
}

/// Serves one incarnation.
pub(super) struct ModelProxy {
    pub(super) run: AgentRun,
    pub(super) upstream: Arc<Upstream>,
}

/// While it lives, its connection is not closed for another one.
struct Serving(ConnectionHandle);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.answered();
    }
}

/// A request that can be sent, also twice.
struct Outgoing {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// Answers a request.
pub(super) async fn handle(
    State(proxy): State<Arc<ModelProxy>>,
    ConnectInfo(connection): ConnectInfo<ConnectionHandle>,
    request: Request,
) -> Response<Body> {
    connection.raise(Priority::Serving);
    let path = request.uri().path();
    let api = Api::ALL.into_iter().find(|api| path.starts_with(api.base_path())).unwrap_or(Api::Anthropic);
    match proxy.pass(Serving(connection), request).await {
        Ok(answer) => answer,
        Err(refusal) => {
            let (session, incarnation) = (proxy.run.session, proxy.run.incarnation);
            tracing::debug!(%session, incarnation, agent = proxy.run.agent, why = %refusal, "a request to a model was refused");
            refusal.answer(api)
        }
    }
}

impl ModelProxy {
    async fn pass(&self, serving: Serving, request: Request) -> Result<Response<Body>, Refusal> {
        let began = clock::wall();
        let (parts, body) = request.into_parts();
        let allowed = judge(&parts, &self.run.keys)?;
        let permit = self.run.limits.begin(self.run.most)?;
        let length = length(&parts.headers)?;
        let room = self.run.limits.room(length).await?;
        let prepared = prepare(allowed.operation, read(body, length).await?)?;
        let model = allowed.model.map(str::to_owned).or(prepared.model);
        if allowed.operation != Operation::Models {
            check_model(model.as_deref(), &self.run.models)?;
        }
        let url = url(self.run.server(allowed.api).await?, &allowed);
        let headers = headers(&parts.headers);
        self.check_secrets(&allowed, &headers, &prepared.bytes)?;
        let outgoing = Outgoing { method: parts.method.clone(), url, headers, body: prepared.bytes };
        let mut report = self.report(&allowed, model, began);
        if allowed.operation.costs() {
            match self.run.turns.call().await {
                Ok(turn) => report.turn = Some(turn),
                Err(over) => {
                    (report.call.over, report.whole) = (Some(over), true);
                    return Err(Refusal::Capped(over));
                }
            }
        }
        let (response, scanner) = match self.ask(&allowed, &outgoing).await {
            Ok(answered) => answered,
            Err(Trouble { refusal, sent }) => {
                // Of a request that was not sent nothing is missing.
                report.whole = !sent;
                return Err(refusal);
            }
        };
        drop(room);
        pass_on(response, scanner, prepared.counts, report, Box::new((serving, permit)))
    }

    /// Refuses a request with a value that Hearth knows. Keys are added later.
    fn check_secrets(&self, allowed: &Allowed<'_>, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        let known = self.run.known();
        let query = || in_address(&known, allowed.query?);
        let headers = || headers.iter().find_map(|(name, value)| in_header(&known, name.as_str(), value.as_bytes()));
        let body = || known.find(body).map(|name| Leak { name: name.to_owned(), place: Place::Body });
        let Some(leak) = query().or_else(headers).or_else(body) else { return Ok(()) };
        tracing::warn!(agent = self.run.agent, secret = leak.name, place = %leak.place, "a request to a model had a secret in it");
        Err(Refusal::Leak(leak))
    }

    /// The report of a call that begins.
    fn report(&self, allowed: &Allowed<'_>, model: Option<String>, began: Timestamp) -> Report {
        let call = ModelCall {
            session: self.run.session,
            incarnation: self.run.incarnation,
            number: self.run.next_number(),
            api: allowed.api,
            operation: allowed.operation,
            model,
            status: None,
            usage: None,
            began,
            ended: began,
            complete: false,
            over: None,
        };
        Report { call, meter: None, turn: None, whole: false, finished: Arc::clone(&self.upstream.finished) }
    }

    /// Sends the request. If the server refuses the key, the key is read again: it may have been replaced meanwhile.
    async fn ask(&self, allowed: &Allowed<'_>, outgoing: &Outgoing) -> Result<(reqwest::Response, Scanner), Trouble> {
        let keys = self.keys(allowed, Freshness::Known).await?;
        let first = self.send(outgoing, &keys).await?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return Ok((first, Scanner::new(keys.values)));
        }
        let (response, values) = match self.keys(allowed, Freshness::Fresh).await {
            Ok(fresh) if fresh.values != keys.values => {
                (self.send(outgoing, &fresh).await?, [keys.values, fresh.values].concat())
            }
            Ok(_) | Err(_) => (first, keys.values),
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            let variables: Vec<&str> = allowed.keys.iter().map(|(_, variable)| *variable).collect();
            tracing::warn!(
                agent = self.run.agent,
                ?variables,
                "a model's server refuses the key of an agent; `hearth doctor` tries it"
            );
        }
        Ok((response, Scanner::new(values)))
    }

    async fn keys(&self, allowed: &Allowed<'_>, freshness: Freshness) -> Result<Keys, Refusal> {
        let mut keys = Keys { headers: HeaderMap::new(), values: Vec::new() };
        for (header, variable) in &allowed.keys {
            let (value, text) = self.run.key(*header, variable, freshness).await?;
            // The server wants no key.
            if value.is_empty() {
                continue;
            }
            keys.headers.insert(HeaderName::from_static(header.name()), text);
            keys.values.push(value);
        }
        Ok(keys)
    }

    async fn send(&self, outgoing: &Outgoing, keys: &Keys) -> Result<reqwest::Response, Trouble> {
        let mut headers = outgoing.headers.clone();
        headers.extend(keys.headers.clone());
        let client = self.upstream.client(&outgoing.url)?;
        let request = client.request(outgoing.method.clone(), outgoing.url.clone()).headers(headers);
        let sent = request.body(outgoing.body.clone()).send().await;
        sent.map_err(|error| Trouble { sent: !error.is_connect(), refusal: Refusal::Unreached(http::unreached(error)) })
    }
}

/// Values of keys, and the headers with them.
struct Keys {
    headers: HeaderMap,
    values: Vec<Vec<u8>>,
}

/// Why there is no answer.
struct Trouble {
    refusal: Refusal,
    /// Whether the server may have received the request.
    sent: bool,
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, sent: false }
    }
}

/// The length of the body. Requests without one have none.
fn length(headers: &HeaderMap) -> Result<usize, Refusal> {
    let Some(length) = headers.get(CONTENT_LENGTH) else { return Ok(0) };
    let length = length.to_str().ok().and_then(|text| text.parse().ok());
    length.ok_or(Refusal::Form("the length of the body is no number"))
}

async fn read(body: Body, length: usize) -> Result<Bytes, Refusal> {
    let read = tokio::time::timeout(BODY_PATIENCE, axum::body::to_bytes(body, length)).await;
    read.map_err(|_| Refusal::Late)?.map_err(|_| Refusal::Form("the body is shorter than its length"))
}

/// The address of the request at the server.
fn url(mut server: Url, allowed: &Allowed<'_>) -> Url {
    let path = format!("{}{}", server.path().trim_end_matches('/'), allowed.path);
    server.set_path(&path);
    server.set_query(allowed.query);
    server
}

/// The headers that are passed on; the keys are added later.
fn headers(of_agent: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(of_agent);
    let dropped = |name: &HeaderName| {
        OF_A_CONNECTION.contains(&name.as_str())
            || [HOST, CONTENT_LENGTH, ACCEPT_ENCODING, EXPECT, RANGE].contains(name)
            || KEY_VARIABLES.iter().any(|key| key.header.name() == name.as_str())
            || named.contains(name)
    };
    let kept = of_agent.iter().filter(|(name, _)| !dropped(name));
    let mut headers: HeaderMap = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}
