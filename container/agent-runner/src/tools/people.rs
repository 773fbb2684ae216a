//! The tool for questions to people. Pure.

use std::time::Duration;

use serde_json::Value;

use super::address::conversation;
use super::arguments::Arguments;
use super::plan::{AcceptedReply, PlannedCall};
use crate::report::Scene;

/// Default and maximum timeout of a question in seconds.
const SECONDS: f64 = 300.0;
const MOST_SECONDS: f64 = 24.0 * 60.0 * 60.0;
/// Additional time for the host to report that a question was not answered.
const GRACE: Duration = Duration::from_secs(60);

pub(super) fn ask_user_question(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let arguments = &arguments.for_people();
    let options = arguments.given("options").and_then(Value::as_array).filter(|options| !options.is_empty());
    let (Some(_), Some(_), Some(options)) = (arguments.filled("title"), arguments.filled("question"), options) else {
        return Err("title, question, and options are required".to_owned());
    };
    if let Some(wrong) = options.iter().find(|option| label(option).is_none()) {
        let wrong: String = wrong.to_string().chars().take(100).collect();
        return Err(format!("an option is a text, or an object with a label: {wrong}"));
    }
    let seconds = match arguments.given("timeout") {
        None => SECONDS,
        Some(value) => value.as_f64().filter(|seconds| *seconds >= 1.0).ok_or("timeout is a number of seconds")?,
    }
    .min(MOST_SECONDS);
    let place = conversation(scene)?;
    let waits = Duration::from_secs_f64(seconds);
    let mut fields = arguments.pick(&["title", "question", "options"]);
    fields.insert("timeout".to_owned(), seconds.into());
    let mut plan =
        PlannedCall::request("ask_user_question", fields, scene, AcceptedReply::Choice { seconds: waits.as_secs() });
    (plan.post.target, plan.post.in_reply_to) = (place.target, place.in_reply_to);
    plan.patience = waits.saturating_add(GRACE);
    Ok(plan)
}

/// The label of a button.
fn label(option: &Value) -> Option<&str> {
    let label = option.as_str().or_else(|| option.get("label")?.as_str());
    label.filter(|label| !label.trim().is_empty())
}
