//! Metrics for a monitoring system: requested over HTTP from a running daemon, and read by a parser that knows only the
//! format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::host::after;
use crate::host::{Host, Running, event, wait_for};

/// A name with its labels, and a value.
type Samples = BTreeMap<String, f64>;

fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Reads the text as the format demands: families one after another, each declared before its samples, with ascending
/// buckets.
fn read(text: &str) -> Samples {
    let (mut samples, mut family, mut families) = (Samples::new(), (String::new(), String::new()), BTreeSet::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert!(lines.peek().is_none() && text.ends_with('\n'), "something comes after the end");
            return samples;
        }
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE", "UNIT"].contains(&what), "{line}");
            if what == "TYPE" {
                assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                family.1 = rest.to_owned();
            }
            if family.0 != name {
                family.0 = name.to_owned();
                assert!(families.insert(name.to_owned()), "{name} is there twice");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) =
            series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest.strip_suffix('}').unwrap()));
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{line}");
        let suffix = name.strip_prefix(family.0.as_str()).unwrap_or_else(|| panic!("{line} is not of {}", family.0));
        let allowed: &[&str] = match family.1.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            _ => &["_bucket", "_count", "_sum"],
        };
        assert!(allowed.contains(&suffix), "{line}");
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once('=').unwrap();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
            assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
        }
        let value: f64 = value.parse().unwrap();
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} is there twice");
    }
    panic!("the text has no end: {text}");
}

fn port_of(daemon: &Running) -> u16 {
    wait_for("metrics to be served", || {
        let log = daemon.stderr();
        let (_, rest) = log.split_once("metrics are served address=127.0.0.1:")?;
        rest.lines().next()?.parse().ok()
    })
}

#[test]
fn what_happens_is_counted_and_how_things_are_is_told() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_METRICS".into(), "127.0.0.1:0".into()));
    host.start();
    let port = port_of(host.daemon().unwrap());
    let before = read(&get(port, "/metrics").1);
    assert_eq!(before["hearth_messages{state=\"due\"}"], 0.0);
    assert!(!before.keys().any(|series| series.starts_with("hearth_drops")), "{before:#?}");

    assert_eq!(host.inject("a", "hello")["outcome"], "routed");
    let mut stranger = event("b", "hello");
    stranger["platformId"] = "999".into();
    host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    host.done(&["chat", "hi"], b"");
    host.done(&["tasks", "add", "main", "look", "--at", &after(Duration::ZERO)], b"");
    let after = wait_for("everything to be counted", || {
        let after = read(&get(port, "/metrics").1);
        let swept = after["hearth_sweep_seconds_count"] > 0.0;
        let done = after.get("hearth_task_fires_total{outcome=\"done\"}").is_some_and(|count| *count == 1.0);
        (swept && done).then_some(after)
    });
    let at_least = |series: &str, count: f64| {
        assert!(after.get(series).is_some_and(|found| *found >= count), "{series}: {after:#?}");
    };
    at_least("hearth_events_total{outcome=\"routed\"}", 2.0);
    at_least("hearth_events_total{outcome=\"dropped\"}", 1.0);
    at_least("hearth_deliveries_total{channel=\"terminal\",outcome=\"delivered\"}", 1.0);
    at_least("hearth_launches_total", 1.0);
    at_least("hearth_incarnations", 1.0);
    at_least("hearth_commit_seconds_count", 3.0);
    at_least("hearth_sweep_seconds_count", 1.0);
    at_least("hearth_store_bytes{what=\"used\"}", 4096.0);
    at_least("hearth_undelivered{state=\"lane\"}", 1.0);
    let dropped = after.iter().filter(|(series, _)| series.starts_with("hearth_drops_total{kind=\"noise\""));
    assert_eq!(dropped.map(|(_, count)| *count).sum::<f64>(), 1.0, "{after:#?}");
    buckets_rise(&after);

    let (head, body) = get(port, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("openmetrics-text"), "{head}");
    // No label contains a chat, a person or a text.
    for private in ["\"123\"", "\"999\"", "hello", "Ann"] {
        assert!(!body.contains(private), "{private}: {body}");
    }
    assert!(get(port, "/").0.starts_with("HTTP/1.1 404"));
    host.stop();
}

