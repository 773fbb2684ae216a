//! Heartbeat, state and continuations.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::json;

use crate::mailbox::Mailboxes;
use crate::model::incarnation::ToolUse;
use crate::model::mailbox::{Beat, Observation, ObservedState};
use crate::model::secrets::Secrets;
use crate::model::time::Millis;

use super::{Place, SESSION};

fn beat(incarnation: u32, beat: u64) -> String {
    json!({ "v": 1, "incarnation": incarnation, "beat": beat }).to_string()
}

fn state(incarnation: u32, progress: u64, tool: Option<(&str, &str)>) -> String {
    let tool = tool.map(|(name, start)| json!({ "name": name, "timeout_ms": 5_000, "started_at": start }));
    json!({ "v": 1, "incarnation": incarnation, "progress": progress, "last_progress": "", "tool": tool }).to_string()
}

fn observed(tool: Option<ToolUse>, progress: bool, about: Option<u64>) -> Option<ObservedState> {
    Some(ObservedState { tool, progress, about })
}

fn seen(place: &Place, incarnation: u32) -> Option<(bool, Option<ObservedState>)> {
    seen_in(place, incarnation, true)
}

/// The observation of a look that did or did not read everything.
fn seen_in(place: &Place, incarnation: u32, wholly: bool) -> Option<(bool, Option<ObservedState>)> {
    let sight = place.mailboxes.observe(SESSION, incarnation).unwrap().unwrap();
    place.mailboxes.note(sight, wholly).map(|Observation { session, incarnation: who, beat, state }| {
        assert_eq!((session, who), (SESSION, incarnation));
        (beat == Beat::NOW, state)
    })
}

/// A runner that sends heartbeats is alive, even if its other files could not be read. Its activity is reported once,
/// by the look that reads the rest.
#[test]
fn a_look_that_could_not_take_all_in_tells_the_beat_only() {
    let place = Place::new();
    place.write("heartbeat", beat(1, 1));
    place.write("state.json", state(1, 1, None));
    assert_eq!(seen_in(&place, 1, false), Some((true, None)));
    assert_eq!(seen_in(&place, 1, false), None, "nothing is news twice");
    place.write("heartbeat", beat(1, 2));
    assert_eq!(seen(&place, 1), Some((true, observed(None, true, None))));
    assert_eq!(seen_in(&place, 1, false), None);
    assert_eq!(seen(&place, 1), None, "what was told before a look that failed is not told again");
}

