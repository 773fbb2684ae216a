//! What agents say through a bridge.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearth_bridge::{
    CardOption, Deliver, DeliverAct, FILE_BYTES_MAX, FRAME_BYTES_MAX, Outcome, Sent, SentFile, ShownCard, ToBridge,
};

use super::session::short;
use super::{PENDING_MAX, Pending, Shared, UNHEARD_MAX};
use crate::channel::kept;
use crate::model::address::ForeignId;
use crate::model::card::Card;
use crate::model::delivery::{Delivery, DeliveryAct, DeliveryResult};

/// Longest time for which a bridge may hold an address.
const HOLD_MAX: Duration = Duration::from_secs(3_600);

/// Passes a delivery on. One that the process already has is not sent again, unless its outcome is overdue.
pub(super) fn deliver(shared: &Arc<Shared>, delivery: Delivery) {
    let key = delivery.key.to_string();
    let report = |result| shared.intake.outcome(delivery.id, delivery.attempt, result);
    let mut state = shared.lock();
    if state.out.is_none() {
        drop(state);
        // The message waits until the bridge is ready.
        return report(DeliveryResult::NoAdapter);
    }
    if state.held.contains(&delivery.to) {
        drop(state);
        return report(DeliveryResult::Retry("the network asked for a pause".to_owned()));
    }
    if let Some(pending) = state.pending.get_mut(&key)
        && !pending.late
    {
        pending.attempt = delivery.attempt;
        return;
    }
    if state.pending.len() >= PENDING_MAX {
        drop(state);
        return report(DeliveryResult::Retry("too many messages are with the bridge".to_owned()));
    }
    state.last += 1;
    let number = state.last;
    let begun = state.pending.get(&key).is_some_and(|pending| pending.begun);
    let (id, to, attempt) = (delivery.id, delivery.to.clone(), delivery.attempt);
    state.pending.insert(key.clone(), Pending { id, to, attempt, begun, late: false, number });
    drop(state);
    let shared = Arc::clone(shared);
    shared.tokio.clone().spawn(async move {
        let (setup, within) = (&shared.setup, shared.setup.times.attempt);
        let (sessions, files, previews) = (setup.sessions.clone(), setup.files.clone(), setup.link_previews);
        let made = move || frame(&delivery, Directories { sessions: &sessions, files: &files }, within, previews);
        if let Ok(frame) = tokio::task::spawn_blocking(made).await
            && !hand_over(&shared, fitting(frame), number)
        {
            // The process has ended, and the delivery with it.
            return;
        }
        tokio::time::sleep(within).await;
        give_up(&shared, &key, number);
    });
}

/// Sends a delivery to the process that it was meant for. The next process is ready when that one has ended, and its
/// deliveries are repeated as new ones.
pub(super) fn hand_over(shared: &Shared, frame: Deliver, number: u64) -> bool {
    let state = shared.lock();
    let is_pending = state.pending.get(&frame.id).is_some_and(|pending| pending.number == number);
    let line = ToBridge::Deliver { deliver: Box::new(frame) };
    is_pending && state.out.as_ref().is_some_and(|out| out.send(line.line()).is_ok())
}

/// Ends an attempt without an outcome. A late outcome still counts.
fn give_up(shared: &Shared, key: &str, number: u64) {
    let mut state = shared.lock();
    let Some(pending) = state.pending.get_mut(key).filter(|pending| pending.number == number && !pending.late) else {
        return;
    };
    pending.late = true;
    let (id, attempt) = (pending.id, pending.attempt);
    state.unheard = state.unheard.saturating_add(1);
    let is_deaf = state.unheard >= UNHEARD_MAX;
    drop(state);
    // Without a process there is nothing to tell it to.
    shared.deaf.send_if_modified(|deaf| is_deaf && !std::mem::replace(deaf, true));
    let why = format!("the bridge reported no outcome within {:?}", shared.setup.times.attempt);
    shared.intake.outcome(id, attempt, DeliveryResult::Uncertain(why));
}

/// Why a bridge that answers pings counts as deaf, for people.
pub(super) fn unheard(count: u32) -> String {
    format!("the bridge did not say what became of the last {count} messages that it was given")
}

/// From here on something may have left.
pub(super) fn begun(shared: &Shared, key: &str) {
    if let Some(pending) = shared.lock().pending.get_mut(key) {
        pending.begun = true;
    }
}

