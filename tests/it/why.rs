//! `hearth why`: every id is found, however old, and waiting things show why and until when.

use hearth::model::Millis;
use hearth::model::address::ForeignId;
use hearth::model::id::{BodyId, DropId, MessageId, OutboundId};
use hearth::model::message::{Reason, Seen};
use hearth::state::{Error, Options, SeenKey, Store, Tables, Write};
use serde_json::{Value, json};

use crate::host::{Host, event, wait_for};

/// More rows than any search for an id ever reads.
const MANY: u64 = 20_500;

fn explained(host: &Host, arguments: &[&str]) -> Value {
    let arguments = [&["why"], arguments, &["--json"]].concat();
    serde_json::from_str(&host.done(&arguments, b"")).unwrap()
}

/// The explanation of the only event.
fn only(host: &Host, arguments: &[&str]) -> Value {
    let mut explained = explained(host, arguments);
    assert_eq!(explained["events"].as_array().unwrap().len(), 1, "{arguments:?}: {explained:#}");
    explained["events"][0].take()
}

fn refused(host: &Host, arguments: &[&str], words: &str) {
    let ended = host.run(&[&["why"], arguments].concat(), b"");
    assert!(ended.code == Some(1) && ended.stderr.contains(words), "{arguments:?}: {ended:#?}");
    assert!(ended.stderr.len() < 1_000, "{}", ended.stderr);
}

fn foreign(text: impl std::fmt::Display) -> ForeignId {
    ForeignId::new("id", text.to_string()).unwrap()
}

/// Copies of the first message, the first drop and the first answer, each with an id of its own.
fn copies(db: &Tables, txn: &mut Write<'_>) -> Result<(), Error> {
    let first = MessageId::new(1);
    let message = db.messages.require(txn, &first)?;
    let body = db.bodies.require(txn, &message.body)?;
    let drop = db.dropped_events.require(txn, &DropId::new(1))?;
    let answer = db.outbound.require(txn, &OutboundId::new(1))?;
    for number in 0..MANY {
        let (mut message, mut body) = (message.clone(), body.clone());
        message.body = db.allocate::<BodyId>(txn)?;
        message.seq = 1_000 + 2 * number;
        body.platform_message = Some(foreign(format_args!("copy-{number}")));
        body.content.text = format!("copy {number}");
        db.bodies.put(txn, &message.body, &body)?;
        let id = db.allocate(txn)?;
        db.messages.put(txn, &id, &message)?;
        let platform_message = foreign(format_args!("copy-{number}"));
        let key = SeenKey::of(body.source.as_ref().unwrap(), &platform_message);
        let seen = Seen { platform_message, at: message.stored, messages: vec![id], refused: None, held: None };
        db.seen_events.put(txn, &key, &seen)?;
        let mut drop = drop.clone();
        drop.platform_message = Some(foreign(format_args!("drop-{number}")));
        let id = db.allocate(txn)?;
        db.dropped_events.put(txn, &id, &drop)?;
        let mut answer = answer.clone();
        answer.in_reply_to = None;
        let id = db.allocate(txn)?;
        db.outbound.put(txn, &id, &answer)?;
    }
    // A message that answered a card leaves only this record.
    let platform_message = foreign("card-answer");
    let key = SeenKey::of(body.source.as_ref().unwrap(), &platform_message);
    let refused = Some(Reason::Answer);
    let at = message.stored.plus(Millis::days(1));
    db.seen_events.put(txn, &key, &Seen { platform_message, at, messages: Vec::new(), refused, held: None })
}

