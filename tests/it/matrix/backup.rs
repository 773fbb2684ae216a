//! The backup of keys at the server, and the recovery key. What is there is read with another implementation.

use std::time::Duration;

use serde_json::{Value, json};

use super::part;
use crate::host::bridge_programs::kill;
use crate::host::matrix::Matrix;
use crate::host::wait_for;

const BACKUP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_backup.py");

impl Matrix {
    /// The owner makes a recovery key.
    fn recovery(&self) -> String {
        let path = self.directory.path().join("recovery").display().to_string();
        let done = self
            .host
            .bare(crate::host::bridge_programs::matrix().to_str().unwrap())
            .args(["recovery", &path])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let key = self.read("recovery");
        assert!(!String::from_utf8_lossy(&done.stdout).contains(key.trim()), "it is in its file only");
        path
    }

    fn connect_recoverable(&mut self, recovery: &str, settings: &str) {
        self.connect_keeping(None, settings, &format!("secret = \"file:{recovery}\"\n"));
    }

    /// What the recovery key opens.
    fn kept(&self, recovery: &str) -> Option<Value> {
        let done = self.host.bare("/usr/bin/python3").args([BACKUP, recovery]).output().unwrap();
        done.status.success().then(|| serde_json::from_slice(&done.stdout).unwrap())
    }

    /// The same with so many sessions.
    fn kept_with(&self, recovery: &str, count: usize) -> Value {
        wait_for(&format!("{count} sessions in the backup"), || {
            self.kept(recovery).filter(|kept| kept["sessions"].as_array().unwrap().len() >= count)
        })
    }

    fn joined(&self, name: &str) -> String {
        let room = self.sealed(&["open", "ann", name]);
        wait_for("the bot", || (self.membership("ann", "@bot:hearth.test", &room) == "join").then_some(()));
        room
    }

    fn says_sealed(&self, room: &str, content: &Value) -> String {
        self.sealed(&["say", "ann", room, &content.to_string()])
    }

    /// The bot's public master key and who has signed its devices.
    fn bot(&self) -> (String, Value) {
        let answer = self.asks("ann", ("POST", "keys/query"), &json!({ "device_keys": { "@bot:hearth.test": [] } }));
        let keys = answer["master_keys"]["@bot:hearth.test"]["keys"].as_object().unwrap();
        (keys.values().next().unwrap().as_str().unwrap().to_owned(), answer["device_keys"]["@bot:hearth.test"].clone())
    }
}

/// The state of the bridge is lost: with the recovery key, the bot has the same signing keys, and reads what was said before.
#[test]
fn a_recovery_key_brings_back_what_was_lost() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    let recovery = matrix.recovery();
    matrix.connect_recoverable(&recovery, "");
    let room = matrix.joined("");
    let said = matrix.says_sealed(&room, &json!({ "msgtype": "m.text", "body": "the old plan" }));
    matrix.sealed_answer(&room, "the old plan");
    // One of Ann, and one of the bot.
    let kept = matrix.kept_with(&recovery, 2);
    let (master, _) = matrix.bot();
    assert_eq!(kept["master"], json!(master));
    let key = matrix.read("recovery");
    let files = super::walk(&matrix.host.data());
    let has = |path: &std::path::Path| {
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(20).any(|part| part == &key.as_bytes()[..20]))
    };
    assert!(!files.iter().any(|path| has(path)), "the key is nowhere in Hearth's data");
    assert!(!matrix.host.daemon().unwrap().stderr().contains(&key[..20]));

    matrix.host.stop();
    std::fs::remove_dir_all(matrix.host.data().join("bridges/matrix/state")).unwrap();
    let login = json!({ "type": "m.login.password", "identifier": { "type": "m.id.user", "user": "bot" }, "password": "password-of-bot", "device_id": "NEW" });
    let token = matrix.asks("bot", ("POST", "login"), &login)["access_token"].as_str().unwrap().to_owned();
    std::fs::write(matrix.directory.path().join("token-bot"), token).unwrap();
    matrix.host.start();
    wait_for("the backup", || {
        matrix.host.daemon().unwrap().stderr().contains("keys are backed up at the server").then_some(())
    });
    let answered = json!({ "m.in_reply_to": { "event_id": said } });
    matrix.says_sealed(&room, &json!({ "msgtype": "m.text", "body": "what of it?", "m.relates_to": answered }));
    matrix.sealed_answer(&room, "what of it?");
    let rows = matrix.host.rows("bodies");
    assert!(rows.len() == 2 && rows.iter().all(|row| row.to_string().contains("the old plan")), "{rows:#?}");
    let (same, devices) = matrix.bot();
    assert_eq!(same, master, "the bot is who it was");
    let signatures = devices["NEW"]["signatures"]["@bot:hearth.test"].as_object().unwrap();
    assert_eq!(signatures.len(), 2, "its new device is signed: {signatures:?}");
    let more = matrix.kept_with(&recovery, 4);
    assert_eq!(more["version"], kept["version"], "it is the same backup");
    matrix.host.check();
}

