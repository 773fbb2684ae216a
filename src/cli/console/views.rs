//! Reads what the console's pages show, and checks who may see it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError, Weak};

use super::chat::KeptName;
use super::health::{Around, Examined};
use super::{chat, lookup, topics};
use crate::cli::last_backup::BackupStatus;
use crate::cli::report::Report;
use crate::cli::warnings::{self, Around as WarnedAround};
use crate::cli::watch::{self, SessionView};
use crate::cli::{approvals, questions, skips, spend, transcripts, why};
use crate::clock;
use crate::console::chat::address;
use crate::console::lookup_view::{FoundTexts, MemoryChangeRow, MemoryLines, MemoryRow};
use crate::console::view::{AgentName, Asked, Chat, Home, Prompt, Recent, Run, Section, Topic, Why};
use crate::console::{Download, Rank, Seen, Trouble, Views, Visitor};
use crate::daemon::{Daemon, Sandbox, sandbox};
use crate::model::card::PromptSubject;
use crate::model::entity::Folder;
use crate::model::id::OutboundId;
use crate::model::time::{Millis, Timestamp};
use crate::state::{self, Read, Tables};

/// How long warnings about long conversations are kept.
const LONG_KEPT: Millis = Millis::seconds(30);
/// Approvals and questions on one page.
const ASKED_MAX: usize = 50;
/// Open approvals and questions that are looked through for those that a person may decide.
const OPEN_MAX: usize = 1_000;

/// Warnings about long conversations, with the folders of their agents.
type LongWarnings = Vec<(Folder, String)>;

/// The store of a running daemon.
pub(in crate::cli) struct StoreViews {
    daemon: Weak<Daemon>,
    /// The result of the last checks.
    examined: Mutex<Option<Examined>>,
    /// Held while checks are running.
    examining: Mutex<()>,
    /// Whether agents can be confined here. That is tried once.
    sandbox: OnceLock<Sandbox>,
    /// Warnings about long conversations, and when they were looked for.
    long: Mutex<Option<(Timestamp, LongWarnings)>>,
}

impl StoreViews {
    pub(in crate::cli) fn new(daemon: &Arc<Daemon>) -> Arc<Self> {
        Arc::new(Self {
            daemon: Arc::downgrade(daemon),
            examined: Mutex::default(),
            examining: Mutex::default(),
            sandbox: OnceLock::new(),
            long: Mutex::default(),
        })
    }

    fn daemon(&self) -> Seen<Arc<Daemon>> {
        self.daemon.upgrade().ok_or_else(|| Trouble::Failed("Hearth is stopping.".to_owned()))
    }

    fn read<T>(&self, look: impl FnOnce(&Tables, &Read<'_>) -> Result<T, state::Error>) -> Seen<T> {
        self.daemon()?.store().read(look).map_err(|error| Trouble::Failed(error.to_string()))
    }

    /// What `hearth status` warns of while a daemon runs, as far as the person sees it, but for the agent that fills the disk,
    /// which takes long to find.
    fn warnings(&self, rank: &Rank) -> Seen<Vec<String>> {
        let daemon = self.daemon()?;
        let status = daemon.status();
        let usage = daemon.store().usage().map_err(|error| Trouble::Failed(error.to_string()))?;
        let paths = daemon.paths();
        let sandbox = self.sandbox.get_or_init(|| sandbox(paths));
        let around = WarnedAround { paths, daemon: Some(&status), sandbox, usage: &usage };
        let mut found = self.read(|db, txn| warnings::read(db, txn, &Report::read(db, txn)?, &around, rank))?;
        let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::wall();
        if long.as_ref().is_none_or(|(at, _)| now < *at || now >= at.plus(LONG_KEPT)) {
            *long = Some((now, self.read(|db, txn| transcripts::long(paths, db, txn))?));
        }
        let seen = long.iter().flat_map(|(_, found)| found).filter(|(agent, _)| rank.sees(agent.as_str()));
        found.extend(seen.map(|(_, words)| words.clone()));
        Ok(found)
    }
}

impl Views for StoreViews {
    fn home(&self, who: &Visitor) -> Seen<Home> {
        let problems = if who.rank.decides() { self.warnings(&who.rank)? } else { Vec::new() };
        self.read(|db, txn| home(db, txn, who, problems))
    }

    fn asked(&self, who: &Visitor) -> Seen<Asked> {
        self.read(|db, txn| asked(db, txn, who))
    }

