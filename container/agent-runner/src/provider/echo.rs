//! The provider `echo`: repeats its input, without a child process. Directives in messages let tests drive every path
//! of the runner and of the host.
//!
//! A directive is a line that begins with `!`. The lines of all triggering messages are processed in order; lines that
//! are not directives are the *rest*. Durations are `250ms`, `2s` or `1m`.
//!
//! | line | effect |
//! |---|---|
//! | `!sleep DURATION` | waits without progress |
//! | `!until NAME` | the same, until the agent's directory has a file of this name |
//! | `!progress COUNT DURATION` | so many events, waiting before each |
//! | `!tool NAME TIMEOUT DURATION` | a tool that declares TIMEOUT (`-`: none) and runs so long, without progress |
//! | `!write DURATION TEXT` | shows the text so long as one that is not complete, without progress |
//! | `!say TEXT` | said at once (`final: false`), unless an earlier incarnation already did in this turn |
//! | `!answer TEXT` | one more answer |
//! | `!to NAME TEXT` | an answer to a destination |
//! | `!address JSON` | an answer to `{"channel":…,"platform_id":…,"thread_id":…,"text":…}` |
//! | `!file NAME TEXT` | an answer that carries a file with this content |
//! | `!large BYTES` | an answer of so many bytes |
//! | `!payload JSON` | an answer of kind `chat-sdk` |
//! | `!ask JSON` | asks the host, waits, and answers with what it says |
//! | `!remember TEXT` | sets the continuation |
//! | `!recall` | answers the continuation |
//! | `!prompt` | answers the prompt |
//! | `!silence` | no answer for the rest |
//! | `!fail TEXT` | the turn fails with this error |
//! | `!retry JSON TEXT` | the same, and may be tried again as `{"rate_limited":…,"after_ms":…}` says |
//! | `!exit CODE` | the process ends with this code |
//! | `!abort` | the process dies as if killed |
//! | `!hang` | never ends, without progress |
//!
//! Finally the rest is answered as `echo: <rest>`, followed by ` (context: <text>; <text>)` if there was context. If
//! the rest is empty and there was a directive, this answer is omitted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_wire::{Address, OutKind};
use serde_json::Value;

use super::Provider;
use crate::clock::Stopwatch;
use crate::outgoing::{Attachment, Content, OutgoingRecipient, Source, Utterance};
use crate::prompt::text_of;
use crate::report::Report;
use crate::roots::Roots;
use crate::turn::{Turn, TurnError};

const SLICE: Duration = Duration::from_millis(50);

/// The provider, which is stateless.
#[derive(Debug)]
pub(crate) struct Echo {
    /// The agent's directory.
    group: PathBuf,
}

/// Creates the provider.
pub(super) fn open(roots: &Roots) -> Box<dyn Provider> {
    Box::new(Echo { group: roots.group.clone() })
}

impl Provider for Echo {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        report.progress()?;
        let mut rest = Vec::new();
        let mut directed = false;
        let mut silent = false;
        for line in turn.asked.iter().flat_map(|message| text_of(message).lines()) {
            match line.strip_prefix('!') {
                Some("silence") => silent = true,
                Some(directive) => {
                    directed = true;
                    match directive.strip_prefix("until ") {
                        Some(name) => until(&self.group, name, report)?,
                        None => obey(directive, turn, report)?,
                    }
                }
                None => rest.push(line),
            }
        }
        let rest = rest.join("\n");
        if silent || (rest.trim().is_empty() && directed) {
            return Ok(());
        }
        let told: Vec<&str> = turn.background.iter().map(text_of).collect();
        let told = if told.is_empty() { String::new() } else { format!(" (context: {})", told.join("; ")) };
        report.answer(Utterance::reply(format!("echo: {rest}{told}")))
    }
}

fn obey(directive: &str, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
    let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    match word {
        "sleep" => pause(report, Some(duration(rest)?)),
        "hang" => pause(report, None),
        "progress" => {
            let (count, gap) = two(rest)?;
            for _ in 0..number(count)? {
                pause(report, Some(duration(gap)?))?;
                report.progress()?;
            }
            Ok(())
        }
        "tool" => tool(rest, report),
        "write" => {
            let (time, text) = two(rest)?;
            report.writing(text.to_owned())?;
            pause(report, Some(duration(time)?))?;
            report.writing(String::new())
        }
        "fail" => Err(TurnError::Failed(rest.to_owned())),
        "retry" => {
            let (retry, error) = two(rest)?;
            let retry = serde_json::from_str(retry).map_err(|error| misread(retry, &error))?;
            Err(TurnError::Passing(error.to_owned(), retry))
        }
        "exit" => std::process::exit(i32::try_from(number(rest)?).unwrap_or(1)),
        "abort" => {
            crate::life::die();
            Ok(())
        }
        "say" if turn.context.already_sent.iter().any(|sent| sent.text == rest) => Ok(()),
        "say" => report.say(Utterance::reply(rest)),
        "ask" => ask(rest, report),
        "remember" => report.remember(Some(rest)),
        _ => report.answer(spoken(word, rest, turn, report)?),
    }
}

