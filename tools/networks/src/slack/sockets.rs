//! The connections of Socket Mode. Slack ends each after a while and says so before; then there are two, and both are read.
//! What came by a connection is acknowledged there.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::time::Duration;

use hearth_bridge::program::run::{failed, spawn};
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{FrameWriter, log, now};
use serde_json::{Value, json};

use super::api::{Api, Trouble};
use super::event::text;
use super::inbox::News;
use crate::websocket::{Incoming, Socket};

/// How often a connection looks for acknowledgements.
const LOOK: Duration = Duration::from_millis(50);
/// How long a new connection may say nothing.
const GREETING: Duration = Duration::from_secs(15);
/// How long a connection is read after Slack announced its end.
const OVERLAP: Duration = Duration::from_secs(60);
/// Waits before a new connection.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// A connection that ends earlier counts as one that failed.
const WELL: Duration = Duration::from_secs(10);

/// Acknowledges something at the connection that it came by.
pub(super) struct Ack {
    envelope: String,
    to: Sender<String>,
}

impl Ack {
    /// It is stored, or over.
    pub(super) fn done(self) {
        // If the connection has ended, Slack sends it again.
        drop(self.to.send(self.envelope));
    }
}

/// What a connection says of itself.
enum Told {
    /// Slack greeted.
    Up,
    /// Slack announced its end.
    Leaving,
    /// Slack ended it for good.
    Final(String),
    /// It ended; why, and whether because nothing came, which takes long enough for no further wait.
    Ended(String, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Up(Duration),
    Leaving,
}

/// Keeps one connection, or two.
pub(super) struct Sockets {
    pub(super) api: Api,
    pub(super) state: State,
    pub(super) writer: FrameWriter,
    pub(super) news: SyncSender<News>,
    pub(super) presses: SyncSender<Value>,
    /// The address of the first connection.
    pub(super) first: Option<String>,
    /// Slack says something every few seconds. A connection without any sign for so long is left.
    pub(super) silence: Duration,
}

/// Why there is no new connection.
enum Failure {
    Passing(String, Option<Duration>),
    Final(String),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Paused(pause) => Self::Passing(trouble.to_string(), Some(pause)),
            Trouble::Refused(error) => Self::Final(refused(&error)),
            other => Self::Passing(other.to_string(), None),
        }
    }
}

/// Why the app gets no connection, for people.
pub(super) fn refused(error: &str) -> String {
    format!("Slack gives the app no connection: {error}; check the app token in `secret`, and that Socket Mode is on")
}

