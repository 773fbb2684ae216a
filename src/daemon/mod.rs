//! Composition root of the daemon: the engine's thread, the mailbox workers, the runtime, the channels, the socket and the
//! clock, and the queues between them.
//!
//! All inputs go into one queue. The engine's thread takes the queued inputs, commits them together, answers them and
//! passes on the effects. Nothing else writes to the store.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::channel::Outcomes;
use crate::channel::terminal::{self, Terminals};
use crate::clock::{self, Alarm, Clock, Stopwatch};
use crate::config::{Machine, Paths};
use crate::crash;
use crate::engine::commit::{Answer, Engine, Submission};
use crate::model::address::{Address, ChannelName};
use crate::model::configure::RuntimeKind;
use crate::model::content::BlobId;
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::time::Timestamp;
use crate::runtime::Runtime;
use crate::state::Store;

pub mod backups;
pub mod bridges;
mod builds;
mod channel_context;
mod channels;
mod child;
mod console;
mod drain;
mod effects;
mod egress;
mod engine_thread;
mod error;
mod facts;
pub mod files;
mod folders;
mod gateway;
mod given;
mod handlers;
pub mod handshake;
mod heartbeats;
pub mod image;
mod ingress;
pub mod isolation_check;
mod launch;
pub mod limits;
mod logins;
mod mailbox_workers;
mod metrics;
mod noted;
pub mod opening;
mod outages;
mod pairing;
pub mod proof;
mod reconcile;
mod reconnect;
pub mod references;
mod reports;
mod runtime;
mod sd_notify;
pub mod selftest;
pub mod setup;
mod skips;
mod state_file_sync;
mod stop;
mod timer;
mod token;
mod typing;
mod voice;
mod worker;
mod writing;

pub use builds::BuildStatus;
use builds::Builds;
use channels::{Channels, FixedChannels};
use effects::Executor;
use engine_thread::{Inbox, InputReply, Item};
pub use error::Error;
use files::{BlobGc, BlobGuard, Files, Remover};
use mailbox_workers::{MailboxWorkers, WorkerContext};
use metrics::{Doorway, Metrics};
use opening::{Opening, open_store};
use reports::DeliveryReports;
use runtime::{Chosen, RuntimeChoice};
use sd_notify::Announcer;
pub use sd_notify::State;
use skips::Skips;
use state_file_sync::Groups;
use stop::Stop;
use typing::Typing;

pub use crate::runtime::process::Sandbox;
pub use channels::LineStatus;
pub use console::rank;
pub use drain::{STOP_MAX, Waiting};
pub use runtime::{rehearse, sandbox, unused_image};

/// Maximum number of inputs per commit.
const GROUP_MAX: usize = 256;

/// Options of a daemon.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// Thresholds and bounds.
    pub policy: Policy,
    /// Runtime for this run only; none means the configured one.
    pub runtime: Option<RuntimeKind>,
    /// Address of the metrics; none means that they are not served.
    pub metrics: Option<SocketAddr>,
    /// Which store it opens, and whether it may create one.
    pub opening: Opening,
}

/// A running daemon.
pub struct Daemon {
    engine: Arc<Engine>,
    inbox: Arc<Inbox>,
    clock: Clock,
    /// Triggers a sweep when something is due.
    alarm: Alarm,
    workers: Arc<MailboxWorkers>,
    runtime: Arc<dyn Runtime>,
    runtime_choice: RuntimeChoice,
    /// Builds images, if agents run in containers.
    builds: Option<Arc<Builds>>,
    typing: Arc<Typing>,
    terminals: Arc<Terminals>,
    console: console::Console,
    channels: Arc<Channels>,
    paths: Paths,
    token: String,
    stop: Arc<Stop>,
    way_out: egress::WayOut,
    announcer: Announcer,
    metrics: Arc<Metrics>,
    files: Files,
    blob_guard: BlobGuard,
    /// Held while an event with files is read.
    reading: Mutex<()>,
    engine_thread: Mutex<Option<JoinHandle<()>>>,
}

