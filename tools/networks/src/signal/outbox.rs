//! The way out: sends one message after the other. Signal recognises no repeats, so an answer that is late is waited for once
//! more before anything is sent again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_bridge::program::parts::{Measure, Unit};
use hearth_bridge::program::post::{End, Post, shown};
use hearth_bridge::{Deliver, DeliverAct, Sent};
use serde_json::{Map, Value, json};

use super::chat::{Chat, Id};
use super::envelope::Account;
use super::rpc::{Answer, Asked, Rpc, Trouble};
use super::styled::{Styled, plain, styled};
use super::verdict::{judged, refused};

/// Time for an answer. Twice that, and what an earlier message took, is less than the daemon waits.
const WITHIN: Duration = Duration::from_secs(18);
/// Bytes of a message: signal-cli makes a file of what is longer than 2,000.
const PART: Measure = Measure { most: 1_900, unit: Unit::Bytes, parts: 60 };
/// Longest reaction in bytes: a single emoji can have several signs.
const EMOJI: usize = 40;
/// What a message begins with that may be there twice.
const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";
/// Late answers that are waited for.
const LATE: usize = 100;
/// Longest name of a file in bytes.
const NAME_BYTES: usize = 200;

/// A message whose answer did not come in time.
struct Late {
    key: String,
    asked: Asked,
}

/// Sends to the chats of one thread.
pub(super) struct Outbox {
    rpc: Rpc,
    account: Account,
    late: Vec<Late>,
}

impl Outbox {
    pub(super) fn new(rpc: Rpc, account: Account) -> Self {
        Self { rpc, account, late: Vec::new() }
    }

    /// Sends until the main loop ends.
    pub(super) fn work(&mut self, post: &Post) {
        post.work(|deliver| self.deliver(post, deliver));
    }

    /// Delivers; the ids of the messages, with spaces between them.
    fn deliver(&mut self, post: &Post, deliver: &Deliver) -> Result<String, End> {
        let rejected = |why: &str| End::not(Sent::Rejected, why);
        let chat = Chat::read(&deliver.platform_id).ok_or_else(|| rejected("this is no chat of Signal"))?;
        let targets = deliver.message_id.as_deref().unwrap_or_default().split(' ');
        let targets: Vec<Id> = targets.filter_map(Id::read).collect();
        post.begin(deliver)?;
        let mut sending = Sending { outbox: self, post, deliver, chat, is_marked: false };
        match (deliver.act, targets.as_slice()) {
            (DeliverAct::Say | DeliverAct::Ask, _) => sending.say(),
            (DeliverAct::Edit, targets) if targets.iter().any(|target| target.author.is_some()) => {
                Err(rejected("only the bot's own messages can be changed"))
            }
            (DeliverAct::Edit, [_, ..]) => sending.edit(&targets),
            (DeliverAct::React, [first, ..]) => sending.react(first),
            (DeliverAct::Edit | DeliverAct::React, []) => Err(rejected("this is no message of Signal")),
        }
    }

    /// Sends a message under a key, unless signal-cli still owes an answer for it and has sent it.
    fn send(&mut self, key: &str, method: &str, parameters: Map<String, Value>) -> Result<u64, End> {
        let asked = self.rpc.start(method, parameters).map_err(refused)?;
        match asked.wait(WITHIN) {
            Some(answer) => {
                self.rpc.sent(true);
                judged(answer)
            }
            None => {
                self.rpc.sent(false);
                self.late.push(Late { key: key.to_owned(), asked });
                if self.late.len() > LATE {
                    self.late.remove(0);
                }
                Err(refused(Trouble::Lost(format!("signal-cli did not answer within {WITHIN:?}"))))
            }
        }
    }

    /// The late answer to an earlier attempt with a key, if it comes now.
    fn late(&mut self, key: &str) -> Option<Answer> {
        let at = self.late.iter().position(|late| late.key == key)?;
        let Late { asked, .. } = self.late.remove(at);
        // An end of the connection says nothing: then it is sent again.
        asked.wait(WITHIN).filter(|answer| !matches!(answer, Err(Trouble::Lost(_))))
    }
}

struct Sending<'a> {
    outbox: &'a mut Outbox,
    post: &'a Post,
    deliver: &'a Deliver,
    chat: Chat,
    /// What may be there twice says so already.
    is_marked: bool,
}

