//! What a reason means, in words for people.

use super::message::Reason;

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 41] = [
        Self::UnknownChat,
        Self::NoAgentWired,
        Self::ChatDenied,
        Self::NoAgentEngaged,
        Self::PatternMismatch,
        Self::NotMentioned,
        Self::UnknownUserScope,
        Self::SenderScopeNotMember,
        Self::UnknownUser,
        Self::UnknownSenderStrict,
        Self::ApprovalUnavailable,
        Self::SenderHeld,
        Self::ChannelHeld,
        Self::HeldFull,
        Self::ApprovalsFull,
        Self::Rejected,
        Self::ApprovalExpired,
        Self::Superseded,
        Self::ChatRemoved,
        Self::NobodyToAsk,
        Self::Muted,
        Self::CommandFiltered,
        Self::CommandDenied,
        Self::TooManyHops,
        Self::Answer,
        Self::Backlog,
        Self::AgentRemoved,
        Self::AlreadyStored,
        Self::StoreFull,
        Self::Owner,
        Self::GlobalAdmin,
        Self::AdminOfAgent,
        Self::Member,
        Self::Public,
        Self::PatternMatch,
        Self::Mentioned,
        Self::Sticky,
        Self::RaisedToTrigger,
        Self::PairingCode,
        Self::OwnCommand,
        Self::Budget,
    ];

    /// The reason with this word for programs.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == code)
    }

    /// Why something was dropped, ignored or accepted, and what to do if anything can be done.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::UnknownChat => "no agent is wired to the chat, and the bot was not addressed",
            Self::NoAgentWired => {
                "the bot was addressed, but no agent is wired to the chat; wire one with `hearth wirings add CHAT AGENT`"
            }
            Self::ChatDenied => "the chat is denied; `hearth chats allow CHAT` undoes that",
            Self::NoAgentEngaged => "no wired agent engages with the message",
            Self::PatternMismatch => "the text does not match the wiring's pattern",
            Self::NotMentioned => "the bot was not addressed",
            Self::UnknownUserScope => "the wiring is for known people only, and the message does not say who sent it",
            Self::SenderScopeNotMember => {
                "the wiring is for known people only, and the sender is not a member; `hearth members add AGENT USER` makes them one"
            }
            Self::UnknownUser => "the chat is for known people only, and the message does not say who sent it",
            Self::UnknownSenderStrict => {
                "the chat is strict, and the sender is not a member; `hearth members add AGENT USER` makes them one"
            }
            Self::ApprovalUnavailable => {
                "the sender needs an approval, and no approver can be reached; `hearth members add AGENT USER` lets them in"
            }
            Self::SenderHeld => "an approval of the sender is open; `hearth approvals list` shows it",
            Self::ChannelHeld => "an approval of the chat is open; `hearth approvals list` shows it",
            Self::HeldFull => "the sender has reached the limit of messages that wait for an approval",
            Self::ApprovalsFull => {
                "the chat has reached the limit of open approvals; `hearth approvals list` shows them"
            }
            Self::Rejected => "the approver rejected it",
            Self::ApprovalExpired => "the approval expired",
            Self::Superseded => "a newer message replaced it, or the subject of its approval no longer exists",
            Self::ChatRemoved => "the chat was removed",
            Self::NobodyToAsk => "no owner or administrator can be reached; `hearth roles grant USER owner` makes one",
            Self::Muted => "the thread is muted for the agent; `hearth mutes list` shows all mutes",
            Self::CommandFiltered => "this command is never sent to agents",
            Self::CommandDenied => "the command needs a role; `hearth roles grant USER admin:AGENT` grants it",
            Self::TooManyHops => "too many agents in a row passed it on without a message from a person",
            Self::Answer => "it answered a card",
            Self::Backlog => "the agent has reached its limit of queued messages",
            Self::AgentRemoved => "the agent was removed",
            Self::AlreadyStored => "the same event was stored before",
            Self::StoreFull => "the store or the disk is full; `hearth status` shows the usage",
            Self::Owner => "the sender is owner",
            Self::GlobalAdmin => "the sender administers everything",
            Self::AdminOfAgent => "the sender administers the agent",
            Self::Member => "the sender is a member",
            Self::Public => "the chat is public",
            Self::PatternMatch => "the text matches the wiring's pattern",
            Self::Mentioned => "the bot was addressed",
            Self::Sticky => "the agent was addressed in this thread before; `hearth sticky list` shows where",
            Self::RaisedToTrigger => "the event arrived again and asks for a turn",
            Self::PairingCode => {
                "it was a code of `hearth channels pair` or for signing in to the console, which is not stored and goes to no agent"
            }
            Self::Budget => "a budget is spent; `hearth spend` shows budgets",
            Self::OwnCommand => "it was a command to Hearth, which carried it out and answered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_found_by_its_code_and_explained_without_it() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{reason} is at its place of the list");
            assert_eq!(Reason::from_code(reason.as_str()), Some(reason));
            assert!(!reason.explanation().contains('_'), "{reason}");
        }
        assert_eq!(Reason::from_code("invalid_event"), None);
    }
}
