//! Commands in chat messages: those that Hearth carries out itself, and those of an agent's provider that only the
//! agent's administrators may use, or no one. Pure.

/// Commands that only make sense on the provider's own terminal. They are never forwarded, no matter who sends them.
const FILTERED: [&str; 5] = ["/login", "/logout", "/doctor", "/config", "/remote-control"];

/// Commands that change a session or show its state.
const ADMIN: [&str; 5] = ["/clear", "/compact", "/context", "/cost", "/files"];

/// A command that Hearth carries out itself, without the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnCommand<'a> {
    /// `/help`: lists these commands.
    Help,
    /// `/status`: says what the agent does, and with which model.
    Status,
    /// `/usage`: counts messages and turns.
    Usage,
    /// `/tasks`: lists the tasks of the chat.
    Tasks,
    /// `/stop`: stops the running turn.
    Stop,
    /// `/stop all`: stops all turns of the agent, and freezes it.
    StopAll,
    /// `/new`: begins a new conversation.
    New,
    /// `/model NAME`; without a name it says which one is used.
    Model(Option<&'a str>),
    /// `/think LEVEL`, likewise.
    Think(Option<&'a str>),
    /// `/approvals`: lists what the sender may decide.
    Approvals,
    /// A command with words that it does not take, and how to write it.
    Misused(&'static str),
}

/// What a sender may do with an agent in a chat. Each one may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Authority {
    /// May talk to the agent.
    Talks,
    /// Is alone with it in this conversation.
    Alone,
    /// May decide for it.
    Decides,
}

/// A command in the list of `/help`: how to write it, what it does, and who may use it.
type Listed = (&'static str, &'static str, Authority);

const LISTED: [Listed; 10] = [
    ("/help", "this list", Authority::Talks),
    ("/status", "what the agent does, and with which model", Authority::Talks),
    ("/usage", "messages and turns of today", Authority::Talks),
    ("/tasks", "the tasks of the agent in this chat", Authority::Talks),
    ("/stop", "stop what the agent does for you", Authority::Talks),
    ("/new", "begin a new conversation", Authority::Alone),
    ("/model NAME", "use another model here; `default` goes back", Authority::Decides),
    ("/think LEVEL", "think more or less here, such as `low` or `high`; `default` goes back", Authority::Decides),
    ("/approvals", "what you can decide", Authority::Decides),
    ("/stop all", "stop the agent everywhere, and freeze it", Authority::Decides),
];

impl OwnCommand<'_> {
    /// Who may use it.
    pub(crate) const fn needs(self) -> Authority {
        match self {
            Self::Help | Self::Status | Self::Usage | Self::Tasks | Self::Stop | Self::Misused(_) => Authority::Talks,
            Self::New => Authority::Alone,
            Self::Model(_) | Self::Think(_) | Self::Approvals | Self::StopAll => Authority::Decides,
        }
    }

    /// Its word, for a denial.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Help => "/help",
            Self::Status => "/status",
            Self::Usage => "/usage",
            Self::Tasks => "/tasks",
            Self::Stop => "/stop",
            Self::StopAll => "/stop all",
            Self::New => "/new",
            Self::Model(_) => "/model",
            Self::Think(_) => "/think",
            Self::Approvals => "/approvals",
            Self::Misused(usage) => usage,
        }
    }
}

/// The answer to `/help`.
pub(crate) fn help(authority: Authority) -> String {
    let lines = LISTED.iter().filter(|(_, _, needs)| *needs <= authority);
    let lines: String = lines.map(|(usage, what, _)| format!("\n{usage} – {what}")).collect();
    format!("What Hearth does for you here:{lines}\nOther commands go to the agent.")
}

/// Parses a command that Hearth carries out itself. The name of the bot may be before it. Most of them ignore further
/// words: a person who wants an agent to stop should not have to spell. Where words would be lost, the person is told.
pub(crate) fn own(text: &str) -> Option<OwnCommand<'_>> {
    let mut words = text.split(is_space).filter(|word| !word.is_empty());
    let first = words.next()?;
    let command = if first.starts_with('@') { words.next()? } else { first };
    if !command.starts_with('/') {
        return None;
    }
    let (argument, more) = (words.next(), words.next());
    Some(match (command.to_ascii_lowercase().as_str(), argument, more) {
        ("/help", ..) => OwnCommand::Help,
        ("/status", ..) => OwnCommand::Status,
        ("/usage", ..) => OwnCommand::Usage,
        ("/tasks", ..) => OwnCommand::Tasks,
        ("/approvals", ..) => OwnCommand::Approvals,
        ("/stop", Some(all), None) if all.eq_ignore_ascii_case("all") => OwnCommand::StopAll,
        ("/stop", ..) => OwnCommand::Stop,
        ("/new", None, _) => OwnCommand::New,
        ("/new", ..) => OwnCommand::Misused("Write `/new` alone, and then your message."),
        ("/model", name, None) => OwnCommand::Model(name),
        ("/model", ..) => OwnCommand::Misused("Write `/model NAME` with one word, or `/model default`."),
        ("/think", level, None) => OwnCommand::Think(level),
        ("/think", ..) => OwnCommand::Misused("Write `/think LEVEL` with one word, or `/think default`."),
        _ => return None,
    })
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
            ("/help", CommandDecision::Own, CommandDecision::Own),
            ("/HELP me", CommandDecision::Own, CommandDecision::Own),
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
            ("/help me", Some(OwnCommand::Help)),
            ("@andy /STATUS", Some(OwnCommand::Status)),
            ("/usage", Some(OwnCommand::Usage)),
            ("/tasks", Some(OwnCommand::Tasks)),
            ("/approvals", Some(OwnCommand::Approvals)),
            ("/new", Some(OwnCommand::New)),
            ("/new idea", Some(OwnCommand::Misused("Write `/new` alone, and then your message."))),
            ("/model", Some(OwnCommand::Model(None))),
            ("/Model Opus[1m]", Some(OwnCommand::Model(Some("Opus[1m]")))),
            ("/think high", Some(OwnCommand::Think(Some("high")))),
            ("/think very hard", Some(OwnCommand::Misused("Write `/think LEVEL` with one word, or `/think default`."))),
            ("/newer", None),
            ("/models", None),
            ("model", None),
        ] {
            assert_eq!(own(text), command, "{text:?}");
        }
        assert_eq!(denial("/clear"), "Permission denied: /clear requires admin access.");
    }

    /// The list and the parser know the same commands, and the list shows what may be used.
    #[test]
    fn help_lists_what_the_sender_may_use() {
        for (usage, _, needs) in LISTED {
            let command = own(usage).unwrap();
            assert_eq!((command.needs(), usage.starts_with(command.word())), (needs, true), "{usage}");
            for authority in [Authority::Talks, Authority::Alone, Authority::Decides] {
                let is_listed = help(authority).contains(&format!("\n{usage} –"));
                assert_eq!(is_listed, needs <= authority, "{usage} for {authority:?}");
            }
        }
    }
}
