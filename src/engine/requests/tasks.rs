//! Agents' requests about their scheduled tasks. Each is answered at once, with the texts of the agents' tools.

use crate::Result;
use crate::lifecycle::replies;
use crate::lifecycle::replies::Asker;
use crate::model::id::{AgentId, TaskId};
use crate::model::request::TaskRequest;
use crate::model::session::SessionName;
use crate::model::task::{Missed, Overlap, Task, TaskHome, TaskOrigin, TaskState};
use crate::model::task_command::{NewTask, TaskCommand};
use crate::requests::{ResolvedRecipient, self_change};
use crate::rows::{agents, sessions};
use crate::rules::json;
use crate::rules::json::Field;
use crate::schedule::change;
use crate::state::Owned;
use crate::time::{every, local};
use crate::tx::Tx;

/// Maximum number of tasks in a list.
const LISTED_MAX: usize = 200;

/// Characters of a prompt shown in a list.
const PROMPT_CHARS: usize = 80;

/// Carries out a task request and answers it, or returns why it is refused. `to` is where answers of the current turn
/// go.
pub(crate) fn serve(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    wanted: TaskRequest,
    to: std::result::Result<ResolvedRecipient, String>,
) -> Result<std::result::Result<(), String>> {
    let Some((agent, _)) = self_change::agent_of(tx, asker.session)? else {
        return Ok(Err("the agent was removed".to_owned()));
    };
    let (command, done): (TaskCommand, fn(TaskId, &Task) -> String) = match wanted {
        TaskRequest::List(status) => {
            let text = list(tx, agent, status.as_deref())?;
            return tell(tx, asker, &text).map(Ok);
        }
        TaskRequest::Schedule { prompt, first, recurrence, script } => {
            if let Some(why) = bad_time(tx, agent, &first)? {
                return Ok(Err(why));
            }
            let reply = if let Ok(ResolvedRecipient::Chat(chat)) = to { Some(chat) } else { None };
            let home = home(tx, asker)?;
            let (missed, overlap, origin) = (Missed::default(), Overlap::default(), TaskOrigin::Agent(asker.session));
            let (first, allow) = (Some(first), Vec::new());
            let new = NewTask { agent, home, prompt, script, reply, first, recurrence, missed, overlap, origin, allow };
            (TaskCommand::Add(Box::new(new)), scheduled)
        }
        TaskRequest::Update(id, change) => {
            let bad = change.next.as_deref().map(|next| bad_time(tx, agent, next)).transpose()?;
            if let Some(why) = bad.flatten() {
                return Ok(Err(why));
            }
            (TaskCommand::Set(id, change), |id, _| format!("Task update requested: {id}"))
        }
        TaskRequest::Cancel(id) => (TaskCommand::Cancel(id), |id, _| format!("Task cancellation requested: {id}")),
        TaskRequest::Pause(id) => (TaskCommand::Pause(id), |id, _| format!("Task pause requested: {id}")),
        TaskRequest::Resume(id) => (TaskCommand::Resume(id), |id, _| format!("Task resume requested: {id}")),
    };
    match change::command(tx, command, Some(agent))? {
        Ok((id, task)) => tell(tx, asker, &done(id, &task)).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// The session in which a new task runs: the asking one, or the maintenance session if that one asked.
fn home(tx: &Tx<'_, '_>, asker: &Asker) -> Result<TaskHome> {
    let maintenance = sessions::load(tx, asker.session)?.is_some_and(|row| row.name == SessionName::Maintenance);
    Ok(if maintenance { TaskHome::Maintenance } else { TaskHome::Session(asker.session) })
}

/// The tool's error text if a time is invalid.
fn bad_time(tx: &Tx<'_, '_>, agent: AgentId, text: &str) -> Result<Option<String>> {
    let zone = agents::zone_of(tx, agent)?;
    Ok(local::instant(text, &zone).is_err().then(|| format!("invalid processAfter: {text}")))
}

fn tell(tx: &mut Tx<'_, '_>, asker: &Asker, text: &str) -> Result<()> {
    replies::answer(tx, asker, Ok(json::object(&[("text", Field::Text(text))]))).map(drop)
}

fn scheduled(id: TaskId, task: &Task) -> String {
    let at = task.anchor;
    let again = every::shown(&task.recurrence).map_or_else(String::new, |again| format!(", recurrence: {again}"));
    format!("Task scheduled (id: {id}, runs at: {at}{again})")
}

/// Lists an agent's open tasks, or those in one state, by time. Finished tasks are kept only for a while.
pub(crate) fn list(tx: &Tx<'_, '_>, agent: AgentId, status: Option<&str>) -> Result<String> {
    let all = status.is_some_and(|status| OVER.contains(&status));
    let mut found = if all { over(tx, agent)? } else { open(tx, agent)? };
    found.retain(|(_, task)| status.is_none_or(|status| status == word(task)));
    found.sort_by_key(|(id, task)| (task.next, *id));
    let more = found.len().saturating_sub(LISTED_MAX);
    let mut lines: Vec<String> = found.iter().take(LISTED_MAX).map(|(id, task)| line(*id, task)).collect();
    if more > 0 {
        lines.push(format!("({more} more are not shown)"));
    }
    Ok(if lines.is_empty() { "No tasks found.".to_owned() } else { lines.join("\n") })
}

fn open(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<(TaskId, Task)>> {
    let ids = tx.db.tasks_by_agent.collect_prefix(tx, &agent, usize::MAX)?;
    ids.into_iter().map(|(Owned { id, .. }, ())| Ok((id, tx.db.tasks.require(tx, &id)?))).collect()
}

fn over(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<(TaskId, Task)>> {
    let mut all = tx.db.tasks.collect_range(tx, .., usize::MAX)?;
    all.retain(|(_, task)| task.agent == agent && !task.state.is_open());
    Ok(all)
}

/// Names of the finished states.
const OVER: [&str; 3] = ["completed", "failed", "cancelled"];

/// The state of a task, as the tool names it.
const fn word(task: &Task) -> &'static str {
    let [completed, failed, cancelled] = OVER;
    match task.state {
        TaskState::Active => "pending",
        TaskState::Paused => "paused",
        TaskState::Done if task.failures > 0 => failed,
        TaskState::Done => completed,
        TaskState::Cancelled => cancelled,
    }
}

/// One line about a task. A finished task has no next time, so the time of its last change is shown.
fn line(id: TaskId, task: &Task) -> String {
    let at = task.next.unwrap_or(task.changed);
    let again = every::shown(&task.recurrence).map_or_else(String::new, |again| format!("recur={again} "));
    let prompt: String = task.prompt.chars().take(PROMPT_CHARS).collect();
    format!("- {id} [{}] at={at} {again}→ {prompt}", word(task))
}

#[cfg(test)]
mod tests {
    use crate::model::message::MessageState;
    use crate::model::time::{Millis, Timestamp};
    use crate::requests::tasks::*;
    use crate::rows::messages;
    use crate::scene::Scene;

    const A: AgentId = AgentId::new(1);

    fn add(scene: &Scene, number: u32) {
        scene.done(|tx, _| {
            let new = NewTask {
                agent: A,
                home: TaskHome::Maintenance,
                prompt: format!("{number} {}", "ä".repeat(100)),
                script: None,
                reply: None,
                // Tasks that are added later have earlier times.
                first: Some(Timestamp::from_millis(0).plus(Millis::days(2_000 - number)).to_string()),
                recurrence: None,
                missed: Missed::default(),
                overlap: Overlap::default(),
                origin: TaskOrigin::Operator,
                allow: Vec::new(),
            };
            let added = change::command(tx, TaskCommand::Add(Box::new(new)), Some(A))?;
            Ok(added.map(|_| Vec::new()))
        });
    }

    fn tell(scene: &Scene, command: TaskCommand) {
        scene.done(|tx, _| Ok(change::command(tx, command, Some(A))?.map(|_| Vec::new())));
    }

    fn fail(scene: &Scene, id: TaskId) {
        scene.done(|tx, _| {
            let message = tx.db.tasks.require(tx, &id)?.running.unwrap();
            let failed = MessageState::Failed { error: "no model".to_owned(), at: tx.now.wall };
            messages::end(tx, message, failed, Vec::new()).map(|_| Ok(Vec::new()))
        });
    }

    fn listed(scene: &Scene, agent: AgentId, status: Option<&str>) -> Vec<String> {
        let mut text = String::new();
        scene.done(|tx, _| {
            text = list(tx, agent, status)?;
            Ok(Ok(Vec::new()))
        });
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn tasks_are_listed_by_their_time_and_state() {
        let scene = Scene::new();
        for number in 1..=5 {
            add(&scene, number);
        }
        tell(&scene, TaskCommand::Pause(TaskId::new(2)));
        tell(&scene, TaskCommand::Cancel(TaskId::new(3)));
        // A manual run that fails does not affect the task. A one-time task is over after its run, even if the run
        // failed.
        tell(&scene, TaskCommand::Run(TaskId::new(4)));
        fail(&scene, TaskId::new(4));
        scene.jump(Timestamp::from_millis(0).plus(Millis::days(1_995)));
        scene.done(|tx, _| crate::schedule::run::due(tx).map(|()| Ok(Vec::new())));
        fail(&scene, TaskId::new(5));
        let words = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| line.split(" at=").next().unwrap().to_owned()).collect()
        };
        assert_eq!(words(&listed(&scene, A, None)), ["- ta4 [pending]", "- ta2 [paused]", "- ta1 [pending]"]);
        assert_eq!(words(&listed(&scene, A, Some("paused"))), ["- ta2 [paused]"]);
        assert_eq!(words(&listed(&scene, A, Some("cancelled"))), ["- ta3 [cancelled]"]);
        assert_eq!(words(&listed(&scene, A, Some("failed"))), ["- ta5 [failed]"]);
        for (agent, status) in [(A, "completed"), (A, "nonsense"), (AgentId::new(2), "cancelled")] {
            assert_eq!(listed(&scene, agent, Some(status)), ["No tasks found."]);
        }
        let line = listed(&scene, A, Some("paused")).remove(0);
        assert_eq!(line, format!("- ta2 [paused] at=1975-06-22T00:00:00.000Z → 2 {}", "ä".repeat(78)));
    }

    #[test]
    fn a_long_list_is_cut_at_its_end_and_says_so() {
        let scene = Scene::new();
        for number in 1..=203 {
            add(&scene, number);
        }
        let lines = listed(&scene, A, None);
        assert_eq!(lines.len(), 201);
        assert!(lines[0].starts_with("- ta203 ") && lines[199].starts_with("- ta4 "), "{lines:?}");
        assert_eq!(lines[200], "(3 more are not shown)");
    }
}
