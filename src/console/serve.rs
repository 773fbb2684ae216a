//! From a request to its answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::Markup;

use super::form::{Form, decode, segment};
use super::multipart::{self, UploadedFile};
use super::secured::Peer;
use super::sign_in::Unknown;
use super::site::{Cookie, Site};
use super::upload::{Upload, Uploads};
use super::view::Topic;
use super::{
    Download, Host, NewMessage, Seen, TokenAge, Trouble, Views, Visitor, deed, guard, lookup, pages, stream, token,
};
use crate::connections::Priority;
use crate::model::card::{Button, PromptSubject};
use crate::model::id::ConsoleSessionId;

/// Longest form of a browser without a session.
const SIGN_IN_MAX: usize = 4 * 1_024;
/// Longest form. A message has at most 256 KiB, and each byte may take three.
pub(super) const FORM_MAX: usize = 800 * 1_024;
/// Time to receive a form.
pub(super) const READING: Duration = Duration::from_secs(50);
/// Results of forms that are kept until the next page shows them.
const NOTES_MAX: usize = 256;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

pub(super) struct Console {
    pub(super) site: Site,
    pub(super) host: Arc<dyn Host>,
    views: Arc<dyn Views>,
    /// Results of forms, for the next page of a session.
    notes: Mutex<HashMap<ConsoleSessionId, String>>,
    pub(super) uploads: Uploads,
}

pub(super) fn router(site: Site, host: Arc<dyn Host>, views: Arc<dyn Views>) -> Router {
    let console = Arc::new(Console { site, host, views, notes: Mutex::default(), uploads: Uploads::default() });
    Router::new().fallback(answer).with_state(console)
}

async fn answer(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let mut response = console.respond(&peer, request).await;
    guard::protect(response.headers_mut());
    response
}

/// A page, or where to go next.
enum Next {
    Page(Markup),
    Go(String),
    File(Download),
}

/// What a visitor asks for.
pub(super) struct Asked {
    pub(super) is_post: bool,
    pub(super) path: String,
    pub(super) form: Form,
    pub(super) files: Vec<UploadedFile>,
}

pub(super) const OUT_OF_DATE: &str =
    "This form is out of date, so nothing was done. Go back, load the page again, and repeat.";

