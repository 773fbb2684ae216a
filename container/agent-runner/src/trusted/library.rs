//! The commands' functions for the tools in this process, which know their directories and need messages instead of
//! exit codes.

use std::time::Duration;

use super::End;
use super::options::Usage;
use super::{clock_now, daily, discovery, mute, time};

pub(crate) use super::json::{Json, Object, Text};
pub(crate) use super::places::Places;
pub(crate) use super::skip::Summary;
pub(crate) use super::state_file::Edit;

/// Parses JSON.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Json, String> {
    super::json::parse(text).map_err(|why| why.to_string())
}

/// Changes the state file under its lock.
///
/// # Errors
/// Why it was not changed.
pub(crate) fn change_state<T>(
    places: &Places,
    wait: Duration,
    edit: impl FnOnce(&mut Object) -> Result<Edit<T>, String>,
) -> Result<T, String> {
    let mut file = places.state();
    file.wait = wait.min(file.wait);
    file.change(edit).map_err(|why| why.to_string())
}

/// Mutes a thread. Returns whether it was not muted before.
///
/// # Errors
/// If the list of threads has an unknown format.
pub(crate) fn mute(state: &mut Object, thread: &Text, note: Option<Json>) -> Result<Edit<bool>, String> {
    mute::add(state, thread, note)
}

/// Unmutes a thread. Returns whether it was muted.
///
/// # Errors
/// If the list of threads has an unknown format.
pub(crate) fn unmute(state: &mut Object, thread: &Text) -> Result<Edit<bool>, String> {
    mute::remove(state, thread)
}

/// Appends a line to today's log: the group's own or, with the group's name, that of all trusted agents.
///
/// # Errors
/// Why it was not appended.
pub(crate) fn log(places: &Places, text: &str, group: Option<&str>) -> Result<String, String> {
    let time = time::shown(clock_now(), "%H:%M");
    let (target, option, dir) = match group {
        None => ("group", "--group-daily", Some(places.group("memory/daily"))),
        Some(_) => ("trusted", "--trusted-daily", places.trusted("memory/daily")),
    };
    let group = group.map(|group| format!(" [{group}]")).unwrap_or_default();
    let line = format!("--line=- {time} UTC{group} \u{2014} {text}");
    let dir = dir.ok_or_else(|| words(super::not_trusted()))?;
    let place = format!("{option}={}", dir.display());
    daily::main(&["--target".to_owned(), target.to_owned(), line, place]).map_err(words)?;
    Ok(format!("It is in the log of today in {}.", dir.display()))
}

/// Records a finding: text, context, and where to keep it.
///
/// # Errors
/// Why it was not recorded.
pub(crate) fn discover(places: &Places, [what, context, promote_to]: [&str; 3]) -> Result<String, String> {
    let file = places.trusted("memory/daily_discoveries.md").ok_or_else(|| words(super::not_trusted()))?;
    let options = [
        format!("--what={what}"),
        format!("--context={context}"),
        format!("--promote-to={promote_to}"),
        format!("--discoveries-file={}", file.display()),
    ];
    discovery::main(&options).map_err(words)?;
    Ok(format!("It is among the discoveries in {}.", file.display()))
}

fn words(end: End) -> String {
    match end {
        End::Usage(Usage::Wrong(why)) => why.replace("--", ""),
        End::Usage(Usage::Help) => "it was used wrongly".to_owned(),
        End::Failed(why) | End::Found(_, why) => why,
    }
}
