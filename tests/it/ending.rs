//! Orderly stops of agents: their program gets a signal and time, and nothing is lost or sent twice.

use std::time::{Duration, Instant};

use crate::host::beside::failing;
use crate::host::{Host, wait_for};

/// Records how it ends. The first message `work` keeps it busy for ever.
const PROGRAM: &str = r#"
import json, os, signal, sys, time

def note(text):
    with open("ends", "a") as file:
        file.write(text + "\n")

def end(*_):
    note("SIGTERM")
    time.sleep(1.5)
    note("in order")
    os._exit(0)

deaf = os.path.exists("deaf")
signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else end)
for line in sys.stdin:
    turn = json.loads(line)
    text = turn["messages"][0]["content"]["text"]
    if text.startswith("work") and not os.path.exists("worked"):
        open("worked", "w").close()
        print(json.dumps({"type": "tool", "name": "work", "timeout_ms": 600000}), flush=True)
        time.sleep(600)
    print(json.dumps({"type": "say", "text": "done " + text}))
    print(json.dumps({"type": "done"}), flush=True)
note("end of input")
while deaf:
    time.sleep(1)
time.sleep(0.3)
note("in order")
"#;

/// How an agent is stopped, the last output of its program, and whether it works again afterwards.
#[derive(Debug)]
enum Way {
    Restart,
    Change,
    Stop,
}

fn end(host: &mut Host, way: &Way) {
    match way {
        Way::Restart => drop(host.done(&["agents", "restart", "main"], b"")),
        Way::Change => drop(host.done(&["agents", "set", "main", "--model", "large"], b"")),
        Way::Stop => assert_eq!(host.stop().code, Some(0)),
    }
}

fn ends(host: &Host) -> Vec<String> {
    let text = std::fs::read_to_string(host.data().join("groups/main/ends")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_idle_program_hears_the_end_of_its_input() {
    let failed = failing(3, &[Way::Restart, Way::Change, Way::Stop], |way| {
        let mut host = Host::with_program(PROGRAM);
        host.start();
        host.inject("m1", "hello");
        assert_eq!(host.wait_said(1), ["done hello"]);
        host.wait_settled();
        end(&mut host, way);
        wait_for("the program to end", || (ends(&host) == ["end of input", "in order"]).then_some(()));
    });
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn a_busy_program_gets_a_signal_and_time() {
    let failed = failing(2, &[Way::Restart, Way::Stop], |way| {
        let mut host = Host::with_program(PROGRAM);
        host.start();
        host.inject("m1", "work");
        let worked = host.data().join("groups/main/worked");
        wait_for("the program to work", || worked.exists().then_some(()));
        end(&mut host, way);
        if matches!(way, Way::Stop) {
            host.start();
        }
        assert_eq!(host.wait_said(1), ["done work"]);
        host.wait_settled();
        assert_eq!(ends(&host), ["SIGTERM", "in order"]);
        assert_eq!(host.rows("messages")[0]["value"]["tries"], 0, "that was not its fault");
        host.check();
    });
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn a_deaf_program_is_killed_and_its_turn_comes_back_once() {
    let mut host = Host::with_program(PROGRAM);
    let folder = host.data().join("groups/main");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("deaf"), "").unwrap();
    host.start();
    host.inject("m1", "work");
    wait_for("the program to work", || folder.join("worked").exists().then_some(()));
    std::fs::remove_file(folder.join("deaf")).unwrap();
    let asked = Instant::now();
    end(&mut host, &Way::Restart);
    host.inject("m2", "more");
    assert_eq!(host.wait_said(1)[0], "done work");
    assert!(asked.elapsed() > Duration::from_secs(10), "it was given its time");
    host.wait_settled();
    let said = host.said();
    assert!(said == ["done work"] || said == ["done work", "done more"], "{said:?}");
    assert_eq!(ends(&host), Vec::<String>::new(), "it never heard of anything");
    host.check();
}
