//! What rows mean, in words for people.

use super::out;
use crate::model::delivery::{Author, OutState, Outbound};
use crate::model::incarnation::{Exit, Phase};
use crate::model::journal::Event;
use crate::model::message::{Completion, Due, MessageState, Reason};

/// So many of something: the word for one of them, or that for any other number.
pub(super) fn count(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    // What does not fit is more than one.
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// Why something was refused or not acted on, and what to do where something can be done.
pub(super) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::UnknownChat => "nobody listens in that chat, and the bot was not addressed",
        Reason::NoAgentWired => {
            "the bot was addressed where no agent listens; wire one with `hearth wirings add CHAT AGENT`"
        }
        Reason::ChatDenied => "the chat is denied; `hearth chats allow CHAT` undoes that",
        Reason::NoAgentEngaged => "agents listen there, but the message is for none of them",
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
            "the sender needs an approval, and nobody can be asked; `hearth members add AGENT USER` lets them in"
        }
        Reason::SenderHeld => "an approval of the sender is open; `hearth approvals list` shows it",
        Reason::ChannelHeld => "an approval of the chat is open; `hearth approvals list` shows it",
        Reason::HeldFull => "as many messages of the sender as may wait for an approval do so already",
        Reason::ApprovalsFull => {
            "the chat has as many open approvals as it may have; `hearth approvals list` shows them"
        }
        Reason::Rejected => "somebody decided against it",
        Reason::ApprovalExpired => "nobody decided in time",
        Reason::Superseded => "a newer message took its place, or what it waited for no longer exists",
        Reason::ChatRemoved => "the chat was removed",
        Reason::NobodyToAsk => {
            "nobody can be asked: no owner or administrator is reachable; `hearth roles grant USER owner` makes one"
        }
        Reason::Muted => "the thread is muted for the agent; `hearth mutes list` shows all mutes",
        Reason::CommandFiltered => "it is a command that no agent gets",
        Reason::CommandDenied => "it is a command for administrators; `hearth roles grant USER admin:AGENT` makes one",
        Reason::TooManyHops => "it went through too many agents since a person spoke",
        Reason::Answer => "it was the answer to a card",
        Reason::Backlog => "the agent already has as many waiting messages as it may have",
        Reason::AgentRemoved => "the agent was removed",
        Reason::AlreadyStored => "the same event was stored before",
        Reason::StoreFull => "there is no room for new work; `hearth status` shows what is used",
        Reason::Owner => "the sender is owner",
        Reason::GlobalAdmin => "the sender administers everything",
        Reason::AdminOfAgent => "the sender administers the agent",
        Reason::Member => "the sender is a member",
        Reason::Public => "the chat is open to everybody",
        Reason::PatternMatch => "the text matches the wiring's pattern",
        Reason::Mentioned => "the bot was addressed",
        Reason::Sticky => "the agent was addressed in this thread before; `hearth sticky list` shows where",
        Reason::RaisedToTrigger => "the same event came again and asks for a turn",
    }
}

/// How an incarnation ended.
pub(super) fn exit(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::NotStarted(why) => format!("it could not be started: {why}"),
        Exit::Unknown => "nobody saw its end".to_owned(),
    }
}

/// Where an incarnation is.
pub(super) fn phase(phase: &Phase) -> String {
    match phase {
        Phase::Starting => "starting".to_owned(),
        Phase::Running => "running".to_owned(),
        Phase::Stopping { why, .. } => format!("stopping ({})", why.as_str()),
        Phase::Collecting { .. } => "collecting".to_owned(),
        Phase::Closed { exit: how, .. } => format!("closed ({})", exit(how)),
    }
}

/// The word programs see for where a message is.
pub(super) fn state(state: &MessageState) -> &'static str {
    match state {
        MessageState::Pending(_) => "pending",
        MessageState::Claimed { .. } => "claimed",
        MessageState::Completed { .. } => "completed",
        MessageState::Failed { .. } => "failed",
        MessageState::Dropped { .. } => "dropped",
    }
}

