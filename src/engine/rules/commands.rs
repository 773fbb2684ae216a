//! Commands of an agent's provider that chat messages may not use, or only those of the agent's administrators. Pure.

/// Commands that only make sense on the provider's own terminal. They are never forwarded, no matter who sends them.
const FILTERED: [&str; 6] = ["/help", "/login", "/logout", "/doctor", "/config", "/remote-control"];

/// Commands that change a session or show its state.
const ADMIN: [&str; 5] = ["/clear", "/compact", "/context", "/cost", "/files"];

/// The gate's decision about a message. Commands are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandDecision {
    /// Not a command, or an allowed one.
    Pass,
    /// Dropped without a reply.
    Filtered(String),
    /// Dropped, and the sender receives [`denial`].
    Denied(String),
}

/// Decides about a message with this text. `is_admin` is set if the sender is an owner, a global administrator, or an
/// administrator of this agent. The command is the first word, in any case, so `/clearance` is not `/clear`.
pub(crate) fn decide(text: &str, is_admin: bool) -> CommandDecision {
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
        ] {
            assert_eq!(decide(text, false), others, "{text:?}");
            assert_eq!(decide(text, true), admins, "{text:?} of an admin");
        }
        assert_eq!(denial("/clear"), "Permission denied: /clear requires admin access.");
    }
}
