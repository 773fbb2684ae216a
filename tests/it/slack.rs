//! `hearth-networks slack` between a daemon and a stand-in for Slack.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::bridge_programs::{kill, program, running};
use crate::host::chaos::{Chaos, texts};
use crate::host::slack::Slack;
use crate::host::{wait_for, wait_for_or};

impl Slack {
    /// Starts a daemon with the workspace as the channel `slack`, and an agent that echoes in Ann's direct chat and where
    /// it is mentioned in the group.
    fn connected() -> Self {
        let built = program("networks");
        let mut slack = Self::start();
        let program = slack.program(&built);
        slack.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        let chat = |id: &str, more: &str| {
            format!("[[chats]]\nchannel = \"slack\"\nplatform_id = \"{id}\"\nunknown_senders = \"strict\"\n{more}\n")
        };
        let direct = "[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"";
        let group = "group = true\n[[chats.wirings]]\nagent = \"main\"\nengage = \"mention-sticky\"";
        slack.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.slack]\ntype = \"bridge\"\n\
             command = [\"{}\", \"slack\"]\ntoken = \"{}\"\nsecret = \"{}\"\nsettings = {{ server = \"{}\", silence = \"5\" }}\n\
             [[users]]\nid = \"slack:U0ANN\"\nroles = [\"owner\"]\n{}{}",
            program.display(),
            slack.secret("token-bot"),
            slack.secret("token-app"),
            slack.server(),
            chat("D0ANN", direct),
            chat("C0ALL", group),
        ));
        slack.host.start();
        slack.up();
        slack
    }

    /// Waits until the bridge works and has stored its first place.
    fn up(&self) {
        wait_for("the bridge", || (self.listed()["state"] == "up").then_some(()));
        wait_for("the first place", || {
            self.host.rows("bridges").pop().filter(|row| row["value"]["cursors"][0].is_object())
        });
        wait_for("the connection", || (!self.links().is_empty()).then_some(()));
    }

    fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    /// The open connections, as their numbers and states.
    fn links(&self) -> Vec<Value> {
        self.asks("known", json!({}))["links"].as_array().unwrap().clone()
    }

    /// A person writes something; its id.
    fn says(&self, text: &str, more: Value) -> String {
        let mut asked = json!({ "text": text });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.asks("say", asked)["ts"].as_str().unwrap().to_owned()
    }

    /// The messages of a chat, in their order.
    fn messages(&self, chat: &str) -> Vec<Value> {
        self.asks("messages", json!({ "channel": chat })).as_array().unwrap().clone()
    }

    /// What the bot sent to a chat.
    fn answers(&self, chat: &str) -> Vec<Value> {
        self.messages(chat).into_iter().filter(|message| message["bot_id"] == "B0BOT").collect()
    }

    /// The first answer with a text.
    fn answer(&self, chat: &str, text: &str) -> Value {
        let has = |message: &Value| message["text"].as_str().is_some_and(|found| found.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.answers(chat).into_iter().find(has), || {
            format!("{:#}\n{}", self.listed(), self.host.unfinished())
        })
    }

    fn stored(&self) -> String {
        self.host.rows("bodies").iter().map(Value::to_string).collect()
    }

    /// The requests of a method.
    fn asked(&self, method: &str) -> Vec<Value> {
        self.asks("log", json!({ "method": method })).as_array().unwrap().clone()
    }

    /// Each text was answered once in the direct chat, and stored once.
    fn once(&self, texts: &[String]) {
        for text in texts {
            self.answer("D0ANN", text);
        }
        // A second copy would come within moments.
        std::thread::sleep(Duration::from_secs(2));
        let all: String =
            self.answers("D0ANN").iter().map(|message| format!("{}\n", message["text"].as_str().unwrap())).collect();
        for text in texts {
            assert_eq!(all.matches(text).count(), 1, "{text}: {all}");
        }
        assert_eq!(self.host.rows("bodies").len(), texts.len(), "each message is stored once");
        self.host.check();
    }

    /// The processes of the bridge.
    fn running(&self) -> Vec<u32> {
        running(&self.directory.path().join("hearth-networks"))
    }
}

