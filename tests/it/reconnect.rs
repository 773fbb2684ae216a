//! Corrected secrets of channels: they are tried at once when a file is applied or a channel is reconnected, and
//! commands show the state of a connection.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::channels::{free_port, post};
use crate::host::fake_telegram::{FakeTelegram, Fault, TOKEN};
use crate::host::telegram::{typed, wait_shown};
use crate::host::{Ended, Host, wait_for};

/// A token that the server does not accept.
const WRONG: &str = "4242:AAwrongwrongwrongwrongwrongwrongwro";
/// A token that the server accepts later.
const ANOTHER: &str = "4242:AAanotheranotheranotheranotheranothe";
/// Shorter than the first pause after a refused token.
const SOON: Duration = Duration::from_secs(40);

fn telegram(server: &FakeTelegram, token: &str) -> String {
    format!("schema = 1\n[channels.telegram]\ntoken = {token:?}\nbase_url = \"{}\"\n", server.url())
}

/// A daemon whose bot has the token of this file.
fn bot(token: &str) -> (Host, FakeTelegram, String) {
    let (mut host, server) = (Host::with_echo(), FakeTelegram::start());
    set(&host, token);
    let file = telegram(&server, &format!("file:{}", host.path("token").display()));
    host.apply(&file);
    host.start();
    (host, server, file)
}

fn set(host: &Host, token: &str) {
    std::fs::write(host.path("token"), format!("{token}\n")).unwrap();
}

/// The one channel of `hearth channels list`.
fn listed(host: &Host) -> Value {
    let mut list: Value = serde_json::from_str(&host.done(&["channels", "list", "--json"], b"")).unwrap();
    list["channels"].as_array_mut().unwrap().pop().unwrap()
}

fn wait_state(host: &Host, state: &str) -> Value {
    wait_for(&format!("the channel to be {state}"), || Some(listed(host)).filter(|one| one["state"] == state))
}

fn reconnect(host: &Host, channel: &str) -> Ended {
    host.run(&["channels", "reconnect", channel], b"")
}

/// Neither token is in a log, in the store, or in the output of commands.
fn assert_secret(host: &mut Host) {
    let found = [
        host.dump(&["--json", "--bodies"]).stdout,
        host.status().to_string(),
        listed(host).to_string(),
        host.stop().stderr,
    ];
    for text in found {
        assert!(!text.contains(TOKEN) && !text.contains(WRONG) && !text.contains("AAwrong"), "{text}");
    }
}

#[test]
fn a_corrected_token_is_tried_at_once_when_the_file_is_applied() {
    let (mut host, server, file) = bot(WRONG);
    let down = wait_state(&host, "down");
    assert!(down["why"].as_str().unwrap().contains("does not accept the token"), "{down}");
    assert_eq!(down["last_contact"], Value::Null);
    assert!(down["next_try"].as_str().unwrap().ends_with('Z'), "{down}");
    let list = host.done(&["channels", "list"], b"");
    assert!(list.contains("down, next try in ") && list.contains("does not accept the token"), "{list}");
    assert!(!list.contains("connected"), "{list}");
    let doctor = host.run(&["doctor", "--offline"], b"").stdout;
    assert!(doctor.contains("`hearth channels reconnect telegram`"), "{doctor}");

    let same = host.done(&["apply", "-"], file.as_bytes());
    assert!(!same.contains("token"), "{same}");
    assert_eq!(listed(&host)["next_try"], down["next_try"], "the same token is not tried again");

    let begun = Instant::now();
    set(&host, TOKEN);
    let applied = host.done(&["apply", "-"], file.as_bytes());
    assert!(applied.contains("channel telegram: its token changed"), "{applied}");
    let up = wait_state(&host, "up");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!((&up["why"], &up["next_try"]), (&Value::Null, &Value::Null));
    assert!(up["last_contact"].as_str().unwrap().ends_with('Z'), "{up}");
    let list = host.done(&["channels", "list"], b"");
    assert!(list.contains(" connected ") && list.contains(" ago"), "{list}");
    server.happens(typed(7, "hello"));
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);

    let applied = host.done(&["apply", "-", "--json"], file.as_bytes());
    assert!(!applied.contains("note"), "{applied}");
    assert_eq!(server.calls("getMe").len(), 1, "a token that is the same is not connected again");
    set(&host, WRONG);
    let applied: Value = serde_json::from_str(&host.done(&["apply", "-", "--json"], file.as_bytes())).unwrap();
    assert!(applied["changes"][0]["note"].as_str().unwrap().contains("its token changed"), "{applied}");
    let down = wait_state(&host, "down");
    assert!(down["last_contact"].is_string(), "the last contact is that of the earlier connection: {down}");
    let log = host.daemon().unwrap().stderr();
    assert_eq!(log.matches("the bot is connected").count(), 1, "{log}");
    assert_secret(&mut host);
}

