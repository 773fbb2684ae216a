use super::*;
use crate::{Empty, Named, Place, ShutDown, ToBridge};

fn read(text: &str) -> Result<Option<FromBridge>, BadFrame> {
    FromBridge::read(text.as_bytes())
}

#[test]
fn frames_of_bridges_are_read_by_the_key_that_names_them() {
    for (text, expected) in [
        (r#"{"ready":{"protocol":1,"program":"p 1","new":2}}"#, "Ready"),
        (r#"{"failed":{"why":"x","until":"changed"}}"#, "Failed"),
        (r#"{"seq":1,"event":{"sender":{"id":"a"},"platformId":"c","message":{}}}"#, "Event"),
        (r#"{"wanted":{"platformId":"c"},"seq":2}"#, "Wanted"),
        (r#"{"action":{"button":"b","userId":"u","platformId":"c"},"seq":3}"#, "Action"),
        (r#"{"event":{"platformId":"c"},"seq":1,"cursors":{"a":"1"}}"#, "Event"),
        (r#"{"cursor":{"a":"2"},"seq":4}"#, "Cursor"),
        (r#"{"begun":{"id":"ob1","attempt":1}}"#, "Begun"),
        (r#"{"outcome":{"id":"ob1","attempt":1,"result":"delivered","messageId":"m"}}"#, "Outcome"),
        (r#"{"opened":{"seq":1,"why":"nobody"}}"#, "Opened"),
        (r#"{"pong":4,"heard":"2026-01-01T00:00:00Z","down":null}"#, "Pong"),
    ] {
        let frame = read(text).unwrap().unwrap();
        assert!(format!("{frame:?}").starts_with(expected), "{text}: {frame:?}");
        let again = FromBridge::read(&frame.line()).unwrap().unwrap();
        assert_eq!(format!("{again:?}"), format!("{frame:?}"));
    }
}

#[test]
fn what_is_unknown_is_ignored_and_what_is_wrong_is_named() {
    for text in [r#"{}"#, r#"{"news":1}"#, r#"{"\u0072eady":1}"#] {
        assert!(read(text).unwrap().is_none(), "{text}");
    }
    for (text, expected) in [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"ready":{}}"#, "`ready` is not usable: missing field `protocol`"),
        (r#"{"event":{}}"#, "`seq` is missing"),
        (r#"{"event":{},"seq":-1}"#, "`event` is not usable"),
        (r#"{"outcome":{"id":"a","attempt":1,"result":"lost"}}"#, "unknown variant `lost`"),
        (&format!("{{\"ready\":{}{}}}", "[".repeat(100), "]".repeat(100)), "deeper than 100"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert_eq!(FromBridge::read(b"\xff").unwrap_err(), BadFrame::NotText);
}

#[test]
fn frames_of_the_daemon_have_one_meaning() {
    let place = || Place { platform_id: "c".to_owned(), thread_id: None };
    let frames = [
        ToBridge::Taken { taken: 1, report: Some(serde_json::json!({"outcome": "routed"})) },
        ToBridge::Later { later: 1, after: 5, why: "full".to_owned() },
        ToBridge::Refused { refused: 1, why: "no".to_owned() },
        ToBridge::Wanted { wanted: 1, yes: true },
        ToBridge::Pressed { pressed: 1, decided: true, text: "done".to_owned() },
        ToBridge::Typing { typing: place() },
        ToBridge::Subscribe { subscribe: place() },
        ToBridge::OpenDirect { open_direct: Named { user_id: "u".to_owned() }, seq: 1 },
        ToBridge::Ping { ping: 1 },
        ToBridge::StopTaking { stop_taking: Empty {} },
        ToBridge::ShutDown { shut_down: ShutDown { within: 5 } },
    ];
    for frame in frames {
        let line = frame.line();
        let again = ToBridge::read(&line).unwrap();
        assert_eq!(format!("{again:?}"), format!("{frame:?}"), "{}", String::from_utf8_lossy(&line));
    }
    assert!(ToBridge::read(br#"{"newer":{}}"#).is_none());
}

#[test]
fn a_greeting_does_not_show_its_secrets() {
    let text = r#"{"hello":{"protocol":[1],"channel":"c","settings":{},"secrets":{"token":"hush"},"files":"/f",
        "limits":{"frame":1,"file":1,"unacked":1}}}"#;
    let frame = ToBridge::read(text.as_bytes()).unwrap();
    assert!(!format!("{frame:?}").contains("hush"));
}
