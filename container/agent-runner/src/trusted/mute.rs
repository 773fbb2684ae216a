//! `mute`: the threads in the state file that the owner does not want to hear of.

use super::json::{self, Json, Object, Text};
use super::options::{Options, Usage};
use super::places::Places;
use super::state_file::Edit;
use super::{End, say};

/// The command line of `mute add`.
pub(crate) const OPTIONS: Options = Options {
    tool: "mute",
    usage: "usage: hearth-runner mute add THREAD [--value JSON] | mute remove THREAD | mute list\n\
        changes muted_threads in session-state.json under its lock; without --value a new entry is `true`",
    values: &["--value"],
    flags: &[],
};

const FIELD: &str = "muted_threads";

/// Changes or prints the muted threads.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = Places::of_process(OPTIONS.tool).state();
    let failed = |why: super::state_file::StateError| End::Failed(why.to_string());
    match words.as_slice() {
        ["-h" | "--help", ..] | ["add" | "remove", "-h" | "--help", ..] => Err(Usage::Help.into()),
        ["list"] => {
            let state = file.known().map_err(failed)?.unwrap_or_default();
            Ok(state.get(FIELD).cloned().unwrap_or_else(|| Json::Object(Object::default())))
        }
        ["add" | "remove", ""] | ["add", "", ..] => Err(Usage::wrong("THREAD must not be empty").into()),
        ["add", thread, rest @ ..] => {
            let value = value(rest)?;
            let thread = Text::new(thread);
            let changed = file.change(|state| add(state, &thread, value)).map_err(failed)?;
            Ok(done(thread, changed))
        }
        ["remove", thread] => {
            let thread = Text::new(thread);
            let changed = file.change(|state| remove(state, &thread)).map_err(failed)?;
            if !changed {
                say(OPTIONS.tool, format_args!("{} was not muted", thread.shown()));
            }
            Ok(done(thread, changed))
        }
        _ => Err(Usage::wrong("there are `mute add THREAD`, `mute remove THREAD`, `mute list`").into()),
    }
}

fn done(thread: Text, changed: bool) -> Json {
    Json::object([("thread", Json::Text(thread)), ("changed", Json::Bool(changed))])
}

fn value(words: &[&str]) -> Result<Option<Json>, Usage> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let given = OPTIONS.read(&words)?;
    let Some(text) = given.value("--value") else { return Ok(None) };
    let wrong = |why: &dyn std::fmt::Display| {
        Usage::wrong(format!("argument --value: not JSON: {why}; texts need quotation marks"))
    };
    // New values must be standard JSON, for readers that do not accept `NaN`.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|why| wrong(&why))?;
    json::parse(text).map(Some).map_err(|why| wrong(&why))
}

/// Mutes a thread. An existing entry is only replaced if a value is given.
///
/// # Errors
/// If the list of threads has an unknown format.
pub(crate) fn add(state: &mut Object, thread: &Text, value: Option<Json>) -> Result<Edit<bool>, String> {
    if !matches!(state.get(FIELD), None | Some(Json::Null | Json::Object(_))) {
        return Err(strange(state));
    }
    let (Some(threads), _) = state.object_mut(FIELD) else { return Err(strange(state)) };
    let known = threads.get(thread);
    if known.is_some() && (value.is_none() || known == value.as_ref()) {
        return Ok(Edit::Keep(false));
    }
    threads.set(thread.clone(), value.unwrap_or(Json::Bool(true)));
    Ok(Edit::Write(true))
}

/// Unmutes a thread.
///
/// # Errors
/// If the list of threads has an unknown format.
pub(crate) fn remove(state: &mut Object, thread: &Text) -> Result<Edit<bool>, String> {
    match state.get(FIELD) {
        None | Some(Json::Null) => Ok(Edit::Keep(false)),
        Some(Json::Object(_)) => {
            let removed = state.object_mut(FIELD).0.and_then(|threads| threads.remove(thread));
            Ok(if removed.is_some() { Edit::Write(true) } else { Edit::Keep(false) })
        }
        Some(_) => Err(strange(state)),
    }
}

fn strange(state: &Object) -> String {
    let kind = state.get(FIELD).map_or("nothing", json::kind);
    format!("{FIELD} is not an object (type {kind}); left as it is; the program that wrote it has to change it")
}
