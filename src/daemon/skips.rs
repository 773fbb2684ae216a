//! The thread that looks for skip summaries in agents' folders and removes those that people were told about. It keeps
//! file access out of the engine.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::Error;
use super::engine_thread::{Inbox, Item};
use super::stop::Stop;
use super::worker;
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

/// A job of the thread.
enum Job {
    Look(AgentId, Folder, Option<SessionId>),
    Remove { agent: AgentId, skip: SkipId, folder: Folder, skill: String, digest: BlobId },
}

/// Handle for submitting jobs to the thread.
pub(super) struct Skips {
    jobs: Sender<Job>,
    /// Agents with a queued look that belongs to no session. One look finds everything, so no second one is queued.
    waiting: Arc<Mutex<HashSet<AgentId>>>,
}

/// State of the thread.
struct SkipScanner {
    paths: Paths,
    inbox: Arc<Inbox>,
    engine: Arc<Engine>,
    waiting: Arc<Mutex<HashSet<AgentId>>>,
    /// Last logged problem of files that are left alone, by folder and skill.
    told: HashMap<(Folder, String), String>,
    /// Files whose removal failed and is retried, by folder and skill.
    stuck: HashSet<(Folder, String)>,
}

impl Skips {
    /// Starts the thread.
    pub(super) fn start(
        paths: &Paths,
        inbox: &Arc<Inbox>,
        engine: &Arc<Engine>,
        stop: &Arc<Stop>,
    ) -> Result<Self, Error> {
        let (jobs, handed) = channel();
        let waiting = Arc::<Mutex<HashSet<AgentId>>>::default();
        let mut scanner = SkipScanner {
            paths: paths.clone(),
            inbox: Arc::clone(inbox),
            engine: Arc::clone(engine),
            waiting: Arc::clone(&waiting),
            told: HashMap::new(),
            stuck: HashSet::new(),
        };
        worker::start_essential("skips", stop, move || scanner.work(&handed))?;
        Ok(Self { jobs, waiting })
    }

    /// Requests a look at an agent's folder. `after` is the session whose turn caused it.
    pub(super) fn look(&self, agent: AgentId, folder: Folder, after: Option<SessionId>) {
        if after.is_none() && !lock(&self.waiting).insert(agent) {
            return;
        }
        self.give(Job::Look(agent, folder, after));
    }

    /// Requests the removal of a summary.
    pub(super) fn remove(&self, agent: AgentId, skip: SkipId, folder: Folder, skill: String, digest: BlobId) {
        self.give(Job::Remove { agent, skip, folder, skill, digest });
    }

    fn give(&self, job: Job) {
        // During shutdown the thread is gone. The next start looks at all folders.
        drop(self.jobs.send(job));
    }
}

impl SkipScanner {
    fn work(&mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Look(agent, folder, after) => {
                    if after.is_none() {
                        lock(&self.waiting).remove(&agent);
                    }
                    self.look(agent, folder, after);
                }
                Job::Remove { agent, skip, folder, skill, digest } => self.remove(agent, skip, folder, skill, &digest),
            }
        }
    }

    fn look(&mut self, agent: AgentId, folder: Folder, after: Option<SessionId>) {
        let found = match skips::find(&self.paths, &folder) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(agent = %folder, %error, "cannot look for skip summaries, retrying");
                return;
            }
        };
        self.tell_of_trouble(&folder, &found);
        // No summary found and none waiting to be reported: nothing to commit.
        let waits = self.engine.store().read(|db, txn| db.skips_unsurfaced.first_in(txn, &agent));
        if found.skips.is_empty() && matches!(waits, Ok(None)) {
            return;
        }
        crash::point("skip-found");
        let look = SkipLook { after, found: found.skips, complete: !found.cut };
        self.inbox.push(Item::of(Input::Group(agent, GroupInput::Skips(look))));
    }

    /// Removes the file of a handled summary. A failure is logged once per file, and the next sweep retries.
    fn remove(&mut self, agent: AgentId, skip: SkipId, folder: Folder, skill: String, digest: &BlobId) {
        crash::point("skip-told");
        let removed = skips::remove(&self.paths, &folder, &skill, digest);
        let key = (folder, skill);
        match removed {
            Ok(()) => {
                self.stuck.remove(&key);
                crash::point("skip-removed");
                self.inbox.push(Item::of(Input::Group(agent, GroupInput::SkipGone(skip))));
            }
            Err(error) => {
                if !self.stuck.contains(&key) {
                    tracing::warn!(agent = %key.0, skill = key.1, %error, "cannot remove a reported skip summary");
                    self.stuck.insert(key);
                }
            }
        }
    }

    /// Logs once what is wrong with a file that is left alone. `hearth skips lint` reports it each time.
    fn tell_of_trouble(&mut self, folder: &Folder, found: &skips::SkipDirectory) {
        for skip in &found.skips {
            let key = (folder.clone(), skip.skill.clone());
            let Err(trouble) = &skip.content else {
                self.told.remove(&key);
                continue;
            };
            let why = trouble.to_string();
            if self.told.get(&key) != Some(&why) {
                tracing::warn!(agent = %folder, skill = skip.skill, why, "a skip summary is ignored");
                self.told.insert(key, why);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
