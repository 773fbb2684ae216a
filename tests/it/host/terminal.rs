//! A terminal that outlives the daemon, and what it must have shown.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::raw::Raw;
use super::{Host, event};

/// Messages that a terminal was shown: text by id.
pub(crate) type Shown = Mutex<BTreeMap<String, String>>;

/// Id and text of all messages to the terminal that did not fail.
pub(crate) fn to_be_shown(host: &Host) -> BTreeMap<String, String> {
    let sent = |row: &Value| row["value"]["state"].get("Abandoned").is_none();
    let place = json!({"channel": "terminal", "platform_id": "main"});
    let here = |row: &Value| {
        let (to, act) = (&row["value"]["to"], &row["value"]["act"]);
        act == "Say" && ["channel", "platform_id"].iter().all(|part| to[part] == place[part])
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = host.rows("outbound").into_iter().filter(sent).filter(here);
    rows.map(|row| (text(&row["key"][0]), text(&row["value"]["text"]))).collect()
}

/// Whether a message needs no more work.
pub(crate) fn is_over(row: &Value) -> bool {
    let state = &row["value"]["state"];
    row["value"]["trigger"] == json!(false) || state.get("Completed").or(state.get("Failed")).is_some()
}

pub(crate) fn terminal_event(id: &str) -> Value {
    let mut event = event(id, id);
    event["channelType"] = "terminal".into();
    event["platformId"] = "main".into();
    event
}

/// A terminal that reconnects whenever the daemon restarts, shows each message once and confirms it.
pub(crate) fn watch(data: &Path, shown: &Shown, over: &AtomicBool) {
    let mut raw: Option<Raw> = None;
    while !over.load(Ordering::SeqCst) {
        let Some(terminal) = &mut raw else {
            raw = Raw::try_attach(data);
            if raw.is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
            continue;
        };
        match terminal.try_hear() {
            Ok(None) => {}
            Ok(Some(heard)) if heard["is"] == "said" => {
                let text = |name: &str| heard[name].as_str().unwrap().to_owned();
                // Without its epoch, the id is that of the row.
                let row = text("id").rsplit('-').next().unwrap().to_owned();
                let before = shown.lock().unwrap().insert(row, text("text"));
                assert!(before.is_none_or(|before| before == text("text")), "an id stands for one message");
                if terminal.say(&json!({"do": "shown", "id": heard["id"]})).is_err() {
                    raw = None;
                }
            }
            Ok(Some(Value::Null)) | Err(_) => raw = None,
            Ok(Some(_)) => {}
        }
    }
}
