//! Channels of a running daemon: a bridge in another language, receivers that fail, and channels that are added,
//! changed and removed.
//!
//! Whatever a file describes is listed and connected. A channel with missing credentials, a failing network or any
//! other error is shown as down, and is connected again after 2, 5, 10 seconds and so on, without end.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::channels::{Receiver, SECRET, free_port, post};
use crate::host::chaos::{Chaos, words};
use crate::host::webhook::Webhook;
use crate::host::{Host, Running, wait_for};

/// The data directory of a daemon with an agent that echoes. The webhook's secret is in its environment.
fn host() -> Host {
    let mut host = Host::new();
    host.env.push(("WEB_SECRET".to_owned(), SECRET.to_owned()));
    host.env.push(("BRIDGE_SECRET".to_owned(), SECRET.to_owned()));
    host
}

const AGENT: &str = "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n";

/// A channel `web`, with a chat that everyone may write to.
fn web(listen: u16, base_url: &str) -> String {
    format!(
        "{AGENT}[channels.web]\ntype = \"webhook\"\nsecret = \"env:WEB_SECRET\"\nlisten = \"127.0.0.1:{listen}\"\n{base_url}\n{CHAT}"
    )
}

const CHAT: &str = "[[chats]]\nchannel = \"web\"\nplatform_id = \"room\"\nunknown_senders = \"public\"\n\
                    [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n";

fn say(id: &str, chat: &str) -> Value {
    let content = json!({"text": format!("hello {id}"), "senderId": "ann"});
    json!({"channelType": "web", "platformId": chat, "message": {"id": id, "content": content}})
}

/// The one channel of `hearth channels list`.
fn listed(host: &Host) -> Value {
    let mut list: Value = serde_json::from_str(&host.done(&["channels", "list", "--json"], b"")).unwrap();
    list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
}

fn wait_state(host: &Host, state: &str) -> Value {
    wait_for(&format!("the channel to be {state}"), || Some(listed(host)).filter(|one| one["state"] == state))
}

#[test]
fn the_bridge_of_the_protocols_page_carries_a_conversation() {
    let page = include_str!("../../docs/webhook.md");
    assert!(page.contains(include_str!("../bridge.py")), "docs/webhook.md has another bridge than tests/bridge.py");
    let mut host = host();
    let (hearth, bridge) = (free_port(), free_port());
    let file = web(hearth, &format!("base_url = \"http://127.0.0.1:{bridge}/\""));
    let file = file.replace("\"web\"", "\"bridge\"").replace("channels.web", "channels.bridge");
    host.apply(&file.replace("\"room\"", "\"terminal\""));
    host.start();
    wait_state(&host, "up");
    let mut command = host.bare("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bridge.py"));
    command.env("BRIDGE_HEARTH", format!("http://127.0.0.1:{hearth}")).env("BRIDGE_PORT", bridge.to_string());
    let mut python = Running::start_open(command);
    python.type_line("is anybody there?");
    python.wait_stdout("routed\n");
    python.wait_stdout("is anybody there?");
    wait_for("the answer to be delivered", || {
        let state = host.rows("outbound").pop()?["value"]["state"].take();
        state.get("Delivered").map(drop)
    });
    assert_eq!(python.end().code, Some(0));
    let said = host.said();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(host.rows("outbound")[0]["value"]["state"]["Delivered"]["platform_message"], "b1");
    host.check();
}

#[test]
fn a_channel_is_removed_and_comes_back() {
    let mut host = host();
    let listen = free_port();
    let file = web(listen, "");
    host.apply(&file);
    host.start();
    wait_state(&host, "up");
    let removed = host.done(&["channels", "remove", "web"], b"");
    assert!(removed.contains("channel web") && removed.contains("removed"), "{removed}");
    assert_eq!(listed(&host), Value::Null);
    wait_for("nobody to listen any more", || TcpStream::connect(("127.0.0.1", listen)).is_err().then_some(()));
    for (name, why) in [("web", "channel web not found"), ("We b", "We b")] {
        let refused = host.run(&["channels", "remove", name], b"");
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        assert!(refused.stderr.contains(why), "{refused:#?}");
    }
    assert!(host.done(&["chats", "list"], b"").contains("room"), "its chats stay");
    host.apply(&file);
    wait_state(&host, "up");
    host.check();
}