/// Puts rows into the store of a host whose daemon does not run.
fn write(host: &Host, work: impl FnOnce(&Tables, &mut Write<'_>) -> Result<(), Error>) {
    let options = Options { reserve_bytes: 0, ..Options::new(1) };
    Store::open(&host.data(), options).unwrap().write(work).unwrap();
}

const STRICT: &str = "[[chats]]\nchannel = \"strict\"\nplatform_id = \"1\"\nunknown_senders = \"strict\"\n\
    [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n";

/// The same event in another chat.
fn event_in(channel: &str, chat: &str, id: &str, text: &str) -> Vec<u8> {
    let mut event = event(id, text);
    (event["channelType"], event["platformId"]) = (json!(channel), json!(chat));
    event.to_string().into_bytes()
}

#[test]
fn the_oldest_ids_of_a_large_store_are_found() {
    let mut host = Host::with_echo();
    host.apply(&format!("{}{STRICT}", crate::host::with_chat("provider = \"echo\"")));
    host.inject("oldest", "The Beginning");
    host.done(&["inject"], &event_in("strict", "1", "oldest-drop", "no"));
    host.start();
    host.wait_said(1);
    host.stop();
    write(&host, copies);
    write(&host, |db, txn| {
        let mut answer = db.outbound.require(txn, &OutboundId::new(1))?;
        let at = answer.stored;
        let platform_message = Some(foreign("oldest-answer"));
        answer.state = hearth::model::delivery::OutState::Delivered { at, platform_message };
        db.outbound.put(txn, &OutboundId::new(1), &answer)
    });

    let oldest = only(&host, &["oldest"]);
    assert_eq!((&oldest["text"], &oldest["messages"][0]["message"]), (&json!("The Beginning"), &json!("ms1")));
    assert_eq!(only(&host, &["copy-0"])["text"], "copy 0");
    assert_eq!(only(&host, &["--text", "the beginning"])["platform_message"], "oldest");
    let dropped = only(&host, &["oldest-drop"]);
    assert_eq!(dropped["wirings"][0]["reason"], "unknown_sender_strict", "{dropped}");
    assert_eq!(only(&host, &["dr1"]), dropped);
    let answered = only(&host, &["oldest-answer"]);
    assert_eq!((&answered["answer"]["outbound"], &answered["platform_message"]), (&json!("mo1"), &json!("oldest")));
    let consumed = only(&host, &["card-answer"]);
    assert_eq!((&consumed["chat"], &consumed["wirings"][0]["decision"]), (&json!("telegram/123"), &json!("consumed")));
    let many = explained(&host, &["--text", "copy"]);
    assert_eq!((many["events"].as_array().unwrap().len(), &many["cut"]), (20, &json!(true)));
    refused(&host, &["copy-99999"], "no message has the platform id copy-99999");
    assert_eq!(only(&host, &["latest"]), consumed);
}

/// A damaged row neither ends a search nor is silently skipped.
#[test]
fn a_search_goes_on_after_a_damaged_row() {
    let host = Host::with_echo();
    host.apply(&format!("{}{STRICT}", crate::host::with_chat("provider = \"echo\"")));
    for id in ["zebra-1", "good"] {
        host.done(&["inject"], &event_in("strict", "1", id, "no"));
    }
    let file = host.data().join("store/data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    let found: Vec<usize> =
        bytes.windows(7).enumerate().filter(|(_, text)| text == b"zebra-1").map(|(at, _)| at).collect();
    for at in found {
        bytes[at + 6] = b'9';
    }
    std::fs::write(&file, bytes).unwrap();
    let ended = host.run(&["why", "good", "--json"], b"");
    let explained: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&explained["events"][0]["platform_message"], &explained["unreadable"]), (&json!("good"), &json!(1)));
    assert!(ended.code == Some(1) && ended.stderr.contains("1 row cannot be read; run `hearth check`"), "{ended:#?}");
}

