//! The main loop: talks with the daemon.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::program::put_off::{PutOff, Ticket};
use hearth_bridge::program::{Daemon, Delivered, now};
use hearth_bridge::{
    Capabilities, Choice, Cursors, Event, Failed, FromBridge, GivenFile, Hello, Idempotency, Me, Opened, PROTOCOL,
    Ready, Sender as Person, ToBridge, Until,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::connection::Trust;
use crate::inbox::{Found, Hand, Inbox, Place};
use crate::message::{Attached, Written, bare_subject};
use crate::outbox::{Job, Outbox};
use crate::settings::{Copies, Settings};
use crate::state::{State, time_text};
use crate::threads::{Thread, Threads};

/// Longest wait of the loop.
const TICK: Duration = Duration::from_millis(500);
/// How long the first connection is waited for.
const FIRST: Duration = Duration::from_secs(20);
/// How long deliveries are waited for at the end.
const LAST: Duration = Duration::from_secs(4);
/// The name of the cursor.
const CURSOR: &str = "inbox";

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub fn run() -> io::Result<()> {
    let mut daemon = Daemon::inherited()?;
    let hello = daemon.hello()?;
    let failed =
        |why: String| FromBridge::Failed { failed: Failed { why, until: Some(Until::Word("changed".to_owned())) } };
    if !hello.protocol.contains(&PROTOCOL) {
        return daemon.send(&failed(format!("hearth-mail speaks protocol {PROTOCOL} only")));
    }
    let settings = Settings::of(&hello).and_then(|settings| {
        let trust = Trust::of(settings.authorities.as_deref())?;
        let token = hello.secrets.get("token").cloned().ok_or("the password is missing: set `token`")?;
        Ok((settings, trust, token))
    });
    let (settings, trust, token) = match settings {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why)),
    };
    let state = State::default();
    let (found_sender, found) = channel();
    let (stored, stored_receiver) = channel();
    let (wake, woken) = UnixStream::pair()?;
    let inbox = Inbox {
        settings: settings.clone(),
        trust: trust.clone(),
        token: token.clone(),
        state: state.clone(),
        hand: Hand { found: found_sender, wake, stored: stored_receiver },
        place: hello.cursors.get(CURSOR).and_then(|text| Place::read(text)),
    };
    std::thread::Builder::new().name("inbox".to_owned()).spawn(move || inbox.work())?;
    match found.recv_timeout(FIRST) {
        Ok(Found::Refused(why)) => {
            return daemon.send(&failed(format!("the mail server does not accept the user or the token: {why}")));
        }
        // What is not there yet is tried again, and the state says so.
        Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
    }
    let threads = Arc::new(Mutex::new(Threads::open(Path::new("."))?));
    let (jobs, jobs_receiver) = channel();
    let open = Arc::new(AtomicUsize::new(0));
    let outbox = Outbox {
        settings: settings.clone(),
        trust,
        token,
        state: state.clone(),
        writer: daemon.writer(),
        jobs: jobs_receiver,
        open: Arc::clone(&open),
        delivered: Delivered::open(Path::new("."))?,
        threads: Arc::clone(&threads),
        files: PathBuf::from(&hello.files),
        session: None,
        unsent: BTreeSet::new(),
        looked: BTreeMap::new(),
        later: VecDeque::new(),
        recent: BTreeMap::new(),
    };
    std::thread::Builder::new().name("outbox".to_owned()).spawn(move || outbox.work())?;
    daemon.send(&FromBridge::Ready { ready: Box::new(ready(&settings)) })?;
    let bridge = Bridge::new(daemon, &hello, state, threads);
    bridge.work(&Ways { found, stored, woken, jobs, open })
}

fn ready(settings: &Settings) -> Ready {
    let idempotency = match settings.copies {
        // Where copies are, a repeat is looked up before it is sent.
        Copies::ByServer => Idempotency::Always,
        Copies::None => Idempotency::None,
    };
    let capabilities = Capabilities {
        files: true,
        threads: true,
        choice: Choice::Numbers,
        idempotency,
        card_max: Some(64_000),
        ..Capabilities::default()
    };
    let me = Me { id: settings.account.address.clone(), name: None };
    let program = format!("hearth-mail {}", env!("CARGO_PKG_VERSION"));
    Ready { protocol: PROTOCOL, program, me: Some(me), capabilities }
}

/// The ways to the other threads.
struct Ways {
    found: Receiver<Found>,
    stored: Sender<()>,
    woken: UnixStream,
    jobs: Sender<Job>,
    open: Arc<AtomicUsize>,
}

/// What the daemon was asked about a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Whether its files are wanted.
    Wanted,
    /// To store it.
    Event,
    /// To store a place only.
    Place,
}

/// The mail that is passed on now.
struct Current {
    asked: Asked,
    seq: u64,
    event: Option<Event>,
    files: Vec<Attached>,
    cursors: Cursors,
    /// It was put off before.
    ticket: Option<Ticket>,
    /// When a place is stored again, if that was put off.
    again: Option<Duration>,
}