#[test]
fn conversations_in_channels_of_slack() {
    let slack = Slack::connected();
    slack.says("**how** &lt;b&gt; &amp; <https://x.test|here>?", json!({}));
    let answer = slack.answer("D0ANN", "how");
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("*how* &lt;b&gt; &amp; here (https://x.test)?"), "{text}");
    assert_eq!((&answer["unfurl"], &answer["mrkdwn"]), (&json!([false, false]), &json!(true)));
    in_a_group(&slack);
    // Edits, deletions, reactions, messages of programs and the bot's own are nothing.
    let first = slack.says("before", json!({ "person": "U0EVE", "channel": "C0ALL" }));
    slack.asks("change", json!({ "channel": "C0ALL", "ts": first, "text": "<@U0BOT> by an edit" }));
    slack.asks("delete", json!({ "channel": "C0ALL", "ts": first }));
    slack.asks("event", json!({ "type": "reaction_added", "user": "U0ANN", "reaction": "by a reaction", "item": { "channel": "D0ANN", "ts": first } }));
    slack.says("<@U0BOT> by a program", json!({ "channel": "C0ALL", "bot_id": "B9", "subtype": "bot_message" }));
    slack.says("the last one", json!({}));
    slack.answer("D0ANN", "the last one");
    let stored = slack.stored();
    for text in ["by an edit", "by a program", "by a stranger", "by a reaction", "by name"] {
        assert!(!stored.contains(text), "{text}: {stored}");
    }
    assert!(stored.contains("Ann <3") && stored.contains("\"handle\":\"U0ANN\""), "{stored}");
    wait_for("all acknowledgements", || (slack.asks("known", json!({}))["waiting"] == 0).then_some(()));
    assert_eq!(slack.host.rows("bodies").len(), 6, "one mention is two events and one message");
    slack.host.check();
}

