//! Messages that arrive while the real CLI works, parallel tools, and turns without a request.

use hearth_wire::AckStatus;

use crate::bench::{Bench, names, until_go, wait_for};
use crate::claude::{bench, start};

/// A tool that shows that it began, and ends with [`Bench::go`].
fn slow() -> String {
    format!("[[tool Bash {{\"command\":\"{}\"}}]]", until_go("begun"))
}

fn wait_begun(bench: &Bench) {
    wait_for("the tool to begin", || bench.path("group/begun").exists().then_some(()));
}

#[test]
fn what_arrives_while_a_tool_runs_becomes_part_of_the_turn() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, &format!("first {} [[say one]]", slow()));
    let _runner = start(&bench, &api);
    wait_begun(&bench);
    bench.message(4, false, "aside");
    bench.say(6, "second");
    wait_for("the claim", || bench.acks().contains_key("6.1.processing.json").then_some(()));
    assert!(bench.ends().is_empty(), "claimed is not answered");
    // Nothing shows when the CLI has read them, so this waits.
    std::thread::sleep(std::time::Duration::from_secs(2));
    bench.go();
    assert_eq!(bench.texts(6), ["one"]);
    let ack = bench.ended(2);
    assert_eq!((ack.seq, ack.ends.clone(), ack.status), (6, vec![2, 4], AckStatus::Completed));
    let outs = bench.outs();
    assert_eq!(outs[&ack.out[0].file_name()].in_reply_to, Some(6));
    let seen = api.requests().pop().unwrap()["messages"].to_string();
    assert!(seen.contains("second") && seen.contains("aside"), "{seen}");
}

#[test]
fn what_arrives_after_the_last_tool_is_the_next_turn() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, "[[gate 0]] [[say one]]");
    let _runner = start(&bench, &api);
    wait_for("the API to be asked", || (api.gated() > 0).then_some(()));
    bench.say(4, "second [[say two]]");
    bench.say(6, "third [[say three]]");
    // Gives the runner time to see them. The test is also valid if it has not.
    std::thread::sleep(std::time::Duration::from_millis(500));
    api.open();
    assert_eq!(bench.texts(2), ["one"]);
    assert_eq!(bench.ended(2).ends, [0_u64; 0]);
    assert_eq!(bench.ended(4).seq, 6, "both are one turn");
    assert_eq!(bench.texts(6), ["three"]);
}

#[test]
fn context_alone_and_commands_wait_for_the_end_of_the_turn() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, &format!("{} [[say one]]", slow()));
    let _runner = start(&bench, &api);
    wait_begun(&bench);
    bench.message(4, false, "aside");
    bench.say(6, "/cost");
    bench.say(8, "after");
    // Gives the runner time to see them, as above.
    std::thread::sleep(std::time::Duration::from_millis(500));
    bench.go();
    assert_eq!(bench.texts(2), ["one"]);
    assert_eq!(bench.ended(2).ends, [0_u64; 0]);
    let cost = bench.texts(6).remove(0);
    assert!(cost.contains("cost:"), "{cost}");
    assert_eq!(bench.ended(6).ends, [0_u64; 0]);
    assert_eq!(bench.ended(8).ends, [4]);
}

/// Killed with a message that was given to it but not answered: the whole turn is repeated, and nothing is sent twice.
#[test]
fn a_kill_brings_back_what_joined_too() {
    let Some((mut bench, api)) = bench() else { return };
    let once = "test -e begun || { touch begun; python3 -c 'import time; time.sleep(30)'; }";
    bench.say(2, &format!("plum [[tool Bash {{\"command\":\"{once}\"}}]] [[say one]]"));
    let mut runner = start(&bench, &api);
    wait_begun(&bench);
    bench.say(4, "pear [[say two]]");
    wait_for("the claim", || bench.acks().contains_key("4.1.processing.json").then_some(()));
    runner.kill();
    assert_eq!(names(&bench.session("agent/ack")), ["2.1.processing.json", "4.1.processing.json"]);
    bench.next_incarnation();
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(4), ["two"]);
    let ack = bench.ended(2);
    assert_eq!((ack.incarnation, ack.seq, ack.ends), (2, 4, vec![2]));
}

/// Only the CLI is killed: the turn failed and may be retried. Messages that the CLI had not read become the next turn.
#[test]
fn a_killed_cli_fails_its_turn_and_what_it_had_not_read_is_the_next_one() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, &format!("plum {}", slow()));
    let _runner = start(&bench, &api);
    wait_begun(&bench);
    bench.say(4, "pear [[say two]]");
    wait_for("the claim", || bench.acks().contains_key("4.1.processing.json").then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill_cli(&bench);
    let ack = bench.ended(2);
    assert_eq!((ack.status, ack.seq, ack.ends.clone()), (AckStatus::Failed, 2, vec![]));
    assert!(!ack.retry.unwrap().rate_limited);
    let error = ack.error.unwrap();
    assert!(error.contains("signal: 9") && error.contains("while the tool Bash ran"), "{error}");
    assert_eq!(bench.texts(4), ["two"]);
}

