//! One file of an agent's half by itself: what the rules of reading make of its bytes, without a mailbox around it. Pure.

use hearth_wire::{ACK_DIR, AckName, HEARTBEAT_FILE, Heartbeat, OUT_DIR, OutId, SESSION_FILE, STATE_FILE};
use hearth_wire::{SessionFile, State};

use super::observe::read_own;
use super::parse;
use crate::model::mailbox::{Failure, Said};
use crate::model::task::Gated;

/// What a file is taken for.
#[derive(Debug)]
pub enum Judged {
    /// A claim or an end: how the turn failed if it did, and why a task did not wake its agent.
    Ack(Failure, Option<Gated>),
    /// Something said; whether it waits for an ack. Its files are not looked for.
    Said(Box<Said>, bool),
    /// What the runner says of itself.
    Own,
}

/// Reads a file as a look into a mailbox does; `name` is relative to the agent's half, like `ack/4.1.completed.json`.
///
/// # Errors
/// Why it is refused, in the words that are stored.
pub fn judge(name: &str, bytes: &[u8]) -> Result<Judged, String> {
    match name.split_once('/') {
        Some((ACK_DIR, name)) => {
            let ack = parse::ack(AckName::parse(name).ok_or("its name is not that of an ack")?, bytes)?;
            Ok(Judged::Ack(parse::failure(&ack), parse::gated(&ack)))
        }
        Some((OUT_DIR, name)) => {
            let id = OutId::from_file_name(name).ok_or("its name is not that of an answer")?;
            let parsed = parse::out(&id, bytes).map_err(|refusal| refusal.reason)?;
            Ok(Judged::Said(Box::new(parsed.said), parsed.is_final))
        }
        None if name == HEARTBEAT_FILE => own(read_own::<Heartbeat>(bytes)),
        None if name == STATE_FILE => own(read_own::<State>(bytes)),
        None if name == SESSION_FILE => own(read_own::<SessionFile>(bytes)),
        _ => Err("no file of an agent has this name".to_owned()),
    }
}

fn own<T>(read: Option<T>) -> Result<Judged, String> {
    read.map(|_| Judged::Own).ok_or_else(|| "it says nothing".to_owned())
}
