//! What keeps agents from working that an operator may want to mend: providers that limit an agent, starts that fail.

use serde::Serialize;

use super::rows;
use crate::daemon::unused_image;
use crate::model::configure::{RuntimeKind, Settings};
use crate::model::entity::{Hold, Network};
use crate::model::group::StateTrouble;
use crate::model::id::SessionId;
use crate::model::incarnation::Phase;
use crate::socket::protocol::BuildJson;
use crate::state::{self, Read, Tables};

/// An agent whose provider limits it.
#[derive(Debug, Serialize)]
pub(super) struct HeldOff {
    pub(super) agent: String,
    pub(super) since: String,
    /// When it gets work again, if the machine stays awake; one that is past means that it is tried.
    pub(super) again: String,
    pub(super) why: String,
}

/// A session with waiting messages whose starts fail.
#[derive(Debug, Serialize)]
pub(super) struct FailedStarts {
    pub(super) session: String,
    pub(super) agent: String,
    /// In a row.
    pub(super) failed_starts: u32,
    /// How the last one ended that did; another one may be being tried.
    pub(super) why: Option<String>,
}

/// Agents whose provider limits them.
pub(super) fn held_off(db: &Tables, txn: &Read<'_>) -> Result<Vec<HeldOff>, state::Error> {
    let mut found = Vec::new();
    for row in db.hold_offs.iter(txn)? {
        let (agent, row) = row?;
        let agent = rows::folder(db, txn, agent)?;
        found.push(HeldOff { agent, since: row.since.to_string(), again: row.again.to_string(), why: row.why });
    }
    Ok(found)
}

/// Sessions with waiting messages, one look each however many messages they have.
fn waiting(db: &Tables, txn: &Read<'_>) -> Result<Vec<SessionId>, state::Error> {
    let mut found = Vec::new();
    let mut from = (SessionId::new(0), 0);
    while let Some(((session, _), _)) = db.ready.first(txn, from..)? {
        found.push(session);
        from = (SessionId::new(session.number().saturating_add(1)), 0);
    }
    Ok(found)
}

/// Sessions with waiting messages whose last start failed.
pub(super) fn failed_starts(db: &Tables, txn: &Read<'_>) -> Result<Vec<FailedStarts>, state::Error> {
    let mut found = Vec::new();
    for id in waiting(db, txn)? {
        let Some(session) = rows::session(db, txn, id)?.filter(|session| session.failed_starts > 0) else { continue };
        let why = last_end(db, txn, id)?;
        let agent = rows::folder(db, txn, session.agent)?;
        found.push(FailedStarts { session: id.to_string(), agent, failed_starts: session.failed_starts, why });
    }
    Ok(found)
}

/// Session-state files of agents that are left alone, or of which something was kept aside.
#[derive(Debug)]
pub(super) struct StateFiles {
    pub(super) found: String,
    pub(super) mend: String,
}

/// Those that somebody has to look at. One that its owner will bring up to date by itself is none.
pub(super) fn state_files(db: &Tables, txn: &Read<'_>) -> Result<Vec<StateFiles>, state::Error> {
    let mut found = Vec::new();
    for row in db.state_files.iter(txn)? {
        let (id, file) = row?;
        let Some(agent) = db.agents.get(txn, &id)?.filter(|agent| agent.archived.is_none()) else { continue };
        let agent = agent.folder.to_string();
        if let Some(trouble) = file.trouble.as_ref().filter(|trouble| **trouble != StateTrouble::Older) {
            let words = of_state_file(trouble).1;
            let what = format!("session-state.json of agent {agent} is left alone: {words}");
            let mend = format!("`hearth agents state {agent}` shows what is known of it");
            found.push(StateFiles { found: what, mend });
        }
        if let Some(copy) = file.quarantined.last() {
            let what = format!("session-state.json of agent {agent} could not be read, and was kept as {copy}");
            let mend = format!(
                "look at groups/{agent}/{copy}, and remove it when it is not needed any more; what Hearth knew of the fields \
                 is in the file again"
            );
            found.push(StateFiles { found: what, mend });
        }
    }
    Ok(found)
}

