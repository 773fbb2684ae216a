//! Tools for scheduled tasks. The host stores tasks, interprets times and recurrences in the agent's time zone, and
//! words the results. This module only checks the arguments. Pure.

use std::time::Duration;

use serde_json::Value;

use super::arguments::Arguments;
use super::plan::{AcceptedReply, PlannedCall};
use crate::report::Scene;

/// How long the host may take if only it can tell the result of a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// The fields of a task that can be changed. An empty text removes a recurrence or a script.
const CHANGES: [&str; 4] = ["prompt", "recurrence", "processAfter", "script"];

pub(super) fn schedule_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
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
    Ok(PlannedCall {
        patience: PATIENCE,
        ..PlannedCall::request("schedule_task", fields, scene, AcceptedReply::OnlyWords)
    })
}

pub(super) fn list_tasks(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let fields = arguments.pick(&["status"]);
    Ok(PlannedCall {
        patience: PATIENCE,
        ..PlannedCall::request("list_tasks", fields, scene, AcceptedReply::OnlyWords)
    })
}

pub(super) fn update_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let id = arguments.filled("taskId").ok_or("taskId is required")?.trim();
    // Anything but a text counts as unchanged.
    let texts = CHANGES.iter().filter_map(|key| Some(((*key).to_owned(), arguments.string(key)?.trim())));
    let mut fields: serde_json::Map<String, Value> = texts
        .filter(|(key, text)| !text.is_empty() || ["recurrence", "script"].contains(&key.as_str()))
        .map(|(key, text)| (key, if text.is_empty() { Value::Null } else { text.into() }))
        .collect();
    if fields.is_empty() {
        return Err("at least one field to update is required".to_owned());
    }
    fields.insert("taskId".to_owned(), id.into());
    let told = AcceptedReply::Words(format!("Task update requested: {id}"));
    Ok(PlannedCall::request("update_task", fields, scene, told))
}

pub(super) fn cancel_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    about("cancel_task", "Task cancellation requested", arguments, scene)
}

pub(super) fn pause_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    about("pause_task", "Task pause requested", arguments, scene)
}

pub(super) fn resume_task(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    about("resume_task", "Task resume requested", arguments, scene)
}

fn about(action: &str, told: &str, arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let id = arguments.filled("taskId").ok_or("taskId is required")?.trim();
    let mut fields = serde_json::Map::new();
    fields.insert("taskId".to_owned(), id.into());
    Ok(PlannedCall::request(action, fields, scene, AcceptedReply::Words(format!("{told}: {id}"))))
}
