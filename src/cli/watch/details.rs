//! Everything about the selected line of the live view. Pure.

use super::parts::{age, ahead, doing, standing};
use super::screen::{Screen, SelectableLine};
use super::view::{Kind, PromptView, SessionView, TaskView};
use crate::cli::human_time;
use crate::model::time::Timestamp;

/// The text of the popup.
pub(super) struct Details {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
}

/// Details of the selected line; none if no line is selected.
pub(super) fn of(screen: &Screen, now: Timestamp) -> Option<Details> {
    match screen.chosen()? {
        SelectableLine::Asked(at) => screen.view.asked.get(at).map(|one| asked(one, now)),
        SelectableLine::Warning(at) => {
            let lines =
                vec![screen.view.warnings.get(at)?.clone(), String::new(), "`hearth doctor` looks further".to_owned()];
            Some(Details { title: "Problem".to_owned(), lines })
        }
        SelectableLine::Session(at) => screen.session(at).map(|one| session(one, now)),
        SelectableLine::Task(at) => screen.view.tasks.get(at).map(|one| task(one, now)),
    }
}

fn asked(one: &PromptView, now: Timestamp) -> Details {
    let mut lines: Vec<String> = one.about.lines().map(str::to_owned).collect();
    lines.push(String::new());
    let options = one.options.iter().enumerate();
    lines.extend(options.map(|(at, (label, _))| format!("{}  {label}", at.saturating_add(1))));
    lines.push(format!("expires {} ({})", human_time::local(&one.expires), ahead(&one.expires, now)));
    lines.push(match one.kind {
        Kind::Approval => format!("a approves, r rejects; `hearth approvals show {}` prints all of it", one.id),
        Kind::Question => "a number answers".to_owned(),
    });
    Details { title: one.id.clone(), lines }
}

fn session(one: &SessionView, now: Timestamp) -> Details {
    let run = one.incarnation.map(|number| {
        let since = one.started.as_deref().map(|started| age(started, now)).unwrap_or_default();
        format!("run {number}: {}, started {since} ago", one.phase_words)
    });
    let last = one.last.as_deref().unwrap_or("none, or its text was removed");
    let lines = vec![
        format!("agent: {}", one.agent),
        format!("chat: {}", one.chat),
        format!("state: {}", doing(one, now)),
        run.unwrap_or_else(|| "no run: the agent starts when a message asks for it".to_owned()),
        format!("messages: {} in progress, {} queued", one.claimed, one.due),
        format!("last message: {last}"),
        format!("arrived: {} ({} ago)", human_time::local(&one.active), age(&one.active, now)),
        String::new(),
        format!(
            "`hearth sessions show {}` shows its runs, `hearth why latest` explains the newest message",
            one.session
        ),
    ];
    Details { title: one.session.clone(), lines }
}

fn task(one: &TaskView, now: Timestamp) -> Details {
    let next = one.next.as_deref().map(|next| format!(" ({})", human_time::local(next))).unwrap_or_default();
    let lines = vec![
        format!("agent: {}", one.agent),
        format!("next run: {}{next}", standing(one, now)),
        format!("prompt: {}", one.prompt),
        String::new(),
        format!("p pauses or resumes it; `hearth tasks history {}` shows its runs", one.task),
    ];
    Details { title: one.task.clone(), lines }
}