#[test]
fn a_command_reconnects_a_channel_at_once() {
    let (mut host, server, _) = bot(WRONG);
    wait_state(&host, "down");
    // On a busy machine the next try may be due already, and then its time is not said.
    wait_for("the time of the next try", || {
        let still = reconnect(&host, "telegram");
        assert!(still.code == Some(1) && still.stderr.contains("does not accept the token"), "{still:?}");
        still.stderr.contains("next try in ").then_some(())
    });
    let still = host.run(&["channels", "reconnect", "telegram", "--json"], b"");
    let row: Value = serde_json::from_str(&still.stdout).unwrap();
    assert_eq!((still.code, &row["state"]), (Some(1), &json!("down")));

    let begun = Instant::now();
    set(&host, TOKEN);
    let done = reconnect(&host, "telegram");
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "channel telegram is connected\n"), "{done:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let done = host.run(&["channels", "reconnect", "telegram", "--json"], b"");
    let row: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((done.code, &row["state"], &row["why"]), (Some(0), &json!("up"), &Value::Null));
    assert_eq!(server.calls("getMe").len(), 2);
    server.happens(typed(7, "hello"));
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);
    assert_secret(&mut host);
}

#[test]
fn channels_without_a_connection_and_unknown_ones_are_refused() {
    let (mut host, _server, _) = bot(TOKEN);
    let web = format!(
        "schema = 1\n[channels.web]\ntype = \"webhook\"\nsecret = \"cmd:echo x\"\nlisten = \"127.0.0.1:{}\"\n",
        free_port()
    );
    host.apply(&web);
    for (name, says) in [
        ("telegrm", "channel telegrm not found; did you mean `telegram`?"),
        ("zzz", "channel zzz not found; `hearth channels list` shows all"),
        ("", "not found"),
        ("\u{1b}[2J\n", "not found"),
        ("web", "channel web is a webhook and has no connection to renew: it listens at 127.0.0.1:"),
        ("terminal", "the terminal is always connected"),
    ] {
        let refused = reconnect(&host, name);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{name}: {refused:?}");
        assert!(refused.stderr.contains(says) && !refused.stderr.contains('\u{1b}'), "{name}: {refused:?}");
    }
    host.stop();
    let refused = reconnect(&host, "telegram");
    assert!(refused.code == Some(1) && refused.stderr.contains("no daemon is running"), "{refused:?}");
}

#[test]
fn nothing_says_connected_before_the_service_has_answered() {
    let server = FakeTelegram::start();
    server.fails("getMe", [Fault::Hold]);
    let mut host = Host::with_echo();
    set(&host, TOKEN);
    host.apply(&telegram(&server, &format!("file:{}", host.path("token").display())));
    host.start();
    wait_for("the call", || (server.calls("getMe").len() == 1).then_some(()));
    let said = [
        host.done(&["channels", "list"], b""),
        host.run(&["status"], b"").stdout,
        host.run(&["doctor", "--offline"], b"").stdout,
        host.daemon().unwrap().stderr(),
    ];
    for text in said {
        assert!(!text.contains("connected") && text.contains("connecting"), "{text}");
    }
    let connecting = listed(&host);
    assert_eq!((&connecting["state"], &connecting["last_contact"]), (&json!("connecting"), &Value::Null));
    server.release();
    wait_state(&host, "up");
    wait_for("the log", || host.daemon().unwrap().stderr().contains("the bot is connected").then_some(()));
    host.stop();
}

/// `hearth setup` keeps the new token in the same file, so that no setting changes.
#[test]
fn a_new_token_given_to_setup_is_tried_at_once() {
    let (mut host, server) = (Host::new(), FakeTelegram::start());
    let setup = |host: &Host, token: &str| {
        let (given, url) = (host.path("given"), server.url());
        std::fs::write(&given, token).unwrap();
        let about = ["setup", "--no-service", "--no-message", "--provider", "echo", "--runtime", "process", "--json"];
        let bot = ["--telegram-token-file", given.to_str().unwrap(), "--telegram-base-url", &url];
        host.done(&[&about[..], &bot].concat(), b"");
    };
    setup(&host, TOKEN);
    host.start();
    wait_state(&host, "up");
    server.takes(ANOTHER);
    server.happens(typed(7, "hello"));
    let down = wait_state(&host, "down");
    assert!(down["last_contact"].is_string(), "{down}");
    // The pause is known a moment after the state.
    wait_for("the next try", || listed(&host)["next_try"].is_string().then_some(()));
    let begun = Instant::now();
    setup(&host, ANOTHER);
    wait_state(&host, "up");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    host.stop();
}

