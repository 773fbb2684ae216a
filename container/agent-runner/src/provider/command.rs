//! The provider `command`: any program that speaks JSON lines. `COMMAND.md` describes the protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_wire::{Address, OutId, OutKind, Retry, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Provider, during};
use crate::addendum::instructions;
use crate::child::{Launch, LineProcess, ProcessOutput, environment};
use crate::failure::Failure;
use crate::log;
use crate::outgoing::{Attachment, Content, OutgoingRecipient, Source, Utterance};
use crate::report::Report;
use crate::roots::Roots;
use crate::tools::Server;
use crate::turn::{Turn, TurnError};

const SLICE: Duration = Duration::from_millis(200);
/// Polling interval while an answer of the host is pending.
const ASKED_SLICE: Duration = Duration::from_millis(20);

/// The provider and its running program.
#[derive(Debug)]
pub(crate) struct Program {
    roots: Roots,
    running: Option<Running>,
    /// A process in the middle of a failed turn. It cannot be used for another turn.
    given_up: Option<LineProcess>,
}

#[derive(Debug)]
struct Running {
    launch: Launch,
    process: LineProcess,
    turns: u64,
    /// Pending requests to the host, and the program's ids for them.
    asked: BTreeMap<OutId, String>,
    tools: Tools,
}

/// The MCP server for a program that speaks MCP, and answers that the program has not received yet.
#[derive(Debug)]
struct Tools {
    server: Server,
    answers: Vec<Value>,
}

/// A line of the program.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CommandLine {
    Say(Say),
    Progress,
    Tool {
        name: String,
        #[serde(default)]
        timeout_ms: Option<u64>,
        #[serde(default)]
        id: Option<String>,
    },
    ToolDone {
        #[serde(default)]
        id: Option<String>,
    },
    Continuation {
        value: Option<String>,
    },
    Request(Ask),
    Mcp {
        message: Value,
    },
    Usage(Usage),
    Done,
    Error {
        message: String,
        #[serde(default)]
        retry: Option<Retry>,
    },
}

#[derive(Debug, Deserialize)]
struct Say {
    #[serde(default)]
    text: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default = "yes", rename = "final")]
    is_final: bool,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    address: Option<Address>,
    #[serde(default)]
    files: Vec<PathBuf>,
    /// Id under which the program wants to learn the result.
    #[serde(default)]
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Ask {
    id: String,
    content: Value,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    address: Option<Address>,
}

fn yes() -> bool {
    true
}

/// Why a message was not sent.
const SILENT: &str = "it has only internal text, which is not delivered";

/// Why a request was not made.
const NO_OBJECT: &str = "the agent's program asked for something that is not an object";

/// Creates the provider without starting a process.
pub(super) fn open(roots: &Roots) -> Box<dyn Provider> {
    Box::new(Program { roots: roots.clone(), running: None, given_up: None })
}

impl Program {
    /// The running program. It is started if it does not run or runs with other parameters.
    fn running(&mut self, launch: Launch) -> Result<Running, Failure> {
        if let Some(mut running) = self.running.take() {
            if running.launch == launch && running.process.is_alive() {
                return Ok(running);
            }
            running.process.close();
        }
        let process = LineProcess::start(&launch, &self.roots.group)?;
        let tools = Tools { server: Server::new(), answers: Vec::new() };
        Ok(Running { launch, process, turns: 0, asked: BTreeMap::new(), tools })
    }
}

/// Result of an attempt at a turn.
enum Attempt {
    /// Reported by the program.
    Ended(Result<(), Failure>),
    /// The process of earlier turns ended before it wrote anything in this one.
    Stale,
}

impl Program {
    fn attempt(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        let provider = &turn.context.provider;
        let env = environment(&turn.context, &self.roots);
        let launch = Launch { argv: provider.command.clone(), env, without: Vec::new() };
        let mut running = self.running(launch)?;
        let attempt = running.attempt(turn, report, &self.roots);
        match &attempt {
            Ok(Attempt::Ended(_)) => self.running = Some(running),
            Ok(Attempt::Stale) => {}
            Err(_) => self.given_up = Some(running.process),
        }
        attempt
    }
}

