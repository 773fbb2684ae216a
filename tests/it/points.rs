//! A crash before everything that Hearth does outside of a transaction, and before and after every commit.
//!
//! A conversation in which everything happens is held once while the points are counted, then again and again with a
//! crash at the k-th of them. Each time everyone is answered once, the store is consistent, and nothing is left over.
//!
//! An ordinary run takes a sample of the points; `HEARTH_ALL_POINTS=1` takes all, `HEARTH_POINT=<k>` one.

mod commands;
mod names;
mod setup;
mod unit_file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::host::beside::side_by_side;
use crate::host::channels::{Receiver, SECRET, free_port};
use crate::host::deaths::{passed, pick};
use crate::host::disk::copy_store;
use crate::host::fake_telegram::{FakeTelegram, TOKEN};
use crate::host::raw::{self, Raw};
use crate::host::terminal::{Shown, is_over, terminal_event, to_be_shown, watch};
use crate::host::{HOUSE, Host, Running, wait_for, wait_for_or};

/// Number of conversations at the same time: they wait more than they work.
const THREADS: usize = 6;

/// Conversations of an ordinary run.
const MOST: usize = 30;

/// One in this many conversations may be over before its crash, because the points depend on timing.
const DEATHS_PER_MISS: usize = 20;

#[test]
fn a_death_at_every_point_of_a_conversation_is_survived() {
    let origin = origin();
    let Held { points, quiet, .. } = Conversation::new(&origin, None).run();
    let at = pick("a conversation", &points, MOST);
    let held = side_by_side(THREADS, &at, |k| Conversation::new(&origin, Some(*k)).run().died);
    let (mut failed, mut alive) = (Vec::new(), Vec::new());
    for (k, died) in at.iter().copied().zip(held) {
        match died {
            Ok(true) => {}
            Ok(false) => alive.push(k),
            Err(_) => failed.push(format!("{k} ({})", points.get(k - 1).map_or("", |name| name))),
        }
    }
    assert!(failed.is_empty(), "{} of {} deaths were not survived:\n{}", failed.len(), at.len(), failed.join("\n"));
    let (all, most) = (points.len(), at.len().div_ceil(DEATHS_PER_MISS));
    let told = format!("of {all} points, {quiet} of them before it was quiet, nobody died at {alive:?}");
    // A busy machine merges some of the work, so there are fewer points.
    assert!(alive.iter().all(|k| *k > quiet / 10 * 9) && alive.len() <= most, "{told}");
}

/// A chat on a webhook, whose every message is for the agent, and the Telegram group in place of the installation's
/// usual chat.
const WEB: &str = r#"
[[chats]]
channel = "web"
platform_id = "board"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;
const GROUP: i64 = -100;

/// Points that commands reach without a daemon.
fn passed_by_commands() -> Vec<String> {
    [commands::points(), unit_file::points(), setup::points()].concat()
}

/// The beginning of every conversation.
fn origin() -> Host {
    let host = Host::new();
    let uid = rustix::process::geteuid().as_raw();
    let house = HOUSE.replace("\"room\"", &format!("\"{GROUP}\""));
    host.apply(&format!("{house}{WEB}[[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n"));
    host.done(&["tasks", "add", "main", "water the plants", "--every", "1h", "--chat", "terminal/main"], b"");
    host.done(&["tasks", "run", "ta1"], b"");
    let desk = host.path("desk");
    std::fs::create_dir(&desk).unwrap();
    host
}

/// One conversation, with or without a crash.
struct Conversation {
    /// Dropped before the servers that it talks to.
    host: Host,
    telegram: FakeTelegram,
    web: Receiver,
    at: Option<usize>,
    died: bool,
    notes: PathBuf,
    /// Points that were reached when everything was answered for the first time.
    quiet: usize,
}

/// The result of a conversation.
struct Held {
    /// The points that the first daemon reached, if no process was to crash.
    points: Vec<String>,
    /// How many of them were reached until everything was answered for the first time.
    quiet: usize,
    died: bool,
}

impl Conversation {
    fn new(origin: &Host, at: Option<usize>) -> Self {
        let mut host = Host::before_the_first_start();
        copy_store(origin, &host);
        for (name, value) in [("HEARTH_TEST_BACKOFF_MS", "10"), ("BOT_TOKEN", TOKEN), ("WEB_SECRET", SECRET)] {
            host.env.push((name.to_owned(), value.to_owned()));
        }
        let (telegram, web) = (FakeTelegram::start(), Receiver::start(&[]));
        host.apply(&format!(
            "schema = 1\n[channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n\
             [channels.web]\ntype = \"webhook\"\nsecret = \"env:WEB_SECRET\"\nlisten = \"127.0.0.1:{}\"\n{}\n",
            telegram.url(),
            free_port(),
            web.base_url()
        ));
        std::fs::create_dir_all(host.data().join("groups/main")).unwrap();
        std::fs::create_dir(host.path("desk")).unwrap();
        let skill = host.data().join("skills/look");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: look\ndescription: looks\n---\n").unwrap();
        let notes = host.path("points");
        Self { host, telegram, web, at, died: false, notes, quiet: 0 }
    }

