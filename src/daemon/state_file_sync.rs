//! The thread that reads the contract files in the folders of agent groups, and writes the session state files.
//!
//! The folders of working groups are watched. All folders are checked every minute. Lock order: the file's lock first,
//! then the store's. The thread never blocks on a file's lock: it retries for a limited time and serves other groups in
//! between.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::engine_thread::{Inbox, Item};
use super::skips::Skips;
use super::stop::Stop;
use super::worker;
use crate::clock::{self, Clock};
use crate::config::Paths;
use crate::contracts::state_file::{self, FileContent, GroupFolder, Lock, Parsed};
use crate::contracts::watch::{self, Changed, Watcher};
use crate::contracts::{Error, Stamp};
use crate::crash;
use crate::engine::commit::Engine;
use crate::model::content::BlobId;
use crate::model::entity::Folder;
use crate::model::group::{GroupInput, StateContent, StateExport, StateFile, StateRead, StateTrouble};
use crate::model::id::AgentId;
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::model::session::Session;
use crate::model::time::{Awake, Millis};
use crate::state::{self, Digest, ForeignKey, SeenIdKey, SessionKey};

/// Interval for checking every folder.
const WALK: Millis = Millis::minutes(1);
/// Interval for retrying a lock.
const LOCK_AGAIN: Duration = Duration::from_millis(20);
/// Time limit for acquiring a lock.
const LOCK_MAX: Millis = Millis::seconds(5);
/// Delay after which a file with an error is retried.
const AGAIN: Millis = Millis::seconds(15);
/// Maximum number of ids processed at once.
const IDS_AT_ONCE: usize = 250;

/// Handle for telling the thread that a group's files may have changed.
#[derive(Clone)]
pub(super) struct Groups(Sender<(AgentId, Changed)>);

/// Dependencies of the thread.
pub(super) struct SyncContext {
    /// Queue for the findings.
    pub(super) inbox: Arc<Inbox>,
    /// The store, for reading.
    pub(super) engine: Arc<Engine>,
    /// The daemon's stop signal.
    pub(super) stop: Arc<Stop>,
    pub(super) clock: Clock,
    /// Where the folders are.
    pub(super) paths: Paths,
    /// The thread that looks for skip summaries.
    pub(super) skips: Arc<Skips>,
}

impl Groups {
    /// Starts the thread.
    pub(super) fn start(context: SyncContext) -> Result<Self, super::Error> {
        let (changes, wanted) = channel();
        let told = Arc::new(changes.clone());
        // Weak, so that the watcher's own handle does not keep the thread alive after the daemon drops it.
        let weak: Weak<_> = Arc::downgrade(&told);
        let stop = Arc::clone(&context.stop);
        let work = move || {
            let watcher = watch::watcher(move |agent, changed| {
                if let Some(told) = weak.upgrade() {
                    // During shutdown the receiver is gone.
                    drop(told.send((agent, changed)));
                }
            });
            let mut state = SyncState::new(context, watcher);
            while state.work(&wanted) {}
            drop(told);
        };
        worker::start_essential("groups", &stop, work)?;
        Ok(Self(changes))
    }

    /// Requests a check of a group's session state file.
    pub(super) fn share(&self, agent: AgentId) {
        // During shutdown the thread is gone. The next start checks everything.
        drop(self.0.send((agent, Changed::State)));
    }
}

/// State of the thread.
struct SyncState {
    context: SyncContext,
    watcher: Watcher,
    /// Groups at work.
    live: BTreeSet<AgentId>,
    /// Groups whose file has to be checked.
    wanted: BTreeSet<AgentId>,
    /// Since when a lock is awaited.
    waiting: BTreeMap<AgentId, Awake>,
    /// Earliest time at which a file with an error is retried.
    again: HashMap<AgentId, Awake>,
    /// Stamps of files at the last read that found nothing to do.
    settled: HashMap<AgentId, Option<Stamp>>,
    /// Groups whose folder has no leftovers of a writer that died.
    tidied: HashSet<AgentId>,
    looked: Option<Awake>,
    walked: Option<Awake>,
}

