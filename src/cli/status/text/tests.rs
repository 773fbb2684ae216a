//! Tests of the text of `hearth status`.

use super::*;
use crate::cli::status::{MessageCounts, OutboundCounts, places};
use crate::cli::tasks;
use crate::cli::watch::{ansi, sample};

const NOW: &str = "2026-05-01T12:00:00.000Z";

fn status() -> Status {
    let agent = |folder: &str, provider: &str, waiting| AgentStatus {
        folder: folder.to_owned(),
        provider: provider.to_owned(),
        waiting,
        unconfined: false,
        confinement: "confined",
    };
    Status {
        data: "/home/ann/.local/share/hearth".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        timezone_from: "TZ".to_owned(),
        daemon: None,
        daemon_problem: None,
        agents: vec![agent("main", "claude", 4), agent("ops", "codex", 0)],
        chats: 3,
        sessions: 5,
        channels: Vec::new(),
        places: places::Slots::default(),
        incarnations: Vec::new(),
        messages: MessageCounts {
            total: 120,
            due: 4,
            claimed: 1,
            scheduled: 0,
            backing_off: 1,
            over_budget: 0,
            context: 7,
        },
        outbound: OutboundCounts { total: 80, undelivered: 5, ..OutboundCounts::default() },
        dropped: 2,
        approvals: ApprovalCounts { open: 1, unsent: 1, held: 2 },
        oldest_pending: None,
        store: StoreStatus { used_bytes: 4_000_000, limit_bytes: 64_000_000_000, ..StoreStatus::default() },
        check: None,
        backup: None,
        held_off: Vec::new(),
        frozen: Vec::new(),
        failed_starts: Vec::new(),
        budgets: Vec::new(),
        tasks: tasks::TaskCounts::default(),
        warnings: Vec::new(),
    }
}

fn shown(view: &View, screen: Option<usize>, coloured: bool) -> String {
    let lines = lines(&status(), view, screen, Timestamp::parse(NOW).unwrap());
    lines.iter().map(|line| crate::cli::print::painted(line, coloured) + "\n").collect()
}

#[test]
fn status_has_decisions_first_then_problems_then_work() {
    insta::assert_snapshot!("all", shown(&sample(), Some(100), false));
    let text = shown(&sample(), None, false);
    let at = |heading: &str| text.find(heading).unwrap_or_else(|| panic!("{heading} in {text}"));
    let headings = ["TO DECIDE", "PROBLEMS", "AGENTS AT WORK", "TASKS", "UNSENT", "INSTALLATION"];
    assert!(headings.map(at).is_sorted(), "{text}");
    // All of it is seen at once on a screen of 30 rows.
    assert!(shown(&sample(), Some(100), false).lines().count() < 30);
}

#[test]
fn status_without_a_daemon_says_how_to_start_one_and_that_states_are_old() {
    let view = View { daemon: None, ..sample() };
    let text = shown(&view, None, false);
    assert!(text.starts_with("no daemon is running: start one with"), "{text}");
    assert!(
        text.contains("was running") && !text.contains("working, uses Bash") && text.contains("0 working"),
        "{text}"
    );
    let view = View { trouble: Some("the daemon does not answer".to_owned()), ..view };
    assert!(shown(&view, None, false).starts_with("the daemon does not answer\n"));
}

#[test]
fn status_with_nothing_to_say_has_no_empty_lists() {
    let text = shown(&View::default(), None, false);
    assert!(!text.contains("(0)") && text.contains("no message waits") && text.contains("INSTALLATION"), "{text}");
}

#[test]
fn long_lists_are_cut_and_name_the_command_that_shows_all() {
    let mut view = sample();
    view.tasks = view.tasks.iter().cycle().take(LINES_MAX + 3).cloned().collect();
    assert!(shown(&view, None, false).contains("  3 more: `hearth tasks list`"));
}

/// On a screen it scrolls off, the most important numbers are shown once more.
#[test]
fn what_is_to_decide_is_repeated_below_a_long_status() {
    assert_eq!(closing(&sample(), 30, Some(31)), None);
    assert_eq!(closing(&sample(), 30, None), None);
    assert_eq!(closing(&View::default(), 30, Some(30)), None);
    let line = closing(&sample(), 30, Some(30)).unwrap();
    assert!(crate::cli::print::painted(&line, false).contains("2 to decide"), "{line:?}");
}

#[test]
fn status_uses_at_most_8_colours_each_with_a_word() {
    let text = shown(&sample(), Some(100), true);
    ansi::assert_colours_have_words(&text);
    let without: String = ansi::runs(&text).into_iter().map(|(_, text)| text + " ").collect();
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&without), squeezed(&shown(&sample(), Some(100), false)));
}
