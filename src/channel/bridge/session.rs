//! One process of a bridge, from its start to its end.

use std::pin::Pin;
use std::sync::Arc;

use hearth_bridge::{
    BadFrame, Empty, FILE_BYTES_MAX, FRAME_BYTES_MAX, Failed, FromBridge, Hello, Idempotency, Limits, Lines, PROTOCOL,
    Ready, ShutDown, ToBridge, UNACKED_MAX, Until,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::inbound::{self, Incoming};
use super::{Process, Shared, outbound};
use crate::channel::event::displayable;
use crate::channel::health::LineState;
use crate::model::address::ForeignId;
use crate::model::channel::{Capabilities, ChannelKind, Choice, OnUncertain};
use crate::model::time::{Millis, Timestamp};

/// Pings that may be without an answer.
const PINGS_MAX: u64 = 2;
/// After so many answered pings the bridge works.
const WELL: u64 = 3;

/// Longest time in seconds for which a network can claim to recognise repeats: 30 days.
const WINDOW_MAX: u64 = 30 * 86_400;
/// UTF-16 code units of the longest card that is believed to be shown whole.
const CARD_MAX: u64 = 64_000;

/// How a process ended.
pub(super) enum End {
    /// The channel is shut down.
    Closed,
    /// It ended, or had to be ended.
    Died {
        why: String,
        /// Whether it had worked for a while.
        was_well: bool,
    },
    /// It says that it cannot work, and for how long; `None` until something is changed.
    Failed { why: String, after: Option<Millis> },
}

/// Starts a process and attends to it until it has ended.
pub(super) async fn run(shared: &Arc<Shared>) -> End {
    let start = Arc::clone(&shared.setup.start);
    let died = |why| End::Died { why, was_well: false };
    let process = match tokio::task::spawn_blocking(move || start()).await {
        Ok(Ok(process)) => process,
        Ok(Err(why)) => return died(why),
        Err(error) => return died(error.to_string()),
    };
    let Process { socket, kill, mut ended } = process;
    let socket = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket));
    let end = match socket {
        Ok(socket) => attend(shared, socket).await,
        Err(error) => died(error.to_string()),
    };
    // Its socket is closed: it has to end, and gets the time to write what it has to.
    let how = tokio::time::timeout(shared.setup.times.end, &mut ended).await;
    let how = match how {
        Ok(how) => how.ok(),
        Err(_) => {
            kill();
            ended.await.ok()
        }
    };
    match (end, how) {
        (End::Died { why, was_well }, Some(how)) if why.is_empty() => {
            End::Died { why: format!("the bridge ended ({how})"), was_well }
        }
        (end, _) => end,
    }
}

/// The socket of a process.
struct Line {
    read: OwnedReadHalf,
    lines: Lines,
}

impl Line {
    /// The next frame that this version knows; `None` at the end.
    async fn next(&mut self) -> Result<Option<FromBridge>, String> {
        let mut bytes = [0; 16 * 1024];
        loop {
            while let Some(line) = self.lines.next_frame().map_err(|error| error.to_string())? {
                if let Some(frame) = FromBridge::read(&line).map_err(|bad: BadFrame| bad.to_string())? {
                    return Ok(Some(frame));
                }
            }
            match self.read.read(&mut bytes).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(count) => self.lines.push(bytes.get(..count).unwrap_or_default()),
            }
        }
    }
}

async fn write(mut socket: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if socket.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// The whole conversation with a process.
async fn attend(shared: &Arc<Shared>, socket: UnixStream) -> End {
    let (read, to_write) = socket.into_split();
    let (out, frames) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(to_write, frames));
    let mut line = Line { read, lines: Lines::default() };
    let end = match greet(shared, &mut line, &out).await {
        Ok(ready) => {
            if let Some(why) = unfit(&ready) {
                End::Failed { why, after: None }
            } else {
                tracing::info!(channel = %shared.setup.name, program = %short(&ready.program), "the bridge is ready");
                shared.intake.bridge_ready(short(&ready.program), can(&ready.capabilities));
                work(shared, &mut line, out).await
            }
        }
        Err(end) => end,
    };
    writer.abort();
    end
}