impl Running {
    fn attempt(&mut self, turn: &Turn, report: &mut Report<'_>, roots: &Roots) -> Result<Attempt, TurnError> {
        self.turns += 1;
        while let ProcessOutput::Line(line) = self.process.hear(Duration::ZERO) {
            between_turns(&line, report, &roots.group)?;
        }
        // Answers that came between turns are passed on before the next one.
        self.pass_replies(report)?;
        self.process.tell(request(self.turns, turn, roots, report.continuation()).to_string());
        let mut is_heard = self.turns == 1;
        loop {
            report.check()?;
            self.pass_replies(report)?;
            let waits = !self.asked.is_empty() || self.tools.server.is_waiting();
            let slice = if waits { ASKED_SLICE } else { SLICE };
            match self.process.hear(slice) {
                ProcessOutput::Nothing => {}
                ProcessOutput::Gone(how) => {
                    // If the whole group was ended, this is no failure of the turn.
                    report.check()?;
                    if !is_heard {
                        log::note(format_args!("between turns the agent's program {how}; it is started again"));
                        report.tools_ended()?;
                        return Ok(Attempt::Stale);
                    }
                    // It reported no result, so this is a crash, however it ended.
                    let during = during(report.tool());
                    return Err(Failure::passing(format!("the agent's program {how}{during}")).into());
                }
                ProcessOutput::Unreadable(why) => return Err(TurnError::Failed(format!("the agent's program {why}"))),
                ProcessOutput::Line(line) => {
                    is_heard = true;
                    if let Some(outcome) = take(&line, report, &roots.group, &mut self.asked, &mut self.tools)? {
                        return Ok(Attempt::Ended(outcome));
                    }
                }
            }
        }
    }
}

impl Provider for Program {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        loop {
            // Only a process of earlier turns can be stale, and it is not kept.
            if let Attempt::Ended(outcome) = self.attempt(turn, report)? {
                return outcome.map_err(TurnError::from);
            }
        }
    }

    fn clean_up(&mut self) {
        if let Some(process) = self.given_up.take() {
            process.close();
        }
    }

    fn close(mut self: Box<Self>) {
        self.clean_up();
        if let Some(running) = self.running.take() {
            running.process.close();
        }
    }
}

impl Running {
    /// Sends the program the pending answers of the host and of tools.
    fn pass_replies(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        let settled = self.tools.server.settle(report)?;
        let settled = settled.into_iter().map(|(_, answer)| from_tools(answer));
        for line in self.tools.answers.drain(..).chain(settled) {
            self.process.tell(line.to_string());
        }
        let mut answered = Vec::new();
        for (request, id) in &self.asked {
            let Some(reply) = report.reply(request)? else { continue };
            let mut line = json!({"type": "reply", "id": id, "ok": reply.ok});
            if let Some(fields) = line.as_object_mut() {
                match reply.error {
                    Some(error) => fields.insert("error".to_owned(), error.into()),
                    None => fields.insert("result".to_owned(), reply.result),
                };
            }
            self.process.tell(line.to_string());
            answered.push(request.clone());
        }
        self.asked.retain(|request, _| !answered.contains(request));
        Ok(())
    }
}

fn request(number: u64, turn: &Turn, roots: &Roots, continuation: Option<String>) -> Value {
    let context = &turn.context;
    let mut request = json!({
        "type": "turn",
        "turn": number,
        "session": context.session,
        "session_dir": roots.session,
        "agent": context.agent,
        "prompt": turn.prompt,
        "system": instructions(context),
        "messages": turn.asked,
        "context": turn.background,
        "destinations": context.destinations,
        "reply": context.reply,
        "already_sent": context.already_sent,
        "recap": context.recap,
    });
    if let (Some(fields), Some(value)) = (request.as_object_mut(), continuation) {
        fields.insert("continuation".to_owned(), value.into());
    }
    request
}

