//! What a command of a person did, in words.

use crate::model::configure::Change;
use crate::model::console_command::ConsoleCommand;
use crate::model::report::{ChangeReport, Reply};
use crate::model::task_command::TaskCommand;

/// What a command does to a task or an agent if it is carried out; none if the reply says it.
pub(super) fn before(command: &ConsoleCommand) -> Option<String> {
    match command {
        ConsoleCommand::Task(TaskCommand::Pause(id)) => Some(format!("{id} is paused.")),
        ConsoleCommand::Task(TaskCommand::Resume(id)) => Some(format!("{id} is active again.")),
        ConsoleCommand::Task(TaskCommand::Cancel(id)) => Some(format!("{id} is cancelled.")),
        ConsoleCommand::Task(TaskCommand::Run(id)) => Some(format!("{id} runs now.")),
        ConsoleCommand::Change(Change::StopAgent(folder)) => Some(format!("{folder} is stopped.")),
        ConsoleCommand::SignOut(session) => Some(format!("{session} is signed out.")),
        ConsoleCommand::Task(_) | ConsoleCommand::Change(_) => None,
    }
}

/// What was done.
pub(super) fn after(done: Option<String>, reply: Reply) -> Result<String, String> {
    match (reply, done) {
        (Reply::Configured(reports), None) => Ok(reports.iter().map(line).collect::<Vec<_>>().join("\n")),
        (Reply::Configured(_) | Reply::Task(..) | Reply::Console(_), Some(done)) => Ok(done),
        (other, _) => Err(other.unexpected()),
    }
}

fn line(report: &ChangeReport) -> String {
    let note = report.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    format!("{}: {}{note}", report.entity, report.action.as_str())
}
