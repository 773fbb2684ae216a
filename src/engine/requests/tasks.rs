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
use crate::model::task::{Missed, NewTask, Overlap, Task, TaskCommand, TaskHome, TaskOrigin, TaskState};
use crate::state::Write;
use crate::time::every;
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
    let again = every::shown(&task.recurrence).map_or_else(String::new, |again| format!(", recurrence: {again}"));
    format!("Task scheduled (id: {id}, runs at: {at}{again})")
}

/// One line for each task that is not over, or of those in one state, by their time. Those that are over are kept for a
/// while only.
fn list(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, status: Option<&str>) -> Result<String> {
    let all = status.is_some_and(|status| OVER.contains(&status));
    let mut found = if all { over(cx, txn, agent)? } else { open(cx, txn, agent)? };
    found.retain(|(_, task)| status.is_none_or(|status| status == word(task)));
    found.sort_by_key(|(id, task)| (task.next, *id));
    let more = found.len().saturating_sub(LISTED_MAX);
    let mut lines: Vec<String> = found.iter().take(LISTED_MAX).map(|(id, task)| line(*id, task)).collect();
    if more > 0 {
        lines.push(format!("({more} more are not shown)"));
    }
    Ok(if lines.is_empty() { "No tasks found.".to_owned() } else { lines.join("\n") })
}

fn open(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Vec<(TaskId, Task)>> {
    let ids = cx.db.tasks_by_agent.collect_prefix(txn, &agent, usize::MAX)?;
    ids.into_iter().map(|((_, id), ())| Ok((id, cx.db.tasks.require(txn, &id)?))).collect()
}

fn over(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Vec<(TaskId, Task)>> {
    let mut all = cx.db.tasks.collect_range(txn, .., usize::MAX)?;
    all.retain(|(_, task)| task.agent == agent && !task.state.is_open());
    Ok(all)
}

/// Words for tasks that are over.
const OVER: [&str; 3] = ["completed", "failed", "cancelled"];

/// The state of a task in the words of the tool.
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

/// What is over has no time to come: the one at which it ended is shown.
fn line(id: TaskId, task: &Task) -> String {
    let at = task.next.unwrap_or(task.changed);
    let again = every::shown(&task.recurrence).map_or_else(String::new, |again| format!("recur={again} "));
    let prompt: String = task.prompt.chars().take(PROMPT_CHARS).collect();
    format!("- {id} [{}] at={at} {again}→ {prompt}", word(task))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::messages;
    use crate::engine::scene::Scene;
    use crate::model::message::MessageState;
    use crate::model::time::{Millis, Timestamp};

    const A: AgentId = AgentId::new(1);

    fn add(scene: &Scene, number: u32) {
        scene.done(|cx, txn, after| {
            let new = NewTask {
                agent: A,
                home: TaskHome::Maintenance,
                prompt: format!("{number} {}", "ä".repeat(100)),
                script: None,
                reply: None,
                // The later it is made, the earlier it comes.
                first: Some(Timestamp::from_millis(0).plus(Millis::days(2_000 - number)).to_string()),
                recurrence: None,
                missed: Missed::default(),
                overlap: Overlap::default(),
                origin: TaskOrigin::Operator,
            };
            let added = schedule::command(cx, txn, (TaskCommand::Add(Box::new(new)), Some(A)), &mut after.effects)?;
            Ok(added.map(|_| Vec::new()))
        });
    }

    fn tell(scene: &Scene, command: TaskCommand) {
        scene.done(|cx, txn, after| {
            Ok(schedule::command(cx, txn, (command, Some(A)), &mut after.effects)?.map(|_| Vec::new()))
        });
    }

    fn fail(scene: &Scene, id: TaskId) {
        scene.done(|cx, txn, after| {
            let message = cx.db.tasks.require(txn, &id)?.running.unwrap();
            let failed = MessageState::Failed { error: "no model".to_owned(), at: cx.now.wall };
            messages::end(cx, txn, message, (failed, Vec::new()), &mut after.effects).map(|_| Ok(Vec::new()))
        });
    }

    fn listed(scene: &Scene, agent: AgentId, status: Option<&str>) -> Vec<String> {
        let mut text = String::new();
        scene.done(|cx, txn, _| {
            text = list(cx, txn, agent, status)?;
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
        // A run by hand fails and changes nothing; the one that comes once is over, however it ended.
        tell(&scene, TaskCommand::Run(TaskId::new(4)));
        fail(&scene, TaskId::new(4));
        scene.jump(Timestamp::from_millis(0).plus(Millis::days(1_995)));
        scene.done(|cx, txn, after| schedule::due(cx, txn, &mut after.effects).map(|()| Ok(Vec::new())));
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
