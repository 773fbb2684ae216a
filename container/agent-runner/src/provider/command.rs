//! `command`: any program that speaks JSON lines. The protocol is in `COMMAND.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_wire::{Address, OutId, OutKind, Retry};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Provider, environment};
use crate::addendum::instructions;
use crate::child::{Heard, Launch, LineProcess};
use crate::desk::Failure;
use crate::log;
use crate::outgoing::{Attachment, Content, Source, Target, Utterance};
use crate::report::{Report, Turn, TurnError};
use crate::roots::Roots;
use crate::tools::Server;

const SLICE: Duration = Duration::from_millis(200);
/// The same while an answer of the host is waited for.
const ASKED_SLICE: Duration = Duration::from_millis(20);

/// The program, once it runs.
#[derive(Debug)]
pub(crate) struct Program {
    roots: Roots,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    launch: Launch,
    process: LineProcess,
    turns: u64,
    /// Requests to the host without an answer, and what the program calls them.
    asked: BTreeMap<OutId, String>,
    tools: Tools,
}

/// The server of tools, for a program that speaks MCP, and what it has answered and the program does not know yet.
#[derive(Debug)]
struct Tools {
    server: Server,
    answers: Vec<Value>,
}

/// A line of the program.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
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
    /// The program wants to hear how it went.
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

/// Why something that was to be said was not.
const SILENT: &str = "there is nothing in it but internal words, which are for nobody";

/// Why something that was asked for was not.
const NO_OBJECT: &str = "the agent's program asked for something that is not an object";

/// One that is not started yet.
pub(super) fn open(roots: &Roots) -> Box<dyn Provider> {
    Box::new(Program { roots: roots.clone(), running: None })
}

impl Program {
    /// The program, started if it does not run or runs as something else.
    fn running(&mut self, launch: Launch) -> Result<Running, String> {
        if let Some(mut running) = self.running.take().filter(|running| running.launch == launch)
            && running.process.is_alive()
        {
            return Ok(running);
        }
        let process = LineProcess::start(&launch, &self.roots.group)?;
        let tools = Tools { server: Server::new(), answers: Vec::new() };
        Ok(Running { launch, process, turns: 0, asked: BTreeMap::new(), tools })
    }
}

/// How an attempt at a turn ended.
enum Attempt {
    /// As the program says.
    Ended(Result<(), Failure>),
    /// The process of earlier turns was gone before it said anything in this one.
    Stale,
}

