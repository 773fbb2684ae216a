//! One suite for every provider: what each of them has to do through the real daemon. The table of results is part of
//! docs/providers.md; with `HEARTH_UPDATE_DOCS=1` the test writes it.
//!
//! Real agents take part if `HEARTH_TEST_AGENTS` names the directory in which `.ci/agents.sh` installed them.

mod subjects;

use serde_json::Value;

use self::subjects::{Step, Subject, Trial, Trouble};
use crate::host::documents::generated;
use crate::host::wait_for;

struct Case {
    name: &'static str,
    /// What must hold.
    holds: &'static str,
    run: fn(&mut Trial),
}

const CASES: [Case; 12] = [
    Case { name: "first turn", holds: "the answer arrives", run: first_turn },
    Case { name: "tools", holds: "Hearth's tools work, and their messages come before the answer", run: tools },
    Case { name: "follow-up", holds: "a message that arrives during a turn is answered, too", run: follow_up },
    Case {
        name: "killed in a turn",
        holds: "after a `kill -9` the turn is repeated, and answered once",
        run: killed_in_a_turn,
    },
    Case { name: "killed after a turn", holds: "after a `kill -9` the conversation goes on", run: killed_after_a_turn },
    Case { name: "stale resume", holds: "an agent that lost its conversation begins a new one", run: stale_resume },
    Case { name: "no login (401)", holds: "the message fails with a reason", run: no_login },
    Case { name: "rate limit (429)", holds: "the message waits, and costs no try", run: rate_limited },
    Case { name: "trouble (500)", holds: "the message is tried again", run: in_trouble },
    Case { name: "cut answer", holds: "half an answer never reaches people", run: cut },
    Case { name: "silence", holds: "a turn without a sign ends when a person stops it", run: silence },
    Case { name: "huge answer", holds: "100,000 letters arrive whole", run: huge },
];

/// The case of malformed lines, which only programs of the tests can write.
const MALFORMED: Case = Case { name: "malformed line", holds: "it is ignored, and the answer arrives", run: malformed };

fn cases() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(std::iter::once(&MALFORMED))
}

fn first_turn(trial: &mut Trial) {
    trial.say(&[Step::Say("hello")]);
    assert_eq!(trial.settled(), ["hello"]);
}

fn tools(trial: &mut Trial) {
    trial.say(&[Step::Send("at once"), Step::Say("done")]);
    let said = trial.settled();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0] == "at once" && said[1].ends_with("done"), "{said:?}");
}

fn follow_up(trial: &mut Trial) {
    trial.say(&[Step::Hold, Step::Say("one")]);
    trial.wait_claimed();
    trial.say(&[Step::Say("two")]);
    trial.release();
    let said = trial.settled().join(" ");
    assert!(said.contains("one") && said.contains("two"), "{said}");
}

fn killed_in_a_turn(trial: &mut Trial) {
    trial.say(&[Step::Hold, Step::Say("once")]);
    trial.wait_claimed();
    trial.host.kill();
    trial.release();
    trial.host.start();
    assert_eq!(trial.settled(), ["once"]);
}

fn killed_after_a_turn(trial: &mut Trial) {
    trial.say(&[Step::Say("one")]);
    trial.settled();
    let before = trial.continuation();
    assert!(before.is_some());
    trial.host.kill();
    trial.host.start();
    trial.say(&[Step::Say("two")]);
    assert_eq!(trial.settled(), ["one", "two"]);
    assert_eq!(trial.continuation(), before);
}

fn stale_resume(trial: &mut Trial) {
    trial.say(&[Step::Say("one")]);
    trial.settled();
    trial.host.stop();
    trial.forget();
    trial.host.start();
    trial.say(&[Step::Say("two")]);
    let said = trial.settled();
    // Some say that they have lost it.
    assert_eq!(
        (said.first().map(String::as_str), said.last().map(String::as_str)),
        (Some("one"), Some("two")),
        "{said:?}"
    );
}

fn no_login(trial: &mut Trial) {
    trial.trouble(Trouble::Login);
    trial.settled();
    let state = trial.host.states().pop().unwrap();
    let why = state["Failed"]["error"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("not logged in"), "{state}");
}