#[test]
fn an_id_that_two_networks_use_is_shown_for_both() {
    let host = Host::with_echo();
    host.apply(&format!("{}{STRICT}", crate::host::with_chat("provider = \"echo\"")));
    host.inject("42", "on telegram");
    host.done(&["inject"], &event_in("strict", "1", "42", "on the other"));
    let both = host.run(&["why", "42"], b"");
    assert!(both.code == Some(0) && both.stdout.contains("42 in telegram/123"), "{both:#?}");
    assert!(both.stdout.contains("42 in strict/1"), "{both:#?}");
    assert!(both.stderr.contains("2 chats have a message with the id 42") && both.stderr.contains("--channel NAME"));
    for (scope, chat) in [
        (["--channel", "strict"], "strict/1"),
        (["--channel", "telegram"], "telegram/123"),
        (["--chat", "telegram/123"], "telegram/123"),
        (["--chat", "mg2"], "strict/1"),
    ] {
        assert_eq!(only(&host, &["42", scope[0], scope[1]])["chat"], chat);
        let one = host.run(&["why", "42", scope[0], scope[1]], b"");
        assert_eq!(one.stderr, "", "one chat is not ambiguous");
    }
    assert_eq!(only(&host, &["latest", "--channel", "telegram"])["chat"], "telegram/123");
    assert_eq!(only(&host, &["latest", "--channel", "strict"])["chat"], "strict/1");
    assert_eq!(only(&host, &["--text", "on", "--channel", "telegram"])["text"], "on telegram");
    refused(&host, &["42", "--channel", "nowhere"], "no message there has the platform id 42");
    refused(&host, &["latest", "--channel", "nowhere"], "no messages there yet");
    refused(&host, &["42", "--chat", "mg77"], "chat mg77 not found");
    assert_eq!(host.run(&["why", "42", "--chat", "telegram"], b"").code, Some(2));
}

#[test]
fn ids_of_a_platform_may_look_like_anything() {
    let host = Host::with_echo();
    // A platform's ids may look like Hearth's, or be too long for a key.
    let long = "x".repeat(1_000);
    for id in ["ms7", "ta1", "latest-1", "../..", "🦀", long.as_str()] {
        host.inject(id, "hello");
        assert_eq!(only(&host, &[id])["platform_message"], id);
    }
    // With a channel, an id is the platform's even if Hearth has the same.
    host.inject("ms1", "not the first one");
    assert_eq!(only(&host, &["ms1"])["platform_message"], "ms7");
    assert_eq!(only(&host, &["ms1", "--channel", "telegram"])["text"], "not the first one");
}

#[test]
fn nonsense_is_not_found() {
    let host = Host::with_echo();
    host.inject("1", "hello");
    let (long, endless) = ("x".repeat(1_000), "x".repeat(100_000));
    for (id, words) in [
        ("", "the id is empty"),
        (long.as_str(), "has the platform id xxx"),
        (endless.as_str(), "the id has 100000 bytes"),
        ("a\u{1b}[31mb", "control character"),
        ("MS1", "no message has the platform id MS1"),
        ("ms01", "no message has the platform id ms01"),
        ("ms2", "message not found: ms2"),
        ("mo9", "answer not found: mo9"),
        ("00000001-mo1", "is not an answer in this store"),
        ("dr9", "dropped message not found: dr9"),
        ("ta9", "task not found: ta9; see `hearth tasks list --all`"),
        ("ap9", "approval not found: ap9"),
        ("qu9", "question not found: qu9"),
        ("se9", "session not found: se9"),
        ("ms99999999999999999999", "no message has the platform id"),
    ] {
        refused(&host, &[id], words);
    }
    assert_eq!(host.run(&["why"], b"").code, Some(2));
    assert_eq!(host.run(&["why", "1", "--text", "hello"], b"").code, Some(2));
}