impl Program {
    fn attempt(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        let provider = &turn.context.provider;
        let env = environment(&turn.context, &self.roots);
        let launch = Launch { argv: provider.command.clone(), env, without: Vec::new() };
        let mut running = self.running(launch).map_err(TurnError::Failed)?;
        running.turns += 1;
        while let Heard::Line(line) = running.process.hear(Duration::ZERO) {
            between_turns(&line, report, &self.roots.group)?;
        }
        // What the host said between turns comes before the next one.
        running.pass_replies(report)?;
        running.process.tell(request(running.turns, turn, &self.roots, report.continuation()).to_string());
        let mut is_heard = running.turns == 1;
        loop {
            report.check()?;
            running.pass_replies(report)?;
            let waits = !running.asked.is_empty() || running.tools.server.is_waiting();
            let slice = if waits { ASKED_SLICE } else { SLICE };
            match running.process.hear(slice) {
                Heard::Nothing => {}
                Heard::Gone(how) => {
                    // Whoever ended both wants no turn to fail.
                    report.check()?;
                    if !is_heard {
                        log::note(format_args!("between turns the agent's program {how}; it is started again"));
                        report.tools_ended()?;
                        return Ok(Attempt::Stale);
                    }
                    return Err(TurnError::Failed(format!("the agent's program {how}")));
                }
                Heard::Line(line) => {
                    is_heard = true;
                    if let Some(outcome) =
                        take(&line, report, &self.roots.group, (&mut running.asked, &mut running.tools))?
                    {
                        self.running = Some(running);
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
            // Only a process of earlier turns can be stale, and it is kept no longer.
            if let Attempt::Ended(outcome) = self.attempt(turn, report)? {
                return outcome.map_err(TurnError::from);
            }
        }
    }
}

impl Running {
    /// Tells the program what the host and its tools have answered.
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
    });
    if let (Some(fields), Some(value)) = (request.as_object_mut(), continuation) {
        fields.insert("continuation".to_owned(), value.into());
    }
    request
}

/// Does what a line says; how the turn ended, if that is what it says. With an error the program is in the middle of a
/// turn that is given up, and cannot be used for the next one.
fn take(
    line: &str,
    report: &mut Report<'_>,
    dir: &Path,
    (asked, tools): (&mut BTreeMap<OutId, String>, &mut Tools),
) -> Result<Option<Result<(), Failure>>, TurnError> {
    report.progress()?;
    let Some(line) = parse(line) else { return Ok(None) };
    match line {
        Line::Say(say) if !say.is_final && say.id.is_some() => {
            let id = say.id.clone().unwrap_or_default();
            let requests = report.say_and_ask(utterance(say, dir).map_err(TurnError::Failed)?)?;
            // Of a text in several parts the last one tells.
            match requests.into_iter().last() {
                Some(request) => drop(asked.insert(request, id)),
                None => tools.answers.push(json!({"type": "reply", "id": id, "ok": false, "error": SILENT})),
            }
        }
        Line::Say(say) => speak(say, report, dir)?,
        Line::Request(Ask { id, content, to, address }) if content.is_object() => {
            drop(asked.insert(report.ask(content, &target(to, address))?, id));
        }
        Line::Request(_) => {
            return Ok(Some(Err(Failure::lasting(NO_OBJECT))));
        }
        Line::Mcp { message } => tools.answers.extend(tools.server.take(message, report)?.map(from_tools)),
        Line::Progress => {}
        Line::Tool { name, timeout_ms, id } => {
            report.tool_started(id.as_deref().unwrap_or(&name), &name, timeout_ms)?
        }
        Line::ToolDone { id: Some(id) } => report.tool_ended(&id)?,
        Line::ToolDone { id: None } => report.tools_ended()?,
        Line::Continuation { value } => report.remember(value.as_deref())?,
        Line::Done => return Ok(Some(Ok(()))),
        Line::Error { message, retry } => return Ok(Some(Err(Failure { error: message, retry }))),
    }
    Ok(None)
}

fn from_tools(message: Value) -> Value {
    json!({"type": "mcp", "message": message})
}

/// Only what stands by itself counts outside a turn; the rest belonged to a turn that is over.
fn between_turns(line: &str, report: &mut Report<'_>, dir: &Path) -> Result<(), TurnError> {
    match parse(line) {
        Some(Line::Say(say)) if !say.is_final => speak(say, report, dir),
        Some(Line::Continuation { value }) => report.remember(value.as_deref()),
        Some(_) => {
            log::note("the agent's program wrote a line between turns; ignored");
            Ok(())
        }
        None => Ok(()),
    }
}

fn parse(line: &str) -> Option<Line> {
    match read(line)? {
        Ok(line) => Some(line),
        Err(error) => {
            // The text may be anything, also something private, and the error may repeat it: only sizes are noted.
            let (bytes, column) = (line.len(), error.column());
            let what = if error.is_data() { "it says nothing known" } else { "it is not JSON" };
            log::note(format_args!(
                "the agent's program wrote a line of {bytes} bytes that is not understood: {what}, as of its byte {column}"
            ));
            None
        }
    }
}

fn read(line: &str) -> Option<serde_json::Result<Line>> {
    (!line.trim().is_empty()).then(|| serde_json::from_str(line))
}

/// What a line is, as far as it alone can tell: nothing if it is passed over, else the names of the files that are to be
/// said with it.
///
/// # Errors
/// Why the turn fails with it, in words for people.
pub fn understood(line: &str) -> Option<Result<Vec<String>, String>> {
    match read(line)?.ok()? {
        Line::Say(say) => {
            let said = utterance(say, Path::new("/"));
            Some(said.map(|said| said.files.into_iter().map(|file| file.name).collect()))
        }
        Line::Request(Ask { content, .. }) if !content.is_object() => Some(Err(NO_OBJECT.to_owned())),
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

fn target(to: Option<String>, address: Option<Address>) -> Target {
    match (to, address) {
        (Some(name), _) => Target::Destination(name),
        (None, Some(address)) => Target::Address(address),
        (None, None) => Target::Reply,
    }
}
