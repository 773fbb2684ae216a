//! The gateway: one connection over which Discord tells what happens. A session that breaks goes on where it was; if that
//! is not possible any more, a new one begins, and the inbox asks for what was missed.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{log, now};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::budget::Budget;
use super::news::{News, What};
use super::places::Session;
use super::presses::Press;
use super::rest::{Rest, Trouble};
use super::settings::Settings;
use crate::websocket::{Broken, Incoming, Socket};

/// How long the first words of the server are waited for.
const HELLO: Duration = Duration::from_secs(20);
/// Waits before the gateway is tried again.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(60);
/// Shorter pauses are no trouble.
const NOTABLE: Duration = Duration::from_secs(10);
/// Bounds of the time between two heartbeats.
const BEAT_MIN: Duration = Duration::from_millis(100);
const BEAT_MAX: Duration = Duration::from_secs(120);
/// Frames in a minute; Discord allows 120.
const FRAMES: usize = 110;
const MINUTE: Duration = Duration::from_secs(60);
/// Connections in vain after which a session is given up.
const VAIN: u32 = 3;
/// Ends a connection and not its session.
const GO_ON: u16 = 4_000;

const GUILDS: u64 = 1;
const GUILD_MESSAGES: u64 = 1 << 9;
const DIRECT_MESSAGES: u64 = 1 << 12;
const MESSAGE_CONTENT: u64 = 1 << 15;

/// What the gateway is to tell of.
pub(crate) const fn intents(settings: &Settings) -> u64 {
    let content = if settings.reads_all { MESSAGE_CONTENT } else { 0 };
    GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | content
}

/// Why a connection ended.
#[derive(Debug)]
enum Over {
    /// The session goes on over another connection.
    GoOn(String),
    /// A new session has to begin.
    Anew(String),
    /// The inbox has to catch up first with what came.
    Full(Box<News>),
    /// It cannot work until something is changed.
    Final(String),
    /// Discord wants nothing for so long.
    Later(Duration, String),
    /// The main loop ended.
    Ended,
}

impl From<Broken> for Over {
    fn from(broken: Broken) -> Self {
        Self::GoOn(broken.to_string())
    }
}

impl From<Trouble> for Over {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Token => Self::Ended,
            Trouble::Paused(pause) => Self::Later(pause, trouble.to_string()),
            _ => Self::GoOn(trouble.to_string()),
        }
    }
}

/// What the server sends.
#[derive(Deserialize)]
struct Frame<'a> {
    op: u64,
    #[serde(default, borrow)]
    d: Option<&'a RawValue>,
    #[serde(default)]
    s: Option<u64>,
    #[serde(default)]
    t: Option<String>,
}

#[derive(Deserialize)]
struct Hello {
    heartbeat_interval: u64,
}

#[derive(Deserialize)]
struct Ready {
    session_id: String,
    resume_gateway_url: String,
}

pub(crate) struct Gateway {
    pub(crate) rest: Rest,
    pub(crate) settings: Settings,
    pub(crate) state: State,
    pub(crate) news: SyncSender<News>,
    pub(crate) presses: SyncSender<Press>,
    pub(crate) session: Option<Session>,
    pub(crate) budget: Budget,
    /// Told when it works for the first time.
    pub(crate) works: Option<Sender<()>>,
    /// Connections since the last one that worked.
    pub(crate) vain: u32,
}

/// A connection and its heartbeat.
struct Line {
    socket: Socket,
    interval: Duration,
    due: Duration,
    is_answered: bool,
    sent: VecDeque<Duration>,
}

impl Gateway {
    /// Reads until the main loop ends.
    pub(crate) fn work(mut self) {
        let mut wait = RECONNECT_FIRST;
        loop {
            let began = now();
            let over = self.connection();
            if self.vain == 0 {
                wait = RECONNECT_FIRST;
            }
            self.vain += 1;
            let why = match over {
                Over::Ended => return,
                Over::Full(news) => {
                    if self.news.send(*news).is_err() {
                        return;
                    }
                    continue;
                }
                Over::Final(why) => return self.rest.stop(why),
                Over::Later(pause, why) => {
                    if pause > NOTABLE {
                        self.state.fails(Side::Inbox, why);
                    }
                    sleep(pause);
                    continue;
                }
                Over::Anew(why) => {
                    self.session = None;
                    why
                }
                Over::GoOn(why) => why,
            };
            if self.vain >= VAIN && self.session.take().is_some() {
                log(&format!("the session of the gateway cannot go on ({why}): a new one begins"));
            }
            // A connection that worked is replaced at once; otherwise people should know.
            if self.vain <= 1 {
                sleep(RECONNECT_FIRST.saturating_sub(now().saturating_sub(began)));
            } else {
                self.state.fails(Side::Inbox, format!("the gateway: {why}"));
                sleep(wait);
                wait = (wait * 2).min(RECONNECT_MAX);
            }
        }
    }