#[test]
fn tasks_approvals_answers_and_sessions_are_explained() {
    let mut host = Host::new();
    let owner = "[[users]]\nid = \"terminal:4242\"\nroles = [\"owner\"]\n";
    host.apply(&format!("{}{owner}", crate::host::HOUSE));
    host.start();
    host.done(&["tasks", "add", "main", "water the plants", "--every", "1h", "--chat", "terminal/main"], b"");
    host.done(&["inject"], &event_in("telegram", "room", "stranger", "let me in"));

    let task = explained(&host, &["ta1"]);
    assert_eq!((&task["task"]["task"], &task["task"]["prompt"]), (&json!("ta1"), &json!("water the plants")));
    assert!(task["task"]["words"].as_str().unwrap().starts_with("waiting for its next run, "), "{task}");
    host.done(&["tasks", "run", "ta1"], b"");
    let ran = wait_for("the run", || {
        Some(explained(&host, &["ta1"])).filter(|task| task["task"]["slots"][0]["outcome"] == "done")
    });
    assert_eq!(ran["events"][0]["messages"][0]["task"], "ta1", "{ran}");
    assert!(host.done(&["why", "ta1"], b"").contains("event   a run of task ta1"));
    host.done(&["tasks", "pause", "ta1"], b"");
    assert!(host.done(&["why", "ta1"], b"").contains("paused; `hearth tasks resume ta1` resumes it"));

    let approval = explained(&host, &["ap1"]);
    assert_eq!((&approval["approval"]["approval"], &approval["approval"]["held"]), (&json!("ap1"), &json!(1)));
    assert_eq!(approval["events"][0]["platform_message"], "stranger", "{approval}");
    assert_eq!(approval["events"][0]["wirings"][0]["decision"], "held", "{approval}");
    host.done(&["approvals", "approve", "ap1"], b"");
    let decided = explained(&host, &["ap1"]);
    assert_eq!(decided["approval"]["state"], "approved");
    assert_eq!(decided["events"][0]["wirings"][0]["decision"], "engaged", "{decided}");

    // Cards belong to no message, and are still explained.
    let cards = host.rows("outbound");
    let card = cards.iter().find(|row| row["value"]["act"].get("Ask").is_some()).unwrap();
    let id = card["key"][0].as_str().unwrap();
    let answer = only(&host, &[id]);
    assert_eq!((&answer["answer"]["outbound"], &answer["answer"]["about"]), (&json!(id), &json!("ap1")), "{answer}");
    let outgoing = answer["answer"]["outgoing_id"].as_str().unwrap();
    assert_eq!(only(&host, &[outgoing])["answer"]["outbound"], id);
    let shown = host.done(&["why", id], b"");
    assert!(shown.contains("card    asks about ap1") && shown.contains("from    Hearth"), "{shown}");

    let session = explained(&host, &["se1"]);
    assert_eq!(session["session"]["session"], "se1");
    let shown = host.done(&["why", "se1"], b"");
    assert!(shown.contains("why ") && shown.contains("idle: no message waits"), "{shown}");
}

#[test]
fn a_failed_start_is_explained_with_the_next_try() {
    let mut host = Host::with_echo();
    let secret = host.path("secret");
    host.done(&["agents", "set", "main", "--env", &format!("KEY=file:{}", secret.display())], b"");
    host.start();
    host.inject("m1", "hello");
    let waits = wait_for("a start to fail", || {
        let message = only(&host, &["m1"])["messages"][0].take();
        message["words"].as_str().is_some_and(|words| words.contains("does not start")).then_some(message)
    });
    let words = waits["words"].as_str().unwrap();
    assert!(words.starts_with("its agent does not start, ") && words.contains("could not be started"), "{words}");
    assert!(words.contains("No such file or directory"), "the cause is not cut off: {words}");
    assert!(words.contains(", next try "), "{words}");
    let session = explained(&host, &["se1"]);
    assert_eq!(session["session"]["open"][0]["message"], "ms1", "{session}");
    assert!(session["session"]["words"].as_str().unwrap().contains("does not start"), "{session}");
    host.stop();
    let words = only(&host, &["m1"])["messages"][0]["words"].take();
    assert!(words.as_str().unwrap().contains("next try when the daemon starts"), "{words}");
}

#[test]
fn a_rate_limit_is_explained_with_the_next_try() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "!retry {\"rate_limited\":true,\"after_ms\":600000} slow down");
    let wait = wait_for("the rate limit", || {
        let message = only(&host, &["m1"])["messages"][0].take();
        message["words"].as_str().is_some_and(|words| words.contains("rate-limited")).then_some(message)
    });
    let words = wait["words"].as_str().unwrap();
    assert!(words.starts_with("rate-limited by the provider, next try in ") && words.ends_with("slow down"), "{words}");
    assert!(words.contains(" min: "), "{words}");
    assert!(wait["next_try"].as_str() > Some("2026"), "{wait}");
    // Later messages wait for the same reason.
    host.inject("m2", "and this?");
    let words = only(&host, &["m2"])["messages"][0]["words"].take();
    assert!(words.as_str().unwrap().starts_with("rate-limited by the provider, next try in "), "{words}");
    host.stop();
    let shown = host.done(&["why", "ms1"], b"");
    assert!(shown.contains("rate-limited by the provider, next try when the daemon starts: slow down"), "{shown}");
}

