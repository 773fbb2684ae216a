//! What agents do with their scheduled tasks. Every request is answered at once, in the words of the agents' tools.

use super::own::agent_of;
use super::replies::{self, Asker};
use crate::engine::json::{self, Field};
use crate::engine::outbox::Place;
use crate::engine::{Cx, Result, schedule, sessions};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, TaskId};
use crate::model::request::TaskRequest;
use crate::model::session::SessionName;
use crate::model::task::{Missed, NewTask, Overlap, Recurrence, Task, TaskCommand, TaskHome, TaskOrigin, TaskState};
use crate::state::Write;
use crate::time::every::Every;
use crate::time::local;

/// Tasks that a list names.
const LISTED_MAX: usize = 200;
/// Characters of a prompt in a list.
const PROMPT_CHARS: usize = 80;

/// Does what an agent wants and tells it so, or why it cannot be. `to` is where answers of the present turn go.
pub(super) fn serve(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (asker, wanted): (&Asker, TaskRequest),
    to: std::result::Result<Place, String>,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    let Some((agent, _)) = agent_of(cx, txn, asker.session)? else {
        return Ok(Err("the agent was removed".to_owned()));
    };
    let (command, done): (TaskCommand, fn(TaskId, &Task) -> String) = match wanted {
        TaskRequest::List(status) => {
            let text = list(cx, txn, agent, status.as_deref())?;
            return tell(cx, txn, asker, &text, effects).map(Ok);
        }
        TaskRequest::Schedule { prompt, first, recurrence, script } => {
            if let Some(why) = bad_time(cx, txn, agent, &first)? {
                return Ok(Err(why));
            }
            let reply = if let Ok(Place::Chat(chat)) = to { Some(chat) } else { None };
            let home = home(cx, txn, asker)?;
            let (missed, overlap, origin) = (Missed::default(), Overlap::default(), TaskOrigin::Agent(asker.session));
            let first = Some(first);
            let new = NewTask { agent, home, prompt, script, reply, first, recurrence, missed, overlap, origin };
            (TaskCommand::Add(Box::new(new)), scheduled)
        }
        TaskRequest::Update(id, change) => {
            let bad = change.next.as_deref().map(|next| bad_time(cx, txn, agent, next)).transpose()?;
            if let Some(why) = bad.flatten() {
                return Ok(Err(why));
            }
            (TaskCommand::Set(id, change), |id, _| format!("Task update requested: {id}"))
        }
        TaskRequest::Cancel(id) => (TaskCommand::Cancel(id), |id, _| format!("Task cancellation requested: {id}")),
        TaskRequest::Pause(id) => (TaskCommand::Pause(id), |id, _| format!("Task pause requested: {id}")),
        TaskRequest::Resume(id) => (TaskCommand::Resume(id), |id, _| format!("Task resume requested: {id}")),
    };
    match schedule::command(cx, txn, (command, Some(agent)), effects)? {
        Ok((id, task)) => tell(cx, txn, asker, &done(id, &task), effects).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// Where a task runs that is made here: in this conversation, or among the other work that belongs to none.
fn home(cx: &Cx<'_>, txn: &Write<'_>, asker: &Asker) -> Result<TaskHome> {
    let maintenance = sessions::load(cx, txn, asker.session)?.is_some_and(|row| row.name == SessionName::Maintenance);
    Ok(if maintenance { TaskHome::Maintenance } else { TaskHome::Session(asker.session) })
}

/// That a text is no time, in the words of the tool.
fn bad_time(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, text: &str) -> Result<Option<String>> {
    let zone = schedule::zone_of(cx, txn, agent)?;
    Ok(local::instant(text, &zone).is_err().then(|| format!("invalid processAfter: {text}")))
}

fn tell(cx: &Cx<'_>, txn: &mut Write<'_>, asker: &Asker, text: &str, effects: &mut Vec<Effect>) -> Result<()> {
    replies::answer(cx, txn, asker, Ok(json::object(&[("text", Field::Text(text))])), effects).map(drop)
}

fn scheduled(id: TaskId, task: &Task) -> String {
    let at = task.anchor;
    let again = recurrence(&task.recurrence).map_or_else(String::new, |again| format!(", recurrence: {again}"));
    format!("Task scheduled (id: {id}, runs at: {at}{again})")
}

fn recurrence(recurrence: &Recurrence) -> Option<String> {
    match recurrence {
        Recurrence::Once => None,
        Recurrence::Cron(text) => Some(text.clone()),
        Recurrence::Every(length) => {
            Some(Every::of(*length).map_or_else(|_| length.to_string(), |every| every.to_string()))
        }
    }
}

/// One line for each task that is not over, or of those in one state, by their time.
fn list(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, status: Option<&str>) -> Result<String> {
    let mut found = Vec::new();
    for ((_, id), ()) in cx.db.tasks_by_agent.collect_prefix(txn, &agent, LISTED_MAX)? {
        let task = cx.db.tasks.require(txn, &id)?;
        let word = match task.state {
            TaskState::Paused => "paused",
            TaskState::Active | TaskState::Done | TaskState::Cancelled => "pending",
        };
        if status.is_none_or(|status| status == word) {
            found.push((task.next, id, line(id, &task, word)));
        }
    }
    found.sort();
    let lines: Vec<String> = found.into_iter().map(|(_, _, line)| line).collect();
    Ok(if lines.is_empty() { "No tasks found.".to_owned() } else { lines.join("\n") })
}

fn line(id: TaskId, task: &Task, word: &str) -> String {
    let at = task.next.map_or_else(|| "now".to_owned(), |next| next.to_string());
    let again = recurrence(&task.recurrence).map_or_else(String::new, |again| format!("recur={again} "));
    let prompt: String = task.prompt.chars().take(PROMPT_CHARS).collect();
    format!("- {id} [{word}] at={at} {again}→ {prompt}")
}
