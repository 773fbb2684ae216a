//! Answers an agent's requests for permission, and asks people if the agent's `permissions` say so.
//!
//! Permission is never given for ever: some agents write that into files that outlive the turn. "For this session" is
//! remembered here, for as long as the agent's process lives.

use std::collections::BTreeSet;
use std::time::Duration;

use hearth_wire::{OutId, Permissions, Reply};
use serde_json::{Value, json};

use super::words::Call;
use crate::clock::Stopwatch;
use crate::outgoing::OutgoingRecipient;
use crate::provider::is_blocked;
use crate::report::Report;
use crate::secrets;
use crate::turn::TurnError;

/// How long people have to answer.
const SECONDS: u64 = 600;
/// Additional time for the host to report that they did not.
const GRACE: Duration = Duration::from_secs(60);
/// Maximum length of what people see of a call.
const SHOWN_CHARS: usize = 1500;
/// Tools that are remembered for the session.
const MOST_GRANTED: usize = 256;
/// Requests that may wait for people at the same time.
const MOST_WAITING: usize = 16;

/// The values of the buttons.
const ONCE: &str = "once";
const SESSION: &str = "session";
const DENY: &str = "deny";

/// The requests of one agent process.
#[derive(Debug, Default)]
pub(super) struct Permitter {
    granted: BTreeSet<(String, String)>,
    waiting: Vec<Waiting>,
}

/// A request that waits for a person.
#[derive(Debug)]
struct Waiting {
    /// Id of the agent's request.
    id: Value,
    params: Value,
    call: Call,
    request: OutId,
    since: Stopwatch,
}

/// An answer to the agent.
#[derive(Debug)]
pub(super) struct Permitted {
    /// Id of the agent's request.
    pub(super) id: Value,
    pub(super) answer: Value,
    /// The tool, if it may not be used.
    pub(super) denied: Option<String>,
}

impl Permitter {
    /// Decides about a request, or asks people. In that case the answer comes from [`Self::settle`].
    pub(super) fn request(
        &mut self,
        id: Value,
        params: Value,
        call: Call,
        policy: Permissions,
        report: &mut Report<'_>,
    ) -> Result<Option<Permitted>, TurnError> {
        let is_granted = policy == Permissions::Allow || self.granted.contains(&call.key());
        if is_blocked(&call.name, &report.context().blocked_tools) || policy == Permissions::Deny {
            return Ok(Some(permitted(id, &params, &call, false)));
        }
        if is_granted || self.waiting.len() >= MOST_WAITING {
            return Ok(Some(permitted(id, &params, &call, is_granted)));
        }
        let request = report.ask(question(&call), &OutgoingRecipient::Reply)?;
        self.waiting.push(Waiting { id, params, call, request, since: Stopwatch::start() });
        Ok(None)
    }

    /// The answers of people that are there. To be called in every pause.
    pub(super) fn settle(&mut self, report: &mut Report<'_>) -> Result<Vec<Permitted>, TurnError> {
        let mut settled = Vec::new();
        let patience = Duration::from_secs(SECONDS).saturating_add(GRACE);
        for waiting in std::mem::take(&mut self.waiting) {
            let reply = report.reply(&waiting.request)?;
            if reply.is_none() && waiting.since.elapsed() < patience {
                self.waiting.push(waiting);
                continue;
            }
            if reply.is_none() {
                report.tool_ended(waiting.request.as_str())?;
            }
            let chosen = chosen(reply);
            let Waiting { id, params, call, .. } = waiting;
            if chosen == Some(SESSION) && self.granted.len() < MOST_GRANTED {
                self.granted.insert(call.key());
            }
            settled.push(permitted(id, &params, &call, matches!(chosen, Some(ONCE | SESSION))));
        }
        Ok(settled)
    }

    /// The ids of the agent's requests that wait, which are forgotten.
    pub(super) fn abandon(&mut self) -> Vec<Value> {
        self.waiting.drain(..).map(|waiting| waiting.id).collect()
    }
}

