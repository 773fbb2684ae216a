//! The threads that touch mailboxes: exports, collections and removals of one session happen in order, sessions side by
//! side. The engine never waits for a file.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::files::Files;
use super::inbox::{Inbox, Item};
use super::sightings::Sightings;
use super::stop::{Needed, Stop};
use super::typing::Typing;
use crate::clock::Clock;
use crate::config::{Machine, Paths};
use crate::contracts::home::{self, Place, Wanted};
use crate::crash;
use crate::engine::commit::Engine;
use crate::mailbox::{Budget, Error, Mailboxes, Watcher};
use crate::model::effect::{Discard, Export, Launch};
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::model::input::{Input, RuntimeEvent};
use crate::model::mailbox::Observation;
use crate::model::report::Reply;
use crate::runtime::{Runtime, Spec};
use crate::time::zone::{Chosen, Zone};

/// Threads; one session always uses the same one.
const THREADS: usize = 3;
/// Messages of one session that are taken back at most; more than a mailbox holds at once.
const WITHHELD_MAX: usize = 1_000;

/// How long the end of the daemon waits for what is being done with a mailbox.
const END_MAX: Duration = Duration::from_secs(5);

/// One thing to do with a mailbox.
pub(super) enum Job {
    /// Make context and messages be there.
    Export(Box<Export>),
    /// Make the mailbox ready, then start the incarnation.
    Launch(Box<Launch>),
    /// Remove what is over.
    Discard(Discard),
    /// Remove what was kept to be sent.
    Release(SessionId, Vec<String>),
    /// Read what agents wrote.
    Collect(SessionId),
    /// Read what is left of an incarnation that is gone.
    CollectRest(SessionId, u32),
    /// Take back what a session's agent has not begun with, and say when that is done.
    Withhold(SessionId, oneshot::Sender<()>),
}

/// What the threads share.
pub(super) struct Mailroom {
    mailboxes: Mailboxes,
    live: Mutex<HashMap<SessionId, u32>>,
    /// Sessions whose next look waits for its thread: one look finds everything.
    to_collect: Mutex<HashSet<SessionId>>,
    /// What was seen since the last tick.
    sightings: Mutex<Sightings>,
    /// What agents may still say outside of answers.
    budgets: Mutex<HashMap<SessionId, Budget>>,
    /// What each agent did without when it last started.
    left_out: Mutex<HashMap<String, Vec<String>>>,
    around: Around,
    paths: Paths,
    /// Says which zone holds where none is configured.
    machine: Mutex<Machine>,
    watcher: Mutex<Option<Watcher>>,
    /// Empty once the daemon ends.
    desks: Mutex<Vec<Sender<Job>>>,
    /// Disconnected when all threads have ended.
    ended: Mutex<Receiver<()>>,
}

/// The parts of the daemon that the mailroom works with.
pub(super) struct Around {
    /// Where what was found goes.
    pub(super) inbox: Arc<Inbox>,
    /// The store, for reading.
    pub(super) engine: Arc<Engine>,
    /// Where agents run.
    pub(super) runtime: Arc<dyn Runtime>,
    /// Whether anything new may be begun.
    pub(super) stop: Arc<Stop>,
    /// Who hears that agents do something.
    pub(super) typing: Arc<Typing>,
    /// What time it is.
    pub(super) clock: Clock,
}

impl Mailroom {
    /// Starts the threads.
    pub(super) fn open(paths: &Paths, files: &Files, install: &str, around: Around) -> Result<Arc<Self>, super::Error> {
        let mailboxes = Mailboxes::open(&paths.sessions(), files.blobs(), install)?;
        let machine = Machine::look();
        if let Some(complaint) = machine.complaint() {
            tracing::warn!("{complaint}");
        }
        let (desks, jobs): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
        let (ending, ended) = channel();
        let room = Arc::new(Self {
            mailboxes,
            live: Mutex::default(),
            to_collect: Mutex::default(),
            sightings: Mutex::default(),
            budgets: Mutex::default(),
            left_out: Mutex::default(),
            around,
            paths: paths.clone(),
            machine: Mutex::new(machine),
            watcher: Mutex::new(None),
            desks: Mutex::new(desks),
            ended: Mutex::new(ended),
        });
        let weak = Arc::downgrade(&room);
        let watcher = Watcher::new(move |session| {
            if let Some(room) = weak.upgrade() {
                room.give(session, Job::Collect(session));
            }
        });
        *lock(&room.watcher) = Some(watcher);
        for (number, jobs) in jobs.into_iter().enumerate() {
            let stop = Arc::clone(&room.around.stop);
            let room = Arc::downgrade(&room);
            let (name, ending) = (format!("mailroom {number}"), ending.clone());
            let work = move || {
                let _needed = Needed(&stop, "the mailroom");
                work(&jobs, &room, &stop);
                drop(ending);
            };
            std::thread::Builder::new().name(name).spawn(work).map_err(super::Error::Thread)?;
        }
        Ok(room)
    }

