//! The main loop of a bridge with threads: it passes on what the daemon says.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, sleep};
use std::time::Duration;

use super::hand::Hand;
use super::post::{Job, Post};
use super::put_off::PutOff;
use super::state::State;
use super::{Daemon, Delivered, now};
use crate::{Failed, FromBridge, Hello, Opened, PROTOCOL, Place, ToBridge, Until};

/// How long deliveries are waited for at the end.
const LAST: Duration = Duration::from_secs(4);
const TICK: Duration = Duration::from_millis(50);

/// The frame of a bridge that cannot work; without seconds, until its settings or secrets change.
#[must_use]
pub fn failed(why: String, seconds: Option<u64>) -> FromBridge {
    let until = seconds.map_or_else(|| Until::Word("changed".to_owned()), Until::Seconds);
    FromBridge::Failed { failed: Failed { why, until: Some(until) } }
}

/// Starts a thread.
///
/// # Errors
/// If the system has none.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Waits for the daemon's first frame; nothing if it speaks another protocol, which it is told.
///
/// # Errors
/// If there is no daemon.
pub fn greet(daemon: &mut Daemon, program: &str) -> io::Result<Option<Box<Hello>>> {
    let hello = daemon.hello()?;
    if hello.protocol.contains(&PROTOCOL) {
        return Ok(Some(hello));
    }
    daemon.send(&failed(format!("{program} speaks protocol {PROTOCOL} only"), None)).map(|()| None)
}

/// The ways from the main loop to the other threads.
#[derive(Debug)]
pub struct Ways {
    answers: Vec<Sender<ToBridge>>,
    jobs: Vec<Sender<Job>>,
    open: Arc<AtomicUsize>,
    is_closed: Arc<AtomicBool>,
    state: State,
}

/// What the threads are started with.
#[derive(Debug)]
pub struct Threads {
    /// For threads that ask the daemon.
    pub hands: Vec<Hand>,
    /// For threads that deliver. All deliveries to a chat go to the same one.
    pub posts: Vec<Post>,
}

/// How many threads there are.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// That ask the daemon.
    pub hands: u32,
    pub posts: u32,
}

/// What a network does with the frames that are neither deliveries nor answers.
pub trait Network {
    /// An agent works there. Must not block.
    fn typing(&mut self, place: Place);

    /// Opens a direct chat; nothing if the answer comes from another thread. Must not block.
    fn open_direct(&mut self, person: String, seq: u64) -> Option<Opened>;

    /// Every message of a thread is wanted. Must not block.
    fn subscribe(&mut self, _thread: Place) {
        // Where every message of a chat arrives, nothing has to be done.
    }
}

impl Ways {
    /// Prepares the threads.
    ///
    /// # Errors
    /// If the memory of deliveries cannot be opened.
    pub fn prepare(daemon: &Daemon, hello: &Hello, state: &State, counts: Counts) -> io::Result<(Self, Threads)> {
        let delivered = Arc::new(Mutex::new(Delivered::open(Path::new("."))?));
        // The daemon does not answer before it knows that the bridge is ready.
        let (open, is_closed) = (Arc::<AtomicUsize>::default(), Arc::new(AtomicBool::new(true)));
        let (mut answers, mut jobs) = (Vec::new(), Vec::new());
        let (mut hands, mut posts) = (Vec::new(), Vec::new());
        for number in 0..u64::from(counts.hands) {
            let (sender, receiver) = channel();
            answers.push(sender);
            let (writer, is_closed, step) = (daemon.writer(), Arc::clone(&is_closed), u64::from(counts.hands));
            let (put_off, over) = (PutOff::default(), Vec::new());
            hands.push(Hand { writer, answers: receiver, is_closed, seq: number, step, put_off, over });
        }
        for _ in 0..counts.posts {
            let (sender, receiver) = channel();
            jobs.push(sender);
            posts.push(Post {
                writer: daemon.writer(),
                jobs: receiver,
                open: Arc::clone(&open),
                delivered: Arc::clone(&delivered),
                files: PathBuf::from(&hello.files),
                state: state.clone(),
            });
        }
        Ok((Self { answers, jobs, open, is_closed, state: state.clone() }, Threads { hands, posts }))
    }

    /// Passes on frames until the daemon ends the bridge or is gone. It has to be told before that the bridge is ready.
    ///
    /// # Errors
    /// Faults of this machine.
    pub fn work(&self, mut daemon: Daemon, network: &mut impl Network) -> io::Result<()> {
        self.is_closed.store(false, Ordering::SeqCst);
        loop {
            while let Some(frame) = daemon.frame() {
                if matches!(frame, ToBridge::ShutDown { .. }) {
                    let end = now() + LAST;
                    while self.open.load(Ordering::SeqCst) > 0 && now() < end {
                        sleep(TICK);
                    }
                    return Ok(());
                }
                self.pass_on(&mut daemon, frame, network)?;
            }
            match daemon.read() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn pass_on(&self, daemon: &mut Daemon, frame: ToBridge, network: &mut impl Network) -> io::Result<()> {
        match frame {
            ToBridge::Deliver { deliver } => {
                let chat =
                    deliver.platform_id.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31) + usize::from(byte));
                let Some(jobs) = self.jobs.get(chat % self.jobs.len().max(1)) else { return Ok(()) };
                self.open.fetch_add(1, Ordering::SeqCst);
                jobs.send(Job { deliver: *deliver, came: now() }).map_err(io::Error::other)
            }
            ToBridge::Taken { taken: seq, .. }
            | ToBridge::Refused { refused: seq, .. }
            | ToBridge::Later { later: seq, .. }
            | ToBridge::Wanted { wanted: seq, .. }
            | ToBridge::Pressed { pressed: seq, .. } => {
                let number = usize::try_from(seq).unwrap_or(0) % self.answers.len().max(1);
                self.answers.get(number).map_or(Ok(()), |answers| answers.send(frame).map_err(io::Error::other))
            }
            ToBridge::Ping { ping } => daemon.send(&FromBridge::Pong { pong: ping, rest: self.state.pong() }),
            ToBridge::Typing { typing } => {
                network.typing(typing);
                Ok(())
            }
            ToBridge::OpenDirect { open_direct, seq } => match network.open_direct(open_direct.user_id, seq) {
                Some(opened) => daemon.send(&FromBridge::Opened { opened }),
                None => Ok(()),
            },
            ToBridge::StopTaking { .. } => {
                self.is_closed.store(true, Ordering::SeqCst);
                Ok(())
            }
            ToBridge::Subscribe { subscribe } => {
                network.subscribe(subscribe);
                Ok(())
            }
            ToBridge::Hello { .. } | ToBridge::ShutDown { .. } => Ok(()),
        }
    }
}
