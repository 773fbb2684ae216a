//! Confined runners: what must still work, and what must not start. Where the kernel cannot confine, the former tests
//! are skipped with a message.

use std::os::unix::process::ExitStatusExt as _;

use serde_json::json;

use crate::bench::{Bench, wait_for};

/// A bench whose program may use the system, its script and its own directories.
fn bench(provider: &str) -> Bench {
    let mut bench = Bench::new(provider);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/agent.py");
    if provider == "command" {
        bench.context.provider.command = ["/usr/bin/python3", script].map(str::to_owned).to_vec();
        bench.publish();
    }
    let read = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/nonexistent", script].map(Into::into).to_vec();
    let write = [bench.session("agent"), bench.path("group"), bench.path("home")];
    let read: Vec<std::path::PathBuf> = [read, vec![bench.session("host")]].concat();
    bench.rules = Some(json!({"read": read, "write": write, "devices": ["/dev/null", "/dev/urandom"]}).to_string());
    bench
}

fn possible() -> bool {
    let support = agent_runner::confine::support();
    if let Err(why) = &support {
        eprintln!("SKIPPED: {why}");
    }
    support.is_ok()
}

#[test]
fn the_end_of_the_life_pipe_ends_a_confined_group() {
    if !possible() {
        return;
    }
    let bench = bench("command");
    let mut runner = bench.start_under_host();
    bench.say(2, "hold");
    let said = wait_for("the pids", || bench.outs().into_values().next());
    let pids: Vec<u32> = serde_json::from_str(said.content["text"].as_str().unwrap()).unwrap();
    assert!(pids.len() > 1 && pids.iter().all(|pid| is_alive(*pid)));
    runner.leave();
    assert_eq!(runner.wait().signal(), Some(9));
    for pid in pids {
        wait_for("every child to end", || (!is_alive(pid)).then_some(()));
    }
}

#[test]
fn a_confined_session_goes_on() {
    if !possible() {
        return;
    }
    let mut bench = bench("echo");
    let mut runner = bench.start();
    bench.say(2, "hello\n!file note.txt inside");
    assert_eq!(bench.texts(2).len(), 2);
    runner.kill();
    bench.next_incarnation();
    bench.say(4, "again");
    let _runner = bench.start();
    assert_eq!(bench.texts(4), ["echo: again"]);
}

#[test]
fn rules_that_cannot_be_enforced_start_nothing() {
    for (rules, word) in [
        ("{}".to_owned(), "missing field"),
        (json!({"read": ["/"], "write": ["/nonexistent/dir"], "devices": []}).to_string(), "cannot be confined"),
    ] {
        let mut bench = bench("echo");
        bench.rules = Some(rules);
        bench.say(2, "hello");
        let mut runner = bench.start();
        assert_eq!(runner.wait().code(), Some(2));
        assert!(runner.stderr().contains(word), "{}", runner.stderr());
        assert!(bench.acks().is_empty() && bench.state().is_none());
    }
}

/// Whether a process runs; a dead one may wait to be reaped for a while.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).is_some_and(|state| state != 'Z')
}
