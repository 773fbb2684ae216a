//! Creates approvals.

use crate::Result;
use crate::approvals::{send, texts};
use crate::delivery::notice;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject};
use crate::model::id::{ApprovalId, SessionId};
use crate::model::message::Reason;
use crate::model::time::{Millis, Timestamp};
use crate::model::tool::ToolSettings;
use crate::rows::{approvals, sessions};
use crate::tx::Tx;

/// Time after which a question about a host expires.
const HOST_LIFETIME: Millis = Millis::minutes(24 * 60);

/// The approval that a message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) approval: ApprovalId,
    /// Whether this message created the approval.
    pub(crate) is_new: bool,
}

/// Creates an approval and shows its card to the first reachable approver. Until one is reachable, the approval stays
/// open and unsent. Refused, with nothing stored, if no approver is on a channel that Hearth knows.
pub(crate) fn ask(tx: &mut Tx<'_, '_>, about: ApprovalSubject) -> Result<std::result::Result<ApprovalId, Reason>> {
    let asked = create(tx, about, Show::Now)?;
    if let Ok(id) = asked {
        send::show_next(tx, id)?;
    }
    Ok(asked)
}

/// When the card of a new approval is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// The caller shows it.
    Now,
    /// A sweep shows it then.
    At(Timestamp),
    /// The caller shows it later.
    Later,
}

/// Creates an approval without showing its card. Refused like [`ask`].
pub(crate) fn create(
    tx: &mut Tx<'_, '_>,
    about: ApprovalSubject,
    show: Show,
) -> Result<std::result::Result<ApprovalId, Reason>> {
    if send::reachable(tx, &about)?.is_empty() {
        return Ok(Err(decide_unavailable(&about)));
    }
    let card = texts::card(tx, &about)?;
    let options = card.options;
    let lifetime = tx.now.wall.plus(tx.policy.approval_lifetime);
    let expires = match &about {
        ApprovalSubject::Budget(request) => lifetime.min(request.until),
        ApprovalSubject::Tool(request) => tx.now.wall.plus(tool_wait(tx, request.session)?),
        ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => lifetime.min(tx.now.wall.plus(HOST_LIFETIME)),
        _ => lifetime,
    };
    let why = match show {
        Show::Now => None,
        Show::At(_) => Some("more may be added in the next seconds".to_owned()),
        Show::Later => Some("more may be added until an earlier question is decided".to_owned()),
    };
    let approval = Approval {
        about,
        state: ApprovalState::Unsent { failed: 0, why },
        approver: None,
        nonce: tx.cx.entropy.nonce(),
        options,
        card: None,
        due: match show {
            Show::Now => tx.now.wall,
            Show::At(at) => at.min(expires),
            Show::Later => expires,
        },
        expires,
        created: tx.now.wall,
    };
    let id = approvals::insert(tx, &approval)?;
    notice::decision_waits(tx, id, &card.title)?;
    Ok(Ok(id))
}

/// How long a tool call of a session waits for a person.
fn tool_wait(tx: &Tx<'_, '_>, session: SessionId) -> Result<Millis> {
    let agent = match sessions::load(tx, session)? {
        Some(session) => tx.db.agents.get(tx, &session.agent)?,
        None => None,
    };
    Ok(agent.map_or_else(|| ToolSettings::default().wait(), |agent| agent.settings.tools.wait()))
}

fn decide_unavailable(about: &ApprovalSubject) -> Reason {
    match about {
        ApprovalSubject::Channel { .. } => Reason::NobodyToAsk,
        ApprovalSubject::Sender { .. }
        | ApprovalSubject::Packages { .. }
        | ApprovalSubject::McpServer { .. }
        | ApprovalSubject::CreateAgent { .. }
        | ApprovalSubject::Budget(_)
        | ApprovalSubject::Host(_)
        | ApprovalSubject::Hosts(_)
        | ApprovalSubject::Tool(_) => Reason::ApprovalUnavailable,
    }
}
