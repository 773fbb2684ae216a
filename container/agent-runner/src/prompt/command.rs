//! `hearth-runner prompt`: prints the prompt for messages on standard input, for people and for tests of other
//! programs.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hearth_wire::{Address, Context, Limits, Provider, WIRE_VERSION, limits};
use hearth_zone::{BadZone, Zone};
use serde::Deserialize;
use serde_json::Value;

use super::{Prompt, PromptMessage};
use crate::host::read_json;
use crate::read_error::ReadError;
use crate::roots::Roots;
use crate::{env, log};

const USAGE: &str = "usage: hearth-runner prompt [--tz ZONE] [--context FILE] <messages.json\n\
    reads a JSON array of messages as they lie in host/in/, and prints the prompt that a provider would be given";

/// Size limit of the input in bytes: many messages of the maximum size.
const INPUT_BYTES: u64 = 64 * limits::JSON_BYTES;

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// Wrong arguments.
    #[error("{0}\n{USAGE}")]
    Usage(String),
    /// An invalid time zone.
    #[error("--tz: {0}")]
    Zone(#[from] BadZone),
    /// The context cannot be read.
    #[error("--context: {0}")]
    Context(#[from] ReadError),
    /// Standard input is too long.
    #[error("standard input has more than {INPUT_BYTES} bytes: give fewer messages at once")]
    TooLarge,
    /// Standard input cannot be read.
    #[error("standard input cannot be read: {0}")]
    Input(#[source] io::Error),
    /// Standard input does not follow the contract.
    #[error(
        "standard input must be a JSON array of messages like [{{\"kind\":\"chat\",\"seq\":2,\"timestamp\":\"2026-01-15T09:00:00Z\",\"content\":{{\"text\":\"hi\"}}}}]: {0}"
    )]
    Messages(#[source] serde_json::Error),
    /// A message of a newer contract version.
    #[error("message {number} is of contract version {found}, this program knows {WIRE_VERSION}: use a newer one")]
    TooNew {
        /// Its position in the array, from 1.
        number: usize,
        found: u32,
    },
    /// The prompt cannot be printed.
    #[error("standard output cannot be written: {0}")]
    Output(#[source] io::Error),
}

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct PromptArgs {
    zone: Option<String>,
    context: Option<PathBuf>,
    help: bool,
}

/// A message; fields that a prompt does not need may be missing.
#[derive(Debug, Deserialize)]
struct Entry {
    v: Option<u32>,
    seq: Option<u64>,
    kind: String,
    #[serde(default)]
    timestamp: String,
    #[serde(default)]
    unknown_sender: bool,
    reply: Option<Address>,
    content: Value,
}

/// Prints the prompt. Exit codes: 0 success, 1 read or write error, 2 invalid input.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::note(&error);
            let io = match &error {
                PromptError::Input(error) => error.kind() != io::ErrorKind::InvalidData,
                other => matches!(other, PromptError::Output(_)),
            };
            ExitCode::from(if io { 1 } else { 2 })
        }
    }
}

fn run(arguments: &[String]) -> Result<(), PromptError> {
    let asked = PromptArgs::read(arguments)?;
    if asked.help {
        return print(&format!("{USAGE}\n"));
    }
    let context = asked.context.as_deref().map(read_json::<Context>).transpose()?;
    let zone = asked.zone.as_deref().map(Zone::parse).transpose()?;
    let text = read(io::stdin().lock(), INPUT_BYTES)?;
    let root = Roots::from_env().map_err(|error| PromptError::Usage(error.to_string()))?.session;
    print(&of(&text, context.unwrap_or_else(nobody), zone, &root)?)
}

/// Reads the whole input. Too long an input is an error: truncated JSON would give a misleading one.
fn read(input: impl io::Read, most: u64) -> Result<String, PromptError> {
    let mut text = String::new();
    input.take(most + 1).read_to_string(&mut text).map_err(PromptError::Input)?;
    if text.len() as u64 > most { Err(PromptError::TooLarge) } else { Ok(text) }
}

/// The prompt that an agent would get for messages and a context. The messages are a JSON array of files in `host/in/`,
/// the context is the context file. `root` is the session's directory as the agent sees it.
///
/// # Errors
/// [`PromptError`] if one of them does not follow the contract.
pub fn prompt_of(messages: &str, context: &str, root: &Path) -> Result<String, PromptError> {
    of(messages, serde_json::from_str(context).map_err(PromptError::Messages)?, None, root)
}

fn of(messages: &str, context: Context, zone: Option<Zone>, root: &Path) -> Result<String, PromptError> {
    let entries: Vec<Entry> = serde_json::from_str(messages).map_err(PromptError::Messages)?;
    let newer = |entry: &Entry| entry.v.is_some_and(|version| version > WIRE_VERSION);
    if let Some((index, entry)) = entries.iter().enumerate().find(|(_, entry)| newer(entry)) {
        return Err(PromptError::TooNew { number: index + 1, found: entry.v.unwrap_or_default() });
    }
    let known = || Zone::parse(&context.timezone).ok();
    let zone = zone.or_else(known).or_else(env::zone).unwrap_or_else(Zone::utc);
    let told: Vec<PromptMessage<'_>> = entries.iter().map(Entry::told).collect();
    Ok(Prompt { root, context: &context, zone: &zone }.text(&told))
}

impl Entry {
    fn told(&self) -> PromptMessage<'_> {
        let Self { seq, kind, timestamp, unknown_sender, reply, content, .. } = self;
        PromptMessage { seq: *seq, kind, timestamp, unknown_sender: *unknown_sender, reply: reply.as_ref(), content }
    }
}

impl PromptArgs {
    fn read(arguments: &[String]) -> Result<Self, PromptError> {
        let mut asked = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let (flag, given) = word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
            let mut value = || {
                let value = given.map(str::to_owned).or_else(|| words.next().cloned());
                value.ok_or_else(|| PromptError::Usage(format!("{flag} needs a value")))
            };
            match flag {
                "--tz" => asked.zone = Some(value()?),
                "--context" => asked.context = Some(value()?.into()),
                "--help" | "-h" => asked.help = true,
                _ => return Err(PromptError::Usage(format!("unknown argument {word:?}"))),
            }
        }
        Ok(asked)
    }
}

/// The context of an agent without destinations.
fn nobody() -> Context {
    Context {
        v: WIRE_VERSION,
        version: 0,
        install: String::new(),
        session: String::new(),
        agent: String::new(),
        agent_name: String::new(),
        incarnation: 0,
        epoch: 0,
        session_name: String::new(),
        provider: Provider::default(),
        reply: None,
        destinations: Vec::new(),
        timezone: String::new(),
        limits: Limits { max_prompt_messages: 0, max_json_bytes: 0, max_file_bytes: 0 },
        mcp_servers: Vec::new(),
        blocked_tools: Vec::new(),
        tools: hearth_tool_rules::ToolPolicy::default(),
        next_number: 1,
        already_sent: Vec::new(),
        recap: Vec::new(),
        idle_beat_ms: None,
    }
}

/// Prints exactly the prompt, without an extra line end.
fn print(text: &str) -> Result<(), PromptError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(PromptError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_refused_and_not_cut_off() {
        assert_eq!(read(&b"[]  "[..], 4).unwrap(), "[]  ");
        assert!(matches!(read(&b"[]   "[..], 4), Err(PromptError::TooLarge)));
        assert!(matches!(read(&b"\xff"[..], 4), Err(PromptError::Input(_))));
    }
}
