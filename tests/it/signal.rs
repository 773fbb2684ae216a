//! `hearth-networks signal` between a daemon and a stand-in for signal-cli.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::bridge_programs::{contents, kill, program, running};
use crate::host::chaos::{Chaos, settled, texts};
use crate::host::signal::{ALL, ANN, BOB, BOT, EVE, FEW, NUMBER, Signal};
use crate::host::{wait_for, wait_for_or};

impl Signal {
    /// Starts a daemon with the account as the channel `signal`, and an agent that echoes in Ann's direct chat and where it is
    /// mentioned in a group. `more` is for the section of the channel, instead of the program if it names a daemon.
    fn connected(more: &str) -> Self {
        let mut signal = Self::start();
        signal.connect(more);
        signal.up();
        signal
    }

    fn connect(&mut self, more: &str) {
        let built = program("networks");
        let program = self.program(&built);
        self.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        let chat = |id: &str, more: &str| {
            format!("[[chats]]\nchannel = \"signal\"\nplatform_id = \"{id}\"\nunknown_senders = \"strict\"\n{more}\n")
        };
        let direct = "[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"";
        let group = "group = true\n[[chats.wirings]]\nagent = \"main\"\nengage = \"mention\"";
        let cli = if more.contains("server") { String::new() } else { format!(", \"{}\"", self.cli()) };
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.signal]\ntype = \"bridge\"\n\
             command = [\"{}\", \"signal\"{cli}]\nsettings = {{ account = \"{NUMBER}\"{more} }}\n\
             [[users]]\nid = \"signal:{ANN}\"\nroles = [\"owner\"]\n{}{}{}",
            program.display(),
            chat(ANN, direct),
            chat(BOB, direct),
            chat(ALL, group),
        ));
        self.host.start();
    }

    /// Waits until the bridge gets messages.
    fn up(&self) {
        wait_for_or(
            "the bridge",
            &mut || {
                let is_up = self.listed()["state"] == "up" && self.asks("known", json!({}))["subscribed"] == 1;
                is_up.then_some(())
            },
            || self.listed().to_string(),
        );
    }

    fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    /// Waits until the channel is down for a reason.
    fn down(&self, text: &str) -> String {
        wait_for_or(
            text,
            &mut || {
                let listed = self.listed();
                let why = listed["why"].as_str().unwrap_or_default();
                (listed["state"] == "down" && why.contains(text)).then(|| why.to_owned())
            },
            || self.listed().to_string(),
        )
    }

    /// A person writes something; when, which is its id.
    fn says(&self, text: &str, more: Value) -> u64 {
        let mut asked = json!({ "text": text });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.asks("say", asked)["timestamp"].as_u64().unwrap()
    }

    /// What the bot sent to a chat.
    fn sent(&self, chat: &str) -> Vec<Value> {
        self.asks("sent", json!({ "chat": chat })).as_array().unwrap().clone()
    }

    /// The first answer with a text.
    fn answer(&self, chat: &str, text: &str) -> Value {
        let has = |message: &Value| message["text"].as_str().is_some_and(|found| found.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.sent(chat).into_iter().find(has), || {
            format!("{:#}\n{}", self.listed(), self.host.unfinished())
        })
    }

    fn stored(&self) -> String {
        self.host.rows("bodies").iter().map(Value::to_string).collect()
    }

    fn asked(&self, method: &str) -> Vec<Value> {
        self.asks("log", json!({ "method": method })).as_array().unwrap().clone()
    }

    /// What is in a directory of the bridge.
    fn inside(&self, name: &str) -> Vec<PathBuf> {
        let directory = self.host.data().join("bridges/signal").join(name);
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Waits until the bridge has a message on disk: before, it would be lost if the bridge died.
    fn kept(&self, text: &str) {
        let is_spooled = || {
            let lines = self.inside("state/spool").into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
            lines.into_iter().any(|line| line.contains(text))
        };
        wait_for("a message on disk", || (is_spooled() || self.stored().contains(text)).then_some(()));
    }

    /// How often signal-cli was started.
    fn starts(&self) -> usize {
        self.asks("known", json!({}))["starts"].as_array().unwrap().len()
    }

    /// Waits until signal-cli was started again: what one that ends takes from Signal is lost.
    fn started_again(&self, before: usize) {
        wait_for("another start of signal-cli", || (self.starts() > before).then_some(()));
    }

    /// How often the bot sent a text to a chat.
    fn count(&self, chat: &str, text: &str) -> usize {
        let all: String = self.sent(chat).iter().filter_map(|message| message["text"].as_str()).collect();
        all.matches(text).count()
    }

    /// The processes of the bridge.
    fn running(&self) -> Vec<u32> {
        running(&self.directory.path().join("hearth-networks"))
    }
}

