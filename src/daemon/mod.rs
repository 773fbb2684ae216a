//! The composition root: the engine's thread, the mailroom, the runtime, the channels, the socket and the clock, and the
//! queues between them.
//!
//! Inputs come from everywhere into one queue; the engine's thread takes all that wait, commits them together, answers
//! them and hands the effects on. Nothing else writes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::channel::terminal::{self, Terminals};
use crate::clock::{self, Alarm, Clock, Stopwatch};
use crate::config::{BadPlace, Machine, Paths, env};
use crate::crash;
use crate::engine::commit::{Answer, Engine, Submission};
use crate::model::address::{Address, ChannelName};
use crate::model::configure::RuntimeKind;
use crate::model::content::BlobId;
use crate::model::input::{Input, RuntimeEvent};
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::time::Timestamp;
use crate::runtime::{Events, Runtime};
use crate::state::{self, Store};

mod announce;
mod builds;
mod desk;
mod door;
mod drain;
mod facts;
pub mod files;
mod folders;
mod groups;
pub mod image;
mod inbox;
mod mailroom;
mod metrics;
mod perform;
mod reconcile;
mod runtime;
pub mod selftest;
pub mod setup;
mod sightings;
mod skips;
mod stop;
mod switchboard;
mod ticks;
mod token;
pub mod trial;
mod typing;

use announce::Announcer;
pub use announce::State;
pub use builds::BuildStatus;
use builds::Builds;
use files::{Fates, Files, Removals, Remover};
use groups::Groups;
use inbox::{Heard, Inbox, Item};
use mailroom::{Around, Mailroom};
use metrics::{Doorway, Metrics};
use perform::World;
use runtime::Chosen;
use skips::Skips;
use stop::{Needed, Stop};
use switchboard::Switchboard;
use typing::Typing;

pub use drain::{STOP_MAX, Waiting};
pub use runtime::{rehearse, unused_image};
pub use switchboard::LineStatus;

/// Inputs of one commit.
const GROUP_MAX: usize = 256;

/// Why a daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory.
    #[error(transparent)]
    Place(#[from] BadPlace),
    /// The store.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The mailboxes.
    #[error(transparent)]
    Mailbox(#[from] crate::mailbox::Error),
    /// The runtime.
    #[error(transparent)]
    Runtime(#[from] crate::runtime::Error),
    /// Containers were asked for and cannot be had.
    #[error(
        "{asked} asks for containers, which are not available, because {why}; `hearth doctor` says more, and with `hearth run \
         --runtime process`, or `runtime = \"process\"` in hearth.toml, agents run without containers"
    )]
    NoContainers {
        /// By what.
        asked: &'static str,
        /// Why not.
        why: String,
    },
    /// A file or socket of the daemon's own.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The address of the metrics.
    #[error(
        "the metrics cannot be served at {address}: {source}; name another address with --metrics or HEARTH_METRICS, or end \
         what listens there"
    )]
    Metrics {
        /// Which.
        address: SocketAddr,
        /// The system's words.
        source: std::io::Error,
    },
    /// No thread could be started.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// Signals cannot be heard.
    #[error("signals cannot be heard: {0}")]
    Signals(std::io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Entropy(std::io::Error),
    /// It could not go on.
    #[error("the daemon cannot go on: {0}; start it again, and it goes on where it was")]
    Failed(String),
    /// The name of a channel of our own.
    #[error(transparent)]
    Name(#[from] crate::model::address::BadName),
}

/// How a daemon is to run.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Thresholds and bounds.
    pub policy: Policy,
    /// Where agents run, for this run only; none is as configured.
    pub runtime: Option<RuntimeKind>,
    /// Where numbers are served; none is nowhere.
    pub metrics: Option<SocketAddr>,
}

/// A running daemon.
pub struct Daemon {
    engine: Arc<Engine>,
    inbox: Arc<Inbox>,
    clock: Clock,
    /// Wakes the sweep when something is due.
    alarm: Alarm,
    mailroom: Arc<Mailroom>,
    runtime: Arc<dyn Runtime>,
    /// Why it is this runtime, and what the settings said when it was chosen.
    chosen: (String, Option<RuntimeKind>),
    /// Who builds images, if agents run in containers.
    builds: Option<Arc<Builds>>,
    typing: Arc<Typing>,
    terminals: Arc<Terminals>,
    switchboard: Arc<Switchboard>,
    paths: Paths,
    token: String,
    stop: Arc<Stop>,
    announcer: Announcer,
    metrics: Arc<Metrics>,
    files: Files,
    fates: Fates,
    /// Held while an event with files is read.
    reading: Mutex<()>,
    engine_thread: Mutex<Option<JoinHandle<()>>>,
}

