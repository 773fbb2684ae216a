//! The daemon dies in the middle of a turn: what the gateway counted before is billed once.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::host::beside::side_by_side;
use crate::host::confined::host_with;
use crate::host::deaths::{passed, pick};
use crate::host::disk::copy_store;
use crate::host::fake_api::FakeApi;
use crate::host::keys::KEY;
use crate::host::{Host, wait_for};

/// Calls its model twice in each turn, and tells how often it was answered. The second answer is a stream.
const AGENT: &str = r#"
import http.client, urllib.parse
def call(words, stream):
    url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=100)
    body = {"model": "m", "max_tokens": 1, "stream": stream, "messages": [{"role": "user", "content": words}]}
    connection.request("POST", url.path + "/v1/messages", json.dumps(body), {"x-api-key": os.environ["ANTHROPIC_API_KEY"]})
    assert b"usage" in connection.getresponse().read()
def answer(text):
    call("[[say one]]", False)
    call("SECOND", True)
    return "answered"
"#;

/// What a call of this API costs.
const CALL: (u64, u64) = (100, 10);
/// Calls of a turn.
const CALLS: usize = 2;
const THREADS: usize = 6;
const MOST: usize = 16;

/// A host whose agent has its key at the gateway; its second call is made with these words.
fn setup(api: &FakeApi, second: &str) -> Option<Host> {
    let host = host_with("network = \"none\"", &AGENT.replace("SECOND", second))?;
    give_key(&host, api);
    Some(host)
}

/// The agent has its key at the gateway, and this API.
fn give_key(host: &Host, api: &FakeApi) {
    api.takes(KEY);
    let key = host.path("model-key");
    std::fs::write(&key, KEY).unwrap();
    let (key, url) = (format!("ANTHROPIC_API_KEY=file:{}", key.display()), format!("ANTHROPIC_BASE_URL={}", api.url()));
    host.done(&["agents", "set", "main", "--env", &key, "--env", &url], b"");
}

/// The calls that the gateway counted, as entries of the ledger.
fn counted(host: &Host) -> Vec<Value> {
    let mut rows = host.rows("spend");
    rows.retain(|row| row["value"]["source"] == "Gateway");
    rows
}

/// Every entry is that of another call, and the totals are the sums of the entries.
fn assert_billed(host: &Host, calls: usize) {
    let rows = counted(host);
    let keys: BTreeSet<String> = rows.iter().map(|row| row["key"].to_string()).collect();
    assert_eq!((rows.len(), keys.len()), (calls, calls), "{rows:#?}");
    assert!(rows.iter().all(|row| row["value"]["counted"] == true), "{rows:#?}");
    let spent: Value = serde_json::from_str(&host.done(&["spend", "--json"], b"")).unwrap();
    let (input, output) = (CALL.0 * calls as u64, CALL.1 * calls as u64);
    let total = &spent["total"];
    assert_eq!((&total["input_tokens"], &total["output_tokens"]), (&input.into(), &output.into()), "{spent:#}");
    host.check();
}

#[test]
fn a_counted_call_is_billed_once_when_the_daemon_dies_in_the_next_stream() {
    let api = FakeApi::start();
    let Some(mut host) = setup(&api, "[[stop 4]] [[say half and whole]]") else { return };
    host.start();
    host.inject("m1", "go");
    wait_for("half of the second answer", || (api.gated() == 1).then_some(()));
    wait_for("the first call in the ledger", || (counted(&host).len() == 1).then_some(()));
    host.kill();
    api.open();
    assert_billed(&host, 1);
    host.start();
    assert_eq!(host.wait_said(1), ["answered"]);
    host.wait_settled();
    // The call that was cut is not among them: what it cost was not known yet.
    wait_for("the calls of the second run", || (counted(&host).len() == 1 + CALLS).then_some(()));
    assert_billed(&host, 1 + CALLS);
    assert_eq!(api.requests().len(), CALLS + CALLS);
    assert_eq!(host.stop().code, Some(0));
    assert_billed(&host, 1 + CALLS);
    // Another start bills nothing.
    host.start();
    assert_eq!(host.stop().code, Some(0));
    assert_billed(&host, 1 + CALLS);
}

#[test]
fn a_death_at_every_point_of_a_turn_bills_no_call_twice() {
    let api = FakeApi::start();
    let Some(origin) = setup(&api, "[[say two]]") else { return };
    origin.inject("m1", "go");
    let (points, _) = turn(&origin, None);
    let at = pick("a turn with counted calls", &points, MOST);
    let died = side_by_side(THREADS, &at, |k| turn(&origin, Some(*k)).1);
    let failed: Vec<String> = at
        .iter()
        .zip(&died)
        .filter(|(_, died)| died.is_err())
        .map(|(k, _)| format!("{k} ({})", points.get(k - 1).map_or("", |name| name)))
        .collect();
    assert!(failed.is_empty(), "{} of {} deaths:\n{}", failed.len(), at.len(), failed.join("\n"));
    let dead = died.iter().flatten().filter(|died| **died).count();
    assert!(dead * 4 >= at.len() * 3, "{dead} of {} daemons died", at.len());
}

/// One turn, with a crash at the k-th point: the points that were reached, and whether the daemon died.
fn turn(origin: &Host, at: Option<usize>) -> (Vec<String>, bool) {
    let mut host = Host::before_the_first_start();
    copy_store(origin, &host);
    host.env.clone_from(&origin.env);
    let (api, group) = (FakeApi::start(), host.data().join("groups/main"));
    std::fs::create_dir_all(&group).unwrap();
    std::fs::copy(origin.data().join("groups/main/agent.py"), group.join("agent.py")).unwrap();
    // Each turn has an API of its own, which counts.
    give_key(&host, &api);
    let notes = host.path("points");
    let seam = match at {
        Some(k) => ("HEARTH_TEST_CRASH_AT".to_owned(), format!("any:{k}")),
        None => ("HEARTH_TEST_POINTS".to_owned(), notes.display().to_string()),
    };
    host.env.push(seam);
    host.launch();
    host.env.pop();
    let mut died = false;
    wait_for("the turn to end, and its calls to be in the ledger", || {
        if host.daemon().is_some_and(|daemon| daemon.try_end().is_some()) {
            let ended = host.ended();
            assert!(!died && ended.signal == Some(9) && !ended.stderr.contains(" ERROR "), "{ended:#?}");
            died = true;
            host.check();
            host.launch();
        }
        let over = host.states().iter().all(|state| state.get("Completed").is_some());
        (over && counted(&host).len() >= CALLS).then_some(())
    });
    let ended = host.stop();
    died |= ended.signal == Some(9);
    assert_eq!(host.said(), ["answered"]);
    let calls = counted(&host).len();
    assert!((CALLS..=api.requests().len()).contains(&calls), "{calls} of {}", api.requests().len());
    assert_billed(&host, calls);
    // The run that ended its turn has all of its calls.
    let runs: Vec<String> = counted(&host).iter().map(|row| row["key"][1].to_string()).collect();
    let of_run = |run: &String| runs.iter().filter(|other| *other == run).count();
    assert!(runs.iter().any(|run| of_run(run) == CALLS) && runs.iter().all(|run| of_run(run) <= CALLS), "{runs:?}");
    (if at.is_some() { Vec::new() } else { passed(&notes) }, died)
}
