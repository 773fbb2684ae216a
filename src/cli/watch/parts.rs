//! Texts and colours that the live view and `hearth status` share. Pure.

use super::view::{DaemonView, Kind, Messages, PromptView, QueueView, SessionState, SessionView, TaskView, View};
use crate::cli::labels;
use crate::cli::print::{Piece, Tone};
use crate::model::configure::RuntimeKind;
use crate::model::time::{Millis, Timestamp};

pub(in crate::cli) const ASKED: &str = "TO DECIDE";
pub(in crate::cli) const PROBLEMS: &str = "PROBLEMS";
pub(in crate::cli) const SESSIONS: &str = "AGENTS AT WORK AND RECENT CHATS";
pub(in crate::cli) const SESSION_NAMES: &[&str] = &["AGENT", "CHAT", "STATE", "LAST MESSAGE", "AGE"];
pub(in crate::cli) const TASKS: &str = "TASKS";
pub(in crate::cli) const TASK_NAMES: &[&str] = &["TASK", "AGENT", "NEXT RUN", "PROMPT"];
pub(in crate::cli) const UNSENT: &str = "UNSENT";
pub(in crate::cli) const NO_DAEMON: &str = "no daemon is running: start one with `hearth run` or `hearth up`";

/// The state of the daemon.
pub(in crate::cli) fn headline(view: &View) -> Piece {
    let (text, tone) = match (&view.daemon, &view.trouble) {
        (Some(daemon), _) => daemon_words(daemon),
        (None, Some(trouble)) => (trouble.clone(), Tone::Bad),
        (None, None) => (NO_DAEMON.to_owned(), Tone::Bad),
    };
    Piece::of(text, tone).bold()
}

fn daemon_words(daemon: &DaemonView) -> (String, Tone) {
    let agents = if daemon.runtime == RuntimeKind::Process.as_str() { "as processes" } else { "in containers" };
    let state = if daemon.draining { "is STOPPING: it waits for work in progress" } else { "is running" };
    let tone = if daemon.draining { Tone::Warning } else { Tone::Good };
    (format!("hearth {} {state} · agents run {agents}", daemon.version), tone)
}

/// Messages on their way, without zeros.
pub(in crate::cli) fn message_words(messages: &Messages) -> String {
    let counts = [
        (messages.due, "queued"),
        (messages.claimed, "in progress"),
        (messages.backing_off, "retrying"),
        (messages.scheduled, "scheduled"),
        (messages.undelivered, "unsent"),
    ];
    let words: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "no message waits".to_owned() } else { format!("messages: {}", words.join(", ")) }
}

/// The three most important numbers.
pub(in crate::cli) fn summary(view: &View) -> [Piece; 3] {
    let part = |count: usize, words: &str, tone: Tone| match count {
        0 => Piece::of(format!("0 {words}"), Tone::Quiet),
        _ => Piece::of(format!("{count} {words}"), tone).bold(),
    };
    let problems = if view.warnings.len() == 1 { "problem" } else { "problems" };
    [
        part(view.asked.len(), "to decide", Tone::Warning),
        part(view.warnings.len(), problems, Tone::Bad),
        part(view.working(), "working", Tone::Good),
    ]
}

/// The heading of a list with its number of lines. An empty list has no colour.
pub(in crate::cli) fn heading(text: &str, count: impl TryInto<u64>, tone: Tone) -> Piece {
    let count = count.try_into().unwrap_or(u64::MAX);
    Piece::of(format!("{text} ({count})"), if count == 0 { Tone::Plain } else { tone }).bold()
}

/// An approval or question: its id, its beginning, when it expires.
pub(in crate::cli) fn asked(one: &PromptView, now: Timestamp) -> [Piece; 3] {
    [one.id.clone(), asked_words(one), format!("expires {}", ahead(&one.expires, now))].map(Piece::plain)
}

fn asked_words(one: &PromptView) -> String {
    let options = one.options.iter().enumerate().map(|(at, (label, _))| format!("{} {label}", at.saturating_add(1)));
    match one.kind {
        Kind::Approval => one.summary.clone(),
        Kind::Question => format!("{} [{}]", one.about, options.collect::<Vec<_>>().join(", ")),
    }
}