impl Daemon {
    /// Opens the store, starts every part, and puts the start itself through the engine. Channels run on `tokio`.
    ///
    /// # Errors
    /// [`Error`], for anything without which a daemon cannot run.
    pub fn start(paths: &Paths, wish: Wish, tokio: &Handle) -> Result<Arc<Self>, Error> {
        paths.create()?;
        let store = open_store(paths)?;
        let doorway = wish.metrics.map(|address| Doorway::take(address, tokio)).transpose()?;
        let clock = Clock::start(store.begin_run()?);
        let install = format!("{:016x}", store.install());
        let settings = store.read(|db, txn| db.settings.get(txn, &()))?.unwrap_or_default();
        let zone = Machine::look().zone(None, None).zone;
        let (inbox, typing) = (Arc::new(Inbox::default()), Typing::new(&clock));
        let choice = runtime::Around { paths, install: &install, settings: &settings, asked: wish.runtime };
        let Chosen { runtime, why } = runtime::choose(&choice, runtime_events(&inbox, &typing))?;
        tracing::info!("runtime: {}, because {why}", runtime.name());
        let builds = runtime.builds_images().then(Arc::<Builds>::default);
        let engine = Engine::new(store, wish.policy, groups_path(paths)).in_zone(zone).with_builds(builds.is_some());
        let (engine, stop) = (Arc::new(engine), Arc::new(Stop::default()));
        let files = Files::open(paths)?;
        let around = Around {
            inbox: Arc::clone(&inbox),
            engine: Arc::clone(&engine),
            runtime: Arc::clone(&runtime),
            stop: Arc::clone(&stop),
            typing: Arc::clone(&typing),
            clock: clock.clone(),
        };
        let mailroom = Mailroom::open(paths, &files, &install, around)?;
        let metrics = Metrics::new(engine.store(), runtime.name())?;
        let terminal = ChannelName::new(terminal::NAME)?;
        let terminals = attended(&inbox, &metrics, &terminal);
        let removals = Remover::new(&files, &engine, &mailroom, &stop).start()?;
        let around = switchboard::Around {
            tokio: tokio.clone(),
            inbox: Arc::clone(&inbox),
            engine: Arc::clone(&engine),
            sessions: paths.sessions(),
            typing: Arc::clone(&typing),
            fates: Fates::new(&files, &removals),
            metrics: Arc::clone(&metrics),
        };
        let switchboard = Switchboard::new(around, terminal, terminal::as_channel(&terminals));
        let daemon = Arc::new(Self {
            engine,
            inbox: Arc::clone(&inbox),
            clock,
            alarm: Alarm::default(),
            mailroom: Arc::clone(&mailroom),
            runtime: Arc::clone(&runtime),
            chosen: (why, settings.runtime),
            builds,
            typing: Arc::clone(&typing),
            terminals,
            switchboard: Arc::clone(&switchboard),
            paths: paths.clone(),
            token: token::renew(&paths.token())?,
            stop,
            announcer: Announcer::of_the_system(),
            metrics,
            fates: Fates::new(&files, &removals),
            files,
            reading: Mutex::default(),
            engine_thread: Mutex::default(),
        });
        typing.run(&switchboard)?;
        daemon.start_engine(removals)?;
        daemon.start_builds(install)?;
        daemon.look_at_folders();
        ticks::start(&daemon)?;
        switchboard.connect_all()?;
        doorway.into_iter().for_each(|doorway| doorway.serve(&daemon, tokio));
        Ok(daemon)
    }