    fn prompt(&self, who: &Visitor, id: PromptSubject) -> Seen<Prompt> {
        let found = self.read(|db, txn| match id {
            PromptSubject::Approval(id) => {
                let found = approvals::prompt(db, txn, id)?;
                Ok(found.filter(|(_, agents)| concerns(&who.rank, agents)).map(|(prompt, _)| prompt))
            }
            PromptSubject::Question(id) => {
                let found = questions::prompt(db, txn, id)?;
                Ok(found.filter(|(_, agent)| who.rank.sees(agent)).map(|(prompt, _)| prompt))
            }
            PromptSubject::Skip(id) => {
                let found = skips::prompt(db, txn, id)?;
                Ok(found.filter(|(_, agent)| who.rank.sees(agent)).map(|(prompt, _)| prompt))
            }
        })?;
        found.ok_or_else(|| Trouble::NotFound(format!("{id} does not exist, or you may not see it.")))
    }

    fn chat(&self, who: &Visitor, agent: &str, at: Option<&str>) -> Seen<Chat> {
        if !who.rank.talks_to(agent) {
            return Err(Trouble::NotFound("There is no such agent, or you may not talk to it.".to_owned()));
        }
        let daemon = self.daemon()?;
        let (found, open) = self.read(|db, txn| {
            let found = chat::read(db, txn, who, agent, at)?;
            Ok((found, agents(db, txn, who)?))
        })?;
        let Some(found) = found else {
            return Err(Trouble::NotFound("There is no such agent, or you may not talk to it.".to_owned()));
        };
        let writing = if found.open.is_empty() { None } else { daemon.writing_in(&found.address, found.open) };
        let others = open.into_iter().filter(|other| other.folder != agent).collect();
        Ok(Chat { others, writing, ..found.chat })
    }

    fn file(&self, who: &Visitor, agent: &str, answer: OutboundId, at: usize) -> Seen<Download> {
        let none = || Trouble::NotFound("There is no such file, or you may not have it.".to_owned());
        if !who.rank.talks_to(agent) {
            return Err(none());
        }
        let address = address(agent, &who.user).map_err(|_| none())?;
        let KeptName { name, kept } =
            self.read(|db, txn| chat::file(db, txn, &address, answer, at))?.ok_or_else(none)?;
        let file = self.daemon()?.sent_file(&kept).map_err(Trouble::Failed)?;
        let file = file.ok_or_else(|| Trouble::NotFound(format!("{name} is not kept any more.")))?;
        let meta = file.metadata().map_err(|error| Trouble::Failed(format!("{name} cannot be read: {error}")))?;
        Ok(Download { name, file, length: meta.len() })
    }

    fn why(&self, who: &Visitor, id: &str) -> Seen<Why> {
        let awake = self.daemon()?.status().awake;
        let found = self.read(|db, txn| why::event(db, txn, awake, id, who))?;
        found.ok_or_else(|| Trouble::NotFound(format!("Nothing is known of {id}, or you may not see it.")))
    }

    fn search(&self, who: &Visitor, query: &str) -> Seen<FoundTexts> {
        self.read(|db, txn| lookup::find(db, txn, who, query))
    }

    fn memory(&self, who: &Visitor) -> Seen<Vec<MemoryRow>> {
        let agents = self.read(|db, txn| lookup::agents(db, txn, who))?;
        lookup::memory(self.daemon()?.paths(), who, &agents)
    }

    fn memory_file(&self, who: &Visitor, agent: &str, file: &str) -> Seen<MemoryLines> {
        let agents = self.read(|db, txn| lookup::agents(db, txn, who))?;
        lookup::memory_file(self.daemon()?.paths(), who, &agents, agent, file)
    }

    fn memory_changes(&self, who: &Visitor, agent: &str) -> Seen<Vec<MemoryChangeRow>> {
        let agents = self.read(|db, txn| lookup::agents(db, txn, who))?;
        lookup::memory_changes(self.daemon()?.paths(), who, &agents, agent)
    }

    fn topic(&self, who: &Visitor, topic: Topic) -> Seen<Vec<Section>> {
        let daemon = self.daemon()?;
        let usage = daemon.store().usage().map_err(|error| Trouble::Failed(error.to_string()))?;
        let settings = self.read(|db, txn| db.settings.get(txn, &()))?;
        let backup = BackupStatus::look(daemon.paths(), settings.and_then(|settings| settings.backup).as_ref());
        let examined = self.examined.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let around = Around { status: daemon.status(), usage, backup, examined };
        self.read(|db, txn| topics::read(db, txn, who, topic, &around))
    }

