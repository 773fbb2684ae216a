//! Commands of people as fields of forms, and back. Each is one that a command line has, too.

use super::form::Form;
use super::view::Topic;
use crate::config::file::{role, write::role_word};
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::configure::Change;
use crate::model::console_command::ConsoleCommand;
use crate::model::entity::Folder;
use crate::model::host::{DEFAULT_PORT, Endpoint, HostPattern, HostRule};
use crate::model::task_command::TaskCommand;

/// The fields of a command.
pub(super) struct Fields {
    /// What to do.
    pub(super) what: &'static str,
    pub(super) of: String,
    /// The second part, where there is one.
    pub(super) to: String,
}

/// The fields of a command; none if the console does not offer it.
pub(super) fn fields(command: &ConsoleCommand) -> Option<Fields> {
    let fields = |what, of: String, to: String| Some(Fields { what, of, to });
    match command {
        ConsoleCommand::SignOut(session) => fields("sign-out", session.to_string(), String::new()),
        ConsoleCommand::Task(command) => match command {
            TaskCommand::Pause(id) => fields("pause", id.to_string(), String::new()),
            TaskCommand::Resume(id) => fields("resume", id.to_string(), String::new()),
            TaskCommand::Cancel(id) => fields("cancel", id.to_string(), String::new()),
            TaskCommand::Run(id) => fields("run", id.to_string(), String::new()),
            TaskCommand::Add(_) | TaskCommand::AddPaused(_) | TaskCommand::Set(..) => None,
        },
        ConsoleCommand::Change(change) => match change {
            Change::StopAgent(folder) => fields("stop", folder.to_string(), String::new()),
            Change::FreezeAgent(folder) => fields("freeze", folder.to_string(), String::new()),
            Change::UnfreezeAgent(folder) => fields("unfreeze", folder.to_string(), String::new()),
            Change::AllowHost(folder, to) => fields("allow-host", folder.to_string(), to.to_string()),
            Change::DenyHost(folder, to) => fields("deny-host", folder.to_string(), to.to_string()),
            Change::RevokeHost(folder, to) => fields("revoke-host", folder.to_string(), to.to_string()),
            Change::Grant(user, role) => fields("grant", user.to_string(), role_word(role)),
            Change::Revoke(user, role) => fields("revoke", user.to_string(), role_word(role)),
            Change::AddMember(folder, user) => fields("add-member", user.to_string(), folder.to_string()),
            Change::RemoveMember(folder, user) => fields("remove-member", user.to_string(), folder.to_string()),
            Change::DenyChat(channel, id) => fields("deny-chat", channel.to_string(), id.to_string()),
            Change::AllowChat(channel, id) => fields("allow-chat", channel.to_string(), id.to_string()),
            _ => None,
        },
    }
}

/// Reads a command and the page to which its result belongs.
///
/// # Errors
/// What is invalid, for people.
pub(super) fn read(form: &Form) -> Result<(ConsoleCommand, Topic), String> {
    let (what, of, to) = (form.get("do"), form.get("of").trim(), form.get("to").trim());
    let folder = |text: &str| Folder::new(text).map_err(|error| error.to_string());
    let user = |text: &str| UserId::parse(text).map_err(|error| error.to_string());
    let task = |make: fn(_) -> TaskCommand| {
        let id = of.parse().map_err(|_| format!("\"{of}\" is no task."))?;
        Ok((ConsoleCommand::Task(make(id)), Topic::Tasks))
    };
    let change = |change, topic| Ok((ConsoleCommand::Change(change), topic));
    match what {
        "pause" => task(TaskCommand::Pause),
        "resume" => task(TaskCommand::Resume),
        "cancel" => task(TaskCommand::Cancel),
        "run" => task(TaskCommand::Run),
        "stop" => change(Change::StopAgent(folder(of)?), Topic::Agents),
        "freeze" => change(Change::FreezeAgent(folder(of)?), Topic::Agents),
        "unfreeze" => change(Change::UnfreezeAgent(folder(of)?), Topic::Agents),
        "allow-host" => change(Change::AllowHost(folder(of)?, endpoint(to)?), Topic::Network),
        "deny-host" => change(Change::DenyHost(folder(of)?, endpoint(to)?), Topic::Network),
        "revoke-host" => change(Change::RevokeHost(folder(of)?, endpoint(to)?), Topic::Network),
        "grant" => change(Change::Grant(user(of)?, role(to)?), Topic::People),
        "revoke" => change(Change::Revoke(user(of)?, role(to)?), Topic::People),
        "add-member" => change(Change::AddMember(folder(to)?, user(of)?), Topic::People),
        "remove-member" => change(Change::RemoveMember(folder(to)?, user(of)?), Topic::People),
        "deny-chat" | "allow-chat" => {
            let channel = ChannelName::new(of).map_err(|error| error.to_string())?;
            let id = ForeignId::new("the chat", to).map_err(|error| error.to_string())?;
            let both = if what == "deny-chat" { Change::DenyChat } else { Change::AllowChat };
            change(both(channel, id), Topic::People)
        }
        "sign-out" => {
            let session = of.parse().map_err(|_| format!("\"{of}\" is no session."))?;
            Ok((ConsoleCommand::SignOut(session), Topic::Sessions))
        }
        _ => Err("This page asks for something that this version of Hearth does not know.".to_owned()),
    }
}