#[test]
fn a_provider_that_cannot_be_reached_is_explained() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "!retry {\"rate_limited\":true,\"unreachable\":true} connect ENETUNREACH");
    let words = wait_for("the wait", || {
        let words = only(&host, &["m1"])["messages"][0]["words"].take();
        words.as_str().filter(|words| words.contains("reached")).map(str::to_owned)
    });
    assert!(words.starts_with("the provider cannot be reached, next try in "), "{words}");
    assert!(words.ends_with("connect ENETUNREACH"), "{words}");
    let status = host.done(&["status", "--json"], b"");
    assert!(status.contains("unreachable"), "{status}");
    let shown = host.done(&["sessions", "show", "se1"], b"");
    assert!(shown.contains("cannot reach its provider since") && !shown.contains("rate"), "{shown}");
}

/// The command that a text names between backticks.
fn command(text: &str) -> String {
    text.split('`').nth(1).unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Runs a command in a shell, as a person who copies it would.
fn paste(host: &Host, command: &str) {
    let mut shell = host.bare("/bin/sh");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_hearth")).parent().unwrap().display().to_string();
    let path = crate::host::search_path();
    shell.args(["-c", command]).env("PATH", format!("{program}:{path}")).env("HEARTH_DATA", host.data());
    let ended = shell.output().unwrap();
    assert!(ended.status.success(), "{command}: {ended:?}");
}

#[test]
fn a_muted_thread_is_explained_with_the_command_that_unmutes_it() {
    let host = Host::new();
    let chat = "[[chats]]\nchannel = \"slack\"\nplatform_id = \"it's a room\"\nunknown_senders = \"public\"\ngroup = true\n\
        [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n";
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\n{chat}"));
    let inject = |id: &str, thread: &str| {
        let mut event = event(id, "hello");
        event["channelType"] = json!("slack");
        (event["platformId"], event["threadId"]) = (json!("it's a room"), json!(thread));
        host.done(&["inject", "--json"], event.to_string().as_bytes())
    };
    host.done(&["mutes", "add", "main", "mg1", "--thread", "-7 $x"], b"");
    assert!(inject("m1", "-7 $x").contains("thread_muted"));
    let muted = only(&host, &["m1"]);
    assert_eq!((&muted["thread"], &muted["wirings"][0]["decision"]), (&json!("-7 $x"), &json!("ignored")), "{muted}");
    let words = muted["wirings"][0]["words"].as_str().unwrap();
    assert!(words.starts_with("the thread is muted for the agent; `hearth mutes remove main "), "{words}");
    paste(&host, &command(words));
    assert!(inject("m2", "-7 $x").contains("engaged"));
    let words = only(&host, &["m1"])["wirings"][0]["words"].take();
    assert_eq!(words, "the thread was muted for the agent; it is not muted any more");

    host.done(&["mutes", "add", "main", "mg1"], b"");
    assert!(inject("m3", "8").contains("thread_muted"));
    let words = only(&host, &["m3"])["wirings"][0]["words"].take();
    assert!(words.as_str().unwrap().starts_with("the chat is muted for the agent; "), "{words}");
    paste(&host, &command(words.as_str().unwrap()));
    assert!(inject("m4", "8").contains("engaged"));

    // The agent's programs use their own names for threads.
    host.done(&["mutes", "add", "main", "--name", "slack:it's a room:9"], b"");
    assert!(inject("m5", "9").contains("thread_muted"));
    let words = only(&host, &["m5"])["wirings"][0]["words"].take();
    assert!(words.as_str().unwrap().starts_with("the thread is muted for the agent; "), "{words}");
    paste(&host, &command(words.as_str().unwrap()));
    assert!(inject("m6", "9").contains("engaged"));
}
