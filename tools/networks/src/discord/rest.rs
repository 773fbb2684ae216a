//! Requests to Discord as the bot: outcomes, limits, and an end when the token is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::run::{failed, spawn};
use hearth_bridge::program::{FrameWriter, now};
use serde_json::Value;

use super::limits::{Limits, Route, Told};
use super::settings::Settings;
use crate::web::{Answer, Ask, Content, Method, NoAnswer, ORDINARY, Web};

/// Longest pause that is waited for here; longer ones are left to the caller.
const PAUSE: Duration = Duration::from_millis(2_500);
/// How often a request is sent that is refused because of a limit.
const TRIES: u32 = 4;
/// How long outcomes have to leave before the daemon is told that the token is refused.
const LAST: Duration = Duration::from_millis(300);

/// Why there is no answer, or not the wanted one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have been carried out.
    #[error("{0}")]
    Lost(String),
    /// Discord asks for a pause. Nothing was done.
    #[error("Discord asks for a pause of {} s", .0.as_secs())]
    Paused(Duration),
    /// The token is refused. Nothing is asked any more.
    #[error("Discord does not accept the token")]
    Token,
    #[error("Discord refuses: {why} ({status}, code {code})")]
    Refused {
        status: u16,
        /// Discord's number for the reason; 0 if there is none.
        code: u64,
        why: String,
    },
}

impl Trouble {
    /// Whether the same can succeed later.
    pub(crate) const fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Lost(_) | Self::Paused(_))
    }
}

impl From<NoAnswer> for Trouble {
    fn from(no: NoAnswer) -> Self {
        let why = no.to_string();
        match no {
            NoAnswer::Unreachable(_) => Self::Unreachable(why),
            NoAnswer::Lost(_) => Self::Lost(why),
        }
    }
}

pub(crate) struct Request {
    pub(crate) method: Method,
    /// Below the address of the API.
    pub(crate) path: String,
    pub(crate) route: Route,
    pub(crate) within: Duration,
}

impl Request {
    /// `kind` and `about` say which requests share a limit.
    pub(crate) fn new(method: Method, path: String, kind: &'static str, about: &str) -> Self {
        Self { method, path, route: Route { kind, about: about.to_owned() }, within: ORDINARY }
    }
}

/// Discord, as the bot.
#[derive(Clone)]
pub(crate) struct Rest {
    pub(crate) web: Web,
    base: String,
    authorization: String,
    limits: Arc<Mutex<Limits>>,
    is_stopped: Arc<AtomicBool>,
    writer: FrameWriter,
}

impl Rest {
    pub(crate) fn new(settings: &Settings, writer: FrameWriter) -> Self {
        Self {
            web: Web::new(&format!("DiscordBot (hearth, {})", env!("CARGO_PKG_VERSION"))),
            base: format!("{}/api/v10", settings.server),
            authorization: format!("Bot {}", settings.token),
            limits: Arc::new(Mutex::new(Limits::new(now()))),
            is_stopped: Arc::default(),
            writer,
        }
    }

    /// Whether an address is one where files of messages are: secure, or on the machine where a server for tests is.
    pub(crate) fn is_file(&self, url: &str) -> bool {
        let is_here = self.base.starts_with("http://") && url.starts_with("http://127.0.0.1:");
        url.starts_with("https://") || is_here
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, path: String, kind: &'static str, about: &str) -> Result<Value, Trouble> {
        self.ask(&Request::new(Method::GET, path, kind, about), || Ok(Content::Nothing))
    }

    /// Asks, and again after short pauses. The content is made anew each time.
    pub(crate) fn ask<'a>(
        &self,
        request: &Request,
        content: impl Fn() -> Result<Content<'a>, Trouble>,
    ) -> Result<Value, Trouble> {
        let mut tries = 0;
        loop {
            let wait = self.limits().wait(&request.route, now());
            if !wait.is_zero() {
                if wait > PAUSE {
                    return Err(Trouble::Paused(wait));
                }
                sleep(wait);
                continue;
            }
            tries += 1;
            match self.ask_once(request, content()?) {
                Err(Trouble::Paused(pause)) if pause <= PAUSE && tries < TRIES => sleep(pause),
                other => return other,
            }
        }
    }

    fn ask_once(&self, request: &Request, content: Content<'_>) -> Result<Value, Trouble> {
        if self.is_stopped.load(Ordering::SeqCst) {
            return Err(Trouble::Token);
        }
        let url = format!("{}/{}", self.base, request.path);
        // The address of an interaction has a token of its own.
        let is_open = request.path.starts_with("interactions/") || request.path.starts_with("webhooks/");
        let authorization = Some(self.authorization.as_str()).filter(|_| !is_open);
        let (method, within) = (request.method.clone(), request.within);
        let answer = self.web.ask(Ask { method, url: &url, authorization, content, within })?;
        self.limits().learn(&request.route, told(&answer), now());
        if answer.is_success() {
            return Ok(answer.json()?);
        }
        Err(self.trouble(&request.route, &answer, is_open))
    }

    /// What an answer that is no success means.
    fn trouble(&self, route: &Route, answer: &Answer, is_open: bool) -> Trouble {
        let said = answer.json().unwrap_or(Value::Null);
        if matches!(answer.status, 401 | 403 | 429) {
            self.limits().refused(now());
        }
        if answer.status == 429 {
            let header = || answer.header("retry-after").and_then(|seconds| seconds.parse().ok());
            let named = said.get("retry_after").and_then(Value::as_f64).or_else(header);
            // A page instead of JSON comes from a gateway before Discord, and means everything.
            let is_for_all = said.get("global") == Some(&Value::Bool(true)) || !said.is_object();
            return Trouble::Paused(self.limits().pause(route, named, is_for_all, now()));
        }
        if answer.status == 401 && !is_open {
            self.stop("Discord does not accept the token; set `token` to the one of the bot".to_owned());
            return Trouble::Token;
        }
        let why = said.get("message").and_then(Value::as_str).unwrap_or("it gives no reason");
        let why: String = why.chars().take(300).collect();
        if answer.status >= 500 {
            return Trouble::Lost(format!("Discord has a fault: {} {why}", answer.status));
        }
        let code = said.get("code").and_then(Value::as_u64).unwrap_or_default();
        Trouble::Refused { status: answer.status, code, why }
    }

    /// Asks nothing any more, and tells the daemon, after what is under way has told how it ended.
    pub(crate) fn stop(&self, why: String) {
        if self.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        let writer = self.writer.clone();
        let tell = move || {
            sleep(LAST);
            // The daemon may be gone.
            drop(writer.send(&failed(why, None)));
        };
        // Without a thread, the state says what is wrong.
        drop(spawn("stop", tell));
    }
}

fn told(answer: &Answer) -> Told {
    let number =
        |name: &str| answer.header(name)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    Told {
        bucket: answer.header("x-ratelimit-bucket").map(str::to_owned),
        remaining: answer.header("x-ratelimit-remaining").and_then(|count| count.parse().ok()),
        reset_after: number("x-ratelimit-reset-after").map(|seconds| Duration::from_secs_f64(seconds.min(86_400.0))),
    }
}
