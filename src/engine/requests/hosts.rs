//! Hosts that agents want to reach: people are asked, and their decisions are stored.

use crate::Result;
use crate::approvals::approvers;
use crate::approvals::texts::{ALWAYS, APPROVE, NEVER, REJECT};
use crate::delivery::notice;
use crate::lifecycle::{dispatch, network};
use crate::model::approval::{ApprovalState, ApprovalSubject, Decider};
use crate::model::entity::Agent;
use crate::model::host_grant::{HostDecision, HostFlood, HostGrant, HostPass, HostRequest, ONCE};
use crate::model::id::SessionId;
use crate::model::network::{HostWanted, Judgement, NetRefusal, is_local, judge};
use crate::model::report::Reply;
use crate::model::time::Millis;
use crate::requests::host_floods::{Asked, HOSTS_MAX, Room};
use crate::requests::{host_floods, self_change};
use crate::rows::host_grants;
use crate::rows::host_grants::Reaching;
use crate::rows::notes;
use crate::state::Owned;
use crate::tx::Tx;

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
    let mut today = 0;
    for (Owned { id: approval, .. }, ()) in tx.db.host_questions.collect_last(tx, &id, DAY_MAX)? {
        let approval = tx.db.approvals.require(tx, &approval)?;
        today += usize::from(tx.now.wall.since(approval.created) < DAY);
        let at = match approval.state {
            ApprovalState::Rejected { at, .. } | ApprovalState::Expired { at } => at,
            _ => continue,
        };
        if is_about(&approval.about, &request) && tx.now.wall.since(at) < NOT_AGAIN {
            return Ok(Err(NetRefusal::NotNow));
        }
    }
    let room = if today < DAY_MAX { Room::Some } else { Room::None };
    match host_floods::ask(tx, &request, room)? {
        Asked::Yes => Ok(Ok(())),
        Asked::TooMany => {
            tell_of_flood(tx, agent, &request)?;
            Ok(Err(NetRefusal::TooManyQuestions))
        }
        Asked::NobodyToAsk => Ok(Err(NetRefusal::NobodyToAsk)),
    }
}

fn is_about(about: &ApprovalSubject, request: &HostRequest) -> bool {
    match about {
        ApprovalSubject::Host(other) => other.to == request.to,
        ApprovalSubject::Hosts(others) => others.hosts.iter().any(|other| other.to == request.to),
        _ => false,
    }
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
        "The agent {folder} wants to reach more hosts than you are asked about; others are refused. You are asked at most \
         {DAY_MAX} times in a day, and about at most {HOSTS_MAX} hosts at once. `hearth net --agent {folder} --refused` \
         lists the others, and `hearth net allow {folder} HOST:PORT` allows one."
    );
    notice::say_to(tx, to, None, text)?;
    let flood = HostFlood { told: tx.now.wall };
    tx.db.host_floods.put(tx, &request.agent, &flood)
}

/// Stores the decision of a person about hosts of an agent, applies it to running agents, and tells the sessions that
/// want them.
pub(crate) fn decided(tx: &mut Tx<'_, '_>, requests: &[HostRequest], value: &str, by: &Decider) -> Result<()> {
    for request in requests {
        let HostRequest { session, agent, to, .. } = request;
        let decision = match value {
            APPROVE => {
                let pass = HostPass { session: *session, until: tx.now.wall.plus(ONCE) };
                HostDecision::Once(with_pass(tx, request, pass)?)
            }
            ALWAYS => HostDecision::Always,
            NEVER => HostDecision::Never,
            _ => continue,
        };
        let grant = HostGrant { to: to.clone(), decision, by: by.clone(), at: tx.now.wall };
        host_grants::put(tx, *agent, &grant)?;
    }
    if let Some(HostRequest { agent, .. }) = requests.first()
        && value != REJECT
    {
        network::renew(tx, *agent)?;
    }
    for SessionHosts { session, names, many } in by_session(requests) {
        let (are, them) = if many { ("are", "them") } else { ("is", "it") };
        let text = match value {
            APPROVE => format!("{names} {are} allowed for an hour in this conversation."),
            ALWAYS => format!("{names} {are} allowed from now on."),
            NEVER => format!("A person refused {names} for good. Do not look for another way to {them}."),
            _ => format!("A person did not allow {names} now."),
        };
        if self_change::agent_of(tx, session)?.is_some() {
            dispatch::send_text(tx, session, &text)?;
        }
    }
    Ok(())
}

/// No one answered in time. That starts no turn.
pub(crate) fn lapsed(tx: &mut Tx<'_, '_>, requests: &[HostRequest]) -> Result<()> {
    for SessionHosts { session, names, many } in by_session(requests) {
        if self_change::agent_of(tx, session)?.is_some() {
            let stay = if many { "They stay" } else { "It stays" };
            let text = format!("No one answered in time whether {names} may be reached. {stay} refused.");
            notes::tell_agent(tx, session, &text)?;
        }
    }
    Ok(())
}

/// Hosts that one session wants.
struct SessionHosts {
    session: SessionId,
    names: String,
    many: bool,
}

fn by_session(requests: &[HostRequest]) -> Vec<SessionHosts> {
    let mut found: Vec<SessionHosts> = Vec::new();
    for HostRequest { session, to, .. } in requests {
        match found.iter_mut().find(|of| of.session == *session) {
            Some(of) => {
                of.names.push_str(&format!(", {to}"));
                of.many = true;
            }
            None => found.push(SessionHosts { session: *session, names: to.to_string(), many: false }),
        }
    }
    found
}

/// The sessions in which a host is allowed for a while, with a new one.
fn with_pass(tx: &Tx<'_, '_>, request: &HostRequest, pass: HostPass) -> Result<Vec<HostPass>> {
    let known = host_grants::find(tx, request.agent, &request.to)?;
    let mut passes = match known.map(|grant| grant.decision) {
        Some(HostDecision::Once(passes)) => passes,
        Some(HostDecision::Always | HostDecision::Never) | None => Vec::new(),
    };
    passes.retain(|other| other.session != pass.session && other.until > tx.now.wall);
    passes.push(pass);
    Ok(passes)
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