impl Console {
    async fn respond(self: &Arc<Self>, peer: &Peer, request: Request) -> Response {
        let Peer { connection, address } = peer;
        let (parts, body) = request.into_parts();
        if let Err(refused) = guard::check(&self.site, &parts.method, &parts.uri, &parts.headers) {
            let (status, words) = refused.answer();
            return (status, words).into_response();
        }
        let is_post = parts.method == Method::POST;
        let path = parts.uri.path().to_owned();
        match (is_post, path.as_str()) {
            (false, "/style.css") => return ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response(),
            (false, "/icon.svg") => return ([(CONTENT_TYPE, "image/svg+xml")], ICON).into_response(),
            (false, "/console.js") => {
                return ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response();
            }
            _ => {}
        }
        let request = Unknown { is_post, path: &path, headers: &parts.headers, address: *address };
        if request.is_sign_in() {
            return match read_form(&parts, body, SIGN_IN_MAX).await {
                Ok(form) => self.sign_in_page(request, form).await,
                Err((status, words)) => (status, words).into_response(),
            };
        }
        // Whose request it is comes first: only people who signed in send much.
        let visitor = match self.visitor(&parts.headers).await {
            Ok(Some(visitor)) => visitor,
            Ok(None) => return self.signed_out(StatusCode::UNAUTHORIZED),
            Err(trouble) => return failed(None, &trouble),
        };
        connection.raise(Priority::Authenticated);
        if !is_post && path == "/events" {
            return match guard::is_same_site(&parts.headers) {
                true => stream::open(Arc::clone(&self.host), visitor.digest),
                false => StatusCode::FORBIDDEN.into_response(),
            };
        }
        let boundary =
            content_type(&parts.headers).and_then(multipart::boundary).filter(|_| path.starts_with("/chat/"));
        if let (true, Some(boundary)) = (is_post, boundary) {
            return self.upload(visitor, &parts.headers, body, Upload { boundary, path: &path }).await;
        }
        let form = match read_form(&parts, body, FORM_MAX).await {
            Ok(form) => form,
            Err((status, words)) => return (status, words).into_response(),
        };
        if is_post && !is_own(&visitor, form.get("token")) {
            return failed(Some(&visitor), &Trouble::Forbidden(OUT_OF_DATE.to_owned()));
        }
        let fresh = self.rotate(&visitor, is_post).await;
        let request = Asked { is_post, path, form, files: Vec::new() };
        let mut response = self.page(visitor, request).await;
        if let Some(cookie) = fresh {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }

    /// Whose request it is.
    async fn visitor(self: &Arc<Self>, headers: &HeaderMap) -> Seen<Option<Visitor>> {
        let Some(token) = guard::cookie(&self.site, Cookie::Session, headers) else { return Ok(None) };
        let digest = token::digest(token);
        let console = Arc::clone(self);
        blocking(move || {
            let visitor = console.host.visitor(digest)?;
            if let Some(visitor) = visitor.as_ref().filter(|visitor| visitor.token == TokenAge::Fresh)
                && let Err(trouble) = console.host.confirm(visitor.session)
            {
                // Until that is done, the token before it works as well.
                tracing::warn!(session = %visitor.session, ?trouble, "the use of a new token of the console is not recorded");
            }
            Ok(visitor)
        })
        .await
    }

    /// Replaces the token, if it is old enough. A page that fails to do so is shown all the same.
    async fn rotate(self: &Arc<Self>, visitor: &Visitor, is_post: bool) -> Option<HeaderValue> {
        if is_post || visitor.token != TokenAge::Due {
            return None;
        }
        let (console, session) = (Arc::clone(self), visitor.session);
        let from = visitor.digest;
        let made = blocking(move || {
            let new = token::new_token().map_err(|error| Trouble::Failed(error.to_string()))?;
            Ok(console.host.rotate(session, from, token::digest(&new))?.then_some(new))
        })
        .await;
        guard::set_cookie(&self.site, Cookie::Session, Some(made.ok().flatten()?.as_str()))
    }

    pub(super) async fn page(self: &Arc<Self>, visitor: Visitor, request: Asked) -> Response {
        let (console, who) = (Arc::clone(self), visitor.clone());
        let next = blocking(move || match request.is_post {
            true => console.act(&who, request),
            false => console.show(&who, &request.path, &request.form),
        })
        .await;
        match next {
            Ok(Next::Page(markup)) => page(StatusCode::OK, markup),
            Ok(Next::Go(to)) if to == "/signed-out" => {
                let mut response = self.signed_out(StatusCode::OK);
                response
                    .headers_mut()
                    .extend(guard::set_cookie(&self.site, Cookie::Session, None).map(|it| (SET_COOKIE, it)));
                response
            }
            Ok(Next::Go(to)) => go(&to),
            Ok(Next::File(file)) => download(file),
            Err(trouble) => failed(Some(&visitor), &trouble),
        }
    }

    /// Draws the page of a path.
    fn show(&self, who: &Visitor, path: &str, query: &Form) -> Seen<Next> {
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let (first, rest) = (parts.next().unwrap_or_default(), parts.next().map(|rest| decode(rest.as_bytes())));
        // A page that updates itself leaves the text to the page that the person is sent to.
        let is_update = query.get("update") == "1";
        let note = if is_update { None } else { self.note(who) };
        let frame = |title, body| Next::Page(pages::frame(who, title, note, &body));
        if let Some((title, body)) = lookup::show(&*self.views, who, first, rest.as_deref(), query)? {
            return Ok(frame(title, body));
        }
        Ok(match (first, rest) {
            ("", None) => frame("Home", pages::home::page(who, &self.views.home(who)?)),
            ("asked", None) => frame("Decisions", pages::asked::page(who, &self.views.asked(who)?)),
            ("asked", Some(id)) => {
                let id: PromptSubject = id.parse().map_err(|_| unknown())?;
                frame("Decision", pages::asked::one(who, &self.views.prompt(who, id)?))
            }
            ("chat", Some(agent)) => {
                let form = token::new_token().map_err(|error| Trouble::Failed(error.to_string()))?;
                frame("Chat", pages::chat::page(who, &self.views.chat(who, &agent, Some(query.get("at")))?, &form))
            }
            ("agents", Some(folder)) => {
                frame("Agent", pages::topic::agent(who, &folder, &self.views.agent(who, &folder)?))
            }
            ("file", Some(place)) => {
                let mut parts = place.splitn(3, '/');
                let agent = parts.next().unwrap_or_default();
                let answer = parts.next().and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
                let at = parts.next().and_then(|at| at.parse().ok()).ok_or_else(unknown)?;
                Next::File(self.views.file(who, agent, answer, at)?)
            }
            ("why", None) => match query.get("id").trim() {
                "" => frame("Why", pages::why::search()),
                id => Next::Go(format!("/why/{}", segment(id))),
            },
            ("why", Some(id)) => frame("Why", pages::why::page(&self.views.why(who, &id)?)),
            (first, None) => {
                let topic = Topic::ALL.iter().copied().find(|topic| topic.path() == first).ok_or_else(unknown)?;
                frame(topic.title(), pages::topic::page(who, topic, &self.views.topic(who, topic)?))
            }
            _ => return Err(unknown()),
        })
    }

    /// Does what a form asks for.
    fn act(&self, who: &Visitor, request: Asked) -> Seen<Next> {
        let Asked { path, form, files, .. } = request;
        let form = &form;
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let (first, rest) = (parts.next().unwrap_or_default(), parts.next().map(|rest| decode(rest.as_bytes())));
        if let Some((said, to)) = lookup::act(&*self.host, who, first, rest.as_deref(), form)? {
            self.tell(who, said);
            return Ok(Next::Go(to));
        }
        match (first, rest) {
            ("sign-out", None) => {
                self.host.sign_out(who.session)?;
                Ok(Next::Go("/signed-out".to_owned()))
            }
            ("decide", None) => {
                let matter: PromptSubject = form.get("id").parse().map_err(|_| unknown())?;
                let (value, text) = (form.get("value"), form.get("text").trim());
                let value = if text.is_empty() { value.to_owned() } else { format!("{value}:{text}") };
                let said = self.host.decide(who, matter, &value)?;
                self.tell(who, format!("{matter}: {said}"));
                Ok(Next::Go("/asked".to_owned()))
            }
            ("chat", Some(agent)) => {
                let to = format!("/chat/{}", segment(&agent));
                let (id, text) = (form.get("id").to_owned(), form.get("text").replace("\r\n", "\n"));
                if text.trim().is_empty() && files.is_empty() {
                    return Ok(Next::Go(to));
                }
                if !token::is_token(&id) {
                    return Err(Trouble::Refused("This form has no id: load the page again, and repeat.".to_owned()));
                }
                if let Some(answer) = self.host.say(who, NewMessage { agent, id, text, files })? {
                    self.tell(who, answer);
                }
                Ok(Next::Go(to))
            }
            ("do", None) => {
                let (command, topic) = deed::read(form).map_err(Trouble::Refused)?;
                let done = self.host.command(who, command)?;
                self.tell(who, done);
                Ok(Next::Go(format!("/{}", topic.path())))
            }
            ("doctor", None) => {
                self.views.examine(who)?;
                Ok(Next::Go(format!("/{}", Topic::Health.path())))
            }
            ("press", Some(agent)) => {
                let button = Button::parse(form.get("button")).ok_or_else(unknown)?;
                let said = self.host.press(who, &agent, button)?;
                self.tell(who, said);
                Ok(Next::Go(format!("/chat/{}", segment(&agent))))
            }
            _ => Err(unknown()),
        }
    }

    /// Keeps a text for the next page of a session.
    fn tell(&self, who: &Visitor, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= NOTES_MAX {
            notes.clear();
        }
        notes.insert(who.session, text);
    }

    fn note(&self, who: &Visitor) -> Option<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).remove(&who.session)
    }
}

