//! `hearth-mail` between a daemon and a real mail system.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::bridge_programs::{kill, program, running};
use crate::host::chaos::{Chaos, texts, words};
use crate::host::mail::Mail;
use crate::host::{wait_for, wait_for_or};

impl Mail {
    /// A person writes to the bot.
    fn write(&self, mail: &Value) {
        self.people(&["mail", &mail.to_string()]);
    }

    /// What the bot wrote to Ann.
    fn answers(&self) -> Vec<Value> {
        serde_json::from_str(&self.people(&["mails", "ann@friend.test"])).unwrap()
    }

    /// The same without what earlier calls returned: a long conversation is read once.
    fn new_answers(&self) -> Vec<Value> {
        serde_json::from_str(&self.people(&["new", "ann@friend.test"])).unwrap()
    }

    /// The first answer with a text.
    fn answer(&self, text: &str) -> Value {
        let has = |mail: &Value| mail["text"].as_str().is_some_and(|found| found.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.answers().into_iter().find(has), || {
            self.host.unfinished()
        })
    }

    /// Starts a daemon with the mailbox as the channel `mail`, of which Ann's chat has an agent.
    fn connect(&mut self, agent: &str) {
        self.host.env.push(("BOT_PASSWORD".to_owned(), "password-of-the-bot".to_owned()));
        self.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        let settings = self.settings();
        // Texts of JSON are texts of TOML.
        let lines = settings.as_object().unwrap().iter().map(|(key, value)| format!("{key} = {value}\n"));
        let settings: String = lines.collect();
        // Its own, so that a test kills no other's.
        std::fs::copy(program("mail"), self.program()).unwrap();
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\n{agent}\n[channels.mail]\ntype = \"bridge\"\n\
             command = [\"{}\"]\ntoken = \"env:BOT_PASSWORD\"\n[channels.mail.settings]\n{settings}\n\
             [[users]]\nid = \"mail:ann@friend.test\"\nroles = [\"owner\"]\n[[chats]]\nchannel = \"mail\"\n\
             platform_id = \"ann@friend.test\"\n[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\n\
             pattern = \".\"\n",
            self.program().display()
        ));
        self.host.start();
        wait_for("the mailbox", || (self.listed()["state"] == "up").then_some(()));
        wait_for("the first place", || {
            self.host.rows("bridges").pop().filter(|row| row["value"]["cursors"][0].is_object())
        });
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("hearth-mail")
    }

    /// The processes of the bridge.
    fn running(&self) -> Vec<u32> {
        running(&self.program())
    }

    fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }
}