/// Why a session-state file is left alone: a word for programs, and words for people.
pub(super) fn of_state_file(trouble: &StateTrouble) -> (&'static str, String) {
    match trouble {
        StateTrouble::Newer(version) => {
            ("newer", format!("its schema_version is {version}, and 1 is the newest that this Hearth knows"))
        }
        StateTrouble::Older => (
            "older",
            "it names no schema_version that counts; the agent brings it up to date when it next registers its session"
                .to_owned(),
        ),
        StateTrouble::Unreadable(why) => ("unreadable", format!("it cannot be read: {why}")),
        StateTrouble::Locked => ("locked", "somebody holds its lock; it is tried again".to_owned()),
        StateTrouble::Unusable(why) => ("unusable", format!("{why}; it is tried again")),
    }
}

/// How the last incarnation ended that did. While the next one is being tried, that is still what is wrong.
fn last_end(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Option<String>, state::Error> {
    // There is one live incarnation at most.
    let newest = db.incarnations.collect_last(txn, &id, 2)?;
    let end = |phase: &Phase| match phase {
        Phase::Closed { exit, .. } | Phase::Collecting { exit, .. } => Some(super::words::exit(exit)),
        Phase::Starting | Phase::Running | Phase::Stopping { .. } => None,
    };
    Ok(newest.iter().find_map(|(_, incarnation)| end(&incarnation.phase)))
}

/// Agents that are to reach less than the whole network, which only containers can hold them to.
pub(super) fn networks(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let mut found = Vec::new();
    for agent in super::configuration::collect(db, txn)?.agents {
        if agent.settings.network != Network::Open {
            found.push(agent.folder.to_string());
        }
    }
    Ok(found)
}

/// That processes are taken although an image for containers is configured, where agents run as `runtime`; `why` is to be
/// read after "because".
pub(super) fn no_containers(settings: &Settings, (runtime, why): (&str, &str)) -> Option<String> {
    let image = unused_image(settings).filter(|_| runtime == RuntimeKind::Process.as_str())?;
    Some(format!("agents run as processes although the image {image} is configured for containers, because {why}"))
}

/// An image that could not be built.
pub(super) fn failed_build(build: &BuildJson) -> Option<String> {
    let why = build.why.as_ref()?;
    let BuildJson { agent, failed, .. } = build;
    Some(format!(
        "the image of agent {agent} could not be built ({failed} times), it runs without its new packages: {why}"
    ))
}

/// What [`networks`] found, in words, where agents run as processes.
pub(super) fn open_network(agents: &[String]) -> String {
    format!("processes reach the whole network, whatever the key `network` of {} says", agents.join(", "))
}

/// Sessions with waiting messages that something drives which nothing confines here, by what was set for them alone.
pub(super) fn unconfined(db: &Tables, txn: &Read<'_>, possible: bool) -> Result<Vec<String>, state::Error> {
    let mut found = Vec::new();
    for id in waiting(db, txn)? {
        let Some(session) = rows::session(db, txn, id)? else { continue };
        let Some(provider) = session.provider else { continue };
        let Some(agent) = db.agents.get(txn, &session.agent)? else { continue };
        if agent.settings.hold(provider, possible) == Hold::NeedsUnconfined {
            let (folder, provider) = (&agent.folder, provider.as_str());
            found.push(format!(
                "session {id} of agent {folder} is not started, because nothing confines {provider} here; `unconfined = \
                 true` lets it run, `hearth sessions set {id} provider=-` makes it use its agent's provider"
            ));
        }
    }
    Ok(found)
}

impl HeldOff {
    /// In words.
    pub(super) fn words(&self) -> String {
        let Self { agent, since, again, why } = self;
        format!("agent {agent} gets no work before {again}: its provider has limited it since {since}: {why}")
    }
}

impl FailedStarts {
    /// In words.
    pub(super) fn words(&self) -> String {
        let Self { session, agent, failed_starts, why } = self;
        let why = why.as_deref().unwrap_or("nothing is known of why");
        format!("session {session} of agent {agent} failed to start {failed_starts} times in a row: {why}")
    }
}