#[test]
fn conversations_in_direct_chats_and_groups_of_signal() {
    let signal = Signal::connected("");
    let known = signal.asks("known", json!({}));
    let words: Vec<&str> = known["starts"][0].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[2..], ["-a", NUMBER, "jsonRpc", "--receive-mode=manual", "--ignore-stories"]);
    assert_eq!((words[0], &known["config"]["linkPreviews"]), ("--config", &json!(false)));
    signal.asks("set", json!({ "noise": true, "shuffle": true }));
    signal.says("🦀 **how** https://x.test/_a_?", json!({}));
    let answer = signal.answer(ANN, "how");
    let text = answer["text"].as_str().unwrap();
    let before = text.split("how").next().unwrap().encode_utf16().count();
    assert!(text.contains("🦀 how https://x.test/_a_?"), "{text}");
    assert_eq!(answer["styles"], json!([format!("{before}:3:BOLD")]));
    let quoted = json!([answer["timestamp"], BOT, "how"]);
    signal.says("by a quote", json!({ "group": ALL, "quote": quoted }));
    signal.answer(ALL, "by a quote");
    signal.says("\u{fffc} and \u{fffc} in the group", json!({ "group": ALL, "mentions": [[0, BOT], [6, EVE]] }));
    signal.answer(ALL, "in the group");
    nothings(&signal);
    signal.says("the last one", json!({}));
    signal.answer(ANN, "the last one");
    let stored = signal.stored();
    for text in ["by name", "by a stranger", "by an edit", "by a deletion", "from the bot", "\u{fffc}"] {
        assert!(!stored.contains(text), "{text}: {stored}");
    }
    assert!(stored.contains("Ann <3") && stored.contains(&format!("\"handle\":\"{ANN}\"")), "{stored}");
    assert!(stored.contains("replyTo"), "{stored}");
    assert_eq!(signal.host.rows("bodies").len(), 4);
    assert!(!signal.asks("known", json!({}))["typing"].as_array().unwrap().is_empty());
    assert!(signal.asked("send").iter().all(|asked| !asked.to_string().contains("preview")));
    wait_for("an empty spool", || signal.inside("state/spool").is_empty().then_some(()));
    signal.host.check();
}

/// What is no message for an agent.
fn nothings(signal: &Signal) {
    signal.says("hearth, @hearth, +15550001111: by name", json!({ "group": ALL }));
    let forged = json!({ "group": ALL, "person": EVE, "mentions": [[0, BOT]], "senderId": ANN, "sourceUuid": ANN });
    signal.says("\u{fffc} by a stranger", forged);
    let edit = json!({ "targetSentTimestamp": 1, "dataMessage": { "timestamp": 1, "message": "by an edit" } });
    signal.asks("envelope", json!({ "editMessage": edit }));
    signal.says("by a deletion", json!({ "remoteDelete": { "timestamp": 1 } }));
    signal.says(
        "",
        json!({ "reaction": { "emoji": "👍", "targetAuthor": BOT, "targetSentTimestamp": 1, "isRemove": false } }),
    );
    signal.asks("envelope", json!({ "receiptMessage": { "when": 1, "isRead": true, "timestamps": [1] } }));
    signal.asks("envelope", json!({ "typingMessage": { "action": "STOPPED", "timestamp": 1 } }));
    signal.asks("envelope", json!({ "callMessage": { "offerMessage": { "id": 1 } } }));
    signal.says("from the bot", json!({ "person": BOT, "to": BOT }));
    // An envelope that comes twice is one message.
    signal.says("twice", json!({ "group": ALL, "person": EVE }));
    signal.asks("repeat", json!({}));
}

