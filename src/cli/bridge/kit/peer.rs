//! The daemon's side of one process of a bridge, played by a test.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::{
    Capabilities, Cursors, Deliver, DeliverAct, FILE_BYTES_MAX, FRAME_BYTES_MAX, FromBridge, Hello, Limits, Lines,
    Outcome, PROTOCOL, Ready, Sent, ToBridge, UNACKED_MAX,
};

use super::{Kit, Stop};
use crate::clock::Stopwatch;
use crate::daemon::bridges::{self, Program, Reports, StartedBridge};

/// How long a bridge may take to be ready.
const READY: Duration = Duration::from_secs(30);
/// Number of the pings that ask whether a bridge hears its network.
const HEARS: u64 = 1 << 41;
/// Pause between two looks at the socket.
const LOOK: Duration = Duration::from_millis(20);

/// A running bridge.
pub(super) struct Peer<'a> {
    pub(super) kit: &'a Kit<'a>,
    process: StartedBridge,
    ended: Receiver<String>,
    lines: Lines,
    /// What it said of itself.
    pub(super) ready: Option<Box<Ready>>,
    /// Ids of deliveries that it has begun.
    pub(super) begun: Vec<String>,
    /// Whether messages with files reach an agent.
    pub(super) wants: bool,
    /// How often it asked that.
    pub(super) asked: usize,
    /// Frames that came while an answer was awaited.
    early: VecDeque<FromBridge>,
}

/// The next thing that a bridge does.
pub(super) enum Step {
    Frame(FromBridge),
    /// Nothing, in the time that it had.
    Silence,
    /// It has closed its socket.
    Gone,
}

impl<'a> Peer<'a> {
    /// Starts the bridge and greets it.
    pub(super) fn greet(kit: &'a Kit<'a>, protocol: u32) -> Result<Self, String> {
        Self::greet_with(kit, protocol, |_| {})
    }

    /// Like [`Self::start`], after changing the `hello` that the bridge is sent.
    pub(super) fn greet_with(kit: &'a Kit<'a>, protocol: u32, change: impl FnOnce(&mut Hello)) -> Result<Self, String> {
        let (told, ended) = channel();
        let output = Arc::clone(&kit.output);
        let line = move |line| output.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        let reports = Reports { line: Box::new(line), ended: Box::new(move |how| drop(told.send(how))) };
        let program = Program {
            command: kit.command.clone(),
            directory: kit.directory.clone(),
            hold: kit.hold,
            secrets: Vec::new(),
        };
        let process = bridges::start(kit.paths, &program, reports)?;
        process.socket.set_read_timeout(Some(LOOK)).map_err(|error| error.to_string())?;
        process.socket.set_write_timeout(Some(kit.patience)).map_err(|error| error.to_string())?;
        let mut peer = Self {
            kit,
            process,
            ended,
            lines: Lines::default(),
            ready: None,
            begun: Vec::new(),
            wants: true,
            asked: 0,
            early: VecDeque::new(),
        };
        let files = kit.files().display().to_string();
        let mut hello = Hello {
            protocol: vec![protocol],
            channel: "kit".to_owned(),
            settings: kit.settings.clone(),
            secrets: kit.given(),
            cursors: kit.cursors(),
            files,
            limits: Limits { frame: FRAME_BYTES_MAX, file: FILE_BYTES_MAX, unacked: UNACKED_MAX },
        };
        change(&mut hello);
        peer.send(&ToBridge::Hello { hello: Box::new(hello) })?;
        Ok(peer)
    }

    /// Starts the bridge and waits until it is ready.
    pub(super) fn start(kit: &'a Kit<'a>) -> Result<Self, String> {
        Self::start_with(kit, |_| {})
    }

    /// Like [`Self::start`], after changing the `hello` that the bridge is sent.
    pub(super) fn start_with(kit: &'a Kit<'a>, change: impl FnOnce(&mut Hello)) -> Result<Self, String> {
        let mut peer = Self::greet_with(kit, PROTOCOL, change)?;
        let ready = peer.until(READY.max(kit.patience), |frame| match frame {
            FromBridge::Ready { ready } => Some(Ok(ready.clone())),
            FromBridge::Failed { failed } => Some(Err(format!("it failed: {}", failed.why))),
            _ => None,
        });
        let ready = ready?.ok_or_else(|| format!("it was not ready within {:?}", READY.max(kit.patience)))??;
        if ready.protocol != PROTOCOL {
            return Err(format!("it speaks the protocol {}, not {PROTOCOL}", ready.protocol));
        }
        peer.ready = Some(ready);
        Ok(peer)
    }

    pub(super) fn send(&mut self, frame: &ToBridge) -> Result<(), String> {
        self.raw(&frame.line())
    }

    pub(super) fn raw(&mut self, line: &[u8]) -> Result<(), String> {
        self.process.socket.write_all(line).map_err(|error| format!("it reads nothing any more: {error}"))
    }

    /// Waits until the bridge says that it hears its network: what people write before may not reach it.
    pub(super) fn hears(&mut self) -> Result<(), String> {
        let (watch, mut early) = (Stopwatch::start(), Vec::new());
        let mut is_heard = false;
        while !is_heard && watch.elapsed() < READY.max(self.kit.patience) {
            self.send(&ToBridge::Ping { ping: HEARS })?;
            is_heard = loop {
                match self.step(self.kit.patience)? {
                    Step::Frame(FromBridge::Pong { pong: HEARS, rest }) => break rest.down.is_none(),
                    Step::Frame(frame) => early.push(frame),
                    // A case of its own is about that.
                    Step::Silence => break true,
                    Step::Gone => return Err(format!("it ended: {}", self.how())),
                }
            };
            if !is_heard {
                std::thread::sleep(LOOK);
            }
        }
        self.early.extend(early);
        Ok(())
    }

