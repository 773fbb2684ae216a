//! Commands of an agent's provider that chats must not reach, or only for those who administer the agent: pure.

/// Commands that mean something on the provider's own terminal only: nobody's message may carry them to it.
const FILTERED: [&str; 6] = ["/help", "/login", "/logout", "/doctor", "/config", "/remote-control"];
/// Commands that change a session or tell of it.
const ADMIN: [&str; 5] = ["/clear", "/compact", "/context", "/cost", "/files"];

/// What the gate makes of a message. Commands are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gate {
    /// No command, or one that is let through.
    Pass,
    /// Dropped without an answer.
    Filtered(String),
    /// Dropped; the sender is told [`denial`].
    Denied(String),
}

/// What becomes of a message with this text; `is_admin` tells whether its sender is an owner, or an admin of everything
/// or of this agent. The command is the first word, in any case: `/clearance` is another one than `/clear`.
pub(super) fn decide(text: &str, is_admin: bool) -> Gate {
    // Nearly nothing that people say is one.
    let Some(command) = text.trim_start_matches(is_space).split(is_space).next().filter(|word| word.starts_with('/'))
    else {
        return Gate::Pass;
    };
    let command = command.to_lowercase();
    if FILTERED.contains(&command.as_str()) {
        Gate::Filtered(command)
    } else if ADMIN.contains(&command.as_str()) && !is_admin {
        Gate::Denied(command)
    } else {
        Gate::Pass
    }
}

/// What the sender of a denied command is told.
pub(super) fn denial(command: &str) -> String {
    format!("Permission denied: {command} requires admin access.")
}

/// White space in Rust's eyes or in JavaScript's, which alone counts the byte order mark: what either side takes for the
/// end of a command is one.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{FEFF}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_follow_the_table() {
        let filtered = |command: &str| Gate::Filtered(command.to_owned());
        let denied = |command: &str| Gate::Denied(command.to_owned());
        for (text, others, admins) in [
            ("hello", Gate::Pass, Gate::Pass),
            ("", Gate::Pass, Gate::Pass),
            (" \n", Gate::Pass, Gate::Pass),
            ("/", Gate::Pass, Gate::Pass),
            ("/help", filtered("/help"), filtered("/help")),
            ("/HELP me", filtered("/help"), filtered("/help")),
            (" /config ", filtered("/config"), filtered("/config")),
            ("/login", filtered("/login"), filtered("/login")),
            ("/logout", filtered("/logout"), filtered("/logout")),
            ("/doctor", filtered("/doctor"), filtered("/doctor")),
            ("/remote-control", filtered("/remote-control"), filtered("/remote-control")),
            ("/clear", denied("/clear"), Gate::Pass),
            ("/Compact now", denied("/compact"), Gate::Pass),
            ("/clear\tfoo", denied("/clear"), Gate::Pass),
            ("\u{feff}/clear\u{2028}foo", denied("/clear"), Gate::Pass),
            ("/context", denied("/context"), Gate::Pass),
            ("/cost", denied("/cost"), Gate::Pass),
            ("/files", denied("/files"), Gate::Pass),
            ("/clearance sale", Gate::Pass, Gate::Pass),
            ("/review", Gate::Pass, Gate::Pass),
            ("/start", Gate::Pass, Gate::Pass),
            ("say /clear", Gate::Pass, Gate::Pass),
            ("//clear", Gate::Pass, Gate::Pass),
        ] {
            assert_eq!(decide(text, false), others, "{text:?}");
            assert_eq!(decide(text, true), admins, "{text:?} of an admin");
        }
        assert_eq!(denial("/clear"), "Permission denied: /clear requires admin access.");
    }
}