/// A session under [`SESSION_NAMES`]. Without a daemon, only its last known phase is shown.
pub(in crate::cli) fn session(one: &SessionView, has_daemon: bool, now: Timestamp) -> [Piece; 5] {
    let state = if has_daemon || one.incarnation.is_none() {
        Piece::of(doing(one, now), tone_of(one.state()))
    } else {
        Piece::of(format!("was {}", one.phase_words), Tone::Warning)
    };
    let last = one.last.clone().unwrap_or_default();
    [
        Piece::plain(one.agent.clone()),
        Piece::plain(one.chat.clone()),
        state,
        Piece::plain(last),
        Piece::plain(age(&one.active, now)),
    ]
}

const fn tone_of(state: SessionState) -> Tone {
    match state {
        SessionState::RateLimited | SessionState::Offline | SessionState::Queued | SessionState::Stopping => {
            Tone::Warning
        }
        SessionState::Failing | SessionState::Failed => Tone::Bad,
        SessionState::Working | SessionState::Starting => Tone::Good,
        SessionState::Idle => Tone::Quiet,
    }
}

/// The state of a session, with an explanation.
pub(in crate::cli) fn doing(one: &SessionView, now: Timestamp) -> String {
    let state = one.state();
    let mut words = vec![state.word().to_owned()];
    match (state, &one.held_off) {
        (SessionState::RateLimited | SessionState::Offline, Some(until)) => {
            words.push(format!("next try {}", ahead(until, now)))
        }
        (SessionState::Failing, _) => words.push(format!("{} starts failed", one.failed_starts)),
        (SessionState::Working, _) => {
            words.extend(one.tool.as_ref().map(|tool| format!("uses {tool}")));
        }
        _ => {}
    }
    let says_more = !matches!(state, SessionState::RateLimited | SessionState::Offline);
    words.extend((one.due > 0 && says_more).then(|| format!("{} waiting", one.due)));
    words.join(", ")
}

/// A task under [`TASK_NAMES`].
pub(in crate::cli) fn task(one: &TaskView, now: Timestamp) -> [Piece; 4] {
    let tone = match (one.running, one.paused) {
        (true, _) => Tone::Good,
        (false, true) => Tone::Warning,
        (false, false) => Tone::Plain,
    };
    [
        Piece::plain(one.task.clone()),
        Piece::plain(one.agent.clone()),
        Piece::of(standing(one, now), tone),
        Piece::plain(one.prompt.clone()),
    ]
}

/// The next run of a task, or why it does not run.
pub(in crate::cli) fn standing(one: &TaskView, now: Timestamp) -> String {
    match (&one.next, one.paused, one.running) {
        (_, _, true) => "running".to_owned(),
        (_, true, _) => "paused".to_owned(),
        (Some(next), ..) => ahead(next, now),
        (None, ..) => "done".to_owned(),
    }
}

/// The outgoing queues of a channel.
pub(in crate::cli) fn lane(lane: &QueueView) -> String {
    let sent = (lane.under_way > 0).then(|| format!("{} being sent", lane.under_way));
    let waiting = (lane.waiting > 0).then(|| {
        let why = lane.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{why}", labels::count(lane.waiting, "chat waits", "chats wait"))
    });
    format!("{}: {}", lane.channel, sent.into_iter().chain(waiting).collect::<Vec<_>>().join(", "))
}

pub(in crate::cli) fn age(then: &str, now: Timestamp) -> String {
    Timestamp::parse(then).map(|then| length(now.since(then))).unwrap_or_default()
}

/// Time until an instant.
pub(in crate::cli) fn ahead(then: &str, now: Timestamp) -> String {
    match Timestamp::parse(then) {
        Some(then) if then <= now => "now".to_owned(),
        Some(then) => format!("in {}", length(then.since(now))),
        None => String::new(),
    }
}

/// A duration in its two largest units.
fn length(length: Millis) -> String {
    let seconds = length.get() / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
