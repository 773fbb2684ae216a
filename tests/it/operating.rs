//! A running daemon seen by its operator: its log, the live view, and the actions of the view.

use serde_json::Value;

use crate::host::pty::Pty;
use crate::host::{Host, Running, wait_for};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

#[test]
fn a_log_of_json_has_the_same_fields_on_every_line() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_LOG_FORMAT".into(), "json".into()));
    host.env.push(("HEARTH_LOG".into(), "hearth=debug".into()));
    host.start();
    host.inject("a", "between you and me");
    host.wait_settled();
    let ended = host.stop();
    let log = lines(&ended.stderr);
    assert!(log.len() > 2, "{ended:#?}");
    for line in &log {
        let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name}: {line}"));
        assert!(text("timestamp").ends_with('Z'), "{line}");
        assert!(["ERROR", "WARN", "INFO", "DEBUG"].contains(&text("level")), "{line}");
        assert!(text("target").starts_with("hearth") && !text("message").is_empty(), "{line}");
    }
    let running = log.iter().find(|line| line["message"] == "hearth is running").unwrap();
    assert_eq!(running["data"], host.data().canonicalize().unwrap().to_str().unwrap());
    assert!(!ended.stderr.contains("between you and me"), "{ended:#?}");
    // By option, and for a command: wrong usage is reported, and an unknown level is refused.
    let other = host.run(&["status", "--log-format", "xml"], b"");
    assert_eq!(other.code, Some(2), "{other:#?}");
}

/// The journal records times itself, but only if standard error is the journal.
#[test]
fn in_the_journal_times_are_noted_once() {
    let host = Host::with_echo();
    for (script, timed) in [
        ("export JOURNAL_STREAM=$(stat -L -c %d:%i /dev/fd/2)", false),
        ("export JOURNAL_STREAM=1:1", true),
        ("unset JOURNAL_STREAM", true),
    ] {
        let mut command = host.bare("sh");
        let program = env!("CARGO_BIN_EXE_hearth");
        command
            .arg("-c")
            .arg(format!("{script}; exec {program} run --runtime process --data {}", host.data().display()));
        let running = Running::start(command, b"");
        wait_for("the daemon to serve", || running.stderr().contains("hearth is running").then_some(()));
        let ended = running.signal(rustix::process::Signal::TERM).end();
        let first = ended.stderr.lines().find(|line| line.contains("hearth is running")).unwrap();
        assert_eq!(first.starts_with("20"), timed, "{script}: {ended:#?}");
    }
}

#[test]
fn without_a_terminal_watching_says_what_to_do() {
    let host = Host::with_echo();
    let ended = host.run(&["status", "--watch"], b"");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("--watch --json"), "{ended:#?}");
}

/// Colours are for terminals whose users want them; what they say is also in words.
#[test]
fn status_is_coloured_on_a_terminal_only() {
    let host = Host::with_echo();
    let shown = |term: &str, no_colour: &str| {
        let mut command = host.command(&["status"]);
        command.env("TERM", term).env("NO_COLOR", no_colour);
        Pty::start(command).end().1
    };
    let coloured = shown("xterm", "");
    assert!(coloured.contains("\u{1b}[31m") && coloured.contains("no daemon is running"), "{coloured}");
    for plain in [shown("xterm", "1"), shown("dumb", ""), host.done(&["status"], b"")] {
        assert!(plain.contains("no daemon is running") && !plain.contains('\u{1b}'), "{plain}");
    }
}

/// Closing a terminal ends the live view on it, even without a signal.
#[test]
fn watching_ends_with_its_terminal() {
    let host = Host::with_echo();
    for key in ["", "q"] {
        let mut watching = Pty::start(host.command(&["status", "--watch"]));
        watching.wait("no daemon");
        let ended = if key.is_empty() {
            watching.hang_up()
        } else {
            watching.type_keys(key);
            watching.end().0
        };
        assert!(ended.success() || key.is_empty(), "{ended}");
    }
}