    /// Runs the conversation to its end.
    fn run(mut self) -> Held {
        let seam = match self.at {
            Some(k) => ("HEARTH_TEST_CRASH_AT".to_owned(), format!("any:{k}")),
            None => ("HEARTH_TEST_POINTS".to_owned(), self.notes.display().to_string()),
        };
        self.host.env.push(seam);
        self.host.launch();
        self.host.env.pop();
        let (shown, over, data) = (Shown::default(), AtomicBool::new(false), self.host.data());
        std::thread::scope(|scope| {
            scope.spawn(|| watch(&data, &shown, &over));
            let told = std::panic::AssertUnwindSafe(|| self.hold(&shown));
            let done = std::panic::catch_unwind(told);
            over.store(true, Ordering::SeqCst);
            if let Err(panic) = done {
                std::panic::resume_unwind(panic);
            }
        });
        self.judge(&shown.into_inner().unwrap());
        let points = if self.at.is_some() { Vec::new() } else { passed(&self.notes) };
        Held { points, quiet: self.quiet, died: self.died }
    }

    /// Everything that happens, in this order. A request that a dying daemon did not answer is repeated.
    fn hold(&mut self, shown: &Shown) {
        let mut with_file = terminal_event("m1");
        with_file["message"]["content"]["text"] = "plain\n!file a.txt hello".into();
        with_file["message"]["content"]["attachments"] = json!([{"name": "b.txt", "data": "eA=="}]);
        self.inject(&with_file);
        let mut question = terminal_event("m2");
        question["message"]["content"]["text"] = QUESTION.into();
        question["message"]["threadId"] = "asking".into();
        self.inject(&question);
        // Telegram keeps the photo until the sender is approved, and the update until it is confirmed.
        self.telegram.has_file("p", "photos/1.jpg", b"a face".to_vec());
        self.telegram.happens(json!({"message": {
            "message_id": 3, "date": 1_700_000_000, "caption": "may I come in",
            "photo": [{"file_id": "p", "width": 10, "height": 10, "file_size": 6}],
            "from": {"id": 9, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": GROUP, "type": "supergroup", "title": "Room"},
        }}));
        let mut by_web = crate::host::event("m4", "over the web");
        by_web["channelType"] = "web".into();
        by_web["platformId"] = "board".into();
        self.inject(&by_web);
        self.write_state();
        self.again(
            "a session to be begun",
            &["session", "new", "--id", "work", "one"],
            &["already exists in this workspace"],
        );
        self.again("a record to be added", &["session", "append", "work", "two", "--expect", "1"], &["read it again"]);
        self.again("a backup", &["backup"], &[]);
        self.approve();
        self.wait_over(shown);
        self.again("agents to be stopped", &["agents", "restart", "main"], &[]);
        // If several agents work at once, it takes longer to find out which one a skip belongs to.
        std::fs::write(self.skip(), SKIP).unwrap();
        let mut last = terminal_event("m5");
        last["message"]["content"]["text"] = "one more".into();
        self.inject(&last);
        self.wait_over(shown);
        if self.at.is_none() {
            self.quiet = passed(&self.notes).len();
        }
        // An answer without a waiting run becomes a message, which starts a turn when a daemon runs again.
        for _ in 0..4 {
            let ended = self.host.stop();
            self.assert_ended(&ended);
            self.died |= ended.signal.is_some();
            self.host.check();
            let open = self.open_agents();
            if open.is_empty() && self.host.rows("messages").iter().all(is_over) {
                return;
            }
            self.host.launch();
            self.wait_over(shown);
            wait_for("earlier agents to be over", || {
                self.revive();
                let still = self.open_agents();
                open.iter().all(|key| !still.contains(key)).then_some(())
            });
        }
        panic!("something is always left to do: {:#?}", self.host.rows("incarnations"));
    }

    /// Agents that are not known to have stopped yet.
    fn open_agents(&self) -> Vec<String> {
        let open = |row: &Value| row["value"]["phase"].get("Closed").is_none();
        self.host.rows("incarnations").into_iter().filter(open).map(|row| row["key"].to_string()).collect()
    }

    /// The file in which a skill reports a skip.
    fn skip(&self) -> PathBuf {
        self.host.data().join("groups/main/.skip-summary-tessl__check-cfps.json")
    }

    /// Writes the agent's file as a program of the agent does.
    fn write_state(&self) {
        let writer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign_state.py");
        let mut command = self.host.bare("python3");
        command.arg(writer).arg(self.host.data().join("groups/main")).args(["a", "1"]);
        assert_eq!(Running::start(command, b"").end().code, Some(0));
    }

    fn inject(&mut self, event: &Value) {
        let request = json!({"do": "inject", "event": event.to_string(), "dry_run": false});
        wait_for("an event to be accepted", || {
            self.revive();
            let mut raw = Raw::try_greet(&self.host.data())?;
            raw.say(&request).ok()?;
            let heard = raw.try_hear().ok()??;
            raw::outcome(&heard).filter(|outcome| ["routed", "duplicate", "held"].contains(outcome)).map(drop)
        });
    }

    /// Repeats a command until it succeeds, or reports with these words that it was carried out before.
    fn again(&mut self, what: &str, arguments: &[&str], before: &[&str]) {
        wait_for(what, || {
            self.revive();
            let mut command = self.host.command(arguments);
            command.current_dir(self.host.path("desk"));
            let ended = Running::start(command, b"").end();
            let told = format!("{}{}", ended.stdout, ended.stderr);
            let done = ended.code == Some(0) || before.iter().any(|word| told.contains(word));
            if !done && std::env::var_os("HEARTH_POINT").is_some() {
                eprintln!("{arguments:?}: {ended:?}");
            }
            done.then_some(())
        });
    }

    /// Approves the open approvals as soon as people were shown the cards.
    fn approve(&mut self) {
        let asked = wait_for("approvals that were shown", || {
            self.revive();
            let rows = self.host.rows("approvals");
            let shown = rows.iter().all(|row| row["value"]["state"].get("Unsent").is_none());
            (shown && !rows.is_empty()).then_some(rows)
        });
        for row in asked.iter().filter(|row| row["value"]["state"] == "Pending") {
            let id = row["key"].as_str().or(row["key"][0].as_str()).unwrap();
            self.again("a decision", &["approvals", "approve", id], &["decided", "approved", "already"]);
        }
    }

    /// Answers questions, as often as they are asked, until everything has ended and was shown.
    fn wait_over(&mut self, shown: &Shown) {
        let (rows, skip) = (self.host.data(), self.skip());
        let left = move || {
            let table = |table| crate::host::rows_of(&rows, table);
            let open = |row: &Value| row["value"]["state"].get("Delivered").is_none() && !row["value"]["to"].is_null();
            let unsent: Vec<Value> = table("outbound").into_iter().filter(open).collect();
            let waiting = [table("held"), table("fetches")];
            let messages = table("messages");
            format!("skip {}, messages {messages:#?}, unsent {unsent:#?}, waiting {waiting:#?}", skip.exists())
        };
        let mut look = || {
            self.revive();
            for row in self.host.rows("questions") {
                if row["value"]["state"] == "Open" {
                    let id = row["key"].as_str().or(row["key"][0].as_str()).unwrap();
                    // Another session's turn may have ended it meanwhile.
                    self.host.run(&["questions", "answer", id, "Yes"], b"");
                }
            }
            // The messages first: an answer is stored together with the end of its message, so it is in the rows read
            // after.
            let messages = self.host.rows("messages");
            let live: BTreeSet<String> = to_be_shown(&self.host).into_keys().collect();
            let shown: BTreeSet<String> = shown.lock().unwrap().keys().cloned().collect();
            let over = messages.len() >= 5 && messages.iter().all(is_over) && live.is_subset(&shown);
            let waits = ["held", "fetches"].iter().any(|table| !self.host.rows(table).is_empty());
            (over && !waits && self.is_sent() && !self.skip().exists()).then_some(())
        };
        wait_for_or("everything to be answered and shown", &mut look, left);
    }

    /// Whether all messages to Telegram and the web have been sent.
    fn is_sent(&self) -> bool {
        // Actions that the host performed itself were not sent anywhere.
        let here = |row: &Value| row["value"]["to"].is_null() || row["value"]["to"]["channel"] == "terminal";
        let over = |row: &Value| ["Delivered", "Abandoned"].iter().any(|end| row["value"]["state"].get(end).is_some());
        self.host.rows("outbound").iter().all(|row| here(row) || over(row))
    }

    /// Starts the daemon again if it died.
    fn revive(&mut self) {
        if self.host.daemon().is_some_and(|daemon| daemon.try_end().is_some()) {
            let ended = self.host.ended();
            assert_eq!((ended.signal, self.died), (Some(9), false), "the daemon ended: {ended:#?}");
            self.assert_ended(&ended);
            self.died = true;
            if self.host.data().join("store/data.mdb").exists() {
                self.host.check();
            }
            self.host.launch();
        }
    }

    fn assert_ended(&self, ended: &crate::host::Ended) {
        assert!(!ended.stderr.contains(" ERROR "), "{ended:#?}");
        assert!(ended.signal == Some(9) || ended.code == Some(0), "{ended:#?}");
    }

    fn judge(&self, shown: &BTreeMap<String, String>) {
        for row in self.host.rows("messages") {
            let state = &row["value"]["state"];
            assert!(row["value"]["trigger"] == json!(false) || state.get("Completed").is_some(), "{row}");
        }
        for table in ["held", "dropped", "fetches"] {
            assert!(self.host.rows(table).is_empty(), "{table}: {:#?}", self.host.rows(table));
        }
        let stored = |row: &Value| row["value"]["attachments"][0]["blob"].get("Ok").is_some();
        assert_eq!(self.host.rows("bodies").iter().filter(|row| stored(row)).count(), 2, "a file and a photo");
        let sent = |row: &Value| row["value"]["state"].get("Abandoned").is_none();
        let rows = self.host.rows("outbound").into_iter().filter(sent);
        let said: Vec<String> = rows.map(|row| row["value"]["text"].as_str().unwrap().to_owned()).collect();
        for text in ["plain", "may I come in", "over the web", "water the plants"] {
            let count = said.iter().filter(|said| said.contains("echo: ") && said.contains(text)).count();
            assert_eq!(count, 1, "{text}: {said:#?}");
        }
        assert_eq!(said.iter().filter(|said| *said == "a.txt").count(), 1, "{said:#?}");
        for (id, text) in to_be_shown(&self.host) {
            assert_eq!(shown.get(&id), Some(&text), "what is stored and what was shown");
        }
        self.judge_networks();
        let mut command = self.host.command(&["session", "show", "work", "--json"]);
        command.current_dir(self.host.path("desk"));
        let ended = Running::start(command, b"").end();
        let session: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
        let texts: Vec<&str> =
            session["records"].as_array().unwrap().iter().map(|record| record["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["one", "two"], "{session}");
        let state = std::fs::read_to_string(self.host.data().join("groups/main/session-state.json")).unwrap();
        assert!(state.contains("\"a0\""), "{state}");
        let mut left = left_over(&self.host.data());
        // An hourly walk removes these.
        left.retain(|path| !path.starts_with(self.host.data().join("files")));
        assert!(left.is_empty(), "left over: {left:#?}");
    }

    /// On Telegram, the outcome of a message whose sender died is unknown: it is sent again with a note. Over a webhook
    /// it is sent again under the same id.
    fn judge_networks(&self) {
        let shown = self.telegram.shown(GROUP);
        let answers: Vec<&String> = shown.iter().filter(|text| text.contains("may I come in")).collect();
        let again = answers.iter().filter(|text| text.starts_with("(sent again")).count();
        assert!(answers.len() - again <= 1 && again <= usize::from(self.died) && !answers.is_empty(), "{shown:#?}");
        let said = self.web.said();
        let said: Vec<&Value> = said.iter().filter(|body| body.to_string().contains("over the web")).collect();
        let ids: BTreeSet<String> = said.iter().map(|body| body["id"].to_string()).collect();
        assert!(ids.len() == 1 && said.len() <= 1 + usize::from(self.died), "{said:#?}");
    }
}

/// A skill's report.
const SKIP: &str = r#"{"schema_version": 1, "skill": "tessl__check-cfps", "step": "tier 3", "reason": "no answer",
    "items": ["cfp-1"], "technical_failure": true, "occurred_at": "2026-05-01T08:00:00Z"}"#;

/// A question of the agent that waits for an answer.
const QUESTION: &str =
    r#"!ask {"action":"ask_user_question","title":"Deploy?","question":"Now?","options":["Yes","No"],"timeout":600}"#;

/// Files and directories with the names of unfinished work.
fn left_over(data: &Path) -> Vec<PathBuf> {
    let (mut left, mut ahead) = (Vec::new(), vec![data.to_owned()]);
    while let Some(dir) = ahead.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let unfinished = [".tmp", ".part", ".new", "store.next"].iter().any(|word| name.contains(word));
            if unfinished {
                left.push(path);
            } else if entry.file_type().unwrap().is_dir() {
                ahead.push(path);
            }
        }
    }
    left
}
