//! Scheduled tasks. The host keeps them, reads times and rhythms in the agent's zone, and has the words for what became of
//! a request; here is only looked at what was given. Pure.

use std::time::Duration;

use serde_json::Value;

use super::arguments::Arguments;
use super::plan::{Plan, Told};
use crate::report::Scene;

/// How long the host may take when only it can say what became of a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// What can be changed about a task: an empty text takes away a rhythm or a script.
const CHANGES: [&str; 4] = ["prompt", "recurrence", "processAfter", "script"];

pub(super) fn schedule_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    let (Some(_), Some(after)) = (arguments.filled("prompt"), arguments.filled("processAfter")) else {
        return Err("prompt and processAfter are required".to_owned());
    };
    let mut fields = arguments.pick(&["prompt"]);
    fields.insert("processAfter".to_owned(), after.trim().into());
    for key in ["recurrence", "script"] {
        if let Some(value) = arguments.filled(key) {
            fields.insert(key.to_owned(), value.trim().into());
        }
    }
    Ok(Plan { patience: PATIENCE, ..Plan::request("schedule_task", fields, scene, Told::OnlyWords) })
}

pub(super) fn list_tasks(arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    let fields = arguments.pick(&["status"]);
    Ok(Plan { patience: PATIENCE, ..Plan::request("list_tasks", fields, scene, Told::OnlyWords) })
}

pub(super) fn update_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    let id = arguments.filled("taskId").ok_or("taskId is required")?.trim();
    // What is no text is no change.
    let texts = CHANGES.iter().filter_map(|key| Some(((*key).to_owned(), arguments.string(key)?.trim())));
    let mut fields: serde_json::Map<String, Value> = texts
        .filter(|(key, text)| !text.is_empty() || ["recurrence", "script"].contains(&key.as_str()))
        .map(|(key, text)| (key, if text.is_empty() { Value::Null } else { text.into() }))
        .collect();
    if fields.is_empty() {
        return Err("at least one field to update is required".to_owned());
    }
    fields.insert("taskId".to_owned(), id.into());
    let told = Told::Words(format!("Task update requested: {id}"));
    Ok(Plan::request("update_task", fields, scene, told))
}

pub(super) fn cancel_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    about("cancel_task", "Task cancellation requested", arguments, scene)
}

pub(super) fn pause_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    about("pause_task", "Task pause requested", arguments, scene)
}

pub(super) fn resume_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    about("resume_task", "Task resume requested", arguments, scene)
}

fn about(action: &str, told: &str, arguments: &Arguments, scene: &Scene<'_>) -> Result<Plan, String> {
    let id = arguments.filled("taskId").ok_or("taskId is required")?.trim();
    let mut fields = serde_json::Map::new();
    fields.insert("taskId".to_owned(), id.into());
    Ok(Plan::request(action, fields, scene, Told::Words(format!("{told}: {id}"))))
}
