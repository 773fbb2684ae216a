//! Problems of agents that an operator may want to fix: rate limits, failed starts, state files, builds.

use serde::{Serialize, Serializer};

use super::{human_time, labels, lookup, print};
use crate::clock;
use crate::console::Rank;
use crate::daemon::unused_image;
use crate::model::configure::{Change, Configure, RuntimeKind, Settings};
use crate::model::entity::{Agent, AgentSettings, Hold, Network, ProviderKind};
use crate::model::gateway::given;
use crate::model::group::StateTrouble;
use crate::model::id::{AgentId, SessionId};
use crate::model::incarnation::Phase;
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::recall::RecallReach;
use crate::model::starting_hosts::unlisted_hosts;
use crate::socket::protocol::{BuildJson, FloodJson};
use crate::state::{self, InboxKey, Owned, Read, Tables};

/// An agent whose provider limits requests or cannot be reached.
#[derive(Debug, Serialize)]
pub(super) struct RateLimitedAgent {
    pub(super) agent: String,
    /// The fallback that it is about; null for the agent's own provider.
    pub(super) fallback: Option<String>,
    /// The fallback that works instead of the agent's own provider, if one does.
    pub(super) meanwhile: Option<String>,
    #[serde(serialize_with = "by_name")]
    pub(super) cause: LimitCause,
    pub(super) since: String,
    /// Time of the next try if the machine stays awake. A past time means that a try is in progress.
    pub(super) again: String,
    pub(super) why: String,
}

/// An agent that gets no work because a person froze it.
#[derive(Debug, Serialize)]
pub(super) struct FrozenAgent {
    pub(super) agent: String,
    /// The person's id, or `the operator`.
    pub(super) by: String,
    pub(super) since: String,
}