#[test]
fn a_lost_answer_brings_the_same_message_under_the_same_id() {
    let mut host = host();
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
    let receiver = Receiver::start(&["", "503 Busy"]);
    let listen = free_port();
    host.apply(&web(listen, &receiver.base_url()));
    host.start();
    wait_state(&host, "up");
    let (status, routed) = post(listen, SECRET, "/v1/events", &say("m1", "room")).unwrap();
    assert_eq!((status, &routed["outcome"]), (200, &json!("routed")), "{routed}");
    let (_, again) = post(listen, SECRET, "/v1/events", &say("m1", "room")).unwrap();
    assert_eq!(again["outcome"], "duplicate");
    wait_for("the message to be delivered", || {
        let state = host.rows("outbound").pop()?["value"]["state"].take();
        state.get("Delivered").map(drop)
    });
    let said = receiver.said();
    assert_eq!(said.len(), 3, "lost, busy, taken: {said:?}");
    assert!(said.iter().all(|body| body["id"] == said[0]["id"] && body["repeated"] == false), "{said:?}");
    assert_eq!(host.said().len(), 1);
    host.check();
}

/// A bridge that shows each id once shows every answer, even one whose number was used in days that a restore undid. An
/// answer that it has already shown keeps the id that it knows.
#[test]
fn a_restored_store_uses_no_id_for_another_answer() {
    let mut host = host();
    let receiver = Receiver::start(&["200 OK", "", ""]);
    let listen = free_port();
    host.apply(&web(listen, &receiver.base_url()));
    let answer = |host: &Host, message: &str| {
        let (status, routed) = post(listen, SECRET, "/v1/events", &say(message, "room")).unwrap();
        assert_eq!((status, &routed["outcome"]), (200, &json!("routed")), "{routed}");
        host.wait_settled();
    };
    let ids = |message: &str| -> Vec<String> {
        let about = |body: &Value| body["text"].as_str().unwrap().contains(&format!("hello {message}"));
        receiver.said().into_iter().filter(about).map(|body| body["id"].as_str().unwrap().to_owned()).collect()
    };
    let delivered = |host: &Host, count: usize| {
        wait_for("everything to be delivered", || {
            let rows = host.rows("outbound");
            let all = rows.iter().all(|row| row["value"]["state"].get("Delivered").is_some());
            (rows.len() == count && all).then_some(())
        });
    };
    host.start();
    wait_state(&host, "up");
    answer(&host, "m1");
    answer(&host, "m2");
    wait_for("the second answer to be shown", || (!ids("m2").is_empty()).then_some(()));
    host.kill();
    let backup = host.path("kept");
    let backup = backup.to_str().unwrap();
    host.done(&["backup", backup], b"");
    // Only now: the backup must contain a message that waits.
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
    host.start();
    wait_state(&host, "up");
    answer(&host, "m3");
    delivered(&host, 3);
    host.stop();
    let before = ids("m2").len();
    host.done(&["restore", backup, "--replace"], b"");
    host.start();
    wait_state(&host, "up");
    answer(&host, "m4");
    delivered(&host, 3);
    let number = |id: &str| id.rsplit('-').next().map(str::to_owned);
    let (lost, new) = (&ids("m3")[0], &ids("m4")[0]);
    assert_eq!(number(lost), number(new), "the restored store gives the number out once more");
    assert_ne!(lost, new, "and the bridge would not show it");
    assert!(ids("m2").len() > before, "what waited in the backup is sent again");
    assert!(ids("m2").iter().all(|id| *id == ids("m2")[0]), "under the id that the bridge knows: {:?}", ids("m2"));
    assert!(host.done(&["why", new], b"").contains("hello m4"));
    assert!(host.done(&["why", &number(new).unwrap()], b"").contains("hello m4"));
    let refused = host.run(&["why", lost], b"");
    assert!(refused.code == Some(1) && refused.stderr.contains("is not an answer in this store"), "{refused:#?}");
    host.check();
}

