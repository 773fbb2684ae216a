//! The provider `openai`: a small agent of our own, for any server with OpenAI's chat completions. It has Hearth's tools
//! and no others, so no shell and no files.
//!
//! ```text
//!   history + prompt ─> http ─> stream ─> calls of tools ─> tools ─┐      trouble: what an error means
//!          ^                      └─> the answer ─> report         │
//!          └───────────────────── results ─────────────────────────┘
//! ```
//!
//! * A turn is a loop: the model is asked, and asked again with the results of the tools that it called.
//! * A turn that fails leaves the history as it was.
//! * The older half of the history goes when the server counts more tokens than the limit.

mod history;
mod http;
mod stream;
mod trouble;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use hearth_wire::Context;
use serde_json::{Value, json};

use self::history::History;
use self::http::{Client, Received, Request};
use self::stream::{Answer, ToolCall};
use self::trouble::ApiError;
use super::{Provider, dispatch, is_blocked, unfinished};
use crate::addendum::instructions;
use crate::failure::Failure;
use crate::outgoing::Utterance;
use crate::report::{Report, ToolAnswer};
use crate::roots::Roots;
use crate::tool_calls::{CallEnd, CalledTool};
use crate::tools::Server;
use crate::turn::{Turn, TurnError};
use crate::{env, ids, log};

/// Calls of the model in one turn.
const MOST_CALLS: usize = 50;
/// Tokens of a prompt above which the older half of the history goes, unless the agent's `env` says otherwise.
const CONTEXT_TOKENS: u64 = 16_000;
const CONTEXT_VARIABLE: &str = "OPENAI_CONTEXT_TOKENS";
/// Server, unless the agent's `env` names one.
const SERVER: &str = "https://api.openai.com/v1";
/// What Hearth's tools are called in rules.
const OWN_PREFIX: &str = "mcp__nanoclaw__";
/// The file of instructions in the agent's folder, and how much of it is read.
const INSTRUCTIONS: &str = "AGENTS.md";
const INSTRUCTIONS_BYTES: u64 = 64 << 10;
const SLICE: Duration = Duration::from_millis(100);
/// Polling interval while tools wait for the host.
const TOOL_SLICE: Duration = Duration::from_millis(20);

/// What the agent is told when the older half of its conversation is gone.
const COMPACTED: &str = "[The older half of this conversation did not fit the model, and you do not see it any more. The tool \
                         recall finds what was said in it.]";

/// The provider. It is a part of the runner and needs no process.
#[derive(Debug)]
struct OpenAi {
    roots: Roots,
    client: Client,
}

/// Creates the provider.
pub(super) fn open(roots: &Roots) -> Box<dyn Provider> {
    Box::new(OpenAi { roots: roots.clone(), client: http::client() })
}

/// What all requests of a turn have in common.
#[derive(Debug)]
struct Model {
    name: String,
    url: String,
    key: Option<String>,
    effort: Option<String>,
    context_tokens: u64,
    system: Value,
    tools: Vec<Value>,
}

impl Model {
    /// # Errors
    /// What is missing in the agent's configuration.
    fn of(context: &Context, roots: &Roots) -> Result<Self, String> {
        let set = |name: &str| env::variable(name).filter(|value| !value.trim().is_empty());
        let missing = "the provider openai needs the name of a model: set the agent's `model`";
        let name = context.provider.model.clone().ok_or(missing)?;
        let context_tokens = match set(CONTEXT_VARIABLE) {
            Some(number) => {
                number.trim().parse().map_err(|_| format!("{CONTEXT_VARIABLE} is {number:?}; it must be a number"))?
            }
            None => CONTEXT_TOKENS,
        };
        let server = set("OPENAI_BASE_URL").unwrap_or_else(|| SERVER.to_owned());
        let system = [file(&roots.group.join(INSTRUCTIONS)), instructions(context)].join("\n\n");
        Ok(Self {
            name,
            url: format!("{}/chat/completions", server.trim_end_matches('/')),
            key: set("OPENAI_API_KEY"),
            effort: context.provider.effort.clone(),
            context_tokens,
            system: json!({"role": "system", "content": system}),
            tools: tools(&context.blocked_tools),
        })
    }

