//! The MCP server `nanoclaw`, from which the agent has its tools. It lives in this process: a provider hands over one
//! JSON-RPC message after the other and passes the answers on.
//!
//! ```text
//!   message ─> rpc ─> Server ── tools/call ─> plan (pure: say, people, own, tasks) ─> Report::post ─> agent/out
//!                       └─ settle <── host/reply: the agent is told what the host made of it
//! ```
//!
//! What a tool writes stands at once, whatever becomes of the turn. Those of `group` write files that the agent group's
//! sessions share, and need no answer. The host answers each of these files, so the agent
//! hears of every refusal; the tool's own answer waits for that, without holding up the turn.

mod address;
mod arguments;
mod catalogue;
mod file;
mod group;
mod own;
mod people;
mod plan;
mod rehearse;
mod rpc;
mod say;
mod tasks;

use std::time::Duration;

use hearth_wire::{OutId, Reply};
use serde_json::Value;

use self::arguments::Arguments;
use self::plan::Told;
use self::rpc::{Incoming, Question};
use crate::clock::Stopwatch;
use crate::report::{Report, TurnError};

pub use self::rehearse::rehearse;

/// Calls of one turn that write something. An agent that talks in a circle ends here, not in the chat.
const MOST_CALLS: usize = 200;
/// Calls that wait for the host at the same time.
const MOST_WAITING: usize = 32;

/// The server of one provider's process.
#[derive(Debug, Default)]
pub(crate) struct Server {
    waiting: Vec<Waiting>,
    /// Requests whose calls nobody waits for any more.
    forgotten: Vec<OutId>,
    /// The turn that is counted, and its calls.
    turn: u64,
    calls: usize,
}

/// A call whose answer depends on the host's.
#[derive(Debug)]
struct Waiting {
    /// JSON-RPC id of the call.
    id: Value,
    request: OutId,
    number: u64,
    told: Told,
    patience: Duration,
    since: Stopwatch,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Whether calls wait for the host: then [`Self::settle`] is worth calling often.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Does what a JSON-RPC message asks for; its answer, unless it comes later or the message wants none.
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
        let result = match at_once(question) {
            Ok(result) => Some(result),
            Err((name, arguments)) => self.call(&id, &name, arguments, report)?,
        };
        Ok(result.map(|result| rpc::success(&id, &result)))
    }

    /// The answers that have come meanwhile, each with the id of what it answers. To be called in every pause.
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

    /// Nobody waits for the answer to this call any more.
    pub(crate) fn forget(&mut self, id: &Value) {
        let gone = self.waiting.extract_if(.., |call| call.id == *id);
        self.forgotten.extend(gone.map(|call| call.request));
    }

    /// What was waited for does not run on.
    fn end_forgotten(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        self.forgotten.drain(..).try_for_each(|request| report.tool_ended(request.as_str()))
    }

    /// Calls a tool: its result if that is known already.
    fn call(
        &mut self,
        id: &Value,
        name: &str,
        arguments: Value,
        report: &mut Report<'_>,
    ) -> Result<Option<Value>, TurnError> {
        let (tool, own) = (plan::tool(name), group::tool(name));
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

/// The result of a question that is the same whoever asks, or else the tool that is called and its arguments.
fn at_once(question: Question) -> Result<Value, (String, Value)> {
    match question {
        Question::Initialize { version } => Ok(rpc::greeting(version.as_deref())),
        Question::Ping => Ok(Value::Object(serde_json::Map::new())),
        Question::ListTools => Ok(catalogue::tools()),
        Question::Call { name, arguments } => Err((name, arguments)),
    }
}

/// What the agent is told: the host's answer, or, when there was none in time, what stands without it.
fn heard(reply: Option<Reply>, call: &Waiting) -> Result<String, String> {
    match reply {
        Some(Reply { ok: true, result, .. }) => Ok(call.told.agreed(call.number, &result)),
        Some(Reply { error, .. }) => {
            Err(error.unwrap_or_else(|| "the host refused it and said nothing more".to_owned()))
        }
        None => call.told.unanswered(call.number),
    }
}