/// What a person chose; none if they did not.
fn chosen(reply: Option<Reply>) -> Option<&'static str> {
    let reply = reply.filter(|reply| reply.ok)?;
    let value = reply.result.get("value").and_then(Value::as_str)?;
    [ONCE, SESSION].into_iter().find(|known| *known == value)
}

/// The question to people.
fn question(call: &Call) -> Value {
    let name: String = call.name.chars().take(100).collect();
    let kind = if call.kind.is_empty() { String::new() } else { format!(" ({})", call.kind) };
    let detail: String = secrets::redacted(&call.detail).chars().take(SHOWN_CHARS).collect();
    let detail = if detail.is_empty() { String::new() } else { format!("\n\n{detail}") };
    json!({
        "action": "ask_user_question",
        "title": "Permission",
        "question": format!("May the agent use the tool {name}{kind}?{detail}"),
        "options": [
            {"label": "Allow once", "value": ONCE},
            {"label": "Allow for this session", "value": SESSION},
            {"label": "Deny", "value": DENY},
        ],
        "timeout": SECONDS,
    })
}

fn permitted(id: Value, params: &Value, call: &Call, allow: bool) -> Permitted {
    let answer = answer(params, if allow { "allow_once" } else { "reject_once" });
    let denied = (!allow || answer == cancelled()).then(|| call.name.clone());
    Permitted { id, answer, denied }
}

/// The answer that chooses the first option of a kind.
fn answer(params: &Value, kind: &str) -> Value {
    let options = params.get("options").and_then(Value::as_array);
    let option = options.into_iter().flatten().find(|option| text(option, "kind") == Some(kind));
    match option.and_then(|option| text(option, "optionId")) {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => cancelled(),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The answer that decides nothing.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kinds: &[&str]) -> Value {
        let options: Vec<Value> =
            kinds.iter().map(|kind| json!({"optionId": format!("o-{kind}"), "name": "x", "kind": kind})).collect();
        json!({ "options": options })
    }

    fn chosen_of(kinds: &[&str], allow: bool) -> (Option<String>, bool) {
        let call = Call { name: "bash".to_owned(), ..Call::default() };
        let Permitted { answer, denied, .. } = permitted(json!(1), &asked(kinds), &call, allow);
        (answer["outcome"]["optionId"].as_str().map(str::to_owned), denied.is_some())
    }

    #[test]
    fn permission_is_given_once_and_never_for_ever() {
        let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
        assert_eq!(chosen_of(&all, true), (Some("o-allow_once".to_owned()), false));
        assert_eq!(chosen_of(&all, false), (Some("o-reject_once".to_owned()), true));
        assert_eq!(chosen_of(&["allow_always", "reject_always"], true), (None, true));
        assert_eq!(chosen_of(&["allow_always", "reject_always"], false), (None, true));
        assert_eq!(answer(&json!(5), "allow_once"), cancelled());
    }

    #[test]
    fn only_the_two_buttons_that_allow_do_so() {
        let reply = |ok: bool, result: Value| {
            let request_id = OutId::new("1-1-2").unwrap();
            chosen(Some(Reply { v: 1, request_id, ok, result, error: None }))
        };
        assert_eq!(reply(true, json!({"value": "once"})), Some(ONCE));
        assert_eq!(reply(true, json!({"value": "session"})), Some(SESSION));
        for (ok, result) in [(true, json!({"value": "deny"})), (true, json!({})), (false, json!({"value": "once"}))] {
            assert_eq!(reply(ok, result.clone()), None, "{result}");
        }
        assert_eq!(chosen(None), None);
    }

    #[test]
    fn people_see_a_bounded_part_of_a_call() {
        let call = Call { name: "n".repeat(500), kind: "execute".to_owned(), detail: "d".repeat(9_000) };
        let question = question(&call)["question"].as_str().unwrap().to_owned();
        assert!(question.len() < 1_700 && question.contains("(execute)"), "{}", question.len());
    }
}
