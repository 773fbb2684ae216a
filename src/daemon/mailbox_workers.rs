//! The threads that access mailboxes. Exports, collections and removals of one session run in order, different sessions
//! in parallel. This keeps file access out of the engine.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::engine_thread::{Inbox, Item};
use super::files::{self, Files};
use super::given::Given;
use super::heartbeats::Heartbeats;
use super::stop::Stop;
use super::typing::Typing;
use super::worker;
use crate::clock::Clock;
use crate::config::{Machine, Paths};
use crate::crash;
use crate::egress::Egress;
use crate::engine::commit::Engine;
use crate::gateway::Gateway;
use crate::mailbox::{Budget, Error, Mailboxes, Watcher};
use crate::model::effect::{Discard, Export, Launch, RunPolicy};
use crate::model::gateway::TurnBegan;
use crate::model::id::SessionId;
use crate::model::input::Input;
use crate::model::mailbox::{CollectedRecord, Observation, ObservedWriting, Record};
use crate::model::report::Reply;
use crate::runtime::Runtime;
use crate::runtime::process::Lookup;
use crate::socket::protocol::FloodJson;
use crate::time::zone::{Chosen, Zone};

/// Number of threads. A session always uses the same one.
const THREADS: usize = 3;
/// Maximum number of messages withdrawn from one session; more than a mailbox can hold.
const WITHHELD_MAX: usize = 1_000;

/// Time limit at shutdown for mailbox operations in progress.
const END_MAX: Duration = Duration::from_secs(5);

/// A mailbox operation.
pub(super) enum Job {
    /// Write context and messages.
    Export(Box<Export>),
    /// Prepare the mailbox, then start the incarnation.
    Launch(Box<Launch>),
    /// Open the model gateway and the network for an incarnation that may be running.
    Admit(SessionId, u32),
    /// Judge the connections of an incarnation by another policy.
    NetworkPolicy(Box<RunPolicy>),
    /// Tell the model gateway that a turn began.
    Turn(TurnBegan),
    /// Remove completed messages.
    Discard(Discard),
    /// Remove files that were kept for sending.
    Release(SessionId, Vec<String>),
    /// Remove files of messages that agents may not read any more and whose removal was lost.
    RemoveReceived(SessionId),
    /// Read what agents wrote.
    Collect(SessionId),
    /// Read the rest of an ended incarnation's output.
    CollectRest(SessionId, u32),
    /// Withdraw messages that a session's agent has not begun, and signal when done.
    Withhold(SessionId, oneshot::Sender<()>),
}

/// State shared by the threads.
pub(super) struct MailboxWorkers {
    pub(super) mailboxes: Mailboxes,
    live: Mutex<HashMap<SessionId, u32>>,
    /// Sessions with a queued collection. One collection finds everything, so no second one is queued.
    to_collect: Mutex<HashSet<SessionId>>,
    /// Observations since the last tick, and the newest heartbeats.
    pub(super) heartbeats: Mutex<Heartbeats>,
    /// Remaining budgets of agents for messages outside of answers.
    budgets: Mutex<HashMap<SessionId, Budget>>,
    /// Secrets that were given to agents, for redaction.
    pub(super) secrets: Mutex<HashMap<SessionId, Given>>,
    /// Resources that each agent lacked at its last start.
    pub(super) left_out: Mutex<HashMap<String, Vec<String>>>,
    pub(super) context: WorkerContext,
    pub(super) paths: Paths,
    /// Tells the machine's time zone, the default if none is configured.
    machine: Mutex<Machine>,
    watcher: Mutex<Option<Watcher>>,
    /// Queues of the threads. Empty after shutdown.
    queues: Mutex<Vec<Sender<Job>>>,
    /// Disconnected when all threads have ended.
    ended: Mutex<Receiver<()>>,
}

/// Dependencies of the mailbox workers.
pub(super) struct WorkerContext {
    /// Queue for collected records.
    pub(super) inbox: Arc<Inbox>,
    /// Gives access to the store, for reading.
    pub(super) engine: Arc<Engine>,
    /// Where agents run.
    pub(super) runtime: Arc<dyn Runtime>,
    /// The way of agents to their models.
    pub(super) gateway: Arc<Gateway>,
    /// Their way to everything else.
    pub(super) egress: Arc<Egress>,
    /// Whether anything new may be begun.
    pub(super) stop: Arc<Stop>,
    /// Typing indicators, which are told about agents' progress.
    pub(super) typing: Arc<Typing>,
    /// What time it is.
    pub(super) clock: Clock,
    /// Finds the variables that references name.
    pub(super) lookup: Lookup,
}