/// Result of a check.
enum Done {
    /// The file and the rows agree.
    Settled(Option<Stamp>),
    /// The file was written, or needs another check for another reason.
    Look,
    /// Another process holds the lock.
    Locked,
    /// The file is retried after [`AGAIN`].
    Later,
}

impl SyncState {
    fn new(context: SyncContext, watcher: Watcher) -> Self {
        Self {
            context,
            watcher,
            live: BTreeSet::new(),
            wanted: BTreeSet::new(),
            waiting: BTreeMap::new(),
            again: HashMap::new(),
            settled: HashMap::new(),
            tidied: HashSet::new(),
            looked: None,
            walked: None,
        }
    }

    /// Waits for work and does it. Returns false when the daemon stops.
    fn work(&mut self, changes: &Receiver<(AgentId, Changed)>) -> bool {
        let wait = if self.waiting.is_empty() { clock::TICK.duration() } else { LOCK_AGAIN };
        match changes.recv_timeout(wait) {
            Ok(change) => {
                self.note(change.0, change.1);
                while let Ok(change) = changes.try_recv() {
                    self.note(change.0, change.1);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if self.context.stop.is_asked() {
            return false;
        }
        let now = self.context.clock.now().awake;
        if self.looked.is_none_or(|looked| now.since(looked) >= clock::TICK) {
            self.looked = Some(now);
            if let Err(error) = self.look_around(now) {
                tracing::warn!(%error, "cannot list running agents, retrying");
            }
        }
        self.again.retain(|_, again| *again > now);
        let again = &self.again;
        let (later, wanted) = std::mem::take(&mut self.wanted).into_iter().partition(|agent| again.contains_key(agent));
        self.wanted = later;
        for agent in BTreeSet::union(&wanted, &self.waiting.keys().copied().collect()) {
            if self.context.stop.is_asked() {
                return false;
            }
            self.share(*agent, now);
        }
        true
    }

    fn note(&mut self, agent: AgentId, changed: Changed) {
        match changed {
            Changed::State => drop(self.wanted.insert(agent)),
            Changed::Skip(_) => self.skips(agent),
            Changed::Anything => {
                self.settled.remove(&agent);
                self.wanted.insert(agent);
                self.skips(agent);
            }
        }
    }

    /// A file in which a skill reports a skip has appeared, changed or vanished.
    fn skips(&self, agent: AgentId) {
        let row = self.context.engine.store().read(|db, txn| db.agents.get(txn, &agent));
        match row {
            Ok(Some(row)) => self.context.skips.look(agent, row.folder, None),
            Ok(None) => {}
            Err(error) => tracing::warn!(%agent, %error, "cannot list the agents to check for skips, retrying"),
        }
    }

    /// Updates the watched groups, and schedules the periodic checks.
    fn look_around(&mut self, now: Awake) -> Result<(), state::Error> {
        let walk = self.walked.is_none_or(|walked| now.since(walked) >= WALK);
        let (live, mut wanted) = self.context.engine.store().read(|db, txn| {
            let mut live = BTreeMap::new();
            for row in db.live_incarnations.iter(txn)? {
                let (session, _) = row?;
                let Some(workspace) = db.sessions_by_id.get(txn, &session)? else { continue };
                let of = |session| match session {
                    Session::Chat(chat) => Some(chat.agent),
                    Session::Workspace(_) => None,
                };
                let session = db.sessions.get(txn, &SessionKey { workspace, session })?;
                if let Some(agent) = session.and_then(of)
                    && let Some(row) = db.agents.get(txn, &agent)?
                {
                    live.insert(agent, row.folder);
                }
            }
            let mut wanted = Vec::new();
            for row in db.state_files_dirty.iter(txn)? {
                wanted.push(row?.0);
            }
            if walk {
                for row in db.agents_by_folder.iter(txn)? {
                    wanted.push(row?.1);
                }
            }
            Ok::<_, state::Error>((live, wanted))
        })?;
        if walk {
            self.walked = Some(now);
        }
        for gone in self.live.iter().filter(|agent| !live.contains_key(agent)) {
            self.watcher.unwatch(*gone);
            wanted.push(*gone);
        }
        for (agent, folder) in live.iter().filter(|(agent, _)| !self.live.contains(agent)) {
            // A folder that cannot be watched is polled.
            self.watcher.watch(*agent, &self.context.paths.groups().join(folder.as_str())).ok();
            wanted.push(*agent);
            self.skips(*agent);
        }
        self.live = live.into_keys().collect();
        for agent in self.watcher.unwatched() {
            wanted.push(agent);
            self.skips(agent);
        }
        self.wanted.extend(wanted);
        Ok(())
    }

    /// Synchronizes the file and the rows of an agent group, if the lock is free.
    fn share(&mut self, agent: AgentId, now: Awake) {
        let done = self.look(agent);
        let since = self.waiting.remove(&agent).unwrap_or(now);
        match done {
            Ok(Done::Settled(stamp)) => drop(self.settled.insert(agent, stamp)),
            Ok(Done::Look) => {
                self.settled.remove(&agent);
                self.wanted.insert(agent);
            }
            Ok(Done::Locked) if now.since(since) < LOCK_MAX => drop(self.waiting.insert(agent, since)),
            Ok(Done::Locked) => {
                tracing::warn!(%agent, "the lock of session-state.json has been held for a long time, retrying");
                self.put_off(agent, now, Some(StateTrouble::Locked));
            }
            Ok(Done::Later) => self.put_off(agent, now, None),
            Err(error) => {
                tracing::warn!(%agent, %error, "cannot synchronize session-state.json, retrying");
                self.put_off(agent, now, Some(StateTrouble::Unusable(error)));
            }
        }
    }

    fn put_off(&mut self, agent: AgentId, now: Awake, trouble: Option<StateTrouble>) {
        self.again.insert(agent, now.plus(AGAIN));
        self.wanted.insert(agent);
        self.settled.remove(&agent);
        if let Some(trouble) = trouble {
            self.ask(agent, GroupInput::StateTrouble(trouble));
        }
    }

    fn look(&mut self, agent: AgentId) -> Result<Done, String> {
        let found = self.context.engine.store().read(|db, txn| {
            let agent_row = db.agents.get(txn, &agent)?.filter(|row| row.archived.is_none());
            Ok::<_, state::Error>((agent_row.map(|row| row.folder), db.state_files.get(txn, &agent)?))
        });
        let (folder, row) = found.map_err(|error| error.to_string())?;
        let Some(folder) = folder else { return Ok(Done::Settled(None)) };
        self.look_into(agent, &folder, row.as_ref()).map_err(|error| match error {
            Fault::File(error) => error.to_string(),
            Fault::Store(error) => error.to_string(),
        })
    }

    fn look_into(&mut self, agent: AgentId, folder: &Folder, row: Option<&StateFile>) -> Result<Done, Fault> {
        let Some(place) = GroupFolder::find(&self.context.paths, folder)? else { return Ok(Done::Settled(None)) };
        let gone = row.map_or(Ok(Vec::new()), |row| place.gone(&row.quarantined))?;
        if !gone.is_empty() {
            self.ask(agent, GroupInput::CopiesGone(gone));
        }
        let stamp = place.stamp()?;
        let dirty = row.is_some_and(|row| row.dirty);
        if !dirty && (self.settled.get(&agent) == Some(&stamp) || row.is_none() && stamp.is_none()) {
            return Ok(Done::Settled(stamp));
        }
        let Some(lock) = place.try_lock()? else { return Ok(Done::Locked) };
        if self.tidied.insert(agent) {
            place.tidy(&lock)?;
        }
        let stamp = place.stamp()?;
        crash::point("state-locked");
        let Some(read) = self.read(agent, &place, &lock, row)? else { return Ok(Done::Settled(stamp)) };
        crash::point("state-read");
        let refused = matches!(read.content, StateContent::Refused(_));
        match self.ask(agent, GroupInput::StateRead(read)) {
            Some(Reply::State(Some(export))) => {
                crash::point("state-merged");
                self.write(agent, &place, &lock, &export)?;
                Ok(Done::Look)
            }
            Some(Reply::State(None)) if refused => Ok(Done::Later),
            Some(Reply::State(None)) => Ok(Done::Settled(stamp)),
            _ => Ok(Done::Later),
        }
    }

    /// Reads the file; none if it is unchanged and there is nothing to write.
    fn read(
        &self,
        agent: AgentId,
        place: &GroupFolder,
        lock: &Lock,
        row: Option<&StateFile>,
    ) -> Result<Option<StateRead>, Fault> {
        let bytes = match place.look()? {
            FileContent::Bytes(bytes) => bytes,
            FileContent::Absent => return Ok(Some(StateRead { digest: None, content: StateContent::Absent })),
            FileContent::Refused(why) => {
                let content = StateContent::Refused(StateTrouble::Unusable(why));
                return Ok(Some(StateRead { digest: None, content }));
            }
        };
        let digest = Digest::of(&bytes).blob();
        let known = row.is_some_and(|row| [&row.digest, &row.writing].contains(&&Some(digest.clone())));
        let trouble = row.and_then(|row| row.trouble.as_ref());
        if known && row.is_some_and(|row| !row.dirty) && trouble.is_none_or(stays) {
            return Ok(None);
        }
        let content = if known && matches!(trouble, None | Some(StateTrouble::Locked)) {
            StateContent::Same
        } else {
            match state_file::parse(&bytes) {
                Parsed::Fields(mut fields, ids) => {
                    fields.new_ids = self.see(agent, ids)?;
                    StateContent::Fields(fields)
                }
                Parsed::Refused(trouble) => StateContent::Refused(trouble),
                Parsed::Unreadable(why) => StateContent::Unreadable(why, keep(place, lock, &bytes, &digest)?),
            }
        };
        Ok(Some(StateRead { digest: Some(digest), content }))
    }

    /// Stores new ids, and returns those that remain for the same transaction as the fields.
    fn see(&self, agent: AgentId, ids: Vec<String>) -> Result<Vec<String>, state::Error> {
        let mut new = self.context.engine.store().read(|db, txn| {
            let mut new = Vec::new();
            for id in ids {
                if !db.seen_ids.contains(txn, &SeenIdKey { agent, id: ForeignKey::of(&id) })? {
                    new.push(id);
                }
            }
            Ok::<_, state::Error>(new)
        })?;
        while new.len() > IDS_AT_ONCE {
            let rest = new.split_off(IDS_AT_ONCE);
            self.ask(agent, GroupInput::StateSeen(std::mem::replace(&mut new, rest)));
        }
        Ok(new)
    }

    fn write(&self, agent: AgentId, place: &GroupFolder, lock: &Lock, export: &StateExport) -> Result<(), Fault> {
        place.write(lock, &export.text)?;
        crash::point("state-renamed");
        self.ask(agent, GroupInput::StateWritten(export.digest.clone()));
        crash::point("state-marked");
        Ok(())
    }

    /// Submits an input to the engine and waits for the answer.
    fn ask(&self, agent: AgentId, happened: GroupInput) -> Option<Reply> {
        let (answer, heard) = oneshot::channel();
        let mut item = Item::of(Input::Group(agent, happened));
        item.answer = Some(answer);
        self.context.inbox.push(item);
        match heard.blocking_recv() {
            Ok(Ok(reply)) => Some(reply),
            Ok(Err(error)) => {
                tracing::warn!(%agent, %error, "cannot import the files of an agent group, retrying");
                None
            }
            Err(_) => None, // the daemon stops
        }
    }
}

/// Why a check failed.
enum Fault {
    File(Error),
    Store(state::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::File(error)
    }
}

impl From<state::Error> for Fault {
    fn from(error: state::Error) -> Self {
        Self::Store(error)
    }
}

/// Whether the trouble lasts until the file is changed.
const fn stays(trouble: &StateTrouble) -> bool {
    match trouble {
        StateTrouble::Newer(_) | StateTrouble::Older | StateTrouble::Unreadable(_) => true,
        StateTrouble::Locked | StateTrouble::Unusable(_) => false,
    }
}

/// Quarantines the bytes of an unreadable file. An empty file has nothing to keep.
fn keep(place: &GroupFolder, lock: &Lock, bytes: &[u8], digest: &BlobId) -> Result<String, Error> {
    if bytes.is_empty() {
        return Ok(String::new());
    }
    tracing::warn!("a session-state.json cannot be read; a copy is kept beside it");
    place.quarantine(lock, bytes, digest.as_str(), clock::wall())
}