#[test]
fn only_changes_are_told() {
    let place = Place::new();
    assert_eq!(seen(&place, 1), None);
    place.write("heartbeat", beat(1, 1));
    assert_eq!(seen(&place, 1), Some((true, None)));
    assert_eq!(seen(&place, 1), None);
    place.write("state.json", state(1, 0, None));
    assert_eq!(seen(&place, 1), None, "nothing has happened yet");
    place.write("state.json", state(1, 1, None));
    assert_eq!(seen(&place, 1), Some((false, observed(None, true, None))));
    let tool = Some(ToolUse { name: "Shell".to_owned(), timeout: Some(Millis::new(5_000)) });
    place.write("state.json", state(1, 1, Some(("Shell", "t1"))));
    assert_eq!(seen(&place, 1), Some((false, observed(tool.clone(), false, None))));
    place.write("state.json", state(1, 1, Some(("Shell", "t2"))));
    place.write("heartbeat", beat(1, 2));
    assert_eq!(seen(&place, 1), Some((true, observed(tool, false, None))));
    place.write("state.json", state(1, 2, None));
    assert_eq!(seen(&place, 1), Some((false, observed(None, true, None))));
    assert_eq!(seen(&place, 1), None);
    place.write("state.json", r#"{"v":1,"incarnation":1,"progress":3,"last_progress":"","about":7}"#);
    assert_eq!(seen(&place, 1), Some((false, observed(None, true, Some(7)))));
    place.write("state.json", r#"{"v":1,"incarnation":1,"progress":3,"last_progress":"","about":8}"#);
    assert_eq!(seen(&place, 1), None, "that more was claimed is no progress");
}

#[test]
fn a_beat_tells_how_long_its_runner_rests() {
    let place = Place::new();
    let told = |text: &str| {
        place.write("heartbeat", text);
        let sight = place.mailboxes.observe(SESSION, 1).unwrap().unwrap();
        place.mailboxes.note(sight, true).map(|news| news.beat)
    };
    assert_eq!(told(&beat(1, 1)), Some(Beat::NOW));
    let rest = r#"{"v":1,"incarnation":1,"beat":2,"rest_ms":600000}"#;
    assert_eq!(told(rest), Some(Beat::resting(Millis::minutes(10))));
    assert_eq!(told(rest), None);
    assert_eq!(told(&beat(1, 3)), Some(Beat::NOW));
}

#[test]
fn other_incarnations_say_nothing() {
    let place = Place::new();
    place.write("heartbeat", beat(1, 7));
    place.write("state.json", state(3, 7, None));
    assert_eq!(seen(&place, 2), None);
    place.write("heartbeat", beat(2, 7));
    assert!(seen(&place, 2).is_some_and(|(beat, _)| beat));
    place.write("heartbeat", beat(3, 7));
    assert!(seen(&place, 3).is_some_and(|(beat, state)| beat && state.is_some()), "a new one begins anew");
    assert_eq!(seen(&place, 3), None);
    place.mailboxes.forget(SESSION);
    assert!(seen(&place, 3).is_some());
}

#[test]
fn nonsense_is_no_sign_of_life() {
    let place = Place::new();
    for text in ["", "{", "null", "{}", r#"{"v":2,"incarnation":1,"beat":1}"#, r#"{"v":1,"incarnation":1,"beat":-1}"#] {
        place.write("heartbeat", text);
        place.write("state.json", text);
        assert_eq!(seen(&place, 1), None, "{text}");
    }
    std::fs::remove_file(place.agent("heartbeat")).unwrap();
    symlink(place.outside().join("secret.json"), place.agent("heartbeat")).unwrap();
    std::fs::remove_file(place.agent("state.json")).unwrap();
    std::fs::create_dir(place.agent("state.json")).unwrap();
    assert_eq!(seen(&place, 1), None);
    place.write("session.json", vec![b' '; 2_000_000]);
    assert!(place.mailboxes.continuations(SESSION).unwrap().is_empty());
}

#[test]
fn a_long_tool_name_is_cut() {
    let place = Place::new();
    place.write("state.json", state(1, 1, Some((&"x".repeat(100_000), ""))));
    let Some((_, Some(ObservedState { tool: Some(tool), .. }))) = seen(&place, 1) else { panic!() };
    assert_eq!(tool.name.chars().count(), 201);
}

/// The text is the agent's: it is cut, stays on one line, cannot command a terminal and has no secrets, not even parts
/// of one at its edges.
#[test]
fn a_text_that_is_not_complete_is_made_safe() {
    let place = Place::new();
    let write = |incarnation: u32, text: &str| {
        let writing = json!({ "in_reply_to": 4, "text": text });
        let state =
            json!({ "v": 1, "incarnation": incarnation, "progress": 1, "last_progress": "", "writing": writing });
        place.write("state.json", state.to_string());
    };
    let read = || place.mailboxes.writing(SESSION, 1).unwrap().map(|writing| (writing.in_reply_to, writing.text));
    assert_eq!(read(), None);
    write(2, "of another incarnation");
    assert_eq!(read(), None);
    write(1, "one\n\u{1b}[2J\ttwo\u{9b}1m\u{7}");
    assert_eq!(read(), Some((4, "one [2J two1m".to_owned())));
    write(1, &format!("begin{}", "ü".repeat(400_000)));
    assert_eq!(read(), Some((4, "ü".repeat(2_000))));
    let mut secrets = Secrets::default();
    secrets.add("KEY", b"sk-ant-0123456789");
    place.mailboxes.hide(SESSION, Arc::new(secrets));
    write(1, "456789 is the end of sk-ant-\u{1b}0123456789, and sk-ant-01");
    assert_eq!(read(), Some((4, " is the end of [secret KEY], and ".to_owned())));
    let big = "x".repeat(1_100_000);
    for writing in [
        json!("text"),
        json!({ "text": "x" }),
        json!({ "in_reply_to": -1, "text": "x" }),
        json!({ "in_reply_to": 4, "text": big }),
    ] {
        let state = json!({ "v": 1, "incarnation": 1, "progress": 1, "last_progress": "", "writing": writing });
        place.write("state.json", state.to_string());
        assert_eq!(read(), None);
    }
    let start = r#"{"v":1,"incarnation":1,"progress":1,"last_progress":"","writing":{"in_reply_to":4,"text":""#;
    place.write("state.json", [start.as_bytes(), b"\xff\"}}"].concat());
    assert_eq!(read(), None, "malformed UTF-8");
    std::fs::remove_file(place.agent("state.json")).unwrap();
    symlink(place.outside().join("secret.json"), place.agent("state.json")).unwrap();
    assert_eq!(read(), None);
}

#[test]
fn continuations_are_bounded() {
    let place = Place::new();
    assert!(place.mailboxes.continuations(SESSION).unwrap().is_empty());
    place.write("session.json", r#"{"v":1,"incarnation":1,"continuations":{"claude":"abc","echo":""}}"#);
    let continuations = place.mailboxes.continuations(SESSION).unwrap();
    assert_eq!(continuations.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(), ["claude=abc", "echo="]);
    let many: std::collections::BTreeMap<String, String> =
        (0..1_000).map(|n| (format!("p{n}"), "x".repeat(if n % 2 == 0 { 4_096 } else { 4_097 }))).collect();
    let text = json!({ "v": 1, "incarnation": 1, "continuations": many }).to_string();
    assert!(text.len() > 1_048_576);
    place.write("session.json", &text);
    assert!(place.mailboxes.continuations(SESSION).unwrap().is_empty());
    let some: serde_json::Map<String, serde_json::Value> =
        many.into_iter().take(100).map(|(k, v)| (k, v.into())).chain([("x".repeat(65), "y".into())]).collect();
    place.write("session.json", json!({ "v": 1, "incarnation": 1, "continuations": some }).to_string());
    let continuations = place.mailboxes.continuations(SESSION).unwrap();
    assert_eq!(continuations.len(), 16);
    assert!(continuations.values().all(|text| text.len() == 4_096));
}

/// Continuations from another host are stored before the first runner, and never replace those of a runner.
#[test]
fn continuations_are_noted_once() {
    let place = Place::new();
    let sessions = place.mailboxes.path(SESSION).parent().unwrap().to_owned();
    let of = |text: &str| BTreeMap::from([("claude".to_owned(), text.to_owned())]);
    assert_eq!(Mailboxes::noted(&sessions, SESSION).unwrap(), None);
    assert!(Mailboxes::seed(&sessions, SESSION, of("a")).unwrap());
    assert!(!Mailboxes::seed(&sessions, SESSION, of("b")).unwrap());
    assert_eq!(Mailboxes::noted(&sessions, SESSION).unwrap(), Some(of("a")));
    assert_eq!(place.mailboxes.continuations(SESSION).unwrap(), of("a"));
    place.write("session.json", "nonsense");
    assert_eq!(Mailboxes::noted(&sessions, SESSION).unwrap(), Some(BTreeMap::new()));
    assert!(!Mailboxes::seed(&sessions, SESSION, of("b")).unwrap(), "it is the agent's");
}
