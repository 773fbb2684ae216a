//! Looking for skip summaries in agents' folders, and removing those that people were told of, on a thread of its own: the
//! engine never waits for a file.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::Error;
use super::inbox::{Inbox, Item};
use super::stop::{Needed, Stop};
use crate::config::Paths;
use crate::contracts::skips;
use crate::crash;
use crate::engine::commit::Engine;
use crate::model::content::BlobId;
use crate::model::entity::Folder;
use crate::model::group::GroupInput;
use crate::model::id::{AgentId, SessionId, SkipId};
use crate::model::input::Input;
use crate::model::skip::SkipLook;

/// One thing to do.
enum Job {
    Look(AgentId, Folder, Option<SessionId>),
    Remove { whose: (AgentId, SkipId), folder: Folder, skill: String, digest: BlobId },
}

/// Where such work is handed in.
pub(super) struct Skips {
    jobs: Sender<Job>,
    /// Looks without a session that wait for the thread: one of an agent finds everything.
    waiting: Arc<Mutex<HashSet<AgentId>>>,
}

/// What the thread works with.
struct Desk {
    paths: Paths,
    inbox: Arc<Inbox>,
    engine: Arc<Engine>,
    waiting: Arc<Mutex<HashSet<AgentId>>>,
    /// What was said of files that are left alone, by folder and skill.
    told: HashMap<(Folder, String), String>,
    /// Files that were to be removed and could not be, by folder and skill. It is tried again.
    stuck: HashSet<(Folder, String)>,
}

impl Skips {
    /// Starts the thread.
    pub(super) fn start(
        paths: &Paths,
        (inbox, engine): (&Arc<Inbox>, &Arc<Engine>),
        stop: &Arc<Stop>,
    ) -> Result<Self, Error> {
        let (jobs, handed) = channel();
        let waiting = Arc::<Mutex<HashSet<AgentId>>>::default();
        let mut desk = Desk {
            paths: paths.clone(),
            inbox: Arc::clone(inbox),
            engine: Arc::clone(engine),
            waiting: Arc::clone(&waiting),
            told: HashMap::new(),
            stuck: HashSet::new(),
        };
        let stop = Arc::clone(stop);
        let work = move || {
            let _needed = Needed(&stop, "the look at skips");
            desk.work(&handed);
        };
        std::thread::Builder::new().name("skips".to_owned()).spawn(work).map_err(Error::Thread)?;
        Ok(Self { jobs, waiting })
    }

    /// Looks at an agent's folder soon; after a turn of a session, if that is why.
    pub(super) fn look(&self, agent: AgentId, folder: Folder, after: Option<SessionId>) {
        if after.is_none() && !lock(&self.waiting).insert(agent) {
            return;
        }
        self.give(Job::Look(agent, folder, after));
    }

    /// Removes a summary soon.
    pub(super) fn remove(&self, whose: (AgentId, SkipId), folder: Folder, (skill, digest): (String, BlobId)) {
        self.give(Job::Remove { whose, folder, skill, digest });
    }

    fn give(&self, job: Job) {
        // A thread that is gone belongs to a daemon that is stopping; the next start looks everywhere.
        drop(self.jobs.send(job));
    }
}

impl Desk {
    fn work(&mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Look(agent, folder, after) => {
                    if after.is_none() {
                        lock(&self.waiting).remove(&agent);
                    }
                    self.look(agent, folder, after);
                }
                Job::Remove { whose, folder, skill, digest } => self.remove(whose, (folder, skill), &digest),
            }
        }
    }

    fn look(&mut self, agent: AgentId, folder: Folder, after: Option<SessionId>) {
        let found = match skips::find(&self.paths, &folder) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(agent = %folder, %error, "skip summaries cannot be looked for; it is tried again");
                return;
            }
        };
        self.tell_of_trouble(&folder, &found);
        // Nothing there and nobody to be told of anything: nothing to commit.
        let waits = self.engine.store().read(|db, txn| db.skips_unsurfaced.first_in(txn, &agent));
        if found.skips.is_empty() && matches!(waits, Ok(None)) {
            return;
        }
        crash::point("skip-found");
        let look = SkipLook { after, found: found.skips, complete: !found.cut };
        self.inbox.push(Item::of(Input::Group(agent, GroupInput::Skips(look))));
    }

    /// Removes a file that nobody needs any more. One that stays is complained of once, and tried again by the next sweep.
    fn remove(&mut self, (agent, id): (AgentId, SkipId), key: (Folder, String), digest: &BlobId) {
        crash::point("skip-told");
        match skips::remove(&self.paths, &key.0, (&key.1, digest)) {
            Ok(()) => {
                self.stuck.remove(&key);
                crash::point("skip-removed");
                self.inbox.push(Item::of(Input::Group(agent, GroupInput::SkipGone(id))));
            }
            Err(error) => {
                if !self.stuck.contains(&key) {
                    tracing::warn!(agent = %key.0, skill = key.1, %error, "a skip summary that was told of stays");
                    self.stuck.insert(key);
                }
            }
        }
    }

    /// Says once what is wrong with a file that is left alone; `hearth skips lint` says it whenever it is asked.
    fn tell_of_trouble(&mut self, folder: &Folder, found: &skips::Found) {
        for skip in &found.skips {
            let key = (folder.clone(), skip.skill.clone());
            let Err(trouble) = &skip.content else {
                self.told.remove(&key);
                continue;
            };
            let why = trouble.to_string();
            if self.told.get(&key) != Some(&why) {
                tracing::warn!(agent = %folder, skill = skip.skill, why, "a skip summary is left alone");
                self.told.insert(key, why);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