/// A server offers a backup and a storage of its own: nothing is put there.
#[test]
fn a_backup_for_another_key_gets_nothing() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    let recovery = matrix.recovery();
    let foreign = json!({ "algorithm": "m.megolm_backup.v1.curve25519-aes-sha2", "auth_data": { "public_key": "L+eQ/QOlUwCLj3PZ0ICKLlJNTNpzY7nZsG85N9dgVwE", "signatures": {} } });
    let version = matrix.asks("bot", ("POST", "room_keys/version"), &foreign)["version"].as_str().unwrap().to_owned();
    matrix.connect_recoverable(&recovery, "");
    let room = matrix.joined("");
    matrix.says_sealed(&room, &json!({ "msgtype": "m.text", "body": "a secret" }));
    matrix.sealed_answer(&room, "a secret");
    wait_for("the refusal", || {
        matrix.host.daemon().unwrap().stderr().contains("backup of keys for another key").then_some(())
    });
    let count = |matrix: &Matrix| {
        matrix.asks("bot", ("GET", &format!("room_keys/version/{}", part(&version))), &json!({}))["count"].clone()
    };
    assert_eq!(count(&matrix), 0);
    // Removed, it is made anew, and the key that was for it is used.
    matrix.host.stop();
    matrix.asks("bot", ("DELETE", &format!("room_keys/version/{}", part(&version))), &json!({}));
    matrix.host.start();
    matrix.kept_with(&recovery, 2);
    // Replaced while the bridge runs.
    let version = matrix.asks("bot", ("POST", "room_keys/version"), &foreign)["version"].as_str().unwrap().to_owned();
    let other = matrix.joined("another room");
    matrix.says_sealed(
        &other,
        &json!({ "msgtype": "m.text", "body": "hello", "m.mentions": { "user_ids": ["@bot:hearth.test"] } }),
    );
    wait_for("the replaced backup", || {
        matrix.host.daemon().unwrap().stderr().contains("was removed or replaced").then_some(())
    });
    let path = format!("room_keys/version/{}", part(&version));
    assert_eq!(matrix.asks("bot", ("GET", &path), &json!({}))["count"], 0);

    // The recovery key of another owner does not open the storage.
    matrix.host.stop();
    std::fs::remove_file(&recovery).unwrap();
    matrix.recovery();
    matrix.host.start();
    wait_for("the closed storage", || {
        matrix.host.daemon().unwrap().stderr().contains("the recovery key does not open").then_some(())
    });
    matrix.host.check();
}

/// The bridge is killed while it makes storage and backup: both are whole in the end.
#[test]
fn a_backup_is_made_through_kills() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    let recovery = matrix.recovery();
    matrix.connect_recoverable(&recovery, "");
    let room = matrix.joined("");
    let nightly = std::env::var_os("HEARTH_ALL_POINTS").is_some();
    for number in 0..if nightly { 40 } else { 8 } {
        std::thread::sleep(Duration::from_millis(170 * (number % 8)));
        matrix.running().into_iter().for_each(kill);
        wait_for("the next bridge", || (!matrix.running().is_empty()).then_some(()));
    }
    for number in 0..3 {
        matrix.says_sealed(&room, &json!({ "msgtype": "m.text", "body": format!("message-{number}.") }));
        matrix.sealed_answer(&room, &format!("message-{number}."));
        matrix.running().into_iter().for_each(kill);
    }
    // One of Ann, and one of each start of the bot.
    let kept = matrix.kept_with(&recovery, 4);
    assert_eq!((&kept["master"], &kept["version"]), (&json!(matrix.bot().0), &json!("1")));
    matrix.host.check();
}
