//! Commands for the files that trusted agents share: session state, memory, skip summaries. They replace the scripts of
//! an earlier system and keep their interface: paths, formats, locks, exit codes, diagnostics. `docs/trusted.md`
//! describes them and the differences.

mod addresses;
mod append;
mod continuation;
mod daily;
mod database;
mod discovery;
mod files;
mod json;
pub(crate) mod library;
mod mute;
mod needs;
mod options;
mod places;
mod register;
mod skip;
mod state_file;
mod status;
mod time;
mod uptime;

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use json::Json;
pub use json::rewritten;
use options::{Options, Usage};

use crate::log;

/// All commands, with their descriptions.
const COMMANDS: [(&str, &str); 10] = [
    ("prompt", "prints the prompt of messages on standard input"),
    ("register-session", "registers a session in the state file, and its bootstrap in the sentinel"),
    ("needs-bootstrap", "exits with 0 if this session still has to read its memory, else with 1"),
    ("append-to-daily-log", "adds lines to the log of a day"),
    ("append-daily-discovery", "adds a discovery"),
    ("migrate-addresses-block", "raises the version of the addresses in the owner's profile"),
    ("system-status-checks", "looks for trouble in NanoClaw's database"),
    ("container-uptime", "prints how long the container has been running"),
    ("skip", "writes a skip summary"),
    ("mute", "changes and lists the muted threads in the state file"),
];

/// The names of all commands, for messages.
pub(crate) fn names() -> String {
    COMMANDS.map(|(name, _)| format!("`{name}`")).join(", ")
}

/// Whether this is one of them.
pub(crate) fn has(command: &str) -> bool {
    COMMANDS.iter().any(|(name, _)| *name == command)
}

/// Prints the program's purpose and its commands.
pub(crate) fn help() -> ExitCode {
    let commands = COMMANDS.map(|(name, does)| format!("  {name:<25}{does}\n")).concat();
    print(&format!(
        "usage: hearth-runner [COMMAND [OPTION...]]\n\n\
        The program that runs inside an agent's container. Without a command it serves the agent that HEARTH_ROOTS names;\n\
        Hearth starts it so. With one it does what a skill asks for:\n\n{commands}\n\
        `hearth-runner COMMAND --help` prints the options of a command; register-session and needs-bootstrap take none."
    ));
    ExitCode::SUCCESS
}

/// Why a command has no result.
#[derive(Debug)]
enum End {
    /// Wrong usage, or a request for help.
    Usage(Usage),
    Failed(String),
    /// It failed, and reports its findings in JSON.
    Found(Json, String),
}

impl From<Usage> for End {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

/// A command that reports its result in JSON.
type Answering = fn(&[String]) -> Result<Json, End>;

/// Runs a command; `None` if its name is unknown.
pub(crate) fn main(command: &str, arguments: &[String]) -> Option<ExitCode> {
    let (options, run): (_, Answering) = match command {
        // These ignore arguments, and their exit code is their result.
        "register-session" => return Some(register::main()),
        "needs-bootstrap" => return Some(needs::main()),
        "skip" => (skip::OPTIONS, skip::main),
        "mute" => (mute::OPTIONS, mute::main),
        "append-to-daily-log" => (daily::OPTIONS, daily::main),
        "append-daily-discovery" => (discovery::OPTIONS, discovery::main),
        "migrate-addresses-block" => (addresses::OPTIONS, addresses::main),
        "system-status-checks" => (status::OPTIONS, status::main),
        "container-uptime" => (uptime::OPTIONS, uptime::main),
        _ => return None,
    };
    Some(end(&options, run(arguments)))
}

/// Exit codes: 0 success, 1 failure, 2 wrong usage.
fn end(options: &Options, result: Result<Json, End>) -> ExitCode {
    match result {
        Ok(done) => {
            answer(&done);
            ExitCode::SUCCESS
        }
        Err(End::Usage(Usage::Help)) => {
            print(options.usage);
            ExitCode::SUCCESS
        }
        Err(End::Usage(Usage::Wrong(what))) => {
            log::pass_on(format!("{}\n{}: error: {what}\n", options.usage, options.tool).as_bytes());
            ExitCode::from(2)
        }
        Err(End::Found(found, why)) => {
            answer(&found);
            say(options.tool, why);
            ExitCode::FAILURE
        }
        Err(End::Failed(why)) => {
            say(options.tool, why);
            ExitCode::FAILURE
        }
    }
}

/// Seconds since 1970.
fn clock_now() -> i64 {
    i64::try_from(crate::clock::now_ms() / 1_000).unwrap_or(i64::MAX)
}

/// Writes one line for people, in the name of this tool.
fn say(tool: &str, message: impl Display) {
    log::pass_on(format!("{tool}: {message}\n").as_bytes());
}

/// Writes one line for programs.
fn answer(value: &Json) {
    print(&json::line(value));
}

/// Writes one line to standard output. A failure is ignored: the work is already done.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        // The exit code also shows the result.
    }
}

/// Trims white space, including information separators like the writers of these files.
fn stripped(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// White space as defined by these files: Unicode's, and the information separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Whether any reader treats a character as a line end.
fn breaks_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The error if no path is given and there is no default.
fn not_trusted() -> End {
    End::Failed("this agent has no directory that trusted agents share; name the file or directory".to_owned())
}