fn unknown() -> Trouble {
    Trouble::NotFound("This page does not exist, or you may not see it.".to_owned())
}

/// Reads the store or waits for the engine, which both may block.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Seen<T> + Send + 'static) -> Seen<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Trouble::Failed(error.to_string())),
    }
}

/// Whether a form comes from a page of this session.
pub(super) fn is_own(visitor: &Visitor, sent: &str) -> bool {
    token::same(sent, &token::of_forms(visitor.seed))
}

/// The form of a request, or the query of its address.
async fn read_form(parts: &Parts, body: Body, most: usize) -> Result<Form, (StatusCode, &'static str)> {
    if parts.method != Method::POST {
        return Ok(Form::read(parts.uri.query().unwrap_or_default().as_bytes()));
    }
    let headers = &parts.headers;
    let is_form = content_type(headers).is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if !is_form {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Only forms are accepted here."));
    }
    Ok(Form::read(&read_body(headers, body, most).await?))
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE)?.to_str().ok()
}

/// The length of a body, if the browser says it.
pub(super) fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_body(headers: &HeaderMap, body: Body, most: usize) -> Result<Bytes, (StatusCode, &'static str)> {
    let too_long = (StatusCode::PAYLOAD_TOO_LARGE, "This form is too long.");
    if length(headers).is_some_and(|length| length > most) {
        return Err(too_long);
    }
    match tokio::time::timeout(READING, axum::body::to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(too_long),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "This form took too long to arrive.")),
    }
}

pub(super) fn page(status: StatusCode, markup: Markup) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], markup.into_string()).into_response()
}

/// A file, which the browser keeps and does not show.
fn download(file: Download) -> Response {
    let disposition = format!("attachment; filename*=UTF-8''{}", segment(&file.name));
    let Ok(disposition) = HeaderValue::from_str(&disposition) else { return StatusCode::NOT_FOUND.into_response() };
    let kind = HeaderValue::from_static("application/octet-stream");
    let head = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, disposition), (CONTENT_LENGTH, file.length.into())];
    (head, stream::file(file.file, file.length)).into_response()
}

pub(super) fn go(to: &str) -> Response {
    match HeaderValue::from_str(to) {
        Ok(to) => (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response(),
        Err(_) => StatusCode::SEE_OTHER.into_response(),
    }
}

pub(super) fn failed(who: Option<&Visitor>, trouble: &Trouble) -> Response {
    let (status, words) = match trouble {
        Trouble::NotFound(words) => (StatusCode::NOT_FOUND, words),
        Trouble::Forbidden(words) => (StatusCode::FORBIDDEN, words),
        Trouble::Refused(words) => (StatusCode::CONFLICT, words),
        Trouble::TooMany(words) => (StatusCode::TOO_MANY_REQUESTS, words),
        Trouble::Failed(words) => (StatusCode::SERVICE_UNAVAILABLE, words),
    };
    page(status, pages::trouble(who, words))
}
