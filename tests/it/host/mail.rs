//! A real mail system for tests of `hearth-mail`: Dovecot, Postfix and OpenDKIM on ports of this machine.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::bridge_programs::{kit, program};
use super::{Host, skipped, wait_for};
use crate::world::directory;

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mail_people.py");

/// What the servers call themselves in the results about senders.
const SERVER: &str = "mail.test";

/// Mail servers with people, and an installation.
pub(crate) struct Mail {
    pub(crate) host: Host,
    servers: Child,
    pub(crate) directory: tempfile::TempDir,
}

impl Mail {
    /// Starts the servers; none where that is not possible.
    pub(crate) fn start() -> Option<Self> {
        let mut host = Host::new();
        let is_there = |program: &str| Path::new("/usr/sbin").join(program).exists();
        if !rustix::process::geteuid().is_root() || !["dovecot", "postfix", "opendkim"].into_iter().all(is_there) {
            skipped("there are no mail servers, or this is not root, so `hearth-mail` is not tested");
            return None;
        }
        let directory = directory();
        let here = directory.path().display().to_string();
        host.env.push(("MAIL_PEOPLE".to_owned(), here.clone()));
        // The servers end with its standard input.
        let servers = host.bare("python3").arg(PEOPLE).arg("serve").arg(&here).stdin(Stdio::piped()).spawn().unwrap();
        let mail = Self { host, servers, directory };
        wait_for("the mail servers", || mail.directory.path().join("ready").exists().then_some(()));
        Some(mail)
    }

    pub(crate) fn settings(&self) -> Value {
        let read = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap();
        let ports: Value = serde_json::from_str(&read("ports")).unwrap();
        json!({
            "address": "bot@own.test",
            "imap": format!("tls://127.0.0.1:{}", ports["imap"]),
            "smtp": format!("starttls://127.0.0.1:{}", ports["smtp"]),
            "certificates": read("ca.pem"),
            "authserv_id": SERVER,
            "copies": "server",
            "per_hour": "100000",
        })
    }

    /// Runs the kit.
    pub(crate) fn test(&self) -> Value {
        let (settings, bridge) = (self.settings().to_string(), program("mail").display().to_string());
        let token = self.directory.path().join("token");
        std::fs::write(&token, "password-of-the-bot").unwrap();
        let token = format!("file:{}", token.display());
        let words = ["--network", PEOPLE, "--settings", &settings, "--chat", "ann@friend.test", "--token", &token];
        kit(&self.host, &words, &[&bridge])
    }

    pub(crate) fn people(&self, words: &[&str]) -> String {
        let done = self.host.bare("python3").arg(PEOPLE).args(words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        drop(self.servers.stdin.take());
        self.servers.wait().unwrap();
    }
}