/// A host and a port; without a port, that of HTTPS.
fn endpoint(text: &str) -> Result<Endpoint, String> {
    let rule: HostRule = text.parse().map_err(|error| format!("{error}"))?;
    let HostPattern::Exact(host) = rule.pattern else {
        return Err("A decision is about one host; wildcards are for the agent's `allow`.".to_owned());
    };
    Ok(Endpoint { host, port: rule.port.unwrap_or(DEFAULT_PORT) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::form::segment;
    use crate::model::configure::RoleSpec;
    use crate::model::id::{ConsoleSessionId, TaskId};

    fn form(what: &str, of: &str, to: &str) -> Form {
        Form::read(format!("do={}&of={}&to={}", segment(what), segment(of), segment(to)).as_bytes())
    }

    #[test]
    fn commands_are_read_as_they_were_written() {
        let (folder, user) = (Folder::new("main").unwrap(), UserId::parse("telegram:5").unwrap());
        let to: Endpoint = "a.example:8443".parse().unwrap();
        let (channel, id) = (ChannelName::new("telegram").unwrap(), ForeignId::new("the chat", "a&b=c").unwrap());
        let task = TaskId::new(3);
        let changes = [
            Change::StopAgent(folder.clone()),
            Change::FreezeAgent(folder.clone()),
            Change::UnfreezeAgent(folder.clone()),
            Change::AllowHost(folder.clone(), to.clone()),
            Change::DenyHost(folder.clone(), to.clone()),
            Change::RevokeHost(folder.clone(), to),
            Change::Grant(user.clone(), RoleSpec::Owner),
            Change::Revoke(user.clone(), RoleSpec::AdminOf(folder.clone())),
            Change::AddMember(folder.clone(), user.clone()),
            Change::RemoveMember(folder, user),
            Change::DenyChat(channel.clone(), id.clone()),
            Change::AllowChat(channel, id),
        ];
        let tasks =
            [TaskCommand::Pause(task), TaskCommand::Resume(task), TaskCommand::Cancel(task), TaskCommand::Run(task)];
        let changes = changes.into_iter().map(ConsoleCommand::Change);
        let all = changes.chain(tasks.into_iter().map(ConsoleCommand::Task));
        for command in all.chain([ConsoleCommand::SignOut(ConsoleSessionId::new(2))]) {
            let Fields { what, of, to } = fields(&command).unwrap();
            assert_eq!(read(&form(what, &of, &to)).map(|(read, _)| read), Ok(command));
        }
    }

    #[test]
    fn what_is_no_command_is_refused_in_words() {
        for (what, of, to) in [
            ("", "", ""),
            ("put-agent", "main", ""),
            ("pause", "ta", ""),
            ("pause", "ap1", ""),
            ("freeze", "../x", ""),
            ("allow-host", "main", "*.example.org"),
            ("allow-host", "main", "a b"),
            ("grant", "nobody", "owner"),
            ("grant", "telegram:5", "owner:main"),
            ("sign-out", "1", ""),
        ] {
            assert!(read(&form(what, of, to)).is_err(), "{what} {of} {to}");
        }
        let (command, _) = read(&form("allow-host", "main", "a.example")).unwrap();
        assert_eq!(fields(&command).unwrap().to, "a.example:443");
    }
}
