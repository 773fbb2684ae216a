//! Parses requests about scheduled tasks. The host's own clock code validates times and recurrences later.

use super::{Fields, filled, string};
use crate::model::id::TaskId;
use crate::model::request::TaskRequest;
use crate::model::task_command::{Patch, TaskChange};

/// Parses an agent's request about its tasks.
pub(super) fn request(content: &Fields) -> Result<TaskRequest, String> {
    match string(content, "action") {
        Some("schedule_task") => schedule(content),
        Some("list_tasks") => Ok(TaskRequest::List(filled(content, "status").map(str::to_owned))),
        Some("update_task") => update(content),
        Some("cancel_task") => task(content).map(TaskRequest::Cancel),
        Some("pause_task") => task(content).map(TaskRequest::Pause),
        _ => task(content).map(TaskRequest::Resume),
    }
}

fn schedule(content: &Fields) -> Result<TaskRequest, String> {
    let (Some(prompt), Some(first)) = (filled(content, "prompt"), filled(content, "processAfter")) else {
        return Err("prompt and processAfter are required".to_owned());
    };
    Ok(TaskRequest::Schedule {
        prompt: prompt.to_owned(),
        first: first.to_owned(),
        recurrence: filled(content, "recurrence").map(str::to_owned),
        script: filled(content, "script").map(str::to_owned),
    })
}

/// An empty or `null` recurrence or script removes it.
fn update(content: &Fields) -> Result<TaskRequest, String> {
    let id = task(content)?;
    let given = |key: &str| match (content.contains_key(key), filled(content, key)) {
        (false, _) => Patch::Keep,
        (true, None) => Patch::Clear,
        (true, Some(text)) => Patch::Set(text.to_owned()),
    };
    let change = TaskChange {
        prompt: filled(content, "prompt").map(str::to_owned),
        script: given("script"),
        reply: Patch::Keep,
        next: filled(content, "processAfter").map(str::to_owned),
        recurrence: given("recurrence"),
        missed: None,
        overlap: None,
    };
    if change == TaskChange::default() {
        return Err("at least one field to update is required".to_owned());
    }
    Ok(TaskRequest::Update(id, Box::new(change)))
}

fn task(content: &Fields) -> Result<TaskId, String> {
    let text = filled(content, "taskId").ok_or("taskId is required")?;
    text.trim().parse().map_err(|_| format!("there is no task {}", super::text::reason(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<TaskRequest, String> {
        let Value::Object(fields) = value else { panic!() };
        request(&fields)
    }

    #[test]
    fn what_is_missing_is_named_and_what_is_empty_is_taken_away() {
        for (content, problem) in [
            (json!({"action": "schedule_task", "processAfter": "2026-01-15"}), "prompt and processAfter are required"),
            (
                json!({"action": "schedule_task", "prompt": "x", "processAfter": 7}),
                "prompt and processAfter are required",
            ),
            (json!({"action": "update_task", "prompt": "x"}), "taskId is required"),
            (json!({"action": "update_task", "taskId": "ta1"}), "at least one field to update is required"),
            (json!({"action": "pause_task", "taskId": "task-9"}), "there is no task task-9"),
        ] {
            assert_eq!(read(content.clone()), Err(problem.to_owned()), "{content}");
        }
        let update = json!({"action": "update_task", "taskId": "ta7", "recurrence": "", "script": null});
        let Ok(TaskRequest::Update(id, change)) = read(update) else { panic!() };
        assert_eq!(
            (id, change.recurrence, change.script, change.prompt),
            (TaskId::new(7), Patch::Clear, Patch::Clear, None)
        );
        assert_eq!(read(json!({"action": "resume_task", "taskId": "ta2"})), Ok(TaskRequest::Resume(TaskId::new(2))));
    }
}