/// In a group only what mentions the bot reaches it, in a thread in its thread, and only from Ann.
fn in_a_group(slack: &Slack) {
    let in_group = |more: Value| {
        let mut all = json!({ "channel": "C0ALL" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    slack.says("hearth, Hearth, @hearth: by name", in_group(json!({})));
    let forged =
        json!({ "person": "U0EVE", "senderId": "U0ANN", "user_name": "U0ANN", "author": { "userId": "U0ANN" } });
    slack.says("<@U0BOT> by a stranger", in_group(forged));
    slack.says("<@U0BOT> in the channel", in_group(json!({})));
    let answer = slack.answer("C0ALL", "@hearth in the channel");
    assert_eq!(answer["thread_ts"], Value::Null);
    let root = slack.says("A beginning.", in_group(json!({})));
    slack.says("<@U0BOT> in a thread <!channel>", in_group(json!({ "thread": root })));
    let answer = slack.answer("C0ALL", "in a thread");
    assert_eq!(answer["thread_ts"], json!(root));
    assert!(!answer["text"].as_str().unwrap().contains("<!"), "no text of an agent calls everybody: {answer}");
    // The bot follows a thread where it was mentioned.
    slack.says("without a mention", in_group(json!({ "thread": root })));
    assert_eq!(slack.answer("C0ALL", "without a mention")["thread_ts"], json!(root));
}

/// Slack ends connections with and without an announcement: nothing is lost, and nothing comes twice.
#[test]
fn connections_end_and_nothing_is_lost_by_slack() {
    let slack = Slack::connected();
    let first = slack.links();
    slack.asks("disconnect", json!({ "after": 3.0 }));
    wait_for("a second connection before the first one ends", || (slack.links().len() == 2).then_some(()));
    let mut texts: Vec<String> = (0..8).map(|number| format!("text-{number}.")).collect();
    // Both get some.
    texts.iter().for_each(|text| drop(slack.says(text, json!({}))));
    wait_for("the end of the first connection", || {
        let links = slack.links();
        (links.len() == 1 && links != first).then_some(())
    });
    slack.once(&texts);
    assert_eq!(slack.asked("conversations.history").len(), 3, "only the chats at the start are read: there was no gap");

    // Events that are never sent are found after the gap, on more pages than one.
    slack.asks("set", json!({ "told": false, "page": 3 }));
    let mut more: Vec<String> = (0..11).map(|number| format!("missed-{number}.")).collect();
    more.iter().for_each(|text| drop(slack.says(text, json!({}))));
    let root = slack.says("<@U0BOT> missed-root.", json!({ "channel": "C0ALL" }));
    slack.says("<@U0BOT> missed-reply.", json!({ "channel": "C0ALL", "thread": root }));
    slack.asks("set", json!({ "told": true }));
    slack.asks("drop", json!({}));
    assert_eq!(slack.answer("C0ALL", "missed-reply.")["thread_ts"], json!(root));
    slack.answer("C0ALL", "missed-root.");
    more.iter().for_each(|text| drop(slack.answer("D0ANN", text)));
    texts.append(&mut more);
    assert_eq!(slack.host.rows("bodies").len(), texts.len() + 2);
    slack.host.check();
}

/// A connection on which nothing comes any more is left.
#[test]
fn a_half_open_connection_to_slack_is_noticed() {
    let slack = Slack::connected();
    slack.asks("set", json!({ "told": false }));
    slack.asks("half", json!({}));
    slack.says("in the gap.", json!({}));
    slack.asks("set", json!({ "told": true }));
    slack.answer("D0ANN", "in the gap.");
    wait_for("another connection", || slack.links().iter().any(|link| link[1] == "open").then_some(()));
}

/// The bridge and the daemon are killed while messages arrive and answers leave: everything is there exactly once.
#[test]
fn nothing_is_lost_or_doubled_by_slack() {
    let mut slack = Slack::connected();
    let chaos = Chaos::new(8);
    let shown = |slack: &Slack| texts(&slack.answers("D0ANN"));
    for (number, burst) in chaos.bursts() {
        // The events may come before or after the end.
        burst.iter().for_each(|text| drop(slack.says(text, json!({}))));
        std::thread::sleep(Duration::from_millis(73 * (number as u64 % 5)));
        match number % 4 {
            0 => drop(slack.asks("fault", json!({ "method": "chat.postMessage", "faults": [{ "cut": "after" }] }))),
            1 | 2 => slack.running().into_iter().for_each(kill),
            _ => {
                slack.host.kill();
                wait_for("the bridge to end with the daemon", || slack.running().is_empty().then_some(()));
                slack.host.start();
            }
        }
        chaos.follow(number, || shown(&slack), || slack.host.unfinished());
    }
    chaos.once(|| shown(&slack), || slack.host.unfinished());
    assert_eq!(slack.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    slack.host.check();
}

/// What Slack does instead of answering as it should.
#[test]
fn answers_that_are_lost_or_refused_by_slack_are_no_second_message() {
    let slack = Slack::connected();
    let faults = [
        json!({ "cut": "after" }),
        json!({ "cut": "before" }),
        json!({ "html": "<html>", "status": 503 }),
        json!({ "html": "<html>" }),
        json!({ "html": "" }),
        json!({ "error": "fatal_error" }),
        json!({ "status": 429, "after": 1 }),
        json!({ "status": 429, "after": 4 }),
        json!({ "status": 429, "after": "soon" }),
    ];
    let mut texts = Vec::new();
    for (number, fault) in faults.iter().enumerate() {
        let text = format!("text-{number}.");
        slack.asks("fault", json!({ "method": "chat.postMessage", "faults": [fault] }));
        slack.says(&text, json!({}));
        slack.answer("D0ANN", &text);
        texts.push(text);
    }
    slack.once(&texts);
}

fn path(slack: &Slack, name: &str) -> Vec<PathBuf> {
    fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
    }
    walk(&slack.host.data().join(name))
}

/// Files of people: their bytes, and a reason where there is none. The token goes to Slack only.
#[test]
fn files_of_slack_are_fetched_with_the_token_and_pages_are_no_files() {
    let slack = Slack::connected();
    let server = slack.server();
    slack.says(
        "with files",
        json!({ "files": [
            { "name": "a.txt", "text": "the content of a file" },
            { "name": "empty.txt", "text": "" },
            { "name": "login.pdf", "mime": "application/pdf", "address": format!("{server}/login"), "size": 9 },
            { "name": "moved.pdf", "mime": "application/pdf", "address": format!("{server}/files-pri/T-F999/x") },
            { "name": "away.txt", "address": "https://evil.test/x" },
            { "name": "large.bin", "size": 99_000_000_000_u64 },
            { "name": "gone.txt", "more": { "mode": "tombstone" } },
        ] }),
    );
    slack.answer("D0ANN", "with files");
    let stored = slack.stored();
    for text in [
        "a.txt",
        "Slack sends a page instead of it",
        "Slack asks to log in",
        "it is not with Slack",
        "larger than",
        "it was deleted",
    ] {
        assert!(stored.contains(text), "{text}: {stored}");
    }
    assert!(path(&slack, "files").iter().any(|file| std::fs::read(file).unwrap() == b"the content of a file"));
    let strange = json!({ "person": "U0EVE", "channel": "C0ALL", "files": [{ "name": "b.txt", "text": "b" }] });
    let before = slack.asked("file").len();
    slack.says("<@U0BOT> from a stranger", strange);
    slack.says("afterwards", json!({}));
    slack.answer("D0ANN", "afterwards");
    assert_eq!(slack.asked("file").len(), before, "a stranger's files are not fetched");
}

/// Refused tokens are down, in words, and nothing is tried in a storm.
#[test]
fn refused_tokens_of_slack_are_told() {
    let slack = Slack::connected();
    let down = |text: &str| {
        let why = || self_why(&slack).filter(|why| why.contains(text));
        wait_for(text, why)
    };
    slack.asks("disconnect", json!({ "reason": "link_disabled", "after": 0.1 }));
    down("Socket Mode of the app was switched off");
    slack.host.done(&["channels", "reconnect", "slack"], b"");
    slack.up();
    slack.asks("revoke", json!({ "which": "app" }));
    slack.asks("drop", json!({}));
    let why = down("invalid_auth");
    assert!(why.contains("app token"), "{why}");
    let asked = slack.asked("apps.connections.open").len();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(slack.asked("apps.connections.open").len(), asked);
    slack.asks("allow", json!({}));
    slack.host.done(&["channels", "reconnect", "slack"], b"");
    slack.up();
    slack.asks("revoke", json!({ "which": "bot" }));
    slack.says("to nobody", json!({}));
    down("bot token");
    slack.asks("allow", json!({}));
    slack.host.done(&["channels", "reconnect", "slack"], b"");
    slack.answer("D0ANN", "to nobody");
}

fn self_why(slack: &Slack) -> Option<String> {
    let listed = slack.listed();
    (listed["state"] == "down").then(|| listed["why"].as_str().unwrap_or_default().to_owned())
}

/// A decision has buttons; a stranger's press decides nothing, and each person is told what came of it.
#[test]
fn cards_of_slack_have_buttons_and_who_presses_is_told() {
    let slack = Slack::connected();
    slack.says("<@U0BOT> may I?", json!({ "channel": "G0FEW", "person": "U0EVE" }));
    let buttons = |message: &Value| {
        let blocks = message["blocks"].as_array().cloned().unwrap_or_default();
        blocks.into_iter().filter_map(|block| block["elements"].as_array().cloned()).flatten().collect::<Vec<Value>>()
    };
    let card = || slack.answers("D0ANN").into_iter().find(|message| !buttons(message).is_empty());
    let card = wait_for("the card", card);
    let label = buttons(&card)[0]["text"]["text"].as_str().unwrap().to_owned();
    let press = |person: &str| {
        let before = slack.asks("known", json!({}))["ephemeral"].as_array().unwrap().len();
        slack.asks("press", json!({ "channel": "D0ANN", "ts": card["ts"], "label": label, "person": person }));
        wait_for("what the person is told", || {
            slack.asks("known", json!({}))["ephemeral"].as_array().unwrap().get(before).cloned()
        })
    };
    // Eve is not in that chat, so the answer goes to the address that came with the press.
    let told = press("U0EVE");
    assert!(told["hook"].is_string(), "{told}");
    assert!(slack.host.done(&["approvals", "list", "--json"], b"").contains("\"ap1\""));
    let told = press("U0ANN");
    assert_eq!((&told["user"], &told["channel"]), (&json!("U0ANN"), &json!("D0ANN")));
    let changed = || slack.answers("D0ANN").into_iter().find(|message| message["ts"] == card["ts"]);
    wait_for("the card without its buttons", || changed().filter(|message| buttons(message).is_empty()));
    assert!(!slack.host.done(&["approvals", "list", "--json"], b"").contains("\"pending\""), "{told}");
    slack.host.check();
}
