//! Points at which the daemon dies in tests.

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