impl MailboxWorkers {
    /// Starts the threads.
    pub(super) fn open(
        paths: &Paths,
        files: &Files,
        install: &str,
        context: WorkerContext,
    ) -> Result<Arc<Self>, super::Error> {
        let mailboxes = Mailboxes::open(&paths.sessions(), files.blobs(), install)?;
        let machine = Machine::look();
        if let Some(complaint) = machine.complaint() {
            tracing::warn!("{complaint}");
        }
        let (queues, jobs): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
        let (ending, ended) = channel();
        let room = Arc::new(Self {
            mailboxes,
            live: Mutex::default(),
            to_collect: Mutex::default(),
            heartbeats: Mutex::default(),
            budgets: Mutex::default(),
            secrets: Mutex::default(),
            left_out: Mutex::default(),
            context,
            paths: paths.clone(),
            machine: Mutex::new(machine),
            watcher: Mutex::new(None),
            queues: Mutex::new(queues),
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
            let (stop, essential) = (Arc::clone(&room.context.stop), Arc::clone(&room.context.stop));
            let room = Arc::downgrade(&room);
            let (name, ending) = (format!("mailbox {number}"), ending.clone());
            let work = move || {
                work(&jobs, &room, &stop);
                drop(ending);
            };
            worker::start_essential(&name, &essential, work)?;
        }
        Ok(room)
    }

    /// Hands a job to the thread of its session.
    pub(super) fn give(&self, session: SessionId, job: Job) {
        if matches!(job, Job::Collect(_)) && !lock(&self.to_collect).insert(session) {
            return;
        }
        if let Job::Launch(launch) = &job {
            lock(&self.heartbeats).expect(session, launch.incarnation);
        }
        let queue = usize::try_from(session.number() % THREADS as u64).unwrap_or(0);
        if let Some(queue) = lock(&self.queues).get(queue) {
            // During shutdown the thread is gone. The next start requests the job again.
            drop(queue.send(job));
        }
    }

    /// The mailboxes, for reading what is kept in them.
    pub(super) const fn mailboxes(&self) -> &Mailboxes {
        &self.mailboxes
    }

    /// What the live agent of a session says that it is writing.
    pub(super) fn writing(&self, session: SessionId) -> Option<ObservedWriting> {
        let incarnation = lock(&self.live).get(&session).copied()?;
        // A file that cannot be read now is read again by the next look, which also logs it.
        self.mailboxes.writing(session, incarnation).ok().flatten()
    }

    /// Watches an incarnation's mailbox from now on.
    pub(super) fn follow(&self, session: SessionId, incarnation: u32) {
        lock(&self.live).insert(session, incarnation);
        let watched = match lock(&self.watcher).as_ref() {
            Some(watcher) => watcher.watch(&self.mailboxes, session),
            None => Ok(()),
        };
        if let Err(error) = watched {
            tracing::warn!(%session, %error, "cannot watch a mailbox; polling it every second instead");
        }
    }

    /// Observations of live mailboxes since the last tick. Also schedules a new look at every live mailbox, because a
    /// watcher can miss changes, and heartbeats are not watched.
    pub(super) fn look(&self) -> Vec<Observation> {
        let seen = lock(&self.heartbeats).take();
        let live: Vec<(SessionId, u32)> =
            lock(&self.live).iter().map(|(session, number)| (*session, *number)).collect();
        for (session, incarnation) in live {
            lock(&self.heartbeats).expect(session, incarnation);
            self.give(session, Job::Collect(session));
        }
        seen
    }

    /// Returns observations of a failed sweep, for the next one.
    pub(super) fn look_again(&self, told: Vec<Observation>) {
        lock(&self.heartbeats).give_back(told);
    }

    /// Applies a runner's output and its heartbeat. The heartbeat is read first and reported last, so that the claims
    /// that its progress refers to are already stored. If the output could not be stored, only the runner being alive
    /// is reported.
    fn look_through(&self, session: SessionId) -> Result<(), Error> {
        let live = lock(&self.live).get(&session).copied();
        let sight = live.map_or(Ok(None), |incarnation| self.mailboxes.observe(session, incarnation));
        let collected = self.collect(session, None);
        let wholly = matches!(collected, Ok(Taken::Wholly));
        let (sight, failed) = sight.map_or_else(|error| (None, Err(error)), |sight| (sight, Ok(())));
        let news = sight.and_then(|sight| self.mailboxes.note(sight, wholly));
        if let Some(state) = news.as_ref().and_then(|news| news.state.as_ref()) {
            if state.progress {
                self.context.typing.progress(session);
            }
            self.context.typing.tool(session, state.tool.as_ref().map(|tool| tool.name.as_str()));
        }
        lock(&self.heartbeats).looked(session, live, news, self.context.clock.now().awake);
        collected.and(failed)
    }

    /// Ends the rest of a runner for which a message was written. Reads its heartbeat first: otherwise a resting
    /// heartbeat that was written before the message and read after it would begin another rest.
    fn brought(&self, session: SessionId) -> Result<(), Error> {
        let live = lock(&self.live).get(&session).copied();
        let sight = live.map_or(Ok(None), |incarnation| self.mailboxes.observe(session, incarnation));
        let (sight, failed) = sight.map_or_else(|error| (None, Err(error)), |sight| (sight, Ok(())));
        let news = sight.and_then(|sight| self.mailboxes.note(sight, false));
        lock(&self.heartbeats).brought(session, live, news, self.context.clock.now().awake);
        failed
    }

    fn forget(&self, session: SessionId, incarnation: u32) {
        self.close_gateway(session, incarnation);
        self.close_network(session, incarnation);
        let mut live = lock(&self.live);
        if live.get(&session) == Some(&incarnation) {
            live.remove(&session);
            drop(live);
            lock(&self.heartbeats).forget(session);
            if let Some(watcher) = lock(&self.watcher).as_ref() {
                watcher.unwatch(session);
            }
            self.mailboxes.forget(session);
        }
    }

    fn carry_out(&self, job: Job) {
        let (session, done) = match job {
            Job::Export(mut export) => {
                if self.context.stop.is_draining() {
                    // A turn in progress may need the context, but no new turn may begin.
                    export.messages.clear();
                }
                crash::point("export");
                let done = self.mailboxes.export(&export, self.zone(&export).name());
                crash::point("exported");
                let done = done.and_then(|asks| if asks { self.brought(export.session) } else { Ok(()) });
                (export.session, done)
            }
            Job::Discard(discard) => (discard.session, self.discard(discard)),
            Job::Release(session, names) => (session, self.mailboxes.release(&names)),
            Job::RemoveReceived(session) => {
                return files::search_received(&self.mailboxes, self.context.engine.store(), session);
            }
            // Effects are hints: the next start launches it.
            Job::Launch(_) if self.context.stop.is_draining() => return,
            Job::Launch(launch) => return self.launch(&launch),
            Job::Admit(session, number) => {
                self.reopen_gateway(session, number);
                self.reopen_network(session, number);
                (session, Ok(()))
            }
            Job::NetworkPolicy(of) => return self.set_network_policy(*of),
            Job::Turn(turn) => {
                // Most agents have their keys, and no address.
                self.context.gateway.turn_began(&turn);
                return;
            }
            Job::Withhold(session, done) => {
                let withheld = self.withhold(session);
                if done.send(()).is_err() {
                    tracing::debug!(%session, "the end of the work in progress has no waiting caller any more");
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
            // The next sweep requests failed jobs again.
            tracing::warn!(%session, %error, "cannot process a mailbox, retrying");
        }
    }

    /// Withdraws messages that agents have not begun from the mailboxes of live sessions. Each receiver signals that,
    /// for one session, everything begun until then is known.
    pub(super) fn withhold_all(&self) -> Vec<oneshot::Receiver<()>> {
        let live: Vec<SessionId> = lock(&self.live).keys().copied().collect();
        let withhold = |session| {
            let (done, heard) = oneshot::channel();
            self.give(session, Job::Withhold(session, done));
            heard
        };
        live.into_iter().map(withhold).collect()
    }

    /// Waits until no mailbox is in use, after the daemon was asked to stop and its engine has ended. The wait is
    /// limited: operations that a slow disk delays are repeated after the next start.
    pub(super) fn shut_down(&self) {
        lock(&self.queues).clear();
        if lock(&self.ended).recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("files of a mailbox are still being read; the next start reads them again");
        }
    }

    fn withhold(&self, session: SessionId) -> Result<(), Error> {
        self.collect(session, None)?;
        let waiting =
            self.context.engine.store().read(|db, txn| db.ready_messages.collect_prefix(txn, &session, WITHHELD_MAX));
        let waiting = waiting.unwrap_or_else(|error| {
            tracing::warn!(%session, %error, "cannot read an agent's waiting messages; it may start with them");
            Vec::new()
        });
        let seqs: Vec<u64> = waiting.into_iter().map(|(key, _)| key.seq).collect();
        self.mailboxes.discard(&Discard { session, files: seqs.clone(), seqs, agent_files: Vec::new() })
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

    /// The machine's time zone, which applies if none is configured.
    pub(super) fn machine_zone(&self) -> Chosen {
        lock(&self.machine).zone(None, None)
    }

    /// Reads the machine's time zone again. Returns it if it has changed.
    pub(super) fn look_at_zone(&self) -> Option<Zone> {
        let found = Machine::look();
        let mut machine = lock(&self.machine);
        let (before, after) = (machine.zone(None, None).zone, found.zone(None, None).zone);
        *machine = found;
        (before != after).then_some(after)
    }

    /// The time zone of the export's recipient.
    pub(super) fn zone(&self, export: &Export) -> Zone {
        let configured = export.context.as_ref().and_then(|context| context.timezone.as_deref());
        lock(&self.machine).zone(configured, None).zone
    }

    /// Sessions whose agents write more than Hearth collects, with the number of discarded records.
    pub(super) fn floods(&self) -> Vec<FloodJson> {
        let now = self.context.clock.now().awake;
        let mut budgets = lock(&self.budgets);
        let all = budgets.iter_mut().map(|(session, budget)| (*session, budget.discarded(now)));
        let mut floods: Vec<(SessionId, u64)> = all.filter(|(_, discarded)| *discarded > 0).collect();
        floods.sort();
        let floods = floods.into_iter();
        floods.map(|(session, discarded)| FloodJson { session: session.to_string(), discarded }).collect()
    }

    /// Collects a mailbox and waits until the engine has stored the records, so that the next collection does not find
    /// them again.
    fn collect(&self, session: SessionId, closes: Option<u32>) -> Result<Taken, Error> {
        let now = self.context.clock.now().awake;
        self.hide_secrets(session);
        let allowed = lock(&self.budgets).entry(session).or_insert_with(|| Budget::new(now)).left(now);
        let mut collected = match closes {
            None => self.mailboxes.collect(session, allowed)?,
            Some(number) => self.mailboxes.collect_rest(session, number, allowed)?,
        };
        let tells = self.put_hidden(session, &mut collected);
        if lock(&self.budgets).get_mut(&session).is_some_and(|budget| budget.spend(collected.said, collected.left_out))
        {
            tracing::warn!(%session, "an agent writes more than Hearth accepts; `hearth sessions show` shows why");
        }
        for fault in &collected.faults {
            tracing::warn!(%session, %fault, "cannot read a file of a mailbox, retrying");
        }
        for CollectedRecord { record, .. } in &collected.collection.found {
            if let Record::End { failure: Some(failure), .. } = record {
                tracing::warn!(%session, error = failure.error, "a turn failed");
            }
        }
        let mut taken = if collected.faults.is_empty() { Taken::Wholly } else { Taken::InPart };
        if !collected.collection.found.is_empty() {
            self.context.typing.progress(session);
        } else if collected.collection.closes.is_none() {
            return Ok(taken);
        }
        crash::point(if closes.is_none() { "collected" } else { "collected-rest" });
        let (answer, heard) = oneshot::channel();
        let mut item = Item::of(Input::Collected(collected.collection));
        item.answer = Some(answer);
        self.context.inbox.push(item);
        match heard.blocking_recv() {
            Ok(Ok(Reply::Done)) if tells => self.note_told(session),
            Ok(Ok(Reply::Done)) | Err(_) => {}
            Ok(Ok(other)) => tracing::warn!(%session, ?other, "an unexpected answer to a collection"),
            Ok(Err(error)) => {
                tracing::warn!(%session, %error, "cannot apply a collection, retrying");
                taken = Taken::InPart;
            }
        }
        if collected.more {
            self.give(session, closes.map_or(Job::Collect(session), |number| Job::CollectRest(session, number)));
        }
        Ok(taken)
    }
}

/// Whether a collection was stored completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Everything is in the store.
    Wholly,
    /// Some records could not be read or stored.
    InPart,
}

fn work(jobs: &Receiver<Job>, room: &Weak<MailboxWorkers>, stop: &Stop) {
    while let Ok(job) = jobs.recv() {
        let Some(room) = room.upgrade().filter(|_| !stop.is_asked()) else { return };
        room.carry_out(job);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