    /// Hands a job to the thread of its session.
    pub(super) fn give(&self, session: SessionId, job: Job) {
        if matches!(job, Job::Collect(_)) && !lock(&self.to_collect).insert(session) {
            return;
        }
        if let Job::Launch(launch) = &job {
            lock(&self.sightings).expect(session, launch.incarnation);
        }
        let desk = usize::try_from(session.number() % THREADS as u64).unwrap_or(0);
        if let Some(desk) = lock(&self.desks).get(desk) {
            // A desk that is gone belongs to a daemon that is stopping; the next start asks again.
            drop(desk.send(job));
        }
    }

    /// The mailboxes, for reading what is kept in them.
    pub(super) const fn mailboxes(&self) -> &Mailboxes {
        &self.mailboxes
    }

    /// Watches an incarnation's mailbox from now on.
    pub(super) fn follow(&self, session: SessionId, incarnation: u32) {
        lock(&self.live).insert(session, incarnation);
        let watched = match lock(&self.watcher).as_ref() {
            Some(watcher) => watcher.watch(&self.mailboxes, session),
            None => Ok(()),
        };
        if let Err(error) = watched {
            tracing::warn!(%session, %error, "a mailbox cannot be watched; it is looked at every second instead");
        }
    }

    /// What was seen in live mailboxes since the last tick. Every live mailbox is looked through again, since a watcher
    /// can miss something, and heartbeats are not watched at all.
    pub(super) fn look(&self) -> Vec<Observation> {
        let seen = lock(&self.sightings).take();
        let live: Vec<(SessionId, u32)> =
            lock(&self.live).iter().map(|(session, number)| (*session, *number)).collect();
        for (session, incarnation) in live {
            lock(&self.sightings).expect(session, incarnation);
            self.give(session, Job::Collect(session));
        }
        seen
    }

    /// What a sweep was told and could not take in is told to the next one.
    pub(super) fn look_again(&self, told: Vec<Observation>) {
        lock(&self.sightings).give_back(told);
    }

    /// Takes in what a runner said, of itself and of its work. The former is read first and told last: what it had claimed
    /// when it got on is known by then. If that could not be taken in, only that it is alive was seen.
    fn look_through(&self, session: SessionId) -> Result<(), Error> {
        let live = lock(&self.live).get(&session).copied();
        let sight = live.map_or(Ok(None), |incarnation| self.mailboxes.observe(session, incarnation));
        let collected = self.collect(session, None);
        let wholly = matches!(collected, Ok(Taken::Wholly));
        let (sight, failed) = sight.map_or_else(|error| (None, Err(error)), |sight| (sight, Ok(())));
        let news = sight.and_then(|sight| self.mailboxes.note(sight, wholly));
        if news.as_ref().and_then(|news| news.state.as_ref()).is_some_and(|state| state.progress) {
            self.around.typing.progress(session);
        }
        lock(&self.sightings).looked(session, news);
        collected.and(failed)
    }

    fn forget(&self, session: SessionId, incarnation: u32) {
        let mut live = lock(&self.live);
        if live.get(&session) == Some(&incarnation) {
            live.remove(&session);
            drop(live);
            lock(&self.sightings).forget(session);
            if let Some(watcher) = lock(&self.watcher).as_ref() {
                watcher.unwatch(session);
            }
            self.mailboxes.forget(session);
        }
    }

