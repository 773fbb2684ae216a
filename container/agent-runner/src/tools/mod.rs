//! The MCP server `nanoclaw`, which provides the agent's tools. It runs in this process: a provider passes on JSON-RPC
//! messages one by one, and returns the answers.
//!
//! ```text
//!   message ─> rpc ─> Server ── tools/call ─> plan (pure: say, people, own, tasks) ─> Report::post ─> agent/out
//!                       └─ settle <── host/reply: the agent is told what the host made of it
//! ```
//!
//! A tool's output takes effect at once, whatever the turn's result. The host answers each file in `agent/out`, so the
//! agent learns of every rejection. The tool's own answer waits for that without blocking the turn. The tools of
//! `group` change files that the agent group's sessions share, and need no answer.

mod address;
mod arguments;
mod catalogue;
mod file;
mod group;
mod own;
mod people;
mod plan;
mod rehearse;
pub(crate) mod relay;
mod rpc;
mod say;
mod tasks;

use std::time::Duration;

use hearth_wire::{OutId, Reply};
use serde_json::Value;

use self::arguments::Arguments;
use self::plan::{AcceptedReply, PlannedCall};
use self::rpc::{Incoming, Question};
use crate::clock::Stopwatch;
use crate::report::{Report, Scene};
use crate::turn::TurnError;

pub use self::rehearse::rehearse;
pub(crate) use self::relay::Relay;

/// Maximum number of writing calls in one turn. It stops an agent in a loop before it floods the chat.
const MOST_CALLS: usize = 200;
/// Maximum number of calls that wait for the host.
const MOST_WAITING: usize = 32;

