//! Files of messages. signal-cli fetches them itself; the bridge takes them from its directory, or asks its daemon for them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hearth_bridge::GivenFile;
use hearth_bridge::program::log;
use serde_json::{Value, json};

use super::chat::Chat;
use super::envelope::{Attached, Written};
use super::rpc::Rpc;

/// Time for a file from a daemon.
const WITHIN: Duration = Duration::from_secs(60);
/// Largest file from a daemon, which sends it in one line.
const DAEMON_BYTES: u64 = 16 << 20;
/// Longest text of a message in bytes.
const TEXT_BYTES: u64 = 256 << 10;

/// Where signal-cli has its files.
pub(super) enum Source {
    Directory(PathBuf),
    Daemon(Rpc),
}

/// The files of messages.
pub(super) struct Files {
    pub(super) source: Source,
    /// Where they go.
    pub(super) directory: PathBuf,
    /// The daemon's limit for a file, in bytes.
    pub(super) max: u64,
}

impl Files {
    /// Hands over the files of a message, if they are wanted. `number` is one that no other message has.
    pub(super) fn fetch(&self, written: &Written, number: u64, is_wanted: bool) -> Vec<GivenFile> {
        let mut given = Vec::new();
        for (place, file) in written.files.iter().enumerate() {
            let name = format!("in-{number}-{place}");
            let result = if is_wanted {
                self.one(file, &written.chat, &self.directory.join(&name))
            } else {
                Err("it was not fetched".to_owned())
            };
            let (path, error) = match result {
                Ok(()) => (Some(name), None),
                Err(why) => (None, Some(why)),
            };
            given.push(GivenFile { name: file.name.clone(), mime: file.mime.clone(), path, error });
        }
        given
    }

    /// The whole text of a message that has a part of it.
    pub(super) fn long_text(&self, file: &Attached, chat: &Chat) -> Result<String, String> {
        let to = self.directory.join("long-text");
        self.one(file, chat, &to)?;
        let text = File::open(&to).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(TEXT_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        remove(&to);
        text.map_err(|error| error.to_string())
    }

    /// Removes signal-cli's own copies, which it would keep for ever.
    pub(super) fn forget(&self, result: &Value) {
        let Source::Directory(directory) = &self.source else { return };
        let places = ["/envelope/dataMessage/attachments", "/envelope/syncMessage/sentMessage/attachments"];
        let all = places.iter().filter_map(|place| result.pointer(place)?.as_array()).flatten();
        all.filter_map(|value| Attached::read(value).id).for_each(|id| remove(&directory.join(id)));
    }

    fn one(&self, file: &Attached, chat: &Chat, to: &Path) -> Result<(), String> {
        let id = file.id.as_deref().ok_or("signal-cli did not fetch it")?;
        remove(to);
        match &self.source {
            Source::Directory(directory) => copy(&directory.join(id), to, self.max),
            Source::Daemon(rpc) => {
                if file.size > self.max {
                    return Err(format!("it is larger than {} bytes", self.max));
                }
                if file.size > DAEMON_BYTES {
                    return Err(format!(
                        "it is larger than {DAEMON_BYTES} bytes, the limit for a daemon of signal-cli"
                    ));
                }
                let mut parameters = chat.parameters();
                if let Chat::Person(person) = chat {
                    // Here it is a single one.
                    parameters.insert("recipient".to_owned(), json!(person));
                }
                parameters.insert("id".to_owned(), json!(id));
                let answer = rpc.ask("getAttachment", parameters, WITHIN).map_err(|trouble| trouble.to_string())?;
                let data = answer.get("data").and_then(Value::as_str).ok_or("signal-cli did not send it")?;
                let bytes = STANDARD.decode(data).map_err(|error| format!("signal-cli sent no file: {error}"))?;
                File::create_new(to).and_then(|mut file| file.write_all(&bytes)).map_err(|error| error.to_string())
            }
        }
    }
}

fn copy(from: &Path, to: &Path, max: u64) -> Result<(), String> {
    let about = fs::symlink_metadata(from).map_err(|_| "signal-cli did not fetch it".to_owned())?;
    if !about.is_file() {
        return Err("signal-cli did not fetch it".to_owned());
    }
    if about.len() > max {
        return Err(format!("it is larger than {max} bytes"));
    }
    let copied = File::open(from).and_then(|file| {
        let mut new = File::create_new(to)?;
        io::copy(&mut file.take(max), &mut new)
    });
    copied.map(drop).map_err(|error| {
        remove(to);
        error.to_string()
    })
}

/// Removes a file, which may be gone.
fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => log(&format!("{}: {error}", path.display())),
        _ => {}
    }
}