    /// The next frame, unless nothing comes in time.
    pub(super) fn step(&mut self, wait: Duration) -> Result<Step, String> {
        if let Some(frame) = self.early.pop_front() {
            return Ok(Step::Frame(frame));
        }
        let watch = Stopwatch::start();
        let mut bytes = [0; 64 * 1024];
        loop {
            while let Some(line) = self.lines.next_frame().map_err(|error| error.to_string())? {
                self.kit.note(&line);
                match FromBridge::read(&line).map_err(|error| error.to_string())? {
                    Some(FromBridge::Begun { begun }) => self.begun.push(begun.id),
                    Some(frame) => return Ok(Step::Frame(frame)),
                    None => {}
                }
            }
            match self.process.socket.read(&mut bytes) {
                Ok(0) => return Ok(Step::Gone),
                Ok(count) => self.lines.push(bytes.get(..count).unwrap_or_default()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(Step::Gone),
            }
            if watch.elapsed() >= wait {
                return Ok(Step::Silence);
            }
        }
    }

    /// Goes on until a frame is the wanted one. All other messages are taken, as the daemon would.
    pub(super) fn until<T>(
        &mut self,
        wait: Duration,
        mut wanted: impl FnMut(&FromBridge) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let watch = Stopwatch::start();
        while let Some(left) = wait.checked_sub(watch.elapsed()) {
            match self.step(left)? {
                Step::Frame(frame) => match wanted(&frame) {
                    Some(found) => return Ok(Some(found)),
                    None => self.take(&frame)?,
                },
                Step::Silence => return Ok(None),
                Step::Gone => return Err(format!("it ended: {}", self.how())),
            }
        }
        Ok(None)
    }

    /// Accepts a frame that has to be answered.
    pub(super) fn take(&mut self, frame: &FromBridge) -> Result<(), String> {
        let answer = match frame {
            FromBridge::Event { seq, cursors, .. } | FromBridge::Cursor { seq, cursor: cursors } => {
                self.kit.store(cursors);
                ToBridge::Taken { taken: *seq, report: None }
            }
            FromBridge::Wanted { seq, .. } => {
                self.asked += 1;
                ToBridge::Wanted { wanted: *seq, yes: self.wants }
            }
            FromBridge::Action { seq, .. } => {
                ToBridge::Pressed { pressed: *seq, decided: true, text: "done".to_owned() }
            }
            _ => return Ok(()),
        };
        self.send(&answer)
    }

    /// A delivery with an id that no other one has.
    pub(super) fn delivery(&self, text: &str) -> Result<Deliver, Stop> {
        Ok(Deliver {
            id: self.kit.id(),
            attempt: 1,
            act: DeliverAct::Say,
            platform_id: self.kit.chat()?,
            thread_id: None,
            text: text.to_owned(),
            card: None,
            message_id: None,
            files: Vec::new(),
            repeated: false,
            speaker: Some("kit".to_owned()),
            link_previews: false,
            within: 50,
            content: None,
        })
    }

    /// Delivers, and waits for the outcome.
    pub(super) fn deliver(&mut self, deliver: &Deliver) -> Result<Outcome, String> {
        self.send(&ToBridge::Deliver { deliver: Box::new(deliver.clone()) })?;
        self.outcome(deliver)
    }

    /// Whether it begins a delivery in that time.
    pub(super) fn begins(&mut self, id: &str, wait: Duration) -> Result<bool, String> {
        let watch = Stopwatch::start();
        while !self.begun.iter().any(|begun| begun == id) {
            match self.step(LOOK)? {
                Step::Frame(FromBridge::Outcome { .. }) | Step::Silence => {}
                Step::Frame(frame) => self.take(&frame)?,
                Step::Gone => return Err(format!("it ended: {}", self.how())),
            }
            if watch.elapsed() >= wait {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for an outcome.
    pub(super) fn outcome(&mut self, deliver: &Deliver) -> Result<Outcome, String> {
        let outcome = self.until(self.kit.patience * 2, |frame| match frame {
            FromBridge::Outcome { outcome } if outcome.id == deliver.id => Some(outcome.clone()),
            _ => None,
        })?;
        let outcome = outcome.ok_or_else(|| format!("there was no outcome within {:?}", self.kit.patience * 2))?;
        let may_have_left = matches!(outcome.result, Sent::Delivered | Sent::Uncertain);
        // A repeat may be answered from memory.
        if may_have_left && deliver.attempt == 1 && !self.begun.contains(&deliver.id) {
            return Err("it did not say `begun` before the outcome".to_owned());
        }
        Ok(outcome)
    }

    /// Kills it, as a power cut would.
    pub(super) fn kill(&self) {
        self.process.kill.kill();
        drop(self.ended.recv_timeout(self.kit.patience));
    }

    /// Closes the socket, as a daemon that dies does.
    pub(super) fn hang_up(&self) {
        drop(self.process.socket.shutdown(std::net::Shutdown::Both));
    }

    /// What it can do.
    pub(super) fn can(&self) -> Capabilities {
        self.ready.as_ref().map(|ready| ready.capabilities.clone()).unwrap_or_default()
    }

    /// How it ended; none if it has not, in that time.
    pub(super) fn end(&self, wait: Duration) -> Option<String> {
        self.ended.recv_timeout(wait).ok()
    }

    fn how(&self) -> String {
        self.end(self.kit.patience).unwrap_or_else(|| "it closed its socket and goes on".to_owned())
    }

    /// Its process, as the system numbers it.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.kill.pid()
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        self.process.kill.kill();
        // The next process needs the directory.
        drop(self.ended.recv_timeout(self.kit.patience));
    }
}

/// The cursors that a kit keeps as the store would.
pub(super) type Kept = Mutex<Cursors>;