impl Sending<'_> {
    fn say(&mut self) -> Result<String, End> {
        let (files, lines) = self.files();
        let mut whole = shown(self.deliver)?;
        for line in lines {
            whole.push_str(if whole.is_empty() { "" } else { "\n" });
            whole.push_str(&line);
        }
        let mut parts = parts(&whole)?;
        if parts.is_empty() && !files.paths.is_empty() {
            parts.push(String::new());
        }
        let mut sent = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let mut parameters = Map::new();
            if number + 1 == parts.len() && !files.paths.is_empty() {
                parameters.insert("attachment".to_owned(), json!(files.paths));
            }
            sent.push(self.once(number + 1, part, parameters)?.to_string());
        }
        if sent.is_empty() { Err(End::not(Sent::Rejected, "there is nothing to send")) } else { Ok(sent.join(" ")) }
    }

    /// Changes all messages of a text. What is left over is removed, and what does not fit is sent besides.
    fn edit(&mut self, targets: &[Id]) -> Result<String, End> {
        let parts = parts(&shown(self.deliver)?)?;
        let mut ids = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let mut parameters = Map::new();
            let target = targets.get(number).map(|target| target.timestamp);
            parameters.extend(target.map(|target| ("editTimestamp".to_owned(), json!(target))));
            let sent = self.once(number + 1, part, parameters)?;
            // A message keeps its id when it is changed.
            ids.push(target.unwrap_or(sent).to_string());
        }
        for target in targets.iter().skip(parts.len()) {
            let mut parameters = self.chat.parameters();
            parameters.insert("targetTimestamp".to_owned(), json!(target.timestamp));
            let key = format!("{}.{}", self.deliver.id, target.timestamp);
            self.outbox.send(&key, "remoteDelete", parameters)?;
        }
        Ok(ids.join(" "))
    }

    fn react(&mut self, target: &Id) -> Result<String, End> {
        let emoji = self.deliver.text.trim();
        if emoji.is_empty() || emoji.len() > EMOJI || emoji.is_ascii() {
            return Err(End::not(Sent::Rejected, "a reaction in Signal is an emoji: send the sign itself, like 👍"));
        }
        let author = target.author.as_deref().unwrap_or(&self.outbox.account.id);
        let mut parameters = self.chat.parameters();
        parameters.insert("emoji".to_owned(), json!(emoji));
        parameters.insert("targetAuthor".to_owned(), json!(author));
        parameters.insert("targetTimestamp".to_owned(), json!(target.timestamp));
        self.outbox.send(&self.deliver.id, "sendReaction", parameters)?;
        Ok(target.to_string())
    }

    /// Sends a part of the delivery, unless that was done; its time.
    fn once(&mut self, number: usize, text: &str, mut parameters: Map<String, Value>) -> Result<u64, End> {
        // The whole delivery is remembered under its own id.
        let key = format!("{}.{number}", self.deliver.id);
        if let Some(timestamp) = self.post.known(&key).and_then(|timestamp| timestamp.parse().ok()) {
            return Ok(timestamp);
        }
        let timestamp = match self.outbox.late(&key) {
            Some(answer) => judged(answer)?,
            None => {
                let Styled { text, ranges, .. } = self.styled(text, &parameters);
                parameters.extend(self.chat.parameters());
                parameters.insert("message".to_owned(), json!(text));
                if !ranges.is_empty() {
                    parameters.insert("textStyle".to_owned(), json!(ranges));
                }
                self.outbox.send(&key, "send", parameters)?
            }
        };
        let remembered = self.post.remember(&key, &timestamp.to_string());
        remembered.map_err(|error| End::not(Sent::Uncertain, error))?;
        Ok(timestamp)
    }

    /// The text of a part. The first one that may be there twice says so; a change that is made twice is one.
    fn styled(&mut self, text: &str, parameters: &Map<String, Value>) -> Styled {
        let is_again = self.deliver.repeated && !self.is_marked && !parameters.contains_key("editTimestamp");
        self.is_marked |= is_again;
        let text = if is_again { format!("{AGAIN}{text}") } else { text.to_owned() };
        // What Hearth says may quote strangers, and is plain.
        let is_formatted = self.deliver.speaker.is_some() && self.deliver.act != DeliverAct::Ask;
        if is_formatted { styled(&text) } else { plain(&text) }
    }

    /// The files under the names that people see, and lines for those that are not there.
    fn files(&self) -> (Moved, Vec<String>) {
        let (mut moved, mut lines) = (Moved::default(), Vec::new());
        for (number, file) in self.deliver.files.iter().enumerate() {
            let path = file.path.as_deref().and_then(|path| self.post.path(path)).filter(|_| file.error.is_none());
            let gone = || file.error.clone().unwrap_or_else(|| "it is gone".to_owned());
            let added = path.ok_or_else(gone).and_then(|path| {
                let directory = path.with_extension(format!("{number}.named"));
                moved.add(&path, directory, &name(&file.name)).map_err(|error| error.to_string())
            });
            if let Err(why) = added {
                lines.push(format!("(file {}: {why})", file.name));
            }
        }
        (moved, lines)
    }
}

/// Files in directories of their own: signal-cli shows people the name of the file.
#[derive(Default)]
struct Moved {
    paths: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Moved {
    fn add(&mut self, path: &Path, directory: PathBuf, name: &str) -> io::Result<()> {
        fs::create_dir_all(&directory)?;
        let named = directory.join(name);
        self.directories.push(directory);
        fs::rename(path, &named)?;
        self.paths.push(named);
        Ok(())
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // The daemon empties the directory before the next start in any case.
        self.directories.iter().for_each(|directory| drop(fs::remove_dir_all(directory)));
    }
}

fn name(text: &str) -> String {
    let name: String = text.chars().filter(|char| !char.is_control() && *char != '/').collect();
    let name = name.get(..name.floor_char_boundary(NAME_BYTES)).unwrap_or_default().trim_start_matches('.');
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}

/// The texts of a delivery's messages.
fn parts(whole: &str) -> Result<Vec<String>, End> {
    let most = PART.parts;
    PART.parts(whole)
        .ok_or_else(|| End::not(Sent::Rejected, format!("the text is too long for {most} messages of Signal")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_no_paths() {
        for (text, expected) in
            [("a b.txt", "a b.txt"), ("../../x", "x"), ("..", "file"), (".\n.ssh", "ssh"), ("", "file")]
        {
            assert_eq!(name(text), expected, "{text:?}");
        }
        assert_eq!(name(&"🦀".repeat(99)).len(), 200);
    }

    #[test]
    fn files_get_names_and_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out-1-0");
        fs::write(&path, "x").unwrap();
        let mut moved = Moved::default();
        moved.add(&path, root.path().join("named"), "note.txt").unwrap();
        assert!(moved.paths[0].ends_with("named/note.txt") && moved.paths[0].exists());
        assert!(moved.add(&path, root.path().join("other"), "gone.txt").is_err());
        drop(moved);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