/// Files of people: their bytes, long texts, and a reason where there is none. signal-cli's copies go.
#[test]
fn files_and_long_texts_of_signal() {
    let signal = Signal::connected("");
    files(&signal);
    let long = format!("The beginning 🦀. {}The end.", "A sentence of a long text. ".repeat(1_500));
    signal.says(&long, json!({}));
    let end = signal.answer(ANN, "The end.");
    let parts =
        signal.sent(ANN).iter().filter(|message| message["text"].as_str().unwrap().contains("sentence")).count();
    assert!(parts > 20 && end["text"].as_str().unwrap().len() <= 1_900, "{parts}");
    assert!(signal.stored().contains("The beginning 🦀. A sentence") && signal.stored().contains("text. The end."));
    let strange = json!({ "person": EVE, "group": ALL, "mentions": [[0, BOT]], "files": [{ "name": "b.txt", "text": "of a stranger" }] });
    signal.says("\u{fffc} from a stranger", strange);
    signal.says("afterwards", json!({}));
    signal.answer(ANN, "afterwards");
    // The files of strangers are removed, and so are those that were passed on.
    wait_for("signal-cli's files to go", || (signal.inside("state/signal-cli/attachments").len() == 1).then_some(()));
    let kept: Vec<Vec<u8>> = contents(&signal.host.data().join("files"));
    assert!(!kept.iter().any(|file| file == b"of a stranger"));
    signal.host.check();
}

fn files(signal: &Signal) {
    signal.says(
        "with files",
        json!({ "files": [
            { "name": "a.txt", "text": "the content of a file" },
            { "name": "empty.txt", "text": "" },
            { "name": "gone.txt", "fetched": false },
            { "name": "odd.txt", "id": "..%2F..%2Fx", "fetched": true },
        ] }),
    );
    signal.answer(ANN, "with files");
    let stored = signal.stored();
    for text in ["a.txt", "empty.txt", "signal-cli did not fetch it"] {
        assert!(stored.contains(text), "{text}: {stored}");
    }
    assert!(contents(&signal.host.data().join("files")).iter().any(|file| file == b"the content of a file"));
}

/// A daemon of signal-cli that runs already, perhaps with other accounts.
#[test]
fn a_daemon_of_signal_cli_that_runs_already() {
    let mut signal = Signal::start();
    signal.connect(&format!(", server = \"{}\"", signal.daemon()));
    signal.up();
    files(&signal);
    assert_eq!(signal.asked("getAttachment").len(), 2);
    // It is started again.
    signal.asks("end", json!({}));
    signal.says("after its end", json!({}));
    signal.answer(ANN, "after its end");
    signal.asks("set", json!({ "registered": false }));
    signal.asks("end", json!({}));
    let why = signal.down("is not linked");
    assert!(why.contains("`signal-cli link -n Hearth`"), "{why}");
}

/// The program ends, hangs, or writes what is no JSON: it is started again, and nothing is lost.
#[test]
fn signal_cli_that_ends_or_hangs_is_started_again() {
    let signal = Signal::connected("");
    signal.asks("garbage", json!({}));
    signal.says("after a line of garbage.", json!({}));
    signal.answer(ANN, "after a line of garbage.");
    signal.asks("end", json!({ "text": "Out of memory", "code": 3 }));
    signal.says("after an end.", json!({}));
    signal.answer(ANN, "after an end.");
    signal.asks("set", json!({ "told": false }));
    signal.says("after half a line.", json!({}));
    signal.asks("torn", json!({}));
    signal.asks("set", json!({ "told": true }));
    signal.answer(ANN, "after half a line.");
    let before = signal.starts();
    signal.asks("garbage", json!({ "lines": 30 }));
    signal.started_again(before);
    signal.says("after much garbage.", json!({}));
    signal.answer(ANN, "after much garbage.");
    assert_eq!(signal.asks("known", json!({}))["starts"].as_array().unwrap().len(), 4);
    // It still runs, and nothing comes any more.
    signal.asks("set", json!({ "mute": true, "told": false }));
    signal.says("after silence.", json!({}));
    signal.down("did not answer");
    signal.asks("set", json!({ "mute": false, "told": true }));
    signal.answer(ANN, "after silence.");
    assert_eq!(signal.host.rows("bodies").len(), 5, "each message is stored once");
    signal.host.check();
}