/// What a state means, beyond its word; none if the word says all.
pub(super) fn state_detail(state: &MessageState) -> Option<String> {
    match state {
        MessageState::Pending(Due::Now) => None,
        MessageState::Pending(Due::At(time)) => Some(format!("not before {time}")),
        MessageState::Pending(Due::Retry(until)) => {
            Some(format!("waits out a backoff until second {} of run {}", until.ms() / 1_000, until.run()))
        }
        MessageState::Claimed { incarnation, .. } => Some(format!("incarnation {incarnation} works on it")),
        MessageState::Completed { how: Completion::Answered, .. } => Some("a turn took it in".to_owned()),
        MessageState::Completed { how: Completion::ContextCapped, .. } => {
            Some("context beyond what the agent gets to see".to_owned())
        }
        MessageState::Completed { how: Completion::Gated(why), .. } => {
            Some(format!("the agent was not woken: {}", why.why))
        }
        MessageState::Failed { error, .. } => Some(error.clone()),
        MessageState::Dropped { reason: why, .. } => Some(reason(*why).to_owned()),
    }
}

/// The word programs see for where an outgoing message is.
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

/// What a delivery's state means, beyond its word.
pub(super) fn delivery_detail(outbound: &Outbound) -> Option<String> {
    match &outbound.state {
        OutState::Later(time) => Some(format!("not before {time}")),
        OutState::Waiting { after: Some(after), .. } => Some(after.clone()),
        OutState::Waiting { after: None, .. } => Some("its turn has not come".to_owned()),
        OutState::Attempting { .. } => Some("the channel has not answered yet".to_owned()),
        OutState::Delivered { .. } => None,
        OutState::Failed { error, .. } | OutState::Refused { error, .. } => Some(error.clone()),
        OutState::Abandoned { .. } => Some(match outbound.author {
            Author::Agent { .. } => "its turn never ended, so it was not sent".to_owned(),
            Author::Hearth => "it was taken back before anybody saw it".to_owned(),
        }),
        OutState::Carried { message: Some(message), .. } => Some(format!("another agent has it as {message}")),
        OutState::Carried { message: None, .. } => Some("it was a request to Hearth itself".to_owned()),
    }
}

/// An entry of the journal.
pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Claimed(number) => format!("claimed by incarnation {number}"),
        Event::TurnLost { incarnation, tries, why } => {
            format!("the turn of incarnation {incarnation} ended without an end for it, try {tries}: {why}")
        }
        Event::TurnFailed { incarnation, tries, why } => {
            format!("the turn of incarnation {incarnation} failed and is tried again, try {tries}: {why}")
        }
        Event::PutOff { wait, why } => {
            format!("waits at least {wait}, because the provider is limiting requests: {why}")
        }
        Event::Reset(epoch) => format!("the session began anew: epoch {epoch}"),
        Event::Driven(Some(provider)) => format!("the session is driven by {} from now on", provider.as_str()),
        Event::Driven(None) => "the session uses the provider of its agent from now on".to_owned(),
        Event::GivenUp(why) => format!("given up: {why}"),
        Event::Stopped(number, why) => format!("incarnation {number} was asked to stop: {}", why.as_str()),
        Event::Ended(number, how) => format!("incarnation {number} ended: {}", exit(how)),
        Event::FileRefused { file, reason } => format!("the agent's file {file} was refused: {reason}"),
        Event::AnswerRefused(id, why) => format!("{id} was kept from going out: {why}"),
        Event::AnswerAbandoned(id) => format!("{id} was put aside: its turn never ended"),
        Event::DeliveryFailed(id, why) => format!("{id} could not be delivered: {why}"),
        Event::DeliveryUncertain(id, why) => format!("{id} may have been delivered, and is tried again: {why}"),
        Event::Raised => "the same event came again and made it ask for a turn".to_owned(),
    }
}

/// The beginning of a text on one line.
pub(super) fn excerpt(text: &str) -> String {
    const MAX: usize = 80;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = line.chars().filter(|c| out::is_harmless(*c)).take(MAX).collect();
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
