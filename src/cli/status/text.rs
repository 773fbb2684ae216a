//! `hearth status` for people: decisions first, then problems, then what runs, then the installation. Pure.

use super::{AgentStatus, ApprovalCounts, PendingStatus, Status, StoreStatus};
use crate::cli::last_backup::BackupStatus;
use crate::cli::last_check::LastCheck;
use crate::cli::print::{Piece, Tone};
use crate::cli::watch::{View, columns, paragraph, parts};
use crate::cli::{budgets, human_size, human_time, labels};
use crate::model::configure::RuntimeKind;
use crate::model::time::Timestamp;

/// Most sessions that are shown in which nothing runs or waits.
const RECENT_MAX: usize = 5;
/// Most lines of a list.
const LINES_MAX: usize = 10;

/// The lines, for a screen of this width or for any.
pub(super) fn lines(status: &Status, view: &View, screen: Option<usize>, now: Timestamp) -> Vec<Vec<Piece>> {
    let mut lines = vec![vec![parts::headline(view)], summary(view)];
    asked(status, view, screen, now, &mut lines);
    if !view.warnings.is_empty() {
        lines.push(vec![parts::heading(parts::PROBLEMS, view.warnings.len(), Tone::Bad)]);
        let words = view.warnings.iter().flat_map(|warning| paragraph(warning, screen));
        lines.extend(words.map(|line| vec![Piece::plain(line)]));
    }
    sessions(view, screen, now, &mut lines);
    if !view.tasks.is_empty() {
        let rows = view.tasks.iter().map(|task| parts::task(task, now).to_vec()).collect();
        let heading = parts::heading(parts::TASKS, view.tasks.len(), Tone::Plain);
        list(&mut lines, heading, Some(parts::TASK_NAMES), rows, screen, "hearth tasks list");
    }
    if !view.lanes.is_empty() {
        let rows = view.lanes.iter().map(|lane| vec![Piece::plain(parts::lane(lane))]).collect();
        let heading = parts::heading(parts::UNSENT, view.messages.undelivered, Tone::Plain);
        list(&mut lines, heading, None, rows, screen, "hearth channels list");
    }
    lines.push(vec![Piece::plain("INSTALLATION".to_owned()).bold()]);
    lines.extend(installation(status).into_iter().map(|line| vec![Piece::plain(format!("  {line}"))]));
    lines
}

/// What to decide and what is wrong, once more, if that has scrolled off a screen of this height.
pub(super) fn closing(view: &View, lines: usize, rows: Option<usize>) -> Option<Vec<Piece>> {
    let is_calm = view.asked.is_empty() && view.warnings.is_empty();
    (!is_calm && rows.is_some_and(|rows| lines >= rows)).then(|| summary(view))
}

fn summary(view: &View) -> Vec<Piece> {
    let mut line = Vec::new();
    for part in parts::summary(view) {
        line.push(part);
        line.push(Piece::plain("   ".to_owned()));
    }
    line.push(Piece::plain(parts::message_words(&view.messages)));
    line
}

/// A list under a heading. `command` shows the lines beyond the limit.
fn list(
    lines: &mut Vec<Vec<Piece>>,
    heading: Piece,
    names: Option<&[&str]>,
    mut rows: Vec<Vec<Piece>>,
    screen: Option<usize>,
    command: &str,
) {
    lines.push(vec![heading]);
    let more = rows.len().saturating_sub(LINES_MAX);
    rows.truncate(LINES_MAX);
    if let Some(names) = names {
        rows.insert(0, names.iter().map(|name| Piece::of((*name).to_owned(), Tone::Quiet)).collect());
    }
    lines.extend(columns(rows, screen));
    if more > 0 {
        lines.push(vec![Piece::of(format!("  {more} more: `{command}`"), Tone::Quiet)]);
    }
}