    fn carry_out(&self, job: Job) {
        let (session, done) = match job {
            Job::Export(mut export) => {
                if self.around.stop.is_draining() {
                    // A turn that is under way may need the rest; nothing new is begun.
                    export.messages.clear();
                }
                crash::point("export");
                let done = self.mailboxes.export(&export, self.zone(&export).name());
                crash::point("exported");
                (export.session, done)
            }
            Job::Discard(discard) => (discard.session, self.discard(discard)),
            Job::Release(session, names) => (session, self.mailboxes.release(&names)),
            // The next start launches it: an effect is a hint.
            Job::Launch(_) if self.around.stop.is_draining() => return,
            Job::Launch(launch) => return self.launch(&launch),
            Job::Withhold(session, done) => {
                let withheld = self.withhold(session);
                if done.send(()).is_err() {
                    tracing::debug!(%session, "nobody waits any more for the end of what is under way");
                }
                (session, withheld)
            }
            Job::Collect(session) => {
                lock(&self.to_collect).remove(&session);
                if let Some(watcher) = lock(&self.watcher).as_ref() {
                    watcher.taken(session);
                }
                (session, self.look_through(session))
            }
            Job::CollectRest(session, number) => {
                let done = self.collect(session, Some(number));
                self.forget(session, number);
                (session, done.map(drop))
            }
        };
        if let Err(error) = done {
            // Whatever did not work is asked for again by the next sweep.
            tracing::warn!(%session, %error, "a mailbox could not be served; it is tried again");
        }
    }

    /// Takes back what waits in the mailboxes of live sessions and was not begun with. What is heard from each of the
    /// answers is that everything that was begun with in a session until then is known.
    pub(super) fn withhold_all(&self) -> Vec<oneshot::Receiver<()>> {
        let live: Vec<SessionId> = lock(&self.live).keys().copied().collect();
        let withhold = |session| {
            let (done, heard) = oneshot::channel();
            self.give(session, Job::Withhold(session, done));
            heard
        };
        live.into_iter().map(withhold).collect()
    }