/// What a bridge says that it can do, in the engine's terms.
fn can(said: &hearth_bridge::Capabilities) -> Capabilities {
    let usual = ChannelKind::Bridge.capabilities();
    Capabilities {
        threads: said.threads,
        on_uncertain: match said.idempotency {
            Idempotency::None => OnUncertain::SendAgainMarked,
            Idempotency::Window { seconds } => OnUncertain::SendAgainWithin(Millis::seconds(seconds.min(WINDOW_MAX))),
            Idempotency::Always => OnUncertain::SendAgain,
        },
        choice: match said.choice {
            hearth_bridge::Choice::Numbers => Choice::Numbers,
            hearth_bridge::Choice::Buttons => Choice::Buttons,
        },
        card_max: said.card_max.map_or(usual.card_max, |max| u64::try_from(max).unwrap_or(u64::MAX).min(CARD_MAX)),
        edits: said.edits,
        opens_direct: said.opens_direct,
        files: said.files,
    }
}

fn unfit(ready: &Ready) -> Option<String> {
    (ready.protocol != PROTOCOL).then(|| {
        format!("the bridge speaks protocol {}, and Hearth speaks {PROTOCOL}: update one of them", ready.protocol)
    })
}

/// Sends the first frame and waits for the answer.
async fn greet(shared: &Arc<Shared>, line: &mut Line, out: &mpsc::UnboundedSender<Vec<u8>>) -> Result<Box<Ready>, End> {
    let setup = &shared.setup;
    let hello = Hello {
        protocol: vec![PROTOCOL],
        channel: setup.name.to_string(),
        settings: setup.settings.clone(),
        secrets: setup.secrets.clone(),
        cursors: shared.intake.cursors().into_iter().map(|cursor| (cursor.name, cursor.value)).collect(),
        files: setup.files.display().to_string(),
        limits: Limits { frame: FRAME_BYTES_MAX, file: FILE_BYTES_MAX, unacked: UNACKED_MAX },
    };
    // The writer lives as long as this task.
    drop(out.send(ToBridge::Hello { hello: Box::new(hello) }.line()));
    let died = |why: &str| End::Died { why: why.to_owned(), was_well: false };
    let mut closed = shared.closed.subscribe();
    let answer = async {
        loop {
            match line.next().await {
                Ok(Some(FromBridge::Ready { ready })) => return Ok(ready),
                Ok(Some(FromBridge::Failed { failed })) => return Err(failure(&failed)),
                Ok(Some(_)) => {}
                Ok(None) => return Err(died("")),
                Err(why) => return Err(died(&why)),
            }
        }
    };
    tokio::select! {
        answer = tokio::time::timeout(setup.times.ready, answer) => {
            answer.unwrap_or_else(|_| Err(died(&format!("the bridge was not ready within {:?}", setup.times.ready))))
        }
        _ = closed.wait_for(|closed| *closed) => Err(End::Closed),
    }
}

fn failure(failed: &Failed) -> End {
    let after = match failed.until {
        Some(Until::Seconds(seconds)) => Some(Millis::seconds(seconds.min(86_400))),
        Some(Until::Word(_)) | None => None,
    };
    End::Failed { why: short(&failed.why), after }
}

/// A text of the bridge for people: one line, bounded.
pub(super) fn short(text: &str) -> String {
    displayable(text).unwrap_or_else(|| "the bridge does not say why".to_owned())
}