fn rate_limited(trial: &mut Trial) {
    trial.trouble(Trouble::Limited);
    wait_for("the rate limit", || (!trial.host.rows("hold_offs").is_empty()).then_some(()));
    let state = trial.host.states().pop().unwrap();
    assert!(state.get("Pending").is_some(), "{state}");
    assert_eq!(trial.answers(), Vec::<String>::new());
}

fn in_trouble(trial: &mut Trial) {
    trial.trouble(Trouble::Overloaded);
    wait_for("another try", || tried_again(&trial.host.states().pop()?));
    assert_eq!(trial.answers(), Vec::<String>::new());
}

/// Agents that ask their model again themselves may even answer.
fn cut(trial: &mut Trial) {
    trial.trouble(Trouble::Cut);
    wait_for("the end of the try", || {
        let state = trial.host.states().pop()?;
        tried_again(&state).or((state.get("Failed").is_some() || state.get("Completed").is_some()).then_some(()))
    });
    let said = trial.answers();
    assert!(said.iter().all(|text| !text.ends_with("half")), "{said:?}");
}

fn tried_again(state: &Value) -> Option<()> {
    state["Pending"].get("Retry").map(|_| ())
}

fn silence(trial: &mut Trial) {
    trial.say(&[Step::Hold, Step::Say("never")]);
    trial.wait_claimed();
    trial.host.done(&["agents", "stop", "main"], b"");
    let said = trial.settled();
    assert!(said.iter().all(|text| !text.contains("never")), "{said:?}");
    trial.release();
    trial.say(&[Step::Say("well")]);
    let said = trial.settled();
    assert_eq!(said.last().map(String::as_str), Some("well"), "{said:?}");
}

fn huge(trial: &mut Trial) {
    trial.say(&[Step::Huge(100_000)]);
    let said = trial.settled().concat();
    assert_eq!((said.len(), said.trim_matches('x')), (100_000, ""));
}

fn malformed(trial: &mut Trial) {
    trial.say(&[Step::Garbage, Step::Say("well")]);
    assert_eq!(trial.settled(), ["well"]);
}

/// Runs all cases that hold for a subject.
fn conform(subject: Subject) {
    let mut failed = Vec::new();
    for case in cases().filter(|case| subject.exempt(case.name).is_none()) {
        let Some(mut trial) = Trial::new(subject) else { return };
        let run = std::panic::AssertUnwindSafe(|| (case.run)(&mut trial));
        if std::panic::catch_unwind(run).is_err() {
            failed.push(case.name);
        }
    }
    assert!(failed.is_empty(), "{} does not pass: {failed:?}", subject.name());
}

#[test]
fn claude() {
    conform(Subject::Claude);
}

#[test]
fn acp() {
    conform(Subject::Acp);
}

#[test]
fn command() {
    conform(Subject::Command);
}

#[test]
fn openai() {
    conform(Subject::OpenAi);
}

#[test]
fn real_agents() {
    subjects::installed().into_iter().for_each(conform);
}

fn table() -> String {
    let subjects = subjects::all();
    let names: Vec<String> = subjects.iter().map(|subject| format!("`{}`", subject.name())).collect();
    let mut text =
        format!("\n| case | what must hold | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let mut notes: Vec<&str> = Vec::new();
    for case in cases() {
        text.push_str(&format!("| {} | {} |", case.name, case.holds));
        for subject in &subjects {
            match subject.exempt(case.name) {
                None => text.push_str(" yes |"),
                Some(why) => {
                    let known = notes.iter().position(|note| *note == why);
                    let number = known.unwrap_or_else(|| {
                        notes.push(why);
                        notes.len() - 1
                    });
                    text.push_str(&format!(" [{}] |", number + 1));
                }
            }
        }
        text.push('\n');
    }
    text.push('\n');
    for (number, note) in notes.iter().enumerate() {
        text.push_str(&format!("* [{}]: {note}\n", number + 1));
    }
    text
}

#[test]
fn the_page_shows_the_results() {
    generated("docs/providers.md", "results: generated from tests/it/conformance", "results", &table());
}