/// The directives that produce an answer.
fn spoken(word: &str, rest: &str, turn: &Turn, report: &Report<'_>) -> Result<Utterance, TurnError> {
    Ok(match word {
        "answer" => Utterance::reply(rest),
        "recall" => Utterance::reply(report.continuation().unwrap_or_else(|| "nothing".to_owned())),
        "prompt" => Utterance::reply(turn.prompt.clone()),
        "large" => Utterance::reply("large ".repeat(usize::try_from(number(rest)?.div_ceil(6)).unwrap_or(0))),
        "to" => two(rest).map(|(name, text)| Utterance::to(name, text))?,
        "file" => {
            let (name, text) = two(rest)?;
            let source = Source::Bytes(text.as_bytes().to_vec());
            Utterance { files: vec![Attachment { name: name.to_owned(), source }], ..Utterance::reply(name) }
        }
        "payload" => {
            let content = Content::Payload { kind: OutKind::ChatSdk, content: json(rest)? };
            Utterance { content, ..Utterance::reply("") }
        }
        "address" => {
            let mut address = json(rest)?;
            let text = address.as_object_mut().and_then(|fields| fields.remove("text")).unwrap_or_default();
            let address: Address = serde_json::from_value(address).map_err(|error| misread(rest, &error))?;
            Utterance { target: OutgoingRecipient::Address(address), ..Utterance::reply(text.as_str().unwrap_or("")) }
        }
        _ => return Err(TurnError::Failed(format!("echo knows no directive !{word}"))),
    })
}

fn tool(rest: &str, report: &mut Report<'_>) -> Result<(), TurnError> {
    let (name, times) = two(rest)?;
    let (timeout, runs) = two(times)?;
    let timeout = if timeout == "-" { None } else { Some(duration(timeout)?) };
    let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    report.tool_started(name, name, timeout_ms)?;
    pause(report, Some(duration(runs)?))?;
    report.tool_ended(name)
}

/// Sends a request to the host and answers with the reply.
fn ask(rest: &str, report: &mut Report<'_>) -> Result<(), TurnError> {
    let request = report.ask(json(rest)?, &OutgoingRecipient::Reply)?;
    loop {
        if let Some(reply) = report.reply(&request)? {
            let text = if reply.ok { reply.result.to_string() } else { reply.error.unwrap_or_default() };
            return report.answer(Utterance::reply(text));
        }
        report.check()?;
        std::thread::sleep(SLICE);
    }
}

/// Waits for this time, or forever, in slices in which the runner can be stopped.
fn pause(report: &mut Report<'_>, long: Option<Duration>) -> Result<(), TurnError> {
    let watch = Stopwatch::start();
    loop {
        report.check()?;
        let left = long.map_or(SLICE, |long| watch.left_of(long));
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLICE));
    }
}

/// Waits until a directory contains a file of this name, in slices in which the runner can be stopped.
fn until(directory: &Path, name: &str, report: &mut Report<'_>) -> Result<(), TurnError> {
    if Path::new(name).file_name() != Some(name.as_ref()) {
        return Err(misread(name, &"a name of a file is needed"));
    }
    while !directory.join(name).exists() {
        report.check()?;
        std::thread::sleep(SLICE);
    }
    Ok(())
}

fn two(text: &str) -> Result<(&str, &str), TurnError> {
    text.split_once(' ').ok_or_else(|| misread(text, &"two words are needed"))
}

fn number(text: &str) -> Result<u64, TurnError> {
    text.trim().parse().map_err(|error| misread(text, &error))
}

fn json(text: &str) -> Result<Value, TurnError> {
    serde_json::from_str(text).map_err(|error| misread(text, &error))
}

fn duration(text: &str) -> Result<Duration, TurnError> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = number(text.strip_suffix(unit).unwrap_or(text))?;
    match unit {
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        "m" => Ok(Duration::from_secs(count.saturating_mul(60))),
        _ => Err(misread(text, &"a duration is like 250ms, 2s or 1m")),
    }
}

fn misread(text: &str, why: &dyn std::fmt::Display) -> TurnError {
    TurnError::Failed(format!("echo cannot read {text:?}: {why}"))
}
