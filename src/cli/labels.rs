//! Texts for people that describe rows and states.

use super::{human_time, print};
use crate::model::delivery::{Author, OutState, Outbound};
use crate::model::incarnation::{Exit, Phase};
use crate::model::journal::Event;
use crate::model::message::{Completion, Due, MessageState, Reason};
use crate::model::time::Millis;

/// A count with the singular or plural word.
pub(super) fn count(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    // A number that does not fit is plural.
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// Why something was dropped or ignored, and what to do if anything can be done.
pub(super) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::UnknownChat => "no agent is wired to the chat, and the bot was not addressed",
        Reason::NoAgentWired => {
            "the bot was addressed, but no agent is wired to the chat; wire one with `hearth wirings add CHAT AGENT`"
        }
        Reason::ChatDenied => "the chat is denied; `hearth chats allow CHAT` undoes that",
        Reason::NoAgentEngaged => "no wired agent engages with the message",
        Reason::PatternMismatch => "the text does not match the wiring's pattern",
        Reason::NotMentioned => "the bot was not addressed",
        Reason::UnknownUserScope => "the wiring is for known people only, and the message does not say who sent it",
        Reason::SenderScopeNotMember => {
            "the wiring is for known people only, and the sender is not a member; `hearth members add AGENT USER` makes them one"
        }
        Reason::UnknownUser => "the chat is for known people only, and the message does not say who sent it",
        Reason::UnknownSenderStrict => {
            "the chat is strict, and the sender is not a member; `hearth members add AGENT USER` makes them one"
        }
        Reason::ApprovalUnavailable => {
            "the sender needs an approval, and no approver can be reached; `hearth members add AGENT USER` lets them in"
        }
        Reason::SenderHeld => "an approval of the sender is open; `hearth approvals list` shows it",
        Reason::ChannelHeld => "an approval of the chat is open; `hearth approvals list` shows it",
        Reason::HeldFull => "the sender has reached the limit of messages that wait for an approval",
        Reason::ApprovalsFull => "the chat has reached the limit of open approvals; `hearth approvals list` shows them",
        Reason::Rejected => "the approver rejected it",
        Reason::ApprovalExpired => "the approval expired",
        Reason::Superseded => "a newer message replaced it, or the subject of its approval no longer exists",
        Reason::ChatRemoved => "the chat was removed",
        Reason::NobodyToAsk => "no owner or administrator can be reached; `hearth roles grant USER owner` makes one",
        Reason::Muted => "the thread is muted for the agent; `hearth mutes list` shows all mutes",
        Reason::CommandFiltered => "this command is never sent to agents",
        Reason::CommandDenied => "the command needs a role; `hearth roles grant USER admin:AGENT` grants it",
        Reason::TooManyHops => "too many agents in a row passed it on without a message from a person",
        Reason::Answer => "it answered a card",
        Reason::Backlog => "the agent has reached its limit of queued messages",
        Reason::AgentRemoved => "the agent was removed",
        Reason::AlreadyStored => "the same event was stored before",
        Reason::StoreFull => "the store or the disk is full; `hearth status` shows the usage",
        Reason::Owner => "the sender is owner",
        Reason::GlobalAdmin => "the sender administers everything",
        Reason::AdminOfAgent => "the sender administers the agent",
        Reason::Member => "the sender is a member",
        Reason::Public => "the chat is public",
        Reason::PatternMatch => "the text matches the wiring's pattern",
        Reason::Mentioned => "the bot was addressed",
        Reason::Sticky => "the agent was addressed in this thread before; `hearth sticky list` shows where",
        Reason::RaisedToTrigger => "the event arrived again and asks for a turn",
    }
}

/// How an incarnation ended.
pub(super) fn exit(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::NotStarted(why) => format!("could not be started: {why}"),
        Exit::Unknown => "unknown end".to_owned(),
    }
}

/// The phase of an incarnation.
pub(super) fn phase(phase: &Phase) -> String {
    match phase {
        Phase::Starting => "starting".to_owned(),
        Phase::Running => "running".to_owned(),
        Phase::Stopping { why, .. } => format!("stopping ({})", why.as_str()),
        Phase::Collecting { .. } => "collecting".to_owned(),
        Phase::Closed { exit: how, .. } => format!("closed ({})", exit(how)),
    }
}

/// The state of a message as a word for programs.
pub(super) fn state(state: &MessageState) -> &'static str {
    match state {
        MessageState::Pending(_) => "pending",
        MessageState::Claimed { .. } => "claimed",
        MessageState::Completed { .. } => "completed",
        MessageState::Failed { .. } => "failed",
        MessageState::Dropped { .. } => "dropped",
    }
}