impl Daemon {
    /// Opens the store, starts all parts, and submits the start input to the engine. Channels run on `tokio`.
    ///
    /// # Errors
    /// [`Error`], for anything without which a daemon cannot run.
    pub fn start(paths: &Paths, options: DaemonOptions, tokio: &Handle) -> Result<Arc<Self>, Error> {
        let store = open_store(paths, options.opening)?;
        let doorway = options.metrics.map(|address| Doorway::take(address, tokio)).transpose()?;
        let (clock, install) = (Clock::start(store.begin_run()?), format!("{:016x}", store.install()));
        let settings = store.read(|db, txn| db.settings.get(txn, &()))?.unwrap_or_default();
        let (inbox, typing) = (Arc::new(Inbox::default()), Typing::new(&clock));
        let context = runtime::RuntimeContext { paths, install: &install, settings: &settings, asked: options.runtime };
        let hearer = Arc::new(given::Hearer::new(&inbox, &typing));
        let Chosen { runtime, choice } = runtime::choose(&context, given::Hearer::events(&hearer))?;
        tracing::info!("runtime: {}, because {}", runtime.name(), choice.why);
        let builds = runtime.builds_images().then(Arc::<Builds>::default);
        let engine = engine_of(store, options.policy, paths, builds.as_ref());
        let (engine, stop, files) = (Arc::new(engine), Arc::new(Stop::default()), Files::open(paths)?);
        let (metrics, opener) = (Metrics::new(engine.store(), runtime.name())?, gateway::opener(paths)?);
        let way_out = egress::start(paths, &metrics, &inbox, &opener)?;
        let context = WorkerContext {
            inbox: Arc::clone(&inbox),
            gateway: gateway::start(paths, &metrics, &inbox, opener.known())?,
            egress: Arc::clone(&way_out.egress),
            engine: Arc::clone(&engine),
            runtime: Arc::clone(&runtime),
            stop: Arc::clone(&stop),
            typing: Arc::clone(&typing),
            clock: clock.clone(),
            lookup: runtime::lookup(),
        };
        let workers = MailboxWorkers::open(paths, &files, &install, context)?;
        hearer.hide_with(&workers);
        let (reports, terminals, fixed) = built_in(DeliveryReports::new(&inbox, &clock), &metrics)?;
        let removals = Remover::new(&files, &engine, &workers, &stop).start()?;
        let context = channel_context::ChannelContext {
            tokio: tokio.clone(),
            reports,
            engine: Arc::clone(&engine),
            bridges: bridges::Bridges::new(paths, tokio),
            typing: Arc::clone(&typing),
            blob_guard: BlobGuard::new(&files, &removals),
            metrics: Arc::clone(&metrics),
            known: Arc::clone(opener.known()),
        };
        let channels = Channels::new(context, fixed);
        let daemon = Arc::new(Self {
            engine,
            inbox: Arc::clone(&inbox),
            clock,
            alarm: Alarm::default(),
            workers: Arc::clone(&workers),
            runtime: Arc::clone(&runtime),
            runtime_choice: choice,
            builds,
            typing: Arc::clone(&typing),
            terminals,
            console: console::Console::default(),
            channels,
            paths: paths.clone(),
            token: token::renew(&paths.token())?,
            stop,
            way_out,
            announcer: Announcer::of_the_system(),
            metrics,
            blob_guard: BlobGuard::new(&files, &removals),
            files,
            reading: Mutex::default(),
            engine_thread: Mutex::default(),
        });
        daemon.start_threads(removals, install, tokio)?;
        doorway.into_iter().for_each(|doorway| doorway.serve(&daemon, tokio));
        Ok(daemon)
    }

    fn start_threads(self: &Arc<Self>, removals: BlobGc, install: String, tokio: &Handle) -> Result<(), Error> {
        let (daemon, channels) = (Arc::clone(self), Arc::clone(&self.channels));
        let show = move |indicator: &_| channels.show_typing(indicator, |session, at| daemon.writing_for(session, at));
        self.typing.run(show)?;
        self.start_engine(removals, tokio)?;
        self.start_upkeep(install)?;
        Ok(self.channels.connect_all()?)
    }

    /// Looks at agents' folders, and starts the builds of images, the timer, the regular checks and backups.
    fn start_upkeep(self: &Arc<Self>, install: String) -> Result<(), Error> {
        self.start_builds(install)?;
        self.look_at_folders();
        timer::start(self)?;
        proof::start(&self.paths, &self.stop)?;
        backups::start(&self.paths, &self.engine, &self.stop)
    }

