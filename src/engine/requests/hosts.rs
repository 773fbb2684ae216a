//! Hosts that agents want to reach: people are asked, and their decisions are stored.

use crate::approvals::approvers;
use crate::approvals::texts::{ALWAYS, APPROVE, NEVER};
use crate::delivery::notice;
use crate::lifecycle::{dispatch, network};
use crate::model::approval::{ApprovalState, ApprovalSubject, Decider};
use crate::model::entity::Agent;
use crate::model::host::Endpoint;
use crate::model::host_grant::{HostDecision, HostFlood, HostGrant, HostPass, HostRequest, ONCE};
use crate::model::id::{AgentId, SessionId};
use crate::model::network::{HostWanted, Judgement, NetRefusal, is_local, judge};
use crate::model::report::Reply;
use crate::model::time::Millis;
use crate::requests::self_change;
use crate::rows::host_grants;
use crate::rows::host_grants::Reaching;
use crate::rows::notes;
use crate::state::Owned;
use crate::tx::Tx;
use crate::{Result, approvals};

/// Most questions about hosts that are open for one agent.
const OPEN_MAX: usize = 5;
/// Most questions about hosts in a day, for one agent.
const DAY_MAX: usize = 20;
/// The time for which they are counted, and after which people are told again that an agent wants more.
const DAY: Millis = Millis::minutes(24 * 60);
/// Time during which no one is asked again about a host that was not allowed.
const NOT_AGAIN: Millis = Millis::minutes(60);

/// An agent wants to reach a host that no rule names. A person is asked, unless that was decided meanwhile.
pub(crate) fn wanted(tx: &mut Tx<'_, '_>, wanted: &HostWanted) -> Result<Reply> {
    let session = wanted.session;
    if tx.db.live_incarnations.get(tx, &session)? != Some(wanted.incarnation) {
        return Ok(Reply::Host(Err(NetRefusal::Stopped)));
    }
    let Some((id, agent)) = self_change::agent_of(tx, session)? else {
        return Ok(Reply::Host(Err(NetRefusal::Stopped)));
    };
    let of = Reaching { agent: id, session, settings: &agent.settings };
    let Some(policy) = host_grants::policy(tx.db, tx, of, tx.now.wall)? else {
        return Ok(Reply::Host(Err(NetRefusal::Unlisted)));
    };
    let to = &wanted.endpoint;
    let answer = match judge(&policy, to) {
        Judgement::Ask => {
            let local = wanted.local || is_local(&to.host);
            ask(tx, &agent, HostRequest { session, agent: id, to: to.clone(), local })?
        }
        // The gate did not know that yet.
        Judgement::Tunnel { .. } => network::renew_session(tx, session).map(Ok)?,
        Judgement::Refuse(why) => network::renew_session(tx, session).map(|()| Err(why))?,
    };
    Ok(Reply::Host(answer))
}

fn ask(tx: &mut Tx<'_, '_>, agent: &Agent, request: HostRequest) -> Result<std::result::Result<(), NetRefusal>> {
    let id = request.agent;
    if tx.db.approvals_by_host.contains(tx, &host_grants::key(id, &request.to)?)? {
        return Ok(Ok(()));
    }
    let (mut open, mut today) = (0, 0);
    for (Owned { id: approval, .. }, ()) in tx.db.host_questions.collect_last(tx, &id, DAY_MAX)? {
        let approval = tx.db.approvals.require(tx, &approval)?;
        let age = tx.now.wall.since(approval.created);
        open += usize::from(approval.state.is_open());
        today += usize::from(age < DAY);
        let at = match approval.state {
            ApprovalState::Rejected { at, .. } | ApprovalState::Expired { at } => at,
            _ => continue,
        };
        let same = matches!(&approval.about, ApprovalSubject::Host(other) if other.to == request.to);
        if same && tx.now.wall.since(at) < NOT_AGAIN {
            return Ok(Err(NetRefusal::NotNow));
        }
    }
    if open >= OPEN_MAX || today >= DAY_MAX {
        tell_of_flood(tx, agent, &request)?;
        return Ok(Err(NetRefusal::TooManyQuestions));
    }
    let asked = approvals::ask::ask(tx, ApprovalSubject::Host(request))?;
    Ok(asked.map(drop).map_err(|_| NetRefusal::NobodyToAsk))
}