#[test]
fn channels_come_change_and_go_while_the_daemon_runs() {
    let mut host = host();
    host.apply(AGENT);
    host.start();
    assert_eq!(listed(&host), Value::Null);
    let (first, second) = (free_port(), free_port());
    host.apply(&web(first, ""));
    let up = wait_state(&host, "up");
    let listen = format!("127.0.0.1:{first}");
    assert_eq!((&up["type"], &up["listen"], &up["why"]), (&json!("webhook"), &json!(listen), &Value::Null));
    assert_eq!(post(first, SECRET, "/v1/events", &say("m1", "room")).unwrap().0, 200);

    // A new wiring takes effect at once: the adapter knows nothing of wirings.
    let (_, lonely) = post(first, SECRET, "/v1/events", &say("m1", "hall")).unwrap();
    assert_eq!(lonely["outcome"], "dropped");
    host.apply(&web(first, "").replace("\"room\"", "\"hall\""));
    let (_, heard) = post(first, SECRET, "/v1/events", &say("m2", "hall")).unwrap();
    assert_eq!(heard["outcome"], "routed", "{heard}");

    host.apply(&web(second, ""));
    wait_for("the other port", || {
        post(second, SECRET, "/v1/events", &say("m3", "room")).filter(|(status, _)| *status == 200)
    });
    assert_eq!(post(first, SECRET, "/v1/events", &say("m4", "room")), None, "the old one is closed");
    assert_eq!(post(second, "another secret", "/v1/events", &say("m4", "room")).unwrap().0, 401);
    assert_eq!(post(second, SECRET, "/v1/events", &say("m3", "room")).unwrap().1["outcome"], "duplicate");

    // Without a receiver, outgoing messages wait, and `doctor` says what to do.
    wait_for("the answer to wait", || {
        let waits = |row: &Value| row["value"]["state"]["Waiting"]["after"] == "its channel is not running";
        host.rows("outbound").iter().any(waits).then_some(())
    });
    let doctor = host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("web has no base_url") && doctor.contains("set `base_url` of [channels.web]"), "{doctor}");
    let receiver = Receiver::start(&[]);
    host.apply(&web(second, &receiver.base_url()));
    wait_for("what waited to be delivered", || (!receiver.said().is_empty()).then_some(()));

    host.done(&["apply", "--prune", "-"], AGENT.as_bytes());
    wait_for("the channel to go", || post(second, SECRET, "/v1/events", &say("m5", "room")).is_none().then_some(()));
    assert_eq!(listed(&host), Value::Null);
    host.check();
}

#[test]
fn a_channel_that_cannot_be_connected_is_down_until_it_can() {
    let mut host = host();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = holder.local_addr().unwrap().port();
    host.apply(&web(listen, "base_url = \"http://127.0.0.1:9\""));
    assert_eq!(listed(&host)["state"], "off");
    host.start();
    let down = wait_for("the reason", || Some(listed(&host)).filter(|one| one["why"].to_string().contains("in use")));
    assert_eq!(down["state"], "down");
    let status = host.status();
    let warned =
        status["warnings"].as_array().unwrap().iter().any(|one| one.to_string().contains("channel web is down"));
    assert!(warned && status["channels"][0]["state"] == "down", "{status}");
    let doctor = host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("change `listen` in [channels.web]"), "{doctor}");
    drop(holder);
    wait_state(&host, "up");

    // With a secret that is not found, the channel is down as well, and no text of the file is used as the secret.
    host.apply(&web(listen, "").replace("WEB_SECRET", "NOT_SET_ANYWHERE"));
    let down = wait_for("the reason", || Some(listed(&host)).filter(|one| one["why"].to_string().contains("secret")));
    assert_eq!(down["state"], "down");
    assert_eq!(post(listen, "NOT_SET_ANYWHERE", "/v1/events", &say("m1", "room")), None);
    let doctor = host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("set the variable of its secret"), "{doctor}");
    let log = host.stop().stderr;
    assert!(!log.contains(SECRET), "{log}");
}