    fn start_engine(self: &Arc<Self>, removals: BlobGc, tokio: &Handle) -> Result<(), Error> {
        let daemon = Arc::clone(self);
        let skips = Arc::new(Skips::start(&self.paths, &self.inbox, &self.engine, &self.stop)?);
        let world = Executor {
            workers: Arc::clone(&self.workers),
            runtime: Arc::clone(&self.runtime),
            channels: Arc::clone(&self.channels),
            removals,
            skips: Arc::clone(&skips),
            voice: voice::Voice::new(voice::VoiceContext {
                tokio: tokio.clone(),
                files: self.files.clone(),
                workers: Arc::clone(&self.workers),
                inbox: Arc::clone(&self.inbox),
                stop: Arc::clone(&self.stop),
            }),
            typing: Arc::clone(&self.typing),
            groups: self.start_groups(skips)?,
            stop: Arc::clone(&self.stop),
            engine: Arc::clone(&self.engine),
            reports: Arc::clone(self.channels.reports()),
            inbox: Arc::clone(&self.inbox),
        };
        reconcile::start(&self.workers, &self.stop)?;
        let engine = Arc::clone(&self.engine);
        let indexer = worker::start("indexer", move || engine.index())?;
        let run = move || {
            daemon.run_engine(&world);
            daemon.engine.stop_indexing();
            // Without that thread, transactions index what was said, so its panic is no fault.
            drop(indexer.join());
        };
        let thread = worker::start_essential("engine", &self.stop, run)?;
        *self.engine_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    fn run_engine(&self, world: &Executor) {
        self.inbox.serve(GROUP_MAX, |items| {
            let (group, answers): (Vec<Submission>, Vec<_>) =
                items.into_iter().map(|item| (item.submission, item.answer)).unzip();
            crash::point("taken");
            let began = Stopwatch::start();
            let done = match self.commit(&group) {
                Ok(done) => done,
                Err(error) => {
                    tracing::error!(%error, "the engine cannot continue");
                    self.stop.fail(error);
                    return false;
                }
            };
            crash::point("committed");
            self.metrics.committed(&group, began.elapsed());
            for ((answer, to), one) in done.into_iter().zip(answers).zip(group) {
                self.metrics.answered(&one, &answer);
                if let (Err(_), Input::Sweep(told)) = (&answer, one.input) {
                    self.workers.look_again(told);
                }
                answer_and_perform(world, answer, to);
            }
            crash::point("performed");
            self.console.changed();
            self.wake_in_time();
            self.announcer.alive(self.clock.now().awake);
            true
        });
    }

    /// Schedules the next sweep for the time when something is due. If that cannot be read, the next tick sweeps.
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
        Groups::start(state_file_sync::SyncContext {
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
        builds.start(builds::BuildContext {
            inbox: Arc::clone(&self.inbox),
            engine: Arc::clone(&self.engine),
            runtime: Arc::clone(&self.runtime),
            stop: Arc::clone(&self.stop),
            clock: self.clock.clone(),
            install,
        })
    }

    /// Submits an input to the engine and waits for the reply. New work is refused while the queue is full.
    ///
    /// # Errors
    /// Message for the caller: the queue is full, the daemon is stopping, or the store failed.
    pub async fn submit(&self, input: Input, dry_run: bool) -> InputReply {
        let is_new_work = matches!(input, Input::Inbound(_));
        let files = if dry_run { Vec::new() } else { files::files_of(&input) };
        let (answer, heard) = oneshot::channel();
        let item = Item { submission: Submission::new(input).dry(dry_run), answer: Some(answer) };
        if is_new_work {
            self.inbox.offer(item).map_err(|not_now| not_now.to_string())?;
        } else {
            self.inbox.push(item);
        }
        let heard = heard.await.map_err(|_| "the daemon is stopping".to_owned())?;
        self.blob_guard.settle(files, &heard);
        heard
    }

    /// Reports what a sweep would cause, now or at another time. Nothing is changed.
    ///
    /// # Errors
    /// Message for the caller: the store failed.
    pub fn rehearse_sweep(&self, at: Option<Timestamp>) -> InputReply {
        let now = self.clock.now();
        let moment = at.map_or(now, |at| now.at(at));
        self.engine.rehearse(Input::Sweep(Vec::new()), moment).map_err(|error| error.to_string())
    }

    /// Stores a file in the file store, before the message that refers to it is submitted. The inner error says why
    /// this file can never be stored, the outer one that there is no room for it now. Blocks on the disk.
    ///
    /// # Errors
    /// [`files::NoRoom`].
    pub fn keep(&self, bytes: &[u8]) -> Result<Result<BlobId, String>, files::NoRoom> {
        self.files.keep(self.engine.store(), bytes)
    }

    /// Tells the engine that an address is reachable, so that messages waiting for it can be delivered.
    pub fn reachable(&self, address: Address) {
        self.channels.reports().reachable(&address.channel.clone(), Some(address));
    }

    /// Waits until a stop is requested or the daemon fails.
    pub async fn stopped(&self) {
        self.stop.asked().await;
    }

    /// Ends the engine, then the agents. Unfinished work continues after the next start. The ends of the agents must
    /// not reach this run's engine, which would count them as failures.
    ///
    /// # Errors
    /// [`Error::Failed`] if it could not go on, with the reason.
    pub fn shut_down(&self) -> Result<(), Error> {
        self.stop.ask();
        self.typing.shut_down();
        self.channels.shut_down();
        self.console.shut_down();
        self.way_out.shut_down(&self.inbox);
        self.inbox.close();
        let engine = self.engine_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            // A panic of the engine's thread has already been reported.
            drop(engine.join());
        }
        crash::point("stopped-engine");
        self.workers.shut_down();
        self.runtime.shut_down();
        crash::point("stopped-agents");
        match self.stop.reason() {
            Some(reason) => {
                proof::note_end(&self.paths, &reason);
                Err(Error::Failed(reason))
            }
            None => {
                self.engine.store().close();
                Ok(())
            }
        }
    }
}

/// Channels that always exist, with what they report through.
type BuiltIn = (Arc<DeliveryReports>, Arc<Terminals>, FixedChannels);

/// The engine, which knows the time zone of this machine.
fn engine_of(store: Store, policy: Policy, paths: &Paths, builds: Option<&Arc<Builds>>) -> Engine {
    let engine = Engine::new(store, policy, groups_path(paths));
    engine.in_zone(Machine::look().zone(None, None).zone).with_builds(builds.is_some())
}

/// The terminals, and the channels that always exist.
fn built_in(reports: DeliveryReports, metrics: &Arc<Metrics>) -> Result<BuiltIn, Error> {
    let reports = Arc::new(reports);
    let (terminal, chats) = (ChannelName::new(terminal::NAME)?, console::channel()?);
    let terminals = Arc::new(Terminals::new(outcomes(&reports, metrics, &terminal)));
    let console = console::as_channel(crate::console::chat::Chats::new(outcomes(&reports, metrics, &chats)));
    let fixed = [(terminal, terminal::as_channel(&terminals)), (chats, console)];
    Ok((reports, terminals, fixed.into()))
}

/// Reports delivery results of a channel to the engine and the metrics.
fn outcomes(reports: &Arc<DeliveryReports>, metrics: &Arc<Metrics>, name: &ChannelName) -> Outcomes {
    let (reports, metrics, name) = (Arc::clone(reports), Arc::clone(metrics), name.clone());
    Arc::new(move |id, attempt, result| {
        crash::point("delivered");
        metrics.delivered(&name, &result);
        reports.outcome(&name, id, attempt, result);
    })
}

fn answer_and_perform(world: &Executor, answer: Answer, to: Option<oneshot::Sender<InputReply>>) {
    let heard = match answer {
        Ok(applied) => {
            for problem in &applied.problems {
                tracing::error!(%problem, "part of the work was skipped");
            }
            applied.effects.into_iter().for_each(|effect| world.perform(effect));
            Ok(applied.reply)
        }
        Err(error) => {
            tracing::error!(%error, "an input failed");
            Err(error.to_string())
        }
    };
    if let (Some(to), heard) = (to, heard) {
        // The caller may be gone. The input was applied anyway.
        drop(to.send(heard as Result<Reply, String>));
    }
}

/// The canonical directory of the agent groups' folders, as bytes.
#[must_use]
pub fn groups_path(paths: &Paths) -> Vec<u8> {
    let groups = paths.groups();
    let canonical = groups.canonicalize().unwrap_or(groups);
    canonical.into_os_string().into_encoded_bytes()
}
