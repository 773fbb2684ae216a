//! Commands in chat messages: those that Hearth carries out itself, and those of an agent's provider that only the
//! agent's administrators may use, or no one. Pure.

/// Commands that only make sense on the provider's own terminal. They are never forwarded, no matter who sends them.
const FILTERED: [&str; 6] = ["/help", "/login", "/logout", "/doctor", "/config", "/remote-control"];

/// Commands that change a session or show its state.
const ADMIN: [&str; 5] = ["/clear", "/compact", "/context", "/cost", "/files"];

/// A command that Hearth carries out itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnCommand {
    /// `/stop`: stops the running turn.
    Stop,
    /// `/stop all`: stops all turns of the agent, and freezes it.
    StopAll,
}

/// Parses a command that Hearth carries out itself. The name of the bot may be before it. `/stop` with any other words
/// stops too: a person who wants an agent to stop should not have to spell.
pub(crate) fn own(text: &str) -> Option<OwnCommand> {
    let mut words = text.split(is_space).filter(|word| !word.is_empty());
    let first = words.next()?;
    let command = if first.starts_with('@') { words.next()? } else { first };
    if !command.eq_ignore_ascii_case("/stop") {
        return None;
    }
    let all = words.next().is_some_and(|word| word.eq_ignore_ascii_case("all")) && words.next().is_none();
    Some(if all { OwnCommand::StopAll } else { OwnCommand::Stop })
}

/// What a command did for one agent.
pub(crate) enum CommandReply {
    /// It was done, and people are told elsewhere.
    Done,
    /// The sender is told this.
    Said(String),
    /// It was not done. The sender is told this unless another agent did it.
    Not(String),
}

/// Whether a command ends the running turn of its session before it is handled, instead of waiting for it.
pub(crate) fn interrupts(text: &str) -> bool {
    text.trim_start_matches(is_space).split(is_space).next().is_some_and(|word| word.eq_ignore_ascii_case("/clear"))
}

/// The gate's decision about a message. Commands are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandDecision {
    /// Not a command, or an allowed one.
    Pass,
    /// Hearth carries it out, and no agent gets it.
    Own,
    /// Dropped without a reply.
    Filtered(String),
    /// Dropped, and the sender receives [`denial`].
    Denied(String),
}

/// Decides about a message with this text. `is_admin` is set if the sender is an owner, a global administrator, or an
/// administrator of this agent. The command is the first word, in any case, so `/clearance` is not `/clear`.
pub(crate) fn decide(text: &str, is_admin: bool) -> CommandDecision {
    if own(text).is_some() {
        return CommandDecision::Own;
    }
    // Nearly all messages are not commands.
    let Some(command) = text.trim_start_matches(is_space).split(is_space).next().filter(|word| word.starts_with('/'))
    else {
        return CommandDecision::Pass;
    };
    let command = command.to_lowercase();
    if FILTERED.contains(&command.as_str()) {
        CommandDecision::Filtered(command)
    } else if ADMIN.contains(&command.as_str()) && !is_admin {
        CommandDecision::Denied(command)
    } else {
        CommandDecision::Pass
    }
}

/// The reply to the sender of a denied command.
pub(crate) fn denial(command: &str) -> String {
    format!("Permission denied: {command} requires admin access.")
}

/// White space as Rust or JavaScript defines it; only JavaScript includes the byte order mark. Whatever either side
/// sees as the end of a command ends it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{FEFF}'
}

#[cfg(test)]
mod tests {
    use crate::rules::commands::*;

    #[test]
    fn commands_follow_the_table() {
        let filtered = |command: &str| CommandDecision::Filtered(command.to_owned());
        let denied = |command: &str| CommandDecision::Denied(command.to_owned());
        for (text, others, admins) in [
            ("hello", CommandDecision::Pass, CommandDecision::Pass),
            ("", CommandDecision::Pass, CommandDecision::Pass),
            (" \n", CommandDecision::Pass, CommandDecision::Pass),
            ("/", CommandDecision::Pass, CommandDecision::Pass),
            ("/help", filtered("/help"), filtered("/help")),
            ("/HELP me", filtered("/help"), filtered("/help")),
            (" /config ", filtered("/config"), filtered("/config")),
            ("/login", filtered("/login"), filtered("/login")),
            ("/logout", filtered("/logout"), filtered("/logout")),
            ("/doctor", filtered("/doctor"), filtered("/doctor")),
            ("/remote-control", filtered("/remote-control"), filtered("/remote-control")),
            ("/clear", denied("/clear"), CommandDecision::Pass),
            ("/Compact now", denied("/compact"), CommandDecision::Pass),
            ("/clear\tfoo", denied("/clear"), CommandDecision::Pass),
            ("\u{feff}/clear\u{2028}foo", denied("/clear"), CommandDecision::Pass),
            ("/context", denied("/context"), CommandDecision::Pass),
            ("/cost", denied("/cost"), CommandDecision::Pass),
            ("/files", denied("/files"), CommandDecision::Pass),
            ("/clearance sale", CommandDecision::Pass, CommandDecision::Pass),
            ("/review", CommandDecision::Pass, CommandDecision::Pass),
            ("/start", CommandDecision::Pass, CommandDecision::Pass),
            ("say /clear", CommandDecision::Pass, CommandDecision::Pass),
            ("//clear", CommandDecision::Pass, CommandDecision::Pass),
            ("/stop", CommandDecision::Own, CommandDecision::Own),
            (" @andy /STOP all", CommandDecision::Own, CommandDecision::Own),
            ("/stopped", CommandDecision::Pass, CommandDecision::Pass),
        ] {
            assert_eq!(decide(text, false), others, "{text:?}");
            assert_eq!(decide(text, true), admins, "{text:?} of an admin");
        }
        for (text, command) in [
            ("/stop", Some(OwnCommand::Stop)),
            ("/Stop\u{2028}it", Some(OwnCommand::Stop)),
            ("/stop ALL ", Some(OwnCommand::StopAll)),
            ("/stop all of it", Some(OwnCommand::Stop)),
            ("@andy /stop all", Some(OwnCommand::StopAll)),
            ("@andy please /stop", None),
            ("stop", None),
            ("@", None),
            ("", None),
        ] {
            assert_eq!(own(text), command, "{text:?}");
        }
        assert_eq!(denial("/clear"), "Permission denied: /clear requires admin access.");
    }
}