/// An account that is not linked is told, with what to do.
#[test]
fn an_account_of_signal_that_is_not_linked_is_told() {
    let mut signal = Signal::start();
    signal.asks("set", json!({ "registered": false }));
    signal.connect("");
    let why = signal.down("is not linked");
    let config = signal.host.data().join("bridges/signal/state/signal-cli");
    let command = format!("`signal-cli --config {} link -n Hearth`", config.display());
    assert!(why.contains(NUMBER) && why.contains(&command), "{why}");
    let starts = || signal.asks("known", json!({}))["starts"].as_array().unwrap().len();
    let before = starts();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(starts(), before, "it is left alone for a minute");
    signal.asks("set", json!({ "registered": true }));
    signal.host.done(&["channels", "reconnect", "signal"], b"");
    signal.up();
    signal.asks("set", json!({ "registered": false }));
    signal.asks("end", json!({}));
    signal.down("is not linked");
}

/// Answers that are late, lost or missing. A repeat that people may see twice says so.
#[test]
fn answers_of_signal_cli_that_are_late_or_lost() {
    let signal = Signal::connected("");
    let with = |text: &str, fault: Value| {
        signal.asks("fault", json!({ "method": "send", "faults": [fault] }));
        signal.says(text, json!({}));
        signal.answer(ANN, text)
    };
    // Later than the bridge waits for it: it is the same message.
    with("late.", json!({ "late": 20 }));
    signal.says("and then.", json!({}));
    signal.answer(ANN, "and then.");
    assert_eq!(signal.count(ANN, "late."), 1);
    // It was sent, and the process ended before it said so.
    with("ended.", json!({ "end": true }));
    wait_for("a marked repeat", || (signal.count(ANN, "ended.") == 2).then_some(()));
    assert_eq!(signal.count(ANN, "(sent again, the first attempt may have arrived)"), 1);
    with("torn.", json!({ "torn": true }));
    wait_for("a marked repeat", || (signal.count(ANN, "torn.") == 2).then_some(()));
    // Not sent, and not answered.
    with("lost.", json!({ "lost": true }));
    let lost: Vec<Value> =
        signal.sent(ANN).into_iter().filter(|message| message["text"].as_str().unwrap().contains("lost.")).collect();
    assert!(lost.len() == 1 && lost[0]["text"].as_str().unwrap().starts_with("(sent again"), "{lost:?}");
    signal.host.check();
}

/// What signal-cli says of people to whom it was to send.
#[test]
fn results_of_signal_cli_for_each_person() {
    let signal = Signal::connected("");
    let fault = |fault: Value| drop(signal.asks("fault", json!({ "method": "send", "faults": [fault] })));
    // A pause, and then once.
    for (number, one) in [
        json!({ "type": "RATE_LIMIT_FAILURE", "after": 1 }),
        json!({ "type": "RATE_LIMIT_FAILURE", "after": 1, "as_error": -5 }),
        json!({ "type": "INVALID_PRE_KEY_FAILURE" }),
    ]
    .into_iter()
    .enumerate()
    {
        fault(one);
        let text = format!("text-{number}.");
        signal.says(&text, json!({}));
        signal.answer(ANN, &text);
        assert_eq!(signal.count(ANN, &text), 1);
    }
    assert_eq!(signal.count(ANN, "(sent again"), 0);
    // One of a group is enough.
    fault(json!({ "types": { (EVE): "IDENTITY_FAILURE", (BOB): "NETWORK_FAILURE" } }));
    signal.says("\u{fffc} mixed.", json!({ "group": ALL, "mentions": [[0, BOT]] }));
    assert_eq!(signal.answer(ALL, "mixed.")["got"], json!([ANN]));
    // A changed key holds the messages to that person, and no others, until the owner trusts it.
    signal.asks("trust", json!({ "person": BOB, "trusted": false }));
    signal.host.done(&["roles", "grant", &format!("signal:{BOB}"), "owner"], b"");
    signal.says("to Bob.", json!({ "person": BOB }));
    signal.down("the safety number of");
    signal.says("to Ann.", json!({}));
    signal.answer(ANN, "to Ann.");
    assert_eq!(signal.count(BOB, "to Bob."), 0);
    // What can never be sent is told.
    fault(json!({ "type": "UNREGISTERED_FAILURE" }));
    signal.says("without an address.", json!({}));
    let failed = |row: &Value| row["value"]["state"].to_string().contains("has no account at Signal any more");
    wait_for("a message that failed", || signal.host.outgoing().into_iter().find(failed));
    fault(json!({ "error": -1, "text": "Invalid group" }));
    signal.says("refused.", json!({}));
    let failed = |row: &Value| row["value"]["state"].to_string().contains("Invalid group");
    wait_for("a message that was refused", || signal.host.outgoing().into_iter().find(failed));
    signal.host.check();
}