/// Kills the process that runs with this bench's home.
pub(crate) fn kill_cli(bench: &Bench) {
    let pid = cli_of(bench).expect("the CLI runs");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The process id of this bench's CLI, if it runs: found by its arguments and its environment.
pub(crate) fn cli_of(bench: &Bench) -> Option<rustix::process::Pid> {
    let home = format!("HOME={}", bench.path("home").display());
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let read = |file: &str| std::fs::read(entry.path().join(file)).ok();
        let is_cli = String::from_utf8_lossy(&read("cmdline")?).contains("--output-format");
        let is_ours = read("environ")?.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
        (is_cli && is_ours).then(|| rustix::process::Pid::from_raw(pid)).flatten()
    })
}

#[test]
fn of_several_tools_the_longest_counts() {
    let Some((bench, api)) = bench() else { return };
    let tool = |name: &str, timeout: u32| format!("Bash {{\"command\":\"{}\",\"timeout\":{timeout}}}", until_go(name));
    bench.say(2, &format!("[[tools {} ;; {}]] [[say done]]", tool("a", 20_000), tool("b", 90_000)));
    let _runner = start(&bench, &api);
    let tool = wait_for("the longer tool", || {
        bench.state().and_then(|state| state.tool).filter(|tool| tool.timeout_ms == Some(90_000))
    });
    assert_eq!(tool.name, "Bash");
    bench.go();
    assert_eq!(bench.texts(2), ["done"]);
    assert_eq!(bench.state().unwrap().tool, None);
}

/// Background work ends between turns: the CLI writes without a request, and its message is sent at once.
#[test]
fn what_the_cli_says_unasked_is_said_at_once() {
    let Some((bench, api)) = bench() else { return };
    let background = format!("{{\"command\":\"{}\",\"run_in_background\":true}}", until_go("begun"));
    bench.say(2, &format!("[[tool Bash {background}]] [[say started]]"));
    let _runner = bench.start_with(|command| {
        command.env("ANTHROPIC_BASE_URL", api.url()).env("ANTHROPIC_API_KEY", "sk-ant-test").env("LANG", "C.UTF-8");
        command.env("CLAUDE_CODE_MAX_RETRIES", "1");
    });
    assert_eq!(bench.texts(2), ["started"]);
    bench.go();
    let said = wait_for("something unasked", || bench.outs().into_values().find(|out| !out.is_final));
    assert_eq!((said.content["text"].as_str().unwrap(), said.in_reply_to), ("started", None), "its own answer");
    bench.say(4, "[[say still here]]");
    assert_eq!(bench.texts(4), ["still here"]);
}

/// Adds a second destination.
fn add_office(bench: &mut Bench) {
    let mut office = bench.context.destinations[0].clone();
    office.name = "office".to_owned();
    bench.context.destinations.push(office);
    bench.publish();
}

#[test]
fn an_answer_without_a_recipient_goes_to_the_chat_that_asked_without_a_second_call() {
    let Some((mut bench, api)) = bench() else { return };
    add_office(&mut bench);
    bench.say(2, "[[say bare]] [[better {{message to=\"office\"}}wrapped{{/message}}]]");
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["bare"]);
    let asked = api.requests().iter().filter(|body| body["messages"].to_string().contains("not delivered")).count();
    assert_eq!(asked, 0, "the agent was not asked again");
}

#[test]
fn text_for_no_chat_in_particular_is_asked_about_once() {
    let Some((mut bench, api)) = bench() else { return };
    bench.context.reply = None;
    add_office(&mut bench);
    bench.say(2, "[[say bare]] [[better {{message to=\"office\"}}wrapped{{/message}}]]");
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["wrapped"]);
    bench.say(4, "[[say still bare]] [[better still bare, sorry]]");
    assert_eq!(bench.texts(4), ["still bare, sorry"]);
    let outs = bench.outs();
    let wrapped = &outs[&bench.ended(2).out[0].file_name()];
    assert_eq!((wrapped.destination.as_deref(), wrapped.in_reply_to), (Some("office"), Some(2)));
    assert_eq!(outs.len(), 2, "what was not delivered is not there");
    bench.say(
        6,
        "[[say {{message to=\"family\"}}a{{/message}}{{message to=\"nobody\"}}b{{/message}}]] [[better sorry]]",
    );
    assert_eq!(bench.texts(6), ["a", "[meant for \"nobody\", which is not a known destination] b", "sorry"]);
    let asked = api.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("Your destinations: family, office."), "{asked}");
}
