//! A stand-in for WhatsApp's server and people there, for tests of `hearth-whatsapp`: `tools/whatsapp/tests/linked/people.rs`.

use std::io::{BufRead as _, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{linked, running};
use super::stand_in::StandIn;
use super::{wait_for, wait_for_or};

/// The account that the device is linked to, and people of the stand-in.
pub(crate) const BOT: &str = "15550000001";
pub(crate) const ANN: &str = "15550000002";
pub(crate) const EVE: &str = "15550000004";

/// The stand-in, and an installation with the channel `phone`.
pub(crate) struct Linked(StandIn);

impl Linked {
    /// Starts a daemon whose bridge is a linked device of an account. None where its programs are not built.
    pub(crate) fn start(account: &str) -> Option<Self> {
        let programs = linked()?;
        let mut linked = Self(StandIn::start_program(&programs.people));
        linked.program(&programs.bridge);
        // The phone is there before a device is linked to it.
        linked.sent(BOT);
        linked.host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
        linked.host.apply(&linked.channel(account));
        linked.host.start();
        linked.link();
        Some(linked)
    }

    /// The section of the channel.
    pub(crate) fn channel(&self, account: &str) -> String {
        format!(
            "schema = 1\n[channels.phone]\ntype = \"bridge\"\ncommand = [\"{}\"]\n\
             settings = {{ account = \"{account}\", server = \"127.0.0.1:{}\" }}\n",
            self.path("hearth-whatsapp").display(),
            self.read("port"),
        )
    }

    /// Links the device with the command that the channel's state shows.
    pub(crate) fn link(&self) {
        let why = self.down("linked");
        let advice = why.split('`').nth(1).unwrap_or_else(|| panic!("{why}"));
        let directory = advice.strip_prefix("hearth-whatsapp link ").unwrap_or_else(|| panic!("{why}"));
        let mut command = self.host.bare(self.path("hearth-whatsapp").to_str().unwrap());
        command.args(["link", directory, &format!("127.0.0.1:{}", self.read("port"))]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let printed = self.scanned(&mut child);
        assert!(child.wait().unwrap().success(), "{printed}");
        // Otherwise the daemon looks within a minute.
        self.host.done(&["channels", "reconnect", "phone"], b"");
        self.up();
    }

    /// Scans each code that a command shows, and returns what it printed.
    fn scanned(&self, child: &mut Child) -> String {
        let mut printed = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if let Some(code) = line.strip_prefix("for tests: ") {
                self.asks("scan", json!({ "code": code }));
            }
            printed.push_str(&line);
            printed.push('\n');
        }
        printed
    }

    /// Waits until the device is connected.
    pub(crate) fn up(&self) {
        let mut is_up = || (self.listed()["state"] == "up" && self.asks("is-online", json!({})) == true).then_some(());
        wait_for_or("the bridge", &mut is_up, || self.listed().to_string());
    }

    /// Waits until the channel is down for a reason.
    pub(crate) fn down(&self, text: &str) -> String {
        let mut is_down = || {
            let listed = self.listed();
            let why = listed["why"].as_str().unwrap_or_default();
            (listed["state"] == "down" && why.contains(text)).then(|| why.to_owned())
        };
        wait_for_or(text, &mut is_down, || self.listed().to_string())
    }

    fn listed(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.host.done(&["channels", "list", "--json"], b"")).unwrap();
        list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
    }

    /// A person writes to the account.
    pub(crate) fn says(&self, person: &str, text: &str) {
        self.asks("say", json!({ "person": person, "text": text }));
    }

    /// What a person has.
    pub(crate) fn sent(&self, person: &str) -> Vec<Value> {
        self.asks("sent", json!({ "person": person })).as_array().unwrap().clone()
    }

    /// The first message with a text.
    pub(crate) fn answer(&self, person: &str, text: &str) -> Value {
        let has = |message: &Value| message["text"].as_str().is_some_and(|found| found.contains(text));
        wait_for_or(&format!("the answer with {text}"), &mut || self.sent(person).into_iter().find(has), || {
            format!("{:#}\n{:#?}\n{}", self.listed(), self.sent(person), self.host.unfinished())
        })
    }

    /// The processes of the bridge.
    pub(crate) fn running(&self) -> Vec<u32> {
        running(&self.path("hearth-whatsapp"))
    }

    /// Kills the daemon, and starts it when its bridge has ended.
    pub(crate) fn kill_daemon(&mut self) {
        self.host.kill();
        wait_for("the bridge to end with the daemon", || self.running().is_empty().then_some(()));
        self.host.start();
    }
}

impl Deref for Linked {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.0
    }
}

impl DerefMut for Linked {
    fn deref_mut(&mut self) -> &mut StandIn {
        &mut self.0
    }
}
