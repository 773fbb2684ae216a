//! Many hosts that an agent wants at once: after a few questions about single hosts, the others share one card.

use crate::Result;
use crate::approvals::ask::Show;
use crate::approvals::{ask, texts};
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject};
use crate::model::host_grant::{HostRequest, HostsRequest};
use crate::model::id::{AgentId, ApprovalId};
use crate::model::time::Millis;
use crate::rows::approvals;
use crate::state::Owned;
use crate::tx::Tx;

/// Most open questions about single hosts of one agent.
const SINGLE_MAX: usize = 2;
/// Most hosts on one card. Their names fit into a message of every channel that is known.
pub(crate) const HOSTS_MAX: usize = 15;
/// How long hosts are gathered before their card is sent.
const GATHER: Millis = Millis::seconds(5);
/// Questions that are examined. More are never open at once.
const OPEN_MAX: usize = 25;

/// Whether another question may be asked today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Some,
    /// No; a question that was created may still get more hosts.
    None,
}

/// Result of a request to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A person is asked.
    Yes,
    /// Too many questions are open, or were asked today.
    TooMany,
    /// No one who may decide can be reached.
    NobodyToAsk,
}

/// Open questions about hosts of one agent.
#[derive(Debug, Default)]
struct Open {
    /// Number of questions about a single host.
    single: usize,
    /// The question about many hosts whose card is shown.
    shown: Option<ApprovalId>,
    /// The question about many hosts whose card is still to be sent, and its number of hosts.
    gathering: Option<(ApprovalId, usize)>,
}

/// Asks about a host: with a card of its own, or together with others.
pub(crate) fn ask(tx: &mut Tx<'_, '_>, request: &HostRequest, room: Room) -> Result<Asked> {
    let open = open_of(tx, request.agent)?;
    if let Some((id, hosts)) = open.gathering {
        if hosts >= HOSTS_MAX {
            return Ok(Asked::TooMany);
        }
        return join(tx, id, request).map(|()| Asked::Yes);
    }
    if room == Room::None {
        return Ok(Asked::TooMany);
    }
    let asked = if open.single < SINGLE_MAX {
        ask::ask(tx, ApprovalSubject::Host(request.clone()))?
    } else {
        let hosts = HostsRequest { agent: request.agent, hosts: vec![request.clone()] };
        // Behind a card that people see, hosts are gathered until it is decided.
        let show = if open.shown.is_some() { Show::Later } else { Show::At(tx.now.wall.plus(GATHER)) };
        ask::create(tx, ApprovalSubject::Hosts(hosts), show)?
    };
    Ok(if asked.is_ok() { Asked::Yes } else { Asked::NobodyToAsk })
}

fn open_of(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Open> {
    let mut open = Open::default();
    for (Owned { id, .. }, ()) in tx.db.host_questions.collect_last(tx, &agent, OPEN_MAX)? {
        let approval = tx.db.approvals.require(tx, &id)?;
        match &approval.about {
            _ if !approval.state.is_open() => {}
            ApprovalSubject::Hosts(request) if gathers(&approval) => open.gathering = Some((id, request.hosts.len())),
            ApprovalSubject::Hosts(_) => open.shown = Some(id),
            _ => open.single += 1,
        }
    }
    Ok(open)
}

/// Whether no one has seen the card of a question yet.
fn gathers(approval: &Approval) -> bool {
    approval.card.is_none() && matches!(approval.state, ApprovalState::Unsent { failed: 0, .. })
}

/// Adds a host to a question that has no card yet. Decisions about fewer hosts are void from now on.
fn join(tx: &mut Tx<'_, '_>, id: ApprovalId, request: &HostRequest) -> Result<()> {
    let approval = approvals::update(tx, id, |approval| {
        if let ApprovalSubject::Hosts(of) = &mut approval.about {
            of.hosts.push(request.clone());
        }
    })?;
    let options = texts::card(tx, &approval.about)?.options;
    approvals::update(tx, id, |approval| approval.options = options).map(drop)
}

/// The question that gathered hosts of an agent behind another one.
pub(crate) fn waiting(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Option<(ApprovalId, Approval)>> {
    let Some((id, _)) = open_of(tx, agent)?.gathering else { return Ok(None) };
    let approval = tx.db.approvals.require(tx, &id)?;
    let waits = approval.approver.is_none() && approval.due >= approval.expires;
    Ok(Some((id, approval)).filter(|_| waits))
}