/// A session with waiting messages whose starts fail.
#[derive(Debug, Serialize)]
pub(super) struct FailedStarts {
    pub(super) session: String,
    pub(super) agent: String,
    /// Number of consecutive failures.
    pub(super) failed_starts: u32,
    /// How the last finished start ended. Another one may be in progress.
    pub(super) why: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn by_name<S: Serializer>(cause: &LimitCause, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(cause.as_str())
}

/// Agents whose provider limits requests or cannot be reached.
pub(super) fn held_off(db: &Tables, txn: &Read<'_>) -> Result<Vec<RateLimitedAgent>, state::Error> {
    let mut found = Vec::new();
    let limited = |agent: &Agent, row: RateLimit| RateLimitedAgent {
        agent: agent.folder.to_string(),
        fallback: None,
        meanwhile: None,
        cause: row.cause,
        since: row.since.to_string(),
        again: row.again.to_string(),
        why: row.why,
    };
    for row in db.rate_limits.iter(txn)? {
        let (id, row) = row?;
        let Some(agent) = db.agents.get(txn, &id)? else { continue };
        let mut working = None;
        for (place, fallback) in (1..).zip(&agent.settings.fallback) {
            let limit = db.fallback_limits.get(txn, &Owned { owner: id, id: place })?;
            if limit.is_none_or(|limit| limit.again <= clock::wall()) {
                working = Some(fallback.to_string());
                break;
            }
        }
        found.push(RateLimitedAgent { meanwhile: working, ..limited(&agent, row) });
    }
    for row in db.fallback_limits.iter(txn)? {
        let (Owned { owner, id: place }, row) = row?;
        let Some(agent) = db.agents.get(txn, &owner)? else { continue };
        let listed = usize::try_from(place).ok().and_then(|place| agent.settings.fallback.get(place.checked_sub(1)?));
        let Some(fallback) = listed.map(ToString::to_string) else { continue };
        found.push(RateLimitedAgent { fallback: Some(fallback), ..limited(&agent, row) });
    }
    Ok(found)
}

/// Rate-limited agents that get no work, because no other provider works instead.
pub(super) fn waiting_agents(db: &Tables, txn: &Read<'_>) -> Result<Vec<RateLimitedAgent>, state::Error> {
    let mut found = held_off(db, txn)?;
    found.retain(RateLimitedAgent::stops_work);
    Ok(found)
}

/// Agents that a person froze.
pub(super) fn frozen(db: &Tables, txn: &Read<'_>) -> Result<Vec<FrozenAgent>, state::Error> {
    let mut found = Vec::new();
    for row in db.frozen_agents.iter(txn)? {
        let (agent, row) = row?;
        let agent = lookup::folder(db, txn, agent)?;
        found.push(FrozenAgent { agent, by: labels::person(row.by.as_ref()), since: row.at.to_string() });
    }
    Ok(found)
}

/// Why a message of a frozen agent waits.
pub(super) fn frozen_of(db: &Tables, txn: &Read<'_>, agent: AgentId) -> Result<Option<String>, state::Error> {
    let Some(row) = db.frozen_agents.get(txn, &agent)? else { return Ok(None) };
    let frozen = FrozenAgent {
        agent: lookup::folder(db, txn, agent)?,
        by: labels::person(row.by.as_ref()),
        since: row.at.to_string(),
    };
    Ok(Some(frozen.words()))
}

/// Sessions with waiting messages. Costs one seek per session.
fn waiting(db: &Tables, txn: &Read<'_>) -> Result<Vec<SessionId>, state::Error> {
    let mut found = Vec::new();
    let mut from = InboxKey { session: SessionId::new(0), seq: 0 };
    while let Some((InboxKey { session, .. }, _)) = db.ready_messages.first(txn, from..)? {
        found.push(session);
        from = InboxKey { session: SessionId::new(session.number().saturating_add(1)), seq: 0 };
    }
    Ok(found)
}

/// Sessions with waiting messages whose last start failed.
pub(super) fn failed_starts(db: &Tables, txn: &Read<'_>) -> Result<Vec<FailedStarts>, state::Error> {
    let mut found = Vec::new();
    for id in waiting(db, txn)? {
        let Some(session) = lookup::session(db, txn, id)?.filter(|session| session.failed_starts > 0) else { continue };
        let why = last_end(db, txn, id)?;
        let agent = lookup::folder(db, txn, session.agent)?;
        found.push(FailedStarts { session: id.to_string(), agent, failed_starts: session.failed_starts, why });
    }
    Ok(found)
}

/// Session state files that are left alone, or of which a copy was kept.
#[derive(Debug)]
pub(super) struct StateFiles {
    pub(super) agent: String,
    pub(super) found: String,
    pub(super) mend: String,
}

/// Session state files that need the operator's attention. Files that their owner will update itself are excluded.
pub(super) fn state_files(db: &Tables, txn: &Read<'_>) -> Result<Vec<StateFiles>, state::Error> {
    let mut found = Vec::new();
    for row in db.state_files.iter(txn)? {
        let (id, file) = row?;
        let Some(agent) = db.agents.get(txn, &id)?.filter(|agent| agent.archived.is_none()) else { continue };
        let agent = agent.folder.to_string();
        if let Some(trouble) = file.trouble.as_ref().filter(|trouble| **trouble != StateTrouble::Older) {
            let words = of_state_file(trouble).1;
            let what = format!("session-state.json of agent {agent} is ignored: {words}");
            let mend = format!("`hearth agents state {agent}` shows its state");
            found.push(StateFiles { agent: agent.clone(), found: what, mend });
        }
        if let Some(copy) = file.quarantined.last() {
            let what = format!("session-state.json of agent {agent} could not be read, and was kept as {copy}");
            let mend = format!(
                "check groups/{agent}/{copy}, and remove it when you no longer need it; Hearth has restored the fields it knew in the file"
            );
            found.push(StateFiles { agent: agent.clone(), found: what, mend });
        }
    }
    Ok(found)
}

/// Why a session state file is left alone: a code for programs, and a text for people.
pub(super) fn of_state_file(trouble: &StateTrouble) -> (&'static str, String) {
    match trouble {
        StateTrouble::Newer(version) => {
            ("newer", format!("its schema_version is {version}, but this version of Hearth supports only 1"))
        }
        StateTrouble::Older => (
            "older",
            "it has no valid schema_version; the agent updates it when it next registers its session".to_owned(),
        ),
        StateTrouble::Unreadable(why) => ("unreadable", format!("it cannot be read: {why}")),
        StateTrouble::Locked => ("locked", "another process holds its lock; retrying".to_owned()),
        StateTrouble::Unusable(why) => ("unusable", format!("{why}; retrying")),
    }
}

/// How the last ended incarnation ended. It remains the reported problem while the next one is tried.
pub(super) fn last_end(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Option<String>, state::Error> {
    // There is one live incarnation at most.
    let newest = db.incarnations.collect_last(txn, &id, 2)?;
    let end = |phase: &Phase| match phase {
        Phase::Closed { exit, .. } | Phase::Collecting { exit, .. } => Some(super::labels::exit(exit)),
        Phase::Starting | Phase::Running | Phase::Stopping { .. } => None,
    };
    Ok(newest.iter().find_map(|(_, incarnation)| end(&incarnation.phase)))
}

/// Agents whose network setting the process runtime cannot enforce. `none` is enforced for confined agents.
pub(super) fn networks(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let mut found = Vec::new();
    for agent in super::configuration::collect(db, txn)?.agents {
        let closed = match agent.settings.network {
            Network::Open => false,
            Network::None | Network::Listed | Network::Ask | Network::Public => agent.settings.unconfined,
            Network::Host => true,
        };
        if closed {
            found.push(agent.folder.to_string());
        }
    }
    Ok(found)
}

/// Agents that may be able to connect to ports of this machine.
pub(super) fn beside_console(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let agents = super::configuration::collect(db, txn)?.agents;
    let open =
        |settings: &AgentSettings| settings.unconfined || matches!(settings.network, Network::Open | Network::Host);
    Ok(agents.iter().filter(|agent| open(&agent.settings)).map(|agent| agent.folder.to_string()).collect())
}

/// Agents that need a network that they do not get. `has_own` says whether agents can have one of their own.
pub(super) fn cut_off_agents(db: &Tables, txn: &Read<'_>, has_own: bool) -> Result<Vec<String>, state::Error> {
    let agents = super::configuration::collect(db, txn)?.agents;
    Ok(agents.iter().filter(|agent| agent.settings.is_cut_off(has_own)).map(|agent| agent.folder.to_string()).collect())
}

/// Messages about agents that have keys which the model gateway could keep from them.
pub(super) fn key_holders(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let agents = super::configuration::collect(db, txn)?.agents;
    Ok(agents.iter().filter_map(|agent| key_holder(agent.folder.as_str(), &agent.settings)).collect())
}

/// A warning if an agent has keys that the model gateway could keep from it.
pub(super) fn key_holder(agent: &str, settings: &AgentSettings) -> Option<String> {
    let keys = given(settings);
    (!keys.is_empty()).then(|| {
        format!("agent {agent} has `gateway = false`: it gets {} itself, and can give it away", keys.join(", "))
    })
}

/// Agents that reach the whole network although rules for it could be enforced.
pub(super) fn open_agents(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let agents = super::configuration::collect(db, txn)?.agents;
    let open = agents.iter().filter(|agent| is_open(&agent.settings) && !agent.settings.unconfined);
    Ok(open.map(|agent| agent.folder.to_string()).collect())
}

/// Whether an agent reaches the whole network. The provider `echo` connects to nothing.
fn is_open(settings: &AgentSettings) -> bool {
    settings.network == Network::Open && settings.provider != ProviderKind::Echo
}

/// That an agent does not start as a process because the rules for its network cannot be enforced.
pub(super) fn unlimited(agent: &str, settings: &AgentSettings, why: &str, mend: &str) -> String {
    format!(
        "agent {agent} has `network = \"{}\"`, which cannot be enforced for processes here, so it starts only in a container: \
         {why}; {mend}, or write `network = \"open\"`, and it reaches everything",
        settings.network.as_str()
    )
}

/// That an agent needs a network that it does not get.
pub(super) fn cut_off(agent: &str) -> String {
    format!(
        "agent {agent} has `network = \"none\"`, and its provider claude has to reach a server: it cannot answer; put the \
         key of its model into `env` and install bubblewrap or Podman, so that Hearth can connect the two, or set `network \
         = \"open\"`"
    )
}

/// That an agent's program cannot reach the servers of its provider, and the fix.
pub(super) fn unlisted(agent: &str, settings: &AgentSettings) -> Option<(String, String)> {
    let hosts: Vec<String> = unlisted_hosts(settings).iter().map(|host| format!("\"{host}\"")).collect();
    let (provider, hosts) = (settings.provider.as_str(), Some(hosts.join(", ")).filter(|hosts| !hosts.is_empty())?);
    let found = format!(
        "agent {agent} cannot reach its model: Hearth has no key of {provider} for it, and its `network` is `listed`"
    );
    Some((found, format!("put a key into `env` or, if its program signs in on its own, write `allow = [{hosts}]`")))
}

/// Agents whose programs cannot reach the servers of their providers, each with the fix.
pub(super) fn unlisted_agents(db: &Tables, txn: &Read<'_>) -> Result<Vec<(String, String)>, state::Error> {
    let agents = super::configuration::collect(db, txn)?.agents;
    Ok(agents.iter().filter_map(|agent| unlisted(agent.folder.as_str(), &agent.settings)).collect())
}

/// That what was said in one chat of an agent can be asked for in another.
pub(super) fn wide_recall(agent: &str, settings: &AgentSettings) -> Option<String> {
    (settings.recall == RecallReach::Agent).then(|| {
        format!(
            "agent {agent} has `recall = \"agent\"`: anybody in one of its chats can ask it for what was said in another, also \
             in direct messages; without `recall` it finds only what was said in the same chat"
        )
    })
}

/// Warns about agents that tell in one chat what was said in another.
pub(super) fn warn_of_recall(configure: &Configure) {
    for change in &configure.changes {
        if let Change::PutAgent(folder, settings) = change
            && let Some(warning) = wide_recall(folder.as_str(), settings)
        {
            print::warning(&warning);
        }
    }
}

/// A note that agents run as processes although an image for containers is configured. `runtime` is where agents run;
/// `why` is to be read after "because".
pub(super) fn no_containers(settings: &Settings, runtime: &str, why: &str) -> Option<String> {
    let image = unused_image(settings).filter(|_| runtime == RuntimeKind::Process.as_str())?;
    Some(format!("agents run as processes although image {image} is configured, because {why}"))
}

/// An image that could not be built.
pub(super) fn failed_build(build: &BuildJson) -> Option<String> {
    let why = build.why.as_ref()?;
    let BuildJson { agent, failed, .. } = build;
    Some(format!(
        "the image of agent {agent} could not be built ({failed} attempts), so it runs without its new packages: {why}"
    ))
}

/// Messages about agents that write more than is collected, of those that a person sees.
pub(super) fn floods(
    db: &Tables,
    txn: &Read<'_>,
    floods: &[FloodJson],
    rank: &Rank,
) -> Result<Vec<String>, state::Error> {
    let mut found = Vec::new();
    for FloodJson { session, discarded } in floods {
        let Ok(id) = session.parse::<SessionId>() else { continue };
        let row = lookup::session(db, txn, id)?;
        let agent = row.map(|row| lookup::folder(db, txn, row.agent)).transpose()?;
        if !agent.as_ref().map_or(*rank == Rank::Everything, |agent| rank.sees(agent)) {
            continue;
        }
        let agent = agent.map(|agent| format!("agent {agent}")).unwrap_or_else(|| "an agent".to_owned());
        found.push(format!(
            "{agent} writes messages faster than Hearth accepts them in session {session}: {discarded} were discarded; see `hearth \
             sessions show {session}`"
        ));
    }
    Ok(found)
}

/// The message about agents found by [`networks`], if agents run as processes.
pub(super) fn open_network(agents: &[String]) -> String {
    format!(
        "`network` of {} has no effect: agents run as processes, of which an unconfined one, and one with `network = \
         \"host\"`, reaches everything",
        agents.join(", ")
    )
}

/// Sessions with waiting messages whose own provider cannot be confined here, of agents that a person sees.
pub(super) fn unconfined(
    db: &Tables,
    txn: &Read<'_>,
    possible: bool,
    rank: &Rank,
) -> Result<Vec<String>, state::Error> {
    let mut found = Vec::new();
    for id in waiting(db, txn)? {
        let Some(session) = lookup::session(db, txn, id)? else { continue };
        let Some(provider) = session.provider else { continue };
        let Some(agent) = db.agents.get(txn, &session.agent)? else { continue };
        if rank.sees(agent.folder.as_str()) && agent.settings.hold(provider, possible) == Hold::NeedsUnconfined {
            let (folder, provider) = (&agent.folder, provider.as_str());
            found.push(format!(
                "session {id} of agent {folder} is not started, because {provider} cannot be confined here; \
                 `unconfined = true` lets it run, `hearth sessions set {id} provider=-` switches to its agent's \
                 provider"
            ));
        }
    }
    Ok(found)
}

impl RateLimitedAgent {
    /// Whether the agent gets no work, because no other provider works instead.
    pub(super) const fn stops_work(&self) -> bool {
        self.fallback.is_none() && self.meanwhile.is_none()
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let Self { agent, fallback, meanwhile, cause, since, again, why } = self;
        let (since, again) = (human_time::local(since), human_time::age(again));
        let what = match cause {
            LimitCause::Limited => "is rate-limited by its",
            LimitCause::Unreachable => "cannot reach its",
        };
        let which = fallback.as_ref().map_or_else(|| "provider".to_owned(), |name| format!("fallback {name}"));
        let meanwhile = meanwhile.as_ref().map_or_else(String::new, |name| format!("; {name} answers instead"));
        format!("agent {agent} {what} {which} since {since}, next try {again}{meanwhile}: {why}")
    }
}

impl FrozenAgent {
    /// In words.
    pub(super) fn words(&self) -> String {
        let Self { agent, by, since } = self;
        let since = human_time::local(since);
        format!("agent {agent} is frozen by {by} since {since}; `hearth agents unfreeze {agent}` lets it work again")
    }
}

impl FailedStarts {
    /// In words.
    pub(super) fn words(&self) -> String {
        let Self { session, agent, failed_starts, why } = self;
        let why = why.as_deref().unwrap_or("unknown reason");
        format!("session {session} of agent {agent} failed to start {failed_starts} times in a row: {why}")
    }
}