    fn start_engine(self: &Arc<Self>, removals: Removals) -> Result<(), Error> {
        let daemon = Arc::clone(self);
        let skips = Arc::new(Skips::start(&self.paths, (&self.inbox, &self.engine), &self.stop)?);
        let world = World {
            mailroom: Arc::clone(&self.mailroom),
            runtime: Arc::clone(&self.runtime),
            switchboard: Arc::clone(&self.switchboard),
            removals,
            skips: Arc::clone(&skips),
            typing: Arc::clone(&self.typing),
            groups: self.start_groups(skips)?,
            stop: Arc::clone(&self.stop),
            engine: Arc::clone(&self.engine),
            inbox: Arc::clone(&self.inbox),
        };
        reconcile::start(&self.runtime, &self.engine, (&self.inbox, &self.stop))?;
        let run = move || daemon.run_engine(&world);
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(run).map_err(Error::Thread)?;
        *self.engine_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    fn run_engine(&self, world: &World) {
        let _needed = Needed(&self.stop, "the engine");
        while let Some(items) = self.inbox.take(GROUP_MAX) {
            let (group, answers): (Vec<Submission>, Vec<_>) =
                items.into_iter().map(|item| (item.submission, item.answer)).unzip();
            crash::point("taken");
            let began = Stopwatch::start();
            match self.commit(&group) {
                Ok(done) => {
                    crash::point("committed");
                    self.metrics.committed(&group, began.elapsed());
                    for ((answer, to), one) in done.into_iter().zip(answers).zip(group) {
                        self.metrics.answered(&one, &answer);
                        if let (Err(_), Input::Sweep(told)) = (&answer, one.input) {
                            self.mailroom.look_again(told);
                        }
                        answer_and_perform(world, answer, to);
                    }
                    crash::point("performed");
                    self.wake_in_time();
                    self.announcer.alive(self.clock.now().awake);
                }
                Err(error) => {
                    tracing::error!(%error, "the engine cannot go on");
                    self.stop.fail(error);
                    self.inbox.close();
                    // Whoever waits for an answer hears that there will be none.
                    while self.inbox.take(GROUP_MAX).is_some() {}
                    return;
                }
            }
        }
    }

    /// Lets the next sweep come when something is due. Where that cannot be read, it comes with the next tick.
    fn wake_in_time(&self) {
        let due = self.engine.next_due(self.clock.now());
        self.alarm.set(due.ok().flatten().filter(|length| *length < clock::TICK));
    }

    fn commit(&self, group: &[Submission]) -> Result<Vec<Answer>, String> {
        let entropy = clock::random().map_err(|error| Error::Entropy(error).to_string())?;
        let done = self.engine.commit(group, self.clock.now(), entropy);
        done.map_err(|error| error.to_string())
    }

    fn start_groups(&self, skips: Arc<Skips>) -> Result<Groups, Error> {
        Groups::start(groups::Around {
            inbox: Arc::clone(&self.inbox),
            engine: Arc::clone(&self.engine),
            stop: Arc::clone(&self.stop),
            clock: self.clock.clone(),
            paths: self.paths.clone(),
            skips,
        })
    }

    fn start_builds(&self, install: String) -> Result<(), Error> {
        let Some(builds) = &self.builds else { return Ok(()) };
        builds.start(builds::Around {
            inbox: Arc::clone(&self.inbox),
            engine: Arc::clone(&self.engine),
            runtime: Arc::clone(&self.runtime),
            stop: Arc::clone(&self.stop),
            clock: self.clock.clone(),
            install,
        })
    }

    /// Puts an input through the engine and waits for its reply. New work is refused while the queue is full.
    ///
    /// # Errors
    /// What to tell whoever asked: the queue is full, the daemon stops, or the store failed.
    pub async fn submit(&self, input: Input, dry_run: bool) -> Heard {
        let is_new_work = matches!(input, Input::Inbound(_));
        let files = if dry_run { Vec::new() } else { files::files_of(&input) };
        let (answer, heard) = oneshot::channel();
        let item = Item { submission: Submission { input, dry_run }, answer: Some(answer) };
        if is_new_work {
            self.inbox.offer(item).map_err(|not_now| not_now.to_string())?;
        } else {
            self.inbox.push(item);
        }
        let heard = heard.await.map_err(|_| "the daemon is stopping".to_owned())?;
        self.fates.settle(files, &heard);
        heard
    }

    /// What a sweep would cause, now or at another time. Nothing of it happens.
    ///
    /// # Errors
    /// What to tell whoever asked: the store failed.
    pub fn rehearse_sweep(&self, at: Option<Timestamp>) -> Heard {
        let now = self.clock.now();
        let moment = at.map_or(now, |at| now.at(at));
        self.engine.rehearse(Input::Sweep(Vec::new()), moment).map_err(|error| error.to_string())
    }

    /// Puts a file into the store of files, before the message that names it is handed over. The inner error says why
    /// this file can never be had, the outer one that there is no room for it now. Waits for the disk.
    ///
    /// # Errors
    /// [`files::NoRoom`].
    pub fn keep(&self, bytes: &[u8]) -> Result<Result<BlobId, String>, files::NoRoom> {
        self.files.keep(self.engine.store(), bytes)
    }

    /// Tells the engine that somebody is there to take what waits for an address.
    pub fn reachable(&self, address: Address) {
        self.inbox.push(Item::of(Input::Reachable(address.channel.clone(), Some(address))));
    }

    /// Waits until the daemon was asked to stop or cannot go on.
    pub async fn stopped(&self) {
        self.stop.asked().await;
    }

    /// Ends the engine, then the agents. What was not finished goes on at the next start, which finds agents that ended
    /// with this run: that is no failure of theirs, so their ends must not be taken in by this one.
    ///
    /// # Errors
    /// [`Error::Failed`] if it could not go on, with the reason.
    pub fn shut_down(&self) -> Result<(), Error> {
        self.stop.ask();
        self.typing.shut_down();
        self.switchboard.shut_down();
        self.inbox.close();
        let engine = self.engine_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            // A panic of it is known already.
            drop(engine.join());
        }
        crash::point("stopped-engine");
        self.mailroom.shut_down();
        self.runtime.shut_down();
        crash::point("stopped-agents");
        match self.stop.reason() {
            Some(reason) => Err(Error::Failed(reason)),
            None => {
                self.engine.store().close();
                Ok(())
            }
        }
    }
}

