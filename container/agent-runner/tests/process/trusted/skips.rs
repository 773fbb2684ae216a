//! `skip emit` and `mute`.

use std::fs;

use serde_json::{Value, json};

use super::{Place, mode};

const FILE: &str = ".skip-summary-tessl__check-cfps.json";

fn emit(extra: &[&'static str]) -> Vec<&'static str> {
    let base = ["skip", "emit", "--skill", "tessl__check-cfps", "--step", "tier3", "--reason", "nightly budget"];
    base.into_iter().chain(extra.iter().copied()).collect()
}

#[test]
fn a_summary_has_exactly_seven_fields() {
    let place = Place::new();
    let ran = place.run(&emit(&["--item", "cfp-1", "--item", "cfp-0", "--technical"]), &[], "");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let path = place.path(FILE).display().to_string();
    assert_eq!(ran.json(), json!({"path": path, "skill": "tessl__check-cfps", "replaced": false}));
    assert_eq!(place.names(), [FILE]);
    assert_eq!(mode(&place.path(FILE)), 0o644);
    let text = place.text(FILE);
    let summary: Value = serde_json::from_str(&text).unwrap();
    let at = summary["occurred_at"].as_str().unwrap();
    assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
    let wanted = format!(
        "{{\n  \"schema_version\": 1,\n  \"skill\": \"tessl__check-cfps\",\n  \"step\": \"tier3\",\n  \"reason\": \"nightly budget\",\n  \"items\": [\n    \"cfp-1\",\n    \"cfp-0\"\n  ],\n  \"technical_failure\": true,\n  \"occurred_at\": \"{at}\"\n}}"
    );
    assert_eq!(text, wanted);
    let ran = place.run(&emit(&["--step", "7"]), &[], "");
    assert_eq!(ran.json()["replaced"], true);
    let summary: Value = serde_json::from_str(&place.text(FILE)).unwrap();
    assert_eq!(
        (&summary["step"], &summary["items"], &summary["technical_failure"]),
        (&json!(7), &json!([]), &json!(false))
    );
}

#[test]
fn what_nobody_would_read_is_not_written() {
    let long = "x".repeat(4097);
    for (option, value) in [
        ("--skill", "check-cfps"),
        ("--skill", "tessl__"),
        ("--skill", "tessl__../x"),
        ("--skill", "tessl__a/b"),
        ("--skill", "tessl__A"),
        ("--skill", "tessl__a--b"),
        ("--skill", "tessl__-a"),
        ("--skill", ""),
        ("--step", " \t"),
        ("--reason", ""),
        ("--reason", " \u{2003}"),
        ("--reason", "a\nb"),
        ("--reason", "a\rb"),
        ("--reason", "a\u{2028}b"),
        ("--reason", "a\u{b}b"),
        ("--reason", &long),
        ("--item", ""),
        ("--item", "same"),
        ("--unknown", "x"),
    ] {
        let place = Place::new();
        let mut words = emit(&["--item", "same"]);
        words.extend([option, value]);
        let ran = place.run(&words, &[], "");
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{option} {value:?}: {}", ran.err);
        assert!(ran.err.contains("usage: ") && ran.err.contains(option), "{}", ran.err);
        assert!(place.names().is_empty());
    }
    let place = Place::new();
    for words in
        [&["skip"][..], &["skip", "drop"], &["skip", "emit"], &["skip", "emit", "--skill", "tessl__a", "--step", "1"]]
    {
        assert_eq!(place.run(words, &[], "").code, Some(2), "{words:?}");
    }
    fs::create_dir(place.path(FILE)).unwrap();
    let ran = place.run(&emit(&[]), &[], "");
    assert_eq!((ran.code, ran.out.as_str(), place.names().len()), (Some(1), "", 1));
    assert!(ran.err.starts_with("skip: failed to write /"), "{}", ran.err);
}

#[test]
fn threads_are_muted_among_everything_else() {
    let place = Place::new();
    place.put(
        "session-state.json",
        r#"{"x": 1e5, "muted_threads": {"b": {"until": "\ud800"}}, "schema_version": 1, "y": [1, 2]}"#,
    );
    let run = |words: &[&str]| {
        let ran = place.run(&[&["mute"], words].concat(), &[], "");
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.err);
        ran.json()
    };
    assert_eq!(run(&["add", "-100:7"]), json!({"thread": "-100:7", "changed": true}));
    assert_eq!(run(&["add", "-100:7"]), json!({"thread": "-100:7", "changed": false}));
    assert_eq!(run(&["add", "c", "--value", r#"{"until": null}"#]), json!({"thread": "c", "changed": true}));
    assert_eq!(run(&["add", "c", "--value={\"until\": null}"]), json!({"thread": "c", "changed": false}));
    assert_eq!(run(&["remove", "-100:7"]), json!({"thread": "-100:7", "changed": true}));
    assert_eq!(run(&["remove", "-100:7"]), json!({"thread": "-100:7", "changed": false}));
    let listed = place.run(&["mute", "list"], &[], "").out;
    assert_eq!(listed, "{\"b\": {\"until\": \"\\ud800\"}, \"c\": {\"until\": null}}\n");
    let squeezed = place.text("session-state.json").split_whitespace().collect::<Vec<_>>().concat();
    let wanted =
        r#"{"x":1e5,"muted_threads":{"b":{"until":"\ud800"},"c":{"until":null}},"schema_version":1,"y":[1,2]}"#;
    assert_eq!(squeezed, wanted);
    let stamp = place.stamp("session-state.json");
    run(&["remove", "nobody"]);
    assert_eq!(place.stamp("session-state.json"), stamp);
}

#[test]
fn the_first_mute_makes_the_file_and_registration_keeps_it() {
    let place = Place::new();
    assert_eq!(place.run(&["mute", "list"], &[], "").out, "{}\n");
    assert!(place.names().is_empty());
    assert_eq!(place.run(&["mute", "add", "t"], &[], "").code, Some(0));
    assert_eq!(place.state(), json!({"muted_threads": {"t": true}, "schema_version": 1}));
    place.run(&["register-session"], &[], "");
    assert_eq!(place.state()["muted_threads"], json!({"t": true}));
}

#[test]
fn a_mute_never_harms_what_it_does_not_understand() {
    for (content, words) in [
        (r#"{"schema_version": 2}"#, "has schema_version 2"),
        ("nope", "is malformed"),
        ("[]", "is not an object"),
        (r#"{"muted_threads": ["a"]}"#, "muted_threads is not an object (type list)"),
        (r#"{"muted_threads": 7}"#, "muted_threads is not an object (type int)"),
    ] {
        let place = Place::new();
        place.put("session-state.json", content);
        for command in [&["mute", "add", "t"][..], &["mute", "remove", "t"]] {
            let ran = place.run(command, &[], "");
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{content}");
            assert!(ran.err.contains(words), "{}", ran.err);
            assert_eq!(place.text("session-state.json"), content);
        }
    }
    let place = Place::new();
    for words in [
        &["mute"][..],
        &["mute", "add"],
        &["mute", "add", ""],
        &["mute", "add", "t", "--value", "x"],
        &["mute", "add", "t", "--value", "NaN"],
        &["mute", "list", "t"],
        &["mute", "remove", "t", "u"],
    ] {
        assert_eq!(place.run(words, &[], "").code, Some(2), "{words:?}");
        assert!(place.names().is_empty());
    }
}