/// An event for which there is no space is answered with 503, and nothing of it is stored. When there is space, the
/// same event is accepted.
#[test]
fn a_full_store_refuses_and_loses_nothing() {
    let mut host = host();
    let listen = free_port();
    let small = web(listen, "").replace("schema = 1", "schema = 1\nstore_max_bytes = 4194304");
    let small = small.replace("engage = \"pattern\"\npattern = \".\"", "ignored = \"accumulate\"");
    host.apply(&small);
    host.start();
    wait_state(&host, "up");
    let large = |number: u32| {
        let mut event = say(&format!("m{number}"), "room");
        event["message"]["content"]["text"] = "x".repeat(300_000).into();
        event
    };
    let full = (0..40).find(|number| {
        let (status, answer) = post(listen, SECRET, "/v1/events", &large(*number)).unwrap();
        assert!(status == 200 || status == 503, "{status}: {answer}");
        status == 503
    });
    let full = full.expect("the store takes twelve megabytes although it may have four");
    assert_eq!(host.rows("messages").len(), full as usize, "what was answered with 200 is there, and nothing else");
    host.apply(&small.replace("4194304", "67108864"));
    let answer = post(listen, SECRET, "/v1/events", &large(full)).unwrap();
    assert_eq!((answer.0, &answer.1["outcome"]), (200, &json!("routed")), "{answer:?}");
    assert_eq!(host.rows("messages").len(), full as usize + 1);
    host.check();
}

#[test]
fn files_edits_and_reactions_go_through_a_bridge() {
    let mut host = host();
    let receiver = Receiver::start(&[]);
    let path = host.path("agent.py");
    std::fs::write(&path, crate::host::telegram::PROGRAM).unwrap();
    let agent = format!("provider = \"command\"\ncommand = [\"python3\", {:?}]\nunconfined = true", path.display());
    let listen = free_port();
    host.apply(&web(listen, &receiver.base_url()).replace("provider = \"echo\"", &agent));
    host.start();
    wait_state(&host, "up");
    let mut event = say("m1", "room");
    // The base64 of `a cat`.
    event["message"]["content"]["attachments"] = json!([{"name": "cat.txt", "data": "YSBjYXQ="}]);
    assert_eq!(post(listen, SECRET, "/v1/events", &event).unwrap().1["outcome"], "routed");
    let said = receiver.wait("say");
    assert_eq!(said["text"], "it says a cat");
    // The base64 of `A CAT`.
    assert_eq!(said["files"], json!([{"name": "answer.txt", "size": 5, "data": "QSBDQVQ="}]));
    let mut event = say("m2", "room");
    event["message"]["content"]["text"] = "change".into();
    post(listen, SECRET, "/v1/events", &event).unwrap();
    let edit = receiver.wait("edit");
    assert_eq!((&edit["text"], &edit["messageId"]), (&json!("right"), &json!("b1")));
    let react = receiver.wait("react");
    assert_eq!((&react["text"], &react["messageId"]), (&json!("\u{1f44d}"), &json!("m2")));
    assert!(receiver.did("subscribe").is_empty(), "nothing sticks here");
    host.check();
}

