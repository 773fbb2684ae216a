//! Answers an agent's requests for permission: by the rules, by its `permissions`, or as people decide.
//!
//! The rules come first: what they deny or ask about is decided by the host, which also remembers what people allow for
//! longer. What they allow is subject to `permissions`, which asks the people of the conversation. "For this session" is
//! remembered here then, for as long as the agent's process lives.
//!
//! Permission is never given for ever: some agents write that into files that outlive the turn.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use hearth_wire::{OutId, Permissions, Reply};
use serde_json::{Value, json};

use super::words::Call;
use crate::clock::Stopwatch;
use crate::outgoing::OutgoingRecipient;
use crate::provider::is_blocked;
use crate::report::{Report, ToolAnswer};
use crate::secrets;
use crate::tool_calls::{CallEnd, CalledTool};
use crate::turn::TurnError;

/// How long people of the conversation have to answer.
const SECONDS: u64 = 600;
/// The same, with additional time for the host to report that they did not.
const SECONDS_AND_GRACE: Duration = Duration::from_secs(SECONDS + 60);
/// Maximum length of what people of the conversation see of a call.
const SHOWN_CHARS: usize = 1500;
/// Tools that are remembered for the session.
const MOST_GRANTED: usize = 256;
/// Requests that may wait for people of the conversation at the same time.
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
    /// Id of the call.
    call: String,
    about: Call,
    /// The question to the host.
    request: OutId,
    from: Decider,
}

/// Who decides about a request.
#[derive(Debug)]
enum Decider {
    /// The host, by asking a person who may decide.
    Host,
    /// A person of the conversation, who is asked since then.
    Conversation(Stopwatch),
}

/// An answer to the agent.
#[derive(Debug)]
pub(super) struct Permitted {
    /// Id of the agent's request.
    pub(super) id: Value,
    pub(super) answer: Value,
    /// The tool and the reason, if it may not be used.
    pub(super) denied: Option<(String, String)>,
}

/// A request for permission.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// Id of the agent's request.
    pub(super) id: Value,
    pub(super) params: Value,
    /// Id of the call.
    pub(super) call: &'a str,
    /// What is known of it.
    pub(super) about: &'a Call,
}

impl Permitter {
    /// Decides about a request, or asks people. In that case the answer comes from [`Self::settle`].
    pub(super) fn request(
        &mut self,
        asked: Asked<'_>,
        policy: Permissions,
        report: &mut Report<'_>,
    ) -> Result<Option<Permitted>, TurnError> {
        let called = asked.called();
        if is_blocked(called.name, &report.context().blocked_tools) {
            report.blocked(&called);
            let reason =
                format!("Tool '{}' is blocked for this agent by `blocked_tools` of its configuration.", called.name);
            return Ok(Some(asked.denied(reason)));
        }
        match report.judge(&called)? {
            ToolAnswer::Allowed => self.by_permissions(asked, policy, report),
            ToolAnswer::Denied(reason) => Ok(Some(asked.denied(reason))),
            ToolAnswer::Asked(request) => {
                self.waiting.push(asked.waiting(request, Decider::Host));
                Ok(None)
            }
        }
    }

    /// Decides about a request that the rules allow.
    fn by_permissions(
        &mut self,
        asked: Asked<'_>,
        policy: Permissions,
        report: &mut Report<'_>,
    ) -> Result<Option<Permitted>, TurnError> {
        if policy == Permissions::Allow || (policy == Permissions::Ask && self.granted.contains(&asked.about.key())) {
            return Ok(Some(asked.allowed()));
        }
        report.left_to_permissions(asked.call);
        if policy == Permissions::Deny || self.waiting.len() >= MOST_WAITING {
            report.call_ended(asked.call, CallEnd::Denied);
            return Ok(Some(asked.denied("`permissions` of the agent's configuration does not allow it.".to_owned())));
        }
        let request = report.ask(question(asked.about), &OutgoingRecipient::Reply)?;
        self.waiting.push(asked.waiting(request, Decider::Conversation(Stopwatch::start())));
        Ok(None)
    }