/// Handles a line. Returns the result if the line ends the turn. After an error the program is in the middle of a
/// failed turn, and cannot be used for the next one.
fn take(
    line: &str,
    report: &mut Report<'_>,
    dir: &Path,
    asked: &mut BTreeMap<OutId, String>,
    tools: &mut Tools,
) -> Result<Option<Result<(), Failure>>, TurnError> {
    report.progress()?;
    let Some(line) = parse(line) else { return Ok(None) };
    match line {
        CommandLine::Say(say) if !say.is_final && say.id.is_some() => {
            let id = say.id.clone().unwrap_or_default();
            let requests = report.say_and_ask(utterance(say, dir).map_err(TurnError::Failed)?)?;
            // Of a text in several parts the last one counts.
            match requests.into_iter().last() {
                Some(request) => drop(asked.insert(request, id)),
                None => tools.answers.push(json!({"type": "reply", "id": id, "ok": false, "error": SILENT})),
            }
        }
        CommandLine::Say(say) => speak(say, report, dir)?,
        CommandLine::Request(Ask { id, content, to, address }) if content.is_object() => {
            drop(asked.insert(report.ask(content, &target(to, address))?, id));
        }
        CommandLine::Request(_) => {
            return Ok(Some(Err(Failure::lasting(NO_OBJECT))));
        }
        CommandLine::Mcp { message } => tools.answers.extend(tools.server.take(message, report)?.map(from_tools)),
        CommandLine::Progress => {}
        CommandLine::Tool { name, timeout_ms, id } => {
            report.tool_started(id.as_deref().unwrap_or(&name), &name, timeout_ms)?
        }
        CommandLine::ToolDone { id: Some(id) } => report.tool_ended(&id)?,
        CommandLine::ToolDone { id: None } => report.tools_ended()?,
        CommandLine::Continuation { value } => report.remember(value.as_deref())?,
        CommandLine::Usage(usage) => report.used(vec![usage]),
        CommandLine::Done => return Ok(Some(Ok(()))),
        CommandLine::Error { message, retry } => return Ok(Some(Err(Failure { error: message, retry }))),
    }
    Ok(None)
}

fn from_tools(message: Value) -> Value {
    json!({"type": "mcp", "message": message})
}

/// Handles a line between turns. Only self-contained lines count; the others belong to a turn that is over.
fn between_turns(line: &str, report: &mut Report<'_>, dir: &Path) -> Result<(), TurnError> {
    match parse(line) {
        Some(CommandLine::Say(say)) if !say.is_final => speak(say, report, dir),
        Some(CommandLine::Continuation { value }) => report.remember(value.as_deref()),
        Some(_) => {
            log::note("the agent's program wrote a line between turns; ignored");
            Ok(())
        }
        None => Ok(()),
    }
}

fn parse(line: &str) -> Option<CommandLine> {
    match read(line)? {
        Ok(line) => Some(line),
        Err(error) => {
            // The line may contain private text, and the error may repeat it, so only sizes are logged.
            let (bytes, column) = (line.len(), error.column());
            let what = if error.is_data() { "it says nothing known" } else { "it is not JSON" };
            log::note(format_args!(
                "the agent's program wrote a line of {bytes} bytes that is not understood: {what}, as of its byte {column}"
            ));
            None
        }
    }
}

fn read(line: &str) -> Option<serde_json::Result<CommandLine>> {
    (!line.trim().is_empty()).then(|| serde_json::from_str(line))
}

/// Parses a line by itself. `None` if the line is ignored, else the names of the files to be sent with it.
///
/// # Errors
/// Why the turn fails, worded for people.
pub fn understood(line: &str) -> Option<Result<Vec<String>, String>> {
    match read(line)?.ok()? {
        CommandLine::Say(say) => {
            let said = utterance(say, Path::new("/"));
            Some(said.map(|said| said.files.into_iter().map(|file| file.name).collect()))
        }
        CommandLine::Request(Ask { content, .. }) if !content.is_object() => Some(Err(NO_OBJECT.to_owned())),
        _ => Some(Ok(Vec::new())),
    }
}

fn speak(say: Say, report: &mut Report<'_>, dir: &Path) -> Result<(), TurnError> {
    let is_final = say.is_final;
    let utterance = utterance(say, dir).map_err(TurnError::Failed)?;
    if is_final { report.answer(utterance) } else { report.say(utterance) }
}

fn utterance(say: Say, dir: &Path) -> Result<Utterance, String> {
    let content = match say.content {
        Some(content) if content.is_object() => Content::Payload { kind: OutKind::ChatSdk, content },
        Some(_) => return Err("the agent's program said a content that is not an object".to_owned()),
        None => Content::Text(say.text),
    };
    let target = target(say.to, say.address);
    let attachment = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Attachment { name, source: Source::Path(dir.join(path)) }
    };
    Ok(Utterance { content, target, files: say.files.into_iter().map(attachment).collect() })
}

fn target(to: Option<String>, address: Option<Address>) -> OutgoingRecipient {
    match (to, address) {
        (Some(name), _) => OutgoingRecipient::Destination(name),
        (None, Some(address)) => OutgoingRecipient::Address(address),
        (None, None) => OutgoingRecipient::Reply,
    }
}