/// A line for each change, even while the daemon is down; its return is detected.
#[test]
fn programs_watch_line_by_line() {
    let mut host = Host::with_echo();
    let watching = Running::start(host.command(&["status", "--watch", "--json"]), b"");
    let seen = |what: &str, is: &dyn Fn(&Value) -> bool| {
        wait_for(what, || {
            let text = watching.stdout();
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            lines(whole).into_iter().next_back().filter(|line| is(line)).map(drop)
        });
    };
    seen("no daemon", &|view| view["daemon"].is_null());
    host.start();
    seen("the daemon", &|view| view["daemon"]["runtime"] == "process");
    host.inject("a", "hello");
    seen("its incarnation", &|view| view["sessions"][0]["incarnation"] == 1 && view["sessions"][0]["agent"] == "main");
    seen("what waits for its channel", &|view| {
        view["lanes"][0]["channel"] == "telegram" && view["messages"]["undelivered"] == 1
    });
    host.kill();
    seen("that it is gone", &|view| view["daemon"].is_null());
    host.start();
    seen("that it is back", &|view| !view["daemon"].is_null());
    host.done(&["tasks", "add", "main", "look", "--every", "1h"], b"");
    seen("the task", &|view| view["tasks"][0]["task"] == "ta1" && view["tasks"][0]["paused"] == false);
    host.done(&["tasks", "pause", "ta1"], b"");
    seen("that it rests", &|view| view["tasks"][0]["paused"] == true);
    let all = lines(&watching.stdout());
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "a line without a change");
    let ended = watching.signal(rustix::process::Signal::TERM).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:#?}");
}

/// An answer for an unconfigured channel is not delivered: the output names the channel.
#[test]
fn what_waits_for_a_channel_that_is_not_configured_is_told() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("a", "hello");
    wait_for("the answer to wait", || {
        let waiting = host.status()["outbound"]["waiting_for"].clone();
        (waiting == serde_json::json!({"channel telegram is not running": 1})).then_some(())
    });
    let doctor = host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("1 message waits for the channel telegram, which is not configured"), "{doctor}");
    assert!(doctor.contains("add [channels.telegram] to hearth.toml"), "{doctor}");
}

/// `head` closes the pipe: this is no failure, and the command ends.
#[test]
fn whoever_reads_no_more_ends_the_command_well() {
    let host = Host::with_echo();
    let program = env!("CARGO_BIN_EXE_hearth");
    // A command's output is larger than a pipe's buffer, or is written after its reader has exited.
    for (command, json) in [
        ("completions bash | head -1", false),
        ("status --watch --json | head -1", true),
        ("agents list --json | sleep 0", false),
        ("session list --json | sleep 0", false),
        ("workspace list --json | sleep 0", false),
    ] {
        let mut shell = host.bare("bash");
        shell.arg("-c").arg(format!("{program} {command}; exit ${{PIPESTATUS[0]}}"));
        shell.env("HEARTH_DATA", host.data());
        let ended = Running::start(shell, b"").end();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{command}: {ended:#?}");
        assert!(!json || lines(&ended.stdout).len() == 1, "{command}: {ended:#?}");
    }
    // An answer that reports a failure is still an answer.
    let mut shell = host.bare("bash");
    shell.arg("-c").arg(format!("{program} session show nope --json | sleep 0; exit ${{PIPESTATUS[0]}}"));
    shell.env("HEARTH_DATA", host.data());
    assert_eq!(Running::start(shell, b"").end().code, Some(1));
}

#[test]
fn one_session_is_restarted_and_others_go_on() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("a", "hello");
    host.wait_settled();
    let restart = |session: &str| host.run(&["sessions", "restart", session, "--json"], b"");
    let done: Value = serde_json::from_str(&restart("se1").stdout).unwrap();
    assert_eq!(done["changes"][0]["action"], "restarted", "{done}");
    wait_for("it to end", || host.status()["incarnations"].as_array().unwrap().is_empty().then_some(()));
    let again: Value = serde_json::from_str(&restart("se1").stdout).unwrap();
    assert_eq!(again["changes"][0]["action"], "unchanged", "{again}");
    let unknown = restart("se99");
    assert!(unknown.code == Some(1) && unknown.stderr.contains("session se99 not found"), "{unknown:#?}");
    host.check();
}
