//! Verification by comparing emoji. The person uses libolm, and the owner the bridge's program on the machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::part;
use crate::host::matrix::Matrix;
use crate::host::wait_for;

const VERIFY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix_verify.py");

/// Asks for a coloured picture. The two lists do not write it for the same emoji, and their names differ as well.
const VARIATION: &str = "\u{fe0f}";

/// A program that shows emoji and waits for a word.
struct Asked {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Asked {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn says(&mut self, word: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    /// What it says at the end, and whether it succeeded.
    fn end(mut self) -> (String, bool) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().success())
    }

    /// The seven that the person sees.
    fn emoji(&mut self) -> Vec<String> {
        let line = self.line();
        let list = line.strip_prefix("emoji ").unwrap_or_else(|| panic!("{line:?}"));
        let list: Vec<String> = serde_json::from_str(list).unwrap();
        list.iter().map(|symbol| symbol.replace(VARIATION, "")).collect()
    }

    /// The seven that the owner sees.
    fn shown(&mut self) -> Vec<String> {
        let names = std::iter::from_fn(|| Some(self.line())).take_while(|line| !line.contains("Does that device"));
        let names = names.filter(|line| line.starts_with("    "));
        let symbol = |line: String| line.trim().split_once("  ").unwrap().0.replace(VARIATION, "");
        names.map(symbol).take(7).collect()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Matrix {
    fn asked(&self, program: &str, words: &[&str]) -> Asked {
        let mut command = self.host.bare(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Asked { child, out }
    }

    /// A person asks for a verification.
    fn verifies(&self, person: &str, place: &str) -> Asked {
        self.leave();
        self.asked("/usr/bin/python3", &[VERIFY, person, place])
    }

    /// The owner on the machine.
    fn compares(&self) -> Asked {
        let state = self.host.data().join("bridges/matrix/state");
        self.asked(self.program().to_str().unwrap(), &["verify", state.to_str().unwrap()])
    }

    /// Who has signed a person's master key, as another person sees it.
    fn signers(&self, of: &str, seen_by: &str) -> Value {
        let answer = self.asks(seen_by, ("POST", "keys/query"), &json!({ "device_keys": { of: [] } }));
        answer["master_keys"][of]["signatures"].clone()
    }

    fn log(&mut self) -> String {
        self.host.daemon().unwrap().stderr()
    }

    fn log_has(&mut self, text: &str) {
        wait_for(text, || self.log().contains(text).then_some(()));
    }
}

/// Ann verifies the bot, in a room and by her device: both see the same emoji, and both signatures are at the server. Then
/// only devices that she has signed speak for her.
#[test]
fn a_person_and_the_bot_verify_each_other() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    matrix.connect_with(None, ", verifies = \"@ann:hearth.test\", key_patience = \"5\"");
    let room = matrix.sealed(&["open", "ann"]);
    wait_for("the bot", || (matrix.membership("ann", "@bot:hearth.test", &room) == "join").then_some(()));
    for place in [&room, "-", "+"] {
        let mut owner = matrix.compares();
        let mut ann = matrix.verifies("ann", place);
        let seen = ann.emoji();
        assert_eq!(seen, owner.shown(), "both see the same");
        // In either order.
        if place == "-" {
            owner.says("yes");
            ann.says("same");
        } else {
            ann.says("same");
            owner.says("yes");
        }
        assert_eq!(ann.end(), ("verified\n".to_owned(), true));
        let (said, is_fine) = owner.end();
        assert!(is_fine && said.contains("@ann:hearth.test is verified"), "{said}");
    }
    // Ann's client shows the bot as verified, and the bot's own keys are those that she saw.
    let key = matrix.signers("@bot:hearth.test", "ann");
    assert!(key["@ann:hearth.test"].is_object(), "Ann has signed the bot's key: {key}");
    let key = matrix.signers("@ann:hearth.test", "bot");
    assert!(key["@bot:hearth.test"].is_object(), "the bot has signed Ann's key: {key}");

    let says = |device: &str, text: &str| {
        matrix.sealed(&["say", device, &room, &json!({ "msgtype": "m.text", "body": text }).to_string()])
    };
    says("ann", "from a signed device");
    matrix.sealed_answer(&room, "from a signed device");
    says("ann/OTHER", "from another device");
    matrix.sealed_answer(&room, "has not signed the device from which it came (OTHER)");
    assert_eq!(matrix.host.rows("bodies").len(), 1);
    matrix.host.check();
}

/// What is not right ends a verification, and nothing is signed: the owner sees other emoji, the person does, the keys do not
/// fit, a stranger asks, and an answer for another comparison.
#[test]
fn a_verification_that_is_not_right_is_cancelled() {
    let Some(mut matrix) = Matrix::start_sealed() else { return };
    matrix.connect_with(None, ", verifies = \"@ann:hearth.test\"");
    let room = matrix.sealed(&["open", "ann"]);
    wait_for("the bot", || (matrix.membership("ann", "@bot:hearth.test", &room) == "join").then_some(()));
    let mut owner = matrix.compares();
    let mut ann = matrix.verifies("ann", &room);
    assert_eq!(ann.emoji(), owner.shown());
    owner.says("no");
    ann.says("same");
    assert_eq!(ann.end().0, "cancelled m.mismatched_sas\n");
    assert!(!owner.end().1);

    let mut ann = matrix.verifies("ann", "-");
    let mut owner = matrix.compares();
    assert_eq!(ann.emoji(), owner.shown());
    ann.says("differ");
    assert_eq!(ann.end().0, "cancelled m.mismatched_sas\n");
    matrix.log_has("the verification of @ann:hearth.test ended");
    owner.says("yes");
    assert!(!owner.end().1, "it is over");

    // The answer that came too late does not count here.
    let mut ann = matrix.verifies("ann", "-");
    let mut owner = matrix.compares();
    assert_eq!(ann.emoji(), owner.shown());
    ann.says("forge");
    owner.says("yes");
    assert_eq!(ann.end().0, "cancelled m.mismatched_sas\n");
    assert!(!owner.end().1);

    let eve = matrix.verifies("eve", "-");
    assert_eq!(eve.end().0, "cancelled m.user\n");
    matrix.log_has("@eve:hearth.test asks for a verification, but `verifies` does not name them");
    for person in ["ann", "eve"] {
        let key = matrix.signers(&format!("@{person}:hearth.test"), "bot");
        assert!(key["@bot:hearth.test"].is_null(), "{key}");
    }
    // A flood of strangers is neither answered nor stored.
    let flood = |number: usize| json!({ "from_device": "X", "methods": ["m.sas.v1"], "timestamp": 1, "transaction_id": format!("f{number}") });
    let device = matrix.asks("bot", ("GET", "account/whoami"), &json!({}))["device_id"].as_str().unwrap().to_owned();
    for number in 0..30 {
        let path = format!("sendToDevice/m.key.verification.request/flood{number}");
        let mut messages = json!({});
        messages["@bot:hearth.test"][&device] = flood(number);
        matrix.asks("eve", ("PUT", &path), &json!({ "messages": messages }));
    }
    matrix.sealed(&["say", "ann", &room, &json!({ "msgtype": "m.text", "body": "as ever" }).to_string()]);
    matrix.sealed_answer(&room, "as ever");
    let told = matrix.log().matches("does not name them").count();
    assert!(told <= 5, "{told}");
    let path = format!("rooms/{}/messages?dir=b&limit=9", part(&room));
    assert!(!matrix.asks("ann", ("GET", &path), &json!({})).to_string().contains("flood"));
    matrix.host.check();
}
