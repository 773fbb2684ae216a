//! The same work for the tools of this process, which know their directories and want words back.

use std::time::Duration;

use super::End;
use super::options::Usage;
use super::{clock_now, daily, discovery, mute, time};

pub(crate) use super::json::{Json, Object, Text};
pub(crate) use super::places::Places;
pub(crate) use super::skip::Summary;
pub(crate) use super::state_file::Edit;

/// Reads JSON.
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

/// Mutes a thread; tells whether that is new.
///
/// # Errors
/// That the threads are in a form which only its writer knows.
pub(crate) fn mute(state: &mut Object, thread: &Text, note: Option<Json>) -> Result<Edit<bool>, String> {
    mute::add(state, thread, note)
}

/// Ends the muting of a thread; tells whether there was one.
///
/// # Errors
/// That the threads are in a form which only its writer knows.
pub(crate) fn unmute(state: &mut Object, thread: &Text) -> Result<Edit<bool>, String> {
    mute::remove(state, thread)
}

/// Adds a line to the log of this day: the group's own, or, with the name of the group, that of all trusted agents.
///
/// # Errors
/// Why it was not added.
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

/// Notes a discovery: what, where it comes from, where it should be kept.
///
/// # Errors
/// Why it was not noted.
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