/// Passes everything on until the process ends or the channel is shut down.
async fn work(shared: &Arc<Shared>, line: &mut Line, out: mpsc::UnboundedSender<Vec<u8>>) -> End {
    shared.deaf.send_replace(false);
    shared.lock().out = Some(out.clone());
    shared.set(LineState::Up, None, None);
    shared.intake.reachable();
    let (messages, incoming) = mpsc::channel(UNACKED_MAX);
    let taking = inbound::take_all(Arc::clone(shared), incoming, out.clone());
    tokio::pin!(taking);
    let (mut closed, mut stop) = (shared.closed.subscribe(), shared.taking.subscribe());
    let mut deaf = shared.deaf.subscribe();
    let space = too_much(shared);
    tokio::pin!(space);
    let mut clock = tokio::time::interval(shared.setup.times.ping);
    let (mut asked, mut answered, mut stopped, mut ending) = (0_u64, 0_u64, false, false);
    let mut end: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
    let died = |why: String, answered: u64| End::Died { why, was_well: answered >= WELL };
    loop {
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed), if !ending => {
                ending = true;
                let within = shared.setup.times.end;
                end = Box::pin(tokio::time::sleep(within));
                drop(out.send(ToBridge::ShutDown { shut_down: ShutDown { within: within.as_secs() } }.line()));
            }
            () = &mut end, if ending => return End::Closed,
            _ = stop.wait_for(|taking| !*taking), if !stopped => {
                stopped = true;
                drop(out.send(ToBridge::StopTaking { stop_taking: Empty {} }.line()));
            }
            () = &mut taking => {}
            why = &mut space => return died(why, 0),
            _ = deaf.wait_for(|deaf| *deaf) => return died(outbound::unheard(shared.lock().unheard), 0),
            frame = line.next() => match frame {
                Ok(Some(FromBridge::Pong { pong, rest })) => {
                    answered = answered.max(pong.min(asked));
                    heard(shared, &rest);
                }
                Ok(Some(FromBridge::Failed { failed })) => return failure(&failed),
                Ok(Some(frame)) => if let Err(why) = pass(shared, frame, &messages) {
                    return died(why, answered);
                },
                Ok(None) if ending => return End::Closed,
                Ok(None) => return died(String::new(), answered),
                Err(why) => return died(why, answered),
            },
            _ = clock.tick() => {
                if asked - answered >= PINGS_MAX {
                    return died("the bridge does not answer any more".to_owned(), answered);
                }
                asked += 1;
                drop(out.send(ToBridge::Ping { ping: asked }.line()));
            }
        }
    }
}

/// Waits until a bridge's files take too much space, and says why they do.
async fn too_much(shared: &Shared) -> String {
    let mut clock = tokio::time::interval(shared.setup.times.space);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let space = Arc::clone(&shared.setup.space);
        if let Ok(Err(why)) = tokio::task::spawn_blocking(move || space()).await {
            return why;
        }
    }
}

/// Handles a frame at once, or queues it.
fn pass(shared: &Arc<Shared>, frame: FromBridge, messages: &mpsc::Sender<Incoming>) -> Result<(), String> {
    let message = match frame {
        FromBridge::Event { event, seq, cursors } => Incoming::Event { event, seq, cursors },
        FromBridge::Wanted { wanted, seq } => Incoming::Wanted { event: wanted, seq },
        FromBridge::Action { action, seq } => Incoming::Action { action, seq },
        FromBridge::Cursor { cursor, seq } => Incoming::Cursor { cursors: cursor, seq },
        FromBridge::Begun { begun } => {
            outbound::begun(shared, &begun.id);
            return Ok(());
        }
        FromBridge::Outcome { outcome } => {
            outbound::outcome(shared, outcome);
            return Ok(());
        }
        FromBridge::Opened { opened } => {
            let user = shared.lock().opening.remove(&opened.seq);
            let chat = ForeignId::optional("platformId", opened.platform_id).ok().flatten();
            let chat = chat.ok_or_else(|| short(&opened.why.unwrap_or_default()));
            user.into_iter().for_each(|user| shared.intake.direct_opened(user, chat.clone()));
            return Ok(());
        }
        FromBridge::Ready { .. } | FromBridge::Failed { .. } | FromBridge::Pong { .. } => return Ok(()),
    };
    messages
        .try_send(message)
        .map_err(|_| format!("the bridge sent more than {UNACKED_MAX} messages without waiting for an answer"))
}

/// What a bridge says of its connection.
fn heard(shared: &Shared, pong: &hearth_bridge::Pong) {
    let now = (shared.setup.now)();
    if let Some(heard) = pong.heard.as_deref().and_then(Timestamp::parse) {
        shared.contact.set(heard.min(now));
    }
    match &pong.down {
        Some(why) => shared.set(LineState::Down, Some(short(why)), None),
        None => shared.set(LineState::Up, None, None),
    }
}