/// A tool, which is pure except for checking a file to send. An error is the reason for a rejection.
type Tool = fn(&Arguments, &Scene<'_>) -> Result<PlannedCall, String>;

/// All tools, in the agent's order.
const TOOLS: [(&str, Tool); 17] = [
    ("send_message", say::send_message),
    ("send_file", say::send_file),
    ("edit_message", say::edit_message),
    ("add_reaction", say::add_reaction),
    ("send_card", say::send_card),
    ("ask_user_question", people::ask_user_question),
    ("create_agent", own::create_agent),
    ("install_packages", own::install_packages),
    ("add_mcp_server", own::add_mcp_server),
    ("hearth", own::hearth),
    ("recall", own::recall),
    ("schedule_task", tasks::schedule_task),
    ("list_tasks", tasks::list_tasks),
    ("update_task", tasks::update_task),
    ("cancel_task", tasks::cancel_task),
    ("pause_task", tasks::pause_task),
    ("resume_task", tasks::resume_task),
];

fn tool(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
}

/// The server for one provider process.
#[derive(Debug, Default)]
pub(crate) struct Server {
    waiting: Vec<Waiting>,
    /// Requests whose calls were cancelled.
    forgotten: Vec<OutId>,
    /// The current turn, and the number of its calls.
    turn: u64,
    calls: usize,
    /// Whether the tools were listed.
    has_listed: bool,
}

/// A call that waits for the host's answer.
#[derive(Debug)]
struct Waiting {
    /// JSON-RPC id of the call.
    id: Value,
    request: OutId,
    number: u64,
    told: AcceptedReply,
    patience: Duration,
    since: Stopwatch,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// What an agent is told of the tools.
    pub(crate) fn listed() -> Value {
        catalogue::tools()
    }

    /// Whether calls wait for the host. In that case [`Self::settle`] should be called often.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the tools were listed.
    pub(crate) const fn has_listed(&self) -> bool {
        self.has_listed
    }

    /// Handles a JSON-RPC message. Returns its answer, unless it comes later or the message needs none.
    pub(crate) fn take(&mut self, message: Value, report: &mut Report<'_>) -> Result<Option<Value>, TurnError> {
        let (id, question) = match rpc::read(message) {
            Incoming::Asked { id, question } => (id, question),
            Incoming::Cancelled(id) => {
                self.forget(&id);
                self.end_forgotten(report)?;
                return Ok(None);
            }
            Incoming::Nothing => return Ok(None),
            Incoming::Wrong { id, code, message } => return Ok(Some(rpc::failure(&id, code, &message))),
        };
        self.has_listed |= question == Question::ListTools;
        let result = match at_once(question) {
            Ok(result) => Some(result),
            Err((name, arguments)) => self.call(&id, &name, arguments, report)?,
        };
        Ok(result.map(|result| rpc::success(&id, &result)))
    }

    /// Returns the available answers, each with its call's id. To be called in every pause.
    pub(crate) fn settle(&mut self, report: &mut Report<'_>) -> Result<Vec<(Value, Value)>, TurnError> {
        self.end_forgotten(report)?;
        let mut answers = Vec::new();
        let mut at = 0;
        while let Some(call) = self.waiting.get(at) {
            let reply = report.reply(&call.request)?;
            if reply.is_none() && call.since.elapsed() < call.patience {
                at += 1;
                continue;
            }
            if reply.is_none() {
                report.tool_ended(call.request.as_str())?;
            }
            let call = self.waiting.remove(at);
            let result = rpc::tool_result(heard(reply, &call));
            answers.push((call.id.clone(), rpc::success(&call.id, &result)));
        }
        Ok(answers)
    }

    /// Cancels a call: its answer will be dropped.
    pub(crate) fn forget(&mut self, id: &Value) {
        let gone = self.waiting.extract_if(.., |call| call.id == *id);
        self.forgotten.extend(gone.map(|call| call.request));
    }

    /// Ends the tools of cancelled calls in the state file.
    fn end_forgotten(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        self.forgotten.drain(..).try_for_each(|request| report.tool_ended(request.as_str()))
    }

    /// Calls a tool. Returns its result if it is already known.
    fn call(
        &mut self,
        id: &Value,
        name: &str,
        arguments: Value,
        report: &mut Report<'_>,
    ) -> Result<Option<Value>, TurnError> {
        let (tool, own) = (tool(name), group::tool(name));
        if tool.is_none() && own.is_none() {
            return Ok(Some(rpc::unknown_tool(name)));
        }
        let refused = |why: String| Ok(Some(rpc::tool_result(Err(why))));
        let arguments = match Arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(why) => return refused(why),
        };
        let scene = report.scene()?;
        if scene.turn != self.turn {
            (self.turn, self.calls) = (scene.turn, 0);
        }
        let plan = match tool.map(|tool| tool(&arguments, &scene)).transpose() {
            Ok(plan) => plan,
            Err(why) => return refused(why),
        };
        if let Err(why) = self.has_room(id) {
            return refused(why);
        }
        let Some(plan) = plan else {
            self.calls += 1;
            return Ok(own.map(|own| rpc::tool_result(own(&arguments, &scene))));
        };
        let posted = match report.post(plan.post)? {
            Ok(posted) => posted,
            Err(why) => return refused(why),
        };
        self.calls += 1;
        let (since, told, patience) = (Stopwatch::start(), plan.told, plan.patience);
        let (request, number) = (posted.request, posted.number);
        self.waiting.push(Waiting { id: id.clone(), request, number, told, patience, since });
        Ok(None)
    }

    fn has_room(&self, id: &Value) -> Result<(), String> {
        if self.calls >= MOST_CALLS {
            return Err(format!(
                "this turn has used its {MOST_CALLS} calls of these tools. Stop calling them and end the turn; what is \
                 left can be done when you are asked again"
            ));
        }
        if self.waiting.len() >= MOST_WAITING {
            return Err(format!("{MOST_WAITING} calls wait for their answers; call again when some of them have come"));
        }
        if self.waiting.iter().any(|call| call.id == *id) {
            return Err(format!("a call with the id {id} still waits for its answer"));
        }
        Ok(())
    }
}

/// The result of a request that does not depend on the turn, or the called tool and its arguments.
fn at_once(question: Question) -> Result<Value, (String, Value)> {
    match question {
        Question::Initialize { version } => Ok(rpc::greeting(version.as_deref())),
        Question::Ping => Ok(Value::Object(serde_json::Map::new())),
        Question::ListTools => Ok(catalogue::tools()),
        Question::Call { name, arguments } => Err((name, arguments)),
    }
}

/// The text for the agent: the host's answer or, if it did not come in time, what holds without it.
fn heard(reply: Option<Reply>, call: &Waiting) -> Result<String, String> {
    match reply {
        Some(Reply { ok: true, result, .. }) => Ok(call.told.agreed(call.number, &result)),
        Some(Reply { error, .. }) => {
            Err(error.unwrap_or_else(|| "the host refused it and said nothing more".to_owned()))
        }
        None => call.told.unanswered(call.number),
    }
}

#[cfg(test)]
mod tests;
