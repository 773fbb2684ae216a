//! The command provider with a real program, and what the program inherits.

use std::fs;

use hearth_wire::{AckStatus, Retry, SessionFile};
use serde_json::json;

use crate::bench::{Bench, wait_for};

fn bench() -> Bench {
    let mut bench = Bench::new("command");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/agent.py");
    bench.context.provider.command = ["python3", script].map(str::to_owned).to_vec();
    bench.publish();
    bench
}

#[test]
fn a_program_lives_through_turns_and_its_continuation_through_programs() {
    let mut bench = bench();
    let mut runner = bench.start();
    bench.say(2, "count");
    assert_eq!(bench.texts(2), ["turn 1, continuation None"]);
    bench.say(4, "count");
    assert_eq!(bench.texts(4), ["turn 2, continuation c1"]);
    assert_eq!(bench.read::<SessionFile>("agent/session.json").unwrap().continuations["command"], "c2");
    runner.kill();
    bench.next_incarnation();
    let _runner = bench.start();
    bench.say(6, "count");
    assert_eq!(bench.texts(6), ["turn 1, continuation c2"]);
}

/// A program that exits when it receives a turn, without output in that turn, costs no message a try.
#[test]
fn a_program_that_ends_between_turns_is_started_again() {
    let bench = bench();
    let runner = bench.start();
    bench.say(2, "quit later");
    assert_eq!(bench.texts(2), ["turn 1"]);
    bench.say(4, "quit later");
    assert_eq!(bench.texts(4), ["turn 1"]);
    assert!(runner.stderr().contains("it is started again"), "{}", runner.stderr());
    // A program without output from the beginning does cost a try.
    bench.say(6, "quit now");
    let ack = bench.ended(6);
    assert_eq!((ack.status, ack.retry), (AckStatus::Failed, CRASHED));
}

/// The ack of a turn whose program reported no result.
const CRASHED: Option<Retry> = Some(Retry { rate_limited: false, unreachable: false, after_ms: None });

#[test]
fn nonsense_is_noted_and_ignored() {
    let bench = bench();
    let runner = bench.start();
    bench.say(2, "mess");
    assert_eq!(bench.texts(2), ["", "still here"]);
    assert_eq!(runner.stderr().matches("not understood").count(), 2, "{}", runner.stderr());
    assert!(!runner.stderr().contains("invention"), "what may be private is not repeated: {}", runner.stderr());
}

#[test]
fn what_a_program_says_at_once_and_its_tools_show_during_the_turn() {
    let bench = bench();
    let _runner = bench.start();
    bench.say(2, "early");
    let early = wait_for("an early word", || bench.outs().into_values().next());
    assert!(!early.is_final && early.content == json!({"text": "at once"}));
    assert_eq!(bench.texts(2), ["in the end"]);
    bench.say(4, "tool");
    let tool = wait_for("the tool", || bench.state().and_then(|state| state.tool));
    assert_eq!((tool.name.as_str(), tool.timeout_ms), ("build", Some(60_000)));
    bench.ended(4);
    assert_eq!(bench.state().unwrap().tool, None);
}

/// Internal text is not sent, but a program that asks for the result gets an answer.
#[test]
fn internal_words_of_a_program_reach_nobody() {
    let bench = bench();
    let _runner = bench.start();
    bench.say(2, "mumble");
    assert_eq!(bench.texts(2), ["it has only internal text, which is not delivered"]);
}

#[test]
fn files_of_a_program_are_copied() {
    let bench = bench();
    let _runner = bench.start();
    bench.say(2, "file");
    let ack = bench.ended(2);
    let out = &bench.outs()[&ack.out[0].file_name()];
    assert_eq!(
        (out.files.as_slice(), out.destination.as_deref()),
        (["made.txt".to_owned()].as_slice(), Some("family"))
    );
    let copy = bench.session(&format!("agent/out/files/{}/made.txt", out.id));
    assert_eq!(fs::read_to_string(copy).unwrap(), "made here");
    bench.say(4, "nofile");
    let error = bench.ended(4).error.unwrap();
    assert!(error.contains("absent.txt"), "{error}");
    bench.say(6, "count");
    assert_eq!(bench.texts(6), ["turn 1, continuation None"], "a program in the middle of a lost turn is replaced");
}

#[test]
fn errors_and_deaths_fail_the_turn_and_the_next_one_works() {
    let bench = bench();
    let _runner = bench.start();
    bench.say(2, "error no luck");
    let ack = bench.ended(2);
    assert_eq!((ack.status, ack.error.as_deref(), ack.out.len()), (AckStatus::Failed, Some("no luck"), 0));
    assert_eq!(ack.retry, None, "that is its verdict");
    bench.say(4, "count");
    assert_eq!(bench.texts(4), ["turn 2, continuation None"], "the program goes on after an error");
    bench.say(6, "die");
    let ack = bench.ended(6);
    let error = ack.error.unwrap();
    assert!(error.contains("exit status: 7") && error.contains("something broke"), "{error}");
    assert_eq!(ack.retry, CRASHED);
    bench.say(8, "count");
    assert_eq!(bench.texts(8), ["turn 1, continuation c2"], "it is started again");
}