    fn request(&self, earlier: &[Value], turn: &[Value]) -> Request {
        let messages: Vec<&Value> = std::iter::once(&self.system).chain(earlier).chain(turn).collect();
        let mut body = json!({
            "model": self.name,
            "messages": messages,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if let Some(body) = body.as_object_mut() {
            if !self.tools.is_empty() {
                body.insert("tools".to_owned(), self.tools.clone().into());
            }
            if let Some(effort) = &self.effort {
                body.insert("reasoning_effort".to_owned(), effort.as_str().into());
            }
        }
        Request { url: self.url.clone(), key: self.key.clone(), body: body.to_string() }
    }
}

/// The beginning of a text file; empty if there is none.
fn file(path: &Path) -> String {
    let mut text = Vec::new();
    // Instructions are optional.
    drop(File::open(path).and_then(|file| file.take(INSTRUCTIONS_BYTES).read_to_end(&mut text)));
    String::from_utf8_lossy(&text).into_owned()
}

/// Hearth's tools in the form of the API.
fn tools(blocked: &[String]) -> Vec<Value> {
    let listed = Server::listed();
    let named = |tool: &&Value| {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        !is_blocked(&format!("{OWN_PREFIX}{name}"), blocked)
    };
    let all = listed.get("tools").and_then(Value::as_array).into_iter().flatten().filter(named);
    let function = |tool: &Value| {
        let field = |name| tool.get(name).cloned().unwrap_or_default();
        let (name, about, schema) = (field("name"), field("description"), field("inputSchema"));
        json!({"type": "function", "function": {"name": name, "description": about, "parameters": schema}})
    };
    all.map(function).collect()
}

/// Why an answer did not come.
enum NoAnswer {
    /// The server's error.
    Api(ApiError),
    Turn(TurnError),
}

impl From<TurnError> for NoAnswer {
    fn from(error: TurnError) -> Self {
        Self::Turn(error)
    }
}

impl OpenAi {
    /// The conversation to go on with, or a new one.
    fn conversation(&self, report: &Report<'_>) -> Result<(String, History), TurnError> {
        if let Some(id) = report.continuation() {
            match History::load(&self.roots.home, &id) {
                Some(history) => return Ok((id, history)),
                None => log::note("the conversation to go on with does not exist any more; a new one begins"),
            }
        }
        let id = ids::random().map_err(|error| TurnError::Failed(format!("no id for a conversation: {error}")))?;
        Ok((id, History::default()))
    }

    /// Asks the model and waits for its whole answer.
    fn ask(&self, request: Request, report: &mut Report<'_>) -> Result<Answer, NoAnswer> {
        let answer = self.receive(request, report);
        report.writing(String::new())?;
        let answer = answer?;
        if answer.is_refused() {
            return Err(NoAnswer::Turn(TurnError::Failed("the model refused to answer this".to_owned())));
        }
        if answer.is_whole() { Ok(answer) } else { Err(NoAnswer::Api(ApiError::passing("the answer broke off"))) }
    }

    /// Receives the answer to a request, and shows its text as it comes.
    fn receive(&self, request: Request, report: &mut Report<'_>) -> Result<Answer, NoAnswer> {
        let from = http::send(&self.client, request);
        let mut answer = Answer::default();
        loop {
            report.check()?;
            match from.recv_timeout(SLICE) {
                Ok(Received::Line(line)) => {
                    answer.take(&line).map_err(NoAnswer::Api)?;
                    if report.shows_writing() {
                        let own = report.own_destinations();
                        report.writing(unfinished::shown(answer.text(), |name| own.contains(&name)))?;
                    }
                    report.progress()?;
                }
                Ok(Received::Failed(error)) => return Err(NoAnswer::Api(error)),
                Ok(Received::End) | Err(RecvTimeoutError::Disconnected) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks the model, with half of the history if the prompt is too long for it.
    fn ask_within(
        &self,
        model: &Model,
        history: &mut History,
        turn: &mut [Value],
        report: &mut Report<'_>,
    ) -> Result<Answer, TurnError> {
        if history.is_over(model.context_tokens) && history.halve() {
            tell_of_compaction(turn, report)?;
        }
        let mut answer = self.ask(model.request(history.messages(), turn), report);
        if matches!(&answer, Err(NoAnswer::Api(error)) if error.is_too_long()) && history.halve() {
            log::note("the conversation is too long for the model; its older half goes");
            tell_of_compaction(turn, report)?;
            answer = self.ask(model.request(history.messages(), turn), report);
        }
        let answer = answer.map_err(|error| match error {
            NoAnswer::Api(error) => error.failure().into(),
            NoAnswer::Turn(error) => error,
        })?;
        history.measured(answer.prompt_tokens());
        report.used(answer.usage(&model.name).into_iter().collect());
        Ok(answer)
    }
}

impl Provider for OpenAi {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let model = Model::of(&turn.context, &self.roots).map_err(TurnError::Failed)?;
        let (id, mut history) = self.conversation(report)?;
        let mut said = vec![json!({"role": "user", "content": turn.prompt})];
        let mut server = Server::new();
        for _ in 0..MOST_CALLS {
            let answer = self.ask_within(&model, &mut history, &mut said, report)?;
            said.push(answer.message());
            if answer.calls().is_empty() {
                history.add(said);
                let written = history.save(&self.roots.home, &id);
                written.map_err(|error| Failure::passing(format!("cannot write the conversation: {error}")))?;
                report.remember(Some(&id))?;
                return say(&answer, report);
            }
            said.extend(call(answer.calls(), &mut server, report)?);
            report.tools_ended()?;
        }
        Err(TurnError::Failed(format!("the model called tools {MOST_CALLS} times in one turn without an answer")))
    }
}

/// Tells the agent and the people it talks to that the older half of the conversation is gone.
fn tell_of_compaction(turn: &mut [Value], report: &mut Report<'_>) -> Result<(), TurnError> {
    if let Some(Value::String(prompt)) = turn.first_mut().and_then(|prompt| prompt.get_mut("content")) {
        *prompt = format!("{COMPACTED}\n\n{prompt}");
    }
    report.say(Utterance::reply(
        "Context compacted: the older half of this conversation did not fit the model.".to_owned(),
    ))
}

fn say(answer: &Answer, report: &mut Report<'_>) -> Result<(), TurnError> {
    let note = if answer.is_cut_off() { "\n\n[The answer is cut off: it reached the limit of the model.]" } else { "" };
    dispatch::addressed(&format!("{}{note}", answer.text())).into_iter().try_for_each(|said| report.answer(said))
}

/// Calls tools together, and returns their results as messages in the order of the calls.
fn call(calls: &[ToolCall], server: &mut Server, report: &mut Report<'_>) -> Result<Vec<Value>, TurnError> {
    let mut results: Vec<Option<Value>> = vec![None; calls.len()];
    let mut asked = Vec::new();
    for (call, result) in calls.iter().zip(&mut results) {
        let Some(arguments) = call.arguments().map(Value::Object) else {
            *result = Some("Error: the arguments are not a JSON object".into());
            continue;
        };
        let name = format!("{OWN_PREFIX}{}", call.name);
        match report.judge(&CalledTool { id: &call.id, name: &name, kind: "", input: &arguments })? {
            ToolAnswer::Allowed => *result = begin(call, arguments, server, report)?,
            ToolAnswer::Denied(reason) => *result = Some(format!("Error: {reason}").into()),
            ToolAnswer::Asked(request) => asked.push((call, arguments, request)),
        }
    }
    while results.iter().any(Option::is_none) {
        report.check()?;
        for (call, arguments, request) in std::mem::take(&mut asked) {
            let answer = match report.decision(&call.id, &request)? {
                None | Some(ToolAnswer::Asked(_)) => {
                    asked.push((call, arguments, request));
                    continue;
                }
                Some(ToolAnswer::Allowed) => begin(call, arguments, server, report)?,
                Some(ToolAnswer::Denied(reason)) => Some(format!("Error: {reason}").into()),
            };
            set(calls, &mut results, &call.id, answer);
        }
        for (id, answer) in server.settle(report)? {
            if let Some(id) = id.as_str() {
                report.call_ended(id, end_of(&answer));
                set(calls, &mut results, id, Some(text_of(&answer)));
            }
        }
        std::thread::sleep(TOOL_SLICE);
    }
    let message = |(call, result): (&ToolCall, Option<Value>)| json!({"role": "tool", "tool_call_id": call.id, "content": result});
    Ok(calls.iter().zip(results).map(message).collect())
}

/// Starts a tool. Its result may come later.
fn begin(
    call: &ToolCall,
    arguments: Value,
    server: &mut Server,
    report: &mut Report<'_>,
) -> Result<Option<Value>, TurnError> {
    let params = json!({"name": call.name, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params});
    let answer = server.take(message, report)?;
    if let Some(answer) = &answer {
        report.call_ended(&call.id, end_of(answer));
    }
    Ok(answer.map(|answer| text_of(&answer)))
}

fn set(calls: &[ToolCall], results: &mut [Option<Value>], id: &str, answer: Option<Value>) {
    let place = calls.iter().zip(results).find(|(call, result)| call.id == id && result.is_none());
    if let Some((_, result)) = place {
        *result = answer;
    }
}

fn end_of(answer: &Value) -> CallEnd {
    let failed = answer.get("error").is_some() || answer.pointer("/result/isError") == Some(&Value::Bool(true));
    if failed { CallEnd::Failed } else { CallEnd::Ran }
}

/// The text of a tool's answer.
fn text_of(answer: &Value) -> Value {
    let content = answer.pointer("/result/content").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = content.filter_map(|part| part.get("text")?.as_str()).collect();
    let error = answer.pointer("/error/message").and_then(Value::as_str);
    error.map_or_else(|| texts.join("\n").into(), |error| format!("Error: {error}").into())
}