    fn connection(&mut self) -> Over {
        match self.open() {
            Ok(mut line) => match self.read(&mut line) {
                Ok(never) => match never {},
                Err(over) => {
                    line.socket.close(GO_ON);
                    over
                }
            },
            Err(over) => over,
        }
    }

    fn open(&mut self) -> Result<Line, Over> {
        let url = match &self.session {
            Some(session) => session.url.clone(),
            None => self.address()?,
        };
        if !self.settings.is_gateway(&url) {
            return Err(Over::Anew("Discord names an address that is none of its gateway".to_owned()));
        }
        let mut socket = Socket::open(&format!("{}/?v=10&encoding=json", url.trim_end_matches('/')))?;
        let until = now() + HELLO;
        let hello = loop {
            match socket.read(until.saturating_sub(now()))? {
                Incoming::Text(text) => break text,
                Incoming::Silence if now() >= until => return Err(Over::GoOn("it says nothing".to_owned())),
                Incoming::Silence | Incoming::Sign => {}
                Incoming::Closed { code, why } => return Err(closed(code, &why)),
            }
        };
        let odd = || Over::GoOn("it begins with something else than a greeting".to_owned());
        let frame: Frame<'_> = serde_json::from_str(&hello).map_err(|_| odd())?;
        let content = frame.d.filter(|_| frame.op == 10).ok_or_else(odd)?;
        let Hello { heartbeat_interval } = serde_json::from_str(content.get()).map_err(|_| odd())?;
        let interval = Duration::from_millis(heartbeat_interval).clamp(BEAT_MIN, BEAT_MAX);
        // The first one comes at any moment of it, so that not all programs come at once.
        let due = now() + interval * (now().subsec_micros() % 1_000) / 1_000;
        let mut line = Line { socket, interval, due, is_answered: true, sent: VecDeque::new() };
        self.introduce(&mut line)?;
        Ok(line)
    }

    /// The address for a new session, if one may begin.
    fn address(&mut self) -> Result<String, Over> {
        let found = self.rest.get("gateway/bot".to_owned(), "gateway", "")?;
        let left = found.pointer("/session_start_limit/remaining").and_then(Value::as_u64);
        if left == Some(0) {
            let after = found.pointer("/session_start_limit/reset_after").and_then(Value::as_u64).unwrap_or(3_600_000);
            let pause = Duration::from_millis(after.min(86_400_000));
            return Err(Over::Later(pause, "Discord allows the bot no more sessions for now".to_owned()));
        }
        if let Some(pause) = self.budget.wait() {
            return Err(Over::Later(pause, "the bot began many sessions, and waits before the next one".to_owned()));
        }
        let url = found.get("url").and_then(Value::as_str).map(str::to_owned);
        url.ok_or_else(|| Over::GoOn("Discord does not say where its gateway is".to_owned()))
    }

    /// Goes on with the session, or begins one.
    fn introduce(&mut self, line: &mut Line) -> Result<(), Over> {
        let token = &self.settings.token;
        let words = match &self.session {
            Some(session) => json!({ "op": 6, "d": { "token": token, "session_id": session.id, "seq": session.seq } }),
            None => {
                self.budget.spend();
                let about = json!({ "os": std::env::consts::OS, "browser": "hearth", "device": "hearth" });
                let intents = intents(&self.settings);
                json!({ "op": 2, "d": { "token": token, "intents": intents, "properties": about, "large_threshold": 50 } })
            }
        };
        line.send(&words)
    }

    fn read(&mut self, line: &mut Line) -> Result<std::convert::Infallible, Over> {
        loop {
            let left = line.due.saturating_sub(now());
            if left.is_zero() {
                if !line.is_answered {
                    return Err(Over::GoOn("it does not answer heartbeats".to_owned()));
                }
                line.beat(self.session.as_ref())?;
                line.is_answered = false;
                line.due = now() + line.interval;
                continue;
            }
            match line.socket.read(left)? {
                Incoming::Text(text) => self.frame(line, &text)?,
                Incoming::Silence | Incoming::Sign => {}
                Incoming::Closed { code, why } => return Err(closed(code, &why)),
            }
        }
    }