#[test]
fn a_killed_program_may_be_tried_again_whatever_it_wrote() {
    let bench = bench();
    let _runner = bench.start();
    for (seq, text) in [(2, "kill"), (4, "kill early"), (6, "kill tool")] {
        bench.say(seq, text);
        let ack = bench.ended(seq);
        let error = ack.error.unwrap();
        let tool = if text.ends_with("tool") { " while the tool build ran" } else { "" };
        assert_eq!(error, format!("the agent's program ended with signal: 9 (SIGKILL){tool}"));
        assert_eq!((ack.status, ack.retry), (AckStatus::Failed, CRASHED), "{text}");
    }
}

#[test]
fn a_program_that_cannot_start_is_named() {
    let mut bench = bench();
    for (command, word) in [(vec![], "empty"), (vec!["/nonexistent/agent".to_owned()], "/nonexistent/agent")] {
        bench.context.provider.command = command;
        bench.next_incarnation();
        let _runner = bench.start();
        let seq = u64::from(bench.context.incarnation) * 2;
        bench.say(seq, "count");
        let ack = bench.ended(seq);
        let error = ack.error.unwrap();
        assert!(error.contains(word), "{error}");
        assert_eq!(ack.retry, None, "it is not there the next time, either");
    }
}

#[test]
fn a_program_finds_its_place() {
    let bench = bench();
    let _runner = bench.start();
    bench.say(2, "env HOME NANOCLAW_SESSION_NAME TZ");
    let found = bench.texts(2).remove(0);
    let group = fs::canonicalize(bench.path("group")).unwrap();
    let home = bench.path("home");
    assert_eq!(found, format!("{}\n{}\ndefault\nUTC", group.display(), home.display()));
    bench.say(4, "prompt");
    let told = bench.texts(4).remove(0);
    assert!(told.contains("sender=\"Ann\"") && told.contains("Andy") && told.contains("family"), "{told}");
}

#[test]
fn the_end_of_the_life_pipe_ends_the_whole_group() {
    let bench = bench();
    let mut runner = bench.start_under_host();
    bench.say(2, "hold");
    let said = wait_for("the pids", || bench.outs().into_values().next());
    let pids: Vec<u32> = serde_json::from_str(said.content["text"].as_str().unwrap()).unwrap();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    runner.leave();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&runner.wait()), Some(9));
    for pid in pids {
        wait_for("every child to end", || (!is_alive(pid)).then_some(()));
    }
}

#[test]
fn the_life_pipe_ends_an_idle_runner_too() {
    let bench = Bench::new("echo");
    let mut runner = bench.start_under_host();
    bench.say(2, "hello");
    bench.ended(2);
    runner.leave();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&runner.wait()), Some(9));
}

#[test]
fn a_stale_runner_takes_its_program_along() {
    let mut bench = bench();
    bench.say(2, "hold");
    let mut runner = bench.start();
    let said = wait_for("the pids", || bench.outs().into_values().next());
    let pids: Vec<u32> = serde_json::from_str(said.content["text"].as_str().unwrap()).unwrap();
    bench.next_incarnation();
    assert_eq!(runner.wait().code(), Some(0));
    wait_for("the program to end", || (!is_alive(pids[0])).then_some(()));
}

#[test]
fn a_program_inherits_the_two_descriptors_and_nothing_else() {
    let bench = bench();
    let _runner = bench.start_under_host();
    bench.say(2, "fds");
    let mut open: Vec<u32> = serde_json::from_str(&bench.texts(2)[0]).unwrap();
    let from_outside = inherited_by_this_test();
    open.retain(|fd| *fd <= 4 || !from_outside.contains(fd));
    assert_eq!(open, [0, 1, 2, 3, 4]);
}

/// Descriptors that this test process inherited and passes on to children.
fn inherited_by_this_test() -> Vec<u32> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let flags = |fd: &str| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim().to_owned();
        u32::from_str_radix(&flags, 8).ok()
    };
    let fds = crate::bench::names(std::path::Path::new("/proc/self/fdinfo"));
    fds.iter()
        .filter(|fd| flags(fd).is_some_and(|flags| flags & CLOSE_ON_EXEC == 0))
        .filter_map(|fd| fd.parse().ok())
        .collect()
}

/// Whether a process runs; a dead one may wait to be reaped for a while.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).is_some_and(|state| state != 'Z')
}
