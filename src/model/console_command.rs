//! What people command in the console: the same requests that commands submit.

use super::configure::Change;
use super::id::ConsoleSessionId;
use super::task_command::TaskCommand;

/// A command of a person who is signed in to the console.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "commands are few and live as long as one request")]
pub enum ConsoleCommand {
    /// About a task.
    Task(TaskCommand),
    /// A change of the configuration.
    Change(Change),
    /// Ends a session of the console: one of the person, or of anyone for those who see everything.
    SignOut(ConsoleSessionId),
}