fn buckets_rise(samples: &Samples) {
    for name in ["commit_seconds", "commit_inputs", "sweep_seconds"] {
        let prefix = format!("hearth_{name}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(series, count)| {
                let bound = series.strip_prefix(&prefix)?.strip_suffix("\"}")?;
                Some((bound.replace("+Inf", "inf").parse().unwrap(), *count))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name}: {buckets:?}");
        assert_eq!(buckets.last().map(|last| last.1), Some(samples[&format!("hearth_{name}_count")]), "{name}");
    }
}

/// The address is bound before anything starts: waiting work keeps waiting, and no run is counted.
#[test]
fn an_address_that_is_taken_ends_the_start_before_anything_began() {
    let host = Host::with_echo();
    host.inject("a", "hello");
    let everything = || host.dump(&["--bodies"]).stdout;
    let before = everything();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = host.run(&["run", "--runtime", "process", "--metrics", &address], b"");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for words in [address.as_str(), "HEARTH_METRICS", "stop the program that listens there"] {
        assert!(ended.stderr.contains(words), "{words}: {ended:#?}");
    }
    for words in ["hearth is running", "agent started", "runtime: "] {
        assert!(!ended.stderr.contains(words), "{words}: {ended:#?}");
    }
    assert_eq!(everything(), before);
    assert_eq!(host.states().len(), 1);
    drop(taken);
    let mut host = host;
    host.env.push(("HEARTH_METRICS".into(), address));
    host.start();
    host.wait_said(1);
    host.stop();
}

/// The name of a web page can resolve to this machine, and the page can then send requests from a local user's browser.
#[test]
fn pages_with_names_of_their_own_are_not_answered() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_METRICS".into(), "127.0.0.1:0".into()));
    host.start();
    let port = port_of(host.daemon().unwrap());
    let ask = |name: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let refused = ask(&format!("page.example:{port}"));
    assert!(refused.starts_with("HTTP/1.1 421") && !refused.contains("hearth_"), "{refused}");
    assert!(ask(&format!("127.0.0.1:{port}")).contains("hearth_build"));
    host.stop();
}

#[test]
fn callers_who_say_nothing_hinder_nobody() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_METRICS".into(), "127.0.0.1:0".into()));
    host.start();
    let port = port_of(host.daemon().unwrap());
    let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert!(get(port, "/metrics").1.contains("hearth_build"));
    // It evicted no connection: the one that would have been evicted is still open.
    silent[200].set_nonblocking(true).unwrap();
    assert_eq!(silent[200].peek(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    host.stop();
}

/// Events that were dropped before the start are not counted by the daemon.
#[test]
fn counters_begin_with_the_daemon() {
    let mut host = Host::with_echo();
    let mut stranger = event("b", "hello");
    stranger["platformId"] = "999".into();
    host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    host.env.push(("HEARTH_METRICS".into(), "127.0.0.1:0".into()));
    host.start();
    let port = port_of(host.daemon().unwrap());
    let samples = read(&get(port, "/metrics").1);
    assert!(!samples.keys().any(|series| series.starts_with("hearth_drops")), "{samples:#?}");
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let host = Host::with_echo();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (address, code, words) in [
        ("0.0.0.0:9464", 1, "--metrics-open"),
        ("[::]:9464", 1, "--metrics-open"),
        ("nonsense", 2, "invalid value"),
        ("127.0.0.1", 2, "invalid value"),
        (taken.as_str(), 1, "another address with --metrics"),
    ] {
        let ended = host.run(&["run", "--runtime", "process", "--metrics", address], b"");
        assert_eq!(ended.code, Some(code), "{address}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{address}: {ended:#?}");
    }
    let alone = host.run(&["run", "--metrics-open"], b"");
    assert_eq!(alone.code, Some(2), "{alone:#?}");
    host.check();
}