/// Reports an outcome.
pub(super) fn outcome(shared: &Arc<Shared>, outcome: Outcome) {
    let mut state = shared.lock();
    let Some(pending) = state.pending.remove(&outcome.id) else { return };
    state.unheard = 0;
    drop(state);
    let why = || short(&outcome.why.clone().unwrap_or_default());
    let result = match outcome.result {
        Sent::Delivered => DeliveryResult::Delivered {
            platform_message: ForeignId::optional("messageId", outcome.message_id.clone()).ok().flatten(),
        },
        Sent::Retry => {
            if let Some(seconds) = outcome.after {
                hold(shared, &pending, Duration::from_secs(seconds).min(HOLD_MAX));
            }
            DeliveryResult::Retry(why())
        }
        Sent::Rejected => DeliveryResult::Rejected(why()),
        Sent::Uncertain => DeliveryResult::Uncertain(why()),
        Sent::Absent => DeliveryResult::Absent,
    };
    shared.intake.outcome(pending.id, pending.attempt, result);
}

/// Sends nothing to an address for a while.
fn hold(shared: &Arc<Shared>, pending: &Pending, length: Duration) {
    let to = pending.to.clone();
    shared.lock().held.insert(to.clone());
    let shared = Arc::clone(shared);
    shared.tokio.clone().spawn(async move {
        tokio::time::sleep(length).await;
        shared.lock().held.remove(&to);
        shared.intake.reachable();
    });
}

/// Where files come from and go to.
#[derive(Clone, Copy)]
struct Directories<'a> {
    sessions: &'a Path,
    files: &'a Path,
}

fn frame(delivery: &Delivery, at: Directories<'_>, within: Duration, link_previews: bool) -> Deliver {
    let (act, card, message) = match &delivery.act {
        DeliveryAct::Say => (DeliverAct::Say, None, None),
        DeliveryAct::Ask(card) => (DeliverAct::Ask, Some(shown(card)), None),
        DeliveryAct::Edit(message) => (DeliverAct::Edit, None, Some(message)),
        DeliveryAct::React(message) => (DeliverAct::React, None, Some(message)),
    };
    let key = delivery.key.to_string();
    let files = delivery.files.iter().enumerate();
    Deliver {
        act,
        attempt: delivery.attempt.number,
        platform_id: delivery.to.platform_id.as_str().to_owned(),
        thread_id: delivery.to.thread.as_ref().map(|thread| thread.as_str().to_owned()),
        text: delivery.text.clone(),
        card,
        message_id: message.map(|message| message.as_str().to_owned()),
        files: files.map(|(number, name)| copied(at, name, &format!("out-{key}-{number}"))).collect(),
        repeated: delivery.repeated,
        speaker: delivery.speaker.clone(),
        link_previews,
        within: within.as_secs(),
        content: serde_json::from_str(delivery.content.as_str()).ok(),
        id: key,
    }
}

/// A frame without the agent's whole payload, if it would be too long with it. What is left always fits: a text is at
/// most half as long as the payload.
fn fitting(frame: Deliver) -> Deliver {
    let is_long = serde_json::to_vec(&frame).is_ok_and(|line| line.len() >= FRAME_BYTES_MAX / 2);
    if is_long { Deliver { content: None, ..frame } } else { frame }
}

fn shown(card: &Card) -> ShownCard {
    let options = card.offered();
    let options =
        options.map(|(at, option)| CardOption { label: option.label.clone(), button: card.button(at).to_string() });
    ShownCard { title: card.title.clone(), body: card.body.clone(), options: options.collect() }
}

/// Copies a file of a session to where the bridge reads it. If that fails, the message is sent without it.
fn copied(at: Directories<'_>, name: &str, path: &str) -> SentFile {
    let shown = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match copy(at, name, path) {
        Ok(size) => SentFile { name: shown, size, path: Some(path.to_owned()), error: None },
        Err(why) => {
            tracing::warn!(why, "a file of a message cannot be sent");
            SentFile { name: shown, size: 0, path: None, error: Some(why) }
        }
    }
}

fn copy(at: Directories<'_>, name: &str, path: &str) -> Result<u64, String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let (file, _) = kept::open(at.sessions, name)?;
    let target = at.files.join(path);
    let failed = |error: io::Error| format!("it cannot be handed to the bridge: {error}");
    match std::fs::remove_file(&target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    // Never through a link that the bridge made.
    let mut new = File::options().write(true).create_new(true).mode(0o644).open(&target).map_err(failed)?;
    let size = io::copy(&mut io::Read::take(file, FILE_BYTES_MAX + 1), &mut new).map_err(failed)?;
    if size > FILE_BYTES_MAX {
        drop(std::fs::remove_file(&target));
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(size)
}
