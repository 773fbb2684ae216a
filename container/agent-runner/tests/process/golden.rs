//! The golden files of the contract, from both sides.

use std::fs;
use std::path::Path;

use hearth_wire::{RULES_VERSION, WIRE_VERSION};
use serde_json::Value;

use crate::bench::{Bench, names, wait_for};

fn fixture(name: &str) -> Value {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/fixtures");
    serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap()
}

fn timeless(mut value: Value) -> Value {
    for field in ["at", "last_progress"] {
        if value.get(field).is_some() {
            value[field] = "whenever".into();
        }
    }
    value
}

#[test]
fn the_golden_message_has_the_golden_answer() {
    let mut bench = Bench::new("echo");
    bench.context = serde_json::from_value(fixture("context-minimal.json")).unwrap();
    bench.place("host/context.json", &fixture("context-minimal.json"));
    bench.place("host/in/0000000000000012.json", &fixture("in-message.json"));
    let _runner = bench.start();
    bench.ended(12);
    let written = |inside: &str| timeless(bench.read(inside).unwrap());
    assert_eq!(written("agent/ack/12.3.processing.json"), timeless(fixture("ack-processing.json")));
    assert_eq!(written("agent/ack/12.3.completed.json"), timeless(fixture("ack-completed.json")));
    assert_eq!(written("agent/out/3-13-12.json"), fixture("out-message.json"));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&written("agent/heartbeat")), keys(&fixture("heartbeat.json")));
    assert_eq!(keys(&written("agent/session.json")), keys(&fixture("session.json")));
    let mut idle = fixture("state.json");
    idle.as_object_mut().unwrap().remove("tool");
    wait_for("what happened in the turn", || (keys(&written("agent/state.json")) == keys(&idle)).then_some(()));
    assert_eq!(bench.state().unwrap().about, Some(12));
}

#[test]
fn the_golden_failure() {
    let mut bench = Bench::new("echo");
    bench.context = serde_json::from_value(fixture("context-minimal.json")).unwrap();
    bench.publish();
    let mut message = fixture("in-message.json");
    message["content"]["text"] = "!fail no model".into();
    bench.place("host/in/0000000000000012.json", &message);
    let _runner = bench.start();
    bench.ended(12);
    assert_eq!(timeless(bench.read("agent/ack/12.3.failed.json").unwrap()), timeless(fixture("ack-failed.json")));
}

/// A file of a future version is refused, whatever it contains.
#[test]
fn files_of_the_next_version_are_refused() {
    let of = |version: u32, name: &str| {
        let mut value = fixture(name);
        value["v"] = version.into();
        value
    };
    let newer = |name: &str| of(WIRE_VERSION + 1, name);
    let mut bench = Bench::new("echo");
    bench.context = serde_json::from_value(fixture("context-minimal.json")).unwrap();
    bench.place("host/context.json", &of(RULES_VERSION + 1, "context-minimal.json"));
    let mut runner = bench.start();
    assert_eq!(runner.wait().code(), Some(2));
    assert!(runner.stderr().contains("hearth image build"), "{}", runner.stderr());
    assert!(names(&bench.session("agent/ack")).is_empty());
    bench.publish();
    bench.place("host/in/0000000000000012.json", &newer("in-message.json"));
    // Files of the agent's own half are created again instead.
    for (path, name) in [("agent/session.json", "session.json"), ("agent/out/3-13-12.json", "out-message.json")] {
        bench.place(path, &newer(name));
    }
    let runner = bench.start();
    let error = bench.ended(12).error.unwrap();
    assert!(error.contains("version 2"), "{error}");
    assert!(runner.stderr().contains("conversations begin anew"), "{}", runner.stderr());
    bench.say(14, "hello");
    let ack = bench.ended(14);
    assert_eq!(ack.out[0].as_str(), "3-15-14", "what cannot be read is not written over");
}
