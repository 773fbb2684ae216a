//! Decides who may talk to an agent.

use crate::model::entity::UnknownSenders;
use crate::model::message::{MessageKind, Reason};

/// A sender's standing with one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessLevel {
    /// The message has no sender.
    Nobody,
    /// The sender has neither a role nor a membership.
    Stranger,
    /// The sender has a role or a membership.
    Known(Reason),
}

impl AccessLevel {
    /// Whether the sender may decide for the agent: an owner or an administrator.
    pub(crate) const fn decides(self) -> bool {
        matches!(self, Self::Known(Reason::Owner | Reason::GlobalAdmin | Reason::AdminOfAgent))
    }
}

/// Whether a message is marked as coming from an unknown sender. Only chat messages are ever marked.
pub(crate) const fn decide_unknown(kind: MessageKind, standing: AccessLevel) -> bool {
    matches!(kind, MessageKind::Chat | MessageKind::ChatSdk) && !matches!(standing, AccessLevel::Known(_))
}

/// Whether a chat's policy admits a sender to an agent, with the reason either way.
pub(crate) fn decide_access(policy: UnknownSenders, standing: AccessLevel) -> std::result::Result<Reason, Reason> {
    match (policy, standing) {
        (UnknownSenders::Public, _) => Ok(Reason::Public),
        (_, AccessLevel::Known(reason)) => Ok(reason),
        (_, AccessLevel::Nobody) => Err(Reason::UnknownUser),
        (UnknownSenders::Strict, AccessLevel::Stranger) => Err(Reason::UnknownSenderStrict),
        (UnknownSenders::RequestApproval, AccessLevel::Stranger) => Err(Reason::SenderHeld),
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::access::*;

    #[test]
    fn access_follows_the_policy_table() {
        use AccessLevel::{Known, Nobody, Stranger};
        use UnknownSenders::{Public, RequestApproval, Strict};
        for (policy, standing, expected) in [
            (Public, Nobody, Ok(Reason::Public)),
            (Public, Stranger, Ok(Reason::Public)),
            (Strict, Nobody, Err(Reason::UnknownUser)),
            (RequestApproval, Nobody, Err(Reason::UnknownUser)),
            (Strict, Known(Reason::Member), Ok(Reason::Member)),
            (Strict, Stranger, Err(Reason::UnknownSenderStrict)),
            (RequestApproval, Stranger, Err(Reason::SenderHeld)),
            (RequestApproval, Known(Reason::Owner), Ok(Reason::Owner)),
        ] {
            assert_eq!(decide_access(policy, standing), expected, "{policy:?} {standing:?}");
        }
    }
}
