//! Runs delivery attempts and maps their results to outcomes, within the time limit of an attempt.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::post::{Receiver, Sent};
use super::wire::{self, FileShape};
use crate::channel::{self, kept};
use crate::model::address::{ForeignId, UserId};
use crate::model::delivery::{Delivery, DeliveryResult};

/// Maximum number of requests in one attempt: a second one after a pause that the receiver asked for.
const REQUESTS_MAX: u32 = 2;
/// Size limit in bytes of all files of a message.
const FILES_BYTES_MAX: u64 = 24 * 1_024 * 1_024;

pub(super) async fn deliver(receiver: &Receiver, sessions: &Path, delivery: &Delivery) -> DeliveryResult {
    match exchange(receiver, Body::Delivery(sessions, delivery)).await {
        Sent::Taken(answer) => DeliveryResult::Delivered { platform_message: wire::id_in(&answer, "messageId") },
        Sent::Later(why) => DeliveryResult::Retry(why),
        // 404 and 501 mean that the receiver does not support the request. A repeat would fail in the same way.
        Sent::Unknown(why) | Sent::Refused(why) => DeliveryResult::Rejected(why),
        Sent::Lost(why) => DeliveryResult::Uncertain(why),
    }
}

/// Asks the receiver for a person's direct address. If it does not support the question, the person's id is used.
pub(super) async fn open_direct(receiver: &Receiver, user: &UserId) -> Result<ForeignId, String> {
    match exchange(receiver, Body::Text(wire::open_direct(user))).await {
        Sent::Taken(answer) => {
            let missing = || "the receiver did not say where: its answer has no platformId".to_owned();
            wire::id_in(&answer, "platformId").ok_or_else(missing)
        }
        Sent::Unknown(_) => Ok(user.handle().clone()),
        Sent::Later(why) | Sent::Refused(why) | Sent::Lost(why) => Err(why),
    }
}

/// Sends a body within the time limit, and once more if the receiver asks for a short pause.
pub(super) async fn exchange(receiver: &Receiver, body: Body<'_>) -> Sent {
    let asking = AtomicBool::new(false);
    let tries = async {
        let mut requests = 0;
        loop {
            let turn = match receiver.turn().await {
                Ok(turn) => turn,
                Err(why) => return Sent::Later(why),
            };
            let text = match body.text(receiver.link_previews).await {
                Ok(text) => text,
                Err(why) => return Sent::Later(why),
            };
            asking.store(true, Ordering::Relaxed);
            let sent = receiver.send(text).await;
            asking.store(false, Ordering::Relaxed);
            drop(turn);
            requests += 1;
            let again = matches!(sent, Sent::Later(_)) && receiver.pause.lasts() && requests < REQUESTS_MAX;
            if !again {
                return sent;
            }
        }
    };
    match tokio::time::timeout(receiver.patience, tries).await {
        Ok(sent) => sent,
        Err(_) if asking.load(Ordering::Relaxed) => {
            receiver.note(Sent::Lost(format!("there was no answer within {:?}", receiver.patience)))
        }
        Err(_) => Sent::Later("it was not sent in time".to_owned()),
    }
}

/// The body of a request. A delivery's files are read only when its turn comes, to keep few of them in memory.
pub(super) enum Body<'a> {
    Text(String),
    Delivery(&'a Path, &'a Delivery),
}

impl Body<'_> {
    async fn text(&self, link_previews: bool) -> Result<String, String> {
        let (sessions, delivery) = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::Delivery(sessions, delivery) => (sessions, delivery),
        };
        let files = if delivery.files.is_empty() {
            Vec::new()
        } else {
            let (sessions, names) = (sessions.to_path_buf(), delivery.files.clone());
            let read = tokio::task::spawn_blocking(move || files(&sessions, &names));
            read.await.map_err(|error| error.to_string())?
        };
        wire::delivery(delivery, files, link_previews).map_err(|error| error.to_string())
    }
}

fn files(sessions: &Path, names: &[String]) -> Vec<FileShape> {
    let mut room = FILES_BYTES_MAX;
    let file = |name: &String| {
        let shown = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match read(sessions, name, room) {
            Ok(bytes) => {
                let size = bytes.len() as u64;
                room = room.saturating_sub(size);
                FileShape { name: shown, size, data: Some(STANDARD.encode(bytes)), error: None }
            }
            Err(why) => {
                tracing::warn!(why, "a file of a message cannot be sent");
                FileShape { name: shown, size: 0, data: None, error: Some(why) }
            }
        }
    };
    names.iter().map(file).collect()
}

/// Reads a file that is to be sent.
fn read(sessions: &Path, name: &str, room: u64) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let (file, path) = kept::open(sessions, name)?;
    let mut bytes = Vec::new();
    file.take(room + 1).read_to_end(&mut bytes).map_err(|error| channel::unreadable(&path, &error))?;
    if bytes.len() as u64 > room {
        return Err(format!("it would exceed the limit of {FILES_BYTES_MAX} bytes for all files of a message"));
    }
    Ok(bytes)
}