/// Terminals that say what became of deliveries.
fn attended(inbox: &Arc<Inbox>, metrics: &Arc<Metrics>, name: &ChannelName) -> Arc<Terminals> {
    let (inbox, metrics, name) = (Arc::clone(inbox), Arc::clone(metrics), name.clone());
    Arc::new(Terminals::new(Arc::new(move |id, attempt, result| {
        crash::point("delivered");
        metrics.delivered(&name, &result);
        inbox.push(Item::of(Input::Delivered(id, attempt, result)));
    })))
}

fn answer_and_perform(world: &World, answer: Answer, to: Option<oneshot::Sender<Heard>>) {
    let heard = match answer {
        Ok(applied) => {
            for problem in &applied.problems {
                tracing::error!(%problem, "a part of the work was left out");
            }
            applied.effects.into_iter().for_each(|effect| world.perform(effect));
            Ok(applied.reply)
        }
        Err(error) => {
            tracing::error!(%error, "an input could not be carried out");
            Err(error.to_string())
        }
    };
    if let (Some(to), heard) = (to, heard) {
        // Whoever asked may be gone; what it asked for happened.
        drop(to.send(heard as Result<Reply, String>));
    }
}

/// Opens the store of a data directory for writing; the daemon and commands without a daemon do the same.
///
/// # Errors
/// [`Error`] of the store, or when there is no entropy for a new one.
pub fn open_store(paths: &Paths) -> Result<Store, Error> {
    let install = clock::random().map_err(Error::Entropy)?;
    let options = state::Options { now: Some(clock::wall()), ..state::Options::new(install) };
    Ok(Store::open(paths.data(), options)?)
}

/// The canonical directory of the agent groups' folders, as bytes.
#[must_use]
pub fn groups_path(paths: &Paths) -> Vec<u8> {
    let groups = paths.groups();
    let canonical = groups.canonicalize().unwrap_or(groups);
    canonical.into_os_string().into_encoded_bytes()
}

fn runtime_events(inbox: &Arc<Inbox>, typing: &Arc<Typing>) -> Events {
    let (inbox, typing) = (Arc::clone(inbox), Arc::clone(typing));
    Arc::new(move |event| {
        crash::point("runtime-event");
        if let RuntimeEvent::Gone { session, .. } = &event {
            typing.over(*session);
        }
        inbox.push(Item::of(Input::Runtime(event)));
    })
}

/// What confined agents must not get to see along with the system's programs.
fn guarded(paths: &Paths) -> Vec<PathBuf> {
    let home = env::env_lookup("HOME").map(PathBuf::from);
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    [Some(paths.data().to_owned()), home].into_iter().flatten().collect()
}