/// On a device of a person's account, only notes to themselves and chats that were wired are for an agent.
#[test]
fn a_linked_device_of_signal_reads_wired_chats_only() {
    let mut signal = Signal::start();
    signal.asks("set", json!({ "linked": true }));
    signal.connect("");
    signal.up();
    signal.host.done(&["roles", "grant", &format!("signal:{BOT}"), "owner"], b"");
    signal.says("private, from Eve", json!({ "person": EVE }));
    signal.says("private, in a group", json!({ "person": EVE, "group": FEW }));
    signal.says("private, to Eve", json!({ "person": BOT, "to": EVE, "files": [{ "name": "x", "text": "private" }] }));
    signal.says("private, of mine", json!({ "person": BOT, "to": BOT, "group": FEW, "quote": [7, BOT, "x"] }));
    signal.says("from Ann, wired", json!({}));
    signal.answer(ANN, "from Ann, wired");
    signal.says("to Ann, wired", json!({ "person": BOT, "to": ANN }));
    signal.answer(ANN, "to Ann, wired");
    signal.says("a note", json!({ "person": BOT, "to": BOT }));
    signal.answer(BOT, "a note");
    assert!(!signal.stored().contains("private"), "{}", signal.stored());
    assert!(signal.sent(EVE).is_empty() && signal.sent(FEW).is_empty());
    let open = signal.host.done(&["approvals", "list", "--json"], b"");
    assert!(!open.contains("\"ap1\""), "{open}");
    wait_for("an empty spool", || signal.inside("state/spool").is_empty().then_some(()));
    signal.host.check();
}

/// A decision has numbers, and an answer with one decides; a stranger's does not.
#[test]
fn cards_of_signal_have_numbers() {
    let signal = Signal::connected("");
    signal.says("\u{fffc} may I?", json!({ "person": EVE, "group": FEW, "mentions": [[0, BOT]] }));
    let card = signal.answer(ANN, "\n1. ");
    assert_eq!(card["styles"], json!([]));
    signal.says("1", json!({ "person": EVE, "group": FEW }));
    assert!(signal.host.done(&["approvals", "list", "--json"], b"").contains("\"pending\""));
    signal.says("1", json!({}));
    wait_for("the decision", || {
        (!signal.host.done(&["approvals", "list", "--json"], b"").contains("\"pending\"")).then_some(())
    });
    signal.host.check();
}

/// The bridge and the daemon are killed while messages arrive and answers leave: nothing is lost, and what people see twice
/// says so.
#[test]
fn nothing_is_lost_by_signal_and_repeats_are_marked() {
    let mut signal = Signal::connected("");
    let chaos = Chaos::new(8);
    let shown = |signal: &Signal| texts(&signal.sent(ANN));
    for (number, burst) in chaos.bursts() {
        for text in burst {
            signal.says(text, json!({}));
        }
        // It keeps them in their order.
        burst.last().into_iter().for_each(|text| signal.kept(text));
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        let before = signal.starts();
        match number % 4 {
            0 => drop(signal.asks("end", json!({}))),
            1 | 2 => signal.running().into_iter().for_each(kill),
            _ => {
                signal.host.kill();
                wait_for("the bridge to end with the daemon", || signal.running().is_empty().then_some(()));
                signal.host.start();
            }
        }
        signal.started_again(before);
        chaos.follow(number, || shown(&signal), || signal.host.unfinished());
    }
    chaos.marked(|| shown(&signal), || signal.host.unfinished());
    settled(&signal.host);
    assert_eq!(signal.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    signal.host.check();
}
