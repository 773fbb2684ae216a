//! Points at which the daemon dies in tests.

use std::collections::BTreeSet;
use std::path::Path;

/// Points of the daemon, and the visits at which it dies there. Visits that a cell may not reach are not listed.
pub(crate) const POINTS: [(&str, u32); 23] = [
    ("none", 0),
    ("taken", 1),
    ("taken", 3),
    ("committed", 1),
    ("committed", 2),
    ("committed", 3),
    ("committed", 5),
    ("performed", 1),
    ("collected-rest", 1),
    ("launch", 1),
    ("launch-exported", 1),
    ("launched", 1),
    ("runtime-event", 1),
    ("export", 1),
    ("exported", 1),
    ("collected", 1),
    ("collected", 2),
    ("attempted", 1),
    ("delivered", 1),
    ("discard", 1),
    ("discarded-half", 1),
    ("discarded", 1),
    ("stopped-agents", 1),
];

/// Steps of a look at which the daemon dies.
pub(crate) const STATE_FILE_POINTS: [&str; 5] =
    ["state-locked", "state-read", "state-merged", "state-renamed", "state-marked"];

/// Chooses the points at which to crash, counted from 1, and reports which are omitted.
pub(crate) fn pick(what: &str, points: &[String], most: usize) -> Vec<usize> {
    let names: BTreeSet<&String> = points.iter().collect();
    if let Some(k) = std::env::var("HEARTH_POINT").ok().and_then(|k| k.parse().ok()) {
        return vec![k];
    }
    if std::env::var_os("HEARTH_ALL_POINTS").is_some() || points.len() <= most {
        return (1..=points.len()).collect();
    }
    let stride = points.len().div_ceil(most);
    let (all, kinds) = (points.len(), names.len());
    eprintln!(
        "NOT ALL POINTS: of {all} ({kinds} kinds) of {what} every {stride}th is one of a death; HEARTH_ALL_POINTS=1 takes \
         all of them"
    );
    (1..=all).step_by(stride).collect()
}

/// The names of the points that were reached.
pub(crate) fn passed(notes: &Path) -> Vec<String> {
    std::fs::read_to_string(notes).unwrap().lines().map(str::to_owned).collect()
}