    fn frame(&mut self, line: &mut Line, text: &str) -> Result<(), Over> {
        let Ok(frame) = serde_json::from_str::<Frame<'_>>(text) else {
            return Err(Over::GoOn("it sends something that cannot be read".to_owned()));
        };
        match frame.op {
            0 => self.event(&frame),
            // A server that asks for many would make the bot send too many.
            1 if line.may_send() => line.beat(self.session.as_ref()),
            7 => Err(Over::GoOn("it asks for a new connection".to_owned())),
            9 if frame.d.is_some_and(|can| can.get() == "true") => {
                Err(Over::GoOn("it interrupts the session".to_owned()))
            }
            9 => Err(Over::Anew("it has ended the session".to_owned())),
            11 => {
                line.is_answered = true;
                // Heartbeats are answered as well before there is a session, but then no message comes.
                if self.works.is_none() && self.vain == 0 {
                    self.state.works(Side::Inbox);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Passes on an event. Its number is that from which the session goes on.
    fn event(&mut self, frame: &Frame<'_>) -> Result<(), Over> {
        let content = frame.d.map_or("null", RawValue::get);
        let (Some(seq), Some(kind)) = (frame.s, frame.t.as_deref()) else { return Ok(()) };
        if kind == "READY" {
            let ready: Ready = serde_json::from_str(content).map_err(|error| Over::Anew(error.to_string()))?;
            let session =
                Session { id: ready.session_id, url: ready.resume_gateway_url, seq, intents: intents(&self.settings) };
            self.session = Some(session).filter(Session::is_usable);
        } else if self.session.as_ref().is_some_and(|session| session.seq >= seq) {
            // It comes again.
            return Ok(());
        }
        if matches!(kind, "READY" | "RESUMED") {
            self.vain = 0;
            self.state.works(Side::Inbox);
            // The main loop may have stopped waiting.
            self.works.take().map_or(Ok(()), |works| works.send(())).ok();
        }
        if kind == "INTERACTION_CREATE" {
            match serde_json::from_str::<Press>(content) {
                // Too many at once; the person can press again.
                Ok(press) => drop(self.presses.try_send(press)),
                Err(error) => log(&format!("a press of Discord cannot be read: {error}")),
            }
        }
        let what = What::read(kind, content).unwrap_or_else(|error| {
            log(&format!("an event {kind} of Discord cannot be read: {error}"));
            What::Passed
        });
        let what = match (what, &self.session) {
            (What::Ready { guilds, .. }, session) => What::Ready { session: session.clone(), guilds },
            (other, _) => other,
        };
        if let Some(session) = &mut self.session {
            session.seq = seq;
        }
        match self.news.try_send(News { seq, what }) {
            Ok(()) | Err(TrySendError::Full(News { what: What::Passed, .. })) => Ok(()),
            Err(TrySendError::Full(news)) => Err(Over::Full(Box::new(news))),
            Err(TrySendError::Disconnected(_)) => Err(Over::Ended),
        }
    }
}

impl Line {
    fn may_send(&mut self) -> bool {
        while self.sent.front().is_some_and(|first| *first + MINUTE <= now()) {
            self.sent.pop_front();
        }
        self.sent.len() < FRAMES
    }

    fn send(&mut self, words: &Value) -> Result<(), Over> {
        self.sent.push_back(now());
        self.sent.truncate(FRAMES * 10);
        Ok(self.socket.send(words.to_string())?)
    }

    fn beat(&mut self, session: Option<&Session>) -> Result<(), Over> {
        self.send(&json!({ "op": 1, "d": session.map(|session| session.seq) }))
    }
}

/// What the end of a connection means.
fn closed(code: Option<u16>, why: &str) -> Over {
    let shown = code.map_or_else(|| "without a reason".to_owned(), |code| format!("{code} {why}"));
    let end = |why: &str| Over::Final(why.to_owned());
    match code {
        Some(4_004) => end("Discord does not accept the token; set `token` to the one of the bot"),
        Some(4_010 | 4_011) => {
            end("the bot is on more servers than one connection may have (2,500); remove it from some")
        }
        Some(4_012) => end("Discord does not speak version 10 of its gateway any more; update Hearth"),
        Some(4_013) => end("Discord refuses what the bot wants to read; update Hearth"),
        Some(4_014) => end(
            "the bot may not read the content of messages; switch on \"Message Content Intent\" on the page \"Bot\" of the \
             developer portal, or remove `content` from the settings",
        ),
        Some(4_003 | 4_007 | 4_009) => Over::Anew(format!("it closed the connection: {shown}")),
        _ => Over::GoOn(format!("it closed the connection: {shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_connections_are_told_apart() {
        for code in [4_004, 4_010, 4_011, 4_012, 4_013, 4_014] {
            assert!(matches!(closed(Some(code), "x"), Over::Final(_)), "{code}");
        }
        for code in [4_003, 4_007, 4_009] {
            assert!(matches!(closed(Some(code), "x"), Over::Anew(_)), "{code}");
        }
        for code in [None, Some(1_000), Some(1_001), Some(1_006), Some(4_000), Some(4_008), Some(4_900)] {
            assert!(matches!(closed(code, "x"), Over::GoOn(_)), "{code:?}");
        }
    }
}