#[test]
fn a_conversation_by_mail() {
    let Some(mut mail) = Mail::start() else { return };
    mail.connect("provider = \"echo\"");
    mail.write(&json!({"id": "<first@friend.test>", "subject": "Größe", "text": "how large?\n-- \nAnn", "files": {"a.txt": "content"}}));
    let answer = mail.answer("how large?");
    let field = |mail: &Value, name: &str| mail["headers"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!((field(&answer, "subject"), answer["html"].as_bool()), ("Re: Größe".to_owned(), Some(false)));
    assert_eq!(field(&answer, "in-reply-to"), "<first@friend.test>");
    assert_eq!(field(&answer, "auto-submitted"), "auto-replied");
    let id = field(&answer, "message-id");
    assert!(id.starts_with("<hearth.") && id.ends_with("@own.test>"), "{id}");
    assert!(!answer["text"].as_str().unwrap().contains("-- "), "the signature is no text: {answer}");
    let stored = mail.host.rows("bodies").pop().unwrap().to_string();
    assert!(stored.contains("a.txt") && stored.contains("\"handle\":\"ann@friend.test\""), "{stored}");
    let files: Vec<PathBuf> = walk(&mail.host.data().join("files"));
    assert!(files.iter().any(|file| std::fs::read(file).unwrap() == b"content"), "{files:?}");

    let headers = json!({"References": format!("<first@friend.test> {id}"), "In-Reply-To": id});
    mail.write(&json!({
        "subject": "Re: Größe", "headers": headers,
        "html": "<p>larger<p style='display:none'>EVIL ORDER</p><blockquote>echo: how large?</blockquote>",
    }));
    let second = mail.answer("larger");
    let text = second["text"].as_str().unwrap();
    assert!(!text.contains("EVIL") && !text.contains("Subject") && text.contains("hidden text left out"), "{text}");
    assert_eq!(field(&second, "references").split_whitespace().next(), Some("<first@friend.test>"));
    let sessions = mail.host.rows("sessions").len();
    assert_eq!(sessions, 1, "one conversation with a person");
    mail.host.check();
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Only the own server says who wrote a mail: forged senders, programs and lists reach no agent, decide nothing, and
/// get no answer and no card.
#[test]
fn forged_and_automatic_mail_reaches_no_agent() {
    let Some(mut mail) = Mail::start() else { return };
    mail.connect("provider = \"echo\"");
    let result = "mail.test; dkim=pass header.d=friend.test";
    for forged in [
        json!({"sign": "", "text": "forged: unsigned"}),
        json!({"sign": "evil.test", "text": "forged: signed by another"}),
        json!({"sign": "", "text": "forged: own result", "headers": {"Authentication-Results": result}}),
        json!({"sign": "", "text": "forged: other result", "headers": {"Authentication-Results": "mx.test; dkim=pass header.d=friend.test"}}),
        json!({"from": "\"ann@friend.test\" <eve@evil.test>", "sign": "evil.test", "text": "forged: by name"}),
        json!({"from": "Eve <eve@evil.test>", "sign": "evil.test", "text": "forged: a stranger"}),
        json!({"raw": "From: ann@friend.test\r\nFrom: eve@evil.test\r\nMessage-ID: <two@x>\r\nSubject: x\r\n\r\nforged: two senders\r\n"}),
        json!({"text": "forged: a loop", "headers": {"Auto-Submitted": "auto-replied"}}),
        json!({"text": "forged: a list", "headers": {"List-Id": "<x.test>"}}),
        json!({"text": "forged: a bounce", "envelope": ""}),
        json!({"from": "bot@own.test", "text": "forged: itself"}),
    ] {
        mail.write(&forged);
    }
    mail.write(&json!({"text": "real"}));
    mail.answer("real");
    let all = mail.answers();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(mail.host.rows("approvals").len(), 0, "no card asks about strangers");
    let stored: String = mail.host.rows("bodies").iter().map(Value::to_string).collect();
    assert!(!stored.contains("forged"), "{stored}");
    mail.host.check();
}

/// Dovecot is away for a moment, bridge and daemon are killed: everything is there exactly once. The server files a copy of
/// each mail that it accepts, where a repeat is looked up.
#[test]
fn nothing_is_lost_or_doubled_by_mail() {
    let Some(mut mail) = Mail::start() else { return };
    mail.connect("provider = \"echo\"");
    let chaos = Chaos::new(5);
    let heard = RefCell::new(Vec::new());
    let shown = |mail: &Mail| {
        heard.borrow_mut().extend(texts(&mail.new_answers()));
        heard.borrow().clone()
    };
    for (number, burst) in chaos.bursts() {
        mail.people(&[&["say"], &words(burst)[..]].concat());
        std::thread::sleep(Duration::from_millis(97 * (number as u64 % 5)));
        match number % 4 {
            0 => {
                mail.people(&["imap", "stop"]);
                mail.people(&["imap", "start"]);
            }
            1 | 2 => mail.running().into_iter().for_each(kill),
            _ => {
                mail.host.kill();
                wait_for("the bridge to end with the daemon", || mail.running().is_empty().then_some(()));
                mail.host.start();
            }
        }
        chaos.follow(number, || shown(&mail), || mail.host.unfinished());
    }
    chaos.once(|| shown(&mail), || mail.host.unfinished());
    assert_eq!(mail.host.rows("bodies").len(), chaos.texts.len(), "each mail is stored once");
    mail.host.check();
}