fn asked(status: &Status, view: &View, screen: Option<usize>, now: Timestamp, lines: &mut Vec<Vec<Piece>>) {
    if view.asked.is_empty() {
        return;
    }
    let rows = view.asked.iter().map(|one| parts::asked(one, now).to_vec()).collect();
    let heading = parts::heading(parts::ASKED, view.asked.len(), Tone::Warning);
    list(lines, heading, None, rows, screen, "hearth approvals list");
    let ApprovalCounts { open, unsent, held } = status.approvals;
    if open == 0 {
        lines.push(vec![Piece::of("  answer with `hearth questions answer ID VALUE`".to_owned(), Tone::Quiet)]);
        return;
    }
    let held = labels::count(held, "message waits", "messages wait");
    let unsent = match unsent {
        0 => String::new(),
        some => format!("; {} not delivered yet", labels::count(some, "card is", "cards are")),
    };
    let words = format!("  {held} for them{unsent}; see `hearth approvals show ID`");
    lines.push(vec![Piece::of(words, Tone::Quiet)]);
}

fn sessions(view: &View, screen: Option<usize>, now: Timestamp, lines: &mut Vec<Vec<Piece>>) {
    let recent = view.recent.iter().take(RECENT_MAX);
    let shown: Vec<_> = view.sessions.iter().chain(recent).collect();
    if shown.is_empty() {
        return;
    }
    let has_daemon = view.daemon.is_some();
    let rows = shown.iter().map(|one| parts::session(one, has_daemon, now).to_vec()).collect();
    let heading = parts::heading(parts::SESSIONS, shown.len(), Tone::Plain);
    list(lines, heading, Some(parts::SESSION_NAMES), rows, screen, "hearth sessions list");
}

fn installation(status: &Status) -> Vec<String> {
    let mut lines: Vec<String> = status.agents.iter().map(agent).collect();
    for channel in &status.channels {
        lines.push(format!("channel: {} ({}) is {}", channel.channel, channel.kind, channel.words()));
    }
    lines.push(format!("agents: {}{}", status.places.words(), runtime(status)));
    lines.extend(building(status));
    if let Some(PendingStatus { message, agent, since, .. }) = &status.oldest_pending {
        lines.push(format!("oldest queued message: {message} for {agent}, {}", human_time::age(since)));
    }
    lines.extend(budgets::lines(&status.budgets, status.messages.over_budget));
    lines.push(format!("data: {}", status.data));
    lines.push(format!("time zone: {} ({})", status.timezone, status.timezone_from));
    let (messages, outgoing) = (status.messages.total, status.outbound.total);
    let dropped = match status.dropped {
        0 => "none dropped".to_owned(),
        some => format!("{some} dropped (`hearth dropped`)"),
    };
    lines.push(format!("messages: {messages} received, {outgoing} outgoing, {dropped}"));
    let StoreStatus { used_bytes, limit_bytes, free_bytes, .. } = &status.store;
    lines.push(format!(
        "store: {} of {} used, {} free on the disk",
        human_size::decimal(*used_bytes),
        human_size::decimal(*limit_bytes),
        human_size::decimal(*free_bytes)
    ));
    lines.extend(status.check.iter().map(LastCheck::line));
    lines.extend(status.backup.iter().map(|backup| format!("last backup: {}", BackupStatus::line(backup))));
    lines
}

fn agent(agent: &AgentStatus) -> String {
    let AgentStatus { folder, provider, confinement, waiting, .. } = agent;
    let waiting = if *waiting > 0 { format!(", {waiting} waiting") } else { String::new() };
    format!("agent: {folder} ({provider}) is {confinement}{waiting}")
}

/// How agents run, and why so.
fn runtime(status: &Status) -> String {
    status.daemon.as_ref().map_or_else(String::new, |daemon| {
        let agents = if daemon.runtime == RuntimeKind::Process.as_str() { "processes" } else { "containers" };
        format!("; agents run as {agents}, because {}", daemon.runtime_why)
    })
}

fn building(status: &Status) -> Vec<String> {
    let builds = status.daemon.iter().flat_map(|daemon| &daemon.builds).filter(|build| build.state == "building");
    builds.map(|build| format!("building: {} for agent {}", build.image, build.agent)).collect()
}

#[cfg(test)]
mod tests;