/// Tells the people who decide, once a day, that an agent wants more hosts than they are asked about.
fn tell_of_flood(tx: &mut Tx<'_, '_>, agent: &Agent, request: &HostRequest) -> Result<()> {
    let known = tx.db.host_floods.get(tx, &request.agent)?;
    if known.is_some_and(|flood| tx.now.wall.since(flood.told) < DAY) {
        return Ok(());
    }
    let Some(to) = approvers::reach(tx, request.agent)? else { return Ok(()) };
    let folder = &agent.folder;
    let text = format!(
        "The agent {folder} wants to reach many hosts. You are asked about at most {OPEN_MAX} at once and {DAY_MAX} in a \
         day; others are refused. `hearth net --agent {folder} --refused` lists them, and `hearth net allow {folder} \
         HOST:PORT` allows one."
    );
    notice::say_to(tx, to, None, text)?;
    let flood = HostFlood { told: tx.now.wall };
    tx.db.host_floods.put(tx, &request.agent, &flood)
}

/// Stores the decision of a person, applies it to running agents, and tells the agent.
pub(crate) fn decided(tx: &mut Tx<'_, '_>, request: &HostRequest, value: &str, by: &Decider) -> Result<()> {
    let HostRequest { session, agent, to, .. } = request;
    let text = match value {
        APPROVE => {
            let pass = HostPass { session: *session, until: tx.now.wall.plus(ONCE) };
            allow_once(tx, request, pass, by)?;
            format!("{to} is allowed for an hour in this conversation.")
        }
        ALWAYS => {
            decide(tx, *agent, to, HostDecision::Always, by)?;
            format!("{to} is allowed from now on.")
        }
        NEVER => {
            decide(tx, *agent, to, HostDecision::Never, by)?;
            format!("A person refused {to} for good. Do not look for another way to it.")
        }
        _ => format!("A person did not allow {to} now."),
    };
    tell(tx, *session, &text)
}

fn tell(tx: &mut Tx<'_, '_>, session: SessionId, text: &str) -> Result<()> {
    match self_change::agent_of(tx, session)? {
        Some(_) => dispatch::send_text(tx, session, text).map(drop),
        None => Ok(()),
    }
}

/// No one answered in time. That starts no turn.
pub(crate) fn lapsed(tx: &mut Tx<'_, '_>, request: &HostRequest) -> Result<()> {
    if self_change::agent_of(tx, request.session)?.is_none() {
        return Ok(());
    }
    let text = format!("No one answered in time whether {} may be reached. It stays refused.", request.to);
    notes::tell_agent(tx, request.session, &text)
}

fn allow_once(tx: &mut Tx<'_, '_>, request: &HostRequest, pass: HostPass, by: &Decider) -> Result<()> {
    let now = tx.now.wall;
    let known = host_grants::find(tx, request.agent, &request.to)?;
    let mut passes = match known.map(|grant| grant.decision) {
        Some(HostDecision::Once(passes)) => passes,
        Some(HostDecision::Always | HostDecision::Never) | None => Vec::new(),
    };
    passes.retain(|other| other.session != pass.session && other.until > now);
    passes.push(pass);
    decide(tx, request.agent, &request.to, HostDecision::Once(passes), by)
}

/// Stores a decision, and applies it to running agents.
pub(crate) fn decide(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    to: &Endpoint,
    decision: HostDecision,
    by: &Decider,
) -> Result<()> {
    let grant = HostGrant { to: to.clone(), decision, by: by.clone(), at: tx.now.wall };
    host_grants::put(tx, agent, &grant)?;
    network::renew(tx, agent)
}

/// Why a question about a host needs no decision any more.
pub(crate) fn settled(tx: &Tx<'_, '_>, request: &HostRequest) -> Result<Option<&'static str>> {
    let Some((id, agent)) = self_change::agent_of(tx, request.session)? else {
        return Ok(Some("the agent was removed"));
    };
    let of = Reaching { agent: id, session: request.session, settings: &agent.settings };
    Ok(match host_grants::policy(tx.db, tx, of, tx.now.wall)?.map(|policy| judge(&policy, &request.to)) {
        Some(Judgement::Ask) => None,
        Some(Judgement::Tunnel { .. }) => Some("it is allowed already"),
        Some(Judgement::Refuse(_)) => Some("it is refused already"),
        None => Some("the agent's network changed"),
    })
}
