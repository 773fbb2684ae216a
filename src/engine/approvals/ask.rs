//! Something new has to be decided.

use super::{rows, send, texts};
use crate::engine::{Cx, Result};
use crate::model::approval::{Approval, ApprovalState, Matters};
use crate::model::effect::Effect;
use crate::model::id::ApprovalId;
use crate::model::message::Reason;
use crate::state::Write;

/// Asks somebody to decide. The card is sent when somebody can be reached; until then the approval is open and unsent.
/// Refused, and nothing is stored, when nobody may decide it or nobody of those is on a channel that Hearth knows.
pub(in crate::engine) fn ask(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    about: Matters,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<ApprovalId, Reason>> {
    if send::reachable(cx, txn, &about)?.is_empty() {
        return Ok(Err(decide_unavailable(&about)));
    }
    let options = texts::card(cx, txn, &about)?.options;
    let approval = Approval {
        about,
        state: ApprovalState::Unsent { failed: 0, why: None },
        approver: None,
        nonce: cx.entropy.nonce(),
        options,
        card: None,
        due: cx.now.wall,
        expires: cx.now.wall.plus(cx.policy.approval_lifetime),
        created: cx.now.wall,
    };
    let id = rows::insert(cx, txn, &approval)?;
    send::show_next(cx, txn, id, effects)?;
    Ok(Ok(id))
}

fn decide_unavailable(about: &Matters) -> Reason {
    match about {
        Matters::Channel { .. } => Reason::NobodyToAsk,
        Matters::Sender { .. } | Matters::Packages { .. } | Matters::McpServer { .. } | Matters::CreateAgent { .. } => {
            Reason::ApprovalUnavailable
        }
    }
}