impl Sockets {
    /// Connects until the main loop ends.
    pub(super) fn work(mut self) {
        let (tell, told) = channel();
        let mut live: BTreeMap<u64, Stage> = BTreeMap::new();
        let (mut last, mut wait, mut due) = (0_u64, RECONNECT_FIRST, now());
        // What was missed before the first connection.
        let mut is_gap = true;
        loop {
            let has_one = live.values().any(|stage| *stage != Stage::Leaving);
            if !has_one && now() >= due {
                match self.open() {
                    Ok(socket) => {
                        last += 1;
                        live.insert(last, Stage::New);
                        if self.attend(socket, last, &tell).is_err() {
                            return;
                        }
                    }
                    Err(Failure::Final(why)) => return drop(self.writer.send(&failed(why, None))),
                    Err(Failure::Passing(why, pause)) => {
                        self.fails(&live, why);
                        due = now() + pause.unwrap_or(wait);
                        wait = (wait * 2).min(RECONNECT_MAX);
                    }
                }
            }
            let (number, what) = match next(&told, has_one, due) {
                Ok(Some(what)) => what,
                Ok(None) => continue,
                Err(()) => return,
            };
            let stage = live.get(&number).copied();
            match what {
                Told::Up => {
                    live.insert(number, Stage::Up(now()));
                    if std::mem::take(&mut is_gap) && self.news.send(News::Gap).is_err() {
                        return;
                    }
                }
                Told::Leaving => {
                    live.insert(number, Stage::Leaving);
                    due = now();
                }
                Told::Final(why) => return drop(self.writer.send(&failed(why, None))),
                Told::Ended(why, was_silent) => {
                    live.remove(&number);
                    let is_up = live.values().any(|stage| matches!(stage, Stage::Up(_)));
                    let was_well = match stage {
                        Some(Stage::Up(since)) => was_silent || now().saturating_sub(since) >= WELL,
                        Some(Stage::Leaving) => true,
                        Some(Stage::New) | None => false,
                    };
                    wait = if was_well { RECONNECT_FIRST } else { (wait * 2).min(RECONNECT_MAX) };
                    due = if was_well || is_up { now() } else { now() + wait };
                    self.fails(&live, format!("the connection ended: {why}"));
                    if stage == Some(Stage::Leaving) && is_up {
                        continue;
                    }
                    // Something may have been on its way.
                    is_gap = !is_up;
                    if is_up && self.news.send(News::Gap).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// There is no connection that works.
    fn fails(&self, live: &BTreeMap<u64, Stage>, why: String) {
        if !live.values().any(|stage| *stage != Stage::New) {
            log(&format!("not connected: {why}"));
            self.state.fails(Side::Inbox, why);
        }
    }

    fn open(&mut self) -> Result<Socket, Failure> {
        let url = match self.first.take() {
            Some(url) => url,
            None => self.api.connection()?,
        };
        Socket::open(&url).map_err(|broken| Failure::Passing(broken.to_string(), None))
    }

    /// Starts a thread that reads a connection.
    fn attend(&self, socket: Socket, number: u64, tell: &Sender<(u64, Told)>) -> std::io::Result<()> {
        let (to, acks) = channel();
        let line = Line {
            socket,
            number,
            tell: tell.clone(),
            to,
            acks,
            state: self.state.clone(),
            news: self.news.clone(),
            presses: self.presses.clone(),
            silence: self.silence,
        };
        spawn("connection", move || line.work())
    }
}

/// What a connection tells next; nothing if a new one is due before.
fn next(told: &Receiver<(u64, Told)>, has_one: bool, due: Duration) -> Result<Option<(u64, Told)>, ()> {
    let wait = if has_one { Duration::from_secs(3_600) } else { due.saturating_sub(now()) };
    match told.recv_timeout(wait) {
        Ok(what) => Ok(Some(what)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(()),
    }
}

struct Line {
    socket: Socket,
    number: u64,
    tell: Sender<(u64, Told)>,
    to: Sender<String>,
    acks: Receiver<String>,
    state: State,
    news: SyncSender<News>,
    presses: SyncSender<Value>,
    silence: Duration,
}

impl Line {
    fn work(mut self) {
        let (why, was_silent) = match self.read() {
            Ok(None) => ("Slack says nothing any more".to_owned(), true),
            Ok(Some(why)) | Err(why) => (why, false),
        };
        drop(self.tell.send((self.number, Told::Ended(why, was_silent))));
        self.socket.close(1000);
    }

    /// Reads until the end; why it ended, unless nothing came any more.
    fn read(&mut self) -> Result<Option<String>, String> {
        let (began, mut heard) = (now(), now());
        let (mut is_greeted, mut left) = (false, None);
        loop {
            while let Ok(envelope) = self.acks.try_recv() {
                let answer = json!({ "envelope_id": envelope }).to_string();
                self.socket.send(answer).map_err(|broken| broken.to_string())?;
            }
            match self.socket.read(LOOK).map_err(|broken| broken.to_string())? {
                Incoming::Silence => {
                    let silent = now().saturating_sub(heard);
                    if silent > self.silence || (!is_greeted && now().saturating_sub(began) > GREETING) {
                        return Ok(None);
                    }
                    if left.is_some_and(|left| now().saturating_sub(left) > OVERLAP) {
                        return Ok(Some("Slack announced it".to_owned()));
                    }
                    continue;
                }
                Incoming::Closed { code, why } => {
                    let code = code.map(|code| format!(" {code}")).unwrap_or_default();
                    return Ok(Some(format!("Slack closed it{code} {why}")));
                }
                Incoming::Sign => {}
                Incoming::Text(frame) => match self.take(&frame)? {
                    Taken::Greeting => is_greeted = true,
                    Taken::Farewell => left = Some(now()),
                    Taken::Other => {}
                },
            }
            heard = now();
            if is_greeted && left.is_none() {
                self.state.works(Side::Inbox);
            }
        }
    }

    fn take(&self, frame: &str) -> Result<Taken, String> {
        // What cannot be read is no reason to lose the connection.
        let Ok(frame) = serde_json::from_str::<Value>(frame) else { return Ok(Taken::Other) };
        let gone = |_| "the bridge ends".to_owned();
        let ack = text(&frame, "/envelope_id").map(|id| Ack { envelope: id.to_owned(), to: self.to.clone() });
        match text(&frame, "/type") {
            Some("hello") => {
                self.tell.send((self.number, Told::Up)).map_err(gone)?;
                return Ok(Taken::Greeting);
            }
            Some("disconnect") => {
                let told = match text(&frame, "/reason") {
                    Some("link_disabled") => Told::Final("Socket Mode of the app was switched off".to_owned()),
                    _ => Told::Leaving,
                };
                self.tell.send((self.number, told)).map_err(gone)?;
                return Ok(Taken::Farewell);
            }
            Some("events_api") => {
                let payload = frame.get("payload").cloned().unwrap_or(Value::Null);
                if let Some(ack) = ack {
                    // While too much waits, this waits as well, and Slack with it.
                    self.news.send(News::Event(payload, ack)).map_err(|_| "the bridge ends".to_owned())?;
                }
            }
            Some("interactive") => {
                // A person sees an error after three seconds. What is lost here is pressed again.
                ack.into_iter().for_each(Ack::done);
                drop(self.presses.try_send(frame.get("payload").cloned().unwrap_or(Value::Null)));
            }
            _ => ack.into_iter().for_each(Ack::done),
        }
        Ok(Taken::Other)
    }
}

/// What a frame was.
enum Taken {
    Greeting,
    Farewell,
    Other,
}