/// Details of a message's state; none if the word says everything.
pub(super) fn state_detail(state: &MessageState) -> Option<String> {
    match state {
        MessageState::Pending(Due::Now) => None,
        MessageState::Pending(Due::At(time)) => Some(format!("not before {}", human_time::local(&time.to_string()))),
        MessageState::Pending(Due::Retry(until)) => {
            let after = Millis::new(until.ms());
            Some(format!(
                "waiting: retried after a failure or rate limit, {after} after the start of daemon run {}",
                until.run()
            ))
        }
        MessageState::Claimed { incarnation, .. } => Some(format!("in progress in run {incarnation}")),
        MessageState::Completed { how: Completion::Answered, .. } => None,
        MessageState::Completed { how: Completion::ContextCapped, .. } => {
            Some("beyond the context limit of the agent".to_owned())
        }
        MessageState::Completed { how: Completion::Gated(why), .. } => {
            Some(format!("the agent was not started: {}", why.why))
        }
        MessageState::Failed { error, .. } => Some(error.clone()),
        MessageState::Dropped { reason: why, .. } => Some(reason(*why).to_owned()),
    }
}

/// The state of an outgoing message as a word for programs.
pub(super) fn delivery(state: &OutState) -> &'static str {
    match state {
        OutState::Later(_) => "later",
        OutState::Waiting { .. } => "waiting",
        OutState::Attempting { .. } => "attempting",
        OutState::Delivered { .. } => "delivered",
        OutState::Failed { .. } => "failed",
        OutState::Refused { .. } => "refused",
        OutState::Abandoned { .. } => "abandoned",
        OutState::Carried { .. } => "carried",
    }
}

/// Details of a delivery's state.
pub(super) fn delivery_detail(outbound: &Outbound) -> Option<String> {
    match &outbound.state {
        OutState::Later(time) => Some(format!("not before {}", human_time::local(&time.to_string()))),
        OutState::Waiting { after: Some(after), .. } => Some(after.clone()),
        OutState::Waiting { after: None, .. } => Some("queued".to_owned()),
        OutState::Attempting { .. } => Some("waiting for the channel".to_owned()),
        OutState::Delivered { .. } => None,
        OutState::Failed { error, .. } | OutState::Refused { error, .. } => Some(error.clone()),
        OutState::Abandoned { .. } => Some(match outbound.author {
            Author::Agent { .. } => "discarded: its turn never ended".to_owned(),
            Author::Hearth => "discarded before it was delivered".to_owned(),
        }),
        OutState::Carried { message: Some(message), .. } => Some(format!("passed to another agent as {message}")),
        OutState::Carried { message: None, .. } => Some("a request to Hearth itself".to_owned()),
    }
}

/// An entry of the journal.
pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Claimed(number) => format!("claimed by run {number}"),
        Event::TurnLost { incarnation, tries, why } => {
            format!("the turn of run {incarnation} was lost, try {tries}: {why}")
        }
        Event::TurnFailed { incarnation, tries, why } => {
            format!("the turn of run {incarnation} failed and is retried, try {tries}: {why}")
        }
        Event::PutOff { wait, why } => {
            format!("rate-limited by the provider for at least {wait}: {why}")
        }
        Event::Reset(epoch) => format!("the session was reset for the {epoch}. time"),
        Event::Driven(Some(provider)) => format!("the session uses provider {}", provider.as_str()),
        Event::Driven(None) => "the session uses its agent's provider".to_owned(),
        Event::GivenUp(why) => format!("failed: {why}"),
        Event::Stopped(number, why) => format!("run {number} was asked to stop: {}", why.as_str()),
        Event::Ended(number, how) => format!("run {number} ended: {}", exit(how)),
        Event::FileRefused { file, reason } => format!("the agent's file {file} was refused: {reason}"),
        Event::AnswerRefused(id, why) => format!("{id} was not sent: {why}"),
        Event::AnswerAbandoned(id) => format!("reply {id} was discarded: its turn never ended"),
        Event::DeliveryFailed(id, why) => format!("{id} could not be delivered: {why}"),
        Event::DeliveryUncertain(id, why) => format!("{id} may have been delivered, retrying: {why}"),
        Event::Raised => "the event arrived again and now asks for a turn".to_owned(),
    }
}

/// The beginning of a text on one line.
pub(super) fn excerpt(text: &str) -> String {
    const MAX: usize = 80;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = line.chars().filter(|c| print::is_harmless(*c)).take(MAX).collect();
    if line.chars().count() > MAX { format!("{plain}…") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_one_short_line_without_controls() {
        assert_eq!(excerpt("  a\n b\u{1b}[31m\u{202e} "), "a b[31m");
        assert_eq!(excerpt(&"x".repeat(200)).chars().count(), 81);
    }
}
