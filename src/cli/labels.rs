//! Texts for people that describe rows and states.

use super::{approvals, human_time, print};
use crate::model::address::UserId;
use crate::model::budget::PassReason;
use crate::model::delivery::{Author, OutState, Outbound};
use crate::model::incarnation::{Exit, Phase};
use crate::model::journal::Event;
use crate::model::message::{Completion, Due, MessageState, Reason};
use crate::model::session::SessionChoice;
use crate::model::tool::{ToolBasis, ToolCall, ToolOutcome};

/// A count with the singular or plural word.
pub(super) fn count(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    // A number that does not fit is plural.
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// The words for the code of a [`Reason`].
pub(super) fn reason(code: &str) -> String {
    // A daemon of a newer version may know more reasons.
    Reason::from_code(code).map_or_else(|| code.replace('_', " "), |reason| reason.explanation().to_owned())
}

/// The error of an ended message: a text, or the code of a [`Reason`].
pub(super) fn error(text: &str) -> String {
    Reason::from_code(text).map_or_else(|| text.to_owned(), |reason| reason.explanation().to_owned())
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

/// The phase of an incarnation, for programs. People read [`phase_in_words`].
pub(super) fn phase(phase: &Phase) -> String {
    match phase {
        Phase::Starting => "starting".to_owned(),
        Phase::Running => "running".to_owned(),
        Phase::Stopping { why, .. } => format!("stopping ({})", why.as_str()),
        Phase::Collecting { .. } => "collecting".to_owned(),
        Phase::Closed { exit: how, .. } => format!("closed ({})", exit(how)),
    }
}

/// The phase of an incarnation.
pub(super) fn phase_in_words(phase: &Phase) -> String {
    match phase {
        Phase::Stopping { why, .. } => format!("stopping: {}", why.explanation()),
        _ => self::phase(phase),
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
        MessageState::Pending(Due::Budget(time)) => {
            Some(format!("waiting for room in a budget, at the latest until {}", human_time::local(&time.to_string())))
        }
        MessageState::Pending(Due::Retry(_)) => Some("waiting for its next try".to_owned()),
        MessageState::Claimed { incarnation, .. } => Some(format!("in progress in run {incarnation}")),
        MessageState::Completed { how: Completion::Answered, .. } => None,
        MessageState::Completed { how: Completion::ContextCapped, .. } => {
            Some("beyond the context limit of the agent".to_owned())
        }
        MessageState::Completed { how: Completion::Gated(why), .. } => {
            Some(format!("the agent was not started: {}", why.why))
        }
        MessageState::Completed { how: Completion::Stopped(by), .. } => {
            Some(format!("stopped by {}", person(by.as_ref())))
        }
        MessageState::Failed { error, .. } => Some(error.clone()),
        MessageState::Dropped { reason: why, .. } => Some(why.explanation().to_owned()),
    }
}

/// A person by id; none is the operator of this machine.
pub(super) fn person(by: Option<&UserId>) -> String {
    by.map_or_else(|| "the operator".to_owned(), ToString::to_string)
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
            Author::Agent { .. } => "not sent: it had no chat to go to, or its turn never ended".to_owned(),
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
        Event::Unreachable { wait, why } => {
            format!("the provider cannot be reached, waits for at least {wait}: {why}")
        }
        Event::OverBudget { budget, until } => format!(
            "waits, because the budget {budget} has no room for it; its next period begins at {}",
            human_time::local(&until.to_string())
        ),
        Event::PassedBudget { budget, why } => {
            let why = match why {
                PassReason::Owner => "its sender is an owner",
                PassReason::Grace => "the first messages of each person and day pass",
                PassReason::Warn => "the agent only warns",
            };
            format!("passed although the budget {budget} is spent: {why}")
        }
        Event::FailedOver { why } => format!("the provider took no work, the next one gets it: {why}"),
        Event::StoodIn { fallback, why } => {
            format!("handled by the fallback {fallback}, because the provider before it takes no work: {why}")
        }
        Event::TookOverAgain { provider, model } => {
            let model = model.as_ref().map_or_else(String::new, |model| format!(" with the model {model}"));
            format!("handled by the agent's own provider {}{model} again", provider.as_str())
        }
        Event::Reset(epoch) => format!("the session was reset for the {epoch}. time"),
        Event::Driven(Some(provider)) => format!("the session uses provider {}", provider.as_str()),
        Event::Driven(None) => "the session uses its agent's provider".to_owned(),
        Event::Chosen(SessionChoice::Model(Some(model))) => format!("the session uses the model {model}"),
        Event::Chosen(SessionChoice::Model(None)) => "the session uses its agent's model".to_owned(),
        Event::Chosen(SessionChoice::Effort(Some(effort))) => format!("the session uses the effort {effort}"),
        Event::Chosen(SessionChoice::Verbosity(Some(verbosity))) => {
            format!("the session uses the verbosity {}", verbosity.as_str())
        }
        Event::Chosen(SessionChoice::Verbosity(None)) => "the session uses its agent's verbosity".to_owned(),
        Event::Chosen(SessionChoice::Effort(None)) => "the session uses its agent's effort".to_owned(),
        Event::GivenUp(why) => format!("failed: {why}"),
        Event::Stopped(number, why) => format!("run {number} was asked to stop: {}", why.explanation()),
        Event::Ended(number, how) => format!("run {number} ended: {}", exit(how)),
        Event::FileRefused { file, reason } => format!("the agent's file {file} was refused: {reason}"),
        Event::AnswerRefused(id, why) => format!("{id} was not sent: {why}"),
        Event::AnswerAbandoned(id) => {
            format!("reply {id} was not sent: it had no chat to go to, or its turn never ended")
        }
        Event::DeliveryFailed(id, why) => format!("{id} could not be delivered: {why}"),
        Event::DeliveryUncertain(id, why) => format!("{id} may have been delivered, retrying: {why}"),
        Event::ToolCalled(call) => tool_call(call),
        Event::Raised => "the event arrived again and now asks for a turn".to_owned(),
    }
}

fn tool_call(call: &ToolCall) -> String {
    let end = match call.outcome {
        ToolOutcome::Ran => format!("ran, {}", call.took),
        ToolOutcome::Failed => format!("failed, {}", call.took),
        ToolOutcome::Denied => "denied".to_owned(),
        ToolOutcome::Unknown => "may or may not have run".to_owned(),
    };
    let by = match &call.basis {
        ToolBasis::Preset(preset) => format!("preset {}", preset.as_str()),
        ToolBasis::Rule(rule) => format!("rule {} {}", rule.verdict.as_str(), rule.pattern),
        ToolBasis::Granted(pattern) => format!("allowed in advance: {pattern}"),
        ToolBasis::Asked { approval, by: Some(by) } => format!("{approval}, decided by {}", approvals::decider(by)),
        ToolBasis::Asked { approval, by: None } => format!("{approval}, not decided by a person"),
        ToolBasis::Permissions => "`permissions` of the agent".to_owned(),
        ToolBasis::Blocked => "blocked_tools, or not available here".to_owned(),
        ToolBasis::Unasked => "the agent's program did not ask".to_owned(),
    };
    let digest: String = call.digest.chars().take(12).collect();
    format!("tool {}: {end} ({by}); {} [{digest}]", excerpt(&call.tool), cause(&call.excerpt))
}

/// The beginning of a text on one line.
pub(super) fn excerpt(text: &str) -> String {
    beginning(text, 80)
}

/// The cause of a failure on one line. Its end often says most, so it is cut late.
pub(super) fn cause(text: &str) -> String {
    beginning(text, 400)
}

fn beginning(text: &str, max: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = line.chars().filter(|c| print::is_harmless(*c)).take(max).collect();
    if line.chars().count() > max { format!("{plain}…") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_one_short_line_without_controls() {
        assert_eq!(excerpt("  a\n b\u{1b}[31m\u{202e} "), "a b[31m");
        assert_eq!(excerpt(&"x".repeat(200)).chars().count(), 81);
        assert_eq!(cause(&"x".repeat(200)).chars().count(), 200);
    }
}