struct Bridge {
    daemon: Daemon,
    state: State,
    threads: Arc<Mutex<Threads>>,
    files: PathBuf,
    /// The daemon's limit for a file, in bytes.
    file_max: u64,
    seq: u64,
    current: Option<Current>,
    /// Mails that were put off.
    put_off: PutOff,
    is_taking: bool,
}

impl Bridge {
    fn new(daemon: Daemon, hello: &Hello, state: State, threads: Arc<Mutex<Threads>>) -> Self {
        let (files, file_max) = (PathBuf::from(&hello.files), hello.limits.file);
        Self {
            daemon,
            state,
            threads,
            files,
            file_max,
            seq: 0,
            current: None,
            put_off: PutOff::default(),
            is_taking: true,
        }
    }

    fn work(mut self, ways: &Ways) -> io::Result<()> {
        loop {
            let (from_daemon, woken) = self.wait(&ways.woken)?;
            if from_daemon {
                match self.daemon.read() {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            while let Some(frame) = self.daemon.frame() {
                if matches!(frame, ToBridge::ShutDown { .. }) {
                    let end = now() + LAST;
                    while ways.open.load(Ordering::SeqCst) > 0 && now() < end {
                        std::thread::sleep(TICK / 10);
                    }
                    return Ok(());
                }
                self.frame(frame, ways)?;
            }
            if woken {
                let mut bytes = [0; 64];
                // Each byte stands for something that was found, and only wakes.
                let _count = (&ways.woken).read(&mut bytes)?;
            }
            if self.current.as_ref().is_some_and(|current| current.again.is_some_and(|again| again <= now())) {
                self.ask()?;
            }
            while self.is_taking && self.current.is_none() {
                if let Some((ticket, event, cursors)) = self.put_off.next(now()) {
                    let (asked, event, ticket) = (Asked::Event, Some(event), Some(ticket));
                    self.current =
                        Some(Current { asked, seq: 0, event, files: Vec::new(), cursors, ticket, again: None });
                    self.ask()?;
                    break;
                }
                if self.put_off.is_full() {
                    break;
                }
                let Ok(found) = ways.found.try_recv() else { break };
                self.found(found, ways)?;
            }
        }
    }

    /// Waits until the daemon or the inbox has something, or some time is over.
    fn wait(&self, woken: &UnixStream) -> io::Result<(bool, bool)> {
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.daemon, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut fds, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut there = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok((there.next().unwrap_or(false), there.next().unwrap_or(false)))
    }

    fn frame(&mut self, frame: ToBridge, ways: &Ways) -> io::Result<()> {
        match frame {
            ToBridge::Deliver { deliver } => {
                ways.open.fetch_add(1, Ordering::SeqCst);
                let job = Job { deliver: *deliver, came: now() };
                ways.jobs.send(job).map_err(io::Error::other)
            }
            ToBridge::Taken { taken: seq, .. } | ToBridge::Refused { refused: seq, .. } => {
                let is_over = |current: &mut Current| current.seq == seq && current.asked != Asked::Wanted;
                match self.current.take_if(is_over).map(|current| current.ticket) {
                    Some(Some(ticket)) => self.put_off.done(ticket),
                    Some(None) => go_on(ways)?,
                    None => {}
                }
                Ok(())
            }
            ToBridge::Later { later, after, .. } => {
                let again = now() + Duration::from_secs(after.min(60)).max(TICK);
                match self.current.take_if(|current| current.seq == later) {
                    Some(place) if place.asked == Asked::Place => {
                        self.current = Some(Current { again: Some(again), ..place });
                    }
                    Some(Current { ticket: Some(ticket), .. }) => self.put_off.wait(ticket, again),
                    Some(current) => self.put_off(current, again, ways)?,
                    None => {}
                }
                Ok(())
            }
            ToBridge::Wanted { wanted, yes } => self.wanted(wanted, yes, ways),
            ToBridge::Ping { ping } => self.daemon.send(&FromBridge::Pong { pong: ping, rest: self.state.pong() }),
            ToBridge::OpenDirect { open_direct, seq } => {
                let opened = Opened { seq, platform_id: Some(open_direct.user_id), why: None };
                self.daemon.send(&FromBridge::Opened { opened })
            }
            ToBridge::StopTaking { .. } => {
                self.is_taking = false;
                Ok(())
            }
            ToBridge::Hello { .. }
            | ToBridge::Pressed { .. }
            | ToBridge::Typing { .. }
            | ToBridge::Subscribe { .. }
            | ToBridge::ShutDown { .. } => Ok(()),
        }
    }

    fn found(&mut self, found: Found, ways: &Ways) -> io::Result<()> {
        let (asked, event, files, place) = match found {
            Found::Open | Found::Refused(_) | Found::Away => return Ok(()),
            Found::Nothing(place) => (Asked::Place, None, Vec::new(), place),
            Found::Mail { written, received, place } => {
                let mut written = *written;
                let files = std::mem::take(&mut written.files);
                let event = self.event(&written, received)?;
                let asked = if files.is_empty() { Asked::Event } else { Asked::Wanted };
                (asked, Some(event), files, place)
            }
        };
        let cursors = Cursors::from([(CURSOR.to_owned(), place.to_string())]);
        self.pass_on(Current { asked, seq: 0, event, files, cursors, ticket: None, again: None }, ways)
    }

    /// Asks the daemon what is to be asked about something that was found, unless a mail of the same person was put off: then
    /// it waits, too.
    fn pass_on(&mut self, mut current: Current, ways: &Ways) -> io::Result<()> {
        let is_behind = current.event.as_ref().is_some_and(|event| self.put_off.is_behind(event));
        if !self.put_off.is_empty() && current.asked != Asked::Wanted {
            if is_behind || current.asked == Asked::Place {
                return self.put_off(current, now(), ways);
            }
            self.put_off.hold(std::mem::take(&mut current.cursors));
        }
        self.current = Some(current);
        self.ask()
    }

    /// Lets something wait. Mails of others go on, and the place after it is stored once nothing waits.
    fn put_off(&mut self, Current { event, cursors, .. }: Current, again: Duration, ways: &Ways) -> io::Result<()> {
        self.put_off.hold(cursors);
        if let Some(event) = event {
            self.put_off.add(event, again);
        }
        go_on(ways)
    }

    /// Asks the daemon what is to be asked about the current mail.
    fn ask(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        self.seq += 1;
        (current.seq, current.again) = (self.seq, None);
        let (seq, cursors) = (self.seq, current.cursors.clone());
        let frame = match (current.asked, current.event.clone()) {
            (Asked::Wanted, Some(wanted)) => FromBridge::Wanted { wanted, seq },
            (Asked::Event, Some(event)) => FromBridge::Event { event, seq, cursors },
            (Asked::Place, _) | (_, None) => FromBridge::Cursor { cursor: cursors, seq },
        };
        self.daemon.send(&frame)
    }

    /// Writes the files of the current mail if they are wanted, and passes it on.
    fn wanted(&mut self, seq: u64, yes: bool, ways: &Ways) -> io::Result<()> {
        let (directory, max) = (self.files.clone(), self.file_max);
        let is_this = |current: &mut Current| current.seq == seq && current.asked == Asked::Wanted;
        let Some(mut current) = self.current.take_if(is_this) else { return Ok(()) };
        let files = std::mem::take(&mut current.files).into_iter().enumerate();
        let given = files.map(|(number, file)| {
            let Attached { name, mime, bytes } = file;
            let written = match bytes {
                _ if !yes => Err("it was not fetched".to_owned()),
                Ok(bytes) if bytes.len() as u64 > max => Err(format!("it is larger than {max} bytes")),
                Ok(bytes) => write_file(&directory, &format!("in-{seq}-{number}"), &bytes),
                Err(why) => Err(why),
            };
            match written {
                Ok(path) => GivenFile { name, mime, path: Some(path), error: None },
                Err(why) => GivenFile { name, mime, path: None, error: Some(why) },
            }
        });
        let given = given.collect();
        if let Some(event) = &mut current.event {
            event.files = given;
        }
        current.asked = Asked::Event;
        self.pass_on(current, ways)
    }

    /// The message of a mail.
    fn event(&self, written: &Written, received: i64) -> io::Result<Event> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let subject = bare_subject(&written.subject);
        let known = written.thread.as_ref().and_then(|id| threads.get(id));
        let is_known = known.is_some_and(|known| known.subject == subject);
        let text = with_subject(written, written.is_answer && is_known);
        if let (Some(id), Some(last)) = (&written.thread, &written.message_id) {
            threads.learn(id, Thread { subject: subject.to_owned(), last: last.clone() })?;
        }
        let message = json!({
            "id": written.id,
            "isMention": true,
            "timestamp": time_text(received),
            "content": { "text": text, "subject": written.subject },
        });
        let rest = [("platformId", json!(written.from)), ("threadId", json!(written.thread)), ("message", message)];
        let sender = Person { id: written.from.clone(), name: written.name.clone(), verified: written.is_verified };
        let rest: BTreeMap<String, Value> = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Ok(Event { sender: Some(sender), files: Vec::new(), rest })
    }
}

/// Lets the inbox read on.
fn go_on(ways: &Ways) -> io::Result<()> {
    ways.stored.send(()).map_err(io::Error::other)
}

/// The text with its subject, unless it is known. A single word stays alone, because it may be a code or a number, and so
/// does a command.
fn with_subject(written: &Written, is_known: bool) -> String {
    let (text, subject) = (written.text.trim(), written.subject.as_str());
    let is_word = !text.is_empty() && !text.contains(char::is_whitespace);
    match (text.is_empty(), subject.is_empty() || is_known) {
        (true, true) => "(empty mail)".to_owned(),
        (true, false) => format!("Subject: {subject}"),
        (false, false) if !is_word && !text.starts_with('/') => format!("Subject: {subject}\n\n{text}"),
        (false, _) => text.to_owned(),
    }
}

/// Writes a file for the daemon; its name.
fn write_file(directory: &Path, name: &str, bytes: &[u8]) -> Result<String, String> {
    let mut file = std::fs::File::create_new(directory.join(name)).map_err(|error| error.to_string())?;
    file.write_all(bytes).map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}