    /// The answers of people that are there. To be called in every pause.
    pub(super) fn settle(&mut self, report: &mut Report<'_>) -> Result<Vec<Permitted>, TurnError> {
        let mut settled = Vec::new();
        for waiting in mem::take(&mut self.waiting) {
            let answer = match &waiting.from {
                Decider::Host => report.decision(&waiting.call, &waiting.request)?,
                Decider::Conversation(since) => self.of_conversation(&waiting, since, report)?,
            };
            match answer {
                None | Some(ToolAnswer::Asked(_)) => self.waiting.push(waiting),
                Some(ToolAnswer::Allowed) => {
                    settled.push(permitted(waiting.id, &waiting.params, Ok(&waiting.about.name)));
                }
                Some(ToolAnswer::Denied(reason)) => {
                    settled.push(permitted(waiting.id, &waiting.params, Err((waiting.about.name, reason))));
                }
            }
        }
        Ok(settled)
    }

    /// What a person of the conversation decided. After a while, no answer is a denial.
    fn of_conversation(
        &mut self,
        waiting: &Waiting,
        since: &Stopwatch,
        report: &mut Report<'_>,
    ) -> Result<Option<ToolAnswer>, TurnError> {
        let reply = report.reply(&waiting.request)?;
        if reply.is_none() {
            if since.elapsed() < SECONDS_AND_GRACE {
                return Ok(None);
            }
            report.tool_ended(waiting.request.as_str())?;
        }
        let chosen = chosen(reply);
        if chosen == Some(SESSION) && self.granted.len() < MOST_GRANTED {
            self.granted.insert(waiting.about.key());
        }
        if matches!(chosen, Some(ONCE | SESSION)) {
            return Ok(Some(ToolAnswer::Allowed));
        }
        report.call_ended(&waiting.call, CallEnd::Denied);
        Ok(Some(ToolAnswer::Denied("no one in the conversation allowed it.".to_owned())))
    }

    /// Whether a request waits for a person.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The ids of the agent's requests that wait, which are forgotten.
    pub(super) fn abandon(&mut self) -> Vec<Value> {
        self.waiting.drain(..).map(|waiting| waiting.id).collect()
    }
}

impl<'a> Asked<'a> {
    fn called(&self) -> CalledTool<'a> {
        CalledTool { id: self.call, name: &self.about.name, kind: &self.about.kind, input: &self.about.input }
    }

    fn allowed(self) -> Permitted {
        permitted(self.id, &self.params, Ok(&self.about.name))
    }

    fn denied(self, reason: String) -> Permitted {
        permitted(self.id, &self.params, Err((self.about.name.clone(), reason)))
    }

    fn waiting(self, request: OutId, from: Decider) -> Waiting {
        let (call, about) = (self.call.to_owned(), self.about.clone());
        Waiting { id: self.id, params: self.params, call, about, request, from }
    }
}

/// What a person of the conversation chose; none if they did not.
fn chosen(reply: Option<Reply>) -> Option<&'static str> {
    let reply = reply.filter(|reply| reply.ok)?;
    let value = reply.result.get("value").and_then(Value::as_str)?;
    [ONCE, SESSION].into_iter().find(|known| *known == value)
}

/// The question to people of the conversation.
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

fn permitted(id: Value, params: &Value, verdict: Result<&str, (String, String)>) -> Permitted {
    let answer = answer(params, if verdict.is_ok() { "allow_once" } else { "reject_once" });
    let denied = match verdict {
        Ok(name) => {
            let why = "the agent's program offers no permission for a single call";
            (answer == cancelled()).then(|| (name.to_owned(), why.to_owned()))
        }
        Err(denied) => Some(denied),
    };
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
        let verdict = if allow { Ok("bash") } else { Err(("bash".to_owned(), "no".to_owned())) };
        let Permitted { answer, denied, .. } = permitted(json!(1), &asked(kinds), verdict);
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
        let call =
            Call { name: "n".repeat(500), kind: "execute".to_owned(), detail: "d".repeat(9_000), input: Value::Null };
        let question = question(&call)["question"].as_str().unwrap().to_owned();
        assert!(question.len() < 1_700 && question.contains("(execute)"), "{}", question.len());
    }
}