    /// Waits until nothing touches a mailbox any more, once the daemon was asked to stop and its engine has ended; not for
    /// ever, since what a disk takes its time with is done again at the next start.
    pub(super) fn shut_down(&self) {
        lock(&self.desks).clear();
        if lock(&self.ended).recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("files of a mailbox are still being read; the next start begins with them again");
        }
    }

    fn withhold(&self, session: SessionId) -> Result<(), Error> {
        self.collect(session, None)?;
        let waiting = self.around.engine.store().read(|db, txn| db.ready.collect_prefix(txn, &session, WITHHELD_MAX));
        let waiting = waiting.unwrap_or_else(|error| {
            tracing::warn!(%session, %error, "what waits for an agent cannot be read; it may begin with it");
            Vec::new()
        });
        let seqs = waiting.into_iter().map(|((_, seq), _)| seq).collect();
        self.mailboxes.discard(&Discard { session, seqs, agent_files: Vec::new() })
    }

    fn discard(&self, discard: Discard) -> Result<(), Error> {
        crash::point("discard");
        if crash::is_at("discarded-half") {
            self.mailboxes.discard(&Discard { agent_files: Vec::new(), ..discard.clone() })?;
            crash::point("discarded-half");
        }
        let done = self.mailboxes.discard(&discard);
        crash::point("discarded");
        done
    }

    /// The zone that holds where none is configured.
    pub(super) fn machine_zone(&self) -> Chosen {
        lock(&self.machine).zone(None, None)
    }

    /// Looks at the machine's zone again; it is told if it is another one now.
    pub(super) fn look_at_zone(&self) -> Option<Zone> {
        let found = Machine::look();
        let mut machine = lock(&self.machine);
        let (before, after) = (machine.zone(None, None).zone, found.zone(None, None).zone);
        *machine = found;
        (before != after).then_some(after)
    }

    /// The zone that holds for who gets this.
    fn zone(&self, export: &Export) -> Zone {
        let configured = export.context.as_ref().and_then(|context| context.timezone.as_deref());
        lock(&self.machine).zone(configured, None).zone
    }

    fn launch(&self, launch: &Launch) {
        let (session, incarnation) = (launch.session, launch.incarnation);
        crash::point("launch");
        let zone = self.zone(&launch.export);
        if let Err(error) = self.mailboxes.export(&launch.export, zone.name()) {
            return self.not_started(launch, format!("its mailbox cannot be made ready: {error}"));
        }
        let place = if self.around.runtime.shows_host_paths() { Place::Host } else { Place::Container };
        let wanted = Wanted { folder: &launch.folder, settings: &launch.settings, place };
        let prepared = match home::prepare(&self.paths, &wanted) {
            Ok(prepared) => prepared,
            Err(error) => return self.not_started(launch, format!("its files cannot be made ready: {error}")),
        };
        self.tell_left_out(&launch.folder, prepared.left_out);
        self.follow(session, incarnation);
        crash::point("launch-exported");
        self.around.runtime.ensure(Spec {
            session,
            incarnation,
            session_dir: self.mailboxes.path(session),
            group_dir: self.paths.groups().join(&launch.folder),
            home_dir: self.paths.homes().join(&launch.folder),
            settings: launch.settings.clone(),
            provider: launch.export.context.as_ref().map_or(launch.settings.provider, |context| context.provider),
            session_name: launch.session_name,
            timezone: zone.variable(),
            digest: launch.digest,
            image: launch.image.clone(),
            mounts: prepared.mounts,
        });
        crash::point("launched");
    }

    fn not_started(&self, launch: &Launch, reason: String) {
        let (session, incarnation) = (launch.session, launch.incarnation);
        lock(&self.sightings).forget(session);
        tracing::warn!(%session, incarnation, reason, "agent not started");
        let exit = Exit::NotStarted(reason);
        let gone = RuntimeEvent::Gone { session, incarnation, exit, stderr_tail: String::new() };
        self.around.inbox.push(Item::of(Input::Runtime(gone)));
    }

    /// Says once what an agent does without; `agents show` and `doctor` say it whenever they are asked.
    fn tell_left_out(&self, folder: &str, left_out: Vec<String>) {
        let mut told = lock(&self.left_out);
        let before = told.insert(folder.to_owned(), left_out.clone()).unwrap_or_default();
        for what in left_out.iter().filter(|what| !before.contains(what)) {
            tracing::warn!(agent = folder, what, "an agent starts without something that was declared");
        }
    }

    /// Reads a mailbox and waits until the engine has taken in what was found, so that the next look does not find the
    /// same again.
    fn collect(&self, session: SessionId, closes: Option<u32>) -> Result<Taken, Error> {
        let now = self.around.clock.now().awake;
        let allowed = lock(&self.budgets).entry(session).or_insert_with(|| Budget::new(now)).left(now);
        let collected = match closes {
            None => self.mailboxes.collect(session, allowed)?,
            Some(number) => self.mailboxes.collect_rest(session, number, allowed)?,
        };
        let spent = (collected.said, collected.left_out);
        if lock(&self.budgets).get_mut(&session).is_some_and(|budget| budget.spend(spent)) {
            tracing::warn!(%session, "an agent says more than is taken in; `hearth sessions show` has the reason");
        }
        for fault in &collected.faults {
            tracing::warn!(%session, %fault, "a file of a mailbox could not be read; it is tried again");
        }
        let mut taken = if collected.faults.is_empty() { Taken::Wholly } else { Taken::InPart };
        if !collected.collection.found.is_empty() {
            self.around.typing.progress(session);
        } else if collected.collection.closes.is_none() {
            return Ok(taken);
        }
        crash::point(if closes.is_none() { "collected" } else { "collected-rest" });
        let (answer, heard) = oneshot::channel();
        let mut item = Item::of(Input::Collected(collected.collection));
        item.answer = Some(answer);
        self.around.inbox.push(item);
        match heard.blocking_recv() {
            Ok(Ok(Reply::Done)) | Err(_) => {}
            Ok(Ok(other)) => tracing::warn!(%session, ?other, "an unexpected answer to a collection"),
            Ok(Err(error)) => {
                tracing::warn!(%session, %error, "a collection was not taken in; it is tried again");
                taken = Taken::InPart;
            }
        }
        if collected.more {
            self.give(session, closes.map_or(Job::Collect(session), |number| Job::CollectRest(session, number)));
        }
        Ok(taken)
    }
}

/// What became of what a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// All of it is in the store.
    Wholly,
    /// Some of it could not be read, or not be stored.
    InPart,
}

fn work(jobs: &Receiver<Job>, room: &Weak<Mailroom>, stop: &Stop) {
    while let Ok(job) = jobs.recv() {
        let Some(room) = room.upgrade().filter(|_| !stop.is_asked()) else { return };
        room.carry_out(job);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