/// A command that hangs holds up its own channel only, and a correction replaces it.
#[test]
fn a_command_for_a_token_that_hangs_blocks_nothing() {
    let (mut host, server) = (Host::with_echo(), FakeTelegram::start());
    host.apply(&telegram(&server, "cmd:sleep 1000"));
    host.start();
    assert_eq!(listed(&host)["state"], "connecting");
    host.inject("m1", "hello");
    host.wait_said(1);
    let script = host.path("token.sh");
    std::fs::write(&script, format!("echo {TOKEN}")).unwrap();
    let file = telegram(&server, &format!("cmd:. {}", script.display()));
    let begun = Instant::now();
    host.apply(&file);
    wait_state(&host, "up");
    assert!(begun.elapsed() < Duration::from_secs(8), "the command would take 10 s: {:?}", begun.elapsed());

    // The existing connection stays while the command hangs, and after it.
    std::fs::write(&script, "sleep 1000").unwrap();
    let begun = Instant::now();
    let applied = host.done(&["apply", "-"], file.as_bytes());
    assert!(applied.contains("still being read"), "{applied}");
    assert_eq!(listed(&host)["state"], "up");
    server.happens(typed(7, "more"));
    wait_for("an answer", || server.shown(123).iter().any(|text| text == "echo: more").then_some(()));
    let kept = "the channel keeps the secrets that it has";
    wait_for("the end of the command", || host.daemon().unwrap().stderr().contains(kept).then_some(()));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(listed(&host)["state"], "up");
    std::fs::write(&script, "exit 3").unwrap();
    let applied = host.done(&["apply", "-"], file.as_bytes());
    assert!(applied.contains("its token was not found") && applied.contains("keeps what it has"), "{applied}");
    assert_eq!((listed(&host)["state"].clone(), server.calls("getMe").len()), (json!("up"), 1));
    host.stop();
}

#[test]
fn a_changed_secret_of_a_webhook_is_read_when_the_file_is_applied() {
    let (mut host, listen) = (Host::with_echo(), free_port());
    std::fs::write(host.path("secret"), "first").unwrap();
    let file = format!(
        "schema = 1\n[channels.web]\ntype = \"webhook\"\nsecret = \"file:{}\"\nlisten = \"127.0.0.1:{listen}\"\n",
        host.path("secret").display()
    );
    host.apply(&file);
    host.start();
    let up = wait_state(&host, "up");
    assert_eq!(up["last_contact"], Value::Null);
    let list = host.done(&["channels", "list"], b"");
    assert!(list.contains("listening") && !list.contains("connected"), "{list}");
    let event = json!({"channelType": "web", "platformId": "room", "message": {"id": "m1", "content": {"text": "x"}}});
    let status = |secret: &str| post(listen, secret, "/v1/events", &event).map(|(status, _)| status);
    assert_eq!((status("first"), status("second")), (Some(200), Some(401)));
    assert!(listed(&host)["last_contact"].is_string());
    std::fs::write(host.path("secret"), "second").unwrap();
    assert_eq!(status("second"), Some(401), "nothing was applied yet");
    let applied = host.done(&["apply", "-"], file.as_bytes());
    assert!(applied.contains("channel web: its secret changed"), "{applied}");
    wait_for("the new secret", || (status("second") == Some(200)).then_some(()));
    assert_eq!(status("first"), Some(401));
    std::fs::remove_file(host.path("secret")).unwrap();
    let applied = host.done(&["apply", "-"], file.as_bytes());
    assert!(applied.contains("channel web: its secret was not found: cannot read"), "{applied}");
    assert_eq!(status("second"), Some(200), "what works goes on");
    host.stop();
}

/// A bridge that accepts two tokens.
const BRIDGE: &str = r#"
import json, os, socket, sys
hearth = socket.socket(fileno=int(os.environ["HEARTH_BRIDGE_FD"]))
lines = hearth.makefile(encoding="utf-8")
def send(frame):
    hearth.sendall(json.dumps(frame).encode() + b"\n")
if json.loads(lines.readline())["hello"]["secrets"]["token"] not in ("first", "second"):
    send({"failed": {"why": "the token is not accepted", "until": "changed"}})
    sys.exit()
send({"ready": {"protocol": 1, "program": "test 1", "me": {"id": "bot"},
                "capabilities": {"choice": "numbers", "idempotency": {"kind": "always"}}}})
for line in lines:
    frame = json.loads(line)
    if "ping" in frame:
        send({"pong": frame["ping"]})
"#;

/// The file with a bridge's token has another content, and its settings are the same.
#[test]
fn a_changed_token_of_a_bridge_is_tried_at_once_when_the_file_is_applied() {
    let mut host = Host::with_echo();
    let (program, token) = (host.path("bridge.py"), host.path("token"));
    std::fs::write(&program, BRIDGE).unwrap();
    set(&host, "wrong");
    let file = format!(
        "schema = 1\n[channels.net]\ntype = \"bridge\"\ncommand = [\"python3\", \"{}\"]\ntoken = \"file:{}\"\n",
        program.display(),
        token.display()
    );
    host.apply(&file);
    host.start();
    let down = wait_state(&host, "down");
    assert!(down["why"].as_str().unwrap().contains("the token is not accepted"), "{down}");
    for (content, state) in [("first", "up"), ("second", "up"), ("wrong", "down")] {
        let begun = Instant::now();
        set(&host, content);
        let applied = host.done(&["apply", "-"], file.as_bytes());
        assert!(applied.contains("channel net: its token changed"), "{content}: {applied}");
        wait_state(&host, state);
        assert!(begun.elapsed() < SOON, "{content}: {:?}", begun.elapsed());
        let applied = host.done(&["apply", "-"], file.as_bytes());
        assert!(!applied.contains("token changed"), "{content} is the same: {applied}");
    }
    host.stop();
}