    fn agent(&self, who: &Visitor, folder: &str) -> Seen<Vec<Section>> {
        let none = || Trouble::NotFound("There is no such agent, or you may not see it.".to_owned());
        if !who.rank.sees(folder) {
            return Err(none());
        }
        self.read(|db, txn| topics::agent(db, txn, folder))?.ok_or_else(none)
    }

    fn examine(&self, who: &Visitor) -> Seen<()> {
        if !Topic::Health.is_for(&who.rank) {
            return Err(Trouble::Forbidden("You may not see the state of this installation.".to_owned()));
        }
        let daemon = self.daemon()?;
        let _alone = match self.examining.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Trouble::Refused("Checks are running already: look again in a moment.".to_owned()));
            }
        };
        let answer = daemon.examine().map_err(Trouble::Failed)?;
        let examined = Examined::read(&answer, clock::wall())
            .map_err(|error| Trouble::Failed(format!("The answer of `hearth doctor` cannot be read: {error}")))?;
        *self.examined.lock().unwrap_or_else(PoisonError::into_inner) = Some(examined);
        Ok(())
    }
}

/// Whether a person decides about something that concerns these agents. What concerns none is decided by those who see
/// everything.
fn concerns(rank: &Rank, agents: &[String]) -> bool {
    *rank == Rank::Everything || agents.iter().any(|agent| rank.sees(agent))
}

fn asked(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Asked, state::Error> {
    let mut asked = Asked::default();
    let mut add = |prompt: Prompt| {
        if asked.prompts.len() < ASKED_MAX {
            asked.prompts.push(prompt);
        } else {
            asked.more += 1;
        }
    };
    for id in approvals::open_ids(db, txn, OPEN_MAX)? {
        let Some((prompt, agents)) = approvals::prompt(db, txn, id)? else { continue };
        if concerns(&who.rank, &agents) {
            add(prompt);
        }
    }
    for (id, _) in questions::open(db, txn, OPEN_MAX)? {
        let Some((prompt, agent)) = questions::prompt(db, txn, id)? else { continue };
        if who.rank.sees(&agent) {
            add(prompt);
        }
    }
    for id in skips::asked(db, txn)? {
        let Some((prompt, agent)) = skips::prompt(db, txn, id)? else { continue };
        if who.rank.sees(&agent) {
            add(prompt);
        }
    }
    Ok(asked)
}

fn home(db: &Tables, txn: &Read<'_>, who: &Visitor, problems: Vec<String>) -> Result<Home, state::Error> {
    let agents = agents(db, txn, who)?;
    if !who.rank.decides() {
        return Ok(Home { agents, ..Home::default() });
    }
    let report = Report::read(db, txn)?;
    let view = watch::collect(db, txn, &report)?;
    let sees = |one: &&SessionView| who.rank.sees(&one.agent);
    let run = |one: &SessionView| Run {
        session: one.session.clone(),
        agent: one.agent.clone(),
        chat: one.chat.clone(),
        doing: watch::doing(one, clock::wall()),
        since: one.started.clone(),
    };
    let recent = |one: &SessionView| Recent {
        id: one.session.clone(),
        agent: one.agent.clone(),
        chat: one.chat.clone(),
        text: one.last.clone().unwrap_or_default(),
        at: one.active.clone(),
    };
    let all = || view.sessions.iter().chain(&view.recent);
    let mut newest: Vec<Recent> = all().filter(sees).map(recent).collect();
    newest.sort_by(|one, other| other.at.cmp(&one.at));
    newest.truncate(10);
    for one in &mut newest {
        if let Some(last) = chat::last_message(db, txn, &one.id)? {
            one.id = last.to_string();
        }
    }
    Ok(Home {
        asked: asked(db, txn, who)?,
        runs: view.sessions.iter().filter(sees).map(run).collect(),
        problems,
        spent: if who.rank == Rank::Everything { Some(spend::today(db, txn)?) } else { None },
        recent: newest,
        agents,
    })
}

/// Agents that a person may talk to.
fn agents(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<AgentName>, state::Error> {
    let mut found = Vec::new();
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        if agent.archived.is_none() && who.rank.talks_to(agent.folder.as_str()) {
            found.push(AgentName { folder: agent.folder.to_string(), name: agent.settings.name });
        }
    }
    Ok(found)
}
