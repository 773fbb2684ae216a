//! Commands for the files that trusted agents share: session state, memory, skip summaries. They take the place of the
//! scripts of an earlier system and keep what other programs rely on: paths, formats, locks, exit codes, diagnostics.
//! `docs/trusted.md` says what they do and where they differ.

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

/// The commands, for people.
pub(crate) const NAMES: &str = "`register-session`, `needs-bootstrap`, `skip`, `mute`, `append-to-daily-log`, \
    `append-daily-discovery`, `migrate-addresses-block`, \
    `system-status-checks`, `container-uptime`";

/// Why a command gives no answer.
#[derive(Debug)]
enum End {
    /// It was used wrongly, or asked how to use it.
    Usage(Usage),
    /// It could not do its work.
    Failed(String),
    /// It could not do its work, and says also in JSON what it found.
    Found(Json, String),
}

impl From<Usage> for End {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

/// A command that says in JSON what it did.
type Answering = fn(&[String]) -> Result<Json, End>;

/// Runs one of these commands; `None` if it is none of them.
pub(crate) fn main(command: &str, arguments: &[String]) -> Option<ExitCode> {
    let (options, run): (_, Answering) = match command {
        // These look at no argument, and say with their exit code what others say in words.
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

/// 0 done, 1 failed, 2 used wrongly.
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

/// One line for people, as the program of this name would say it.
fn say(tool: &str, message: impl Display) {
    log::pass_on(format!("{tool}: {message}\n").as_bytes());
}

/// One line for programs.
fn answer(value: &Json) {
    print(&json::line(value));
}

/// One line on standard output. What was done is done, whoever reads of it.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        // The exit code says it too.
    }
}

/// White space in the sense of these files: Unicode's, and the information separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Whether a character ends a line for anybody.
fn breaks_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Nobody wrote the path down, and there is none to assume.
fn not_trusted() -> End {
    End::Failed("this agent has no directory that trusted agents share; name the file or directory".to_owned())
}
