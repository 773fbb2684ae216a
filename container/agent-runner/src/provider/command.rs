//! `command`: any program that speaks JSON lines. The protocol is in `COMMAND.md`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_wire::{Address, OutKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Provider, environment};
use crate::child::{Heard, Launch, LineProcess};
use crate::log;
use crate::outgoing::{Attachment, Content, Source, Target, Utterance};
use crate::prompt::instructions;
use crate::report::{Report, Turn, TurnError};
use crate::roots::Roots;

const SLICE: Duration = Duration::from_millis(200);

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
    Done,
    Error {
        message: String,
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
}

fn yes() -> bool {
    true
}

impl Program {
    pub(crate) fn new(roots: Roots) -> Self {
        Self { roots, running: None }
    }

    /// The program, started if it does not run or runs as something else.
    fn running(&mut self, launch: Launch) -> Result<Running, String> {
        if let Some(mut running) = self.running.take().filter(|running| running.launch == launch)
            && running.process.is_alive()
        {
            return Ok(running);
        }
        let process = LineProcess::start(&launch, &self.roots.group)?;
        Ok(Running { launch, process, turns: 0 })
    }
}

impl Provider for Program {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let provider = &turn.context.provider;
        let env = environment(&turn.context, &self.roots);
        let launch = Launch { argv: provider.command.clone(), env, without: Vec::new() };
        let mut running = self.running(launch).map_err(TurnError::Failed)?;
        running.turns += 1;
        while let Heard::Line(line) = running.process.hear(Duration::ZERO) {
            between_turns(&line, report, &self.roots.group)?;
        }
        running.process.tell(request(running.turns, turn, &self.roots, report.continuation()).to_string());
        loop {
            report.check()?;
            match running.process.hear(SLICE) {
                Heard::Nothing => {}
                Heard::Gone(how) => return Err(TurnError::Failed(format!("the agent's program {how}"))),
                Heard::Line(line) => {
                    if let Some(outcome) = take(&line, report, &self.roots.group)? {
                        self.running = Some(running);
                        return outcome.map_err(TurnError::Failed);
                    }
                }
            }
        }
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
fn take(line: &str, report: &mut Report<'_>, dir: &Path) -> Result<Option<Result<(), String>>, TurnError> {
    report.progress()?;
    let Some(line) = parse(line) else { return Ok(None) };
    match line {
        Line::Say(say) => speak(say, report, dir)?,
        Line::Progress => {}
        Line::Tool { name, timeout_ms, id } => {
            report.tool_started(id.as_deref().unwrap_or(&name), &name, timeout_ms)?
        }
        Line::ToolDone { id: Some(id) } => report.tool_ended(&id)?,
        Line::ToolDone { id: None } => report.tools_ended()?,
        Line::Continuation { value } => report.remember(value.as_deref())?,
        Line::Done => return Ok(Some(Ok(()))),
        Line::Error { message } => return Ok(Some(Err(message))),
    }
    Ok(None)
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
    if line.trim().is_empty() {
        return None;
    }
    match serde_json::from_str(line) {
        Ok(line) => Some(line),
        Err(error) => {
            // The text may be anything, also something private: only its size is noted.
            let bytes = line.len();
            log::note(format_args!(
                "the agent's program wrote a line of {bytes} bytes that is not understood: {error}"
            ));
            None
        }
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
    let target = match (say.to, say.address) {
        (Some(name), _) => Target::Destination(name),
        (None, Some(address)) => Target::Address(address),
        (None, None) => Target::Reply,
    };
    let attachment = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Attachment { name, source: Source::Path(dir.join(path)) }
    };
    Ok(Utterance { content, target, files: say.files.into_iter().map(attachment).collect() })
}