/// A card for the owner, another person's press, two presses of the owner, and nonsense.
#[test]
fn a_button_pressed_through_a_bridge_lets_a_stranger_in() {
    let mut host = host();
    let receiver = Receiver::start(&[]);
    let listen = free_port();
    let owner = "[[users]]\nid = \"web:bo\"\nroles = [\"owner\"]\n[[chats]]";
    let file = web(listen, &receiver.base_url()).replace("[[chats]]", owner).replace("public", "request_approval");
    host.apply(&file);
    host.start();
    wait_state(&host, "up");
    let held = post(listen, SECRET, "/v1/events", &say("m1", "room")).unwrap();
    assert_eq!((held.0, &held.1["outcome"]), (200, &json!("held")), "{held:?}");
    let card = receiver.wait("ask");
    assert_eq!(card["platformId"], "alone", "{card}");
    let press = |who: &str| {
        let button = &card["card"]["options"][0]["button"];
        json!({"button": button, "userId": who, "platformId": card["platformId"], "threadId": null})
    };
    let pressed = |body: &Value| post(listen, SECRET, "/v1/actions", body).unwrap();
    assert_eq!(post(listen, "x", "/v1/actions", &press("bo")).unwrap().0, 401);
    assert_eq!(pressed(&json!({"button": "ap1.0.0"})).0, 400);
    assert_eq!(pressed(&press("ann")).1["decided"], false);
    assert!(receiver.said().is_empty());
    assert_eq!(pressed(&press("bo")).1["decided"], true);
    assert_eq!(receiver.wait("say")["text"], "echo: hello m1");
    assert_eq!(pressed(&press("bo")).1["decided"], false);
    host.wait_settled();
    assert_eq!(receiver.said().len(), 1);
    host.check();
}

/// Events that arrive while a daemon shuts down stay with the sender, and a turn that has begun ends.
#[test]
fn a_daemon_that_stops_asks_bridges_to_come_again() {
    let (mut host, port) = (host(), free_port());
    host.apply(&web(port, ""));
    host.start();
    let mut slow = say("m1", "room");
    slow["message"]["content"]["text"] = json!("!until go\nslow");
    wait_for("the web service", || post(port, SECRET, "/v1/events", &slow).filter(|(status, _)| *status == 200));
    wait_for("the turn to begin", || host.states()[0].get("Claimed").map(|_| ()));
    let daemon = host.daemon().unwrap();
    rustix::process::kill_process(daemon.pid(), rustix::process::Signal::TERM).unwrap();
    wait_for("the daemon to wait", || daemon.stderr().contains("waiting for 1 turn").then_some(()));
    let (status, answer) = post(port, SECRET, "/v1/events", &say("m2", "room")).unwrap();
    assert!(status == 503 && answer.to_string().contains("the daemon is stopping"), "{status} {answer}");
    host.go();
    assert_eq!(host.ended().code, Some(0));
    // The channel has no receiver, and the agent is told so as context.
    let asked = host.rows("messages").iter().filter(|row| row["value"]["trigger"] == true).count();
    assert_eq!((host.said(), asked), (vec!["echo: slow".to_owned()], 1));
    host.check();
}

/// The daemon and the network behind a webhook are killed while messages arrive and answers leave, and answers to requests
/// are lost. The network recognises repeated ids, so that everything is there exactly once.
#[test]
fn nothing_is_lost_or_doubled_behind_a_webhook() {
    let mut webhook = Webhook::connected();
    let chaos = Chaos::new(8);
    let heard = |webhook: &Webhook| webhook.people(&["heard"]).lines().map(str::to_owned).collect::<Vec<_>>();
    for (number, burst) in chaos.bursts() {
        webhook.people(&[&["say"], &words(burst)[..]].concat());
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            0 => drop(webhook.people(&["cut"])),
            1 => webhook.restart(),
            _ => {
                webhook.stand_in.host.kill();
                webhook.stand_in.host.start();
            }
        }
        chaos.follow(number, || heard(&webhook), || webhook.stand_in.host.unfinished());
    }
    chaos.once(|| heard(&webhook), || webhook.stand_in.host.unfinished());
    let host = &webhook.stand_in.host;
    assert_eq!(host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    host.check();
}
