//! What an operator wants done with tasks, as a line of the socket.

use serde::{Deserialize, Serialize};

use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::id::{AgentId, SessionId, TaskId};
use crate::model::task::{Missed, NewTask, Overlap, TaskChange, TaskCommand, TaskHome, TaskOrigin};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum TaskRequest {
    /// Make a task.
    Add(NewTaskJson),
    /// Change one.
    Set {
        /// Its id.
        task: String,
        /// What is to be different.
        change: TaskChangeJson,
    },
    /// Let it rest.
    Pause {
        /// Its id.
        task: String,
    },
    /// Let it go on.
    Resume {
        /// Its id.
        task: String,
    },
    /// End it.
    Cancel {
        /// Its id.
        task: String,
    },
    /// Run it now, besides its times.
    Run {
        /// Its id.
        task: String,
    },
}

/// A new task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTaskJson {
    /// Id of the agent.
    pub agent: String,
    /// Session in which it runs; none is the agent's maintenance session.
    #[serde(default)]
    pub session: Option<String>,
    /// What the agent is told.
    pub prompt: String,
    /// A script that runs first.
    #[serde(default)]
    pub script: Option<String>,
    /// Chat for what it says, if not the session's.
    #[serde(default)]
    pub reply: Option<ChatJson>,
    /// When it runs first.
    #[serde(default)]
    pub at: Option<String>,
    /// When it comes again: a cron expression or an interval.
    #[serde(default)]
    pub recurrence: Option<String>,
    /// `once`, `skip` or `all:N`.
    #[serde(default)]
    pub missed: Option<String>,
    /// `refuse` or `queue`.
    #[serde(default)]
    pub overlap: Option<String>,
    /// Its name at the host that it is taken over from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// It rests until it is resumed.
    #[serde(default)]
    pub paused: bool,
}

/// A chat by its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatJson {
    /// Its channel.
    pub channel: String,
    /// The platform's id of it.
    pub platform_id: String,
}

/// What is to be different about a task; an empty script or recurrence takes it away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChangeJson {
    /// What the agent is told.
    #[serde(default)]
    pub prompt: Option<String>,
    /// A script that runs first.
    #[serde(default)]
    pub script: Option<String>,
    /// When it runs next.
    #[serde(default)]
    pub at: Option<String>,
    /// When it comes again.
    #[serde(default)]
    pub recurrence: Option<String>,
    /// `once`, `skip` or `all:N`.
    #[serde(default)]
    pub missed: Option<String>,
    /// `refuse` or `queue`.
    #[serde(default)]
    pub overlap: Option<String>,
}

impl TaskRequest {
    /// The same for the engine.
    ///
    /// # Errors
    /// What cannot be read, naming the field.
    pub fn command(self) -> Result<TaskCommand, String> {
        Ok(match self {
            Self::Add(new) if new.paused => TaskCommand::AddPaused(Box::new(new.read()?)),
            Self::Add(new) => TaskCommand::Add(Box::new(new.read()?)),
            Self::Set { task, change } => TaskCommand::Set(id(&task)?, Box::new(change.read()?)),
            Self::Pause { task } => TaskCommand::Pause(id(&task)?),
            Self::Resume { task } => TaskCommand::Resume(id(&task)?),
            Self::Cancel { task } => TaskCommand::Cancel(id(&task)?),
            Self::Run { task } => TaskCommand::Run(id(&task)?),
        })
    }
}

impl NewTaskJson {
    fn read(self) -> Result<NewTask, String> {
        let agent: AgentId = self.agent.parse().map_err(|_| format!("agent: `{}` is not an agent's id", self.agent))?;
        let home = match self.session {
            Some(session) => TaskHome::Session(session_id(&session)?),
            None => TaskHome::Maintenance,
        };
        Ok(NewTask {
            agent,
            home,
            prompt: self.prompt,
            script: self.script,
            reply: self.reply.map(|chat| chat.read()).transpose()?,
            first: self.at,
            recurrence: self.recurrence,
            missed: missed(self.missed.as_deref())?.unwrap_or_default(),
            overlap: overlap(self.overlap.as_deref())?.unwrap_or_default(),
            origin: self.imported.as_deref().map_or(TaskOrigin::Operator, TaskOrigin::imported),
        })
    }
}

impl ChatJson {
    fn read(self) -> Result<Address, String> {
        let channel = ChannelName::new(self.channel).map_err(|error| format!("chat: {error}"))?;
        let platform_id =
            ForeignId::new("the platform id", self.platform_id).map_err(|error| format!("chat: {error}"))?;
        Ok(Address { channel, platform_id, thread: None })
    }
}

impl TaskChangeJson {
    fn read(self) -> Result<TaskChange, String> {
        let change = TaskChange {
            prompt: self.prompt,
            script: self.script.map(filled),
            next: self.at,
            recurrence: self.recurrence.map(filled),
            missed: missed(self.missed.as_deref())?,
            overlap: overlap(self.overlap.as_deref())?,
        };
        if change == TaskChange::default() { Err("nothing was said to be different".to_owned()) } else { Ok(change) }
    }
}

fn filled(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}

fn missed(text: Option<&str>) -> Result<Option<Missed>, String> {
    text.map(|text| text.parse::<Missed>().map_err(|why| format!("missed: {why}"))).transpose()
}

fn overlap(text: Option<&str>) -> Result<Option<Overlap>, String> {
    text.map(|text| text.parse::<Overlap>().map_err(|why| format!("overlap: {why}"))).transpose()
}

fn id(text: &str) -> Result<TaskId, String> {
    text.parse().map_err(|_| format!("task: `{text}` is not a task; write an id like ta3"))
}

fn session_id(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|_| format!("session: `{text}` is not a session; write an id like se3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<TaskCommand, String> {
        serde_json::from_str::<TaskRequest>(line).map_err(|error| error.to_string())?.command()
    }

    #[test]
    fn lines_are_read_or_say_which_field_is_wrong() {
        let add = r#"{"action":"add","agent":"ag1","prompt":"p","recurrence":"1h","missed":"all:3","overlap":"queue"}"#;
        let Ok(TaskCommand::Add(new)) = read(add) else { panic!() };
        assert_eq!((new.missed, new.overlap, new.home), (Missed::RunAll(3), Overlap::Queue, TaskHome::Maintenance));
        let Ok(TaskCommand::Set(id, change)) = read(r#"{"action":"set","task":"ta2","change":{"script":""}}"#) else {
            panic!()
        };
        assert_eq!((id, change.script, change.recurrence), (TaskId::new(2), Some(None), None));
        assert_eq!(read(r#"{"action":"run","task":"ta9"}"#), Ok(TaskCommand::Run(TaskId::new(9))));
        for (line, field) in [
            (r#"{"action":"pause","task":"x"}"#, "task: "),
            (r#"{"action":"set","task":"ta1","change":{}}"#, "nothing"),
            (r#"{"action":"set","task":"ta1","change":{"missed":"all:0"}}"#, "missed: "),
            (r#"{"action":"set","task":"ta1","change":{"overlap":"fork"}}"#, "overlap: "),
            (r#"{"action":"add","agent":"x","prompt":"p"}"#, "agent: "),
            (r#"{"action":"add","agent":"ag1","session":"x","prompt":"p"}"#, "session: "),
            (r#"{"action":"add","agent":"ag1","prompt":"p","reply":{"channel":"","platform_id":"1"}}"#, "chat: "),
        ] {
            assert!(read(line).unwrap_err().starts_with(field), "{line}: {:?}", read(line));
        }
    }
}
